"""Two-sided tests of whether a statistic is centred at zero: binomial sign, z, t and Wilcoxon signed rank test.

Each test has a vectorised implementation along the last axis, which tests thousands of resamples at once.

With clusters (users, sessions), every test uses one value per cluster, the mean of its queries, and tests whether the
mean over clusters is zero. Each cluster counts once, however many queries it has. The level holds for clusters of
different sizes: the cluster means are independent, and Student's t of independent values with mean zero and *different*
variances is conservative at the usual levels (Ibragimov & Mueller 2010, section 2). A mean over queries would be
dominated by the largest cluster, which no standard error corrects. Since all clusters have the same weight, the CR2
standard error of Bell & McCaffrey (2002) equals the ordinary standard error, and its Satterthwaite degrees of freedom
are the number of clusters minus one.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput
from structsvm.metrics.significance import holm, p_values
from structsvm.protocols import Float
from structsvm.queries import refuse_first

DECIMALS = 12
"""Number of decimals to which values are rounded before ties are detected, since the order of a sum changes its last
digits."""


class TestResult(NamedTuple):
    """Result of a two-sided test of whether values are centred at zero; :func:`t_test` describes the fields."""

    statistic: float
    p_value: float
    n: int


TestResult.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test class


def sign_test(delta: ArrayLike, *, clusters: Sequence[Any] | NDArray[Any] | None = None) -> TestResult:
    """Compute the exact binomial sign test; zeros (ties) are left out.

    Parameters and result are as for :func:`t_test`. The sign test is a test of the median. Use it if the statistic is
    symmetric about zero under the hypothesis, as the click difference of team draft is; otherwise test
    :func:`drawn_signs` of the outcomes.

    Examples
    --------
    >>> sign_test([1, 2, 1, -1, 0])
    TestResult(statistic=3.0, p_value=0.625, n=4)
    """
    return as_result(*signs(cluster_means(delta, clusters)))


def z_test(delta: ArrayLike, *, clusters: Sequence[Any] | NDArray[Any] | None = None) -> TestResult:
    """Compute the z test of mean zero, dividing the variance by n, not n - 1 (thesis 7.1.1).

    Parameters and result are as for :func:`t_test`. With clusters, Student's t test of the cluster means is
    used, since the number of clusters is often small. Without clusters, the test requires hundreds of queries: with
    ten queries, one A/A log in ten is significant at level 0.05.

    Examples
    --------
    >>> round(z_test([1, 1, 1, -1]).p_value, 4)
    0.2482
    """
    return _mean_test(delta, clusters, student=clusters is not None)


def t_test(delta: ArrayLike, *, clusters: Sequence[Any] | NDArray[Any] | None = None) -> TestResult:
    """Compute Student's t test of mean zero.

    Parameters
    ----------
    delta : array-like, shape (n_queries,)
        The statistic of each query, positive in favour of the first of the two rankers.
    clusters : sequence, shape (n_queries,), optional
        User or session of each query. The test then uses the mean of each cluster; by default it uses each query.

    Returns
    -------
    TestResult
        ``statistic``: z or t, positive in favour of the first ranker; in the sign test the number of positive values.
        ``p_value``: two-sided; 1 if there are no values or all are zero (in the t and z tests also for a single value),
        and 0 in these two tests if all values are equal and not zero. ``n``: number of values (queries or clusters),
        excluding zeros in the sign and Wilcoxon tests.

    Notes
    -----
    The mean over ``G`` clusters has ``G - 1`` degrees of freedom. The level holds for clusters of any sizes
    (Ibragimov & Mueller, t-statistic based correlation and heterogeneity robust inference, JBES 2010).

    Examples
    --------
    >>> t_test([1, 1, 1, -1])
    TestResult(statistic=1.0, p_value=0.391..., n=4)
    """
    return _mean_test(delta, clusters, student=True)


def wilcoxon_test(delta: ArrayLike, *, clusters: Sequence[Any] | NDArray[Any] | None = None) -> TestResult:
    """Compute the Wilcoxon signed rank test by its normal approximation (thesis 7.1.1); zeros are left out.

    Parameters and result are as for :func:`t_test`.

    Notes
    -----
    ``W = sum sign(delta) r`` has variance ``sum r^2`` given the ranks, ties included. Use the sign test for fewer than
    about twenty values that are not zero. The test keeps its level if the statistic is symmetric about zero under the
    hypothesis, which a mean of zero does not imply.

    Examples
    --------
    >>> wilcoxon_test([1, 2, 3, -1])
    TestResult(statistic=1.288..., p_value=0.197..., n=4)
    """
    return as_result(*signed_ranks(cluster_means(delta, clusters)))


TESTS: dict[str, Callable[..., TestResult]] = {
    "sign": sign_test,
    "z": z_test,
    "t": t_test,
    "wilcoxon": wilcoxon_test,
}
"""The tests by name."""


def benjamini_hochberg(p: ArrayLike) -> Float:
    """Return Benjamini and Hochberg's adjusted p-values, which bound the expected share of false rejections.

    The share is at most alpha for independent or positively dependent comparisons (JRSS B 1995).
    """
    from scipy.stats import false_discovery_control

    values = p_values(p)
    return np.asarray(false_discovery_control(values)) if len(values) else values


CORRECTIONS: dict[str, Callable[[ArrayLike], Float]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "none": p_values,  # valid for a single comparison that was chosen before the data were collected
}
"""Corrections by name."""


def as_result(statistic: Any, p: Any, n: Any) -> TestResult:
    """Return a test result as Python numbers."""
    return TestResult(float(statistic), float(p), int(n))


def check_delta(delta: ArrayLike) -> Float:
    """Return the statistic as a vector; raise BadInput unless it is one-dimensional, non-empty and finite."""
    values = np.asarray(delta, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise BadInput("delta", f"expected one value per query, got shape {values.shape}")
    refuse_first("delta", values, ~np.isfinite(values), "a finite number")
    return values


def cluster_means(delta: ArrayLike, clusters: Sequence[Any] | NDArray[Any] | None) -> Float:
    """Return the independent values that a test uses: the cluster means, or ``delta`` without clusters."""
    values = check_delta(delta)
    if clusters is None:
        return values
    if len(clusters) != len(values):
        raise BadInput("clusters", f"expected one id for each of {len(values)} queries, got {len(clusters)}")
    if isinstance(clusters, np.ndarray) and clusters.dtype.kind in "iu":
        numbers: Any = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    else:  # ids of any type, in the order of their first appearance
        known: dict[Any, int] = {}
        numbers = np.array([known.setdefault(c, len(known)) for c in clusters], dtype=np.int64)
    return np.asarray(np.bincount(numbers, values) / np.bincount(numbers), dtype=np.float64)


def drawn_signs(outcomes: ArrayLike, rng: np.random.Generator | int | None) -> Float:
    """Sample a win (1), loss (-1) or tie (0) for each outcome ``x``: its sign with probability ``|x|``, otherwise 0."""
    # The sign of an outcome may favour a ranker although the outcome has mean zero, if there are many small wins and
    # few large losses. A randomised sign does not: wins and losses are equally likely if and only if the mean outcome
    # is zero. Outcomes of -1, 0 and 1 do not change.
    values = np.round(np.asarray(outcomes, dtype=np.float64), DECIMALS)
    refuse_first("outcomes", values, ~(np.abs(values) <= 1), "a number in [-1, 1]")
    drawn = np.random.default_rng(rng).random(values.shape) < np.abs(values)
    return np.where(drawn, np.sign(values), 0.0)


def sign_generator(random_state: int, k: int) -> np.random.Generator:
    """Return the generator that randomises the wins and losses of pair ``k``."""
    # each pair has its own generator, so that a growing log, which adds to all pairs in turn, has the same signs as a
    # log that is read at once
    return np.random.default_rng([random_state, k] if k else random_state)


def _mean_test(
    delta: ArrayLike, clusters: Sequence[Any] | NDArray[Any] | None, *, student: bool
) -> TestResult:
    values = cluster_means(delta, clusters)
    n = len(values)
    error = values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    if not student:
        error *= np.sqrt((n - 1) / n)
    return as_result(*mean_p(values.mean(), error, n, student), n)


def mean_p(mean: Any, error: Any, n: int, student: bool) -> tuple[Float, Float]:
    """Return the statistic and two-sided p-value of means with standard errors, elementwise."""
    from scipy.special import ndtr, stdtr

    mean, error = np.asarray(mean), np.asarray(error)
    # if the mean is zero, the statistic is 0 whatever the error; if all values are equal and not zero, it is infinite
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(mean == 0, 0.0, mean / error)
    statistic = np.where(np.isnan(statistic), 0.0, statistic)
    tail = stdtr(max(n - 1, 1), -np.abs(statistic)) if student else ndtr(-np.abs(statistic))
    return statistic, np.where(n < 2, 1.0, 2 * tail)


def signs(values: Float) -> tuple[Float, Float, Float]:
    """Return the number of positive values, the p-value and the number of non-zero values along the last axis."""
    values = np.round(values, DECIMALS)
    return sign_p((values > 0).sum(axis=-1), (values != 0).sum(axis=-1))


def sign_p(positive: Any, n: Any) -> tuple[Float, Float, Float]:
    """Return the two-sided exact p-value of ``positive`` out of ``n`` fair coin flips, elementwise."""
    from scipy.special import bdtr

    positive, n = np.asarray(positive), np.asarray(n)
    # twice the smaller tail of the binomial distribution, at most 1
    fewer = np.minimum(positive, n - positive)
    p = np.where(n == 0, 1.0, np.minimum(2 * bdtr(fewer, np.maximum(n, 1), 0.5), 1.0))
    return np.asarray(positive, dtype=np.float64), p, np.asarray(n, dtype=np.float64)


def signed_ranks(values: Float) -> tuple[Float, Float, Float]:
    """Return z of Wilcoxon's W, the p-value and the number of non-zero values along the last axis."""
    from scipy.special import ndtr
    from scipy.stats import rankdata

    values = np.round(values, DECIMALS)
    n = (values != 0).sum(axis=-1)
    zeros = values.shape[-1] - n
    # zeros have the lowest ranks and are excluded, which lowers all other ranks by the number of zeros
    ranks = np.where(values == 0, 0.0, rankdata(np.abs(values), axis=-1) - zeros[..., None])
    W, variance = (np.sign(values) * ranks).sum(axis=-1), (ranks**2).sum(axis=-1)
    z = W / np.sqrt(np.where(n == 0, 1.0, variance))
    return z, np.where(n == 0, 1.0, 2 * ndtr(-np.abs(z))), n
