"""Compiled forms of the bandits, for long simulations; the policies in the parent folder are their literal twins.

A form plays one run in a matrix, skips the steps in which nothing can change, and takes O(K) time for each other step.
It draws the same random numbers in the same order as policy and world do, so both play the same duels (RCS: in
distribution only. A bound that equals 1/2 to the last digit may be rounded differently by the two). Importing this
package is light; numba loads with the first form used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["play"]


def play(policy: Any, world: Any, *settings: Any) -> tuple[Any, Any, Any]:
    """Play one run of a bandit that is new, in its compiled form; ``settings`` as for ``run.begin``.

    Return cumulative regret and answer at each of the times, and the duels of each pair.
    """
    from structsvm.online.bandits.compiled.run import begin

    run = begin(world, *settings)
    import_module(policy.compiled).play(policy, run)
    return run.regret, run.winners, run.duels
