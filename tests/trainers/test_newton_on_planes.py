"""Newton's method over cached planes: its sums against a plain twin, its optimum against cvxpy and the trainers."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad

from structsvm.trainers import newton_on_planes as module
from structsvm.trainers.block_dual import BlockDual
from structsvm.trainers.contract import Options, Start
from structsvm.trainers.frank_wolfe import frank_wolfe, pays
from structsvm.trainers.newton_on_planes import minimise
from structsvm.trainers.one_slack import one_slack
from structsvm.trainers.plane_cache import Planes
from tests.trainers.problems import LOSS_NAMES, bind, check_same_bytes, objective


def random_planes(seed, n=7, m=4, slots=5, sparse_rows=False):
    """Return planes with unused slots that must not be read; one query has no planes, one no upper bound."""
    rng = np.random.default_rng(seed)
    if sparse_rows:
        widths = rng.integers(1, m + 1, size=n)
        features = np.concatenate([np.sort(rng.permutation(m)[:k]) for k in widths]).astype(np.int64)
    else:
        widths, features = np.full(n, m), np.empty(0, dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(widths))).astype(np.int64)
    used = rng.integers(0, slots + 1, size=n)
    used[:2] = 0, slots
    pool = rng.normal(size=(slots, start[-1]))
    loss = rng.uniform(-0.2, 1, size=(n, slots))
    for q in range(n):
        pool[used[q] :, start[q] : start[q + 1]] = 1e6
        loss[q, used[q] :] = 1e6
    cap = rng.uniform(0.1, 2, size=n)
    cap[2] = 0.0
    return Planes(pool, start, features, loss, used, cap)


def dense_planes(planes, m):
    """Return, for each query, the list of (loss, psi), with the zero plane first."""
    out = []
    for q in range(planes.used.shape[0]):
        own = [(0.0, np.zeros(m))]
        columns = slice(planes.start[q], planes.start[q + 1])
        features = planes.features[columns] if planes.features.size else np.arange(m)
        for k in range(planes.used[q]):
            psi = np.zeros(m)
            psi[features] = planes.pool[k, columns]
            own.append((planes.loss[q, k], psi))
        out.append(own)
    return out


def smoothed(planes, w, mu):
    """Return value, gradient, Hessian, smoothing error, and shares of all planes except the zero plane."""
    m = w.shape[0]
    value, gradient, hessian, slack, shares = 0.5 * w @ w, w.copy(), np.eye(m), 0.0, []
    for cap, own in zip(planes.cap, dense_planes(planes, m), strict=True):
        v = np.array([loss - psi @ w for loss, psi in own])
        psi = np.array([psi for _, psi in own])
        p = np.exp((v - v.max()) / mu)
        value += cap * (v.max() + mu * np.log(p.sum()))
        p /= p.sum()
        mean = p @ psi
        gradient -= cap * mean
        hessian += cap / mu * (psi.T @ np.diag(p) @ psi - np.outer(mean, mean))
        slack += cap * (v.max() - p @ v)
        shares.append(p[1:])
    return value, gradient, hessian, slack, shares


def maximum(planes, w):
    own = dense_planes(planes, w.shape[0])
    return 0.5 * w @ w + sum(
        cap * max(loss - psi @ w for loss, psi in planes_of)
        for cap, planes_of in zip(planes.cap, own, strict=True)
    )


def bound(planes, alpha, m, signs=None):
    total, gain = np.zeros(m), 0.0
    for q, own in enumerate(dense_planes(planes, m)):
        for k, (loss, psi) in enumerate(own[1:]):
            total += alpha[q, k] * psi
            gain += alpha[q, k] * loss
    if signs is not None:
        total[signs * total < 0] = 0.0
    return gain - 0.5 * total @ total


CASES = [(seed, sparse_rows) for seed in range(6) for sparse_rows in (False, True)]


@pytest.mark.parametrize(("seed", "sparse_rows"), CASES)
@pytest.mark.parametrize("task", [3, 1 << 19])
def test_sums_are_those_of_the_twin(seed, sparse_rows, task, monkeypatch):
    monkeypatch.setattr(module, "_TASK", task)
    planes, mu = random_planes(seed, sparse_rows=sparse_rows), 0.3
    rng = np.random.default_rng(seed)
    w, direction = rng.normal(size=4), rng.normal(size=4)
    _, gradient, hessian, slack, shares = smoothed(planes, w, mu)
    assert check_grad(lambda x: smoothed(planes, x, mu)[0], lambda x: smoothed(planes, x, mu)[1], w) < 1e-5
    with module._threads(1) as run:
        problem = module._Smoothed(planes, run)
        products, z = problem.products(w), problem.products(direction)
        share, found = problem.softmax(planes.loss - products, mu)
        for q, expected in enumerate(shares):
            np.testing.assert_allclose(share[q, : planes.used[q]], expected, rtol=1e-10, atol=1e-12)
            assert (share[q, planes.used[q] :] == 0).all()
        assert found == pytest.approx(slack, rel=1e-10)
        np.testing.assert_allclose(w - problem.combine(planes.cap[:, None] * share), gradient, atol=1e-10)
        share, active = module._noticeable(share, planes.used, 0.0)
        fixed = (problem._flat, share, planes.cap / mu)
        curved = problem._add_up(
            module._curve, [(direction, active, 0, active.shape[0], *fixed, np.empty(5))]
        )
        np.testing.assert_allclose(direction + curved, hessian @ direction, atol=1e-8)
        diagonal = problem._add_up(module._diagonal, [(active, 0, active.shape[0], *fixed)])
        np.testing.assert_allclose(1 + diagonal, np.diag(hessian), atol=1e-8)
        for t in (0.0, 0.4, -1.3):
            first, second = module._slope(planes.loss - products, z, t, mu, planes.used, planes.cap)
            _, g, h, *_ = smoothed(planes, w + t * direction, mu)
            x = w + t * direction
            assert first == pytest.approx((x - g) @ direction, abs=1e-9)
            assert second == pytest.approx(direction @ h @ direction - direction @ direction, abs=1e-8)
        step = problem.newton_step(share, gradient, mu)
        scale = 1.0 / np.sqrt(np.diag(hessian))  # the norm in which the equations are solved
        residual = scale * (hessian @ step + gradient)
        assert np.linalg.norm(residual) <= 1.001 * module._PRECISION * np.linalg.norm(scale * gradient)
        length = problem.search(planes.loss - products, problem.products(step), mu, w, step)
        slope = smoothed(planes, w + length * step, mu)[1] @ step
        assert abs(slope) <= 0.1 * abs(gradient @ step) * (1 + 1e-9)
        assert problem.search(planes.loss - products, problem.products(-step), mu, w, -step) == 0.0


def cvxpy_optimum(planes, m, signs=None):
    import cvxpy

    w, slack = cvxpy.Variable(m), cvxpy.Variable(planes.cap.shape[0], nonneg=True)
    constraints = [] if signs is None else [cvxpy.multiply(signs, w) >= 0]
    constraints += [
        slack[q] >= loss - psi @ w for q, own in enumerate(dense_planes(planes, m)) for loss, psi in own[1:]
    ]
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + planes.cap @ slack), constraints)
    return float(problem.solve(solver="CLARABEL"))


@pytest.mark.parametrize(("seed", "sparse_rows"), CASES)
def test_gap_and_masses(seed, sparse_rows, monkeypatch):
    monkeypatch.setattr(module, "_MAX_STEPS", 200)
    planes = random_planes(seed, sparse_rows=sparse_rows)
    planes = planes._replace(cap=planes.cap * 10.0 ** np.random.default_rng(seed).uniform(-2, 3))
    optimum = cvxpy_optimum(planes, 4)
    found = minimise(planes, np.ones(4), 1e-7 * optimum, 1.0)
    assert (found.alpha >= 0).all()
    assert (found.alpha.sum(axis=1) <= planes.cap * (1 + 1e-12)).all()
    assert found.gap <= 1e-7 * optimum
    assert bound(planes, found.alpha, 4) == pytest.approx(optimum, rel=1e-6, abs=1e-9)
    _, gradient, _, slack, _ = smoothed(planes, found.centre, 1.0)
    assert 0.5 * gradient @ gradient <= 0.5 * slack * (1 + 1e-9)


def test_bounds_with_signs_where_they_cut_steps_off(monkeypatch):
    """A step that is cut off at a sign may not descend; then the gradient is followed, and bounds stay valid."""
    lengths = []
    search = module._Smoothed.search

    def seen(self, *arguments):
        lengths.append(search(self, *arguments))
        return lengths[-1]

    monkeypatch.setattr(module._Smoothed, "search", seen)
    monkeypatch.setattr(module, "_MAX_STEPS", 200)
    n_cut = n_close = 0
    for seed in range(20):
        planes = random_planes(seed, n=12, m=5, slots=6)
        signs = np.random.default_rng(seed).integers(-1, 2, size=5).astype(float)
        optimum = cvxpy_optimum(planes, 5, signs)
        lengths.clear()
        found = minimise(planes, np.full(5, 0.1) * signs, 1e-6 * optimum, 1e-2, signs=signs)
        value = bound(planes, found.alpha, 5, signs)
        assert value <= optimum * (1 + 1e-7)
        assert optimum <= (value + found.gap) * (1 + 1e-7)
        assert (signs * found.centre >= 0).all()
        n_cut += 0.0 in lengths[:-1]
        n_close += found.gap <= 1e-3 * optimum
    assert n_cut >= 3
    assert n_close >= 15


def make_data(n=1200, csr=False, seed=0, m=6):
    """Return rows, labels and offsets of ``n`` queries of 8 documents."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8 * n, m)).astype(np.float32)
    y = np.clip(np.round(X @ rng.normal(size=m) + rng.normal(size=8 * n)), 0, 3)
    if csr:
        X = sparse.csr_matrix(np.where(rng.random(X.shape) < 0.5, X, 0))
    return X, y, np.arange(n + 1) * 8


def make_problem(loss="ndcg@5", n=1200, n_jobs=1, csr=False, seed=0, m=6):
    return bind(make_data(n, csr, seed, m), loss, n_jobs=n_jobs)


@pytest.fixture
def solved(monkeypatch):
    """Return a list that gets an entry whenever the problem over the planes is solved."""
    calls, solve = [], BlockDual.solve
    monkeypatch.setattr(BlockDual, "solve", lambda *a: calls.append(1) or solve(*a))
    return calls


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_passes_hardly_depend_on_C(loss):
    problem = make_problem(loss)
    for C in (100.0, 1e4):
        fit = frank_wolfe(problem, C)
        assert fit.converged
        assert fit.n_passes <= 12
        reference = one_slack(problem, C, Options(tol=1e-3, max_passes=2000))
        assert fit.dual <= reference.primal
        assert reference.dual <= fit.primal


@pytest.mark.parametrize("csr", [False, True])
def test_same_bytes_on_any_number_of_threads(csr, monkeypatch, solved):
    monkeypatch.setattr(module, "_TASK", 512)
    monkeypatch.setattr("structsvm.trainers.passes._CHUNK_BYTES", 4096)
    fits = [frank_wolfe(make_problem(csr=csr, n_jobs=j), 1e3, Options(tol=1e-4)) for j in (1, 2, 5)]
    assert len(solved) >= 6
    check_same_bytes(fits)


def test_support_of_each_query_gives_the_same_optimum():
    """More than 256 columns: planes keep the features of their query only."""
    rng = np.random.default_rng(0)
    narrow = make_problem(csr=True, n=1100)
    X, y, offsets = make_data(csr=True, n=1100)
    column = np.sort(rng.permutation(300)[:6])
    X = sparse.csr_matrix((X.data, column[X.indices], X.indptr), shape=(8 * 1100, 300))
    wide = bind((X, y, offsets), "ndcg@5")
    assert wide.support is not None
    assert pays(wide)
    a, b = frank_wolfe(wide, 1e3, Options(tol=1e-5)), frank_wolfe(narrow, 1e3, Options(tol=1e-5))
    assert a.primal == pytest.approx(b.primal, rel=1e-5)
    np.testing.assert_allclose(a.w[column], b.w, atol=1e-2 * np.abs(b.w).max())


@pytest.mark.parametrize(("n", "loss"), [(1200, "mrr"), (1200, "map"), (60, "ndcg@5")])
def test_bounds_on_a_path_are_recomputed_where_no_pass_was_made_too(n, loss):
    problem = make_problem(loss, n=n)
    state, passes = BlockDual(problem, 1e-2), []
    for C in (1e-2, 1.0, 1e2, 3e2, 3.1e2, 1e3, 1e8):
        fit = frank_wolfe(problem, C, start=Start(kept={"dual": state}))
        passes.append(fit.n_passes)
        last = fit.history[-1]
        assert (last.n_passes, last.primal, last.dual) == (fit.n_passes, fit.primal, fit.dual)
        assert fit.primal == pytest.approx(objective(problem, C, fit.w), rel=1e-12)
        assert fit.dual <= one_slack(problem, C, Options(tol=1e-4, max_passes=5000)).primal
    assert min(passes) == 0 or n < 100
