"""Cutting planes with optimal thresholds against the literal problem in cvxpy."""

import numpy as np
import pytest
from scipy import sparse

from structsvm.oracles import OrdinalHinge
from structsvm.trainers import Options, RankingProblem
from structsvm.trainers.one_slack import one_slack
from structsvm.trainers.ordinal import ordinal_interior_point

pytest.importorskip("cvxpy")


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("kind", ["plain", "noise", "weights", "balanced", "csr", "float32"])
def test_the_same_optimum(kind, C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).round(1)
    noise = 10.0 if kind == "noise" else 1.0  # thresholds coincide
    y = np.clip(np.round(X @ rng.normal(size=4) + noise * rng.normal(size=60)), 0, 3)
    weights = rng.integers(0, 3, 60).astype(float) if kind == "weights" else None
    if kind == "csr":
        X = sparse.csr_matrix(X)
    if kind == "float32":
        X = X.astype(np.float32)
    everything = np.array([0, 60])
    separator = OrdinalHinge(balanced=kind == "balanced").bind(y, everything, weights=weights)
    problem = RankingProblem(X, everything, separator)
    ours = one_slack(problem, C, Options(tol=1e-5))
    exact = ordinal_interior_point(problem, X, separator.sides[0], C, tol=1e-6)
    assert exact.converged
    assert exact.gap <= 1e-6
    assert exact.primal >= ours.dual * (1 - 1e-9)
    assert ours.primal >= exact.dual * (1 - 1e-9)
    assert ours.primal == pytest.approx(exact.primal, rel=1.1e-5)
    assert (np.diff(separator.thresholds(X @ ours.w)) >= 0).all()
