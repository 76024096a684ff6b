"""BestArm: identify the arm that beats all others, with an error bound that is valid at every look."""

import numpy as np

from structsvm.common.checks import BadInput, check_fraction, check_number, check_whole
from structsvm.common.portable.arrays import products
from structsvm.common.portable.cholesky import factor, inverse, solve
from structsvm.common.portable.elementary import log
from structsvm.online.bandits.policy import CountsWins, result, tied
from structsvm.online.evidence.bets import Evidence, factors, mixture, shown_best, shown_top, thresholds
from structsvm.online.evidence.win_rates import win_rates
from structsvm.protocols import Duel, Float, Int

PRIOR = 6.0
"""Weight of the Bradley-Terry model in the win rate of a pair, in comparisons. Many comparisons of the pair outweigh
the model, so that cycles are detected."""

_RIDGE = 0.25
"""Precision (inverse variance) of the normal prior of the strengths."""

_TIE = 1e-9
"""Divergences closer than this are treated as equal, since sums of logarithms may differ in the last bits."""


class BestArm(CountsWins):
    """Bandit that identifies, with few comparisons, the arm that beats all others.

    Unlike bandits that minimise regret, BestArm makes a decision. :attr:`finished` becomes True once one arm is shown
    to beat every other arm, or every arm is excluded as the best. The probability of a wrong decision is at most
    ``alpha``, for any preferences and any number of looks. After the decision only the best arm is played.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    alpha : float, default=0.05
        Bound on the probability of a wrong decision.
    epsilon : float, default=0
        If positive, stop at an arm that wins more than ``1/2 - epsilon`` of the comparisons with every other arm.
        With the default, nearly equal arms require very many comparisons.
    top : int, default=1
        If more than 1, find the set of ``top`` arms, each of which beats every arm outside the set.

    Notes
    -----
    Each claim "i beats j" is tested by betting (:mod:`structsvm.online.evidence.bets`). If i does not beat j, the
    capital is a nonnegative supermartingale, whatever pairs are chosen. So the probability that it ever reaches
    ``1 / delta`` is at most ``delta`` (Ville's inequality), and the sum over wrong claims is at most ``alpha``.

    The leader has the smallest empirical divergence, as in :class:`structsvm.online.bandits.RMED1`. Half of the
    comparisons look for another leader: the strengths of a Bradley-Terry model are sampled from their posterior, and
    the leader is compared with the Copeland leader of the sampled win rates, unless they are the same arm. All other
    comparisons collect evidence: the leader is compared with the rival against which its evidence is smallest. With
    ``top``, a quarter of the comparisons are those at the border of a sampled order. ``select`` returns the two arms in
    random order, so that an advantage of the arm shown first favours neither.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> strength = np.array([0.0, 1.5, 0.2])
    >>> bandit = BestArm(3)
    >>> while not bandit.finished:
    ...     for duel in bandit.select_batch(10, rng):
    ...         first, second = duel.arms
    ...         won = rng.random() < 1 / (1 + np.exp(strength[second] - strength[first]))
    ...         bandit.update(duel, won)
    >>> bandit.best()
    1
    """

    label = "best"
    assumes = "Condorcet winner"

    def __init__(self, n_arms: int, *, alpha: float = 0.05, epsilon: float = 0.0, top: int = 1) -> None:
        super().__init__(n_arms)
        check_fraction("alpha", alpha)
        self.alpha = float(alpha)
        check_number("epsilon", epsilon, 0.0, 0.49)
        self.epsilon = float(epsilon)
        self.top = check_whole("top", top, 1, max(1, self.n_arms - 1))
        if top > 1 and epsilon > 0:
            raise BadInput("epsilon", "applies only to a single best arm", "set {top} to 1", value=epsilon)
        evidence = Evidence(self.n_arms, self.epsilon)
        self.growth, self.peak = evidence.growth, evidence.peak

    def update(self, duel: Duel, outcome: object) -> None:
        """Add the outcome of a pair to the wins and the evidence; a duel of an arm with itself adds nothing."""
        super().update(duel, outcome)
        first, second = duel.arms
        if first != second:
            self.evidence().add(first, second, result(outcome))

    def expect(self, duel: Duel, share: object) -> None:
        """Update with the expected outcome of a pending duel, which guides the next pairs but decides nothing."""
        # decisions are made from the peaks, so restore them: they must contain observed outcomes only
        peak = self.peak.copy()
        self.update(duel, share)
        self.peak[:] = peak

    def evidence(self) -> Evidence:
        """Return the evidence; it shares its arrays with the state of the bandit."""
        return Evidence(self.n_arms, self.epsilon, self.growth, self.peak)

    @property
    def finished(self) -> bool:
        """True once the best arms are identified, or every arm is excluded as the best."""
        return self.n_arms == 1 or self.decided() != -1

    def decided(self) -> int:
        """Return the best arm (0 if ``top`` > 1), -1 if it is not yet known, or -2 if every arm is excluded."""
        levels = thresholds(self.alpha, self.n_arms, self.epsilon, self.top)
        if self.top == 1:
            return shown_best(self.peak, levels)
        return 0 if shown_top(self.peak, levels[0], self.leaders()) else -1

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm shown to be best, otherwise the arm with the smallest divergence; break ties by ``rng``."""
        decided = self.decided() if self.top == 1 else -1
        return decided if decided >= 0 else tied(-self._divergences(self.rates()), rng, _TIE)

    def leaders(self) -> Int:
        """Return the ``top`` arms with the highest mean win rates, in ascending order of index."""
        return np.sort(np.argsort(-self.rates().mean(axis=1), kind="stable")[: self.top])

    def rates(self) -> Float:
        """Return the estimated probability that each arm beats each other arm, shape (n_arms, n_arms)."""
        return self._rates(self.strengths()[0])

    def _divergences(self, rates: Float) -> Float:
        """Return the divergence of each arm, the evidence that it does not beat all other arms."""
        # I_i of RMED1: the sum of N KL(mu, 1/2) over the arms ahead of i, with smoothed mu, and N including PRIOR
        inside = np.clip(rates, 1e-12, 1.0 - 1e-12)
        distance = inside * log(2 * inside) + (1 - inside) * log(2 * (1 - inside))
        return np.asarray(np.where(rates < 0.5, (self._plays() + PRIOR) * distance, 0.0).sum(axis=1))

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the next pair; after the decision, pair the best arm with itself."""
        return self.select_batch(1, rng)[0]

    def select_batch(self, n: int, rng: np.random.Generator) -> list[Duel]:
        """Return ``n`` pairs to compare before the next update."""
        check_whole("n", n)
        decided = self.decided() if self.top == 1 else -1
        if decided >= 0:
            return [Duel((decided, decided))] * n
        strengths, hessian = self.strengths()
        rates = self._rates(strengths)
        inside = self.leaders() if self.top > 1 else np.array([tied(-self._divergences(rates), rng, _TIE)])
        # one pair in ``of`` explores: n / of is rounded up or down at random
        of = 4 if self.top > 1 else 2
        pairs = self._explore((n + int(rng.integers(of))) // of, inside, strengths, hessian, rng)
        return pairs + self._prove(n - len(pairs), inside, rates, rng)

    def _plays(self) -> Float:
        return np.asarray(self.wins + self.wins.T)

    def strengths(self) -> tuple[Float, Float]:
        """Return the posterior mode of the strengths in a Bradley-Terry model, and the negative Hessian."""
        plays, strengths = self._plays(), np.zeros(self.n_arms)
        for _ in range(50):
            # Newton's method for log likelihood - ridge / 2 |strengths|^2, with bounded steps
            p = win_rates(strengths, 0.0)
            slope = plays * p * (1.0 - p)
            hessian = np.diag(slope.sum(axis=1) + _RIDGE) - slope
            step = solve(hessian, (self.wins - plays * p).sum(axis=1) - _RIDGE * strengths)
            strengths = strengths + np.clip(step, -2.0, 2.0)
            if np.abs(step).max() < 1e-9:
                break
        return strengths, hessian

    def _rates(self, strengths: Float) -> Float:
        """Return the win rates of all pairs: means over comparisons and ``PRIOR`` pseudo-comparisons with the model's
        win rate."""
        return np.asarray((self.wins + PRIOR * win_rates(strengths, 0.0)) / (self._plays() + PRIOR))

    def _explore(
        self, n: int, inside: Int, strengths: Float, hessian: Float, rng: np.random.Generator
    ) -> list[Duel]:
        """Return up to ``n`` pairs that test whether the arms ``inside`` are the best."""
        # Laplace approximation of the posterior: normal around the mode, with the inverse Hessian as covariance
        spread = factor(inverse(hessian))
        pairs = []
        for _ in range(n):
            drawn = strengths + products(spread, rng.standard_normal(self.n_arms))
            # for a set of best arms: the last arm inside and the first arm outside the set in a sampled order
            if self.top > 1:
                order = np.argsort(-drawn, kind="stable")
                first, second = int(order[self.top - 1]), int(order[self.top])
            else:
                # the leader and the Copeland leader of a sample (mean rates break ties), unless they are the same arm
                rates = self._rates(drawn)
                first, second = (
                    int(inside[0]),
                    tied((rates > 0.5).sum(axis=1) + 1e-3 * rates.mean(axis=1), rng),
                )
            if first != second:
                pairs.append(_shuffled(first, second, rng))
        return pairs

    def _prove(self, n: int, inside: Int, rates: Float, rng: np.random.Generator) -> list[Duel]:
        """Return ``n`` pairs of an arm ``inside`` and another arm, those with the smallest evidence."""
        outside = np.setdiff1d(np.arange(self.n_arms), inside)
        block = np.ix_(inside, outside)
        # decided pairs are compared again only if all pairs are decided
        open_ = self.peak[block] < thresholds(self.alpha, self.n_arms, self.epsilon, self.top)[0]
        open_ |= not open_.any()
        # each pair chosen in a batch adds its expected growth, at a win rate of at least 0.52; otherwise all
        # comparisons of the batch would be of one pair
        growth = self.growth[block]
        rate = np.maximum(rates[block], 0.52)[..., None]
        expected = rate * factors(1.0, self.epsilon) + (1.0 - rate) * factors(0.0, self.epsilon)
        pairs = []
        for _ in range(n):
            # the undecided claim with the smallest capital
            i, j = divmod(tied(-np.where(open_, mixture(growth), np.inf).ravel(), rng), len(outside))
            growth[i, j] += expected[i, j]
            pairs.append(_shuffled(int(inside[i]), int(outside[j]), rng))
        return pairs


def _shuffled(first: int, second: int, rng: np.random.Generator) -> Duel:
    return Duel((first, second) if rng.random() < 0.5 else (second, first))
