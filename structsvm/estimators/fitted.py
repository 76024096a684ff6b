"""Common parts of the estimators: prediction, ranks, scores, saving, and the validation of the arguments of ``fit``."""

import logging
import warnings
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from structsvm import queries
from structsvm.common.checks import BadInput, counted
from structsvm.common.compiling import telling
from structsvm.common.cut_queries import note_queries, warn_of_cut_queries
from structsvm.common.estimator_parameters import completed, name_here
from structsvm.common.names import plain_name
from structsvm.common.training_data import record_rows
from structsvm.features.input_rows import check_width, naming, rows_for, validate_rows
from structsvm.features.scaling import scale_rows
from structsvm.metrics import evaluate
from structsvm.metrics.evaluation import evaluate_part
from structsvm.oracles import get_oracle
from structsvm.plots.html_by import html_by
from structsvm.protocols import Float, Int

_log = logging.getLogger("structsvm")

_Fit = TypeVar("_Fit", bound=Callable[..., Any])


def all_or_nothing(fit: _Fit) -> _Fit:
    """Decorate ``fit`` so that an error or an interrupt leaves the model unchanged.

    The decorated ``fit`` also takes ``verbose=True``, which prints progress and announces compilation. For arguments of
    other packages (``group=``, ``eval_set=``) it raises an error that names the equivalent of this package. A docstring
    with a Parameters section is completed from that of ``_usual_fit``.
    """
    known = signature(fit).parameters
    most = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in known.values()) - 1

    @wraps(fit)
    def whole(self: Any, *args: Any, verbose: bool = False, **kwargs: Any) -> Any:
        if len(args) > most:
            raise TypeError(
                f"{type(self).__name__}.{fit.__name__}: expected {most} positional arguments, got {len(args)}; pass "
                "the others by name, such as qid="
            )
        for name in (name for name in kwargs if name not in known):
            if name == "group":  # an argument of LightGBM and XGBoost
                raise BadInput(
                    "group",
                    f"expected query ids instead of group sizes, got {np.size(kwargs[name])} numbers",
                    "pass {qid}, for rows that are grouped by query",
                    code="qid = np.repeat(np.arange(len(group)), group)",
                )
            raise _no_argument(self, fit.__name__, name, known)
        before = dict(vars(self))
        try:
            if verbose:
                self.callback = _printing(self)
            with telling(print) if verbose else nullcontext():
                done = fit(self, *args, **kwargs)
            note_queries(self, args[0] if args else kwargs.get("X"), kwargs.get("qid"))
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        if verbose:
            self.callback = before["callback"]
        return done

    if "Parameters\n" in (fit.__doc__ or ""):  # python -OO removes docstrings
        whole.__doc__ = completed(cast(str, fit.__doc__), [cast(str, _usual_fit.__doc__)], known)
    return cast(_Fit, whole)


def _usual_fit() -> None:
    """Train.

    Parameters
    ----------
    X : array-like or CSR matrix, shape (n_rows, n_features)
        Features. Float32 and float64 arrays are not converted, and are copied only if the rows of a query are not
        contiguous. A pandas or polars frame may have a column ``qid``, which is not a feature; the argument takes
        precedence.
    y : array-like of numbers, shape (n_rows,)
        Graded labels.
    qid : array-like of int or str, shape (n_rows,), or int
        Query of each row, in any order; a single int applies to all rows. None also means a single query, and issues a
        :class:`~structsvm.SingleQueryWarning`.
    sample_weight : array-like, shape (n_rows,), optional
        Numbers >= 0; the weight of a query is the mean over its rows. A weight of 2 counts the query twice, 0 leaves it
        out. None means equal weights.
    validation : tuple (X, y, qid), optional
        Queries for early stopping, which this argument enables. ``qid`` may be left out if ``fit`` receives none, or
        if ``X`` is a frame with a column ``qid``.
    n_steps : int, optional
        Number of steps of this call; None means ``self.n_steps``.

    Returns
    -------
    self
    """  # inserted into the docstring of each ``fit``


def _no_argument(model: Any, method: str, name: str, known: Collection[str]) -> TypeError:
    kind, here = type(model).__name__, name_here(name)
    if here in model.get_params(deep=False):
        return TypeError(f"{kind}.{method}: no argument {name!r}; {here!r} is a parameter of {kind}")
    taken = ", ".join([*list(known)[1:], "verbose"])
    return TypeError(f"{kind}.{method}: no argument {name!r}; expected one of {taken}")


def _printing(model: object) -> Callable[[Any], object]:
    """Return a callback that prints the progress, then calls the callback of the model, if any."""
    if not hasattr(model, "callback"):
        raise BadInput("verbose", f"{type(model).__name__} reports no progress", value=True)
    own = model.callback

    def tell(progress: Any) -> object:
        figures = progress._asdict().items()
        print(", ".join(f"{name} {value:.5g}" for name, value in figures if isinstance(value, int | float)))
        return own(progress) if own is not None else None

    return tell


class Saved:
    """Mixin for models that can be saved to a file, and displayed in a notebook."""

    def save(self, path: str | Path) -> None:
        """Write the model to one ``.npz`` file without pickle; :func:`structsvm.load` reads it back.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is kept.
        """
        from structsvm.export.model_file import save

        save(self, path)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        return self._shown

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._shown()}

    def _shown(self) -> str:
        """Return HTML with scikit-learn's diagram of the parameters.

        It is preceded by the estimate on new queries if C was cross-validated, and followed by the weights and the
        certificate of a fitted linear model.
        """
        from sklearn.utils import estimator_html_repr

        options: str = estimator_html_repr(self)
        if hasattr(self, "held_out_"):
            with suppress(BadInput), warnings.catch_warnings(action="ignore"):
                options = self.estimate()._repr_html_() + options  # type: ignore[attr-defined]
        if not hasattr(self, "coef_"):
            return options
        return options + html_by("model")(self)


class FittedRanker(Saved):
    """Mixin that implements ``predict``, ``rank``, ``score`` and ``save`` for rankers that define ``_scores`` and
    ``_measure``.

    It must precede BaseEstimator among the bases of a class.

    Parameters
    ----------
    relevance : float, default=1.0
        Lowest label of a relevant document, for binary losses and measures.
    max_passes : int, default=1000
        Maximum number of passes over the data; a ``ConvergenceWarning`` is issued if they do not suffice.
    validation_fraction : float, default=0.1
        Fraction of the queries that is held out for early stopping if ``fit`` does not receive ``validation``.
    n_jobs : int, default=None
        Number of threads; None means 1, and -1 means one per processor. The result does not depend on it.
    callback : callable, default=None
        Called with a :class:`structsvm.protocols.Progress` after each pass over the data. A truthy return value stops
        training with the best weights so far; a warning reports the gap if ``tol`` is not reached. None means no
        callback.

    Attributes
    ----------
    n_queries_ : int
        Number of training queries.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features; defined only if ``X`` has string column names.
    training_data_ : dict
        Date and versions of the last call of ``fit`` or ``partial_fit``, and sizes, ranges and digest of its data; see
        :func:`structsvm.export.model_card`.
    """

    relevance: float

    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True}
    __metadata_request__predict: ClassVar = {"qid": True}

    def predict(self, X: object, *, qid: ArrayLike | None = None) -> Float:
        """Return a score for each row; higher is better.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
            Features.
        qid : array-like, shape (n_rows,), optional
            Query of each row; used, and required, only if features are scaled within queries.
        """
        check_is_fitted(self, ("coef_", "fit_"), all_or_any=any)
        return self._scores(*rows_for(self, X, qid))

    def _scores(self, X: object, qid: ArrayLike) -> Float:
        """Return the scores of rows that ``rows_for`` has validated."""
        raise NotImplementedError

    def _measure(self) -> Any:
        """Return the measure of ``score``, as a name or a callable for :func:`structsvm.metrics.evaluate`."""
        raise NotImplementedError

    def rank(self, X: Any, qid: Any = None) -> Int:
        """Return the rank of each row in its query, where 1 is the best; ties rank in the order of the rows.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
            Features.
        qid : array-like, shape (n_rows,), or int, optional
            Query of each row, which is required if ``fit`` received it; a single int applies to all rows.
        """
        check_is_fitted(self)
        X, qid = queries.split_qid(X, qid)
        require_qid(self, qid, "rank")
        scores = self.predict(X, qid=qid)
        return ranks(scores, queries.group_queries(qid, scores.shape[0]))

    def score(
        self, X: Any, y: ArrayLike, *, qid: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the mean over queries of the measure for which the model was trained.

        Models trained by stochastic descent use their parameter ``measure``, and LambdaRank its ``utility`` (ROC area
        for "ranknet"). For other models, the measure is the ``measure`` of the loss's oracle (a name, or a method
        ``(y, scores) -> float``) if it has one, otherwise the measure named by the oracle's ``label`` (at its
        ``k``), otherwise MAP. Measures follow the TREC
        convention, in which the gain of NDCG is linear (training uses ``2^y - 1``), except that ties are averaged over
        their orders. Use :func:`structsvm.metrics.make_scorer` for other measures.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in ``fit``; ``qid`` is required if ``fit`` received it.

        Warns
        -----
        SingleQueryWarning
            If ``qid`` is not given, so that all rows are ranked as one query.
        UserWarning
            If more than a tenth of the pairs of documents with different labels have equal scores.
        """
        check_is_fitted(self)
        X, qid = queries.split_qid(X, qid)
        require_qid(self, qid)
        warn_of_cut_queries(self, qid)
        scores = self.predict(X, qid=qid)
        qid = queries.one_query(qid, f"{type(self).__name__}.score")
        result = evaluate(self._measure(), y, scores, qid=qid, relevance=self.relevance)
        if sample_weight is None:
            return float(result.mean)
        weights = query_weights(sample_weight, scores, queries.group_queries(qid, scores.shape[0]))
        return float(np.average(result.per_query, weights=weights))

    def _takes_sparse(self) -> bool:
        """Return whether ``fit`` accepts CSR matrices with the current options."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = self._takes_sparse()
        tags.target_tags.required = True
        return tags


def measure_of(loss: Any) -> Any:
    """Return the measure that belongs to a loss: the ``measure`` of its oracle, or else its ``label`` at ``k``, or else
    MAP."""
    oracle = get_oracle(loss)
    if hasattr(oracle, "measure"):
        return oracle.measure
    k = getattr(oracle, "k", None)
    name = f"{getattr(oracle, 'label', None)}{'' if k is None else f'@{k}'}"
    try:
        evaluate_part(name, [1, 0], [1.0, 0.0], qid=0)
    except BadInput:  # no measure has this name
        return "map"
    return name


def ranks(scores: Float, grouping: queries.Grouping) -> Int:
    """Return the rank of each row in its query, where 1 is the best; ties rank in the order of the rows."""
    n = scores.shape[0]
    rows = np.arange(n) if grouping.order is None else grouping.order
    order = np.lexsort((-scores[rows], queries.row_groups(grouping.offsets)))
    out = np.empty(n, dtype=np.int64)
    out[rows[order]] = queries.places_in(grouping.offsets)
    return out


def require_qid(model: object, qid: ArrayLike, method: str = "score") -> None:
    """Raise ValueError if ``qid`` is missing, but was given to ``fit``."""
    if qid is None and model._saw_qid:
        raise BadInput(
            f"{type(model).__name__}.{method}",
            "expected qid, as in fit",
            "without it all rows would be ranked as one query. If they are one query, pass its id: qid=0. In "
            "cross-validation call sklearn.set_config(enable_metadata_routing=True) and pass qid=...",
        )


def no_constraint(
    loss: object, labels: tuple[float, float], n_queries: int, relevance: float, name: str = "loss"
) -> BadInput:
    """Return the error for data in which no query has a constraint; ``labels`` are the lowest and the highest label."""
    label = plain_name(loss) if isinstance(loss, str) else str(getattr(loss, "label", ""))
    meaning, remedy = f" (relevant means a label >= {relevance:g})", "check the labels, {relevance} and qid"
    # an oracle without the attribute `relevance` uses all grades; the utility "ranknet" has no oracle
    if not hasattr(get_oracle(label) if isinstance(loss, str) and label != "ranknet" else loss, "relevance"):
        meaning = " (labels of 0 and less count the same)" if label.startswith("ndcg") else ""
        remedy = "check the labels and qid"
    elif relevance <= labels[0] < labels[1]:
        remedy = "all documents are relevant: pass {loss='ndcg@10'}, which uses all grades, or a higher {relevance}"
    return BadInput(
        "y",
        f"no query carries a constraint for {{{name}}}: each needs documents with distinct labels{meaning}; got "
        f"{counted(query=n_queries)}, labels {labels[0]:g} to {labels[1]:g}",
        remedy,
        others={name: loss},
    )


def warn_of_uninformative(model: Any, loss: object, *, warn: bool = True) -> None:
    """Log the number of queries that carry no constraint, if any; warn if these are more than half of the queries."""
    n, of = model.n_uninformative_, model.n_queries_
    if n:
        _log.info("%d of %d queries carry no constraint for %s", n, of, loss)
    if warn and 2 * n > of:
        queries.warn_user(
            BadInput(
                type(model).__name__,
                f"{n} of {of} queries carry no constraint for {loss} (labels that cannot be ranked wrongly, or weight "
                "0), so that the model is trained on the others",
                "check the labels, {relevance} and sample_weight",
            )
        )


_NEARLY_ALL = 0.85


def warn_of_coarse_labels(model: Any, oracle: object, y: Float) -> None:
    """Warn if a binary loss is unsuitable for the labels.

    This is the case if nearly all documents are relevant, or if grades were divided by their maximum, so that only the
    highest grade is relevant.
    """
    relevance = getattr(oracle, "relevance", None)
    if relevance is None:
        return
    relevant = y >= relevance
    below = (y > 0) & ~relevant
    if y.max() <= relevance and (y[below] % 1 != 0).any():
        queries.warn_user(
            BadInput(
                type(model).__name__,
                f"labels are fractions up to {y.max():g}, of which only those of at least {relevance:g} count as "
                f"relevant for the loss {model.loss!r}",
                f"pass {{relevance={y[y > 0].min():g}}} if all labels above 0 are, or {{loss='ndcg@10'}}, which uses "
                "all grades",
            )
        )
    if relevant.mean() > _NEARLY_ALL and y.max() > y[relevant].min():
        queries.warn_user(
            BadInput(
                type(model).__name__,
                f"{100 * relevant.mean():.0f} % of the documents have a label of at least {relevance:g} and are "
                f"relevant, and the loss {model.loss!r} does not distinguish their grades, {y[relevant].min():g} to "
                f"{y.max():g}",
                "pass {loss='ndcg@10'}, which uses all grades, or a higher {relevance}",
            )
        )


class TrainingRows(NamedTuple):
    """Validated arguments of ``fit``: rows in their original order, their queries, and one weight per query."""

    X: Any
    y: Float
    qid: Any
    grouping: queries.Grouping
    weights: Float


def read_rows(
    model: Any,
    X: Any,
    y: Any,
    qid: Any,
    weight: ArrayLike,
    *,
    vectors: int = 0,
    reset: bool = True,
    **kinds: Any,
) -> TrainingRows:
    """Validate the arguments of ``fit``; raise if memory does not suffice for ``vectors`` vectors of weights."""
    X, qid = queries.split_qid(X, qid)
    numbers = queries.column_numbers(X)
    X, y, ranges = validate_rows(model, X, y, qid=qid, order="C", reset=reset, **kinds)
    check_width(X, qid, vectors=vectors)
    grouping = queries.group_queries(qid, X.shape[0])
    weights = query_weights(weight, X, grouping)
    model.training_data_ = record_rows(X, y, grouping.offsets, grouping.order, ranges=ranges)
    if reset:
        model._saw_qid = qid is not None
        vars(model).pop("_numbers_", None)
        if numbers is not None:
            model._numbers_ = numbers
    if qid is None and hasattr(model, "cv"):
        raise BadInput("cv", "expected at least 2 queries to assign to folds, got 1 query", "pass qid")
    queries.one_query(qid, f"{type(model).__name__}.fit")
    return TrainingRows(X, y, qid, grouping, weights)


def scaled(model: Any, X: Any, qid: object) -> Any:
    """Return the result of ``rows_for``, scaled in the same way as the training rows of the model."""
    return X if model.scaler_ is None else scale_rows(model.scaler_, X, qid)


def query_weights(sample_weight: ArrayLike, X: Any, grouping: queries.Grouping) -> Float:
    """Return one weight per query, which is the mean weight of its rows, or 1 if ``sample_weight`` is None."""
    lengths = np.diff(grouping.offsets)
    if sample_weight is None:
        return np.ones(lengths.shape[0])
    queries.refuse_masked("sample_weight", sample_weight)
    given = np.asarray(sample_weight)
    # checked here, because the message of scikit-learn would not name the argument
    if given.size and given.dtype.kind in "biuf" and not given.any():
        raise BadInput("sample_weight", "expected at least one positive weight, got zeros only")
    if given.shape == lengths.shape != (X.shape[0],):
        raise BadInput(
            "sample_weight",
            f"expected one weight per row, {X.shape[0]}, got one per query, {given.size}",
            "repeat each weight for the rows of its query",
        )
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    queries.refuse_first("sample_weight", weights, weights < 0, "a number >= 0")
    most = f"a number up to {queries.LARGEST:g}"  # sums of larger weights could overflow
    queries.refuse_first(
        "sample_weight", weights, weights > queries.LARGEST, most, "divide all weights; only ratios count"
    )
    if grouping.order is not None:
        weights = weights[grouping.order]
    return np.add.reduceat(weights, grouping.offsets[:-1]) / lengths


def read_validation(model: Any, validation: Any) -> tuple[Any, Float, Int]:
    """Return the rows of ``validation=(X, y, qid)``, grouped and scaled as in training, their labels and query
    offsets."""
    if not isinstance(validation, (tuple, list)) or len(validation) not in (2, 3):
        shown = f"{len(validation)} of them" if isinstance(validation, (tuple, list)) else repr(validation)
        raise BadInput(
            "validation", f"expected rows, labels and query ids as a tuple (X, y, qid), got {shown}"
        )
    X, qid = queries.split_qid(validation[0], validation[2] if len(validation) == 3 else None)
    if qid is None and model._saw_qid:
        raise BadInput(
            "validation",
            "expected query ids, as in fit: (X, y, qid)",
            "without them all rows would be ranked as one query",
        )
    with naming("validation"):
        X, y, _ = validate_rows(model, X, validation[1], qid=qid, order="C", reset=False)
        grouping = queries.group_queries(qid, X.shape[0])
        X = scaled(model, X, qid)
    if grouping.order is not None:
        X, y = X[grouping.order], y[grouping.order]
    return X, y, grouping.offsets


def choose_held_out(useful: Int, fraction: float, rng: np.random.RandomState) -> Int:
    """Return a random fraction of the useful queries for early stopping: at least one query, but not all.

    A query is useful if the measure depends on its ranking.
    """
    if useful.shape[0] < 2:
        raise BadInput(
            "early_stopping",
            "expected at least 2 queries whose ranking changes the measure, one of them to hold out, got "
            f"{useful.shape[0]}",
            "pass {validation=(X, y, qid)}, or {early_stopping=False}",
        )
    n = min(max(1, round(float(fraction) * useful.shape[0])), useful.shape[0] - 1)
    return rng.permutation(useful)[:n]


def unmeasurable(model: Any, name: str, y: Float) -> BadInput:
    """Return the error for validation queries for which the measure (parameter ``name``) does not depend on the
    ranking."""
    return BadInput(
        "validation",
        f"expected a query whose ranking changes {{{name}}}, got labels {y.min():g} to {y.max():g} (relevant means "
        f"a label >= {model.relevance:g})",
        f"check the labels, {{{name}}} and {{relevance}}",
        others={name: getattr(model, name)},
    )
