"""The dual point of block-coordinate Frank-Wolfe with planes as vectors, and the operations on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot, norm, squared_distance
from structsvm.protocols import Cut, Float, Int, Problem
from structsvm.qp.cone import check_cone, project
from structsvm.trainers.newton_on_planes import minimise
from structsvm.trainers.passes import sweep
from structsvm.trainers.plane_cache import ROUNDING, Planes, insert

MEMORY = 1 << 28
"""Bytes that cached planes may always use; half the size of the data if that is more."""

_AHEAD = 4
"""Number of steps started before the current one is finished, as work for threads; constant, as results must not depend
on n_jobs."""

_CHUNKS_PER_STEP = 4
"""Chunks per step of a thread: handing over a step costs as much as a tenth of a chunk."""

_PLANES = 10
"""Maximum number of planes per query. With 32, fits of 60 to 2,000 queries took 1.2 times as long on average, as each
sweep visits all."""

_SWEEPS = 50
"""Maximum number of sweeps over the cached planes; then the problem over them is solved instead, if that pays. With 20,
some fits of fewer than 100 queries take twice as many passes."""

_SMOOTHING = 0.2
"""First smoothing ``mu``, in units of the gap per query. With 0.05 a path takes 1.3 to 1.9 times as long, as the second
derivative then changes within a small part of the first steps at each C."""

_SOLVED = 0.02
"""Tolerance of the problem over the cached planes, as a share of the gap."""

_NO_LOSS, _NO_PLANES = np.empty(0), np.empty((0, 0))
"""The new planes of a sweep over only the cached planes."""


def cache_size(problem: Problem) -> int | None:
    """Return the planes a query may keep, up to ten; None if not three fit in memory (to mix two and add)."""
    n = max(MEMORY, problem.n_bytes // 2) // (8 * max(1, slot_size(problem)))
    return int(min(n, _PLANES)) if n >= 3 else None


def slot_size(problem: Problem) -> int:
    """Return the total number of coefficients of one plane per query."""
    return problem.n_queries * problem.n_features if problem.support is None else int(problem.support[0][-1])


class Point(NamedTuple):
    """The weights, and the sum of which they are the projection."""

    w: Float
    total: Float
    """Anchor and weighted sum of the planes; the same array as ``w`` without signs."""
    low: Float
    """Bounds of each weight by its sign, below and above; both empty without signs."""
    high: Float


def _root(slope: Callable[[float], float]) -> float:
    """Return the point in [0, 1] where a decreasing slope vanishes, rounded down, or the nearer end if it does not."""
    # With signs the dual value along a segment is concave, but not quadratic: bisection. 40 halvings are far below any
    # useful step; the lower end is returned, so that the value does not fall.
    if slope(1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return low


class BlockDual:
    """Cached planes ``(loss, joint)`` of each query with their masses, and ``w``, their sum weighted by these
    masses."""

    # The dual problem is  max D(a) = sum_qk a_qk loss_qk - 1/2 ||w||^2,  w = anchor + sum_qk a_qk psi_qk,  over masses
    # a >= 0 with sum_k a_qk <= cap_q = C weight_q. The remainder of a query's cap is on its zero plane, which needs no
    # storage. The derivative of D by a mass is the violation of the plane at w, loss_qk - psi_qk . w.
    # With signs, w is the projection of that sum on the signs, and the derivative is the same.
    # The ``anchor`` is zero unless these queries are part of a larger problem (:meth:`place`).

    def __init__(self, problem: Problem, C: float, *, cone: Float | None = None) -> None:
        n, m = problem.n_queries, problem.n_features
        n_slots, n_numbers = cache_size(problem), slot_size(problem)
        if n_slots is None:
            expected = f"expected memory for three planes per query ({24e-9 * n_numbers:.1f} GB here)"
            raise BadInput("frank_wolfe", expected, "use {solver='one_slack'}")
        if problem.support is None:
            self._start: Int = np.arange(n + 1, dtype=np.int64) * m
            self._features: Int = np.empty(0, dtype=np.int64)
        else:
            self._start, self._features = problem.support
        self.C, self.cap = C, C * problem.weights
        self.count: Int = np.zeros(n, dtype=np.int64)
        # slot by slot, not query by query, so that the system only gives memory to slots that are filled
        self._pool = np.zeros((n_slots, n_numbers))
        self._loss, self._alpha = np.zeros((n, n_slots)), np.zeros((n, n_slots))
        self._age, self._now = np.zeros((n, n_slots), dtype=np.int64), 0
        """When each plane was last used, and the current time."""
        self.w: Float = np.zeros(m)
        self.anchor: Float = np.zeros(m)
        self.joint: Float = np.zeros(m)
        """The sum of the planes without the anchor, as of the last call of ``_sum``."""
        self._size: Float = np.zeros(m)
        """The same sum over absolute values."""
        self.best: tuple[Float, float] | None = None
        """The best weights of the last fit, and an upper bound on their weighted hinges; for exact oracles only."""
        self.solving = False
        """Whether the last fit ended by solving the problem over the cached planes."""
        self.cone = None if cone is None else check_cone(cone, m)
        if self.cone is None:
            self._point = Point(self.w, self.w, np.empty(0), np.empty(0))
        else:
            low, high = np.where(self.cone > 0, 0.0, -np.inf), np.where(self.cone < 0, 0.0, np.inf)
            self._point = Point(self.w, np.zeros(m), low, high)
        # buffers of the kernels, as code that allocates takes long to compile
        widest = 0 if problem.support is None else int(np.diff(self._start).max(initial=0))
        self._room = np.empty((6, max(n_slots + 1, widest)))
        self._slots: Int = np.empty(n, dtype=np.int64)

    @property
    def value(self) -> float:
        """Dual value, minus a bound on its rounding error, as ``w`` may be a small difference of large planes."""
        # |w' - w| <= error by component gives  1/2 ||w'||^2 <= 1/2 ||w||^2 + |w| . error + 1/2 ||error||^2
        error = ROUNDING * self._size
        lost = dot(np.abs(self.w), error) + 0.5 * dot(error, error)
        return float(self.loss - 0.5 * dot(self.w, self.w) - lost)

    @property
    def loss(self) -> float:
        """The sum of the planes' losses, weighted by their masses."""
        return float((self._alpha * self._loss).sum())

    @property
    def cut(self) -> Cut:
        """The mean of the planes, weighted by their masses, which bounds the mean hinge from below."""
        return Cut(self.loss / self.C, self.joint / self.C)

    @property
    def rounding(self) -> float:
        """Length of the largest vector that rounding may have added to ``joint``."""
        return ROUNDING * norm(self._size)

    @property
    def planes(self) -> Planes:
        """The cached planes, for the kernels."""
        return Planes(self._pool, self._start, self._features, self._loss, self.count, self.cap)

    def rescale(self, C: float) -> None:
        """Scale the dual point to another C, for which it stays feasible; planes do not depend on C."""
        # masses and caps are proportional to C: a / C is feasible for every C, and w is linear in the masses
        ratio = C / self.C
        self.C, self.cap = C, self.cap * ratio
        for scaled in (self._alpha, self._size, self._point.total, self.joint):
            scaled *= ratio
        self._clip()

    def place(self, anchor: Float) -> None:
        """Set the anchor, and make the masses feasible, whatever their state."""
        # negative and undefined masses to zero, then each query down to its cap
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
        # Queries of one step share one w, and steps begun ahead have a w without the last updates. At most n / 128
        # queries share one, as stale steps cost more passes than calls cost time.
        stale = max(1, problem.n_queries // 128)
        ahead = min(max(0, stale // problem.chunk - 1), _AHEAD)
        step = min(stale // (ahead + 1), _CHUNKS_PER_STEP * problem.chunk)
        average = np.zeros_like(self.w)
        n_steps = 0
        for first, last, loss, joint in sweep(problem, self.w.copy, step, ahead=ahead):
            # The planes of a step belong to a ``w`` that is up to ``ahead`` steps old; the moves are exact at the
            # newest ``w``. Two moves per query: the first mostly takes mass from the zero plane, the second from a bad
            # one.
            self._cache_and_move(self.w, first, last, loss, joint, 2)
            n_steps += 1
            average += (self.w - average) / n_steps
        self._sum()
        return average

    def certify(self, problem: Problem, w: Float) -> float:
        """Make one pass at a fixed ``w``: return the primal value there, after a line search towards its dual point."""
        return 0.5 * dot(w, w) + self.measure(problem, w)[0]

    def measure(self, problem: Problem, w: Float) -> tuple[float, float, Float]:
        """Make the same pass; return the slack, and loss and sum of its planes with the full cap on each."""
        self._now += 1
        total = np.zeros_like(w)
        slack, gain = 0.0, 0.0
        step = _CHUNKS_PER_STEP * problem.chunk
        for first, last, loss, joint in sweep(problem, lambda: w, step, ahead=_AHEAD):
            self._cache_and_move(w, first, last, loss, joint, 0)
            part_slack, part_gain = _certify(w, first, last, self._slots, total, self._room[1], self.planes)
            slack += part_slack
            gain += part_gain
        # the full cap on the most violated plane of each query is a dual point, too: move a share theta towards it
        theta = self._exact_step(self.anchor + total - self._point.total, gain)
        if theta > 0:
            self._alpha *= 1.0 - theta
            cached = np.flatnonzero(
                self._slots < self._alpha.shape[1]
            )  # beyond the last slot: the zero plane
            self._alpha[cached, self._slots[cached]] += theta * self.cap[cached]
        self._sum()
        return slack, gain, total

    def solve(self, w: Float, primal: float, tol: float, n_jobs: int = 1) -> Float:
        """Solve the problem over the cached planes by Newton's method from ``w``; return where to add planes next."""
        # More than a dual value within ``tol`` of ``primal`` is not needed. The solution need not be better than the
        # current masses, which come from earlier smoothings: the best point between the two is taken.
        missing = primal - self.value
        solution = minimise(
            self.planes,
            w,
            max(_SOLVED * missing, 0.1 * tol * primal),
            _SMOOTHING * missing / self.C,
            enough=(1.0 - 0.99 * tol) * primal,
            n_jobs=n_jobs,
            signs=self.cone,
        )
        before, share = self._alpha, self._point.total.copy()
        self._alpha = solution.alpha
        self._sum()
        theta = self._exact_step(share - self._point.total, float((before * self._loss).sum()))
        if theta > 0:
            self._alpha += theta * (before - self._alpha)
            self._sum()
        self._now += 1
        self._age[self._alpha > 0] = self._now
        return solution.centre

    def _exact_step(self, direction: Float, gain: float) -> float:
        """Return the best step towards a dual point, whose sum is ``direction`` away and whose planes have the loss
        ``gain``."""
        curvature = dot(direction, direction)
        rise = gain - self.loss
        if self.cone is not None:
            return _root(
                lambda t: rise - dot(project(self._point.total + t * direction, self.cone), direction)
            )
        # without signs: the maximiser in [0, 1] of a concave quadratic with this slope at 0
        slope = rise - dot(self.w, direction)
        return float(min(1.0, max(0.0, slope / curvature)) if curvature > 0 else slope > 0)

    def _cache_and_move(
        self, w: Float, first: int, last: int, loss: Float, joint: Float, n_steps: int
    ) -> float:
        """See :func:`_sweep`."""
        point = self._point if w is self.w else self._point._replace(w=w)
        given, own = (loss, joint, self._slots), (self.planes, (self._alpha, self._age))
        return float(_sweep(point, first, last, *given, n_steps, self._now, self._room, *own))

    def _clip(self) -> None:
        if self.cone is not None:
            self.w[:] = project(self._point.total, self.cone)

    def _sum(self) -> None:
        """Recompute ``w`` from the masses: thousands of small updates leave a rounding error that weakens bounds."""
        self.joint[:] = 0.0
        self._size[:] = 0.0
        _sum_planes(self.joint, self._size, self.planes, self._alpha)
        np.add(self.anchor, self.joint, out=self._point.total)
        self._clip()

    def redistribute(self, target: float) -> bool:
        """Sweep over the cached planes only, until their share of the gap is below ``target``; return whether it is
        reached."""
        # The sum of the gaps of the queries, each at the weights when it was visited, estimates the gap of the sweep.
        # Up to three moves per query and visit.
        done = False
        for _ in range(_SWEEPS):
            self._now += 1
            gap = self._cache_and_move(self.w, 0, self.count.shape[0], _NO_LOSS, _NO_PLANES, 3)
            done = gap <= target
            if done:
                break
        self._sum()
        return done


@kernel(inline="always")
def _shift(point, plane, mass):  # type: ignore[no-untyped-def]
    """Add a plane to the sum, and project the sum if there are signs."""
    # Bounds rather than signs, as minimum and maximum need no branch: [0, inf], [-inf, 0] or [-inf, inf].
    w, total, low, high = point
    if low.shape[0] == 0:
        for j in range(w.shape[0]):
            w[j] += mass * plane[j]
    else:
        for j in range(w.shape[0]):
            total[j] += mass * plane[j]
            x = low[j] if low[j] > total[j] else total[j]
            w[j] = high[j] if high[j] < x else x


@kernel(inline="always")
def _move(point, pool, lo, hi, loss, alpha, age, n, cap, n_steps, now, violation):  # type: ignore[no-untyped-def]
    """Move mass of one query from its least to its most violated plane; return the block gap before the first step."""
    # The dual value D is a concave quadratic of the masses, and its derivative by the mass of a plane is the plane's
    # violation. A pairwise step moves mass m from the worst plane, of those that have any, to the best: the slope is
    # the difference of the two violations, the curvature the squared distance of the planes, and the exact step
    # m = slope / curvature, or all the mass of the worst plane. The gap of the block, cap * max violation - sum of
    # alpha * violation, bounds what all steps of this query together can gain. Plane number ``n`` is the zero plane,
    # with violation 0; it has the part of the cap that the other planes leave.
    gap = 0.0
    for step in range(n_steps):
        used = 0.0
        violation[n] = 0.0
        best, worst = n, -1
        for k in range(n):
            violation[k] = loss[k] - dot(pool[k, lo:hi], point.w)
            used += alpha[k]
            if violation[k] > violation[best]:
                best = k
        left = cap - used
        if left > 1e-14 * cap:  # less is rounding error: the zero plane has no mass to give
            worst = n
        for k in range(n):
            if alpha[k] > 0.0:
                age[k] = now  # planes with mass never leave the cache
                if worst < 0 or violation[k] < violation[worst]:
                    worst = k
        if step == 0:
            gap = cap * violation[best]
            for k in range(n):
                gap -= alpha[k] * violation[k]
        if worst < 0 or worst == best or violation[best] <= violation[worst]:
            break  # this query is at its optimum, given the others
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
            # exactly zero if all is taken, so that the plane may be dropped
            alpha[worst] = 0.0 if mass == available else alpha[worst] - mass
        for k, share in ((best, mass), (worst, -mass)):
            if k < n:
                _shift(point, pool[k, lo:hi], share)
    return gap


@kernel
def _sweep(point, first, last, new_loss, new_joint, slots, n_steps, now, room, planes, masses):  # type: ignore[no-untyped-def]
    """Cache the new plane of each query, if any, and make ``n_steps`` with its mass; return the sum of block gaps."""
    # ``slots[q]`` receives the cache slot of the most violated plane of query ``q``.
    w, total, low, high = point
    pool, start, features, loss, count, cap = planes
    alpha, age = masses
    violation, local, part, bottom, top, plane = room[0], room[1], room[2], room[3], room[4], room[5]
    gap = 0.0
    for q in range(first, last):
        lo, hi = start[q], start[q + 1]
        n, m = count[q], hi - lo
        # Planes of sparse rows have only the features of their query: gather the weights of these, work on the copies,
        # and scatter them afterwards.
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
                age[q, slot] = now  # a certificate may give it mass later
        gap += _move(
            Point(own, own_total, own_low, own_high), pool, lo, hi, loss[q], alpha[q], age[q], n, cap[q], n_steps,
            now, violation,
        )  # fmt: skip
        if features.shape[0] > 0:
            for j in range(m):
                w[features[lo + j]] = own[j]
            if low.shape[0] > 0:
                for j in range(m):
                    total[features[lo + j]] = part[j]
    return gap


@kernel
def _certify(w, first, last, slots, target, local, planes):  # type: ignore[no-untyped-def]
    """Add the most violated planes at ``w``, with full cap, to ``target``; return their slack and gain."""
    # The slack is the weighted sum of the hinges at ``w``, so that 1/2 ||w||^2 + slack is the primal value there. A
    # query without a violated plane has its mass on the zero plane, in the slot after the last, and adds nothing.
    pool, start, features, loss, _, cap = planes
    size = loss.shape[1]
    slack, gain = 0.0, 0.0
    for q in range(first, last):
        lo, hi = start[q], start[q + 1]
        slot = slots[q]
        if slot < size:  # else it is the zero plane
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
def _sum_planes(total, size, planes, alpha):  # type: ignore[no-untyped-def]
    """Add the planes, weighted by their masses, to ``total``, and the absolute values of the same terms to ``size``."""
    # ``size`` bounds the rounding error of ``total``, which may be a small difference of large planes
    pool, start, features, _, used, _ = planes
    for q in range(used.shape[0]):
        lo, hi = start[q], start[q + 1]
        for k in range(used[q]):
            a = alpha[q, k]
            if a > 0.0:
                if features.shape[0] == 0:
                    for j in range(hi - lo):
                        total[j] += a * pool[k, lo + j]
                        size[j] += abs(a * pool[k, lo + j])
                else:
                    for j in range(hi - lo):
                        total[features[lo + j]] += a * pool[k, lo + j]
                        size[features[lo + j]] += abs(a * pool[k, lo + j])
