"""One-slack cutting planes (Joachims, Finley & Yu 2009), stabilised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from structsvm.common.portable.sums import dot
from structsvm.protocols import Cut, Float, Problem
from structsvm.qp import get_solver
from structsvm.qp.cone import project
from structsvm.qp.convex import Convex
from structsvm.trainers.certificate import Fit, Recorder
from structsvm.trainers.contract import DEFAULTS, Options, Start
from structsvm.trainers.cuts import CutPool

_ROUNDS = 20
"""Maximum number of passes of the search for weights that can be set to zero."""

_TIGHTER = 0.5
"""Share of ``tol`` to reach before weights are set to zero, which raises the objective again."""

_LOST = 0.05
"""Share of the gain over the least penalty that may be lost by setting weights to zero."""

_RELATIVE_ROUNDING = 1e-9


supports = {"hinge", "signs", "cone", "region", "stabilise", "qp"}


def one_slack(problem: Problem, C: float, options: Options = DEFAULTS, start: Start | None = None) -> Fit:
    """Minimise ``1/2 ||w||^2 + C sum_q weights[q] H_q(w)`` over a growing set of joint cutting planes, one per pass.

    The guess of ``start`` is the first point to evaluate. The cuts are kept for the next C; a dual point that
    frank_wolfe has kept is a weighted mean of cuts, and so a cut.
    """
    start = start or Start()
    record = start.recorder(problem, C, options)
    pool = start.kept.setdefault("cuts", CutPool(problem.n_features))
    if "dual" in start.kept:
        pool.add(start.kept.pop("dual").cut)
    w0, tol, cone, region = start.guess, options.tol, options.cone, options.region
    state = _State(problem, C, pool, record)
    state.blind = len(state.pool) == 0 and w0 is None
    # the model is solved more exactly than the fit requires, as errors of its minimiser cost passes
    solver = get_solver(options.qp)
    qp_tol = min(1e-8, 1e-2 * tol)
    state.solve = lambda: state.pool.solve(C, solver, qp_tol, cone=cone, region=region)
    if region is not None:
        state.penalty, state.slope = region.value, region.slope
    if len(state.pool) > 0 or region is not None:  # a region may exclude zero weights
        state.model()
    if w0 is not None:
        state.minimiser = np.array(project(w0, cone), dtype=np.float64)
    sparse = region is not None and region.may_be_sparse and problem.exact
    state.descend(_TIGHTER * tol if sparse else tol, options.max_passes, options.stabilise)
    if region is not None and sparse:
        _leave_out(state, region, tol, options.max_passes)
    # An approximate oracle's last estimate may have been dropped with no pass left: one more pass gives a new estimate.
    if not np.isfinite(record.primal):
        cut = problem.cut(record.w)
        hinge = max(cut.loss - dot(cut.joint, record.w), state.pool.value(record.w))
        record.upper(max(state.penalty(record.w) + C * hinge, record.dual), record.w)
        record.passed()
    return record.finish("one_slack", n_iterations=record.n_passes, n_cuts=len(state.pool))


class _State:
    """The model of the cuts so far, and its minimiser."""

    def __init__(self, problem: Problem, C: float, pool: CutPool, record: Recorder) -> None:
        self.problem, self.C, self.pool, self.record = problem, C, pool, record
        self.minimiser: Float = np.zeros(problem.n_features)
        self.blind = False
        """Whether the first point minimises the penalty alone."""
        self.penalty: Callable[[Float], float] = lambda w: 0.5 * dot(w, w)
        self.slope: Callable[[Float, Float], float] = dot
        self.solve: Callable[[], tuple[Float, float]]

    def model(self) -> None:
        """Minimise the model over the cuts held."""
        self.minimiser, dual = self.solve()
        self.record.lower(dual)

    def evaluate(self, point: Float) -> tuple[Cut, float]:
        """One pass: the cut at a point, and the objective."""
        cut = self.problem.cut(point)
        hinge = max(0.0, cut.loss - dot(cut.joint, point))
        # cuts are lower bounds everywhere: an earlier cut may be above what an approximate oracle finds here
        if not self.problem.exact:
            hinge = max(hinge, self.pool.value(point))
        value = self.penalty(point) + self.C * hinge
        self.record.upper(value, point)
        self.pool.add(cut)
        return cut, value

    def descend(self, target: float, max_passes: int, stabilise: bool) -> None:
        """Add cuts until the gap is at most ``target``."""
        record = self.record
        point = self.minimiser
        stay = 0.0  # weight of the best point so far in the next point
        # Stop at the gap, with an exception for a small C: zero weights, or those of least penalty, may be within tol
        # of the optimum, but they rank at random. If one pass has evaluated nothing else, make one more.
        while record.n_passes < max_passes and (
            not (record.stopped or record.gap <= target)
            or (
                record.n_passes == 1
                and not record.stopped
                and (self.blind or not record.w.any())
                and not np.array_equal(point, record.w)
            )
        ):
            ahead = self.minimiser - record.w
            cut, _ = self.evaluate(point)
            # The next point is between the best so far and the minimiser of the model (Ben-Ameur & Neto 2007), which
            # moves erratically far from the optimum. ``slope`` is the slope of the objective at the last point in the
            # direction of the minimiser: if downhill, the next point goes further ahead; if uphill, it stays closer to
            # the best point. That is a line search with one evaluation per pass.
            if record.n_passes > 0 and stabilise:
                slope = self.slope(point, ahead) - self.C * dot(cut.joint, ahead)
                stay = 0.8 * stay if slope < 0 else min(0.95, stay + 0.3 * (1.0 - stay))
            self.model()
            record.passed()
            point = stay * record.w + (1.0 - stay) * self.minimiser


def _leave_out(state: _State, region: Convex, tol: float, max_passes: int) -> None:
    """Set the smallest of the best weights to zero, as many as the gap allows."""
    # An interior-point method leaves small weights on every feature, and a mixture of minimisers has the features of
    # all. The model of the cuts, a lower bound, tells by bisection how many of the smallest can go. A pass measures the
    # result; if it was too many, its cut corrects the model.
    record = state.record
    w, most = record.w, 2 * region.violation(record.w) + 1e-12
    order = np.argsort(np.abs(w) * np.abs(state.pool.joint).max(axis=0, initial=0.0), kind="stable")

    def without(n: int) -> Float:
        fewer = w.copy()
        fewer[order[:n]] = 0.0
        return fewer

    for _ in range(_ROUNDS):
        if record.stopped or record.n_passes >= max_passes or record.gap > tol:
            return
        # If zero is within tol of the optimum, so are weights that rank at random: the loss by sparsity is bounded
        # by a share of the gain, too.
        gain = max(0.0, region.value(region.least) + state.C * state.pool.value(region.least) - record.primal)
        allowed = min(
            record.dual / (1.0 - tol), record.primal + _LOST * gain + _RELATIVE_ROUNDING * abs(record.primal)
        )
        low, high = 0, w.shape[0] + 1
        while high - low > 1:
            n = (low + high) // 2
            v = without(n)
            fits = region.value(v) + state.C * state.pool.value(v) <= allowed and region.violation(v) <= most
            low, high = (n, high) if fits else (low, n)
        fewer = without(low)
        if np.array_equal(fewer, w):
            return
        _, value = state.evaluate(fewer)
        if value <= allowed:
            record.replace(value, fewer)
            record.passed()
            return
        state.model()
        record.passed()
