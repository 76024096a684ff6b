"""Ids of millions of impressions in 16 bytes each: which are equal, without the ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]


class Digests:
    """128 bits for each id, zeros for none: two of Python's 64-bit hashes, whose key is drawn anew in each process."""

    def __init__(self) -> None:
        self.any = False
        self._recent: list[str | int | None] = []
        self._settled: list[Int] = []
        self.add = self._recent.append
        """Take an id."""

    def settle(self) -> None:
        """Put what was taken since the last call into an array."""
        recent = self._recent
        if not recent:
            return
        if set(map(type, recent)) == {str}:
            self.any = True
            digests = np.array(
                [list(map(hash, recent)), [hash(f"s{name}") for name in recent]], dtype=np.int64
            )
        else:
            self.any |= any(name is not None for name in recent)
            digests = np.array([_digest(name) for name in recent], dtype=np.int64).T
        self._settled.append(digests.T.copy())
        recent.clear()

    def rows(self) -> Int:
        """Digests, shape (n_ids, 2), which are given away."""
        return joined(self._settled)


def _digest(name: str | int | None) -> tuple[int, int]:
    """1 and "1" are two; integers are hashed as text, as hash(-1) == hash(-2)."""
    if name is None:
        return 0, 0
    return (hash(name), hash("s" + name)) if type(name) is str else (hash(f"i{name}"), hash(f"j{name}"))


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """One array of the parts, which are freed."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def first_rows(digests: Int) -> Int:
    """For every row the first that equals it."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    placed = digests[order]
    start = np.ones(len(order), dtype=bool)
    start[1:] = (placed[1:] != placed[:-1]).any(axis=1)
    del placed
    first = np.empty(len(order), dtype=np.int64)
    # the sort is stable, so the first of equal rows in it is the first of all
    first[order] = order[start][np.cumsum(start) - 1]
    return first


def numbered(digests: Int) -> Int:
    """A number from 0 for every row, by first appearance; equal rows have one number."""
    first = first_rows(digests)
    return np.asarray((np.cumsum(first == np.arange(len(first))) - 1)[first], dtype=np.int64)
