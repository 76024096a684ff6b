"""Regret of a comparison of two arms, computed once for the compiled forms and read at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structsvm.online.bandits.compiled.duels import outcomes_of
from structsvm.protocols import Float


def pair_costs(gaps: Float, kind: int) -> Float:
    """Return the regret of every pair, (K, K); the diagonal is an arm against itself."""
    if kind == 2:
        return np.minimum(gaps[:, None], gaps)
    total = gaps[:, None] + gaps
    return total if kind == 1 else total / 2


def player(compiled: Any, settings: Callable[[Any], tuple[float, ...]]) -> Callable[..., None]:
    """Return the ``play`` of a compiled form, which takes these settings of an unused policy behind the times."""

    def play(policy: Any, world: Any, times: Any, kind: int, *streams_and_results: Any) -> None:
        costs = pair_costs(world.gaps, kind)
        compiled(outcomes_of(world), costs, times, *settings(policy), *streams_and_results)

    return play
