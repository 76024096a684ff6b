"""IF1 and IF2, compiled: rounds of a candidate against every remaining arm."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.run import Run, duel, exploit, is_due, pay, record


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an unused InterleavedFilter."""
    t, candidate, decided = explore(policy, run, int(run.times[-1]))
    if decided:
        exploit(run, candidate, t)


def explore(policy: Any, run: Run, limit: int) -> tuple[int, int, bool]:
    """Explore for at most ``limit`` steps; return the steps, the answer, and whether it is the last arm."""
    k = policy.n_arms
    # the policy's first draw is the permutation, unless there is only one arm
    order = run.rng.permutation(k) if k > 1 else np.zeros(1, dtype=np.int64)
    outcome: tuple[int, int, bool] = _filter(run, order, log(policy.horizon * k**2), policy.prune, limit)
    return outcome


@kernel
def _filter(run, order, log_t, prune, limit):
    k = len(order)
    candidate = order[0]
    rivals = order[1:].copy()
    n = k - 1
    wins = np.zeros(k)
    rounds = 0
    t = 0
    while n > 0 and t < limit:
        rounds += 1
        made = 0
        while made < n and t < limit:
            rival = rivals[made]
            made += 1
            t += 1
            wins[rival] += duel(run.outcomes, candidate, rival, run.rng)
            pay(run, candidate, rival)
            if made < n and is_due(run, t):
                record(run, candidate, t)
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
        if is_due(run, t):
            record(run, candidate, t)
    return t, candidate, n == 0
