"""The map of the house: every seam a user or a module plugs into, on one page.

Data flows one way: ``readers -> features -> QueryData -> (oracle, trainer, qp) -> Fit -> estimator -> metrics``.
The classes here are protocols: nothing inherits from them. ``structsvm.testing`` has one check for each, which
can be run on your own classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@runtime_checkable
class Oracle(Protocol):
    """A ranking loss with its joint feature: *what* is optimised. Holds settings only, never data.

    The joint-feature difference of a ranking oracle is a combination of the rows of a query,
    ``Psi(x, y_true) - Psi(x, y) = X_q' a``, so everything it needs of ``w`` are the scores ``s = X_q w``.
    """

    def bind(self, y: Float, offsets: Int) -> Separator:
        """Precompute what depends on the labels alone. ``y`` has one label per row, rows
        ``offsets[q]:offsets[q + 1]`` belong to query ``q``."""
        ...


class Separator(Protocol):
    """An oracle bound to the labels of a data set: answers "which output is violated most?"."""

    exact: bool
    """Whether ``separate`` maximises exactly. If not, a primal value computed from it is an estimate."""

    informative: NDArray[np.bool_]
    """One flag per query: False where the labels carry no constraint (loss 0 for every output)."""

    query_weights: Float | None
    """One factor per query, >= 0, by which it counts in the mean besides the weights of the user; None: all alike."""

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """Fill ``loss`` (one per query) and ``coef`` (one per row) for the queries ``first:last``.

        ``scores`` and ``coef`` hold the rows ``offsets[first]:offsets[last]`` only. The output found maximises
        ``loss - scores . coef`` for each query, and that maximum is >= 0. Called from several threads at once
        on disjoint queries: release the GIL, and keep no state that could change a result.
        """
        ...


class SmoothSeparator(Separator, Protocol):
    """A separator of a differentiable loss, for Newton's method: its tangents also have a curvature."""

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Any:
        """Do as :meth:`separate` does, and return what :meth:`curve` needs to know of these scores."""
        ...

    def curve(self, curvature: Any, direction: Float, first: int, last: int, coef: Float) -> None:
        """Fill ``coef`` with minus the second derivative times ``direction``, which is given as one number per row.

        ``curvature`` is what :meth:`tangent` returned for the same queries; it is not changed.
        """
        ...


class StructuredModel(Protocol):
    """A structured problem of the user's own, for ``structsvm.oracles.adapter``: ``x`` and ``y`` are any objects."""

    def joint_feature(self, x: Any, y: Any) -> Float:
        """``Psi(x, y)``, a vector of fixed length."""
        ...

    def loss(self, y_true: Any, y: Any) -> float:
        """``Delta(y_true, y) >= 0``, zero when the outputs agree."""
        ...

    def loss_augmented_argmax(self, w: Float, x: Any, y_true: Any) -> Any:
        """The ``y`` that maximises ``loss(y_true, y) + w . joint_feature(x, y)``."""
        ...

    def argmax(self, w: Float, x: Any) -> Any:
        """The prediction: the ``y`` that maximises ``w . joint_feature(x, y)``."""
        ...


@runtime_checkable
class CompiledRows(Protocol):
    """Rows in a format of their own, with compiled kernels for the three things training does with them.

    A dense array and a CSR matrix need none of this; see ``structsvm.features.binning.BinnedRows`` for one that does.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def row_arrays(self) -> tuple[Any, ...]:
        """The arrays each kernel takes first."""
        ...

    @property
    def row_kernels(self) -> tuple[Any, Any, Any]:
        """Compiled, without the GIL: ``scores(*arrays, start, stop, w, out)``,
        ``combine(*arrays, offsets, first, last, weights, coef, joint)`` and
        ``query_joint(*arrays, offsets, first, last, coef, joint)``."""
        ...


class Cut(NamedTuple):
    """A cut of the mean hinge: ``R(v) >= loss - joint . v`` for every ``v``, tight at the ``w`` it came from."""

    loss: float
    joint: Float


class Problem(Protocol):
    """What a trainer sees: a sum of hinges that can be evaluated and linearised, whole or query by query.

    The objective is ``1/2 ||w||^2 + C * R(w)`` with ``R(w) = sum_q weights[q] * H_q(w)`` and
    ``H_q(w) = max_y loss_q(y) - joint_q(y) . w >= 0``.
    """

    n_queries: int
    n_features: int
    weights: Float
    """One per query, >= 0, summing to one over all queries: the mean in the objective."""
    exact: bool
    """Whether the most violated outputs are found exactly; if not, primal values are estimates."""
    n_bytes: int
    """Size of the data, 0 if unknown: what a trainer caches may grow with it, so that memory stays in proportion."""
    chunk: int
    """How many queries to work on at once so that their rows stay in cache."""
    n_jobs: int
    """Threads a trainer may use; they never change a result."""
    support: tuple[Int, Int] | None
    """``(indptr, features)``: query ``q`` touches only ``features[indptr[q]:indptr[q + 1]]``; None: all features."""

    def cut(self, w: Float) -> Cut:
        """One pass over the data at ``w``: the weighted mean over queries of (loss, joint feature difference)."""
        ...

    def query_cuts(self, w: Float, first: int, last: int, loss: Float, joint: Float) -> None:
        """The cuts of the queries ``first:last`` at ``w``, unweighted: fills ``loss`` (k,) and ``joint`` (k, m)."""
        ...


class Tangent(NamedTuple):
    """The tangent of a smooth ``R`` at a point: ``R = loss - joint . w`` there, and the gradient is ``-joint``."""

    loss: float
    joint: Float
    curvature: Any
    """What :meth:`SmoothProblem.curve` needs to know of the point; of no meaning to others."""


class SmoothProblem(Protocol):
    """What Newton's method sees: a convex, once differentiable ``R`` with a generalised second derivative."""

    n_features: int

    def tangent(self, w: Float) -> Tangent:
        """One pass over the data at ``w``."""
        ...

    def curve(self, tangent: Tangent, direction: Float) -> Float:
        """Second derivative of ``R``, at the point of ``tangent``, times ``direction``: one pass."""
        ...


class QPResult(NamedTuple):
    """Solution of the small dual: ``alpha``, its value, and the duality gap that certifies it."""

    alpha: Float
    value: float
    gap: float


class QPSolver(Protocol):
    """Solver of the small dual over a working set of cutting planes.

    ``max_alpha loss . alpha - 1/2 alpha' gram alpha``, ``alpha >= 0``, ``sum(alpha[group == j]) <= cap[j]``.
    """

    def __call__(
        self,
        gram: Float,
        loss: Float,
        group: Int,
        cap: Float,
        alpha0: Float | None = None,
        *,
        tol: float = 1e-10,
    ) -> QPResult: ...


class Progress(NamedTuple):
    """What a trainer tells its callback after every pass over the data (newton: after every step)."""

    n_passes: int
    """Passes over the data so far, from 1."""
    primal: float
    """Lowest objective met so far: an upper bound on the optimum; infinite while there is none."""
    dual: float
    """Highest lower bound on the optimum so far, from 0."""
    gap: float
    """``(primal - dual) / primal``, at least 0: what ``tol`` is compared with; infinite while ``primal`` is."""
    seconds: float
    """Wall-clock time since training began."""


Callback = Callable[[Progress], object]
"""Called with a :class:`Progress` after each pass; a truthy return value asks the trainer to stop early."""
