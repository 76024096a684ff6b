"""Truncated Newton method for smooth losses: high accuracy in few passes (Lin, Weng & Keerthi 2008; Lee & Lin 2014)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from structsvm.common.portable.sums import dot, norm
from structsvm.protocols import Float, Problem
from structsvm.trainers.certificate import ConvergenceWarning, Fit, Recorder
from structsvm.trainers.contract import DEFAULTS, Options, Start
from structsvm.trainers.passes import RankingProblem, SmoothProblem, Tangent

_MAX_TRIALS = 30
"""Maximum number of points tried along one step, each in a pass. Far fewer suffice unless only rounding is left."""

_PARTS, _ROUGH = 8, 1e-2
"""With many queries, start from the optimum over one in ``_PARTS`` of them, to this tolerance; its error is larger."""

_UPHILL = 0.5
"""Largest uphill slope at the end of a step, as a share of the downhill slope at its beginning."""


supports: set[str] = set()


def newton(problem: Problem, C: float, options: Options = DEFAULTS, start: Start | None = None) -> Fit:
    """Minimise ``1/2 ||w||^2 + C R(w)`` for a smooth ``R``, from the solution for the last C, or from the guess.

    ``tol`` is for the relative gap and for the norm of the gradient relative to that at zero: the gap alone would
    accept zero weights for a small C.
    """
    # Each step solves the Newton equations by conjugate gradients, the more exactly the nearer the optimum is, as each
    # product is a pass. The objective is 1-strongly convex, so that primal - 1/2 ||gradient||^2 is a lower bound that
    # costs nothing.
    smooth, start = cast(SmoothProblem, problem), start or Start()
    record = start.record or Recorder(C, options.tol, problem.n_features, options.callback)
    w0 = start.past[-1].w if start.past else start.guess
    at_zero: Tangent | None = start.kept.get("tangent at zero")
    if at_zero is None:
        if w0 is None:
            w0 = _of_part(smooth, C, options, record)
        at_zero = smooth.tangent(np.zeros(problem.n_features))
        record.n_passes += 1
    # without its curvature, one number per row: only that of the current point is kept in memory
    start.kept["tangent at zero"] = at_zero._replace(curvature=None)
    w = np.zeros(problem.n_features) if w0 is None else np.array(w0, dtype=np.float64)
    if w.any():
        at_zero = start.kept["tangent at zero"]
    return descend(smooth, C, w, at_zero, record, options.max_passes)


def _of_part(problem: SmoothProblem, C: float, options: Options, record: Recorder) -> Float:
    """Return the optimum over every eighth stretch of queries (zero for few queries), where steps cost an eighth."""
    part = problem.part(_PARTS) if isinstance(problem, RankingProblem) else None
    if part is None:
        return np.zeros(problem.n_features)
    zero, own = np.zeros(part.n_features), Recorder(C, max(options.tol, _ROUGH), part.n_features)
    at_zero = part.tangent(zero)
    own.n_passes += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = descend(part, C, zero, at_zero, own, options.max_passes)
    record.n_passes += math.ceil(fit.n_passes / _PARTS)
    return fit.w


def descend(
    problem: SmoothProblem, C: float, w: Float, at_zero: Tangent, record: Recorder, max_passes: int
) -> Fit:
    """Go from ``w`` to the optimum, with the tangent at zero known; the record has no bounds yet."""
    record.at_zero, tol = C * at_zero.loss, record.tol

    def evaluate(w: Float) -> _Point:
        tangent = problem.tangent(w)
        record.n_passes += 1
        value = 0.5 * dot(w, w) + C * max(0.0, tangent.loss - dot(tangent.joint, w))
        return _Point(w, value, w - C * tangent.joint, tangent)

    reference = C * norm(at_zero.joint)
    # at zero weights the known tangent is the first point, if it still has its curvature (first fit of a path)
    known = not w.any() and record.n_passes > 0
    here = _Point(w, C * at_zero.loss, -C * at_zero.joint, at_zero) if known else evaluate(w)
    n_steps = 0
    while True:
        length = norm(here.gradient)
        relative = length / reference if reference > 0 else 0.0
        record.upper(here.value, here.w)
        record.lower(here.value - 0.5 * length * length)
        record.passed(0)
        if (relative <= tol and record.gap <= tol) or record.stopped or record.n_passes >= max_passes:
            break
        # A relative residual that vanishes with the gradient gives superlinear convergence (Dembo, Eisenstat & Steihaug
        # 1982). Near the end it need not be smaller than what reaches ``tol`` with this step.
        enough = 0.5 * min(tol / max(relative, tol), math.sqrt(tol / max(record.gap, tol)))
        precision = min(0.25, max(math.sqrt(relative), enough))

        def product(x: Float, at: Tangent = here.tangent) -> Float:
            return x + C * problem.curve(at, x)

        left = max(1, max_passes - record.n_passes)
        step, n_products = conjugate_gradients(product, -here.gradient, precision, left)
        record.n_passes += n_products
        n_steps += 1
        del product
        here = here._replace(tangent=here.tangent._replace(curvature=None))
        there = _search(evaluate, here, step)
        if there.value >= here.value and norm(there.gradient) >= length:
            break  # rounding: values and gradients no longer decrease
        here = there
    # The fit is the last point, whose gradient is the smallest: near the optimum, values differ only by rounding.
    record.primal, record.w = here.value, here.w
    return record.finish("newton", n_iterations=n_steps, n_cuts=0, gradient_norm=relative)


class _Point(NamedTuple):
    """Weights, with the objective and its gradient there, and the tangent of ``R``."""

    w: Float
    value: float
    gradient: Float
    tangent: Tangent


def _search(evaluate: Callable[[Float], _Point], start: _Point, step: Float) -> _Point:
    """Return the point along the step where the slope has nearly vanished; the full step is tried first."""
    # By convexity the slope increases along the step. A trial is accepted while it is downhill, or uphill
    # by at most _UPHILL of the first slope if the value fell; otherwise the step is shortened.
    slope = dot(start.gradient, step)
    share = 1.0
    for _ in range(_MAX_TRIALS):
        trial = evaluate(start.w + share * step)
        trial_slope = dot(trial.gradient, step)
        if trial_slope <= 0 or (
            trial_slope <= -_UPHILL * slope and trial.value <= start.value + 1e-15 * abs(start.value)
        ):
            break
        # too far: the next trial is the zero of a line through both slopes, kept away from the ends
        share *= min(max(slope / (slope - trial_slope), 0.1), 0.9)
    return trial


def conjugate_gradients(
    product: Callable[[Float], Float],
    residual: Float,
    precision: float,
    max_products: int,
    diagonal: Float | float = 1.0,
) -> tuple[Float, int]:
    """Solve ``product(step) = residual`` to a relative precision; return the step and the number of products.

    ``diagonal`` is the preconditioner, in whose norm the precision is measured.
    """
    # ``residual`` is the residual of the step so far; directions are conjugate in the matrix of ``product``
    step = np.zeros_like(residual)
    scaled = residual / diagonal
    direction = scaled.copy()
    square = dot(residual, scaled)
    enough = precision * precision * square
    n_products = 0
    while n_products < max_products:
        image = product(direction)
        n_products += 1
        curvature = dot(direction, image)
        if not curvature > 0:
            break
        rate = square / curvature
        step += rate * direction
        residual = residual - rate * image
        scaled = residual / diagonal
        previous, square = square, dot(residual, scaled)
        if square <= enough:
            break
        direction = scaled + (square / previous) * direction
    return step, n_products
