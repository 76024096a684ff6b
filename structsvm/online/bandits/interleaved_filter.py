"""Interleaved filter: compare a candidate with every remaining arm in turn until each pair is decided."""

import numpy as np

from structsvm.common.checks import check_whole
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import SavedState, check_horizon, check_order, check_pair
from structsvm.protocols import Duel


class InterleavedFilter(SavedState):
    """IF1 and IF2 of Yue et al. (thesis 5.3, Algorithms 5 and 6), which explore and then exploit (Algorithm 4).

    Parameters
    ----------
    n_arms : int
        Number of arms, K.
    horizon : int
        Number of comparisons ``T``, which sets the error probability ``delta = 1/(T K^2)``. Exploration may take
        longer.
    prune : bool, default=True
        Whether a losing candidate also eliminates the arms that have lost more than half of their comparisons with it.
        True gives IF2, False gives IF1.

    Notes
    -----
    The guarantee requires a total order with strong stochastic transitivity and the stochastic triangle inequality. A
    random permutation determines the first candidate and the order of its rivals, so IF1 and IF2 with the same ``rng``
    start with the same duels.

    Examples
    --------
    >>> import numpy as np
    >>> bandit, rng = IF2(3, horizon=1000), np.random.default_rng(0)
    >>> while not bandit.finished:
    ...     duel = bandit.select(rng)
    ...     bandit.update(duel, rng.random() < (0.95 if duel.arms[0] < duel.arms[1] else 0.05))
    >>> bandit.best()
    0
    """

    assumes = "total order, transitivity, triangle"
    compiled = "structsvm.online.bandits.compiled.interleaved_filter"

    def __init__(self, n_arms: int, horizon: int | None = None, *, prune: bool = True) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.horizon = check_horizon(horizon, "interleaved filter")
        self.prune = bool(prune)
        self.t = 0
        self.candidate: int | None = 0 if self.n_arms == 1 else None
        self.rivals: list[int] = []
        self.position = 0  # index of the next rival in the round
        self.rounds = 0  # number of comparisons of each rival with the candidate
        self.wins = np.zeros(self.n_arms)  # wins of the candidate over each rival

    @property
    def finished(self) -> bool:
        """Whether one arm is left, so that exploration is over."""
        return self.candidate is not None and not self.rivals

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the candidate and its next rival; the note of the first duel is the order of the arms."""
        if self.candidate is None:
            order = [int(arm) for arm in rng.permutation(self.n_arms)]
            return Duel((order[0], order[1]), order)
        return Duel((self.candidate, self.rivals[self.position] if self.rivals else self.candidate))

    def update(self, duel: Duel, outcome: object) -> None:
        """Count the win. At the end of a round, eliminate rivals that lost, and replace a candidate that lost.

        Raise ValueError unless the duel is a pair of arms, the outcome is in [0, 1], and the note of the first duel is
        a permutation of the arms.
        """
        *_, won = check_pair(duel, outcome, self.n_arms)
        # the first outcome fixes the order, so that duels selected before it do not count twice
        if self.candidate is None:
            self.candidate, *self.rivals = check_order("duel: order in its note", duel.note, self.n_arms)
        self.t += 1
        if not self.rivals or tuple(duel.arms) != (self.candidate, self.rivals[self.position]):
            return  # ignore an outcome that arrives after its pair was decided
        self.wins[duel.arms[1]] += won
        self.position += 1
        if self.position == len(self.rivals):
            self.position = 0
            self.rounds += 1
            self._eliminate()

    def _eliminate(self) -> None:
        """Apply the confidence bounds at the end of a round (Algorithm 5; Algorithm 6 with pruning)."""
        share = self.wins[self.rivals] / self.rounds
        radius = np.sqrt(4 * log(float(self.horizon) * self.n_arms**2) / self.rounds)
        # A rival is eliminated if the lower bound on the candidate's share is above 1/2. If the upper bound against the
        # worst rival is below 1/2, that rival becomes the candidate.
        keep = share - radius <= 0.5
        worst = int(np.argmin(share))
        dethroned = share[worst] + radius < 0.5
        if dethroned:
            successor = self.rivals[worst]
            keep[worst] = False
            if self.prune:
                keep &= share <= 0.5
        self.rivals = [arm for arm, stays in zip(self.rivals, keep, strict=True) if stays]
        if dethroned:
            self.candidate, self.rounds = successor, 0
            self.wins[:] = 0

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the candidate, or before the first duel a random arm (arm 0 if ``rng`` is None)."""
        if self.candidate is None:
            return 0 if rng is None else int(rng.random() * self.n_arms)
        return self.candidate


def IF1(n_arms: int, horizon: int | None = None) -> InterleavedFilter:
    """Return the interleaved filter without pruning (thesis, Algorithm 5).

    Examples
    --------
    See :class:`structsvm.online.bandits.InterleavedFilter`.
    """
    return InterleavedFilter(n_arms, horizon, prune=False)


def IF2(n_arms: int, horizon: int | None = None) -> InterleavedFilter:
    """Return the interleaved filter with pruning (thesis, Algorithm 6).

    Examples
    --------
    See :class:`structsvm.online.bandits.InterleavedFilter`.
    """
    return InterleavedFilter(n_arms, horizon, prune=True)
