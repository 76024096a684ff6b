"""The map of the package: every seam that a class of your own can plug into, on one page.

Data flow one way: ``readers -> features -> QueryData -> (oracle, trainer, qp) -> Fit -> estimator -> metrics``, and for
clicks ``interleaver -> shown list -> user -> credit -> outcome of a duel -> bandit``. The classes here are protocols,
from which nothing inherits, and the records they exchange. Run the checks of ``structsvm.testing`` on your own classes.

========================= ============================================ ==========================
seam                      who uses it                                  check
========================= ============================================ ==========================
``Oracle``, ``Separator`` ``StructuralRanker(loss=...)``               ``check_oracle``
``StructuredModel``       ``oracles.StructuredProblem``                ``check_structured_model``
``CompiledRows``          ``X`` of the rankers                         none: compare with dense X
``Problem``               ``trainers.train``, ``trainers.fit_path``    ``check_problem``
``SmoothProblem``         ``trainers.newton``                          none
``QPSolver``              ``one_slack``, ``n_slack``                   ``check_qp_solver``
``Callback``              every trainer, told a ``Progress``           none: any function
``Bandit``, ``Duel``      ``online.simulate``                          ``check_bandit``
``Interleaver``           ``InterleavedRankers``, ``simulate_log``     ``check_interleaver``
``ClickModel``            ``InterleavedRankers``, ``simulate_log``     ``check_click_model``
``World``                 ``online.simulate``                          ``check_world``
========================= ============================================ ==========================

An estimator follows scikit-learn's conventions and is checked by ``check_ranker``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from structsvm.online.interleaving.record import Shown

__all__ = [
    "Bandit",
    "Callback",
    "ClickModel",
    "ClickTables",
    "CompiledRows",
    "Cut",
    "Duel",
    "Float",
    "Int",
    "Interleaver",
    "Oracle",
    "Problem",
    "Progress",
    "QPResult",
    "QPSolver",
    "RowCut",
    "RowProblem",
    "Separator",
    "SmoothProblem",
    "StructuredModel",
    "World",
]

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
    """A cut of the mean hinge: ``R(v) >= loss - joint @ v`` for every ``v``, tight at the ``w`` it came from."""

    loss: float
    joint: Float


class RowCut(Cut):
    """A cut that is also known as a coefficient per row: ``joint = X' rows``."""

    rows: Float


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


@runtime_checkable
class RowProblem(Problem, Protocol):
    """A problem whose cuts are sums over rows, ``joint_q = sum_r coef[r] X[r]``: planes may be kept as coefficients."""

    n_rows: int
    offsets: Int
    """Rows ``offsets[q]:offsets[q + 1]`` are query ``q``."""

    def row_cuts(self, w: Float, first: int, last: int, loss: Float, scores: Float, coef: Float) -> None:
        """The cuts of the queries ``first:last`` at ``w`` as coefficients: fills ``loss`` (one per query), and
        ``scores`` and ``coef`` (one per row of these queries)."""
        ...

    def query_joints(self, first: int, last: int, coef: Float, joint: Float) -> None:
        """Fill ``joint`` (k, m) with the sum of the rows of each query, weighted by ``coef``."""
        ...

    def combine(self, first: int, last: int, coef: Float, joint: Float) -> None:
        """Add to ``joint`` (m,) the sum of the rows of the queries ``first:last``, weighted by ``coef``."""
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


class Duel(NamedTuple):
    """A comparison a bandit asks for; it carries all that ``update`` needs to know besides the outcome.

    Attributes
    ----------
    arms : tuple of int
        Who is compared: a pair (twice the same arm when the bandit exploits), or a set for multi-dueling.
    note : object
        The bandit's own remark, JSON-able, handed back unread; None for most.

    Notes
    -----
    The outcome of a pair is 1 (or True) when ``arms[0]`` won, 0 when ``arms[1]`` won, 0.5 for a tie, which
    counts as half a win for both. For a set it is one such number for every pair of :meth:`pairs`, in that
    order. A comparison of an arm with itself tells nothing: worlds answer 0.5.

    Examples
    --------
    >>> Duel((4, 0, 2)).pairs()
    [(4, 0), (4, 2), (0, 2)]
    """

    arms: tuple[int, ...]
    note: Any = None

    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of the arms, in the order in which outcomes are given."""
        return [(a, b) for k, a in enumerate(self.arms) for b in self.arms[k + 1 :]]


@runtime_checkable
class Bandit(Protocol):
    """A dueling bandit. The world (matrix, interleaved clicks) stays outside.

    ``select`` changes nothing: several duels may be under way at once, outcomes may come late or never, and
    in any order. ``to_json``/``from_json`` carry the whole state: a restarted bandit continues identically.
    """

    n_arms: int

    def select(self, rng: np.random.Generator) -> Duel:
        """The next comparison to make.

        Parameters
        ----------
        rng : numpy.random.Generator
            The bandit holds none of its own.

        Returns
        -------
        Duel
        """
        ...

    def update(self, duel: Duel, outcome: Any) -> None:
        """Learn from the outcome of a duel.

        Parameters
        ----------
        duel : Duel
            As :meth:`select` returned it.
        outcome : float, bool or array of them
            Of a pair 1 (the first arm won), 0, or 0.5 for a tie; of a set one such number for each of ``duel.pairs()``.

        Raises
        ------
        ValueError
            For anything else; nothing is learned then.
        """
        ...

    def best(self, rng: np.random.Generator | None = None) -> int:
        """The current answer.

        Parameters
        ----------
        rng : numpy.random.Generator, optional
            Breaks ties; without it the lowest index wins them.

        Returns
        -------
        int
            An arm, from 0.
        """
        ...

    def to_json(self) -> str:
        """The whole state, as JSON text."""
        ...

    @classmethod
    def from_json(cls, text: str) -> Any:
        """A bandit in the state that ``to_json`` wrote; ValueError for any other text."""
        ...


class Interleaver(Protocol):
    """A way to merge rankings and to credit rankers for clicks. Settings only: any machine can credit."""

    name: str

    def show(self, rankings: Sequence[Sequence[Hashable]], length: int = 10, rng: Any = None) -> Shown:
        """Merge ``rankings`` (best document first) into a list of at most ``length`` documents."""
        ...

    def distribution(
        self, rankings: Sequence[Sequence[Hashable]], length: int = 10
    ) -> list[tuple[Shown, float]]:
        """Every record that ``show`` can return, with its exact probability; for short lists."""
        ...

    def credit(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """The credit of each ranker for ``clicks``, one 0 or 1 for each shown document."""
        ...

    def outcome(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Antisymmetric matrix: entry ``[i, j]`` is 1 if ranker i beats j, -1 if it loses, 0 if they tie."""
        ...


class ClickTables(NamedTuple):
    """A click model as the compiled code sees it; every array has shape (n_grades, length).

    The user looks at the places in order. At place ``k`` with a document of grade ``g`` she clicks with
    probability ``click[g, k]`` and then leaves with probability ``stop_after_click[g, k]``, or, without a
    click, leaves with probability ``stop_after_skip[g, k]``.
    """

    click: NDArray[np.float64]
    stop_after_click: NDArray[np.float64]
    stop_after_skip: NDArray[np.float64]


class ClickModel(Protocol):
    """A simulated user: clicks on a list of graded documents. Holds probabilities only, no state."""

    def click(self, grades: ArrayLike, rng: Any = None) -> NDArray[np.bool_]:
        """One draw: True for each clicked place of a list with these grades."""
        ...

    def probability(self, grades: ArrayLike) -> NDArray[np.float64]:
        """The exact probability of a click on each place."""
        ...

    def likelihood(self, grades: ArrayLike, clicks: ArrayLike) -> float:
        """The exact probability of this very vector of clicks."""
        ...

    def tables(self, length: int) -> ClickTables:
        """The model as tables for lists of ``length`` documents."""
        ...


@runtime_checkable
class World(Protocol):
    """What ``simulate`` needs of a world."""

    n_arms: int
    gaps: Float
    """Regret of showing each arm, shape (n_arms,): 0 for the best."""
    winners: NDArray[np.int64]
    """The arms that count as best, usually one."""

    def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> Any:
        """The outcome of a duel.

        Parameters
        ----------
        arms : tuple of int
            From 0, of a pair or a set; an arm alone, or against itself, tells nothing.
        rng : numpy.random.Generator

        Returns
        -------
        float or ndarray of float64, shape (n_pairs,)
            For two arms 1 if the first won, 0 if the second, 0.5 for a tie; for more one such number for every pair
            ``(0, 1), (0, 2), ..., (1, 2), ...`` of places in ``arms``; for one arm anything.
        """
        ...
