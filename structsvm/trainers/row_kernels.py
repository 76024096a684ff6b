"""Kernels for the matrix products of a pass, for dense and CSR matrices; other formats provide their own
(``CompiledRows``)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import add_rows, gathered_dot, row_products
from structsvm.protocols import CompiledRows, Int
from structsvm.queries import check_sparse

_NARROW = 256
"""Number of features up to which determining the features of each query costs more time than it saves."""


@dataclass(frozen=True, eq=False)
class Rows:
    """:class:`structsvm.protocols.CompiledRows` of a CSR matrix or of a dense matrix, which may be a memory map."""

    shape: tuple[int, int]
    nbytes: int
    row_arrays: tuple[NDArray[Any], ...]
    row_kernels: tuple[Any, Any, Any]


def rows_of(X: Any) -> CompiledRows:
    """Return ``X`` (ndarray, CSR matrix or CompiledRows) as CompiledRows, without copying data."""
    if isinstance(X, (sparse.csr_matrix, sparse.csr_array)):
        check_sparse(X)  # the kernels do not check indices
        shape, n_bytes = (int(X.shape[0]), int(X.shape[1])), int(X.data.nbytes + X.indices.nbytes)
        return Rows(
            shape, n_bytes, (X.data, X.indices, X.indptr), (_csr_scores, _csr_combine, _csr_query_joint)
        )
    if bool(sparse.issparse(X)):  # bool() avoids a type guard that narrows X to a type without attributes
        raise BadInput(
            "X", f"expected a dense array or a CSR matrix, got format {X.format!r}", "use X.tocsr()"
        )
    if isinstance(X, CompiledRows):
        return X
    array = np.asarray(X)
    shape = int(array.shape[0]), int(array.shape[1])
    return Rows(shape, array.nbytes, (array,), (row_products, _dense_combine, _dense_query_joint))


def support_of(rows: CompiledRows, offsets: Int) -> tuple[Int, Int] | None:
    """Return the features that each query uses (``Problem.support``), or None unless the rows are wide and sparse."""
    if rows.row_kernels[0] is not _csr_scores or rows.shape[1] <= _NARROW:
        return None
    # multiply the sparsity patterns (queries x rows) and (rows x features); stored zeros count as non-zeros
    _, indices, indptr = rows.row_arrays
    n, n_queries = rows.shape[0], offsets.shape[0] - 1
    stored = sparse.csr_array((np.ones(indices.shape[0], dtype=np.bool_), indices, indptr), shape=rows.shape)
    queries = sparse.csr_array((np.ones(n, dtype=np.bool_), np.arange(n), offsets), shape=(n_queries, n))
    touched = queries @ stored
    touched.sort_indices()
    return touched.indptr.astype(np.int64), touched.indices.astype(np.int64)


# Each format has kernels for the scores ``X w``, for ``joint += sum_q weights_q X_q' coef_q``, and for ``X_q' coef_q``
# of each query. They sum in float64 for any dtype of X. The CSR kernels skip rows with coefficient zero, which are rows
# without a wrongly ordered pair.


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
