"""Beat the Mean: compare each arm with the average of the remaining arms."""

import numpy as np

from structsvm.common.checks import check_positive
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import CountsWins, Eliminates, check_horizon, check_pair, pick, tied
from structsvm.protocols import Duel


class BeatTheMean(Eliminates, CountsWins):
    """Beat the Mean of Yue and Joachims (ICML 2011).

    The arm with the fewest comparisons is compared with a random remaining arm (possibly itself), and only the record
    of the first arm changes. If ``min p + c <= max p - c`` with ``c = 3 gamma^2 sqrt(ln(1/delta)/n_min)``, the worst
    arm is eliminated, and comparisons with it are removed from the records of the other arms.

    Parameters
    ----------
    n_arms : int
        Number of arms, K.
    horizon : int
        Number of comparisons ``T``, which sets the error probability ``delta = 1/(2 T K)``.
    gamma : float, default=1.0
        Factor of relaxed stochastic transitivity of the matrix (see ``structsvm.online.assumption_report``). If it is
        too small, the answer may be the Borda winner. The number of comparisons grows with ``gamma^4``.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "btm"
    compiled = "structsvm.online.bandits.compiled.beat_the_mean"
    assumes = "total order, relaxed transitivity"

    def __init__(self, n_arms: int, horizon: int | None = None, *, gamma: float = 1.0) -> None:
        super().__init__(n_arms)  # row i of ``wins`` holds only the duels in which i was the first arm
        self.horizon = check_horizon(horizon, "Beat the Mean")
        self.gamma = check_positive("gamma", gamma)
        self.remaining = list(range(self.n_arms))
        self.plays = np.zeros((self.n_arms, self.n_arms))

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the remaining arm with the fewest comparisons, and a random remaining arm, which may be the same."""
        if self.finished:
            return Duel((self.remaining[0], self.remaining[0]))
        alive = np.array(self.remaining)
        return Duel((int(alive[tied(-self.plays[alive].sum(axis=1), rng)]), pick(alive, rng)))

    def update(self, duel: Duel, outcome: object) -> None:
        """Count the outcome for the first arm only, and eliminate the worst arm if its bound shows that it is worse
        than the best."""
        arm, other, won = check_pair(duel, outcome, self.n_arms)
        self.t += 1
        # ignore an outcome that arrives after one of its arms was eliminated
        if self.finished or arm not in self.remaining or other not in self.remaining:
            return
        self.wins[arm, other] += won
        self.plays[arm, other] += 1
        alive = np.array(self.remaining)
        plays = self.plays[alive].sum(axis=1)
        fewest = plays.min()
        if fewest == 0:
            return
        # the arm with the fewest comparisons has the largest radius, which is valid for all arms
        share = self.wins[alive].sum(axis=1) / plays
        radius = 3 * self.gamma**2 * np.sqrt(log(2.0 * self.horizon * self.n_arms) / fewest)
        if share.min() + radius <= share.max() - radius:
            loser = int(alive[np.argmin(share)])
            self.remaining.remove(loser)
            # clear only the column: the row of the eliminated arm is not used again
            self.wins[:, loser] = 0
            self.plays[:, loser] = 0

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the remaining arm with the largest share of wins; break ties by ``rng``, or take the lowest index."""
        alive = np.array(self.remaining)
        plays = self.plays[alive].sum(axis=1)
        share = np.where(plays > 0, self.wins[alive].sum(axis=1) / np.maximum(plays, 1), 0.5)
        return int(alive[tied(share, rng)])
