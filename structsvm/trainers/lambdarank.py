"""LambdaRank: ascend along forces between documents that stand for the gradient of a measure which has none.

Burges, Ragno and Le (2006); Yue's thesis, chapter 2. ``lambda_ij = |U after swapping i and j - U| / (1 + exp(s_i -
s_j))`` for ``y_i > y_j`` pulls ``i`` up and pushes ``j`` down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from structsvm.checks import BadInput, check_choice
from structsvm.protocols import Float, Int

__all__ = [
    "Epoch", "LambdaRankFit", "Utility", "ascend", "backpropagate", "forces", "forward", "network_scores",
    "swap_changes",
]  # fmt: skip

Gain = Literal["exponential", "linear"]
_KINDS = {"ndcg": 0, "map": 1, "mrr": 2, "ranknet": 3}
_SCORE_ROWS = 4096


@dataclass(frozen=True)
class Utility:
    """A measure of one ranking, ready for the kernels.

    Attributes
    ----------
    kind : int
    k : int
        Cut-off of NDCG, -1 for none.
    relevance : float
        Label from which a document is relevant for AP and MRR.
    gain : {"exponential", "linear"}
        Of NDCG: ``2^y - 1`` or ``y``; 0 for negative labels.
    """

    kind: int
    k: int
    relevance: float
    gain: Gain

    @classmethod
    def of(cls, name: str, *, relevance: float = 1.0, gain: Gain = "exponential") -> Utility:
        """From ``"ndcg"``, ``"ndcg@10"`` (any cut-off), ``"map"``, ``"mrr"`` or ``"ranknet"``.

        Raises
        ------
        ValueError
            For another name or gain.
        """
        found = (
            re.fullmatch(r"(ndcg)@([1-9][0-9]*)|(ndcg|map|mrr|ranknet)", name)
            if isinstance(name, str)
            else None
        )
        if found is None:
            raise BadInput(
                "utility", "expected 'ndcg', 'ndcg@k' with k >= 1, 'map', 'mrr' or 'ranknet'", value=name
            )
        check_choice("gain", gain, ("exponential", "linear"))
        return cls(_KINDS[found[1] or found[3]], int(found[2] or -1), float(relevance), gain)


class _Labels(NamedTuple):
    """What the kernels read of the labels, rows grouped by query."""

    grade: Float
    gain: Float
    relevant: NDArray[np.bool_]
    scale: Float
    """One a query: what a unit of gain, of precision or of reciprocal rank is worth; 0 without anything to gain."""
    discount: Float


class Epoch(NamedTuple):
    """What a callback is told after each pass over the queries.

    Attributes
    ----------
    number : int
        From 1.
    training : float
        Mean utility of the training queries, each as it was met during the pass.
    validation : float
        Mean utility on the validation queries, NaN without any.
    """

    number: int
    training: float
    validation: float


@dataclass(frozen=True, eq=False)
class LambdaRankFit:
    """A trained scorer.

    Attributes
    ----------
    weights : list of ndarray
        ``W_1, b_1, ..., W_out`` of the net, of the features ``(x - shift) * factor``. A linear scorer is ``W_out``
        alone; the last layer has no bias, since a constant changes no ranking.
    shift, factor : ndarray, shape (n_features,)
    history : list of Epoch
    best_epoch : int
        The pass whose weights these are.
    """

    weights: list[Float]
    shift: Float
    factor: Float
    history: list[Epoch]
    best_epoch: int

    @property
    def raw_weights(self) -> list[Float]:
        """The same net on raw features, with a bias in every layer but a linear scorer's."""
        first = self.weights[0] * (self.factor[:, None] if self.weights[0].ndim == 2 else self.factor)
        if len(self.weights) == 1:
            return [first]
        return [first, self.weights[1] - self.shift @ first, *self.weights[2:]]


def forces(scores: Float, y: Float, offsets: Int, utility: Utility) -> tuple[Float, Float]:
    """The force on each document, in the direction of higher scores, and the utility of each query.

    Parameters
    ----------
    scores, y : ndarray of float64, shape (n_rows,)
        Grouped by query. Equal scores rank in the order they stand.
    offsets : ndarray of int64, shape (n_queries + 1,)
    utility : Utility

    Returns
    -------
    force : ndarray of float64, shape (n_rows,)
        Sums to zero over each query.
    value : ndarray of float64, shape (n_queries,)
        0 where the labels leave nothing to gain. For "ranknet" the share of pairs in the right order.

    Examples
    --------
    >>> force, value = forces(np.zeros(2), np.array([0.0, 1.0]), np.array([0, 2]), Utility.of("ranknet"))
    >>> force, value
    (array([-0.5,  0.5]), array([0.]))
    """
    labels, _ = _prepare(y, offsets, utility)
    n_queries = offsets.shape[0] - 1
    force, value = np.empty(scores.shape[0]), np.empty(n_queries)
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    _forces(
        scores, _ranked(scores, np.diff(offsets)), np.arange(n_queries), offsets, utility.kind, _depth(utility),
        *labels, force, value,
    )  # fmt: skip
    return force, value


def swap_changes(scores: Float, y: Float, utility: Utility) -> Float:
    """How the utility of one query changes when two documents swap ranks, for all pairs.

    Parameters
    ----------
    scores, y : ndarray of float64, shape (n,)
    utility : Utility
        For "ranknet" every change is 1 by definition.

    Returns
    -------
    ndarray of float64, shape (n, n)
        Symmetric; 0 for documents of equal label.
    """
    labels, _ = _prepare(y, np.array([0, y.shape[0]]), utility)
    out = np.zeros((y.shape[0], y.shape[0]))
    _all_changes(np.argsort(-scores, kind="stable"), utility.kind, *labels, out)
    return out


def informative_queries(y: Float, offsets: Int, utility: Utility) -> NDArray[np.bool_]:
    """Which queries exert any force: those whose utility depends on the ranking."""
    return _prepare(y, offsets, utility)[1]


def forward(weights: Sequence[Float], X: Any, shift: Float, factor: Float) -> tuple[Float, list[Float]]:
    """Scores of a net with rectified linear units, and the outputs of its hidden layers.

    Scaling is folded into the first layer, so that ``X`` is neither copied nor, if sparse, filled.

    Parameters
    ----------
    weights : sequence of ndarray
        ``W_1, b_1, ..., W_out``.
    X : ndarray of float64 or CSR matrix, shape (n, n_features)
    shift, factor : ndarray, shape (n_features,)

    Returns
    -------
    scores : ndarray, shape (n,)
    hidden : list of ndarray, shape (n, width)
    """
    hidden: list[Float] = []
    for at in range(0, len(weights) - 1, 2):
        W, b = weights[at], weights[at + 1]
        if at == 0:
            W = factor[:, None] * W
            b = b - shift @ W
        hidden.append(np.maximum((hidden[-1] if hidden else X) @ W + b, 0.0))
    if hidden:
        return np.asarray(hidden[-1] @ weights[-1]), hidden
    w = factor * weights[0]
    return np.asarray(X @ w - shift @ w), hidden


def backpropagate(
    weights: Sequence[Float], X: Any, shift: Float, factor: Float, hidden: list[Float], force: Float
) -> list[Float]:
    """The gradient of ``force . scores`` by the weights.

    Parameters
    ----------
    weights, X, shift, factor
        As in :func:`forward`, which returned ``hidden``.
    hidden : list of ndarray
    force : ndarray, shape (n,)

    Returns
    -------
    list of ndarray, shaped as ``weights``
    """
    if not hidden:
        return [factor * (np.asarray(X.T @ force) - shift * force.sum())]
    gradients = [np.asarray(hidden[-1].T @ force)]
    delta = np.outer(force, weights[-1])
    for layer in range(len(hidden) - 1, -1, -1):
        delta = delta * (hidden[layer] > 0)
        total = delta.sum(axis=0)
        if layer:
            gradient = hidden[layer - 1].T @ delta
            delta_below = delta @ weights[2 * layer].T
        else:
            gradient = factor[:, None] * (np.asarray(X.T @ delta) - np.outer(shift, total))
            delta_below = delta
        gradients = [gradient, total, *gradients]
        delta = delta_below
    return gradients


def network_scores(fit: LambdaRankFit, X: Any) -> Float:
    """Scores of all rows, a few thousand at a time.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
    """
    out = np.empty(X.shape[0])
    for start in range(0, X.shape[0], _SCORE_ROWS):
        rows = slice(start, start + _SCORE_ROWS)
        out[rows] = forward(fit.weights, X[rows].astype(np.float64), fit.shift, fit.factor)[0]
    return out


def initial_weights(n_features: int, hidden: Sequence[int], rng: np.random.RandomState) -> list[Float]:
    """Small random weights (He et al. 2015 for the hidden layers): with zeros, ties would rank by row order."""
    weights: list[Float] = []
    width = n_features
    for n in hidden:
        weights += [rng.normal(scale=np.sqrt(2.0 / width), size=(width, n)), np.zeros(n)]
        width = n
    weights.append(rng.normal(scale=(1.0 / np.sqrt(width)) if hidden else 1e-3, size=width))
    return weights


def ascend(
    X: Any,
    y: Float,
    order: Int | None,
    offsets: Int,
    utility: Utility,
    start: LambdaRankFit,
    rng: np.random.RandomState,
    *,
    query_weights: Float,
    learning_rate: float,
    lam: float,
    batch_size: int,
    max_epochs: int,
    validation: tuple[Any, Float, Int] | None = None,
    patience: int = 10,
    callback: Callable[[Epoch], object] | None = None,
) -> LambdaRankFit:
    """Train by Adam on mini-batches of queries.

    Parameters
    ----------
    X : ndarray of float32/float64 or CSR matrix, shape (n_rows, n_features)
        In any order, never copied as a whole; sums are taken in float64.
    y : ndarray of float64, shape (n_rows,)
        Grouped by query.
    order : ndarray of int64, shape (n_rows,), or None
        Grouped row ``i`` is row ``order[i]`` of ``X``.
    offsets : ndarray of int64, shape (n_queries + 1,)
    utility : Utility
    start : LambdaRankFit
        Weights to start from, and the scaling.
    rng : RandomState
        Orders the queries of each pass.
    query_weights : ndarray, shape (n_queries,)
        Factor of the forces of each query; 0 leaves it out.
    learning_rate, lam : float
        Step size of Adam, and factor of the penalty ``lam/2 ||w||^2`` (not on biases).
    batch_size, max_epochs : int
    validation : tuple (X, y, offsets), optional
        Grouped queries whose mean utility chooses the best pass, and stops training.
    patience : int
        Passes in a row without a better one after which to stop.
    callback : callable, optional
        Told an :class:`Epoch` after each pass; truthy asks to stop.

    Returns
    -------
    LambdaRankFit
        Of the best pass, if there are validation queries, else of the last.
    """
    labels, informative = _prepare(y, offsets, utility)
    queries = np.flatnonzero(informative & (query_weights > 0))
    weights = [w.copy() for w in start.weights]
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    history: list[Epoch] = []
    best, best_value, best_epoch, t = weights, -np.inf, 0, 0
    depth = _depth(utility)
    # one thread: how a product is split over threads changes its last digits
    with threadpool_limits(limits=1, user_api="blas"):
        for number in range(1, max_epochs + 1):
            met = 0.0
            shuffled = rng.permutation(queries)
            for first in range(0, shuffled.shape[0], batch_size):
                batch = shuffled[first : first + batch_size]
                rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in batch])
                block = X[rows if order is None else order[rows]].astype(np.float64)
                scores, hidden = forward(weights, block, start.shift, start.factor)
                force, value = np.empty(rows.shape[0]), np.empty(batch.shape[0])
                ranked = _ranked(scores, np.diff(offsets)[batch])
                _forces(scores, ranked, batch, offsets, utility.kind, depth, *labels, force, value)
                met += float(value.sum())
                force *= np.repeat(query_weights[batch], np.diff(offsets)[batch]) / batch.shape[0]
                gradients = backpropagate(weights, block, start.shift, start.factor, hidden, force)
                t += 1
                _adam(weights, gradients, moments, t, learning_rate, lam)
            watched = np.nan
            if validation is not None:
                now = LambdaRankFit(weights, start.shift, start.factor, [], number)
                values = forces(network_scores(now, validation[0]), validation[1], validation[2], utility)[1]
                watched = float(values.mean())
                if watched > best_value:
                    best, best_value, best_epoch = [w.copy() for w in weights], watched, number
            else:
                best, best_epoch = weights, number
            history.append(Epoch(number, met / queries.shape[0], watched))
            if (callback is not None and callback(history[-1])) or number - best_epoch >= patience:
                break
    return LambdaRankFit(best, start.shift, start.factor, history, best_epoch)


def column_figures(X: Any, method: str, order: Int | None = None) -> tuple[Float, Float]:
    """Shift and factor that bring columns to mean 0 and deviation 1, or to [0, 1]; factor 0 for a constant column.

    Parameters
    ----------
    X : ndarray or CSR matrix
    method : {"none", "zscore", "minmax"}
    order : ndarray of int64, optional
        Order in which to sum the rows: last digits depend on it.
    """
    n, d = X.shape

    def chunks() -> Iterator[Any]:
        for start in range(0, n, _SCORE_ROWS):
            rows = slice(start, start + _SCORE_ROWS)
            yield X[rows if order is None else order[rows]].astype(np.float64)

    if method == "none":
        return np.zeros(d), np.ones(d)
    low, high = _column_range(X)
    if method == "minmax":
        shift, spread = low, high - low
    else:
        shift, square = np.zeros(d), np.zeros(d)
        for block in chunks():
            shift += np.asarray(block.sum(axis=0)).ravel() / n
        for block in chunks():
            if bool(sparse.issparse(block)):  # the zeros that are not stored deviate by the mean
                stored = np.asarray((block != 0).sum(axis=0)).ravel()
                block.data = (block.data - shift[block.indices]) ** 2 * (block.data != 0)
                square += np.asarray(block.sum(axis=0)).ravel() + (block.shape[0] - stored) * shift**2
            else:
                square += ((block - shift) ** 2).sum(axis=0)
        spread = np.sqrt(square / n)
        spread[low == high] = 0.0
    return shift, np.divide(1.0, spread, out=np.zeros(d), where=spread > 0)


def _column_range(X: Any) -> tuple[Float, Float]:
    low, high = X.min(axis=0), X.max(axis=0)
    if bool(sparse.issparse(X)):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def _adam(
    weights: list[Float],
    gradients: list[Float],
    moments: list[tuple[Float, Float]],
    t: int,
    learning_rate: float,
    lam: float,
) -> None:
    """One step of Adam (Kingma and Ba 2015) upwards, in place, with the constants of the paper."""
    for i, (w, gradient, (mean, square)) in enumerate(zip(weights, gradients, moments, strict=True)):
        if i % 2 == 0:  # not a bias
            gradient = gradient - lam * w
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        w += learning_rate * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)


def _ranked(scores: Float, lengths: Int) -> Int:
    """Places of the scores of queries that stand one after the other, the best of each query first."""
    return np.lexsort((-scores, np.repeat(np.arange(lengths.shape[0]), lengths)))


def _depth(utility: Utility) -> int:
    """Swaps of two ranks both from here on change nothing."""
    deepest = np.iinfo(np.int64).max
    return min(utility.k, deepest) if utility.kind == 0 and utility.k > 0 else deepest


def _prepare(y: Float, offsets: Int, utility: Utility) -> tuple[_Labels, NDArray[np.bool_]]:
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    gain = np.maximum(y, 0.0)
    if utility.kind == 0:
        with np.errstate(over="ignore"):
            gain = np.exp2(gain) - 1.0 if utility.gain == "exponential" else gain
            overflows = not np.isfinite(gain.sum())
        if overflows:
            raise BadInput(
                "y",
                f"expected labels whose gains have a finite sum, got a label {y.max():g}",
                "use {gain='linear'} or smaller grades",
            )
    relevant = y >= utility.relevance
    discount = 1.0 / np.log2(np.arange(longest) + 2.0)
    if utility.kind == 0 and utility.k > 0:
        discount[utility.k :] = 0.0
    number = np.repeat(np.arange(lengths.shape[0]), lengths)
    best: Float
    if utility.kind == 0:
        ideal: Float = gain[np.lexsort((-gain, number))]
        rank = np.arange(y.shape[0]) - np.repeat(offsets[:-1], lengths)
        best = np.asarray(np.bincount(number, ideal * discount[rank], lengths.shape[0]), dtype=np.float64)
        worth = gain
    elif utility.kind == 3:
        best, worth = np.ones(lengths.shape[0]), y
    else:
        best = np.asarray(np.bincount(number, relevant, lengths.shape[0]), dtype=np.float64)
        if utility.kind == 2:
            best = np.minimum(best, 1.0)
        worth = relevant.astype(np.float64)
    scale = np.divide(1.0, best, out=np.zeros(lengths.shape[0]), where=best > 0)
    varied = np.maximum.reduceat(worth, offsets[:-1]) > np.minimum.reduceat(worth, offsets[:-1])
    labels = _Labels(np.asarray(y, dtype=np.float64), gain, relevant, scale, discount)
    return labels, varied & (scale > 0)


# ---- kernels


@njit(cache=True, nogil=True, error_model="numpy")
def _by_rank(order, first, grade, gain, relevant, grades, gains, hits, count, harmonic):  # type: ignore[no-untyped-def]
    """Labels in rank order; ``count[r]`` and ``harmonic[r]``: relevant documents above rank index ``r``, and their
    sum of 1/rank."""
    n = order.shape[0]
    count[0] = harmonic[0] = 0.0
    for r in range(n):
        row = first + order[r]
        grades[r], gains[r], hits[r] = grade[row], gain[row], relevant[row]
        count[r + 1], harmonic[r + 1] = count[r], harmonic[r]
        if hits[r]:
            count[r + 1] += 1.0
            harmonic[r + 1] += 1.0 / (r + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _first_hits(hits, n):  # type: ignore[no-untyped-def]
    """Rank indices of the first and the second relevant document, ``n`` where there is none."""
    first = second = n
    for r in range(n):
        if hits[r]:
            if first == n:
                first = r
            else:
                second = r
                break
    return first, second


@njit(cache=True, nogil=True, error_model="numpy")
def _change(  # type: ignore[no-untyped-def]
    kind, a, b, gain_a, gain_b, hit_a, hit_b, count_a, count_b, between, discount, scale, first, second
):
    """Change of the utility when the documents at the rank indices ``a < b`` swap.

    ``count_a`` and ``count_b`` relevant documents stand at or above them, ``between`` sums 1/rank of those between,
    ``discount`` is the difference of the two discounts. All numbers, as arrays would have their references counted
    for every pair, at the price of the rest.
    """
    if kind == 3:
        return 1.0
    if kind == 0:
        return (gain_b - gain_a) * discount * scale
    if hit_a == hit_b:
        return 0.0
    if kind == 1:
        # relevant documents between the two gain or lose one above them
        if hit_a:
            return (count_b / (b + 1) - count_a / (a + 1) - between) * scale
        return ((count_a + 1.0) / (a + 1) - count_b / (b + 1) + between) * scale
    if hit_a:
        return (1.0 / (min(second, b) + 1) - 1.0 / (a + 1)) * scale if a == first else 0.0
    return (1.0 / (a + 1) - 1.0 / (first + 1)) * scale if a < first else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _value(kind, n, gains, hits, count, discount, scale, first):  # type: ignore[no-untyped-def]
    total = 0.0
    if kind == 0:
        for r in range(n):
            total += gains[r] * discount[r]
    elif kind == 1:
        for r in range(n):
            if hits[r]:
                total += count[r + 1] / (r + 1)
    elif kind == 2 and first < n:
        total = 1.0 / (first + 1)
    return total * scale


@njit(cache=True, nogil=True, error_model="numpy")
def _forces(  # type: ignore[no-untyped-def]
    scores, ranked, queries, offsets, kind, depth, grade, gain, relevant, scale, discount, force, value
):  # fmt: skip
    """Forces of the given queries, whose scores stand one after the other; ``ranked`` has their places, best first."""
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
        if kind == 2:
            stop = min(n, first + 1)  # below the first relevant document no swap matters
        n_right = n_pairs = 0
        for a in range(stop):
            for b in range(a + 1, n):
                if grades[a] == grades[b]:
                    continue
                change = abs(
                    _change(
                        kind, a, b, gains[a], gains[b], hits[a], hits[b], count[a + 1], count[b + 1],
                        harmonic[b] - harmonic[a + 1], discount[a] - discount[b], scale[q], first, second,
                    )
                )  # fmt: skip
                n_pairs += 1
                if grades[a] > grades[b]:
                    n_right += sorted_scores[a] > sorted_scores[b]
                if change == 0.0:
                    continue
                gap = sorted_scores[a] - sorted_scores[b]
                if grades[a] > grades[b]:
                    pair = change / (1.0 + np.exp(gap))
                    pull[a] += pair
                    pull[b] -= pair
                else:
                    pair = change / (1.0 + np.exp(-gap))
                    pull[a] -= pair
                    pull[b] += pair
        for r in range(n):
            force[order[r]] = pull[r]
        if kind == 3:
            value[i] = n_right / n_pairs if n_pairs else 0.0
        else:
            value[i] = _value(kind, n, gains, hits, count, discount, scale[q], first)
        start += n


@njit(cache=True, nogil=True, error_model="numpy")
def _all_changes(order, kind, grade, gain, relevant, scale, discount, out):  # type: ignore[no-untyped-def]
    n = order.shape[0]
    grades, gains, hits = np.empty(n), np.empty(n), np.empty(n, np.bool_)
    count, harmonic = np.empty(n + 1), np.empty(n + 1)
    _by_rank(order, 0, grade, gain, relevant, grades, gains, hits, count, harmonic)
    first, second = _first_hits(hits, n)
    for a in range(n):
        for b in range(a + 1, n):
            if grades[a] != grades[b]:
                change = _change(
                    kind, a, b, gains[a], gains[b], hits[a], hits[b], count[a + 1], count[b + 1],
                    harmonic[b] - harmonic[a + 1], discount[a] - discount[b], scale[0], first, second,
                )  # fmt: skip
                out[order[a], order[b]] = out[order[b], order[a]] = change
