"""Stable sorting of scores in descending order, together with their row indices, for the oracles."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel

BLOCK = 128
"""Maximum number of values that are sorted by counting; longer arrays are sorted in blocks of this size and merged."""


def sort_buffers(n: int) -> tuple[NDArray[Any], ...]:
    """Return the buffers of ``sort_descending``, for ``n`` values and rows and for the keys and ranks of a block."""
    # allocated outside the kernels, because kernels that allocate take long to compile
    ranks, filled = np.empty((2, BLOCK), np.int32)
    return np.empty(n), np.empty(n, np.int32), np.empty(BLOCK, np.float32), ranks, filled


@kernel(inline="always")
def _sort_block(values, rows, n, keys, ranks, filled, out_values, out_rows):  # type: ignore[no-untyped-def]
    """Sort up to ``BLOCK`` values stably in descending order into ``out_values``, and their rows into ``out_rows``."""
    # The rank of a value is the number of larger values. Up to about 128 values, n^2 comparisons without a branch,
    # sixteen at a time in vectors of float32, are faster than n log n unpredictable branches. The keys are padded to
    # whole unrolled vectors, as short loops would otherwise spend most of their time on remainders. The padding is less
    # than every value, and therefore does not change a count.
    padded = np.uint64((n + 31) // 32 * 32)
    for i in range(n):
        keys[i] = np.float32(values[i])
        filled[i] = 0
    for i in range(np.uint64(n), padded):
        keys[i] = -np.inf
    for i in range(n):
        key, rank = keys[i], np.int32(0)
        for j in range(padded):
            rank = np.int32(rank + np.int32(keys[j] > key))
        ranks[i] = rank
    # Rounding to float32 never swaps two values, but may make values equal, which then have the same rank. They take
    # consecutive ranks from this rank on, and each is inserted before the smaller values among them. If the float64
    # values are equal too, as at zero weights, no value is moved.
    for i in range(n):
        value, first = values[i], np.uint64(ranks[i])
        at = first + np.uint64(filled[first])
        filled[first] += 1
        while at > first and out_values[at - np.uint64(1)] < value:
            out_values[at] = out_values[at - np.uint64(1)]
            out_rows[at] = out_rows[at - np.uint64(1)]
            at -= np.uint64(1)
        out_values[at] = value
        out_rows[at] = rows[i]


@kernel
def merge(source, source_rows, i, i_end, j_end, target, target_rows):  # type: ignore[no-untyped-def]
    """Merge the descending ``source[i:i_end]`` and ``source[i_end:j_end]`` into ``target[i:j_end]``."""
    # for ties, the value from the left part comes first, which keeps the sort stable
    j = i_end
    for k in range(i, j_end):
        if i < i_end and (j >= j_end or source[i] >= source[j]):
            target[k] = source[i]
            target_rows[k] = source_rows[i]
            i += 1
        else:
            target[k] = source[j]
            target_rows[k] = source_rows[j]
            j += 1


@kernel
def sort_descending(values, rows, n, spare):  # type: ignore[no-untyped-def]
    """Sort ``values[:n]`` stably in descending order, in place, and permute ``rows[:n]`` in the same way."""
    spare_values, spare_rows, keys, ranks, filled = spare
    for start in range(0, n, BLOCK):
        m = BLOCK if n - start > BLOCK else n - start
        _sort_block(
            values[start:], rows[start:], m, keys, ranks, filled, spare_values[start:], spare_rows[start:]
        )
    _merge_blocks(values, rows, n, spare_values, spare_rows)


@kernel
def _merge_blocks(values, rows, n, spare_values, spare_rows):  # type: ignore[no-untyped-def]
    """Merge the sorted blocks of ``spare_values``, pair by pair, until one is left, and store it in ``values``."""
    width = BLOCK
    source, source_rows = spare_values, spare_rows
    target, target_rows = values, rows
    in_spare = True  # a flag, as Numba would compile ``source is spare_values`` for every pair of types
    while width < n:
        for start in range(0, n, 2 * width):
            middle = start + width if start + width < n else n
            end = start + 2 * width if start + 2 * width < n else n
            merge(source, source_rows, start, middle, end, target, target_rows)
        source, target = target, source
        source_rows, target_rows = target_rows, source_rows
        in_spare = not in_spare
        width *= 2
    if in_spare:
        for i in range(n):
            values[i] = spare_values[i]
            rows[i] = spare_rows[i]
