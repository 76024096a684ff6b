"""The n-slack cutting-plane trainer, a reference implementation for small problems of a few hundred queries.

Algorithm 1 of Yue's thesis (after Tsochantaridis et al., JMLR 6, 2005): for each query in turn, the most violated
output joins the working set if its violation exceeds the query's slack by more than epsilon, and the quadratic
programme over the whole working set is solved again. The original repeats rounds at a fixed epsilon, which does not
bound the distance to the optimum. In this implementation a pass after each round measures the primal value, and epsilon
is set to a quarter of the mean excess ``(primal - dual) / C``. Unless the optimum is reached, the violation of at least
one query exceeds its slack by that much.
"""

import numpy as np

from structsvm.common.portable.sums import dot, products
from structsvm.protocols import Problem
from structsvm.qp import get_solver
from structsvm.qp.cone import check_cone, solve_signs
from structsvm.trainers.certificate import Fit
from structsvm.trainers.contract import DEFAULTS, Options, Start
from structsvm.trainers.cuts import GrowingPlanes

supports = {"hinge", "signs", "qp"}


def n_slack(problem: Problem, C: float, options: Options = DEFAULTS, start: Start | None = None) -> Fit:
    """Train with one slack variable per query, by the thesis' Algorithm 1 with an epsilon that shrinks with the gap."""
    solve, tol = get_solver(options.qp), options.tol
    cone = None if options.cone is None else check_cone(options.cone, problem.n_features)
    record = (start or Start()).recorder(problem, C, options)
    cap = C * np.asarray(problem.weights, dtype=np.float64)
    working = GrowingPlanes(problem.n_features, query=np.int64)
    members: list[list[int]] = [[] for _ in range(problem.n_queries)]
    alpha = np.zeros(0)
    signs = np.zeros(problem.n_features) if cone is None else cone
    w = np.zeros(problem.n_features)
    loss, joint = np.zeros(1), np.zeros((1, problem.n_features))

    primal = C * problem.cut(w).loss
    record.upper(primal, w)
    record.passed()
    # Make at least one round, of two passes: for a small C, zero weights may be within tol of the optimum, but do not
    # rank at all.
    while record.n_passes + 2 <= options.max_passes and (
        not record.done or (record.n_passes == 1 and not record.stopped and primal > 0)
    ):
        # the mean over queries of violation minus slack is (primal - dual) / C, so for at least one query the
        # difference exceeds epsilon
        epsilon = 0.25 * (primal - record.dual) / C
        before = len(working)
        # the slack of a query is the largest violation among its outputs in the working set
        for query in range(problem.n_queries):
            if cap[query] == 0.0:
                continue
            problem.query_cuts(w, query, query + 1, loss, joint)
            own = working.loss[members[query]] - products(working.joint[members[query]], w)
            slack = max(0.0, float(own.max(initial=0.0)))
            if loss[0] - dot(joint[0], w) > slack + epsilon:
                members[query].append(working.append(loss[0], joint[0], query=query))
                owner, first = working.of("query"), np.append(alpha, 0.0)
                solution = solve_signs(
                    working.joint,
                    working.loss,
                    owner,
                    cap,
                    signs,
                    first,
                    gram_over=working.gram_over,
                    tol=min(1e-10, tol),
                    solver=solve,
                )
                alpha, w = solution.alpha, solution.w
                record.lower(solution.value)
        record.passed()
        cut = problem.cut(w)
        primal = 0.5 * dot(w, w) + C * (cut.loss - dot(cut.joint, w))
        if not problem.exact:  # an approximate oracle may miss outputs that are in the working set
            primal = max(primal, record.dual)
        record.upper(primal, w)
        record.passed()
        # no violation exceeds epsilon, and epsilon no longer decreases: rounding limits the gap
        if len(working) == before and 0.25 * (primal - record.dual) / C >= epsilon:
            break
    return record.finish("n_slack", n_iterations=len(working), n_cuts=len(working))
