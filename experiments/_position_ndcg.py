"""The structural hinge of NDCG with position-weighted features (Chapelle, Le & Smola 2007)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structsvm.common.checks import check_whole
from structsvm.common.portable.elementary import exp2, log2
from structsvm.oracles.grades import by_grade
from structsvm.protocols import Float, Int
from structsvm.queries import labels_of, places_in, row_groups


@dataclass(frozen=True)
class PositionNDCG:
    """Margin-rescaled hinge of ``1 - NDCG@k``, to reproduce results: its optimum is often ``w = 0``.

    This happens if queries have about a hundred documents or if labels are noisy: among the rankings with the largest
    loss, the hinge picks the ranking with the highest-scoring irrelevant documents on top. ``loss="ndcg@k"`` is
    :class:`~structsvm.oracles.NDCG`, which learns on such data.

    Parameters
    ----------
    k : int or None, default=10
        Cut-off of the measure and of the features; None uses all positions.

    Notes
    -----
    ``Psi(x, y) = sum_j alpha(rank_j) phi_j`` with ``alpha(r) = 1 / log2(r + 1)``, zero beyond the cut-off. The target
    is the mean of ``Psi`` over all rankings sorted by grade: documents of equal grade share the mean ``alpha`` of the
    positions they fill. The most violated ranking sorts by ``s_j - gain_j / ideal``, so it takes only a selection of
    ``k`` of ``n`` documents.

    """

    k: int | None = 10

    def __post_init__(self) -> None:
        if self.k is not None:
            check_whole("k", self.k, remedy="None is the whole ranking")

    @property
    def measure(self) -> str:
        """Return the name of the measure that a ranker's ``score`` computes."""
        return "ndcg" if self.k is None else f"ndcg@{self.k}"

    def bind(self, y: Float, offsets: Int) -> _Separator:
        """Bind the loss to labels ``y`` (n_rows,), grouped by ``offsets`` (n_queries + 1,)."""
        grades = np.maximum(labels_of(y, offsets), 0.0)
        gains = exp2(grades) - 1.0
        with np.errstate(over="ignore"):
            overflows = not np.isfinite(gains.sum())
        if overflows:
            raise ValueError(f"PositionNDCG: expected gains with a finite sum, got a label {grades.max():g}")
        longest = int(np.diff(offsets).max(initial=1))
        k = longest if self.k is None else min(int(self.k), longest)
        alpha = 1.0 / log2(np.arange(2.0, longest + 3))
        alpha[k:] = 0.0
        order, query, places = by_grade(grades, offsets), row_groups(offsets), places_in(offsets) - 1
        informative = order.pair_counts > 0
        rows = offsets[query] + order.members
        # rows of one grade share the mean alpha of their positions; rows of uninformative queries have zero
        ends = offsets[query] + order.lower
        number = np.cumsum(np.diff(ends, prepend=ends[:1]) > 0)
        means = np.bincount(number, alpha[places]) / np.bincount(number)
        target = np.zeros(rows.size)
        target[rows] = np.where(informative[query], means[number], 0.0)
        ideal = np.bincount(query, gains[rows] * alpha[places], offsets.shape[0] - 1)
        share = np.divide(gains[: rows.size], ideal[query], out=np.zeros(rows.size), where=informative[query])
        return _Separator(offsets, informative, target, share, alpha, k)


class _Separator:
    exact = True
    query_weights: Float | None = None

    def __init__(
        self, offsets: Int, informative: NDArray[np.bool_], target: Float, share: Float, alpha: Float, k: int
    ) -> None:
        self.informative = informative
        self._longest = int(np.diff(offsets).max(initial=1))
        self._bound = (offsets, informative, target, share, alpha, k)

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        _separate(scores, first, last, *self._bound, np.empty(self._longest), loss, coef)


@njit(cache=True, nogil=True, fastmath=False)
def _separate(  # type: ignore[no-untyped-def]
    scores, first, last, offsets, informative, target, share, alpha, depth, key, loss, coef
):
    """Find the ranking of the largest loss minus margin: sort by ``s_j - gain_j / ideal``."""
    base = offsets[first]
    for i in range(base, offsets[last]):
        coef[i - base] = target[i]
    for q in range(first, last):
        loss[q - first] = 0.0
        if not informative[q]:
            continue
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        s = scores[row0 - base : row0 - base + n]
        a = coef[row0 - base : row0 - base + n]
        gain = share[row0 : row0 + n]
        for i in range(n):
            key[i] = gain[i] - s[i]
        k = min(depth, n)
        rows = np.argsort(key[:n], kind="mergesort")  # stable, so that ties are in the order of the rows
        reached = 0.0
        for p in range(k):
            a[rows[p]] -= alpha[p]
            reached += alpha[p] * gain[rows[p]]
        loss[q - first] = max(0.0, 1.0 - reached)
