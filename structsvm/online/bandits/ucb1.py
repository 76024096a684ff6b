"""Dueling bandits built from UCB1, as in Ailon et al. (ICML 2014): Sparring, MultiSBM and Doubler."""

import numpy as np

from structsvm.common.checks import check_positive, check_whole
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import SavedState, check_pair, tied
from structsvm.protocols import Duel


def ucb1(rewards: np.ndarray, plays: np.ndarray, alpha: float, rng: np.random.Generator) -> int:
    """Return the arm that UCB1 plays: an unplayed arm, otherwise the arm with the largest bound
    ``mean + sqrt(alpha ln t / n)``.

    ``t`` is the number of the next play (Ailon et al.); Auer et al. (2002, Figure 1) use the number of plays so far and
    ``alpha = 2``. Ties are broken at random.
    """
    # an arm without plays has an infinite bound
    if (plays == 0).any():
        return tied((plays == 0).astype(float), rng)
    return tied(rewards / plays + np.sqrt(alpha * log(plays.sum() + 1) / plays), rng)


class _PlaysUCB1(SavedState):
    """Mixin of bandits that choose arms by UCB1; ``rewards`` and ``plays`` have a last axis of arms."""

    def __init__(self, n_arms: int, alpha: float, *rows: int) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.rewards, self.plays = np.zeros((2, *rows, self.n_arms))

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm that UCB1 played most often."""
        return tied(self.plays.sum(axis=0), rng)


class Sparring(_PlaysUCB1):
    """Sparring of Ailon et al. (ICML 2014): two UCB1 bandits, one on each side; the winner's reward is 1.

    It suits preferences that come from utilities, has no guarantee and needs no horizon.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    alpha : float, default=0.51
        Width of the bounds ``mean + sqrt(alpha ln t / n)`` of both sides. The default follows the code of Li et al.
        (MergeDTS, 2020, by an author of mergeRUCB). Ailon et al. write the width as
        ``sqrt((a + 2) ln t / (2 n))``; their ``a = 3``, used in the code of Wu and Liu (Double Thompson Sampling,
        2016), corresponds to ``alpha=2.5``.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "sparring"
    assumes = "utilities"

    def __init__(self, n_arms: int, *, alpha: float = 0.51) -> None:
        super().__init__(n_arms, alpha, 2)  # one row per side

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the arm of the left UCB1 bandit and the arm of the right one."""
        left, right = (ucb1(self.rewards[side], self.plays[side], self.alpha, rng) for side in (0, 1))
        return Duel((left, right))

    def update(self, duel: Duel, outcome: object) -> None:
        """Add the rewards: 1 for the winner on its side, 0 for the loser."""
        left, right, won = check_pair(duel, outcome, self.n_arms)
        # each side observes only its own reward, not its opponent
        self.rewards[[0, 1], [left, right]] += won, 1.0 - won
        self.plays[[0, 1], [left, right]] += 1


class MultiSBM(_PlaysUCB1):
    """MultiSBM of Ailon et al. (ICML 2014): UCB1 for each left arm, which is the right arm of the previous duel.

    It assumes that the preferences come from utilities and needs no horizon.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    alpha : float, default=2.5
        Width of the bounds, as for :class:`Sparring`. Smaller values usually give smaller regret, but no guarantee.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "multisbm"
    assumes = "utilities"

    def __init__(self, n_arms: int, *, alpha: float = 2.5) -> None:
        super().__init__(n_arms, alpha, check_whole("n_arms", n_arms))  # one row per left arm, for its bandit
        self.left = -1  # the left arm of the next duel; -1 before the first outcome

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the right arm of the last duel (at first a random arm) and the arm that its UCB1 bandit plays."""
        # the first left arm is random; then the last right arm becomes the left arm, so that both sides improve
        left = self.left if self.left >= 0 else int(rng.random() * self.n_arms)
        return Duel((left, ucb1(self.rewards[left], self.plays[left], self.alpha, rng)))

    def update(self, duel: Duel, outcome: object) -> None:
        """Add the reward of the right arm, and make this arm the next left arm."""
        left, right, won = check_pair(duel, outcome, self.n_arms)
        self.rewards[left, right] += 1.0 - won
        self.plays[left, right] += 1
        self.left = right


class Doubler(_PlaysUCB1):
    """Doubler of Ailon et al. (ICML 2014): UCB1 plays against its own arms from the previous epoch.

    In epoch i, which has ``2^i`` duels, the left arm is sampled from the right arms of the previous epoch, and a new
    UCB1 bandit chooses the right arm. It assumes that the preferences come from utilities and needs no horizon.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    alpha : float, default=2.5
        Width of the bounds, as for :class:`MultiSBM`.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "doubler"
    assumes = "utilities"

    def __init__(self, n_arms: int, *, alpha: float = 2.5) -> None:
        super().__init__(n_arms, alpha)
        self.epoch = 1
        self.pool = np.zeros(self.n_arms)  # duels of the previous epoch, counted by right arm

    def select(self, rng: np.random.Generator) -> Duel:
        """Return an arm sampled from the right arms of the previous epoch, and the arm that UCB1 plays."""
        # before the first outcome, the left arm of the first epoch is a random arm
        pool = self.pool if self.pool.any() else np.ones(self.n_arms)
        left = int(np.searchsorted(np.cumsum(pool), rng.random() * pool.sum(), side="right"))
        return Duel((left, ucb1(self.rewards, self.plays, self.alpha, rng)))

    def update(self, duel: Duel, outcome: object) -> None:
        """Add the reward of the right arm; start the next epoch after ``2^epoch`` outcomes."""
        left, right, won = check_pair(duel, outcome, self.n_arms)
        if not self.pool.any():
            self.pool[left] = 1  # the paper starts with one arbitrary left arm
        self.rewards[right] += 1.0 - won
        self.plays[right] += 1
        # the right arms of this epoch are the left arms of the next epoch, in which UCB1 starts anew
        if self.plays.sum() == 2**self.epoch:
            self.epoch += 1
            self.pool = self.plays
            self.rewards, self.plays = np.zeros((2, self.n_arms))

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm that was the right arm most often in the last two epochs."""
        return tied(self.pool + self.plays, rng)
