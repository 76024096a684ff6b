"""Marginal gains of documents that cover subtopics to a degree between 0 and 1."""

from functools import reduce

import numpy as np

from structsvm.common.candidates import Limits
from structsvm.common.portable.arrays import products
from structsvm.common.portable.elementary import log2
from structsvm.oracles.selection import COVERAGE_LOSSES, greedy_by_gains
from structsvm.protocols import Float, Int

_ROUNDING = 12
"""Number of decimals to which gains are rounded, so that ties do not depend on the order of summation."""


class SubtopicGain:
    """Value of a set of documents, ``f(A) = sum_s weight_s max_{a in A} degree_as``, and marginal gains of documents.

    With ``loss="alpha_ndcg"`` the gain of document ``d`` is ``sum_s degree_ds prod_{a in A} (1 - degree_as / 2)``. Both
    functions are monotone and submodular.

    Parameters
    ----------
    degrees : ndarray, shape (n_documents, n_subtopics)
        Degree, from 0 to 1, to which each document covers each subtopic.
    loss : {"weighted", "unweighted", "alpha_ndcg"}
        ``weight_s`` is the sum of the degrees of subtopic ``s`` for "weighted", else 1. The weights are then divided by
        the value of all documents together, so that this value is 1.

    Examples
    --------
    >>> gain = SubtopicGain(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.5]]), "unweighted")
    >>> gain.gains(gain.start()).round(3), gain.value([0, 2])
    (array([0.667, 0.667, 0.333]), 1.0)
    """

    def __init__(self, degrees: Float, loss: str) -> None:
        most = degrees.max(axis=0, initial=0.0)
        self.degrees, most = degrees[:, most > 0], most[most > 0]
        self.by_order = loss == COVERAGE_LOSSES[2]
        weights = self.degrees.sum(axis=0) if loss == "weighted" else np.ones(len(most))
        self.weights = weights / max(float((weights * most).sum()), 1e-300)

    @property
    def empty(self) -> bool:
        """Whether no document covers any subtopic."""
        return self.weights.size == 0

    def start(self) -> Float:
        """Return the state of the subtopics before any document is chosen."""
        return np.ones(self.weights.size) if self.by_order else np.zeros(self.weights.size)

    def gains(self, state: Float) -> Float:
        """Return the gain of each document, rounded so that equally good documents have equal gains."""
        return np.round(self._gains(state), _ROUNDING)

    def _gains(self, state: Float) -> Float:
        # the state of a subtopic is its remaining factor (alpha-NDCG), or the degree to which it is covered
        if self.by_order:
            return products(self.degrees, self.weights * state)
        return products(np.maximum(self.degrees - state, 0.0), self.weights)

    def gains_after(self, chosen: Int | list[int]) -> Float:
        """Return the gain of each document after the documents ``chosen``."""
        return self.gains(reduce(self.after, chosen, self.start()))

    def after(self, state: Float, d: int) -> Float:
        """Return the state after document ``d`` is also chosen."""
        if self.by_order:
            return np.asarray(state * (1.0 - 0.5 * self.degrees[d]))
        return np.asarray(np.maximum(state, self.degrees[d]))

    def value(self, chosen: Int | list[int]) -> float:
        """Return the value of documents in this order; for "alpha_ndcg" it is discounted and relative to the greedy
        ranking."""
        total = self._total(chosen)
        if not self.by_order:
            return total
        n = len(self.degrees)
        ideal = greedy_by_gains(self.gains_after, Limits(len(chosen), np.ones(n)))
        # normalise by the greedy ranking, because the best ranking is NP-hard to compute (Clarke et al. 2008)
        best = self._total(ideal)
        return total / best if best > 0 else 0.0

    def _total(self, chosen: Int | list[int]) -> float:
        state, total = self.start(), 0.0
        for position, d in enumerate(chosen):
            discount = float(log2(position + 2)) if self.by_order else 1.0
            total += float(self._gains(state)[d]) / discount
            state = self.after(state, int(d))
        return total
