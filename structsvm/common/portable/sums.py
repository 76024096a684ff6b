"""Sums of products for kernels, in eight fixed lanes (:mod:`structsvm.common.portable.lanes`).

Each sum has the same structure: a loop over several lanes at once, a loop over single lanes, and a tail of fewer than
eight elements, which is read as the last eight elements with zeros in place of those already added.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.lanes import load, load_row, spread, store, tail, tail_row, total, zero

Float = NDArray[np.float64]


@kernel
def dot_at(a, i, b, k, n):  # type: ignore[no-untyped-def]
    """Return ``sum_j a[i + j] * b[k + j]`` for ``j < n``."""
    if n < 8:  # ``tail`` would read before the beginning of the vector
        out = 0.0
        for j in range(n):
            out += a[i + j] * b[k + j]
        return out
    # four alternating sums: an addition takes about four cycles, during which three others can start
    s0, s1, s2, s3 = zero(), zero(), zero(), zero()
    j = 0
    while j + 32 <= n:
        s0 = s0 + load(a, i + j) * load(b, k + j)
        s1 = s1 + load(a, i + j + 8) * load(b, k + j + 8)
        s2 = s2 + load(a, i + j + 16) * load(b, k + j + 16)
        s3 = s3 + load(a, i + j + 24) * load(b, k + j + 24)
        j += 32
    while j + 8 <= n:
        s0 = s0 + load(a, i + j) * load(b, k + j)
        j += 8
    if j < n:
        s1 = s1 + tail(a, i + n - 8, n - j) * tail(b, k + n - 8, n - j)
    return total((s0 + s1) + (s2 + s3))


def _dot(a, b):  # type: ignore[no-untyped-def]
    # a literal 0 would have its own type, for which dot_at would be compiled again
    return dot_at(a, np.int64(0), b, np.int64(0), a.shape[0])


dot: Callable[[Any, Any], float] = kernel(_dot)


@kernel
def gathered_dot(a, i, b, index, k, n):  # type: ignore[no-untyped-def]
    """Return ``sum_j a[i + j] * b[index[k + j]]`` for ``j < n``."""
    # without lanes, because loading from scattered addresses takes longer than adding
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    j = 0
    while j + 4 <= n:
        s0 += a[i + j] * b[index[k + j]]
        s1 += a[i + j + 1] * b[index[k + j + 1]]
        s2 += a[i + j + 2] * b[index[k + j + 2]]
        s3 += a[i + j + 3] * b[index[k + j + 3]]
        j += 4
    while j < n:
        s0 += a[i + j] * b[index[k + j]]
        j += 1
    return (s0 + s1) + (s2 + s3)


@kernel
def squared_distance(a, b):  # type: ignore[no-untyped-def]
    """Return ``sum_j (a[j] - b[j]) ** 2``."""
    n = a.shape[0]
    if n < 8:
        out = 0.0
        for j in range(n):
            out += (a[j] - b[j]) * (a[j] - b[j])
        return out
    s0, s1 = zero(), zero()
    j = 0
    while j + 16 <= n:
        d0, d1 = load(a, j) - load(b, j), load(a, j + 8) - load(b, j + 8)
        s0 = s0 + d0 * d0
        s1 = s1 + d1 * d1
        j += 16
    while j + 8 <= n:
        d0 = load(a, j) - load(b, j)
        s0 = s0 + d0 * d0
        j += 8
    if j < n:
        d0 = tail(a, n - 8, n - j) - tail(b, n - 8, n - j)
        s1 = s1 + d0 * d0
    return total(s0 + s1)


@kernel
def row_products(X, start, stop, w, out):  # type: ignore[no-untyped-def]
    """Set ``out[r - start] = X[r] . w``; the bits of a product do not depend on the other rows."""
    m = X.shape[1]
    r = start
    if m < 8:
        # rows of fewer than eight columns do not fill the lanes: four rows at once, each summed in the order of its
        # columns
        while r + 4 <= stop:
            a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
            for j in range(m):
                a0 += X[r, j] * w[j]
                a1 += X[r + 1, j] * w[j]
                a2 += X[r + 2, j] * w[j]
                a3 += X[r + 3, j] * w[j]
            i = r - start
            out[i], out[i + 1], out[i + 2], out[i + 3] = a0, a1, a2, a3
            r += 4
        while r < stop:
            a0 = 0.0
            for j in range(m):
                a0 += X[r, j] * w[j]
            out[r - start] = a0
            r += 1
        return
    whole, rest = m - m % 8, m % 8
    # Two rows share the loads of w and are read as one stream of memory. With four or eight rows, which form as many
    # streams, float32 rows that were not in the cache took 1.3 to 1.5 times as long on an Intel Xeon (Sapphire Rapids),
    # and rows in the cache 0.9 to 1.0 times as long.
    while r + 2 <= stop:
        s0, s1 = zero(), zero()
        for j in range(0, whole, 8):
            v = load(w, j)
            s0 = s0 + load_row(X, r, j) * v
            s1 = s1 + load_row(X, r + 1, j) * v
        if rest > 0:
            v = tail(w, m - 8, rest)
            s0 = s0 + tail_row(X, r, m - 8, rest) * v
            s1 = s1 + tail_row(X, r + 1, m - 8, rest) * v
        out[r - start], out[r - start + 1] = total(s0), total(s1)
        r += 2
    # a remaining single row, with the same operations as a row of a pair
    while r < stop:
        s0 = zero()
        for j in range(0, whole, 8):
            s0 = s0 + load_row(X, r, j) * load(w, j)
        if rest > 0:
            s0 = s0 + tail_row(X, r, m - 8, rest) * tail(w, m - 8, rest)
        out[r - start] = total(s0)
        r += 1


@kernel
def add_rows(X, start, stop, coef, shift, factor, out):  # type: ignore[no-untyped-def]
    """Add ``factor * sum_r coef[r - shift] * X[r]`` to ``out``, each column in the order of the rows."""
    m = X.shape[1]
    r = start
    # four rows at once share the load and store of out; LLVM may vectorise the loop over columns, as each column is a
    # sum of its own
    while r + 4 <= stop:
        i = r - shift
        a0, a1, a2, a3 = coef[i] * factor, coef[i + 1] * factor, coef[i + 2] * factor, coef[i + 3] * factor
        for j in range(m):
            out[j] += (X[r, j] * a0 + X[r + 1, j] * a1) + (X[r + 2, j] * a2 + X[r + 3, j] * a3)
        r += 4
    while r < stop:
        a0 = coef[r - shift] * factor
        for j in range(m):
            out[j] += X[r, j] * a0
        r += 1


@kernel
def _matmul(A, B, transposed, out):  # type: ignore[no-untyped-def]
    """Set ``out = A @ B``, or ``A.T @ B``; each entry is a sum in the order of the inner dimension."""
    n, h = out.shape
    inner = B.shape[0]
    i = 0
    while i < n:
        rows = min(4, n - i)
        c = 0
        while c < h:
            if rows == 4 and h >= 8:
                # a block of four rows by eight columns stays in registers; the last block of a row may overlap the one
                # before it, and then writes the same numbers again
                c = min(c, h - 8)
                s0, s1, s2, s3 = zero(), zero(), zero(), zero()
                for j in range(inner):
                    b = load_row(B, j, c)
                    if transposed:
                        a0, a1, a2, a3 = A[j, i], A[j, i + 1], A[j, i + 2], A[j, i + 3]
                    else:
                        a0, a1, a2, a3 = A[i, j], A[i + 1, j], A[i + 2, j], A[i + 3, j]
                    s0 = s0 + spread(a0) * b
                    s1 = s1 + spread(a1) * b
                    s2 = s2 + spread(a2) * b
                    s3 = s3 + spread(a3) * b
                store(out[i], c, s0)
                store(out[i + 1], c, s1)
                store(out[i + 2], c, s2)
                store(out[i + 3], c, s3)
                c += 8
            else:
                for r in range(i, i + rows):
                    s = 0.0
                    for j in range(inner):
                        s += (A[j, r] if transposed else A[r, j]) * B[j, c]
                    out[r, c] = s
                c += 1
        i += rows


# Functions that replace ``@`` in Python: BLAS has different code, with different last bits, for each type of processor.


def norm(a: Float) -> float:
    """Return the Euclidean norm."""
    return math.sqrt(dot(a, a))


def products(A: NDArray[Any], x: Float) -> Float:
    """Return ``A @ x``; a matrix that is not C-ordered is copied."""
    if x.shape != A.shape[1:]:  # the kernel checks no bounds, and a crafted model file may have any weights
        raise BadInput("weights", f"expected {A.shape[1]} numbers, one per column, got shape {x.shape}")
    out = np.empty(A.shape[0])
    row_products(np.ascontiguousarray(A), 0, A.shape[0], x, out)
    return out


def combine(a: Float, A: NDArray[Any]) -> Float:
    """Return ``a @ A``; a matrix that is not C-ordered is copied."""
    out = np.zeros(A.shape[1])
    add_rows(np.ascontiguousarray(A), 0, A.shape[0], a, 0, 1.0, out)
    return out


def gram(A: NDArray[Any], B: NDArray[Any]) -> Float:
    """Return ``A @ B.T``."""
    A, B = np.ascontiguousarray(A), np.ascontiguousarray(B)
    out = np.empty((A.shape[0], B.shape[0]))
    for i in range(A.shape[0]):
        row_products(B, 0, B.shape[0], A[i], out[i])
    return out


def matmul(A: Any, B: Float, *, transposed: bool = False) -> Float:
    """Return ``A @ B``, or ``A.T @ B``; SciPy multiplies a sparse ``A``, and adds in the order of its entries."""
    if not isinstance(A, np.ndarray):
        return np.asarray((A.T if transposed else A) @ B)
    A, B = np.ascontiguousarray(A, dtype=np.float64), np.ascontiguousarray(B)
    out = np.empty((A.shape[1] if transposed else A.shape[0], B.shape[1]))
    _matmul(A, B, transposed, out)
    return out
