"""``Columns``: dual points of the partitions, whose combinations are dual points of the whole problem."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.portable.sums import combine, dot, norm, products
from structsvm.protocols import Float, QPSolver
from structsvm.qp.dual import feasible
from structsvm.trainers.cuts import GrowingPlanes
from structsvm.trainers.plane_cache import ROUNDING

_IDLE = 10
"""A column is dropped when it has had no mass for more than this number of consecutive solves."""


class Column(NamedTuple):
    """Dual point of the queries of one partition: the sums of their planes' losses and joint features, weighted by the
    masses."""

    loss: float
    joint: Float
    rounding: float
    """Upper bound on the norm of the rounding error of ``joint``."""


class Columns(GrowingPlanes):
    """Dual points of ``n_parts`` partitions, and their best mix: its weights ``w``, the part ``own[k]`` of partition
    ``k`` in ``w``, and its dual ``value``."""

    # The dual points of a partition form a convex set that contains zero. Any a >= 0 whose sum over the columns
    # (b_i, g_i) of each partition is at most one is therefore a dual point of the whole problem, with the value
    # a . b - 1/2 |sum a_i g_i|^2. The best a is the solution of a small dual problem of ``structsvm.qp``. Bounds depend
    # only on the columns, not on the state of a partition.

    def __init__(self, n_parts: int, n_features: int) -> None:
        super().__init__(n_features, rounding=float, group=np.int64, alpha=float, idle=np.int64)
        self.n_parts, self.n_features = n_parts, n_features
        self.w: Float = np.zeros(n_features)
        self.own: Float = np.zeros((n_parts, n_features))
        self.value = 0.0

    def add(self, columns: list[tuple[int, Column]]) -> None:
        """Append columns, each given with the index of its partition."""
        for part, column in columns:
            self.append(column.loss, column.joint, rounding=column.rounding, group=part)

    def solve(self, qp: QPSolver, tol: float) -> None:
        """Compute the best mix, then drop columns that have been without mass for more than ``_IDLE`` solves."""
        if len(self) == 0:
            return
        cap, group = np.ones(self.n_parts), self.of("group")
        alpha = feasible(qp(self.gram, self.loss, group, cap, self.of("alpha"), tol=tol).alpha, group, cap)
        self.own = np.zeros((self.n_parts, self.n_features))
        used = np.flatnonzero(alpha)
        for i in used:
            self.own[group[i]] += alpha[i] * self.joint[i]
        self.w = self.own.sum(axis=0)
        # reduce the value by a bound on its rounding error, as in ``block_dual.BlockDual.value``
        size = combine(alpha[used], np.abs(self.joint[used]))
        error = dot(alpha, self.of("rounding")) + ROUNDING * norm(size)
        lost = norm(self.w) * error + 0.5 * error**2
        self.value = dot(self.loss, alpha) - 0.5 * dot(self.w, self.w) - lost
        self.of("alpha")[:] = alpha
        self.drop_idle(alpha > 0, _IDLE + 1)

    def hinges(self, w: Float) -> Float:
        """Return a lower bound on the contribution of each partition to ``C`` times the mean hinge at ``w``."""
        least = np.zeros(self.n_parts)
        np.maximum.at(least, self.of("group"), self.loss - products(self.joint, w))
        return least

    def rescale(self, ratio: float) -> None:
        """Scale the columns for a trade-off multiplied by ``ratio``; the mix remains a dual point, but is no longer the
        best."""
        for name in ("joint", "loss", "rounding"):
            self._arrays[name] *= ratio
        self._gram *= ratio**2

    def state(self) -> dict[str, Any]:
        """Return the arrays from which :meth:`restore` restores the columns."""
        return {name: self.of(name) for name in self._arrays}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the columns of a new object from a :meth:`state`; call :meth:`solve` next."""
        for column in zip(*(state[name] for name in self._arrays), strict=True):
            self.append(**dict(zip(self._arrays, column, strict=True)))
