"""Cholesky's factor of a matrix that may be singular, without LAPACK."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot_at
from structsvm.protocols import Float

_ROUNDING = 1e-10
"""Share of its diagonal entry below which a pivot counts as zero; rounding leaves about ``n * 1e-16``."""


def solve(A: Float, b: Float) -> Float:
    """Return a solution of ``A x = b``, where ``A`` is positive semidefinite and ``b`` in its range.
    Of a singular matrix, ``x`` is zero at each row that depends on those before it.
    """
    L, x = np.array(A), np.array(b)
    _factor(L)
    _solve(L, x)
    return x


def inverse(A: Float) -> Float:
    """Return the inverse of the rows that do not depend on those before them, and zeros at those that do."""
    L = np.array(A)
    _factor(L)
    out = np.eye(L.shape[0])[np.diagonal(L) > 0.0]
    for row in out:
        _solve(L, row)
    whole = np.zeros(L.shape)
    whole[np.diagonal(L) > 0.0] = out
    return whole


def factor(A: Float) -> Float:
    """Return the lower triangle ``L`` of ``A = L L'``, whose diagonal is zero at rows that depend on others."""
    L = np.array(A)
    _factor(L)
    return np.tril(L)


@kernel
def _factor(A):
    """Overwrite ``A`` by the factor, in its lower triangle."""
    n, flat = A.shape[0], A.reshape(-1)
    for i in range(n):
        for j in range(i):
            pivot = A[j, j]
            A[i, j] = (A[i, j] - dot_at(flat, i * n, flat, j * n, j)) / pivot if pivot > 0.0 else 0.0
        left = A[i, i] - dot_at(flat, i * n, flat, i * n, i)
        A[i, i] = math.sqrt(left) if left > _ROUNDING * A[i, i] else 0.0


@kernel
def _solve(L, b):
    """Overwrite ``b`` by the solution."""
    n, flat = L.shape[0], L.reshape(-1)
    for i in range(n):
        b[i] = (b[i] - dot_at(flat, i * n, b, 0, i)) / L[i, i] if L[i, i] > 0.0 else 0.0
    for i in range(n - 1, -1, -1):
        if L[i, i] > 0.0:
            b[i] /= L[i, i]
            for j in range(i):
                b[j] -= L[i, j] * b[i]
