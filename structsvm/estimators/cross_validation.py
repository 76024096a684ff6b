"""Select C by cross-validation over queries (rankers) or over sets (selectors); each fold trains one regularisation
path."""

import logging
import numbers
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from structsvm.common.candidates import CandidateSet, check_grades, check_sets
from structsvm.common.checks import BadInput, check_whole, counted
from structsvm.common.estimator_parameters import parameters
from structsvm.common.portable.elementary import geomspace
from structsvm.estimators import choosing_C
from structsvm.estimators.fitted import all_or_nothing, warn_of_uninformative
from structsvm.estimators.linear import linear_scores
from structsvm.estimators.selector import Selector
from structsvm.estimators.structural import StructuralRanker, bind_problem
from structsvm.estimators.weight_constraints import compile_weights
from structsvm.features.scaling import scale_rows
from structsvm.metrics.estimates import Estimate, estimate_of
from structsvm.metrics.evaluation import (
    Part,
    bounds_of,
    check_distinguishes,
    distinguishes,
    evaluate_part,
    measure_name,
    parse_measure,
)
from structsvm.metrics.results import EvaluationResult
from structsvm.metrics.significance import paired
from structsvm.protocols import Float, Int
from structsvm.queries import QueryData, rows_from, warn_user

_log = logging.getLogger("structsvm")


@parameters
class CrossValidated:
    """Parameters and methods of rankers that select C by cross-validation over queries.

    This must be the last base of a class, so that ``loss`` and ``Cs`` are its first parameters.

    Parameters
    ----------
    Cs : sequence of float or None, default=None
        Values of C to try. None means 13 values from 1e-3 to 1e3, evenly spaced on a log scale. Unlike the default
        ``C`` of a single fit, this wide grid is not scaled by the share of the queries with a constraint.
    cv : int, splitter or iterable of (train, test), default=5
        Number of folds over queries, a splitter of queries (``QueryKFold``, or scikit-learn's ``KFold``; splitters
        receive query indices as ``groups``), or pairs of arrays of query indices. Queries are numbered in the order of
        their first rows. Each query may be in at most one test part.
    scoring : str, callable or None, default=None
        Measure by which C is selected: a name for :func:`structsvm.metrics.evaluate`, or a callable
        ``(y, scores) -> float``, which receives the rows of one query. None means the measure of :meth:`score`, which
        belongs to ``loss`` or, for an oracle object, is its ``measure``.
    convention : str, default="trec"
        Convention for the measure, as in :func:`structsvm.metrics.evaluate`, but ties are always averaged over their
        orders.
    selection : {"max", "one_se"}, default="max"
        ``"max"`` selects the C with the best mean over held-out queries, whose model is expected to rank best. If the
        measure barely depends on C, noise determines this choice, and a change of ``tol`` may change C by orders of
        magnitude.
        ``"one_se"`` selects the smallest C whose mean is within one standard error of the best
        (:func:`~structsvm.estimators.select_C`). This choice is more stable and gives a more regularised model, but a
        slightly lower measure on average (``experiments/choice_of_C.py`` compares both on the folds of MQ2008).
    random_state : int, default=None
        Seed for shuffling the queries before they are assigned to folds; None assigns them in order.

    Attributes
    ----------
    scoring_ : str
        Name of the measure by which C was selected.
    fold_ : ndarray of int64, shape (n_queries,)
        Index of the test part that contains each query; -1 for queries in no test part.
    held_out_ : EvaluationResult
        Value of each query for the C selected on the other folds (:func:`~structsvm.estimators.choosing_C.crossed`), or
        NaN for queries in no test part. The mean uses the query weights of ``fit``. Can be passed to ``compare``.
    """

    loss: Any = "map"
    Cs: Sequence[float] | None = None
    _: KW_ONLY
    cv: Any = 5
    scoring: str | Callable[[Float, Float], float] | None = None
    convention: Literal["trec", "letor4", "letor4_script", "burges"] = "trec"
    selection: choosing_C.Selection = "max"
    random_state: int | None = None

    _usual: ClassVar = (1e-3, 1e3, 13)
    """The smallest and the largest C of the default grid, and the number of values."""
    _fixed_grid = False
    """Whether users cannot change the grid; if so, no message suggests widening it."""

    def _grid(self) -> Float:
        return geomspace(*self._usual) if self.Cs is None else choosing_C.check_grid(self.Cs)

    def _check_choice(self) -> None:
        self._grid()
        choosing_C.check_selection(self.selection)
        if parse_measure(self._measured())[0] is not None:
            self._values([1, 0], 0, [1.0, 0.0])  # raises an error for an unknown measure

    def _check_labels(self: Any, data: QueryData) -> None:
        """Raise BadInput if the measure has the same value for every ranking."""
        options = {"relevance": self.relevance, "convention": self.convention}
        argument = "loss" if self.scoring is None else "scoring"
        check_distinguishes(
            argument, self._measured(), lambda name: distinguishes(name, data.y, data.qid, **options)
        )

    def _evaluated(self: Any, y: Any, qid: Any, scores: Any) -> Part:
        return evaluate_part(
            self._measured(),
            y,
            scores,
            qid=qid,
            relevance=self.relevance,
            ties="average",
            convention=self.convention,
        )

    def _values(self, y: ArrayLike, qid: ArrayLike, scores: ArrayLike) -> Float:
        """Return, for each query, the value of the measure by which C is selected."""
        return self._evaluated(y, qid, scores).result.per_query

    def _measured(self: Any) -> Any:
        """Return the measure by which C is selected, as a name or a callable."""
        return self._measure() if self.scoring is None else self.scoring

    def _bounds(self) -> tuple[float, float]:
        """Return the range of this measure."""
        return bounds_of(self._measured())

    def _warn_of_ties(self, data: QueryData, scores: Float) -> None:
        """Warn if the model ties many pairs of documents in a sample of up to 1,000 training queries."""
        some = np.unique(np.linspace(0, data.n_queries - 1, 1000).astype(np.int64))
        lengths = np.diff(data.offsets)[some]
        rows = rows_from(data.offsets[some], lengths)
        self._evaluated(data.y[rows], np.repeat(some, lengths), scores[rows]).warn_of_ties(
            f"{type(self).__name__}, training rows"
        )

    def _by_folds(
        self,
        data: QueryData,
        weights: Float,
        splits: Sequence[tuple[Int, Int]],
        importance: Float | None = None,
    ) -> choosing_C.Choice:
        """Select C by the measure on the test part of each fold; ``importance`` (default: ``weights``) weights the
        queries in the choice."""
        self._check_labels(data)
        Cs = self._grid()

        def folds() -> Iterator[tuple[Int, Float]]:
            for number, (training, testing) in enumerate(splits):
                with training_part(number):
                    yield (
                        testing,
                        self._held_out(data.select(training), weights[training], data.select(testing), Cs),
                    )

        importance = weights if importance is None else importance
        return self._choose(Cs, importance, folds(), lambda: data.query_ids, data)

    def _held_out(self: Any, part: QueryData, weights: Float, held_out: QueryData, Cs: Float) -> Float:
        """Return the values of held-out queries for each C, after training on a part; the default is for linear
        rankers."""
        if self.scaler_ is not None and self.scaler_.within != "query":  # the statistics of the training part
            scaler = clone(self.scaler_).fit(part.X)
            part, held_out = (replace(one, X=scale_rows(scaler, one.X, None)) for one in (part, held_out))
        fits = self._train(bind_problem(self, self._loss, part, weights), Cs.tolist())
        values = [self._values(held_out.y, held_out.qid, linear_scores(held_out.X, fit.w)) for fit in fits]
        return np.stack(values, axis=1)

    def _choose(
        self, Cs: Float, weights: Float, folds: Any, ids: Callable[[], NDArray[Any]], rows: Any = None
    ) -> choosing_C.Choice:
        """Select C and set the attributes that describe the results of the folds; ``ids()`` returns the query ids and
        is called last."""
        choice = choosing_C.choose_C(Cs, weights, folds, selection=self.selection, fixed=self._fixed_grid)
        self.Cs_, self.C_, self.scores_, self.fold_ = Cs, choice.C, choice.values, choice.fold
        values = choosing_C.crossed(Cs, choice.values, choice.fold, weights, self.selection)
        counted = ~np.isnan(values) & (weights > 0)
        mean = float(np.average(values[counted], weights=weights[counted])) if counted.any() else np.nan
        self.scoring_ = measure_name(self._measured())
        _log.info("C = %g selected by %s", choice.C, self.scoring_)
        loss = self.loss
        named = isinstance(loss, str) or hasattr(loss, "measure") or getattr(loss, "label", None) == "map"
        if self.scoring is None and self.scoring_ == "map" and not named:
            _log.warning(
                "the loss names no measure, so that C was selected by MAP; pass scoring=, or define the attribute "
                "measure of the oracle"
            )
        self.held_out_ = EvaluationResult(self.scoring_, mean, values, ids(), self._bounds())
        self._held_weights = weights
        self._n_repeated = 0 if rows is None else _repeated(rows, choice.fold)
        return choice

    def estimate(
        self: Any, *, baseline: Any = None, y: object = None, qid: object = None, level: float = 0.95
    ) -> Estimate:
        """Estimate the score of the model on new queries, and its difference from a baseline.

        The cross-validated value at the selected C is too high on average, in particular with few queries. The estimate
        is instead the mean of ``held_out_``, in which no query affects its own C. Its interval is Student's t interval,
        widened by a factor of 1.1 because the models of different folds share training queries
        (``experiments/estimate_coverage.py``). No additional fit is needed.

        Parameters
        ----------
        baseline : array-like of float, shape (n_rows,), or EvaluationResult, optional
            Scores of the rows passed to ``fit``, such as a column of ``X``, or the values of the same queries for the
            same measure. None means no baseline.
        y, qid : array-like, shape (n_rows,)
            Labels and queries of the rows; required if ``baseline`` contains scores.
        level : float, default=0.95
            Confidence level of the intervals.

        Returns
        -------
        Estimate

        Raises
        ------
        BadInput
            For fewer than 3 held-out queries, a single test part, or a baseline for a different measure or different
            queries.

        Warns
        -----
        UserWarning
            For fewer than 10 queries; if most rows of some queries also occur in other folds, which makes the value too
            high; or if the baseline ties more than a tenth of the pairs of documents.
        """
        held, weights = self._counted()
        if self._n_repeated:
            warn_user(
                f"estimate: {self._n_repeated} of {held.per_query.size} queries have most of their rows in queries of "
                "other folds as well, so that the value may be too high; pass a cv that keeps such queries in one fold"
            )
        other = None
        if baseline is not None:
            if not isinstance(baseline, EvaluationResult):
                baseline = self._of_baseline(baseline, y, qid, held)
            other = paired(held, baseline)[1]
        alike = (weights == weights[0]).all()
        return estimate_of(held, None if alike else weights, baseline=other, level=level)

    def _counted(self) -> tuple[EvaluationResult, Float]:
        """Return the held-out values of the queries with positive weight, and their weights."""
        check_is_fitted(self, "scores_")
        if not hasattr(self, "held_out_"):
            raise BadInput(
                "estimate",
                "the model file was written by a version that did not keep values of held-out queries",
                "train again",
            )
        held = self.held_out_
        counted = ~np.isnan(held.per_query) & (self._held_weights > 0)
        if not counted.any():
            raise BadInput(
                "cv", "expected at least 2 test parts with a query of positive weight, got one", "pass cv=5"
            )
        held = replace(held, per_query=held.per_query[counted], query_ids=held.query_ids[counted])
        return held, self._held_weights[counted]

    def _of_baseline(
        self, scores: ArrayLike, y: ArrayLike, qid: ArrayLike, held: EvaluationResult
    ) -> EvaluationResult:
        if y is None or qid is None:
            raise BadInput("baseline", "expected y and qid of the scored rows", "pass those of fit")
        part = self._evaluated(y, qid, scores)
        part.warn_of_ties("estimate: the baseline")
        known = np.isin(part.result.query_ids, held.query_ids)  # drop queries that were in no test part
        values, ids = part.result.per_query[known], part.result.query_ids[known]
        return replace(part.result, per_query=values, query_ids=ids)

    def _splits(self, n_queries: int) -> list[tuple[Int, Int]]:
        """Return the training and test part of each fold as query indices."""
        if isinstance(self.cv, numbers.Integral) and not isinstance(self.cv, bool):
            n_folds = int(self.cv)
            if not 2 <= n_folds <= n_queries:
                raise BadInput(
                    "cv",
                    f"expected a number of folds from 2 to the number of queries, got {counted(query=n_queries)}",
                    "pass qid" if n_queries == 1 else "",
                    value=n_folds,
                )
            order = np.arange(n_queries)
            if self.random_state is not None:
                order = np.random.default_rng(self.random_state).permutation(n_queries)
            return [(np.setdiff1d(order, fold), np.sort(fold)) for fold in np.array_split(order, n_folds)]
        splits = self.cv
        if hasattr(splits, "split") and not isinstance(splits, str):
            queries = np.arange(n_queries)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
                splits = list(splits.split(queries, groups=queries))
        try:
            pairs = [tuple(pair) for pair in splits]
        except TypeError:
            pairs = []
        if not pairs or any(len(pair) != 2 for pair in pairs):
            raise BadInput(
                "cv",
                "expected a number of folds, a splitter such as QueryKFold(3), or pairs (train, test) of arrays of "
                "query indices",
                value=self.cv,
            )
        splits = [
            (
                _query_numbers(a, n_queries, f"cv, training part {i}"),
                _query_numbers(b, n_queries, f"cv, test part {i}"),
            )
            for i, (a, b) in enumerate(pairs)
        ]
        for i, (training, testing) in enumerate(splits):
            shared = np.intersect1d(training, testing)
            if shared.size:
                raise BadInput(
                    "cv", f"query {shared[0]} is in both the training and the test part", at=f", split {i}"
                )
        tested, counts = np.unique(np.concatenate([b for _, b in splits]), return_counts=True)
        if (counts > 1).any():
            raise BadInput(
                "cv",
                f"expected each query in at most one test part, got query {tested[counts > 1][0]} in several",
            )
        return splits


def _repeated(data: QueryData, fold: Int) -> int:
    """Return the number of queries of which more than half of the rows also occur in queries of other folds.

    Rows that occur in more than a tenth of the queries are ignored, as such repetitions are common if there are only a
    few features with few values.
    """
    # Rows are compared by a random projection: equal rows have equal keys, and distinct rows have distinct keys with
    # probability 1.
    keys = linear_scores(data.X, np.random.default_rng(0).normal(size=data.n_features))
    _, row = np.unique(keys, return_inverse=True)
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    tested = (fold[query] >= 0) & ~np.isnan(keys)
    # Compute the smallest and the largest fold of the queries of each distinct row; they differ if the row is in
    # several folds.
    distinct, of_query = np.unique(np.stack([row, query])[:, tested], axis=1)
    first, last = np.full(row.max() + 1, fold.size), np.full(row.max() + 1, -1)
    np.minimum.at(first, distinct, fold[of_query])
    np.maximum.at(last, distinct, fold[of_query])
    n_queries = np.bincount(distinct, minlength=first.size)
    elsewhere = (first < last) & (n_queries <= max(2, data.n_queries / 10))
    share = np.add.reduceat(elsewhere[row] & tested, data.offsets[:-1]) / np.diff(data.offsets)
    return int((share > 0.5).sum())


@contextmanager
def training_part(number: int) -> Iterator[None]:
    """Add the index of the fold to errors about its training part."""
    try:
        yield
    except BadInput as error:
        raise error.within(f"cv, training part {number}") from None


@parameters
class StructuralRankerCV(StructuralRanker, CrossValidated):
    """:class:`StructuralRanker` that selects C by cross-validation over queries and refits on all queries.

    Each fold trains one regularisation path, so that a grid over C costs a small multiple of one fit. Queries are never
    split between folds. The default grid covers the useful values for features with about unit variance. In each fold,
    features are scaled with the statistics of its training part, which may require a copy.

    Parameters
    ----------
    callback : callable, default=None
        Called with a :class:`structsvm.protocols.Progress` after each pass of every fit; a truthy return value stops
        the current fit. None means no callback.

    Attributes
    ----------
    C_ : float
        The selected value; with ``selection="max"``, the smallest of several C with equal means.
    scores_ : ndarray, shape (n_queries, n_Cs)
        Value of the measure for each held-out query and each C; NaN for queries in no test part.
    Cs_ : ndarray, shape (n_Cs,)
        The values of C that were tried, in ascending order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(300, 3)), np.repeat(np.arange(30), 10)
    >>> y = (X[:, 0] + 0.3 * rng.normal(size=300) > 1).astype(int)
    >>> model = StructuralRankerCV(Cs=[0.1, 1, 10], cv=3).fit(X, y, qid=qid)
    >>> model.scores_.shape, model.C_ in (0.1, 1, 10)
    ((30, 3), True)
    >>> model.estimate(baseline=X[:, 1], y=y, qid=qid).difference.lower > 0
    True
    """

    C: float = field(init=False)

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Select C, then train on all queries.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in :meth:`StructuralRanker.fit`, except that ``qid`` is required and must have at least two distinct ids.
        """
        data, weights = self._grouped(X, y, qid, sample_weight)
        compile_weights(self, data.X.shape[1])  # here, because an error in a fold would name the fold
        with self._by_folds(data, weights, self._splits(data.n_queries)).training():
            self._keep(next(self._train(bind_problem(self, self._loss, data, weights), [self.C_])))
        self._warn_of_ties(data, linear_scores(data.X, self.coef_))
        warn_of_uninformative(self, self._loss)
        return self

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        super().check_options()
        self._check_choice()


class HeldOutLosses(NamedTuple):
    """Losses of held-out candidate sets for each C, returned by :func:`cross_validate_C`."""

    Cs: Float
    losses: Float
    selection: choosing_C.Selection = "max"
    fold: Int | None = None
    """The fold in which each set was held out; -1 for sets without subtopics."""

    @property
    def means(self) -> Float:
        """Mean loss of each C over the sets with subtopics."""
        return np.asarray(np.nanmean(self.losses, axis=0))

    @property
    def C(self) -> float:
        """The selected C; the smaller C in case of equal mean losses."""
        measured = ~np.isnan(self.losses).any(axis=1)
        return choosing_C.select_C(self.Cs, -self.losses[measured], selection=self.selection)

    @property
    def held_out(self) -> EvaluationResult:
        """``1 - loss`` of each set for the C selected on the other folds; NaN for sets without subtopics."""
        assert self.fold is not None
        values = 1.0 + choosing_C.crossed(self.Cs, -self.losses, self.fold, selection=self.selection)
        return EvaluationResult(
            "1 - loss", float(np.nanmean(values)), values, np.arange(values.size), (0.0, 1.0)
        )

    def estimate(self, *, baseline: object = None, level: float = 0.95) -> Estimate:
        """Estimate ``1 - loss`` on new sets, as :meth:`StructuralRankerCV.estimate` does for queries.

        Parameters
        ----------
        baseline : array-like of float, shape (n_sets,), optional
            Losses of another selector on the same sets. None means no baseline.
        level : float, default=0.95
            Confidence level of the intervals.

        Returns
        -------
        Estimate
        """
        held = self.held_out
        values = held.per_query
        other = None if baseline is None else 1.0 - np.asarray(baseline, dtype=np.float64)
        if other is not None and other.shape != values.shape:
            raise BadInput("baseline", f"expected {values.size} losses, one per set, got shape {other.shape}")
        known = ~np.isnan(values)
        other = None if other is None else other[known]
        held = replace(held, per_query=values[known], query_ids=held.query_ids[known])
        return estimate_of(held, baseline=other, level=level)


def cross_validate_C(
    model: Selector,
    sets: Sequence[CandidateSet],
    labels: ArrayLike,
    Cs: Sequence[float],
    *,
    folds: int = 5,
    selection: choosing_C.Selection = "max",
    callback: Callable[[int, int], object] | None = None,
) -> HeldOutLosses:
    """Return the losses of held-out sets for each C; ``model`` is not changed.

    Sets with subtopics are assigned to the folds in turn. For each fold, one path over C is trained on the other folds.

    Parameters
    ----------
    model : Selector
        Model whose parameters are used, except ``C``: :class:`~structsvm.DiverseRanker` or :class:`~structsvm.SVMDiv`.
    sets, labels
        As in the ``fit`` of the model. Sets without subtopics are used neither for training nor for testing.
    Cs : sequence of float
        Values of C to try.
    folds : int, default=5
        Number of folds, from 2 to the number of sets with subtopics.
    selection : {"max", "one_se"}, default="max"
        Whether to select the C with the lowest mean loss, or the smallest C whose mean loss is within one standard
        error of it, as in :class:`StructuralRankerCV`.
    callback : callable, optional
        Called after each fold with the number of completed folds and the total number; its return value is ignored.

    Returns
    -------
    HeldOutLosses
        ``C`` is the selected value, for training on all sets; ``Cs`` contains the values in ascending order;
        ``losses``, of shape (n_sets, n_Cs), contains the results of ``model.losses``, NaN for a set without subtopics;
        ``means`` contains the mean loss for each C; ``held_out`` and ``estimate()`` give the expected performance on
        new sets.

    Examples
    --------
    >>> from structsvm import SVMDiv
    >>> sets = [CandidateSet(["apple pie", "apple pie", "sea ship sail"])] * 8
    >>> held_out = cross_validate_C(SVMDiv(k=2), sets, [[[1, 0], [1, 0], [0, 1]]] * 8, [10.0, 0.1], folds=2)
    >>> held_out.losses.shape, held_out.C in (0.1, 10.0)
    ((8, 2), True)
    """
    grid = choosing_C.check_grid(Cs)
    choosing_C.check_selection(selection)
    found = check_sets(sets)
    matrices = check_grades(labels, [len(one) for one in found])
    measured = [i for i, matrix in enumerate(matrices) if (matrix > 0).any()]
    if len(measured) < 2:
        raise BadInput("labels", f"expected at least 2 sets with a subtopic, got {len(measured)}")
    check_whole("folds", folds, 2, len(measured), remedy="sets without a subtopic are not assigned to folds")

    def part(numbers: Sequence[int]) -> tuple[list[Any], list[Any]]:
        return [found[i] for i in numbers], [matrices[i] for i in numbers]

    def held_out() -> Iterator[tuple[Int, Float]]:
        for fold in range(folds):
            testing = measured[fold::folds]
            training = [i for number, i in enumerate(measured) if number % folds != fold]
            losses = [fit.losses(*part(testing)) for fit in clone(model).path(*part(training), grid.tolist())]
            yield np.array(testing), -np.stack(losses, axis=1)

    tell = None if callback is None else lambda done: callback(done, folds)
    choice = choosing_C.choose_C(grid, np.ones(len(found)), held_out(), selection=selection, callback=tell)
    return HeldOutLosses(grid, -choice.values, selection, choice.fold)


def _query_numbers(part: object, n_queries: int, part_name: str) -> Int:
    queries = np.asarray(part)
    if queries.ndim != 1 or queries.size == 0 or queries.dtype.kind not in "iu":
        raise BadInput(part_name, f"expected an array of query indices, got {part!r}")
    outside = (queries < 0) | (queries >= n_queries)
    if outside.any():
        raise BadInput(
            part_name,
            f"expected query indices from 0 to {n_queries - 1}, got {queries[outside][0]} (these are not row "
            "indices)",
        )
    ordered = np.unique(queries).astype(np.int64)
    if ordered.size < queries.size:
        raise BadInput(part_name, "expected each query once, got repeated indices")
    return ordered
