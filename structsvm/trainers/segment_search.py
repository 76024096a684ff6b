"""Search for the best point of a segment, using the cached planes of all queries and a sample of the queries."""

from collections.abc import Callable

import numpy as np

from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Problem
from structsvm.trainers.newton_on_planes import Segment
from structsvm.trainers.passes import sampled_slope
from structsvm.trainers.plane_cache import Planes

FEWEST = 1024
"""Minimum number of queries for sampling: a sample then has at most a quarter of the queries, and is cheap."""

LARGEST_FACTOR = 3.0
"""Largest accepted scaling factor of ``w``, or its inverse. A factor of 2 is usual, as the average of a descent from
zero has about half the norm of its last iterate."""

_MAX_TRIALS = 6

_FLAT = 0.1
"""The search stops when the slope is at most this fraction of the slope at the start."""


def between(problem: Problem, C: float, planes: Planes, w: Float, centre: Float) -> Float:
    """Return a point on the segment from ``w`` to ``centre`` at which the slope of the objective is nearly zero."""
    # The slope of the model over the cached planes is known. Its difference from the true slope is estimated from a
    # sample of the queries, because the difference has a smaller variance than the slope itself. At ``w``, where planes
    # were added last, the difference is zero. With few queries a sample is not cheap, and a certificate at ``centre``
    # adds planes as well.
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
    """Search the segment from ``w`` to ``centre`` for a point where the slope of the objective is nearly zero.

    ``along(step, t)`` returns the slope of the model, the weight of a sample, and the excess of the model's slope on
    that sample.
    """
    step = centre - w
    if not step.any():
        return centre

    def slope(t: float) -> float:
        model, share, above = along(step, t)
        return float(dot(w + t * step, step) + model - (C * above / share if share > 0 else 0.0))

    return w + flat(slope(0.0), slope) * step


def best_factor(C: float, w: Float, n_queries: int, sampled: Callable[[float], tuple[float, float]]) -> float:
    """Return the factor of ``w`` that minimises the objective on a sample of the queries, or 1 if it is unreliable.

    ``sampled(factor)`` returns the weight of the sample, and the inner product of ``w`` with the sum of its joint
    features at ``factor w``.
    """
    # The factor is unreliable for few queries, for a sample without weight, and if it is far from 1, which happens for
    # samples of sorted or periodic data.
    if n_queries < FEWEST or not w.any():
        return 1.0
    square = dot(w, w)

    def slope(factor: float) -> float:
        share, gain = sampled(factor)
        return factor * square - C * gain / share if share > 0 else 0.0

    # The slope increases with the factor; two secant steps from an initial trial bring it near zero.
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
    return factor if 1 / LARGEST_FACTOR <= factor <= LARGEST_FACTOR else 1.0


def sampled_factor(problem: Problem, C: float, w: Float) -> float:
    """Return the factor of ``w`` that minimises the objective on a sample of the queries of a problem."""
    return best_factor(C, w, problem.n_queries, lambda factor: sampled_slope(problem, factor * w, w))


def flat(start: float, slope: Callable[[float], float]) -> float:
    """Return a point in ``[0, 1]`` where an increasing slope, which is ``start`` at 0, is nearly zero; use at most
    ``1 + _MAX_TRIALS`` trials."""
    # the point is 1 if the slope is not positive at 1 or not negative at 0
    t, end = 1.0, slope(1.0)
    if end <= 0 or start >= 0:
        return t
    # Regula falsi with the Illinois rule: the value at an end that is kept twice in a row is halved, so that the trials
    # approach the root from both sides. Each trial evaluates slopes on a sample and needs no pass.
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
