"""Ranks of values against counting, for edges that no map to cells separates well."""

import numpy as np
import pytest

from structsvm.features.ranks import Ranks, fill_ranks, rounded_down

BLOCK = 64


def ranks_of(X, edges):
    ranks = Ranks(edges, X.dtype)
    columns = np.empty((16, BLOCK), dtype=X.dtype)
    codes = np.empty((len(edges), BLOCK), dtype=ranks.code_type)
    found = np.empty(X.shape, dtype=np.int64)
    for first in range(0, X.shape[0], BLOCK):
        n = min(BLOCK, X.shape[0] - first)
        bits = columns.view(np.int32 if X.dtype == np.float32 else np.int64)
        fill_ranks(
            X,
            first,
            n,
            np.arange(len(edges)),
            ranks.arrays,
            columns,
            bits,
            np.empty(BLOCK, dtype=np.uint32),
            codes,
        )
        found[first : first + n] = codes[:, :n].T
    return found


def sets_of_edges():
    rng = np.random.default_rng(0)
    yield from (np.empty(0), np.array([0.0]), np.array([-0.0]), np.array([-1e300, 1e300]), np.array([5e-324]))
    yield np.array([-np.finfo(float).max, -5e-324, 5e-324, np.finfo(float).max])
    yield rng.normal(size=200)
    yield np.exp(rng.normal(size=300) * 40)  # a linear map leaves nearly all in one cell
    yield -np.exp(rng.normal(size=300) * 40)
    # so does a map by bits
    yield np.concatenate([np.arange(40.0), 1e12 + np.arange(400) * 2.0**-10, [-1e30]])
    yield 1 + np.arange(50) * 2.0**-50
    yield rng.integers(-300, 300, size=500).astype(float)
    yield np.arange(70_000.0)  # more than fit two bytes


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ranks_count_the_edges_exceeded(kind):
    edges = [rounded_down(one, kind) for one in sets_of_edges()]
    edges = [np.unique(one[np.isfinite(one)]) for one in edges]
    rng = np.random.default_rng(1)
    columns = []
    for one in edges:
        with np.errstate(over="ignore"):
            near = np.concatenate([one, np.nextafter(one, kind(np.inf)), np.nextafter(one, kind(-np.inf))])
        far = np.array([np.nan, 0.0, -0.0, np.finfo(kind).max, np.finfo(kind).min, 1.0, -1.0], dtype=kind)
        near = near[np.isfinite(near)]
        some = rng.choice(near, 400) if near.size else np.zeros(400)
        columns.append(np.concatenate([some, far, rng.normal(size=93)]).astype(kind))
    X = np.column_stack(columns)
    expected = np.column_stack(
        [np.where(np.isnan(X[:, f]), 0, 1 + np.searchsorted(one, X[:, f])) for f, one in enumerate(edges)]
    )
    np.testing.assert_array_equal(ranks_of(X, edges), expected)
    few = [one for one in edges if one.size < 60_000]
    assert Ranks(few, kind).code_type == np.uint16
    np.testing.assert_array_equal(ranks_of(X[:, :-1], few), expected[:, :-1])


@pytest.mark.parametrize("edge", [0.1, -0.1, 1e300, -1e300, 1.0])
def test_a_float32_value_is_on_the_same_side_of_the_rounded_edge(edge):
    down = rounded_down(np.array([edge]), np.float32)[0]
    with np.errstate(over="ignore"):
        values = down, *(np.nextafter(down, np.float32(to)) for to in (np.inf, -np.inf))
    for value in values:
        assert (value <= down) == (np.float64(value) <= edge)
