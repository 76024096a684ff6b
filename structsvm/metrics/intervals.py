"""Mean of values with its standard error, and Student's t interval and test, optionally with weights."""

import math
from typing import NamedTuple

from structsvm.common.portable.arrays import dot
from structsvm.protocols import Float


class StudentMean(NamedTuple):
    """A mean with its standard error (NaN for a single value) and degrees of freedom."""

    mean: float
    error: float
    df: float

    def half(self, level: float) -> float:
        """Return half the width of the interval of the mean at confidence ``level``."""
        from scipy.special import stdtrit

        return self.error * float(stdtrit(self.df, (1.0 + level) / 2.0)) if self.df > 0 else math.nan

    def test(self) -> tuple[float, float]:
        """Return t and its two-tailed p-value; p is 0 for equal non-zero values and 1 for a single value."""
        from scipy.special import stdtr

        if not self.df > 0:
            return math.nan, 1.0
        if self.error == 0.0:
            return (math.copysign(math.inf, self.mean), 0.0) if self.mean else (0.0, 1.0)
        t = self.mean / self.error
        return t, float(2.0 * stdtr(self.df, -abs(t)))


def student_mean(values: Float, weights: Float | None = None, *, wider: float = 1.0) -> StudentMean:
    """Return the mean with its standard error multiplied by ``wider``.

    Let p be the normalised weights, all positive. The squared error is ``n/(n-1) sum p^2 (x - mean)^2`` and the degrees
    of freedom are ``1/sum p^2 - 1``, which are the standard formulas if the weights are equal.
    """
    n = values.size
    if weights is None:
        error = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
        return StudentMean(float(values.mean()), wider * error, n - 1)
    # 1/sum p^2 is Kish's effective number of queries, which is n for equal weights
    p = weights / weights.sum()
    mean = float(dot(p, values))
    off = p * (values - mean)
    error = math.sqrt(n / (n - 1) * dot(off, off)) if n > 1 else math.nan
    return StudentMean(mean, wider * error, 1.0 / float(dot(p, p)) - 1.0)
