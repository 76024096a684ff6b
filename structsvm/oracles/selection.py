"""Choose documents from a candidate set: greedily, with exchanges, or within a budget.

A candidate set is a :class:`~structsvm.common.candidates.Coverage`. A model assigns a benefit to each bin of elements,
and a value to each document. The value of a subset is the sum of the benefits of all elements that it covers, each
counted once, and of the values of its documents. Labelled subtopics can be elements as well
(:func:`with_subtopics`): in training, each has its share of the loss as a negative benefit.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structsvm.common.candidates import Coverage, Limits
from structsvm.common.checks import BadInput
from structsvm.common.greedy import Gains, greedy_by_gains
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Int


class Selection(NamedTuple):
    """The chosen documents in order, and the marginal gain of each."""

    chosen: Int
    gains: Float

    @property
    def value(self) -> float:
        return float(self.gains.sum())


def with_subtopics(coverage: Coverage, members: NDArray[np.bool_]) -> Coverage:
    """Return the coverage with one more element for each subtopic; each of these elements has its own bin.

    ``members``, shape (n_documents, n_subtopics), flags the documents that cover each subtopic.
    """
    n, n_elements = coverage.n_documents, coverage.element_bin.shape[0]
    entries = np.ones(coverage.doc_elements.shape[0], dtype=np.bool_)
    own = sparse.csr_matrix((entries, coverage.doc_elements, coverage.doc_start), shape=(n, n_elements))
    documents = sparse.hstack([own, sparse.csr_matrix(members)], format="csr")
    elements = documents.tocsc()
    return Coverage(
        np.hstack([coverage.counts, members.astype(np.int32)]),
        documents.indptr.astype(np.int64),
        documents.indices.astype(np.int32),
        elements.indptr.astype(np.int64),
        elements.indices.astype(np.int32),
        np.append(coverage.element_bin, coverage.n_bins + np.arange(members.shape[1], dtype=np.int32)),
        coverage.features,
    )


def greedy(
    coverage: Coverage, benefits: Float, values: Float, k: int, *, beside: Gains | None = None
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
    beside : callable, optional
        Function from the documents chosen so far to numbers that are added to the gains of all documents, such as their
        effect on a loss. The returned gains and value exclude them.

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
    return _one_by_one(coverage, benefits, values, Limits(min(k, n), np.ones(n)), beside=beside)


def swap(coverage: Coverage, benefits: Float, values: Float, k: int) -> Selection:
    """Choose documents as :func:`greedy` does, then exchange single documents until no exchange improves the value.

    Parameters
    ----------
    coverage, benefits, values, k
        As in :func:`greedy`.

    Returns
    -------
    Selection
        Documents in the order in which greedy would choose them. The value is at least that of greedy, but not
        necessarily the optimum.

    Examples
    --------
    >>> from structsvm.common.candidates import CandidateSet
    >>> from structsvm.features.word_features import Level, WordFeatures
    >>> features = WordFeatures([Level.appears()], [0.0])
    >>> coverage = features.coverage(CandidateSet(["a1 a2 b1 b2", "a1 a2 a3", "b1 b2 b3"]))
    >>> [choose(coverage, np.array([1.0]), np.zeros(3), 2).value for choose in (greedy, swap)]
    [5.0, 6.0]
    """
    return in_greedy_order(coverage, benefits, values, swapped(coverage, benefits, values, k))


def swapped(coverage: Coverage, benefits: Float, values: Float, k: int) -> Int:
    """Return the documents of :func:`swap` in no particular order."""
    return np.asarray(
        _swap(_arrays(coverage), benefits, values, greedy(coverage, benefits, values, k).chosen)
    )


def budgeted(
    coverage: Coverage, benefits: Float, values: Float, costs: Float, budget: float, *, k: int | None = None
) -> Selection:
    """Choose documents with a total cost of at most ``budget``, in descending order of gain per cost, as long as gains
    are positive.

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
    return _one_by_one(
        coverage, benefits, values, Limits(n if k is None else min(k, n), costs, float(budget)), per_cost=True
    )


def in_greedy_order(coverage: Coverage, benefits: Float, values: Float, chosen: Int) -> Selection:
    """Return the documents ``chosen`` in the order in which greedy would choose them."""
    others = np.full(coverage.n_documents, -np.inf)
    others[chosen] = 0.0
    return greedy(coverage, benefits, values, chosen.shape[0], beside=lambda _: others)


def _one_by_one(
    coverage: Coverage,
    benefits: Float,
    values: Float,
    limits: Limits,
    *,
    beside: Gains | None = None,
    per_cost: bool = False,
) -> Selection:
    """Choose by :func:`greedy_by_gains`; ``beside(chosen)`` affects the choice, but not the returned gains."""
    # Invariant: uncovered[d] counts, per bin, the elements of document d that no chosen document covers. Gains are
    # computed from these integers, so that they contain no accumulated rounding errors: equal documents have equal
    # gains, and a document without uncovered elements has only its own value as gain.
    uncovered, arrays = coverage.counts.copy(), _arrays(coverage)
    cover = np.zeros(coverage.element_bin.shape[0], dtype=np.int32)
    own: list[Float] = []

    def gains(chosen: list[int]) -> Float:
        if chosen:
            _shift(chosen[-1], 1, cover, uncovered, arrays)
        own.append(_gains(uncovered, benefits, values))
        return own[-1] if beside is None else own[-1] + beside(chosen)

    chosen = greedy_by_gains(gains, limits, per_cost=per_cost)
    return Selection(chosen, np.array([gain[d] for gain, d in zip(own, chosen.tolist(), strict=False)]))


def count_covered(coverage: Coverage, chosen: Int) -> Float:
    """Return the number of elements per bin that the chosen documents cover."""
    return np.asarray(_count(chosen, _arrays(coverage)))


def _arrays(coverage: Coverage) -> tuple[Any, Any, Any, Any, Any, Any]:
    return (
        coverage.counts,
        coverage.doc_start,
        coverage.doc_elements,
        coverage.element_start,
        coverage.element_documents,
        coverage.element_bin,
    )


@kernel
def _count(chosen, of):  # type: ignore[no-untyped-def]
    counts, doc_start, doc_elements, _, _, element_bin = of
    total = np.zeros(counts.shape[1])
    seen = np.zeros(element_bin.shape[0], dtype=np.bool_)
    for d in chosen:
        for b in range(total.shape[0]):
            total[b] += counts[d, b]
        for i in range(doc_start[d], doc_start[d + 1]):
            e = doc_elements[i]
            if seen[e]:
                total[element_bin[e]] -= 1.0
            seen[e] = True
    return total


@kernel
def _gains(uncovered, benefits, values):  # type: ignore[no-untyped-def]
    out = values.copy()
    for d in range(out.shape[0]):
        out[d] += dot(uncovered[d], benefits)
    return out


@kernel
def _shift(d, by, cover, uncovered, of):  # type: ignore[no-untyped-def]
    """Add (``by`` = 1) or remove (``by`` = -1) a document, and update ``uncovered`` for elements that become covered or
    uncovered."""
    # If documents are only added, each element is covered only once, so that all steps together cost at most the number
    # of (document, element) entries.
    _, doc_start, doc_elements, element_start, element_documents, element_bin = of
    for i in range(doc_start[d], doc_start[d + 1]):
        e = doc_elements[i]
        cover[e] += by
        if cover[e] == (1 if by > 0 else 0):
            b = element_bin[e]
            for j in range(element_start[e], element_start[e + 1]):
                uncovered[element_documents[j], b] -= by


@kernel
def _swap(of, benefits, values, start):  # type: ignore[no-untyped-def]
    """Replace one document at a time by the best alternative, until no replacement improves the value."""
    # ``cover`` counts the chosen documents that contain each element. A flag would not suffice, because documents are
    # also removed; ``uncovered`` changes when a count becomes 0 or 1. Every exchange increases the value by more than
    # rounding errors, so that no selection is visited twice.
    counts, element_bin = of[0], of[5]
    n = counts.shape[0]
    chosen = start.copy()
    uncovered = counts.copy()
    cover = np.zeros(element_bin.shape[0], dtype=np.int32)
    free = np.ones(n, dtype=np.bool_)
    more, less = np.int64(1), np.int64(-1)  # variables, as _shift would be compiled for each literal
    for d in chosen:
        free[d] = False
        _shift(d, more, cover, uncovered, of)
    improved = True
    while improved:
        improved = False
        for position in range(chosen.shape[0]):
            old = chosen[position]
            _shift(old, less, cover, uncovered, of)
            free[old] = True
            best, best_gain, old_gain = -1, 0.0, 0.0
            for d in range(n):
                if free[d]:
                    gain = values[d] + dot(uncovered[d], benefits)
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
            _shift(chosen[position], more, cover, uncovered, of)
    return chosen
