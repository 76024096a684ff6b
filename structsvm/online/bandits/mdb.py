"""The multi-dueling bandit: while several arms may be the winner, compare all plausible ones at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.common.checks import BadInput, check_positive
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import CountsWins, record_set
from structsvm.online.bandits.rucb import upper_bounds
from structsvm.protocols import Duel


class MDB(CountsWins):
    """Multi-dueling bandit of Brost et al. (CIKM 2016, Algorithm 1).

    It assumes a Condorcet winner and needs no horizon.

    Parameters
    ----------
    n_arms : int
    alpha : float, default=0.5
        Width of the narrow bounds ``mu + sqrt(alpha ln t / N)``.
    beta : float, default=1.5
        The wide bounds are ``mu + sqrt(beta alpha ln t / N)``; at least 1.

    Notes
    -----
    ``E`` and ``F`` are the arms ruled out by no narrow and by no wide bound. If E holds one arm, it is played alone; if
    it holds several, all of F are compared; if it is empty, all arms are. A larger F compares more arms at once and so
    needs fewer rounds.

    Examples
    --------
    >>> import numpy as np
    >>> bandit, rng = MDB(3), np.random.default_rng(0)
    >>> for _ in range(500):
    ...     duel = bandit.select(rng)
    ...     bandit.update(duel, [rng.random() < 0.5 + 0.2 * (j - i) for i, j in duel.pairs()])
    >>> bandit.best(), bandit.select(rng).arms
    (0, (0,))
    """

    label = "mdb"
    assumes = "Condorcet winner; compares sets"
    compiled = "structsvm.online.bandits.compiled.mdb"
    compares_sets = True

    def __init__(self, n_arms: int, *, alpha: float = 0.5, beta: float = 1.5) -> None:
        super().__init__(n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.beta = check_positive("beta", beta)
        if beta < 1:
            raise BadInput(
                "beta", "expected at least 1 (the wide bounds contain the narrow ones)", value=beta
            )

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the arms to compare: the only arm of E, else all of F, or all arms at first and when E is empty."""
        if self.t == 0:
            return Duel(tuple(range(self.n_arms)))
        log_t = self.alpha * log(self.t + 1)
        narrow = np.flatnonzero((upper_bounds(self.wins, log_t) >= 0.5).all(axis=1))
        if len(narrow) == 1:
            return Duel((int(narrow[0]),))
        if len(narrow) == 0:
            return Duel(tuple(range(self.n_arms)))
        wide = np.flatnonzero((upper_bounds(self.wins, self.beta * log_t) >= 0.5).all(axis=1))
        return Duel(tuple(wide.tolist()))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Count every pair of the set; a set of one arm changes nothing."""
        record_set(self.wins, duel, outcome)
        self.t += 1
