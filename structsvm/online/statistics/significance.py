"""Is a test statistic centred at zero? Binomial sign, z, t and Wilcoxon signed rank test, two-sided.

One vectorised function a test: values along the last axis, so that thousands of resamples go at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.protocols import Float

__all__ = [
    "TESTS",
    "TestResult",
    "check_delta",
    "cluster_sums",
    "sign_test",
    "standard_error",
    "t_test",
    "wilcoxon_test",
    "z_test",
]

# sums of the same weights in another order differ in the last digits; that is neither a win nor an own rank
_DECIMALS = 12


class TestResult(NamedTuple):
    """The outcome of a two-sided test of "centred at zero".

    Attributes
    ----------
    statistic : float
        Sign test: number of positive values. The others: z or t, positive in favour of the own ranker.
    p_value : float
        1 where nothing can be said (no value, or all zero).
    n : int
        Values the p-value rests on: queries (or clusters); sign and Wilcoxon: those that are not zero.
    """

    statistic: float
    p_value: float
    n: int


TestResult.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test class


def sign_test(delta: ArrayLike, *, clusters: Sequence[Any] | None = None) -> TestResult:
    """Exact binomial sign test; zeros (ties) are left out.

    Parameters
    ----------
    delta : array-like, shape (n_queries,)
        The test statistic of every query, positive in favour of the own ranker.
    clusters : sequence, shape (n_queries,), optional
        User or session of every query: then the signs of the clusters' sums are counted.

    Returns
    -------
    TestResult

    Examples
    --------
    >>> sign_test([1, 2, 1, -1, 0])
    TestResult(statistic=3.0, p_value=0.625, n=4)
    """
    statistic, p, n = signs(_units(delta, clusters))
    return TestResult(float(statistic), float(p), int(n))


def z_test(delta: ArrayLike, *, clusters: Sequence[Any] | None = None) -> TestResult:
    """Mean over its standard error, against the normal distribution (thesis 7.1.1: variance over n, not n - 1).

    Parameters
    ----------
    delta : array-like, shape (n_queries,)
    clusters : sequence, shape (n_queries,), optional
        User or session of every query: cluster-robust standard error.

    Returns
    -------
    TestResult

    Examples
    --------
    >>> round(z_test([1, 1, 1, -1]).p_value, 4)
    0.2482
    """
    return _mean_test(delta, clusters, student=False)


def t_test(delta: ArrayLike, *, clusters: Sequence[Any] | None = None) -> TestResult:
    """Student's t test of mean zero.

    Parameters
    ----------
    delta : array-like, shape (n_queries,)
    clusters : sequence, shape (n_queries,), optional
        User or session of every query: cluster-robust standard error, degrees of freedom clusters minus one.

    Returns
    -------
    TestResult
        p-value 1 for fewer than two values; 0 for equal values other than zero.

    Notes
    -----
    With clusters the variance of the mean is ``G/(G-1) sum_g (sum of residuals of g)^2 / n^2`` (Liang & Zeger
    1986, with the correction for few clusters); one query a cluster gives the ordinary test.

    Examples
    --------
    >>> t_test([1, 1, 1, -1])
    TestResult(statistic=1.0, p_value=0.391..., n=4)
    """
    return _mean_test(delta, clusters, student=True)


def wilcoxon_test(delta: ArrayLike, *, clusters: Sequence[Any] | None = None) -> TestResult:
    """Wilcoxon signed rank test by its normal approximation (thesis 7.1.1); zeros are left out.

    Parameters
    ----------
    delta : array-like, shape (n_queries,)
    clusters : sequence, shape (n_queries,), optional
        User or session of every query: then the clusters' sums are ranked.

    Returns
    -------
    TestResult

    Notes
    -----
    ``W = sum sign(delta) r`` has variance ``sum r^2`` given the ranks, ties included. Below some twenty values
    that are not zero take the sign test.

    Examples
    --------
    >>> wilcoxon_test([1, 2, 3, -1])
    TestResult(statistic=1.288..., p_value=0.197..., n=4)
    """
    statistic, p, n = signed_ranks(_units(delta, clusters))
    return TestResult(float(statistic), float(p), int(n))


TESTS: dict[str, Callable[..., TestResult]] = {
    "sign": sign_test,
    "z": z_test,
    "t": t_test,
    "wilcoxon": wilcoxon_test,
}
"""The tests by name."""


def check_delta(delta: ArrayLike) -> Float:
    """The statistic as a vector; ValueError unless one-dimensional, not empty and finite."""
    values = np.asarray(delta, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"delta: expected one value a query, got shape {values.shape}")
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"delta[{at}]: expected a finite number, got {values[at]}")
    return values


def cluster_numbers(clusters: Sequence[Any], n: int) -> NDArray[np.int64]:
    """Clusters numbered by first appearance, (n,)."""
    if len(clusters) != n:
        raise ValueError(f"clusters: expected one id for each of {n} queries, got {len(clusters)}")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(c, len(numbers)) for c in clusters], dtype=np.int64)


def cluster_sums(delta: ArrayLike, clusters: Sequence[Any]) -> tuple[Float, Float]:
    """Sum and size of every cluster, in the order of first appearance.

    Examples
    --------
    >>> cluster_sums([1, 2, 3], ["b", "a", "b"])
    (array([4., 2.]), array([2., 1.]))
    """
    values = check_delta(delta)
    numbers = cluster_numbers(clusters, len(values))
    sums = np.bincount(numbers, values).astype(np.float64)
    return sums, np.bincount(numbers).astype(np.float64)


def _units(delta: ArrayLike, clusters: Sequence[Any] | None) -> Float:
    return check_delta(delta) if clusters is None else cluster_sums(delta, clusters)[0]


def standard_error(delta: Float, clusters: Sequence[Any] | None) -> tuple[float, int]:
    """Standard error of the mean and number of independent units; NaN for a single unit."""
    residuals = delta - delta.mean()
    if clusters is not None:
        residuals = cluster_sums(residuals, clusters)[0]
    units = len(residuals)
    if units < 2:
        return np.nan, units
    return float(np.sqrt(units / (units - 1) * (residuals @ residuals)) / len(delta)), units


def _mean_test(delta: ArrayLike, clusters: Sequence[Any] | None, *, student: bool) -> TestResult:
    values = check_delta(delta)
    error, units = standard_error(values, clusters)
    if not student:
        error *= np.sqrt((units - 1) / units)
    statistic, p = mean_p(np.float64(values.mean()), np.float64(error), units, student)
    return TestResult(float(statistic), float(p), units)


def mean_p(mean: Any, error: Any, n: int, student: bool) -> tuple[Float, Float]:
    """Statistic and two-sided p-value of means with standard errors, elementwise."""
    from scipy.special import ndtr, stdtr

    mean, error = np.asarray(mean), np.asarray(error)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(mean == 0, 0.0, mean / error)
    statistic = np.where(np.isnan(statistic), 0.0, statistic)
    tail = stdtr(max(n - 1, 1), -np.abs(statistic)) if student else ndtr(-np.abs(statistic))
    return statistic, np.where(n < 2, 1.0, 2 * tail)


def signs(values: Float) -> tuple[Float, Float, Float]:
    """Positive values, p-value and non-zero values along the last axis."""
    values = np.round(values, _DECIMALS)
    return sign_p((values > 0).sum(axis=-1), (values != 0).sum(axis=-1))


def sign_p(positive: Any, n: Any) -> tuple[Float, Float, Float]:
    """Two-sided exact p-value of ``positive`` out of ``n`` fair coin flips, elementwise."""
    from scipy.special import bdtr

    positive, n = np.asarray(positive), np.asarray(n)
    fewer = np.minimum(positive, n - positive)
    p = np.where(n == 0, 1.0, np.minimum(2 * bdtr(fewer, np.maximum(n, 1), 0.5), 1.0))
    return np.asarray(positive, dtype=np.float64), p, np.asarray(n, dtype=np.float64)


def signed_ranks(values: Float) -> tuple[Float, Float, Float]:
    """z of Wilcoxon's W, p-value and non-zero values along the last axis."""
    from scipy.special import ndtr
    from scipy.stats import rankdata

    values = np.round(values, _DECIMALS)
    n = (values != 0).sum(axis=-1)
    zeros = values.shape[-1] - n
    # zeros have the lowest |values|: without them every other rank is lower by their number
    ranks = np.where(values == 0, 0.0, rankdata(np.abs(values), axis=-1) - zeros[..., None])
    W, variance = (np.sign(values) * ranks).sum(axis=-1), (ranks**2).sum(axis=-1)
    z = W / np.sqrt(np.where(n == 0, 1.0, variance))
    return z, np.where(n == 0, 1.0, 2 * ndtr(-np.abs(z))), n
