"""Largest value, Copeland leader, and steps to skip, shared by the compiled bandits."""

from __future__ import annotations

import numpy as np
from numba.np.random.generator_core import next_double

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp, log


@kernel
def copeland_leader(wins, ahead, ties):
    """Return the arm that is ahead of the most others; break ties by ``ties``. ``ahead`` is scratch of length K."""
    k = len(wins)
    for i in range(k):
        n = 0
        for j in range(k):
            n += wins[i, j] > wins[j, i]
        ahead[i] = n
    return one_of_largest(ahead, largest(ahead), ties)


@kernel
def one_of_largest(values, maximum, rng):
    """Return the index of a value that is ``maximum``; of several, which all are as likely."""
    n = index = 0
    for i in range(len(values)):
        is_largest = values[i] == maximum
        n += 1 if is_largest else 0
        index = max(index, i if is_largest else 0)
    if n > 1:
        pos = int(next_double(rng) * n)
        index = -1
        while pos >= 0:
            index += 1
            if values[index] == maximum:
                pos -= 1
    return index


# without NaN and signed zeros the loops over arms become vector instructions; no value changes
@kernel(fastmath={"nnan", "nsz"})
def largest(values):
    """Return the largest of ``values``, all of which are at least 0."""
    maximum = 0.0
    for value in values:
        maximum = value if value > maximum else maximum
    return maximum


@kernel(fastmath={"nnan", "nsz"})
def least_of(values):
    """Return the least of ``values``."""
    least = np.inf
    for value in values:
        least = value if value < least else least
    return least


@kernel
def least_other(values, arm):
    """Return the least of ``values`` but for that of ``arm``."""
    least = np.inf
    for i in range(len(values)):
        if i != arm:
            least = min(least, values[i])
    return least


@kernel
def steps_before(soonest, t, horizon):
    """Return how many steps from ``t`` on are surely before ``ln t`` reaches ``soonest``, at least one."""
    if soonest > log(horizon) + 1:
        return horizon - t + 1
    # stop just before the change, so that rounding cannot skip it
    return max(1, min(horizon - t + 1, int(exp(soonest) * (1 - 1e-12)) - 1 - t))
