"""RCS, compiled: the tournament needs only who wins each pair, and only the pairs that decide it.

``theta_ij ~ Beta(W_ij + 1, W_ji + 1)`` exceeds 1/2 with the binomial tail probability
``P(Bin(N_ij + 1, 1/2) <= W_ij)``, which a duel changes by a two-term recurrence. Pairs are independent, so
the champion is found by a knock-out in which each pair is drawn at most once, and the usual champion is tried
first with a single number. While it plays itself, the steps to its first defeat are geometric.

A tie counts half a win for both. The recurrence holds for halves too, but goes in steps of one: in live comparisons
each pair has a second chain, half a win for both ahead of the first, and a tie changes their places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
    _rcs(run, policy.alpha)


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
def _chains_step(tail, pmf, ahead, ahead_pmf, n, w, won):
    """Update both chains of a pair after one more comparison, won (1), lost (0) or tied (0.5)."""
    if won == 0.5:
        later, later_pmf = _tail_step(tail, pmf, n, w, True)
        later, later_pmf = _tail_step(later, later_pmf, n + 1, w + 1, False)
        return ahead, ahead_pmf, later, later_pmf
    tail, pmf = _tail_step(tail, pmf, n, w, won > 0.5)
    ahead, ahead_pmf = _tail_step(ahead, ahead_pmf, n + 1, w + 0.5, won > 0.5)
    return tail, pmf, ahead, ahead_pmf


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
        if j != lead and rng.random() >= beats[champion, j]:
            champion, beaten = j, champion
    for j in range(champion):
        if j != beaten and j != lead and rng.random() >= beats[champion, j]:
            return -1
    if beaten != lead and rng.random() >= beats[champion, lead]:
        return -1
    return champion


@kernel(fastmath={"nnan", "nsz"})
def _rcs(run, alpha):
    k, rng, horizon = len(run.costs), run.rng, run.times[-1]
    wins = np.zeros((k, k))
    # row c: results of the others against c. The bound of a pair never compared is 2; that of the champion itself is
    # never the maximum
    share = np.full((k, k), 2.0)
    root = np.zeros((k, k))  # 1/sqrt(N)
    for i in range(k):
        share[i, i] = -1.0
    beats = np.full((k, k), 0.5)  # P(theta_ij > 1/2)
    pmf = np.full((k, k), 0.5)  # P(Bin(N_ij + 1) = W_ij), i < j
    # the same with half a win more for both: Beta(1.5, 1.5) is symmetric
    ahead = np.full((k, k) if run.live else (0, 0), 0.5)
    ahead_pmf = np.full((k, k) if run.live else (0, 0), 4 / (3 * np.pi))
    reigns = np.zeros(k, dtype=np.int64)
    lead = 0  # the last champion that beat everyone
    chance = _all(beats, lead)
    defeated = False  # whether lead is known not to win the next tournament
    bounds = np.empty(k)
    t = 0
    while t < horizon:
        t += 1
        u = rng.random()
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
                champion = one_of_largest(reigns, reigns.min(), rng)
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
                    further = log(1 - rng.random()) / log(chance) if chance > 0 else 0.0
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
        if run.live:
            both = beats[i, j], pmf[i, j], ahead[i, j], ahead_pmf[i, j]
            beats[i, j], pmf[i, j], ahead[i, j], ahead_pmf[i, j] = _chains_step(*both, n - 1, w, won)
        else:
            beats[i, j], pmf[i, j] = _tail_step(beats[i, j], pmf[i, j], n - 1, w, won > 0.5)
        beats[j, i] = 1 - beats[i, j]
        share[i, j], share[j, i] = wins[j, i] / n, wins[i, j] / n
        root[i, j] = root[j, i] = 1 / np.sqrt(n)
        if lead in (i, j):
            chance = _all(beats, lead)
        if is_due(run, t):
            record(run, copeland_leader(wins, run.ties), t)
