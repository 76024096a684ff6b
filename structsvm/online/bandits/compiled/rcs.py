"""RCS, compiled: samples only the pairs that decide the tournament.

``theta_ij ~ Beta(W_ij + 1, W_ji + 1)`` exceeds 1/2 with the binomial tail probability
``P(Bin(N_ij + 1, 1/2) <= W_ij)``, which a recurrence of two terms updates after a duel. Pairs are independent, so a
knock-out tournament that samples each pair at most once finds the champion. The last champion is tried first, with a
single random number. While an arm plays itself, the number of steps to its first defeat has a geometric distribution.
"""

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp, lgamma, log
from structsvm.online.bandits.compiled.reductions import largest, least_of, one_of_largest, steps_before
from structsvm.online.bandits.compiled.run import Run, compare, record_leader, skip


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an RCS in its initial state."""
    k = policy.n_arms
    share = np.full((k, k), 2.0)
    np.fill_diagonal(share, -1.0)
    _rcs(
        run,
        policy.alpha,
        share,
        *np.zeros((2, k, k)),
        *np.full((2, k, k), 0.5),
        np.zeros(k, dtype=np.int64),
        np.zeros(k),
    )


@kernel
def _tail_step(tail, pmf, n, w, won):  # type: ignore[no-untyped-def]
    """Update ``P(Bin(n + 1) <= w)`` and ``P(Bin(n + 1) = w)`` after one more comparison, won (1) or lost (0)."""
    # With m = n + 1 flips before the comparison and m + 1 after it, Pascal's rule P(Bin(m + 1) <= w) = P(Bin(m) <= w)
    # - P(Bin(m) = w) / 2 gives both tails, and ratios of binomial coefficients give the probability of the count.
    m = n + 1
    if won:
        above = pmf * (m - w) / (w + 1)  # P(Bin(m) = w + 1)
        tail += 0.5 * above
        pmf = pmf * (m + 1) / (2.0 * (w + 1))
        w += 1
    else:
        tail -= 0.5 * pmf
        pmf = pmf * (m + 1) / (2.0 * (m + 1 - w))
    # A product that has underflowed to 0 remains 0: close to underflow, compute the probability from its definition.
    if pmf < 1e-280:
        top = m + 1
        pmf = exp(lgamma(top + 1) - lgamma(w + 1) - lgamma(top - w + 1) - top * log(2.0))
    return min(1.0, max(0.0, tail)), pmf


@kernel
def _all(beats, arm):  # type: ignore[no-untyped-def]
    """Return the probability that ``arm`` beats all other arms in the tournament."""
    product = 1.0
    for j in range(len(beats)):
        if j != arm:
            product *= beats[arm, j]
    return product


@kernel
def _champion(beats, lead, u, rng):  # type: ignore[no-untyped-def]
    """Return the arm that beats all others, or -1 if there is none, given that ``lead`` does not."""
    # ``u`` is uniform between the probability that ``lead`` beats all others and 1.
    k = len(beats)
    # Sample the first arm, in the order of the arms, to which lead loses. The probability that it comes after j is the
    # probability that lead beats all arms up to j, the product ``prefix``, so it is the first j with prefix <= u.
    prefix = 1.0
    start = -1
    for j in range(k):
        if j != lead:
            start = j
            prefix *= beats[lead, j]
            if prefix <= u:
                break
    # Arms before ``start`` lost to lead and cannot be champion. The arms from ``start`` on are compared in turn: the
    # loser of a pair is not champion, so only the last winner can be champion, if it also beats the remaining arms.
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


# Without NaN and signed zeros the loops over arms become vector instructions; no value changes.
@kernel(fastmath={"nnan", "nsz"})
def _rcs(run, alpha, share, root, wins, beats, pmf, reigns, bounds):  # type: ignore[no-untyped-def]
    """Play a run of RCS; ``reigns`` counts how often each arm was champion."""
    # Row c of ``share`` and ``root`` (1/sqrt(N)) contains the results of the other arms against c, so that only one row
    # is searched for the challenger. The bound of a pair never compared is 2; the bound of the champion itself is never
    # the maximum. ``beats`` is P(theta_ij > 1/2) and ``pmf``, for i < j, P(Bin(N_ij + 1) = W_ij).
    k, rng, horizon = len(run.costs), run.rng, run.times[-1]
    # Invariant: ``lead`` is the last champion that beat all others (np.int64, since a literal 0 has its own Numba
    # type), and ``chance`` is the probability that it does so again. ``defeated``: lead is known to lose the next
    # tournament.
    lead = np.int64(0)
    chance = _all(beats, lead)
    defeated = False
    t = 0
    while t < horizon:
        t += 1
        # lead beats all others if u < chance; otherwise u is uniform on [chance, 1)
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
                # no arm beats all others: choose a random arm among those that were champion least often (Algorithm 1)
                champion = one_of_largest(reigns, least_of(reigns), rng)
        defeated = False
        # the challenger has the largest bound mu + sqrt(alpha ln t / N) against the champion
        width = np.sqrt(alpha * log(t))
        rates, roots = share[champion], root[champion]
        for j in range(k):
            bounds[j] = rates[j] + width * roots[j]
        highest = largest(bounds)
        if highest < 0.5:
            # The champion plays itself. Nothing changes until a bound against it reaches 1/2, or it loses the
            # tournament. The number of tournaments that it wins until then is geometric: sample it by inversion,
            # and set ``defeated`` for the step after them.
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
        # ``beats`` and ``pmf`` are computed for i < j: update these entries, and set beats[j, i] to 1 - beats[i, j]
        challenger = one_of_largest(bounds, highest, rng)
        i, j = min(champion, challenger), max(champion, challenger)
        w = wins[i, j]
        n = compare(run, wins, champion, challenger)
        beats[i, j], pmf[i, j] = _tail_step(beats[i, j], pmf[i, j], n - 1, w, wins[i, j] - w > 0.5)
        beats[j, i] = 1 - beats[i, j]
        share[i, j], share[j, i] = wins[j, i] / n, wins[i, j] / n
        root[i, j] = root[j, i] = 1 / np.sqrt(n)
        if lead in (i, j):
            chance = _all(beats, lead)
        record_leader(run, wins, t)
