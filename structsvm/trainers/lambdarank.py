"""LambdaRank: ascend along the forces between documents with Adam, on mini-batches of queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from structsvm.common.portable.sums import combine
from structsvm.protocols import Float, Int
from structsvm.trainers.forces import BoundUtility, Utility, forces
from structsvm.trainers.network import ROWS_AT_ONCE, adam_step, backpropagate, forward


class Epoch(NamedTuple):
    """What a callback is told after each pass over the queries."""

    number: int
    training: float
    validation: float


@dataclass(frozen=True, eq=False)
class LambdaRankFit:
    """A trained scorer: ``W_1, b_1, ..., W_out`` of the net over ``(x - shift) * factor``.

    The last layer has no bias, as a constant changes no ranking; a linear scorer is ``W_out`` alone.
    """

    weights: list[Float]
    shift: Float
    factor: Float
    history: list[Epoch]
    best_epoch: int  #: the pass whose weights these are

    @property
    def raw_weights(self) -> list[Float]:
        """The same net for raw features, with a bias in every layer but a linear scorer's."""
        first = self.weights[0] * (self.factor[:, None] if self.weights[0].ndim == 2 else self.factor)
        if len(self.weights) == 1:
            return [first]
        return [first, self.weights[1] - combine(self.shift, first), *self.weights[2:]]


class Schedule(NamedTuple):
    """How Adam steps, with ``lam / 2`` times the squared norm, and after how many passes it stops."""

    learning_rate: float
    lam: float
    batch_size: int  #: in queries
    max_epochs: int
    patience: int = 10  #: passes without a better one


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
                force, value = bound.forces(scores, batch)
                met += float(value.sum())
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
            history.append(Epoch(number, met / queries.shape[0], watched))
            if (callback is not None and callback(history[-1])) or number - best_epoch >= patience:
                break
    return LambdaRankFit(best, start.shift, start.factor, history, best_epoch)
