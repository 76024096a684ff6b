"""Double Thompson sampling, compiled: whom an arm may beat changes by a duel, or as ``ln t`` reaches a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.random.distributions import random_beta

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import copeland_leader, largest, one_of_largest
from structsvm.online.bandits.compiled.run import Run, compare, is_due, record, skip


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an unused DoubleThompson."""
    k = policy.n_arms
    threshold = np.zeros((k, k))
    np.fill_diagonal(threshold, np.inf)
    _double_thompson(run, policy.alpha, np.zeros((k, k)), threshold, *np.zeros((2, k)))


@kernel
def _count(threshold, log_t, score):
    """Count the others that each arm may beat; return the next ``ln t`` at which a count rises."""
    soonest = np.inf
    for i in range(len(score)):
        n = 0
        for each in threshold[i]:
            n += each <= log_t
            soonest = min(soonest, each if each > log_t else np.inf)
        score[i] = n
    return soonest


@kernel
def _first(wins, score, won, rng):
    """Return the arm of largest ``score``; of several, one that beats the most others in a draw."""
    k, best = len(score), largest(score)
    n = 0
    for i in range(k):
        n += score[i] == best
        won[i] = 0 if score[i] == best else -1
    if n > 1:
        for i in range(k):
            for j in range(i + 1, k):
                if score[i] == best or score[j] == best:
                    theta = random_beta(rng, wins[i, j] + 1, wins[j, i] + 1)
                    won[i] += score[i] == best and theta > 0.5
                    won[j] += score[j] == best and 1 - theta > 0.5
    return one_of_largest(won, largest(won), rng)


@kernel
def _double_thompson(run, alpha, wins, threshold, score, won):
    """U_ij >= 1/2 iff ln t >= threshold[i, j], which is infinite for an arm and itself."""
    k, rng = len(run.costs), run.rng
    soonest = 0.0
    for t in range(1, run.times[-1] + 1):
        log_t = log(t)
        if soonest <= log_t:
            soonest = _count(threshold, log_t, score)
        first = _first(wins, score, won, rng)
        second, highest = first, 0.5
        for j in range(k):
            if threshold[first, j] <= log_t:
                theta = random_beta(rng, wins[j, first] + 1, wins[first, j] + 1)
                if theta > highest:
                    second, highest = j, theta
        if first == second:
            skip(run, first, t, 1, wins)
            continue
        n = compare(run, wins, first, second)
        for i, j in ((first, second), (second, first)):
            short = 0.5 - wins[i, j] / n
            new = n * short * short / alpha if short > 0 else 0.0
            score[i] += (new <= log_t) - (threshold[i, j] <= log_t)
            threshold[i, j] = new
            if new > log_t:
                soonest = min(soonest, new)
        if is_due(run, t):
            record(run, copeland_leader(wins, run.ahead, run.ties), t)
