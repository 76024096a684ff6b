"""Indicators ``1[f(d|x) > k]`` of retrieval scores: a linear model over them is a step function of each score.

Thesis, section 3.3.2. The indicators of one function are a thermometer (if a score exceeds a threshold, it exceeds
all lower ones), so one byte per function describes a row: the number of thresholds that its score exceeds.
"""

from dataclasses import KW_ONLY
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from structsvm.common.checks import BadInput, check_choice, check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.common.names import feature_names
from structsvm.features.coded_rows import BinnedRows
from structsvm.features.ranks import rounding_to
from structsvm.features.scaling import minmax_within
from structsvm.protocols import Float
from structsvm.queries import group_queries, offsets_of

MOST_BINS = 255  # a count of thresholds fits a byte
_TILE = 16
"""Number of columns copied at once: the values of a row then share one or two cache lines."""


class StepFunction(NamedTuple):
    """Contribution of a base function to a document's score (thesis, figure 3.2).

    A score that exceeds k thresholds contributes ``values[k]``; a missing score contributes ``values[0]``, which is 0.
    The first threshold is minus infinity.
    """

    name: str
    thresholds: Float
    values: Float

    def outline(self) -> tuple[list[float], list[float]]:
        """Return the x and y coordinates of the step function's corners, without the value for missing scores."""
        edges = self.thresholds[1:].tolist()
        if not edges:
            return [0.0, 1.0], [float(self.values[1])] * 2
        width = edges[-1] - edges[-2] if len(edges) > 1 else 1.0
        edges = [edges[0] - width, *edges, edges[-1] + width]
        x = [edge for pair in pairwise(edges) for edge in pair]
        return x, np.repeat(self.values[1:], 2).tolist()


@parameters
class BinnedFeatures(TransformerMixin, BaseEstimator):
    """Indicator features ``1[f > k]`` for thresholds ``k`` of each base function ``f``, learned in ``fit``.

    A missing score (NaN: the function did not retrieve the document) is below every threshold, so all its
    indicators are 0. The first threshold is minus infinity, and its indicator means "has a score"; the others divide
    the range of the training scores into ``n_bins`` bins. Thresholds that do not separate any training scores are
    dropped, so a function may have fewer thresholds than bins. A score equal to a threshold does not exceed it, as in
    the formula of the thesis' section 3.3.2; the step function shown with its figure 3.2 uses ``<=``.

    Thresholds at quantiles lie between two training scores. A score in float64 and its copy in float32 are on the same
    side of such a threshold, unless the two training scores are the same number in float32.

    Parameters
    ----------
    n_bins : int, default=50
        Maximum number of thresholds per function, at most 255. The thesis uses 50.
    spacing : {"even", "quantile"}, default="even"
        ``"even"``: bins of equal width. ``"quantile"``: bins with equal numbers of training scores, which suits scores
        with extreme outliers.
    within : {"data", "query"}, default="data"
        ``"data"``: the scores as they are, one set of thresholds for all queries, as in the thesis. ``"query"``:
        the scores are first scaled to [0, 1] within each query (the only score of a function in a query becomes 1),
        for functions whose scale differs between queries; ``fit`` and ``transform`` then need ``qid``.

    Attributes
    ----------
    thresholds_ : list of ndarray
        Thresholds of each base function, ascending from minus infinity.
    starts_ : ndarray of int64, shape (n_functions + 1,)
        Columns ``starts_[f]:starts_[f + 1]`` of the output are the indicators of function ``f``.
    n_features_in_ : int
        Number of base functions.

    Notes
    -----
    Choose the thresholds on the training queries only: call ``fit`` on these, and ``transform`` on all queries.

    Examples
    --------
    >>> scores = np.array([[0.0], [4.0], [np.nan], [2.0]])
    >>> binned = BinnedFeatures(n_bins=4).fit(scores)
    >>> binned.thresholds_[0]
    array([-inf,   1.,   2.,   3.])
    >>> binned.transform(scores).toarray().astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 1, 1],
           [0, 0, 0, 0],
           [1, 1, 0, 0]])
    """

    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__transform: ClassVar = {"qid": True}

    n_bins: int = 50
    _: KW_ONLY
    spacing: Literal["even", "quantile"] = "even"
    within: Literal["data", "query"] = "data"

    def fit(self, X: Any, y: object = None, *, qid: Any = None) -> Self:
        """Learn the thresholds from training scores.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_functions)
            Scores; NaN where missing.
        y : ignored
        qid : array-like, shape (n_rows,), optional
            Query ids; needed with ``within="query"``.
        """
        check_whole("n_bins", self.n_bins, 1, MOST_BINS)
        check_choice("spacing", self.spacing, ("even", "quantile"))
        check_choice("within", self.within, ("data", "query"))
        scores = self._scores(X, qid, "fit")
        self.thresholds_ = [
            _thresholds(column, int(self.n_bins), self.spacing)
            for start in range(0, scores.shape[1], _TILE)
            for column in scores[:, start : start + _TILE].T.copy()
        ]
        self.starts_ = offsets_of([len(thresholds) for thresholds in self.thresholds_])
        return self

    def transform(self, X: object, *, qid: ArrayLike | None = None) -> sparse.csr_matrix:
        """Return the indicators as a CSR matrix of float32, shape (n_rows, n_features_out).

        About half of the indicators of each non-missing score are 1; :meth:`transform_rows` stores one byte per score
        instead.

        Parameters
        ----------
        X, qid
            As in :meth:`fit`.
        """
        return self.transform_rows(X, qid=qid).tocsr()

    def transform_rows(self, X: Any, *, qid: object = None) -> BinnedRows:
        """Return the same rows with one byte per score; parameters and errors are as for :meth:`transform`."""
        check_is_fitted(self, "thresholds_")
        scores = self._scores(X, qid, "transform")
        codes = np.empty(scores.shape, dtype=np.uint8)
        for f, thresholds in enumerate(self.thresholds_):
            column = scores[:, f].astype(np.float64)
            below = np.searchsorted(thresholds, column, side="left")  # thresholds exceeded by each score
            codes[:, f] = np.where(np.isnan(column), 0, below)
        return BinnedRows(codes, self.starts_)

    def fit_transform(
        self, X: object, y: ArrayLike | None = None, *, qid: ArrayLike | None = None
    ) -> sparse.csr_matrix:
        """Call ``fit``, then ``transform`` on the same rows."""
        return self.fit(X, y, qid=qid).transform(X, qid=qid)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return names such as ``"bm25>1.5"``; by default from the names of the training frame, or ``x0, x1, ...``."""
        check_is_fitted(self, "thresholds_")
        names = _check_feature_names_in(self, input_features)
        return np.array(names_of_bins(names, self.thresholds_), dtype=object)

    def step_functions(self, coef: ArrayLike, input_features: object = None) -> list[StepFunction]:
        """Return, for each base function, the step function of its score that the weights of its indicators define.

        Parameters
        ----------
        coef : array-like, shape (n_features_out,)
            Weights of the indicators.
        input_features : array-like of str, optional
            Names of the base functions; by default those of the training frame, or ``feature 1, feature 2, ...``.

        Examples
        --------
        >>> binned = BinnedFeatures(n_bins=3).fit([[0.0], [3.0]])
        >>> binned.step_functions([0.5, 1.0, -0.25], ["bm25"])[0]
        StepFunction(name='bm25', thresholds=array([-inf, 1., 2.]), values=array([0. , 0.5 , 1.5 , 1.25]))
        """
        check_is_fitted(self, "thresholds_")
        if input_features is None:
            input_features = feature_names(getattr(self, "feature_names_in_", None), self.n_features_in_)
        names = _check_feature_names_in(self, input_features)
        weights = np.asarray(coef, dtype=np.float64)
        if weights.shape != (int(self.starts_[-1]),):
            raise BadInput(
                "coef",
                f"expected one weight for each of the {self.starts_[-1]} indicators, got shape {weights.shape}",
            )
        parts = np.split(weights, self.starts_[1:-1])
        return [
            StepFunction(str(name), thresholds.copy(), np.concatenate(([0.0], np.cumsum(part))))
            for name, thresholds, part in zip(names, self.thresholds_, parts, strict=True)
        ]

    def _scores(self, X: Any, qid: object, method: str) -> Float:
        X = validate_data(
            self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=method == "fit"
        )
        if self.within == "data":
            return np.asarray(X)
        if qid is None:
            raise BadInput(
                f"BinnedFeatures.{method}",
                "expected qid, because within='query'",
                "in a pipeline call sklearn.set_config(enable_metadata_routing=True) and pass qid along",
            )
        grouping = group_queries(qid, X.shape[0])
        if grouping.order is None:
            return minmax_within(X, grouping.offsets)
        scaled = np.empty(X.shape)
        scaled[grouping.order] = minmax_within(X[grouping.order], grouping.offsets)
        return scaled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def names_of_bins(names: NDArray[Any], thresholds: list[Float]) -> list[str]:
    """Return a name such as ``"bm25>1.5"`` for each threshold of each feature, with as many digits as differ."""
    edges = [(name, k) for name, ks in zip(names, thresholds, strict=False) for k in ks.tolist()]
    bins = [f"{name}>{k:g}" for name, k in edges]
    return bins if len(set(bins)) == len(bins) else [f"{name}>{k!r}" for name, k in edges]


def _thresholds(column: NDArray[Any], n_bins: int, spacing: str) -> Float:
    present = column[~np.isnan(column)]
    if not present.size:
        return np.array([-np.inf])
    if spacing == "quantile":
        return np.concatenate(([-np.inf], _quantiles(present, n_bins)))
    share = np.arange(1, n_bins) / n_bins
    low, high = float(present.min()), float(present.max())
    inner = np.unique(low * (1.0 - share) + high * share)
    return np.concatenate(([-np.inf], inner[(inner >= low) & (inner < high)]))


def _quantiles(values: NDArray[Any], n_bins: int) -> Float:
    """Return at most ``n_bins - 1`` numbers, each between a quantile of the values and the next larger value."""
    values = np.sort(values)
    n = values.shape[0]
    # for each k, the smallest value such that at least a share k / n_bins of all values are not larger
    below = np.unique(values[-(-n * np.arange(1, n_bins) // n_bins) - 1])
    below = below[below < values[-1]]
    above = values[np.searchsorted(values, below, side="right")]
    return np.unique(between(below.astype(np.float64), above.astype(np.float64)))


def between(below: Float, above: Float) -> Float:
    """Return numbers ``e`` with ``below <= e < above`` that divide float64 values and their float32 copies alike.

    ``x <= e`` holds for a float64 value if and only if it holds for its float32 copy, provided that ``below`` and
    ``above`` are finite and distinct in float32.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = below.astype(np.float32), above.astype(np.float32)
        middle = (0.5 * low.astype(np.float64) + 0.5 * high.astype(np.float64)).astype(np.float32)
    apart = (low < high) & np.isfinite(low) & np.isfinite(high)
    exact = 0.5 * below + 0.5 * above
    # the midpoint of adjacent floats rounds to one of them, possibly to ``above``
    exact = np.where((below <= exact) & (exact < above), exact, below)
    return np.where(apart, rounding_to(np.where(middle < high, middle, low)), exact)
