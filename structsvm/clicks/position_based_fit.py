"""Fit models in which the click probability is attraction times examination, by EM and by Newton with a certificate.

The models in ``position_based.py`` set the number of EM rounds, ``n_rounds`` (``cascades.py`` has its own EM).

Cells are (row, level, shows, clicks), with ``P(click) = exp(u[row] + v[level])``. The log-likelihood

    sum c (u + v) + (n - c) log(1 - exp(u + v)) + prior (sum_r h(u_r) + sum_e h(v_e)),   h(x) = x + log(1 - exp(x))

is concave in ``(u, v)`` on the box ``[log 1e-6, 0]``, so the gradient bounds the remaining gain. The prior adds
``prior`` clicks in ``2 * prior`` impressions to each parameter.
"""

from typing import NamedTuple

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable import cholesky, elementary
from structsvm.common.portable.arrays import dot
from structsvm.common.portable.compiled import exp, expm1, log
from structsvm.protocols import Float, Int

LOW = float(elementary.log(1e-6))
"""Smallest logarithm of a probability."""
_MOST_LEVELS = 2000
"""Largest number of levels for Newton's dense system; EM has no such limit."""


class ProductCells(NamedTuple):
    """Counts sorted by row: cells ``offsets[r]:offsets[r + 1]`` are row ``r``."""

    offsets: Int
    level: Int
    shows: Float
    clicks: Float
    n_levels: int


class ProductFit(NamedTuple):
    """Attraction of each row and examination of each level, with a certificate and standard errors (NaN for EM)."""

    attraction: Float
    examination: Float
    log_likelihood: float
    gap: float  # upper bound on the possible gain of the penalised log-likelihood
    n_steps: int
    covariance: Float  # covariance of `v`, whose common scale only the prior determines
    row_errors: Float  # standard errors of `u`


_MOST_NEWTON_STEPS = 50


def fit_product(cells: ProductCells, *, prior: float, n_rounds: int, tol: float) -> ProductFit:
    """Maximise the penalised log-likelihood by ``n_rounds`` rounds of EM, then by Newton unless there are too
    many levels."""
    n_rows, n_levels, prior = cells.offsets.shape[0] - 1, cells.n_levels, float(prior)
    a, e = np.full(n_rows, 0.5), np.full(n_levels, 0.5)
    _em(*cells, a, e, prior, n_rounds)
    low = elementary.exp(LOW)
    u, v = (elementary.log(np.clip(x, low, 1 - 1e-9)) for x in (a, e))
    steps, covariance, row_errors = 0, np.full((n_levels, n_levels), np.nan), np.full(n_rows, np.nan)
    if n_levels <= _MOST_LEVELS:
        u, v, steps = _newton(cells, u, v, prior, tol)
        a, e = elementary.exp(u), elementary.exp(v)
        covariance, row_errors = _errors(cells, u, v, prior)
    gu, gv, *_ = _derivatives(*cells, u, v, prior)
    return ProductFit(
        attraction=a,
        examination=e,
        log_likelihood=float(_value(*cells, u, v, 0.0)),
        gap=_gap((gu, u), (gv, v)),
        n_steps=steps,
        covariance=covariance,
        row_errors=row_errors,
    )


def _gap(*parts: tuple[Float, Float]) -> float:
    """Return a bound on the gain of a concave function within the box, given (gradient, parameters) of each part."""
    return float(sum(np.maximum(g * -x, g * (LOW - x)).sum() for g, x in parts))


def _newton(cells: ProductCells, u: Float, v: Float, prior: float, tol: float) -> tuple[Float, Float, int]:
    """Maximise by projected Newton steps, which fix parameters at bounds and solve a dense system for the levels."""
    u, v = u.copy(), v.copy()
    rows = np.repeat(np.arange(u.size), np.diff(cells.offsets))
    if prior == 0:  # parameters with only clicks, or only misses, have their optimum at a bound
        for x, number in ((u, rows), (v, cells.level)):
            clicks, shows = (np.bincount(number, counts, x.size) for counts in (cells.clicks, cells.shows))
            x[(clicks == shows) & (shows > 0)] = 0.0
            x[clicks == 0] = LOW
    value = _value(*cells, u, v, prior)
    best = (np.inf, u, v)
    for step in range(_MOST_NEWTON_STEPS):
        gu, gv, hu, hv, cross = _derivatives(*cells, u, v, prior)
        if prior == 0:  # parameters that EM or a step left just below the bound are optimal at the bound
            snapped = [np.where((x > -1e-4) & (g > 0), 0.0, x) for x, g in ((u, gu), (v, gv))]
            if (new := _value(*cells, *snapped, prior)) > value:
                u, v, value = *snapped, new
                gu, gv, hu, hv, cross = _derivatives(*cells, u, v, prior)
        gap = _gap((gu, u), (gv, v))
        is_free_u, is_free_v = (((x > LOW) | (g > 0)) & ((x < 0) | (g < 0)) for x, g in ((u, gu), (v, gv)))
        inverse = np.where(is_free_u, 1.0 / np.maximum(hu, 1e-9), 0.0)
        schur, right = _eliminate(cells.offsets, cells.level, cross, inverse, gu, hv, gv)
        # without a prior, attraction and examination are determined only up to a factor: one level keeps its value
        free_levels, dv = np.flatnonzero(is_free_v), np.zeros_like(gv)
        dv[free_levels] = cholesky.solve(schur[np.ix_(free_levels, free_levels)], right[free_levels])
        du = inverse * (gu - np.bincount(rows, cross * dv[cells.level], u.size))
        # once steps change the value only by rounding errors, continue while they halve the gap
        level_off = dot(gu, du) + dot(gv, dv) <= 1e-9 * (1 + abs(value))
        if gap <= tol or (level_off and gap > 0.5 * best[0]):
            return (u, v, step) if gap <= best[0] else (*best[1:], step)
        if level_off:
            best = (gap, u, v)
        size, slack = 1.0, 1e-12 * (1 + abs(value)) if level_off else 0.0
        while True:
            new_u, new_v = np.clip(u + size * du, LOW, 0.0), np.clip(v + size * dv, LOW, 0.0)
            new = _value(*cells, new_u, new_v, prior)
            if new > value - slack or size < 1e-12:
                break
            size /= 2
        if not new > value - slack:
            return u, v, step
        u, v, value = new_u, new_v, new
    return u, v, _MOST_NEWTON_STEPS


def _errors(cells: ProductCells, u: Float, v: Float, prior: float) -> tuple[Float, Float]:
    """Return the covariance of ``v`` and the standard errors of ``u`` from the inverse observed information.

    Parameters at a bound count as known. If there is neither a prior nor a level at a bound, the first level counts as
    known too, because the data do not determine the common scale.
    """
    _, _, hu, hv, cross = _derivatives(*cells, u, v, prior)
    fu, fv = (u > LOW) & (u < 0), (v > LOW) & (v < 0)
    free = np.flatnonzero(fv)
    if prior == 0 and fv.all():
        free = free[1:]
    inverse = np.where(fu, 1.0 / np.maximum(hu, 1e-300), 0.0)
    schur, _ = _eliminate(cells.offsets, cells.level, cross, inverse, np.zeros_like(u), hv, np.zeros_like(v))
    covariance = np.zeros((v.shape[0], v.shape[0]))
    covariance[np.ix_(free, free)] = cholesky.inverse(schur[np.ix_(free, free)])
    return covariance, np.sqrt(_row_variances(cells.offsets, cells.level, cross, inverse, covariance))


@kernel
def _em(offsets, level, shows, clicks, n_levels, a, e, prior, n_rounds):  # type: ignore[no-untyped-def]
    """Run EM in place; all impressions of a cell have the same posterior, so each cell is a single term."""
    n_rows = offsets.shape[0] - 1
    new_e, weight = np.empty(n_levels), np.empty(n_levels)
    for _ in range(n_rounds):
        new_e[:] = prior
        weight[:] = 2.0 * prior
        for r in range(n_rows):
            # a click implies attraction and examination; for a miss, P(attracted | miss) = a (1 - e) / (1 - a e)
            total, count = prior, 2.0 * prior
            ar = a[r]
            for i in range(offsets[r], offsets[r + 1]):
                k = level[i]
                missed = (shows[i] - clicks[i]) / (1.0 - ar * e[k]) if shows[i] > clicks[i] else 0.0
                total += clicks[i] + missed * ar * (1.0 - e[k])
                count += shows[i]
                new_e[k] += clicks[i] + missed * e[k] * (1.0 - ar)
                weight[k] += shows[i]
            if count > 0:
                a[r] = total / count
        for k in range(n_levels):
            if weight[k] > 0:
                e[k] = new_e[k] / weight[k]


@kernel
def _value(offsets, level, shows, clicks, n_levels, u, v, prior):  # type: ignore[no-untyped-def]
    """Return the penalised log-likelihood, minus infinity if a miss has probability 0."""
    total = 0.0
    for r in range(offsets.shape[0] - 1):
        for i in range(offsets[r], offsets[r + 1]):
            x = u[r] + v[level[i]]
            total += clicks[i] * x
            if shows[i] > clicks[i]:
                if x >= 0:
                    return -np.inf
                total += (shows[i] - clicks[i]) * log(-expm1(x))
    if prior > 0:
        for values in (u, v):
            for x in values:
                if x >= 0:
                    return -np.inf
                total += prior * (x + log(-expm1(x)))
    return total


@kernel
def _derivatives(offsets, level, shows, clicks, n_levels, u, v, prior):  # type: ignore[no-untyped-def]
    """Return the gradient and the negative Hessian: the diagonals of rows and levels, and one cross entry per cell."""
    n_rows = offsets.shape[0] - 1
    gu, hu = np.zeros(n_rows), np.zeros(n_rows)
    gv, hv = np.zeros(n_levels), np.zeros(n_levels)
    cross = np.zeros(level.shape[0])
    for r in range(n_rows):
        for i in range(offsets[r], offsets[r + 1]):
            k = level[i]
            # d/dx log(1 - e^x) = -odds, with odds = e^x / (1 - e^x) and d odds / dx = odds (1 + odds)
            slope, curve = clicks[i], 0.0
            if shows[i] > clicks[i]:
                x = min(u[r] + v[k], -1e-12)
                odds = exp(x) / -expm1(x)
                slope -= (shows[i] - clicks[i]) * odds
                curve = (shows[i] - clicks[i]) * odds * (1.0 + odds)
            gu[r] += slope
            gv[k] += slope
            hu[r] += curve
            hv[k] += curve
            cross[i] = curve
    if prior > 0:
        for x, g, h in ((u, gu, hu), (v, gv, hv)):
            for j in range(x.shape[0]):
                odds = exp(x[j]) / -expm1(min(x[j], -1e-12))
                g[j] += prior * (1.0 - odds)
                h[j] += prior * odds * (1.0 + odds)
    return gu, gv, hu, hv, cross


@kernel
def _eliminate(offsets, level, cross, inverse, gu, hv, gv):  # type: ignore[no-untyped-def]
    """Eliminate the rows by a Schur complement; return the matrix and right-hand side of the system for the levels."""
    # The Hessian of the rows is diagonal, so that du = inverse (gu - cross dv). Substituting du in the equations of the
    # levels gives (diag(hv) - cross' inverse cross) dv = gv - cross' inverse gu. A row affects only the pairs of its
    # levels.
    n = hv.shape[0]
    schur, right = np.zeros((n, n)), gv.copy()
    for k in range(n):
        schur[k, k] = hv[k]
    for r in range(offsets.shape[0] - 1):
        f = inverse[r]
        if f == 0:
            continue
        for i in range(offsets[r], offsets[r + 1]):
            w = cross[i] * f
            right[level[i]] -= w * gu[r]
            for j in range(offsets[r], offsets[r + 1]):
                schur[level[i], level[j]] -= w * cross[j]
    return schur, right


@kernel
def _row_variances(offsets, level, cross, inverse, covariance):  # type: ignore[no-untyped-def]
    """Return the variances of ``u``: the diagonal of the inverse information, by block inversion."""
    out = np.zeros(offsets.shape[0] - 1)
    for r in range(offsets.shape[0] - 1):
        total = 0.0
        for i in range(offsets[r], offsets[r + 1]):
            for j in range(offsets[r], offsets[r + 1]):
                total += cross[i] * covariance[level[i], level[j]] * cross[j]
        out[r] = inverse[r] + inverse[r] * inverse[r] * total
    return out
