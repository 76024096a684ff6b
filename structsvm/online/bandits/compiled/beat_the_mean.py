"""Beat the Mean, compiled: maintains the sums of the records, which the policy computes at every step."""

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import largest, least_of, one_of_largest
from structsvm.online.bandits.compiled.run import Run, duel, exploit, is_due, pay, record, zeros


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, a BeatTheMean in its initial state."""
    k = policy.n_arms
    won, played, share = zeros(3, k)
    share[:] = 0.5
    log_t = log(2.0 * policy.horizon * k)
    _beat_the_mean(run, 3 * policy.gamma**2, log_t, *zeros(2, k, k), np.arange(k), won, played, share)


# Without NaN and signed zeros the loops over arms become vector instructions; no value changes.
@kernel(fastmath={"nnan", "nsz"})
def _beat_the_mean(run, factor, log_t, wins, plays, alive, won, played, share):  # type: ignore[no-untyped-def]
    """Play a run; ``wins[i, j]`` and ``plays[i, j]`` count duels with i as the first arm."""
    # ``alive[:n_alive]`` contains the remaining arms; ``won``, ``played`` and ``share`` are their records, at the same
    # indices.
    rng, horizon = run.rng, run.times[-1]
    # Invariant: ``n_fewest`` remaining arms have ``fewest`` comparisons, the minimum. Each step plays one of them, so
    # ``n_fewest`` decreases by one, and the records are searched only when it is 0.
    n_alive = n_fewest = len(alive)
    fewest = 0.0
    t = 0
    while t < horizon and n_alive > 1:
        t += 1
        # choose an arm with the fewest comparisons, by its index ``pos`` among them, drawn as in ``tied``
        pos = int(rng.random() * n_fewest) if n_fewest > 1 else 0
        a = -1
        while pos >= 0:
            a += 1
            pos -= played[a] == fewest
        first = alive[a]
        second = alive[int(rng.random() * n_alive)]
        pay(run, first, second)
        # the opponent represents the mean arm; if it is the arm itself, the outcome is 1/2
        outcome = 0.5
        if first != second:
            outcome = duel(run, first, second)
        wins[first, second] += outcome
        plays[first, second] += 1
        won[a] += outcome
        played[a] += 1
        share[a] = won[a] / played[a]
        n_fewest -= 1
        if n_fewest == 0:
            fewest, n_fewest = _fewest(played, n_alive)
        if fewest > 0:
            radius = factor * np.sqrt(log_t / fewest)
            # Shares are in [0, 1], so min + radius <= max - radius requires radius <= 1/2.
            if radius <= 0.5 and least_of(share[:n_alive]) + radius <= largest(share[:n_alive]) - radius:
                # remove the worst arm and shift the arms after it, as in the policy's list
                c = share[:n_alive].argmin()
                loser = alive[c]
                n_alive -= 1
                for d in range(c, n_alive):
                    alive[d] = alive[d + 1]
                    won[d] = won[d + 1]
                    played[d] = played[d + 1]
                # remove comparisons with this arm from the records: the mean arm averages only the remaining arms
                for d in range(n_alive):
                    won[d] -= wins[alive[d], loser]
                    played[d] -= plays[alive[d], loser]
                    share[d] = won[d] / played[d] if played[d] > 0 else 0.5
                fewest, n_fewest = _fewest(played, n_alive)
        if is_due(run, t):
            left = share[:n_alive]
            record(run, alive[one_of_largest(left, largest(left), run.ties)], t)
    exploit(run, alive[0], t)


@kernel
def _fewest(played, n_alive):  # type: ignore[no-untyped-def]
    """Return the smallest number of comparisons of a remaining arm, and the number of arms that attain it."""
    fewest, n_fewest = least_of(played[:n_alive]), 0
    for a in range(n_alive):
        n_fewest += played[a] == fewest
    return fewest, n_fewest
