"""``CutPool``: the working set of the one-slack form, shared by a fit and by a path over C."""

from __future__ import annotations

import numpy as np

from structsvm.common.portable.sums import combine, dot, products
from structsvm.protocols import Cut, Float, Int, QPSolver
from structsvm.qp.cone import solve_cone
from structsvm.qp.convex import Convex
from structsvm.qp.dual import feasible
from structsvm.trainers.passes import RowCut

_IDLE = 25
"""Solves after which a cut without mass is dropped: cuts dropped sooner come back, dropped later they slow the QP."""


class GrowingPlanes:
    """Planes with their Gram matrix, in arrays that grow by doubling; ``further`` ones have a number per plane."""

    def __init__(self, n_features: int, **further: type) -> None:
        self._joint, self._loss, self._gram = np.zeros((16, n_features)), np.zeros(16), np.zeros((16, 16))
        self._arrays = ("_joint", "_loss", *further)
        for name, kind in further.items():
            setattr(self, name, np.zeros(16, dtype=kind))
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def keep(self, which: Int) -> None:
        """Drop all planes but these, by ascending number."""
        k = which.shape[0]
        for name in self._arrays:
            array = getattr(self, name)
            array[:k] = array[which]
        self._gram[:k, :k] = self._gram[np.ix_(which, which)]
        self._n = k

    @property
    def loss(self) -> Float:
        """Loss of each plane, shape (n,)."""
        return self._loss[: self._n]

    @property
    def joint(self) -> Float:
        """Joint feature difference of each plane, shape (n, n_features)."""
        return self._joint[: self._n]

    @property
    def gram(self) -> Float:
        """Products of all planes, shape (n, n)."""
        return self._gram[: self._n, : self._n]

    def append(self, loss: float, joint: Float) -> int:
        """Append a plane, with zeros in the further arrays, and return its number."""
        n = self._n
        if n == self._loss.shape[0]:
            for name in self._arrays:
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
            gram = np.zeros((2 * n, 2 * n))
            gram[:n, :n] = self._gram
            self._gram = gram
        for name in self._arrays:
            getattr(self, name)[n] = 0
        self._joint[n], self._loss[n] = joint, loss
        self._n = n + 1
        self._gram[n, : n + 1] = self._gram[: n + 1, n] = products(self.joint, joint)
        return n


class CutPool(GrowingPlanes):
    """Cutting planes of the mean hinge with their Gram matrix. A cut does not depend on C."""

    _alpha: Float
    _idle: Int

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, _alpha=float, _idle=int)
        self._rows: list[Float | None] = []

    def add(self, cut: Cut) -> None:
        """Append a cut; one row of the Gram matrix is computed."""
        self.append(cut.loss, cut.joint)
        self._rows.append(cut.rows if isinstance(cut, RowCut) else None)

    @property
    def rows(self) -> Float | None:
        """The solution of the dual as a coefficient per row, ``w = X' rows``; None where cuts came without."""
        used = [(a, rows) for a, rows in zip(self._alpha[: self._n], self._rows, strict=True) if a > 0]
        total: Float | None = None
        for a, rows in used:
            if rows is None:
                return None
            total = a * rows if total is None else total + a * rows
        return total

    def value(self, w: Float) -> float:
        """The cutting-plane model of the mean hinge at ``w``: a lower bound on it, >= 0."""
        return max(0.0, float((self.loss - products(self.joint, w)).max(initial=0.0)))

    def solve(
        self,
        C: float,
        qp: QPSolver,
        tol: float,
        *,
        cone: Float | None = None,
        region: Convex | None = None,
    ) -> tuple[Float, float]:
        """Maximise the dual over the cuts held; return ``w = G' alpha`` (in the cone or region) and a lower bound."""
        # a region's penalty takes the place of 1/2 ||w||^2
        n = self._n
        if region is not None:
            solution = region.solve(self.joint, self.loss, C)
            self._drop(solution.alpha > 1e-9 * C)  # an interior point leaves a little on all of them
            return solution.w, solution.lower
        start = self._alpha[:n] * min(1.0, C / max(self._alpha[:n].sum(), 1e-300))
        if cone is not None:
            result = solve_cone(self.joint, self.loss, C, cone, start, tol=tol, solver=qp)
            self._alpha[:n] = result.alpha
            w, value = result.w, result.value
            self._drop(result.alpha > 0)
            return w, value
        group, cap = np.zeros(n, dtype=np.int64), np.array([C])
        alpha = feasible(qp(self.gram, self.loss, group, cap, start, tol=tol).alpha, group, cap)
        self._alpha[:n] = alpha
        w = combine(alpha, self.joint)
        # the value of the very w returned, not the solver's: the bound must hold for what the caller holds
        value = dot(self.loss, alpha) - 0.5 * dot(w, w)
        self._drop(alpha > 0)
        return w, value

    def _drop(self, with_mass: np.ndarray) -> None:
        n = self._n
        self._idle[:n] = np.where(with_mass, 0, self._idle[:n] + 1)
        used = np.flatnonzero(self._idle[:n] < _IDLE)
        if used.shape[0] < n:
            self.keep(used)
            self._rows = [self._rows[i] for i in used]
