"""Choose documents from a candidate set: greedily, with exchanges, or within a budget.

A candidate set is a :class:`~structsvm.common.candidates.Coverage`. A model assigns a benefit to each bin of elements,
and a value to each document. The value of a subset is the sum of the benefits of all elements that it covers, each
counted once, and of the values of its documents. In training, a loss over labelled subtopics is added.
"""

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
"""Names of the losses: the weighted fraction of subtopics that are not covered, the unweighted fraction
(1 - subtopic recall@K), and 1 - alpha-NDCG@K."""


class Selection(NamedTuple):
    """The chosen documents in order, the marginal gain of each, and the number of covered elements per bin."""

    chosen: Int
    gains: Float
    counts: Float

    @property
    def value(self) -> float:
        return float(self.gains.sum())


class Subtopics(NamedTuple):
    """A loss over labelled subtopics of one set: ``1 - sum_k discount[k] * sum of the states of the subtopics of
    document k``.

    The state of a subtopic is initially its weight, and is multiplied by ``keep`` each time a document covers it.
    ``keep`` is 1 - alpha for alpha-NDCG and 0 for the other losses.
    """

    start: Int
    members: NDArray[np.int32]
    weights: Float
    keep: float
    discount: Float

    def loss(self, chosen: Any) -> float:
        """Return the loss of documents in the order of ``chosen``; documents beyond the length of ``discount`` are
        ignored."""
        rows = np.asarray(chosen, dtype=np.int64)[: self.discount.shape[0]]
        return float(_loss(rows, self))

    def target(self) -> Int:
        """Choose documents greedily to cover the subtopics (thesis 4.3); ties are broken by document index."""
        n, k = self.start.shape[0] - 1, self.discount.shape[0]
        empty = np.zeros(0, dtype=np.int32)
        ends = np.zeros(n + 1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        nothing = np.zeros((n, 0), dtype=np.int32), ends[0], empty, ends[1], empty, empty
        return _choose(nothing, np.zeros(0), np.zeros(n), k, self, sign=1.0).chosen


def bind_loss(loss: str, labels: NDArray[np.bool_], k: int, *, alpha: float = 0.5) -> Subtopics:
    """Return the loss "weighted" (figure 4.4), "unweighted" or "alpha_ndcg", bound to the labels of one set; it is at
    most 1."""
    # alpha-NDCG is normalised by the greedy ideal ranking of the candidates (Clarke et al. 2008)
    if loss not in COVERAGE_LOSSES:
        problem = f"expected one of {', '.join(map(repr, COVERAGE_LOSSES))}, or a callable"
        raise BadInput("loss", problem, value=loss)
    # a subtopic that no candidate covers has weight zero
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
    """Choose ``k`` documents, each with the largest marginal gain (thesis, algorithm 3); ties are broken by document
    index.

    Marginal gains are exact. When a document is chosen, only the gains of documents that share words with it are
    updated. Benefits may be negative. As ``k`` documents are required, a document is chosen even if its gain is
    negative.

    Parameters
    ----------
    coverage : Coverage
        The candidate set.
    benefits : ndarray, shape (n_bins,)
        Benefit of covering an element of each bin.
    values : ndarray, shape (n_documents,)
        Value of each document, in addition to the benefits.
    k : int
        Number of documents to choose; if there are fewer, all are chosen.
    subtopics : Subtopics, optional
        A loss to add to the value in every step, to find the most violated output during training. The returned gains
        and value exclude it. None means no loss.

    Returns
    -------
    Selection
        If benefits and values are nonnegative, its value is at least ``1 - 1/e`` times the optimum (thesis, appendix
        A). On 500 random sets, the ratio to the optimum was at least 0.88 and on average 0.996; 87 % of the selections
        were optimal.

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
    """Choose documents as :func:`greedy` does, then exchange single documents until no exchange improves the value.

    Parameters
    ----------
    coverage, benefits, values, k
        As in :func:`greedy`.
    subtopics : Subtopics, optional
        A coverage loss to add to the value, both in the greedy choice and in the exchanges. The returned gains and
        value exclude it. None means no loss.

    Returns
    -------
    Selection
        Documents in the order in which greedy would choose them by value alone. The value, including the loss if given,
        is at least that of greedy, but not necessarily the optimum.

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
    """Choose documents with a total cost of at most ``budget``, in descending order of gain per cost, while gains are >
    0.

    If the best single document within the budget has a higher value than this selection, it is chosen alone. With
    nonnegative benefits, the value is then at least ``(1 - 1/e) / 2`` times the optimum (Khuller, Moss and Naor 1999);
    choosing only by gain per cost has no such guarantee. Nor is there a guarantee if ``k`` also limits the number of
    documents.

    Parameters
    ----------
    coverage, benefits, values
        As in :func:`greedy`.
    costs : ndarray, shape (n_documents,)
        Cost of each document, finite and > 0, in the unit of ``budget``, such as the number of words.
    budget : float
        Maximum total cost, finite and >= 0.
    k : int, optional
        Maximum number of documents; None means no limit.

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
    """Return the documents ``chosen`` in the order in which greedy would choose them."""
    free = np.zeros(coverage.n_documents, dtype=np.bool_)
    free[chosen] = True
    k = chosen.shape[0]
    return _choose(_arrays(coverage), benefits, values, k, _no_subtopics(free.size, k), free=free)


def greedy_by_gains(gains: Callable[[list[int]], Float], limits: Limits, *, per_cost: bool = False) -> Int:
    """Choose documents one at a time, each with the largest of ``gains(chosen so far)`` among those within ``limits``.

    If ``per_cost`` is True and there is a budget, choose by gain per cost, while it is positive. As in
    :func:`budgeted`, the best single document is chosen instead if its gain exceeds the total gain.
    """
    most, costs, budget = limits
    per_cost = per_cost and budget < np.inf
    left = budget * (1.0 + 1e-12)  # tolerates rounding errors in the sum of costs
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
        # stop at a gain per cost of zero; otherwise only the order of gains matters, and -inf means that nothing fits
        if not ranked[best] > (0.0 if per_cost else -np.inf):
            break
        chosen.append(best)
        total += float(gain[best])
        left -= float(costs[best])
    # a cheap document with a high gain per cost may exclude the best document (Khuller, Moss and Naor 1999)
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
    """Choose greedily by value plus ``sign`` times a callable loss, which is evaluated on the chosen documents in
    order."""
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
    """Choose by :func:`greedy_by_gains`; ``beside(chosen)`` affects the choice, but not the returned gains."""
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
    """Return the number of elements per bin that the chosen documents cover."""
    starts = coverage.doc_start
    elements = [coverage.doc_elements[starts[d] : starts[d + 1]] for d in chosen]
    shared, times = np.unique(np.concatenate([np.zeros(0, np.int64), *elements]), return_counts=True)
    again = np.bincount(coverage.element_bin[shared], times - 1, coverage.n_bins)
    return np.asarray(coverage.counts[chosen].sum(axis=0) - again)


def _arrays(coverage: Coverage) -> tuple[Any, Any, Any, Any, Any, Any]:
    return (
        coverage.counts,
        coverage.doc_start,
        coverage.doc_elements,
        coverage.element_start,
        coverage.element_documents,
        coverage.element_bin,
    )


def _choose(
    of: tuple[Any, ...],
    benefits: Float,
    values: Float,
    k: int,
    subtopics: Subtopics,
    *,
    sign: float = -1.0,
    free: NDArray[np.bool_] | None = None,
) -> Selection:
    """Run the greedy kernel on the ``free`` documents (all by default), of which there must be at least ``k``."""
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
        problem = "expected a coverage loss ('weighted' or 'unweighted'), got one that depends on the order"
        raise BadInput("loss", problem)
    return subtopics


# Gains are recomputed from integer counts, so that they contain no accumulated rounding errors: equal documents have
# equal gains, and a document without uncovered elements has only its own value as gain.


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
    """Cover the elements of document ``d``: subtract each newly covered element from the counts of all documents that
    contain it."""
    # Each element is covered only once, so that all steps together cost at most the number of (document, element)
    # entries.
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
    """Choose ``k`` of the ``free`` documents, each with the largest gain, and clear their flags."""
    # Gains include ``sign`` times the reduction of the loss; the returned gains do not.
    counts, element_bin = of[0], of[5]
    sub_start, sub_index, weights, keep, discount = subtopics
    n = counts.shape[0]
    # Invariant: uncovered[d] counts, per bin, the elements of document d that no chosen document covers. Gains computed
    # from these counts are therefore marginal gains, and only ``_cover`` changes the counts.
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
        # the counts are not needed after the last choice
        if m < k - 1:
            _cover(chosen[m], uncovered, covered, of)
            for i in range(sub_start[best], sub_start[best + 1]):
                state[sub_index[i]] *= keep
    return chosen, gains, total


@kernel
def _shift(d, by, cover, uncovered, of, sub_start, sub_index, sub_cover):  # type: ignore[no-untyped-def]
    """Add (``by`` = 1) or remove (``by`` = -1) a document, and update ``uncovered`` for elements that become covered or
    uncovered."""
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
    # ``cover`` counts the chosen documents that contain each element. A flag would not suffice, because documents are
    # also removed; ``uncovered`` changes when a count becomes 0 or 1. Every exchange increases the value by more than
    # rounding errors, so that no selection is visited twice.
    counts, element_bin = of[0], of[5]
    sub_start, sub_index, weights, _, _ = subtopics
    n = counts.shape[0]
    chosen = start.copy()
    uncovered = counts.copy()
    cover = np.zeros(element_bin.shape[0], dtype=np.int32)
    sub_cover = np.zeros(weights.shape[0], dtype=np.int32)
    free = np.ones(n, dtype=np.bool_)
    more, less = np.int64(1), np.int64(-1)  # variables, as _shift would be compiled for each literal
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
            # require an improvement above rounding errors, which could cause a cycle
            if best_gain > old_gain + 1e-10 * (abs(best_gain) + abs(old_gain)):
                improved = True
            else:
                best = old
            chosen[position] = best
            free[best] = False
            _shift(chosen[position], more, cover, uncovered, of, sub_start, sub_index, sub_cover)
    return chosen
