"""Beat the Mean, compiled: sums of records, instead of the records, are read at every step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.random.generator_core import next_double

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import largest, least_of, one_of_largest
from structsvm.online.bandits.compiled.run import Run, duel, exploit, is_due, pay, record, zeros


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an unused BeatTheMean."""
    k = policy.n_arms
    by_place = zeros(3, k)
    by_place[2] = 0.5  # shares
    log_t = log(2.0 * policy.horizon * k)
    _beat_the_mean(run, 3 * policy.gamma**2, log_t, *zeros(2, k, k), np.arange(k), *by_place)


# without NaN and signed zeros the loops over arms become vector instructions; no value changes
@kernel(fastmath={"nnan", "nsz"})
def _beat_the_mean(run, factor, log_t, wins, plays, alive, won, played, share):
    """``wins[i, j]`` and ``plays[i, j]`` are of duels with i as first arm, the rest by place among remaining arms."""
    rng, horizon = run.rng, run.times[-1]
    n_alive = n_fewest = len(alive)
    fewest = 0.0
    t = 0
    while t < horizon and n_alive > 1:
        t += 1
        pos = int(next_double(rng) * n_fewest) if n_fewest > 1 else 0
        a = -1
        while pos >= 0:
            a += 1
            pos -= played[a] == fewest
        first = alive[a]
        second = alive[int(next_double(rng) * n_alive)]
        pay(run, first, second)
        outcome = 0.5
        if first != second:
            outcome = duel(run, first, second)
        wins[first, second] += outcome
        plays[first, second] += 1
        won[a] += outcome
        played[a] += 1
        share[a] = won[a] / played[a]
        n_fewest -= 1
        if n_fewest == 0:
            fewest, n_fewest = _fewest(played, n_alive)
        if fewest > 0:
            radius = factor * np.sqrt(log_t / fewest)
            # most steps are far from a decision: shares lie in [0, 1]
            if radius <= 0.5:
                lowest, highest = 1.0, 0.0
                for c in range(n_alive):
                    lowest = share[c] if share[c] < lowest else lowest
                    highest = share[c] if share[c] > highest else highest
                if lowest + radius <= highest - radius:
                    c = 0
                    while share[c] != lowest:
                        c += 1
                    loser = alive[c]
                    n_alive -= 1
                    for d in range(c, n_alive):
                        alive[d] = alive[d + 1]
                        won[d] = won[d + 1]
                        played[d] = played[d + 1]
                    # comparisons made against it are forgotten
                    for d in range(n_alive):
                        won[d] -= wins[alive[d], loser]
                        played[d] -= plays[alive[d], loser]
                        share[d] = won[d] / played[d] if played[d] > 0 else 0.5
                    fewest, n_fewest = _fewest(played, n_alive)
        if is_due(run, t):
            left = share[:n_alive]
            record(run, alive[one_of_largest(left, largest(left), run.ties)], t)
    exploit(run, alive[0], t)


@kernel
def _fewest(played, n_alive):
    """Return the fewest comparisons of a remaining arm, and how many have so few."""
    fewest, n_fewest = least_of(played[:n_alive]), 0
    for a in range(n_alive):
        n_fewest += played[a] == fewest
    return fewest, n_fewest
