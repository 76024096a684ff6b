"""RMED1, compiled: a duel changes only the divergences of its two arms."""

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import least_of, least_other, steps_before
from structsvm.online.bandits.compiled.run import Run, duel, is_due, record
from structsvm.online.bandits.rmed import TIE


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an RMED1 in its initial state."""
    k = policy.n_arms
    share = np.full((k, k), 0.5)
    np.fill_diagonal(share, np.inf)
    _rmed(
        run,
        policy.margin,
        TIE,
        share,
        *np.zeros((2, k, k)),
        np.zeros(k),
        np.full(k, k - 1),
        np.arange(k),
        np.ones(k, dtype=np.bool_),
        np.zeros(k, dtype=np.bool_),
    )


@kernel
def _sum(values):  # type: ignore[no-untyped-def]
    """Return the sum of ``values``, computed as four partial sums."""
    # independent additions overlap in the processor, in which a single addition takes about four cycles
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
def _choose(values, limit, rng):  # type: ignore[no-untyped-def]
    """Return the index of a value of at most ``limit``; choose among several at random."""
    n = 0
    for value in values:
        n += value <= limit
    pos = int(rng.random() * n) if n > 1 else 0
    i = 0
    while values[i] > limit or pos > 0:
        pos -= values[i] <= limit
        i += 1
    return i


# Without NaN and signed zeros the loop over arms becomes vector instructions; no value changes.
@kernel(fastmath={"nnan", "nsz"})
def _join(divergence, limit, is_waiting, joining):  # type: ignore[no-untyped-def]
    """Add to the next list the arms that are not waiting and whose divergence is at most ``limit`` (Algorithm 1,
    J_j(t))."""
    for j in range(len(divergence)):
        joining[j] = joining[j] | ((divergence[j] <= limit) & ~is_waiting[j])


@kernel
def _rmed(run, margin, tie, share, wins, terms, divergence, ahead, waiting, is_waiting, joining):  # type: ignore[no-untyped-def]
    """Play a run of RMED1; :func:`play` initialises the arrays."""
    # ``terms[i, j]`` is N_ij KL(mu_ij, 1/2) if j is ahead of i, otherwise 0; ``divergence`` contains its row sums.
    # ``ahead[i]`` is the number of arms in O_i, which are ahead of i, tied with i or never compared with i.
    k, rng, horizon = len(run.costs), run.rng, run.times[-1]
    # L_C is ``waiting[:n_waiting]``; L_R is its part from ``position`` on, marked in ``is_waiting``; ``joining`` is
    # L_N; ``least`` is I*(t).
    position, n_waiting = 0, k
    least = 0.0
    first, second = 0, 0  # the last pair of the initial phase
    n_pairs = k * (k - 1) // 2
    t = 0
    while t < horizon:
        t += 1
        # initial phase: each pair once, in the order of ``pair_indices``
        started = t > n_pairs
        if not started:
            second += 1
            if second == k:
                first += 1
                second = first + 1
            arm, opponent = first, second
        else:
            # Algorithm 2: the arm with the smallest divergence if it is in O_l or O_l is empty, otherwise the arm
            # against which l has the smallest share of wins
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
            # update the sizes of O_i for both arms: remove the pair with its old shares, and add it with the new ones
            plays = wins[arm, opponent] + wins[opponent, arm]
            ahead[arm] -= share[arm, opponent] <= 0.5
            ahead[opponent] -= share[opponent, arm] <= 0.5
            mu = wins[arm, opponent] / plays
            nu = wins[opponent, arm] / plays
            share[arm, opponent], share[opponent, arm] = mu, nu
            ahead[arm] += mu <= 0.5
            ahead[opponent] += nu <= 0.5
            # KL(mu, 1/2) = mu ln 2 mu + nu ln 2 nu, the same for both arms; it is added to the arm that is behind
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
                # all arms of L_C have been played: the next list becomes the current list
                alone = n_waiting == 1
                position = n_waiting = 0
                for j in range(k):
                    if joining[j]:
                        waiting[n_waiting] = j
                        n_waiting += 1
                    is_waiting[j] = joining[j]
                    joining[j] = False
                if alone and n_waiting == 1 and waiting[0] == arm and arm == opponent:
                    # one arm plays itself: nothing changes until ln t >= I_j - I* - f(K) for another arm
                    soonest = least_other(divergence, arm) - (divergence[arm] + margin)
                    steps = steps_before(soonest, t, horizon)
        # record before adding the regret, since the skipped steps may include several times to record
        cost = run.costs[arm, opponent]
        last = t + steps - 1
        while is_due(run, last):
            record(run, _choose(divergence, least + tie, run.ties), t - 1, cost)
        run.total[0] += cost * steps
        run.duels[min(arm, opponent), max(arm, opponent)] += steps
        t = last
