"""Evidence that one arm beats another, valid at every look, and the levels at which it decides.

To show that arm i beats arm j, a capital of 1 is bet on i in each of their comparisons, at odds that are fair if i wins
half of them. Unless i wins more often than that, the capital is a nonnegative supermartingale, so that the probability
that it ever reaches ``1 / delta`` is at most ``delta`` (Ville 1939). The theory page "The best arm" has the proofs.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from structsvm.common.checks import check_fraction
from structsvm.common.portable.arrays import combine
from structsvm.common.portable.elementary import exp, log, log1p, power
from structsvm.online.statistics.always_valid import SHARES
from structsvm.protocols import Float, Int

# The six larger shares of the capital have nine tenths of it: they decide within some thousand votes. Equal weights
# cost about a tenth more votes.
_LOG_WEIGHTS = log(np.repeat([0.15, 0.1 / 6], 6))


class Evidence:
    """Logarithms of the capitals of all ordered pairs of arms.

    Parameters
    ----------
    n_arms : int
    epsilon : float, default=0
        Bet against "i beats j with probability at most ``1/2 - epsilon``".
    growth, peak : ndarray, optional
        Arrays to go on with, which are written to; by default those of no comparison.

    Attributes
    ----------
    growth : ndarray, shape (n_arms, n_arms, 12)
        Sum of the logarithms of the factors of each share of the capital, ``[i, j]`` for "i beats j".
    peak : ndarray, shape (n_arms, n_arms)
        Largest logarithm of the capital so far: a claim once shown stays shown.
    """

    def __init__(
        self, n_arms: int, epsilon: float = 0.0, growth: Float | None = None, peak: Float | None = None
    ) -> None:
        self.epsilon = epsilon
        self.growth = np.zeros((n_arms, n_arms, len(SHARES))) if growth is None else growth
        self.peak = np.zeros((n_arms, n_arms)) if peak is None else peak

    def add(self, i: int, j: int, share: float) -> None:
        """Enter one comparison, of which arm ``i`` won ``share`` (0.5: a tie)."""
        for first, second, won in ((i, j, share), (j, i, 1.0 - share)):
            self.growth[first, second] += _factors(float(won), self.epsilon)
            now = mixture(self.growth[first, second])
            self.peak[first, second] = max(self.peak[first, second], now)

    def extend(self, i: int, j: int, shares: Float) -> tuple[Float, Float]:
        """Enter comparisons of one pair in their order; return the logarithms of both capitals after each."""
        out = []
        for first, second, won in ((i, j, shares), (j, i, 1.0 - shares)):
            # a running sum adds in the order of single steps, so that the digits are those of ``add``
            steps = np.concatenate([self.growth[first, second][None], factors(won[:, None], self.epsilon)])
            path = np.cumsum(steps, axis=0)[1:]
            self.growth[first, second] = path[-1]
            out.append(np.atleast_1d(mixture(path)))
            self.peak[first, second] = max(self.peak[first, second], out[-1].max())
        return out[0], out[1]


def log_evidence(shares: Float, counts: Int) -> tuple[float, float]:
    """Return the logarithms of the evidence that the first of two arms beats the second, and of the reverse, where each
    share of the first occurs so often, in any order.
    """
    ahead, behind = (combine(counts, factors(won[:, None])) for won in (shares, 1.0 - shares))
    return float(mixture(ahead)), float(mixture(behind))


def factors(share: float | Float, epsilon: float = 0.0) -> Float:
    """Return the logarithm of the factor by which a comparison multiplies each share of the capital."""
    return np.asarray(log1p(SHARES * (share / (0.5 - epsilon) - 1.0)))


# votes have few values, mostly 0, 0.5 and 1
_factors = lru_cache(maxsize=1024)(factors)


def mixture(growth: Float) -> Float:
    """Return the logarithm of the capital from those of its shares (last axis)."""
    terms = growth + _LOG_WEIGHTS
    largest = terms.max(axis=-1)
    return np.asarray(largest + log(exp(terms - largest[..., None]).sum(axis=-1)))


def error_of_best(delta: float, n_arms: int) -> float:
    """Return the largest probability that some arm is ever wrongly declared to beat all others.

    An arm is wrong if the set L of rivals that it does not beat is not empty, and it is declared with probability at
    most ``delta ** len(L)``. Of two arms at least one has the other in its L, so at most ``2 l + 1`` arms have at most
    ``l`` rivals in it, whatever the preferences are.
    """
    return _weighted(delta, [min(n_arms, 2 * size + 1) for size in range(1, n_arms)])


def _error_beside_winner(delta: float, n_arms: int) -> float:
    """The same where one arm does beat all others, which then is in the L of each."""
    return _weighted(delta, [min(n_arms - 1, 2 * size - 1) for size in range(1, n_arms)])


def _weighted(delta: float, at_most: list[int]) -> float:
    """Return ``sum_l (N_l - N_(l-1)) delta^l``: the error if as many wrong claims as possible need few crossings."""
    return float(
        sum(
            (n - before) * float(power(delta, size))
            for size, (before, n) in enumerate(zip([0, *at_most], at_most, strict=False), 1)
        )
    )


def error_of_top(delta: float, n_arms: int, top: int) -> float:
    """Return the largest probability that a wrong set of ``top`` arms is ever declared.

    A set is wrong if a member does not beat an outsider. At most three sets have one such pair. Sets with two or more
    need two crossings of their own, and are bounded by the number of pairs of such pairs.
    """
    ordered = n_arms * (n_arms - 1)
    return 3 * delta + (comb(ordered, 2) - ordered // 2) * delta**2


@lru_cache(maxsize=64)
def thresholds(alpha: float, n_arms: int, epsilon: float = 0.0, top: int = 1) -> tuple[float, float]:
    """Return the logarithms of the capital that declare an arm the best, and that exclude one as the best.

    With both claims together the probability of any wrong one, ever, is at most ``alpha`` for any preferences and any
    adaptive choice of pairs. ``epsilon`` takes a union over the arms instead: many equal arms may all be within
    epsilon of being wrong through one rival. Exclusion is infinite where it is not offered.
    """
    check_fraction("alpha", alpha)
    if n_arms < 2:
        return np.inf, np.inf
    if epsilon > 0:
        return float(log(n_arms / alpha)), np.inf
    error = (lambda d: error_of_top(d, n_arms, top)) if top > 1 else (lambda d: error_of_best(d, n_arms))
    low, high = 0.0, alpha
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) < alpha else (low, middle)
    if top > 1:
        return float(-log(low)), np.inf
    rest = alpha - _error_beside_winner(low, n_arms)
    return float(-log(low)), float(log((n_arms - 1) / rest))


def shown_best(peak: Float, thresholds: tuple[float, float]) -> int:
    """Return the arm shown to beat all others, -1 if none is, or -2 if each is excluded as the best."""
    others = np.where(np.eye(len(peak), dtype=bool), np.inf, peak)
    weakest = others.min(axis=1)
    arm = int(weakest.argmax())
    if weakest[arm] >= thresholds[0]:
        return arm
    excluded = np.where(np.isinf(others), -np.inf, peak).max(axis=0) >= thresholds[1]
    return -2 if len(peak) > 1 and excluded.all() else -1


def shown_top(peak: Float, threshold: float, members: Int) -> bool:
    """Say whether each of ``members`` is shown to beat each other arm."""
    outside = np.setdiff1d(np.arange(len(peak)), members)
    return bool(peak[np.ix_(members, outside)].min(initial=np.inf) >= threshold)
