"""Independent values of a statistic: one per query, or the mean of each cluster."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput
from structsvm.protocols import Float
from structsvm.queries import refuse_first


def check_delta(delta: ArrayLike, name: str = "delta") -> Float:
    """Return the statistic as a vector; raise BadInput unless it is one-dimensional, non-empty and finite."""
    values = np.asarray(delta, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise BadInput(name, f"expected one value per query, got shape {values.shape}")
    refuse_first(name, values, ~np.isfinite(values), "a finite number")
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
