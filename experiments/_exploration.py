"""Simulate the exploration of a bandit until it ends, even beyond its horizon."""

from dataclasses import dataclass
from importlib import import_module
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_choice, check_whole
from structsvm.common.machine import count_threads, in_threads
from structsvm.online.bandits.compiled.run import begin
from structsvm.online.simulation.runs import (
    REGRETS,
    as_world,
    bandit_maker,
    generators,
    in_processes,
    regret_of,
    run_streams,
)
from structsvm.protocols import Float, Int


@dataclass(frozen=True, eq=False)
class Exploration:
    """Number of comparisons, regret and chosen arm of each run when the bandit decides."""

    steps: Int
    regret: Float
    winner: Int
    correct: NDArray[np.bool_]


def explore(
    bandit: Any,
    world: Any,
    *,
    horizon: float,
    n_runs: int = 1,
    seed: int = 0,
    regret: str = "average",
    n_jobs: int | None = None,
    options: dict[str, Any] | None = None,
    max_steps: float | None = None,
) -> Exploration:
    """Simulate the exploration of a bandit to its end, even beyond the horizon (thesis 5.5: IF1 and IF2).

    ``simulate`` stops at the horizon, although some methods explore much longer. With the same seed, IF1 and IF2 start
    from the same candidate and order. A run ends after at most ``max_steps`` comparisons, with the arm that the bandit
    would choose then.
    """
    world = as_world(world)
    check_choice("regret", regret, REGRETS)
    steps, workers = check_whole("horizon", horizon, floats=True), count_threads(n_jobs)
    streams = run_streams(seed, n_runs)
    # a horizon that is never reached, so that the bandit itself ends the exploration
    limit = 2**62 if max_steps is None else check_whole("max_steps", max_steps, floats=True)
    fresh = bandit_maker(bandit, world.n_arms, steps, options)
    first = fresh()
    if not hasattr(first, "finished"):
        raise BadInput("bandit", "expected an attribute 'finished' for the end of exploration", value=bandit)
    form = import_module(first.compiled) if isinstance(bandit, str) and hasattr(first, "compiled") else None
    compiled = hasattr(form, "explore") and getattr(world, "preferences", None) is not None

    def job(run: int) -> tuple[int, int, float, int]:
        rng, ties = rngs = generators(streams[run])
        policy = fresh()
        if compiled:
            played = begin(world, np.zeros(0, dtype=np.int64), regret, *rngs)
            n_steps, answer = form.explore(policy, played, limit)
            return run, n_steps, played.total[0], answer
        # the uncompiled bandit, because ``simulate`` would stop at the horizon
        n_steps, total = 0, 0.0
        while not policy.finished and n_steps < limit:
            duel = policy.select(rng)
            policy.update(duel, world.compare(duel.arms, rng))
            total += regret_of(world.gaps, duel.arms, regret)
            n_steps += 1
        return run, n_steps, total, policy.best(ties)

    outcomes = (in_threads if compiled else in_processes)(job, range(len(streams)), workers)
    _, spent, values, answers = (
        np.array(column) for column in zip(*sorted(outcomes, key=itemgetter(0)), strict=True)
    )
    return Exploration(spent, values, answers, np.isin(answers, world.winners))
