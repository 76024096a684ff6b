"""Min-max within queries, where values may be missing."""

from __future__ import annotations

import numpy as np

from structsvm.protocols import Float, Int


def minmax_within(scores: Float, offsets: Int) -> Float:
    """Scale each column to [0, 1] within each query; missing values (NaN) are ignored and kept."""
    # A query's only value, or values that are all equal, become 1: nothing that the column has is better, and the
    # missing, which count as 0 where columns are added, are worse.
    half = np.asarray(scores, dtype=np.float64) * 0.5  # halved, as the range of finite values may overflow
    lengths = np.diff(offsets)
    low = np.fmin.reduceat(half, offsets[:-1], axis=0)
    width = np.fmax.reduceat(half, offsets[:-1], axis=0) - low
    width = np.repeat(width, lengths, axis=0)
    np.subtract(half, np.repeat(low, lengths, axis=0), out=half)
    return np.divide(half, width, out=np.where(np.isnan(half), np.nan, 1.0), where=width > 0)
