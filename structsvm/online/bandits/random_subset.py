"""A baseline that learns nothing about whom to compare: a random set each time."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.online.bandits.policy import Duel, check_arms, copeland_leader, record_set
from structsvm.online.bandits.saved_state import dump, load

__all__ = ["RandomSubset"]


class RandomSubset:
    """Compares a random non-empty subset of the arms (the baseline of MDB, Fig. 3): every subset is as
    likely.

    Parameters
    ----------
    n_arms : int

    Examples
    --------
    >>> import numpy as np
    >>> RandomSubset(4).select(np.random.default_rng(0)).arms
    (1, 2, 3)
    """

    label = "random"
    assumes = "nothing: a baseline"
    compares_sets = True

    def __init__(self, n_arms: int) -> None:
        self.n_arms = check_arms(n_arms)
        self.wins = np.zeros((self.n_arms, self.n_arms))

    def select(self, rng: np.random.Generator) -> Duel:
        """A subset of the arms, each non-empty one as likely."""
        while True:
            chosen = np.flatnonzero(rng.random(self.n_arms) < 0.5)
            if len(chosen):
                return Duel(tuple(chosen.tolist()))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Count every pair of the set; an arm alone tells nothing. ValueError for no set of its arms or
        outcomes outside [0, 1], and nothing is learned.
        """
        record_set(self.wins, duel, outcome)

    def best(self, rng: np.random.Generator | None = None) -> int:
        """The arm ahead of the most others on the score sheet; ties by ``rng``, or the lowest without one."""
        return copeland_leader(self.wins, rng)

    def to_json(self) -> str:
        """The whole state as JSON; floats survive to the last bit."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> RandomSubset:
        """A bandit in the state that :meth:`to_json` wrote; ValueError for any other text."""
        return load(cls, text)
