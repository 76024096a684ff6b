"""Protocols: every interface that a class of your own can plug into, on one page.

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
``Partitions``            ``trainers.partitioned``                     none: compare with one machine
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
    "Bandit", "Callback", "ClickModel", "ClickTables", "CompiledRows", "Cut", "Duel", "Float", "Int", "Interleaver",
    "Oracle", "Partitions", "Problem", "Progress", "QPResult", "QPSolver", "RowCut", "RowProblem", "Separator",
    "SmoothProblem", "StructuredModel", "World",
]  # fmt: skip

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@runtime_checkable
class Oracle(Protocol):
    """A ranking loss with its joint feature, which defines *what* is optimised; it holds settings only, never data.

    The joint-feature difference of a ranking oracle is a combination of the rows of a query,
    ``Psi(x, y_true) - Psi(x, y) = X_q' a``, so that it depends on ``w`` only by the scores ``s = X_q w``.
    """

    def bind(self, y: Float, offsets: Int) -> Separator:
        """Precompute what depends on the labels alone.

        ``y`` has one label per row; the rows ``offsets[q]:offsets[q + 1]`` belong to query ``q``.
        """


class Separator(Protocol):
    """An oracle bound to the labels of a data set, which finds the most violated outputs."""

    exact: bool
    """Whether ``separate`` maximises exactly. If not, a primal value computed from it is an estimate."""

    informative: NDArray[np.bool_]
    """One flag per query: False if its labels give no constraint (loss 0 for every output)."""

    query_weights: Float | None
    """One factor per query, >= 0, that multiplies the user's weight of the query in the mean; None: all equal."""

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """Fill ``loss`` (one per query) and ``coef`` (one per row) for the queries ``first:last``.

        ``scores`` and ``coef`` hold the rows ``offsets[first]:offsets[last]`` only. The output found maximises
        ``loss - scores . coef`` for each query, and that maximum is >= 0. It is called from several threads at once on
        disjoint queries: release the GIL, and keep no state that could change a result.
        """


class SmoothSeparator(Separator, Protocol):
    """A separator of a differentiable loss, for Newton's method; its tangents also have a curvature."""

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Any:
        """Do the same as :meth:`separate`, and return what :meth:`curve` needs to know about these scores."""

    def curve(self, curvature: Any, direction: Float, first: int, last: int, coef: Float) -> None:
        """Fill ``coef`` with minus the second derivative times ``direction``, which is given as one number per row.

        ``curvature`` is what :meth:`tangent` returned for the same queries; it is not changed.
        """


class StructuredModel(Protocol):
    """A structured problem of the user's own, for ``structsvm.oracles.adapter``; ``x`` and ``y`` are any objects."""

    def joint_feature(self, x: Any, y: Any) -> Float:
        """Return ``Psi(x, y)``, a vector of fixed length."""

    def loss(self, y_true: Any, y: Any) -> float:
        """Return ``Delta(y_true, y) >= 0``, zero if the outputs agree."""

    def loss_augmented_argmax(self, w: Float, x: Any, y_true: Any) -> Any:
        """Return the ``y`` that maximises ``loss(y_true, y) + w . joint_feature(x, y)``."""

    def argmax(self, w: Float, x: Any) -> Any:
        """Return the prediction: the ``y`` that maximises ``w . joint_feature(x, y)``."""


@runtime_checkable
class CompiledRows(Protocol):
    """Rows in a format of their own, with compiled kernels for the three things training does with rows.

    Dense arrays and CSR matrices need none of this; ``structsvm.features.binning.BinnedRows`` is an example.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def row_arrays(self) -> tuple[Any, ...]:
        """Arrays that each kernel takes first."""

    @property
    def row_kernels(self) -> tuple[Any, Any, Any]:
        """Kernels, compiled to release the GIL.

        They are ``scores(*arrays, start, stop, w, out)``,
        ``combine(*arrays, offsets, first, last, weights, coef, joint)`` and
        ``query_joint(*arrays, offsets, first, last, coef, joint)``.
        """


class Cut(NamedTuple):
    """A cut of the mean hinge: ``R(v) >= loss - joint @ v`` for every ``v``, tight at the ``w`` where it was made.

    Examples
    --------
    See :class:`structsvm.trainers.RankingProblem`, whose ``cut`` returns one.
    """

    loss: float
    joint: Float


class RowCut(Cut):
    """A cut that is also known as a coefficient per row: ``joint = X' rows``.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.oracles import AveragePrecision
    >>> from structsvm.trainers import RankingProblem
    >>> X, y, offsets = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 0.0]), np.array([0, 2])
    >>> problem = RankingProblem(X, offsets, AveragePrecision().bind(y, offsets), keep_rows=True)
    >>> cut = problem.cut(np.zeros(2))
    >>> cut.rows, cut.joint  # joint is X' rows
    (array([ 2., -2.]), array([ 2., -4.]))
    """

    rows: Float


class Problem(Protocol):
    """A sum of hinges that a trainer can evaluate and linearise, whole or query by query.

    The objective is ``1/2 ||w||^2 + C * R(w)`` with ``R(w) = sum_q weights[q] * H_q(w)`` and
    ``H_q(w) = max_y loss_q(y) - joint_q(y) . w >= 0``.
    """

    n_queries: int
    n_features: int
    weights: Float
    """Weights of the queries in the mean of the objective, >= 0, summing to one over all queries."""
    exact: bool
    """Whether the most violated outputs are found exactly; if not, primal values are estimates."""
    n_bytes: int
    """Size of the data, 0 if unknown; the memory of trainers' caches may grow in proportion to it."""
    chunk: int
    """Number of queries to process at once so that their rows stay in cache."""
    n_jobs: int
    """Number of threads a trainer may use; it never changes a result."""
    support: tuple[Int, Int] | None
    """``(indptr, features)``: query ``q`` touches only ``features[indptr[q]:indptr[q + 1]]``; None: all features."""

    def cut(self, w: Float) -> Cut:
        """Make one pass over the data at ``w``, and return the weighted mean over queries of loss and joint feature."""

    def query_cuts(self, w: Float, first: int, last: int, loss: Float, joint: Float) -> None:
        """Fill ``loss`` (k,) and ``joint`` (k, m) with the unweighted cuts of the queries ``first:last`` at ``w``."""


class Partitions(Protocol):
    """Partitions of the queries, each a :class:`structsvm.trainers.partitioned.Partition` wherever it lies."""

    n_parts: int

    def each(self, method: str, payloads: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call ``method`` of each partition with its payload; return the answers in the order of the partitions.

        A call may be made more than once, and on a partition that was just made anew from its rows: what a partition
        remembers makes answers better, never true. Calls of one partition must not overlap.
        """


@runtime_checkable
class RowProblem(Problem, Protocol):
    """A problem whose cuts are sums over rows, ``joint_q = sum_r coef[r] X[r]``: planes may be kept as coefficients."""

    n_rows: int
    offsets: Int
    """Rows ``offsets[q]:offsets[q + 1]`` are query ``q``."""

    def row_cuts(self, w: Float, first: int, last: int, loss: Float, scores: Float, coef: Float) -> None:
        """Write the cuts of the queries ``first:last`` at ``w`` as coefficients.

        It fills ``loss`` (one per query), and ``scores`` and ``coef`` (one per row of these queries).
        """

    def query_joints(self, first: int, last: int, coef: Float, joint: Float) -> None:
        """Fill ``joint`` (k, m) with the sum of the rows of each query, weighted by ``coef``."""

    def combine(self, first: int, last: int, coef: Float, joint: Float) -> None:
        """Add to ``joint`` (m,) the sum of the rows of the queries ``first:last``, weighted by ``coef``."""


class Tangent(NamedTuple):
    """The tangent of a smooth ``R`` at a point: ``R = loss - joint . w`` there, and the gradient is ``-joint``."""

    loss: float
    joint: Float
    curvature: Any
    """What :meth:`SmoothProblem.curve` needs to know about the point; opaque to everything else."""
    rows: Float | None = None
    """``joint = X' rows``, where the problem keeps coefficients of its rows."""


class SmoothProblem(Protocol):
    """A convex, once differentiable ``R`` with a generalised second derivative, for Newton's method."""

    n_features: int

    def tangent(self, w: Float) -> Tangent:
        """Make one pass over the data at ``w``, and return the tangent there."""

    def curve(self, tangent: Tangent, direction: Float) -> Float:
        """Return the second derivative of ``R``, at the point of ``tangent``, times ``direction``, by one pass."""


class QPResult(NamedTuple):
    """Solution of the small dual: ``alpha``, its value, and the duality gap that certifies it.

    Examples
    --------
    See :func:`structsvm.qp.active_set.solve`.
    """

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
    """State of training after a pass over the data (newton: after a step), for a callback.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> def show(progress):
    ...     print(f"pass {progress.n_passes}: the optimum is in [{progress.dual:.4f}, {progress.primal:.4f}]")
    >>> _ = SVMMap(C=1, callback=show).fit([[1.0], [0.0]], [1, 0], qid=0)
    pass 1: the optimum is in [0.0312, 0.5000]
    pass 2: the optimum is in [0.0312, 0.0312]
    """

    n_passes: int
    """Number of passes over the data so far, from 1."""
    primal: float
    """Lowest objective so far: an upper bound on the optimum; infinite as long as there is none."""
    dual: float
    """Highest lower bound on the optimum so far, from 0."""
    gap: float
    """``(primal - dual) / primal``, at least 0, which is compared with ``tol``; infinite as long as ``primal`` is."""
    seconds: float
    """Wall-clock time since training began."""


Callback = Callable[[Progress], object]
"""Called with a :class:`Progress` after each pass; a truthy return value asks the trainer to stop early."""


class Duel(NamedTuple):
    """A comparison a bandit asks for, with all that ``update`` needs to know besides the outcome.

    Attributes
    ----------
    arms : tuple of int
        The arms to compare: a pair (twice the same arm when the bandit exploits), or a set for multi-dueling.
    note : object
        Data of the bandit's own, which JSON can hold, handed back unread; None for most bandits.

    Notes
    -----
    The outcome of a pair is 1 (or True) when ``arms[0]`` won, 0 when ``arms[1]`` won, 0.5 for a tie, which
    counts as half a win for both. For a set it is one such number for every pair of :meth:`pairs`, in that
    order. A comparison of an arm with itself is uninformative: worlds answer 0.5.

    Examples
    --------
    >>> Duel((4, 0, 2)).pairs()
    [(4, 0), (4, 2), (0, 2)]
    """

    arms: tuple[int, ...]
    note: Any = None

    def pairs(self) -> list[tuple[int, int]]:
        """Return all pairs of the arms, in the order in which outcomes are given."""
        return [(a, b) for k, a in enumerate(self.arms) for b in self.arms[k + 1 :]]


@runtime_checkable
class Bandit(Protocol):
    """A dueling bandit; the world (matrix, interleaved clicks) stays outside.

    ``select`` changes nothing: several duels may be under way at once, and outcomes may arrive in any order, late or
    never. ``to_json``/``from_json`` carry the whole state, so that a restarted bandit continues identically.
    """

    n_arms: int

    def select(self, rng: np.random.Generator) -> Duel:
        """Return the next comparison to make; ``rng`` is the only source of random numbers."""

    def update(self, duel: Duel, outcome: Any) -> None:
        """Learn from the outcome of a duel that :meth:`select` returned; raise ValueError for anything else.

        For a pair it is 1 (the first arm won), 0, or 0.5 for a tie; for a set one such number per pair of
        ``duel.pairs()``.
        """

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the current answer, an arm; ``rng`` breaks ties, without it the lowest arm is taken."""

    def to_json(self) -> str:
        """Return the whole state as JSON text."""

    @classmethod
    def from_json(cls, text: str) -> Any:
        """Return a bandit in the state that ``to_json`` wrote; raise ValueError for any other text."""


class Interleaver(Protocol):
    """A way to merge rankings and to credit rankers for clicks; it holds settings only, so any machine can credit."""

    name: str

    def show(self, rankings: Sequence[Sequence[Hashable]], length: int = 10, rng: Any = None) -> Shown:
        """Merge ``rankings`` (best document first) into a list of at most ``length`` documents."""

    def distribution(
        self, rankings: Sequence[Sequence[Hashable]], length: int = 10
    ) -> list[tuple[Shown, float]]:
        """Return every record that ``show`` can return, with its exact probability; for short lists."""

    def credit(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return the credit of each ranker for ``clicks``, one 0 or 1 for each shown document."""

    def outcome(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return an antisymmetric matrix: ``[i, j]`` is 1 if ranker i beats j, -1 if it loses, 0 if they tie."""


class ClickTables(NamedTuple):
    """A click model as compiled code sees it; every array has shape (n_grades, length).

    The user looks at the positions in order. At position ``k``, with a document of grade ``g``, she clicks with
    probability ``click[g, k]`` and then leaves with probability ``stop_after_click[g, k]``, or, without a click, leaves
    with probability ``stop_after_skip[g, k]``.

    Examples
    --------
    >>> from structsvm.online.users import CascadeModel
    >>> tables = CascadeModel.named("navigational", 2).tables(length=2)
    >>> tables.click.tolist(), tables.stop_after_click.tolist()
    ([[0.05, 0.05], [0.95, 0.95]], [[0.2, 0.2], [0.9, 0.9]])
    """

    click: NDArray[np.float64]
    stop_after_click: NDArray[np.float64]
    stop_after_skip: NDArray[np.float64]


class ClickModel(Protocol):
    """A simulated user who clicks on a list of graded documents; it holds probabilities only, no state."""

    def click(self, grades: ArrayLike, rng: Any = None) -> NDArray[np.bool_]:
        """Draw clicks once: True for each clicked position of a list with these grades."""

    def probability(self, grades: ArrayLike) -> NDArray[np.float64]:
        """Return the exact probability of a click at each position."""

    def likelihood(self, grades: ArrayLike, clicks: ArrayLike) -> float:
        """Return the exact probability of this vector of clicks."""

    def tables(self, length: int) -> ClickTables:
        """Return the model as tables for lists of ``length`` documents."""


@runtime_checkable
class World(Protocol):
    """A world that ``simulate`` can play bandits in."""

    n_arms: int
    gaps: Float
    """Regret of showing each arm, shape (n_arms,); 0 for the best."""
    winners: NDArray[np.int64]
    """The arms that count as best, usually one."""

    def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Return the outcome of a duel: for a pair 1 if the first arm won, 0 if the second, 0.5 for a tie.

        For a set it is one such number per pair ``(0, 1), (0, 2), ..., (1, 2), ...`` of positions in ``arms``. An arm
        alone, or against itself, is uninformative.
        """
