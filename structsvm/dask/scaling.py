"""Scaling by statistics of all rows, which are combined from the statistics of partitions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from structsvm.common.checks import BadInput
from structsvm.dask.cluster import Parts, ask
from structsvm.dask.rows import Rows
from structsvm.estimators.linear import Scale, make_scaler
from structsvm.features.scaling import QueryScaler, column_edges, column_sums, shift_and_scale
from structsvm.protocols import Float


def fitted_scaler(
    client: object, raw: Parts, n_features: int, scale: Scale, timeout: float
) -> QueryScaler | None:
    """Return the scaler that ``scale`` names, fitted to the rows of all partitions; None for "none".

    Each round of calls returns two numbers per feature and partition. "minmax" needs one round, "zscore" three, and
    scaling within queries none.
    """
    scaler = make_scaler(scale)
    if scaler is None:
        return None
    scaler.fit(np.zeros((1, n_features)), qid=[0])
    if scaler.within == "query":
        return scaler

    def both(function: object, *rest: object) -> Iterator[tuple[Float, ...]]:
        pairs = ask(client, _dense, raw, function, *rest, timeout=timeout, place="the partitions (scaling)")
        return zip(*pairs, strict=True)

    # the formulas of features.scaling, with sums and extremes over partitions instead of those over rows
    lows, highs = both(column_edges)
    low, high = np.fmin.reduce(lows), np.fmax.reduce(highs)
    if scaler.method == "minmax":
        shift, spread = low, high - low
    else:
        totals, counts = both(column_sums, None)
        n = np.maximum(1, sum(counts))
        shift = sum(totals) / n
        squares, _ = both(column_sums, shift)
        spread = np.sqrt(sum(squares) / n)
    scaler.shift_, scaler.scale_ = shift_and_scale(low, high, shift, spread)
    return scaler


def _dense(rows: Rows, function: Any, *rest: Any) -> Any:
    """Return the result of a function of the features; raise for sparse features."""
    if sparse.issparse(rows.data.X):
        raise BadInput(rows.place, "expected dense rows to scale, got a sparse matrix", "use {scale='none'}")
    return function(rows.data.X, *rest)
