"""Sparring: two UCB1 bandits, one for each side of the duel."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.checks import check_positive, check_whole
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import check_pair, tied
from structsvm.online.bandits.saved_state import SavedState
from structsvm.protocols import Duel


def ucb1(rewards: np.ndarray, plays: np.ndarray, alpha: float, rng: np.random.Generator) -> int:
    """Return the arm UCB1 plays: unplayed arms first, then the largest ``mean + sqrt(alpha ln t / n)``; ties at random.
    ``t`` is the number of plays so far. Auer et al. (2002, Figure 1) have ``alpha = 2``.
    """
    if (plays == 0).any():
        return tied((plays == 0).astype(float), rng)
    return tied(rewards / plays + np.sqrt(alpha * log(plays.sum()) / plays), rng)


class Sparring(SavedState):
    """Sparring of Ailon et al. (ICML 2014): two UCB1 bandits, one on each side; the winner's reward is 1.

    It is meant for worlds with utilities, has no guarantee and needs no horizon.

    Parameters
    ----------
    n_arms : int
    alpha : float, default=0.51
        Width of the bounds ``mean + sqrt(alpha ln t / n)`` of both sides. The default is that of the code of Li et
        al. (MergeDTS, 2020, by an author of mergeRUCB). Ailon et al. write the width as
        ``sqrt((a + 2) ln t / (2 n))``; ``a = 3``, as in the code of Wu and Liu (Double Thompson Sampling, 2016), is
        ``alpha=2.5``.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used alike.
    """

    label = "sparring"
    assumes = "utilities"

    def __init__(self, n_arms: int, *, alpha: float = 0.51) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.rewards = np.zeros((2, self.n_arms))
        self.plays = np.zeros((2, self.n_arms))

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the arm of the left UCB1 against that of the right."""
        left, right = (ucb1(self.rewards[side], self.plays[side], self.alpha, rng) for side in (0, 1))
        return Duel((left, right))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Reward the winner on its side."""
        left, right, won = check_pair(duel, outcome, self.n_arms)
        self.rewards[0, left] += won
        self.rewards[1, right] += 1.0 - won
        self.plays[0, left] += 1
        self.plays[1, right] += 1

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm played most often on both sides together."""
        return tied(self.plays.sum(axis=0), rng)
