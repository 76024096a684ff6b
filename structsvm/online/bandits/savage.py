"""Condorcet SAVAGE: compare all pairs equally often, and eliminate each arm that is shown to lose to another."""

import numpy as np

from structsvm.common.checks import check_positive
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import (
    CountsWins,
    Eliminates,
    check_horizon,
    copeland_leader,
    pair_indices,
    tied,
)
from structsvm.protocols import Duel


class SAVAGE(Eliminates, CountsWins):
    """Condorcet SAVAGE of Urvoy et al. (ICML 2013).

    It compares the remaining pair with the fewest comparisons, as Algorithm 1 does. The RCS paper compares pairs
    "uniformly randomly", which gave the same regret within the standard error. An arm is eliminated if
    ``mu + sqrt(ln(K (K - 1) T / delta) / (2 n)) < 1/2`` against some other arm; the last remaining arm is exploited.

    Parameters
    ----------
    n_arms : int
        Number of arms, K.
    horizon : int
        Number of comparisons, T.
    delta : float, optional
        Probability of failure; by default ``1/horizon``, the value for low regret.

    Examples
    --------
    >>> import numpy as np
    >>> bandit, rng = SAVAGE(3, horizon=1000), np.random.default_rng(0)
    >>> for _ in range(1000):
    ...     duel = bandit.select(rng)
    ...     bandit.update(duel, rng.random() < 0.5 + 0.2 * (duel.arms[1] - duel.arms[0]))
    >>> bandit.best(), bandit.finished
    (0, True)
    """

    label = "savage"
    compiled = "structsvm.online.bandits.compiled.savage"
    assumes = "Condorcet winner"

    def __init__(self, n_arms: int, horizon: int | None = None, *, delta: float | None = None) -> None:
        super().__init__(n_arms)
        self.horizon = check_horizon(horizon, "SAVAGE")
        self.delta = 1.0 / self.horizon if delta is None else check_positive("delta", delta)
        self.remaining = list(range(self.n_arms))

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the pair of remaining arms with the fewest comparisons; break ties at random."""
        if self.finished:
            return Duel((self.remaining[0], self.remaining[0]))
        alive = np.array(self.remaining)
        # count only comparisons between remaining arms
        plays = (self.wins + self.wins.T)[np.ix_(alive, alive)]
        first, second = pair_indices(len(alive))
        k = tied(-plays[first, second], rng)
        return Duel((int(alive[first[k]]), int(alive[second[k]])))

    def update(self, duel: Duel, outcome: object) -> None:
        """Count the win, and eliminate the arm of the pair that is shown to lose to the other, if any."""
        super().update(duel, outcome)
        first, second = duel.arms
        if first == second:
            return
        plays = self.wins[first, second] + self.wins[second, first]
        log_t = log(float(self.n_arms) * (self.n_arms - 1) * self.horizon / self.delta)
        # Hoeffding's bound for one pair, with delta / (K (K - 1) T) for each pair and time
        radius = np.sqrt(log_t / (2 * plays))
        for arm, other in ((first, second), (second, first)):
            loses = self.wins[arm, other] / plays + radius < 0.5
            # never remove the last arm: in a cycle, a late outcome may show that it loses to an eliminated arm
            if loses and arm in self.remaining and self.remaining != [arm]:
                self.remaining.remove(arm)

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the remaining arm that is ahead of the most others; break ties by ``rng``, or take the lowest."""
        alive = np.array(self.remaining)
        return int(alive[copeland_leader(self.wins[np.ix_(alive, alive)], rng)])
