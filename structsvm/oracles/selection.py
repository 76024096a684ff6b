"""Choose documents from a candidate set: greedily, with exchanges, or within a budget.

A candidate set is a :class:`~structsvm.common.candidates.Coverage`; a model gives each bin of elements a benefit and
each document its own value. The value of a subset is the benefit of all elements it covers, each counted once, plus the
values of its documents. In training a loss over labelled subtopics is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.candidates import Coverage, Limits
from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.elementary import log2
from structsvm.common.portable.sums import dot, products
from structsvm.protocols import Float, Int

COVERAGE_LOSSES = ("weighted", "unweighted", "alpha_ndcg")
"""Names of the losses: the weighted share of subtopics not covered, the plain share (1 - subtopic recall@K), and
1 - alpha-NDCG@K."""


class Selection(NamedTuple):
    """Documents chosen, in the order chosen; the value added by each; and the number of covered elements by bin."""

    chosen: Int
    gains: Float
    counts: Float

    @property
    def value(self) -> float:
        return float(self.gains.sum())


class Subtopics(NamedTuple):
    """A loss over labelled subtopics of one set: ``1 - sum_k discount[k] * sum of states of the subtopics covered``.

    The state of a subtopic starts at its weight and is multiplied by ``keep`` (0, alpha-NDCG 1 - alpha) when covered.
    """

    start: Int
    members: NDArray[np.int32]
    weights: Float
    keep: float
    discount: Float

    def loss(self, chosen: Any) -> float:
        """Return the loss of documents in that order; documents beyond the entries of ``discount`` are ignored."""
        rows = np.asarray(chosen, dtype=np.int64)[: self.discount.shape[0]]
        return float(_loss(rows, self))

    def target(self) -> Int:
        """Choose documents that cover the subtopics greedily (thesis 4.3); ties go to the earlier document."""
        n, k = self.start.shape[0] - 1, self.discount.shape[0]
        empty = np.zeros(0, dtype=np.int32)
        ends = np.zeros(n + 1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        nothing = np.zeros((n, 0), dtype=np.int32), ends[0], empty, ends[1], empty, empty
        return _choose(nothing, np.zeros(0), np.zeros(n), k, self, sign=1.0).chosen


def bind_loss(loss: str, labels: NDArray[np.bool_], k: int, *, alpha: float = 0.5) -> Subtopics:
    """Return "weighted" (figure 4.4), "unweighted" or "alpha_ndcg" bound to the labels of one set, at most 1."""
    # alpha-NDCG is normalised by the greedy ideal ranking of the candidates (Clarke et al. 2008)
    if loss not in COVERAGE_LOSSES:
        problem = f"expected one of {', '.join(map(repr, COVERAGE_LOSSES))}, or a callable"
        raise BadInput("loss", problem, value=loss)
    # a subtopic that no candidate covers cannot be covered, and has no weight
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
    bound = Subtopics(start, index, np.ones(used.size), 1.0 - alpha, 1.0 / log2(np.arange(2, k + 2)))
    ideal = 1.0 - bound.loss(bound.target())
    return bound._replace(weights=bound.weights / ideal) if ideal > 0 else bound


def greedy(
    coverage: Coverage, benefits: Float, values: Float, k: int, *, subtopics: Subtopics | None = None
) -> Selection:
    """Choose ``k`` documents, each time the document that adds most (thesis, algorithm 3); ties go to the earlier
    document.

    Marginal gains are exact and kept up to date: choosing a document touches only the documents that share its
    words. Benefits may have any sign; as ``k`` documents are required, a document is chosen even if its gain is
    negative.

    Parameters
    ----------
    coverage : Coverage
    benefits : ndarray, shape (n_bins,)
        Benefit of covering an element of each bin.
    values : ndarray, shape (n_documents,)
        Value of each document in addition.
    k : int
        If there are fewer documents, all are chosen.
    subtopics : Subtopics, optional
        A loss to add to the value in every step: the most violated output of training. The gains and the value returned
        exclude it.

    Returns
    -------
    Selection
        With non-negative benefits and values its value is at least ``1 - 1/e`` of the optimum (thesis, appendix A).
        On 500 random sets it was at least 0.88 of the optimum, 0.996 on average, and optimal on 87 %.

    Examples
    --------
    >>> from structsvm.common.candidates import CandidateSet
    >>> from structsvm.features.word_features import Level, WordFeatures
    >>> features = WordFeatures([Level.appears()], [0.0])
    >>> coverage = features.coverage(CandidateSet(["red rose", "red sea", "blue sea storm"]))
    >>> greedy(coverage, np.array([1.0]), np.zeros(3), 2).chosen
    array([2, 0])
    """
    n = coverage.n_documents
    k = min(k, n)
    own = _no_subtopics(n, k) if subtopics is None else subtopics
    return _choose(_arrays(coverage), benefits, values, k, own)


def swap(
    coverage: Coverage, benefits: Float, values: Float, k: int, *, subtopics: Subtopics | None = None
) -> Selection:
    """Choose as :func:`greedy` does, then exchange single documents until no exchange improves the value.

    Parameters
    ----------
    coverage, benefits, values, k
        As in :func:`greedy`.
    subtopics : Subtopics, optional
        A coverage loss to add to the value, both in the greedy choice and in the exchanges. The gains and the value
        returned exclude it.

    Returns
    -------
    Selection
        Documents in the order in which greedy would choose them by value alone. With the loss, if any, its
        value is at least that of greedy; it need not be the optimum.

    Examples
    --------
    >>> from structsvm.common.candidates import CandidateSet
    >>> from structsvm.features.word_features import Level, WordFeatures
    >>> features = WordFeatures([Level.appears()], [0.0])
    >>> coverage = features.coverage(CandidateSet(["a1 a2 b1 b2", "a1 a2 a3", "b1 b2 b3"]))
    >>> [choose(coverage, np.array([1.0]), np.zeros(3), 2).value for choose in (greedy, swap)]
    [5.0, 6.0]
    """
    chosen = greedy(coverage, benefits, values, k, subtopics=subtopics).chosen
    best = _swap(_arrays(coverage), benefits, values, chosen, _coverage_loss(subtopics, coverage))
    return in_greedy_order(coverage, benefits, values, np.asarray(best))


def budgeted(
    coverage: Coverage, benefits: Float, values: Float, costs: Float, budget: float, *, k: int | None = None
) -> Selection:
    """Choose documents of total cost at most ``budget``: highest gain per cost first, while gains are > 0.

    If the best single document within the budget has a higher value, it is chosen alone; with non-negative benefits the
    value is then at least ``(1 - 1/e) / 2`` of the optimum (Khuller, Moss and Naor 1999), which gain per cost alone
    does not reach. ``k`` bounds the number of documents too, without a guarantee.

    Parameters
    ----------
    coverage, benefits, values
        As in :func:`greedy`.
    costs : ndarray, shape (n_documents,)
        Costs, finite and > 0, in the unit of ``budget``, such as numbers of words.
    budget : float
        Finite and >= 0; documents that cost more are never chosen.
    k : int, optional
        Largest number of documents; no bound by default.

    Returns
    -------
    Selection
        Empty if no document within the budget has a positive gain.

    Examples
    --------
    >>> from structsvm.common.candidates import CandidateSet
    >>> from structsvm.features.word_features import Level, WordFeatures
    >>> coverage = WordFeatures([Level.appears()], [0.0]).coverage(CandidateSet(["red", "a long text about the sea"]))
    >>> budgeted(coverage, np.array([1.0]), np.zeros(2), np.array([1.0, 6.0]), 6.0).chosen
    array([1])
    """
    n = coverage.n_documents
    if costs.shape != (n,) or not (np.isfinite(costs) & (costs > 0)).all():
        raise BadInput("costs", f"expected {n} finite numbers > 0, one for each document")
    if not (np.isfinite(budget) and budget >= 0):
        raise BadInput("budget", f"expected a finite number >= 0, got {budget!r}")
    limits = Limits(n if k is None else min(k, n), costs, float(budget))
    return _one_by_one(coverage, benefits, values, limits, per_cost=True)


def in_greedy_order(coverage: Coverage, benefits: Float, values: Float, chosen: Int) -> Selection:
    """Return the subset in the order in which greedy would choose its documents."""
    free = np.zeros(coverage.n_documents, dtype=np.bool_)
    free[chosen] = True
    k = chosen.shape[0]
    return _choose(_arrays(coverage), benefits, values, k, _no_subtopics(free.size, k), free=free)


def greedy_by_gains(gains: Callable[[list[int]], Float], limits: Limits, *, per_cost: bool = False) -> Int:
    """Choose documents one by one, each time the one with the largest of ``gains(chosen so far)`` that still fits.

    ``per_cost``: under a budget the largest gain per cost is next, while it is positive, and the best single document
    is chosen instead if its gain is above the sum, as in :func:`budgeted`.
    """
    most, costs, budget = limits
    per_cost = per_cost and budget < np.inf
    left = budget * (1.0 + 1e-12)  # tolerates rounding in the sum of costs
    chosen: list[int] = []
    total = 0.0
    while len(chosen) < most:
        gain = np.array(gains(chosen), dtype=np.float64)
        gain[chosen] = -np.inf
        gain[costs > left] = -np.inf
        if not chosen:
            alone, largest = int(np.argmax(gain)), float(gain.max())
        ranked = gain / costs if per_cost else gain
        best = int(np.argmax(ranked))
        # gains per cost have a zero; of other gains only the order counts, and -inf means that nothing fits
        if not ranked[best] > (0.0 if per_cost else -np.inf):
            break
        chosen.append(best)
        total += float(gain[best])
        left -= float(costs[best])
    # a small document of a high ratio may leave no room for the best one (Khuller, Moss and Naor 1999)
    if per_cost and most > 0 and largest > total:
        chosen = [alone]
    return np.array(chosen, dtype=np.int64)


def greedy_for_loss(
    coverage: Coverage,
    benefits: Float,
    values: Float,
    k: int,
    loss: Callable[[Int], float],
    sign: float = 1.0,
) -> Selection:
    """Choose greedily by value plus ``sign`` times a loss that is only known by calling it with documents in order."""
    n = coverage.n_documents

    def losses(chosen: list[int]) -> Float:
        after = (0.0 if d in chosen else sign * loss(np.array([*chosen, d])) for d in range(n))
        return np.fromiter(after, np.float64, n)

    return _one_by_one(coverage, benefits, values, Limits(min(k, n), np.ones(n)), beside=losses)


def _one_by_one(
    coverage: Coverage,
    benefits: Float,
    values: Float,
    limits: Limits,
    *,
    beside: Callable[[list[int]], Float] | None = None,
    per_cost: bool = False,
) -> Selection:
    """Choose by :func:`greedy_by_gains`; what ``beside`` adds to the gains is not part of the gains returned."""
    uncovered = coverage.counts.copy()
    covered = np.zeros(coverage.element_bin.shape[0], dtype=np.bool_)
    own: list[Float] = []

    def gains(chosen: list[int]) -> Float:
        if chosen:
            _cover(chosen[-1], uncovered, covered, _arrays(coverage))
        own.append(values + products(uncovered, benefits))
        return own[-1] if beside is None else own[-1] + beside(chosen)

    chosen = greedy_by_gains(gains, limits, per_cost=per_cost)
    won = np.array([gain[d] for gain, d in zip(own, chosen.tolist(), strict=False)])
    return Selection(chosen, won, count_covered(coverage, chosen))


def count_covered(coverage: Coverage, chosen: Int) -> Float:
    """Count the elements covered by the chosen documents, by bin."""
    starts = coverage.doc_start
    elements = [coverage.doc_elements[starts[d] : starts[d + 1]] for d in chosen]
    shared, times = np.unique(np.concatenate([np.zeros(0, np.int64), *elements]), return_counts=True)
    again = np.bincount(coverage.element_bin[shared], times - 1, coverage.n_bins)
    return np.asarray(coverage.counts[chosen].sum(axis=0) - again)


def _arrays(coverage: Coverage) -> tuple[Any, Any, Any, Any, Any, Any]:
    return (
        coverage.counts, coverage.doc_start, coverage.doc_elements, coverage.element_start,
        coverage.element_documents, coverage.element_bin,
    )  # fmt: skip


def _choose(
    of: tuple[Any, ...], benefits: Float, values: Float, k: int, subtopics: Subtopics, *, sign: float = -1.0,
    free: NDArray[np.bool_] | None = None,
) -> Selection:  # fmt: skip
    """Run the kernel on the ``free`` documents, by default all, at least ``k``."""
    free = np.ones(values.shape[0], dtype=np.bool_) if free is None else free
    return Selection(*_greedy(of, benefits, values, free, k, subtopics, sign))


def _no_subtopics(n: int, k: int) -> Subtopics:
    return Subtopics(
        np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0), 0.0, np.ones(k)
    )


def _coverage_loss(subtopics: Subtopics | None, coverage: Coverage) -> Subtopics:
    if subtopics is None:
        return _no_subtopics(coverage.n_documents, 1)
    if subtopics.keep != 0.0:
        problem = "expected a coverage loss ('weighted' or 'unweighted'), got one that looks at the order"
        raise BadInput("loss", problem)
    return subtopics


# Gains are computed from integer counts, never updated as sums of rounded numbers: equal documents have equal gains,
# and a document with nothing left to cover has gain zero.


@kernel
def _loss(chosen, subtopics):  # type: ignore[no-untyped-def]
    sub_start, sub_index, weights, keep, discount = subtopics
    state = weights.copy()
    covered = 0.0
    for position in range(chosen.shape[0]):
        d = chosen[position]
        for i in range(sub_start[d], sub_start[d + 1]):
            covered += discount[position] * state[sub_index[i]]
            state[sub_index[i]] *= keep
    return 1.0 - covered


@kernel
def _cover(d, uncovered, covered, of):  # type: ignore[no-untyped-def]
    """Cover the elements of document ``d``: remove each newly covered element from the counts of all documents that
    have it."""
    # An element is covered once, so that all steps together cost the number of (document, element) entries at most.
    _, doc_start, doc_elements, element_start, element_documents, element_bin = of
    for i in range(doc_start[d], doc_start[d + 1]):
        e = doc_elements[i]
        if not covered[e]:
            covered[e] = True
            b = element_bin[e]
            for j in range(element_start[e], element_start[e + 1]):
                uncovered[element_documents[j], b] -= 1


@kernel
def _greedy(of, benefits, values, free, k, subtopics, sign):  # type: ignore[no-untyped-def]
    """Choose ``k`` of the ``free`` documents, each time the one of the largest gain; clear its flag."""
    # Gains include ``sign`` times the reduction of the loss; those returned are without it.
    counts, element_bin = of[0], of[5]
    sub_start, sub_index, weights, keep, discount = subtopics
    n = counts.shape[0]
    # Invariant: uncovered[d] counts the elements of document d that no chosen document covers, by bin; so gains refer
    # to the next step, and only ``_cover`` changes them.
    uncovered = counts.copy()
    covered = np.zeros(element_bin.shape[0], dtype=np.bool_)
    state = weights.copy()
    total = np.zeros(counts.shape[1])
    chosen = np.empty(k, dtype=np.int64)
    gains = np.empty(k)
    for m in range(k):
        best, most = -1, 0.0
        for d in range(n):
            if free[d]:
                own = values[d] + dot(uncovered[d], benefits)
                gain = own
                for i in range(sub_start[d], sub_start[d + 1]):
                    gain += sign * discount[m] * state[sub_index[i]]
                if best < 0 or gain > most:
                    best, most, gains[m] = d, gain, own
        chosen[m] = best
        free[best] = False
        for b in range(total.shape[0]):
            total[b] += uncovered[best, b]
        # nothing is left to update after the last choice
        if m < k - 1:
            _cover(chosen[m], uncovered, covered, of)
            for i in range(sub_start[best], sub_start[best + 1]):
                state[sub_index[i]] *= keep
    return chosen, gains, total


@kernel
def _shift(d, by, cover, uncovered, of, sub_start, sub_index, sub_cover):  # type: ignore[no-untyped-def]
    """Add (``by`` = 1) or remove (-1) a document; ``uncovered`` follows the elements whose state changes."""
    _, doc_start, doc_elements, element_start, element_documents, element_bin = of
    for i in range(doc_start[d], doc_start[d + 1]):
        e = doc_elements[i]
        cover[e] += by
        if cover[e] == (1 if by > 0 else 0):
            b = element_bin[e]
            for j in range(element_start[e], element_start[e + 1]):
                uncovered[element_documents[j], b] -= by
    for i in range(sub_start[d], sub_start[d + 1]):
        sub_cover[sub_index[i]] += by


@kernel
def _swap(of, benefits, values, start, subtopics):  # type: ignore[no-untyped-def]
    """Replace one document at a time by the best alternative, until no replacement improves the value."""
    # ``cover`` counts the chosen documents that have each element. It is a count, not a flag, as documents are removed,
    # too; ``uncovered`` changes where the count becomes 0 or 1. Every exchange raises the value by more than rounding
    # errors, so that no selection is visited twice.
    counts, element_bin = of[0], of[5]
    sub_start, sub_index, weights, _, _ = subtopics
    n = counts.shape[0]
    chosen = start.copy()
    uncovered = counts.copy()
    cover = np.zeros(element_bin.shape[0], dtype=np.int32)
    sub_cover = np.zeros(weights.shape[0], dtype=np.int32)
    free = np.ones(n, dtype=np.bool_)
    more, less = np.int64(1), np.int64(-1)  # each literal would have _shift compiled for itself
    for d in chosen:
        free[d] = False
        _shift(d, more, cover, uncovered, of, sub_start, sub_index, sub_cover)
    improved = True
    while improved:
        improved = False
        for position in range(chosen.shape[0]):
            old = chosen[position]
            _shift(old, less, cover, uncovered, of, sub_start, sub_index, sub_cover)
            free[old] = True
            best, best_gain, old_gain = -1, 0.0, 0.0
            for d in range(n):
                if free[d]:
                    gain = values[d] + dot(uncovered[d], benefits)
                    for i in range(sub_start[d], sub_start[d + 1]):
                        if sub_cover[sub_index[i]] == 0:
                            gain -= weights[sub_index[i]]
                    if d == old:
                        old_gain = gain
                    if best < 0 or gain > best_gain:
                        best, best_gain = d, gain
            # by more than rounding, which could cause a cycle
            if best_gain > old_gain + 1e-10 * (abs(best_gain) + abs(old_gain)):
                improved = True
            else:
                best = old
            chosen[position] = best
            free[best] = False
            _shift(chosen[position], more, cover, uncovered, of, sub_start, sub_index, sub_cover)
    return chosen
