"""Estimate the number of queries needed for a p-value by resampling, as in Yue's thesis (Figs 7.2-7.4)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtr
from scipy.stats import rankdata

from structsvm.common.checks import BadInput, check_choice, check_fraction, check_whole
from structsvm.common.portable.elementary import log
from structsvm.metrics.tests import DECIMALS, RANKED, sign_p, wilcoxon
from structsvm.online.evidence.clusters import check_delta
from structsvm.online.statistics.significance import TESTS
from structsvm.protocols import Float

_CELLS = 1 << 21
"""Maximum number of resampled values in memory at a time (16 MB)."""


@dataclass(frozen=True)
class SampleSizeCurve:
    """The p-value that a share ``power`` of the experiments of each size reaches."""

    sizes: NDArray[np.int64]
    p_values: Float
    test: str
    power: float

    def needed(self, target: float) -> float:
        """Return the queries after which the p-value is at most ``target``; infinity if no size reached it.

        The result is the first crossing, interpolated linearly in the logarithm of p between sizes.
        """
        check_fraction("target", target)
        reached = np.flatnonzero(self.p_values <= target)
        if reached.size == 0:
            return float("inf")
        k = int(reached[0])
        if k == 0:
            return float(self.sizes[0])
        above, below = log(np.maximum(self.p_values[[k - 1, k]], 1e-300))
        share = (above - log(target)) / (above - below)
        return float(self.sizes[k - 1] + share * (self.sizes[k] - self.sizes[k - 1]))


def sample_size_curve(
    delta: ArrayLike,
    *,
    test: str = "t",
    sizes: ArrayLike | None = None,
    power: float = 0.5,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> SampleSizeCurve:
    """Resample the queries at growing sizes (25, 50, ... by default) and record the p-values (thesis Figs 7.2-7.4).

    The resamples of all sizes are prefixes of one long resample (with replacement), so the curve is smooth. Sizes
    larger than the data treat the data as the population.
    """
    values = check_delta(delta)
    check_choice("test", test, TESTS)
    check_fraction("power", power)
    check_whole("n_resamples", n_resamples)
    if sizes is None:
        if len(values) < 25:
            raise BadInput(
                "sizes", f"{len(values)} queries are too few for the default, 25, 50, ...", "give sizes"
            )
        sizes = np.arange(25, len(values) + 1, 25)
    grid = np.asarray(sizes, dtype=np.int64)
    if grid.ndim != 1 or grid.size == 0 or grid[0] < 2 or (np.diff(grid) <= 0).any():
        raise BadInput("sizes", f"expected increasing integers >= 2, got {sizes!r:.80}")
    rng = np.random.default_rng(random_state)
    longest = int(grid[-1])
    p = np.empty((n_resamples, grid.size))
    step = max(1, _CELLS // longest)
    for start in range(0, n_resamples, step):
        # as many resamples at once as fit in memory
        rows = p[start : start + step]
        drawn = values[rng.integers(len(values), size=(len(rows), longest))]
        rows[:] = _p_values(drawn, grid, test)
    return SampleSizeCurve(grid, np.quantile(p, power, axis=0, method="inverted_cdf"), test, power)


def _p_values(drawn: Float, sizes: NDArray[np.int64], test: str) -> Float:
    """Return the p-values of the first ``m`` values of every row, for every ``m`` of ``sizes``."""
    if test == "wilcoxon":
        return np.column_stack([signed_ranks(drawn[:, :m]) for m in sizes])
    last = sizes - 1
    if test == "sign":
        drawn = np.round(drawn, DECIMALS)
        positive, n = (drawn > 0).cumsum(axis=1)[:, last], (drawn != 0).cumsum(axis=1)[:, last]
        return sign_p(positive, n)
    # moments of all prefixes from running sums, so that each resample is read once
    mean = drawn.cumsum(axis=1)[:, last] / sizes
    square = (drawn**2).cumsum(axis=1)[:, last] / sizes
    variance = square - mean**2
    # if all values are equal, the variance is zero up to cancellation
    variance[variance < 1e-14 * square] = 0.0
    student = test == "t"
    error = np.sqrt(variance / (sizes - student))
    columns = [mean_p(mean[:, k], error[:, k], int(m), student) for k, m in enumerate(sizes)]
    return np.column_stack(columns)


def mean_p(mean: Any, error: Any, n: int, student: bool) -> Float:
    """Return two-sided p-values of means with standard errors by the t or z test, elementwise; 1 for mean zero.

    For small samples ``structsvm.metrics.tests`` is exact instead.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(np.asarray(mean) == 0, 0.0, np.asarray(mean) / error)
    return 2 * (stdtr(n - 1, -np.abs(statistic)) if student else ndtr(-np.abs(statistic)))


def signs(values: Float) -> Float:
    """Return p-values of the sign test."""
    values = np.round(values, DECIMALS)
    return sign_p((values > 0).sum(axis=-1), (values != 0).sum(axis=-1))


def signed_ranks(values: Float) -> Float:
    """Return p-values of the rows by Wilcoxon's signed rank test."""
    values = np.round(values, DECIMALS)
    n = (values != 0).sum(axis=-1)
    zeros = values.shape[-1] - n
    # zeros have the lowest ranks and are excluded, which lowers all other ranks by the number of zeros
    ranks = np.where(values == 0, 0.0, rankdata(np.abs(values), axis=-1) - zeros[..., None])
    W, variance = (np.sign(values) * ranks).sum(axis=-1), (ranks**2).sum(axis=-1)
    p = 2 * ndtr(-np.abs(W) / np.sqrt(np.where(n == 0, 1.0, variance)))
    for row in np.flatnonzero(n <= RANKED):
        p[row] = wilcoxon(values[row]).p_value
    return p
