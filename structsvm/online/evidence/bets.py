"""Evidence that one arm beats another, valid at every look, and thresholds for the best arm.

To show that arm i beats arm j, a capital of 1 is bet on i in each of their comparisons, at odds that are fair if i wins
with probability 1/2. If that probability is at most 1/2, the capital is a nonnegative supermartingale, so that the
probability that it ever reaches ``1 / delta`` is at most ``delta`` (Ville 1939). The theory page "The best arm" gives
the proofs.
"""

from collections.abc import Callable
from functools import lru_cache
from math import comb

import numpy as np

from structsvm.common.checks import check_fraction
from structsvm.common.kernel import kernel
from structsvm.common.portable import compiled
from structsvm.common.portable.arrays import combine
from structsvm.common.portable.elementary import exp, log, log1p, power
from structsvm.online.evidence.always_valid import SHARES
from structsvm.protocols import Float, Int

# Weights of the twelve bets, a prior over win rates: the best share for a win rate p is 2 p - 1. Half of the capital is
# bet at .45 and .225, for win rates of .6 to .75: these bets determine how soon a clear best arm is found. The six
# smallest shares, for rates below .51, hold a twenty-fifth. Any weights that sum to 1 keep the level.
_LOG_WEIGHTS = log(np.array([0.12, 0.26, 0.26, 0.18, 0.1, 0.04, *[0.04 / 6] * 6]))


class Evidence:
    """Logarithms of the capitals of the bets on all ordered pairs of arms.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    epsilon : float, default=0
        The bets test the hypothesis "i beats j with probability at most ``1/2 - epsilon``".
    growth, peak : ndarray, optional
        State to continue from, modified in place; by default the state before the first comparison.

    Attributes
    ----------
    growth : ndarray, shape (n_arms, n_arms, 12)
        Logarithm of the capital of each of the 12 bets, before weighting; the bets ``[i, j]`` are on i against j.
    peak : ndarray, shape (n_arms, n_arms)
        Logarithm of the largest total capital so far. It never decreases, so an established claim remains valid.
    """

    def __init__(
        self, n_arms: int, epsilon: float = 0.0, growth: Float | None = None, peak: Float | None = None
    ) -> None:
        self.epsilon = epsilon
        self.growth = np.zeros((n_arms, n_arms, len(SHARES))) if growth is None else growth
        self.peak = np.zeros((n_arms, n_arms)) if peak is None else peak

    def add(self, i: int, j: int, share: float) -> None:
        """Add one comparison, of which arm ``i`` won the share ``share`` (0.5 for a tie)."""
        self._enter(i, j, _of_one(float(share), self.epsilon))

    def extend(self, i: int, j: int, shares: Float) -> tuple[Float, Float]:
        """Add comparisons of one pair in order; return the logarithms of both capitals after each."""
        capital = self._enter(i, j, _both(shares, self.epsilon))
        return capital[:, 0], capital[:, 1]

    def _enter(self, i: int, j: int, steps: Float) -> Float:
        """Add the factors of comparisons, shape (n, 2, 12); return the logarithms of both capitals after each."""
        pairs = [i, j], [j, i]
        # cumsum adds the steps one by one, so that ``extend`` and ``add`` agree in all digits
        path = np.cumsum(np.concatenate([self.growth[pairs][None], steps]), axis=0)[1:]
        capital = mixture(path)
        self.growth[pairs] = path[-1]
        self.peak[pairs] = np.maximum(self.peak[pairs], capital.max(axis=0))
        return capital


def _both(shares: Float, epsilon: float) -> Float:
    """Return the logarithms of the factors of comparisons in both directions, shape (n, 2, 12)."""
    return factors(np.stack([shares, 1.0 - shares], axis=1)[..., None], epsilon)


@lru_cache(maxsize=64)
def _of_one(share: float, epsilon: float) -> Float:
    return _both(np.array([share]), epsilon)


def log_evidence(shares: Float, counts: Int) -> tuple[float, float]:
    """Return the logarithms of the evidence that the first of two arms beats the second, and of the reverse.

    The first arm won the share ``shares[k]`` in each of ``counts[k]`` comparisons; their order does not matter.
    """
    ahead, behind = (combine(counts, factors(won[:, None])) for won in (shares, 1.0 - shares))
    return float(mixture(ahead)), float(mixture(behind))


def evidence_path(shares: Float, counts: Int, following: Float) -> Float:
    """Return :func:`log_evidence` in both directions, shape (2, n), after each of the ``following`` comparisons."""
    before = [combine(counts, factors(won[:, None])) for won in (shares, 1.0 - shares)]
    return mixture(np.cumsum(np.concatenate([[before], _both(following, 0.0)]), axis=0)[1:]).T


def factors(share: float | Float, epsilon: float = 0.0) -> Float:
    """Return the logarithms of the factors by which a comparison multiplies the capital of each bet."""
    # a bet of the share c on i pays 1 + c (x / p - 1), where x is the share that i won and p = 1/2 - epsilon its value
    # under the hypothesis, for which the factor has mean 1
    return np.asarray(log1p(SHARES * (share / (0.5 - epsilon) - 1.0)))


def mixture(growth: Float) -> Float:
    """Return the logarithm of the total capital from the logarithms of the capitals of the bets (last axis)."""
    terms = growth + _LOG_WEIGHTS
    out = np.empty(terms.shape[:-1])
    _log_sums(terms.reshape(-1, terms.shape[-1]), out.reshape(-1))
    return out


@kernel
def _log_sums(terms, out):  # type: ignore[no-untyped-def]
    """Write the logarithm of the sum of the exponentials of each row (at least eight terms) to ``out``."""
    e = np.empty(terms.shape[1])
    for row in range(len(out)):
        # the largest term is factored out, so that nothing overflows
        largest = terms[row].max()
        for k in range(len(e)):
            e[k] = compiled.exp(terms[row, k] - largest)
        # add in the order in which NumPy adds: eight terms pairwise, then the remaining terms
        total = ((e[0] + e[1]) + (e[2] + e[3])) + ((e[4] + e[5]) + (e[6] + e[7]))
        for k in range(8, len(e)):
            total += e[k]
        out[row] = largest + compiled.log(total)


def error_of_best(delta: float, n_arms: int) -> float:
    """Return the largest probability that some arm is ever wrongly declared to beat all others.

    Let L be the set of rivals that an arm does not beat. Declaring the arm best is wrong if L is not empty, and has
    probability at most ``delta ** len(L)``. Of any two arms, at least one has the other in its L. Therefore at most
    ``2 l + 1`` arms have at most ``l`` rivals in L, for any preferences.
    """
    return _weighted(delta, [min(n_arms, 2 * size + 1) for size in range(1, n_arms)])


def _error_beside_winner(delta: float, n_arms: int) -> float:
    """Return the bound of :func:`error_of_best` if one arm beats all others and thus is in L of every other arm."""
    return _weighted(delta, [min(n_arms - 1, 2 * size - 1) for size in range(1, n_arms)])


def _weighted(delta: float, at_most: list[int]) -> float:
    """Return ``sum_l (N_l - N_(l-1)) delta^l``, where at most ``N_l`` arms have at most ``l`` rivals in L."""
    more = np.diff([0, *at_most]).tolist()
    return float(sum(n * float(power(delta, size)) for size, n in enumerate(more, 1)))


def p_value_of_best(evidence: float, n_arms: int) -> float:
    """Return the p-value, valid at every look, of the claim that an arm beats all others.

    ``evidence`` is the smallest evidence of the arm against a rival; for two arms, the capital that is bet on either.
    """
    delta = float(exp(-max(evidence, 0.0)))
    return min(1.0, error_of_best(delta, n_arms)) if n_arms > 2 else delta


def error_of_top(delta: float, n_arms: int, top: int) -> float:
    """Return the largest probability that a wrong set of ``top`` arms is ever declared.

    A set is wrong if some member does not beat some arm outside. At most three sets have exactly one such pair of
    arms. A set with at least two such pairs is declared only if two wrong claims are shown; the number of ways to
    choose two ordered pairs bounds the number of these events.
    """
    ordered = n_arms * (n_arms - 1)
    return 3 * delta + (comb(ordered, 2) - ordered // 2) * delta**2


@lru_cache(maxsize=64)
def thresholds(alpha: float, n_arms: int, epsilon: float = 0.0, top: int = 1) -> tuple[float, float]:
    """Return the log capital at which an arm is declared the best, and that at which it is excluded as the best.

    The probability that either claim is ever wrong is at most ``alpha`` for any preferences and any adaptive choice of
    pairs. If ``epsilon`` is positive, the first threshold is a union bound over the arms: if many equal arms have one
    better rival, it would be wrong to declare any of them the best. The second threshold is infinite if exclusion is
    not available (``epsilon`` above 0 or ``top`` above 1).
    """
    check_fraction("alpha", alpha)
    if n_arms < 2:
        return np.inf, np.inf
    if epsilon > 0:
        return float(log(n_arms / alpha)), np.inf
    error: Callable[[float], float] = (
        (lambda d: error_of_top(d, n_arms, top)) if top > 1 else (lambda d: error_of_best(d, n_arms))
    )
    # the error increases with delta: bisect for the largest delta with an error below alpha
    low, high = 0.0, alpha
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) < alpha else (low, middle)
    if top > 1:
        return float(-log(low)), np.inf
    # An exclusion is wrong if the excluded arm beats all others. Wrong declarations are then less likely, and the
    # remaining error probability is divided among the n - 1 rivals that may exclude the arm.
    return float(-log(low)), float(log((n_arms - 1) / (alpha - _error_beside_winner(low, n_arms))))


def shown_best(peak: Float, thresholds: tuple[float, float]) -> int:
    """Return the arm that is shown to beat all others, -1 if none is, or -2 if each arm is excluded as the best."""
    # an arm is shown to be the best if its smallest evidence against any rival reaches the threshold
    others = np.where(np.eye(len(peak), dtype=bool), np.inf, peak)
    weakest = others.min(axis=1)
    arm = int(weakest.argmax())
    if weakest[arm] >= thresholds[0]:
        return arm
    # an arm is excluded if the largest evidence that any other arm beats it reaches the threshold
    excluded = np.where(np.isinf(others), -np.inf, peak).max(axis=0) >= thresholds[1]
    return -2 if len(peak) > 1 and excluded.all() else -1


def shown_top(peak: Float, threshold: float, members: Int) -> bool:
    """Return whether each of ``members`` is shown to beat every other arm that is not in ``members``."""
    outside = np.setdiff1d(np.arange(len(peak)), members)
    return bool(peak[np.ix_(members, outside)].min(initial=np.inf) >= threshold)
