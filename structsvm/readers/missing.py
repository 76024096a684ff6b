"""Rows with missing features."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from structsvm.queries import QueryData

__all__ = ["read_missing"]

_MARK = float(np.finfo(np.float32).min)
"""Stands for a missing feature while rows are read: exact in both types, and a value that no feature has."""


def read_missing(path: str | PathLike[str], **options: Any) -> QueryData:
    """Read rows as :func:`structsvm.readers.read_queries` does, with NaN where a feature is missing."""
    from structsvm.readers.store import read_queries

    path = Path(path)
    if path.is_dir() and (path / "meta.json").exists():  # a store has none
        return read_queries(path, **options)
    data = read_queries(path, fill=_MARK, **options)
    X: Any = data.X
    values = X.data if hasattr(X, "indptr") else X
    known = np.where(values == values.dtype.type(_MARK), values.dtype.type(np.nan), values)
    X = sparse.csr_matrix((known, X.indices, X.indptr), shape=X.shape) if hasattr(X, "indptr") else known
    return replace(data, X=X)
