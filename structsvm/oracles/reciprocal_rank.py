"""The oracle of the reciprocal rank: a search over the rank of the first relevant document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.oracles.positions import (
    FeatureDiscount,
    PositionSeparator,
    begin,
    check_cut_off,
    check_name,
    cut_depth,
    position_weights,
    rank_by_relevance,
)
from structsvm.oracles.sorting import sort_buffers, sort_top
from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets

__all__ = ["ReciprocalRank"]


@dataclass(frozen=True)
class ReciprocalRank:
    """Loss ``1 - 1/rank`` of the first relevant document (MRR).

    A query with ``P = 0`` or ``N = 0`` has no constraint.

    Parameters
    ----------
    k : int or None, default=None
        Cut-off of the measure (no relevant document in the first ``k`` has loss 1) and of the features.
        None: all positions.
    relevance : float, default=1.0
        A document is relevant if its label is at least this.
    feature_discount : {"log2", "inverse"}, default="log2"
        ``alpha(r)`` of the joint feature: ``1 / log2(r + 1)`` or ``1 / r``.

    Raises
    ------
    ValueError
        For a ``k`` below 1 or an unknown name.

    Notes
    -----
    The search is over the rank ``r`` of the first relevant document. Given ``r``, exchanging two documents of one kind
    shows that the best non-relevant documents are above it, the best relevant one is at ``r``, and all others follow
    sorted. The score part of the value falls as ``r`` moves down from the rank in the list sorted by score, so the
    search starts there and stops when the remaining gain in loss cannot make up for it. From ``r`` to ``r + 1`` one
    non-relevant document passes the relevant ones above it. The total cost is a sort and at most O(P N), usually far
    less.

    Examples
    --------
    >>> import numpy as np
    >>> separator = ReciprocalRank().bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.array([0.0, 0.5]), 0, 1, loss, coef)
    >>> loss, coef.round(3)
    (array([0.5]), array([-0.369,  0.369]))
    """

    label: ClassVar[str] = "mrr"
    cutoff: ClassVar[str] = "optional"

    k: int | None = None
    relevance: float = 1.0
    feature_discount: FeatureDiscount = "log2"

    def __post_init__(self) -> None:
        check_cut_off(self, self.k)
        check_name(self, "feature_discount", self.feature_discount, ("log2", "inverse"))

    def bind(self, y: Float, offsets: Int) -> PositionSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        longest, k = cut_depth(offsets, self.k)
        alpha = position_weights(self.feature_discount, longest, k)
        reciprocal = position_weights("inverse", longest, k)
        members, n_relevant, target = rank_by_relevance(y, offsets, self.relevance, alpha)
        informative = (n_relevant > 0) & (n_relevant < np.diff(offsets))
        return PositionSeparator(
            _separate_first_relevant,
            offsets,
            informative,
            target,
            (alpha, reciprocal, k, members, n_relevant),
        )


@kernel(error_model="numpy")
def _separate_first_relevant(  # type: ignore[no-untyped-def]
    scores, first, last, offsets, informative, target, settings, loss, coef
):
    """Separate the reciprocal rank: search over the number of non-relevant documents above the first relevant one."""
    alpha, reciprocal, depth, members, n_relevant = settings
    longest = begin(first, last, offsets, target, loss, coef)
    part = np.empty(longest)
    rel, rel_rows = np.empty(longest), np.empty(longest, np.int32)
    non, non_rows = np.empty(longest), np.empty(longest, np.int32)
    spare = sort_buffers(longest)
    base = offsets[first]
    for q in range(first, last):
        if not informative[q]:
            continue
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        s = scores[row0 - base : row0 - base + n]
        a = coef[row0 - base : row0 - base + n]
        k = min(depth, n)
        n_rel = n_relevant[q]
        n_non = n - n_rel
        rel_members = members[row0 : row0 + n_rel]
        non_members = members[row0 + n_rel : row0 + n]
        # only the first k of each can be in the first k positions
        for i in range(n_rel):
            part[i] = s[rel_members[i]]
        sort_top(part, n_rel, min(k, n_rel), rel, rel_rows, spare)
        for j in range(n_non):
            part[j] = s[non_members[j]]
        sort_top(part, n_non, min(k, n_non), non, non_rows, spare)
        n_rel, n_non = min(k, n_rel), min(k, n_non)
        above = 0
        while above < n_non and non[above] > rel[0]:
            above += 1
        best_above = above
        best = -reciprocal[above]
        cost = 0.0
        while above < n_non and -reciprocal[n_non] - cost > best:
            # non-relevant document `above` passes the relevant documents of higher score
            z = non[above]
            i = 0
            while i < n_rel and above + i < k and (i == 0 or rel[i] > z):
                cost += (rel[i] - z) * (alpha[above + i] - alpha[above + i + 1])
                i += 1
            above += 1
            if -reciprocal[above] - cost > best:
                best = -reciprocal[above] - cost
                best_above = above
        loss[q - first] = 1.0 - reciprocal[best_above]
        for j in range(best_above):
            a[non_members[non_rows[j]]] -= alpha[j]
        i, j = 0, best_above
        for p in range(best_above, k):
            if i < n_rel and (i == 0 or j >= n_non or rel[i] >= non[j]):
                a[rel_members[rel_rows[i]]] -= alpha[p]
                i += 1
            else:
                a[non_members[non_rows[j]]] -= alpha[p]
                j += 1
