"""The cached planes of all queries, and the insertion of new planes into the caches."""

from typing import NamedTuple

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Int

ROUNDING = 8 * np.finfo(float).eps
"""Bound on the relative rounding error of a sum over planes, far above observed errors and far below any ``tol``."""


class Planes(NamedTuple):
    """Cached planes of all queries; the zero planes (loss and coefficients 0) need no storage."""

    pool: Float
    """Coefficients, shape (slots, start[-1]); query ``q`` has the columns ``start[q]:start[q + 1]``."""
    start: Int
    features: Int
    """The feature of each column; empty if every query has all features in order."""
    loss: Float
    """Loss of each plane, shape (n_queries, slots)."""
    used: Int
    """Number of slots in use per query; the first slots are used first."""
    cap: Float
    """Maximum total mass of the planes of each query."""


@kernel(inline="always")
def free_slot(pool, lo, hi, loss, alpha, age, n, violation):  # type: ignore[no-untyped-def]
    """Return a slot for a new plane, given ``n`` slots in use; if all are in use, drop a plane or merge two.

    Of the planes without mass, the one idle for longest is dropped; if all have mass, the two lightest are merged.
    """
    # The merged plane is the mean of the two, weighted by their masses, so that the dual point does not change. It is a
    # valid plane, because a mean of lower bounds on the hinge is a lower bound.
    size = loss.shape[0]
    if n < size:
        return n
    slot = -1
    for k in range(size):
        if alpha[k] == 0.0 and (slot < 0 or age[k] < age[slot]):
            slot = k
    if slot >= 0:
        return slot
    slot = 0
    for k in range(size):
        if alpha[k] < alpha[slot]:
            slot = k
    other = 1 if slot == 0 else 0
    for k in range(size):
        if k != slot and alpha[k] < alpha[other]:
            other = k
    share = alpha[slot] / (alpha[slot] + alpha[other])
    for r in range(lo, hi):
        pool[other, r] += share * (pool[slot, r] - pool[other, r])
    loss[other] += share * (loss[slot] - loss[other])
    violation[other] += share * (violation[slot] - violation[other])
    alpha[other] += alpha[slot]
    alpha[slot] = 0.0
    return slot


@kernel(inline="always")
def insert(w, pool, lo, hi, loss, alpha, age, n, new_loss, new_plane, violation, now):  # type: ignore[no-untyped-def]
    """Cache a plane if it is more violated at ``w`` than all cached planes; return the slot of the most violated plane,
    and the number of planes."""
    # The slot after the last, number ``size``, means the zero plane, for which ``violation`` has an element, too. If
    # the new plane is not more violated, it is usually a copy of a cached plane; an approximate oracle may also have
    # found a less violated plane.
    size = loss.shape[0]
    best, most = size, 0.0
    violation[size] = 0.0
    for k in range(n):
        violation[k] = loss[k] - dot(pool[k, lo:hi], w)
        if violation[k] > most:
            best, most = k, violation[k]
    new_violation = new_loss - dot(new_plane, w)
    if new_violation <= most:
        return best, n
    slot = free_slot(pool, lo, hi, loss, alpha, age, n, violation)
    plane = pool[slot, lo:hi]
    for j in range(hi - lo):  # a loop, because a slice assignment takes a second longer to compile
        plane[j] = new_plane[j]
    loss[slot] = new_loss
    alpha[slot] = 0.0
    age[slot] = now
    violation[slot] = new_violation
    return slot, n if slot < n else slot + 1
