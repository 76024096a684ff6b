"""Streams of random numbers for the compiled comparisons.

The state of a stream is a number that is passed in and returned: numba would count references to an array at every
call, which takes twice as long as the rest.
"""

from __future__ import annotations

import numpy as np

from structsvm.common.kernel import kernel


@kernel
def next_bits(state: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the next state and 64 random bits: SplitMix64 (Steele, Lea & Flood 2014), one stream per seed."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, np.uint64(z ^ (z >> np.uint64(31)))


@kernel
def uniform(state: np.uint64) -> tuple[np.uint64, float]:
    """Return the next state and a number from [0, 1)."""
    state, bits = next_bits(state)
    return state, np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def below(state: np.uint64, n: int) -> tuple[np.uint64, int]:
    """Return the next state and a whole number from 0 to ``n - 1``."""
    # with 53 bits the probability of an option is off by less than n * 2^-53
    state, u = uniform(state)
    return state, int(u * n)


@kernel
def happens(state: np.uint64, p: float) -> tuple[np.uint64, bool]:
    """Return the next state and True with probability ``p``."""
    # certain events, frequent in click models, cost no random number
    if p <= 0.0:
        return state, False
    if p >= 1.0:
        return state, True
    state, u = uniform(state)
    return state, u < p
