"""A run as the compiled forms see it: where outcomes come from, what they cost, and what is recorded when.

The kernels of the bandits are given either a matrix of probabilities or the arrays of ``LiveComparisons``, and numba
compiles a form for each; without compilation the same functions are called. Both draw the same random numbers as
``compare`` of their worlds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from structsvm.common.kernel import kernel
from structsvm.online.bandits.compiled.reductions import copeland_leader
from structsvm.online.interleaving.compiled.kernels import multileave, probabilistic, team_draft
from structsvm.protocols import Float, Int

_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


class Run(NamedTuple):
    """A run of a bandit in a world, under way."""

    outcomes: Any
    """What :func:`duel` draws outcomes from: the matrix of a world that has one, else its live arrays."""
    live: bool
    """Whether comparisons are live, so that there may be ties."""
    scores: Float
    """Means of the scores that decide all pairs of a set, if they do; otherwise empty."""
    gaps: Float
    costs: Float
    """Regret of every pair, (K, K); the diagonal is an arm against itself."""
    weak: bool
    """Whether regret is that of the best arm compared."""
    times: Int
    rng: np.random.Generator
    ties: np.random.Generator
    total: Float
    """Regret so far, (1,)."""
    n_recorded: Int
    """How many of the times have passed, (1,)."""
    regret: Float
    winners: Int
    duels: Int


def begin(world: Any, times: Int, kind: int, rng: np.random.Generator, ties: np.random.Generator) -> Run:
    """Return a run that is to be recorded at ``times``."""
    gaps, scores, k = world.gaps, getattr(world, "scores", None), world.n_arms
    matrix = getattr(world, "preferences", None)
    sums = gaps[:, None] + gaps
    return Run(
        world.live_arrays() if matrix is None else matrix,
        matrix is None,
        np.empty(0) if scores is None else scores,
        gaps,
        (sums / 2, sums, np.minimum(gaps[:, None], gaps))[kind],
        kind == 2,
        times,
        rng,
        ties,
        total=np.zeros(1),
        n_recorded=np.zeros(1, dtype=np.int64),
        regret=np.zeros(len(times)),
        winners=np.zeros(len(times), dtype=np.int64),
        duels=np.zeros((k, k), dtype=np.int64),
    )


def duel(outcomes: Any, first: Any, second: Any, rng: Any) -> Any:
    """Return the outcome of a pair of different arms: 1, 0, or 0.5 for a tie."""
    return (_flip if isinstance(outcomes, np.ndarray) else _interleave)(outcomes, first, second, rng)


def merge_set(outcomes: Any, arms: Any, rng: Any, won: Any) -> Any:
    """Merge the rankings of more than two arms; ``won[a, b]`` is -1, 0 or 1 for the arms at these places.
    A matrix has no outcomes of sets: nothing is done.
    """
    return (_nothing if isinstance(outcomes, np.ndarray) else _merge)(outcomes, arms, rng, won)


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


@overload(duel)
def _duel(outcomes: Any, first: Any, second: Any, rng: Any) -> Any:
    return _flip if isinstance(outcomes, types.Array) else _interleave


@overload(merge_set)
def _merge_set(outcomes: Any, arms: Any, rng: Any, won: Any) -> Any:
    return _nothing if isinstance(outcomes, types.Array) else _merge


@kernel
def pay(run, first, second):
    """Count a comparison of two arms, and its regret."""
    run.total[0] += run.costs[first, second]
    run.duels[min(first, second), max(first, second)] += 1


@kernel(inline="always")
def compare(run, wins, first, second):
    """Compare two different arms, count the win and the regret; return how often they have been compared."""
    won = duel(run.outcomes, first, second, run.rng)
    wins[first, second] += won
    wins[second, first] += 1.0 - won
    pay(run, first, second)
    return wins[first, second] + wins[second, first]


@kernel
def is_due(run, t):
    """Return whether the next time to record at is reached with step ``t``."""
    return run.n_recorded[0] < len(run.times) and run.times[run.n_recorded[0]] <= t


@kernel
def record(run, winner, t=0, cost=0.0):
    """Record the answer at the next time, and the regret so far with ``cost`` for each step after ``t``."""
    k = run.n_recorded[0]
    run.regret[k] = run.total[0] + cost * (run.times[k] - t)
    run.winners[k] = winner
    run.n_recorded[0] += 1


@kernel
def skip(run, arm, t, steps, wins):
    """Let an arm play itself from step ``t`` on, and record the Copeland leaders of ``wins``; return the last step."""
    last = t + steps - 1
    while is_due(run, last):
        record(run, copeland_leader(wins, run.ties), t - 1, run.costs[arm, arm])
    run.total[0] += run.costs[arm, arm] * steps
    run.duels[arm, arm] += steps
    return last


@kernel
def exploit(run, arm, t):
    """Record the rest of a run in which the last arm plays itself alone after step ``t``."""
    run.duels[arm, arm] += run.times[-1] - t
    while is_due(run, run.times[-1]):
        record(run, arm, t, run.costs[arm, arm])
