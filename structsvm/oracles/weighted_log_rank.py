"""The log of each document's rank, weighted: what clicks with inverse propensities train for DCG and MRR."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp, log
from structsvm.common.portable.elementary import LN2
from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets


@dataclass(frozen=True)
class WeightedLogRank:
    """``log2(1 + sum_{j != i} exp(s_j - s_i))`` of each document ``i``, the mean of a query weighted by ``y``."""

    # What stands in the logarithm is at least the rank of the document, so that the loss bounds 1 - 1/log2(1 + rank)
    # and half of it 1 - 1/rank. It is linear in the weights: inverse propensities keep it unbiased. A query weighs the
    # sum of its weights.

    def bind(self, y: Float, offsets: Int) -> WeightedLogRankSeparator:
        """Bind to weights ``y``, >= 0, grouped by ``offsets``."""
        check_offsets(offsets, np.shape(y)[0])
        return WeightedLogRankSeparator(np.asarray(y, dtype=np.float64), offsets)


class WeightedLogRankSeparator:
    """The tangent of the loss, and products with its second derivative at the same scores."""

    exact = True

    def __init__(self, y: Float, offsets: Int) -> None:
        lengths = np.diff(offsets)
        query = np.repeat(np.arange(lengths.shape[0]), lengths)
        totals = np.bincount(query, y, lengths.shape[0]).astype(np.float64)
        self.query_weights: Float | None = totals
        self.informative = (totals > 0) & (lengths > 1)
        self._labels = (offsets, self.informative, y / np.where(totals > 0, totals, 1.0)[query])

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        _tangent(scores, first, last, *self._labels, np.empty(scores.shape[0]), loss, coef)

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Float:
        """See ``structsvm.trainers.passes.SmoothSeparator``."""
        shares = np.empty(scores.shape[0])
        _tangent(scores, first, last, *self._labels, shares, loss, coef)
        return shares

    def curve(self, curvature: Float, direction: Float, first: int, last: int, coef: Float) -> None:
        """See ``structsvm.trainers.passes.SmoothSeparator``."""
        _curvature(direction, first, last, *self._labels, curvature, coef)


@kernel
def _tangent(scores, first, last, offsets, informative, weights, shares, loss, coef):  # type: ignore[no-untyped-def]
    """Fill the tangents, and the softmax of the scores in ``shares``."""
    base = offsets[first]
    for q in range(first, last):
        start, end = offsets[q] - base, offsets[q + 1] - base
        loss[q - first] = 0.0
        if not informative[q]:
            coef[start:end] = 0.0
            continue
        top = scores[start]
        for i in range(start, end):
            top = max(top, scores[i])
        total = 0.0
        for i in range(start, end):
            shares[i] = exp(scores[i] - top)
            total += shares[i]
        value = log(total)
        for i in range(start, end):
            shares[i] /= total
            v = scores[i] - top
            coef[i] = (weights[base + i] - shares[i]) / LN2
            # the value and the coefficient times the score: the weights cancel
            value -= shares[i] * v
        loss[q - first] = max(0.0, value / LN2)


@kernel
def _curvature(direction, first, last, offsets, informative, weights, shares, coef):  # type: ignore[no-untyped-def]
    """Fill minus the second derivative times ``direction``: the softmax times what is above its mean."""
    base = offsets[first]
    for q in range(first, last):
        start, end = offsets[q] - base, offsets[q + 1] - base
        if not informative[q]:
            coef[start:end] = 0.0
            continue
        mean = 0.0
        for i in range(start, end):
            mean += shares[i] * direction[i]
        for i in range(start, end):
            coef[i] = -shares[i] * (direction[i] - mean) / LN2
