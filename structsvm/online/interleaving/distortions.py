"""Distortion: how far comparing many rankers at once changes which ones beat the best."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structsvm.checks import BadInput


def distortion(multileaved: ArrayLike, pairwise: ArrayLike, winner: int) -> float:
    """Return the share of the other rankers that beat the Condorcet winner in multileaving but not in pairs.

    ``[i, j]`` estimates the probability that ranker i beats j when all are multileaved, and when the two alone are
    interleaved (Brost, Seldin, Cox & Lioma, "Multi-dueling bandits", CIKM 2016, 4.2.6 and Table 3).
    """
    together, alone = np.asarray(multileaved, dtype=np.float64), np.asarray(pairwise, dtype=np.float64)
    for name, matrix in (("multileaved", together), ("pairwise", alone)):
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
            raise BadInput(name, f"expected a square matrix of at least 2 rankers, got shape {matrix.shape}")
        if not ((matrix >= 0) & (matrix <= 1)).all():
            raise BadInput(name, "expected probabilities between 0 and 1")
    if together.shape != alone.shape:
        raise BadInput("pairwise", f"expected the shape of multileaved, {together.shape}, got {alone.shape}")
    if not 0 <= winner < together.shape[0]:
        raise BadInput("winner", f"expected a ranker from 0 to {together.shape[0] - 1}", value=winner)
    others = np.arange(together.shape[0]) != winner
    return float(((together[:, winner] > 0.5) & (alone[:, winner] <= 0.5))[others].mean())
