"""Pairwise and rank losses for documents with weights, such as clicks divided by their propensities."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp, log
from structsvm.common.portable.elementary import LN2
from structsvm.oracles.sorting import sort_buffers, sort_descending
from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets, refuse_first


@dataclass(frozen=True)
class WeightedPairs:
    """Pairwise hinge ``sum_d y_d sum_{j != d} max(0, 1 - s_d + s_j) / sum_d y_d`` for weights ``y`` of documents.

    If ``mean`` is True, the inner sum is divided by the number of other documents of the query. With ``sum_d y_d`` as
    ``query_weights`` and inverse propensities as weights, this is Propensity SVM-rank (Joachims, Swaminathan &
    Schnabel, WSDM 2017, section 5).
    """

    # One plus the inner sum is an upper bound on the rank of d. The objective is the mean over clicks, as if the query
    # were repeated for each click, but its cost does not depend on the number of clicks: after the scores are sorted,
    # the documents in violated pairs with j are consecutive, and the sum of their weights is a difference of cumulative
    # sums, so that an evaluation takes O(n log n). If two documents have weights, each order of the two is penalised,
    # so that the loss is positive for all scores.

    # The sum of the hinges of a click grows with the length of its list, so that long lists dominate the objective.
    # With ``mean``, clicks in all lists have the same influence, as in a ranking SVM with ``normalize="query"``. The
    # weights of clicks are unchanged, so that the loss remains unbiased.
    mean: bool = False

    def bind(self, y: Float, offsets: Int) -> "WeightedPairSeparator":
        """Bind to weights ``y`` (n_rows,), finite and >= 0, grouped by ``offsets`` (n_queries + 1,)."""
        return WeightedPairSeparator(np.asarray(y, dtype=np.float64), offsets, mean=self.mean)


class WeightedPairSeparator:
    """Separator of :class:`WeightedPairs`, bound to weights; ``query_weights`` are the sums of the weights per
    query."""

    exact = True

    def __init__(self, y: Float, offsets: Int, *, mean: bool) -> None:
        totals, self.informative = _totals(y, offsets)
        self._y, self._offsets, self._mean = y, offsets, mean
        self._longest = int(np.diff(offsets).max(initial=1))
        self.query_weights: Float | None = totals

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        n = self._longest
        room = np.empty(n), np.empty(n, np.int32), sort_buffers(n)
        _separate_pairs(scores, first, last, self._offsets, self._y, self.query_weights, *room, loss, coef)
        if self._mean:
            lengths = np.diff(self._offsets[first : last + 1])
            others = np.maximum(lengths - 1, 1)
            loss /= others
            coef /= np.repeat(others, lengths)


@dataclass(frozen=True)
class WeightedLogRank:
    """Log-rank loss ``log2(1 + sum_{j != i} exp(s_j - s_i))``, averaged over the documents ``i`` of a query with
    weights ``y``."""

    # The argument of the logarithm is at least the rank of the document, so that the loss bounds 1 - 1/log2(1 + rank),
    # and half of the loss bounds 1 - 1/rank. The loss is linear in the weights, so that it is unbiased with inverse
    # propensities. The weight of a query is the sum of the weights of its documents.

    def bind(self, y: Float, offsets: Int) -> "WeightedLogRankSeparator":
        """Bind to weights ``y`` (n_rows,), finite and >= 0, grouped by ``offsets`` (n_queries + 1,)."""
        return WeightedLogRankSeparator(np.asarray(y, dtype=np.float64), offsets)


class WeightedLogRankSeparator:
    """Tangents of :class:`WeightedLogRank`, and products with its Hessian at the same scores."""

    exact = True

    def __init__(self, y: Float, offsets: Int) -> None:
        totals, self.informative = _totals(y, offsets)
        self.query_weights: Float | None = totals
        shares = y / np.repeat(np.where(totals > 0, totals, 1.0), np.diff(offsets))
        self._labels = (offsets, self.informative, shares)

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        self.tangent(scores, first, last, loss, coef)

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Float:
        """See ``structsvm.trainers.passes.SmoothSeparator``."""
        shares = np.empty(scores.shape[0])
        _tangent(scores, first, last, *self._labels, shares, loss, coef)
        return shares

    def curve(self, curvature: Float, direction: Float, first: int, last: int, coef: Float) -> None:
        """See ``structsvm.trainers.passes.SmoothSeparator``."""
        _curvature(direction, first, last, *self._labels, curvature, coef)


def _totals(y: Float, offsets: Int) -> tuple[Float, NDArray[np.bool_]]:
    """Return the sum of the weights per query, and a mask of queries with positive weight and at least two documents;
    raise for invalid weights or offsets."""
    check_offsets(offsets, y.shape[0], of_all=True)
    refuse_first("y", y, ~(np.isfinite(y) & (y >= 0)), "a finite weight >= 0")
    lengths = np.diff(offsets)
    totals = np.bincount(np.repeat(np.arange(lengths.shape[0]), lengths), y, lengths.shape[0])
    return totals.astype(np.float64), (totals > 0) & (lengths > 1)


@kernel
def _separate_pairs(scores, first, last, offsets, y, totals, v, rows, spare, loss, coef):  # type: ignore[no-untyped-def]
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        s = scores[row0 - base : row0 - base + n]
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if totals[q] <= 0 or n < 2:
            a[:] = 0.0
            continue
        for i in range(n):
            v[i] = s[i]
            rows[i] = i
        sort_descending(v, rows, n, spare)
        # Documents are in descending order of score. As the clicked document of a pair, i violates the margin with all
        # documents that score more than v[i] - 1, which are the first ``end`` documents, including i. As the other
        # document, i violates the margin with all d with v[d] - 1 < v[i], which form a suffix, whose weight is the
        # total minus that of a prefix. Both ``end`` and ``begin`` only increase with i.
        end, begin, prefix = 0, 0, 0.0
        total = 0.0
        for i in range(n):
            total += y[row0 + rows[i]]
        violated = 0.0
        for i in range(n):
            while end < n and v[end] > v[i] - 1.0:
                end += 1
            while begin < n and v[begin] - 1.0 >= v[i]:
                prefix += y[row0 + rows[begin]]
                begin += 1
            # ``won`` is the weight of i times its violated pairs as the clicked document, without the pair with itself
            weight = y[row0 + rows[i]]
            won = weight * (end - 1)
            violated += won
            a[rows[i]] = (won - (total - prefix - weight)) / total
        loss[q - first] = violated / total


@kernel
def _tangent(scores, first, last, offsets, informative, weights, shares, loss, coef):  # type: ignore[no-untyped-def]
    """Fill ``loss`` and ``coef`` with the tangents, and ``shares`` with the softmax of the scores."""
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
            # The loss of a tangent is its value plus the product of coefficients and scores. The value is log(total)
            # minus the weighted mean of the scores; the product is the weighted mean minus the mean under ``shares``.
            # The weighted means cancel.
            value -= shares[i] * v
        loss[q - first] = max(0.0, value / LN2)


@kernel
def _curvature(direction, first, last, offsets, informative, weights, shares, coef):  # type: ignore[no-untyped-def]
    """Fill ``coef`` with the negative Hessian times ``direction``: the softmax times the deviation from its mean."""
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
