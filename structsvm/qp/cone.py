"""The dual over a working set with weights in a cone: Newton's method for sign constraints, and one additional group
per constraint for other cones."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from structsvm.common.checks import BadInput
from structsvm.common.portable.sums import combine, dot, gram as gram_of, products
from structsvm.protocols import Float, Int, QPSolver
from structsvm.qp.active_set import solve as active_set
from structsvm.qp.dual import feasible

_MAX_STEPS = 50
"""Maximum number of Newton steps with sign constraints; on random problems there are 1 to 8."""


class ConeResult(NamedTuple):
    """Masses ``alpha``, their weights, the dual value, and the absolute gap, with ``value <= optimum <= value +
    gap``."""

    alpha: Float
    w: Float
    value: float
    gap: float


def solve_cone(
    joint: Float,
    loss: Float,
    C: float,
    cone: Float,
    alpha0: Float | None = None,
    *,
    tol: float = 1e-10,
    solver: QPSolver = active_set,
) -> ConeResult:
    """Solve the one-slack problem over planes ``(joint, loss)`` with sign constraints or with ``cone @ w >= 0``.

    The rows of a matrix ``cone`` must be linearly independent. ``value`` is the dual function at a feasible ``alpha``,
    so that it is a lower bound whatever the accuracy of the multipliers.
    """
    # min_{w in K} 1/2 |w|^2 + C max(0, max_k b_k - g_k . w) = max_alpha b . alpha - 1/2 |P_K(G' alpha)|^2, with P_K the
    # projection on the cone.
    joint = np.asarray(joint, dtype=np.float64)
    loss = np.asarray(loss, dtype=np.float64)
    cone = np.asarray(cone, dtype=np.float64)
    n, m = joint.shape
    if n == 0:
        return ConeResult(np.zeros(0), np.zeros(m), 0.0, 0.0)
    one, cap = np.zeros(n, dtype=np.int64), np.array([float(C)])
    if cone.ndim == 1:
        return solve_signs(joint, loss, one, cap, cone, alpha0, tol=tol, solver=solver)
    # The multiplier of r . w >= 0 acts as the mass of a plane with joint feature r and loss 0. With a bound on it as
    # the cap of a separate group, the problem is a small dual that every solver of this package accepts.
    if alpha0 is not None:
        alpha0 = feasible(alpha0, one, cap)
    gram, bound, multipliers = _rows(joint, C, cone, alpha0)
    k = bound.shape[0]
    result = solver(
        gram,
        np.concatenate([loss, np.zeros(k)]),
        np.concatenate([one, np.arange(1, k + 1)]),
        np.concatenate([cap, bound]),
        None if alpha0 is None else np.concatenate([alpha0, multipliers]),
        tol=tol,
    )
    return _certified(joint, loss, one, cap, cone, feasible(result.alpha[:n], one, cap))


def _certified(joint: Float, loss: Float, group: Int, cap: Float, cone: Float, alpha: Float) -> ConeResult:
    """Return a feasible ``alpha`` with its weights, its dual value, and the gap to the primal value of the weights."""
    w = project(combine(alpha, joint), cone)
    norm = 0.5 * dot(w, w)
    value = dot(loss, alpha) - norm
    slack = np.zeros(cap.shape[0])
    np.maximum.at(slack, group, loss - products(joint, w))
    return ConeResult(alpha, w, value, max(norm + dot(cap, slack) - value, 0.0))


def root(slope: Callable[[float], float]) -> float:
    """Return the root in [0, 1] of the decreasing function ``slope``, rounded down, or the nearer endpoint if it has
    none."""
    # With sign constraints the dual value along a segment is concave but not quadratic, so that bisection is needed. An
    # interval halved 40 times is far shorter than any useful step. Its lower end is returned, so that the dual value
    # does not decrease.
    if slope(1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return low


def solve_signs(
    joint: Float,
    loss: Float,
    group: Int,
    cap: Float,
    signs: Float,
    alpha0: Float | None = None,
    *,
    gram_over: Callable[[NDArray[np.bool_]], Float] | None = None,
    tol: float = 1e-10,
    solver: QPSolver = active_set,
) -> ConeResult:
    """Solve the dual over planes ``(joint, loss)`` in several groups with sign constraints.

    ``gram_over(free)`` returns the inner products of the planes over the features ``free``; None means to compute them.
    """
    # Newton's method. The dual function b . alpha - 1/2 |P(G' alpha)|^2 is concave and piecewise quadratic: as long as
    # the features whose total has the wrong sign are the same, P sets these to zero, and the rest is the small dual
    # over the other features, the ``free`` ones. Its solution is the end of a segment along which the dual increases,
    # with an exact search. Where no total changes its sign on the way, the end is the solution.
    gram_over = gram_over or (lambda free: gram_of(joint * free, joint))
    alpha = feasible(alpha0, group, cap)
    total, value = combine(alpha, joint), -np.inf
    for _ in range(_MAX_STEPS):
        free = total * signs >= 0.0
        end = feasible(solver(gram_over(free), loss, group, cap, alpha, tol=tol).alpha, group, cap)
        start, change = total, combine(end, joint) - total
        rise, last = dot(loss, end - alpha), np.array_equal((total + change) * signs >= 0.0, free)
        step = 1.0 if last else root(lambda t: rise - dot(project(start + t * change, signs), change))  # noqa: B023
        moved = end if step == 1.0 else alpha + step * (end - alpha)
        total = combine(moved, joint)
        w = project(total, signs)
        before, value = value, dot(loss, moved) - 0.5 * dot(w, w)
        if not value > before:  # rounding limits the value
            break
        alpha = moved
        if last:
            break
    return _certified(joint, loss, group, cap, signs, alpha)


def _rows(joint: Float, C: float, cone: Float, alpha: Float | None) -> tuple[Float, Float, Float]:
    """Return the Gram matrix extended by the rows of the cone, a bound on each multiplier, and the multipliers for
    ``alpha``."""
    # The multipliers solve cone' mu = w - G' alpha. A projection moves its argument by at most the norm of the
    # argument, which bounds mu if the rows are independent: |mu| <= |w - G' alpha| / (smallest singular value of the
    # cone) <= C max_k |G_k| / smallest
    k = cone.shape[0]
    smallest = float(np.linalg.svd(cone, compute_uv=False)[-1]) if k <= cone.shape[1] else 0.0
    if smallest <= 1e-10 * float(np.abs(cone).max(initial=1e-300)):
        raise BadInput("cone", f"expected linearly independent rows, got shape {cone.shape} of lower rank")
    length = C * float(np.sqrt((joint * joint).sum(axis=1).max()))
    both = np.concatenate([joint, cone])
    multipliers = np.zeros(0) if alpha is None else nnls(cone.T, -combine(alpha, joint))[0]
    return gram_of(both, both), np.full(k, max(length, 1e-300) / smallest), multipliers


def check_cone(cone: Float, n_features: int) -> Float:
    """Return a cone as an array of float64; raise BadInput unless it has a sign, or a column, for each feature."""
    cone = np.asarray(cone, dtype=np.float64)
    if cone.ndim not in (1, 2) or cone.shape[-1] != n_features or not np.isfinite(cone).all():
        raise BadInput(
            "cone",
            f"expected a sign for each of {n_features} features, or rows of {n_features} finite numbers, got shape "
            f"{cone.shape}",
        )
    if cone.ndim == 1 and not np.isin(cone, (-1.0, 0.0, 1.0)).all():
        raise BadInput(
            "cone", f"expected signs -1, 0 and 1, got {cone[~np.isin(cone, (-1.0, 0.0, 1.0))][0]:g}"
        )
    return cone


def project(w: Float, cone: Float | None) -> Float:
    """Return the point of the cone nearest to ``w``; if ``cone`` is None, return ``w`` itself, not a copy."""
    if cone is None:
        return w
    if cone.ndim == 1:
        return np.where(w * cone < 0, 0.0, w)
    # Moreau: w = (projection on the cone) + (projection on its polar, which is spanned by -cone)
    return np.asarray(w + combine(nnls(cone.T, -w)[0], cone))
