"""State of a run of a compiled bandit: the source of outcomes, their regret, and the recorded results.

Kernels are compiled once for all worlds. Outcomes come from a matrix or from live comparisons, and the arrays of the
unused source are empty. Both sources draw the same random numbers as ``compare`` of their worlds.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.online.bandits.compiled.reductions import copeland_leader
from structsvm.online.interleaving.compiled.kernels import interleave, live_arrays
from structsvm.protocols import Float, Int


class Run(NamedTuple):
    """State of one run of a bandit in a world."""

    matrix: Float
    """Probability that the first arm of a pair wins."""
    comparisons: Any
    """Arrays for live comparisons, from :func:`live_arrays`."""
    live: bool
    """Whether outcomes come from live comparisons instead of ``matrix``."""
    scores: Float
    """Means of the normal scores that determine the outcomes of all pairs of a set; empty in worlds without scores."""
    gaps: Float
    costs: Float
    """Regret of each pair, (K, K); the diagonal contains the regret of an arm against itself."""
    weak: bool
    """Whether the regret of a set is the smallest gap of its arms rather than the mean gap."""
    times: Int
    """Increasing numbers of steps after which best arm and regret are recorded; the last is the horizon."""
    rng: np.random.Generator
    """Generator of duels and outcomes."""
    ties: np.random.Generator
    """Separate generator, which breaks ties when the best arm is recorded, so that recording changes no duels."""
    ahead: Float
    """Scratch array of :func:`copeland_leader`, (K,)."""
    total: Float
    """Regret so far, (1,)."""
    n_recorded: Int
    """Number of times recorded so far, (1,)."""
    regret: Float
    winners: Int
    """Regret and best arm at each of ``times``."""
    duels: Int
    """Number of comparisons, (K, K): of each pair in the upper triangle, of an arm with itself on the diagonal."""


def begin(world: Any, times: Int, kind: str, rng: np.random.Generator, ties: np.random.Generator) -> Run:
    """Return the state of a new run that is recorded at ``times``, with the ``kind`` of regret of ``simulate``."""
    gaps, scores, k = world.gaps, getattr(world, "scores", None), world.n_arms
    matrix = getattr(world, "preferences", None)
    sums = gaps[:, None] + gaps
    # regret of a pair by kind; for sets, the mean or smallest gap is computed from the gaps
    return Run(
        matrix=np.empty((0, 0)) if matrix is None else matrix,
        comparisons=world.live_arrays() if matrix is None else live_arrays(),
        live=matrix is None,
        scores=np.empty(0) if scores is None else scores,
        gaps=gaps,
        costs={"average": sums / 2, "sum": sums, "weak": np.minimum(gaps[:, None], gaps)}[kind],
        weak=kind == "weak",
        times=times,
        rng=rng,
        ties=ties,
        ahead=np.zeros(k),
        total=np.zeros(1),
        n_recorded=np.zeros(1, dtype=np.int64),
        regret=np.zeros(len(times)),
        winners=np.zeros(len(times), dtype=np.int64),
        duels=np.zeros((k, k), dtype=np.int64),
    )


def zeros(*shape: int) -> Float:
    """Return an array of zeros aligned to a cache line, which NumPy does not guarantee."""
    # vector loads that cross a line of 64 bytes take twice as long
    size = math.prod(shape)
    room = np.zeros(size + 8)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + size].reshape(shape)


# The following functions are inlined, since calls that pass the state of a run take longer to compile than the bodies.


@kernel(inline="always")
def duel(run, first, second):  # type: ignore[no-untyped-def]
    """Return the outcome of a pair of distinct arms: 1 or 0."""
    if run.live:
        return interleave(run.comparisons, first, second, run.rng)
    # without a branch, which would be mispredicted half of the time if the outcome is close to a fair coin
    return 0.0 + (run.rng.random() < run.matrix[first, second])


@kernel(inline="always")
def pay(run, first, second):  # type: ignore[no-untyped-def]
    """Count a comparison of two arms, and add its regret."""
    run.total[0] += run.costs[first, second]
    run.duels[min(first, second), max(first, second)] += 1


@kernel(inline="always")
def compare(run, wins, first, second):  # type: ignore[no-untyped-def]
    """Compare two distinct arms, count the win and the regret, and return how often the two arms have been compared."""
    won = duel(run, first, second)
    wins[first, second] += won
    wins[second, first] += 1.0 - won
    pay(run, first, second)
    return wins[first, second] + wins[second, first]


@kernel(inline="always")
def is_due(run, t):  # type: ignore[no-untyped-def]
    """Return whether step ``t`` reaches the next time to record."""
    return run.n_recorded[0] < len(run.times) and run.times[run.n_recorded[0]] <= t


@kernel(inline="always")
def record(run, winner, t=0, cost=0.0):  # type: ignore[no-untyped-def]
    """Record the best arm at the next time, and the regret so far plus ``cost`` for each step after ``t``."""
    k = run.n_recorded[0]
    run.regret[k] = run.total[0] + cost * (run.times[k] - t)
    run.winners[k] = winner
    run.n_recorded[0] += 1


@kernel(inline="always")
def record_leader(run, wins, t):  # type: ignore[no-untyped-def]
    """Record the Copeland leader of ``wins`` if step ``t`` reaches the next time."""
    if is_due(run, t):
        record(run, copeland_leader(wins, run.ahead, run.ties), t)


@kernel(inline="always")
def skip(run, arm, t, steps, wins):  # type: ignore[no-untyped-def]
    """Let ``arm`` play itself for ``steps`` steps from ``t`` on; return the last of these steps."""
    # An arm against itself changes no wins, but ties are broken again at each recorded time.
    last = t + steps - 1
    while is_due(run, last):
        record(run, copeland_leader(wins, run.ahead, run.ties), t - 1, run.costs[arm, arm])
    run.total[0] += run.costs[arm, arm] * steps
    run.duels[arm, arm] += steps
    return last


@kernel(inline="always")
def exploit(run, arm, t):  # type: ignore[no-untyped-def]
    """Record the remainder of a run in which ``arm`` plays itself after step ``t``."""
    run.duels[arm, arm] += run.times[-1] - t
    while is_due(run, run.times[-1]):
        record(run, arm, t, run.costs[arm, arm])
