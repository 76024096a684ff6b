"""Baseline bandit that compares random sets of arms."""

import numpy as np

from structsvm.online.bandits.policy import CountsWins
from structsvm.protocols import Duel


class RandomSubset(CountsWins):
    """Bandit that compares random non-empty subsets of the arms, all equally likely (Fig. 3 of the MDB paper).

    Parameters
    ----------
    n_arms : int
        Number of arms.

    Examples
    --------
    >>> import numpy as np
    >>> RandomSubset(4).select(np.random.default_rng(0)).arms
    (1, 2, 3)
    """

    label = "random"
    assumes = "nothing: a baseline"
    compares_sets = True

    def select(self, rng: np.random.Generator) -> Duel:
        """Return a non-empty subset of the arms, all equally likely."""
        # each arm is in the set with probability 1/2; empty sets are drawn again
        while True:
            chosen = np.flatnonzero(rng.random(self.n_arms) < 0.5)
            if len(chosen):
                return Duel(tuple(chosen.tolist()))
