"""Lists as they were shown, with their clicks; equal ones are kept once, with a count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.protocols import Int

__all__ = ["ClickSessions", "distinct_sessions"]


@dataclass(frozen=True, eq=False, repr=False)
class ClickSessions:
    """Shown lists with their clicks; lists that agree in documents and clicks are one entry with a count.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_distinct + 1,)
        Entries ``offsets[i]:offsets[i + 1]`` are list ``i``, from position 1 on without a gap.
    row : ndarray of int64, shape (offsets[-1],)
        Row (query-document) of :class:`~structsvm.clicks.cells.ClickCells` at each place.
    clicked : ndarray of bool, shape (offsets[-1],)
    count : ndarray of int64, shape (n_distinct,)
        How many sessions showed this list and made these clicks.

    Examples
    --------
    >>> from structsvm.clicks import ClickCells
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 5, 6], [1, 2, 1, 2], [1, 0, 1, 0], session=[1, 1, 2, 2])
    >>> cells.sessions.count, cells.sessions.clicked  # two sessions that agree
    (array([2]), array([ True, False]))
    """

    offsets: Int
    row: Int
    clicked: NDArray[np.bool_]
    count: Int

    @property
    def n_sessions(self) -> int:
        return int(self.count.sum())

    @property
    def n_distinct(self) -> int:
        return int(self.count.shape[0])

    @property
    def longest(self) -> int:
        """Positions of the longest list."""
        return int(np.diff(self.offsets).max(initial=0))

    @property
    def position(self) -> Int:
        """Position of each entry, from 1."""
        lengths = np.diff(self.offsets)
        return np.arange(self.row.shape[0], dtype=np.int64) - np.repeat(self.offsets[:-1], lengths) + 1

    def select(self, chosen: Any) -> ClickSessions:
        """Return the distinct lists with these numbers; their rows keep their numbers."""
        index = np.arange(self.n_distinct)[chosen]
        lengths = np.diff(self.offsets)[index]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        at = np.repeat(self.offsets[index] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return ClickSessions(offsets, self.row[at], self.clicked[at], self.count[index])

    def __repr__(self) -> str:
        return f"ClickSessions({self.n_sessions} sessions, {self.n_distinct} distinct)"


def distinct_sessions(parts: Sequence[ClickSessions]) -> ClickSessions:
    """Return the sessions of all parts, in which rows have the same numbers, each distinct list once."""
    offsets = np.concatenate(
        [np.zeros(1, dtype=np.int64)]
        + [p.offsets[1:] + sum(q.row.shape[0] for q in parts[:i]) for i, p in enumerate(parts)]
    )
    row = np.concatenate([np.zeros(0, dtype=np.int64), *(p.row for p in parts)])
    clicked = np.concatenate([np.zeros(0, dtype=bool), *(p.clicked for p in parts)])
    count = np.concatenate([np.zeros(0, dtype=np.int64), *(p.count for p in parts)])
    first, total = _deduplicate(offsets, row, clicked, count)
    kept = ClickSessions(offsets, row, clicked, count).select(first)
    return ClickSessions(kept.offsets, kept.row, kept.clicked, total)


@kernel
def _deduplicate(offsets, row, clicked, count):
    """Return the first list of each kind, in order of appearance, and the counts of all of its kind."""
    n = offsets.shape[0] - 1
    size = 16
    while size < 2 * n:
        size *= 2
    table = np.full(size, -1, np.int64)
    first = np.empty(n, np.int64)
    total = np.empty(n, np.int64)
    found = 0
    for i in range(n):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        code = np.uint64(length)
        for j in range(start, start + length):
            code = (code ^ np.uint64(2 * row[j] + clicked[j])) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(29)
        slot = np.int64(code & np.uint64(size - 1))
        while True:
            known = table[slot]
            if known < 0:
                table[slot] = found
                first[found] = i
                total[found] = count[i]
                found += 1
                break
            other = offsets[first[known]]
            same = offsets[first[known] + 1] - other == length
            j = 0
            while same and j < length:
                same = row[other + j] == row[start + j] and clicked[other + j] == clicked[start + j]
                j += 1
            if same:
                total[known] += count[i]
                break
            slot = (slot + 1) & (size - 1)
    return first[:found], total[:found]
