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
        _separate(
            scores, first, last, self._offsets, self._members, self._n_relevant, self._inverse, loss, coef
        )


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
def _sort_block(values, rows, n, out_values, out_rows):  # type: ignore[no-untyped-def]
    """Descending stable sort of a few values by counting for each how many precede it.

    No branch depends on the data. Four values share each load, and the loops run over slices from 0:
    otherwise a check for negative indices keeps the compiler from vectorising them (3 to 5 times slower).
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _sort_descending(values, rows, n, spare_values, spare_rows):  # type: ignore[no-untyped-def]
    """Stable descending sort of ``values[:n]`` with ``rows[:n]`` in place, by counted blocks."""
    width = 128
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
        values[:n] = spare_values[:n]
        rows[:n] = spare_rows[:n]


@njit(cache=True, nogil=True)
def _separate(scores, first, last, offsets, members, n_relevant, inverse, loss, coef):  # type: ignore[no-untyped-def]
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    rel, rel_rows = np.empty(longest), np.empty(longest, np.int32)
    non, non_rows = np.empty(longest), np.empty(longest, np.int32)
    spare_values, spare_rows = np.empty(longest), np.empty(longest, np.int32)
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
            rel_rows[i] = members[row0 + i]
            rel[i] = s[rel_rows[i]]
        for j in range(n_non):
            non_rows[j] = members[row0 + n_rel + j]
            non[j] = s[non_rows[j]]
        _sort_descending(rel, rel_rows, n_rel, spare_values, spare_rows)
        _sort_descending(non, non_rows, n_non, spare_values, spare_rows)
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
                    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = (
                        j + 1,
                        j_hi,
                        place,
                        k_hi,
                    )
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
