"""Sample size: the number of queries needed to reach a p-value, by the normal approximation."""

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import check_fraction
from structsvm.online.evidence.clusters import check_delta, cluster_means


def queries_needed(
    delta: ArrayLike,
    *,
    alpha: float = 0.05,
    power: float = 0.5,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
) -> float:
    """Return the number of queries for which a z test at level ``alpha`` has the given power, if the data are typical.

    Parameters
    ----------
    delta : array-like, shape (n_queries,)
        The statistic of each query.
    alpha : float, default=0.05
        Level of the two-sided test.
    power : float, default=0.5
        Probability that the test rejects; with 0.5 the median p-value reaches ``alpha``.
    clusters : sequence, optional
        User or session of every query. The mean is then taken over clusters, each counted once, and the number of
        queries per cluster is assumed to stay as in the data.

    Returns
    -------
    float
        ``(z_(1-alpha/2) + z_power)^2 variance / mean^2``, at least ``1 - log2(alpha)``, since no exact test reaches
        ``alpha`` with fewer queries; infinity if the mean is zero or there are fewer than two queries (clusters).

    Notes
    -----
    The observed effect is used as the true effect. An effect that is not yet significant is known only up to a factor,
    and the number of queries only up to the square of this factor.

    Examples
    --------
    The two features of thesis 7.2 (three clicks, the last of which favours the better ranker with
    probability 0.6, the others with probability 0.5):

    >>> import numpy as np
    >>> last = np.repeat([1, -1], [12, 8])
    >>> others = np.tile([2, 0, 0, -2], 5)
    >>> round(queries_needed(last + others)), round(queries_needed(last))
    (284, 92)
    """
    check_fraction("alpha", alpha)
    check_fraction("power", power)
    values = check_delta(delta)
    units = cluster_means(values, clusters)
    needed = units_needed(float(units.mean()), float(units.var()), len(units), alpha, power)
    return needed * len(values) / len(units)


def units_needed(mean: float, variance: float, n: int, alpha: float, power: float) -> float:
    """Return :func:`queries_needed` in units (queries or clusters), given the mean and variance of ``n`` units."""
    from scipy.special import ndtri

    if mean == 0 or n < 2:
        return float("inf")
    reach = max(float(ndtri(1 - alpha / 2) + ndtri(power)), 0.0)
    return max(reach**2 * variance / mean**2, 1.0 - math.log2(alpha))
