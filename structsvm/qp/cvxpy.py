"""The small dual and its constrained variant by cvxpy with Clarabel, the reference for our own solver."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.protocols import Float, Int, QPResult
from structsvm.qp.cone import ConeResult, certify_cone, project
from structsvm.qp.dual import certify, check, feasible

__all__ = ["require", "solve", "solve_cone"]


def solve(
    gram: Float, loss: Float, group: Int, cap: Float, alpha0: Float | None = None, *, tol: float = 1e-10
) -> QPResult:
    """Maximise as :func:`structsvm.qp.active_set.solve` does, with an interior-point method that has no warm start."""
    # variables are scaled by the largest cap before the call; the solution is made feasible, and certified by its gap
    cp = require()
    gram, loss, group, cap = check(gram, loss, group, cap)
    feasible(alpha0, group, cap)
    n = len(loss)
    scale = float(cap.max(initial=0.0))
    if n == 0 or scale == 0.0:
        return certify(gram, loss, group, cap, np.zeros(n))
    # use a factor: rounding can make a singular Gram matrix indefinite, which cvxpy refuses
    spectrum, vectors = np.linalg.eigh((gram + gram.T) / 2)
    positive = spectrum > 1e-15 * max(spectrum[-1], 0.0)
    factor = np.sqrt(scale * spectrum[positive])[:, None] * vectors[:, positive].T
    members = np.zeros((len(cap), n))
    members[group, np.arange(n)] = 1.0
    beta = cp.Variable(n, nonneg=True)
    rise = loss @ beta
    if positive.any():
        rise = rise - 0.5 * cp.sum_squares(factor @ beta)
    _run(cp, cp.Problem(cp.Maximize(rise), [members @ beta <= cap / scale]), tol)
    return certify(gram, loss, group, cap, feasible(scale * beta.value, group, cap))


def solve_cone(
    joint: Float,
    loss: Float,
    C: float,
    cone: Float,
    alpha0: Float | None = None,
    *,
    tol: float = 1e-10,
) -> ConeResult:
    """Solve the one-slack problem over planes with weights in a cone, whose rows need not be independent."""
    # Solves the primal and reads ``alpha`` off its multipliers; the value is the exact dual value of that feasible
    # ``alpha``: weak duality holds whatever the error of Clarabel. There is no warm start.
    cp = require()
    joint, loss = np.asarray(joint, dtype=np.float64), np.asarray(loss, dtype=np.float64)
    signs_or_rows = cone = np.asarray(cone, dtype=np.float64)
    n, m = joint.shape
    if n == 0:
        return ConeResult(np.zeros(0), np.zeros(m), 0.0, 0.0)
    w, slack = cp.Variable(m), cp.Variable(nonneg=True)
    margins = slack >= loss - joint @ w
    if cone.ndim == 1:
        cone = np.diag(cone)[cone != 0]
    rules = [cone @ w >= 0] if len(cone) else []
    _run(cp, cp.Problem(cp.Minimize(cp.sum_squares(w) / (2 * C) + slack), [margins, *rules]), tol)
    one, cap = np.zeros(n, dtype=np.int64), np.array([float(C)])
    alpha = feasible(C * np.atleast_1d(margins.dual_value), one, cap)
    return certify_cone(joint, loss, C, alpha, project(joint.T @ alpha, signs_or_rows))


def _run(cp: Any, problem: Any, tol: float) -> None:
    accuracy = max(tol, 1e-12)
    problem.solve(
        solver=cp.CLARABEL, tol_gap_abs=accuracy, tol_gap_rel=accuracy, tol_feas=accuracy, max_iter=500
    )
    if any(variable.value is None for variable in problem.variables()):
        raise RuntimeError(f"qp: Clarabel found no solution (status {problem.status!r}); try qp='active_set'")


def require() -> Any:
    """Import cvxpy; raise ImportError with the command that installs it."""
    try:
        import clarabel  # noqa: F401
        import cvxpy
    except ImportError as error:
        raise ImportError("cvxpy and Clarabel are missing: pip install cvxpy clarabel") from error
    return cvxpy
