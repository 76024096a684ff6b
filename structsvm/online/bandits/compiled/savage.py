"""Condorcet SAVAGE, compiled: counts the pairs with the fewest comparisons by row instead of searching all pairs."""

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import largest, one_of_largest
from structsvm.online.bandits.compiled.run import Run, compare, exploit, is_due, record


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, a SAVAGE in its initial state."""
    k = policy.n_arms
    log_t = log(float(k) * max(k - 1, 1) * policy.horizon / policy.delta)
    _savage(run, log_t, *np.zeros((2, k, k)), np.arange(k), np.zeros(k, dtype=np.int64))


@kernel
def _count_level(plays, alive, n_alive, at_level):  # type: ignore[no-untyped-def]
    """Return the fewest comparisons of any remaining pair; count the pairs that have so few, by their first arm."""
    level = np.inf
    for a in range(n_alive):
        for b in range(a + 1, n_alive):
            level = min(level, plays[alive[a], alive[b]])
    for a in range(n_alive):
        at_level[a] = 0
        for b in range(a + 1, n_alive):
            at_level[a] += plays[alive[a], alive[b]] == level
    return level


@kernel
def _savage(run, log_t, wins, plays, alive, at_level):  # type: ignore[no-untyped-def]
    """Play a run; ``alive[:n_alive]`` are the remaining arms, ``plays`` the comparisons of each pair."""
    # Invariant: at_level[a] pairs (alive[a], alive[b]) with a < b have ``level`` comparisons, the fewest of all. A
    # duel uses one of these pairs; all pairs are counted again when none is left, or when an arm is eliminated.
    rng, horizon = run.rng, run.times[-1]
    n_alive = len(alive)
    level = _count_level(plays, alive, n_alive, at_level)
    t = 0
    while t < horizon and n_alive > 1:
        t += 1
        n_tied = 0
        for c in range(n_alive):
            n_tied += at_level[c]
        # choose the pair with index ``pos`` among these, in the order of ``pair_indices``: row, then column
        pos = int(rng.random() * n_tied) if n_tied > 1 else 0
        a = 0
        while pos >= at_level[a]:
            pos -= at_level[a]
            a += 1
        first = alive[a]
        b = a
        while pos >= 0:
            b += 1
            if plays[first, alive[b]] == level:
                pos -= 1
        second = alive[b]
        n = compare(run, wins, first, second)
        plays[first, second] = plays[second, first] = n
        # Hoeffding's radius with a union bound over pairs and times; only the two compared arms can be eliminated
        radius = np.sqrt(log_t / (2 * n))
        dropped = -1
        if wins[first, second] / n + radius < 0.5:
            dropped = a
        elif wins[second, first] / n + radius < 0.5:
            dropped = b
        if dropped >= 0:
            n_alive -= 1
            for c in range(dropped, n_alive):
                alive[c] = alive[c + 1]
        else:
            at_level[a] -= 1
        if dropped >= 0 or n_tied == 1:
            level = _count_level(plays, alive, n_alive, at_level)
        # the answer is the Copeland leader among the remaining arms
        if is_due(run, t):
            ahead = run.ahead[:n_alive]
            for c in range(n_alive):
                n_behind = 0
                for d in range(n_alive):
                    n_behind += wins[alive[c], alive[d]] > wins[alive[d], alive[c]]
                ahead[c] = n_behind
            record(run, alive[one_of_largest(ahead, largest(ahead), run.ties)], t)
    exploit(run, alive[0], t)
