"""Sorting for the oracles: descending and stable, of scores together with their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel

BLOCK = 128
"""Most values sorted by counting; longer arrays are merged from such blocks."""


def sort_buffers(n: int) -> tuple[NDArray[Any], ...]:
    """Return the buffers of ``sort_descending``: for ``n`` values and rows, and for the keys and places of a block."""
    # given to kernels, as code that allocates takes long to compile
    return np.empty(n), np.empty(n, np.int32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.int32)


@kernel(inline="always")
def _count_places(values, n, keys, places):  # type: ignore[no-untyped-def]
    """Count for each value how many are larger, after rounding all to float32; return False if that leaves ties."""
    # The rank of a value is the number of larger ones: n^2 comparisons without a branch, sixteen at a time in vectors
    # of float32, are faster than n log n unpredictable branches up to some 128 values. Rounding keeps the order, so
    # without ties these are the ranks of a stable sort. The keys are padded to whole unrolled vectors, as short loops
    # would otherwise spend their time on remainders.
    padded = np.uint64((n + 31) // 32 * 32)
    for i in range(n):
        keys[i] = np.float32(values[i])
    for i in range(np.uint64(n), padded):
        keys[i] = -np.inf
    for i in range(n):
        v0, p0 = keys[i], np.int32(0)
        for j in range(padded):
            p0 = np.int32(p0 + np.int32(keys[j] > v0))
        places[i] = p0
    total = 0
    for i in range(n):
        total += places[i]
    return total == n * (n - 1) // 2  # equal keys all have the place of the first, so the sum falls short


@kernel(inline="always")
def _sort_block(values, rows, n, out_values, out_rows):  # type: ignore[no-untyped-def]
    """Sort a few values, descending and stably, by counting for each how many precede it."""
    # No branch depends on the data, and the loops run over slices from 0. Otherwise a check for negative indices
    # prevents vectorisation (3 to 5 times slower).
    i = 0
    while i + 3 < n:
        v0, v1, v2, v3 = values[i], values[i + 1], values[i + 2], values[i + 3]
        # among the four, an earlier value precedes a later one that is not larger
        b01, b02, b03 = np.int64(v0 >= v1), np.int64(v0 >= v2), np.int64(v0 >= v3)
        b12, b13, b23 = np.int64(v1 >= v2), np.int64(v1 >= v3), np.int64(v2 >= v3)
        p0, p1, p2, p3 = 3 - b01 - b02 - b03, 2 + b01 - b12 - b13, 1 + b02 + b12 - b23, b03 + b13 + b23
        head = values[:i]
        for j in range(head.shape[0]):
            x = head[j]
            p0 += np.int64(x >= v0)
            p1 += np.int64(x >= v1)
            p2 += np.int64(x >= v2)
            p3 += np.int64(x >= v3)
        tail = values[i + 4 : n]
        for j in range(tail.shape[0]):
            x = tail[j]
            p0 += np.int64(x > v0)
            p1 += np.int64(x > v1)
            p2 += np.int64(x > v2)
            p3 += np.int64(x > v3)
        out_values[p0], out_values[p1], out_values[p2], out_values[p3] = v0, v1, v2, v3
        out_rows[p0], out_rows[p1] = rows[i], rows[i + 1]
        out_rows[p2], out_rows[p3] = rows[i + 2], rows[i + 3]
        i += 4
    while i < n:
        v = values[i]
        rank = np.int64(0)
        for j in range(n):
            rank += np.int64(values[j] > v or (values[j] == v and j < i))
        out_values[rank] = v
        out_rows[rank] = rows[i]
        i += 1


@kernel
def merge(source, source_rows, i, i_end, j_end, target, target_rows):  # type: ignore[no-untyped-def]
    """Merge the descending ``source[i:i_end]`` and ``source[i_end:j_end]`` into ``target[i:j_end]``."""
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
    """Sort ``values[:n]`` and with them ``rows[:n]`` in place, descending and stably; small, to be inlined."""
    spare_values, spare_rows, keys, places = spare
    if n <= BLOCK and _count_places(values, n, keys, places):
        for i in range(n):
            rank = np.uint32(places[i])
            spare_values[rank] = values[i]
            spare_rows[rank] = rows[i]
        for i in range(n):
            values[i] = spare_values[i]
            rows[i] = spare_rows[i]
    else:
        _sort_with_ties(values, rows, n, spare_values, spare_rows)


@kernel(inline="always")
def _sort_with_ties(values, rows, n, spare_values, spare_rows):  # type: ignore[no-untyped-def]
    """Sort any number of any values, by merging counted blocks."""
    width = BLOCK
    for start in range(0, n, width):
        m = width if n - start > width else n - start
        _sort_block(values[start:], rows[start:], m, spare_values[start:], spare_rows[start:])
    source, source_rows = spare_values, spare_rows
    target, target_rows = values, rows
    in_spare = True  # ``is`` of arrays is compiled for itself
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


@kernel
def sort_top(values, n, k, out_values, out_rows, spare):  # type: ignore[no-untyped-def]
    """Find the first ``k`` of ``values[:n]`` in descending order, ties by row; the buffers have room for ``n``."""
    # callers gather ``values`` themselves, as Numba counts references to each array passed to another kernel in between
    if k > 32:
        for i in range(n):
            out_values[i] = values[i]
            out_rows[i] = i
        sort_descending(out_values, out_rows, n, spare)
        return
    held = 0
    for i in range(n):
        v = values[i]
        if held < k:
            j = held
            held += 1
        elif v > out_values[k - 1]:
            j = k - 1
        else:
            continue
        while j > 0 and out_values[j - 1] < v:
            out_values[j] = out_values[j - 1]
            out_rows[j] = out_rows[j - 1]
            j -= 1
        out_values[j] = v
        out_rows[j] = i
