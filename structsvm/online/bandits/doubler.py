"""Doubler: an ordinary bandit plays against what it played in the epoch before; epochs double."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.checks import check_positive, check_whole
from structsvm.online.bandits.policy import check_pair, tied
from structsvm.online.bandits.saved_state import SavedState
from structsvm.online.bandits.sparring import ucb1
from structsvm.protocols import Duel


class Doubler(SavedState):
    """Doubler of Ailon et al. (ICML 2014, Algorithm 1) over UCB1.

    It assumes that the preferences come from utilities and needs no horizon.

    In epoch i of ``2^i`` duels the left arm is drawn from the right arms of the epoch before, and a fresh
    UCB1 chooses the right arm.

    Parameters
    ----------
    n_arms : int
    alpha : float, default=2.5
        Width of the bounds ``mean + sqrt(alpha ln t / n)``. Ailon et al. write it as ``sqrt((a + 2) ln t / (2 n))``;
        the default is ``a = 3``, as in the code of Wu and Liu (Double Thompson Sampling, 2016) for MultiSBM. Less
        explores less and usually costs less, without the guarantee.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used alike.
    """

    label = "doubler"
    assumes = "utilities"

    def __init__(self, n_arms: int, *, alpha: float = 2.5) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.epoch = 1
        self.pool = np.zeros(self.n_arms)  # how often each arm was right in the last epoch
        self.rewards = np.zeros(self.n_arms)
        self.plays = np.zeros(self.n_arms)

    def select(self, rng: np.random.Generator) -> Duel:
        """Return an arm drawn from the right arms of the last epoch, against the arm of UCB1."""
        pool = self.pool if self.pool.any() else np.ones(self.n_arms)
        left = int(np.searchsorted(np.cumsum(pool), rng.random() * pool.sum(), side="right"))
        return Duel((left, ucb1(self.rewards, self.plays, self.alpha, rng)))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Reward the right arm if it won; after ``2^epoch`` outcomes the next epoch begins."""
        left, right, won = check_pair(duel, outcome, self.n_arms)
        if not self.pool.any():
            self.pool[left] = 1  # the paper starts from one arbitrary arm
        self.rewards[right] += 1.0 - won
        self.plays[right] += 1
        if self.plays.sum() == 2**self.epoch:
            self.epoch += 1
            self.pool = self.plays
            self.rewards = np.zeros(self.n_arms)
            self.plays = np.zeros(self.n_arms)

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm that was the right arm most often in the last two epochs."""
        return tied(self.pool + self.plays, rng)
