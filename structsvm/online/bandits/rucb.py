"""RUCB and RCS: compare a possible winner with the arm that has the largest upper bound against it."""

import numpy as np

from structsvm.common.checks import BadInput, check_positive
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import CountsWins, pair_indices, pick, tied
from structsvm.protocols import Duel


def upper_bounds(wins: np.ndarray, log: float) -> np.ndarray:
    """Return ``mu + sqrt(log / N)`` of each ordered pair: 2 for a pair never compared, and 1/2 on the diagonal.

    The papers of RUCB, RCS and Double Thompson sampling define "x/0 := 1 for any x"; applied to both terms, this gives
    2.
    """
    plays = wins + wins.T
    compared = plays > 0
    safe = np.where(compared, plays, 1.0)
    bounds = np.where(compared, wins / safe + np.sqrt(log / safe), 2.0)
    np.fill_diagonal(bounds, 0.5)
    return bounds


def challenger(bounds: np.ndarray, champion: int, rng: np.random.Generator) -> int:
    """Return the arm with the largest bound against the champion, or the champion if all bounds are below 1/2."""
    # the champion's bound against itself is 1/2; it plays itself only if all other bounds are below 1/2
    against = bounds[:, champion].copy()
    against[champion] = -np.inf
    highest = against.max()
    return champion if highest < 0.5 else pick(np.flatnonzero(against == highest), rng)


class RUCB(CountsWins):
    """Relative upper confidence bound of Zoghi et al. (ICML 2014).

    It assumes a Condorcet winner and needs no horizon.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    alpha : float, default=0.51
        Width of the bounds ``mu + sqrt(alpha ln t / N)``; the theory requires more than 1/2.

    Notes
    -----
    ``C`` contains the arms that no bound excludes. The arm that was last the only arm in ``C`` (``B`` in the paper) is
    the champion with probability 1/2 while it remains in ``C``. The challenger is the arm with the largest bound
    against the champion. The champion, whose bound against itself is 1/2, plays itself only if all other bounds are
    below 1/2. The bound of a pair never compared is 2 (``x/0 = 1`` in Algorithm 1).

    Examples
    --------
    >>> import numpy as np
    >>> bandit, rng = RUCB(3), np.random.default_rng(0)
    >>> for _ in range(500):
    ...     duel = bandit.select(rng)
    ...     bandit.update(duel, rng.random() < 0.5 + 0.2 * (duel.arms[1] - duel.arms[0]))
    >>> bandit.best()
    0
    """

    label = "rucb"
    assumes = "Condorcet winner"
    compiled = "structsvm.online.bandits.compiled.rucb"

    def __init__(self, n_arms: int, *, alpha: float = 0.51) -> None:
        super().__init__(n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.leader = -1  # B of the paper; -1 is the empty set

    def select(self, rng: np.random.Generator) -> Duel:
        """Return a possible winner and the arm with the largest bound against it; the note is the arm in B, or -1."""
        # Algorithm 1: C contains the arms whose bounds are all at least 1/2; B keeps its arm only while it is in C
        bounds = upper_bounds(self.wins, self.alpha * log(self.t + 1))
        candidates = np.flatnonzero((bounds >= 0.5).all(axis=1))
        leader = self.leader if self.leader in candidates else -1
        # The branches draw random numbers in the same order as the compiled form: none for a single candidate,
        # otherwise one for the choice of B, and one for the arm.
        if len(candidates) == 1:
            leader = champion = int(candidates[0])
        elif len(candidates) == 0:
            champion = pick(np.arange(self.n_arms), rng)
        elif leader >= 0 and rng.random() < 0.5:
            champion = leader
        else:
            champion = pick(candidates[candidates != leader], rng)
        return Duel((champion, challenger(bounds, champion, rng)), leader)

    def update(self, duel: Duel, outcome: object) -> None:
        """Count the win, and store the leader given in the note.

        Raise ValueError, without any change, unless the duel is a pair of arms, the outcome is in [0, 1], and the note
        is an arm or -1.
        """
        if type(duel.note) is not int or not -1 <= duel.note < self.n_arms:
            raise BadInput(
                "duel",
                f"expected the leader (-1 for none) in its note, as select returns it, got {duel.note!r:.80}",
            )
        super().update(duel, outcome)
        self.leader = duel.note


class RCS(CountsWins):
    """Relative confidence sampling of Zoghi et al. (WSDM 2014).

    It assumes a Condorcet winner and needs no horizon.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    alpha : float, default=0.501
        Width of the challenger's bounds.

    Notes
    -----
    ``theta_ij ~ Beta(W_ij + 1, W_ji + 1)`` is sampled for each pair. The champion is the arm that beats all others
    according to ``theta`` or, if there is none, the arm that was champion least often. The bound of a pair never
    compared is 2 (``x/0 = 1`` in Algorithm 1).

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "rcs"
    assumes = "Condorcet winner"
    compiled = "structsvm.online.bandits.compiled.rcs"

    def __init__(self, n_arms: int, *, alpha: float = 0.501) -> None:
        super().__init__(n_arms)
        self.alpha = check_positive("alpha", alpha)
        self.times_champion = np.zeros(self.n_arms)

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the champion of a tournament of sampled results, and the arm with the largest bound against it."""
        first, second = pair_indices(self.n_arms)
        theta = np.full((self.n_arms, self.n_arms), 0.5)
        theta[first, second] = rng.beta(self.wins[first, second] + 1, self.wins[second, first] + 1)
        theta[second, first] = 1 - theta[first, second]
        # at most one arm is unbeaten, as theta_ij + theta_ji = 1; exact ties have probability zero
        unbeaten = np.flatnonzero((theta >= 0.5).all(axis=1))
        champion = int(unbeaten[0]) if len(unbeaten) else tied(-self.times_champion, rng)
        bounds = upper_bounds(self.wins, self.alpha * log(self.t + 1))
        return Duel((champion, challenger(bounds, champion, rng)))

    def update(self, duel: Duel, outcome: object) -> None:
        """Count the win of the pair, and increment the count of the first arm as champion."""
        super().update(duel, outcome)
        self.times_champion[duel.arms[0]] += 1
