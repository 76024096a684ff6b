"""``CutPool``: the working set of the one-slack formulation, which a path over C keeps from one fit to the next."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from structsvm.common.portable.sums import combine, dot, gram as gram_of, products
from structsvm.protocols import Cut, Float, Int, QPSolver
from structsvm.qp.cone import solve_cone, solve_signs
from structsvm.qp.convex import Convex
from structsvm.qp.dual import feasible

_IDLE = 25
"""A cut is dropped after this number of consecutive solves in which it has no mass. With fewer solves, dropped cuts
come back; with more, unused cuts slow down the QP."""

_FEW = 0.2
"""Largest fraction of features whose products are added to or subtracted from a Gram matrix, instead of computing it
again."""

_MAX_UPDATES = 20
"""Maximum number of such changes, each of which adds a rounding error."""

_CANCELLED = 1e-2
"""Fraction of a squared norm below which a change has cancelled too many digits."""


class GrowingPlanes:
    """Planes with their Gram matrix, in arrays that double in size when full; ``further`` gives names and dtypes of
    additional arrays with one number per plane."""

    def __init__(self, n_features: int, **further: type) -> None:
        self._arrays: dict[str, Any] = {"joint": np.zeros((16, n_features)), "loss": np.zeros(16)}
        self._arrays |= {name: np.zeros(16, dtype=kind) for name, kind in further.items()}
        self._gram = np.zeros((16, 16))
        self._n = 0
        self._free = np.ones(n_features, dtype=bool)
        self._n_updates = 0

    def __len__(self) -> int:
        return self._n

    def keep(self, which: Int) -> None:
        """Drop all planes except those with the indices ``which``, in ascending order."""
        k = which.shape[0]
        for array in self._arrays.values():
            array[:k] = array[which]
        self._gram[:k, :k] = self._gram[np.ix_(which, which)]
        self._n = k

    def of(self, name: str) -> Any:
        """Return a view of the used part of the array ``name``; writing to the view changes the planes."""
        return self._arrays[name][: self._n]

    @property
    def loss(self) -> Float:
        """Loss of each plane, shape (n,)."""
        return cast(Float, self.of("loss"))

    @property
    def joint(self) -> Float:
        """Joint feature difference of each plane, shape (n, n_features)."""
        return cast(Float, self.of("joint"))

    @property
    def gram(self) -> Float:
        """Inner products of the joint features of all planes, shape (n, n), over the features of the last
        :meth:`gram_over`, or over all features."""
        return self._gram[: self._n, : self._n]

    def gram_over(self, free: NDArray[np.bool_]) -> Float:
        """Return the inner products over the features ``free``; later planes are restricted to them, too."""
        # From one solve to the next, few features enter or leave, so that it is cheaper to add and subtract their
        # products. Each change adds a rounding error, which is relatively large if most of a product cancels.
        changed = np.flatnonzero(free != self._free)
        self._free = free
        if changed.shape[0] == 0:
            return self.gram
        self._n_updates += 1
        gram, before = self.gram, self.gram.diagonal().copy()
        few = changed.shape[0] <= _FEW * free.shape[0] and self._n_updates < _MAX_UPDATES
        if few:
            part = self.joint[:, changed]
            gram += gram_of(part * np.where(free[changed], 1.0, -1.0), part)
        if not few or np.any(gram.diagonal() < _CANCELLED * before):
            gram[:] = gram_of(self.joint * free, self.joint)
            self._n_updates = 0
        return gram

    def append(self, loss: float, joint: Float, **further: float) -> int:
        """Append a plane and return its index; its entries in further arrays are zero unless given."""
        n = self._n
        if n == self._gram.shape[0]:
            self._arrays = {name: np.concatenate([a, np.zeros_like(a)]) for name, a in self._arrays.items()}
            self._gram = np.pad(self._gram, (0, n))
        for name, array in self._arrays.items():
            array[n] = further.get(name, 0)
        self._arrays["joint"][n], self._arrays["loss"][n] = joint, loss
        self._n = n + 1
        self._gram[n, : n + 1] = self._gram[: n + 1, n] = products(self.joint, joint * self._free)
        return n

    def drop_idle(self, with_mass: np.ndarray, most: int) -> Int:
        """Count the solves since each plane last had mass, and drop planes idle for at least ``most`` solves.

        Return the indices of those kept.
        """
        idle = self.of("idle")
        # a plane with mass is part of the current dual point and is never dropped
        idle[:] = np.where(with_mass, 0, idle + 1)
        used = np.flatnonzero(idle < most)
        if used.shape[0] < self._n:
            self.keep(used)
        return used


class CutPool(GrowingPlanes):
    """Cutting planes of the mean hinge with their Gram matrix; they do not depend on C."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, alpha=float, idle=int)

    def add(self, cut: Cut) -> None:
        """Append a cut and compute its row of the Gram matrix."""
        self.append(cut.loss, cut.joint)

    def value(self, w: Float) -> float:
        """Return the cutting-plane model of the mean hinge at ``w``, which is a nonnegative lower bound."""
        return max(0.0, float((self.loss - products(self.joint, w)).max(initial=0.0)))

    def solve(
        self, C: float, qp: QPSolver, tol: float, *, cone: Float | None = None, region: Convex | None = None
    ) -> tuple[Float, float]:
        """Maximise the dual over the current cuts; return ``w = G' alpha`` (in the cone or region) and a lower bound on
        the optimum."""
        # A dual point has one mass per cut, alpha >= 0, with a sum of at most C. For the penalty 1/2 ||w||^2 its value
        # is loss . alpha - 1/2 ||G' alpha||^2. A region has its own penalty and another dual (qp/convex.py).
        n = self._n
        if region is not None:
            solution = region.solve(self.joint, self.loss, C)
            # an interior-point method leaves a small mass on every cut
            self.drop_idle(solution.alpha > 1e-9 * C, _IDLE)
            return solution.w, solution.lower
        masses = self.of("alpha")
        # start from the masses of the previous solve, scaled down if their sum now exceeds C
        start = masses * min(1.0, C / max(masses.sum(), 1e-300))
        group, cap = np.zeros(n, dtype=np.int64), np.array([C])
        planes: tuple[Float, Float] = (self.joint, self.loss)
        if cone is None:
            alpha = feasible(qp(self.gram, self.loss, group, cap, start, tol=tol).alpha, group, cap)
            w = combine(alpha, self.joint)
            # recompute the dual value from w instead of using the solver's, so that the bound holds for the returned w
            value = dot(self.loss, alpha) - 0.5 * dot(w, w)
        elif cone.ndim == 1:
            alpha, w, value, _ = solve_signs(
                *planes, group, cap, cone, start, gram_over=self.gram_over, tol=tol, solver=qp
            )
        else:
            alpha, w, value, _ = solve_cone(*planes, C, cone, start, tol=tol, solver=qp)
        masses[:] = alpha
        self.drop_idle(alpha > 0, _IDLE)
        return w, value
