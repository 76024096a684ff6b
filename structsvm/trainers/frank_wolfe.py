"""Block-coordinate Frank-Wolfe with cached planes: few passes over many queries (Lacoste-Julien et al. 2013).

The trainer alternates between three phases; :meth:`_Search.next_phase` chooses the next phase after each certificate:

* A *descent* is a pass over the queries in order. For a few queries at a time it finds the most violated outputs, adds
  their planes to the caches, and moves the dual mass of each query between its planes by exact line search (pairwise
  steps, so that mass can leave a bad plane).
* A *certificate* is a pass at a fixed ``w``, which gives the exact primal value. The planes that it finds also form a
  dual point, and an exact line search moves the current dual point towards it.
* If neither suffices, the problem over the cached planes is *solved* without reading the data, by
  :mod:`~.newton_on_planes`; each further pass is a certificate at the best point of the segment from the best weights
  so far to the solution. The number of passes then barely depends on C.

After a descent, the average of its iterates is certified, because the iterates scatter around the optimum. The
direction of the average converges long before its norm, so the norm is set by a line search on a sample of the queries.
With at least 10^4 queries, one descent and one certificate are then usually enough.

Planes are stored as vectors (:mod:`~.block_dual`); memory must suffice for three per query.
"""

from enum import Enum, auto

import numpy as np

from structsvm.common.portable.sums import dot, norm
from structsvm.protocols import Float, Problem
from structsvm.qp.cone import project
from structsvm.trainers.block_dual import BlockDual
from structsvm.trainers.certificate import Fit, Recorder
from structsvm.trainers.contract import DEFAULTS, Options, Start
from structsvm.trainers.plane_cache import ROUNDING
from structsvm.trainers.segment_search import FEWEST, LARGEST_FACTOR, between, sampled_factor

supports = {"hinge", "signs"}

_FAR, _FAR_OF_FEW = 0.01, 0.25
"""Relative gap at a certificate above which the problem over the cached planes is solved; the second value is for fewer
than ``FEWEST`` queries, whose passes are cheap in comparison. Below this gap, another descent or the half-way
certificate usually ends the fit. With 0.25, fits of many queries take up to twice as many passes; with 0.01, fits of
few queries at large C take up to four times as long."""

_FIRST = 0.7
"""Fraction of C for the first descent over at least ``FEWEST`` queries. At C itself, the steps of its first queries are
too long, because no other query has moved yet, and later queries have to take them back."""

_PATIENCE = 40
"""Number of passes after which the problem over the cached planes is solved even if :func:`pays` is False, as the fit
might otherwise take hundreds more passes."""

_WIDEST = 4
"""Maximum ratio of features to queries at which ``_PATIENCE`` applies. With more features, the cached planes barely
cover them, and Newton steps are numerous and expensive."""

_SWEPT = 0.1
"""Fraction of the gap at which sweeps over the cached planes stop."""


def frank_wolfe(problem: Problem, C: float, options: Options = DEFAULTS, start: Start | None = None) -> Fit:
    """Minimise ``1/2 ||w||^2 + C sum_q weights[q] H_q(w)`` by updating the dual one query at a time.

    The dual point is kept for the next C. The guess of ``start`` is certified first if that is likely to save a
    descent.
    """
    start = start or Start()
    record = start.recorder(problem, C, options)
    continues = "dual" in start.kept
    if continues:
        start.kept["dual"].rescale(C)
    else:
        start.kept["dual"] = BlockDual(problem, C, cone=options.cone)
    dual = start.kept["dual"]
    search = _Search(problem, C, options.tol, record, dual)
    point = search.resume() if continues else None
    # A guess is often within tol, which one pass verifies. If the previous guess was not, a descent is cheaper.
    bad = len(start.past) > 1 and start.past[-1].n_passes > 1
    if point is None and start.guess is not None and not bad and not record.done:
        guess = project(start.guess, dual.cone)
        point = guess * sampled_factor(problem, C, guess)
    while not record.done and record.n_passes < options.max_passes:
        if point is None and record.n_passes == options.max_passes - 1:
            point = dual.w.copy()  # no pass would be left to certify the result of a descent
        if point is None:
            point = search.descend()
            if record.stopped and np.isfinite(record.primal):
                break
        search.certify(point)
        point = search.next_point(point)
    return search.finish()


class _Phase(Enum):
    DESCEND = auto()
    HALF_WAY = auto()
    """Certify the midpoint of the last certified point and the ``w`` of the dual point, whose errors have opposite
    signs."""
    SOLVE = auto()


class _Average(Enum):
    """How a descent chooses the point to certify: the average of its iterates, scaled or plain, or no average."""

    SCALED = auto()
    PLAIN = auto()
    NONE = auto()
    """No average: certify the ``w`` of the dual point, which is the better point near the optimum if queries are
    few."""


class _Search:
    """The state of a fit and its three phases."""

    def __init__(self, problem: Problem, C: float, tol: float, record: Recorder, dual: BlockDual) -> None:
        self.problem, self.C, self.tol, self.record, self.dual = problem, C, tol, record, dual
        self.phase = _Phase.DESCEND
        self.average = _Average.SCALED
        self.centre: Float | None = None
        """Point at which to add the next planes, from the last solution of the problem over the cached planes."""
        self.n_updates = 0
        self.can_solve = pays(problem)

    def resume(self) -> Float | None:
        """Continue from the dual point of another C; return the point to certify first, or None to start with a
        descent."""
        # Both bounds for the new C are known before the first pass: the scaled dual point is feasible, and the mean
        # hinge at the best weights for the last C is known. Sweeps over the cached planes then adapt the masses.
        dual, record = self.dual, self.record
        record.lower(dual.value)
        if dual.best is not None:  # the objective of these weights for the new C needs no pass
            w, risk = dual.best
            record.upper(0.5 * dot(w, w) + self.C * risk, w)
        if record.done:
            return None
        solving = self.can_solve and dual.solving and dual.best is not None
        if not solving:
            swept = self.sweep(self.tol * max(dual.value, 0.0))
            solving = self.can_solve and not swept and not record.done and np.isfinite(record.primal)
        if not solving:
            return None
        self.phase = _Phase.SOLVE
        self.solve()
        return self.next_point(record.w)

    def descend(self) -> Float:
        """Make one descent pass; return the point to certify."""
        # SCALED is best far from the optimum, NONE near it; ``certify`` switches after a certificate without progress
        dual = self.dual
        first = self.problem.n_queries >= FEWEST and not dual.count.any()
        if first:
            dual.rescale(_FIRST * self.C)
        average = dual.descend(self.problem)
        if first:
            dual.rescale(self.C)
        if self.average is _Average.SCALED:
            average *= sampled_factor(self.problem, self.C, average)
        elif self.average is _Average.NONE:
            self.dual.redistribute(_SWEPT * (self.record.primal - self.dual.value))
            average = self.dual.w.copy()
        self.n_updates += self.problem.n_queries
        self.record.lower(self.dual.value)
        self.record.passed()
        return average

    def certify(self, point: Float) -> None:
        """Evaluate a point in one pass, then choose the next phase, which may sweep over or solve the cached planes."""
        record, dual = self.record, self.dual
        primal = dual.certify(self.problem, point)
        if primal >= record.primal:
            # The point is no better than the best so far. If it was scaled, the sample may not represent the other
            # queries.
            self.average = _Average.PLAIN if self.average is _Average.NONE else _Average.NONE
        record.upper(primal, point)
        record.lower(dual.value)
        if not record.done:
            before, self.phase = self.phase, self.next_phase()
            if self.phase is _Phase.SOLVE:
                self.solve()
                if before is not _Phase.SOLVE:
                    self.shorten()
        record.passed()

    def next_phase(self) -> _Phase:
        """Return the phase that follows a certificate, unless the fit is done."""
        # Solving replaces passes over the data by work on the cached planes. It saves time if the certified gap is
        # large and Newton steps are cheap, and after many passes for all but wide problems.
        many = self.problem.n_queries >= FEWEST
        far = self.record.gap > (_FAR if many else _FAR_OF_FEW)
        late = self.record.n_passes >= _PATIENCE
        wide = self.problem.n_features > _WIDEST * self.problem.n_queries
        if self.phase is _Phase.SOLVE:  # once begun, solving continues
            return _Phase.SOLVE
        if self.phase is _Phase.HALF_WAY:  # a descent is followed by at most two certificates
            self.sweep(self.record.primal - self.dual.value)
            return _Phase.DESCEND
        solves = far if self.can_solve else late and not wide
        if solves:
            return _Phase.SOLVE
        swept = self.sweep(self.record.primal - self.dual.value)
        if self.can_solve and not swept and not self.record.done:  # the sweeps left too large a gap
            return _Phase.SOLVE
        # near the optimum, a half-way certificate is cheaper than another descent and its certificate
        return _Phase.HALF_WAY if self.record.gap <= 3 * self.tol else _Phase.DESCEND

    def next_point(self, last: Float) -> Float | None:
        """Return the point to certify next, or None if a descent has to find it."""
        if self.record.done:
            return None
        if self.phase is _Phase.SOLVE:
            assert self.centre is not None
            return self.towards(self.centre)
        return 0.5 * (last + self.dual.w) if self.phase is _Phase.HALF_WAY else None

    def sweep(self, missing: float) -> bool:
        """Move mass among the cached planes until their gap is at most ``_SWEPT * missing``; return whether it was
        reached."""
        done = self.dual.redistribute(_SWEPT * missing)
        self.record.lower(self.dual.value)
        return bool(done)

    def solve(self) -> None:
        """Solve the problem over the cached planes, and set ``centre`` to the point at which to add planes."""
        self.centre = self.dual.solve(self.record.w, self.record.primal, self.tol, self.problem.n_jobs)
        self.record.lower(self.dual.value)

    def shorten(self) -> None:
        """Set ``centre`` to zero if the best weights are too long by more than the largest accepted scaling factor."""
        # At large C, the average of the first descent may be ten times too long, which ``sampled_factor`` does not
        # correct. Newton's method then starts far from the optimum, and adds planes where they are of little use.
        zero = np.zeros_like(self.record.w)
        if 0.0 < norm(self.towards(zero)) < norm(self.record.w) / LARGEST_FACTOR:
            self.centre = zero

    def towards(self, centre: Float) -> Float:
        """Return the best point of the segment from the best weights so far to ``centre``."""
        return between(self.problem, self.C, self.dual.planes, self.record.w, centre)

    def finish(self) -> Fit:
        """Return the fit; store its weights with the dual point for the next C."""
        problem, record, dual = self.problem, self.record, self.dual
        if not np.isfinite(record.primal):  # a dual value disproved the last estimate
            point = dual.w.copy()
            record.upper(max(dual.certify(problem, point), record.dual), point)
            record.passed()
        if problem.exact and np.isfinite(record.primal):
            # recover the mean hinge from the primal value, with a bound on its rounding error, which a larger C
            # amplifies
            risk = record.primal - 0.5 * dot(record.w, record.w) + ROUNDING * record.primal
            dual.best = record.w, risk / self.C
        dual.solving = self.phase is _Phase.SOLVE
        if record.n_passes == 0:
            record.passed(0)
        return record.finish("frank_wolfe", n_iterations=self.n_updates, n_cuts=int(dual.count.sum()))


def pays(problem: Problem) -> bool:
    """Return whether the problem is large enough for Newton's method over the cached planes to replace sweeps."""
    # with fewer queries, the method's many products with the planes cost more than the passes that it saves
    return problem.n_queries >= max(100, 2 * problem.n_features)
