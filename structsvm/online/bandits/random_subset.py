"""A baseline that learns nothing about whom to compare: a random set each time."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.online.bandits.policy import Duel, check_arms, copeland_leader, dump, load, record_set

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

    def __init__(self, n_arms: int) -> None:
        self.n_arms = check_arms(n_arms)
        self.wins = np.zeros((self.n_arms, self.n_arms))

    def select(self, rng: np.random.Generator) -> Duel:
        while True:
            chosen = np.flatnonzero(rng.random(self.n_arms) < 0.5)
            if len(chosen):
                return Duel(tuple(chosen.tolist()))

    def update(self, duel: Duel, outcome: Any) -> None:
        record_set(self.wins, duel, outcome)

    def best(self, rng: np.random.Generator | None = None) -> int:
        return copeland_leader(self.wins, rng)

    def to_json(self) -> str:
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> RandomSubset:
        return load(cls, text)
