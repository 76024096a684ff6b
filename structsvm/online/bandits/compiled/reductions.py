"""Largest value and Copeland leader, shared by the compiled bandits."""

from __future__ import annotations

import numpy as np

from structsvm.common.kernel import kernel


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
