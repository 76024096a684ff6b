"""Block-coordinate Frank-Wolfe with cached planes: few passes over many queries (Lacoste-Julien et al. 2013).

The trainer works in three phases, and one rule, :meth:`_Search.next_phase`, chooses among them after each certificate:

* A *descent* is a pass over the queries in order: for a few queries at a time it finds the most violated outputs, adds
  their planes to the caches, and moves the dual mass of each query between its planes by exact line search (pairwise
  steps, so that mass can leave a bad plane).
* A *certificate* is a pass at a fixed ``w``: it gives the exact primal value. As its planes together are a dual point,
  too, an exact line search between that point and the current one follows.
* If neither suffices, the problem over the cached planes is *solved* without reading the data, by
  :mod:`~.newton_on_planes`; each further pass is a certificate at the best point of the segment from the best weights
  so far to the solution. Passes then hardly depend on C.

The point to certify after a descent is the average of its iterates, which scatter around the optimum. Its direction
converges long before its length, so the length is set by the slope on a sample of the queries. From 10^4 queries on,
one descent and one certificate then mostly suffice.

Planes are vectors (:mod:`~.block_dual`), and memory has to hold three per query.
"""

from __future__ import annotations

from enum import Enum, auto

import numpy as np

from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Problem
from structsvm.qp.cone import project
from structsvm.trainers.block_dual import BlockDual
from structsvm.trainers.certificate import Fit, Recorder
from structsvm.trainers.contract import DEFAULTS, Options, Start
from structsvm.trainers.plane_cache import ROUNDING
from structsvm.trainers.segment_search import FEWEST, between, sampled_factor

supports = {"hinge", "signs"}

_FAR, _FAR_OF_FEW = 0.01, 0.25
"""Relative gap at a certificate above which the problem over the cached planes is solved; the second value is for fewer
than ``FEWEST`` queries, whose passes are cheap in comparison. Below it, a further descent or the half-way certificate
mostly ends the fit. Measured: with .25 fits of many queries take up to twice as many passes; with .01 fits of few
queries at large C take up to four times as long."""

_PATIENCE = 40
"""Passes after which the problem over the cached planes is solved even if that does not pay from the start: the fit
might take hundreds more."""

_WIDEST = 4
"""Maximum number of features per query for that: with more, the planes of a cache hardly cover the features, and Newton
steps are numerous and expensive."""

_SWEPT = 0.1
"""Share of the gap that sweeps over the cached planes may leave."""


def frank_wolfe(problem: Problem, C: float, options: Options = DEFAULTS, start: Start | None = None) -> Fit:
    """Minimise ``1/2 ||w||^2 + C sum_q weights[q] H_q(w)`` by updating the dual one query at a time.

    The dual point is kept for the next C; the guess of ``start`` is used if it saves the first descent.
    """
    start = start or Start()
    record = start.recorder(problem, C, options)
    dual = start.kept.get("dual")
    if dual is None:
        dual = start.kept["dual"] = BlockDual(problem, C, cone=options.cone)
        search = _Search(problem, C, options.tol, record, dual)
        point = None
    else:
        dual.rescale(C)
        search = _Search(problem, C, options.tol, record, dual)
        point = search.resume()
    # A guess is often within tol already, which one pass shows. After a worse guess, a descent is cheaper.
    bad = len(start.past) > 1 and start.past[-1].n_passes > 1
    if point is None and start.guess is not None and not bad and not record.done:
        guess = project(start.guess, dual.cone)
        point = guess * sampled_factor(problem, C, guess)
    while not record.done and record.n_passes < options.max_passes:
        if point is None and record.n_passes == options.max_passes - 1:
            point = dual.w.copy()  # no pass is left to measure the result of a descent
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
    """Certify the midpoint of the last point and the dual's own ``w``, whose errors have opposite signs."""
    SOLVE = auto()


class _Average(Enum):
    """The point to certify after a descent."""

    SCALED = auto()
    PLAIN = auto()
    NONE = auto()
    """The dual's own ``w``, which is the better point near the optimum of few queries."""


class _Search:
    """The state of a fit, and its phases."""

    def __init__(self, problem: Problem, C: float, tol: float, record: Recorder, dual: BlockDual) -> None:
        self.problem, self.C, self.tol, self.record, self.dual = problem, C, tol, record, dual
        self.phase = _Phase.DESCEND
        self.average = _Average.SCALED
        self.centre: Float | None = None
        """Point at which to add the next planes, from the last solution over the cached planes."""
        self.n_updates = 0
        self.can_solve = pays(problem)

    def resume(self) -> Float | None:
        """Continue from the dual point of another C; return the point to certify first, None for a descent."""
        # Both bounds of the new C are known before the first pass: the scaled dual point is feasible, and the best
        # weights of the last C have a known sum of hinges. Sweeps over the cached planes then adapt the masses.
        dual, record = self.dual, self.record
        record.lower(dual.value)
        if dual.best is not None:  # the objective of these weights at this C needs no pass
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
        """Make a descent; return the point to certify."""
        # SCALED is best far from the optimum, NONE near it; a certificate that shows no progress switches (``certify``)
        average = self.dual.descend(self.problem)
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
        """Evaluate a point in a pass, then prepare the next phase with only the cached planes."""
        record, dual = self.record, self.dual
        primal = dual.certify(self.problem, point)
        if primal >= record.primal:
            # The average was no better than the best so far, or the sample that scaled it is unlike the other queries.
            self.average = _Average.PLAIN if self.average is _Average.NONE else _Average.NONE
        record.upper(primal, point)
        record.lower(dual.value)
        if not record.done:
            self.phase = self.next_phase()
            if self.phase is _Phase.SOLVE:
                self.solve()
        record.passed()

    def next_phase(self) -> _Phase:
        """Choose the phase that follows a certificate that does not end the fit."""
        # Solving replaces passes over the data by work on the cached planes. It pays if the certificate is far from the
        # optimum and Newton steps are cheap, or eventually for any size.
        many = self.problem.n_queries >= FEWEST
        far = self.record.gap > (_FAR if many else _FAR_OF_FEW)
        late = self.record.n_passes >= _PATIENCE
        wide = self.problem.n_features > _WIDEST * self.problem.n_queries
        if self.phase is _Phase.SOLVE:  # once begun, it remains the better way
            return _Phase.SOLVE
        if self.phase is _Phase.HALF_WAY:  # the half-way point was the second of its descent: descend again
            self.sweep(self.record.primal - self.dual.value)
            return _Phase.DESCEND
        if far if self.can_solve else late and not wide:
            return _Phase.SOLVE
        swept = self.sweep(self.record.primal - self.dual.value)
        if self.can_solve and not swept and not self.record.done:  # sweeps leave too much: solve instead
            return _Phase.SOLVE
        # close to the end, a second certificate half-way is cheaper than another descent and its certificate
        return _Phase.HALF_WAY if self.record.gap <= 3 * self.tol else _Phase.DESCEND

    def next_point(self, last: Float) -> Float | None:
        """Return the point to certify next; None if a descent finds it."""
        if self.record.done:
            return None
        if self.phase is _Phase.SOLVE:
            assert self.centre is not None
            return between(self.problem, self.C, self.dual.planes, self.record.w, self.centre)
        return 0.5 * (last + self.dual.w) if self.phase is _Phase.HALF_WAY else None

    def sweep(self, missing: float) -> bool:
        """Move mass among the cached planes until their share of the gap is small; return whether it is."""
        done = self.dual.redistribute(_SWEPT * missing)
        self.record.lower(self.dual.value)
        return bool(done)

    def solve(self) -> None:
        """Solve the problem over the cached planes."""
        self.centre = self.dual.solve(self.record.w, self.record.primal, self.tol, self.problem.n_jobs)
        self.record.lower(self.dual.value)

    def finish(self) -> Fit:
        """Return the fit, and leave its weights with the dual point for the next C."""
        problem, record, dual = self.problem, self.record, self.dual
        if not np.isfinite(record.primal):  # the last estimate of an approximate oracle was refuted
            point = dual.w.copy()
            record.upper(max(dual.certify(problem, point), record.dual), point)
            record.passed()
        if problem.exact and np.isfinite(record.primal):
            # recover the sum of hinges from the primal value; rounding matters if the next C is much larger
            risk = record.primal - 0.5 * dot(record.w, record.w) + ROUNDING * record.primal
            dual.best = record.w, risk / self.C
        dual.solving = self.phase is _Phase.SOLVE
        if record.n_passes == 0:
            record.passed(0)
        return record.finish("frank_wolfe", n_iterations=self.n_updates, n_cuts=int(dual.count.sum()))


def pays(problem: Problem) -> bool:
    """Return whether Newton's method over the cached planes may replace sweeps, according to the sizes."""
    # for fewer queries its many products with the planes cost more than the passes that it saves
    return problem.n_queries >= max(100, 2 * problem.n_features)
