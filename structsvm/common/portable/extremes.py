"""Extremes of columns in one pass over the rows; NumPy reads a matrix once for minima and once for maxima."""

from structsvm.common.kernel import kernel


@kernel
def widen(X, low, high):  # type: ignore[no-untyped-def]
    """Lower ``low[j]`` and raise ``high[j]`` to the extremes of column ``j``; ``high[j]`` is NaN if a value is NaN."""
    for r in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = X[r, j]
            low[j] = x if x < low[j] else low[j]
            # comparisons with NaN are False: NaN replaces every number, and stays because it differs from itself
            high[j] = high[j] if x <= high[j] or high[j] != high[j] else x
