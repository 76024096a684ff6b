"""Ordinal hinge with thresholds between neighbouring grades, the best thresholds found exactly (thesis, OP 2)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets

__all__ = ["OrdinalHinge", "OrdinalSeparator"]

Sides = tuple[Int, Float, Int, Float]
"""Rows below a threshold and their weights, rows above it and their weights."""


@dataclass(frozen=True)
class OrdinalHinge:
    """Two-sided hinge around thresholds that separate neighbouring grades, minimised over the thresholds.

    With grades numbered ``0 ... T`` and thresholds ``b_1 <= ... <= b_T``, a row of grade ``j`` should score at least
    ``b_j + 1`` and at most ``b_{j+1} - 1``; it pays by how much it fails, and a query counts the mean of its rows. The
    thresholds are not penalised and best for the scores given, so only scores remain: a convex function of them, and
    an oracle like any other. All rows are meant to be one query, unless each query may have thresholds of its own.

    Parameters
    ----------
    balanced : bool, default=False
        At each threshold, let the rows below weigh as much as the rows above, with the same sum. Otherwise, where one
        grade is much more frequent than its neighbour, equal scores are often optimal.

    Notes
    -----
    Given the scores, a threshold's cost is piecewise linear in it with a kink at ``s - 1`` for every row of the grade
    above and at ``s + 1`` for every row of the grade below; its minimum is a weighted quantile of the kinks. Where
    minima come in the wrong order, neighbours are pooled until they do not (pool adjacent violators): O(n log n).
    Rows exactly at a kink share what makes the derivative in every threshold vanish, which makes the tangent in the
    scores one of the minimum over the thresholds too.

    Examples
    --------
    >>> separator = OrdinalHinge().bind(np.array([2.0, 1.0, 0.0]), np.array([0, 3]))
    >>> separator.thresholds(np.array([4.0, 2.0, 0.0]))
    array([1., 3.])
    """

    balanced: bool = False

    def bind(self, y: Float, offsets: Int, *, weights: Float | None = None) -> OrdinalSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets``; ``weights`` (n_rows,) make the means weighted."""
        check_offsets(offsets, np.shape(y)[0])
        return OrdinalSeparator(y, offsets, weights, balanced=self.balanced)


class OrdinalSeparator:
    """See :class:`OrdinalHinge`.

    Parameters
    ----------
    y : ndarray of float64, shape (n_rows,)
        Only the order of the labels matters; neighbouring grades are those that occur.
    offsets : ndarray of int64, shape (n_queries + 1,)
    weights : ndarray of float64, shape (n_rows,), or None
        Relative weights >= 0 of the rows of a query. Rows without weight do not count, nor make a grade occur.
    balanced : bool

    Attributes
    ----------
    sides : list of list of tuple
        For each query, for each of its thresholds, ascending: rows below, their weights, rows above, their weights.
    """

    exact = True
    query_weights: Float | None = None

    def __init__(self, y: Float, offsets: Int, weights: Float | None, *, balanced: bool) -> None:
        self._offsets = offsets
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
        """The best thresholds for the scores (n_rows of the query,), ascending: one fewer than grades.

        Where an interval is best, its lower end.
        """
        blocks = _pool([_Kinks.between(scores, *sides) for sides in self.sides[query]])
        return np.array([b for _, b, members in blocks for _ in members])


class _Kinks:
    """Where the slope of the cost of a threshold rises, by how much, and the slope before the first."""

    def __init__(self, at: Float, rise: Float, slope: float) -> None:
        order = np.argsort(at, kind="stable")
        self.at, self.rise, self.slope = at[order], rise[order], slope

    @classmethod
    def between(cls, scores: Float, below: Int, low: Float, above: Int, high: Float) -> _Kinks:
        at = np.concatenate((scores[below] + 1.0, scores[above] - 1.0))
        return cls(at, np.concatenate((low, high)), -float(low.sum()))

    def join(self, other: _Kinks) -> _Kinks:
        return _Kinks(
            np.concatenate((self.at, other.at)),
            np.concatenate((self.rise, other.rise)),
            self.slope + other.slope,
        )

    def minimum(self) -> float:
        """The smallest threshold from which the cost no longer falls."""
        # sums of equal weights differ by rounding from what they are compared with
        reached = np.searchsorted(np.cumsum(self.rise), -self.slope * (1.0 - 1e-12))
        return float(self.at[min(int(reached), self.at.shape[0] - 1)])

    def slopes(self, b: float) -> tuple[float, float]:
        """Derivatives of the cost to the left and to the right of ``b``."""
        left, right = np.searchsorted(self.at, b, side="left"), np.searchsorted(self.at, b, side="right")
        before = self.slope + float(self.rise[:left].sum())
        return before, before + float(self.rise[left:right].sum())


def _pool(kinks: list[_Kinks]) -> list[tuple[_Kinks, float, list[_Kinks]]]:
    """Blocks of thresholds that coincide: their joint kinks, their common value, and the kinks of each."""
    blocks: list[tuple[_Kinks, float, list[_Kinks]]] = []
    for one in kinks:
        blocks.append((one, one.minimum(), [one]))
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            (upper, _, later), (lower, _, earlier) = blocks.pop(), blocks.pop()
            joint = lower.join(upper)
            blocks.append((joint, joint.minimum(), earlier + later))
    return blocks


def _tangent(scores: Float, thresholds: list[Sides], coef: Float) -> float:
    """Fill the coefficients of the rows of a query; the loss."""
    coef[:] = 0.0
    loss = 0.0
    remaining = iter(thresholds)
    for _, b, members in _pool([_Kinks.between(scores, *sides) for sides in thresholds]):
        slopes = [one.slopes(b) for one in members]
        # What rows at their kink add to the slopes must bring the block's to zero. Raising the last thresholds first
        # leaves no part of the block that would gain by moving off from the rest in the direction it may.
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
