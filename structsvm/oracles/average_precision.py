"""Average precision: the most violated ranking of SVM-map in the time of a sort."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets

__all__ = ["AveragePrecision"]


@dataclass(frozen=True)
class AveragePrecision:
    """Loss ``1 - AP`` with the pairwise joint feature of SVM-map.

    ``Psi(x, y) = 1/(P N) sum_{i relevant} sum_{j not} y_ij (phi_i - phi_j)``; a query with ``P = 0`` or ``N = 0``
    carries no constraint.

    Parameters
    ----------
    relevance : float, default=1.0
        A document is relevant when its label is at least this; 1 is the TREC convention, and makes negative
        labels non-relevant.

    Notes
    -----
    Yue et al. (thesis 3.2, Algorithm 2) place each non-relevant document by itself in O(P N). The best place is
    monotone in the rank of the document, so divide and conquer needs O((P + N) log N) after the sort. The terms
    ``i / ((i + j)(i + j - 1))`` are added up directly: no cancellation between harmonic numbers.

    Examples
    --------
    >>> import numpy as np
    >>> separator = AveragePrecision().bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.zeros(2), 0, 1, loss, coef)
    >>> loss, coef
    (array([0.5]), array([-2.,  2.]))
    """

    relevance: float = 1.0

    def bind(self, y: Float, offsets: Int) -> AveragePrecisionSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        relevant = np.asarray(y) >= self.relevance
        members, n_relevant = _partition(relevant, offsets)
        return AveragePrecisionSeparator(members, n_relevant, offsets)


class AveragePrecisionSeparator:
    """:class:`AveragePrecision` bound to labels."""

    exact = True

    def __init__(self, members: Int, n_relevant: Int, offsets: Int) -> None:
        self._members = members
        self._n_relevant = n_relevant
        self._offsets = offsets
        lengths = np.diff(offsets)
        self.informative = (n_relevant > 0) & (n_relevant < lengths)
        longest = int(lengths.max(initial=1))
        places = np.arange(2.0, longest + 2 + 8)  # whole vectors are read
        # 1 / (m (m - 1)), indexed by m
        self._inverse = np.concatenate(([0.0, 0.0], 1.0 / (places * (places - 1.0))))

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        _separate(
            scores, first, last, self._offsets, self._members, self._n_relevant, self._inverse, loss, coef
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _partition(relevant, offsets):  # type: ignore[no-untyped-def]
    """Row numbers inside each query, the relevant ones first, both parts in row order; and how many are relevant."""
    members = np.empty(relevant.shape[0], np.int32)
    n_relevant = np.zeros(offsets.shape[0] - 1, np.int64)
    for q in range(offsets.shape[0] - 1):
        start, stop = offsets[q], offsets[q + 1]
        n = 0
        for r in range(start, stop):
            n += relevant[r]
        n_relevant[q] = n
        i, j = start, start + n
        for r in range(start, stop):
            if relevant[r]:
                members[i] = r - start
                i += 1
            else:
                members[j] = r - start
                j += 1
    return members, n_relevant


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


_FEW = 48
"""Documents placed by trying every place, which vectorises; more are divided first."""


@njit(cache=True, nogil=True, error_model="numpy")
def _place_few(  # type: ignore[no-untyped-def]
    rel, share, non, inverse, j_lo, j_hi, k_lo, k_hi, totals, bests, places, best_place
):
    """Best places in ``k_lo..k_hi`` of the non-relevant ``j_lo..j_hi``, all at once.

    The same sums in the same order as for one document by itself. Four places share the loads and stores; whole
    vectors are worked on, past ``j_hi``, where the arrays have room for it.
    """
    n = np.uint64((j_hi - j_lo + 7) // 8 * 8)
    start = np.uint64(j_lo)
    for j in range(n):
        totals[j], bests[j], places[j] = 0.0, 0.0, float(k_hi)
    k = k_hi - 1
    while k - 3 >= k_lo:
        h0, h1, h2, h3 = share[k], share[k - 1], share[k - 2], share[k - 3]
        r0, r1, r2, r3 = rel[k], rel[k - 1], rel[k - 2], rel[k - 3]
        g3 = np.uint64(k + j_lo - 1)
        g2, g1, g0 = g3 + np.uint64(1), g3 + np.uint64(2), g3 + np.uint64(3)
        p0, p1, p2, p3 = float(k), float(k - 1), float(k - 2), float(k - 3)
        for j in range(n):
            total, best, place, own = totals[j], bests[j], places[j], non[start + j]
            total += h0 * inverse[g0 + j] - (r0 - own)
            place = p0 if total > best else place
            best = total if total > best else best
            total += h1 * inverse[g1 + j] - (r1 - own)
            place = p1 if total > best else place
            best = total if total > best else best
            total += h2 * inverse[g2 + j] - (r2 - own)
            place = p2 if total > best else place
            best = total if total > best else best
            total += h3 * inverse[g3 + j] - (r3 - own)
            place = p3 if total > best else place
            best = total if total > best else best
            totals[j], bests[j], places[j] = total, best, place
        k -= 4
    while k >= k_lo:
        h0, r0, p0 = share[k], rel[k], float(k)
        g0 = np.uint64(k + j_lo + 2)
        for j in range(n):
            total, best = totals[j] + (h0 * inverse[g0 + j] - (r0 - non[start + j])), bests[j]
            places[j] = p0 if total > best else places[j]
            bests[j] = total if total > best else best
            totals[j] = total
        k -= 1
    for j in range(j_hi - j_lo):
        best_place[j_lo + j] = np.int64(places[j])


@njit(cache=True, nogil=True, error_model="numpy")
def _separate(scores, first, last, offsets, members, n_relevant, inverse, loss, coef):  # type: ignore[no-untyped-def]
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    rel, rel_rows = np.empty(longest), np.empty(longest, np.int32)
    non, non_rows = np.empty(longest + 8), np.empty(longest, np.int32)
    spare = _sort_buffers(longest)
    totals, bests, places = np.empty(_FEW), np.empty(_FEW), np.empty(_FEW)
    share = np.empty(longest + 1)
    best_place, passed = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    stack = np.empty((128, 4), np.int64)
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        n_rel = n_relevant[q]
        n_non = n - n_rel
        own = row0 - base
        loss[q - first] = 0.0
        if n_rel == 0 or n_non == 0:
            for r in range(n):
                coef[own + r] = 0.0
            continue
        unit = 2.0 / (n_rel * n_non)
        for i in range(n_rel):
            rel_rows[i] = members[row0 + i]
            rel[i] = scores[own + rel_rows[i]]
        for j in range(n_non):
            non_rows[j] = members[row0 + n_rel + j]
            non[j] = scores[own + non_rows[j]]
        _sort_descending(rel, rel_rows, n_rel, spare)
        _sort_descending(non, non_rows, n_non, spare)
        for i in range(n_rel):
            rel[i] *= unit
            share[i] = (i + 1.0) / n_rel
        for j in range(n_non):
            non[j] *= unit
        for j in range(n_non, n_non + 8):
            non[j] = 0.0
        # best_place[j] in 0..n_rel: non-relevant j stands just above relevant number best_place[j] (from 0).
        # Divide and conquer over j: the place of the middle one bounds the places on both sides.
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n_non, 0, n_rel
        depth = 1
        while depth > 0:
            depth -= 1
            j_lo, j_hi, k_lo, k_hi = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
            while j_lo < j_hi:
                if j_hi - j_lo <= _FEW:
                    _place_few(
                        rel, share, non, inverse, j_lo, j_hi, k_lo, k_hi, totals, bests, places, best_place
                    )
                    break
                j = (j_lo + j_hi) >> 1
                z = non[j]
                total, best, place = 0.0, 0.0, k_hi
                for k in range(k_hi - 1, k_lo - 1, -1):
                    total += share[k] * inverse[k + j + 2] - (rel[k] - z)
                    place = k if total > best else place  # selected, not branched to: it cannot be foretold
                    best = total if total > best else best
                best_place[j] = place
                # the left half next, the right one later
                if j + 1 < j_hi:
                    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = (
                        j + 1,
                        j_hi,
                        place,
                        k_hi,
                    )
                    depth += 1
                j_hi = j
                k_hi = place
        # how many stand above each relevant one: the last of those placed there, or of those above
        for i in range(n_rel + 1):
            passed[i] = 0
        for j in range(n_non):
            passed[best_place[j]] = j + 1
        above = 0
        precision = 0.0
        for i in range(n_rel):
            above = max(above, passed[i])
            precision += (i + 1.0) / (i + 1.0 + above)
            coef[own + rel_rows[i]] = unit * above
        loss[q - first] = 1.0 - precision / n_rel
        for j in range(n_non):
            coef[own + non_rows[j]] = -unit * (n_rel - best_place[j])
