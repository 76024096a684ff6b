"""Block-coordinate Frank-Wolfe with cached planes, for few passes over many queries (Lacoste-Julien et al. 2013).

There are two kinds of pass. A *descent* visits the queries in order: it finds the most violated outputs of a few
queries, adds their planes to the caches, and moves the dual mass of each query between its planes by exact line search
(pairwise steps, so that mass can leave a bad plane). A *certificate* is at a fixed ``w``: it gives the exact primal
value and, as its planes together are a dual point too, an exact line search between that point and the current one.

The point to certify after a descent is the average of its iterates, which scatter around the optimum. Its direction
converges long before its length, so the length is set by the slope on a sample of the queries. From 10^4 queries on,
one descent and one certificate then mostly suffice. When the gap is within three times ``tol``, a second certificate
half-way to the dual's own ``w`` follows (the errors of the two have opposite signs). Between passes, mass moves among
cached planes in sweeps, without touching the data.

If that does not suffice, the problem over the cached planes is solved instead, by :mod:`~.newton_on_planes`; descents
end, and each further pass is a certificate at the best point of the segment from the best weights so far to the
solution. Passes then hardly depend on C. The rule is fixed (:func:`pays` and the constants below). If not even three
planes per query fit in memory, planes are kept as coefficients of rows (:mod:`~.row_planes`), without this method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot, norm, squared_distance
from structsvm.protocols import Callback, Cut, Float, Int, Problem
from structsvm.qp.cone import check_cone, project
from structsvm.trainers.certificate import Fit, Recorder
from structsvm.trainers.newton_on_planes import Planes, minimise
from structsvm.trainers.passes import RankingProblem, sampled_slope, sweep
from structsvm.trainers.plane_cache import AHEAD, CHUNKS_PER_STEP, ROUNDING, DualPoint, insert
from structsvm.trainers.row_planes import _MEMORY, RowDual, best_step, mix, rows_cache_size
from structsvm.trainers.segment_search import FEWEST, best_factor, between

PlaneKind = Literal["auto", "rows"]
"""How frank_wolfe keeps planes: as vectors where these fit in memory, or always as row coefficients."""

_FAR = 0.01
"""Relative gap at a certificate above which the problem over the cached planes is solved. Below, a further descent or
the certificate half-way mostly ends the fit; with .25 fits take up to twice as many passes."""

_FAR_OF_FEW = 0.25
"""The same with fewer than ``FEWEST`` queries, where passes are cheap in comparison: with .01 fits at large C take up
to four times as long."""

_PATIENCE = 40
"""Passes after which the problem over the cached planes is solved where it would not pay from the start: by then
sweeps may take hundreds."""

_WIDEST = 4
"""Features per query up to which that is done: beyond, the planes of a cache hardly cover the features, and steps are
many and dear."""

_FIRST = 0.7
"""Share of C for which the first descent over at least ``FEWEST`` queries is made. At C itself its first queries take
steps that are too long, as no other query has made one, and later ones have to take them back: without this, fits of
3,000 and 12,000 queries took 1.1 times as long on average, one 4 times."""

_SWEEPS = 50
"""Sweeps over the cached planes at most, after which the problem over them is solved instead, where that pays; with 20
some fits of fewer than 100 queries take twice as many passes."""

_SMOOTHING = 0.2
"""First smoothing ``mu``, in units of the gap per query. With 0.05 a path takes 1.3 to 1.9 times as long, as the first
steps at each C are stiff."""

_SOLVED = 0.02
"""Tolerance of the problem over the cached planes, as a share of the gap."""

_NO_LOSS, _NO_PLANES = np.empty(0), np.empty((0, 0))
"""What a sweep over the cached planes alone finds."""

_PLANES = 10
"""Planes that a query keeps at most. With 32, fits of 60 to 2,000 queries took 1.2 times as long on average, as each
sweep visits all."""


def frank_wolfe(
    problem: Problem,
    C: float,
    *,
    tol: float = 1e-3,
    max_passes: int = 1000,
    dual: BlockDual | RowDual | None = None,
    cone: Float | None = None,
    w0: Float | None = None,
    callback: Callback | None = None,
) -> Fit:
    """Minimise ``1/2 ||w||^2 + C sum_q weights[q] H_q(w)`` by updating the dual one query at a time.

    ``dual`` continues a fit of the same problem for another C, ``w0`` is a guess of the optimum; see the module.
    """
    record = Recorder(C, tol, problem.n_features, callback, exact=problem.exact)
    state: Any = dual_of(problem, C, cone=cone) if dual is None else dual
    if w0 is not None:
        w0 = project(w0, state.cone)
    can_solve = state.solves and pays(problem)
    n_updates = 0
    candidate = None
    averaging, halfway, rescaling = True, False, True
    newton = False
    if dual is not None:
        state.rescale(C)
        record.lower(state.value)
        if state.best is not None:  # their objective at this C takes no pass
            w, risk = state.best
            record.upper(0.5 * dot(w, w) + C * risk, w)
            newton = can_solve and state.newton and not record.done
        if not newton and not record.done:
            done = state.redistribute(0.1 * tol * max(state.value, 0.0))
            record.lower(state.value)
            newton = can_solve and not done and not record.done and np.isfinite(record.primal)
        if newton:
            centre = state.solve(record.w, record.primal, tol, problem.n_jobs)
            record.lower(state.value)
        if newton and not record.done:
            candidate = between(problem, C, state.planes, record.w, centre)
    if candidate is None and w0 is not None and not record.done:
        candidate = w0 * _best_factor(problem, C, w0)
    while not record.done and record.n_passes < max_passes:
        if candidate is None and record.n_passes == max_passes - 1:
            candidate = state.w.copy()  # no pass is left to measure the result of a descent
        if candidate is None:
            shorter = problem.n_queries >= FEWEST and state.solves and state.empty
            candidate = _first_descent(problem, state) if shorter else state.descend(problem)
            if averaging and rescaling:
                candidate *= _best_factor(problem, C, candidate)
            if not averaging:
                state.redistribute(0.1 * (record.primal - state.value))
                candidate = state.w.copy()
            n_updates += problem.n_queries
            record.lower(state.value)
            record.passed()
            if record.stopped and np.isfinite(record.primal):
                break
        primal = state.certify(problem, candidate)
        if primal >= record.primal:
            averaging = not averaging  # near the optimum of few queries the dual's own w is the better point
            rescaling = False  # the sample may not represent the other queries
        record.upper(primal, candidate)
        record.lower(state.value)
        gap = record.gap
        late = record.n_passes >= _PATIENCE and problem.n_features <= _WIDEST * problem.n_queries
        far = gap > (_FAR if problem.n_queries >= FEWEST else _FAR_OF_FEW)
        hard = far if pays(problem) else late
        newton = newton or (state.solves and hard and not halfway)
        if not record.done:
            missing = record.primal - state.value
            if not newton:
                done = state.redistribute(0.1 * missing)
                record.lower(state.value)
                newton = can_solve and not done and not halfway and not record.done
            if newton:
                centre = state.solve(record.w, record.primal, tol, problem.n_jobs)
                record.lower(state.value)
        record.passed()
        if newton and not record.done:
            candidate = between(problem, C, state.planes, record.w, centre)
        else:
            halfway = not halfway and record.gap <= 3 * tol
            candidate = 0.5 * (candidate + state.w) if halfway else None
    if not np.isfinite(record.primal):  # the last estimate of an approximate oracle was wrong
        candidate = state.w.copy()
        record.upper(max(state.certify(problem, candidate), record.dual), candidate)
        record.passed()
    if problem.exact and np.isfinite(record.primal):
        # recover the sum of hinges from the primal value; rounding matters if the next C is much larger
        risk = record.primal - 0.5 * dot(record.w, record.w) + ROUNDING * record.primal
        state.best = record.w, risk / C
    state.newton = newton
    if record.n_passes == 0:
        record.passed(0)
    n_cuts = int(state.count.sum())
    return record.finish("frank_wolfe", n_iterations=n_updates, n_cuts=n_cuts, dual_rows=state.rows)


def dual_of(
    problem: Problem, C: float, planes: PlaneKind = "auto", *, cone: Float | None = None
) -> BlockDual | RowDual:
    """Return a dual point without mass: planes as vectors where they fit in memory or there are signs, else as rows."""
    if planes == "rows" and not isinstance(problem, RankingProblem):
        raise BadInput("planes", "expected 'vectors' or 'auto' for a problem without rows", value=planes)
    by_rows = planes == "rows" or (cache_size(problem) is None and rows_cache_size(problem) is not None)
    if by_rows and cone is None:
        return RowDual(cast(RankingProblem, problem), C)
    return BlockDual(problem, C, cone=cone)


def pays(problem: Problem) -> bool:
    """Return whether Newton's method over the cached planes may replace sweeps, by a rule on sizes."""
    # below, its many products with the planes cost more than the passes that it saves
    return problem.n_queries >= max(100, 2 * problem.n_features)


def cache_size(problem: Problem) -> int | None:
    """Return the planes a query may keep, up to ten; None if not three fit in memory (to mix two and add)."""
    n = max(_MEMORY, problem.n_bytes // 2) // (8 * max(1, slot_size(problem)))
    return int(min(n, _PLANES)) if n >= 3 else None


def slot_size(problem: Problem) -> int:
    """Return the numbers of a plane for each query."""
    return problem.n_queries * problem.n_features if problem.support is None else int(problem.support[0][-1])


def _first_descent(problem: Problem, state: BlockDual) -> Float:
    """Descend from zero for a smaller C, and scale the dual point to C."""
    C = state.C
    state.rescale(_FIRST * C)
    average = state.descend(problem)
    state.rescale(C)
    return average


def _best_factor(problem: Problem, C: float, w: Float) -> float:
    """See :func:`structsvm.trainers.segment_search.best_factor`."""
    return best_factor(C, w, problem.n_queries, lambda factor: sampled_slope(problem, factor * w, w))


def _root(slope: Callable[[float], float]) -> float:
    """Return where a slope that falls with its argument vanishes in [0, 1], from below; the nearest end if nowhere."""
    if slope(1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return low


class BlockDual(DualPoint):
    """The dual point with planes ``(loss, joint)``."""

    # The remaining mass of a query's cap is on its zero plane, which needs no storage. With signs ``w`` is the
    # projection of the planes' weighted sum, and the derivative of the dual value by a mass is still the violation at
    # ``w``. The fixed ``anchor`` in the sum is zero unless these queries are a part of a larger problem
    # (:meth:`place`).

    solves = True
    """Whether the problem over the cached planes can be solved without reading the data."""

    rows = None
    """The dual point as one number per row: not known of planes that are sums of rows already."""

    def __init__(self, problem: Problem, C: float, *, cone: Float | None = None) -> None:
        n, m = problem.n_queries, problem.n_features
        if problem.support is None:
            self._start: Int = np.arange(n + 1, dtype=np.int64) * m
            self._features: Int = np.empty(0, dtype=np.int64)
        else:
            self._start, self._features = problem.support
        super().__init__(problem, C, cache_size(problem), slot_size(problem))
        self.anchor: Float = np.zeros(m)
        self.joint: Float = np.zeros(m)
        """The sum of the planes alone, as it was when it was last added up."""
        self.cone = None if cone is None else check_cone(cone, m)
        # anchor and weighted sum of the planes, and bounds of what it is clipped to
        self._total = self.w if cone is None else np.zeros(m)
        self._low = np.empty(0) if self.cone is None else np.where(self.cone > 0, 0.0, -np.inf)
        self._high = np.empty(0) if self.cone is None else np.where(self.cone < 0, 0.0, np.inf)
        # of the kernels: code that allocates takes long to compile
        widest = 0 if problem.support is None else int(np.diff(self._start).max(initial=0))
        self._room = np.empty((6, max(self._pool.shape[0] + 1, widest)))
        self._slots: Int = np.empty(n, dtype=np.int64)

    @property
    def empty(self) -> bool:
        """Whether no plane has been found yet."""
        return not self.count.any()

    @property
    def cut(self) -> Cut:
        """The planes' mean by their masses, which bounds the mean hinge from below."""
        return Cut(self.loss / self.C, self.joint / self.C)

    @property
    def rounding(self) -> float:
        """Length of the largest vector that rounding may have added to ``joint``."""
        return ROUNDING * norm(self._size)

    @property
    def planes(self) -> Planes:
        return Planes(self._pool, self._start, self._features, self._loss, self.count, self.cap)

    def _planes(self) -> tuple[Any, ...]:
        return (
            self._pool, self._start, self._features, self._loss, self._alpha, self._age, self.count, self.cap,
        )  # fmt: skip

    def rescale(self, C: float) -> None:
        """Scale the dual point to another C, for which it stays feasible."""
        ratio = self._rescale(C)
        self._total *= ratio
        self.joint *= ratio
        self._clip()

    def place(self, anchor: Float) -> None:
        """Set the anchor; masses that are no dual point, whatever happened to them, become one."""
        self._alpha[~((self._alpha > 0) & np.isfinite(self._alpha))] = 0.0
        total = self._alpha.sum(axis=1)
        over = total > self.cap
        if over.any():
            self._alpha[over] *= (self.cap[over] / total[over])[:, np.newaxis]
        self.anchor = anchor
        self._sum()

    def descend(self, problem: Problem) -> Float:
        """Make one pass of block updates, and return the average of ``w`` over the pass."""
        self._now += 1
        step, ahead = self._pace(problem)
        average = np.zeros_like(self.w)
        n_steps = 0
        for first, last, loss, joint in sweep(problem, self.w.copy, step, ahead=ahead):
            self._cache_and_move(self.w, first, last, loss, joint, 2)
            n_steps += 1
            average += (self.w - average) / n_steps
        self._sum()
        return average

    def certify(self, problem: Problem, w: Float) -> float:
        """Make one pass at a fixed ``w``: return the primal value there, after a line search towards its dual point."""
        return 0.5 * dot(w, w) + self.measure(problem, w)[0]

    def measure(self, problem: Problem, w: Float) -> tuple[float, float, Float]:
        """Make the same pass; return the slack, and loss and sum of the planes found with the full cap on each."""
        self._now += 1
        joint_found = np.zeros_like(w)
        slack, gain = 0.0, 0.0
        step = CHUNKS_PER_STEP * problem.chunk
        for first, last, loss, joint in sweep(problem, lambda: w, step, ahead=AHEAD):
            self._cache_and_move(w, first, last, loss, joint, 0)
            part_slack, part_gain = _certify(
                w, first, last, self._slots, joint_found, self._room[1], *self._planes()
            )
            slack += part_slack
            gain += part_gain
        theta = self._exact_step(self.anchor + joint_found - self._total, gain)
        if theta > 0:
            mix(self._alpha, self.cap, self._slots, theta)
        self._sum()
        return slack, gain, joint_found

    def solve(self, w: Float, primal: float, tol: float, n_jobs: int = 1) -> Float:
        """Solve the problem over the cached planes by Newton's method from ``w``; return where to add planes next."""
        # stops as soon as the dual value is within ``tol`` of ``primal``
        missing = primal - self.value
        found = minimise(
            self.planes,
            w,
            max(_SOLVED * missing, 0.1 * tol * primal),
            _SMOOTHING * missing / self.C,
            enough=(1.0 - 0.99 * tol) * primal,
            n_jobs=n_jobs,
            signs=self.cone,
        )
        before, share = self._alpha, self._total.copy()
        self._alpha = found.alpha
        self._sum()
        theta = self._exact_step(share - self._total, float((before * self._loss).sum()))
        if theta > 0:
            self._alpha += theta * (before - self._alpha)
            self._sum()
        self._now += 1
        self._age[self._alpha > 0] = self._now
        return found.centre

    def _exact_step(self, direction: Float, gain: float) -> float:
        """Return the best step to another dual point, whose sum is ``direction`` away and whose mass earns ``gain``."""
        curvature = dot(direction, direction)
        rise = gain - self.loss
        if self.cone is not None:
            return _root(lambda t: rise - dot(project(self._total + t * direction, self.cone), direction))
        return best_step(rise - dot(self.w, direction), curvature)

    def _cache_and_move(
        self, w: Float, first: int, last: int, loss: Float, joint: Float, n_steps: int
    ) -> float:
        """See :func:`_sweep`."""
        gap = _sweep(
            w, self._total, self._low, self._high, first, last, loss, joint, self._slots, n_steps, self._now,
            self._room, *self._planes(),
        )  # fmt: skip
        return float(gap)

    def _clip(self) -> None:
        if self.cone is not None:
            self.w[:] = project(self._total, self.cone)

    def _sum(self) -> None:
        """Recompute ``w`` from the masses, as thousands of small updates leave a rounding error that weakens bounds."""
        self.joint[:] = 0.0
        self._size[:] = 0.0
        _sum_planes(self.joint, self._size, *self._planes())
        np.add(self.anchor, self.joint, out=self._total)
        self._clip()

    def redistribute(self, target: float, max_sweeps: int = _SWEEPS) -> bool:
        """Sweep over the cached planes only, until their share of the gap is below ``target``; return whether it is."""
        done = False
        for _ in range(max_sweeps):
            self._now += 1
            gap = self._cache_and_move(self.w, 0, self.count.shape[0], _NO_LOSS, _NO_PLANES, 3)
            done = gap <= target
            if done:
                break
        self._sum()
        return done


@kernel(inline="always")
def _shift(w, total, low, high, plane, mass):  # type: ignore[no-untyped-def]
    """Add a plane to the sum; ``w`` is the sum between its bounds, or the sum itself where there are none."""
    if low.shape[0] == 0:
        for j in range(w.shape[0]):
            w[j] += mass * plane[j]
    else:
        for j in range(w.shape[0]):
            total[j] += mass * plane[j]
            x = low[j] if low[j] > total[j] else total[j]
            w[j] = high[j] if high[j] < x else x


@kernel(inline="always")
def _move(w, total, low, high, pool, lo, hi, loss, alpha, age, n, cap, n_steps, now, violation):  # type: ignore[no-untyped-def]
    """Move mass of one query from its least to its most violated plane; return the block gap before the first step."""
    # plane number ``n`` is the zero plane
    gap = 0.0
    for step in range(n_steps):
        used = 0.0
        violation[n] = 0.0
        best, worst = n, -1
        for k in range(n):
            violation[k] = loss[k] - dot(pool[k, lo:hi], w)
            used += alpha[k]
            if violation[k] > violation[best]:
                best = k
        left = cap - used
        if left > 1e-14 * cap:
            worst = n
        for k in range(n):
            if alpha[k] > 0.0:
                age[k] = now
                if worst < 0 or violation[k] < violation[worst]:
                    worst = k
        if step == 0:
            gap = cap * violation[best]
            for k in range(n):
                gap -= alpha[k] * violation[k]
        if worst < 0 or worst == best or violation[best] <= violation[worst]:
            break
        if best < n and worst < n:
            curvature = squared_distance(pool[best, lo:hi], pool[worst, lo:hi])
        else:
            plane = pool[best if best < n else worst, lo:hi]
            curvature = dot(plane, plane)
        slope = violation[best] - violation[worst]
        available = left if worst == n else alpha[worst]
        mass = available
        if curvature * available > slope:
            mass = slope / curvature
        if best < n:
            alpha[best] += mass
            age[best] = now
        if worst < n:
            alpha[worst] = 0.0 if mass == available else alpha[worst] - mass
        for k, share in ((best, mass), (worst, -mass)):
            if k < n:
                _shift(w, total, low, high, pool[k, lo:hi], share)
    return gap


@kernel
def _sweep(  # type: ignore[no-untyped-def]
    w, total, low, high, first, last, new_loss, new_joint, slots, n_steps, now, room, pool, start, features, loss,
    alpha, age, count, cap,
):  # fmt: skip
    """Cache the new plane of each query, if any, and make ``n_steps`` with its mass; return the sum of block gaps."""
    # ``slots`` are told the most violated planes
    violation, local, part, bottom, top, plane = room[0], room[1], room[2], room[3], room[4], room[5]
    gap = 0.0
    for q in range(first, last):
        lo, hi = start[q], start[q + 1]
        n, m = count[q], hi - lo
        if features.shape[0] == 0:
            own, own_total, own_low, own_high = w, total, low, high
        else:
            own = local[:m]
            for j in range(m):
                own[j] = w[features[lo + j]]
            own_total, own_low, own_high = own, low, high
            if low.shape[0] > 0:
                own_total, own_low, own_high = part, bottom, top
                for j in range(m):
                    f = features[lo + j]
                    part[j], bottom[j], top[j] = total[f], low[f], high[f]
        if new_joint.shape[0] > 0:
            new_plane = new_joint[q - first]
            if features.shape[0] > 0:
                for j in range(m):
                    plane[j] = new_plane[features[lo + j]]
                new_plane = plane[:m]
            slot, n = insert(
                own, pool, lo, hi, loss[q], alpha[q], age[q], n, new_loss[q - first], new_plane, violation, now
            )  # fmt: skip
            count[q] = n
            slots[q] = slot
            if n_steps == 0 and slot < alpha.shape[1]:
                age[q, slot] = now
        gap += _move(
            own, own_total, own_low, own_high, pool, lo, hi, loss[q], alpha[q], age[q], n, cap[q], n_steps, now,
            violation,
        )  # fmt: skip
        if features.shape[0] > 0:
            for j in range(m):
                w[features[lo + j]] = own[j]
            if low.shape[0] > 0:
                for j in range(m):
                    total[features[lo + j]] = part[j]
    return gap


@kernel
def _certify(w, first, last, slots, target, local, pool, start, features, loss, alpha, age, count, cap):  # type: ignore[no-untyped-def]
    """Add the most violated planes at ``w``, with full cap, to ``target``; return their slack and gain."""
    size = loss.shape[1]
    slack, gain = 0.0, 0.0
    for q in range(first, last):
        lo, hi = start[q], start[q + 1]
        slot = slots[q]
        if slot < size:
            own = w
            if features.shape[0] > 0:
                own = local[: hi - lo]
                for j in range(hi - lo):
                    own[j] = w[features[lo + j]]
            excess = loss[q, slot] - dot(pool[slot, lo:hi], own)
            if not excess <= 0.0:  # NaN must reach the sum
                slack += cap[q] * excess
            gain += cap[q] * loss[q, slot]
            if features.shape[0] == 0:
                for j in range(hi - lo):
                    target[j] += cap[q] * pool[slot, lo + j]
            else:
                for j in range(hi - lo):
                    target[features[lo + j]] += cap[q] * pool[slot, lo + j]
    return slack, gain


@kernel
def _sum_planes(w, size, pool, start, features, loss, alpha, age, count, cap):  # type: ignore[no-untyped-def]
    for q in range(count.shape[0]):
        lo, hi = start[q], start[q + 1]
        for k in range(count[q]):
            a = alpha[q, k]
            if a > 0.0:
                if features.shape[0] == 0:
                    for j in range(hi - lo):
                        w[j] += a * pool[k, lo + j]
                        size[j] += abs(a * pool[k, lo + j])
                else:
                    for j in range(hi - lo):
                        w[features[lo + j]] += a * pool[k, lo + j]
                        size[features[lo + j]] += abs(a * pool[k, lo + j])
