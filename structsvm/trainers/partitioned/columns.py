"""``Columns``: dual points of the partitions; any mix of them is a dual point of the whole problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.portable.sums import combine, dot, norm, products
from structsvm.protocols import Float, QPSolver
from structsvm.qp.dual import feasible
from structsvm.trainers.cuts import GrowingPlanes
from structsvm.trainers.plane_cache import ROUNDING

_IDLE = 10
"""Solves after which a column without mass is dropped."""


class Column(NamedTuple):
    """Dual point of the queries of one partition: sums over their planes, by the masses."""

    loss: float
    joint: Float
    rounding: float
    """Length of the largest vector by which rounding may have moved ``joint``."""


class Columns(GrowingPlanes):
    """Dual points of ``n_parts`` partitions, and their best mix: weights ``w``, each part's ``own``, dual ``value``."""

    # The dual points of a partition are a convex set that contains zero. So any a >= 0, whose sum over the columns
    # (b_i, g_i) of each partition is at most one, is a dual point of the whole, of value a . b - 1/2 |sum a_i g_i|^2.
    # The best a solves the small dual of ``structsvm.qp``. Bounds need only the columns, not the state of a partition.

    def __init__(self, n_parts: int, n_features: int) -> None:
        super().__init__(n_features, rounding=float, group=np.int64, alpha=float, idle=np.int64)
        self.n_parts, self.n_features = n_parts, n_features
        self.w: Float = np.zeros(n_features)
        self.own: Float = np.zeros((n_parts, n_features))
        self.value = 0.0

    def add(self, columns: list[tuple[int, Column]]) -> None:
        """Append columns, each with the number of its partition."""
        for part, column in columns:
            self.append(column.loss, column.joint, rounding=column.rounding, group=part)

    def solve(self, qp: QPSolver, tol: float) -> None:
        """Find the best mix; then drop columns that had no mass for ``_IDLE`` solves."""
        if len(self) == 0:
            return
        cap, group = np.ones(self.n_parts), self.of("group")
        alpha = feasible(qp(self.gram, self.loss, group, cap, self.of("alpha"), tol=tol).alpha, group, cap)
        self.own = np.zeros((self.n_parts, self.n_features))
        used = np.flatnonzero(alpha)
        for i in used:
            self.own[group[i]] += alpha[i] * self.joint[i]
        self.w = self.own.sum(axis=0)
        # the value is reduced by a bound on the rounding of w, as in ``block_dual.BlockDual.value``
        size = combine(alpha[used], np.abs(self.joint[used]))
        error = dot(alpha, self.of("rounding")) + ROUNDING * norm(size)
        lost = norm(self.w) * error + 0.5 * error**2
        self.value = dot(self.loss, alpha) - 0.5 * dot(self.w, self.w) - lost
        self.of("alpha")[:] = alpha
        self.rest(alpha > 0, _IDLE + 1)

    def hinges(self, w: Float) -> Float:
        """Return a lower bound on each partition's share of ``C`` times the hinges at ``w``."""
        least = np.zeros(self.n_parts)
        np.maximum.at(least, self.of("group"), self.loss - products(self.joint, w))
        return least

    def rescale(self, ratio: float) -> None:
        """Multiply the trade-off by ``ratio``; the mix stays a dual point, but not the best one."""
        for name in ("joint", "loss", "rounding"):
            self._arrays[name] *= ratio
        self._gram *= ratio**2

    def state(self) -> dict[str, Any]:
        """Return arrays from which :meth:`restore` makes the same object."""
        return {name: self.of(name) for name in self._arrays}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the columns of a new object from a :meth:`state`; call :meth:`solve` next."""
        for column in zip(*(state[name] for name in self._arrays), strict=True):
            self.append(**dict(zip(self._arrays, column, strict=True)))
