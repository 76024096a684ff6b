"""Block-coordinate Frank-Wolfe with cached planes: the fewest passes over many queries (Lacoste-Julien et al. 2013)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.protocols import Callback, Float, Int, Problem
from structsvm.qp.cone import check_cone, project
from structsvm.trainers.certificate import Fit, Recorder
from structsvm.trainers.passes import sample, sweep
from structsvm.trainers.segment_search import between
from structsvm.trainers.smoothed_planes import Planes, minimise

__all__ = ["BlockDual", "cache_size", "frank_wolfe", "pays"]

_AHEAD = 4
"""Steps begun before the one in hand is done: work for as many threads. Fixed, as results must not depend on n_jobs."""

_CHUNKS_PER_STEP = 4
"""Handing a step over costs as much as a tenth of a chunk."""

_FEWEST = 1024
"""Queries from which the length of ``w`` is set by a sample: it is then a quarter of them at the most."""

_LARGEST_FACTOR = 3.0
"""The average of a descent from zero is about half as long as its end."""

_FAR = 40.0
_FAR_OF_FEW = 250.0
"""Gap at the first certificate, in units of ``tol``, from which the problem over the cached planes is solved. With
fewer than ``_FEWEST`` queries passes are cheap beside it."""

_PATIENCE = 40
"""Passes after which the problem over the cached planes is solved where it would not pay from the start: by then
sweeps may take hundreds."""

_LITTLE = 0.5
"""Share of the gap that a certificate may leave before it is solved from then on."""

_SMOOTHING = 0.2
"""First ``mu``, in units of the gap per query. With 0.05 a path takes twice as long: the first steps at each C are
stiff."""

_SOLVED = 0.02
"""Share of the gap that may be left of the problem over the cached planes."""

_ROUNDING = 8 * np.finfo(float).eps
"""Relative error of a sum over the planes: far above what is met, far below any ``tol``."""

_SMALL = 1 << 26
_MEMORY = 1 << 28
"""Bytes that cached planes may always use; beyond, as many as the data allows (:func:`cache_size`)."""


def frank_wolfe(
    problem: Problem,
    C: float,
    *,
    tol: float = 1e-3,
    max_passes: int = 1000,
    dual: BlockDual | None = None,
    cone: Float | None = None,
    w0: Float | None = None,
    callback: Callback | None = None,
) -> Fit:
    """Minimise ``1/2 ||w||^2 + C sum_q weights[q] H_q(w)`` by updating the dual one query at a time.

    There are two kinds of pass. A *descent* pass visits the queries in order: find the most violated output of a
    few, add its plane to the query's cache, and move the query's dual mass between its planes by exact line search
    (pairwise steps, so mass on a bad plane can leave). A *certificate* pass is at a fixed ``w``: it gives the exact
    primal value and, as its planes together are a dual point too, an exact line search between that point and the
    current one. Near the optimum the step goes all the way: half the squared gradient norm is then the gap.

    The point to certify after a descent is the average of its iterates, which scatter around the optimum. Its
    direction is right long before its length is, so its length is set by the slope on a sample of the queries: at
    10^4 queries and more one descent and one certificate are then mostly enough. When the gap is within three times
    ``tol``, a second certificate half-way to the dual's own ``w`` follows (the errors of the two have opposite
    signs), at half the price of another pair of passes. Between passes, mass moves among cached planes without
    touching the data, in sweeps over the queries.

    Where that is not enough, the problem over the cached planes is solved instead, by the Newton method of
    :mod:`~structsvm.trainers.smoothed_planes`; descents end, and each further pass is a certificate at the best point
    of the segment from the best weights so far to the solution. Passes then hardly depend on C. The rule is fixed:
    at least a hundred queries and twice as many as features (:func:`pays`), and a gap above 40 ``tol`` at a
    certificate (with fewer than 1,024 queries 250 ``tol``), or above half of what it was at the last. With fewer
    queries than that, 40 passes must have been made.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    C : float
        Trade-off, > 0.
    tol : float, default=1e-3
        Relative duality gap to stop at.
    max_passes : int, default=1000
        Passes over the data at most, both kinds counted; an approximate oracle may take one more, to measure the
        weights. What a sample of the queries costs is not counted.
    dual : BlockDual, optional
        Planes and dual point to work on, changed in place: of a fit on the same problem for another C. What the
        weights of that fit are worth is known without a pass. Where Newton's method pays it is used at once, before
        the first pass; its dual value may prove these weights good enough for this C, too, with no pass at all.
    cone : ndarray, shape (n_features,), optional
        The sign of each weight: 1 (``w_j >= 0``), -1 (``w_j <= 0``) or 0 (free). A ``dual`` has its own.
    w0 : ndarray, shape (n_features,), optional
        A guess of the optimum. It is measured first, unless Newton's method on kept planes says where to go; without
        either, training starts by descending from zero.
    callback : callable, optional
        Told the bounds after each pass; a truthy return stops early.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        For a C that is not positive and finite, or where not even three planes a query fit in memory.

    Warns
    -----
    ConvergenceWarning
        When ``max_passes`` ended the run above ``tol``.

    Notes
    -----
    Cost per pass: one read of the data, one oracle call a query. Memory: :func:`cache_size` planes a query, at most
    the larger of 256 MiB and half the size of the data.

    Examples
    --------
    >>> from structsvm.oracles.average_precision import AveragePrecision
    >>> from structsvm.trainers.passes import RankingProblem
    >>> X, y, offsets = np.array([[1.0], [0.0]]), np.array([1.0, 0.0]), np.array([0, 2])
    >>> fit = frank_wolfe(RankingProblem(X, offsets, AveragePrecision().bind(y, offsets)), C=1.0, tol=1e-6)
    >>> round(fit.primal, 6), round(fit.dual, 6)
    (0.03125, 0.03125)
    """
    record = Recorder(C, tol, problem.n_features, callback, exact=problem.exact)
    state = BlockDual(problem, C, cone=cone) if dual is None else dual
    n_updates = 0
    candidate = None
    averaging, halfway, rescaling = True, False, True
    newton, last = False, np.inf
    if dual is not None:
        state.rescale(C)
        record.lower(state.value)
        if state.best is not None:  # what they are worth at this C takes no pass
            w, risk = state.best
            record.upper(0.5 * float(w @ w) + C * risk, w)
            newton = pays(problem) and not record.done
        if newton:
            centre = state.solve(record.w, record.primal, tol, problem.n_jobs)
        elif not record.done:
            state.redistribute(0.1 * tol * max(state.value, 0.0))
        record.lower(state.value)
        if newton and not record.done:
            candidate = between(problem, C, state.planes, record.w, centre)
    if candidate is None and w0 is not None and not record.done:
        candidate = w0 * _best_factor(problem, C, w0)
    while not record.done and record.n_passes < max_passes:
        if candidate is None and record.n_passes == max_passes - 1:
            candidate = state.w.copy()  # a descent would not be measured any more
        if candidate is None:
            candidate = state.descend(problem)
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
            rescaling = False  # the sample may not speak for the other queries
        record.upper(primal, candidate)
        record.lower(state.value)
        gap = record.gap
        started = not newton
        far = (_FAR if problem.n_queries >= _FEWEST else _FAR_OF_FEW) * tol
        hard = gap > min(far, _LITTLE * last) if pays(problem) else record.n_passes >= _PATIENCE
        newton = newton or (hard and not halfway)
        last = gap
        if not record.done:
            missing = record.primal - state.value
            if newton:
                centre = state.solve(record.w, record.primal, tol, problem.n_jobs)
            else:
                state.redistribute(0.1 * missing)
            record.lower(state.value)
        record.passed()
        if newton and not record.done:
            candidate = between(problem, C, state.planes, record.w, centre)
            if started:  # the first length may have been far off, more than a sample alone is trusted to tell
                shorter = between(problem, C, state.planes, record.w, np.zeros_like(centre))
                if 0 < np.linalg.norm(shorter) < np.linalg.norm(record.w) / _LARGEST_FACTOR:
                    candidate = shorter
        else:
            halfway = not halfway and record.gap <= 3 * tol
            candidate = 0.5 * (candidate + state.w) if halfway else None
    if not np.isfinite(record.primal):  # the last estimate of an approximate oracle was refuted
        candidate = state.w.copy()
        record.upper(max(state.certify(problem, candidate), record.dual), candidate)
        record.passed()
    if problem.exact and np.isfinite(record.primal):
        # what is left of the primal value is rounded, and may be for a much larger C next time
        risk = record.primal - 0.5 * float(record.w @ record.w) + _ROUNDING * record.primal
        state.best = record.w, risk / C
    if record.n_passes == 0:
        record.passed(0)
    return record.finish(
        "frank_wolfe", n_iterations=n_updates, n_cuts=int(state.count.sum()), exact=problem.exact
    )


def pays(problem: Problem) -> bool:
    """Whether Newton's method over the cached planes may take the place of sweeps: a rule on sizes.

    Below a hundred queries, or with fewer queries than twice the features, its many products with the planes cost
    more than the passes that it saves.
    """
    return problem.n_queries >= max(100, 2 * problem.n_features)


def cache_size(problem: Problem) -> int | None:
    """Planes a query may keep: 32 if small, else up to ten; None if not even three fit (two to mix, one to come).

    Few queries need many planes each at large C; many queries have mass on few each.
    """
    width = problem.n_queries * problem.n_features if problem.support is None else int(problem.support[0][-1])
    plane = 8 * max(1, width)
    if 32 * plane <= _SMALL:
        return 32
    n = max(_MEMORY, problem.n_bytes // 2) // plane
    return int(min(n, 10)) if n >= 3 else None


def _best_factor(problem: Problem, C: float, w: Float) -> float:
    """The factor of ``w`` that minimises the objective on a sample of the queries; 1 where it cannot tell.

    It cannot if there are too few queries, those of the sample have no weight, or they ask for another order of
    magnitude than all queries before them: in sorted or periodic data they may be unlike the others.

    Reads the sample up to three times: a tenth of a pass at 10^4 queries and more, less than half a pass below.
    """
    if problem.n_queries < _FEWEST or not w.any():
        return 1.0
    square = float(w @ w)

    def slope(factor: float) -> float:
        share, gain = 0.0, 0.0
        for first, last, _, joint in sample(problem, factor * w):
            weights = problem.weights[first:last]
            share += float(weights.sum())
            gain += float(weights @ (joint @ w))
        return factor * square - C * gain / share if share > 0 else 0.0

    # secant steps: the slope grows with the factor
    before, value = 1.0, slope(1.0)
    if value == 0.0:
        return 1.0
    factor = 0.9 if value > 0 else 1.1
    for _ in range(2):
        now = slope(factor)
        if now == value:
            break
        secant = factor - now * (factor - before) / (now - value)
        before, value, factor = factor, now, float(np.clip(secant, 0.5 * factor, 2.0 * factor))
        if abs(factor - before) < 0.005:
            break
    return factor if 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR else 1.0


def _root(slope: Callable[[float], float]) -> float:
    """Where a slope that falls with its argument vanishes in [0, 1], from below; the nearest end where it does not."""
    if slope(1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return low


class BlockDual:
    """The dual point: for each query cached planes ``(loss, joint)`` with their mass ``alpha``, and ``w``.

    What is left of a query's cap lies on its zero plane, which needs no storage. With signs given for the weights,
    ``w`` is the projection of the planes' weighted sum, and the dual value has its square: its derivative by a mass
    is still the violation at ``w``.
    """

    def __init__(self, problem: Problem, C: float, *, cone: Float | None = None) -> None:
        n, m = problem.n_queries, problem.n_features
        if problem.support is None:
            self._start: Int = np.arange(n + 1, dtype=np.int64) * m
            self._features: Int = np.empty(0, dtype=np.int64)
        else:
            self._start, self._features = problem.support
        size = cache_size(problem)
        if size is None:
            raise BadInput(
                "frank_wolfe",
                f"expected memory for three planes a query ({24e-9 * int(self._start[-1]):.1f} GB here)",
                "use {solver='one_slack'}",
            )
        self.cap = C * problem.weights
        self.w: Float = np.zeros(m)
        self._cone = None if cone is None else check_cone(cone, m)
        # the weighted sum of the planes, and bounds of what it is clipped to
        self._total = self.w if cone is None else np.zeros(m)
        self._low = np.empty(0) if self._cone is None else np.where(self._cone > 0, 0.0, -np.inf)
        self._high = np.empty(0) if self._cone is None else np.where(self._cone < 0, 0.0, np.inf)
        self._size: Float = np.zeros(m)  # the sum over absolute values
        self.count: Int = np.zeros(n, dtype=np.int64)
        # slot by slot, not query by query: memory is touched as slots come into use, most of it never
        self._pool = np.zeros((size, int(self._start[-1])))
        self._loss = np.zeros((n, size))
        self._alpha = np.zeros((n, size))
        self._age = np.zeros((n, size), dtype=np.int64)
        self._now = 0
        self._C = C
        self.best: tuple[Float, float] | None = None
        """The best weights of the last fit and at least their weighted sum of hinges, from an exact oracle."""

    @property
    def value(self) -> float:
        """The dual value, less what rounding may have added to it: ``w`` is the rest of what cancels in its sum."""
        error = _ROUNDING * self._size
        lost = float(np.abs(self.w) @ error + 0.5 * error @ error)
        return float((self._alpha * self._loss).sum() - 0.5 * self.w @ self.w) - lost

    @property
    def planes(self) -> Planes:
        return Planes(self._pool, self._start, self._features, self._loss, self.count, self.cap)

    def _planes(self) -> tuple[Any, ...]:
        return (
            self._pool, self._start, self._features, self._loss, self._alpha, self._age, self.count, self.cap,
        )  # fmt: skip

    def rescale(self, C: float) -> None:
        """Scale the dual point to another C: planes do not depend on it, and the point stays feasible."""
        ratio = C / self._C
        self._C = C
        self.cap = self.cap * ratio
        self._alpha *= ratio
        self._total *= ratio
        self._clip()
        self._size *= ratio

    def descend(self, problem: Problem) -> Float:
        """One pass of block updates; returns the average of ``w`` over the pass."""
        self._now += 1
        n = problem.n_queries
        # few queries may share one w, or be answered before the updates just ahead of them are made: stale steps
        # cost more passes than calls cost time
        stale = max(1, n // 128)
        ahead = min(max(0, stale // problem.chunk - 1), _AHEAD)
        step = min(stale // (ahead + 1), _CHUNKS_PER_STEP * problem.chunk)
        average = np.zeros_like(self.w)
        n_steps = 0
        for first, last, loss, joint in sweep(problem, self.w.copy, step, ahead=ahead):
            _descend(self.w, *self._sums(), first, last, loss, joint, self._now, *self._planes())
            n_steps += 1
            average += (self.w - average) / n_steps
        self._sum()
        return average

    def certify(self, problem: Problem, w: Float) -> float:
        """One pass at a fixed ``w``: the primal value there, and a line search towards the dual point of its planes."""
        self._now += 1
        slot = np.empty(problem.n_queries, dtype=np.int64)
        target = np.zeros_like(w)
        slack, gain = 0.0, 0.0
        step = _CHUNKS_PER_STEP * problem.chunk
        for first, last, loss, joint in sweep(problem, lambda: w, step, ahead=_AHEAD):
            part_slack, part_gain = _certify(
                w, first, last, loss, joint, self._now, slot, target, *self._planes()
            )
            slack += part_slack
            gain += part_gain
        theta = self._exact_step(target - self._total, gain)
        if theta > 0:
            _mix(self._alpha, self.count, self.cap, slot, theta)
        self._sum()
        return float(0.5 * w @ w + slack)

    def solve(self, w: Float, primal: float, tol: float, n_jobs: int = 1) -> Float:
        """Solve the problem over the cached planes by Newton's method from ``w``; returns where to add planes next.

        Stops as soon as the dual value is within ``tol`` of ``primal``.
        """
        missing = primal - self.value
        found = minimise(
            self.planes,
            w,
            max(_SOLVED * missing, 0.1 * tol * primal),
            _SMOOTHING * missing / self._C,
            enough=(1.0 - 0.99 * tol) * primal,
            n_jobs=n_jobs,
            signs=self._cone,
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
        """The share to go to another dual point, whose sum is ``direction`` away and whose mass earns ``gain``."""
        curvature = float(direction @ direction)
        rise = gain - float((self._alpha * self._loss).sum())
        if self._cone is not None:
            return _root(lambda t: rise - float(project(self._total + t * direction, self._cone) @ direction))
        return min(1.0, max(0.0, (rise - float(self.w @ direction)) / curvature)) if curvature > 0 else 0.0

    def _sums(self) -> tuple[Float, Float, Float]:
        return self._total, self._low, self._high

    def _clip(self) -> None:
        if self._cone is not None:
            self.w[:] = project(self._total, self._cone)

    def _sum(self) -> None:
        """``w`` afresh from the masses: thousands of small updates leave a rounding error that would blunt bounds."""
        self._total[:] = 0.0
        self._size[:] = 0.0
        _sum_planes(self._total, self._size, *self._planes())
        self._clip()

    def redistribute(self, target: float, max_sweeps: int = 50) -> None:
        """Sweeps over the cached planes only, until their share of the gap is below ``target``."""
        for _ in range(max_sweeps):
            self._now += 1
            if _redistribute(self.w, *self._sums(), self._now, *self._planes()) <= target:
                break
        self._sum()


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _distance(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(a.shape[0]):
        d = a[j] - b[j]
        total += d * d
    return total


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _shift(w, total, low, high, plane, mass):  # type: ignore[no-untyped-def]
    """Adds a plane to the sum; ``w`` is the sum between its bounds, or the sum itself where there are none."""
    if low.shape[0] == 0:
        for j in range(w.shape[0]):
            w[j] += mass * plane[j]
    else:
        for j in range(w.shape[0]):
            total[j] += mass * plane[j]
            w[j] = min(max(total[j], low[j]), high[j])


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _move(w, total, low, high, pool, lo, hi, loss, alpha, age, n, cap, n_steps, now, violation):  # type: ignore[no-untyped-def]
    """Pairwise steps of one query: mass goes from its least to its most violated plane (number ``n``: the zero plane).

    Returns the block gap before the first step.
    """
    gap = 0.0
    for step in range(n_steps):
        used = 0.0
        violation[n] = 0.0
        best, worst = n, -1
        for k in range(n):
            violation[k] = loss[k] - _dot(pool[k, lo:hi], w)
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
        if best == n:
            curvature = _dot(pool[worst, lo:hi], pool[worst, lo:hi])
        elif worst == n:
            curvature = _dot(pool[best, lo:hi], pool[best, lo:hi])
        else:
            curvature = _distance(pool[best, lo:hi], pool[worst, lo:hi])
        slope = violation[best] - violation[worst]
        available = left if worst == n else alpha[worst]
        mass = available
        if curvature * available > slope:
            mass = slope / curvature
        if best < n:
            alpha[best] += mass
            age[best] = now
            _shift(w, total, low, high, pool[best, lo:hi], mass)
        if worst < n:
            alpha[worst] = 0.0 if mass == available else alpha[worst] - mass
            _shift(w, total, low, high, pool[worst, lo:hi], -mass)
    return gap


@kernel
def _free_slot(pool, lo, hi, loss, alpha, age, n):  # type: ignore[no-untyped-def]
    """A slot for a new plane; ``n`` planes are in use. Full: the longest idle goes, else the two lightest merge.

    A merged plane is their weighted mean: the dual point stays as it is.
    """
    size = loss.shape[0]
    if n < size:
        return n
    slot = -1
    for k in range(size):
        if alpha[k] == 0.0 and (slot < 0 or age[k] < age[slot]):
            slot = k
    if slot >= 0:
        return slot
    slot = 0
    for k in range(size):
        if alpha[k] < alpha[slot]:
            slot = k
    other = 1 if slot == 0 else 0
    for k in range(size):
        if k != slot and alpha[k] < alpha[other]:
            other = k
    share = alpha[slot] / (alpha[slot] + alpha[other])
    for j in range(lo, hi):
        pool[other, j] += share * (pool[slot, j] - pool[other, j])
    loss[other] += share * (loss[slot] - loss[other])
    alpha[other] += alpha[slot]
    alpha[slot] = 0.0
    return slot


@kernel
def _insert(w, pool, lo, hi, loss, alpha, age, n, new_loss, new_plane, violation, now):  # type: ignore[no-untyped-def]
    """Put a plane into the cache unless a cached one is violated as much at ``w``; returns (its slot, planes used).

    The slot is the cache's size where the zero plane is as violated.
    """
    size = loss.shape[0]
    best, most = size, 0.0
    for k in range(n):
        violation[k] = loss[k] - _dot(pool[k, lo:hi], w)
        if violation[k] > most:
            best, most = k, violation[k]
    if new_loss - _dot(new_plane, w) <= most:
        return best, n
    slot = _free_slot(pool, lo, hi, loss, alpha, age, n)
    pool[slot, lo:hi] = new_plane
    loss[slot] = new_loss
    alpha[slot] = 0.0
    age[slot] = now
    return slot, max(n, slot + 1)


@kernel
def _descend(  # type: ignore[no-untyped-def]
    w, total, low, high, first, last, new_loss, new_joint, now, pool, start, features, loss, alpha, age, count, cap
):  # fmt: skip
    size = loss.shape[1]
    violation = np.empty(size + 1)
    for q in range(first, last):
        lo, hi = start[q], start[q + 1]
        if features.shape[0] == 0:
            _, n = _insert(
                w, pool, lo, hi, loss[q], alpha[q], age[q], count[q], new_loss[q - first], new_joint[q - first],
                violation, now,
            )  # fmt: skip
            count[q] = n
            _move(w, total, low, high, pool, lo, hi, loss[q], alpha[q], age[q], n, cap[q], 2, now, violation)
        else:
            own = features[lo:hi]
            local = w[own]
            _, n = _insert(
                local, pool, lo, hi, loss[q], alpha[q], age[q], count[q], new_loss[q - first],
                new_joint[q - first][own], violation, now,
            )  # fmt: skip
            count[q] = n
            if low.shape[0] == 0:
                _move(
                    local,
                    local,
                    low,
                    high,
                    pool,
                    lo,
                    hi,
                    loss[q],
                    alpha[q],
                    age[q],
                    n,
                    cap[q],
                    2,
                    now,
                    violation,
                )
            else:
                part = total[own]
                _move(
                    local, part, low[own], high[own], pool, lo, hi, loss[q], alpha[q], age[q], n, cap[q], 2, now,
                    violation,
                )  # fmt: skip
                total[own] = part
            w[own] = local


@kernel
def _certify(  # type: ignore[no-untyped-def]
    w, first, last, new_loss, new_joint, now, slots, target, pool, start, features, loss, alpha, age, count, cap
):  # fmt: skip
    """Cache the planes found at ``w``; adds them, full cap on each, to ``target``; returns their slack and gain."""
    size = loss.shape[1]
    violation = np.empty(size + 1)
    slack, gain = 0.0, 0.0
    for q in range(first, last):
        lo, hi = start[q], start[q + 1]
        if features.shape[0] == 0:
            local, new_plane = w, new_joint[q - first]
        else:
            own = features[lo:hi]
            local, new_plane = w[own], new_joint[q - first][own]
        slot, n = _insert(
            local,
            pool,
            lo,
            hi,
            loss[q],
            alpha[q],
            age[q],
            count[q],
            new_loss[q - first],
            new_plane,
            violation,
            now,
        )
        count[q] = n
        slots[q] = slot
        if slot < size:
            age[q, slot] = now
            slack += cap[q] * max(0.0, loss[q, slot] - _dot(pool[slot, lo:hi], local))
            gain += cap[q] * loss[q, slot]
            if features.shape[0] == 0:
                for j in range(hi - lo):
                    target[j] += cap[q] * pool[slot, lo + j]
            else:
                for j in range(hi - lo):
                    target[own[j]] += cap[q] * pool[slot, lo + j]
    return slack, gain


@kernel
def _mix(alpha, count, cap, slots, theta):  # type: ignore[no-untyped-def]
    for q in range(alpha.shape[0]):
        for k in range(count[q]):
            alpha[q, k] *= 1.0 - theta
        if slots[q] < alpha.shape[1]:
            alpha[q, slots[q]] += theta * cap[q]


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


@kernel
def _redistribute(  # type: ignore[no-untyped-def]
    w, total, low, high, now, pool, start, features, loss, alpha, age, count, cap
):  # fmt: skip
    size = loss.shape[1]
    violation = np.empty(size + 1)
    gap = 0.0
    for q in range(count.shape[0]):
        lo, hi = start[q], start[q + 1]
        if features.shape[0] == 0:
            gap += _move(
                w,
                total,
                low,
                high,
                pool,
                lo,
                hi,
                loss[q],
                alpha[q],
                age[q],
                count[q],
                cap[q],
                3,
                now,
                violation,
            )
        else:
            own = features[lo:hi]
            local = w[own]
            if low.shape[0] == 0:
                gap += _move(
                    local,
                    local,
                    low,
                    high,
                    pool,
                    lo,
                    hi,
                    loss[q],
                    alpha[q],
                    age[q],
                    count[q],
                    cap[q],
                    3,
                    now,
                    violation,
                )
            else:
                part = total[own]
                gap += _move(
                    local, part, low[own], high[own], pool, lo, hi, loss[q], alpha[q], age[q], count[q], cap[q], 3, now,
                    violation,
                )  # fmt: skip
                total[own] = part
            w[own] = local
    return gap
