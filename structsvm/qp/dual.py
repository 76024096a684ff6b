"""Functions that the solvers of the small dual share: checks of arrays, feasible points, and duality gaps."""

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Int, QPResult
from structsvm.queries import refuse_first

_EPS = float(np.finfo(np.float64).eps)


def check(gram: Float, loss: Float, group: Int, cap: Float) -> tuple[Float, Float, Int, Float]:
    """Return the four arrays with the dtype and layout that a solver needs; raise BadInput for invalid shapes or
    values."""
    gram = np.asarray(gram, dtype=np.float64)
    loss = np.ascontiguousarray(loss, dtype=np.float64)
    group = np.ascontiguousarray(group, dtype=np.int64)
    cap = np.ascontiguousarray(cap, dtype=np.float64)
    n = len(loss)
    if loss.ndim != 1 or gram.shape != (n, n) or group.shape != (n,) or cap.ndim != 1:
        raise BadInput(
            "qp",
            f"expected gram (n, n), loss (n,), group (n,) and cap (n_groups,), got {gram.shape}, {loss.shape}, "
            f"{group.shape} and {cap.shape}",
        )
    refuse_first("group", group, (group < 0) | (group >= len(cap)), f"a group from 0 to {len(cap) - 1}")
    refuse_first("cap", cap, ~(np.isfinite(cap) & (cap >= 0)), "a finite number >= 0")
    # check only the diagonal, as reading the whole matrix would cost more than solving the problem (see `refuse`)
    if not (np.all(np.isfinite(loss)) and np.all(np.isfinite(gram.diagonal()))):
        refuse(gram, loss)
    if n > 1 and (gram.strides[1] != 8 or gram.strides[0] < 8 * n or gram.strides[0] % 8):
        gram = np.ascontiguousarray(gram)
    return gram, loss, group, cap


def refuse(gram: Float, loss: Float) -> None:
    """Raise BadInput if an entry is not finite.

    Solvers call this function if a result is not finite. An off-diagonal entry that no step reads may remain
    undetected.
    """
    for name, array in (("gram", gram), ("loss", loss)):
        bad = np.argwhere(~np.isfinite(array))
        if bad.size:
            index = tuple(bad[0].tolist())
            raise BadInput("qp", f"{name}{list(index)}: expected a finite number, got {array[index]}")


def feasible(alpha: Float | None, group: Int, cap: Float) -> Float:
    """Return a feasible ``alpha``: negative or non-finite entries are set to 0, and groups above their cap are scaled
    down."""
    n = len(group)
    if alpha is None:
        return np.zeros(n)
    alpha = np.array(alpha, dtype=np.float64)
    if alpha.shape != (n,):
        raise BadInput("qp", f"alpha0: expected one entry per plane, shape ({n},), got {alpha.shape}")
    # scaling preserves the proportions within a group, so that a sum above its cap by rounding changes alpha only
    # slightly
    alpha[~((alpha > 0) & np.isfinite(alpha))] = 0.0
    total = np.bincount(group, weights=alpha, minlength=len(cap))
    if np.any(total > cap):
        alpha *= np.divide(cap, total, out=np.ones(len(cap)), where=total > cap)[group]
    return alpha


def certify_gradient(loss: Float, gradient: Float, group: Int, cap: Float, alpha: Float) -> QPResult:
    """Return the value and gap of a feasible ``alpha``, given the gradient ``loss - products(gram, alpha)``."""
    value = 0.5 * (dot(loss, alpha) + dot(gradient, alpha))
    return QPResult(alpha, value, _gap(loss, gradient, group, cap, alpha, value))


def _gap(loss: Float, gradient: Float, group: Int, cap: Float, alpha: Float, value: float) -> float:
    """Return the smaller of two upper bounds on the difference between the optimum and ``value``."""
    best = np.zeros(len(cap))
    np.maximum.at(best, group, gradient)
    gap = dot(cap, best) - dot(gradient, alpha)
    # The gap at w contains the largest violation of each group times its cap. For a huge cap, a violation due to
    # rounding makes the gap large, although alpha is accurate to the last digit. If s w, for a factor s slightly above
    # 1, satisfies all margins, its primal value is only 1/2 ||s w||^2. This gives a second bound on the gap.
    product = loss - gradient
    needed = (loss > 0) & (cap[group] > 0)
    if np.any(needed) and np.all(product[needed] > 0):
        scale = float(np.max(loss[needed] / product[needed])) * (1 + 8 * _EPS)
        if np.all(scale * product >= loss):
            gap = min(gap, 0.5 * scale**2 * dot(alpha, product) - value)
    return max(gap, 0.0)
