"""Solve the small dual with cvxpy and Clarabel, as a reference for the active-set solver."""

from typing import Any

import numpy as np

from structsvm.common.extras import needed
from structsvm.common.portable.sums import products
from structsvm.protocols import Float, Int, QPResult
from structsvm.qp.dual import certify_gradient, check, feasible


def solve(
    gram: Float, loss: Float, group: Int, cap: Float, alpha0: Float | None = None, *, tol: float = 1e-10
) -> QPResult:
    """Solve the problem of :func:`structsvm.qp.active_set.solve` by an interior-point method without warm start."""
    # Variables are divided by the largest cap, as conic solvers expect numbers near one. The solution is made feasible,
    # and certified by a gap that is computed from it.
    cp = require()
    gram, loss, group, cap = check(gram, loss, group, cap)
    feasible(alpha0, group, cap)
    n = len(loss)
    scale = float(cap.max(initial=0.0))
    if n == 0 or scale == 0.0:
        return certify_gradient(loss, loss, group, cap, np.zeros(n))
    # pass a factor, because the Gram matrix may be indefinite by rounding, which cvxpy refuses
    spectrum, vectors = np.linalg.eigh((gram + gram.T) / 2)
    positive = spectrum > 1e-15 * max(spectrum[-1], 0.0)
    factor = np.sqrt(scale * spectrum[positive])[:, None] * vectors[:, positive].T
    members = np.zeros((len(cap), n))
    members[group, np.arange(n)] = 1.0
    beta = cp.Variable(n, nonneg=True)
    rise = loss @ beta
    if positive.any():
        rise = rise - 0.5 * cp.sum_squares(factor @ beta)
    problem, accuracy = cp.Problem(cp.Maximize(rise), [members @ beta <= cap / scale]), max(tol, 1e-12)
    problem.solve(
        solver=cp.CLARABEL, tol_gap_abs=accuracy, tol_gap_rel=accuracy, tol_feas=accuracy, max_iter=500
    )
    if beta.value is None:
        raise RuntimeError(f"qp: Clarabel found no solution (status {problem.status!r}); try qp='active_set'")
    alpha = feasible(scale * beta.value, group, cap)
    return certify_gradient(loss, loss - products(gram, alpha), group, cap, alpha)


def require() -> Any:
    """Import cvxpy; raise ImportError with the command that installs it."""
    with needed("this problem", "cvxpy clarabel"):
        import clarabel  # noqa: F401
        import cvxpy
    return cvxpy
