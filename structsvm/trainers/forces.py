"""The forces of LambdaRank between documents, used in place of a gradient, because ranking measures have none.

Burges, Ragno and Le (2006); Yue's thesis, section 3.4.2, (3.18) and (3.19). ``lambda_ij = |U after swapping i and j -
U| / (1 + exp(s_i - s_j))`` for ``y_i > y_j`` pulls ``i`` up and pushes ``j`` down.
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp
from structsvm.common.portable.elementary import exp2, log2
from structsvm.protocols import Float, Int

Gain = Literal["exponential", "linear"]
_NDCG, _MAP, _MRR, _RANKNET = range(4)
_KINDS = {"ndcg": _NDCG, "map": _MAP, "mrr": _MRR, "ranknet": _RANKNET}


@dataclass(frozen=True)
class Utility:
    """A measure of one ranking and its parameters, encoded for the kernels."""

    kind: int
    k: int  # cut-off of NDCG, or -1 for none
    relevance: float  # lowest label of a relevant document, for AP and MRR
    gain: Gain  # gain of a label, for NDCG; negative labels have gain 0

    @classmethod
    def of(cls, name: str, *, relevance: float = 1.0, gain: Gain = "exponential") -> Self:
        """Return the utility named ``"ndcg"``, ``"ndcg@10"`` (any cut-off), ``"map"``, ``"mrr"`` or ``"ranknet"``."""
        known = r"(ndcg)@([1-9][0-9]*)|(ndcg|map|mrr|ranknet)"
        match = re.fullmatch(known, name) if isinstance(name, str) else None
        if match is None:
            raise BadInput(
                "utility", "expected 'ndcg', 'ndcg@k' with k >= 1, 'map', 'mrr' or 'ranknet'", value=name
            )
        check_choice("gain", gain, ("exponential", "linear"))
        return cls(_KINDS[match[1] or match[3]], int(match[2] or -1), float(relevance), gain)


class _Labels(NamedTuple):
    """Labels of rows grouped by query, prepared for the kernels."""

    grade: Float
    gain: Float
    relevant: NDArray[np.bool_]
    scale: Float
    """Per query, 1 / the largest possible sum of gains, precisions or reciprocal ranks, or 0 if that sum is 0."""
    discount: Float


class BoundUtility:
    """A utility bound to the labels of grouped rows; ``informative`` marks the queries whose utility depends on the
    ranking."""

    def __init__(self, utility: Utility, y: Float, offsets: Int) -> None:
        self._labels, self.informative = _prepare(y, offsets, utility)
        self._kind, self._depth = utility.kind, _depth(utility)
        self._offsets = offsets

    def forces(self, scores: Float, queries: Int) -> tuple[Float, Float]:
        """Return the force on each document of ``queries`` and the utility of each query, given their concatenated
        scores."""
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        force, value = np.empty(scores.shape[0]), np.empty(queries.shape[0])
        ranked = _ranked(scores, np.diff(self._offsets)[queries])
        _forces(scores, ranked, queries, self._offsets, self._kind, self._depth, *self._labels, force, value)
        return force, value


def forces(scores: Float, y: Float, offsets: Int, utility: Utility) -> tuple[Float, Float]:
    """Return the force on each document, in the direction of higher scores, and the utility of each query.

    Documents with equal scores rank in the order of their rows. The utility is 0 if no document has a gain.
    """
    return BoundUtility(utility, y, offsets).forces(scores, np.arange(offsets.shape[0] - 1))


def _ranked(scores: Float, lengths: Int) -> Int:
    """Return the indices that sort concatenated scores in descending order within each query, given the query
    lengths."""
    return np.lexsort((-scores, np.repeat(np.arange(lengths.shape[0]), lengths)))


def _depth(utility: Utility) -> int:
    """Return the rank index from which on swapping two documents does not change the utility."""
    deepest = np.iinfo(np.int64).max
    return min(utility.k, deepest) if utility.kind == _NDCG and utility.k > 0 else deepest


def _prepare(y: Float, offsets: Int, utility: Utility) -> tuple[_Labels, NDArray[np.bool_]]:
    """Return the labels for the kernels, and a mask of the queries whose utility depends on the ranking."""
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    gain = np.maximum(y, 0.0)
    if utility.kind == _NDCG:
        with np.errstate(over="ignore"):
            gain = exp2(gain) - 1.0 if utility.gain == "exponential" else gain
            overflows = not np.isfinite(gain.sum())
        if overflows:
            raise BadInput(
                "y",
                f"expected labels whose gains have a finite sum, got a label {y.max():g}",
                "use {gain='linear'} or smaller grades",
            )
    relevant = y >= utility.relevance
    discount = 1.0 / log2(np.arange(longest) + 2.0)
    if utility.kind == _NDCG and utility.k > 0:
        discount[utility.k :] = 0.0
    number = np.repeat(np.arange(lengths.shape[0]), lengths)
    best: Float
    if utility.kind == _NDCG:
        ideal: Float = gain[np.lexsort((-gain, number))]
        rank = np.arange(y.shape[0]) - np.repeat(offsets[:-1], lengths)
        best = np.asarray(np.bincount(number, ideal * discount[rank], lengths.shape[0]), dtype=np.float64)
        worth = gain
    elif utility.kind == _RANKNET:
        best, worth = np.ones(lengths.shape[0]), y
    else:
        best = np.asarray(np.bincount(number, relevant, lengths.shape[0]), dtype=np.float64)
        if utility.kind == _MRR:
            best = np.minimum(best, 1.0)
        worth = relevant.astype(np.float64)
    scale = np.divide(1.0, best, out=np.zeros(lengths.shape[0]), where=best > 0)
    varied = np.maximum.reduceat(worth, offsets[:-1]) > np.minimum.reduceat(worth, offsets[:-1])
    labels = _Labels(np.asarray(y, dtype=np.float64), gain, relevant, scale, discount)
    return labels, varied & (scale > 0)


# ---- kernels


@kernel
def _by_rank(order, first, grade, gain, relevant, grades, gains, hits, count, harmonic):  # type: ignore[no-untyped-def]
    """Fill in the labels in rank order, and the number and the sum of 1/rank of the relevant documents above each rank
    index."""
    n = order.shape[0]
    count[0] = harmonic[0] = 0.0
    for r in range(n):
        row = first + order[r]
        grades[r], gains[r], hits[r] = grade[row], gain[row], relevant[row]
        count[r + 1], harmonic[r + 1] = count[r], harmonic[r]
        if hits[r]:
            count[r + 1] += 1.0
            harmonic[r + 1] += 1.0 / (r + 1)


@kernel
def _first_hits(hits, n):  # type: ignore[no-untyped-def]
    """Return the rank indices of the first and second relevant documents, each ``n`` if it does not exist."""
    first = second = n
    for r in range(n):
        if hits[r]:
            if first == n:
                first = r
            else:
                second = r
                break
    return first, second


@kernel
def _change(  # type: ignore[no-untyped-def]
    kind, a, b, gain_a, gain_b, hit_a, hit_b, count_a, count_b, between, discount, scale, first, second
):
    """Return the change of the utility when the documents at the rank indices ``a < b`` swap."""
    # ``count_a`` and ``count_b`` are the numbers of relevant documents at or above ``a`` and ``b``; ``between`` is the
    # sum of 1/rank over relevant documents between them. All arguments are numbers, because for arrays Numba would
    # count references for each pair, which costs as much as the computation itself.
    if kind == _RANKNET:
        return 1.0
    if kind == _NDCG:
        return (gain_b - gain_a) * discount * scale
    if hit_a == hit_b:
        return 0.0
    if kind == _MAP:
        # AP is the mean over relevant documents of (number of relevant documents at or above) / rank. The swap moves
        # one relevant document, and each relevant document between the two has one fewer (or one more) above it.
        if hit_a:
            return (count_b / (b + 1) - count_a / (a + 1) - between) * scale
        return ((count_a + 1.0) / (a + 1) - count_b / (b + 1) + between) * scale
    # MRR: only the first relevant document counts, or the second if the first moves below it
    if hit_a:
        return (1.0 / (min(second, b) + 1) - 1.0 / (a + 1)) * scale if a == first else 0.0
    return (1.0 / (a + 1) - 1.0 / (first + 1)) * scale if a < first else 0.0


@kernel
def _value(kind, n, gains, hits, count, discount, scale, first):  # type: ignore[no-untyped-def]
    """Return the utility of one query from its labels in rank order."""
    total = 0.0
    if kind == _NDCG:
        for r in range(n):
            total += gains[r] * discount[r]
    elif kind == _MAP:
        for r in range(n):
            if hits[r]:
                total += count[r + 1] / (r + 1)
    elif kind == _MRR and first < n:
        total = 1.0 / (first + 1)
    return total * scale


@kernel
def _forces(  # type: ignore[no-untyped-def]
    scores, ranked, queries, offsets, kind, depth, grade, gain, relevant, scale, discount, force, value
):
    """Fill in the forces and utilities of the given queries, whose scores are concatenated; ``ranked`` sorts the scores
    of each query in descending order."""
    # Visit all pairs of rank indices a < b. Swaps of two documents below the cut-off change nothing, so ``a`` stops at
    # the cut-off.
    longest = discount.shape[0]
    grades, gains, hits = np.empty(longest), np.empty(longest), np.empty(longest, np.bool_)
    count, harmonic = np.empty(longest + 1), np.empty(longest + 1)
    sorted_scores, pull = np.empty(longest), np.empty(longest)
    start = 0
    for i in range(queries.shape[0]):
        q = queries[i]
        n = offsets[q + 1] - offsets[q]
        order = ranked[start : start + n]
        _by_rank(order, offsets[q] - start, grade, gain, relevant, grades, gains, hits, count, harmonic)
        first, second = _first_hits(hits, n)
        for r in range(n):
            sorted_scores[r] = scores[order[r]]
            pull[r] = 0.0
        stop = min(n, depth)
        if kind == _MRR:
            stop = min(n, first + 1)  # swaps below the first relevant document change nothing
        # A pair pulls its better document up by |change| / (1 + exp(s_better - s_worse)) and pushes its worse document
        # down by the same amount (thesis, (3.19)). The force is near zero for pairs in the right order by a wide
        # margin.
        n_right = n_pairs = 0
        for a in range(stop):
            for b in range(a + 1, n):
                if grades[a] == grades[b]:
                    continue
                change = abs(
                    _change(
                        kind,
                        a,
                        b,
                        gains[a],
                        gains[b],
                        hits[a],
                        hits[b],
                        count[a + 1],
                        count[b + 1],
                        harmonic[b] - harmonic[a + 1],
                        discount[a] - discount[b],
                        scale[q],
                        first,
                        second,
                    )
                )
                n_pairs += 1
                if grades[a] > grades[b]:
                    n_right += sorted_scores[a] > sorted_scores[b]
                if change == 0.0:
                    continue
                gap = sorted_scores[a] - sorted_scores[b]
                if grades[a] > grades[b]:
                    pair = change / (1.0 + exp(gap))
                    pull[a] += pair
                    pull[b] -= pair
                else:
                    pair = change / (1.0 + exp(-gap))
                    pull[a] -= pair
                    pull[b] += pair
        for r in range(n):
            force[order[r]] = pull[r]
        if kind == _RANKNET:
            value[i] = n_right / n_pairs if n_pairs else 0.0
        else:
            value[i] = _value(kind, n, gains, hits, count, discount, scale[q], first)
        start += n
