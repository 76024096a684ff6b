"""Regret of a comparison of two arms, computed once for the compiled forms and read at every step."""

from __future__ import annotations

import numpy as np

from structsvm.protocols import Float

__all__ = ["pair_costs"]


def pair_costs(gaps: Float, kind: int) -> Float:
    """Return the regret of every pair, (K, K); the diagonal is an arm against itself.

    Parameters
    ----------
    gaps : ndarray of float64, shape (K,)
    kind : int
        0 average, 1 sum, 2 weak.

    Examples
    --------
    >>> pair_costs(np.array([0.0, 0.2]), 1)
    array([[0. , 0.2],
           [0.2, 0.4]])
    """
    if kind == 2:
        return np.minimum(gaps[:, None], gaps)
    total = gaps[:, None] + gaps
    return total if kind == 1 else total / 2
