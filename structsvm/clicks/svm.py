"""``ClickSVM``: linear rankers from click logs, corrected for position bias."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.clicks.cells import ClickCells, once_each
from structsvm.clicks.holding_out import sketch_of
from structsvm.clicks.losses import Weighting, click_values, click_weights, loss_by_name
from structsvm.clicks.propensities import Propensities, given_or_harvested
from structsvm.common.checks import BadInput, check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.common.portable.arrays import combine, dot
from structsvm.common.portable.elementary import log2
from structsvm.estimators.choosing_C import check_selection
from structsvm.estimators.cross_validation import CrossValidated
from structsvm.estimators.fitted import all_or_nothing, require_qid
from structsvm.estimators.structural import StructuralRanker, bind_problem
from structsvm.metrics.evaluation import Part, check_distinguishes, differs
from structsvm.metrics.ranks_and_ties import Ranking, rank_queries
from structsvm.metrics.results import EvaluationResult
from structsvm.protocols import Oracle
from structsvm.queries import QueryData, group_queries, refuse_first, split_qid, warn_user

_TINY = np.finfo(np.float64).tiny


@parameters
class ClickSVM(StructuralRanker):
    """Linear ranker trained on clicks weighted by inverse propensities.

    A click at a rarely examined position represents the many clicks that were missed there.

    Minimises ``1/2 ||w||^2 + C * mean over clicks of the weighted loss``. With ``loss="pairs"`` the loss of a click is
    the sum of the hinge losses of the clicked document against all others of its query, which bounds its rank
    (Propensity SVM-rank). Clicks are summed per document before training, so the training time does not depend on the
    number of clicks. The fit has a certificate: the objective is within ``fit_.gap`` of its optimum.

    Parameters
    ----------
    C : float, default=1.0
        Trade-off between a small norm and a small mean loss; see :class:`ClickSVMCV`.
    loss : str, default="pairs"
        ``"pairs"``: the sum of the hinges of a click, a bound on its rank, so that long lists have more weight.
        ``"mean_pairs"``: the mean of these hinges, preferable if lengths vary widely and the measure weights queries
        equally. ``"dcg"``, ``"mrr"``, ``"dcg@10"``, ``"mrr@10"`` (any cut-off): the logarithm of a click's rank, a
        smooth bound for all of these measures (:class:`~structsvm.oracles.weighted.WeightedLogRank`);
        :class:`ClickSVMCV` chooses C by the named measure.
    propensities : Propensities or sequence of float, optional
        How often users examine each position; default: :func:`~structsvm.clicks.harvest` of the log.
    weighting : {"ips", "policy"}, default="ips"
        See :func:`~structsvm.clicks.click_weights`; ``"policy"`` suits logs that show the top documents of several
        rankers.
    clip : float, default=0.0
        Smaller propensities are raised to this value; 0 disables clipping.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
        Weights of the scaled features.
    fit_ : Fit
        The certificate.
    propensities_ : Propensities or None
        The propensities used; None after a fit to weights.
    log_sketch_ : ndarray of uint64, or None
        Sketch by which ``structsvm clicks evaluate`` recognises the log; None after a fit to weights.
    largest_weight_, effective_sample_size_ : float
        Largest weight and effective number of the clicks (:func:`~structsvm.clicks.click_weights`), or of the rows
        after a fit to weights.
    n_queries_, n_uninformative_, n_features_in_, feature_names_in_
        As in :class:`~structsvm.estimators.structural.StructuralRanker`.

    Notes
    -----
    Joachims, Swaminathan & Schnabel (WSDM 2017); DCG: Agarwal, Takatsu, Zaitsev & Joachims (SIGIR 2019). With
    ``M = sum`` of the weights their objective ``1/2 ||w||^2 + c/n sum_i xi_i / p_i`` over ``n`` clicks is equal to this
    one with ``C = c M / n``.

    Examples
    --------
    >>> X, qid, docid = [[1.0], [0.0], [0.5]], [7, 7, 7], [1, 2, 3]
    >>> cells = ClickCells.from_arrays([7] * 4, [2, 1, 2, 1], [1, 2, 1, 2], [0, 1, 0, 1])
    >>> model = ClickSVM(propensities=[1.0, 0.5]).fit(X, cells, qid=qid, docid=docid)
    >>> model.rank(X, qid), model.largest_weight_
    (array([1, 3, 2]), 2.0)
    """

    __metadata_request__fit: ClassVar = {"qid": True, "docid": True}

    C: float = 1.0
    _: KW_ONLY
    loss: str = "pairs"
    propensities: Propensities | Sequence[float] | None = None
    weighting: Weighting = "ips"
    clip: float = 0.0
    relevance: float = field(default=1.0, init=False)  # an inherited parameter that does not apply

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, docid: Any = None, sample_weight: Any = None) -> Self:
        """Train on a click log, or on weights of the rows.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
            All candidates of each query, including documents that nobody clicked.
        y : ClickCells, or array-like of float, shape (n_rows,)
            The log; or the weights of the rows, >= 0, as from :func:`~structsvm.clicks.click_weights`.
        qid : array-like, shape (n_rows,), optional
            Query of each row, as in the log. Required with a log.
        docid : array-like, shape (n_rows,), optional
            Document of each row, as in the log. Required with a log.
        sample_weight : array-like, shape (n_rows,), optional
            The mean over the rows of a query multiplies the weight of its clicks.

        Returns
        -------
        self

        Raises
        ------
        BadInput
            If the log has no clicks; if ``propensities`` is None and the log does not identify them (it needs lists of
            several rankers); or if none of the clicked documents is among the rows.
        """
        y = self._weigh(X, y, qid, docid)
        data, weights = self._grouped(X, y, qid, sample_weight)
        self._keep(next(self._train(bind_problem(self, self._loss, data, weights), [self.C])))
        return self

    def score(
        self, X: Any, y: ArrayLike, *, qid: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the mean of ``1 / log2(1 + rank)`` over clicks, weighted by ``y``; 1 if each click is at rank 1.

        Ties are averaged over their orders.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
            The rows to score.
        y : array-like of float, shape (n_rows,)
            Weights of the rows, >= 0.
        qid : array-like, shape (n_rows,), optional
            Required if ``fit`` received it.
        sample_weight : array-like, shape (n_rows,), optional
            Factors by which ``y`` is multiplied.

        Returns
        -------
        float
        """
        X, qid = split_qid(X, qid)
        require_qid(self, qid)
        scores = self.predict(X, qid=qid)
        weights = np.asarray(y, dtype=np.float64)
        if weights.shape != scores.shape:
            raise BadInput(
                "y", f"expected one weight for each of {scores.shape[0]} rows, got shape {weights.shape}"
            )
        if sample_weight is not None:
            weights = weights * np.asarray(sample_weight, dtype=np.float64)
        if not weights.sum() > 0:
            raise BadInput("y", "expected a positive weight, got none")
        ranking, _ = _ranked(weights, qid, scores)
        return dot(ranking.ranked, ranking.averages(1 / log2(1 + ranking.rank))) / float(weights.sum())

    @property
    def _loss(self) -> Oracle:
        return loss_by_name(self.loss)

    def _weigh(self, X: object, y: ArrayLike, qid: ArrayLike, docid: ArrayLike) -> Any:
        """Return the weight of each row, and set the attributes that describe the weights."""
        if not isinstance(y, ClickCells):
            try:
                values = np.asarray(y, dtype=np.float64)
            except (TypeError, ValueError):
                return y  # the checks that all rankers share report the error
            if values.ndim != 1 or not values.size or not np.isfinite(values).all():
                return y
            refuse_first("y", values, values < 0, "a finite weight >= 0")
            if not values.sum() > 0:
                raise BadInput("y", "expected clicks, got no label (weight) above 0", "use a longer log")
            self.propensities_ = self.log_sketch_ = None
            self.largest_weight_ = float(values.max())
            self.effective_sample_size_ = float(values.sum() ** 2 / dot(values, values))
            return y
        ids = split_qid(X, qid)[1]
        for name, given in (("qid", ids), ("docid", docid)):
            if given is None:
                raise BadInput(name, "expected the ids of the rows, as in the log, got none", "pass them")
        theta = given_or_harvested(y, self.propensities)
        found = click_weights(y, theta, weighting=self.weighting, clip=self.clip)
        rows = y.rows_of(ids, docid)
        values = np.where(rows >= 0, found.values[rows], 0.0)
        used = once_each(y, rows, "docid")
        clicks = y.per_row(y.clicks)
        lost = float(clicks.sum() - clicks[used].sum())
        if lost == clicks.sum():
            raise BadInput(
                "docid", "expected clicked documents of the log among the rows, got none", "check the ids"
            )
        if lost:
            warn_user(f"{lost:.0f} of {clicks.sum():.0f} clicks are on documents that are not among the rows")
        self.propensities_, self.log_sketch_ = theta, sketch_of(y)
        self.largest_weight_, self.effective_sample_size_ = found.largest, found.effective
        return values


@parameters
class ClickSVMCV(ClickSVM, CrossValidated):
    """:class:`ClickSVM` that chooses C by the clicks of held-out queries, and refits on all queries.

    Parameters
    ----------
    Cs : sequence of float, optional
        Values to try; default: 13 from 1e-4 to 1e2, evenly spaced on a log scale.
    cv : int, default=5
        Number of folds over the queries with clicks.

    Attributes
    ----------
    C_ : float
        The value that ``selection`` chose; with ``"max"``, the smallest of several C with equal means.
    Cs_ : ndarray, shape (n_Cs,)
        The values tried.
    scores_ : ndarray, shape (n_Cs,)
        Weighted mean over the held-out clicks of the measure behind the loss: the share of other documents below the
        clicked one (pairs, which gives long lists more weight, and mean_pairs), ``1 / log2(1 + rank)`` (dcg) or ``1 /
        rank`` (mrr); 1 if each click is at rank 1. With ``"max"`` the C with the highest score is chosen, so that
        ``scores_.max()`` is optimistic.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(200, 2)), np.repeat(np.arange(20), 10)
    >>> weights = np.where(X[:, 0] > 1, rng.exponential(size=200), 0.0)
    >>> ClickSVMCV([0.01, 1.0], cv=2).fit(X, weights, qid=qid).scores_.shape
    (2,)
    """

    C: float = field(init=False)
    scoring: None = field(default=None, init=False)
    convention: Literal["trec"] = field(default="trec", init=False)

    _usual = (1e-4, 1e2, 13)

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, docid: Any = None, sample_weight: Any = None) -> Self:
        """Choose C, then train on all queries; parameters and errors as in :meth:`ClickSVM.fit`."""
        y = self._weigh(X, y, qid, docid)
        data, weights = self._grouped(X, y, qid, sample_weight)
        lengths = np.diff(data.offsets)
        number, length = np.repeat(np.arange(data.n_queries), lengths), np.repeat(lengths, lengths)
        clicked = np.flatnonzero(np.bincount(number, data.y, data.n_queries) * weights > 0)
        if clicked.shape[0] < self.cv:
            raise BadInput(
                "cv",
                f"expected at least {self.cv} queries with clicks, got {clicked.shape[0]}",
                "use a longer log, or specify {C} of ClickSVM",
                value=self.cv,
            )
        if self.random_state is not None:
            clicked = np.random.default_rng(self.random_state).permutation(clicked)
        gains = (weights[number] * data.y) * click_values(self.loss, np.ones_like(length), length)[1]
        largest = np.add.reduceat(gains, data.offsets[:-1])
        folds = [np.sort(clicked[fold :: self.cv]) for fold in range(self.cv)]
        choice = self._by_folds(
            data, weights, [(np.setdiff1d(clicked, testing), testing) for testing in folds], largest
        )
        tested = largest > 0
        self.scores_ = combine(largest[tested] / largest[tested].sum(), choice.values[tested])
        with choice.training():
            self._keep(next(self._train(bind_problem(self, self._loss, data, weights), [self.C_])))
        return self

    def _check_labels(self, data: QueryData) -> None:
        """Raise BadInput if the clicks do not order any documents."""
        check_distinguishes(
            "loss",
            self._measured(),
            lambda _: differs(partial(self._values, data.y, data.qid), data.y),
            "use a log in which some documents have more clicks than others, or specify {C} of ClickSVM",
        )

    def _evaluated(self, y: Any, qid: Any, scores: Any) -> Part:
        """Return the weighted mean, over the clicks of each query, of the measure behind the loss; 0 without clicks."""
        ranking, query_ids = _ranked(y, qid, scores)
        length = np.repeat(ranking.lengths, ranking.lengths)
        largest = click_values(self.loss, np.ones_like(length), length)[1]
        sums = [
            np.add.reduceat(ranking.ranked * values, ranking.offsets[:-1])
            for values in (ranking.averages(click_values(self.loss, ranking.rank, length)[0]), largest)
        ]
        values = sums[0] / np.maximum(sums[1], _TINY)
        return Part(
            EvaluationResult(self._measured(), float(values.mean()), values, query_ids, self._bounds()),
            False,
            ranking,
            "average",
        )

    def _measured(self) -> str:
        return f"{self.loss} of clicks"

    def _bounds(self) -> tuple[float, float]:
        return 0.0, 1.0

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        super().check_options()
        self._grid()
        check_selection(self.selection)
        check_whole("cv", self.cv, 2)


def _ranked(clicks: object, qid: ArrayLike, scores: ArrayLike) -> tuple[Ranking, NDArray[Any]]:
    """Return the ranking of weighted rows, and the ids of its queries."""
    clicks, key = np.asarray(clicks, dtype=np.float64), -np.asarray(scores, dtype=np.float64)
    grouping = group_queries(qid, key.shape[0])
    if grouping.order is not None:
        clicks, key = clicks[grouping.order], key[grouping.order]
    retrieved = np.ones(key.shape[0], dtype=np.bool_)
    return rank_queries(clicks, key, retrieved, grouping.offsets, "average", None), grouping.query_ids
