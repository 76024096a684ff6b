"""Signs, convex constraints and penalties: certificates, and the optimum over all rankings by cvxpy."""

import warnings
from itertools import pairwise, permutations

import cvxpy as cp
import numpy as np
import pytest

from structsvm.qp.convex import Convex
from structsvm.trainers import ConvergenceWarning, fit_path, train
from tests.trainers import problems
from tests.trainers.problems import LOSS_NAMES, WITH_SIGNS, bind, check_same_bytes, objective

# penalties that want zeros have none but zeros where C is small
pytestmark = pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")


def make_problem(loss="map", n_queries=30, m=6, seed=0, **options):
    return problems.make_problem(loss, n_queries, m, seed, lengths=(3, 12), **options)


# -- the whole problem, every ranking of every query a constraint ---------------------------------------------------


def roc_area_by_enumeration(problem_data, C, constraints, penalty):
    """Solve with slacks of at least the share of swapped pairs minus ``w . joint``, for each ranking."""
    X, y, offsets = problem_data
    w, slack = cp.Variable(X.shape[1]), cp.Variable(offsets.size - 1, nonneg=True)
    listed = constraints(w)
    for q in range(offsets.size - 1):
        rows, labels = X[offsets[q] : offsets[q + 1]], y[offsets[q] : offsets[q + 1]]
        good, bad = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
        seen = set()
        for order in permutations(range(rows.shape[0])):
            position = np.argsort(order)
            swapped = tuple((i, j) for i in good for j in bad if position[j] < position[i])
            if swapped in seen:
                continue
            seen.add(swapped)
            n = good.size * bad.size
            joint = 2 * sum((rows[i] - rows[j] for i, j in swapped), np.zeros(X.shape[1])) / n
            listed.append(slack[q] >= len(swapped) / n - joint @ w)
    problem = cp.Problem(cp.Minimize(penalty(w) + C * cp.sum(slack) / slack.size), listed)
    return problem.solve(solver=cp.CLARABEL), w.value


@pytest.mark.parametrize(
    ("constraints", "penalty", "signs"),
    [
        (None, None, [1, -1, 0]),
        (lambda w: [cp.sum(w) == 1], None, None),
        (lambda w: [w[0] >= w[1], cp.norm(w) <= 0.8], None, [0, 0, 1]),
        (None, cp.norm1, None),
        (lambda w: [w <= 0.4], lambda w: cp.norm1(w) + cp.sum_squares(w), [1, 0, 0]),
    ],
)
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_the_optimum_is_that_over_all_rankings(constraints, penalty, signs, C):
    X, offsets = np.random.default_rng(3).normal(size=(40, 3)), np.arange(0, 41, 5)
    y = np.tile([1.0, 1, 0, 0, 0], 8)
    X[:, 1] += y
    problem = bind((X, y, offsets), "roc")
    signs = None if signs is None else np.array(signs, dtype=float)

    def everything(w):
        listed = [] if constraints is None else constraints(w)
        return listed if signs is None else [*listed, cp.multiply(signs, w) >= 0]

    height = (lambda w: 0.5 * cp.sum_squares(w)) if penalty is None else penalty
    optimum, _ = roc_area_by_enumeration((X, y, offsets), C, everything, height)
    fit = train(problem, C, tol=1e-6, region=Convex(3, constraints, penalty, signs))
    assert fit.converged
    assert fit.dual <= optimum * (1 + 1e-7)
    assert fit.primal >= optimum * (1 - 1e-7)
    if constraints is None and penalty is None:
        for solver in WITH_SIGNS:
            native = train(problem, C, tol=1e-6, cone=signs, solver=solver)
            assert native.dual <= optimum * (1 + 1e-7)
            assert native.primal >= optimum * (1 - 1e-7)


# -- signs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("csr", [False, True])
def test_all_trainers_agree_under_signs(loss, csr):
    rng = np.random.default_rng(1)
    for C in (0.1, 30.0):
        problem = make_problem(loss, csr=csr, seed=int(C) + 1)
        signs = rng.integers(-1, 2, size=6).astype(float)
        fits = [train(problem, C, solver=s, tol=1e-5, cone=signs) for s in WITH_SIGNS]
        fits.append(train(problem, C, tol=1e-5, region=Convex(6, signs=signs)))
        lower = max(fit.dual for fit in fits)
        for fit in fits:
            assert fit.converged
            assert (fit.w * signs >= 0).all()
            assert fit.primal == pytest.approx(objective(problem, C, fit.w), rel=1e-12)
            assert lower * (1 - 1e-12) <= fit.primal <= lower * (1 + 1.1e-5)


@pytest.mark.parametrize("loss", ["map", "ndcg@5", "mrr"])
def test_newton_over_the_planes_under_signs(loss):
    """With many queries and a large C, sweeps do not suffice; check float32, and features of only a few queries."""
    rng = np.random.default_rng(5)
    for csr, dtype in [(False, np.float32), (True, float)]:
        problem = make_problem(loss, n_queries=240, seed=6, csr=csr, dtype=dtype)
        for _ in range(2):
            signs = rng.integers(-1, 2, size=6).astype(float)
            reference = train(problem, 300.0, solver="one_slack", tol=1e-4, cone=signs)
            fit = train(problem, 300.0, solver="frank_wolfe", tol=1e-4, cone=signs, max_passes=80)
            assert fit.converged
            assert (fit.w * signs >= 0).all()
            assert reference.dual <= fit.primal <= reference.primal * (1 + 1e-4)
            assert fit.dual <= reference.primal


def test_paths_threads_and_weights_under_signs():
    signs = np.array([1.0, 0, -1, 0, 1, -1])
    weights = np.random.default_rng(7).integers(0, 3, size=150) + 0.5
    problem = make_problem(n_queries=150, seed=8, weights=weights)
    for solver in ("one_slack", "frank_wolfe"):
        fits = list(fit_path(problem, [0.1, 3.0, 100.0], solver=solver, cone=signs))
        for fit in fits:
            alone = train(problem, fit.C, solver=solver, cone=signs, tol=1e-5)
            assert alone.dual * (1 - 1e-12) <= fit.primal <= alone.primal * (1 + 1e-3)
            assert (fit.w * signs >= 0).all()
    check_same_bytes(
        [
            train(make_problem(n_queries=150, seed=8, n_jobs=j), 100.0, solver="frank_wolfe", cone=signs)
            for j in (1, 3)
        ]
    )


def test_free_signs_change_nothing():
    problem = make_problem(n_queries=40)
    for solver in ("n_slack", "frank_wolfe"):
        free = train(problem, 10.0, solver=solver)
        np.testing.assert_array_equal(train(problem, 10.0, solver=solver, cone=np.zeros(6)).w, free.w)


# -- convex constraints and penalties ------------------------------------------------------------------------------

PENALTIES = {
    "ridge": None,
    "l1": cp.norm1,
    "elastic net": lambda w: cp.norm1(w) + 0.25 * cp.sum_squares(w),
    "groups": lambda w: cp.norm(w[:3]) + cp.norm(w[3:]),
}
CONSTRAINTS = [
    (None, lambda w: 0.0),
    (lambda w: [cp.sum(w) == 1, w >= -1], lambda w: max(abs(w.sum() - 1), -1 - w.min())),
    (lambda w: [cp.norm(w) <= 1, w[0] >= w[1]], lambda w: max(np.linalg.norm(w) - 1, w[1] - w[0])),
]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(2))
def test_certificates_are_never_wrong(penalty, seed):
    """On 96 problems, compare both bounds at each pass with a fit of far smaller tolerance."""
    said = PENALTIES[penalty]
    measured = (lambda w: 0.5 * w @ w) if said is None else (lambda w: float(said(w).value))
    rng = np.random.default_rng(seed)
    for constraints, violation in CONSTRAINTS:
        region = Convex(6, constraints, said)
        for k in range(4):
            C = 10.0 ** rng.uniform(-2, 3)
            problem = make_problem(
                ["map", "ndcg@5", "pairs", "mrr"][k], n_queries=12, seed=int(rng.integers(1000))
            )
            with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                sharp = train(problem, C, tol=1e-7, region=region, max_passes=300)
                fit = train(problem, C, tol=1e-3, region=region, max_passes=int(rng.integers(1, 60)))
            assert violation(fit.w) <= 1e-9
            assert fit.primal == pytest.approx(objective(problem, C, fit.w, measured), rel=1e-9)
            for progress in (*sharp.history, *fit.history):
                assert progress.dual <= min(sharp.primal, fit.primal) * (1 + 1e-9)
                assert progress.primal >= max(sharp.dual, fit.dual) * (1 - 1e-9)


def test_few_features_are_used_under_l1():
    rng = np.random.default_rng(9)
    X, offsets = rng.normal(size=(1200, 30)), np.arange(0, 1201, 20)
    y = (X[:, :4].sum(axis=1) + 0.5 * rng.normal(size=1200) > 2.5).astype(float)
    problem = bind((X, y, offsets))
    fits = list(fit_path(problem, [0.1, 2.0, 20.0, 200.0], region=Convex(30, penalty=cp.norm1)))
    used = [np.count_nonzero(fit.w) for fit in fits]
    assert all(fit.converged for fit in fits)
    assert used[0] == 0
    assert used[1] <= 6
    assert used == sorted(used)
    assert np.count_nonzero(fits[2].w[:4]) == 4
    assert np.count_nonzero(train(problem, 20.0).w) == 30


@pytest.mark.parametrize(
    "options",
    [
        {"constraints": lambda w: [w[0] >= w[2]]},
        {"constraints": lambda w: [w[3] <= 1]},
        {"penalty": lambda w: 0.5 * cp.sum_squares(w)},
        {"penalty": lambda w: 1e-6 * cp.norm1(w)},
        {"constraints": lambda w: [cp.abs(w) <= 1e-4]},
    ],
    ids=["order", "bound not met", "ridge", "l1", "tiny"],
)
def test_weights_within_tolerance_of_zero_still_rank(options):
    """If zero weights are within ``tol`` of the optimum, the fit still returns weights that rank well."""
    rng = np.random.default_rng(0)
    X, offsets = 0.01 * rng.normal(size=(3000, 4)), np.arange(0, 3001, 10)
    y = (100 * X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=3000) > 1).astype(float)
    problem = bind((X, y, offsets))
    zero = problem.cut(np.zeros(4)).loss

    def area(w):
        scores, right = X @ w, []
        for first, last in pairwise(offsets):
            good, bad = y[first:last] == 1, y[first:last] == 0
            if good.any() and bad.any():
                right.append((scores[first:last][good][:, None] > scores[first:last][bad]).mean())
        return np.mean(right)

    fits = [train(problem, 1.0, region=Convex(4, **options))]
    fits += fit_path(problem, [1e-2, 1e-1, 1.0], region=Convex(4, **options))
    free = area(train(problem, 1.0).w)
    for fit in fits:
        assert fit.converged
        assert fit.primal < fit.C * zero
        assert area(fit.w) > 0.5 + 0.7 * (free - 0.5)


def test_a_callback_stops_and_an_approximate_oracle_is_no_certificate():
    seen = []
    problem = make_problem(n_queries=60)
    region = Convex(6, lambda w: [cp.sum(w) == 1], cp.norm1)

    def stop(progress):
        seen.append(progress)
        return len(seen) == 3

    with pytest.warns(ConvergenceWarning, match="was stopped by the callback"):
        fit = train(problem, 100.0, region=region, tol=1e-9, callback=stop)
    assert fit.n_passes == 3
    assert abs(fit.w.sum() - 1) < 1e-12
    problem.exact = False
    assert not train(problem, 1.0, region=region).certified
