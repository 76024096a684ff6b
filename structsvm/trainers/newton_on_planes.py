"""Newton's method for the problem over cached planes, with the maximum over the planes of a query smoothed.

Query ``q`` has planes ``(loss_qk, psi_qk)``, the zero plane ``k = 0`` among them, and a cap ``c_q``. With the
violations ``v_qk(w) = loss_qk - psi_qk . w`` the problem is

    M(w) = 1/2 ||w||^2 + sum_q c_q max_k v_qk(w)

and, smoothed by ``mu > 0``,

    F(w) = 1/2 ||w||^2 + sum_q c_q mu log sum_k exp(v_qk(w) / mu),      M <= F <= M + mu sum_q c_q log n_q.

With ``p_q`` the softmax of ``v_q / mu``, and ``mean_q`` the mean of ``psi_qk`` under ``p_q``,

    gradient   g = w - a,          a = sum_q c_q mean_q
    Hessian    I + sum_q c_q / mu (sum_k p_qk psi_qk psi_qk' - mean_q mean_q').

The masses ``c_q p_qk`` are a feasible point of the dual for any ``w`` and ``mu``, of the value
``D = sum_qk c_q p_qk loss_qk - 1/2 ||a||^2``. Inserting ``loss = v + psi . w`` gives its gap without reading the planes
again:

    M(w) - D = 1/2 ||g||^2 + sum_q c_q (max_k v_qk - sum_k p_qk v_qk).

The first term is the error left by Newton's method, the second that of smoothing (Nesterov, "Smooth minimization of
non-smooth functions", Mathematical Programming 2005, section 4.1). Steps are made at one ``mu`` until the first term is
half the second, then ``mu`` is lowered. Starting with the smallest ``mu`` takes many more steps, as the second
derivative then changes within a small part of each step. The trainer takes its dual point from the smallest ``mu``. It
adds planes near the *centre*, the minimiser for the largest ``mu``: the minimiser of ``M`` moves to regions where the
few planes carry no information.

Violations are linear in ``w``, so that a search along a step needs the products of the planes with the step once. The
Newton equations are solved by conjugate gradients, preconditioned by the diagonal, without planes that have hardly any
mass: in most queries a single plane has all of it, and the second derivative is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp
from structsvm.common.portable.sums import dot, dot_at, gathered_dot
from structsvm.protocols import Float, Int
from structsvm.qp.cone import project
from structsvm.trainers.newton import conjugate_gradients
from structsvm.trainers.plane_cache import Planes

_LOWER = 0.25
"""Factor of ``mu`` from one stage to the next."""

_NEGLIGIBLE = 1e-13
"""Share of a query's cap below which a plane gets no mass, so that it may leave the cache."""

_NOTICEABLE = 1e-2
"""Share of a query's cap below which a plane is left out of the second derivative: it would add next to nothing, and
most planes of most queries are below. But see ``_COVERED``."""

_COVERED = 8
"""Planes per feature, on average, that must be above. With fewer, a plane that is left out may be the only one in some
direction, and steps there would be far too long; then none is left out."""

_PRECISION = 0.3
"""Relative residual of the Newton equations. With 0.1 there are hardly fewer steps, with 1.5 times the products."""

_MAX_STEPS = 40
_MAX_PRODUCTS = 250
"""Maximum number of products with the second derivative per step."""

_MAX_TRIALS = 40

_TASK = 1 << 19
"""Numbers of planes per task; constant, as partial sums are added per task and must not depend on n_jobs."""


class FlatPlanes(NamedTuple):
    """Cached planes (:class:`~structsvm.trainers.plane_cache.Planes`) for kernels that read them in order."""

    pool: Float
    """Coefficients: those of slot ``k`` of query ``q`` begin at ``k * width + start[q]``."""
    start: Int
    features: Int
    width: int
    used: Int


class Solution(NamedTuple):
    """A dual point of the planes, and the number of Newton steps it took."""

    alpha: Float
    """(n_queries, slots): masses; the rest of a query's cap is on its zero plane."""
    gap: float
    """Upper bound on the distance of its value from the optimum over these planes."""
    centre: Float
    """The minimiser at the first ``mu``, near which planes should be added next."""
    n_steps: int


def minimise(
    planes: Planes,
    w: Float,
    target: float,
    mu: float,
    *,
    enough: float | None = None,
    n_jobs: int = 1,
    signs: Float | None = None,
) -> Solution:
    """Solve the problem over ``planes`` to a gap of ``target``, or as far as rounding allows, from smoothing ``mu``.

    With ``enough``, stop at this dual value, or at the centre if the planes cannot attain it.
    """
    # Invariants of the loop: v are the violations at w; ``best`` are the masses of the highest dual value so far; and
    # the optimum over the planes is between ``highest`` and ``lowest``.
    w = project(np.array(w, dtype=np.float64), signs)
    with _threads(n_jobs) as run:
        problem = _Smoothed(planes, run)
        v = planes.loss - problem.products(w)
        best, highest, lowest = np.zeros_like(v), -math.inf, math.inf
        centre: Float | None = None
        n_steps = 0
        while True:
            share, slack = problem.softmax(v, mu)
            alpha = planes.cap[:, None] * share
            total = problem.combine(alpha)
            attained = project(total, signs)
            # the gap of the module's head, M(w) - D = rest + slack. With signs ``attained`` is the projection of the
            # planes' sum, whose distance from it is a multiplier of the signs: it adds its product with w >= 0.
            away = w - attained
            rest = 0.5 * dot(away, away) + dot(attained - total, w)
            value = float((alpha * planes.loss).sum() - 0.5 * dot(attained, attained))
            if value > highest:
                best, highest = alpha, value
            lowest = min(lowest, value + rest + slack)
            settled = rest <= 0.5 * slack
            if settled and centre is None:
                centre = w
            # Stop at the target, at the centre (where planes should be added first), or at the limit of steps or
            # rounding.
            if lowest - highest <= target or (enough is not None and highest >= enough):
                break
            if settled and enough is not None and lowest < enough:
                break  # no point of these planes reaches ``enough``: planes must be added, which reads the data
            if n_steps >= _MAX_STEPS or not math.isfinite(rest + slack):
                break
            # smoothing is most of the gap at this mu: lower it, from the same w
            if settled:
                mu *= _LOWER
                continue
            n_steps += 1
            newton = problem.newton_step(share, w - total, mu, w, signs)
            # A step that is cut off at the signs need not lead downhill; minus the projected gradient always does.
            for step in [newton] if signs is None else [project(w + newton, signs) - w, -away]:
                z = problem.products(step)
                length = problem.search(v, z, mu, w, step, _longest(w, step, signs))
                if length != 0.0:
                    break
            if length == 0.0:
                break  # limited by rounding
            # violations are linear in w: no product for the new point
            w = project(w + length * step, signs)
            v -= length * z
        return Solution(best, lowest - highest, w if centre is None else centre, n_steps)


def _longest(w: Float, step: Float, signs: Float | None) -> float:
    """Return the length along ``step`` up to which the signs hold."""
    if signs is None:
        return math.inf
    out = np.flatnonzero(signs * step < 0)
    return float((w[out] / -step[out]).min(initial=math.inf))


class Segment:
    """The model along ``w + t step``: the slopes of the largest planes, computed once for all ``t``."""

    def __init__(self, planes: Planes, w: Float, step: Float, *, n_jobs: int = 1) -> None:
        with _threads(n_jobs) as run:
            problem = _Smoothed(planes, run)
            self._v = planes.loss - problem.products(w)
            self._z = problem.products(step)
        self._count = planes.used

    def slopes(self, t: float) -> Float:
        """Return the derivative in ``t`` of the maximum over the planes of each query."""
        out = np.zeros(self._count.shape[0])
        _steepest(self._v, self._z, t, self._count, out)
        return out


Run = Callable[[Callable[..., Any], list[tuple[Any, ...]]], object]
"""Function that calls another function with several tuples of arguments, on several threads."""


@contextmanager
def _threads(n_jobs: int) -> Iterator[Run]:
    if n_jobs == 1:
        yield lambda function, arguments: [function(*a) for a in arguments]
        return
    with ThreadPoolExecutor(n_jobs) as pool:
        yield lambda function, arguments: list(pool.map(lambda a: function(*a), arguments))


def _split(widths: Int) -> list[tuple[int, int]]:
    """Return stretches ``first:last`` of queries with about ``_TASK`` numbers each."""
    used = np.concatenate(([0], np.cumsum(widths)))
    cuts = np.searchsorted(used, np.arange(_TASK, int(used[-1]), _TASK))
    edges = np.unique(np.concatenate(([0], cuts, [widths.shape[0]])))
    return [(int(a), int(b)) for a, b in pairwise(edges)]


class _Smoothed:
    """Sums over the planes, in tasks of several queries."""

    def __init__(self, planes: Planes, run: Run) -> None:
        self.planes = planes
        self._run = run
        self._n_features = 0
        start = planes.start
        self._flat = FlatPlanes(planes.pool.reshape(-1), start, planes.features, int(start[-1]), planes.used)
        self._widths = planes.used * np.diff(planes.start)
        self._tasks = _split(self._widths)

    def products(self, x: Float) -> Float:
        """Return ``psi_qk . x``."""
        out = np.zeros_like(self.planes.loss)
        self._n_features = x.shape[0]
        self._run(_products, [(x, a, b, self._flat, out) for a, b in self._tasks])
        return out

    def softmax(self, v: Float, mu: float) -> tuple[Float, float]:
        """Return the shares of the planes, and the cost of smoothing."""
        share = np.zeros_like(v)
        slack = _softmax(v, mu, self.planes.used, self.planes.cap, share)
        return share, float(slack)

    def combine(self, alpha: Float) -> Float:
        """Return ``sum_qk alpha_qk psi_qk``."""
        return self._add_up(_combine, [(a, b, self._flat, alpha) for a, b in self._tasks])

    def _add_up(self, kernel: Any, arguments: list[tuple[Any, ...]]) -> Float:
        """Run a kernel that adds to its last argument, zeros; return the sum of these in the order of the tasks."""
        parts = [np.zeros(self._n_features) for _ in arguments]
        self._run(kernel, [(*a, part) for a, part in zip(arguments, parts, strict=True)])
        total = np.zeros(self._n_features)
        for part in parts:
            total += part
        return total

    def newton_step(
        self, share: Float, gradient: Float, mu: float, w: Float | None = None, signs: Float | None = None
    ) -> Float:
        """Return roughly the solution of ``Hessian step = -gradient``."""
        # With signs, weights that a step from ``w`` against the gradient, scaled by the diagonal of the Hessian, would
        # move beyond their sign go to zero (``held``), and the equations concern the other weights (Bertsekas,
        # "Projected Newton methods", SIAM J. Control and Optimization 1982).
        # Only queries with mass on several planes have a second derivative. If too few planes are left to cover the
        # features, only those without mass are left out.
        kept, active = _noticeable(share, self.planes.used, _NOTICEABLE)
        if np.count_nonzero(kept) < _COVERED * gradient.shape[0]:
            kept, active = _noticeable(share, self.planes.used, _NEGLIGIBLE)
        share = kept
        tasks = _split(self._widths[active])
        scale = self.planes.cap / mu
        fixed = (self._flat, share, scale)
        diagonal = 1.0 + self._add_up(_diagonal, [(active, a, b, *fixed) for a, b in tasks])

        held = np.zeros(gradient.shape[0], dtype=np.bool_)

        def product(x: Float) -> Float:
            image = x + self._add_up(
                _curve, [(x, active, a, b, *fixed, np.empty(share.shape[1])) for a, b in tasks]
            )
            image[held] = 0.0
            return image

        step, residual = np.zeros_like(gradient), -gradient
        if w is not None and signs is not None:
            held = signs * (w - gradient / diagonal) < 0
            step[held] = -w[held]
            if step.any():
                residual -= product(step)
            residual[held] = 0.0
        most = min(_MAX_PRODUCTS, 2 * gradient.shape[0] + 1)
        return step + conjugate_gradients(product, residual, _PRECISION, most, diagonal)[0]

    def search(
        self, v: Float, z: Float, mu: float, w: Float, step: Float, longest: float = math.inf
    ) -> float:
        """Return the length at which the slope along ``step`` has nearly vanished; 0 if it is not a descent direction.

        Return ``longest`` (at least 1, up to rounding) if the slope there is still downhill.
        """
        # Newton's method in one variable: slope and curvature of F(w + t step) take no product with the planes, as
        # v and z = psi . step are known. ``low`` is downhill and ``high`` uphill; a trial that leaves their interval
        # is replaced by its middle, or by four times or a fifth of its known end.
        start, square = dot(w, step), dot(step, step)
        first = start - _slope(v, z, 0.0, mu, self.planes.used, self.planes.cap)[0]
        if not first < 0:
            return 0.0
        low, high, length = 0.0, math.inf, min(1.0, longest)
        for _ in range(_MAX_TRIALS):
            slope, curvature = _slope(v, z, length, mu, self.planes.used, self.planes.cap)
            slope = start + length * square - slope
            if abs(slope) <= -0.1 * first:
                break
            if slope < 0:
                low = length
                if length >= longest:
                    break
            else:
                high = length
            length -= slope / (square + curvature)
            if not low < length < high:
                if high == math.inf:
                    length = 4.0 * low
                else:
                    length = 0.5 * (low + high) if low > 0 else 0.2 * high
            length = min(length, longest)
        else:
            length = low  # the slope is still downhill here
        return length


# Loops use unsigned indices into flat arrays: Numba counts references to slices, and checks signed indices for being
# negative. For the same reason tuples of arrays are unpacked before the loops.


@kernel(inline="always")
def _add_plane(a, pool, base, features, lo, m, dense, out):  # type: ignore[no-untyped-def]
    """Add ``a`` times the plane that begins at ``base`` to ``out``; its features begin at ``lo``."""
    if dense:
        for j in range(m):
            out[j] += a * pool[base + j]
    else:
        for j in range(m):
            out[features[lo + j]] += a * pool[base + j]


@kernel
def _products(x, first, last, flat, out):  # type: ignore[no-untyped-def]
    pool, start, features, width, used = flat
    dense = features.shape[0] == 0
    for q in range(first, last):
        m = start[q + 1] - start[q]
        for k in range(used[q]):
            if dense:
                out[q, k] = dot_at(pool, k * width + start[q], x, 0, m)
            else:
                out[q, k] = gathered_dot(pool, k * width + start[q], x, features, start[q], m)


@kernel
def _softmax(v, mu, count, cap, share):  # type: ignore[no-untyped-def]
    """Fill ``share``, and return ``sum_q cap_q (max_k v_qk - sum_k share_qk v_qk)``."""
    # Relative to the largest violation (the zero plane's is 0) no exponential overflows. The remaining share belongs to
    # the zero plane. Shares below _NEGLIGIBLE are cut to zero, which leaves a feasible point.
    slack = 0.0
    for q in range(count.shape[0]):
        most = 0.0
        for k in range(count[q]):
            most = max(most, v[q, k])
        total = exp(-most / mu)
        for k in range(count[q]):
            share[q, k] = exp((v[q, k] - most) / mu)
            total += share[q, k]
        below = most
        for k in range(count[q]):
            p = share[q, k] / total
            if p < _NEGLIGIBLE:
                p = 0.0
            share[q, k] = p
            below -= p * v[q, k]
        slack += cap[q] * max(0.0, below)
    return slack


@kernel
def _combine(first, last, flat, alpha, out):  # type: ignore[no-untyped-def]
    pool, start, features, width, used = flat
    dense = features.shape[0] == 0
    for q in range(first, last):
        lo, m = np.uint64(start[q]), np.uint64(start[q + 1] - start[q])
        for k in range(used[q]):
            a = alpha[q, k]
            if a != 0.0:
                _add_plane(a, pool, np.uint64(k * width) + lo, features, lo, m, dense, out)


@kernel
def _noticeable(share, count, least):  # type: ignore[no-untyped-def]
    """Give shares below ``least`` to the heaviest plane; return the shares, and the queries with several planes
    left."""
    # ``heaviest`` is -1 for the zero plane, with the share ``rest``. Shares of a query keep their sum of one.
    kept = np.zeros_like(share)
    active = np.empty(count.shape[0], np.int64)
    n = 0
    for q in range(count.shape[0]):
        rest, moved, heaviest, several = 1.0, 0.0, -1, False
        for k in range(count[q]):
            rest -= share[q, k]
        most = rest
        for k in range(count[q]):
            if share[q, k] > most:
                heaviest, most = k, share[q, k]
        for k in range(count[q]):
            if share[q, k] >= least:
                kept[q, k] = share[q, k]
                several = several or k != heaviest
            else:
                moved += share[q, k]
        if heaviest >= 0:
            if rest < least:
                moved += rest
            else:
                several = True
            kept[q, heaviest] += moved
        if several:
            active[n] = q
            n += 1
    return kept, active[:n].copy()


@kernel
def _curve(direction, active, first, last, flat, share, scale, product, out):  # type: ignore[no-untyped-def]
    """Add the second derivative of the smoothed maxima times ``direction``."""
    # With x_k = psi_k . direction and their mean under the shares p, this is sum_k p_k (x_k - mean) psi_k: the second
    # moment minus the product of the means, without either of the two, whose difference would lose digits. ``product``
    # is a buffer, and ``centre`` not called mean, as a kernel that makes arrays, or looks like it, counts references to
    # all it passes on: that takes twice the time here.
    pool, start, features, width, used = flat
    dense = features.shape[0] == 0
    for i in range(first, last):
        q = active[i]
        begin, n = start[q], start[q + 1] - start[q]
        lo, m = np.uint64(begin), np.uint64(n)
        centre = 0.0
        for k in range(used[q]):
            p = share[q, k]
            if p == 0.0:
                continue
            if dense:
                product[k] = dot_at(pool, k * width + begin, direction, 0, n)
            else:
                product[k] = gathered_dot(pool, k * width + begin, direction, features, begin, n)
            centre += p * product[k]
        for k in range(used[q]):
            p = share[q, k]
            if p != 0.0:
                a = scale[q] * p * (product[k] - centre)
                _add_plane(a, pool, np.uint64(k * width) + lo, features, lo, m, dense, out)


@kernel
def _diagonal(active, first, last, flat, share, scale, out):  # type: ignore[no-untyped-def]
    """Add the diagonal of the second derivative of the smoothed maxima."""
    pool, start, features, width, used = flat
    dense = features.shape[0] == 0
    longest = 0
    for i in range(first, last):
        longest = max(longest, start[active[i] + 1] - start[active[i]])
    mean, square = np.empty(longest), np.empty(longest)
    for i in range(first, last):
        q = active[i]
        lo = np.uint64(start[q])
        m = np.uint64(start[q + 1] - start[q])
        for j in range(m):
            mean[j] = 0.0
            square[j] = 0.0
        for k in range(used[q]):
            p = share[q, k]
            if p == 0.0:
                continue
            base = np.uint64(k * width) + lo
            for j in range(m):
                x = pool[base + j]
                mean[j] += p * x
                square[j] += p * x * x
        # the variance of each feature; rounding may make it negative
        for j in range(m):
            change = scale[q] * max(0.0, square[j] - mean[j] * mean[j])
            if dense:
                out[j] += change
            else:
                out[features[lo + j]] += change


@kernel
def _steepest(v, z, t, count, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the derivative of the largest violation ``v - t z`` of each query; 0 for the zero plane."""
    for q in range(count.shape[0]):
        most = 0.0
        for k in range(count[q]):
            value = v[q, k] - t * z[q, k]
            if value > most:
                most = value
                out[q] = -z[q, k]


@kernel
def _slope(v, z, length, mu, count, cap):  # type: ignore[no-untyped-def]
    """Return ``sum_q cap_q mean_q`` and ``sum_q cap_q variance_q / mu`` under the softmax of ``v - length z``."""
    first, second = 0.0, 0.0
    for q in range(count.shape[0]):
        most = 0.0
        for k in range(count[q]):
            most = max(most, v[q, k] - length * z[q, k])
        total = exp(-most / mu)
        mean, square = 0.0, 0.0
        for k in range(count[q]):
            p = exp((v[q, k] - length * z[q, k] - most) / mu)
            total += p
            mean += p * z[q, k]
            square += p * z[q, k] * z[q, k]
        mean /= total
        first += cap[q] * mean
        second += cap[q] * max(0.0, square / total - mean * mean)
    return first, second / mu
