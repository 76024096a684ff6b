"""Ordinal hinge with thresholds between adjacent grades, minimised exactly over the thresholds (thesis, OP 2)."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from structsvm.protocols import Float, Int
from structsvm.queries import labels_of

Sides = tuple[Int, Float, Int, Float]
"""Rows below a threshold, their weights, rows above the threshold, and their weights."""


@dataclass(frozen=True)
class OrdinalHinge:
    """Two-sided hinge around thresholds that separate adjacent grades, minimised over the thresholds.

    With grades numbered ``0 ... T`` and thresholds ``b_1 <= ... <= b_T``, a row of grade ``j`` should score at least
    ``b_j + 1`` and at most ``b_{j+1} - 1``; its loss is the amount by which it violates these
    bounds, and the loss of a query is the mean over its rows. As the thresholds are not penalised and are optimal for
    the given scores, the loss is a convex function of the scores. Bind all rows as one query, unless each query may
    have its own thresholds.

    Parameters
    ----------
    balanced : bool, default=False
        Whether the rows below and above each threshold have the same total weight. If False and one grade is much more
        frequent than the adjacent grade, equal scores are often optimal.

    Notes
    -----
    Given the scores, the cost is a piecewise linear function of each threshold, with a kink at ``s - 1`` for every row
    of the grade above and at ``s + 1`` for every row of the grade below. Its minimum is a weighted quantile of the
    kinks. Minima in the wrong order are pooled (pool adjacent violators), in O(n log n). The subgradients of rows
    exactly at a kink are chosen so that the derivative with respect to every threshold is zero. The tangent in the
    scores is then also a tangent of the minimum over the thresholds.

    Examples
    --------
    >>> separator = OrdinalHinge().bind(np.array([2.0, 1.0, 0.0]), np.array([0, 3]))
    >>> separator.thresholds(np.array([4.0, 2.0, 0.0]))
    array([1., 3.])
    """

    balanced: bool = False

    def bind(self, y: Float, offsets: Int, *, weights: Float | None = None) -> "OrdinalSeparator":
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets``; ``weights`` (n_rows,) are the weights of the rows in
        the means."""
        return OrdinalSeparator(labels_of(y, offsets), offsets, weights, balanced=self.balanced)


class OrdinalSeparator:
    """Separator of :class:`OrdinalHinge`, bound to labels; grades without a row of positive weight are ignored."""

    exact = True
    query_weights: Float | None = None

    def __init__(self, y: Float, offsets: Int, weights: Float | None, *, balanced: bool) -> None:
        self._offsets = offsets
        # per query, a list with the ``Sides`` of each threshold in ascending order
        self.sides: list[list[Sides]] = []
        for first, last in pairwise(offsets.tolist()):
            labels = np.asarray(y[first:last], dtype=np.float64)
            omega = np.ones(last - first) if weights is None else weights[first:last]
            omega = omega / max(omega.sum(), 1e-300)
            grades = [np.flatnonzero((labels == g) & (omega > 0)) for g in np.unique(labels[omega > 0])]
            self.sides.append([])
            for below, above in pairwise(grades):
                low, high = omega[below], omega[above]
                if balanced:
                    half = 0.5 * (low.sum() + high.sum())
                    low, high = low * (half / low.sum()), high * (half / high.sum())
                self.sides[-1].append((below, low, above, high))
        self.informative = np.array([len(sides) > 0 for sides in self.sides], dtype=np.bool_)

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        base = self._offsets[first]
        for q in range(first, last):
            rows = slice(self._offsets[q] - base, self._offsets[q + 1] - base)
            loss[q - first] = _tangent(scores[rows], self.sides[q], coef[rows])

    def thresholds(self, scores: Float, query: int = 0) -> Float:
        """Return the optimal thresholds for the scores of a query, in ascending order; if an interval is optimal, its
        lower end is returned."""
        blocks = _pool([_Kinks.between(scores, *sides) for sides in self.sides[query]])
        return np.array([b for _, b, members in blocks for _ in members])


class _Kinks:
    """Cost of a threshold: the points at which its slope increases, the increments, and the slope before the first
    point."""

    def __init__(self, at: Float, rise: Float, slope: float) -> None:
        order = np.argsort(at, kind="stable")
        self.at, self.rise, self.slope = at[order], rise[order], slope

    @classmethod
    def between(cls, scores: Float, below: Int, low: Float, above: Int, high: Float) -> Self:
        at = np.concatenate((scores[below] + 1.0, scores[above] - 1.0))
        return cls(at, np.concatenate((low, high)), -float(low.sum()))

    def join(self, other: Self) -> Self:
        return type(self)(
            np.concatenate((self.at, other.at)),
            np.concatenate((self.rise, other.rise)),
            self.slope + other.slope,
        )

    def minimum(self) -> float:
        """Return the smallest threshold that minimises the cost."""
        # Cumulative sums of equal weights differ from the exact total by rounding; because of the tolerance, the result
        # is nevertheless the lower end of an interval of minima.
        reached = np.searchsorted(np.cumsum(self.rise), -self.slope * (1.0 - 1e-12))
        return float(self.at[min(int(reached), self.at.shape[0] - 1)])

    def slopes(self, b: float) -> tuple[float, float]:
        """Return the derivatives of the cost to the left and to the right of ``b``."""
        left, right = np.searchsorted(self.at, b, side="left"), np.searchsorted(self.at, b, side="right")
        before = self.slope + float(self.rise[:left].sum())
        return before, before + float(self.rise[left:right].sum())


def _pool(kinks: list[_Kinks]) -> list[tuple[_Kinks, float, list[_Kinks]]]:
    """Return blocks of thresholds with equal values: the joint kinks of a block, the common value, and the kinks of
    each threshold."""
    # Pool adjacent violators: keep the minima of the blocks in ascending order. A threshold whose minimum is below that
    # of the preceding block is merged with it, and the sum of their costs is minimised, until the order holds again.
    blocks: list[tuple[_Kinks, float, list[_Kinks]]] = []
    for one in kinks:
        blocks.append((one, one.minimum(), [one]))
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            (upper, _, later), (lower, _, earlier) = blocks.pop(), blocks.pop()
            joint = lower.join(upper)
            blocks.append((joint, joint.minimum(), earlier + later))
    return blocks


def _tangent(scores: Float, thresholds: list[Sides], coef: Float) -> float:
    """Fill in the coefficients of the rows of a query, and return the loss."""
    coef[:] = 0.0
    loss = 0.0
    remaining = iter(thresholds)
    for _, b, members in _pool([_Kinks.between(scores, *sides) for sides in thresholds]):
        slopes = [one.slopes(b) for one in members]
        # The slope of each threshold of the block may have any value between its left and right derivatives at b. The
        # rows at kinks are used to make the sum of the slopes zero (Notes of OrdinalHinge). The slopes of the last
        # thresholds are raised first. As thresholds are in ascending order, only the lower ones of a block may move
        # down and the upper ones up; with this choice no such move reduces the cost.
        missing = -sum(before for before, _ in slopes)
        shares = []
        for before, after in reversed(slopes):
            used = min(max(missing, 0.0), after - before)
            missing -= used
            shares.append(used / (after - before) if after > before else 0.0)
        for share in reversed(shares):
            below, low, above, high = next(remaining)
            at = scores[below] + 1.0
            alpha = low * np.where(at == b, 1.0 - share, at > b)
            coef[below] -= alpha
            loss += float(alpha.sum())
            at = scores[above] - 1.0
            alpha = high * np.where(at == b, share, at < b)
            coef[above] += alpha
            loss += float(alpha.sum())
    return loss
