"""RMED1: play the arms whose empirical divergence is within ln t of the smallest divergence."""

import numpy as np

from structsvm.common.checks import check_positive
from structsvm.common.portable.elementary import log, power
from structsvm.online.bandits.policy import CountsWins, pair_indices, tied
from structsvm.protocols import Duel

TIE = 1e-9
"""Divergences closer than this are treated as equal, since sums of logarithms may differ in the last bits."""


class RMED1(CountsWins):
    """Relative minimum empirical divergence of Komiyama et al. (COLT 2015).

    It assumes a Condorcet winner and needs no horizon.

    Parameters
    ----------
    n_arms : int
        Number of arms, K.
    margin : float, optional
        ``f(K)`` of the paper, by default ``0.3 K^1.01``.

    Notes
    -----
    ``O_i`` contains the arms ahead of i or tied with i, and ``I_i = sum over O_i of N_ij KL(mu_ij, 1/2)``. At first
    each pair is compared once. Then each arm l of a list is compared in turn: with the arm that has the smallest ``I``
    if this arm is in ``O_l`` or ``O_l`` is empty, otherwise with the arm that has the largest share of wins over l. At
    every step, arms with ``I_j - I* <= ln t + f(K)`` that are not waiting in the current list are added to the next
    list.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "rmed1"
    assumes = "Condorcet winner"
    compiled = "structsvm.online.bandits.compiled.rmed"

    def __init__(self, n_arms: int, *, margin: float | None = None) -> None:
        super().__init__(n_arms)
        self.margin = (
            0.3 * float(power(self.n_arms, 1.01)) if margin is None else check_positive("margin", margin)
        )
        self.waiting = list(range(self.n_arms))
        self.joining = np.zeros(self.n_arms, dtype=bool)

    def divergences(self) -> np.ndarray:
        """Return the divergence ``I`` of each arm, the evidence that it is not the best."""
        plays = self.wins + self.wins.T
        share = self._shares()
        both = np.array([share, 1 - share])
        # KL(mu, 1/2) = mu ln 2 mu + (1 - mu) ln 2 (1 - mu), with 0 ln 0 = 0
        with np.errstate(invalid="ignore"):
            won, lost = np.where(both > 0, both * log(2 * both), 0.0)
        return np.asarray(np.where(share <= 0.5, plays * (won + lost), 0.0).sum(axis=1))

    def _shares(self) -> np.ndarray:
        plays = self.wins + self.wins.T
        return np.where(plays > 0, self.wins / np.maximum(plays, 1.0), 0.5)

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the next pair until each pair was compared once, then the first waiting arm and its opponent."""
        if self.t < self.n_arms * (self.n_arms - 1) // 2:
            first, second = pair_indices(self.n_arms)
            return Duel((int(first[self.t]), int(second[self.t])))
        # Algorithm 2 for the first arm l of the current list: O_l are the arms ahead of l or tied with l
        arm = self.waiting[0]
        share = self._shares()[arm]
        ahead = share <= 0.5
        ahead[arm] = False
        leader = tied(-self.divergences(), rng, TIE)
        if ahead[leader] or not ahead.any():
            return Duel((arm, leader))
        share[arm] = np.inf
        return Duel((arm, tied(-share, rng)))

    def update(self, duel: Duel, outcome: object) -> None:
        """Count the win, and add the arms with small divergence to the next list."""
        super().update(duel, outcome)
        if self.t <= self.n_arms * (self.n_arms - 1) // 2:  # the initial phase
            return
        if duel.arms[0] in self.waiting:
            self.waiting.remove(duel.arms[0])
        distance = self.divergences()
        # J_j(t): add the arm to the next list unless it is still waiting in the current list
        joins = distance - distance.min() <= log(self.t) + self.margin
        joins[self.waiting] = False
        self.joining |= joins
        if not self.waiting:
            self.waiting = [int(arm) for arm in np.flatnonzero(self.joining)]
            self.joining[:] = False

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm with the smallest divergence; break ties by ``rng``, or take the lowest index."""
        return tied(-self.divergences(), rng, TIE)
