"""Linear algebra of NumPy arrays without BLAS and LAPACK, whose bits depend on the processor and on their threads.

Elementwise operations and ``sum``, which adds in a fixed order, for matrices that are small or read once. Kernels and
trainers have :mod:`structsvm.common.portable.sums`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]

_BLOCK = 1 << 16
"""Elements worked on at once: products are written before they are added, and should stay in the cache."""


def dot(a: ArrayLike, b: ArrayLike) -> float:
    return float(np.multiply(a, b).sum())


def norm(a: ArrayLike) -> float:
    """Return the Euclidean norm, of a matrix that of Frobenius."""
    return math.sqrt(float(np.square(a).sum()))


def products(A: ArrayLike, x: ArrayLike) -> Float:
    """Return ``A @ x``."""
    A, x = np.ascontiguousarray(A), np.asarray(x)
    step = max(1, _BLOCK // max(1, A.shape[1]))
    parts = [(A[i : i + step] * x).sum(axis=1) for i in range(0, A.shape[0], step)]
    return np.concatenate(parts) if parts else np.zeros(0)


def combine(a: ArrayLike, A: ArrayLike) -> Float:
    """Return ``a @ A``."""
    a, A = np.asarray(a), np.ascontiguousarray(A)
    step = max(1, _BLOCK // max(1, A.shape[1]))
    out = np.zeros(A.shape[1])
    for i in range(0, A.shape[0], step):
        out += (A[i : i + step] * a[i : i + step, np.newaxis]).sum(axis=0)
    return out


def matmul(A: ArrayLike, B: ArrayLike) -> Float:
    """Return ``A @ B``, one elementwise pass for each column of ``A``: for a short inner dimension."""
    A, B = np.asarray(A), np.asarray(B)
    out = np.zeros((A.shape[0], B.shape[1]))
    for k in range(A.shape[1]):
        out += A[:, k, np.newaxis] * B[k]
    return out


def solve(A: ArrayLike, b: ArrayLike) -> Float:
    """Return the solution of ``A x = b`` by elimination with row pivoting; ``b`` may have several columns.
    Raises ``numpy.linalg.LinAlgError`` for a singular matrix, as ``numpy.linalg.solve`` does.
    """
    A, b = np.array(A, dtype=np.float64), np.asarray(b, dtype=np.float64)
    x = b.reshape(A.shape[0], -1).copy()
    for k in range(A.shape[0]):
        pivot = k + int(np.argmax(np.abs(A[k:, k])))
        if not A[pivot, k] != 0.0:
            raise np.linalg.LinAlgError("Singular matrix")
        if pivot != k:
            A[[k, pivot]], x[[k, pivot]] = A[[pivot, k]], x[[pivot, k]]
        factor = A[k + 1 :, k, np.newaxis] / A[k, k]
        A[k + 1 :, k:] -= factor * A[k, k:]
        x[k + 1 :] -= factor * x[k]
    for k in range(A.shape[0] - 1, -1, -1):
        x[k] = (x[k] - combine(A[k, k + 1 :], x[k + 1 :])) / A[k, k]
    return x.reshape(b.shape)


def inverse(A: ArrayLike) -> Float:
    """Return the inverse of a square matrix; errors as :func:`solve`."""
    return solve(A, np.eye(np.shape(A)[0]))
