"""Weighted coverage (SVM-div, thesis chapter 4): choosing documents, and the outputs violated most in training.

A candidate set is a :class:`~structsvm.candidates.Coverage`; a model gives each bin of elements a benefit and each
document a value of its own. The value of a subset is the benefit of all elements it covers, each counted once, plus
the values of its documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structsvm.candidates import Coverage
from structsvm.protocols import Cut, Float, Int

__all__ = [
    "LOSSES", "SEPARATIONS", "CoverageProblem", "Selection", "Subtopics", "bind_loss", "budgeted", "exact", "greedy",
    "lazy_greedy", "swap",
]  # fmt: skip

LOSSES = ("weighted", "unweighted", "alpha_ndcg")
"""Names of the losses: the weighted share of subtopics not covered, the plain share (1 - subtopic recall@K), and
1 - alpha-NDCG@K."""

SEPARATIONS = ("greedy", "swap", "exact")

UserLoss = Callable[[NDArray[np.bool_], Int], float]

_SCALE = 1e3
"""Largest coefficient given to HiGHS, whose absolute gap is 1e-6: the optimum is then exact to 1e-9 of it."""


class Selection(NamedTuple):
    """Documents chosen, in the order chosen; what each added to the value; and the elements covered, by bin."""

    chosen: Int
    gains: Float
    counts: Float

    @property
    def value(self) -> float:
        return float(self.gains.sum())


class Subtopics(NamedTuple):
    """A loss over labelled subtopics of one set: ``1 - sum_k discount[k] * sum of the states of the document's
    subtopics``, where a subtopic's state starts at its weight and is multiplied by ``keep`` each time it is covered.

    ``keep`` = 0 counts each subtopic once (coverage losses); alpha-NDCG has ``keep = 1 - alpha``.
    """

    start: Int
    members: NDArray[np.int32]
    weights: Float
    keep: float
    discount: Float

    def loss(self, chosen: Any) -> float:
        """The loss of documents in that order; more than ``discount`` has entries are not looked at."""
        state = self.weights.copy()
        covered = 0.0
        for position, d in enumerate(chosen[: self.discount.shape[0]]):
            own = self.members[self.start[d] : self.start[d + 1]]
            covered += float(self.discount[position] * state[own].sum())
            state[own] *= self.keep
        return 1.0 - covered

    def target(self) -> Int:
        """Documents that cover the subtopics greedily (thesis 4.3); ties go to the earlier document."""
        n, k = self.start.shape[0] - 1, self.discount.shape[0]
        nothing = np.zeros((n, 0), dtype=np.int32)
        chosen, _, _ = _greedy(
            nothing, *_no_elements(n), np.zeros(0), np.zeros(n), np.ones(n, dtype=np.bool_), k,
            self.start, self.members, self.weights, 1.0, self.keep, self.discount,
        )  # fmt: skip
        return np.asarray(chosen)


def bind_loss(loss: str, labels: NDArray[np.bool_], k: int, *, alpha: float = 0.5) -> Subtopics:
    """A loss by name, bound to the labels of one set; with no subtopic covered by anybody it is 1 for every choice.

    Parameters
    ----------
    loss : {"weighted", "unweighted", "alpha_ndcg"}
        A subtopic weighs, in "weighted", the share of the labels that are its own (thesis, figure 4.4); in
        "unweighted" one over the number of subtopics that some candidate covers. "alpha_ndcg" is normalised by the
        greedy ideal ranking of the candidates (Clarke et al. 2008).
    labels : ndarray of bool, shape (n_documents, n_subtopics)
    k : int
        Documents chosen, or the cut-off of alpha-NDCG.
    alpha : float, default=0.5

    Examples
    --------
    >>> labels = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], dtype=bool)
    >>> bind_loss("weighted", labels, 1).weights * 6
    array([1., 2., 3.])
    """
    if loss not in LOSSES:
        raise ValueError(f"loss={loss!r}: expected one of {', '.join(map(repr, LOSSES))}, or a callable")
    covered = labels.sum(axis=0)
    used = np.flatnonzero(covered > 0)
    k = min(k, labels.shape[0])
    rows, columns = np.nonzero(labels[:, used])
    start = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=labels.shape[0])))).astype(np.int64)
    index = columns.astype(np.int32)
    if loss == "weighted":
        return Subtopics(start, index, covered[used] / max(1, covered.sum()), 0.0, np.ones(k))
    if loss == "unweighted":
        return Subtopics(start, index, np.full(used.size, 1.0 / max(1, used.size)), 0.0, np.ones(k))
    bound = Subtopics(start, index, np.ones(used.size), 1.0 - alpha, 1.0 / np.log2(np.arange(2, k + 2)))
    ideal = 1.0 - bound.loss(bound.target())
    return bound._replace(weights=bound.weights / ideal) if ideal > 0 else bound


def greedy(coverage: Coverage, benefits: Float, values: Float, k: int) -> Selection:
    """Choose ``k`` documents, each time the one that adds most (thesis, algorithm 3); ties go to the earlier one.

    Marginal gains are exact and kept up to date: choosing a document touches only the documents that share its
    words. Benefits of any sign; a document is chosen even if it only takes away, as ``k`` are wanted.

    Parameters
    ----------
    coverage : Coverage
    benefits : ndarray, shape (n_bins,)
        Of covering an element of each bin.
    values : ndarray, shape (n_documents,)
        What each document is worth besides.
    k : int
        All documents are chosen if there are fewer.

    Returns
    -------
    Selection
        With non-negative benefits and values its value is at least ``1 - 1/e`` of the optimum (thesis, appendix A).

    Examples
    --------
    >>> from structsvm.candidates import CandidateSet
    >>> from structsvm.features.words import Level, WordFeatures
    >>> features = WordFeatures([Level.appears()], [0.0])
    >>> coverage = features.coverage(CandidateSet(["red rose", "red sea", "blue sea storm"]))
    >>> greedy(coverage, np.array([1.0]), np.zeros(3), 2).chosen
    array([2, 0])
    """
    return Selection(*_run_greedy(coverage, benefits, values, k, None, 1.0))


def lazy_greedy(coverage: Coverage, benefits: Float, values: Float, k: int) -> Selection:
    """:func:`greedy` for non-negative benefits: gains only shrink, so most need not be looked at again.

    The same documents in the same order. Faster where many documents are chosen.

    Raises
    ------
    ValueError
        For a negative benefit: a document's gain may then grow.
    """
    if benefits.size and benefits.min() < 0:
        raise ValueError(f"lazy_greedy: expected benefits >= 0, got {benefits.min():g}; use greedy")
    return Selection(*_lazy(*_arrays(coverage), benefits, values, min(k, coverage.n_documents)))


def swap(
    coverage: Coverage, benefits: Float, values: Float, k: int, *, subtopics: Subtopics | None = None
) -> Selection:
    """:func:`greedy`, then exchange one document for a better one until no exchange improves the value.

    The result stands in the order in which greedy would choose from among it.
    """
    chosen = _run_greedy(coverage, benefits, values, k, subtopics, -1.0)[0]
    best = _swap(*_arrays(coverage), benefits, values, chosen, *_coverage_loss(subtopics, coverage))
    return _ordered(coverage, benefits, values, np.asarray(best))


def exact(
    coverage: Coverage,
    benefits: Float,
    values: Float,
    k: int,
    *,
    subtopics: Subtopics | None = None,
    time_limit: float | None = None,
) -> Selection:
    """The best ``k`` documents, by integer programming with HiGHS; for up to some 75 documents.

    One 0/1 variable a document and one between 0 and 1 for each distinct set of documents that shares elements.

    Parameters
    ----------
    coverage, benefits, values, k
        As for :func:`greedy`.
    subtopics : Subtopics, optional
        A coverage loss to add to the value: the loss-augmented argmax.
    time_limit : float, optional
        Seconds; by default until the optimum is proven.

    Returns
    -------
    Selection
        In the order in which greedy would choose from among it.

    Raises
    ------
    ValueError
        For a loss that depends on the order (alpha-NDCG).
    RuntimeError
        If the time is over before the optimum is proven.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_matrix

    n = coverage.n_documents
    start = swap(coverage, benefits, values, k, subtopics=subtopics)
    if k >= n:
        return start
    linear = values + coverage.counts @ benefits
    elements: dict[bytes, float] = {}
    for e in range(coverage.element_bin.shape[0]):
        documents = coverage.element_documents[coverage.element_start[e] : coverage.element_start[e + 1]]
        benefit = benefits[coverage.element_bin[e]]
        linear[documents] -= benefit
        key = documents.tobytes()
        elements[key] = elements.get(key, 0.0) + benefit
    sub_start, sub_index, weights, _, _ = _coverage_loss(subtopics, coverage)
    owner = np.repeat(np.arange(n, dtype=np.int32), np.diff(sub_start))
    for t in range(weights.shape[0]):
        key = owner[sub_index == t].tobytes()
        elements[key] = elements.get(key, 0.0) - weights[t]
    # what k documents cannot miss is a constant
    found = [(np.frombuffer(key, dtype=np.int32), v) for key, v in elements.items()]
    found = [(documents, v) for documents, v in found if v != 0 and documents.shape[0] <= n - k]
    rows, columns, entries = [], [], []
    n_rows = 0
    for z, (documents, v) in enumerate(found, start=n):
        size = documents.shape[0]
        if v > 0:  # z <= sum x
            rows.append(np.full(size + 1, n_rows))
            columns.append(np.concatenate((documents, [z])))
            entries.append(np.concatenate((np.full(size, -1.0), [1.0])))
            n_rows += 1
        else:  # z >= x for each
            rows.append(np.repeat(np.arange(n_rows, n_rows + size), 2))
            columns.append(np.stack((documents, np.full(size, z)), axis=1).ravel())
            entries.append(np.tile([1.0, -1.0], size))
            n_rows += size
    objective = -np.concatenate((linear, [v for _, v in found]))
    objective *= _SCALE / max(float(np.abs(objective).max()), 1e-300)
    n_variables = objective.shape[0]
    constraints = [
        LinearConstraint(np.concatenate((np.ones(n), np.zeros(n_variables - n)))[None, :], k, k),
    ]
    if n_rows:
        parts = (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns)))
        constraints.append(
            LinearConstraint(coo_matrix(parts, shape=(n_rows, n_variables)).tocsr(), -np.inf, 0.0)
        )
    integrality = np.zeros(n_variables, dtype=np.int64)
    integrality[:n] = 1
    options: Any = {"mip_rel_gap": 0.0}
    if time_limit is not None:
        options["time_limit"] = time_limit
    result = milp(
        objective, integrality=integrality, bounds=Bounds(0, 1), constraints=constraints, options=options
    )
    if result.status != 0 or result.x is None:
        raise RuntimeError(
            f"exact: no proven optimum for {n} documents ({result.message}); use greedy or swap, or more time"
        )
    solution = np.sort(np.argsort(-result.x[:n], kind="stable")[:k]).astype(np.int64)
    best = _ordered(coverage, benefits, values, solution)
    if subtopics is None:
        return best if best.value >= start.value else start
    own, other = (s.value + subtopics.loss(s.chosen) for s in (best, start))
    return best if own >= other else start


def budgeted(
    coverage: Coverage, benefits: Float, values: Float, costs: Float, budget: float, *, k: int | None = None
) -> Selection:
    """Choose documents whose costs add up to ``budget`` at most: highest gain per cost first, while gains are > 0.

    If the best single document within the budget is worth more, it is chosen alone; with non-negative benefits the
    value is then at least ``(1 - 1/e) / 2`` of the optimum (Khuller, Moss and Naor 1999), which gain per cost alone
    does not reach. ``k`` bounds the number of documents too, without a guarantee.

    Raises
    ------
    ValueError
        For costs that are not finite and > 0, or a budget that is not finite and >= 0.

    Examples
    --------
    >>> from structsvm.candidates import CandidateSet
    >>> from structsvm.features.words import Level, WordFeatures
    >>> coverage = WordFeatures([Level.appears()], [0.0]).coverage(CandidateSet(["red", "a long text about the sea"]))
    >>> budgeted(coverage, np.array([1.0]), np.zeros(2), np.array([1.0, 6.0]), 6.0).chosen
    array([1])
    """
    n = coverage.n_documents
    if costs.shape != (n,) or not (np.isfinite(costs) & (costs > 0)).all():
        raise ValueError(f"costs: expected {n} finite numbers > 0, one for each document")
    if not (np.isfinite(budget) and budget >= 0):
        raise ValueError(f"budget: expected a finite number >= 0, got {budget!r}")
    most = n if k is None else min(k, n)
    found = Selection(*_budgeted(*_arrays(coverage), benefits, values, costs, float(budget), most))
    alone = values + coverage.counts @ benefits
    alone[costs > budget] = -np.inf
    best = int(np.argmax(alone))
    if most > 0 and alone[best] > max(0.0, found.value):
        counts = coverage.counts[best].astype(np.float64)
        return Selection(np.array([best]), alone[best : best + 1].copy(), counts)
    return found


class CoverageProblem:
    """A :class:`~structsvm.protocols.Problem`: candidate sets with labels, as trainers see them.

    The true output of a set is the greedy cover of its subtopics. Losses are counted above that of the true output,
    which may not cover everything: the constant cannot be learned away. An output better than the greedy cover has
    a loss below zero.

    Greedy and swap separation may miss the most violated output, so primal values are estimates from below and
    ``exact`` is False. Every output found is kept with its query and is the answer again where it beats the fresh
    one: the estimated primal then never falls below the dual.

    Parameters
    ----------
    coverages : sequence of Coverage
    labels : sequence of ndarray of bool, shape (n_documents, n_subtopics)
    bins : ndarray, shape (n_bins, n_word_features)
        Benefits are ``bins @ w[:n_word_features]``; the other weights are those of the document features.
    k : int
        Documents to choose; all of a smaller set.
    loss : {"weighted", "unweighted", "alpha_ndcg"} or callable, default="weighted"
        A callable takes the boolean labels and the documents chosen, in order, and must not grow as documents are
        added.
    separation : {"greedy", "swap", "exact"}, default="greedy"
        How the most violated output is searched. "swap" and "exact" need a coverage loss.
    weights : array-like, optional
        Of the sets; scaled to sum to one. Equal by default.
    n_jobs : int, default=1
        Threads; they never change a result.

    Examples
    --------
    >>> from structsvm.candidates import CandidateSet
    >>> from structsvm.features.words import Level, WordFeatures
    >>> features = WordFeatures([Level.appears()], [0.0])
    >>> coverage = features.coverage(CandidateSet(["red", "red", "blue sea"]))
    >>> labels = np.array([[1, 0], [1, 0], [0, 1]], dtype=bool)
    >>> problem = CoverageProblem([coverage], [labels], features.bins(), 2, separation="swap")
    >>> problem.cut(np.zeros(1))
    Cut(loss=0.333..., joint=array([2.]))
    """

    support: tuple[Int, Int] | None = None

    def __init__(
        self,
        coverages: Sequence[Coverage],
        labels: Sequence[NDArray[np.bool_]],
        bins: Float,
        k: int,
        *,
        loss: str | UserLoss = "weighted",
        separation: Literal["greedy", "swap", "exact"] = "greedy",
        weights: Any = None,
        n_jobs: int = 1,
    ) -> None:
        if separation not in SEPARATIONS:
            raise ValueError(
                f"separation={separation!r}: expected one of {', '.join(map(repr, SEPARATIONS))}"
            )
        if separation != "greedy" and (callable(loss) or loss == "alpha_ndcg"):
            raise ValueError(
                f"separation={separation!r}: expected a coverage loss ('weighted' or 'unweighted'), got {loss!r}"
            )
        self.n_queries = len(coverages)
        self.n_word_features = int(bins.shape[1])
        self.n_features = self.n_word_features + int(coverages[0].features.shape[1])
        self.exact = separation == "exact"
        self.chunk = 8
        self.n_jobs = n_jobs
        values = np.ones(self.n_queries) if weights is None else np.asarray(weights, dtype=np.float64)
        if (
            values.shape != (self.n_queries,)
            or not (np.isfinite(values) & (values >= 0)).all()
            or not values.any()
        ):
            raise ValueError(f"weights: expected {self.n_queries} finite values >= 0, not all zero")
        self.weights: Float = values / values.sum()
        self._bins = np.ascontiguousarray(bins)
        self._separation = separation
        self._queries = [
            _Query(coverage, matrix, k, loss) for coverage, matrix in zip(coverages, labels, strict=True)
        ]
        self._caches = [_Cache(self.n_features) for _ in self._queries]

    @property
    def targets(self) -> list[Int]:
        """The true output of each set."""
        return [query.target for query in self._queries]

    def cut(self, w: Float) -> Cut:
        """See :class:`structsvm.protocols.Problem`."""
        loss, joint = np.empty(self.n_queries), np.empty((self.n_queries, self.n_features))
        tasks = range(0, self.n_queries, self.chunk)

        def fill(first: int) -> None:
            last = min(first + self.chunk, self.n_queries)
            self.query_cuts(w, first, last, loss[first:last], joint[first:last])

        if self.n_jobs == 1 or len(tasks) == 1:
            for first in tasks:
                fill(first)
        else:
            with ThreadPoolExecutor(min(self.n_jobs, len(tasks))) as pool:
                list(pool.map(fill, tasks))
        return Cut(float(self.weights @ loss), self.weights @ joint)

    def query_cuts(self, w: Float, first: int, last: int, loss: Float, joint: Float) -> None:
        """See :class:`structsvm.protocols.Problem`."""
        benefits = self._bins @ w[: self.n_word_features]
        for q in range(first, last):
            row = joint[q - first]
            loss[q - first] = self._separate(q, w, benefits, self._separation, row)
            if not self.exact:
                loss[q - first] = self._caches[q].best(loss[q - first], row, w)
            if loss[q - first] - row @ w <= 0:  # the true output itself
                loss[q - first] = 0.0
                row[:] = 0.0

    def slacks(self, w: Float, separation: str, queries: Sequence[int]) -> Float:
        """The hinge of some sets at ``w`` by another search, for comparison; nothing is kept."""
        benefits = self._bins @ w[: self.n_word_features]
        joint = np.empty(self.n_features)
        found = [self._separate(q, w, benefits, separation, joint) - float(joint @ w) for q in queries]
        return np.maximum(0.0, found)

    def _separate(self, q: int, w: Float, benefits: Float, separation: str, joint: Float) -> float:
        query = self._queries[q]
        coverage = query.coverage
        values = coverage.features @ w[self.n_word_features :]
        if query.subtopics is None:
            found = query.greedy_user(benefits, values)
        elif separation == "greedy":
            found = Selection(*_run_greedy(coverage, benefits, values, query.k, query.subtopics, -1.0))
        else:
            search = swap if separation == "swap" else exact
            found = search(coverage, benefits, values, query.k, subtopics=query.subtopics)
        joint[: self.n_word_features] = (query.target_counts - found.counts) @ self._bins
        joint[self.n_word_features :] = query.target_features - coverage.features[found.chosen].sum(axis=0)
        return query.loss(found.chosen) - query.target_loss


class _Query:
    """A candidate set bound to its labels."""

    def __init__(self, coverage: Coverage, labels: NDArray[np.bool_], k: int, loss: str | UserLoss) -> None:
        self.coverage = coverage
        self.k = min(k, coverage.n_documents)
        self.subtopics: Subtopics | None = None
        if isinstance(loss, str):
            self.subtopics = bind_loss(loss, labels, self.k)
            self.target = self.subtopics.target()
        else:
            self.labels, self.user_loss = labels, loss
            nothing = np.zeros(coverage.n_bins)
            self.target = self._greedy_user(nothing, np.zeros(coverage.n_documents), sign=1.0).chosen
        self.target_loss = self.loss(self.target)
        self.target_counts = _count(*_arrays(coverage), self.target)
        self.target_features: Float = coverage.features[self.target].sum(axis=0)

    def loss(self, chosen: Int) -> float:
        if self.subtopics is not None:
            return self.subtopics.loss(chosen)
        value = float(self.user_loss(self.labels, chosen))
        if not np.isfinite(value):
            raise ValueError(
                f"loss: expected a finite number for the documents {chosen.tolist()}, got {value}"
            )
        return value

    def greedy_user(self, benefits: Float, values: Float) -> Selection:
        return self._greedy_user(benefits, values, sign=-1.0)

    def _greedy_user(self, benefits: Float, values: Float, sign: float) -> Selection:
        """Greedy with a loss that is only known by calling it: once for each document and place."""
        n = self.coverage.n_documents
        uncovered = self.coverage.counts.copy()
        covered = np.zeros(self.coverage.element_bin.shape[0], dtype=np.bool_)
        counts = np.zeros(self.coverage.n_bins)
        chosen: list[int] = []
        gains = []
        for _ in range(self.k):
            own = values + uncovered @ benefits
            gain = np.full(n, -np.inf)
            for d in range(n):
                if d not in chosen:
                    gain[d] = own[d] - sign * self.loss(np.array([*chosen, d]))
            best = int(np.argmax(gain))
            chosen.append(best)
            gains.append(own[best])
            counts += uncovered[best]
            _cover(best, uncovered, covered, *_arrays(self.coverage)[1:])
        return Selection(np.array(chosen, dtype=np.int64), np.array(gains), counts)


class _Cache:
    """The outputs found for one query so far: losses and joint feature differences."""

    def __init__(self, n_features: int) -> None:
        self._loss = np.empty(4)
        self._joint = np.empty((4, n_features))
        self._n = 0

    def best(self, loss: float, joint: Float, w: Float) -> float:
        """Keep a fresh output; put the more violated of it and the old ones in its place and return its loss."""
        n = self._n
        violation = self._loss[:n] - self._joint[:n] @ w
        old = int(np.argmax(violation)) if n else -1
        if n and violation[old] >= loss - joint @ w:
            joint[:] = self._joint[old]
            return float(self._loss[old])
        if n == self._loss.shape[0]:
            self._loss = np.concatenate((self._loss, np.empty(n)))
            self._joint = np.concatenate((self._joint, np.empty_like(self._joint)))
        self._loss[n] = loss
        self._joint[n] = joint
        self._n = n + 1
        return loss


def _arrays(coverage: Coverage) -> tuple[Any, Any, Any, Any, Any, Any]:
    return (
        coverage.counts, coverage.doc_start, coverage.doc_elements, coverage.element_start,
        coverage.element_documents, coverage.element_bin,
    )  # fmt: skip


def _no_elements(n: int) -> tuple[Any, Any, Any, Any, Any]:
    empty = np.zeros(0, dtype=np.int32)
    return np.zeros(n + 1, dtype=np.int64), empty, np.zeros(1, dtype=np.int64), empty, empty


def _no_subtopics(n: int, k: int) -> Subtopics:
    return Subtopics(
        np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0), 0.0, np.ones(k)
    )


def _coverage_loss(subtopics: Subtopics | None, coverage: Coverage) -> Subtopics:
    if subtopics is None:
        return _no_subtopics(coverage.n_documents, 1)
    if subtopics.keep != 0.0:
        raise ValueError(
            "loss: expected a coverage loss ('weighted' or 'unweighted'), got one that looks at the order"
        )
    return subtopics


def _run_greedy(
    coverage: Coverage, benefits: Float, values: Float, k: int, subtopics: Subtopics | None, sign: float
) -> Any:
    n = coverage.n_documents
    k = min(k, n)
    own = _no_subtopics(n, k) if subtopics is None else subtopics
    return _greedy(
        *_arrays(coverage), benefits, values, np.ones(n, dtype=np.bool_), k, own.start, own.members, own.weights,
        sign, own.keep, own.discount,
    )  # fmt: skip


def _ordered(coverage: Coverage, benefits: Float, values: Float, chosen: Int) -> Selection:
    """The subset in the order in which greedy would choose from among it."""
    allowed = np.zeros(coverage.n_documents, dtype=np.bool_)
    allowed[chosen] = True
    own = _no_subtopics(coverage.n_documents, chosen.shape[0])
    return Selection(
        *_greedy(
            *_arrays(coverage), benefits, values, allowed, chosen.shape[0], own.start, own.members, own.weights,
            1.0, 0.0, own.discount,
        )
    )  # fmt: skip


# Gains are computed from whole counts, never updated as sums of rounded numbers: equal documents have equal gains, and
# a document with nothing left to cover adds exactly nothing.


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _gain(counts, benefits):  # type: ignore[no-untyped-def]
    total = 0.0
    for b in range(benefits.shape[0]):
        total += counts[b] * benefits[b]
    return total


@njit(cache=True, nogil=True)
def _cover(d, uncovered, covered, doc_start, doc_elements, element_start, element_documents, element_bin):  # type: ignore[no-untyped-def]
    for i in range(doc_start[d], doc_start[d + 1]):
        e = doc_elements[i]
        if not covered[e]:
            covered[e] = True
            b = element_bin[e]
            for j in range(element_start[e], element_start[e + 1]):
                uncovered[element_documents[j], b] -= 1


@njit(cache=True, nogil=True)
def _greedy(  # type: ignore[no-untyped-def]
    counts, doc_start, doc_elements, element_start, element_documents, element_bin, benefits, values, allowed, k,
    sub_start, sub_index, weights, sign, keep, discount,
):  # fmt: skip
    """Gains include ``sign`` times what a document takes off the loss; those returned do not."""
    n = counts.shape[0]
    uncovered = counts.copy()
    covered = np.zeros(element_bin.shape[0], dtype=np.bool_)
    state = weights.copy()
    free = allowed.copy()
    total = np.zeros(counts.shape[1])
    chosen = np.empty(k, dtype=np.int64)
    gains = np.empty(k)
    for step in range(k):
        best, best_gain = -1, 0.0
        for d in range(n):
            if free[d]:
                own = values[d] + _gain(uncovered[d], benefits)
                gain = own
                for i in range(sub_start[d], sub_start[d + 1]):
                    gain += sign * discount[step] * state[sub_index[i]]
                if best < 0 or gain > best_gain:
                    best, best_gain, gains[step] = d, gain, own
        chosen[step] = best
        free[best] = False
        for b in range(total.shape[0]):
            total[b] += uncovered[best, b]
        if step + 1 < k:
            _cover(
                best,
                uncovered,
                covered,
                doc_start,
                doc_elements,
                element_start,
                element_documents,
                element_bin,
            )
            for i in range(sub_start[best], sub_start[best + 1]):
                state[sub_index[i]] *= keep
    return chosen, gains, total


@njit(cache=True, nogil=True)
def _lazy(  # type: ignore[no-untyped-def]
    counts, doc_start, doc_elements, element_start, element_documents, element_bin, benefits, values, k
):  # fmt: skip
    n = counts.shape[0]
    covered = np.zeros(element_bin.shape[0], dtype=np.bool_)
    left = np.empty(counts.shape[1], dtype=np.int32)
    bound = np.empty(n)
    fresh = np.zeros(n, dtype=np.int64)  # the step at which the bound was the gain itself
    free = np.ones(n, dtype=np.bool_)
    for d in range(n):
        bound[d] = values[d] + _gain(counts[d], benefits)
    total = np.zeros(counts.shape[1])
    chosen = np.empty(k, dtype=np.int64)
    gains = np.empty(k)
    for step in range(k):
        while True:
            best = -1
            for d in range(n):
                if free[d] and (best < 0 or bound[d] > bound[best]):
                    best = d
            left[:] = counts[best]
            for i in range(doc_start[best], doc_start[best + 1]):
                e = doc_elements[i]
                if covered[e]:
                    left[element_bin[e]] -= 1
            if fresh[best] == step:
                break
            bound[best] = values[best] + _gain(left, benefits)
            fresh[best] = step
        chosen[step] = best
        gains[step] = bound[best]
        free[best] = False
        for b in range(total.shape[0]):
            total[b] += left[b]
        for i in range(doc_start[best], doc_start[best + 1]):
            covered[doc_elements[i]] = True
    return chosen, gains, total


@njit(cache=True, nogil=True)
def _budgeted(  # type: ignore[no-untyped-def]
    counts, doc_start, doc_elements, element_start, element_documents, element_bin, benefits, values, costs, budget, k
):  # fmt: skip
    n = counts.shape[0]
    uncovered = counts.copy()
    covered = np.zeros(element_bin.shape[0], dtype=np.bool_)
    free = np.ones(n, dtype=np.bool_)
    total = np.zeros(counts.shape[1])
    chosen = np.empty(k, dtype=np.int64)
    gains = np.empty(k)
    left = budget * (1.0 + 1e-12)  # costs that add up to the budget but for rounding fit in
    m = 0
    while m < k:
        best, best_ratio = -1, 0.0
        for d in range(n):
            if free[d] and costs[d] <= left:
                own = values[d] + _gain(uncovered[d], benefits)
                if own / costs[d] > best_ratio:
                    best, best_ratio, gains[m] = d, own / costs[d], own
        if best < 0:
            break
        chosen[m] = best
        m += 1
        free[best] = False
        left -= costs[best]
        for b in range(total.shape[0]):
            total[b] += uncovered[best, b]
        _cover(
            best, uncovered, covered, doc_start, doc_elements, element_start, element_documents, element_bin
        )
    return chosen[:m].copy(), gains[:m].copy(), total


@njit(cache=True, nogil=True)
def _count(  # type: ignore[no-untyped-def]
    counts, doc_start, doc_elements, element_start, element_documents, element_bin, chosen
):  # fmt: skip
    """Elements covered by the documents chosen, by bin."""
    covered = np.zeros(element_bin.shape[0], dtype=np.bool_)
    total = np.zeros(counts.shape[1])
    for d in chosen:
        for b in range(total.shape[0]):
            total[b] += counts[d, b]
        for i in range(doc_start[d], doc_start[d + 1]):
            e = doc_elements[i]
            if covered[e]:
                total[element_bin[e]] -= 1
            covered[e] = True
    return total


@njit(cache=True, nogil=True)
def _shift(  # type: ignore[no-untyped-def]
    d, by, cover, uncovered, doc_start, doc_elements, element_start, element_documents, element_bin, sub_start,
    sub_index, sub_cover,
):  # fmt: skip
    """Add (``by`` = 1) or take away (-1) a document; ``uncovered`` follows the elements that change sides."""
    for i in range(doc_start[d], doc_start[d + 1]):
        e = doc_elements[i]
        cover[e] += by
        if cover[e] == (1 if by > 0 else 0):
            b = element_bin[e]
            for j in range(element_start[e], element_start[e + 1]):
                uncovered[element_documents[j], b] -= by
    for i in range(sub_start[d], sub_start[d + 1]):
        sub_cover[sub_index[i]] += by


@njit(cache=True, nogil=True)
def _swap(  # type: ignore[no-untyped-def]
    counts, doc_start, doc_elements, element_start, element_documents, element_bin, benefits, values, start,
    sub_start, sub_index, weights, keep, discount,
):  # fmt: skip
    n = counts.shape[0]
    chosen = start.copy()
    uncovered = counts.copy()
    cover = np.zeros(element_bin.shape[0], dtype=np.int32)
    sub_cover = np.zeros(weights.shape[0], dtype=np.int32)
    free = np.ones(n, dtype=np.bool_)
    for d in chosen:
        free[d] = False
        _shift(
            d, 1, cover, uncovered, doc_start, doc_elements, element_start, element_documents, element_bin,
            sub_start, sub_index, sub_cover,
        )  # fmt: skip
    improved = True
    while improved:
        improved = False
        for position in range(chosen.shape[0]):
            old = chosen[position]
            _shift(
                old, -1, cover, uncovered, doc_start, doc_elements, element_start, element_documents, element_bin,
                sub_start, sub_index, sub_cover,
            )  # fmt: skip
            free[old] = True
            best, best_gain, old_gain = -1, 0.0, 0.0
            for d in range(n):
                if free[d]:
                    gain = values[d] + _gain(uncovered[d], benefits)
                    for i in range(sub_start[d], sub_start[d + 1]):
                        if sub_cover[sub_index[i]] == 0:
                            gain -= weights[sub_index[i]]
                    if d == old:
                        old_gain = gain
                    if best < 0 or gain > best_gain:
                        best, best_gain = d, gain
            if best_gain > old_gain + 1e-10 * (abs(best_gain) + abs(old_gain)):  # rounding must not cycle
                improved = True
            else:
                best = old
            chosen[position] = best
            free[best] = False
            _shift(
                best, 1, cover, uncovered, doc_start, doc_elements, element_start, element_documents, element_bin,
                sub_start, sub_index, sub_cover,
            )  # fmt: skip
    return chosen
