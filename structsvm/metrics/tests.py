"""Tests of whether values are centred at zero, corrections for several tests, and a mean with its interval.

Every test of values per query, and every t interval of their mean, is computed here. Values may be given as distinct
values with ``counts``, the number of times that each occurs.

Below :data:`EXACT` values that are not zero, the approximations of the t and z tests may exceed their level: of seven
fair coins, six or more are equal with probability 1/8, and the t test then reports p = 0.047 or less. The
randomization and the sign test are exact: if each value is as likely as its negative, all sign vectors of the absolute
values have the same probability, and the p-value is the share of those with a statistic at least as extreme.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.common.portable.arrays import dot
from structsvm.protocols import Float, Int
from structsvm.queries import refuse_first

DECIMALS, ROUNDING = 12, 1e-12
"""Number of decimals to which values are rounded before signs, ranks and ties are determined, since the order of a sum
changes its last digits; and the same as a relative rounding error."""

EXACT = 30
"""Number of values that are not zero from which the t and z tests are used, and from which the randomization test
samples sign vectors. Below it, that test enumerates the sums of two halves of the values, at most 2**15 each."""

RANKED = 50
"""Largest number of values that are not zero for which the signed rank test is exact, as in SciPy."""

UNBOUNDED = (-math.inf, math.inf)

_BLOCK = 1 << 20
"""Number of random signs that the randomization test draws at once."""


class TestResult(NamedTuple):
    """Result of a two-sided test of whether values are centred at zero.

    ``statistic`` is positive if the values favour positive numbers, except in the sign test: there it is the number of
    positive values. ``n`` is the number of values, without zeros in the sign and the signed rank test. ``test`` is the
    name of the test.
    """

    statistic: float
    p_value: float
    n: int
    test: str

    @property
    def direction(self) -> int:
        """The sign of the effect: 1, -1, or 0 if there is none."""
        centre = self.n / 2 if self.test == "sign" else 0.0
        return (self.statistic > centre) - (self.statistic < centre)


TestResult.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test class


class Mean(NamedTuple):
    """A mean with its standard error and degrees of freedom; the error is NaN if the values have no spread."""

    mean: float
    error: float
    df: float

    def half(self, level: float) -> float:
        """Return half the width of Student's t interval of the mean at confidence ``level``."""
        from scipy.special import stdtrit

        return self.error * float(stdtrit(self.df, (1.0 + level) / 2.0)) if self.df > 0 else math.nan

    def interval(self, level: float, bounds: tuple[float, float] = UNBOUNDED) -> tuple[float, float]:
        """Return Student's t interval, clipped to the range of the values; NaN if the values have no spread."""
        half = self.half(level)
        if math.isnan(half):
            return math.nan, math.nan
        return max(bounds[0], self.mean - half), min(bounds[1], self.mean + half)

    def student(self) -> tuple[float, float]:
        """Return t and its two-sided p-value; NaN and 1 if the values have no spread."""
        from scipy.special import stdtr

        if math.isnan(self.error):
            return math.nan, 1.0
        t = self.mean / self.error
        return t, float(2.0 * stdtr(self.df, -abs(t)))


def mean_of(
    values: Float, weights: Float | None = None, *, counts: Int | None = None, wider: float = 1.0
) -> Mean:
    """Return the mean with its standard error multiplied by ``wider``.

    Let p be the normalised weights, all positive. The squared error is ``n/(n-1) sum p^2 (x - mean)^2`` and the degrees
    of freedom are ``1/sum p^2 - 1``, which are the standard formulas if the weights are equal.
    """
    # without the limit, the rounding of equal values would be taken for spread
    flat = float(np.ptp(values)) <= ROUNDING * float(np.abs(values).max())
    n = values.size if counts is None else int(counts.sum())
    if counts is not None:
        mean = dot(values, counts) / n
        error = math.nan if flat else math.sqrt(dot((values - mean) ** 2, counts) / (n - 1) / n)
        return Mean(mean, wider * error, n - 1)
    if weights is None:
        error = math.nan if flat else float(values.std(ddof=1)) / math.sqrt(n)
        return Mean(float(values.mean()), wider * error, n - 1)
    # 1/sum p^2 is Kish's effective number of queries, which is n for equal weights
    p = weights / weights.sum()
    mean = float(dot(p, values))
    off = p * (values - mean)
    error = math.nan if flat else math.sqrt(n / (n - 1) * dot(off, off))
    return Mean(mean, wider * error, 1.0 / float(dot(p, p)) - 1.0)


def sign(values: Float, counts: Int | None = None) -> TestResult:
    """Return the exact binomial sign test; zeros (ties) are left out."""
    values, counts = _nonzero(values, counts)
    return sign_of_counts(int(counts[values > 0].sum()), int(counts[values < 0].sum()))


def sign_of_counts(positive: int, negative: int) -> TestResult:
    """Return the sign test of numbers of positive and negative values."""
    n = positive + negative
    return TestResult(float(positive), float(sign_p(positive, n)), n, "sign")


def student(values: Float, counts: Int | None = None) -> TestResult:
    """Return Student's t test of mean zero, or the sign test if the values are few and differ only in sign."""
    return _of_mean(values, counts, "t")


def normal(values: Float, counts: Int | None = None) -> TestResult:
    """Return the z test of mean zero, which divides the variance by n, or the sign test as :func:`student`."""
    return _of_mean(values, counts, "z")


def _of_mean(values: Float, counts: Int | None, test: str) -> TestResult:
    from scipy.special import ndtr

    found = mean_of(values, counts=counts)
    # if all values have the same magnitude, a t or z statistic depends only on the number of positive values
    if math.isnan(found.error) or (_one_size(values) and n_nonzero(values, counts) < EXACT):
        return sign(values, counts)
    statistic, p_value = found.student()
    n = values.size if counts is None else int(counts.sum())
    if test == "z":
        statistic *= math.sqrt(n / (n - 1))
        p_value = float(2.0 * ndtr(-abs(statistic)))
    return TestResult(statistic, p_value, n, test)


def wilcoxon(values: Float, counts: Int | None = None) -> TestResult:
    """Return Wilcoxon's signed rank test; zeros are left out, and equal absolute values share their mean rank.

    The statistic is the sum of the signed ranks. Its p-value is exact up to :data:`RANKED` values, with and without
    ties; for more values, it is that of the normal distribution with the variance of the sum given the ranks.
    """
    from scipy.special import ndtr

    values, counts = _nonzero(values, counts)
    size, which = np.unique(np.abs(values), return_inverse=True)
    alike = np.bincount(which, counts, minlength=size.size)
    # the mean rank of a group is its last rank minus half of (group size - 1)
    rank = np.cumsum(alike) - (alike - 1) / 2
    n, W = int(counts.sum()), dot(np.sign(values) * rank[which], counts)
    if n > RANKED:
        return TestResult(W, float(2.0 * ndtr(-abs(W) / math.sqrt(dot(rank**2, alike)))), n, "wilcoxon")
    doubled = np.repeat(np.rint(2 * rank), alike.astype(np.int64)).astype(np.int64)
    # share[s]: share of the sign vectors whose positive doubled ranks sum to s
    share = np.zeros(int(doubled.sum()) + 1)
    share[0] = 1.0
    for step in doubled:
        half = share / 2
        share = half.copy()
        share[step:] += half[:-step]
    # W is far from 0 if the smaller of the rank sums is small: (total - |2W|) / 2 in doubled ranks
    smaller = (int(doubled.sum()) - abs(round(2 * W))) // 2
    return TestResult(W, min(1.0, 2.0 * float(share[: smaller + 1].sum())), n, "wilcoxon")


def randomization(
    values: Float, counts: Int | None = None, *, n_resamples: int = 10_000, random_state: int = 0
) -> TestResult:
    """Return Fisher's randomization test, which flips the signs of the values; the statistic is their mean.

    It is exact below :data:`EXACT` values that are not zero. For more, ``n_resamples`` sign vectors are drawn, and the
    observed one is added to them.
    """
    n = values.size if counts is None else int(counts.sum())
    values, counts = _nonzero(values, counts)
    values = np.repeat(values, counts)
    total = float(values.sum())
    if values.size < EXACT:
        return TestResult(total / n, _flipped(np.abs(values), total), n, "randomization")
    rng = np.random.default_rng(random_state)
    observed = abs(total) * (1.0 - ROUNDING)
    as_far, step = 0, max(1, _BLOCK // values.size)
    for start in range(0, n_resamples, step):
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(min(step, n_resamples - start), values.size))
        as_far += int((np.abs((signs * np.abs(values)).sum(axis=1)) >= observed).sum())
    return TestResult(total / n, (1 + as_far) / (1 + n_resamples), n, "randomization")


def _flipped(sizes: Float, total: float) -> float:
    """Return the share of all sign vectors for which ``|signs @ sizes|`` is at least ``|total|``."""
    # sums of each half of the values: a pair of them is a sum of all values
    halves = [np.zeros(1), np.zeros(1)]
    for k, size in enumerate(sizes):
        halves[k % 2] = np.concatenate((halves[k % 2] - size, halves[k % 2] + size))
    one, other = np.sort(halves[0]), halves[1]
    # sums that differ by rounding only are equal
    reach = abs(total) - 1e-10 * float(sizes.sum())
    above = one.size * other.size - int(np.searchsorted(one, reach - other).sum())
    return min(1.0, 2.0 * above / (one.size * other.size))


def sign_p(positive: object, n: object) -> Float:
    """Return the two-sided exact p-value of ``positive`` out of ``n`` fair coin flips, elementwise."""
    from scipy.special import bdtr

    positive, n = np.asarray(positive), np.asarray(n)
    # twice the smaller tail of the binomial distribution, at most 1
    fewer = np.minimum(positive, n - positive)
    return np.where(n == 0, 1.0, np.minimum(2 * bdtr(fewer, np.maximum(n, 1), 0.5), 1.0))


def n_nonzero(values: Float, counts: Int | None = None) -> int:
    """Return the number of values that are not zero."""
    return int(_nonzero(values, counts)[1].sum())


def _nonzero(values: Float, counts: Int | None) -> tuple[Float, Int]:
    """Return the rounded values that are not zero, and how often each entry occurs."""
    values = np.round(values, DECIMALS)
    kept = values != 0
    return values[kept], np.ones(int(kept.sum()), np.int64) if counts is None else counts[kept]


def _one_size(values: Float) -> bool:
    """Return whether all values that are not zero have the same absolute value."""
    sizes = np.abs(_nonzero(values, None)[0])
    return not sizes.size or bool(sizes.min() == sizes.max())


def p_values(p: ArrayLike) -> Float:
    """Return p-values of several comparisons as an array; raise BadInput for other input."""
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1:
        raise BadInput("p", f"expected one p-value per comparison, got shape {values.shape}")
    refuse_first("p", values, ~((values >= 0) & (values <= 1)), "a number in [0, 1]")
    return values


def holm(p: ArrayLike) -> Float:
    """Return Holm's step-down adjusted p-values, which bound the probability of any false rejection.

    If all hypotheses with adjusted p-values of at most alpha are rejected, the probability of a false rejection is at
    most alpha, for any dependence between the comparisons. This also holds for always-valid p-values.

    Parameters
    ----------
    p : array-like, shape (n_comparisons,)
        p-values of the comparisons.

    Returns
    -------
    ndarray of float64, shape (n_comparisons,)

    Notes
    -----
    Holm, A simple sequentially rejective multiple test procedure (Scand. J. Statist. 1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = p_values(p)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(np.arange(len(values), 0, -1) * values[order]), 1.0)
    return adjusted


def benjamini_hochberg(p: ArrayLike) -> Float:
    """Return Benjamini and Hochberg's adjusted p-values, which bound the expected share of false rejections.

    The share is at most alpha for independent or positively dependent comparisons (JRSS B 1995).
    """
    from scipy.stats import false_discovery_control

    values = p_values(p)
    return np.asarray(false_discovery_control(values)) if len(values) else values
