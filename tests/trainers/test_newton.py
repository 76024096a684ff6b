"""Truncated Newton: against scipy on explicit pairs and against cutting planes; its bounds at every step."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from structsvm.oracles import SquaredPairs
from structsvm.trainers import ConvergenceWarning, fit_path
from structsvm.trainers.contract import Options, Start
from structsvm.trainers.newton import newton as by_newton
from structsvm.trainers.one_slack import one_slack
from tests.trainers.problems import bind, make_rows


def newton(problem, C, *, w0=None, tol=1e-3, **options):
    if w0 is not None:
        return by_newton(problem, C, Options(tol), Start(w0))
    return next(fit_path(problem, [C], solver="newton", tol=tol, **options))


def make_problem(X, y, offsets, normalize="pairs", **options):
    return bind((X, y, offsets), SquaredPairs(normalize), **options)


def explicit(X, y, offsets, normalize):
    """Return differences of all pairs, and their shares in the mean, in which queries without pairs count."""
    differences, weights = [], []
    for a, b in pairwise(offsets):
        pairs = [(i, j) for i in range(a, b) for j in range(a, b) if y[i] > y[j]]
        differences += [X[i] - X[j] for i, j in pairs]
        weights += [1.0 / (len(offsets) - 1) / max(1, len(pairs))] * len(pairs)
    if normalize == "pairs":
        weights = np.full(len(weights), 1.0 / len(weights))
    return np.array(differences), np.array(weights)


@pytest.mark.parametrize("normalize", ["pairs", "query"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_equals_scipy_on_explicit_pairs(C, normalize):
    X, y, offsets = make_rows()
    D, weights = explicit(X, y, offsets, normalize)

    def objective(w):
        violation = np.maximum(0.0, 1.0 - D @ w)
        return 0.5 * w @ w + C * weights @ violation**2, w - 2 * C * D.T @ (weights * violation)

    best = minimize(
        objective, np.zeros(5), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10}
    )
    fit = newton(make_problem(X, y, offsets, normalize), C, tol=1e-9)
    assert fit.converged
    assert fit.gradient_norm <= 1e-9
    assert fit.primal == pytest.approx(best.fun, rel=1e-10)
    assert fit.w == pytest.approx(best.x, abs=1e-5)
    value, gradient = objective(fit.w)
    assert fit.primal == pytest.approx(value, rel=1e-12)
    at_zero = np.linalg.norm(objective(np.zeros(5))[1])
    assert fit.gradient_norm == pytest.approx(np.linalg.norm(gradient) / at_zero, abs=1e-12)


@pytest.mark.parametrize("C", [0.01, 10.0, 1000.0])
def test_cutting_planes_agree_and_every_step_bounds_the_optimum(C):
    problem = make_problem(*make_rows(seed=1))
    witness = one_slack(problem, C, Options(tol=1e-6))
    fit = newton(problem, C, tol=1e-9)
    assert witness.dual <= fit.primal * (1 + 1e-12)
    assert fit.dual <= witness.primal * (1 + 1e-12)
    assert fit.primal <= witness.primal * (1 + 1e-12)
    assert fit.gap <= 1e-9
    for progress in fit.history:
        assert progress.dual <= fit.primal * (1 + 1e-12)
        assert progress.primal >= fit.dual * (1 - 1e-12)
    assert fit.n_passes == fit.history[-1].n_passes


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scales_of_features_far_from_one(scale):
    fit = newton(make_problem(*make_rows(scale=scale)), 1.0, tol=1e-6)
    assert fit.converged
    assert np.isfinite(fit.w).all()


def test_a_path_equals_single_fits():
    problem = make_problem(*make_rows())
    Cs = [100.0, 0.01, 1.0]
    fits = list(fit_path(problem, Cs, solver="newton", tol=1e-8))
    assert [f.C for f in fits] == sorted(Cs)
    for fit in fits:
        assert fit.primal == pytest.approx(newton(problem, fit.C, tol=1e-8).primal, rel=1e-8)
    again = newton(problem, 100.0, tol=1e-8, w0=fits[-1].w)
    assert again.n_iterations == 0
    assert again.n_passes == 2


@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
def test_a_small_C_does_not_leave_zero_weights():
    fit = newton(make_problem(*make_rows()), 1e-6)
    assert np.linalg.norm(fit.w) > 0
    assert fit.gradient_norm <= 1e-3


def test_stopping_early_warns_and_says_how_far_it_came():
    problem = make_problem(*make_rows())
    with pytest.warns(ConvergenceWarning, match="gradient norm"):
        fit = newton(problem, 100.0, tol=1e-9, max_passes=3)
    assert not fit.converged
    assert fit.gradient_norm > 1e-9
    with pytest.warns(
        ConvergenceWarning, match="newton was stopped by the callback at relative gradient norm"
    ):
        stopped = newton(problem, 100.0, tol=1e-9, callback=lambda p: p.n_passes > 1)
    assert stopped.n_iterations >= 1
