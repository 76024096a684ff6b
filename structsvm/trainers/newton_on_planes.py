"""Newton's method for the problem over cached planes, with a smoothed maximum over the planes of each query.

Query ``q`` has planes ``(loss_qk, psi_qk)``, including the zero plane ``k = 0``, and a cap ``c_q``. With the
violations ``v_qk(w) = loss_qk - psi_qk . w`` the problem is

    M(w) = 1/2 ||w||^2 + sum_q c_q max_k v_qk(w)

and, smoothed by ``mu > 0``,

    F(w) = 1/2 ||w||^2 + sum_q c_q mu log sum_k exp(v_qk(w) / mu),      M <= F <= M + mu sum_q c_q log n_q.

With ``p_q`` the softmax of ``v_q / mu``, and ``mean_q`` the mean of ``psi_qk`` under ``p_q``,

    gradient   g = w - a,          a = sum_q c_q mean_q
    Hessian    I + sum_q c_q / mu (sum_k p_qk psi_qk psi_qk' - mean_q mean_q').

For any ``w`` and ``mu``, the masses ``c_q p_qk`` are a feasible point of the dual, with the value
``D = sum_qk c_q p_qk loss_qk - 1/2 ||a||^2``. Substituting ``loss = v + psi . w`` gives its duality gap without reading
the planes again:

    M(w) - D = 1/2 ||g||^2 + sum_q c_q (max_k v_qk - sum_k p_qk v_qk).

The first term is the remaining error of Newton's method, the second the error of smoothing (Nesterov, "Smooth
minimization of non-smooth functions", Mathematical Programming 2005, section 4.1). Newton steps are made at a fixed
``mu`` until the first term is at most half the second; then ``mu`` is reduced. Starting with the smallest ``mu`` takes
many more steps, because the Hessian then changes within a small part of each step. The trainer takes its dual point
from the smallest ``mu``. It adds planes near the *centre*, the minimiser for the largest ``mu``, because the minimiser
of ``M`` moves to regions where the few planes approximate the objective poorly.

Violations are linear in ``w``, so that a search along a step computes the products of the planes with the step only
once. The Newton equations are solved by conjugate gradients, preconditioned by the diagonal. Planes with negligible
mass are left out: in most queries a single plane has all the mass, and the query adds nothing to the Hessian.
"""

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
"""Factor by which ``mu`` is multiplied from one stage to the next."""

_NEGLIGIBLE = 1e-13
"""Fraction of a query's cap below which the mass of a plane is set to zero, so that the plane may be dropped."""

_NOTICEABLE = 1e-2
"""Fraction of a query's cap below which a plane is left out of the Hessian, subject to ``_COVERED``. Its contribution
is small, and most planes of most queries are below this fraction."""

_COVERED = 8
"""Minimum number of planes per feature, on average, that must be above ``_NOTICEABLE`` for the others to be left out.
With fewer, an omitted plane may be the only plane in some direction, in which steps would then be far too long."""

_PRECISION = 0.3
"""Relative residual of the Newton equations. With 0.1, there are 1.5 times as many products and barely fewer steps."""

_MAX_STEPS = 40
_MAX_PRODUCTS = 250
"""Maximum number of products with the Hessian per step."""

_MAX_TRIALS = 40

_TASK = 1 << 19
"""Number of plane coefficients per task; constant, because the order of summation must not depend on n_jobs."""


class FlatPlanes(NamedTuple):
    """Cached planes (:class:`~structsvm.trainers.plane_cache.Planes`) in a flat array, for kernels that read them in
    order."""

    pool: Float
    """Coefficients of all planes; the plane in slot ``k`` of query ``q`` begins at index ``k * width + start[q]``."""
    start: Int
    features: Int
    width: int
    used: Int


class Solution(NamedTuple):
    """A dual point of the problem over the planes, and the number of Newton steps that computed it."""

    alpha: Float
    """Masses, shape (n_queries, slots); the rest of a query's cap is the mass of its zero plane."""
    gap: float
    """Upper bound on the difference between the optimum over these planes and the dual value of ``alpha``."""
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
    """Solve the problem over ``planes`` to a gap of at most ``target``, or as far as rounding allows.

    Start from ``w`` with smoothing ``mu``. If ``enough`` is given, also stop at this dual value, or at the centre if
    the planes cannot attain this value.
    """
    # Invariants of the loop: v contains the violations at w; ``best`` contains the masses with the highest dual value
    # so far; and the optimum over the planes is between ``highest`` and ``lowest``.
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
            # The gap is M(w) - D = rest + slack (see the module docstring). With sign constraints, ``attained`` is the
            # projection of ``total``, and ``attained - total`` is the multiplier of the constraints, whose product with
            # w is nonnegative and part of the gap.
            away = w - attained
            rest = 0.5 * dot(away, away) + dot(attained - total, w)
            value = float((alpha * planes.loss).sum() - 0.5 * dot(attained, attained))
            if value > highest:
                best, highest = alpha, value
            lowest = min(lowest, value + rest + slack)
            settled = rest <= 0.5 * slack
            if settled and centre is None:
                centre = w
            # Stop at the target gap, at a sufficient dual value, at the centre if planes must be added, or at a limit.
            if lowest - highest <= target or (enough is not None and highest >= enough):
                break
            if settled and enough is not None and lowest < enough:
                break  # these planes cannot attain ``enough``: the trainer must add planes
            if n_steps >= _MAX_STEPS or not math.isfinite(rest + slack):
                break
            # most of the gap is due to smoothing: reduce mu and continue from the same w
            if settled:
                mu *= _LOWER
                continue
            n_steps += 1
            newton = problem.newton_step(share, w - total, mu, w, signs)
            # A Newton step that is projected on the sign constraints may lead uphill; the negative projected gradient
            # never does.
            for step in [newton] if signs is None else [project(w + newton, signs) - w, -away]:
                z = problem.products(step)
                length = problem.search(v, z, mu, w, step, _longest(w, step, signs))
                if length != 0.0:
                    break
            if length == 0.0:
                break  # limited by rounding
            # violations are linear in w, so that no product at the new point is needed
            w = project(w + length * step, signs)
            v -= length * z
        return Solution(best, lowest - highest, w if centre is None else centre, n_steps)


def _longest(w: Float, step: Float, signs: Float | None) -> float:
    """Return the largest multiple of ``step`` that can be added to ``w`` without violating a sign constraint."""
    if signs is None:
        return math.inf
    out = np.flatnonzero(signs * step < 0)
    return float((w[out] / -step[out]).min(initial=math.inf))


class Segment:
    """The model of the cached planes along ``w + t step``, with products that are computed once for all ``t``."""

    def __init__(self, planes: Planes, w: Float, step: Float, *, n_jobs: int = 1) -> None:
        with _threads(n_jobs) as run:
            problem = _Smoothed(planes, run)
            self._v = planes.loss - problem.products(w)
            self._z = problem.products(step)
        self._count = planes.used

    def slopes(self, t: float) -> Float:
        """Return the derivative with respect to ``t`` of the maximum over the planes of each query."""
        out = np.zeros(self._count.shape[0])
        _steepest(self._v, self._z, t, self._count, out)
        return out


Run = Callable[[Callable[..., Any], list[tuple[Any, ...]]], object]
"""Function that calls a given function with each of several tuples of arguments, on one or several threads."""


@contextmanager
def _threads(n_jobs: int) -> Iterator[Run]:
    if n_jobs == 1:
        yield lambda function, arguments: [function(*a) for a in arguments]
        return
    with ThreadPoolExecutor(n_jobs) as pool:
        yield lambda function, arguments: list(pool.map(lambda a: function(*a), arguments))


def _split(widths: Int) -> list[tuple[int, int]]:
    """Return consecutive ranges ``first:last`` of queries with about ``_TASK`` plane coefficients each."""
    used = np.concatenate(([0], np.cumsum(widths)))
    cuts = np.searchsorted(used, np.arange(_TASK, int(used[-1]), _TASK))
    edges = np.unique(np.concatenate(([0], cuts, [widths.shape[0]])))
    return [(int(a), int(b)) for a, b in pairwise(edges)]


class _Smoothed:
    """Products and sums over the planes for the smoothed problem, computed in tasks of several queries."""

    def __init__(self, planes: Planes, run: Run) -> None:
        self.planes = planes
        self._run = run
        self._n_features = 0
        start = planes.start
        self._flat = FlatPlanes(planes.pool.reshape(-1), start, planes.features, int(start[-1]), planes.used)
        self._widths = planes.used * np.diff(planes.start)
        self._tasks = _split(self._widths)

    def products(self, x: Float) -> Float:
        """Return the products ``psi_qk . x``, shape (n_queries, slots)."""
        out = np.zeros_like(self.planes.loss)
        self._n_features = x.shape[0]
        self._run(_products, [(x, a, b, self._flat, out) for a, b in self._tasks])
        return out

    def softmax(self, v: Float, mu: float) -> tuple[Float, float]:
        """Return the softmax of the violations of each query, and the smoothing term of the gap."""
        share = np.zeros_like(v)
        slack = _softmax(v, mu, self.planes.used, self.planes.cap, share)
        return share, float(slack)

    def combine(self, alpha: Float) -> Float:
        """Return ``sum_qk alpha_qk psi_qk``."""
        return self._add_up(_combine, [(a, b, self._flat, alpha) for a, b in self._tasks])

    def _add_up(self, kernel: Any, arguments: list[tuple[Any, ...]]) -> Float:
        """Run a kernel per task, each adding to an array of zeros; return the sum of these arrays in the order of the
        tasks."""
        parts = [np.zeros(self._n_features) for _ in arguments]
        self._run(kernel, [(*a, part) for a, part in zip(arguments, parts, strict=True)])
        total = np.zeros(self._n_features)
        for part in parts:
            total += part
        return total

    def newton_step(
        self, share: Float, gradient: Float, mu: float, w: Float | None = None, signs: Float | None = None
    ) -> Float:
        """Return an approximate solution of ``Hessian step = -gradient``."""
        # With sign constraints, consider a step along the negative gradient, scaled by the diagonal of the Hessian.
        # Weights whose sign it would violate are set to zero (``held``), and the equations are solved for the other
        # weights (Bertsekas, "Projected Newton methods", SIAM J. Control and Optimization 1982). Only queries with mass
        # on several planes contribute to the Hessian. Planes with a mass below ``_NOTICEABLE`` are
        # left out; if fewer than ``_COVERED`` planes for each feature remain, only those below ``_NEGLIGIBLE`` are.
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
        """Return the length at which the slope along ``step`` is nearly zero, or 0 if ``step`` is not a descent
        direction.

        Return ``longest``, which is at least 1 up to rounding, if the slope at this length is still downhill.
        """
        # Newton's method in one variable: the slope and curvature of F(w + t step) need no product with the planes,
        # because v and z = psi . step are known. The slope is downhill at ``low`` and uphill at ``high``. A trial
        # outside this interval is replaced by its midpoint, by 4 * low if ``high`` is unknown, or by high / 5 if
        # ``low`` is 0.
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
            length = low  # ``low`` is the longest trial with a downhill slope
        return length


# Loops use unsigned indices into flat arrays, because Numba counts references to slices and checks whether signed
# indices are negative. Tuples of arrays are unpacked before the loops, as unpacking also counts references.


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
    # Subtracting the largest violation (at least 0, from the zero plane) prevents overflow. The remaining share belongs
    # to the zero plane. Shares below _NEGLIGIBLE are set to zero, which keeps the point feasible.
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
    """Move shares below ``least`` to the plane with the largest share; return the new shares, and the queries in which
    several planes have a share."""
    # ``heaviest`` is -1 for the zero plane, whose share is ``rest``. The shares of a query still sum to one.
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
    """Add the product of ``direction`` with the Hessian of the smoothed maxima to ``out``."""
    # With x_k = psi_k . direction and their mean under the shares p, the product is sum_k p_k (x_k - mean) psi_k.
    # Computing it as the second moment minus the product of the means would lose digits. ``product`` is a buffer, and
    # the mean is named ``centre``: a kernel that creates arrays, or appears to because of a name such as mean, counts
    # references to its arguments, which doubles its run time.
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
    """Add the diagonal of the Hessian of the smoothed maxima to ``out``."""
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
        # the variance of each feature, which rounding could make negative
        for j in range(m):
            change = scale[q] * max(0.0, square[j] - mean[j] * mean[j])
            if dense:
                out[j] += change
            else:
                out[features[lo + j]] += change


@kernel
def _steepest(v, z, t, count, out):  # type: ignore[no-untyped-def]
    """Set ``out`` to the derivative of the largest violation ``v - t z`` of each query; it stays 0 for the zero
    plane."""
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
