"""Outcome of a duel, compiled: a coin flipped with the pair's probability, or rankings merged for a simulated user.

The kernels of the bandits are given either a matrix of probabilities or the arrays of ``LiveComparisons``, and numba
compiles a form for each; without compilation the same functions are called. Both draw the same random numbers as
``compare`` of their worlds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from structsvm.online.interleaving.compiled.kernels import multileave, probabilistic, team_draft

_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


def outcomes_of(world: Any) -> Any:
    """Return what the kernels draw outcomes from: the matrix of a world that has one, else its live arrays."""
    matrix = getattr(world, "preferences", None)
    return world.live_arrays() if matrix is None else matrix


def is_live(outcomes: Any) -> Any:
    """Return whether comparisons are live, so that there may be ties; known when the kernel is compiled."""
    return not isinstance(outcomes, np.ndarray)


def duel(outcomes: Any, first: Any, second: Any, rng: Any) -> Any:
    """Return the outcome of a pair of different arms: 1, 0, or 0.5 for a tie."""
    return (_interleave if is_live(outcomes) else _flip)(outcomes, first, second, rng)


def merge_set(outcomes: Any, arms: Any, rng: Any, won: Any) -> Any:
    """Merge the rankings of more than two arms; ``won[a, b]`` is -1, 0 or 1 for the arms at these places.
    A matrix has no outcomes of sets: nothing is done.
    """
    return (_merge if is_live(outcomes) else _nothing)(outcomes, arms, rng, won)


def _flip(outcomes: Any, first: Any, second: Any, rng: Any) -> Any:
    return 1.0 if rng.random() < outcomes[first, second] else 0.0


def _interleave(outcomes: Any, first: Any, second: Any, rng: Any) -> Any:
    ranked, tables, decay, by_teams, task, value = outcomes
    task[:, 0] = (first, second, 1, 0, 0)
    seed = rng.integers(0, _ALL_BITS, size=1, dtype=np.uint64, endpoint=True)
    if by_teams:
        team_draft(ranked, tables, task[0], task[1], task[2], seed, task[3], task[4])
    else:
        probabilistic(ranked, tables, decay, task[0], task[1], task[2], seed, task[3], task[4], value)
    return (1 + task[3, 0] - task[4, 0]) / 2


def _nothing(outcomes: Any, arms: Any, rng: Any, won: Any) -> Any:
    pass


def _merge(outcomes: Any, arms: Any, rng: Any, won: Any) -> Any:
    ranked, tables, _, _, _, _ = outcomes
    won[: len(arms), : len(arms)] = 0
    seed = rng.integers(0, _ALL_BITS, size=1, dtype=np.uint64, endpoint=True)
    multileave(ranked, tables, arms, 1, seed[0], True, won)


@overload(is_live)
def _is_live(outcomes: Any) -> Any:
    live = not isinstance(outcomes, types.Array)

    def answer(outcomes: Any) -> Any:
        return live

    return answer


@overload(duel)
def _duel(outcomes: Any, first: Any, second: Any, rng: Any) -> Any:
    return _flip if isinstance(outcomes, types.Array) else _interleave


@overload(merge_set)
def _merge_set(outcomes: Any, arms: Any, rng: Any, won: Any) -> Any:
    return _nothing if isinstance(outcomes, types.Array) else _merge
