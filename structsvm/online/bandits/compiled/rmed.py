"""RMED1, compiled: a duel changes the divergence of two arms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.random.generator_core import next_double

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import least_of, least_other, steps_before
from structsvm.online.bandits.compiled.run import Run, duel, is_due, record
from structsvm.online.bandits.rmed import TIE


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an unused RMED1."""
    k = policy.n_arms
    share = np.full((k, k), 0.5)
    np.fill_diagonal(share, np.inf)
    waiting = np.arange(k), np.ones(k, dtype=np.bool_), np.zeros(k, dtype=np.bool_)
    _rmed(run, policy.margin, TIE, share, *np.zeros((2, k, k)), np.zeros(k), np.full(k, k - 1), *waiting)


@kernel
def _sum(values):
    """Add four sums in turn: an addition takes about four cycles, in which three more can begin."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    n = len(values)
    for i in range(0, n - 3, 4):
        s0 += values[i]
        s1 += values[i + 1]
        s2 += values[i + 2]
        s3 += values[i + 3]
    for i in range(n - n % 4, n):
        s0 += values[i]
    return (s0 + s1) + (s2 + s3)


@kernel
def _choose(values, limit, rng):
    """Return an index with a value of at most ``limit``, at random."""
    n = 0
    for value in values:
        n += value <= limit
    pos = int(next_double(rng) * n) if n > 1 else 0
    i = 0
    while values[i] > limit or pos > 0:
        pos -= values[i] <= limit
        i += 1
    return i


# fast-math without NaN and signed zeros lets the loop over arms be vectorised
@kernel(fastmath={"nnan", "nsz"})
def _join(divergence, limit, is_waiting, joining):
    for j in range(len(divergence)):
        joining[j] = joining[j] | ((divergence[j] <= limit) & ~is_waiting[j])


@kernel
def _rmed(run, margin, tie, share, wins, terms, divergence, ahead, waiting, is_waiting, joining):
    """``terms`` are N_ij KL(mu_ij, 1/2) where j is ahead of i, and ``divergence`` their sums.
    ``ahead`` counts arms ahead of or level with i; unseen pairs are level.
    """
    k, rng, horizon = len(run.costs), run.rng, run.times[-1]
    position, n_waiting = 0, k
    least = 0.0  # smallest divergence
    first, second = 0, 0  # the last pair of the first round
    n_pairs = k * (k - 1) // 2
    t = 0
    while t < horizon:
        t += 1
        started = t > n_pairs
        if not started:
            second += 1
            if second == k:
                first += 1
                second = first + 1
            arm, opponent = first, second
        else:
            arm = waiting[position]
            leader = _choose(divergence, least + tie, rng)
            if ahead[arm] == 0 or (leader != arm and share[arm, leader] <= 0.5):
                opponent = leader
            else:
                opponent = _choose(share[arm], least_of(share[arm]), rng)
        if arm != opponent:
            won = duel(run, arm, opponent)
            wins[arm, opponent] += won
            wins[opponent, arm] += 1.0 - won
            plays = wins[arm, opponent] + wins[opponent, arm]
            ahead[arm] -= share[arm, opponent] <= 0.5
            ahead[opponent] -= share[opponent, arm] <= 0.5
            mu = wins[arm, opponent] / plays
            nu = wins[opponent, arm] / plays
            share[arm, opponent], share[opponent, arm] = mu, nu
            ahead[arm] += mu <= 0.5
            ahead[opponent] += nu <= 0.5
            distance = 0.0
            if mu > 0:
                distance += mu * log(2 * mu)
            if nu > 0:
                distance += nu * log(2 * nu)
            terms[arm, opponent] = plays * distance if mu <= 0.5 else 0.0
            terms[opponent, arm] = plays * distance if nu <= 0.5 else 0.0
            divergence[arm] = _sum(terms[arm])
            divergence[opponent] = _sum(terms[opponent])
            least = least_of(divergence)
        steps = 1
        if started:
            is_waiting[arm] = False
            position += 1
            _join(divergence, least + log(t) + margin, is_waiting, joining)
            if position == n_waiting:
                alone = n_waiting == 1
                position = n_waiting = 0
                for j in range(k):
                    if joining[j]:
                        waiting[n_waiting] = j
                        n_waiting += 1
                    is_waiting[j] = joining[j]
                    joining[j] = False
                if alone and n_waiting == 1 and waiting[0] == arm and arm == opponent:
                    # one arm plays itself: nothing changes until ln t lets another arm join
                    soonest = least_other(divergence, arm) - (divergence[arm] + margin)
                    steps = steps_before(soonest, t, horizon)
        cost = run.costs[arm, opponent]
        last = t + steps - 1
        while is_due(run, last):
            record(run, _choose(divergence, least + tie, run.ties), t - 1, cost)
        run.total[0] += cost * steps
        run.duels[min(arm, opponent), max(arm, opponent)] += steps
        t = last
