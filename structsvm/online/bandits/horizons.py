"""Bandits with and without a horizon: explore-then-exploit, and the squaring trick."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.online.bandits.policy import check_horizon
from structsvm.online.bandits.saved_state import dump, load
from structsvm.protocols import Bandit, Duel

__all__ = ["Anytime", "ExploreThenExploit"]


class ExploreThenExploit:
    """Explore with any bandit for a while, then play its answer for ever (thesis, Algorithm 4).

    Parameters
    ----------
    bandit : Bandit
        The explorer. One with an attribute ``finished`` may end exploration earlier.
    n_explore : int
        Comparisons of exploration at most.

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
        """The explorer's duel; when exploration is over, its answer against itself."""
        if self.finished:
            arm = self.bandit.best()
            return Duel((arm, arm))
        return self.bandit.select(rng)

    def update(self, duel: Duel, outcome: Any) -> None:
        """Hand the outcome to the explorer, until exploration is over; ValueError for what it refuses."""
        # an outcome that comes when exploration is over must not change what is being exploited
        if not self.finished:
            self.bandit.update(duel, outcome)
        self.t += 1

    def best(self, rng: np.random.Generator | None = None) -> int:
        """The explorer's answer; when exploration is over always the same, whatever ``rng``."""
        return self.bandit.best(None if self.finished else rng)

    def to_json(self) -> str:
        """The whole state as JSON; floats survive to the last bit."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> ExploreThenExploit:
        """A bandit in the state that :meth:`to_json` wrote; ValueError for any other text."""
        return load(cls, text)


class Anytime:
    """Use without a horizon of a bandit that needs one: start again with the horizon squared (the squaring
    trick).

    Parameters
    ----------
    name : str
        ``"if1"``, ``"if2"``, ``"btm"`` or ``"savage"``.
    n_arms : int
    first : int, default=1000
        The first horizon; then ``first^2``, ``first^4``, ...

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
        from structsvm.online.bandits import make

        if check_horizon(first, "Anytime") < 2:
            raise BadInput(
                "first", "expected a horizon of at least 2, which squaring makes longer", value=first
            )
        self.name = name
        self.horizon = int(first)
        self.t = 0  # within the present horizon
        self.answer = -1  # of the run before, until the present one has something to say
        self.bandit = make(name, n_arms, self.horizon)
        self.n_arms = self.bandit.n_arms

    def select(self, rng: np.random.Generator) -> Duel:
        """The duel of the bandit for the present horizon."""
        return self.bandit.select(rng)

    def update(self, duel: Duel, outcome: Any) -> None:
        """Hand the outcome on; at the end of a horizon a new bandit begins, for its square.

        ValueError for what the bandit refuses.
        """
        from structsvm.online.bandits import make

        self.bandit.update(duel, outcome)
        self.t += 1
        if self.t >= self.horizon:
            self.answer = self.bandit.best()
            self.horizon, self.t = self.horizon**2, 0
            self.bandit = make(self.name, self.n_arms, self.horizon)

    def best(self, rng: np.random.Generator | None = None) -> int:
        """The present run's answer once it has finished, that of the longest finished run before."""
        if self.answer >= 0 and not getattr(self.bandit, "finished", False):
            return self.answer
        return self.bandit.best(rng)

    def to_json(self) -> str:
        """The whole state as JSON; floats survive to the last bit."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> Anytime:
        """A bandit in the state that :meth:`to_json` wrote; ValueError for any other text."""
        return load(cls, text, arms=("answer",))
