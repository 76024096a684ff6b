"""Average precision: the most violated ranking of SVM-map in the time of a sort (ALGORITHMS 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from structsvm.protocols import Float, Int

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
        places = np.arange(2.0, longest + 2)
        # 1 / (m (m - 1)), indexed by m
        self._inverse = np.concatenate(([0.0, 0.0], 1.0 / (places * (places - 1.0))))

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        _separate(scores, first, last, self._offsets, self._members, self._n_relevant, self._inverse, loss, coef)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _sort_block(values, rows, n, place, out_values, out_rows):  # type: ignore[no-untyped-def]
    """Descending stable sort by counting for each value how many exceed it: no branch, all SIMD."""
    i = 0
    while i + 4 <= n:  # four at a time share the loads
        a, b, c, d = values[i], values[i + 1], values[i + 2], values[i + 3]
        n_a, n_b, n_c, n_d = 0, 0, 0, 0
        for j in range(n):
            v = values[j]
            n_a += v > a
            n_b += v > b
            n_c += v > c
            n_d += v > d
        place[i], place[i + 1], place[i + 2], place[i + 3] = n_a, n_b, n_c, n_d
        i += 4
    while i < n:
        a = values[i]
        n_a = 0
        for j in range(n):
            n_a += values[j] > a
        place[i] = n_a
        i += 1
    for i in range(n):
        out_rows[i] = -1
    for i in range(n):
        p = place[i]
        while out_rows[p] >= 0:  # equal values share a count: they line up behind it in row order
            p += 1
        out_values[p] = values[i]
        out_rows[p] = rows[i]


@njit(cache=True, nogil=True)
def _sort_descending(values, rows, n, place, spare_values, spare_rows):  # type: ignore[no-untyped-def]
    """Stable descending sort of ``values[:n]`` with ``rows[:n]``; returns the pair of arrays that holds the result.

    Blocks are sorted by counting (O(n^2) comparisons that vectorise beat any branching sort of their size), longer
    inputs are merged bottom-up.
    """
    width = n if n <= 160 else 64
    for start in range(0, n, width):
        m = min(width, n - start)
        _sort_block(values[start:], rows[start:], m, place, spare_values[start:], spare_rows[start:])
    source, source_rows = spare_values, spare_rows
    target, target_rows = values, rows
    while width < n:
        for start in range(0, n, 2 * width):
            i, i_end = start, min(start + width, n)
            j, j_end = i_end, min(start + 2 * width, n)
            for k in range(start, j_end):
                if i < i_end and (j >= j_end or source[i] >= source[j]):
                    target[k] = source[i]
                    target_rows[k] = source_rows[i]
                    i += 1
                else:
                    target[k] = source[j]
                    target_rows[k] = source_rows[j]
                    j += 1
        source, target = target, source
        source_rows, target_rows = target_rows, source_rows
        width *= 2
    return source, source_rows


@njit(cache=True, nogil=True)
def _separate(scores, first, last, offsets, members, n_relevant, inverse, loss, coef):  # type: ignore[no-untyped-def]
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    a_values, a_rows = np.empty(longest), np.empty(longest, np.int32)
    b_values, b_rows = np.empty(longest), np.empty(longest, np.int32)
    c_values, c_rows = np.empty(longest), np.empty(longest, np.int32)
    d_values, d_rows = np.empty(longest), np.empty(longest, np.int32)
    share = np.empty(longest + 1)
    best_place = np.empty(longest + 1, np.int64)
    stack = np.empty((128, 4), np.int64)
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        n_rel = n_relevant[q]
        n_non = n - n_rel
        s = scores[row0 - base : row0 - base + n]
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if n_rel == 0 or n_non == 0:
            a[:] = 0.0
            continue
        unit = 2.0 / (n_rel * n_non)
        for i in range(n_rel):
            a_rows[i] = members[row0 + i]
            a_values[i] = s[a_rows[i]]
        for j in range(n_non):
            c_rows[j] = members[row0 + n_rel + j]
            c_values[j] = s[c_rows[j]]
        rel, rel_rows = _sort_descending(a_values, a_rows, n_rel, best_place, b_values, b_rows)
        non, non_rows = _sort_descending(c_values, c_rows, n_non, best_place, d_values, d_rows)
        for i in range(n_rel):
            rel[i] *= unit
            share[i] = (i + 1.0) / n_rel
        # best_place[j] in 0..n_rel: non-relevant j stands just above relevant number best_place[j] (from 0).
        # Divide and conquer over j: the place of the middle one bounds the places on both sides.
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n_non, 0, n_rel
        depth = 1
        while depth > 0:
            depth -= 1
            j_lo, j_hi, k_lo, k_hi = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
            while j_lo < j_hi:
                j = (j_lo + j_hi) >> 1
                z = non[j] * unit
                total, best, place = 0.0, 0.0, k_hi
                for k in range(k_hi - 1, k_lo - 1, -1):
                    total += share[k] * inverse[k + j + 2] - (rel[k] - z)
                    if total > best:
                        best = total
                        place = k
                best_place[j] = place
                # the left half next, the right one later
                if j + 1 < j_hi:
                    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = j + 1, j_hi, place, k_hi
                    depth += 1
                j_hi = j
                k_hi = place
        above = 0
        precision = 0.0
        for i in range(n_rel):
            while above < n_non and best_place[above] <= i:
                above += 1
            precision += (i + 1.0) / (i + 1.0 + above)
            a[rel_rows[i]] = unit * above
        loss[q - first] = 1.0 - precision / n_rel
        for j in range(n_non):
            a[non_rows[j]] = -unit * (n_rel - best_place[j])
