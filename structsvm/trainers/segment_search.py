"""The best point between two, found with a sample of the queries and the cached planes of all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from structsvm.common.portable.sums import dot, products
from structsvm.protocols import Float, Problem
from structsvm.trainers.newton_on_planes import Planes, Segment
from structsvm.trainers.passes import sample

FEWEST = 1024
"""Fewest queries for which a sample is cheap, as it is then at most a quarter of them."""

_LARGEST_FACTOR = 3.0
"""Largest trusted rescaling of ``w``. About 2 is expected, as the average of a descent from zero is about half as long
as its end."""

_MAX_TRIALS = 6

_FLAT = 0.1
"""Largest share of the first slope at which the search stops."""


def between(problem: Problem, C: float, planes: Planes, w: Float, centre: Float) -> Float:
    """Return a point on the segment from ``w`` to ``centre`` at which the slope of the objective has about vanished."""
    # The slope of the model over the cached planes is known for all queries; its difference to the true slope is
    # estimated from a sample. At ``w``, where planes were added last, the difference is zero. With few queries a sample
    # is not cheap.
    step = centre - w
    if problem.n_queries < FEWEST or not step.any():
        return centre
    model = Segment(planes, w, step, n_jobs=problem.n_jobs)

    def slope(t: float) -> float:
        point = w + t * step
        model_slopes = model.slopes(t)
        total = dot(point, step) + dot(planes.cap, model_slopes)
        share, missing = 0.0, 0.0
        for first, last, _, joint in sample(problem, point):
            weights = problem.weights[first:last]
            share += float(weights.sum())
            missing -= dot(weights, products(joint, step) + model_slopes[first:last])
        return total + (C * missing / share if share > 0 else 0.0)

    return w + flat(dot(w, step) + dot(planes.cap, model.slopes(0.0)), slope) * step


def best_length(slope: Callable[[float], float]) -> float:
    """Return the factor at which a slope that grows with it has about vanished, from three trials; 1 if untrusted."""
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


def flat(start: float, slope: Callable[[float], float]) -> float:
    """Return where in ``[0, 1]`` a slope that grows from ``start`` has about vanished, by at most seven trials."""
    # 1 if the slope is not above zero at 1, or not below zero at the start
    t, end = 1.0, slope(1.0)
    if end <= 0 or start >= 0:
        return t
    # regula falsi with the Illinois rule: the value at an end that stays twice is halved
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
