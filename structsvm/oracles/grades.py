"""Sort the documents of each query by descending grade, for oracles that compare grades."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.protocols import Int
from structsvm.queries import query_pieces, row_groups


class ByGrade(NamedTuple):
    """The documents of each query in descending order of grade: for each rank, the row within the query (``members``)
    and the first rank of a lower grade (``lower``); for each query, the number of pairs."""

    members: NDArray[np.int32]
    lower: NDArray[np.int32]
    pair_counts: Int


def by_grade(
    y: NDArray[Any], offsets: Int, grade: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray
) -> ByGrade:
    """Sort the rows of each query by descending grade of their labels with a stable counting sort.

    Labels may be a memory map, of which only a part is in memory at a time.
    """
    n, n_queries = int(offsets[-1]), offsets.shape[0] - 1
    order = ByGrade(np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n_queries, np.int64))
    for first, last in query_pieces(offsets):
        rows, own = slice(offsets[first], offsets[last]), offsets[first : last + 1] - offsets[first]
        level = _levels(grade(y[rows]), own)
        room = np.empty(int(level.max(initial=0)) + 1, np.int64)
        _order(level, own, room, order.members[rows], order.lower[rows], order.pair_counts[first:last])
    return order


def _levels(y: NDArray[Any], offsets: Int) -> NDArray[Any]:
    """Return the level of each row, a small integer that increases as the grade decreases, from 0 for the highest."""
    # Grades are usually integers from 0 to 4, for which the level is the difference from the highest grade. The
    # comparison detects differences that are not exact as bytes.
    with np.errstate(invalid="ignore"):
        below = (y.max() if y.size else 0) - y
        level = below.astype(np.uint8)
    if (level == below).all():
        return level
    # For fractional grades, and for grades that differ by more than 255, the level is the rank of the label among the
    # distinct labels of its query. In the order of (query, -label), count the rows at which the label changes, and
    # subtract the count at the first row of the query.
    query = row_groups(offsets)
    order = np.lexsort((-y, query))
    grade, query = y[order], query[order]
    steps = np.cumsum(np.append(False, grade[1:] != grade[:-1])[: y.shape[0]])
    first = steps[offsets[:-1][np.diff(offsets) > 0]]
    rank = np.empty(y.shape[0], dtype=np.int64)
    rank[order] = steps - np.repeat(first, np.diff(offsets)[np.diff(offsets) > 0])
    return rank


@kernel
def _order(level, offsets, room, members, lower, pair_counts):  # type: ignore[no-untyped-def]
    """Fill in the arrays of ``ByGrade`` by a counting sort; ``room`` is a buffer with one element per level."""
    for q in range(pair_counts.shape[0]):
        start = offsets[q]
        n = offsets[q + 1] - start
        for g in range(room.shape[0]):
            room[g] = 0
        for i in range(n):
            room[level[start + i]] += 1
        # replace the number of rows of each level by the first rank of the level
        pairs, end = 0, 0
        for g in range(room.shape[0]):
            first, end = end, end + room[g]
            room[g] = first
            pairs += (end - first) * (n - end)
            for rank in range(first, end):
                lower[start + rank] = end
        pair_counts[q] = pairs
        # assign the ranks of a level to its rows in their order, which makes the sort stable
        for i in range(n):
            g = level[start + i]
            members[start + room[g]] = i
            room[g] += 1
