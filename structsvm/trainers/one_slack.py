"""One-slack cutting planes (Joachims, Finley & Yu 2009), stabilised."""

from __future__ import annotations

from typing import Literal

import numpy as np

from structsvm.protocols import Callback, Float, Problem
from structsvm.qp import get_solver
from structsvm.trainers.certificate import Fit, Recorder
from structsvm.trainers.cuts import CutPool

__all__ = ["one_slack"]


def one_slack(
    problem: Problem,
    C: float,
    *,
    tol: float = 1e-3,
    max_passes: int = 1000,
    w0: Float | None = None,
    pool: CutPool | None = None,
    stabilise: bool = True,
    positive: bool = False,
    cone: Float | None = None,
    qp: Literal["active_set", "cvxpy"] = "active_set",
    callback: Callback | None = None,
) -> Fit:
    """Minimise ``1/2 ||w||^2 + C sum_q weights[q] H_q(w)`` over a growing set of joint cutting planes.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    C : float
        Trade-off, > 0.
    tol : float, default=1e-3
        Relative duality gap to stop at.
    max_passes : int, default=1000
        Passes over the data; each adds one cut. An approximate oracle may take one more, to measure the weights.
    w0 : ndarray, shape (n_features,), optional
        First point to evaluate; zero by default.
    pool : CutPool, optional
        Cuts found before, for any C, on the same problem; extended in place.
    stabilise : bool, default=True
        Evaluate between the best point so far and the minimiser of the cutting-plane model (Ben-Ameur & Neto 2007)
        instead of at the minimiser, which far from the optimum jumps about. The share moves by the slope found at
        the point, as a line search would with one evaluation per pass. False is the textbook method.
    positive : bool, default=False
        Constrain ``w >= 0``, or ``cone @ w >= 0`` where there is a cone.
    cone : ndarray, shape (n_constraints, n_features), optional
        With ``positive``: the constraints, as linearly independent rows. The identity by default.
    qp : {"active_set", "cvxpy"}, default="active_set"
        Solver of the working-set dual.
    callback : callable, optional
        Told the bounds after each pass; a truthy return stops early.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        For a C that is not positive and finite, an unknown solver, or a cone whose rows are not independent.

    Warns
    -----
    ConvergenceWarning
        When ``max_passes`` ended the run above ``tol``.

    Examples
    --------
    >>> from structsvm.oracles.average_precision import AveragePrecision
    >>> from structsvm.trainers.passes import RankingProblem
    >>> X, y, offsets = np.array([[1.0], [0.0]]), np.array([1.0, 0.0]), np.array([0, 2])
    >>> problem = RankingProblem(X, offsets, AveragePrecision().bind(y, offsets))
    >>> fit = one_slack(problem, C=1.0, tol=1e-6)
    >>> round(fit.primal, 6), fit.n_passes
    (0.03125, 2)
    """
    record = Recorder(C, tol, problem.n_features, callback, exact=problem.exact)
    pool = CutPool(problem.n_features) if pool is None else pool
    solver = get_solver(qp)
    qp_tol = min(1e-8, 1e-2 * tol)
    minimiser = np.zeros(problem.n_features) if w0 is None else np.array(w0, dtype=np.float64)
    if len(pool) > 0:
        minimiser, dual = pool.solve(C, solver, qp_tol, positive=positive, cone=cone)
        record.lower(dual)
        if w0 is not None:
            minimiser = np.array(w0, dtype=np.float64)
    point = minimiser
    stay = 0.0  # weight of the best point so far
    # zero weights may be within tol of the optimum for a small C, and rank nothing: look one step further
    while record.n_passes < max_passes and (
        not record.done
        or (record.n_passes == 1 and not record.stopped and not record.w.any() and point.any())
    ):
        cut = problem.cut(point)
        if record.n_passes > 0 and stabilise:
            slope = (point - C * cut.joint) @ (minimiser - record.w)
            stay = 0.8 * stay if slope < 0 else min(0.95, stay + 0.3 * (1.0 - stay))
        hinge = max(0.0, cut.loss - float(cut.joint @ point))
        if not problem.exact:  # cuts found before may say more about this point than the oracle does now
            hinge = max(hinge, pool.value(point))
        record.upper(0.5 * float(point @ point) + C * hinge, point)
        pool.add(cut)
        minimiser, dual = pool.solve(C, solver, qp_tol, positive=positive, cone=cone)
        record.lower(dual)
        record.passed()
        point = stay * record.w + (1.0 - stay) * minimiser
    if not np.isfinite(record.primal):  # the last estimate was refuted when no pass was left
        cut = problem.cut(record.w)
        hinge = max(cut.loss - float(cut.joint @ record.w), pool.value(record.w))
        record.upper(max(0.5 * float(record.w @ record.w) + C * hinge, record.dual), record.w)
        record.passed()
    return record.finish(
        "one_slack",
        n_iterations=record.n_passes,
        n_cuts=len(pool),
        exact=problem.exact,
        dual_rows=None if positive else pool.rows,
    )
