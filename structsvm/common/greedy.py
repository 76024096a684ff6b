"""Greedy selection of documents by their marginal gains."""

from collections.abc import Callable

import numpy as np

from structsvm.common.candidates import Limits
from structsvm.protocols import Float, Int

Gains = Callable[[list[int]], Float]
"""Function from the documents chosen so far, in order, to the gain of each document."""


def greedy_by_gains(gains: Gains, limits: Limits, *, per_cost: bool = False) -> Int:
    """Choose documents one at a time, each with the largest of ``gains(chosen so far)`` among those within ``limits``.

    Ties are broken by document index; documents with a gain of -inf are not chosen. If ``per_cost`` is True and there
    is a budget, choose by gain per cost, while it is positive. The best single document is chosen instead if its gain
    exceeds the total gain.
    """
    most, costs, budget = limits
    per_cost = per_cost and budget < np.inf
    left = budget * (1.0 + 1e-12)  # tolerates rounding errors in the sum of costs
    chosen: list[int] = []
    total = 0.0
    while len(chosen) < most:
        gain = np.array(gains(chosen), dtype=np.float64)
        gain[chosen] = -np.inf
        if budget < np.inf:
            gain[costs > left] = -np.inf
        if not chosen:
            alone, largest = int(np.argmax(gain)), float(gain.max())
        ranked = gain / costs if per_cost else gain
        best = int(np.argmax(ranked))
        # stop at a gain per cost of zero; otherwise only the order of gains matters, and -inf means that nothing fits
        if not ranked[best] > (0.0 if per_cost else -np.inf):
            break
        chosen.append(best)
        total += float(gain[best])
        left -= float(costs[best])
    # a cheap document with a high gain per cost may exclude the best document (Khuller, Moss and Naor 1999)
    if per_cost and most > 0 and largest > total:
        chosen = [alone]
    return np.array(chosen, dtype=np.int64)
