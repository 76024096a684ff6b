"""One-slack cutting planes (Joachims, Finley & Yu 2009) with stabilisation (Ben-Ameur & Neto 2007)."""

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
"""Maximum number of passes to find how many weights can be set to zero."""

_TIGHTER = 0.5
"""Fraction of ``tol`` to which the gap is reduced before weights are set to zero, which increases the objective
again."""

_LOST = 0.05
"""Largest fraction of the reduction of the objective, from the weights with the least penalty, that may be lost by
setting weights to zero."""

_RELATIVE_ROUNDING = 1e-9


supports = {"hinge", "signs", "cone", "region", "stabilise", "qp"}


def one_slack(problem: Problem, C: float, options: Options = DEFAULTS, start: Start | None = None) -> Fit:
    """Minimise ``1/2 ||w||^2 + C sum_q weights[q] H_q(w)`` over a growing set of joint cutting planes, one per pass.

    The guess of ``start`` is evaluated first. The cuts are kept for the next C. A dual point kept by frank_wolfe is a
    weighted mean of cuts, and is therefore added as a cut.
    """
    start = start or Start()
    record = start.recorder(problem, C, options)
    pool = start.kept.setdefault("cuts", CutPool(problem.n_features))
    if "dual" in start.kept:
        pool.add(start.kept.pop("dual").cut)
    w0, tol, cone, region = start.guess, options.tol, options.cone, options.region
    state = _State(problem, C, pool, record, options, blind=len(pool) == 0 and w0 is None)
    if len(state.pool) > 0 or region is not None:  # a region may exclude zero weights
        state.model()
    if w0 is not None:
        state.minimiser = np.array(project(w0, cone), dtype=np.float64)
    sparse = region is not None and region.may_be_sparse and problem.exact
    state.descend(_TIGHTER * tol if sparse else tol, options.max_passes, options.stabilise)
    if region is not None and sparse:
        _leave_out(state, region, tol, options.max_passes)
    # With an approximate oracle, the last primal value may have been discarded when no pass was left: make one more
    # pass.
    if not np.isfinite(record.primal):
        cut = problem.cut(record.w)
        hinge = max(cut.loss - dot(cut.joint, record.w), state.pool.value(record.w))
        record.upper(max(state.penalty(record.w) + C * hinge, record.dual), record.w)
        record.passed()
    return record.finish("one_slack", n_iterations=record.n_passes, n_cuts=len(state.pool))


class _State:
    """The cutting-plane model of the objective, and its minimiser."""

    def __init__(
        self, problem: Problem, C: float, pool: CutPool, record: Recorder, options: Options, *, blind: bool
    ) -> None:
        self.problem, self.C, self.pool, self.record, self.options = problem, C, pool, record, options
        self.minimiser: Float = np.zeros(problem.n_features)
        self.blind = blind
        """Whether the first point minimises only the penalty, without a guess or any cuts."""
        self.penalty: Callable[[Float], float] = lambda w: 0.5 * dot(w, w)
        self.slope: Callable[[Float, Float], float] = dot
        if options.region is not None:
            self.penalty, self.slope = options.region.value, options.region.slope

    def model(self) -> None:
        """Minimise the model of the current cuts, and record its minimum as a lower bound."""
        options = self.options
        self.minimiser, dual = self.pool.solve(
            self.C,
            get_solver(options.qp),
            min(1e-8, 1e-2 * options.tol),  # an inaccurate minimiser costs passes
            cone=options.cone,
            region=options.region,
        )
        self.record.lower(dual)

    def evaluate(self, point: Float) -> tuple[Cut, float]:
        """Make one pass at a point; return its cut and the objective."""
        cut = self.problem.cut(point)
        hinge = max(0.0, cut.loss - dot(cut.joint, point))
        # each cut is a lower bound at every point, and an earlier cut may exceed the hinge from an approximate oracle
        if not self.problem.exact:
            hinge = max(hinge, self.pool.value(point))
        value = self.penalty(point) + self.C * hinge
        self.record.upper(value, point)
        self.pool.add(cut)
        return cut, value

    def descend(self, target: float, max_passes: int, stabilise: bool) -> None:
        """Add one cut per pass until the gap is at most ``target``."""
        record = self.record
        point = self.minimiser
        stay = 0.0  # weight of the best point so far in the next point
        # Stop when the gap is reached, except for a small C if the only pass evaluated zero weights or the weights with
        # the least penalty. These may be within tol of the optimum, but their ranking is arbitrary, so that one more
        # pass is made.
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
            # The next point lies between the best point so far and the minimiser of the model (Ben-Ameur & Neto 2007),
            # because far from the optimum the minimiser moves erratically. ``slope`` is the slope of the objective at
            # the last point in the direction of the minimiser. If it is downhill, the next point is chosen closer to
            # the minimiser; if uphill, closer to the best point. The result is a line search with one evaluation per
            # pass.
            if record.n_passes > 0 and stabilise:
                slope = self.slope(point, ahead) - self.C * dot(cut.joint, ahead)
                stay = 0.8 * stay if slope < 0 else min(0.95, stay + 0.3 * (1.0 - stay))
            self.model()
            record.passed()
            point = stay * record.w + (1.0 - stay) * self.minimiser


def _leave_out(state: _State, region: Convex, tol: float, max_passes: int) -> None:
    """Set as many of the smallest weights to zero as the gap allows."""
    # An interior-point method leaves small weights on all features, and a mixture of minimisers has the features of
    # each of them. Bisection on the cutting-plane model, a lower bound, estimates how many of the smallest weights can
    # be set to zero. A pass then measures the objective; if too many weights were zero, the new cut corrects the model.
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
        # If zero weights are within tol of the optimum, so are weights whose ranking is arbitrary. The increase of the
        # objective is therefore also limited to a fraction of the gain.
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
