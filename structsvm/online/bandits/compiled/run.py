"""A run as the compiled forms see it: where outcomes come from, what they cost, and what is recorded when.

The kernels of the bandits are compiled once for all worlds: the matrix, or the arrays of ``LiveComparisons``, are empty
where outcomes come from the other. Both draw the same random numbers as ``compare`` of their worlds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.np.random.generator_core import next_double

from structsvm.common.kernel import kernel
from structsvm.online.bandits.compiled.reductions import copeland_leader
from structsvm.online.interleaving.compiled.kernels import interleave, live_arrays
from structsvm.protocols import Float, Int


class Run(NamedTuple):
    """A run of a bandit in a world, under way."""

    matrix: Float
    """Probability that the first arm of a pair wins."""
    comparisons: Any
    """Arrays that live comparisons are made from."""
    live: bool
    """Whether comparisons are live."""
    scores: Float
    """Means of the scores that decide all pairs of a set, if they do; otherwise empty."""
    gaps: Float
    costs: Float
    """Regret of every pair, (K, K); the diagonal is an arm against itself."""
    weak: bool
    """Whether regret is that of the best arm compared."""
    times: Int
    rng: np.random.BitGenerator
    """Not a generator, whose references would have to be counted."""
    ties: np.random.BitGenerator
    ahead: Float
    """Scratch of :func:`copeland_leader`, (K,)."""
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
        np.empty((0, 0)) if matrix is None else matrix,
        world.live_arrays() if matrix is None else live_arrays(),
        matrix is None,
        np.empty(0) if scores is None else scores,
        gaps,
        (sums / 2, sums, np.minimum(gaps[:, None], gaps))[kind],
        kind == 2,
        times,
        rng.bit_generator,
        ties.bit_generator,
        ahead=np.zeros(k),
        total=np.zeros(1),
        n_recorded=np.zeros(1, dtype=np.int64),
        regret=np.zeros(len(times)),
        winners=np.zeros(len(times), dtype=np.int64),
        duels=np.zeros((k, k), dtype=np.int64),
    )


def zeros(*shape: int) -> Float:
    """Return zeros for loops of vector instructions: they start with a line of the cache, those of NumPy need not."""
    size = math.prod(shape)
    room = np.zeros(size + 8)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + size].reshape(shape)


# what each bandit calls is inlined: to hand a run on costs more to compile than what is done with it


@kernel(inline="always")
def duel(run, first, second):
    """Return the outcome of a pair of different arms: 1 or 0."""
    if run.live:
        return interleave(run.comparisons, first, second, run.rng)
    return 0.0 + (next_double(run.rng) < run.matrix[first, second])  # a branch would be mispredicted


@kernel(inline="always")
def pay(run, first, second):
    """Count a comparison of two arms, and its regret."""
    run.total[0] += run.costs[first, second]
    run.duels[min(first, second), max(first, second)] += 1


@kernel(inline="always")
def compare(run, wins, first, second):
    """Compare two different arms, count the win and the regret; return how often they have been compared."""
    won = duel(run, first, second)
    wins[first, second] += won
    wins[second, first] += 1.0 - won
    pay(run, first, second)
    return wins[first, second] + wins[second, first]


@kernel(inline="always")
def is_due(run, t):
    """Return whether the next time to record at is reached with step ``t``."""
    return run.n_recorded[0] < len(run.times) and run.times[run.n_recorded[0]] <= t


@kernel(inline="always")
def record(run, winner, t=0, cost=0.0):
    """Record the answer at the next time, and the regret so far with ``cost`` for each step after ``t``."""
    k = run.n_recorded[0]
    run.regret[k] = run.total[0] + cost * (run.times[k] - t)
    run.winners[k] = winner
    run.n_recorded[0] += 1


@kernel(inline="always")
def skip(run, arm, t, steps, wins):
    """Let an arm play itself from step ``t`` on, and record the Copeland leaders of ``wins``; return the last step."""
    last = t + steps - 1
    while is_due(run, last):
        record(run, copeland_leader(wins, run.ahead, run.ties), t - 1, run.costs[arm, arm])
    run.total[0] += run.costs[arm, arm] * steps
    run.duels[arm, arm] += steps
    return last


@kernel(inline="always")
def exploit(run, arm, t):
    """Record the rest of a run in which the last arm plays itself alone after step ``t``."""
    run.duels[arm, arm] += run.times[-1] - t
    while is_due(run, run.times[-1]):
        record(run, arm, t, run.costs[arm, arm])
