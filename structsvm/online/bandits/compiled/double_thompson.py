"""Double Thompson sampling, compiled: the set of arms that an arm may beat changes only at a duel or a threshold."""

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import half_reached, largest, one_of_largest
from structsvm.online.bandits.compiled.run import Run, compare, record_leader, skip


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, a DoubleThompson in its initial state."""
    k = policy.n_arms
    threshold = np.zeros((k, k))
    np.fill_diagonal(threshold, np.inf)
    _double_thompson(run, policy.alpha, np.zeros((k, k)), threshold, *np.zeros((2, k)))


@kernel
def _count(threshold, log_t, score):  # type: ignore[no-untyped-def]
    """Count the arms that each arm may beat; return the next ``ln t`` at which a count increases."""
    soonest = np.inf
    for i in range(len(score)):
        n = 0
        for each in threshold[i]:
            n += each <= log_t
            soonest = min(soonest, each if each > log_t else np.inf)
        score[i] = n
    return soonest


@kernel
def _first(wins, score, won, rng):  # type: ignore[no-untyped-def]
    """Return the arm with the largest ``score``; among several, the arm that beats the most arms in a sample."""
    k, best = len(score), largest(score)
    n = 0
    for i in range(k):
        n += score[i] == best
        won[i] = 0 if score[i] == best else -1
    if n > 1:
        # Only pairs with an arm of the largest score matter. They are sampled in the order of ``pair_indices``, so that
        # the random numbers equal those of the policy.
        for i in range(k):
            for j in range(i + 1, k):
                if score[i] == best or score[j] == best:
                    theta = rng.beta(wins[i, j] + 1, wins[j, i] + 1)
                    won[i] += score[i] == best and theta > 0.5
                    won[j] += score[j] == best and 1 - theta > 0.5
    return one_of_largest(won, largest(won), rng)


@kernel
def _double_thompson(run, alpha, wins, threshold, score, won):  # type: ignore[no-untyped-def]
    """Play a run; ``U_ij >= 1/2`` iff ``ln t >= threshold[i, j]``, which is infinite on the diagonal."""
    k, rng = len(run.costs), run.rng
    # Invariant: score[i] = #{j: threshold[i, j] <= ln t}, and no threshold lies between ln t and ``soonest``. A duel
    # updates two thresholds and their scores; all pairs are counted again only when ln t reaches ``soonest``.
    soonest = 0.0
    for t in range(1, run.times[-1] + 1):
        log_t = log(t)
        if soonest <= log_t:
            soonest = _count(threshold, log_t, score)
        first = _first(wins, score, won, rng)
        # the second arm has the largest theta against the first arm, among arms with l_ij <= 1/2, that is, U_ji >= 1/2
        second, highest = first, 0.5
        for j in range(k):
            if threshold[first, j] <= log_t:
                theta = rng.beta(wins[j, first] + 1, wins[first, j] + 1)
                if theta > highest:
                    second, highest = j, theta
        if first == second:
            skip(run, first, t, 1, wins)
            continue
        n = compare(run, wins, first, second)
        for i, j in ((first, second), (second, first)):
            new = half_reached(n, wins[i, j], alpha)
            score[i] += (new <= log_t) - (threshold[i, j] <= log_t)
            threshold[i, j] = new
            if new > log_t:
                soonest = min(soonest, new)
        record_leader(run, wins, t)
