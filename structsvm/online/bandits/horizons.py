"""Wrappers of bandits: explore-then-exploit, and the squaring trick for unknown horizons."""

import numpy as np

from structsvm.common.checks import check_whole
from structsvm.online.bandits.by_name import make
from structsvm.online.bandits.policy import SavedState, check_horizon
from structsvm.protocols import Bandit, Duel


class ExploreThenExploit(SavedState):
    """Bandit that explores with another bandit, and then plays the best arm of that bandit (thesis, Algorithm 4).

    Parameters
    ----------
    bandit : Bandit
        Bandit used for exploration. If it has an attribute ``finished``, exploration ends once this is True.
    n_explore : int
        Maximum number of comparisons during exploration.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.online.bandits import RUCB
    >>> bandit, rng = ExploreThenExploit(RUCB(3), n_explore=500), np.random.default_rng(0)
    >>> for _ in range(500):
    ...     duel = bandit.select(rng)
    ...     bandit.update(duel, rng.random() < 0.5 + 0.2 * (duel.arms[1] - duel.arms[0]))
    >>> bandit.finished, bandit.select(rng).arms
    (True, (0, 0))
    """

    def __init__(self, bandit: Bandit, n_explore: int) -> None:
        self.bandit = bandit
        self.n_arms = bandit.n_arms
        self.n_explore = check_horizon(n_explore, "explore-then-exploit")
        self.t = 0

    @property
    def finished(self) -> bool:
        """Whether exploration is over."""
        return self.t >= self.n_explore or bool(getattr(self.bandit, "finished", False))

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the explorer's duel during exploration, afterwards its best arm against itself."""
        if self.finished:
            arm = self.bandit.best()
            return Duel((arm, arm))
        return self.bandit.select(rng)

    def update(self, duel: Duel, outcome: object) -> None:
        """Pass the outcome to the explorer during exploration; raise ValueError if it refuses the outcome."""
        # a late outcome must not change the arm that is exploited
        if not self.finished:
            self.bandit.update(duel, outcome)
        self.t += 1

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the explorer's best arm, which does not depend on ``rng`` after exploration."""
        return self.bandit.best(None if self.finished else rng)


class Anytime(SavedState):
    """Bandit for an unknown horizon: at the end of each horizon, a new bandit starts with the horizon squared.

    Parameters
    ----------
    name : str
        Short name of the bandit: ``"if1"``, ``"if2"``, ``"btm"`` or ``"savage"``.
    n_arms : int
        Number of arms.
    first : int, default=1000
        The first horizon, at least 2; the next are ``first^2``, ``first^4``, ...

    Examples
    --------
    >>> import numpy as np
    >>> bandit, rng = Anytime("savage", 3), np.random.default_rng(0)
    >>> for _ in range(2500):
    ...     duel = bandit.select(rng)
    ...     bandit.update(duel, rng.random() < 0.5 + 0.2 * (duel.arms[1] - duel.arms[0]))
    >>> bandit.horizon, bandit.best()
    (1000000, 0)
    """

    def __init__(self, name: str, n_arms: int, *, first: int = 1000) -> None:
        self.name = name
        # the horizon 1 would not grow when squared
        self.horizon = check_whole("first", first, 2, floats=True)
        self.t = 0  # comparisons within the current horizon
        self.answer = -1  # best arm of the previous run, until the current run has finished
        self.bandit = make(name, n_arms, self.horizon)
        self.n_arms = self.bandit.n_arms

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the duel of the bandit for the current horizon."""
        return self.bandit.select(rng)

    def update(self, duel: Duel, outcome: object) -> None:
        """Update the bandit, and start a new one at the horizon; raise ValueError for an invalid outcome."""
        self.bandit.update(duel, outcome)
        self.t += 1
        # with T, T^2, T^4, ... the sum of all earlier horizons is small compared with the current horizon
        if self.t >= self.horizon:
            self.answer = self.bandit.best()
            self.horizon, self.t = self.horizon**2, 0
            self.bandit = make(self.name, self.n_arms, self.horizon)

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the best arm of the current bandit if it has finished, otherwise that of the previous one, if any."""
        if self.answer >= 0 and not getattr(self.bandit, "finished", False):
            return self.answer
        return self.bandit.best(rng)
