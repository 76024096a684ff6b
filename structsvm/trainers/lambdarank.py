"""LambdaRank: follow the forces between documents with Adam, using a small network of rectified linear units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from structsvm.common.portable.elementary import power
from structsvm.common.portable.sums import combine, dot, matmul, products
from structsvm.protocols import Float, Int
from structsvm.trainers.forces import BoundUtility, Utility, forces

ROWS_AT_ONCE = 4096
"""Rows per matrix product when all rows are scored or summed: bounds the size of their float64 copy."""


class Epoch(NamedTuple):
    """Argument of the callback after each pass over the queries: mean utilities of training and validation."""

    number: int
    training: float
    validation: float


@dataclass(frozen=True, eq=False)
class LambdaRankFit:
    """A trained scorer: ``W_1, b_1, ..., W_out`` of the network over ``(x - shift) * factor``.

    The last layer has no bias, as a constant changes no ranking; a linear scorer is ``W_out`` alone.
    """

    weights: list[Float]
    shift: Float
    factor: Float
    history: list[Epoch]
    best_epoch: int  #: the pass whose weights these are

    @property
    def raw_weights(self) -> list[Float]:
        """The same network for raw features; every layer has a bias, except in a linear scorer."""
        first = self.weights[0] * (self.factor[:, None] if self.weights[0].ndim == 2 else self.factor)
        if len(self.weights) == 1:
            return [first]
        return [first, self.weights[1] - combine(self.shift, first), *self.weights[2:]]


class Schedule(NamedTuple):
    """Steps of Adam, with the penalty ``lam / 2`` times the squared norm, and when to stop."""

    learning_rate: float
    lam: float
    batch_size: int  #: in queries
    max_epochs: int
    patience: int = 10  #: passes without improvement


def network_scores(fit: LambdaRankFit, X: Any) -> Float:
    """Return the scores of all rows, a few thousand at a time."""
    out = np.empty(X.shape[0])
    for start in range(0, X.shape[0], ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        out[rows] = forward(fit.weights, X[rows].astype(np.float64), fit.shift, fit.factor)[0]
    return out


def ascend(
    X: Any,
    y: Float,
    order: Int | None,
    offsets: Int,
    utility: Utility,
    start: LambdaRankFit,
    rng: np.random.RandomState,
    schedule: Schedule,
    *,
    query_weights: Float,
    validation: tuple[Any, Float, Int] | None = None,
    callback: Callable[[Epoch], object] | None = None,
) -> LambdaRankFit:
    """Train by Adam on mini-batches of queries, from ``start``; return the best epoch on ``validation``, else the last.

    ``y`` and ``offsets`` are grouped; grouped row ``i`` is row ``order[i]`` of ``X``, which is never copied as a whole.
    """
    learning_rate, lam, batch_size, max_epochs, patience = schedule
    bound = BoundUtility(utility, y, offsets)
    queries = np.flatnonzero(bound.informative & (query_weights > 0))
    weights = [w.copy() for w in start.weights]
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    history: list[Epoch] = []
    best, best_value, best_epoch, t = weights, -np.inf, 0, 0
    # one thread, as the split of a product over threads changes its last digits
    with threadpool_limits(limits=1, user_api="blas"):
        for number in range(1, max_epochs + 1):
            total = 0.0
            shuffled = rng.permutation(queries)
            for first in range(0, shuffled.shape[0], batch_size):
                batch = shuffled[first : first + batch_size]
                rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in batch])
                block = X[rows if order is None else order[rows]].astype(np.float64)
                # the force on a document is the derivative of a (fictitious) utility with respect to its score: the
                # chain rule gives the derivative by the weights
                scores, hidden = forward(weights, block, start.shift, start.factor)
                force, value = bound.forces(scores, batch)
                total += float(value.sum())
                force *= np.repeat(query_weights[batch], np.diff(offsets)[batch]) / batch.shape[0]
                gradients = backpropagate(weights, block, start.shift, start.factor, hidden, force)
                t += 1
                adam_step(weights, gradients, moments, t, learning_rate, lam)
            watched = np.nan
            if validation is not None:
                now = LambdaRankFit(weights, start.shift, start.factor, [], number)
                values = forces(network_scores(now, validation[0]), validation[1], validation[2], utility)[1]
                watched = float(values.mean())
                if watched > best_value:
                    best, best_value, best_epoch = [w.copy() for w in weights], watched, number
            else:
                best, best_epoch = weights, number
            history.append(Epoch(number, total / queries.shape[0], watched))
            if (callback is not None and callback(history[-1])) or number - best_epoch >= patience:
                break
    return LambdaRankFit(best, start.shift, start.factor, history, best_epoch)


# ---- the net: values, gradients, steps of Adam; a linear scorer is a net without hidden layers


def forward(weights: Sequence[Float], X: Any, shift: Float, factor: Float) -> tuple[Float, list[Float]]:
    """Return the scores of a network with rectified linear units, and the outputs of its hidden layers."""
    # The scaling goes into the first layer, (x - shift) factor . W = x . (factor W) - shift . (factor W), so that ``X``
    # is neither copied nor, if sparse, made dense.
    hidden: list[Float] = []
    for at in range(0, len(weights) - 1, 2):
        W, b = weights[at], weights[at + 1]
        if at == 0:
            W = factor[:, None] * W
            b = b - combine(shift, W)
        hidden.append(np.maximum(matmul(hidden[-1] if hidden else X, W) + b, 0.0))
    if hidden:
        return products(hidden[-1], weights[-1]), hidden
    w = factor * weights[0]
    return matmul(X, w[:, None])[:, 0] - dot(shift, w), hidden


def backpropagate(
    weights: Sequence[Float], X: Any, shift: Float, factor: Float, hidden: list[Float], force: Float
) -> list[Float]:
    """Return the gradient of ``force . scores`` by the weights; ``hidden`` is from :func:`forward`."""
    if not hidden:
        return [factor * (matmul(X, force[:, None], transposed=True)[:, 0] - shift * force.sum())]
    # ``delta``: the derivative by the outputs of a layer before its rectifier, from the last layer to the first
    gradients = [combine(force, hidden[-1])]
    delta = np.outer(force, weights[-1])
    for layer in range(len(hidden) - 1, -1, -1):
        # the rectifier passes a derivative on where its output is positive
        delta = delta * (hidden[layer] > 0)
        total = delta.sum(axis=0)
        if layer:
            gradient = matmul(hidden[layer - 1], delta, transposed=True)
            delta_below = matmul(delta, weights[2 * layer].T)
        else:
            gradient = factor[:, None] * (matmul(X, delta, transposed=True) - np.outer(shift, total))
            delta_below = delta
        gradients = [gradient, total, *gradients]
        delta = delta_below
    return gradients


def initial_weights(n_features: int, hidden: Sequence[int], rng: np.random.RandomState) -> list[Float]:
    """Return small random weights (He et al. 2015 for hidden layers): with zeros, ties would rank by row order."""
    weights: list[Float] = []
    width = n_features
    for n in hidden:
        weights += [rng.normal(scale=np.sqrt(2.0 / width), size=(width, n)), np.zeros(n)]
        width = n
    weights.append(rng.normal(scale=(1.0 / np.sqrt(width)) if hidden else 1e-3, size=width))
    return weights


def column_figures(X: Any, method: str, order: Int | None = None) -> tuple[Float, Float]:
    """Return shift and factor that bring columns to mean 0 and deviation 1, or to [0, 1]; constant columns have factor
    0.

    Rows are added in the order ``order``, on which the last digits of the sums depend.
    """
    n, d = X.shape

    def chunks() -> Iterator[Any]:
        for start in range(0, n, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
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
            # a zero that is not stored deviates from the mean by the mean
            if bool(sparse.issparse(block)):
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


def adam_step(
    weights: list[Float],
    gradients: list[Float],
    moments: list[tuple[Float, Float]],
    t: int,
    learning_rate: float,
    lam: float,
) -> None:
    """Take one step of Adam (Kingma and Ba 2015) upwards, in place, with the constants of the paper."""
    # running means of the gradient (beta_1 = 0.9) and of its square (beta_2 = 0.999), divided by 1 - beta^t as they
    # start from zero; even entries are weights, odd ones biases, which the penalty leaves out
    for i, (w, gradient, (mean, square)) in enumerate(zip(weights, gradients, moments, strict=True)):
        if i % 2 == 0:  # not a bias
            gradient = gradient - lam * w
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        w += learning_rate * (mean / (1 - power(0.9, t))) / (np.sqrt(square / (1 - power(0.999, t))) + 1e-8)
