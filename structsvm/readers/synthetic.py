"""Synthetic ranking data with known weights: graded labels from a noisy linear model.

Each query has its own random stream, so that its data depend only on the seed and the index of the query, not on the
chunk size or the number of queries.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from structsvm.common.checks import check_number, check_whole
from structsvm.common.files import AnyPath
from structsvm.common.portable.arrays import norm
from structsvm.protocols import Float
from structsvm.queries import QueryData
from structsvm.readers.store import StoreWriter

GRADE_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)
_CHUNK_BYTES = 1 << 25


def planted_weights(n_features: int, random_state: int = 0) -> Float:
    """Return the unit vector from which :func:`make_ranking` derives grades; without noise, this vector ranks every
    query perfectly."""
    w = np.random.default_rng([random_state, 0]).standard_normal(n_features)
    return w / norm(w)


def make_ranking(
    n_queries: int,
    n_docs: int,
    n_features: int,
    *,
    noise: float = 0.5,
    grades: int = 5,
    dtype: DTypeLike = np.float64,
    random_state: int = 0,
) -> QueryData:
    """Generate queries of equal length whose grades follow a linear model.

    Features are standard normal. Within a query, documents are ordered by ``x . w + noise * e`` with ``w`` of
    ``structsvm.readers.synthetic.planted_weights`` and ``e`` standard normal, and the best get the highest grades: 1 %
    grade 4, 2 % grade 3, 13 % grade 2, 32 % grade 1, and half grade 0. These are about the shares of MSLR-WEB30K, cut
    at rounded ranks; each query with two or more documents has at least one document above grade 0.

    Parameters
    ----------
    n_queries, n_docs, n_features : int
        Numbers of queries, of documents per query and of features.
    noise : float
        Standard deviation of the noise; the standard deviation of ``x . w`` is 1.
    grades : int, 2 to 5
        Number of grades; the highest grades are merged into one.
    dtype : {float64, float32}
        Type of ``X``. The labels are computed from the rounded features.
    random_state : int
        Seed.

    Returns
    -------
    QueryData
        ``query_ids`` are 0 ... n_queries - 1.

    Examples
    --------
    >>> data = make_ranking(10, 100, 4)
    >>> np.bincount(data.y.astype(int)) / data.n_rows
    array([0.52, 0.32, 0.13, 0.02, 0.01])
    """
    check_sizes(n_queries, n_docs, n_features, noise, grades)
    X, y = _queries(
        0,
        n_queries,
        n_docs=n_docs,
        n_features=n_features,
        noise=noise,
        grades=grades,
        dtype=np.dtype(dtype),
        seed=random_state,
    )
    offsets = np.arange(n_queries + 1, dtype=np.int64) * n_docs
    return QueryData(X, y, offsets, np.arange(n_queries, dtype=np.int64))


def write_ranking_store(
    path: AnyPath,
    n_queries: int = 31_000,
    n_docs: int = 120,
    n_features: int = 136,
    *,
    noise: float = 0.5,
    grades: int = 5,
    dtype: DTypeLike = np.float32,
    random_state: int = 0,
    chunk_queries: int | None = None,
) -> None:
    """Write the data of :func:`make_ranking` to a store, in chunks; by default as large as MSLR-WEB30K.

    Parameters
    ----------
    path : path
        As for :class:`StoreWriter`.
    n_queries, n_docs, n_features, noise, grades, dtype, random_state
        As for :func:`make_ranking`. The default float32 data take 2.0 GB on disk.
    chunk_queries : int, optional
        Number of queries generated at a time, which does not affect the data. Default: about 32 MB of features.

    Examples
    --------
    >>> from structsvm.readers import open_store
    >>> write_ranking_store("made.store", 3, 10, 4)
    >>> open_store("made.store")
    QueryData(3 queries, 30 rows, 4 features, dense float32)
    """
    check_sizes(n_queries, n_docs, n_features, noise, grades)
    kind = np.dtype(dtype)
    chunk = chunk_queries or max(1, _CHUNK_BYTES // (n_docs * n_features * kind.itemsize))
    with StoreWriter(path, n_features, dtype=kind) as writer:
        for first in range(0, n_queries, chunk):
            last = min(first + chunk, n_queries)
            X, y = _queries(
                first,
                last,
                n_docs=n_docs,
                n_features=n_features,
                noise=noise,
                grades=grades,
                dtype=kind,
                seed=random_state,
            )
            writer.append(X, y, np.full(last - first, n_docs), np.arange(first, last))


def check_sizes(n_queries: int, n_docs: int, n_features: int, noise: float, grades: int) -> None:
    """Raise for invalid sizes, noise or number of grades."""
    check_whole("n_queries", n_queries)
    check_whole("n_docs", n_docs)
    check_whole("n_features", n_features)
    check_number("noise", noise, 0)
    check_whole("grades", grades, 2, len(GRADE_SHARES))


def _queries(
    first: int, last: int, n_docs: int, n_features: int, noise: float, grades: int, dtype: Any, seed: int
) -> tuple[NDArray[Any], Float]:
    w = planted_weights(n_features, seed)
    by_rank = grades_by_rank(n_docs, grades, GRADE_SHARES)
    X = np.empty(((last - first) * n_docs, n_features), dtype=dtype)
    y = np.empty(X.shape[0])
    for q in range(first, last):
        rng = np.random.default_rng([seed, 1, q])
        rows = slice((q - first) * n_docs, (q - first + 1) * n_docs)
        rng.standard_normal(dtype=dtype, out=X[rows])
        utility = (X[rows].astype(np.float64) * w).sum(axis=1) + noise * rng.standard_normal(n_docs)
        y[rows][np.argsort(-utility, kind="stable")] = by_rank
    return X, y


def grades_by_rank(n_docs: int, grades: int, shares: Sequence[float]) -> Float:
    """Return the grade of each rank, at most ``grades - 1``; ``shares[g]`` is the share of documents of grade ``g``."""
    ends = np.round(np.cumsum(shares[::-1])[:-1] * n_docs)  # documents with at least grade 4, 3, ...
    return np.asarray(
        np.minimum((np.arange(n_docs)[:, np.newaxis] < ends).sum(axis=1), grades - 1), np.float64
    )
