"""Search for the best point of a segment, with a sample of the queries and the cached planes of all queries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Problem
from structsvm.trainers.newton_on_planes import Segment
from structsvm.trainers.passes import sampled_slope
from structsvm.trainers.plane_cache import Planes

FEWEST = 1024
"""Minimum number of queries for which a sample is cheap, as it is then at most a quarter of them."""

_LARGEST_FACTOR = 3.0
"""Largest trusted rescaling of ``w``. About 2 is usual, as the average of a descent from zero has about half the length
of its last iterate."""

_MAX_TRIALS = 6

_FLAT = 0.1
"""Largest share of the first slope at which the search stops."""


def between(problem: Problem, C: float, planes: Planes, w: Float, centre: Float) -> Float:
    """Return a point on the segment from ``w`` to ``centre`` at which the slope of the objective has nearly
    vanished."""
    # The model over the cached planes has a known slope. Its difference from the true slope is estimated from a sample
    # of the queries, which varies less than an estimate of the slope itself. At ``w``, where planes were added last,
    # the difference is zero. For few queries a sample is not cheap, and a certificate at ``centre`` adds planes as
    # well.
    if problem.n_queries < FEWEST:
        return centre
    model = Segment(planes, w, centre - w, n_jobs=problem.n_jobs)

    def along(step: Float, t: float) -> tuple[float, float, float]:
        slopes = model.slopes(t)
        sampled = sampled_slope(problem, w + t * step, step, slopes=slopes) if t > 0 else (0.0, 0.0)
        return dot(planes.cap, slopes), *sampled

    return search_segment(C, w, centre, along)


def search_segment(
    C: float, w: Float, centre: Float, along: Callable[[Float, float], tuple[float, float, float]]
) -> Float:
    """Search the segment; ``along(step, t)`` is the model's slope, and the weight and excess of a sample."""
    step = centre - w
    if not step.any():
        return centre

    def slope(t: float) -> float:
        model, share, above = along(step, t)
        return float(dot(w + t * step, step) + model - (C * above / share if share > 0 else 0.0))

    return w + flat(slope(0.0), slope) * step


def best_factor(C: float, w: Float, n_queries: int, sampled: Callable[[float], tuple[float, float]]) -> float:
    """Return the factor of ``w`` that minimises the objective on a sample of the queries; 1 if that is unreliable.

    ``sampled(factor)`` is the weight of the sample, and ``w`` times the sum of its joint features at ``factor w``.
    """
    # It is unreliable for few queries, for a sample without weight, and if it has another order of magnitude,
    # as samples of sorted or periodic data do.
    if n_queries < FEWEST or not w.any():
        return 1.0
    square = dot(w, w)

    def slope(factor: float) -> float:
        share, gain = sampled(factor)
        return factor * square - C * gain / share if share > 0 else 0.0

    # The slope grows with the factor; two secant steps from a first trial bring it near zero.
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


def sampled_factor(problem: Problem, C: float, w: Float) -> float:
    """Return the factor of ``w`` that minimises the objective on a sample of the queries of a problem."""
    return best_factor(C, w, problem.n_queries, lambda factor: sampled_slope(problem, factor * w, w))


def flat(start: float, slope: Callable[[float], float]) -> float:
    """Return the point in ``[0, 1]`` where a slope that increases from ``start`` has nearly vanished, in at most seven
    trials."""
    # 1 if the slope is not above zero at 1, or not below zero at the start
    t, end = 1.0, slope(1.0)
    if end <= 0 or start >= 0:
        return t
    # Regula falsi with the Illinois rule: an end that stays twice in a row has its value halved, so that the trials
    # approach the root from both sides. Each trial costs slopes on a sample, not a pass.
    low, high, t_low, t_high, stayed = start, end, 0.0, 1.0, 0
    for _ in range(_MAX_TRIALS):
        t = t_low + (t_high - t_low) * low / (low - high)
        now = slope(t)
        if abs(now) <= _FLAT * abs(start):
            break
        if now > 0:
            t_high, high = t, now
            low *= 0.5 if stayed > 0 else 1.0
            stayed = 1
        else:
            t_low, low = t, now
            high *= 0.5 if stayed < 0 else 1.0
            stayed = -1
    return t
