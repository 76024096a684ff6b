"""Feature scaling, over the whole data set or within each query."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from structsvm.protocols import Float
from structsvm.queries import group_queries

__all__ = ["SCALINGS", "QueryScaler"]

SCALINGS = ("minmax", "zscore", "percentile")


class QueryScaler(TransformerMixin, BaseEstimator):
    """Bring features to comparable ranges, within each query or with figures learned from the training data.

    Within a query, scores of systems that live on different scales per topic become comparable (thesis 3.3.2:
    acc4 is ``"minmax"``, acc3 is ``"percentile"``), and nothing is learned in ``fit``. A constant feature becomes 0.

    Parameters
    ----------
    method : {"minmax", "zscore", "percentile"}, default="minmax"
        ``minmax`` to [0, 1]; ``zscore`` to mean 0 and standard deviation 1; ``percentile`` to the share of values
        that are smaller, ties counting half.
    within : {"query", "data"}, default="query"
        Whose figures are used. ``"percentile"`` is defined within a query only.

    Attributes
    ----------
    n_features_in_ : int
    shift_, factor_ : ndarray, shape (n_features,)
        With ``within="data"``: the result is ``(X - shift_) * factor_``.

    Examples
    --------
    >>> QueryScaler().fit_transform([[1.0], [3.0], [5.0], [9.0]], qid=[1, 1, 2, 2]).ravel()
    array([0., 1., 0., 1.])
    """

    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__transform: ClassVar = {"qid": True}

    def __init__(
        self,
        method: Literal["minmax", "zscore", "percentile"] = "minmax",
        *,
        within: Literal["query", "data"] = "query",
    ) -> None:
        self.method = method
        self.within = within

    def fit(self, X: Any, y: Any = None, *, qid: Any = None) -> QueryScaler:
        """Learn the figures (``within="data"``) or just the number of features.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
            Sparse input stays sparse only where zero stays zero; it is refused otherwise.
        y : ignored
        qid : array-like, shape (n_rows,), optional
            Query ids; if given here, ``transform`` insists on them too.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown method, or sparse input.
        """
        if self.method not in SCALINGS:
            raise ValueError(f"method={self.method!r}: expected one of {', '.join(map(repr, SCALINGS))}")
        if self.within not in ("query", "data"):
            raise ValueError(f"within={self.within!r}: expected 'query' or 'data'")
        if self.method == "percentile" and self.within == "data":
            raise ValueError("method='percentile': expected within='query', got within='data'")
        X = self._validate(X, reset=True)
        if self.within == "data":
            self.shift_, self.factor_ = _figures(X, self.method)
        self._saw_qid = qid is not None
        return self

    def transform(self, X: Any, *, qid: Any = None) -> Float:
        """Scale ``X``; a new array of its float type.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
        qid : array-like, shape (n_rows,), optional
            Required with ``within="query"`` where ``fit`` saw it.

        Returns
        -------
        ndarray, shape (n_rows, n_features)

        Raises
        ------
        ValueError
            If ``qid`` is missing or of another length.
        """
        check_is_fitted(self, "n_features_in_")
        X = self._validate(X, reset=False)
        if self.within == "data":
            return ((X - self.shift_) * self.factor_).astype(X.dtype, copy=False)
        if qid is None and self._saw_qid:
            raise ValueError(
                "QueryScaler.transform: expected qid, as in fit; in a pipeline call "
                "sklearn.set_config(enable_metadata_routing=True) and pass qid along"
            )
        grouping = group_queries(qid, X.shape[0])
        out = np.empty_like(X)
        for first, last in zip(grouping.offsets[:-1], grouping.offsets[1:], strict=True):
            rows = slice(first, last) if grouping.order is None else grouping.order[first:last]
            block = X[rows]
            if self.method == "percentile":
                out[rows] = _percentile(block)
            else:
                shift, factor = _figures(block, self.method)
                out[rows] = (block - shift) * factor
        return out

    def fit_transform(self, X: Any, y: Any = None, *, qid: Any = None) -> Float:
        """``fit`` then ``transform`` on the same rows."""
        return self.fit(X, y, qid=qid).transform(X, qid=qid)

    def _validate(self, X: Any, *, reset: bool) -> Any:
        if sparse.issparse(X):
            raise ValueError(
                "QueryScaler: expected a dense matrix, got a sparse one; scaling would fill its zeros "
                "(use X.toarray(), or no scaling)"
            )
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=reset)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _figures(X: Any, method: str) -> tuple[Float, Float]:
    """Shift and factor a column; a constant column has factor 0 and becomes 0."""
    if method == "minmax":
        shift = X.min(axis=0).astype(np.float64)
        spread = X.max(axis=0).astype(np.float64) - shift
    else:
        shift = X.mean(axis=0, dtype=np.float64)
        spread = X.std(axis=0, dtype=np.float64)
        # a constant column has a spread of rounding errors, not of zero
        spread[X.min(axis=0) == X.max(axis=0)] = 0.0
    factor = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    return shift, factor


def _percentile(block: Any) -> Float:
    """Share of the query's values below each value, ties half: 0 for a single document."""
    n = block.shape[0]
    if n == 1:
        return np.zeros(block.shape)
    ordered = np.sort(block, axis=0)
    out = np.empty(block.shape)
    for j in range(block.shape[1]):
        below = np.searchsorted(ordered[:, j], block[:, j], side="left")
        not_above = np.searchsorted(ordered[:, j], block[:, j], side="right")
        out[:, j] = (below + not_above - 1) / 2 / (n - 1)
    return out
