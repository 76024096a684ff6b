"""LambdaRank: train a linear scorer or a small network of rectified linear units with Adam, along the forces between
documents."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from structsvm.common.portable.elementary import power
from structsvm.common.portable.sums import combine, dot, matmul, products
from structsvm.common.row_checks import column_ranges, refuse_divergence
from structsvm.protocols import Float, Int
from structsvm.trainers.forces import BoundUtility, Utility, forces

ROWS_AT_ONCE = 4096
"""Number of rows converted at a time when all rows are scored or summed; it limits the size of their float64 copy."""


class Epoch(NamedTuple):
    """Argument of the callback after each epoch: the epoch's number, and the mean utilities on training and validation
    queries."""

    number: int
    training: float
    validation: float


@dataclass(frozen=True, eq=False)
class LambdaRankFit:
    """A trained scorer: the layers ``W_1, b_1, ..., W_out`` of a network applied to ``(x - shift) * factor``.

    The last layer has no bias, as a constant changes no ranking; a linear scorer is ``W_out`` alone.
    """

    weights: list[Float]
    shift: Float
    factor: Float
    history: list[Epoch]
    best_epoch: int  #: the epoch after which these weights were kept

    @property
    def raw_weights(self) -> list[Float]:
        """The equivalent weights for raw features: ``shift`` and ``factor`` are merged into the first layer."""
        first = self.weights[0] * (self.factor[:, None] if self.weights[0].ndim == 2 else self.factor)
        if len(self.weights) == 1:
            return [first]
        return [first, self.weights[1] - combine(self.shift, first), *self.weights[2:]]


class Schedule(NamedTuple):
    """Step size and batches of Adam, the factor ``lam`` of the penalty ``lam / 2 * ||W||^2``, and the stopping rule."""

    learning_rate: float
    lam: float
    batch_size: int  #: in queries
    max_epochs: int
    patience: int = 10  #: epochs without improvement before training stops


def network_scores(fit: LambdaRankFit, X: Any) -> Float:
    """Return the scores of all rows, computed for ``ROWS_AT_ONCE`` rows at a time."""
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
    """Train with Adam on mini-batches of queries, from ``start``; return the scorer of the epoch that is best on
    ``validation``, or of the last epoch.

    ``y`` and ``offsets`` refer to rows grouped by query: grouped row ``i`` is row ``order[i]`` of ``X`` (row ``i``
    without ``order``). ``X`` is never copied as a whole.
    """
    learning_rate, lam, batch_size, max_epochs, patience = schedule
    bound = BoundUtility(utility, y, offsets)
    queries = np.flatnonzero(bound.informative & (query_weights > 0))
    weights = [w.copy() for w in start.weights]
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    history: list[Epoch] = []
    best, best_value, best_epoch, t = weights, -np.inf, 0, 0
    # one thread, because splitting a product over threads changes its last digits; weights that overflow are refused
    with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        for number in range(1, max_epochs + 1):
            total = 0.0
            shuffled = rng.permutation(queries)
            for first in range(0, shuffled.shape[0], batch_size):
                batch = shuffled[first : first + batch_size]
                rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in batch])
                block = X[rows if order is None else order[rows]].astype(np.float64)
                # The force on a document serves as the derivative of the utility with respect to its score; the chain
                # rule then gives the derivative with respect to the weights.
                scores, hidden = forward(weights, block, start.shift, start.factor)
                force, value = bound.forces(scores, batch)
                total += float(value.sum())
                force *= np.repeat(query_weights[batch], np.diff(offsets)[batch]) / batch.shape[0]
                gradients = backpropagate(weights, block, start.shift, start.factor, hidden, force)
                t += 1
                adam_step(weights, gradients, moments, t, learning_rate, lam)
            refuse_divergence(
                "learning_rate",
                weights,
                f"epoch {number}",
                "lower {learning_rate} or {lam}, or scale the features",
            )
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


# ---- the network: scores, gradients, steps of Adam; a linear scorer is a network without hidden layers


def forward(weights: Sequence[Float], X: object, shift: Float, factor: Float) -> tuple[Float, list[Float]]:
    """Return the scores of a network with rectified linear units, and the outputs of its hidden layers."""
    # The scaling is merged into the first layer, (x - shift) factor . W = x . (factor W) - shift . (factor W), so that
    # ``X`` is neither copied nor, if sparse, converted to a dense matrix.
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
    weights: Sequence[Float], X: object, shift: Float, factor: Float, hidden: list[Float], force: Float
) -> list[Float]:
    """Return the gradient of ``force . scores`` with respect to the weights; ``hidden`` comes from :func:`forward`."""
    if not hidden:
        return [factor * (matmul(X, force[:, None], transposed=True)[:, 0] - shift * force.sum())]
    # ``delta`` is the derivative with respect to the inputs of a layer's rectifier, from the last layer to the first
    gradients = [combine(force, hidden[-1])]
    delta = np.outer(force, weights[-1])
    for layer in range(len(hidden) - 1, -1, -1):
        # the derivative of the rectifier is 1 where its output is positive, and 0 elsewhere
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
    """Return small random weights (He et al. 2015 for hidden layers); with zero weights all scores would be tied."""
    weights: list[Float] = []
    width = n_features
    for n in hidden:
        weights += [rng.normal(scale=np.sqrt(2.0 / width), size=(width, n)), np.zeros(n)]
        width = n
    weights.append(rng.normal(scale=(1.0 / np.sqrt(width)) if hidden else 1e-3, size=width))
    return weights


def column_scaling(X: Any, method: str, order: Int | None = None) -> tuple[Float, Float]:
    """Return the shift and factor that scale columns to zero mean and unit variance, or to [0, 1].

    Constant columns have the factor 0. Rows are summed in the order ``order``, which affects the last digits.
    """
    n, d = X.shape

    def chunks() -> Iterator[Any]:
        for start in range(0, n, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            yield X[rows if order is None else order[rows]].astype(np.float64)

    if method == "none":
        return np.zeros(d), np.ones(d)
    low, high = column_ranges(X, missing=False)
    if method == "minmax":
        shift, spread = low, high - low
    else:
        shift, square = np.zeros(d), np.zeros(d)
        for block in chunks():
            shift += np.asarray(block.sum(axis=0)).ravel() / n
        for block in chunks():
            # a zero that is not stored contributes the square of the mean
            if bool(sparse.issparse(block)):
                stored = np.asarray((block != 0).sum(axis=0)).ravel()
                block.data = (block.data - shift[block.indices]) ** 2 * (block.data != 0)
                square += np.asarray(block.sum(axis=0)).ravel() + (block.shape[0] - stored) * shift**2
            else:
                square += ((block - shift) ** 2).sum(axis=0)
        spread = np.sqrt(square / n)
        spread[low == high] = 0.0
    return shift, np.divide(1.0, spread, out=np.zeros(d), where=spread > 0)


def adam_step(
    weights: list[Float],
    gradients: list[Float],
    moments: list[tuple[Float, Float]],
    t: int,
    learning_rate: float,
    lam: float,
) -> None:
    """Take one ascent step of Adam (Kingma and Ba 2015) in place, with the constants of the paper."""
    # The running means of the gradient (beta_1 = 0.9) and of its square (beta_2 = 0.999) start from zero and are
    # therefore divided by 1 - beta^t. Arrays with an even index are weights, the others biases, which are not
    # penalised.
    for i, (w, gradient, (mean, square)) in enumerate(zip(weights, gradients, moments, strict=True)):
        if i % 2 == 0:  # not a bias
            gradient = gradient - lam * w
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        w += learning_rate * (mean / (1 - power(0.9, t))) / (np.sqrt(square / (1 - power(0.999, t))) + 1e-8)
