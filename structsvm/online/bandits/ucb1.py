"""Dueling bandits built from UCB1, as in Ailon et al. (ICML 2014): Sparring, MultiSBM and Doubler."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.common.checks import check_positive, check_whole
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import SavedState, check_pair, tied
from structsvm.protocols import Duel


def ucb1(rewards: np.ndarray, plays: np.ndarray, alpha: float, rng: np.random.Generator) -> int:
    """Return the arm that UCB1 plays: an unplayed arm, otherwise the arm with the largest ``mean + sqrt(alpha ln t /
    n)``.

    ``t`` is the number of the next play (Ailon et al.); Auer et al. (2002, Figure 1) use the number of plays so far and
    ``alpha = 2``. Ties are broken at random.
    """
    # an arm without plays has an infinite bound
    if (plays == 0).any():
        return tied((plays == 0).astype(float), rng)
    return tied(rewards / plays + np.sqrt(alpha * log(plays.sum() + 1) / plays), rng)


class Sparring(SavedState):
    """Sparring of Ailon et al. (ICML 2014): two UCB1 bandits, one on each side; the winner's reward is 1.

    It suits worlds with utilities, has no guarantee and needs no horizon.

    Parameters
    ----------
    n_arms : int
    alpha : float, default=0.51
        Width of the bounds ``mean + sqrt(alpha ln t / n)`` of both sides. The default follows the code of Li et al.
        (MergeDTS, 2020, by an author of mergeRUCB). Ailon et al. write the width as ``sqrt((a + 2) ln t / (2 n))``; ``a
        = 3``, as in the code of Wu and Liu (Double Thompson Sampling, 2016), is ``alpha=2.5``.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "sparring"
    assumes = "utilities"

    def __init__(self, n_arms: int, *, alpha: float = 0.51) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.rewards = np.zeros((2, self.n_arms))  # row: one side
        self.plays = np.zeros((2, self.n_arms))

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the arm of the left UCB1 against that of the right."""
        left, right = (ucb1(self.rewards[side], self.plays[side], self.alpha, rng) for side in (0, 1))
        return Duel((left, right))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Reward the winner on its side."""
        left, right, won = check_pair(duel, outcome, self.n_arms)
        # each side observes only its own reward, not its opponent
        self.rewards[[0, 1], [left, right]] += won, 1.0 - won
        self.plays[[0, 1], [left, right]] += 1

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm played most often on both sides together."""
        return tied(self.plays.sum(axis=0), rng)


class MultiSBM(SavedState):
    """MultiSBM of Ailon et al. (ICML 2014): a UCB1 bandit for each left arm; the left arm is the last right arm.

    It assumes that the preferences come from utilities and needs no horizon.

    Parameters
    ----------
    n_arms : int
    alpha : float, default=2.5
        Width of the bounds, as for :class:`Sparring`. Smaller values usually give less regret but lose the guarantee.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "multisbm"
    assumes = "utilities"

    def __init__(self, n_arms: int, *, alpha: float = 2.5) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.left = -1  # not yet drawn
        self.rewards = np.zeros((self.n_arms, self.n_arms))  # row: the bandit of one left arm
        self.plays = np.zeros((self.n_arms, self.n_arms))

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the right arm of the last duel (at first any arm), and the arm that its own UCB1 plays."""
        # the first left arm is arbitrary; afterwards the last right arm is the left one, so each side plays its best
        left = self.left if self.left >= 0 else int(rng.random() * self.n_arms)
        return Duel((left, ucb1(self.rewards[left], self.plays[left], self.alpha, rng)))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Reward the right arm if it won, and make it the next left arm."""
        left, right, won = check_pair(duel, outcome, self.n_arms)
        self.rewards[left, right] += 1.0 - won
        self.plays[left, right] += 1
        self.left = right

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm chosen most often."""
        return tied(self.plays.sum(axis=0), rng)


class Doubler(SavedState):
    """Doubler of Ailon et al. (ICML 2014): UCB1 plays against its own arms from the previous epoch.

    In epoch i of ``2^i`` duels the left arm is drawn from the right arms of the previous epoch, and a fresh UCB1
    chooses the right arm. It assumes that the preferences come from utilities and needs no horizon.

    Parameters
    ----------
    n_arms : int
    alpha : float, default=2.5
        As for :class:`MultiSBM`.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "doubler"
    assumes = "utilities"

    def __init__(self, n_arms: int, *, alpha: float = 2.5) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.epoch = 1
        self.pool = np.zeros(self.n_arms)  # how often each arm was the right arm in the last epoch
        self.rewards = np.zeros(self.n_arms)
        self.plays = np.zeros(self.n_arms)

    def select(self, rng: np.random.Generator) -> Duel:
        """Return an arm drawn from the right arms of the last epoch, and the arm that UCB1 plays."""
        # before the first outcome any arm may be the constant left arm of the first epoch
        pool = self.pool if self.pool.any() else np.ones(self.n_arms)
        left = int(np.searchsorted(np.cumsum(pool), rng.random() * pool.sum(), side="right"))
        return Duel((left, ucb1(self.rewards, self.plays, self.alpha, rng)))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Reward the right arm if it won; start the next epoch after ``2^epoch`` outcomes."""
        left, right, won = check_pair(duel, outcome, self.n_arms)
        if not self.pool.any():
            self.pool[left] = 1  # the paper starts from one arbitrary arm
        self.rewards[right] += 1.0 - won
        self.plays[right] += 1
        # the plays of this epoch are the left arms of the next, against which a new UCB1 starts
        if self.plays.sum() == 2**self.epoch:
            self.epoch += 1
            self.pool = self.plays
            self.rewards, self.plays = np.zeros(self.n_arms), np.zeros(self.n_arms)

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm that was the right arm most often in the last two epochs."""
        return tied(self.pool + self.plays, rng)
