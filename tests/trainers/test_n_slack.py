"""n-slack cutting planes against the complete primal problem, and weak duality."""

import warnings

import numpy as np
import pytest

from structsvm.oracles import StructuredProblem
from structsvm.trainers import ConvergenceWarning, Options
from structsvm.trainers.n_slack import n_slack
from tests.oracles.test_adapter import Multiclass
from tests.trainers.problems import objective

cvxpy = pytest.importorskip("cvxpy")


def directly(X, y, weights, C):
    """Return the optimum of the primal with the constraints of all outputs of all examples."""
    W = cvxpy.Variable((y.max() + 1, X.shape[1]))
    scores = X @ W.T
    other = 1.0 - np.eye(y.max() + 1)[y]
    own = cvxpy.sum(cvxpy.multiply(scores, 1.0 - other), axis=1)
    hinge = cvxpy.max(scores + other, axis=1) - own
    return cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(W) + C * (weights @ hinge))).solve(
        solver=cvxpy.CLARABEL
    )


def multiclass(seed=0, n=60, m=4, n_classes=3, weighted=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, size=n)
    X = rng.normal(size=(n, m)) + rng.normal(size=(n_classes, m))[y]
    return X, y, rng.random(n) * (rng.random(n) < 0.8) if weighted else None


def hinges(X, y, weights=None):
    """Return the Crammer-Singer hinge: w is one weight vector per class, and a "query" is one example."""
    return StructuredProblem(Multiclass(y.max() + 1), list(X), y.tolist(), weights)


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_reaches_the_optimum_of_the_primal(C, weighted):
    X, y, weights = multiclass(weighted=weighted)
    problem = hinges(X, y, weights)
    best = directly(X, y, problem.weights, C)
    fit = n_slack(problem, C, Options(tol=1e-6))
    assert fit.converged
    assert fit.certified
    assert fit.gap <= 1e-6
    assert fit.dual <= best * (1 + 1e-7)
    assert best <= fit.primal * (1 + 1e-7)
    assert fit.primal == pytest.approx(objective(problem, C, fit.w), rel=1e-12)


def test_separable_with_huge_C():
    fit = n_slack(hinges(np.eye(2), np.array([0, 1])), 1e8)
    # margins w_y.x - w_other.x >= 1: each of the two examples needs a norm of 1/2 at least
    assert fit.primal == pytest.approx(0.5, rel=1e-3)


def test_nothing_to_learn_is_optimal_at_once():
    fit = n_slack(hinges(np.zeros((5, 2)), np.zeros(5, dtype=int)), 1.0)
    assert (fit.primal, fit.dual, fit.gap, fit.n_cuts) == (0.0, 0.0, 0.0, 0)


def test_tolerance_at_the_limit_of_rounding_ends():
    problem = hinges(*multiclass(4, n=20))
    with pytest.warns(ConvergenceWarning):
        fit = n_slack(problem, 1.0, Options(tol=1e-300))
    assert fit.gap <= 1e-9


@pytest.mark.parametrize("scale", [1e6, 1e12, 1e100])
def test_bounds_do_not_cross_where_rounding_rules(scale):
    X, y, _ = multiclass(6, n=30)
    problem = hinges(X * scale, y)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        fit = n_slack(problem, 1.0, Options(max_passes=20))
    assert all(p.dual <= p.primal for p in fit.history)
