"""RCS, compiled: the tournament needs only who wins each pair, and only the pairs that decide it.

``theta_ij ~ Beta(W_ij + 1, W_ji + 1)`` exceeds 1/2 with the binomial tail probability
``P(Bin(N_ij + 1, 1/2) <= W_ij)``, which a duel changes by a two-term recurrence. Pairs are independent, so
the champion is found by a knock-out in which each pair is drawn at most once, and the usual champion is tried
first with a single number. While it plays itself, the steps to its first defeat are geometric.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.random.generator_core import next_double

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp, lgamma, log
from structsvm.online.bandits.compiled.reductions import (
    copeland_leader,
    largest,
    one_of_largest,
    steps_before,
)
from structsvm.online.bandits.compiled.run import Run, compare, is_due, record, skip


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an unused RCS."""
    k = policy.n_arms
    share = np.full((k, k), 2.0)
    np.fill_diagonal(share, -1.0)
    pairs = share, *np.zeros((2, k, k)), *np.full((2, k, k), 0.5)
    _rcs(run, policy.alpha, *pairs, np.zeros(k, dtype=np.int64), np.zeros(k))


@kernel
def _tail_step(tail, pmf, n, w, won):
    """Update ``P(Bin(n + 1) <= w)`` and ``P(Bin(n + 1) = w)`` after one more comparison, won (1) or lost (0)."""
    m = n + 1
    if won:
        above = pmf * (m - w) / (w + 1)  # P(Bin(m) = w + 1)
        tail += 0.5 * above
        pmf = pmf * (m + 1) / (2.0 * (w + 1))
        w += 1
    else:
        tail -= 0.5 * pmf
        pmf = pmf * (m + 1) / (2.0 * (m + 1 - w))
    if pmf < 1e-280:  # before it underflows: compute it from the definition again
        top = m + 1
        log_t = lgamma(top + 1) - lgamma(w + 1) - lgamma(top - w + 1) - top * log(2.0)
        pmf = exp(log_t)
    return min(1.0, max(0.0, tail)), pmf


@kernel
def _all(beats, arm):
    """Return the probability that ``arm`` beats everyone in the tournament."""
    product = 1.0
    for j in range(len(beats)):
        if j != arm:
            product *= beats[arm, j]
    return product


@kernel
def _champion(beats, lead, u, rng):
    """Return the arm that beats everyone, or -1, when ``u`` says that ``lead`` does not.
    ``u`` is uniform and at least the probability that ``lead`` beats everyone.
    """
    k = len(beats)
    # draw lead's first defeat, in the order of the arms, by inverting its distribution at u
    prefix = 1.0
    start = -1
    for j in range(k):
        if j != lead:
            start = j
            prefix *= beats[lead, j]
            if prefix <= u:
                break
    # arms before it lost to lead. The others knock each other out; only the last one left may be champion
    champion, beaten = start, lead
    for j in range(start + 1, k):
        if j != lead and next_double(rng) >= beats[champion, j]:
            champion, beaten = j, champion
    for j in range(champion):
        if j != beaten and j != lead and next_double(rng) >= beats[champion, j]:
            return -1
    if beaten != lead and next_double(rng) >= beats[champion, lead]:
        return -1
    return champion


@kernel(fastmath={"nnan", "nsz"})
def _rcs(run, alpha, share, root, wins, beats, pmf, reigns, bounds):
    """Row c of ``share`` and ``root`` (1/sqrt(N)) are results of the others against c. The bound of a pair never
    compared is 2; that of the champion itself is never the maximum. ``beats`` is P(theta_ij > 1/2) and ``pmf``, for
    i < j, P(Bin(N_ij + 1) = W_ij).
    """
    k, rng, horizon = len(run.costs), run.rng, run.times[-1]
    lead = np.int64(0)  # the last champion that beat everyone; a literal would be a type of its own
    chance = _all(beats, lead)
    defeated = False  # whether lead is known not to win the next tournament
    t = 0
    while t < horizon:
        t += 1
        u = next_double(rng)
        if defeated:
            u = chance + (1 - chance) * u
        if u < chance:
            champion = lead
        else:
            champion = _champion(beats, lead, u, rng)
            if champion >= 0:
                lead = champion
                chance = _all(beats, lead)
            else:
                fewest = reigns[0]
                for j in range(k):
                    fewest = min(fewest, reigns[j])
                champion = one_of_largest(reigns, fewest, rng)
        defeated = False
        width = np.sqrt(alpha * log(t))
        rates, roots = share[champion], root[champion]
        for j in range(k):
            bounds[j] = rates[j] + width * roots[j]
        highest = largest(bounds)
        if highest < 0.5:
            # the champion against itself: nothing changes until a bound reaches 1/2, or it loses the
            # tournament
            steps = 1
            if champion == lead:
                soonest = np.inf
                for j in range(k):
                    if j != champion:
                        short = (0.5 - rates[j]) / roots[j]
                        soonest = min(soonest, short * short / alpha)
                steps = steps_before(soonest, t, horizon)
                if steps > 1 and chance < 1:
                    further = log(1 - next_double(rng)) / log(chance) if chance > 0 else 0.0
                    if further < steps - 1:
                        steps = 1 + int(further)
                        defeated = True
            reigns[champion] += steps
            t = skip(run, champion, t, steps, wins)
            continue
        reigns[champion] += 1
        challenger = one_of_largest(bounds, highest, rng)
        i, j = min(champion, challenger), max(champion, challenger)
        w = wins[i, j]
        n = compare(run, wins, champion, challenger)
        won = wins[i, j] - w
        beats[i, j], pmf[i, j] = _tail_step(beats[i, j], pmf[i, j], n - 1, w, won > 0.5)
        beats[j, i] = 1 - beats[i, j]
        share[i, j], share[j, i] = wins[j, i] / n, wins[i, j] / n
        root[i, j] = root[j, i] = 1 / np.sqrt(n)
        if lead in (i, j):
            chance = _all(beats, lead)
        if is_due(run, t):
            record(run, copeland_leader(wins, run.ahead, run.ties), t)
