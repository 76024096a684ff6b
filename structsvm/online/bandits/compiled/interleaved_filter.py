"""IF1 and IF2, compiled: rounds of a candidate against every remaining arm."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.costs import pair_costs
from structsvm.online.bandits.compiled.duels import duel, outcomes_of
from structsvm.online.bandits.compiled.reductions import exploit


def play(policy: Any, world: Any, times: Any, *settings: Any) -> None:
    """Play one run of ``policy``, an unused InterleavedFilter."""
    explore(policy, world, times, *settings, limit=int(times[-1]))


def explore(
    policy: Any, world: Any, times: Any, kind: int, rng: Any, ties: Any, *results: Any, limit: int
) -> tuple[int, float, int]:
    """Explore for at most ``limit`` steps, then exploit to ``times[-1]``.

    Return the steps and the regret of exploration, and the answer.
    """
    k = world.n_arms
    # the policy's first draw is the permutation, unless there is only one arm
    order = rng.permutation(k) if k > 1 else np.zeros(1, dtype=np.int64)
    log_t = log(policy.horizon * k**2)
    settings = (order, log_t, policy.prune, limit, rng)
    outcome: tuple[int, float, int] = _filter(
        outcomes_of(world), pair_costs(world.gaps, kind), times, *settings, *results
    )
    return outcome


@kernel
def _filter(outcomes, costs, times, order, log_t, prune, limit, rng, regret, winners, duels):
    k = len(costs)
    candidate = order[0]
    rivals = order[1:].copy()
    n = k - 1
    wins = np.zeros(k)
    rounds = 0
    total = 0.0
    next_time = 0
    t = 0
    while n > 0 and t < limit:
        rounds += 1
        made = 0
        while made < n and t < limit:
            rival = rivals[made]
            made += 1
            t += 1
            wins[rival] += duel(outcomes, candidate, rival, rng)
            total += costs[candidate, rival]
            duels[min(candidate, rival), max(candidate, rival)] += 1
            if made < n and next_time < len(times) and t == times[next_time]:
                regret[next_time] = total
                winners[next_time] = candidate
                next_time += 1
        if made == n:
            radius = np.sqrt(4 * log_t / rounds)
            worst = 0
            for r in range(1, n):
                if wins[rivals[r]] < wins[rivals[worst]]:
                    worst = r
            successor = rivals[worst]
            dethroned = wins[successor] / rounds + radius < 0.5
            left = 0
            for r in range(n):
                share = wins[rivals[r]] / rounds
                stays = share - radius <= 0.5
                if dethroned:
                    stays = stays and r != worst and (not prune or share <= 0.5)
                if stays:
                    rivals[left] = rivals[r]
                    left += 1
            n = left
            if dethroned:
                candidate = successor
                rounds = 0
                wins[:] = 0
        # the answer at the last step of a round is the one after elimination
        if next_time < len(times) and t == times[next_time]:
            regret[next_time] = total
            winners[next_time] = candidate
            next_time += 1
    if n == 0 and len(times) > 0:
        exploit(candidate, t, total, costs[candidate, candidate], times, next_time, regret, winners, duels)
    return t, total, candidate
