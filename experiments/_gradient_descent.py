"""Dueling bandit gradient descent, compiled: on known value functions, and on rankings of a data set (thesis, 6.3).

The policies of ``structsvm.online.bandits.gradient`` are the uncompiled forms, and make the same comparisons for the
same seed.
"""

from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_choice, check_positive, check_whole
from structsvm.common.kernel import kernel
from structsvm.common.machine import count_threads, in_threads
from structsvm.common.portable import elementary
from structsvm.common.portable.compiled import exp, log2
from structsvm.common.portable.elementary import exp2
from structsvm.common.portable.sums import dot
from structsvm.online.bandits.gradient import DBGD
from structsvm.online.simulation.runs import generators, run_streams, time_grid
from structsvm.protocols import Float, Int
from structsvm.queries import QueryData, labels_of

METHODS = ("dbgd", "bgd1", "bgd2")
"""Methods that observe the winner, the current point's probability of winning, or this probability minus 1/2."""

PROBLEMS = ("P1", "P2", "P3", "P4", "P5")
"""Names of the five value functions of the thesis (6.3.1), see :func:`_value`; each is largest at 0."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Cumulative regret of each run after ``times`` comparisons, and its final weights.

    The regret of a step is ``e(w*, w) + e(w*, w')`` with ``e = P(w* wins) - 1/2``; at most 1.
    """

    times: Int
    regret: Float
    weights: Float

    @property
    def average_regret(self) -> Float:
        """Mean regret per step over the runs, shape (n_times,)."""
        return np.asarray((self.regret / self.times).mean(axis=0))


@dataclass(frozen=True, eq=False)
class RankingDescent:
    """Mean NDCG over all queries of each run's weights after ``times`` updates, and its final weights."""

    times: Int
    ndcg: Float
    weights: Float


def descend(
    problem: str,
    *,
    horizon: float,
    method: str = "dbgd",
    delta_factor: float = 1.0,
    dimension: int = 50,
    radius: float = 10.0,
    n_runs: int = 1,
    seed: int = 0,
    times: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Descent:
    """Run gradient descent on a value function of ``PROBLEMS`` over a ball, with comparisons by the logistic link.

    ``delta = T^(-1/4) delta_L sqrt(0.4 R d)``, ``gamma = R/sqrt(T)``, start ``sqrt(5/d)`` in each coordinate (thesis,
    6.3.1). Table 6.1 states no horizon; 10^6 reproduces it.
    """
    check_choice("problem", problem, PROBLEMS)
    check_choice("method", method, METHODS)
    steps, d = check_whole("horizon", horizon, floats=True), check_whole("dimension", dimension)
    radius = check_positive("radius", radius)
    delta = (
        1 / np.sqrt(np.sqrt(steps)) * check_positive("delta_factor", delta_factor) * np.sqrt(0.4 * radius * d)
    )
    gamma = radius / np.sqrt(steps)
    # kernels take problem and method as numbers, so that they are compiled only once
    grid = time_grid(times, steps)
    streams = run_streams(seed, n_runs)
    problem_number, feedback = PROBLEMS.index(problem), METHODS.index(method)

    def job(run: int) -> tuple[int, Float, Float]:
        w = np.full(d, np.sqrt(5.0 / d))
        regret = np.zeros(len(grid))
        _descend(problem_number, feedback, w, delta, gamma, radius, grid, generators(streams[run])[0], regret)
        return run, regret, w

    outcomes = sorted(in_threads(job, range(len(streams)), count_threads(n_jobs)), key=itemgetter(0))
    _, regret, weights = (np.array(column) for column in zip(*outcomes, strict=True))
    return Descent(grid, regret, weights)


def descend_rankings(
    data: QueryData,
    *,
    horizon: float,
    delta: float = 1.0,
    gamma: float = 0.01,
    queries: int = 1,
    scale: float = 10.0,
    k: int = 10,
    start: ArrayLike | None = None,
    n_runs: int = 1,
    seed: int = 0,
    times: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> RankingDescent:
    """Run DBGD over linear rankers on the unit sphere, for simulated users who prefer the higher NDCG (thesis, 6.3.2).

    For each query of a comparison ``w'`` wins with probability ``logistic(scale (NDCG@k(w') - NDCG@k(w)))``; the
    weights move towards ``w'`` if it wins more than half of the ``queries``. ``delta`` and ``gamma`` are the best of
    Table 6.2.
    """
    steps, n_queries = check_whole("horizon", horizon, floats=True), check_whole("queries", queries)
    check_positive("scale", scale)
    even = np.unique(np.linspace(1, steps, 100).astype(np.int64))
    grid = time_grid(even if times is None else times, steps)
    X, gains, ideal = _tables(data, k)
    start_weights = None if start is None else np.array(start, dtype=np.float64)
    if start_weights is not None and (
        start_weights.shape != X.shape[1:] or not np.isfinite(start_weights).all() or not start_weights.any()
    ):
        raise BadInput("start", f"expected {X.shape[1]} finite weights, not all 0, got {start!r:.60}")
    streams = run_streams(seed, n_runs)

    def job(run: int) -> tuple[int, Float, Float]:
        rng = generators(streams[run])[0]
        # without a start, each run begins in its own random direction
        first = rng.standard_normal(X.shape[1]) if start_weights is None else start_weights
        w = DBGD(first, delta=delta, gamma=gamma).w.copy()  # checks delta and gamma, and scales w to norm 1
        ndcg = np.zeros(len(grid))
        _descend_rankings(
            X, gains, ideal, data.offsets, w, delta, gamma, n_queries, scale, k, grid, rng, ndcg
        )
        return run, ndcg, w

    outcomes = sorted(in_threads(job, range(len(streams)), count_threads(n_jobs)), key=itemgetter(0))
    _, ndcg, weights = (np.array(column) for column in zip(*outcomes, strict=True))
    return RankingDescent(grid, ndcg, weights)


def ndcg_of(data: QueryData, weights: ArrayLike, *, k: int = 10) -> Float:
    """Return NDCG@k of linear rankers for each query, gain ``2^grade - 1``; 0 if no document has a grade above 0."""
    X, gains, ideal = _tables(data, k)
    rankers = np.ascontiguousarray(weights, dtype=np.float64)
    if rankers.ndim != 2 or rankers.shape[1] != X.shape[1]:
        raise BadInput("weights", f"expected shape (n_rankers, {X.shape[1]}), got {rankers.shape}")
    table = np.zeros((len(rankers), len(ideal)))
    _ndcg_table(X, gains, ideal, data.offsets, rankers, k, table)
    return table


def _tables(data: QueryData, k: int) -> tuple[Float, Float, Float]:
    """Return dense float64 features, the gain of each row, and the DCG@k of the best ranking of each query."""
    check_whole("k", k)
    dense = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    X = np.ascontiguousarray(dense, dtype=np.float64)
    gains = exp2(np.maximum(labels_of(data.y, name="data.y"), 0)) - 1
    ideal = np.zeros(len(data.offsets) - 1)
    for q, (a, b) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        best = np.sort(gains[a:b])[::-1][:k]
        ideal[q] = (best / elementary.log2(np.arange(2, len(best) + 2))).sum()
    return X, gains, ideal


# kernels


@kernel
def _value(problem, w):
    """Return the value of a point for problem P1 to P5 (thesis, 6.3.1), largest at 0."""
    total = 0.0
    for i in range(len(w)):  # coordinate i + 1 of the thesis
        x = w[i]
        if problem == 0:
            total -= x * x
        elif problem == 1:
            total -= abs(x)
        elif problem == 3:
            total -= exp(x) + exp(-x)
        else:
            total -= x * x if i % 2 == 0 else abs(x)
            if problem == 4:
                if i % 3 == 0:
                    total -= exp(max(x, 0.0))
                elif i % 3 == 1:
                    total -= exp(max(-x, 0.0))
    return total


@kernel
def _wins(difference):
    """Return the probability of winning for a difference in value, by the logistic link."""
    # two branches, so that exp does not overflow
    if difference >= 0:
        return 1.0 / (1.0 + exp(-difference))
    small = exp(difference)
    return small / (1.0 + small)


@kernel
def _into_ball(w, radius):
    """Project ``w`` onto the ball, in place."""
    length = np.sqrt(dot(w, w))
    if length > radius:
        w *= radius / length


@kernel
def _direction(u, rng):
    """Write a uniformly random unit vector to ``u``: a normal vector divided by its norm."""
    for i in range(len(u)):
        u[i] = rng.standard_normal()
    u /= np.sqrt(dot(u, u))


@kernel
def _descend(problem, feedback, w, delta, gamma, radius, times, rng, regret):
    """Run the method ``feedback`` once from ``w``, which is overwritten with the final point (thesis, Algorithm 7)."""
    d = len(w)
    u = np.empty(d)
    candidate = np.empty(d)
    best = _value(problem, np.zeros(d))
    _into_ball(w, radius)
    value = _value(problem, w)
    loss = _wins(best - value) - 0.5
    total = 0.0
    next_time = 0
    for t in range(1, times[-1] + 1):
        _direction(u, rng)
        for i in range(d):
            candidate[i] = w[i] + delta * u[i]
        _into_ball(candidate, radius)
        # regret of both points of the comparison: e(w*, w) + e(w*, w')
        candidate_value = _value(problem, candidate)
        total += loss + _wins(best - candidate_value) - 0.5
        # DBGD observes a winner; BGD1 and BGD2 observe the probability that the current point wins
        step = 0.0
        if feedback == 0:
            if rng.random() < _wins(candidate_value - value):
                step = gamma
        elif feedback == 1:
            step = -gamma * _wins(value - candidate_value)
        else:
            step = -gamma * (_wins(value - candidate_value) - 0.5)
        if step != 0.0:
            for i in range(d):
                w[i] += step * u[i]
            _into_ball(w, radius)
            value = _value(problem, w)
            loss = _wins(best - value) - 0.5
        if t == times[next_time]:
            regret[next_time] = total
            next_time += 1


@kernel
def _ndcg(X, gains, ideal, offsets, q, w, top, top_gain):
    """Return NDCG of query q, 0 without a relevant document; ``top`` and ``top_gain`` are work arrays of length k."""
    if ideal[q] == 0:
        return 0.0
    # Insertion sort of the k best scores: strict inequalities keep the order of the rows for equal scores.
    k = len(top)
    n = 0
    for row in range(offsets[q], offsets[q + 1]):
        score = dot(X[row], w)
        if n == k and score <= top[k - 1]:
            continue
        rank = n if n < k else k - 1
        while rank > 0 and score > top[rank - 1]:
            top[rank] = top[rank - 1]
            top_gain[rank] = top_gain[rank - 1]
            rank -= 1
        top[rank] = score
        top_gain[rank] = gains[row]
        if n < k:
            n += 1
    total = 0.0
    for rank in range(n):
        if top_gain[rank] > 0:
            total += top_gain[rank] / log2(rank + 2.0)
    return total / ideal[q]


@kernel
def _ndcg_table(X, gains, ideal, offsets, weights, k, table):
    top, top_gain = np.empty(k), np.empty(k)
    for r in range(len(weights)):
        for q in range(len(ideal)):
            table[r, q] = _ndcg(X, gains, ideal, offsets, q, weights[r], top, top_gain)


@kernel
def _descend_rankings(X, gains, ideal, offsets, w, delta, gamma, queries, scale, k, times, rng, measured):
    """Run DBGD once on rankings from ``w``, which is overwritten with the final ranker (thesis, 6.3.2)."""
    d, n_queries = len(w), len(ideal)
    u, candidate = np.empty(d), np.empty(d)
    top, top_gain = np.empty(k), np.empty(k)
    next_time = 0
    for t in range(1, times[-1] + 1):
        _direction(u, rng)
        for i in range(d):
            candidate[i] = w[i] + delta * u[i]
        candidate /= np.sqrt(dot(candidate, candidate))
        # a comparison is over ``queries`` random queries; users prefer the higher NDCG by the logistic link
        won = 0
        for _ in range(queries):
            q = int(rng.random() * n_queries)
            difference = _ndcg(X, gains, ideal, offsets, q, candidate, top, top_gain)
            difference -= _ndcg(X, gains, ideal, offsets, q, w, top, top_gain)
            if rng.random() < _wins(scale * difference):
                won += 1
        # if the candidate wins more than half of the queries, step towards it and project onto the unit sphere
        if 2 * won > queries:
            for i in range(d):
                w[i] += gamma * u[i]
            w /= np.sqrt(dot(w, w))
        if t == times[next_time]:
            total = 0.0
            for q in range(n_queries):
                total += _ndcg(X, gains, ideal, offsets, q, w, top, top_gain)
            measured[next_time] = total / n_queries
            next_time += 1
