"""Truncated Newton method for smooth losses, which is accurate after few passes (Lin, Weng & Keerthi 2008; Lee & Lin
2014)."""

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
"""Maximum number of points tried along a step, one pass each. Far fewer suffice unless rounding limits progress."""

_PARTS, _ROUGH = 8, 1e-2
"""With many queries, start from the optimum over one in ``_PARTS`` of them, computed to the tolerance ``_ROUGH``, which
is below the error due to the sampling."""

_UPHILL = 0.5
"""Largest uphill slope allowed at the end of a step, relative to the downhill slope at its start."""


supports: set[str] = set()


def newton(problem: Problem, C: float, options: Options = DEFAULTS, start: Start | None = None) -> Fit:
    """Minimise ``1/2 ||w||^2 + C R(w)`` for a smooth ``R``, starting from the solution for the last C or from the
    guess.

    ``tol`` applies both to the relative gap and to the norm of the gradient relative to its norm at zero weights: the
    gap alone would accept zero weights for a small C.
    """
    # Each step solves the Newton equations by conjugate gradients. As each product is a pass, the solution becomes
    # accurate only near the optimum. The objective is 1-strongly convex, so that primal - 1/2 ||gradient||^2 is a lower
    # bound, which needs no further pass.
    smooth, start = cast(SmoothProblem, problem), start or Start()
    record = start.recorder(problem, C, options)
    w0 = start.past[-1].w if start.past else start.guess
    at_zero: Tangent | None = start.kept.get("tangent at zero")
    if at_zero is None:
        if w0 is None:
            w0 = _of_part(smooth, C, options, record)
        at_zero = smooth.tangent(np.zeros(problem.n_features))
        record.n_passes += 1
    # drop the curvature (one number per row), as memory should hold only the curvature at the current point
    start.kept["tangent at zero"] = at_zero._replace(curvature=None)
    w = np.zeros(problem.n_features) if w0 is None else np.array(w0, dtype=np.float64)
    if w.any():
        at_zero = start.kept["tangent at zero"]
    return descend(smooth, C, w, at_zero, record, options.max_passes)


def _of_part(problem: SmoothProblem, C: float, options: Options, record: Recorder) -> Float:
    """Return the optimum over every ``_PARTS``-th range of queries, for which a step costs 1 / ``_PARTS`` of a pass;
    return zero weights for few queries or passes."""
    # three passes suffice for the part, the tangent at zero weights and the tangent at the optimum over the part
    part = problem.part(_PARTS) if isinstance(problem, RankingProblem) and options.max_passes > 2 else None
    if part is None:
        return np.zeros(problem.n_features)
    zero, own = np.zeros(part.n_features), Recorder(C, max(options.tol, _ROUGH), part.n_features)
    at_zero = part.tangent(zero)
    own.n_passes += 1
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        fit = descend(part, C, zero, at_zero, own, options.max_passes)
    record.n_passes += math.ceil(fit.n_passes / _PARTS)
    return fit.w


def descend(
    problem: SmoothProblem, C: float, w: Float, at_zero: Tangent, record: Recorder, max_passes: int
) -> Fit:
    """Minimise the objective from ``w``, given the tangent at zero weights and a record without bounds."""
    record.at_zero, tol = C * at_zero.loss, record.tol

    def evaluate(w: Float) -> _Point:
        tangent = problem.tangent(w)
        record.n_passes += 1
        value = 0.5 * dot(w, w) + C * max(0.0, tangent.loss - dot(tangent.joint, w))
        return _Point(w, value, w - C * tangent.joint, tangent)

    reference = C * norm(at_zero.joint)
    # at zero weights, reuse the known tangent if it still has its curvature (in the first fit of a path)
    known = not w.any() and record.n_passes > 0
    here = _Point(w, C * at_zero.loss, -C * at_zero.joint, at_zero) if known else evaluate(w)
    n_steps = 0
    while True:
        length = norm(here.gradient)
        relative = length / reference if reference > 0 else 0.0
        record.upper(here.value, here.w)
        record.lower(here.value - 0.5 * length * length)
        record.passed(0)
        if (relative <= tol and record.gap <= tol) or record.stopped or record.n_passes + 2 > max_passes:
            break  # a step needs at least two passes, for one product and one point
        # A relative residual that tends to zero with the gradient gives superlinear convergence (Dembo, Eisenstat &
        # Steihaug 1982). In the last step it need not be smaller than ``tol`` requires.
        enough = 0.5 * min(tol / max(relative, tol), math.sqrt(tol / max(record.gap, tol)))
        precision = min(0.25, max(math.sqrt(relative), enough))

        def product(x: Float, at: Tangent = here.tangent) -> Float:
            return x + C * problem.curve(at, x)

        left = max_passes - record.n_passes
        step, n_products = conjugate_gradients(product, -here.gradient, precision, left - 1)
        record.n_passes += n_products
        n_steps += 1
        del product
        here = here._replace(tangent=here.tangent._replace(curvature=None))
        there = _search(evaluate, here, step, min(left - n_products, _MAX_TRIALS))
        # limited by rounding, if neither the value nor the norm of the gradient decreases, or by the number of passes
        if there.value >= here.value and (norm(there.gradient) >= length or record.n_passes >= max_passes):
            break
        here = there
    # Return the last point, whose gradient is smallest, as near the optimum the values differ only by rounding.
    record.primal, record.w = here.value, here.w
    return record.finish("newton", n_iterations=n_steps, n_cuts=0, gradient_norm=relative)


class _Point(NamedTuple):
    """Weights, with the objective, its gradient, and the tangent of ``R`` at these weights."""

    w: Float
    value: float
    gradient: Float
    tangent: Tangent


def _search(evaluate: Callable[[Float], _Point], start: _Point, step: Float, max_trials: int) -> _Point:
    """Return a point along the step at which the slope is nearly zero; the full step is tried first."""
    # By convexity the slope increases along the step. A trial is accepted if its slope is downhill, or if the value has
    # decreased and the uphill slope is at most _UPHILL times the first slope. Otherwise the step is shortened.
    slope = dot(start.gradient, step)
    share = 1.0
    for _ in range(max_trials):
        trial = evaluate(start.w + share * step)
        trial_slope = dot(trial.gradient, step)
        if trial_slope <= 0 or (
            trial_slope <= -_UPHILL * slope and trial.value <= start.value + 1e-15 * abs(start.value)
        ):
            break
        # too far: try the root of the line through both slopes next, but not too near either end
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

    ``diagonal`` is the preconditioner, whose inverse defines the norm in which the precision is measured.
    """
    # ``residual`` belongs to the current ``step``; directions are conjugate with respect to the matrix of ``product``
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
