"""RUCB, compiled: an arm is a candidate iff ``ln t`` has reached its threshold."""

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import (
    half_reached,
    largest,
    least_other,
    one_of_largest,
    steps_before,
)
from structsvm.online.bandits.compiled.run import Run, compare, record_leader, skip, zeros


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an RUCB in its initial state."""
    k = policy.n_arms
    # Row c of ``share`` and ``root`` contains the results of the other arms against c, so that only one row is searched
    # for the challenger. The bound of a pair never compared is 2; that of the champion itself is never the maximum.
    share, root, wins, threshold = zeros(4, k, k)  # root: 1/sqrt(N)
    share[:] = 2.0
    np.fill_diagonal(share, -1.0)
    _rucb(run, policy.alpha, wins, share, root, threshold, *zeros(2, k), np.zeros(k, dtype=np.int64))


# Without NaN and signed zeros the loops over arms become vector instructions; no value changes.
@kernel(fastmath={"nnan", "nsz"})
def _rucb(run, alpha, wins, share, root, threshold, needed, bounds, candidates):  # type: ignore[no-untyped-def]
    """Play a run of RUCB; ``bounds`` and ``candidates`` are scratch arrays of length K."""
    # ``U_ij >= 1/2`` iff ``ln t >= threshold[i, j]``; i is a candidate iff ``ln t >= needed[i]``, the maximum of its
    # row.
    k, rng, horizon = len(run.costs), run.rng, run.times[-1]
    # Invariant: ``candidates[:n_candidates]`` is C, and no arm outside C can join it before ln t >= joins. C changes
    # only by a duel (joins is set to 0 if an arm enters or leaves) or when ln t reaches ``joins``.
    n_candidates = 0
    joins = 0.0
    leader = -1
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
        # Algorithm 1: B becomes its intersection with C. If C has one arm, B is C. Otherwise the champion is the arm of
        # B with probability 1/2, else a random arm of C without B; it is any arm if C is empty.
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
        width = np.sqrt(alpha * log_t)
        rates, roots = share[champion], root[champion]
        for j in range(k):
            bounds[j] = rates[j] + width * roots[j]
        highest = largest(bounds)
        if highest < 0.5:
            # The champion plays itself. If it is the only candidate, nothing changes until a bound against it reaches
            # 1/2 again; otherwise the next champion is drawn.
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
            old = threshold[a, b]
            threshold[a, b] = half_reached(n, wins[a, b], alpha)
            before = needed[a] <= log_t
            # compute the maximum of the row again only if the entry that was the maximum decreased
            if threshold[a, b] >= needed[a]:
                needed[a] = threshold[a, b]
            elif old == needed[a]:
                needed[a] = largest(threshold[a])
            if (needed[a] <= log_t) != before:
                joins = 0.0  # visit all arms again
            elif not before:
                joins = min(joins, needed[a])
        record_leader(run, wins, t)
