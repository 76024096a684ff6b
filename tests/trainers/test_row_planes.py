"""Planes as coefficients of rows: the same optimum as with vectors, and a dual point that can be checked by hand."""

import numpy as np
import pytest
from scipy import sparse

from structsvm.trainers import row_planes
from structsvm.trainers.block_dual import BlockDual
from structsvm.trainers.certificate import Fit
from structsvm.trainers.choosing_solver import largest_C
from structsvm.trainers.contract import Options, Start
from structsvm.trainers.frank_wolfe import dual_of, frank_wolfe
from structsvm.trainers.path import fit_path, train
from structsvm.trainers.row_planes import RowDual, rows_cache_size
from tests.trainers.problems import bind, make_rows


def make(loss="map", n_queries=60, seed=0, **options):
    rows = make_rows(n_queries, 6, seed, lengths=(2, 15))
    return *rows, bind(rows, loss, **options)


@pytest.mark.parametrize("kind", ["dense", "float32", "csr"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_dual_point_by_hand(kind, n_jobs):
    X, y, offsets, _ = make("map")
    rows = {"dense": X, "float32": X.astype(np.float32), "csr": sparse.csr_matrix(X)}[kind]
    problem = bind((rows, y, offsets), n_jobs=n_jobs)
    dual = RowDual(problem, 3.0)
    for _ in range(4):
        dual.descend(problem)
        dual.certify(problem, dual.w)
    np.testing.assert_allclose(rows.T @ dual.rows, dual.w, rtol=0, atol=1e-12)
    assert (dual._alpha >= 0).all()
    assert (dual._alpha.sum(axis=1) <= dual.cap * (1 + 1e-12)).all()
    gains = (dual._alpha * dual._loss).sum()
    assert dual.value == pytest.approx(gains - 0.5 * dual.w @ dual.w, abs=1e-9)
    # each plane is a cut of its query: below the hinge at any w
    w = np.random.default_rng(1).normal(size=X.shape[1])
    loss, joint = np.empty(problem.n_queries), np.empty((problem.n_queries, X.shape[1]))
    problem.query_cuts(w, 0, problem.n_queries, loss, joint)
    hinge = loss - joint @ w
    for q in range(problem.n_queries):
        own = slice(offsets[q], offsets[q + 1])
        for k in range(dual.count[q]):
            assert dual._loss[q, k] - dual._pool[k, own] @ (rows[own] @ w) <= hinge[q] + 1e-9


def test_a_full_cache_merges_planes_without_moving_the_point(monkeypatch):
    monkeypatch.setattr(row_planes, "_MOST", 3)
    X, _, _, problem = make("ndcg@5", n_queries=12)
    fit = frank_wolfe(problem, 30.0, Options(max_passes=3000), Start(kept={"dual": RowDual(problem, 30.0)}))
    assert fit.converged
    np.testing.assert_allclose(
        0.5 * (X.T @ fit.dual_rows) @ (X.T @ fit.dual_rows), 0.5 * fit.w @ fit.w, rtol=0.2
    )


@pytest.mark.parametrize("solver", ["one_slack", "frank_wolfe"])
def test_dual_rows_make_the_dual_weights(solver):
    X, _, _, problem = make(keep_rows=True)
    for fit in fit_path(problem, [0.1, 3.0], solver=solver, planes="rows", tol=1e-4):
        weights = X.T @ fit.dual_rows
        # strong convexity: both within the gap of the optimum
        assert np.linalg.norm(weights - fit.w) <= 2 * np.sqrt(2 * max(0, fit.primal - fit.dual)) + 1e-9
    assert train(problem, 1.0, solver="n_slack").dual_rows is None
    assert train(problem, 1.0, solver="one_slack", cone=np.ones(problem.n_features)).dual_rows is None
    assert train(problem, 1.0, solver="frank_wolfe").dual_rows is None


@pytest.mark.parametrize("solver", ["one_slack", "frank_wolfe"])
def test_the_gain_of_columns_is_bounded(solver):
    X, y, offsets, problem = make(keep_rows=True)
    rng = np.random.default_rng(5)
    fit = train(problem, 3.0, solver=solver, planes="rows")
    for columns in (rng.normal(size=(X.shape[0], 2)), y[:, None] * 0.3, rng.random((X.shape[0], 1)) < 0.1):
        columns = columns.astype(float)
        wider = bind((np.hstack([X, columns]), y, offsets))
        better = train(wider, 3.0, solver="one_slack", tol=1e-6)
        bound = fit.gain_bound(columns)
        assert fit.primal - better.primal <= bound
        assert bound == pytest.approx(fit.gain_bound(sparse.csr_matrix(columns)))
        assert fit.gain_bound(0 * columns) == fit.primal - fit.dual
    with pytest.raises(ValueError, match=f"expected the {X.shape[0]} rows trained on, got 3"):
        fit.gain_bound(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="expected a fit that kept them"):
        train(problem, 1.0, solver="n_slack").gain_bound(columns)


def test_columns_may_be_added_to_a_dual_point():
    X, y, offsets, problem = make()
    wider = bind((np.hstack([X, X[:, :2] ** 2]), y, offsets))
    dual = RowDual(problem, 3.0)
    before = frank_wolfe(problem, 3.0, start=Start(kept={"dual": dual}))
    value = dual.value
    dual.move_to(wider)
    np.testing.assert_allclose(dual.w, np.hstack([X, X[:, :2] ** 2]).T @ dual.rows, atol=1e-12)
    assert dual.value == pytest.approx(value - 0.5 * dual.w[6:] @ dual.w[6:], abs=1e-9)
    warm = frank_wolfe(wider, 3.0, Options(tol=1e-4), Start(np.append(before.w, [0, 0]), kept={"dual": dual}))
    assert warm.converged
    assert warm.primal <= train(wider, 3.0, solver="one_slack", tol=1e-6).primal * (1 + 1.1e-4)
    other = make(seed=1)[3]
    with pytest.raises(ValueError, match="expected the same queries"):
        dual.move_to(other)


def test_which_planes_are_kept(monkeypatch):
    problem = make()[3]
    assert isinstance(dual_of(problem, 1.0), BlockDual)
    assert isinstance(dual_of(problem, 1.0, Options(planes="rows")), RowDual)
    assert largest_C(problem) >= 1e-3
    assert largest_C(problem, Options(planes="rows")) == 0.0
    monkeypatch.setattr("structsvm.trainers.block_dual.MEMORY", 10)
    problem.n_bytes = 0
    assert isinstance(dual_of(problem, 1.0), RowDual)
    monkeypatch.setattr(row_planes, "MEMORY", 10)
    assert rows_cache_size(problem) is None
    with pytest.raises(ValueError, match="use solver='one_slack'"):
        RowDual(problem, 1.0)


def test_dual_rows_are_not_saved(tmp_path):
    from structsvm import StructuralRanker, load

    X, y, offsets, problem = make(keep_rows=True)
    model = StructuralRanker(C=1.0).fit(X, y, qid=np.repeat(np.arange(60), np.diff(offsets)))
    model.fit_ = train(problem, 1.0, solver="one_slack")
    assert model.fit_.dual_rows is not None
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz").fit_
    assert isinstance(again, Fit)
    assert again.dual_rows is None
    assert again.primal == model.fit_.primal
