"""Probabilities of a win in the model of Bradley and Terry."""

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable import compiled


@kernel
def win_rates(strengths, order):  # type: ignore[no-untyped-def]
    """Return the probability that each model, shown first with the log-odds advantage ``order``, beats each other."""
    n = len(strengths)
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = 1.0 / (1.0 + compiled.exp(strengths[j] - strengths[i] - order))
    return out
