"""The one-slack dual with weights in a cone, solved as a small dual with one additional group per constraint."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from structsvm.common.checks import BadInput
from structsvm.common.portable.sums import combine, dot, products
from structsvm.common.portable.sums import gram as gram_of
from structsvm.protocols import Float, QPSolver
from structsvm.qp.active_set import solve as active_set
from structsvm.qp.dual import feasible


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
    # projection on the cone. The multiplier of r . w >= 0 acts as the mass of a plane with joint feature r and loss 0.
    # The optimal multiplier of a sign constraint is at most C max_k |G_kj|; with this bound as the cap of a separate
    # group, the problem is a small dual that every solver of this package accepts.
    joint = np.asarray(joint, dtype=np.float64)
    loss = np.asarray(loss, dtype=np.float64)
    cone = np.asarray(cone, dtype=np.float64)
    n, m = joint.shape
    if n == 0:
        return ConeResult(np.zeros(0), np.zeros(m), 0.0, 0.0)
    # extend the problem by one plane per multiplier, each in a separate group
    one, cap = np.zeros(n, dtype=np.int64), np.array([float(C)])
    if alpha0 is not None:
        alpha0 = feasible(alpha0, one, cap)
    gram, bound, multipliers = (_rows if cone.ndim == 2 else _signs)(joint, C, cone, alpha0)
    k = bound.shape[0]
    result = solver(
        gram,
        np.concatenate([loss, np.zeros(k)]),
        np.concatenate([one, np.arange(1, k + 1)]),
        np.concatenate([cap, bound]),
        None if alpha0 is None else np.concatenate([alpha0, multipliers]),
        tol=tol,
    )
    alpha = feasible(result.alpha[:n], one, cap)
    # compute the dual value from the feasible alpha, not from the solver's multipliers
    w = project(combine(alpha, joint), cone)
    norm = 0.5 * dot(w, w)
    value = dot(loss, alpha) - norm
    primal = norm + C * max(0.0, float(np.max(loss - products(joint, w))))
    return ConeResult(alpha, w, value, max(primal - value, 0.0))


def _signs(joint: Float, C: float, signs: Float, alpha: Float | None) -> tuple[Float, Float, Float]:
    """Return the Gram matrix extended by sign constraints, a bound on each multiplier, and the multipliers for
    ``alpha``."""
    # The plane of a multiplier is the unit vector of its weight times the sign. Its products with other planes are
    # their signed coefficients, and its product with itself is 1. The optimal multiplier moves a weight of the wrong
    # sign to 0.
    n = joint.shape[0]
    bound = C * np.max(np.abs(joint), axis=0)
    used = np.flatnonzero((bound > 0) & (signs != 0))  # other weights are free, or zero in any case
    k = len(used)
    signed = joint[:, used] * signs[used]
    gram = np.zeros((n + k, n + k))
    gram[:n, :n] = gram_of(joint, joint)
    gram[:n, n:] = signed
    gram[n:, :n] = signed.T
    gram[np.arange(n, n + k), np.arange(n, n + k)] = 1.0
    return gram, bound[used], np.zeros(0) if alpha is None else np.maximum(-combine(alpha, signed), 0.0)


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
