"""``Columns``: dual points of the partitions, of which any mix is a dual point of the whole problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.portable.sums import combine, dot, norm, products
from structsvm.common.portable.sums import gram as gram_of
from structsvm.protocols import Float, Int, QPSolver
from structsvm.qp.dual import feasible

_IDLE = 10
"""Solves after which a column without mass is dropped."""

_ROUNDING = 8 * np.finfo(float).eps


class Column(NamedTuple):
    """Dual point of the queries of one partition: sums over their planes, by the masses."""

    loss: float
    joint: Float
    rounding: float
    """Length of the largest vector by which rounding may have moved ``joint``."""


class Columns:
    """Dual points of ``n_parts`` partitions, and their best mix: weights ``w``, each part's ``own``, dual ``value``."""

    # A partition's dual points are a convex set with zero in it: any a >= 0 with sum at most one over the columns (b_i,
    # g_i) of each partition is a dual point of the whole, of the value a . b - 1/2 |sum a_i g_i|^2. The best is the
    # small dual of ``structsvm.qp``. Bounds rest on the columns alone, whatever a partition remembers of them.

    def __init__(self, n_parts: int, n_features: int) -> None:
        self.n_parts, self.n_features = n_parts, n_features
        self._joint: Float = np.empty((0, n_features))
        self._loss: Float = np.empty(0)
        self._rounding: Float = np.empty(0)
        self._group: Int = np.empty(0, dtype=np.int64)
        self._alpha: Float = np.empty(0)
        self._idle: Int = np.empty(0, dtype=np.int64)
        self._gram: Float = np.empty((0, 0))
        self.w: Float = np.zeros(n_features)
        self.own: Float = np.zeros((n_parts, n_features))
        self.value = 0.0

    def __len__(self) -> int:
        return int(self._loss.shape[0])

    def add(self, columns: list[tuple[int, Column]]) -> None:
        """Append columns, each with the number of its partition."""
        n = len(self)
        fresh = np.array([column.joint for _, column in columns]).reshape(-1, self.n_features)
        joint = np.concatenate([self._joint, fresh])
        gram = np.empty((joint.shape[0], joint.shape[0]))
        gram[:n, :n] = self._gram
        gram[n:] = gram_of(fresh, joint)
        gram[:n, n:] = gram[n:, :n].T
        self._joint, self._gram = joint, gram
        self._loss = np.append(self._loss, [column.loss for _, column in columns])
        self._rounding = np.append(self._rounding, [column.rounding for _, column in columns])
        self._group = np.append(self._group, [part for part, _ in columns]).astype(np.int64)
        self._alpha = np.append(self._alpha, np.zeros(len(columns)))
        self._idle = np.append(self._idle, np.zeros(len(columns), dtype=np.int64))

    def solve(self, qp: QPSolver, tol: float) -> None:
        """Find the best mix. Columns that carried no mass for long are dropped afterwards."""
        if len(self) == 0:
            return
        cap = np.ones(self.n_parts)
        alpha = qp(self._gram, self._loss, self._group, cap, self._alpha, tol=tol).alpha
        self._alpha = feasible(alpha, self._group, cap)
        self.own = np.zeros((self.n_parts, self.n_features))
        used = np.flatnonzero(self._alpha)
        for i in used:
            self.own[self._group[i]] += self._alpha[i] * self._joint[i]
        self.w = self.own.sum(axis=0)
        size = combine(self._alpha[used], np.abs(self._joint[used]))
        error = dot(self._alpha, self._rounding) + _ROUNDING * norm(size)
        lost = norm(self.w) * error + 0.5 * error**2
        self.value = dot(self._loss, self._alpha) - 0.5 * dot(self.w, self.w) - lost
        self._idle = np.where(self._alpha > 0, 0, self._idle + 1)
        if (self._idle > _IDLE).any():
            self._keep(self._idle <= _IDLE)

    def hinges(self, w: Float) -> Float:
        """Return a lower bound on each partition's share of ``C`` times the hinges at ``w``."""
        least = np.zeros(self.n_parts)
        np.maximum.at(least, self._group, self._loss - products(self._joint, w))
        return least

    def rescale(self, ratio: float) -> None:
        """Multiply the trade-off by ``ratio``; the mix stays a dual point, and is not the best."""
        self._joint *= ratio
        self._loss *= ratio
        self._rounding *= ratio
        self._gram *= ratio**2

    def state(self) -> dict[str, Any]:
        """Return arrays from which :meth:`restore` makes the same object."""
        return {
            "joint": self._joint, "loss": self._loss, "rounding": self._rounding, "group": self._group,
            "alpha": self._alpha, "idle": self._idle,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the columns from a :meth:`state`; call :meth:`solve` next."""
        for name in ("joint", "loss", "rounding", "group", "alpha", "idle"):
            setattr(self, f"_{name}", np.asarray(state[name]))
        self._gram = gram_of(self._joint, self._joint)

    def _keep(self, keep: np.ndarray) -> None:
        for name in ("_joint", "_loss", "_rounding", "_group", "_alpha", "_idle"):
            setattr(self, name, getattr(self, name)[keep])
        self._gram = np.ascontiguousarray(self._gram[np.ix_(keep, keep)])
