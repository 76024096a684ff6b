"""Documents of each query by descending grade, as the oracles that compare grades go through them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.protocols import Float, Int
from structsvm.queries import row_groups


class ByGrade(NamedTuple):
    """For each place of a query its row in the query, and the first place of a lower grade; and pairs per query."""

    members: NDArray[np.int32]
    lower: NDArray[np.int32]
    pair_counts: Int


def by_grade(y: Float, offsets: Int) -> ByGrade:
    """Order the rows of each query by descending label, stably."""
    n, sizes = int(offsets[-1]), np.diff(offsets)
    query, start = row_groups(offsets), np.repeat(offsets[:-1], sizes)
    order = np.lexsort((-y[:n], query))
    grade = y[order]
    is_last = np.append((grade[1:] != grade[:-1]) | (query[1:] != query[:-1]), True)[:n]
    # the end of the grade of each place, counted in its query
    lower = (np.flatnonzero(is_last) + 1)[np.cumsum(is_last) - is_last] - start
    pairs = np.append(0, np.cumsum(sizes[query] - lower))[offsets]
    return ByGrade((order - start).astype(np.int32), lower.astype(np.int32), np.diff(pairs))
