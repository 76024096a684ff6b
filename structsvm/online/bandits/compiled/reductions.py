"""Shared kernels of the compiled bandits: extreme values, Copeland leader, thresholds, and number of steps to skip."""

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp, log


@kernel
def copeland_leader(wins, ahead, ties):  # type: ignore[no-untyped-def]
    """Return the arm that is ahead of the most others; break ties by ``ties``. ``ahead`` is a scratch array."""
    k = len(wins)
    for i in range(k):
        n = 0
        for j in range(k):
            n += wins[i, j] > wins[j, i]
        ahead[i] = n
    return one_of_largest(ahead, largest(ahead), ties)


@kernel
def one_of_largest(values, maximum, rng):  # type: ignore[no-untyped-def]
    """Return the index of a value equal to ``maximum``; break ties at random."""
    # The first pass counts without a branch, so that it becomes vector instructions. It keeps the last index, which is
    # the result if the maximum is unique; no random number is drawn in this case, as in ``tied`` of the policies.
    n = index = 0
    for i in range(len(values)):
        is_largest = values[i] == maximum
        n += 1 if is_largest else 0
        index = max(index, i if is_largest else 0)
    if n > 1:
        pos = int(rng.random() * n)
        index = -1
        while pos >= 0:
            index += 1
            if values[index] == maximum:
                pos -= 1
    return index


# Without NaN and signed zeros the loops over arms become vector instructions; no value changes.
@kernel(fastmath={"nnan", "nsz"})
def largest(values):  # type: ignore[no-untyped-def]
    """Return the largest of ``values``, all of which are at least 0."""
    maximum = 0.0
    for value in values:
        maximum = value if value > maximum else maximum
    return maximum


@kernel(fastmath={"nnan", "nsz"})
def least_of(values):  # type: ignore[no-untyped-def]
    """Return the smallest of ``values``."""
    least = np.inf
    for value in values:
        least = value if value < least else least
    return least


@kernel
def least_other(values, arm):  # type: ignore[no-untyped-def]
    """Return the smallest of ``values``, excluding that of ``arm``."""
    least = np.inf
    for i in range(len(values)):
        if i != arm:
            least = min(least, values[i])
    return least


@kernel(inline="always")
def half_reached(n, won, alpha):  # type: ignore[no-untyped-def]
    """Return the smallest ``ln t`` at which the bound ``won / n + sqrt(alpha ln t / n)`` is at least 1/2."""
    # sqrt(alpha ln t / n) >= 1/2 - won / n  <=>  ln t >= n (1/2 - won / n)^2 / alpha, if the right side is positive.
    # Between comparisons the bound only increases, so the time at which it reaches 1/2 is known in advance.
    short = 0.5 - won / n
    return n * short * short / alpha if short > 0 else 0.0


@kernel
def steps_before(soonest, t, horizon):  # type: ignore[no-untyped-def]
    """Return a number of steps, at least 1, from ``t`` on for which ``ln t < soonest`` even with rounding."""
    # avoid an overflow of exp for times far beyond the horizon
    if soonest > log(horizon) + 1:
        return horizon - t + 1
    # stop just before the change, so that rounding cannot skip it
    return max(1, min(horizon - t + 1, int(exp(soonest) * (1 - 1e-12)) - 1 - t))
