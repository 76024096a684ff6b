"""Documents of each query by descending grade, as the oracles that compare grades go through them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.oracles.sorting import sort_buffers, sort_descending
from structsvm.protocols import Float, Int


class ByGrade(NamedTuple):
    """For each place of a query its row in the query, and the first place of a lower grade; and pairs per query."""

    members: NDArray[np.int32]
    lower: NDArray[np.int32]
    pair_counts: Int


def by_grade(y: Float, offsets: Int) -> ByGrade:
    """Order the rows of each query by descending label, stably."""
    longest, n_rows = int(np.diff(offsets).max(initial=1)), int(offsets[-1])
    found = ByGrade(
        np.empty(n_rows, np.int32), np.empty(n_rows, np.int32), np.zeros(offsets.shape[0] - 1, np.int64)
    )
    _order(y, offsets, np.empty(longest), np.empty(longest, np.int32), sort_buffers(longest), *found)
    return found


@kernel
def _order(y, offsets, labels, rows, spare, members, lower, pair_counts):  # type: ignore[no-untyped-def]
    for q in range(pair_counts.shape[0]):
        start = offsets[q]
        n = offsets[q + 1] - start
        for i in range(n):
            labels[i] = y[start + i]
            rows[i] = i
        sort_descending(labels, rows, n, spare)
        end = n
        for i in range(n - 1, -1, -1):
            if i + 1 < n and labels[i] != labels[i + 1]:
                end = i + 1
            members[start + i] = rows[i]
            lower[start + i] = end
            pair_counts[q] += n - end
