"""Multi-dueling bandit: compare all possible winners at once."""

import numpy as np

from structsvm.common.checks import check_number, check_positive
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import CountsWins
from structsvm.online.bandits.rucb import upper_bounds
from structsvm.protocols import Duel


class MDB(CountsWins):
    """Multi-dueling bandit of Brost et al. (CIKM 2016, Algorithm 1).

    It assumes a Condorcet winner and needs no horizon.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    alpha : float, default=0.5
        Width of the narrow bounds ``mu + sqrt(alpha ln t / N)``.
    beta : float, default=1.5
        Factor, at least 1, of the wide bounds ``mu + sqrt(beta alpha ln t / N)``.

    Notes
    -----
    ``E`` contains the arms that no narrow bound excludes, and ``F`` the arms that no wide bound excludes. If E has one
    arm, that arm is played alone; if E has several arms, all arms of F are compared; if E is empty, all arms are
    compared. With a larger ``beta``, more arms are compared at once, in fewer rounds.

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
        check_number("beta", beta, 1.0, remedy="it widens the bounds")
        self.beta = float(beta)

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the arms to compare: a single arm of E, or the arms of F; all arms in the first round and if E is
        empty."""
        log_t = self.alpha * log(self.t + 1)
        # E uses bounds with alpha, F bounds with alpha * beta, both at the time of this round
        narrow = np.flatnonzero((upper_bounds(self.wins, log_t) >= 0.5).all(axis=1))
        if len(narrow) == 1:
            return Duel((int(narrow[0]),))
        if len(narrow) == 0:
            return Duel(tuple(range(self.n_arms)))
        return Duel(
            tuple(np.flatnonzero((upper_bounds(self.wins, self.beta * log_t) >= 0.5).all(axis=1)).tolist())
        )
