"""A small net of rectified linear units that scores rows, or a linear scorer: values, gradients, steps of Adam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from structsvm.common.portable.elementary import power
from structsvm.common.portable.sums import combine, dot, matmul, products
from structsvm.protocols import Float, Int

ROWS_AT_ONCE = 4096
"""Rows per matrix product when all are scored or summed: limits the float64 copy of them."""


def forward(weights: Sequence[Float], X: Any, shift: Float, factor: Float) -> tuple[Float, list[Float]]:
    """Return the scores of a net with rectified linear units, and the outputs of its hidden layers."""
    # scaling is folded into the first layer, so that ``X`` is neither copied nor, if sparse, filled
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
    gradients = [combine(force, hidden[-1])]
    delta = np.outer(force, weights[-1])
    for layer in range(len(hidden) - 1, -1, -1):
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
    """Return shift and factor that bring columns to mean 0 and deviation 1, or to [0, 1]; constant ones have factor 0.

    The last digits of sums depend on ``order``, in which the rows are added.
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


def adam_step(
    weights: list[Float],
    gradients: list[Float],
    moments: list[tuple[Float, Float]],
    t: int,
    learning_rate: float,
    lam: float,
) -> None:
    """Take one step of Adam (Kingma and Ba 2015) upwards, in place, with the constants of the paper."""
    for i, (w, gradient, (mean, square)) in enumerate(zip(weights, gradients, moments, strict=True)):
        if i % 2 == 0:  # not a bias
            gradient = gradient - lam * w
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        w += learning_rate * (mean / (1 - power(0.9, t))) / (np.sqrt(square / (1 - power(0.999, t))) + 1e-8)
