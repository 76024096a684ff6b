"""Tests of whether a statistic is centred at zero, over queries or clusters: sign, z, t and signed rank test.

With clusters (users, sessions), every test uses one value per cluster, the mean of its queries, and tests whether the
mean over clusters is zero. Each cluster counts once, however many queries it has. The level holds for clusters of
different sizes: the cluster means are independent, and Student's t of independent values with mean zero and *different*
variances is conservative at the usual levels (Ibragimov & Mueller 2010, section 2). A mean over queries would be
dominated by the largest cluster, which no standard error corrects. Since all clusters have the same weight, the CR2
standard error of Bell & McCaffrey (2002) equals the ordinary standard error, and its Satterthwaite degrees of freedom
are the number of clusters minus one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.metrics import tests
from structsvm.metrics.tests import TestResult
from structsvm.online.evidence.clusters import cluster_means
from structsvm.protocols import Float
from structsvm.queries import refuse_first


def sign_test(delta: ArrayLike, *, clusters: Sequence[Any] | NDArray[Any] | None = None) -> TestResult:
    """Compute the exact binomial sign test; zeros (ties) are left out.

    Parameters and result are as for :func:`t_test`. The sign test is a test of the median. Use it if the statistic is
    symmetric about zero under the hypothesis, as the click difference of team draft is; otherwise test
    :func:`drawn_signs` of the outcomes.

    Examples
    --------
    >>> sign_test([1, 2, 1, -1, 0])
    TestResult(statistic=3.0, p_value=0.625, n=4, test='sign')
    """
    return tests.sign(cluster_means(delta, clusters))


def z_test(delta: ArrayLike, *, clusters: Sequence[Any] | NDArray[Any] | None = None) -> TestResult:
    """Compute the z test of mean zero, dividing the variance by n, not n - 1 (thesis 7.1.1).

    Parameters and result are as for :func:`t_test`. With clusters, Student's t test of the cluster means is
    used, since the number of clusters is often small. Without clusters, the test requires hundreds of queries.

    Examples
    --------
    >>> round(z_test([1, 2, 2, -1]).p_value, 4)
    0.1025
    """
    values = cluster_means(delta, clusters)
    return tests.normal(values) if clusters is None else tests.student(values)


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
        ``statistic``: z, t or the sum of signed ranks, positive in favour of the first ranker; in the sign test the
        number of positive values. ``p_value``: two-sided; 1 if all values are zero. ``n``: number of values (queries or
        clusters), excluding zeros in the sign and Wilcoxon tests. ``test``: name of the test. If all values are equal,
        and for fewer than 30 values other than zero that differ only in their signs, it is the sign test, as the t and
        z tests would exceed their level.

    Notes
    -----
    The mean over ``G`` clusters has ``G - 1`` degrees of freedom. The level holds for clusters of any sizes
    (Ibragimov & Mueller, t-statistic based correlation and heterogeneity robust inference, JBES 2010).

    Examples
    --------
    >>> t_test([1, 2, 2, -1])
    TestResult(statistic=1.414..., p_value=0.252..., n=4, test='t')
    """
    return tests.student(cluster_means(delta, clusters))


def wilcoxon_test(delta: ArrayLike, *, clusters: Sequence[Any] | NDArray[Any] | None = None) -> TestResult:
    """Compute the Wilcoxon signed rank test, as :func:`structsvm.metrics.compare` does; zeros are left out.

    Parameters and result are as for :func:`t_test`.

    Notes
    -----
    The p-value is exact for up to 50 values that are not zero, with and without ties. For more, it is that of the
    normal approximation (thesis 7.1.1): the sum of the signed ranks has variance ``sum r^2`` given the ranks. The test
    keeps its level if the statistic is symmetric about zero under the hypothesis, which a mean of zero does not imply.

    Examples
    --------
    >>> wilcoxon_test([1, 2, 3, -1])
    TestResult(statistic=7.0, p_value=0.375, n=4, test='wilcoxon')
    """
    return tests.wilcoxon(cluster_means(delta, clusters))


TESTS: dict[str, Callable[..., TestResult]] = {
    "sign": sign_test,
    "z": z_test,
    "t": t_test,
    "wilcoxon": wilcoxon_test,
}
"""The tests by name."""


CORRECTIONS: dict[str, Callable[[ArrayLike], Float]] = {
    "holm": tests.holm,
    "bh": tests.benjamini_hochberg,
    "none": tests.p_values,  # valid for a single comparison that was chosen before the data were collected
}
"""Corrections by name."""


def drawn_signs(outcomes: ArrayLike, rng: np.random.Generator | int | None) -> Float:
    """Sample a win (1), loss (-1) or tie (0) for each outcome ``x``: its sign with probability ``|x|``, otherwise 0."""
    # The sign of an outcome may favour a ranker although the outcome has mean zero, if there are many small wins and
    # few large losses. A randomised sign does not: wins and losses are equally likely if and only if the mean outcome
    # is zero. Outcomes of -1, 0 and 1 do not change.
    values = np.round(np.asarray(outcomes, dtype=np.float64), tests.DECIMALS)
    refuse_first("outcomes", values, ~(np.abs(values) <= 1), "a number in [-1, 1]")
    drawn = np.random.default_rng(rng).random(values.shape) < np.abs(values)
    return np.where(drawn, np.sign(values), 0.0)


def sign_generator(random_state: int, k: int) -> np.random.Generator:
    """Return the generator that randomises the wins and losses of pair ``k``."""
    # each pair has its own generator, so that a growing log, which adds to all pairs in turn, has the same signs as a
    # log that is read at once
    return np.random.default_rng([random_state, k] if k else random_state)
