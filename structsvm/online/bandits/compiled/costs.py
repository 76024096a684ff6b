"""Regret of a comparison of two arms, computed once for the compiled forms and read at every step."""

from __future__ import annotations

import numpy as np

from structsvm.protocols import Float

__all__ = ["pair_costs"]


def pair_costs(gaps: Float, kind: int) -> Float:
    """Return the regret of every pair, (K, K); the diagonal is an arm against itself."""
    if kind == 2:
        return np.minimum(gaps[:, None], gaps)
    total = gaps[:, None] + gaps
    return total if kind == 1 else total / 2
