"""Rank the rows of all queries at once, with an explicit rule for ties.

The mean of DCG over orders of ties uses :meth:`Ranking.averages`; the means of AP, MRR and ERR are in ``measures.py``.
``evaluation.py`` chooses the default rule.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from structsvm.protocols import Float, Int
from structsvm.queries import places_in

Ties = Literal["average", "docid", "row"]
TIES: tuple[Ties, ...] = ("average", "docid", "row")

# number of elements sorted per call, so that the padded copy, its mask and its indices fit in the cache
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Runs:
    """Runs of equal scores in a ranking, as first row and size of each run; a row without ties is a run of size 1."""

    starts: Int
    sizes: Int

    @cached_property
    def size(self) -> Int:
        """Size of the run of each row."""
        return self.spread(self.sizes)

    @cached_property
    def first(self) -> Int:
        """First row of the run of each row."""
        return self.spread(self.starts)

    @cached_property
    def place(self) -> Int:
        """Position of each row in its run, from 1."""
        return np.arange(1, self.first.shape[0] + 1) - self.first

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return, for each row, the value of its run."""
        return np.repeat(values, self.sizes)

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return, for each row, the sum over its run."""
        return self.spread(np.add.reduceat(values, self.starts))

    def mean(self, values: Float) -> Float:
        """Return, for each row, the mean over its run, clipped to the range of the run because of rounding."""
        means = np.add.reduceat(values, self.starts) / self.sizes
        least, most = (function.reduceat(values, self.starts) for function in (np.minimum, np.maximum))
        return self.spread(np.clip(means, least, most))


@dataclass(frozen=True)
class Ranking:
    """Grades of all rows of the queries, and grades of the retrieved rows in rank order.

    ``new_score`` is False if a retrieved row has the same score as the previous row of its query. ``averaged`` is True
    if there are such ties and measures are averaged over all orders of tied rows. ``missing`` are the grades of rows
    that were not retrieved, query by query.
    """

    grades: Float
    offsets: Int
    ranked: Float
    ranked_offsets: Int
    new_score: NDArray[np.bool_]
    averaged: bool
    missing: Float

    @cached_property
    def rank(self) -> Int:
        """Rank of each row of ``ranked``, from 1."""
        return places_in(self.ranked_offsets)

    @cached_property
    def lengths(self) -> Int:
        """Number of rows of each query, including rows that were not retrieved."""
        return np.diff(self.offsets)

    @cached_property
    def runs(self) -> Runs:
        starts = np.flatnonzero(self.new_score)
        return Runs(starts, np.diff(starts, append=self.new_score.shape[0]))

    def averages(self, values: Float) -> Float:
        """Return means of ``values`` (of ranks or rows) over runs of equal scores if ``averaged``, else ``values``."""
        return self.runs.mean(values) if self.averaged else values

    def tied_share(self) -> float:
        """Return the share of tied pairs among pairs of retrieved rows of the same query with different grades."""
        if self.new_score.all():
            return 0.0
        of_runs = np.append(self.runs.starts, self.ranked.shape[0])
        tied = int(different_pairs(self.ranked, of_runs).sum())
        return tied / int(different_pairs(self.ranked, self.ranked_offsets).sum()) if tied else 0.0

    def complete(self) -> tuple[Float, Int]:
        """Return the grades of all rows in rank order, and the index of the run of equal scores of each row.

        Rows that were not retrieved are tied at the end of their query.
        """
        n_missing = np.diff(self.offsets) - np.diff(self.ranked_offsets)
        at = np.repeat(self.ranked_offsets[1:], n_missing)
        first = np.zeros(self.missing.shape[0], dtype=np.bool_)
        first[np.cumsum(n_missing)[n_missing > 0] - n_missing[n_missing > 0]] = True
        return np.insert(self.ranked, at, self.missing), np.cumsum(np.insert(self.new_score, at, first))


def different_pairs(grades: Float, offsets: Int) -> Int:
    """Return the number of pairs of different grades within each segment."""
    lengths = np.diff(offsets)
    ordered = grades[sort_segments(grades, offsets)]
    new = np.ones(ordered.shape[0], dtype=np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    new[offsets[:-1][lengths > 0]] = True
    starts = np.flatnonzero(new)
    alike = np.diff(starts, append=ordered.shape[0])
    # all pairs of a segment minus pairs with equal grades: (n^2 - sum n_g^2) / 2 for n rows, n_g of them with grade g
    equal: Int = segment_sum(alike * alike, np.searchsorted(starts, offsets))
    return (lengths * lengths - equal) // 2


def inversions(grades: Float, offsets: Int) -> Int:
    """Return, for each segment, the number of pairs of rows of which the earlier one has the lower grade."""
    place, query = places_in(offsets) - 1, np.repeat(np.arange(offsets.shape[0] - 1), np.diff(offsets))
    levels, level = np.unique(grades, return_inverse=True)
    found = np.zeros(offsets.shape[0] - 1, dtype=np.int64)
    step, longest = 1, int(np.diff(offsets).max(initial=0))
    while step < longest:
        # count the pairs across the two halves of each block of 2 * step rows; for equal grades the later half is
        # sorted first, so that such pairs do not count
        block = query * (longest // (2 * step) + 1) + place // (2 * step)
        key = np.sort((block * levels.shape[0] + level) * 2 + (place // step % 2 == 0))
        is_earlier, block = key % 2, key // (2 * levels.shape[0])
        lower = np.cumsum(is_earlier)
        starts = np.flatnonzero(np.append(True, block[1:] != block[:-1]))
        before = np.repeat((lower - is_earlier)[starts], np.diff(starts, append=block.shape[0]))
        # sorting keeps the rows of a segment together
        found += segment_sum((lower - before) * (1 - is_earlier), offsets)
        step *= 2
    return found


def rank_queries(
    grades: Float,
    key: NDArray[Any],
    retrieved: NDArray[np.bool_],
    offsets: Int,
    ties: Ties,
    docid: NDArray[Any] | None,
) -> Ranking:
    """Rank grouped rows by ascending ``key``, the negated scores without NaN; only ``retrieved`` rows have a rank."""
    ranked_offsets, candidates = offsets, grades
    if not retrieved.all():
        ranked_offsets = np.concatenate(([0], np.cumsum(retrieved, dtype=np.int64)))[offsets]
        candidates, key = grades[retrieved], key[retrieved]
        docid = None if docid is None else docid[retrieved]
    order = sort_segments(key, ranked_offsets)
    ordered = key[order]
    new_score = np.ones(order.shape[0], dtype=np.bool_)
    new_score[1:] = ordered[1:] != ordered[:-1]
    new_score[ranked_offsets[:-1][np.diff(ranked_offsets) > 0]] = True
    tied = not new_score.all()
    if tied:
        _order_ties(order, new_score, ties, docid)
    averaged = tied and ties == "average"
    missing = grades[~retrieved]
    return Ranking(grades, offsets, candidates[order], ranked_offsets, new_score, averaged, missing)


def _order_ties(order: Int, new_score: NDArray[np.bool_], ties: Ties, docid: NDArray[Any] | None) -> None:
    """Reorder the rows of each run of equal scores in place, by the rule ``ties``.

    For ``ties="average"`` the rows of a run are in ascending order: the average does not depend on this order, except
    for rounding, which an unstable sort would make unpredictable.
    """
    tied = ~new_score
    tied[:-1] |= tied[1:]
    position = np.flatnonzero(tied)
    new_run = new_score[position]
    run = np.cumsum(new_run)
    # combine run and row in one integer, since NumPy sorts integers faster than it computes the order of two keys
    n_rows = order.shape[0]
    rows = np.sort(run * n_rows + order[position]) % n_rows
    if ties == "docid":
        starts = np.append(np.flatnonzero(new_run), position.shape[0])
        if docid is not None:
            rows = rows[sort_segments(docid[rows], starts)]
        # reverse each run, so that ids, and rows with equal ids, are in descending order
        rows = rows[(starts[:-1] + starts[1:])[run - 1] - 1 - np.arange(position.shape[0])]
    order[position] = rows


def sort_segments(key: NDArray[Any], offsets: Int) -> Int:
    """Return the indices that sort ``key``, numbers or strings, in ascending order within each segment.

    Equal strings keep their order. Segments of similar length are padded and sorted as the rows of a matrix.
    """
    lengths = np.diff(offsets)
    order = np.empty(key.shape[0], dtype=np.int64)
    # lengths from 2^(w-1) to 2^w - 1 have width class w, so that padding at most doubles the length of a segment
    width_class = np.frexp(lengths.astype(np.float64))[1]
    for width in np.unique(width_class[lengths > 0]):
        segments = np.flatnonzero((width_class == width) & (lengths > 0))
        step = max(1, _CHUNK >> int(width))
        for start in range(0, segments.shape[0], step):
            _sort_chunk(
                key, offsets[segments[start : start + step]], lengths[segments[start : start + step]], order
            )
    return order


def _sort_chunk(key: NDArray[Any], starts: Int, lengths: Int, order: Int) -> None:
    width = int(lengths.max())
    position = starts[:, None] + np.arange(width)
    kind: Literal["quicksort", "stable"] = "quicksort" if key.dtype.kind == "f" else "stable"
    if int(lengths.min()) == width:
        order[position] = np.argsort(key[position], axis=1, kind=kind) + starts[:, None]
        return
    used = np.arange(width) < lengths[:, None]
    position = position[used]
    padded = np.full(used.shape, _padding(key.dtype), dtype=key.dtype)
    padded[used] = key[position]
    order[position] = (np.argsort(padded, axis=1, kind=kind) + starts[:, None])[used]


def _padding(dtype: np.dtype[Any]) -> Any:
    """Return a value that sorts after every key."""
    if dtype.kind == "f":
        return np.nan
    return chr(0x10FFFF) * (dtype.itemsize // 4) if dtype.kind == "U" else b"\xff" * dtype.itemsize


def segment_sum(values: NDArray[Any], offsets: Int) -> NDArray[Any]:
    """Return the sum of each segment, which is 0 for an empty segment."""
    total = np.zeros(offsets.shape[0] - 1, dtype=values.dtype)
    filled = np.diff(offsets) > 0
    if filled.any():
        total[filled] = np.add.reduceat(values, offsets[:-1][filled])
    return total
