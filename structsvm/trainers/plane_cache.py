"""The cached planes of all queries with their masses, and the insertion of new planes into the caches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Int, Problem

ROUNDING = 8 * np.finfo(float).eps
"""Bound on the relative rounding error of a sum over the planes: far above what occurs, far below any ``tol``."""

MEMORY = 1 << 28
"""Bytes that cached planes may use for data of any size; half the size of the data where that is more."""

AHEAD = 4
"""Steps that are begun before the present one is finished, as work for as many threads; constant, as results must not
depend on n_jobs."""

CHUNKS_PER_STEP = 4
"""Chunks per step of a thread: handing over a step costs as much as a tenth of a chunk."""


class Planes(NamedTuple):
    """Cached planes of all queries; the zero planes (loss and coefficients 0) need no storage."""

    pool: Float
    """(slots, start[-1]): coefficients, those of query ``q`` in columns ``start[q]:start[q + 1]``."""
    start: Int
    features: Int
    """The feature of each column; empty if every query has all features in order."""
    loss: Float
    """(n_queries, slots)."""
    used: Int
    """Number of slots in use per query, which are the first ones."""
    cap: Float
    """Mass of each query."""


class Masses(NamedTuple):
    """Masses of cached planes, and when each was last used, both (n_queries, slots)."""

    alpha: Float
    age: Int


class DualPoint:
    """For each query cached planes with their mass ``alpha``, and ``w``, their sum.

    A slot takes ``n_numbers`` for all queries together.
    """

    def __init__(self, problem: Problem, C: float, n_slots: int | None, n_numbers: int) -> None:
        if n_slots is None:
            raise BadInput(
                "frank_wolfe",
                f"expected memory for three planes per query ({24e-9 * n_numbers:.1f} GB here)",
                "use {solver='one_slack'}",
            )
        n = problem.n_queries
        self.C = C
        self.cap = C * problem.weights
        self.w: Float = np.zeros(problem.n_features)
        self._size: Float = np.zeros(problem.n_features)  # the same sum over absolute values
        self.count: Int = np.zeros(n, dtype=np.int64)
        # slot by slot, not query by query, so that the system only gives memory to slots that are filled
        self._pool = np.zeros((n_slots, n_numbers))
        self._loss = np.zeros((n, n_slots))
        self._alpha = np.zeros((n, n_slots))
        self._age = np.zeros((n, n_slots), dtype=np.int64)
        self._now = 0
        self.best: tuple[Float, float] | None = None
        """The best weights of the last fit, and an upper bound on their weighted hinges; of exact oracles only."""
        self.solving = False
        """Whether the last fit ended by solving the problem over the cached planes."""

    @property
    def masses(self) -> Masses:
        """The masses of the planes, for the kernels."""
        return Masses(self._alpha, self._age)

    @property
    def value(self) -> float:
        """Dual value, less a bound on its rounding error, as ``w`` may be a small difference of large planes."""
        # |w' - w| <= error by component gives  1/2 ||w'||^2 <= 1/2 ||w||^2 + |w| . error + 1/2 ||error||^2
        error = ROUNDING * self._size
        lost = dot(np.abs(self.w), error) + 0.5 * dot(error, error)
        return float((self._alpha * self._loss).sum() - 0.5 * dot(self.w, self.w)) - lost

    @property
    def loss(self) -> float:
        """The sum of the planes' losses by their masses."""
        return float((self._alpha * self._loss).sum())

    @staticmethod
    def _pace(problem: Problem) -> tuple[int, int]:
        """Return how many queries a step of a descent takes, and how many steps are begun ahead."""
        # Queries of one step share one w, and steps begun ahead have a w without the last updates. At most n / 128
        # queries do, as stale steps cost more in passes than calls cost in time.
        stale = max(1, problem.n_queries // 128)
        ahead = min(max(0, stale // problem.chunk - 1), AHEAD)
        return min(stale // (ahead + 1), CHUNKS_PER_STEP * problem.chunk), ahead

    def _rescale(self, C: float) -> float:
        """Scale masses and caps to another C, and return the ratio; planes do not depend on C."""
        ratio = C / self.C
        self.C = C
        self.cap = self.cap * ratio
        self._alpha *= ratio
        self._size *= ratio
        return ratio


def best_step(slope: float, curvature: float) -> float:
    """Return where in [0, 1] the concave quadratic of this slope at 0, curved by ``-curvature``, is largest."""
    if curvature > 0:
        return min(1.0, max(0.0, slope / curvature))
    return 1.0 if slope > 0 else 0.0


def mix(alpha: Float, cap: Float, slots: Int, theta: float) -> None:
    """Move a share ``theta`` of each query's cap to the plane in its slot; beyond the last slot, to the zero plane."""
    alpha *= 1.0 - theta
    cached = np.flatnonzero(slots < alpha.shape[1])
    alpha[cached, slots[cached]] += theta * cap[cached]


@kernel(inline="always")
def free_slot(pool, lo, hi, loss, alpha, age, n, violation):  # type: ignore[no-untyped-def]
    """Return a slot for a new plane of ``n`` in use; if full, drop the longest idle, else merge the two lightest."""
    # The plane of the two together is their mean by mass, so that the dual point does not change. It is a valid plane:
    # a mean of lower bounds on the hinge is one.
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
    # Slot number ``size``, behind the last, means the zero plane. ``violation`` is filled and has an element for
    # it.
    # An oracle that finds nothing more violated than a cached plane has mostly found that plane again; an approximate
    # one may have found a worse plane.
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
