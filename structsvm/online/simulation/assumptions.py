"""Assumptions of dueling bandits, and whether a preference matrix satisfies them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from structsvm.online.simulation.worlds import check_preferences, condorcet_winner


@dataclass(frozen=True)
class AssumptionReport:
    """Assumptions that a preference matrix satisfies; None for a quantity that is not defined for the matrix.

    ``condorcet`` is the arm that beats every other arm; ``borda`` and ``copeland`` are the arms with the largest mean
    probability of a win and with the most beaten arms. ``total_order`` contains the arms, best first, if each arm
    beats all later arms.

    ``strong_transitivity`` and ``triangle_inequality`` are the shares of triples i, j, k of the total order for which
    ``P[i, k] >= max(P[i, j], P[j, k])`` and ``e[i, k] <= e[i, j] + e[j, k]`` with ``e = P - 1/2`` (thesis, eq. 5.4 and
    5.5). ``relaxed_gamma`` is the smallest gamma with ``gamma e[1, k] >= max(e[1, j], e[j, k])``, where 1 is the
    Condorcet winner and j beats k; ``smallest_gap`` is the smallest gap of another arm to the Condorcet winner, and
    ``uninformative`` the share of arms that tie with another arm.
    """

    n_arms: int
    condorcet: int | None
    borda: list[int]
    copeland: list[int]
    total_order: list[int] | None
    strong_transitivity: float | None
    triangle_inequality: float | None
    relaxed_gamma: float | None
    smallest_gap: float | None
    uninformative: float


def assumption_report(P: ArrayLike, *, tol: float = 1e-12) -> AssumptionReport:
    """Check which assumptions of the literature a preference matrix satisfies.

    Parameters
    ----------
    P : array-like, shape (K, K)
        ``P[i, j]`` is the probability that arm i beats arm j.
    tol : float, default=1e-12
        Tolerance of the inequalities, and of ties for the largest mean (``borda``).

    Returns
    -------
    AssumptionReport

    Examples
    --------
    >>> report = assumption_report([[0.5, 0.6, 0.8], [0.4, 0.5, 0.7], [0.2, 0.3, 0.5]])
    >>> report.condorcet, report.total_order, report.strong_transitivity
    (0, [0, 1, 2], 1.0)
    """
    matrix = check_preferences(P)
    k = len(matrix)
    edge = matrix - 0.5
    beats = matrix > 0.5
    degree = beats.sum(axis=1)
    mean = matrix.mean(axis=1)
    winner = condorcet_winner(matrix)
    order = np.argsort(-degree, kind="stable")
    # a total order exists iff the arms, sorted by wins, beat k - 1, k - 2, ..., 0 other arms
    total = bool((degree[order] == np.arange(k - 1, -1, -1)).all())
    strong = triangle = gamma = gap = None
    if total:
        e = edge[np.ix_(order, order)]
        good_strong = good_triangle = n_triples = 0
        # check all triples i < j < k with the middle arm j at once
        for j in range(1, k - 1):
            outer, before, after = e[:j, j + 1 :], e[:j, j][:, None], e[j, j + 1 :][None, :]
            good_strong += int((outer >= np.maximum(before, after) - tol).sum())
            good_triangle += int((outer <= before + after + tol).sum())
            n_triples += outer.size
        strong = good_strong / n_triples if n_triples else 1.0
        triangle = good_triangle / n_triples if n_triples else 1.0
    if winner is not None:
        others = np.delete(np.arange(k), winner)
        if len(others):
            gap = float(edge[winner, others].min())
        # relaxed stochastic transitivity: check all pairs of other arms; ``arm`` is the better arm of a pair
        gamma = 1.0
        for arm in others:
            below = others[beats[arm, others]]  # arms that this arm beats
            if len(below):
                need = np.maximum(edge[winner, arm], edge[arm, below]) / edge[winner, below]
                gamma = max(gamma, float(need.max()))
    return AssumptionReport(
        n_arms=k,
        condorcet=winner,
        borda=np.flatnonzero(mean >= mean.max() - tol).tolist(),
        copeland=np.flatnonzero(degree == degree.max()).tolist(),
        total_order=[int(arm) for arm in order] if total else None,
        strong_transitivity=strong,
        triangle_inequality=triangle,
        relaxed_gamma=gamma,
        smallest_gap=gap,
        uninformative=float(((matrix == 0.5) & ~np.eye(k, dtype=bool)).any(axis=1).mean()),
    )
