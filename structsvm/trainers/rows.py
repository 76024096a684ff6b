"""Rows: what a pass does with features, once for each format (dense, CSR, compiled formats as they are)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import add_rows, gathered_dot, row_products
from structsvm.protocols import CompiledRows, Int
from structsvm.queries import check_sparse

_NARROW = 256
"""With at most this many features, finding out which of them a query touches costs more than it saves."""


class DenseRows:
    """A dense matrix, which may be a memory map, as :class:`structsvm.protocols.CompiledRows`."""

    def __init__(self, X: NDArray[Any]) -> None:
        self._X = np.asarray(X)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._X.shape[0]), int(self._X.shape[1])

    @property
    def nbytes(self) -> int:
        return int(self._X.nbytes)

    @property
    def row_arrays(self) -> tuple[NDArray[Any]]:
        """The matrix itself."""
        return (self._X,)

    @property
    def row_kernels(self) -> tuple[Any, Any, Any]:
        """See :class:`structsvm.protocols.CompiledRows`."""
        return row_products, _dense_combine, _dense_query_joint


class CSRRows:
    """A CSR matrix as :class:`structsvm.protocols.CompiledRows`; its indices are checked before kernels use them."""

    def __init__(self, X: Any) -> None:
        check_sparse(X)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self._data, self._indices, self._indptr = X.data, X.indices, X.indptr

    @property
    def nbytes(self) -> int:
        return int(self._data.nbytes + self._indices.nbytes)

    @property
    def row_arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The values, their columns, and where each row begins among them."""
        return self._data, self._indices, self._indptr

    @property
    def row_kernels(self) -> tuple[Any, Any, Any]:
        """See :class:`structsvm.protocols.CompiledRows`."""
        return _csr_scores, _csr_combine, _csr_query_joint


def rows_of(X: Any) -> CompiledRows:
    """Return the rows of ``X`` (ndarray, CSR or CompiledRows) in the form in which a pass reads them, uncopied."""
    if isinstance(X, (sparse.csr_matrix, sparse.csr_array)):
        return CSRRows(X)
    if bool(sparse.issparse(X)):  # bool: the type guard would narrow X to a type without attributes
        raise ValueError(f"X: expected a dense array or a CSR matrix, got format {X.format!r}; use X.tocsr()")
    return X if isinstance(X, CompiledRows) else DenseRows(X)


def support_of(rows: CompiledRows, offsets: Int) -> tuple[Int, Int] | None:
    """Return which features each query touches (``support`` of ``Problem``), for wide sparse rows only."""
    if not isinstance(rows, CSRRows) or rows.shape[1] <= _NARROW:
        return None
    _, indices, indptr = rows.row_arrays
    return _feature_support(indices, indptr, offsets, rows.shape[1])


def _feature_support(
    indices: NDArray[Any], indptr: NDArray[Any], offsets: Int, n_features: int
) -> tuple[Int, Int]:
    """Return the sorted distinct features of each query: a cut of the query has no other non-zero entry."""
    counts, seen = np.zeros(offsets.shape[0], dtype=np.int64), np.full(n_features, -1, dtype=np.int64)
    _count_support(indices, indptr, offsets, seen, counts)
    start = np.cumsum(counts).astype(np.int64)
    features = np.empty(int(start[-1]), dtype=np.int64)
    seen[:] = -1
    _fill_support(indices, indptr, offsets, seen, start, features)
    return start, features


# Sums are float64 whatever the type of X.


@kernel
def _dense_combine(X, offsets, first, last, weights, coef, joint):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        add_rows(X, offsets[q], offsets[q + 1], coef, offsets[first], weights[q], joint)


@kernel
def _dense_query_joint(X, offsets, first, last, coef, joint):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        row = joint[q - first]
        row[:] = 0.0
        add_rows(X, offsets[q], offsets[q + 1], coef, offsets[first], 1.0, row)


@kernel
def _csr_scores(data, indices, indptr, start, stop, w, out):  # type: ignore[no-untyped-def]
    for r in range(start, stop):
        i = indptr[r]
        out[r - start] = gathered_dot(data, i, w, indices, i, indptr[r + 1] - i)


@kernel
def _csr_combine(data, indices, indptr, offsets, first, last, weights, coef, joint):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        for r in range(offsets[q], offsets[q + 1]):
            a = coef[r - offsets[first]] * weights[q]
            if a != 0.0:
                for i in range(indptr[r], indptr[r + 1]):
                    joint[indices[i]] += a * data[i]


@kernel
def _csr_query_joint(data, indices, indptr, offsets, first, last, coef, joint):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        row = joint[q - first]
        row[:] = 0.0
        for r in range(offsets[q], offsets[q + 1]):
            a = coef[r - offsets[first]]
            if a != 0.0:
                for i in range(indptr[r], indptr[r + 1]):
                    row[indices[i]] += a * data[i]


@kernel
def _count_support(indices, indptr, offsets, seen, counts):  # type: ignore[no-untyped-def]
    for q in range(offsets.shape[0] - 1):
        for i in range(indptr[offsets[q]], indptr[offsets[q + 1]]):
            if seen[indices[i]] != q:
                seen[indices[i]] = q
                counts[q + 1] += 1


@kernel
def _fill_support(indices, indptr, offsets, seen, start, features):  # type: ignore[no-untyped-def]
    for q in range(offsets.shape[0] - 1):
        k = start[q]
        for i in range(indptr[offsets[q]], indptr[offsets[q + 1]]):
            if seen[indices[i]] != q:
                seen[indices[i]] = q
                features[k] = indices[i]
                k += 1
        features[start[q] : start[q + 1]].sort()
