"""Strengths of a Bradley-Terry model with an advantage for the model shown first: intervals, ranks and fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from structsvm.common.portable.arrays import matmul, products
from structsvm.common.portable.cholesky import factor, inverse, solve
from structsvm.online.arena.votes import Votes
from structsvm.online.evidence.win_rates import win_rates
from structsvm.protocols import Float, Int

_RIDGE = 0.1
"""Penalty on the strengths. It keeps them finite if a model won or lost all its votes, and changes little otherwise."""

_ORDER_RIDGE = 1e-3
FEWEST_CLUSTERS = 10
Z_975 = 1.959963984540054  # the 97.5 % quantile of the normal distribution
_DRAWS = 2000
_REFITS = 99
_MOST_TESTED = 100
"""Largest number of models for which the fit is tested, as the test takes 100 fits."""


@dataclass(frozen=True)
class Strengths:
    """Strengths of the models of one connected component of the votes, relative to their mean.

    Attributes
    ----------
    models : ndarray of int64
        Indices of the models in the component.
    strength, lower, upper : ndarray of float64
        Log-odds, with 95 % intervals for one look at a number of votes fixed in advance, from the cluster-robust
        sandwich covariance. One end is infinite if a model won or lost all its votes; both ends are NaN if there
        are fewer than ten clusters.
    best_rank, worst_rank : ndarray of int64
        Range of ranks that is compatible with simultaneous 95 % intervals of all differences in strength.
    order, order_error : float
        Log-odds of the advantage of being shown first, and half the width of its interval.

    Examples
    --------
    See :func:`structsvm.online.arena.arena`.
    """

    models: Int
    strength: Float
    lower: Float
    upper: Float
    best_rank: Int
    worst_rank: Int
    order: float
    order_error: float


def strengths(votes: Votes, clusters: Int | None, with_order: bool) -> list[Strengths]:
    """Return the strengths of each connected component, the largest component first."""
    part = components(votes)
    parts = []
    for number in np.argsort(-np.bincount(part), kind="stable"):
        members = np.flatnonzero(part == number)
        chosen = part[votes.first] == number
        if chosen.any():  # a model without votes is a component of its own, which has no strengths
            parts.append(_part(votes, members, chosen, clusters, with_order))
    return parts


def components(votes: Votes) -> Int:
    """Return the index of the connected component of each model; the votes are the edges."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # one node per model, with or without votes, and one edge per vote
    n = len(votes.models)
    graph = coo_array((np.ones(len(votes)), (votes.first, votes.second)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _part(votes: Votes, members: Int, chosen: Float, clusters: Int | None, with_order: bool) -> Strengths:
    k = len(members)
    first, second = (np.searchsorted(members, side[chosen]) for side in (votes.first, votes.second))
    plays, won = (table[np.ix_(members, members)] for table in votes.tables())
    theta, hessian = _fit(plays, won, with_order)
    inverted = inverse(hessian)
    codes = np.arange(len(first)) if clusters is None else np.unique(clusters[chosen], return_inverse=True)[1]
    # votes of one cluster depend on each other, so the sandwich covariance sums their gradients by cluster
    p = win_rates(theta[:k], theta[k])[first, second]
    covariance = _sandwich(inverted, first, second, votes.share[chosen] - p, codes, k)
    # Only differences of strengths are identified, up to the penalty: report them relative to the mean of the models.
    centre = np.eye(k + 1)
    centre[:k, :k] -= 1.0 / k
    estimate = products(centre, theta)
    covariance = matmul(matmul(centre, covariance), centre)
    # half the width of the intervals; with few clusters the sandwich covariance is too small
    error = Z_975 * np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    if codes.max() + 1 < FEWEST_CLUSTERS:
        error = np.full(k + 1, np.nan)
    # the likelihood of a model that won (lost) all its votes increases without bound: one end of its interval is
    # infinite
    total = plays.sum(axis=1) + plays.sum(axis=0)
    wins = won.sum(axis=1) + (plays - won).sum(axis=0)
    lower = np.where(wins <= 0.0, -np.inf, estimate[:k] - error[:k])
    upper = np.where(wins >= total, np.inf, estimate[:k] + error[:k])
    # without intervals, any rank is possible
    unknown = np.ones(k, dtype=np.int64), np.full(k, k)
    best, worst = _ranks(estimate[:k], covariance[:k, :k]) if np.isfinite(error).all() else unknown
    return Strengths(
        models=members,
        strength=estimate[:k],
        lower=lower,
        upper=upper,
        best_rank=best,
        worst_rank=worst,
        order=float(theta[k]),
        order_error=float(error[k]),
    )


def _fit(plays: Float, won: Float, with_order: bool) -> tuple[Float, Float]:
    """Maximise the penalised likelihood by Newton's method; return the parameters and the negative Hessian.

    Model i won ``won[i, j]`` of ``plays[i, j]`` votes in which it was shown before j. The last of the k + 1 parameters
    is the advantage of the model shown first.
    """
    k = len(plays)
    theta = np.zeros(k + 1)
    ridge = np.append(np.full(k, _RIDGE), _ORDER_RIDGE)
    hessian = np.zeros((k + 1, k + 1))
    for _ in range(100):
        p = win_rates(theta[:k], theta[k])
        rest, slope = won - plays * p, plays * p * (1.0 - p)
        # the logit of "i, shown first, beats j" is theta_i - theta_j + theta_k
        gradient = np.append(rest.sum(axis=1) - rest.sum(axis=0), rest.sum()) - ridge * theta
        # negative Hessian: a graph Laplacian of the strengths, bordered by the order term
        both = slope + slope.T
        hessian[:k, :k] = np.diag(both.sum(axis=1)) - both
        hessian[k, :k] = hessian[:k, k] = slope.sum(axis=1) - slope.sum(axis=0)
        hessian[k, k] = slope.sum()
        # without an order term, its row and column are zero, and the penalty keeps the parameter at 0
        if not with_order:
            gradient[k] = hessian[k, :k] = hessian[:k, k] = 0.0
        full = hessian + np.diag(ridge)
        step = solve(full, gradient)
        # a bounded step: far from the optimum a full step may diverge
        theta = theta + np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-10:
            break
    return theta, full


def _sandwich(inverted: Float, first: Int, second: Int, rest: Float, codes: Int, k: int) -> Float:
    """Return the covariance ``G / (G - 1) H^-1 S H^-1``; S sums the outer products of the gradients of G clusters."""
    from scipy.sparse import csr_array

    n, n_clusters = len(rest), int(codes.max()) + 1
    # the gradient of a vote is its residual times +1 for the first model, -1 for the second, +1 for the order term;
    # the sparse matrix adds the gradients of each cluster
    columns = np.concatenate([first, second, np.full(n, k)])
    values = np.concatenate([rest, -rest, rest])
    gradients = csr_array((values, (np.tile(codes, 3), columns)), shape=(n_clusters, k + 1))
    middle = (gradients.T @ gradients).toarray()
    return n_clusters / max(1, n_clusters - 1) * matmul(matmul(inverted, middle), inverted)


def _ranks(strength: Float, covariance: Float) -> tuple[Int, Int]:
    """Return the best and the worst rank of each model, given simultaneous 95 % intervals of all differences."""
    # Tukey's method for any covariance: two models differ if their difference exceeds the 95 % quantile of the largest
    # |z| over all differences, which is estimated from 2,000 samples of the normal distribution.
    k = len(strength)
    variance = np.diagonal(covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 1e-300))
    root, rng = factor(covariance), np.random.default_rng(0)
    largest, others = np.empty(_DRAWS), ~np.eye(k, dtype=bool)
    for draw in range(_DRAWS):
        z = products(root, rng.standard_normal(k))
        largest[draw] = (np.abs(z[:, None] - z[None, :]) / error).max(where=others, initial=0.0)
    above = strength[:, None] - strength[None, :] > np.quantile(largest, 0.95) * error
    return 1 + above.sum(axis=0), k - above.sum(axis=1)


def neutral_wins(votes: Votes) -> Float:
    """Return the matrix of wins without the estimated advantage of the model shown first."""
    plays, won = votes.tables()
    theta = _fit(plays, won, True)[0]
    ahead = np.clip(won - plays * (win_rates(theta[:-1], theta[-1]) - win_rates(theta[:-1], 0.0)), 0.0, plays)
    return np.asarray(ahead + (plays - ahead).T)


def fit_p_value(
    votes: Votes, cluster: str | None = None, with_order: bool = True, random_state: int = 0
) -> float | None:
    """Return the p-value of the hypothesis that the votes follow a Bradley-Terry model, by a bootstrap of clusters.

    The model and the clusters are those of :func:`strengths`. The statistic is the sum over pairs of the squared
    residual wins, in units of their variance, after the estimation of strengths and order. It is compared with 99
    draws in which the residuals of each cluster have a random sign, which keeps the dependence of its votes (score
    bootstrap: Kline and Santos, *A score based approach to wild bootstrap inference*, J. Econometric Methods 2012).
    Return None for fewer than three or more than 100 models, and if the votes do not connect all models.
    """
    from scipy.sparse import csr_array

    k, n = len(votes.models), len(votes)
    if not 3 <= k <= _MOST_TESTED or components(votes).max() > 0:
        return None
    codes = votes.clusters(cluster)[1]
    codes = np.arange(n) if codes is None else np.unique(codes, return_inverse=True)[1]
    theta, hessian = _fit(*votes.tables(), with_order)
    first, second = votes.first, votes.second
    p = win_rates(theta[:k], theta[k])[first, second]
    pair = np.unique(np.minimum(first, second) * k + np.maximum(first, second), return_inverse=True)[1]
    m, sign = int(pair.max()) + 1, np.where(first < second, 1.0, -1.0)
    # the gradient of a vote: its residual for its pair, its models and the order term; then its information
    rest, slope = votes.share - p, p * (1.0 - p)
    values = np.concatenate([sign * rest, rest, -rest, rest * with_order])
    columns = np.concatenate([pair, m + first, m + second, np.full(n, m + k)])
    gradients = csr_array((values, (np.tile(codes, 4), columns)), shape=(int(codes.max()) + 1, m + k + 1))
    values = sign * slope * np.array([[1.0], [-1.0], [with_order]])
    columns = np.concatenate([first, second, np.full(n, k)])
    cross = csr_array((values.ravel(), (np.tile(pair, 3), columns)), shape=(m, k + 1)).toarray()
    # the estimates of strengths and order take their part of the residuals
    taken = matmul(cross, inverse(hessian))
    variance = np.bincount(pair, slope)

    def distance(signs: Any) -> float:
        total = gradients.T @ signs
        return float(((total[:m] - products(taken, total[m:])) ** 2 / variance).sum())

    observed, rng = distance(np.ones(gradients.shape[0])), np.random.default_rng(random_state)
    # rounding must not separate equal distances
    draws = [distance(2.0 * rng.integers(2, size=gradients.shape[0]) - 1.0) for _ in range(_REFITS)]
    return float(1 + sum(one >= observed * (1 - 1e-9) for one in draws)) / (_REFITS + 1)
