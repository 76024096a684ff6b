"""Missing features: what stands for them in training and, kept with the model, in prediction."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from structsvm.cli.files import Table

if TYPE_CHECKING:
    from structsvm.protocols import Float, Int
    from structsvm.queries import QueryData


def medians(rows: QueryData, path: Path) -> Float:
    """Return the median of each feature over the rows that have it."""
    import numpy as np

    from structsvm.queries import dense_column

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
    import numpy as np

    from structsvm.queries import dense_column

    return np.flatnonzero([np.isnan(dense_column(rows.X, j)).any() for j in range(rows.n_features)])


def filled(rows: QueryData, values: Float) -> QueryData:
    """Return rows with these values where features are missing."""
    import numpy as np

    X: Any = rows.X
    if hasattr(X, "indptr"):
        X = X.copy()
        X.data = np.where(np.isnan(X.data), values[X.indices], X.data)
    else:
        X = np.where(np.isnan(X), values.astype(X.dtype), X)
    return dataclasses.replace(rows, X=X)


def kept_medians(model: Any) -> Float | None:
    """Return the medians that a model was trained with, None for a model without."""
    medians: Float | None = getattr(model, "table_", {}).get("fill")
    return medians


def fill_of(model: Any, table: Table) -> float | Literal["keep"] | None:
    """Return how rows are read for a model: missing features stay where it, or what it was trained with, takes them."""
    from sklearn.utils import get_tags

    if table.missing not in (None, "median"):
        return table.fill
    if kept_medians(model) is not None:
        return "keep"
    if table.missing == "median":
        raise ValueError("--fill median: expected a model that was trained with it, got another")
    return "keep" if get_tags(model).input_tags.allow_nan else None
