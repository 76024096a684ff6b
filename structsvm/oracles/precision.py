"""The oracle of precision at k: a search over the number of relevant documents in the first k."""

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

__all__ = ["PrecisionAt"]


@dataclass(frozen=True)
class PrecisionAt:
    """Loss ``1 - t / min(k, P)`` with ``t`` relevant documents in the first ``k``.

    A query has no constraint if the loss is 0 for every ranking: ``P = 0``, ``N = 0`` or no more than
    ``k`` documents.

    Parameters
    ----------
    k : int, default=10
        Cut-off of the measure and of the features.
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
    The search is over ``t``: the first ``k`` hold the best ``t`` relevant and the best ``k - t`` non-relevant
    documents, sorted by score. The score part falls as ``t`` moves down from its value in the list sorted
    by score; a step replaces the last relevant document by a non-relevant one at place ``k`` and costs
    O(k). Including the selection of the best ``k`` of each kind, this takes O(n + k^2).

    Examples
    --------
    >>> import numpy as np
    >>> separator = PrecisionAt(k=1).bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.array([0.0, 0.5]), 0, 1, loss, coef)
    >>> loss, coef
    (array([1.]), array([-1.,  1.]))
    """

    label: ClassVar[str] = "precision"
    cutoff: ClassVar[str] = "required"

    k: int = 10
    relevance: float = 1.0
    feature_discount: FeatureDiscount = "log2"

    def __post_init__(self) -> None:
        if self.k is None:
            raise ValueError("PrecisionAt(k=...): expected an int >= 1, got None")
        check_cut_off(self, self.k)
        check_name(self, "feature_discount", self.feature_discount, ("log2", "inverse"))

    def bind(self, y: Float, offsets: Int) -> PositionSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        longest, k = cut_depth(offsets, self.k)
        alpha = position_weights(self.feature_discount, longest, k)
        members, n_relevant, target = rank_by_relevance(y, offsets, self.relevance, alpha)
        lengths = np.diff(offsets)
        informative = (n_relevant > 0) & (n_relevant < lengths) & (lengths > self.k)
        return PositionSeparator(
            _separate_counting, offsets, informative, target, (alpha, k, members, n_relevant)
        )


@kernel(error_model="numpy")
def _separate_counting(scores, first, last, offsets, informative, target, settings, loss, coef):  # type: ignore[no-untyped-def]
    """Separate precision at k: search over the number of relevant documents in the first k."""
    alpha, k, members, n_relevant = settings
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
        # t relevant documents in the first k of the list sorted by score
        t = 0
        for p in range(k):
            j = p - t
            if t < n_rel and (j >= n_non or rel[t] > non[j]):
                t += 1
        fewest = max(0, k - n_non)
        best_t = t
        best = -t / n_rel
        cost = 0.0
        above = k - t
        while t > fewest and -fewest / n_rel - cost > best:
            # relevant document t leaves place t + above, the non-relevant ones below it move up, and another takes
            # place k
            z = rel[t - 1]
            while above > 0 and non[above - 1] < z:
                above -= 1
            for j in range(above, k - t + 1):
                p = t - 1 + j
                cost += (z - non[j]) * (alpha[p] - alpha[p + 1])
            t -= 1
            if -t / n_rel - cost > best:
                best = -t / n_rel - cost
                best_t = t
        loss[q - first] = 1.0 - best_t / n_rel
        i, j = 0, 0
        for p in range(k):
            if i < best_t and (j >= k - best_t or rel[i] >= non[j]):
                a[rel_members[rel_rows[i]]] -= alpha[p]
                i += 1
            else:
                a[non_members[non_rows[j]]] -= alpha[p]
                j += 1
