"""Relative confidence sampling: a sampled tournament chooses the champion, upper bounds choose its challenger."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.checks import check_positive, check_whole
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import CountsWins, pair_indices, record_pair, tied
from structsvm.online.bandits.rucb import challenger, upper_bounds
from structsvm.protocols import Duel


class RCS(CountsWins):
    """Relative confidence sampling of Zoghi et al. (WSDM 2014).

    It assumes a Condorcet winner and needs no horizon.

    Parameters
    ----------
    n_arms : int
    alpha : float, default=0.501
        Width of the challenger's bounds.

    Notes
    -----
    ``theta_ij ~ Beta(W_ij + 1, W_ji + 1)`` for every pair; the champion beats everyone in ``theta``, or else
    is the arm that was champion least often. The bound of a pair never compared is 2 (``x/0 = 1`` in the paper's
    algorithm).

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used alike.
    """

    label = "rcs"
    assumes = "Condorcet winner"
    compiled = "structsvm.online.bandits.compiled.rcs"

    def __init__(self, n_arms: int, *, alpha: float = 0.501) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.t = 0
        self.wins = np.zeros((self.n_arms, self.n_arms))
        self.times_champion = np.zeros(self.n_arms)

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the champion of a sampled tournament, against the arm with the largest bound against it."""
        first, second = pair_indices(self.n_arms)
        theta = np.full((self.n_arms, self.n_arms), 0.5)
        theta[first, second] = rng.beta(self.wins[first, second] + 1, self.wins[second, first] + 1)
        theta[second, first] = 1 - theta[first, second]
        unbeaten = np.flatnonzero((theta >= 0.5).all(axis=1))
        champion = int(unbeaten[0]) if len(unbeaten) else tied(-self.times_champion, rng)
        bounds = upper_bounds(self.wins, self.alpha * log(self.t + 1), unseen=2.0)
        return Duel((champion, challenger(bounds, champion, rng)))

    def update(self, duel: Duel, outcome: Any) -> None:
        """Count the win, and that the first arm was champion."""
        record_pair(self.wins, duel, outcome)
        self.t += 1
        self.times_champion[duel.arms[0]] += 1
