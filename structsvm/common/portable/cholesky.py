"""Cholesky factorisation of a matrix that may be singular, without LAPACK."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable import arrays
from structsvm.common.portable.sums import dot_at
from structsvm.protocols import Float

_SINGULAR_SHARE = 1e-10
"""A pivot below this fraction of its diagonal entry counts as zero; rounding errors are about ``n * 1e-16`` times the
entry."""


def solve(A: Float, b: Float) -> Float:
    """Return a solution of ``A x = b``, where ``A`` is positive semidefinite and ``b`` is in the range of ``A``.

    If ``A`` is singular, ``x`` is zero at each row that depends linearly on earlier rows.
    """
    L, x = np.array(A), np.array(b)
    _factor(L)
    _solve(L, x)
    return x


def shortest(A: Float, b: Float) -> Float:
    """Return the shortest solution of ``A x = b``, where ``A`` is positive semidefinite and ``b`` is in its range."""
    L = factor(A)
    # A = L L', and the columns of independent rows of L are a basis of the range
    L = L[:, np.diagonal(L) > 0.0]
    inside = arrays.matmul(L.T, L)
    return arrays.products(L, arrays.solve(inside, arrays.solve(inside, arrays.products(L.T, b))))


def inverse(A: Float) -> Float:
    """Return the inverse of the submatrix of ``A`` of rows that are independent of earlier rows, with zeros
    elsewhere."""
    L = np.array(A)
    _factor(L)
    out = np.diag((np.diagonal(L) > 0.0).astype(np.float64))
    for i in np.flatnonzero(np.diagonal(L) > 0.0):
        _solve(L, out[i])
    return out


def factor(A: Float) -> Float:
    """Return lower triangular ``L`` with ``A = L L'``; its diagonal is zero at rows that depend on earlier rows."""
    L = np.array(A)
    _factor(L)
    return np.tril(L)


@kernel
def _factor(A):
    """Overwrite the lower triangle of ``A`` by its factor, row by row."""
    n, flat = A.shape[0], A.reshape(-1)
    for i in range(n):
        # entry (i, j) needs the dot product of the first j entries of rows i and j, which are final by now
        for j in range(i):
            pivot = A[j, j]
            A[i, j] = (A[i, j] - dot_at(flat, i * n, flat, j * n, j)) / pivot if pivot > 0.0 else 0.0
        left = A[i, i] - dot_at(flat, i * n, flat, i * n, i)
        # in a dependent row, the remainder is a rounding error of either sign
        A[i, i] = math.sqrt(left) if left > _SINGULAR_SHARE * A[i, i] else 0.0


@kernel
def _solve(L, b):
    """Overwrite ``b`` by the solution of ``L L' x = b``."""
    n, flat = L.shape[0], L.reshape(-1)
    # forward: L z = b
    for i in range(n):
        b[i] = (b[i] - dot_at(flat, i * n, b, 0, i)) / L[i, i] if L[i, i] > 0.0 else 0.0
    # backward: L' x = z, by rows of L, because they are contiguous
    for i in range(n - 1, -1, -1):
        if L[i, i] > 0.0:
            b[i] /= L[i, i]
            for j in range(i):
                b[j] -= L[i, j] * b[i]
