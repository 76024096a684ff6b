"""RUCB, compiled: an arm is a candidate iff ``ln t`` has reached its threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import (
    copeland_leader,
    largest,
    least_other,
    one_of_largest,
    steps_before,
)
from structsvm.online.bandits.compiled.run import Run, compare, is_due, record, skip


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an unused RUCB."""
    _rucb(run, policy.alpha)


# without NaN and signed zeros the loops over arms become vector instructions; no value changes
@kernel(fastmath={"nnan", "nsz"})
def _rucb(run, alpha):
    k, rng, horizon = len(run.costs), run.rng, run.times[-1]
    wins = np.zeros((k, k))
    # row c: results of the others against c, so that the challenger is found in one row. The bound of a pair never
    # compared is infinite; that of the champion itself is never the maximum
    share = np.full((k, k), 0.5)
    root = np.full((k, k), np.inf)  # 1/sqrt(N)
    for i in range(k):
        share[i, i] = -1.0
        root[i, i] = 0.0
    # threshold[i, j]: U_ij >= 1/2 iff ln t >= threshold[i, j]
    threshold = np.zeros((k, k))
    needed = np.zeros(k)  # row maxima: i is a candidate iff ln t >= needed[i]
    # candidates change only by a duel, or when ln t reaches `joins`, the least threshold of the other arms
    candidates = np.empty(k, np.int64)
    n_candidates = 0
    joins = 0.0
    leader = -1
    bounds = np.empty(k)
    t = 0
    while t < horizon:
        t += 1
        log_t = log(t)
        if joins <= log_t:
            joins = np.inf
            n_candidates = 0
            for i in range(k):
                if needed[i] <= log_t:
                    candidates[n_candidates] = i
                    n_candidates += 1
                else:
                    joins = min(joins, needed[i])
        if leader >= 0 and needed[leader] > log_t:
            leader = -1
        if n_candidates == 1:
            leader = champion = candidates[0]
        elif n_candidates == 0:
            champion = int(rng.random() * k)
        elif leader >= 0 and rng.random() < 0.5:
            champion = leader
        else:
            rest = n_candidates - (1 if leader >= 0 else 0)
            pos = int(rng.random() * rest) if rest > 1 else 0
            champion = candidates[pos]
            if leader >= 0 and champion >= leader:  # skip the leader
                champion = candidates[pos + 1]
        # the challenger has the largest bound against the champion
        width = np.sqrt(alpha * log_t) + 1e-300  # above 0, as zero times infinity is NaN at t = 1
        rates, roots = share[champion], root[champion]
        for j in range(k):
            bounds[j] = rates[j] + width * roots[j]
        highest = largest(bounds)
        if highest < 0.5:
            # it plays itself alone: nothing changes until some bound against it reaches 1/2 again
            steps = 1
            if n_candidates == 1:
                steps = steps_before(least_other(threshold[:, champion], champion), t, horizon)
            t = skip(run, champion, t, steps, wins)
            continue
        challenger = one_of_largest(bounds, highest, rng)
        n = compare(run, wins, champion, challenger)
        share[champion, challenger] = wins[challenger, champion] / n
        share[challenger, champion] = wins[champion, challenger] / n
        root[champion, challenger] = root[challenger, champion] = 1 / np.sqrt(n)
        for a, b in ((champion, challenger), (challenger, champion)):
            short = 0.5 - share[b, a]
            old = threshold[a, b]
            threshold[a, b] = n * short * short / alpha if short > 0 else 0.0
            before = needed[a] <= log_t
            if threshold[a, b] >= needed[a]:
                needed[a] = threshold[a, b]
            elif old == needed[a]:
                needed[a] = largest(threshold[a])
            if (needed[a] <= log_t) != before:
                joins = 0.0  # visit all arms again
            elif not before:
                joins = min(joins, needed[a])
        if is_due(run, t):
            record(run, copeland_leader(wins, run.ties), t)
