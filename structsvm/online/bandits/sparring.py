"""Sparring: two ordinary bandits, one for each side of the duel."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.online.bandits.policy import Duel, check_arms, check_pair, dump, load, tied

__all__ = ["Sparring", "ucb1"]


def ucb1(rewards: np.ndarray, plays: np.ndarray, rng: np.random.Generator) -> int:
    """The arm UCB1 plays (Auer et al. 2002): unplayed arms first, then ``mean + sqrt(2 ln t / n)``; ties at
    random.

    Examples
    --------
    >>> import numpy as np
    >>> ucb1(np.array([1.0, 2.0]), np.array([2.0, 2.0]), np.random.default_rng(0))
    1
    """
    if (plays == 0).any():
        return tied((plays == 0).astype(float), rng)
    return tied(rewards / plays + np.sqrt(2 * np.log(plays.sum()) / plays), rng)


class Sparring:
    """Sparring of Ailon et al. (ICML 2014) over UCB1: a bandit on the left, one on the right; the winner's
    reward is 1.

    Meant for worlds with utilities; without guarantee. No horizon.

    Parameters
    ----------
    n_arms : int

    Examples
    --------
    >>> import numpy as np
    >>> bandit, rng = Sparring(3), np.random.default_rng(0)
    >>> for _ in range(2000):
    ...     duel = bandit.select(rng)
    ...     bandit.update(duel, rng.random() < 0.5 + 0.2 * (duel.arms[1] - duel.arms[0]))
    >>> bandit.best()
    0
    """

    def __init__(self, n_arms: int) -> None:
        self.n_arms = check_arms(n_arms)
        self.rewards = np.zeros((2, self.n_arms))
        self.plays = np.zeros((2, self.n_arms))

    def select(self, rng: np.random.Generator) -> Duel:
        """The arm of the left UCB1 against that of the right."""
        return Duel((ucb1(self.rewards[0], self.plays[0], rng), ucb1(self.rewards[1], self.plays[1], rng)))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Reward the winner on its side. ValueError for no pair of its arms or an outcome outside [0, 1],
        and nothing is learned.
        """
        left, right, won = check_pair(duel, outcome, self.n_arms)
        self.rewards[0, left] += won
        self.rewards[1, right] += 1.0 - won
        self.plays[0, left] += 1
        self.plays[1, right] += 1

    def best(self, rng: np.random.Generator | None = None) -> int:
        """The arm played most often on both sides together."""
        return tied(self.plays.sum(axis=0), rng)

    def to_json(self) -> str:
        """The whole state as JSON; floats survive to the last bit."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> Sparring:
        """A bandit in the state that :meth:`to_json` wrote; ValueError for any other text."""
        return load(cls, text)
