"""Average precision: find the most violated ranking of SVM-map in O(n log n)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.oracles.grades import by_grade
from structsvm.oracles.sorting import BLOCK, sort_descending
from structsvm.protocols import Float, Int
from structsvm.queries import labels_of


@dataclass(frozen=True)
class AveragePrecision:
    """Loss ``1 - AP`` with the pairwise joint feature of SVM-map.

    ``Psi(x, y) = 1/(P N) sum_{i relevant} sum_{j non-relevant} y_ij (phi_i - phi_j)`` for ``P`` relevant and ``N``
    non-relevant documents; a query with ``P = 0`` or ``N = 0`` has no constraint.

    Parameters
    ----------
    relevance : float, default=1.0
        Lowest label of a relevant document. With the default of 1, the TREC convention, negative labels are
        non-relevant.

    Notes
    -----
    Yue et al. (thesis 3.2, Algorithm 2) find the best position of each non-relevant document separately, in O(P N). As
    this position increases monotonically with the rank of the document, divide and conquer needs only
    O((P + N) log N) after sorting. The terms ``i / ((i + j)(i + j - 1))`` are summed directly, because differences of
    harmonic numbers would lose digits by cancellation.

    Examples
    --------
    >>> import numpy as np
    >>> separator = AveragePrecision().bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.zeros(2), 0, 1, loss, coef)
    >>> loss, coef
    (array([0.5]), array([-2.,  2.]))
    """

    label: ClassVar[str] = "map"
    cutoff: ClassVar[str] = "never"

    relevance: float = 1.0

    def bind(self, y: Float, offsets: Int) -> "AveragePrecisionSeparator":
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        labels = labels_of(y, offsets)
        order = by_grade(labels, offsets, lambda part: (part >= self.relevance).view(np.int8))
        # the documents of the first grade are the relevant documents, unless the query has none
        n_relevant, some = np.zeros(offsets.shape[0] - 1, dtype=np.int64), np.flatnonzero(np.diff(offsets))
        first = offsets[some]
        best = labels[first + order.members[first]]
        n_relevant[some] = np.where(best >= self.relevance, order.lower[first], 0)
        return AveragePrecisionSeparator(order.members, n_relevant, offsets)


class AveragePrecisionSeparator:
    """Separator of :class:`AveragePrecision`, bound to labels."""

    exact = True
    query_weights: Float | None = None

    def __init__(self, members: NDArray[np.int32], n_relevant: Int, offsets: Int) -> None:
        lengths = np.diff(offsets)
        self.informative = (n_relevant > 0) & (n_relevant < lengths)
        self._longest = longest = int(lengths.max(initial=1))
        m = np.arange(2.0, longest + 2 + 8)  # padded, because whole vectors are read
        inverse = np.concatenate(([0.0, 0.0], 1.0 / (m * (m - 1.0))))
        self._labels = (offsets, members, n_relevant, inverse)

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        width = max(self._longest, BLOCK) + 8
        room = (
            np.empty((7, width)),
            np.empty((5, width), np.int32),
            np.empty((2, width), np.int64),
            np.empty(BLOCK, np.float32),
            np.empty((128, 4), np.int64),
        )
        _separate(scores, first, last, *self._labels, room, loss, coef)


_FEW = 48
"""Maximum number of documents whose best positions are found by exhaustive search in a vectorised loop; larger sets are
divided first."""


@kernel(inline="always")
def _place_few(  # type: ignore[no-untyped-def]
    rel, share, non, inverse, j_lo, j_hi, k_lo, k_hi, totals, bests, positions, best_at
):
    """Find the best positions in ``k_lo..k_hi`` of all non-relevant documents ``j_lo..j_hi`` together."""
    # delta_j(k), the gain of ranking j before relevant document k (thesis, Algorithm 2), is a sum over the positions
    # from k to the last. One loop over k, from the last to the first, therefore adds a term to the totals of all
    # documents j, and keeps the largest total of each document with its position.
    # The loop over j is the inner loop because it vectorises: its iterations are independent, and the maximum is a
    # select instruction instead of a branch. Processing four positions at a time shares the loads and stores of the
    # totals and takes half the time; the compiler unrolls the loop over the four.
    # Whole vectors of 8 are processed, even beyond ``j_hi``, where the arrays are padded. The total of each document is
    # summed in a fixed order, so that the result does not depend on how the documents were divided.
    n = np.uint64((j_hi - j_lo + 7) // 8 * 8)
    start = np.uint64(j_lo)
    for j in range(n):
        totals[j], bests[j], positions[j] = 0.0, 0.0, float(k_hi)
    k = k_hi - 1
    while k - 3 >= k_lo:
        at, g = np.uint64(k), np.uint64(k + j_lo + 2)
        for j in range(n):
            total, best, position, own = totals[j], bests[j], positions[j], non[start + j]
            for s in range(np.uint64(4)):
                total += share[at - s] * inverse[g - s + j] - (rel[at - s] - own)
                position = float(at - s) if total > best else position
                best = total if total > best else best
            totals[j], bests[j], positions[j] = total, best, position
        k -= 4
    while k >= k_lo:
        h0, r0, p0 = share[k], rel[k], float(k)
        g0 = np.uint64(k + j_lo + 2)
        for j in range(n):
            total, best = totals[j] + (h0 * inverse[g0 + j] - (r0 - non[start + j])), bests[j]
            positions[j] = p0 if total > best else positions[j]
            bests[j] = total if total > best else best
            totals[j] = total
        k -= 1
    for j in range(j_hi - j_lo):
        best_at[j_lo + j] = np.int64(positions[j])


@kernel
def _separate(scores, first, last, offsets, members, n_relevant, inverse, room, loss, coef):  # type: ignore[no-untyped-def]
    """Fill in the loss and the coefficients of the most violated ranking of each query."""
    # In a most violated ranking, relevant and non-relevant documents are each sorted by score (thesis, Lemma 1). The
    # remaining task is to find the position of each non-relevant document among the relevant documents.
    # The buffers are arguments, because code that allocates would take longer to compile than the whole kernel.
    floats, ints, longs, keys, stack = room
    rel, non, share = floats[0], floats[1], floats[2]
    totals, bests, positions = floats[3], floats[4], floats[5]
    rel_rows, non_rows = ints[0], ints[1]
    spare = floats[6], ints[2], keys, ints[3], ints[4]
    best_at, passed = longs[0], longs[1]
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
        # a loop with one call, because Numba compiles the callee again for each call in the source
        for side in range(2):
            sort_descending(
                rel if side == 0 else non,
                rel_rows if side == 0 else non_rows,
                n_rel if side == 0 else n_non,
                spare,
            )
        # Scores are scaled by the coefficient of one inverted pair, 2 / (P N). ``share[i] * inverse[i + j + 2]`` is the
        # decrease of average precision if j + 1 instead of j non-relevant documents precede relevant document i.
        for i in range(n_rel):
            rel[i] *= unit
            share[i] = (i + 1.0) / n_rel
        for j in range(n_non):
            non[j] *= unit
        for j in range(n_non, n_non + 8):
            non[j] = 0.0
        # best_at[j] in 0..n_rel: non-relevant document j ranks directly before relevant document best_at[j]. Divide and
        # conquer over j: best_at is non-decreasing in j, so the position of the middle document bounds the
        # positions on both sides. ``stack`` holds the remaining ranges of j, each with its range of positions k.
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n_non, 0, n_rel
        depth = 1
        while depth > 0:
            depth -= 1
            j_lo, j_hi, k_lo, k_hi = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
            while j_lo < j_hi:
                if j_hi - j_lo <= _FEW:
                    _place_few(
                        rel, share, non, inverse, j_lo, j_hi, k_lo, k_hi, totals, bests, positions, best_at
                    )
                    break
                j = (j_lo + j_hi) >> 1
                z = non[j]
                total, best, position = 0.0, 0.0, k_hi
                for k in range(k_hi - 1, k_lo - 1, -1):
                    total += share[k] * inverse[k + j + 2] - (rel[k] - z)
                    # compiled to a select instruction, as a branch would be unpredictable
                    position = k if total > best else position
                    best = total if total > best else best
                best_at[j] = position
                # push the half after the middle document on the stack, and continue with the half before it
                if j + 1 < j_hi:
                    stack[depth, 0], stack[depth, 1] = j + 1, j_hi
                    stack[depth, 2], stack[depth, 3] = position, k_hi
                    depth += 1
                j_hi = j
                k_hi = position
        # ``above`` is the number of non-relevant documents that precede relevant document i. ``passed[k]`` is one more
        # than the index of the last non-relevant document directly before k, or 0 if there is none.
        for i in range(n_rel + 1):
            passed[i] = 0
        for j in range(n_non):
            passed[best_at[j]] = j + 1
        above = 0
        precision = 0.0
        for i in range(n_rel):
            above = passed[i] if passed[i] > above else above
            precision += (i + 1.0) / (i + 1.0 + above)
            coef[own + rel_rows[i]] = unit * above
        loss[q - first] = 1.0 - precision / n_rel
        for j in range(n_non):
            coef[own + non_rows[j]] = -unit * (n_rel - best_at[j])
