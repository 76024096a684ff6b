"""Compiled forms of the bandits, for long simulations; the policies in the parent folder are their literal twins.

A form plays one run in a matrix, skips the steps in which nothing can change, and takes O(K) time for each other step.
It draws the same random numbers in the same order as policy and world do, so both play the same duels (RCS: in
distribution only. A bound that equals 1/2 to the last digit may be rounded differently by the two). Importing this
package is light; numba loads with the first form used.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["play"]


def play(
    name: str,
    world: Any,
    horizon: int,
    times: NDArray[np.int64],
    kind: int,
    rng: np.random.Generator,
    ties: np.random.Generator,
    **options: Any,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Play one run; return cumulative regret and answer at each of ``times``, and the duels of each pair."""
    from structsvm.online.bandits import make

    policy = make(name, world.n_arms, horizon, **options)
    form = importlib.import_module(type(policy).compiled)  # type: ignore[attr-defined]
    regret = np.zeros(len(times))
    winners = np.zeros(len(times), dtype=np.int64)
    duels = np.zeros((world.n_arms, world.n_arms), dtype=np.int64)
    form.play(policy, world, times, kind, rng, ties, regret, winners, duels)
    return regret, winners, duels
