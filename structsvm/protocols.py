"""Protocols: all interfaces for custom classes, and the records that they exchange.

Classes do not inherit from a protocol. ``structsvm.testing`` has a check for each protocol except CompiledRows, such as
``check_oracle`` for an ``Oracle`` and its ``Separator``, and ``check_ranker`` for estimators.
Data flow in one direction: ``readers -> features -> QueryData -> (oracle, trainer, qp) -> Fit -> estimator ->
metrics``, and for clicks ``interleaver -> shown list -> user -> credit -> outcome of a duel -> bandit``.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    "Separator",
    "StructuredModel",
    "World",
]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Rankings = Sequence[Sequence[Hashable]]
Shown = TypeVar("Shown")
"""Record of a shown list: ``online.interleaving.Shown`` for the methods of the package."""


@runtime_checkable
class Oracle(Protocol):
    """A ranking loss with its joint feature, ``Psi(x, y_true) - Psi(x, y) = X_q' a``; it holds settings but no data."""

    def bind(self, y: Float, offsets: Int) -> "Separator":
        """Precompute everything that depends only on the labels; rows ``offsets[q]:offsets[q + 1]`` are query ``q``."""


class Separator(Protocol):
    """An oracle bound to the labels of a data set, which finds the most violated outputs."""

    exact: bool  #: whether separate maximises exactly; if not, primal values are estimates
    informative: NDArray[np.bool_]  #: per query: whether its labels give a constraint
    query_weights: Float | None  #: factor >= 0 of each query's weight; None: 1 for all

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """Fill ``loss`` (per query) and ``coef`` (per row) for the output with the largest ``loss - scores . coef``.

        This maximum is at least 0. ``scores`` and ``coef`` contain only the rows of the queries ``first:last``. Several
        threads call this method for disjoint queries at the same time: release the GIL, and keep no state that could
        change a result.
        """


class StructuredModel(Protocol):
    """A problem whose inputs ``x`` and outputs ``y`` are arbitrary objects, for ``oracles.StructuredProblem``.

    The joint feature ``Psi(x, y)`` has a fixed length. The loss is >= 0, and 0 if the outputs agree. The maximisers
    return the ``y`` with the largest ``loss(y_true, y) + w . Psi(x, y)`` and with the largest ``w . Psi(x, y)``.
    """

    def joint_feature(self, x: object, y: ArrayLike) -> Float: ...
    def loss(self, y_true: ArrayLike, y: ArrayLike) -> float: ...
    def loss_augmented_argmax(self, w: Float, x: object, y_true: ArrayLike) -> Any: ...
    def argmax(self, w: Float, x: object) -> Any: ...


@runtime_checkable
class CompiledRows(Protocol):
    """Rows in a custom format that rankers accept as ``X``, such as ``BinnedRows``; equivalent to dense rows.

    Kernels take ``row_arrays`` first, and release the GIL: ``scores(*arrays, start, stop, w, out)``;
    ``combine(*arrays, offsets, first, last, weights, coef, joint)``, which adds to ``joint``; and
    ``query_joint(*arrays, offsets, first, last, coef, joint)``, which fills a row of ``joint`` for each query.
    """

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def row_arrays(self) -> tuple[Any, ...]: ...
    @property
    def row_kernels(self) -> tuple[Any, Any, Any]: ...


class Cut(NamedTuple):
    """A cut of the mean hinge: ``R(v) >= loss - joint @ v`` for every ``v``, with equality at the ``w`` of its call.

    Examples
    --------
    See :class:`structsvm.trainers.RankingProblem`, whose method ``cut`` returns a cut.
    """

    loss: float
    joint: Float


class Problem(Protocol):
    """``R(w) = sum_q weights[q] * max_y (loss_q(y) - w @ joint_q(y))`` of the objective ``1/2 ||w||^2 + C * R(w)``."""

    n_queries: int
    n_features: int
    weights: Float  #: weights of the queries in the mean, >= 0, with sum 1
    exact: bool  #: whether the oracle maximises exactly, as in :class:`Separator`
    n_bytes: int  #: size of the data in bytes, to which cache sizes are proportional; 0 if unknown
    chunk: int  #: number of queries whose rows fit into the processor's cache
    n_jobs: int  #: number of threads that a trainer may use; results do not depend on it
    support: tuple[Int, Int] | None  #: (indptr, features) of the features of each query, as in CSR; None: all

    def cut(self, w: Float) -> Cut:
        """Return the weighted mean over queries of loss and joint feature at ``w``, in one pass over the data."""

    def query_cuts(self, w: Float, first: int, last: int, loss: Float, joint: Float) -> None:
        """Fill ``loss`` (k,) and ``joint`` (k, m) with the unweighted cuts of the queries ``first:last`` at ``w``."""


class QPResult(NamedTuple):
    """Solution of the small dual problem, its value, and its duality gap.

    Examples
    --------
    See :func:`structsvm.qp.get_solver`.
    """

    alpha: Float
    value: float
    gap: float


class QPSolver(Protocol):
    """Solver that maximises ``loss @ alpha - 1/2 alpha @ gram @ alpha`` over ``alpha >= 0`` with
    ``sum(alpha[group == j]) <= cap[j]``."""

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
    """State of training after a pass over the data (newton: after a step), passed to a callback.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> def show(now):
    ...     print(f"pass {now.n_passes}: the optimum is in [{now.dual:.4f}, {now.primal:.4f}]")
    >>> _ = SVMMap(C=1, callback=show).fit([[1.0], [0.0]], [1, 0], qid=0)
    pass 1: the optimum is in [0.0312, 0.5000]
    pass 2: the optimum is in [0.0312, 0.0312]
    """

    n_passes: int  #: number of passes over the data so far, from 1
    primal: float  #: lowest objective so far, an upper bound on the optimum; infinite before the first one
    dual: float  #: highest lower bound on the optimum so far, initially 0
    gap: float  #: ``(primal - dual) / primal``, which is compared with ``tol``
    seconds: float  #: time since training began


Callback = Callable[[Progress], object]
"""Called with a :class:`Progress` after each pass; a truthy return value asks the trainer to stop early."""


class Duel(NamedTuple):
    """A comparison that a bandit selects: two arms (the same arm twice to exploit it), or a set for multi-dueling.

    The outcome of a pair is 1 (or True) if ``arms[0]`` won, 0 if ``arms[1]`` won, 0.5 for a tie and for an arm against
    itself; the outcome of a set is one such number per pair of :meth:`pairs`. ``note`` is JSON data of the bandit,
    which the caller returns unchanged.

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
    """A dueling bandit; outcomes of several duels may arrive in any order, late or never.

    ``select`` does not change the state, and ``rng`` is its only source of random numbers. ``update`` learns from the
    outcome of a selected duel, and raises ValueError for other duels. ``best`` returns the best arm so far: ``rng``
    breaks ties; without ``rng`` the lowest of the tied arms is returned. ``to_json`` returns the complete state, with
    which a restarted bandit continues identically; ``from_json`` raises ValueError for any other text.
    """

    n_arms: int

    def select(self, rng: np.random.Generator) -> Duel: ...
    def update(self, duel: Duel, outcome: object) -> None: ...
    def best(self, rng: np.random.Generator | None = None) -> int: ...
    def to_json(self) -> str: ...
    @classmethod
    def from_json(cls, text: str) -> Any: ...


class Interleaver(Protocol[Shown]):
    """A method that merges rankings (best document first) and credits rankers for clicks; it holds only settings.

    ``show`` merges rankings into a list of at most ``length`` documents; ``distribution`` returns all records that
    ``show`` can return, with their exact probabilities (for short lists). ``credit`` returns the credit of each ranker
    for ``clicks``, one 0 or 1 for each shown document, and ``outcome`` an antisymmetric matrix: ``[i, j]`` is 1 if
    ranker i beats j, -1 if it loses, 0 if they tie. ``credit_many`` does the same for many lists, and ``bound`` limits
    the statistic of a list, which is the outcome if the method ``draws_outcome``, otherwise the difference in credit.
    """

    name: str

    def show(self, rankings: Rankings, length: int = 10, rng: object = None) -> Shown: ...
    def distribution(self, rankings: Rankings, length: int = 10) -> list[tuple[Shown, float]]: ...
    def credit(self, shown: Shown, clicks: ArrayLike) -> Float: ...
    def outcome(self, shown: Shown, clicks: ArrayLike) -> Float: ...
    def credit_many(self, lists: object) -> Any: ...
    def bound(self, length: int, n_rankers: int) -> float: ...


class ClickTables(NamedTuple):
    """A click model for compiled code: probabilities by grade and position, shape (n_grades, length).

    The user examines the positions in order. At each position the user may click, and may then leave, with or without a
    click.

    Examples
    --------
    >>> from structsvm.online.users import CascadeUser
    >>> tables = CascadeUser.named("navigational", 2).tables(length=2)
    >>> tables.click.tolist(), tables.stop_after_click.tolist()
    ([[0.05, 0.05], [0.95, 0.95]], [[0.2, 0.2], [0.9, 0.9]])
    """

    click: Float
    stop_after_click: Float
    stop_after_skip: Float


class ClickModel(Protocol):
    """A simulated user who clicks on a list of graded documents; it holds probabilities and no state.

    ``click`` draws a vector of clicks, True for each clicked position. ``probability`` returns the exact probability of
    a click at each position, ``likelihood`` the probability of a vector of clicks, and ``tables`` the model as tables
    for lists of ``length`` documents.
    """

    def click(self, grades: ArrayLike, rng: object = None) -> NDArray[np.bool_]: ...
    def probability(self, grades: ArrayLike) -> Float: ...
    def likelihood(self, grades: ArrayLike, clicks: ArrayLike) -> float: ...
    def tables(self, length: int) -> ClickTables: ...


@runtime_checkable
class World(Protocol):
    """An environment in which ``online.simulate`` runs bandits."""

    n_arms: int
    gaps: Float  #: regret of showing each arm, 0 for the best
    winners: Int  #: the arms that count as best, usually one

    def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Return the outcome of a duel, as :class:`Duel` describes it."""
