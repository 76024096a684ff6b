"""Synthetic ranking data with a nonlinear teacher: a sum of trees, of products or of step functions.

As in ``structsvm.readers.synthetic``, each query has its own random stream.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import check_choice
from structsvm.common.portable.arrays import matmul, products
from structsvm.common.portable.elementary import exp
from structsvm.protocols import Float
from structsvm.queries import QueryData
from structsvm.readers.synthetic import check_sizes, grades_by_rank

_SHARES = (0.80, 0.10, 0.05, 0.03, 0.02)
_N_FACTORS = 5
_N_TREES, _DEPTH = 60, 3
_N_STEPS = 6
_STEPPED = 20
_SCALE_SAMPLE = 4096


def make_taught(
    teacher: str,
    n_queries: int,
    n_docs: int = 100,
    n_features: int = 50,
    *,
    noise: float = 0.7,
    grades: int = 5,
    dtype: Any = np.float32,
    random_state: int = 0,
) -> QueryData:
    """Generate queries of equal length whose grades follow a nonlinear teacher.

    The features derive from normal variables with five common factors. A quarter of the features are the variables
    themselves, a quarter their exponentials times a scale per query, a quarter the variables with negative values set
    to zero, and a quarter counts. The teacher uses the variables, not the features. Within a query, documents are
    ordered by the teacher's value, scaled to a standard deviation of 1, plus noise; the best 2 % have grade 4, then 3 %
    grade 3, 5 % grade 2, 10 % grade 1, and 80 % grade 0.

    Parameters
    ----------
    teacher : {"forest", "product", "step"}
        ``"forest"``: the sum of 60 random trees of depth 3. ``"product"``: the sum of products of pairs, a third as
        many as features. ``"step"``: the sum of random step functions of up to 20 single features.
    n_queries, n_docs, n_features : int
    noise : float, default=0.7
        Standard deviation of the noise, relative to a teacher of unit variance.
    grades : int, 2 to 5
        Number of grades; with fewer than five, the highest grades are merged.
    dtype : {float32, float64}
    random_state : int

    Returns
    -------
    QueryData
        ``query_ids`` are 0 ... n_queries - 1.

    Examples
    --------
    >>> data = make_taught("product", 3, 100, 8)
    >>> data, np.bincount(data.y.astype(int)) / data.n_rows
    (QueryData(3 queries, 300 rows, 8 features, dense float32), array([0.8 , 0.1 , 0.05, 0.03, 0.02]))
    """
    check_choice("teacher", teacher, TEACHERS)
    check_sizes(n_queries, n_docs, n_features, noise, grades)
    rng = np.random.default_rng([random_state, 0, list(TEACHERS).index(teacher)])
    mixing = rng.normal(size=(_N_FACTORS, n_features)) * 0.6 / np.sqrt(_N_FACTORS)
    taught = TEACHERS[teacher](n_features, rng)
    known = taught(_variables(np.random.default_rng([random_state, 2]), _SCALE_SAMPLE, mixing))
    scale = float(known.std()) or 1.0
    X = np.empty((n_queries * n_docs, n_features), dtype=dtype)
    y = np.empty(n_queries * n_docs)
    by_rank = grades_by_rank(n_docs, grades, _SHARES)
    for q in range(n_queries):
        own = np.random.default_rng([random_state, 1, q])
        rows = slice(q * n_docs, (q + 1) * n_docs)
        z = _variables(own, n_docs, mixing)
        X[rows] = _features(z, np.exp(0.5 * own.normal(size=n_features)))
        utility = taught(z) / scale + noise * own.normal(size=n_docs)
        y[rows][np.argsort(-utility, kind="stable")] = by_rank
    offsets = np.arange(n_queries + 1, dtype=np.int64) * n_docs
    return QueryData(X, y, offsets, np.arange(n_queries, dtype=np.int64))


def _variables(rng: np.random.Generator, n: int, mixing: Float) -> Float:
    return np.asarray(
        matmul(rng.normal(size=(n, mixing.shape[0])), mixing) + 0.8 * rng.normal(size=(n, mixing.shape[1]))
    )


def _features(z: Float, scale: Float) -> NDArray[np.float64]:
    kind = np.arange(z.shape[1]) % 4
    X = np.where(kind == 1, exp(z) * scale, z)
    X = np.where((kind == 2) & (z < 0), 0.0, X)
    return np.where(kind == 3, np.floor(exp(z + 1.0)), X)


_Taught = Callable[[Float], Float]


def _forest(n_features: int, rng: np.random.Generator) -> _Taught:
    feature = rng.integers(n_features, size=(_N_TREES, _DEPTH))
    threshold = 0.7 * rng.normal(size=(_N_TREES, _DEPTH))
    value = rng.normal(size=(_N_TREES, 1 << _DEPTH))

    def taught(z: Float) -> Float:
        total = np.zeros(z.shape[0])
        for t in range(_N_TREES):
            leaf = (z[:, feature[t]] > threshold[t]) @ (1 << np.arange(_DEPTH))
            total += value[t, leaf]
        return total

    return taught


def _product(n_features: int, rng: np.random.Generator) -> _Taught:
    n_pairs = max(1, n_features // 3)
    pairs = np.array([rng.choice(n_features, 2, replace=False) for _ in range(n_pairs)])
    weight = rng.normal(size=n_pairs)

    def taught(z: Float) -> Float:
        return products(z[:, pairs[:, 0]] * z[:, pairs[:, 1]], weight)

    return taught


def _step(n_features: int, rng: np.random.Generator) -> _Taught:
    chosen = rng.choice(n_features, min(n_features, _STEPPED), replace=False)
    edges = np.sort(rng.normal(size=(chosen.size, _N_STEPS)), axis=1)
    value = rng.normal(size=(chosen.size, _N_STEPS + 1))

    def taught(z: Float) -> Float:
        total = np.zeros(z.shape[0])
        for f, edge, heights in zip(chosen, edges, value, strict=True):
            total += heights[np.searchsorted(edge, z[:, f])]
        return total

    return taught


TEACHERS: dict[str, Callable[[int, np.random.Generator], _Taught]] = {
    "forest": _forest,
    "product": _product,
    "step": _step,
}
"""The teachers by name."""
