"""Largest value, Copeland leader, and steps to skip, shared by the compiled bandits."""

from __future__ import annotations

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp, log


@kernel
def copeland_leader(wins, ties):
    """Return the arm that is ahead of the most others; break ties by ``ties``."""
    ahead = (wins > wins.T).sum(axis=1)
    best = np.flatnonzero(ahead == ahead.max())
    return best[int(ties.random() * len(best)) if len(best) > 1 else 0]


# without NaN and signed zeros the loop over arms becomes vector instructions; no value changes
@kernel(fastmath={"nnan", "nsz"})
def largest(values):
    """Return the largest of ``values``, all of which are at least 0."""
    maximum = 0.0
    for value in values:
        maximum = value if value > maximum else maximum
    return maximum


@kernel
def steps_before(soonest, t, horizon):
    """Return how many steps from ``t`` on are surely before ``ln t`` reaches ``soonest``, at least one."""
    if soonest > log(horizon) + 1:
        return horizon - t + 1
    # stop just before the change, so that rounding cannot skip it
    return max(1, min(horizon - t + 1, int(exp(soonest) * (1 - 1e-12)) - 1 - t))
