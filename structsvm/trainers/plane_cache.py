"""The cache of planes of one query: how a new one gets its place."""

from __future__ import annotations

from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot


@kernel(inline="always")
def free_slot(pool, lo, hi, loss, alpha, age, n, violation):  # type: ignore[no-untyped-def]
    """Return a slot for a new plane of ``n`` in use; if full, drop the longest idle, else merge the two lightest."""
    # a merged plane is their weighted mean, so that the dual point does not change
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
    """Cache a plane unless a cached one is violated as much at ``w``; return the most violated and the count."""
    # For planes of row coefficients ``w`` are the scores of the rows. The most violated is the size of the cache if it
    # is the zero plane. Fills ``violation``, which has one more element than the cache.
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
    for j in range(hi - lo):  # assigning a slice compiles messages about shapes, which takes a second
        plane[j] = new_plane[j]
    loss[slot] = new_loss
    alpha[slot] = 0.0
    age[slot] = now
    violation[slot] = new_violation
    return slot, n if slot < n else slot + 1
