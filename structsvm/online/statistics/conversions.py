"""A/B tests of conversions, valid at every look, from counts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_fraction
from structsvm.common.portable.elementary import exp, log
from structsvm.protocols import Float

_PRIORS = ((200.0, 0.8), (2.0, 0.2))
"""Size, in conversions, and weight of the parts of the prior of the share of conversions of B. The first has a standard
deviation of .035, that of lifts of about 15 %; the second is for large effects, which few conversions show."""

_SPLIT = 1e-3
"""Significance level of the test of the split of users: counts with a smaller p-value are refused."""


@dataclass(frozen=True)
class ABTest:
    """The result of :func:`ab_test`.

    Attributes
    ----------
    rates : tuple of float
        Conversion rates of A and B.
    lift : float
        Relative difference, ``rate of B / rate of A - 1``; infinite if A has no conversions.
    lower, upper : float
        Interval of the lift. With probability ``1 - alpha`` the true lift is in all intervals, at all looks at once.
    p_value : float
        p-value of "both rates are equal", valid at every look: at most alpha if and only if the interval excludes 0.
    winner : str or None
        "A" or "B" if the p-value is at most alpha.
    alpha : float
        Bound on the probability that any interval misses the lift.

    Examples
    --------
    See :func:`structsvm.online.statistics.ab_test`.
    """

    rates: tuple[float, float]
    lift: float
    lower: float
    upper: float
    p_value: float
    winner: str | None
    alpha: float


def ab_test(users: ArrayLike, conversions: ArrayLike, *, share: float = 0.5, alpha: float = 0.05) -> ABTest:
    """Compare the conversion rates of two arms from counts, with a test and an interval that are valid at every look.

    Parameters
    ----------
    users : array-like of two whole numbers
        Users in A and in B so far.
    conversions : array-like of two whole numbers
        How many of them converted; each user counts at most once.
    share : float, default=0.5
        Probability with which a user is assigned to B, fixed in advance.
    alpha : float, default=0.05
        Bound on the probability that any interval, at any look, misses the true lift.

    Returns
    -------
    ABTest

    Raises
    ------
    BadInput
        If a count is not a whole number, as of revenue; if more users converted than there are; if the split of users
        contradicts ``share`` (p below 0.001, at any look).

    Notes
    -----
    Given a conversion, it is of B with probability ``q = share rate_B / (share rate_B + (1 - share) rate_A)``,
    whatever the past. A bet against a value of q multiplies a capital of 1 by the ratio of probabilities under another
    value. Its mean over a prior of other values, a mixture of beta distributions around ``share``, is a nonnegative
    martingale if q is the true value. So the probability that it ever reaches ``1 / alpha`` is at most ``alpha``
    (Ville's inequality), and the values that it does not refute form the interval. The capital depends only on the
    counts, not on their order (Robbins, *Statistical methods related to the law of the iterated logarithm*, Ann. Math.
    Stat. 1970).

    Examples
    --------
    >>> result = ab_test([14000, 14000], [700, 868])
    >>> result.winner, round(result.lift, 2), round(result.lower, 2), round(result.upper, 2)
    ('B', 0.24, 0.05, 0.46)
    >>> round(result.p_value, 4)
    0.0012
    """
    check_fraction("alpha", alpha)
    check_fraction("share", share)
    n, won = _whole("users", users), _whole("conversions", conversions)
    if (won > n).any():
        raise BadInput(
            "conversions", f"expected at most the number of users {n.tolist()}, got {won.tolist()}"
        )
    if (split := float(exp(-_log_capital(n, share, share)))) < _SPLIT:
        raise BadInput(
            "users",
            f"expected {share:.0%} of {int(n.sum()):,} users in B, got {n[1] / n.sum():.1%} (p {split:.1g})",
            "find which users are missing, or set {share}",
        )
    from scipy.optimize import brentq

    excess: Callable[[float], float] = lambda q: float(_log_capital(won, share, q) + log(alpha))  # noqa: E731
    # the capital is convex in the logarithm of odds, and smallest at the observed share
    centre = float(won[1] / won.sum()) if won.sum() else share
    low = brentq(excess, 1e-12, centre) if centre > 1e-12 and excess(1e-12) > 0 else 0.0
    high = brentq(excess, centre, 1 - 1e-12) if centre < 1 - 1e-12 and excess(1 - 1e-12) > 0 else 1.0
    ratio: Callable[[float], float] = lambda q: np.inf if q == 1.0 else q / (1 - q) * (1 - share) / share  # noqa: E731
    rates = (float(won[0] / max(n[0], 1)), float(won[1] / max(n[1], 1)))
    p = min(1.0, float(exp(-_log_capital(won, share, share))))
    winner = ("B" if centre > share else "A") if p <= alpha else None
    lift = rates[1] / rates[0] - 1 if rates[0] else np.inf
    return ABTest(
        rates=rates,
        lift=float(lift),
        lower=float(ratio(low) - 1),
        upper=float(ratio(high) - 1),
        p_value=p,
        winner=winner,
        alpha=alpha,
    )


def _whole(name: str, given: ArrayLike) -> Float:
    """Return two counts; raise BadInput for others."""
    counts = np.asarray(given)
    if (
        counts.shape != (2,)
        or counts.dtype.kind not in "iuf"
        or not (np.isfinite(counts) & (counts >= 0) & (counts == np.floor(counts))).all()
    ):
        raise BadInput(
            name,
            f"expected two whole numbers, of A and of B, got {counts.tolist()}",
            "pass counts of users; revenue has no bound known in advance, so that this test does not apply to it: fix "
            "the number of users, look once, and compare the means with scipy.stats.ttest_ind",
        )
    return counts.astype(np.float64)


def _log_capital(counts: Float, share: float, q: float) -> float:
    """Return the logarithm of the capital against the probability ``q`` of B, after ``counts`` of A and of B."""
    from scipy.special import betaln, xlog1py, xlogy

    parts = [
        log(weight)
        + betaln(size * (1 - share) + counts[0], size * share + counts[1])
        - betaln(size * (1 - share), size * share)
        for size, weight in _PRIORS
    ]
    return float(np.logaddexp(*parts) - xlog1py(counts[0], -q) - xlogy(counts[1], q))
