"""The oracle of NDCG: a selection, or a linear assignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

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
    rank_ideally,
)
from structsvm.oracles.sorting import sort_buffers, sort_top
from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets

__all__ = ["NDCG"]


@dataclass(frozen=True)
class NDCG:
    """Loss ``1 - NDCG@k``. A query whose documents all have the same gain has no constraint.

    Parameters
    ----------
    k : int or None, default=10
        Cut-off of the measure and of the features. None: all positions.
    gain : {"exp2", "linear"}, default="exp2"
        Gain of grade ``y``: ``2^y - 1`` (the usual one for training) or ``y`` (that of trec_eval, the
        default of ``structsvm.metrics``). Negative labels have gain 0.
    feature_discount : {"log2", "inverse"}, default="log2"
        ``alpha(r)`` of the joint feature: ``1 / log2(r + 1)``, as in the measure, or ``1 / r``.

    Raises
    ------
    ValueError
        For a ``k`` below 1 or an unknown name; by ``bind`` if a label is so large that its gain overflows.

    Notes
    -----
    The most violated ranking assigns documents to positions, with the value of document ``j`` at ``r`` ``alpha(r)
    s_j - gain_j discount(r) / ideal`` (Chapelle, Le and Smola 2007). When ``alpha`` is the discount of the
    measure the value is a product, ``alpha(r) (s_j - gain_j / ideal)``, and sorting by the bracket is
    exact: one selection of ``k`` of ``n`` documents. Otherwise shortest augmenting paths solve the
    assignment. Documents of the same gain differ only in score, so the best ``k`` of each gain suffice: O(k^2 min(n, k
    * gains)). With ``k=None`` that is O(n^3), which suits short queries only.

    Examples
    --------
    >>> import numpy as np
    >>> separator = NDCG(k=1).bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.array([0.0, 0.5]), 0, 1, loss, coef)
    >>> loss, coef
    (array([1.]), array([-1.,  1.]))
    """

    label: ClassVar[str] = "ndcg"
    cutoff: ClassVar[str] = "optional"

    k: int | None = 10
    gain: Literal["exp2", "linear"] = "exp2"
    feature_discount: FeatureDiscount = "log2"

    def __post_init__(self) -> None:
        check_cut_off(self, self.k)
        check_name(self, "feature_discount", self.feature_discount, ("log2", "inverse"))
        check_name(self, "gain", self.gain, ("exp2", "linear"))

    def bind(self, y: Float, offsets: Int) -> PositionSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        grades = np.maximum(np.asarray(y, dtype=np.float64), 0.0)
        if self.gain == "linear":
            gains = grades
        else:
            with np.errstate(over="ignore"):
                gains = np.exp2(grades) - 1.0
        longest, k = cut_depth(offsets, self.k)
        with np.errstate(over="ignore"):
            overflows = not np.isfinite(gains.sum())
        if overflows:
            raise ValueError(
                f"NDCG(gain={self.gain!r}): expected labels whose gains have a finite sum, got a label "
                f"{grades.max():g}; use gain='linear' or smaller grades"
            )
        alpha = position_weights(self.feature_discount, longest, k)
        discount = position_weights("log2", longest, k)
        members, group_end, target = rank_ideally(grades, offsets, alpha)
        share, informative = _gain_shares(gains, grades, offsets, members, discount)
        if self.feature_discount == "log2":
            return PositionSeparator(_separate_sorting, offsets, informative, target, (share, alpha, k))
        return PositionSeparator(
            _separate_assigning, offsets, informative, target, (share, alpha, discount, k, members, group_end)
        )


@kernel(error_model="numpy")
def _gain_shares(gains, grades, offsets, members, discount):  # type: ignore[no-untyped-def]
    """Return gains divided by the ideal DCG of the query, and whether the grades of a query differ."""
    share = np.zeros(gains.shape[0])
    informative = np.zeros(offsets.shape[0] - 1, np.bool_)
    for q in range(offsets.shape[0] - 1):
        row0, end = offsets[q], offsets[q + 1]
        if row0 == end or grades[row0 + members[row0]] == grades[row0 + members[end - 1]]:
            continue
        informative[q] = True
        ideal = 0.0
        for i in range(row0, end):
            ideal += gains[row0 + members[i]] * discount[i - row0]
        for i in range(row0, end):
            share[i] = gains[i] / ideal
    return share, informative


@kernel(error_model="numpy")
def _separate_sorting(scores, first, last, offsets, informative, target, settings, loss, coef):  # type: ignore[no-untyped-def]
    """Separate NDCG with the discount of the measure: sort by ``s_j - gain_j / ideal``."""
    share, alpha, depth = settings
    longest = begin(first, last, offsets, target, loss, coef)
    key, best = np.empty(longest), np.empty(longest)
    spare = sort_buffers(longest)
    rows = np.empty(longest, np.int32)
    base = offsets[first]
    for q in range(first, last):
        if not informative[q]:
            continue
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        s = scores[row0 - base : row0 - base + n]
        a = coef[row0 - base : row0 - base + n]
        gain = share[row0 : row0 + n]
        for i in range(n):
            key[i] = s[i] - gain[i]
        k = min(depth, n)
        sort_top(key, n, k, best, rows, spare)
        reached = 0.0
        for p in range(k):
            a[rows[p]] -= alpha[p]
            reached += alpha[p] * gain[rows[p]]
        loss[q - first] = max(0.0, 1.0 - reached)


@kernel(error_model="numpy")
def _assign(s, gain, alpha, discount, k, m, taken_by, worth, price, path, slack, done):  # type: ignore[no-untyped-def]
    """Assign ``k`` of ``m >= k`` documents to ``k`` positions, optimally.

    ``taken_by[1 + j]`` is the position of document ``j``, counted from 1, or 0. Shortest augmenting paths
    with prices (Kuhn-Munkres): each position in turn finds the cheapest chain of moves that frees a document. A chain
    starts at document 0.
    """
    worth[: k + 1] = 0.0
    taken_by[: m + 1] = 0
    price[: m + 1] = 0.0
    for p in range(1, k + 1):
        taken_by[0] = p
        slack[: m + 1] = np.inf
        done[: m + 1] = False
        here = 0
        while taken_by[here] != 0:
            done[here] = True
            r = taken_by[here]
            step, nearest = np.inf, 0
            for j in range(1, m + 1):
                if not done[j]:
                    reduced = gain[j - 1] * discount[r - 1] - alpha[r - 1] * s[j - 1] - worth[r] - price[j]
                    if reduced < slack[j]:
                        slack[j] = reduced
                        path[j] = here
                    if slack[j] < step:
                        step = slack[j]
                        nearest = j
            for j in range(m + 1):
                if done[j]:
                    worth[taken_by[j]] += step
                    price[j] -= step
                else:
                    slack[j] -= step
            here = nearest
        while here != 0:
            taken_by[here] = taken_by[path[here]]
            here = path[here]


@kernel(error_model="numpy")
def _separate_assigning(scores, first, last, offsets, informative, target, settings, loss, coef):  # type: ignore[no-untyped-def]
    """Separate NDCG with a feature discount other than that of the measure: a linear assignment."""
    share, alpha, discount, depth, members, group_end = settings
    longest = begin(first, last, offsets, target, loss, coef)
    part, best = np.empty(longest), np.empty(longest)
    spare = sort_buffers(longest)
    rows = np.empty(longest, np.int32)
    chosen = np.empty(longest, np.int32)
    chosen_scores, chosen_gains = np.empty(longest), np.empty(longest)
    taken_by, path = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    worth, price, slack = np.empty(longest + 1), np.empty(longest + 1), np.empty(longest + 1)
    done = np.empty(longest + 1, np.bool_)
    base = offsets[first]
    for q in range(first, last):
        if not informative[q]:
            continue
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        s = scores[row0 - base : row0 - base + n]
        a = coef[row0 - base : row0 - base + n]
        gain = share[row0 : row0 + n]
        k = min(depth, n)
        n_chosen = 0
        start = 0
        while start < n:
            end = group_end[row0 + start]
            group = members[row0 + start : row0 + end]
            for i in range(end - start):
                part[i] = s[group[i]]
            n_best = min(k, end - start)
            sort_top(part, end - start, n_best, best, rows, spare)
            for i in range(n_best):
                chosen[n_chosen] = group[rows[i]]
                chosen_scores[n_chosen] = best[i]
                chosen_gains[n_chosen] = gain[chosen[n_chosen]]
                n_chosen += 1
            start = end
        _assign(
            chosen_scores,
            chosen_gains,
            alpha,
            discount,
            k,
            n_chosen,
            taken_by,
            worth,
            price,
            path,
            slack,
            done,
        )
        reached = 0.0
        for j in range(n_chosen):
            p = taken_by[j + 1] - 1
            if p >= 0:
                a[chosen[j]] -= alpha[p]
                reached += chosen_gains[j] * discount[p]
        loss[q - first] = max(0.0, 1.0 - reached)
