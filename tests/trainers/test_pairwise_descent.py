"""Pairwise descent against a slow twin, numerical gradients and closed forms."""

import itertools

import numpy as np
import pytest
from scipy import sparse, stats

from structsvm.queries import group_queries
from structsvm.trainers.pair_index import draw_pairs, index_pairs
from structsvm.trainers.pairwise_descent import (
    Agreement,
    Descent,
    Views,
    descend,
    descend_until,
    mean_squared_norms,
    start,
    view_weights,
)


def make(n=60, d=6, n_queries=5, seed=0, grades=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    return X, rng.integers(0, grades, n).astype(float), group_queries(rng.integers(0, n_queries, n), n)


def indexed(**options):
    """Return rows, labels, and the indices of labelled pairs and of all pairs."""
    X, y, grouping = make(**options)
    return X, y, index_pairs(y, grouping), index_pairs(None, grouping)


def row_queries(grouping):
    n = int(grouping.offsets[-1])
    query = np.repeat(np.arange(grouping.offsets.shape[0] - 1), np.diff(grouping.offsets))
    out = np.empty(n, dtype=int)
    out[np.arange(n) if grouping.order is None else grouping.order] = query
    return out


def split(d, n_views, seed=3):
    return [np.sort(c) for c in np.array_split(np.random.default_rng(seed).permutation(d), n_views)]


def objective(w, views, labeled, target, unlabeled, *, loss, lam, mu):
    """Return J of one batch: ``labeled`` and ``unlabeled`` are pair differences, ``w`` has one vector per view."""
    total = 0.0
    for v, columns in enumerate(views):
        margin = labeled[:, columns] @ w[v]
        hinge = loss == "hinge"
        total += np.maximum(0, 1 - target * margin).sum() if hinge else 0.5 * ((target - margin) ** 2).sum()
        total += lam / 2 * w[v] @ w[v]
    for v, u in itertools.permutations(range(len(views)), 2):
        total += mu * ((unlabeled[:, views[v]] @ w[v] - unlabeled[:, views[u]] @ w[u]) ** 2).sum()
    return total


def slow(X, y, index, views, n_steps, seed, *, eta_0, lam, loss, k=1, agreement):
    """Descend literally by the formulas, without lazy scaling; return the last weights and the averages."""
    w = [np.zeros(len(c)) for c in views]
    summed = [np.zeros(len(c)) for c in views]
    m = len(views)
    mu, l, unlabeled, U = agreement  # noqa: E741
    U = X if U is None else U
    for t in range(1, n_steps + 1):
        a, b = draw_pairs(index, seed, (t - 1) * k, k)
        p, target = X[a] - X[b], y[a] - y[b]
        p_hat = np.zeros((0, X.shape[1]))
        if mu and l:
            a, b = draw_pairs(unlabeled, seed, (t - 1) * l, l, stream=1)
            p_hat = U[a] - U[b]
        curvature = 4 * mu * m * sum(max(q[c] @ q[c] for c in views) for q in p_hat)
        new = []
        for v, c in enumerate(views):
            bound = curvature + ((p[:, c] ** 2).sum() if loss == "squared" else 0.0)
            eta = eta_0[v] / (1 + eta_0[v] * lam * t)
            eta = min(eta, 1 / bound) if bound > 0 else eta
            margin = p[:, c] @ w[v]
            step = np.where(target * margin < 1, target, 0) if loss == "hinge" else target - margin
            now = (1 - eta * lam) * w[v] + eta * step @ p[:, c]
            for u in range(m):
                if u != v:
                    now = now - 4 * mu * eta * (p_hat[:, c] @ w[v] - p_hat[:, views[u]] @ w[u]) @ p_hat[:, c]
            new.append(now)
        w = new
        summed = [s + t * x for s, x in zip(summed, w, strict=True)]
    return w, [s / (n_steps * (n_steps + 1) / 2) for s in summed]


@pytest.mark.parametrize("labeled", [True, False])
def test_every_pair_is_equally_likely(labeled):
    """Labelled pairs have unequal labels, the better document first; unlabelled pairs are in either order."""
    _, y, grouping = make(n=13, n_queries=3)
    query = row_queries(grouping)
    pairs = {
        (i, j): 0
        for i, j in itertools.permutations(range(13), 2)
        if query[i] == query[j] and (y[i] > y[j] or not labeled)
    }
    index = index_pairs(y if labeled else None, grouping)
    for pair in zip(*draw_pairs(index, 0, 0, 20_000, stream=0 if labeled else 1), strict=True):
        pairs[pair] += 1  # a KeyError: not a pair
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-3


def test_queries_by_weight():
    _, y, grouping = make(n=50, n_queries=4)
    query = row_queries(grouping)
    weights = np.array([1.0, 2.0, 0.0, 3.0])
    better, worse = draw_pairs(index_pairs(y, grouping, weights=weights, normalize="query"), 2, 0, 12_000)
    assert (query[better] == query[worse]).all()
    assert (y[better] > y[worse]).all()
    count = np.bincount(query[better], minlength=4)
    assert count[2] == 0
    assert stats.chisquare(count[[0, 1, 3]], 12_000 * weights[[0, 1, 3]] / 6).pvalue > 1e-3


def test_many_grades_and_a_mask():
    rng = np.random.default_rng(5)
    n = 400
    y, grouping = rng.normal(size=n), group_queries(rng.integers(0, 3, n), n)
    mask = rng.random(n) < 0.5
    better, worse = draw_pairs(index_pairs(y, grouping, rows=mask), 0, 0, 50_000)
    query = row_queries(grouping)
    assert mask[better].all()
    assert mask[worse].all()
    assert (y[better] > y[worse]).all()
    assert (query[better] == query[worse]).all()
    # each document is in a pair with every other of its query: all ends are equally likely within a query
    for q in range(3):
        mine = np.flatnonzero(mask & (query == q))
        ends = np.concatenate([better, worse])
        assert stats.chisquare(np.array([(ends == i).sum() for i in mine])).pvalue > 1e-3


def test_no_pairs():
    grouping = group_queries([0, 0, 1, 1], 4)
    assert index_pairs(np.array([1.0, 1, 2, 2]), grouping).n_queries == 0
    assert index_pairs(np.arange(4.0), grouping, rows=np.array([True, False, True, False])).n_queries == 0
    assert index_pairs(None, group_queries([0, 1, 2, 3], 4)).n_queries == 0


@pytest.mark.parametrize("kind", ["float64", "float32", "csr", "memory map"])
@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize(
    ("columns", "k", "l", "mu"),
    [
        (split(6, 1), 1, 0, 0.0),
        (split(6, 2), 1, 5, 0.02),
        (split(6, 3), 2, 1, 1.0),
        (split(6, 2), 3, 0, 0.0),
        ([np.array([0, 1, 2, 3]), np.array([2, 3, 5])], 1, 2, 0.1),
    ],
    ids=["one", "two", "three", "independent", "overlapping"],
)
def test_equals_the_slow_twin(kind, loss, columns, k, l, mu, tmp_path):  # noqa: E741
    X, y, grouping = make()
    U, _, other = make(n=40, seed=9)
    index, unlabeled = index_pairs(y, grouping), index_pairs(None, other)
    views = Views.of(columns)
    eta_0 = np.linspace(0.3, 0.6, len(columns))
    given, given_u = X, U
    if kind == "float32":
        given, given_u = X.astype(np.float32), U.astype(np.float32)
        X, U = given.astype(np.float64), given_u.astype(np.float64)
    elif kind == "csr":
        given, given_u = sparse.csr_matrix(X), sparse.csr_matrix(U)
    elif kind == "memory map":
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    options = {"eta_0": eta_0, "lam": 0.05, "loss": loss, "k": k}
    others = Agreement(mu, l, unlabeled, given_u)
    state = descend(given, y, index, views, start(views, 4), 300, agreement=others, **options)
    last, average = slow(X, y, index, columns, 300, 4, agreement=others._replace(X=U), **options)
    for averaged, expected in ((False, last), (True, average)):
        for mine, theirs in zip(view_weights(state, views, average=averaged), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize("n_views", [2, 3, 4])
def test_step_is_minus_the_gradient(loss, n_views):
    X, y, index, unlabeled = indexed(d=9, seed=n_views)
    columns = split(9, n_views)
    views = Views.of(columns)
    rng = np.random.default_rng(1)
    k, l, lam, mu, seed = 3, 4, 0.7, 0.9, 8  # noqa: E741
    t, eta_0 = 10, 1e-4  # small enough that no step is shortened
    at = Descent(rng.normal(size=9), np.zeros(9), np.full(n_views, 0.8), np.zeros(n_views), t, seed)
    a, b = draw_pairs(index, seed, t * k, k)
    c, d = draw_pairs(unlabeled, seed, t * l, l, stream=1)
    w = np.concatenate(view_weights(at, views, average=False))

    def value(flat):
        return objective(
            np.split(flat, views.starts[1:-1]),
            columns,
            X[a] - X[b],
            y[a] - y[b],
            X[c] - X[d],
            loss=loss,
            lam=lam,
            mu=mu,
        )

    gradient = np.array([(value(w + h) - value(w - h)) / 2e-6 for h in 1e-6 * np.eye(9)])
    after = descend(
        X,
        y,
        index,
        views,
        at,
        1,
        eta_0=np.full(n_views, eta_0),
        lam=lam,
        loss=loss,
        k=k,
        agreement=Agreement(mu, l, unlabeled),
    )
    eta = eta_0 / (1 + eta_0 * lam * (t + 1))
    step = (np.concatenate(view_weights(after, views, average=False)) - w) / eta
    np.testing.assert_allclose(step, -gradient, rtol=1e-6, atol=1e-6)


def test_descent_continues_bit_for_bit():
    X, y, index, unlabeled = indexed()
    views = Views.of(split(6, 2))
    options = {"eta_0": np.ones(2), "lam": 0.1, "agreement": Agreement(0.1, 3, unlabeled)}
    whole = descend(X, y, index, views, start(views, 2), 1000, **options)
    part = start(views, 2)
    for n in (1, 7, 500, 492):
        part = descend(X, y, index, views, part, n, **options)
    assert part.t == whole.t == 1000
    for name in ("direction", "correction", "scale", "total"):
        assert (getattr(part, name) == getattr(whole, name)).all()


@pytest.mark.parametrize("make_rows", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_stays_finite_on_any_scale(make_rows, loss):
    X, y, index, unlabeled = indexed()
    mixed = 10.0 ** np.linspace(-6, 6, 6)
    views = Views.of(split(6, 2))
    for unit, lam, mu in itertools.product((1e-6, 1.0, 1e6, mixed), (1e-8, 1e-3, 1e2), (0.0, 0.1, 1e3)):
        for eta_0 in (1.0, 1 / mean_squared_norms(X * unit, index, views, 0)):
            state = descend(
                make_rows(X * unit),
                y,
                index,
                views,
                start(views, 0),
                3000,
                eta_0=np.ones(2) * eta_0,
                lam=lam,
                loss=loss,
                agreement=Agreement(mu, 5, unlabeled),
            )
            for average in (False, True):
                for v, w in enumerate(view_weights(state, views, average=average)):
                    scores = (X * unit)[:, views.columns[views.starts[v] : views.starts[v + 1]]] @ w
                    assert np.isfinite(w).all()
                    if loss == "squared" or mu:  # a hinge step of a given size may be as large as it likes
                        assert np.abs(scores).max() < 1e9


def test_stops_when_the_value_rises_no_more_and_keeps_the_best():
    values = iter([1.0, 3.0, 2.0, 2.5, 9.0])
    views = Views.of([np.arange(1)])

    def advance(state, n):
        return Descent(
            state.direction + 1, state.correction, state.scale, state.total, state.t + n, state.seed
        )

    best, history = descend_until(
        advance, lambda state: next(values), start(views, 0), 50, every=10, patience=2
    )
    assert best.t == 20
    assert best.direction == 2
    assert history == [(10, 1.0), (20, 3.0), (30, 2.0), (40, 2.5)]
