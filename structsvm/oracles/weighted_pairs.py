"""Each document with its weight against all others of the query: the oracle of the ranking SVM for clicks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.oracles.sorting import new_buffers, sort_descending
from structsvm.protocols import Float, Int


@dataclass(frozen=True)
class WeightedPairs:
    """``sum_d y_d sum_{j != d} max(0, 1 - s_d + s_j) / sum_d y_d`` for weights ``y``, such as inverse propensities.

    ``query_weights`` are ``sum_d y_d``: Propensity SVM-rank (Joachims, Swaminathan & Schnabel, WSDM 2017, section 5).
    """

    # ``1 +`` the inner sum bounds the rank of d from above. The objective is the mean over clicks, as if the query were
    # repeated for each, at a cost that does not depend on their number: after one sort of the scores, the documents in
    # violated pairs with j are consecutive, and their weights a difference of running sums, O(n log n). If two
    # documents have weights, both orders count, so that the loss may be positive for any scores.

    def bind(self, y: Float, offsets: Int) -> WeightedPairSeparator:
        """Bind to weights ``y`` (n_rows,), finite and >= 0, grouped by ``offsets`` (n_queries + 1,)."""
        return WeightedPairSeparator(np.asarray(y, dtype=np.float64), offsets)


class WeightedPairSeparator:
    """:class:`WeightedPairs` bound to weights; ``query_weights`` are their sums."""

    exact = True

    def __init__(self, y: Float, offsets: Int) -> None:
        bad = np.flatnonzero(~(np.isfinite(y) & (y >= 0)))
        if bad.size:
            raise ValueError(f"y[{bad[0]}]: expected a finite weight >= 0, got {y[bad[0]]:g}")
        self._y, self._offsets = y, offsets
        lengths = np.diff(offsets)
        self._longest = int(lengths.max(initial=1))
        totals = np.bincount(np.repeat(np.arange(lengths.shape[0]), lengths), y, lengths.shape[0]).astype(
            np.float64
        )
        self.query_weights: Float | None = totals
        self.informative = (totals > 0) & (lengths > 1)

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        v, rows, spare = (
            np.empty(self._longest),
            np.empty(self._longest, np.int32),
            new_buffers(self._longest),
        )
        _separate(scores, first, last, self._offsets, self._y, self.query_weights, v, rows, spare, loss, coef)


@kernel
def _separate(scores, first, last, offsets, y, totals, v, rows, spare, loss, coef):  # type: ignore[no-untyped-def]
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
        # places in descending order: above[i] of them score more than v[i] - 1, v[i] itself among them; and of those
        # with v[d] < v[j] + 1, a suffix, the weights are the total without a prefix
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
            weight = y[row0 + rows[i]]
            won = weight * (end - 1)
            violated += won
            a[rows[i]] = (won - (total - prefix - weight)) / total
        loss[q - first] = violated / total
