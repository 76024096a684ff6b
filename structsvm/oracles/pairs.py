"""Oracles of the pairwise SVM and of SVM-roc, which count violated pairs of documents with different grades."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import check_choice
from structsvm.common.kernel import kernel
from structsvm.oracles.grades import by_grade
from structsvm.oracles.sorting import merge, sort_buffers, sort_descending
from structsvm.protocols import Float, Int
from structsvm.queries import labels_of


@dataclass(frozen=True)
class Pairs:
    """Hinge loss on all pairs of a query with different grades: the pairwise (ranking) SVM.

    For every pair with ``y_i > y_j`` the hinge is ``max(0, 1 - (s_i - s_j))``; the loss of a query is the mean over its
    pairs. A query whose labels are all equal has no constraint.

    Parameters
    ----------
    normalize : {"pairs", "query"}, default="pairs"
        How the objective averages the loss. With ``"pairs"`` it is the mean over all pairs of the data set, as in the
        pairwise SVM, so that each query is weighted by its number of pairs. With ``"query"`` it is the mean over
        queries, as for the other losses. The oracle always divides by the number of pairs of the query; the separator
        returns the weights of the queries as ``query_weights``.

    Notes
    -----
    Pairs are violated independently of each other, so that a most violated output is a set of pairs that need not be
    the inversions of a ranking. An evaluation costs O(n log n) for any number of grades: the documents of each grade
    are sorted, and adjacent grades are merged level by level while the violated pairs between them are counted. Up to
    300 pairs per document, it is faster to compare all pairs.

    For binary labels and ``normalize="query"``, the weights of :class:`RocArea` are ``w_roc(C) = 1/2 w_pair(4 C)``.

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

    label: ClassVar[str] = "pairs"
    usual_C: ClassVar[float] = 10.0
    measure: ClassVar[str] = "pairs"
    cutoff: ClassVar[str] = "never"

    normalize: Literal["pairs", "query"] = "pairs"

    def __post_init__(self) -> None:
        check_choice("normalize", self.normalize, ("pairs", "query"))

    def bind(self, y: Float, offsets: Int) -> "PairSeparator":
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        separator = PairSeparator(labels_of(y, offsets), offsets, margin=1.0, step=1.0)
        if self.normalize == "pairs":
            separator.query_weights = separator.pair_counts.astype(np.float64)
        return separator


@dataclass(frozen=True)
class RocArea:
    """Loss ``1 - ROC area``, which is the fraction of inverted pairs, with the pairwise joint feature of SVM-roc.

    ``Psi(x, y) = 1/(P N) sum_{i relevant} sum_{j non-relevant} y_ij (phi_i - phi_j)`` for ``P`` relevant and ``N``
    non-relevant documents; a query with ``P = 0`` or ``N = 0`` has no constraint.

    Parameters
    ----------
    relevance : float, default=1.0
        Lowest label of a relevant document, as for :class:`~structsvm.oracles.AveragePrecision`.

    Notes
    -----
    The most violated ranking inverts ``(i, j)`` if ``s_i - s_j < 1/2`` (thesis 3.2.1, after Joachims 2005): it sorts by
    score after 1/2 is subtracted from the score of every relevant document. The hinge is that of :class:`Pairs` at
    doubled scores.

    Examples
    --------
    >>> import numpy as np
    >>> separator = RocArea().bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.zeros(2), 0, 1, loss, coef)
    >>> loss, coef
    (array([1.]), array([-2.,  2.]))
    """

    label: ClassVar[str] = "roc"
    cutoff: ClassVar[str] = "never"

    relevance: float = 1.0

    def bind(self, y: Float, offsets: Int) -> "PairSeparator":
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        relevant = (labels_of(y, offsets) >= self.relevance).view(np.int8)
        return PairSeparator(relevant, offsets, margin=0.5, step=2.0)


class PairSeparator:
    """Separator of :class:`Pairs` and :class:`RocArea`, based on counts of violated pairs.

    A pair is violated if ``s_i - s_j < margin``. Each violated pair adds ``step / pairs`` to the coefficient of its
    better document and subtracts it from the coefficient of its worse document.
    """

    exact = True

    def __init__(self, y: NDArray[Any], offsets: Int, *, margin: float, step: float) -> None:
        self._offsets = offsets
        self._margin = margin
        self._step = step
        self._longest = int(np.diff(offsets).max(initial=1))
        self.order = by_grade(y, offsets)
        self.pair_counts = self.order.pair_counts
        self.informative = self.pair_counts > 0
        # equal weights, which ``Pairs(normalize="pairs")`` replaces by the numbers of pairs
        self.query_weights: Float | None = np.ones(self.pair_counts.shape[0])

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        n = self._longest
        room = np.empty(n), np.empty(n, np.int32), sort_buffers(n), np.empty((3, n + 3), np.int64)
        hinge = self._margin, self._step, _COUNTING_PAIRS
        _separate(scores, first, last, self._offsets, self.order, *hinge, room, loss, coef)


_COUNTING_PAIRS = 300
"""Maximum number of pairs per document for which vectorised comparisons are faster than sorting and merging."""


@kernel(inline="always")
def _count_all(v, lower, n, margin, won, lost):  # type: ignore[no-untyped-def]
    """Count the violated pairs in which each document is the better (``won``) or the worse (``lost``) document."""
    # Documents are in descending order of grade; ``lower[i]`` is the first index of a lower grade than that of ``i``.
    # Four documents of a grade at a time are compared with all documents of lower grades, without a branch, so that the
    # loop is vectorised and shares its loads. If fewer than four are left, the missing ones get an infinite limit.
    # Their zero counts are written to indices that are overwritten later, or to padding after the last document.
    lost[:n] = 0
    start = 0
    while start < n:
        end = lower[start]
        tail = v[end:n]
        tail_lost = lost[end:n]
        for i in range(start, end, 4):
            l0 = v[i] - margin
            l1 = v[i + 1] - margin if i + 1 < end else np.inf
            l2 = v[i + 2] - margin if i + 2 < end else np.inf
            l3 = v[i + 3] - margin if i + 3 < end else np.inf
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
        start = end


@kernel(inline="always")
def _count_across(v, indices, start, middle, end, margin, won, lost):  # type: ignore[no-untyped-def]
    """Count violated pairs between ``[start, middle)`` (better) and ``[middle, end)`` (worse), both sorted by score."""
    # In descending order of score, the worse documents that violate the margin with the better document i form a
    # prefix, which grows with i: one pass through both ranges counts all of them. A second pass, from the end, counts
    # the better documents for each worse document. ``indices`` maps positions to indices in the order of grades.
    j = middle
    for i in range(start, middle):
        limit = v[i] - margin
        while j < end and v[j] > limit:
            j += 1
        won[indices[i]] += j - middle
    i = middle
    for j in range(end - 1, middle - 1, -1):
        while i > start and v[j] > v[i - 1] - margin:
            i -= 1
        lost[indices[j]] += middle - i


@kernel(inline="always")
def _count_merging(v, lower, n, margin, won, lost, indices, spare, bounds):  # type: ignore[no-untyped-def]
    """Compute the counts of ``_count_all`` in O(n log n): sort each grade, then merge adjacent blocks level by
    level."""
    # Invariant: ``bounds`` delimits blocks of consecutive grades. Each block is sorted by score, and all pairs within
    # it have been counted; the pairs between two blocks are counted just before they are merged. For T grades there are
    # log2(T) levels of O(n) steps. The last two blocks need no merge, because no count follows.
    spare_values, spare_indices = spare[0], spare[1]
    won[:n] = 0
    lost[:n] = 0
    for i in range(n):
        indices[i] = i
    n_blocks = 0
    start = 0
    while start < n:
        end = lower[start]
        sort_descending(v[start:], indices[start:], end - start, spare)
        bounds[n_blocks] = start
        n_blocks += 1
        start = end
    bounds[n_blocks] = n
    while n_blocks > 1:
        n_merged = 0
        for block in range(0, n_blocks - 1, 2):
            start, middle, end = bounds[block], bounds[block + 1], bounds[block + 2]
            _count_across(v, indices, start, middle, end, margin, won, lost)
            if n_blocks > 2:
                merge(v, indices, start, middle, end, spare_values, spare_indices)
                # a loop, as slice assignments take a second longer to compile
                for i in range(start, end):
                    v[i] = spare_values[i]
                    indices[i] = spare_indices[i]
            bounds[n_merged] = start
            n_merged += 1
        if n_blocks % 2 == 1:
            bounds[n_merged] = bounds[n_blocks - 1]
            n_merged += 1
        bounds[n_merged] = n
        n_blocks = n_merged


@kernel
def _separate(scores, first, last, offsets, order, margin, step, counting_pairs, room, loss, coef):  # type: ignore[no-untyped-def]
    members, lower, pair_counts = order
    v, indices, spare, longs = room
    won, lost, bounds = longs[0], longs[1], longs[2]
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
        # for few pairs per document, vectorised comparisons of all pairs are faster than O(n log n) sorting and merging
        if pair_counts[q] <= counting_pairs * n:
            _count_all(v, below, n, margin, won, lost)
        else:
            _count_merging(v, below, n, margin, won, lost, indices, spare, bounds)
        # each violated pair adds ``unit`` to the coefficient of its better document, and subtracts it from that of its
        # worse document
        violated = 0
        unit = step / pair_counts[q]
        for i in range(n):
            violated += won[i]
            a[rows[i]] = unit * (won[i] - lost[i])
        loss[q - first] = violated / pair_counts[q]
