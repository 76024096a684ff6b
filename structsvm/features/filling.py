"""Medians in place of missing features."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.protocols import Float, Int
from structsvm.queries import QueryData, dense_column


def medians(rows: QueryData, path: Path) -> Float:
    """Return the median of each feature over the rows that have it."""
    found = np.zeros(rows.n_features)
    for j in range(rows.n_features):
        column = dense_column(rows.X, j)
        known = column[~np.isnan(column)]
        if not known.size:
            name = j + 1 if rows.feature_names is None else repr(rows.feature_names[j])
            raise ValueError(f"{path}: expected values of each feature for its median, got none of {name}")
        found[j] = np.median(known)
    return found


def missing(rows: QueryData) -> Int:
    """Return the columns with a missing value, from 0."""
    return np.flatnonzero([np.isnan(dense_column(rows.X, j)).any() for j in range(rows.n_features)])


def filled(rows: QueryData, values: Float) -> QueryData:
    """Return rows with these values where features are missing."""
    X: Any = rows.X
    if hasattr(X, "indptr"):
        X = X.copy()
        X.data = np.where(np.isnan(X.data), values[X.indices], X.data)
    else:
        X = np.where(np.isnan(X), values.astype(X.dtype), X)
    return dataclasses.replace(rows, X=X)
