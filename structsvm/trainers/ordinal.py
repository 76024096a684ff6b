"""The multiple-threshold ordinal SVM (thesis, OP 2) as a cvxpy problem, a reference for the cutting-plane trainers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from structsvm.common.compiling import clock
from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Int, Problem
from structsvm.trainers.certificate import Fit, check_bounds, relative_gap


def ordinal_interior_point(
    problem: Problem, X: Any, sides: Sequence[tuple[Int, Float, Int, Float]], C: float, *, tol: float = 1e-3
) -> Fit:
    """Minimise ``1/2 ||w||^2 + C * weighted slacks`` over ``w`` and ``b_1 <= ... <= b_T`` by an interior-point method.

    ``sides`` comes from the separator and gives, per threshold, the rows below it with their weights and the rows above
    it with theirs. The method is suitable for up to a few thousand rows.
    """
    # The slack xi of a row satisfies w.x - b_j >= 1 - xi above threshold j, and w.x - b_j <= -1 + xi below it. (The
    # thesis has a wrong sign in (2.7).)
    from structsvm.qp.cvxpy import require

    cp = require()
    start = clock()
    X = X.astype(np.float64)
    w, b = cp.Variable(problem.n_features), cp.Variable(len(sides))
    slack: Any = 0
    for j, (below, low, above, high) in enumerate(sides):
        slack += low @ cp.pos(1 + (X[below] @ w - b[j])) + high @ cp.pos(1 - (X[above] @ w - b[j]))
    order = [b[:-1] <= b[1:]] if len(sides) > 1 else []
    # divide the objective by C, because conic solvers are inaccurate with large coefficients
    program = cp.Problem(cp.Minimize(cp.sum_squares(w) / (2 * C) + slack), order)
    accuracy = max(1e-2 * tol, 1e-11)
    options = {"tol_gap_abs": accuracy, "tol_gap_rel": accuracy, "tol_feas": accuracy, "max_iter": 500}
    # call the solver directly, because ``program.solve`` does not return the dual value
    data, chain, inverse = program.get_problem_data(cp.CLARABEL, solver_opts=options)
    raw = chain.solve_via_data(program, data, solver_opts=options)
    program.unpack_results(raw, chain, inverse)
    if w.value is None:
        raise RuntimeError(
            f"cvxpy: Clarabel found no solution of the ordinal SVM ({program.status}); scale the features"
        )
    solution = np.asarray(w.value, dtype=np.float64)
    cut = problem.cut(solution)
    primal = 0.5 * dot(solution, solution) + C * (cut.loss - dot(cut.joint, solution))
    dual = C * float(raw.obj_val_dual)
    # the dual value comes from the solver and is only as accurate as requested
    check_bounds(primal, dual, C * (1 + abs(cut.loss)), rounding=10 * accuracy)
    dual = min(primal, dual)
    gap = relative_gap(primal, dual)
    return Fit(
        w=solution,
        primal=primal,
        dual=dual,
        gap=gap,
        C=float(C),
        converged=gap <= tol,
        certified=True,
        n_iterations=int(program.solver_stats.num_iters),
        n_passes=1,
        n_cuts=0,
        seconds=clock() - start,
        solver="cvxpy",
    )
