"""Always-valid intervals and p-values for the mean of bounded outcomes, by betting.

To test that the mean is ``m``, start with a capital of 1 and bet a share ``c`` of it, at fair odds, that the next
outcome lies above ``m`` (or below). If the mean is ``m``, the capital is a nonnegative martingale, so with probability
``1 - alpha`` it never reaches ``1 / alpha``, for any number of looks (Ville 1939). The capital is divided evenly
between twelve shares ``c`` on each side, which loses little compared with the best share in hindsight. The capital is
convex in ``m``, so the means that it does not refute form an interval.

Waudby-Smith & Ramdas, Estimating means of bounded random variables by betting (JRSS B 2024); Orabona & Jun,
Tight concentrations and confidence sequences from the regret of universal portfolio (IEEE Trans. Inf. Theory
2024). The mixture is that of Orabona & Jun, with a discrete prior.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_fraction
from structsvm.common.portable.arrays import products
from structsvm.common.portable.elementary import exp, log, log1p
from structsvm.online.evidence.clusters import check_delta, cluster_means
from structsvm.protocols import Float
from structsvm.queries import refuse_first

SHARES = np.ldexp(0.9, -np.arange(12))
"""Shares of the capital that are bet. The best share is about mean / variance; the smallest share, 0.0004, suits a
difference that takes millions of outcomes to detect."""

_LOG_WEIGHT = -log(2 * len(SHARES))
_WIDTH = 5e-10
"""Precision of the bounds, which are rounded outwards, on a scale from 0 to 1."""


@dataclass(frozen=True)
class ConfidenceSequence:
    """Interval and p-value of a mean at each look.

    Attributes
    ----------
    looks : ndarray of int64, shape (n_looks,)
        Number of outcomes (or clusters) at each look.
    mean, lower, upper : ndarray of float64, shape (n_looks,)
        Sample mean and interval at each look. With probability ``1 - alpha`` the true mean lies between ``lower`` and
        ``upper`` at all looks at once.
    p_values : ndarray of float64, shape (n_looks,)
        p-value of the hypothesis "the mean is 0" at each look: 1 divided by the capital won by betting against it, at
        most 1. It is at most alpha if and only if 0 is outside the interval of that look; the experiment may then stop.
        It does not depend on the order of the outcomes before the look.
    alpha : float
        Bound on the probability that any interval misses the mean.

    Examples
    --------
    See :func:`structsvm.online.statistics.confidence_sequence`.
    """

    looks: NDArray[np.int64]
    mean: Float
    lower: Float
    upper: Float
    p_values: Float
    alpha: float


def confidence_sequence(
    outcomes: ArrayLike,
    *,
    alpha: float = 0.05,
    looks: ArrayLike | None = None,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> ConfidenceSequence:
    """Return intervals, valid at all looks simultaneously, for the mean of outcomes in [-1, 1].

    Parameters
    ----------
    outcomes : array-like, shape (n,)
        Outcomes in the order observed, each in [-1, 1]. For interleaving: 1 if the ranker won, -1 if it lost, 0 for a
        tie.
    alpha : float, default=0.05
        Bound on the probability that the interval misses the mean at any look.
    looks : array-like of int, optional
        Increasing numbers of outcomes (clusters) after which to report; by default only after the last.
    clusters : sequence, shape (n,), optional
        User or session of each outcome. Each cluster then counts as one outcome, its mean. Clusters are put in random
        order, since in order of first appearance frequent users would come first and bias the early looks.
    random_state : int, Generator or None, default=0
        Seed of the order of the clusters, which affects only the looks before the last.

    Returns
    -------
    ConfidenceSequence

    Notes
    -----
    The intervals are valid for outcomes whose mean given the past is constant; they need not be independent or
    identically distributed. Clusters must be independent. In a growing log the mean of an unfinished cluster changes
    between looks: close clusters at a time fixed in advance, or use sessions as clusters. A confidence sequence
    needs 2 to 2.5 times as many queries as a single t test.

    Examples
    --------
    >>> outcomes = np.tile([1, 1, 0, 0, -1], 100)
    >>> seen = confidence_sequence(outcomes, looks=[100, 500])
    >>> seen.lower.round(2), seen.upper.round(2)
    (array([-0.07,  0.08]), array([0.45, 0.31]))
    >>> bool(seen.p_values[-1] < 0.001)
    True
    """
    check_fraction("alpha", alpha)
    values = check_delta(outcomes, "outcomes")
    remedy = "divide by a bound that is known in advance"
    refuse_first("outcomes", values, np.abs(values) > 1 + 1e-9, "a number in [-1, 1]", remedy)
    if clusters is not None:  # clusters are independent, so any order of them is valid
        values = np.random.default_rng(random_state).permutation(cluster_means(values, clusters))
    values = np.clip(values, -1, 1)  # rounding may have moved values beyond 1
    n = len(values)
    given = np.asarray([n] if looks is None else looks)
    at = given.astype(np.int64)
    if (
        at.ndim != 1
        or at.size == 0
        or at[0] < 1
        or at[-1] > n
        or (np.diff(at) <= 0).any()
        or (at != given).any()
    ):
        raise BadInput("looks", f"expected increasing whole numbers from 1 to {n}, got {looks!r:.80}")
    # the capital depends only on the distinct outcomes and their counts; most methods have few distinct outcomes
    counted = [np.unique(values[:t], return_counts=True) for t in at]
    lower, upper, p = np.array([counted_sequence(*each, alpha) for each in counted]).T
    return ConfidenceSequence(at, values.cumsum()[at - 1] / at, lower, upper, p, alpha)


def counted_sequence(values: Float, counts: NDArray[np.int64], alpha: float) -> tuple[float, float, float]:
    """Return the bounds and the p-value of the mean, given the distinct outcomes in [-1, 1] and their counts.

    They equal those of the last look of :func:`confidence_sequence`, which do not depend on the order of the outcomes.
    """
    lower, upper, p = counted_sequences(values, counts, np.array([0, len(values)]), alpha)
    return float(lower[0]), float(upper[0]), float(p[0])


def counted_sequences(
    values: Float, counts: NDArray[np.int64], starts: NDArray[np.int64], alpha: float
) -> tuple[Float, Float, Float]:
    """Return :func:`counted_sequence` of several groups: group ``g`` has the outcomes from ``starts[g]`` on."""
    # compiled functions load numba, which the live service does not need to start
    from structsvm.online.evidence.capitals import bounds

    lower, upper, at_zero = np.empty((3, len(starts) - 1))
    # the bets are defined for outcomes in [0, 1]
    bounds((1 + values) / 2, counts, starts, SHARES, -log(alpha), _WIDTH, lower, upper, at_zero)
    return 2 * lower - 1, 2 * upper - 1, exp(-np.maximum(at_zero, 0.0))


def counted_needed(values: Float, counts: NDArray[np.int64], alpha: float) -> float:
    """Return the number of outcomes at which the p-value of :func:`confidence_sequence` crosses ``alpha``.

    Further outcomes are assumed to have the same distribution as ``values`` with their counts. The number is infinite
    if no bet has positive mean growth.
    """
    bets = np.stack([SHARES, -SHARES], axis=1).reshape(-1, 1)
    # mean growth of the log capital of each bet per outcome; slightly more than half of the experiments need fewer
    # outcomes than this mean predicts
    growth = products(log1p(bets * values), counts) / counts.sum()
    if growth.max() < 1e-12:
        return float("inf")
    from scipy.optimize import brentq

    # The total capital is at least the weighted capital of the best bet, which gives an upper bound on the crossing.
    # The factor above 1 ensures that rounding does not place the bound before the crossing.
    upper = (1 + 1e-9) * (-log(alpha) - _LOG_WEIGHT) / growth.max()
    excess = lambda n: _log_sum(n * growth) + _LOG_WEIGHT + log(alpha)  # noqa: E731
    return float(brentq(excess, 0.0, upper, rtol=1e-6))


def log_capitals(values: Float, counts: NDArray[np.int64], following: Float) -> Float:
    """Return the logarithm of the capital against mean 0 after ``values`` and each further outcome in ``following``."""
    bets = np.concatenate([SHARES, -SHARES])[:, None]
    before = products(log1p(bets * values), counts)
    return np.asarray(_log_sum(before[:, None] + log1p(bets * following).cumsum(axis=1)) + _LOG_WEIGHT)


def _log_sum(logs: Float) -> Any:
    """Return the logarithm of the sum of exponentials over the first axis."""
    largest = logs.max(axis=0)
    return largest + log(exp(logs - largest).sum(axis=0))
