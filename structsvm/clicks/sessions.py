"""Lists as shown, with their clicks; equal lists are stored once, with a count."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import counted
from structsvm.common.kernel import kernel
from structsvm.protocols import Float, Int
from structsvm.queries import choose_groups, places_in


@dataclass(frozen=True, eq=False, repr=False)
class ClickSessions:
    """Shown lists with their clicks; lists that agree in all attributes are stored once, with a count."""

    offsets: Int  # entries offsets[i]:offsets[i + 1] are list i, in the order of positions
    row: Int  # row of each entry in ClickCells
    clicked: NDArray[np.bool_]  # whether each entry was clicked
    count: Int  # number of sessions with this list and these clicks
    places: Int | None = None  # position of each entry; None: 1, 2, 3, ... in each list
    cluster: Int | None = None  # user of each list, -1 if unknown; None without users
    probability: Float | None = None  # logged probability of each entry's document at its position

    @property
    def n_sessions(self) -> int:
        return int(self.count.sum())

    @property
    def n_distinct(self) -> int:
        return int(self.count.shape[0])

    @property
    def longest(self) -> int:
        """The last position of any list."""
        return int(self.position.max(initial=0))

    @property
    def counts(self) -> Int:
        """Number of sessions of each entry's list."""
        return np.repeat(self.count, np.diff(self.offsets))

    @property
    def position(self) -> Int:
        """Position of each entry, from 1."""
        return places_in(self.offsets) if self.places is None else self.places

    def select(self, chosen: object) -> "ClickSessions":
        """Return the distinct lists with the given indices; ``row`` keeps its values."""
        index, offsets, at = choose_groups(self.offsets, chosen)
        return ClickSessions(
            offsets=offsets,
            row=self.row[at],
            clicked=self.clicked[at],
            count=self.count[index],
            places=None if self.places is None else self.places[at],
            cluster=None if self.cluster is None else self.cluster[index],
            probability=None if self.probability is None else self.probability[at],
        )

    def tally(self, level: Int, n_levels: int) -> tuple[Int, Int, Int, Int]:
        """Return the row, level, shows and clicks of each distinct pair of row and level of the entries, in ascending
        order."""
        key, number = np.unique(self.row * n_levels + level, return_inverse=True)
        weight = self.counts
        shows, clicks = (np.bincount(number, w).astype(np.int64) for w in (weight, weight * self.clicked))
        return key // n_levels, key % n_levels, shows, clicks

    def renumbered(self, row: Int, cluster: Int | None) -> Self:
        """Return the lists with rows and users renumbered by arrays indexed by the old number; user -1 is kept."""
        users = (
            self.cluster if cluster is None or self.cluster is None else np.append(cluster, -1)[self.cluster]
        )
        return replace(self, row=row[self.row], cluster=users)

    def __repr__(self) -> str:
        return f"ClickSessions({counted(session=self.n_sessions)}, {self.n_distinct} distinct)"


def joined_sessions(parts: Sequence[ClickSessions]) -> ClickSessions:
    """Concatenate the lists of all parts, which must number rows and users in the same way."""
    sizes = np.cumsum([0, *(p.row.shape[0] for p in parts)])
    offsets = [np.zeros(1, np.int64), *(p.offsets[1:] + n for p, n in zip(parts, sizes, strict=False))]

    def of(name: str, dtype: type, missing: Callable[[ClickSessions], Any] | None = None) -> Any:
        columns = [getattr(p, name) for p in parts]
        if missing is not None:
            if all(column is None for column in columns):
                return None
            columns = [missing(p) if c is None else c for p, c in zip(parts, columns, strict=True)]
        return np.concatenate([np.zeros(0, dtype), *columns])

    return ClickSessions(
        offsets=np.concatenate(offsets),
        row=of("row", np.int64),
        clicked=of("clicked", np.bool_),
        count=of("count", np.int64),
        places=of("places", np.int64, lambda p: p.position),
        cluster=of("cluster", np.int64, lambda p: np.full(p.n_distinct, -1)),
        probability=of("probability", np.float64, lambda p: np.full(p.row.shape[0], np.nan)),
    )


def distinct_sessions(parts: Sequence[ClickSessions]) -> ClickSessions:
    """Merge the sessions of all parts, which must number rows and users in the same way; store equal lists once."""
    whole = joined_sessions(parts)
    # probabilities are compared by their bits
    more = [each.view(np.int64) for each in (whole.places, whole.probability) if each is not None]
    keys = np.column_stack([2 * whole.row + whole.clicked, *more])
    users = np.zeros(whole.n_distinct, np.int64) if whole.cluster is None else whole.cluster
    first, total = _deduplicate(whole.offsets, keys, users, whole.count)
    return replace(whole.select(first), count=total)


@kernel
def _deduplicate(offsets, keys, users, count):  # type: ignore[no-untyped-def]
    """Return the first of each group of equal lists, in order of appearance, and the counts of the groups."""
    n = offsets.shape[0] - 1
    size = 16
    while size < 2 * n:
        size *= 2
    # a hash table with open addressing, at most half full: each slot holds the index of a distinct list
    table = np.full(size, -1, np.int64)
    first = np.empty(n, np.int64)
    total = np.empty(n, np.int64)
    found = 0
    for i in range(n):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        code = np.uint64(length) ^ (np.uint64(users[i]) << np.uint64(20))
        for j in range(start, start + length):
            for k in range(keys.shape[1]):
                code = (code ^ np.uint64(keys[j, k])) * np.uint64(0x9E3779B97F4A7C15)
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
            # another list may have the same hash: compare the entries
            other = offsets[first[known]]
            same = offsets[first[known] + 1] - other == length and users[first[known]] == users[i]
            j = 0
            while same and j < length:
                for k in range(keys.shape[1]):
                    same = same and keys[other + j, k] == keys[start + j, k]
                j += 1
            if same:
                total[known] += count[i]
                break
            slot = (slot + 1) & (size - 1)
    return first[:found], total[:found]
