"""Scaling by statistics of all rows, which are added up over partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from structsvm.common.checks import BadInput
from structsvm.dask.cluster import ask
from structsvm.dask.rows import Rows
from structsvm.estimators.linear import Scale, make_scaler
from structsvm.features.scaling import QueryScaler, column_edges, column_sums, shift_and_scale
from structsvm.protocols import Float


def fitted_scaler(
    client: Any, raw: Sequence[Any], n_features: int, scale: Scale, timeout: float
) -> QueryScaler | None:
    """Return the scaler that ``scale`` names, fitted to the rows of all partitions; None for "none".
    A partition sends two numbers per feature and round: one for "minmax", three for "zscore", none within queries.
    """
    scaler = make_scaler(scale)
    if scaler is None:
        return None
    scaler.fit(np.zeros((1, n_features)), qid=[0])
    if scaler.within == "query":
        return scaler

    def both(function: Any, *rest: Any) -> Iterator[tuple[Float, ...]]:
        found = ask(client, _dense, raw, function, *rest, timeout=timeout, place="the partitions (scaling)")
        return zip(*found, strict=True)

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
    """Return what a function finds of the features, which must be dense."""
    if sparse.issparse(rows.data.X):
        raise BadInput(rows.place, "expected dense rows to scale, got a sparse matrix", "use {scale='none'}")
    return function(rows.data.X, *rest)
