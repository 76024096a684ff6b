"""IF1 and IF2, compiled: rounds of comparisons of a candidate with each remaining arm."""

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.run import Run, duel, exploit, is_due, pay, record


def play(policy: object, run: Run) -> None:
    """Play a run of ``policy``, an InterleavedFilter in its initial state."""
    explore(policy, run, int(run.times[-1]))


def explore(policy: Any, run: Run, limit: int) -> tuple[int, int]:
    """Explore for at most ``limit`` steps; return the number of steps and the best arm."""
    k = policy.n_arms
    # the policy first draws the permutation, unless there is only one arm
    order = run.rng.permutation(k) if k > 1 else np.zeros(1, dtype=np.int64)
    log_t, wins = log(policy.horizon * k**2), np.zeros(k)
    outcome: tuple[int, int] = _filter(run, order[0], order[1:], wins, log_t, policy.prune, limit)
    return outcome


@kernel
def _filter(run, candidate, rivals, wins, log_t, prune, limit):  # type: ignore[no-untyped-def]
    """Explore for at most ``limit`` steps; ``wins[r]`` counts the candidate's wins over r, ``rivals[:n]`` remain."""
    n = len(rivals)
    rounds = 0
    t = 0
    while n > 0 and t < limit:
        rounds += 1
        # in a round, the candidate is compared with each rival once, so each share is based on ``rounds`` comparisons
        met = 0
        while met < n and t < limit:
            rival = rivals[met]
            met += 1
            t += 1
            wins[rival] += duel(run, candidate, rival)
            pay(run, candidate, rival)
            if met < n and is_due(run, t):
                record(run, candidate, t)
        if met == n:
            # c_t = sqrt(4 ln(1/delta) / t) with delta = 1/(T K^2) (thesis, Algorithm 5)
            radius = np.sqrt(4 * log_t / rounds)
            worst = 0
            for r in range(1, n):
                if wins[rivals[r]] < wins[rivals[worst]]:
                    worst = r
            successor = rivals[worst]
            dethroned = wins[successor] / rounds + radius < 0.5
            # Keep the rivals that the candidate is not shown to beat. If the candidate loses, its successor is removed
            # from the rivals, and with pruning (Algorithm 6) also each rival that lost more than half of its
            # comparisons with the candidate.
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
                wins[:] = 0.0
        # at the last step of a round, the candidate after elimination is recorded
        if is_due(run, t):
            record(run, candidate, t)
    if n == 0 and len(run.times):  # nothing is recorded if ``times`` is empty
        exploit(run, candidate, t)
    return t, candidate
