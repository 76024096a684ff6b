"""Linear algebra of NumPy arrays without BLAS and LAPACK, whose last bits depend on processor and number of threads.

The functions consist of elementwise operations and ``sum``, which adds in a fixed order. They are for matrices that are
small or read once; kernels and trainers use :mod:`structsvm.common.portable.sums`.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]

_CACHED_ELEMENTS = 1 << 16
"""Elements per block: products are stored before they are added, and a block of them stays in the cache."""


def dot(a: ArrayLike, b: ArrayLike) -> float:
    """Return ``a @ b`` of vectors."""
    return float(np.multiply(a, b).sum())


def norm(a: ArrayLike) -> float:
    """Return the Euclidean norm of a vector, or the Frobenius norm of a matrix."""
    return math.sqrt(float(np.square(a).sum()))


def products(A: ArrayLike, x: ArrayLike) -> Float:
    """Return ``A @ x``."""
    A, x = np.ascontiguousarray(A), np.asarray(x)
    step = max(1, _CACHED_ELEMENTS // max(1, A.shape[1]))
    parts = [(A[i : i + step] * x).sum(axis=1) for i in range(0, A.shape[0], step)]
    return np.concatenate(parts) if parts else np.zeros(0)


def combine(a: ArrayLike, A: ArrayLike) -> Float:
    """Return ``a @ A``."""
    a, A = np.asarray(a), np.ascontiguousarray(A)
    step = max(1, _CACHED_ELEMENTS // max(1, A.shape[1]))
    out = np.zeros(A.shape[1])
    for i in range(0, A.shape[0], step):
        out += (A[i : i + step] * a[i : i + step, np.newaxis]).sum(axis=0)
    return out


def matmul(A: ArrayLike, B: ArrayLike) -> Float:
    """Return ``A @ B`` by one elementwise pass per column of ``A``, which is fast for a short inner dimension."""
    A, B = np.asarray(A), np.asarray(B)
    out = np.zeros((A.shape[0], B.shape[1]))
    for k in range(A.shape[1]):
        out += A[:, k, np.newaxis] * B[k]
    return out


def solve(A: ArrayLike, b: ArrayLike) -> Float:
    """Return the solution of ``A x = b`` by elimination with row pivoting; ``b`` may have several columns.

    Raise ``numpy.linalg.LinAlgError`` for a singular matrix, as ``numpy.linalg.solve`` does.
    """
    A, b = np.array(A, dtype=np.float64), np.asarray(b, dtype=np.float64)
    x = b.reshape(A.shape[0], -1).copy()
    for k in range(A.shape[0]):
        pivot = k + int(np.argmax(np.abs(A[k:, k])))
        if not A[pivot, k] != 0.0:
            raise np.linalg.LinAlgError("Singular matrix")
        if pivot != k:
            A[[k, pivot]], x[[k, pivot]] = A[[pivot, k]], x[[pivot, k]]
        # after this step column k is zero below its diagonal; later steps do not read it again
        factor = A[k + 1 :, k, np.newaxis] / A[k, k]
        A[k + 1 :, k:] -= factor * A[k, k:]
        x[k + 1 :] -= factor * x[k]
    for k in range(A.shape[0] - 1, -1, -1):
        x[k] = (x[k] - combine(A[k, k + 1 :], x[k + 1 :])) / A[k, k]
    return x.reshape(b.shape)


def inverse(A: ArrayLike) -> Float:
    """Return the inverse of a square matrix; errors are those of :func:`solve`."""
    return solve(A, np.eye(np.shape(A)[0]))
