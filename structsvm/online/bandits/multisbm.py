"""MultiSBM: one UCB1 bandit for every left arm; the right arm of a duel is the left arm of the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.checks import check_positive, check_whole
from structsvm.online.bandits.policy import check_pair, tied
from structsvm.online.bandits.saved_state import SavedState
from structsvm.online.bandits.sparring import ucb1
from structsvm.protocols import Duel


class MultiSBM(SavedState):
    """MultiSBM of Ailon et al. (ICML 2014, Algorithm 3) over UCB1.

    It assumes that the preferences come from utilities and needs no horizon.

    Parameters
    ----------
    n_arms : int
    alpha : float, default=2.5
        Width of the bounds ``mean + sqrt(alpha ln t / n)``. Ailon et al. write it as ``sqrt((a + 2) ln t / (2 n))``;
        the default is ``a = 3``, as in the code of Wu and Liu (Double Thompson Sampling, 2016). Less
        explores less and usually costs less, without the guarantee.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used alike.
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
        """Return the right arm of the last duel (at first any), against the arm of its own UCB1."""
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
