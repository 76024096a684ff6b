"""Pairs of documents with different grades: the pairwise SVM by counting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit

from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets

__all__ = ["PairSeparator", "Pairs"]


@dataclass(frozen=True)
class Pairs:
    """Hinge loss on all pairs of a query with different grades: the pairwise (ranking) SVM.

    For every pair with ``y_i > y_j`` the hinge is ``max(0, 1 - (s_i - s_j))``; a query counts the mean of its
    pairs. A query whose labels are all equal carries no constraint.

    Parameters
    ----------
    normalize : {"pairs", "query"}, default="pairs"
        What the objective is the mean of. ``"pairs"``: all pairs of the data set count alike, as in the
        pairwise SVM, so a query weighs as many pairs as it has. ``"query"``: all queries count alike, as for
        the other losses. The oracle always divides by the pairs of the query; the separator's
        ``query_weights`` tell a problem how to weigh the queries.

    Raises
    ------
    ValueError
        For another ``normalize``.

    Notes
    -----
    Pairs decouple: each is violated or not by itself, so a most violated output is a set of pairs and need
    not be the inversions of one ranking. Pairs are never listed. An evaluation costs O(n log n) for any
    number of grades: documents of a grade are sorted, and neighbouring grades are merged level by level
    while the violated pairs across are counted. Up to 300 pairs a document, comparing them all is faster.

    On binary labels ``w_roc(C) = 1/2 w_pair(4 C)`` with ``normalize="query"``
    (:class:`~structsvm.oracles.roc_area.RocArea`).

    Examples
    --------
    >>> import numpy as np
    >>> separator = Pairs().bind(np.array([2.0, 1.0, 0.0]), np.array([0, 3]))
    >>> loss, coef = np.empty(1), np.empty(3)
    >>> separator.separate(np.array([1.0, 0.5, 0.0]), 0, 1, loss, coef)
    >>> (3 * loss).round(9), (3 * coef).round(9)
    (array([2.]), array([ 1.,  0., -1.]))
    >>> separator.pair_counts
    array([3])
    """

    normalize: Literal["pairs", "query"] = "pairs"

    def __post_init__(self) -> None:
        if self.normalize not in ("pairs", "query"):
            raise ValueError(f"Pairs(normalize=...): expected 'pairs' or 'query', got {self.normalize!r}")

    def bind(self, y: Float, offsets: Int) -> PairSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        separator = PairSeparator(np.asarray(y, dtype=np.float64), offsets, margin=1.0, step=1.0)
        if self.normalize == "pairs":
            separator.query_weights = separator.pair_counts.astype(np.float64)
        return separator


class PairSeparator:
    """Counts violated pairs; serves :class:`Pairs` and :class:`~structsvm.oracles.roc_area.RocArea`.

    Parameters
    ----------
    y : ndarray of float64, shape (n_rows,)
        Only the order of the labels inside a query matters.
    offsets : ndarray of int64, shape (n_queries + 1,)
    margin : float
        A pair with ``y_i > y_j`` is violated when ``s_i - s_j < margin``.
    step : float
        What a violated pair adds to the coefficient of ``i`` and takes from that of ``j``, divided by the
        number of pairs. ``step * margin = 1`` makes the value of a pair a hinge.

    Attributes
    ----------
    pair_counts : ndarray of int64, shape (n_queries,)
        Number of pairs with different grades.
    members, lower : ndarray of int32, shape (n_rows,)
        The rows of each query, counted from its first, by descending label; and for each place the first place of a
        lower label.
    query_weights : ndarray of float64, shape (n_queries,)
        Weight of each query in the objective, to be multiplied with the user's and scaled to sum to one.
    """

    exact = True

    def __init__(self, y: Float, offsets: Int, *, margin: float, step: float) -> None:
        self._offsets = offsets
        self._margin = margin
        self._step = step
        self.members, self.lower, self.pair_counts = _order_by_grade(y, offsets)
        self.informative = self.pair_counts > 0
        self.query_weights: Float = np.ones(self.pair_counts.shape[0])

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        _separate(
            scores,
            first,
            last,
            self._offsets,
            self.members,
            self.lower,
            self.pair_counts,
            self._margin,
            self._step,
            _COUNTING_PAIRS,
            loss,
            coef,
        )


_COUNTING_PAIRS = 300
"""Up to this many pairs a document, comparing each pair (which vectorises) beats sorting and merging."""


# The sort stands alike in average_precision.py, pairs.py and positions.py (tests/oracles/test_sorting.py): Numba does
# not notice that a kernel in another file was edited, so a cached kernel must not call one.
_BLOCK = 128
"""Values sorted by counting; longer stretches are merged from such blocks."""


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_buffers(n):  # type: ignore[no-untyped-def]
    """What ``_sort_descending`` needs: room for ``n`` values and their rows, for the keys and places of a block."""
    return np.empty(n), np.empty(n, np.int32), np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.int32)


@njit(cache=True, nogil=True, error_model="numpy")
def _count_places(values, n, keys, places):  # type: ignore[no-untyped-def]
    """For each value how many are larger, after rounding all to float32; False where that leaves ties.

    Rounding keeps the order, so without ties these are the places of a stable sort. Four values share each load, and
    the keys are padded to whole unrolled vectors: short loops would otherwise spend their time on what is left over.
    """
    padded = np.uint64((n + 31) // 32 * 32)
    for i in range(n):
        keys[i] = np.float32(values[i])
    for i in range(np.uint64(n), padded):
        keys[i] = -np.inf
    for i in range(0, n, 4):
        v0, v1, v2, v3 = keys[i], keys[i + 1], keys[i + 2], keys[i + 3]
        p0, p1, p2, p3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
        for j in range(padded):
            x = keys[j]
            p0 = np.int32(p0 + np.int32(x > v0))
            p1 = np.int32(p1 + np.int32(x > v1))
            p2 = np.int32(p2 + np.int32(x > v2))
            p3 = np.int32(p3 + np.int32(x > v3))
        places[i], places[i + 1], places[i + 2], places[i + 3] = p0, p1, p2, p3
    total = 0
    for i in range(n):
        total += places[i]
    return total == n * (n - 1) // 2  # of equal keys each has the place of the first: the sum falls short


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_block(values, rows, n, out_values, out_rows):  # type: ignore[no-untyped-def]
    """Descending stable sort of a few values by counting for each how many precede it.

    No branch depends on the data, and the loops run over slices from 0: otherwise a check for negative indices
    keeps the compiler from vectorising them (3 to 5 times slower).
    """
    i = 0
    while i + 3 < n:
        v0, v1, v2, v3 = values[i], values[i + 1], values[i + 2], values[i + 3]
        # among the four: an earlier one precedes a later one that is not larger
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
        out_rows[p0], out_rows[p1], out_rows[p2], out_rows[p3] = (
            rows[i],
            rows[i + 1],
            rows[i + 2],
            rows[i + 3],
        )
        i += 4
    while i < n:
        v = values[i]
        place = np.int64(0)
        head = values[:i]
        for j in range(head.shape[0]):
            place += np.int64(head[j] >= v)
        tail = values[i + 1 : n]
        for j in range(tail.shape[0]):
            place += np.int64(tail[j] > v)
        out_values[place] = v
        out_rows[place] = rows[i]
        i += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _merge(source, source_rows, i, i_end, j_end, target, target_rows):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_descending(values, rows, n, spare):  # type: ignore[no-untyped-def]
    """Stable descending sort of ``values[:n]`` with ``rows[:n]`` in place.

    Small, so that the compiler puts it where it is called.
    """
    spare_values, spare_rows, keys, places = spare
    if n <= _BLOCK and _count_places(values, n, keys, places):
        for i in range(n):
            place = np.uint32(places[i])
            spare_values[place] = values[i]
            spare_rows[place] = rows[i]
        for i in range(n):
            values[i] = spare_values[i]
            rows[i] = spare_rows[i]
    else:
        _sort_with_ties(values, rows, n, spare_values, spare_rows)


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_with_ties(values, rows, n, spare_values, spare_rows):  # type: ignore[no-untyped-def]
    """The same for any values and any number of them, by merging counted blocks."""
    width = _BLOCK
    for start in range(0, n, width):
        m = min(width, n - start)
        _sort_block(values[start:], rows[start:], m, spare_values[start:], spare_rows[start:])
    source, source_rows = spare_values, spare_rows
    target, target_rows = values, rows
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(
                source,
                source_rows,
                start,
                min(start + width, n),
                min(start + 2 * width, n),
                target,
                target_rows,
            )
        source, target = target, source
        source_rows, target_rows = target_rows, source_rows
        width *= 2
    if source is spare_values:
        for i in range(n):
            values[i] = spare_values[i]
            rows[i] = spare_rows[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _order_by_grade(y, offsets):  # type: ignore[no-untyped-def]
    """Rows of each query by descending label; for each place the first place of a lower label; pairs."""
    n_queries = offsets.shape[0] - 1
    longest = 0
    for q in range(n_queries):
        longest = max(longest, offsets[q + 1] - offsets[q])
    labels, rows = np.empty(longest), np.empty(longest, np.int32)
    spare = _sort_buffers(longest)
    members = np.empty(y.shape[0], np.int32)
    lower = np.empty(y.shape[0], np.int32)
    pair_counts = np.zeros(n_queries, np.int64)
    for q in range(n_queries):
        start = offsets[q]
        n = offsets[q + 1] - start
        for i in range(n):
            labels[i] = y[start + i]
            rows[i] = i
        _sort_descending(labels, rows, n, spare)
        end = n
        for i in range(n - 1, -1, -1):
            if i + 1 < n and labels[i] != labels[i + 1]:
                end = i + 1
            members[start + i] = rows[i]
            lower[start + i] = end
            pair_counts[q] += n - end
    return members, lower, pair_counts


@njit(cache=True, nogil=True, error_model="numpy")
def _count_all(v, lower, n, margin, won, lost):  # type: ignore[no-untyped-def]
    """Violated pairs of each place as the better (``won``) and as the worse (``lost``) one, by comparing all.

    Four places at a time against everything below their grade, for the reasons given at ``_sort_block``.
    """
    lost[:n] = 0
    start = 0
    while start < n:
        end = lower[start]
        tail = v[end:n]
        tail_lost = lost[end:n]
        i = start
        while i + 3 < end:
            l0, l1, l2, l3 = v[i] - margin, v[i + 1] - margin, v[i + 2] - margin, v[i + 3] - margin
            c0, c1, c2, c3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            for j in range(tail.shape[0]):
                x = tail[j]
                b0, b1, b2, b3 = np.int64(x > l0), np.int64(x > l1), np.int64(x > l2), np.int64(x > l3)
                c0 += b0
                c1 += b1
                c2 += b2
                c3 += b3
                tail_lost[j] += b0 + b1 + b2 + b3
            won[i], won[i + 1], won[i + 2], won[i + 3] = c0, c1, c2, c3
            i += 4
        while i < end:
            limit = v[i] - margin
            count = np.int64(0)
            for j in range(tail.shape[0]):
                violated = np.int64(tail[j] > limit)
                count += violated
                tail_lost[j] += violated
            won[i] = count
            i += 1
        start = end


@njit(cache=True, nogil=True, error_model="numpy")
def _count_across(v, places, start, middle, end, margin, won, lost):  # type: ignore[no-untyped-def]
    """The same for the pairs of ``[start, middle)`` (better) and ``[middle, end)``, both sorted by score."""
    j = middle
    for i in range(start, middle):
        limit = v[i] - margin
        while j < end and v[j] > limit:
            j += 1
        won[places[i]] += j - middle
    i = middle
    for j in range(end - 1, middle - 1, -1):
        while i > start and v[j] > v[i - 1] - margin:
            i -= 1
        lost[places[j]] += middle - i


@njit(cache=True, nogil=True, error_model="numpy")
def _count_merging(  # type: ignore[no-untyped-def]
    v, lower, n, margin, won, lost, places, spare, bounds
):
    """The same in O(n log n): sort each grade, then merge neighbours level by level and count across."""
    spare_values, spare_places = spare[0], spare[1]
    won[:n] = 0
    lost[:n] = 0
    for i in range(n):
        places[i] = i
    n_blocks = 0
    start = 0
    while start < n:
        end = lower[start]
        _sort_descending(v[start:], places[start:], end - start, spare)
        bounds[n_blocks] = start
        n_blocks += 1
        start = end
    bounds[n_blocks] = n
    while n_blocks > 1:
        kept = 0
        for block in range(0, n_blocks - 1, 2):
            start, middle, end = bounds[block], bounds[block + 1], bounds[block + 2]
            _count_across(v, places, start, middle, end, margin, won, lost)
            if n_blocks > 2:
                _merge(v, places, start, middle, end, spare_values, spare_places)
                v[start:end] = spare_values[start:end]
                places[start:end] = spare_places[start:end]
            bounds[kept] = start
            kept += 1
        if n_blocks % 2 == 1:
            bounds[kept] = bounds[n_blocks - 1]
            kept += 1
        bounds[kept] = n
        n_blocks = kept


@njit(cache=True, nogil=True, error_model="numpy")
def _separate(  # type: ignore[no-untyped-def]
    scores, first, last, offsets, members, lower, pair_counts, margin, step, counting_pairs, loss, coef
):
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    v, places = np.empty(longest), np.empty(longest, np.int32)
    spare = _sort_buffers(longest)
    won, lost = np.empty(longest, np.int64), np.empty(longest, np.int64)
    bounds = np.empty(longest + 1, np.int64)
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        s = scores[row0 - base : row0 - base + n]
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if pair_counts[q] == 0:
            a[:] = 0.0
            continue
        rows = members[row0 : row0 + n]
        below = lower[row0 : row0 + n]
        for i in range(n):
            v[i] = s[rows[i]]
        if pair_counts[q] <= counting_pairs * n:
            _count_all(v, below, n, margin, won, lost)
        else:
            _count_merging(v, below, n, margin, won, lost, places, spare, bounds)
        violated = 0
        unit = step / pair_counts[q]
        for i in range(n):
            violated += won[i]
            a[rows[i]] = unit * (won[i] - lost[i])
        loss[q - first] = violated / pair_counts[q]
