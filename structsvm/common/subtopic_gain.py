"""The value of a set of documents by the subtopics that they cover, which measures, losses and learners share."""

from functools import cache, reduce

import numpy as np

from structsvm.common.candidates import Limits
from structsvm.common.checks import check_choice
from structsvm.common.greedy import greedy_by_gains
from structsvm.common.portable.arrays import dot, products
from structsvm.common.portable.elementary import log2
from structsvm.protocols import Float, Int

COVERAGE_LOSSES = ("weighted", "unweighted", "alpha_ndcg")
"""Names of the losses: the weighted fraction of subtopics that are not covered, the unweighted fraction
(1 - subtopic recall@k), and 1 - alpha-NDCG@k."""

_DECIMALS = 12
"""Number of decimals to which gains are rounded, so that ties do not depend on the order of summation."""


class SubtopicGain:
    """Value of a set of documents, ``f(A) = sum_s weight_s max_{a in A} degree_as``, and marginal gains of documents.

    With ``loss="alpha_ndcg"`` the gain of document ``d`` is ``sum_s degree_ds prod_{a in A} (1 - alpha degree_as)``.
    Both functions are monotone and submodular.

    Parameters
    ----------
    degrees : ndarray, shape (n_documents, n_subtopics)
        Degree, from 0 to 1, to which each document covers each subtopic.
    loss : {"weighted", "unweighted", "alpha_ndcg"}
        ``weight_s`` is the sum of the degrees of subtopic ``s`` for "weighted" (thesis, figure 4.4), else 1. Gains are
        divided by the value of all documents together.
    alpha : float, default=0.5
        Reduction of the gain of repeated subtopics for "alpha_ndcg".

    Examples
    --------
    >>> gain = SubtopicGain(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.5]]), "unweighted")
    >>> gain.gains(gain.start()).round(3), gain.value([0, 2])
    (array([0.667, 0.667, 0.333]), 1.0)
    """

    def __init__(self, degrees: Float, loss: str, *, alpha: float = 0.5) -> None:
        check_choice("loss", loss, COVERAGE_LOSSES)
        most = degrees.max(axis=0, initial=0.0)
        self.degrees, most = degrees[:, most > 0], most[most > 0]
        self.by_order, self.alpha = loss == "alpha_ndcg", alpha
        self.weights = self.degrees.sum(axis=0) if loss == "weighted" else np.ones(len(most))
        self.total = float((self.weights * most).sum())
        self._ideals: dict[int, float] = {}
        self._latest: tuple[list[int], Float] = [], self.start()

    @property
    def empty(self) -> bool:
        """Whether no document covers any subtopic."""
        return self.weights.size == 0

    def start(self) -> Float:
        """Return the state of the subtopics before any document is chosen."""
        return np.ones(self.weights.size) if self.by_order else np.zeros(self.weights.size)

    def after(self, state: Float, d: int) -> Float:
        """Return the state after document ``d`` is also chosen."""
        # the state of a subtopic is its remaining factor (alpha-NDCG), or the degree to which it is covered
        if self.by_order:
            return np.asarray(state * (1.0 - self.alpha * self.degrees[d]))
        return np.asarray(np.maximum(state, self.degrees[d]))

    def gains(self, state: Float) -> Float:
        """Return the gain of each document, rounded so that equally good documents have equal gains."""
        if self.by_order:
            gains = products(self.degrees, self.weights * state)
        else:
            gains = products(np.maximum(self.degrees - state, 0.0), self.weights)
        return np.round(gains / max(self.total, 1e-300), _DECIMALS)

    def gains_after(self, chosen: Int | list[int]) -> Float:
        """Return the gain of each document after the documents ``chosen``."""
        before, state = self._latest
        if before != list(chosen[: len(before)]):
            before, state = [], self.start()
        # greedy selection adds a document per call: continue from the state of the call before
        state = reduce(self.after, chosen[len(before) :], state)
        self._latest = list(chosen), state
        return self.gains(state)

    def value(self, chosen: Int | list[int], depth: int | None = None) -> float:
        """Return the value of documents in this order, from 0 to 1.

        For "alpha_ndcg" it is discounted, and relative to the greedy ranking of ``depth`` documents (by default, as
        many as are chosen).
        """
        best = self._ideal(len(chosen) if depth is None else depth) if self.by_order else self.total
        return self._sum(chosen) / best if best > 0 else 0.0

    def added(self, chosen: Int | list[int], depth: int) -> Float:
        """Return by how much each document, chosen after ``chosen``, increases ``value(..., depth)``, rounded."""
        gains = self.gains_after(chosen)
        if self.by_order:
            gains *= self.total / (float(_discounts(depth)[len(chosen)]) * max(self._ideal(depth), 1e-300))
        return gains

    def ideal(self, k: int) -> Int:
        """Return the greedy ranking of ``k`` documents (thesis 4.3); ties are broken by document index."""
        n = len(self.degrees)
        return greedy_by_gains(self.gains_after, Limits(min(k, n), np.ones(n)))

    def _ideal(self, depth: int) -> float:
        # the best ranking is NP-hard to compute, and is replaced by the greedy one (Clarke et al. 2008)
        if depth not in self._ideals:
            self._ideals[depth] = self._sum(self.ideal(depth))
        return self._ideals[depth]

    def _sum(self, chosen: Int | list[int]) -> float:
        rows = self.degrees[np.asarray(chosen, dtype=np.int64)]
        if not self.by_order:
            return dot(self.weights, rows.max(axis=0, initial=0.0))
        left = np.ones_like(rows)  # factors left by the documents above
        left[1:] = np.cumprod(1.0 - self.alpha * rows, axis=0)[:-1]
        return float((products(rows * left, self.weights) / _discounts(len(rows))).sum())


@cache
def _discounts(n: int) -> Float:
    """Return the divisors of the gains at ranks 1 to ``n``."""
    return np.asarray(log2(np.arange(2, n + 2)))
