"""Paired comparison of two systems over queries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Comparison", "compare"]

# sums of the same precisions in another order differ in the last digits, which is no difference between systems
_DECIMALS = 12


class Comparison(NamedTuple):
    """A paired comparison of systems ``a`` and ``b``.

    Attributes
    ----------
    mean_difference : float
        Mean of ``a - b`` over the queries.
    wins, losses, ties : int
        Number of queries in which ``a`` is above, below and equal to ``b``.
    statistic : float
        Wilcoxon's signed rank statistic: the smaller one of the two rank sums.
    p_value : float
        Two-tailed; 1 if no query differs.
    """

    mean_difference: float
    wins: int
    losses: int
    ties: int
    statistic: float
    p_value: float


def compare(per_query_a: Any, per_query_b: Any) -> Comparison:
    """Compare two systems on the same queries by the two-tailed Wilcoxon signed rank test.

    Queries without a difference (up to 1e-12 for rounding) are discarded from the test, as in
    Wilcoxon (1945), and counted as ties. Queries that are NaN in both (left out by ``empty="skip"``) are
    dropped from everything.

    Parameters
    ----------
    per_query_a, per_query_b : array-like of float, shape (n_queries,)
        ``EvaluationResult.per_query`` of each system, in the same order of queries.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If the lengths differ, no query is left, or a query has a value in one system only.

    Notes
    -----
    The p-value is that of ``scipy.stats.wilcoxon`` with its defaults: exact for few queries, the normal
    approximation for many (more than 50, or than 13 with tied differences, in SciPy 1.17).

    Examples
    --------
    >>> compare([0.5, 0.75, 1.0, 0.4], [0.25, 0.25, 0.25, 0.4])
    Comparison(mean_difference=0.375, wins=3, losses=0, ties=1, statistic=0.0, p_value=0.25)
    """
    a, b = np.asarray(per_query_a, dtype=np.float64), np.asarray(per_query_b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            f"per_query_a and per_query_b: expected one value for each query, got {a.shape} and {b.shape}"
        )
    if np.isinf(a).any() or np.isinf(b).any():
        raise ValueError("per_query_a and per_query_b: expected finite values, got infinity")
    one_sided = np.isnan(a) != np.isnan(b)
    if one_sided.any():
        query = int(np.argmax(one_sided))
        raise ValueError(
            f"query {query}: expected values in both systems, got {a[query]} and {b[query]}; use the same "
            "labels and the same empty= policy for both"
        )
    difference = np.round((a - b)[~np.isnan(a)], _DECIMALS)
    if difference.size == 0:
        raise ValueError("per_query_a and per_query_b: expected at least one query with values, got none")
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    statistic, p_value = 0.0, 1.0
    if wins + losses:
        from scipy.stats import wilcoxon

        outcome = wilcoxon(difference[difference != 0])
        statistic, p_value = float(outcome.statistic), float(outcome.pvalue)
    ties = difference.size - wins - losses
    return Comparison(float(difference.mean()), wins, losses, ties, statistic, p_value)
