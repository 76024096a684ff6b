"""The dual point of block-coordinate Frank-Wolfe, whose planes are stored as vectors, and the operations on it."""

from typing import NamedTuple

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot, norm, squared_distance
from structsvm.protocols import Cut, Float, Int, Problem
from structsvm.qp.cone import check_cone, project, root
from structsvm.trainers.newton_on_planes import minimise
from structsvm.trainers.passes import sweep
from structsvm.trainers.plane_cache import ROUNDING, Planes, insert

MEMORY = 1 << 28
"""Memory limit for cached planes in bytes; the limit is half the size of the data if that is larger."""

_AHEAD = 4
"""Number of steps that start before the current step is finished, to keep threads busy; constant, because results must
not depend on n_jobs."""

_CHUNKS_PER_STEP = 4
"""Number of chunks in each step of a thread: starting a step costs about a tenth of the time of a chunk."""

_PLANES = 10
"""Maximum number of planes per query. With 32, fits of 60 to 2,000 queries took 1.2 times as long on average, because
each sweep visits every plane."""

_SWEEPS = 50
"""Maximum number of sweeps over the cached planes. After that, Newton's method solves the problem over these planes if
``frank_wolfe.pays``. With 20, some fits of fewer than 100 queries take twice as many passes."""

_SMOOTHING = 0.2
"""Initial smoothing ``mu``, in units of the gap per query. With 0.05 a path takes 1.3 to 1.9 times as long, because the
Hessian then changes within a small part of the first steps at each C."""

_SOLVED = 0.02
"""Tolerance for solving the problem over the cached planes, as a fraction of the duality gap."""

_NO_LOSS, _NO_PLANES = np.empty(0), np.empty((0, 0))
"""Empty arrays of new planes, for a sweep over the cached planes only."""


def cache_size(problem: Problem) -> int | None:
    """Return the number of planes that a query may cache, at most ten, or None if three do not fit in memory.

    Three is the minimum, as a full cache merges two planes before it adds one.
    """
    n = max(MEMORY, problem.n_bytes // 2) // (8 * max(1, slot_size(problem)))
    return int(min(n, _PLANES)) if n >= 3 else None


def slot_size(problem: Problem) -> int:
    """Return the total number of coefficients if each query has one plane."""
    return problem.n_queries * problem.n_features if problem.support is None else int(problem.support[0][-1])


class Point(NamedTuple):
    """The weights ``w``, and the sum ``total``; ``w`` is the projection of ``total`` on the sign constraints."""

    w: Float
    total: Float
    """Anchor plus the weighted sum of the planes; the same array as ``w`` if there are no sign constraints."""
    low: Float
    """Lower and upper bound of each weight, from its sign constraint; both arrays are empty without constraints."""
    high: Float


class BlockDual:
    """Cached planes ``(loss, joint)`` of each query, their masses (the dual variables), and ``w``, the sum of the
    planes weighted by the masses."""

    # The dual problem is  max D(a) = sum_qk a_qk loss_qk - 1/2 ||w||^2,  w = anchor + sum_qk a_qk psi_qk,  over masses
    # a >= 0 with sum_k a_qk <= cap_q = C weight_q. The rest of a query's cap is the mass of its zero plane, which is
    # not stored. The derivative of D with respect to a mass is the violation of its plane at w, loss_qk - psi_qk . w.
    # With sign constraints, w is the projection of that sum on them, and the derivative is the same. The ``anchor`` is
    # zero unless these queries are part of a larger problem (:meth:`place`).

    def __init__(self, problem: Problem, C: float, *, cone: Float | None = None) -> None:
        n, m = problem.n_queries, problem.n_features
        n_slots, n_numbers = cache_size(problem), slot_size(problem)
        if n_slots is None:
            raise BadInput(
                "frank_wolfe",
                f"expected memory for three planes per query ({24e-9 * n_numbers:.1f} GB)",
                "use {solver='one_slack'}",
            )
        if problem.support is None:
            self._start: Int = np.arange(n + 1, dtype=np.int64) * m
            self._features: Int = np.empty(0, dtype=np.int64)
        else:
            self._start, self._features = problem.support
        self.C, self.cap = C, C * problem.weights
        self.count: Int = np.zeros(n, dtype=np.int64)
        # one row per slot, not per query, so that the operating system allocates memory only for slots that are filled
        self._pool = np.zeros((n_slots, n_numbers))
        self._loss, self._alpha = np.zeros((n, n_slots)), np.zeros((n, n_slots))
        self._age, self._now = np.zeros((n, n_slots), dtype=np.int64), 0
        """The time when each plane was last used, and the current time (a counter of passes, sweeps and solves)."""
        self.w: Float = np.zeros(m)
        self.anchor: Float = np.zeros(m)
        self.joint: Float = np.zeros(m)
        """The weighted sum of the planes without the anchor, as computed by the last call of ``_sum``."""
        self._size: Float = np.zeros(m)
        """The same sum over the absolute values of its terms, for bounds on rounding errors."""
        self.best: tuple[Float, float] | None = None
        """The best weights of the last fit, and an upper bound on their mean hinge; for exact oracles only."""
        self.solving = False
        """Whether the last fit ended by solving the problem over the cached planes."""
        self.cone = None if cone is None else check_cone(cone, m)
        if self.cone is None:
            self._point = Point(self.w, self.w, np.empty(0), np.empty(0))
        else:
            low, high = np.where(self.cone > 0, 0.0, -np.inf), np.where(self.cone < 0, 0.0, np.inf)
            self._point = Point(self.w, np.zeros(m), low, high)
        # the kernels receive their buffers, because kernels that allocate take long to compile
        widest = 0 if problem.support is None else int(np.diff(self._start).max(initial=0))
        self._room = np.empty((6, max(n_slots + 1, widest)))
        self._slots: Int = np.empty(n, dtype=np.int64)

    @property
    def value(self) -> float:
        """Dual value minus a bound on its rounding error, which matters if large planes nearly cancel in ``w``."""
        # |w'_j - w_j| <= error_j for each j implies  1/2 ||w'||^2 <= 1/2 ||w||^2 + |w| . error + 1/2 ||error||^2
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
        """Upper bound on the norm of the rounding error of ``joint``."""
        return ROUNDING * norm(self._size)

    @property
    def planes(self) -> Planes:
        """The cached planes as a named tuple, the form that the kernels take."""
        return Planes(self._pool, self._start, self._features, self._loss, self.count, self.cap)

    def rescale(self, C: float) -> None:
        """Scale the dual point to another C, for which it remains feasible; the planes do not depend on C."""
        # caps are proportional to C, so that masses scaled by the ratio are feasible; w is linear in the masses
        ratio = C / self.C
        self.C, self.cap = C, self.cap * ratio
        for scaled in (self._alpha, self._size, self._point.total, self.joint):
            scaled *= ratio
        self._clip()

    def place(self, anchor: Float) -> None:
        """Set the anchor and make the masses feasible, even if they were invalid."""
        # set negative and undefined masses to zero, then scale the masses of each query down to its cap
        self._alpha[~((self._alpha > 0) & np.isfinite(self._alpha))] = 0.0
        total = self._alpha.sum(axis=1)
        over = total > self.cap
        if over.any():
            self._alpha[over] *= (self.cap[over] / total[over])[:, np.newaxis]
        self.anchor = anchor
        self._sum()

    def descend(self, problem: Problem) -> Float:
        """Make one pass of block updates; return the average of ``w`` over the steps of the pass."""
        self._now += 1
        # All queries of a step use the same w, and a step that starts ahead uses a w without the latest updates. At
        # most n / 128 queries share a w: the additional passes due to stale weights cost more than the calls for
        # smaller steps.
        stale = max(1, problem.n_queries // 128)
        ahead = min(max(0, stale // problem.chunk - 1), _AHEAD)
        step = min(stale // (ahead + 1), _CHUNKS_PER_STEP * problem.chunk)
        average = np.zeros_like(self.w)
        n_steps = 0
        for first, last, loss, joint in sweep(problem, self.w.copy, step, ahead=ahead):
            # The oracle was called at a ``w`` up to ``ahead`` steps old, but the moves are exact for the current ``w``.
            # There are two moves per query: the first usually takes mass from the zero plane, the second from the least
            # violated plane.
            self._cache_and_move(self.w, first, last, loss, joint, 2)
            n_steps += 1
            average += (self.w - average) / n_steps
        self._sum()
        return average

    def certify(self, problem: Problem, w: Float) -> float:
        """Make one pass at a fixed ``w``, with a line search towards the dual point of its planes; return the primal
        value at ``w``."""
        return 0.5 * dot(w, w) + self.measure(problem, w)[0]

    def measure(self, problem: Problem, w: Float) -> tuple[float, float, Float]:
        """Make the pass of :meth:`certify`; return the slack, and the loss and the sum of the most violated planes,
        each with the full cap as its mass."""
        self._now += 1
        total = np.zeros_like(w)
        slack, gain = 0.0, 0.0
        step = _CHUNKS_PER_STEP * problem.chunk
        for first, last, loss, joint in sweep(problem, lambda: w, step, ahead=_AHEAD):
            self._cache_and_move(w, first, last, loss, joint, 0)
            part_slack, part_gain = _certify(w, first, last, self._slots, total, self._room[1], self.planes)
            slack += part_slack
            gain += part_gain
        # Putting the full cap on the most violated plane of each query gives another dual point: move a fraction theta
        # of the way towards it.
        theta = self._exact_step(self.anchor + total - self._point.total, gain)
        if theta > 0:
            self._alpha *= 1.0 - theta
            # the slot after the last means the zero plane
            cached = np.flatnonzero(self._slots < self._alpha.shape[1])
            self._alpha[cached, self._slots[cached]] += theta * self.cap[cached]
        self._sum()
        return slack, gain, total

    def solve(self, w: Float, primal: float, tol: float, n_jobs: int = 1) -> Float:
        """Solve the problem over the cached planes by Newton's method from ``w``; return the point at which to add
        planes."""
        # A dual value within ``tol`` of ``primal`` suffices. The solution may have a lower dual value than the previous
        # masses, so that the best point on the segment between the two dual points is taken.
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
        before, total = self._alpha, self._point.total.copy()
        self._alpha = solution.alpha
        self._sum()
        theta = self._exact_step(total - self._point.total, float((before * self._loss).sum()))
        if theta > 0:
            self._alpha += theta * (before - self._alpha)
            self._sum()
        self._now += 1
        self._age[self._alpha > 0] = self._now
        return solution.centre

    def _exact_step(self, direction: Float, gain: float) -> float:
        """Return the best step in [0, 1] towards a dual point whose total loss is ``gain`` and whose sum of planes
        differs from the current sum by ``direction``."""
        curvature = dot(direction, direction)
        rise = gain - self.loss
        if self.cone is not None:
            return root(
                lambda t: rise - dot(project(self._point.total + t * direction, self.cone), direction)
            )
        # without sign constraints, the maximiser in [0, 1] of a concave quadratic with this slope at 0
        slope = rise - dot(self.w, direction)
        return float(np.clip(slope / curvature, 0.0, 1.0)) if curvature > 0 else float(slope > 0)

    def _cache_and_move(
        self, w: Float, first: int, last: int, loss: Float, joint: Float, n_steps: int
    ) -> float:
        """See :func:`_sweep`."""
        point = self._point if w is self.w else self._point._replace(w=w)
        return float(
            _sweep(
                point,
                first,
                last,
                loss,
                joint,
                self._slots,
                n_steps,
                self._now,
                self._room,
                self.planes,
                (self._alpha, self._age),
            )
        )

    def _clip(self) -> None:
        if self.cone is not None:
            self.w[:] = project(self._point.total, self.cone)

    def _sum(self) -> None:
        """Recompute ``w`` from the masses, because the rounding errors of thousands of small updates weaken the
        bounds."""
        self.joint[:] = 0.0
        self._size[:] = 0.0
        _sum_planes(self.joint, self._size, self.planes, self._alpha)
        np.add(self.anchor, self.joint, out=self._point.total)
        self._clip()

    def redistribute(self, target: float) -> bool:
        """Sweep over the cached planes until their part of the gap is at most ``target``; return whether ``target`` was
        reached."""
        # The gap is estimated by the sum of the gaps of the queries, each measured when the sweep visits the query.
        # Each visit makes up to three moves.
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
    """Add ``mass`` times a plane to the sum, and project the sum on the sign constraints, if any."""
    # Each sign is given as an interval, [0, inf], [-inf, 0] or [-inf, inf], as minimum and maximum need no branch.
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
    """Move mass of one query from its least to its most violated plane; return the block gap before the first move."""
    # The dual value D is a concave quadratic function of the masses, and its derivative with respect to the mass of a
    # plane is the plane's violation. A pairwise step moves mass m to the most violated plane (``best``) from the least
    # violated plane that has mass (``worst``). The slope is the difference of the two violations, the curvature is the
    # squared distance between the planes, and the exact step is m = slope / curvature, at most the mass of the worst
    # plane. The gap of the block, cap * max violation - sum of alpha * violation, bounds the total gain of all steps of
    # this query. Plane number ``n`` is the zero plane, with violation 0; its mass is the unused part of the cap.
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
        if left > 1e-14 * cap:  # below that, the mass of the zero plane is rounding error
            worst = n
        for k in range(n):
            if alpha[k] > 0.0:
                age[k] = now  # a plane with mass is never dropped from the cache
                if worst < 0 or violation[k] < violation[worst]:
                    worst = k
        if step == 0:
            gap = cap * violation[best]
            for k in range(n):
                gap -= alpha[k] * violation[k]
        if worst < 0 or worst == best or violation[best] <= violation[worst]:
            break  # the masses of this query are optimal for fixed masses of the other queries
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
            # exactly zero if all mass is moved, so that the plane may be dropped
            alpha[worst] = 0.0 if mass == available else alpha[worst] - mass
        for k, share in ((best, mass), (worst, -mass)):
            if k < n:
                _shift(point, pool[k, lo:hi], share)
    return gap


@kernel
def _sweep(point, first, last, new_loss, new_joint, slots, n_steps, now, room, planes, masses):  # type: ignore[no-untyped-def]
    """Cache the new plane of each query, if any, and make ``n_steps`` moves of its mass; return the sum of the block
    gaps."""
    # ``slots[q]`` receives the cache slot of the most violated plane of query ``q``.
    w, total, low, high = point
    pool, start, features, loss, count, cap = planes
    alpha, age = masses
    violation, local, part, bottom, top, plane = room[0], room[1], room[2], room[3], room[4], room[5]
    gap = 0.0
    for q in range(first, last):
        lo, hi = start[q], start[q + 1]
        n, m = count[q], hi - lo
        # Planes of sparse rows store only the features of their query: gather the weights of these features, update the
        # copies, and scatter them afterwards.
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
                own,
                pool,
                lo,
                hi,
                loss[q],
                alpha[q],
                age[q],
                n,
                new_loss[q - first],
                new_plane,
                violation,
                now,
            )
            count[q] = n
            slots[q] = slot
            if n_steps == 0 and slot < alpha.shape[1]:
                age[q, slot] = now  # the line search after a certificate may give this plane mass
        gap += _move(
            Point(own, own_total, own_low, own_high),
            pool,
            lo,
            hi,
            loss[q],
            alpha[q],
            age[q],
            n,
            cap[q],
            n_steps,
            now,
            violation,
        )
        if features.shape[0] > 0:
            for j in range(m):
                w[features[lo + j]] = own[j]
            if low.shape[0] > 0:
                for j in range(m):
                    total[features[lo + j]] = part[j]
    return gap


@kernel
def _certify(w, first, last, slots, target, local, planes):  # type: ignore[no-untyped-def]
    """Add the most violated planes at ``w``, each times its cap, to ``target``; return their total slack and loss."""
    # The slack is the weighted sum of the hinges at ``w``, so that 1/2 ||w||^2 + slack is the primal value at ``w``. A
    # query without a violated plane has its mass on the zero plane, whose slot is the one after the last; it adds
    # nothing.
    pool, start, features, loss, _, cap = planes
    size = loss.shape[1]
    slack, gain = 0.0, 0.0
    for q in range(first, last):
        lo, hi = start[q], start[q + 1]
        slot = slots[q]
        if slot < size:  # otherwise it means the zero plane
            own = w
            if features.shape[0] > 0:
                own = local[: hi - lo]
                for j in range(hi - lo):
                    own[j] = w[features[lo + j]]
            excess = loss[q, slot] - dot(pool[slot, lo:hi], own)
            if not excess <= 0.0:  # not ``> 0``, so that NaN is added
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
    # ``size`` bounds the rounding error of ``total``, which is relatively large if large planes nearly cancel
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
