"""A run as the compiled forms see it: where outcomes come from, what they cost, and what is recorded when."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.online.bandits.compiled.duels import outcomes_of
from structsvm.online.bandits.compiled.reductions import copeland_leader
from structsvm.protocols import Float, Int


class Run(NamedTuple):
    """A run of a bandit in a world, under way."""

    outcomes: Any
    """What :func:`duel` draws outcomes from."""
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
    sums = gaps[:, None] + gaps
    return Run(
        outcomes_of(world),
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


@kernel
def pay(run, first, second):
    """Count a comparison of two arms, and its regret."""
    run.total[0] += run.costs[first, second]
    run.duels[min(first, second), max(first, second)] += 1


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
