"""The one-slack dual with non-negative weights, as an ordinary small dual with one more group per feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from structsvm.checks import BadInput
from structsvm.protocols import Float, QPSolver
from structsvm.qp.active_set import solve as active_set
from structsvm.qp.dual import feasible

__all__ = ["PositiveResult", "certify_positive", "project", "solve_positive"]


class PositiveResult(NamedTuple):
    """Solution ``alpha``, its weights, the dual value, and the absolute gap: ``value <= optimum <= value + gap``."""

    alpha: Float
    w: Float
    value: float
    gap: float


def solve_positive(
    joint: Float,
    loss: Float,
    C: float,
    alpha0: Float | None = None,
    *,
    tol: float = 1e-10,
    solver: QPSolver = active_set,
    cone: Float | None = None,
) -> PositiveResult:
    r"""Solve the one-slack problem over a working set of planes under ``w >= 0``, or ``cone @ w >= 0``.

    .. math:: \min_{w \ge 0}\; \tfrac12 \|w\|^2 + C \max(0, \max_k b_k - g_k \cdot w)
              \;=\; \max_\alpha\; b \cdot \alpha - \tfrac12 \|\max(0, G' \alpha)\|^2

    A multiplier of ``w_j >= 0`` acts as a plane with joint feature ``e_j`` and loss 0. The optimal
    multipliers are ``max(0, -G' alpha)``, at most ``C max_k |G_kj|``: with that bound as the cap of a group of its own,
    any QP solver of this package solves the problem.

    Parameters
    ----------
    joint : array of shape (n, n_features)
        The planes ``G``. The Gram matrix has ``n + n_features`` rows: for up to a few thousand features.
    loss : array of shape (n,)
        Their losses ``b``.
    C : float
        Bound on the sum of ``alpha``.
    alpha0 : array of shape (n,), optional
        Starting point, as in :func:`structsvm.qp.active_set.solve`.
    tol : float
        Relative duality gap to reach.
    solver : QPSolver
        Solver of the extended problem.
    cone : array of shape (n_constraints, n_features), optional
        Linearly independent constraints through zero; by default the identity.

    Returns
    -------
    PositiveResult
        ``w = max(0, joint' alpha)``, and ``value`` is the dual function at the feasible ``alpha`` itself,
        so that it is a lower bound however inaccurate the multipliers; ``gap`` is the primal at ``w`` minus it.

    Raises
    ------
    ValueError
        If the rows of ``cone`` are not linearly independent.

    Examples
    --------
    >>> import numpy as np
    >>> result = solve_positive(np.array([[1.0, -1.0]]), np.array([1.0]), 10.0)
    >>> result.w.round(9).tolist(), round(result.value, 9)
    ([1.0, 0.0], 0.5)
    """
    joint = np.asarray(joint, dtype=np.float64)
    loss = np.asarray(loss, dtype=np.float64)
    n, m = joint.shape
    if n == 0:
        return PositiveResult(np.zeros(0), np.zeros(m), 0.0, 0.0)
    if cone is not None:
        return _solve_cone(joint, loss, float(C), alpha0, tol, solver, np.asarray(cone, dtype=np.float64))
    one, cap = np.zeros(n, dtype=np.int64), np.array([float(C)])
    bound = C * np.max(np.abs(joint), axis=0)
    used = np.flatnonzero(bound > 0)  # otherwise w_j = 0 anyway
    k = len(used)
    gram = np.zeros((n + k, n + k))
    gram[:n, :n] = joint @ joint.T
    gram[:n, n:] = joint[:, used]
    gram[n:, :n] = joint[:, used].T
    gram[np.arange(n, n + k), np.arange(n, n + k)] = 1.0
    start = None
    if alpha0 is not None:
        alpha0 = feasible(alpha0, one, cap)
        start = np.concatenate([alpha0, np.maximum(-(joint.T @ alpha0)[used], 0.0)])
    result = solver(
        gram,
        np.concatenate([loss, np.zeros(k)]),
        np.concatenate([one, np.arange(1, k + 1)]),
        np.concatenate([cap, bound[used]]),
        start,
        tol=tol,
    )
    alpha = feasible(result.alpha[:n], one, cap)
    return certify_positive(joint, loss, C, alpha, project(joint.T @ alpha))


def _solve_cone(
    joint: Float, loss: Float, C: float, alpha0: Float | None, tol: float, solver: QPSolver, cone: Float
) -> PositiveResult:
    """Solve the problem with a plane for each row of the cone.

    The multipliers solve ``cone' mu = w - G' alpha``, and a projection moves its argument by at most its length. This
    bounds ``mu`` if the rows are independent.
    """
    n, k = joint.shape[0], cone.shape[0]
    one, cap = np.zeros(n, dtype=np.int64), np.array([C])
    smallest = float(np.linalg.svd(cone, compute_uv=False)[-1]) if k <= cone.shape[1] else 0.0
    if smallest <= 1e-10 * float(np.abs(cone).max(initial=1e-300)):
        raise BadInput("cone", f"expected linearly independent rows, got shape {cone.shape} of lower rank")
    length = C * float(np.sqrt((joint * joint).sum(axis=1).max()))
    both = np.concatenate([joint, cone])
    start = None
    if alpha0 is not None:
        alpha0 = feasible(alpha0, one, cap)
        start = np.concatenate([alpha0, nnls(cone.T, -(joint.T @ alpha0))[0]])
    result = solver(
        both @ both.T,
        np.concatenate([loss, np.zeros(k)]),
        np.concatenate([one, np.arange(1, k + 1)]),
        np.concatenate([cap, np.full(k, max(length, 1e-300) / smallest)]),
        start,
        tol=tol,
    )
    alpha = feasible(result.alpha[:n], one, cap)
    return certify_positive(joint, loss, C, alpha, project(joint.T @ alpha, cone))


def project(w: Float, cone: Float | None = None) -> Float:
    """Return the nearest point to ``w`` with ``cone @ w >= 0``; without a cone, with ``w >= 0``."""
    if cone is None:
        return np.maximum(w, 0.0)
    # Moreau: w = (projection on the cone) + (projection on its polar, spanned by -cone)
    return np.asarray(w + cone.T @ nnls(cone.T, -w)[0])


def certify_positive(joint: Float, loss: Float, C: float, alpha: Float, w: Float) -> PositiveResult:
    """Return the exact dual value of a feasible ``alpha`` with projected weights ``w``, and its gap."""
    norm = 0.5 * float(w @ w)
    value = float(loss @ alpha) - norm
    primal = norm + C * max(0.0, float(np.max(loss - joint @ w)))
    return PositiveResult(alpha, w, value, max(primal - value, 0.0))
