"""Paired comparison of two systems over queries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from structsvm.metrics.evaluation import EvaluationResult
from structsvm.protocols import Float

__all__ = ["Comparison", "compare", "paired"]

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

    Examples
    --------
    >>> from structsvm.metrics import compare
    >>> found = compare([0.9, 0.8, 0.7, 0.6, 0.8, 0.9], [0.6, 0.7, 0.5, 0.2, 0.3, 0.9])
    >>> found.wins, found.losses, found.ties
    (5, 0, 1)
    >>> print(f"{found.mean_difference:+.2f}, p = {found.p_value:.3f}")
    +0.25, p = 0.062
    """

    mean_difference: float
    wins: int
    losses: int
    ties: int
    statistic: float
    p_value: float


def compare(a: Any, b: Any) -> Comparison:
    """Compare two systems on the same queries by the two-tailed Wilcoxon signed rank test.

    Queries without a difference (up to 1e-12 for rounding) are discarded from the test, as in
    Wilcoxon (1945), and counted as ties. Queries that are NaN in both (left out by ``empty="skip"``) are
    dropped from everything.

    Parameters
    ----------
    a, b : EvaluationResult or array-like of float, shape (n_queries,)
        Results of :func:`structsvm.metrics.evaluate` for the same measure, which are matched by query id; or values in
        the same order of queries.

    Returns
    -------
    Comparison

    Notes
    -----
    The p-value is that of ``scipy.stats.wilcoxon`` with its defaults: exact for few queries, the normal
    approximation for many (more than 50, or than 13 with tied differences, in SciPy 1.17).

    Examples
    --------
    >>> compare([0.5, 0.75, 1.0, 0.4], [0.25, 0.25, 0.25, 0.4])
    Comparison(mean_difference=0.375, wins=3, losses=0, ties=1, statistic=0.0, p_value=0.25)

    Results are matched by query, whatever their order:

    >>> from structsvm.metrics import evaluate
    >>> mine = evaluate("map", [1, 0, 0, 1], [2, 1, 2, 1], qid=["x", "x", "y", "y"])
    >>> other = evaluate("map", [0, 1, 1, 0], [2, 1, 1, 2], qid=["y", "y", "x", "x"])
    >>> compare(mine, other).wins
    1
    """
    a, b = paired(a, b)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"a and b: expected one value for each query, got {a.shape} and {b.shape}")
    if np.isinf(a).any() or np.isinf(b).any():
        raise ValueError("a and b: expected finite values, got infinity")
    one_sided = np.isnan(a) != np.isnan(b)
    if one_sided.any():
        query = int(np.argmax(one_sided))
        raise ValueError(
            f"query {query}: expected values in both systems, got {a[query]} and {b[query]}; use the same "
            "labels and the same empty= policy for both"
        )
    difference = np.round((a - b)[~np.isnan(a)], _DECIMALS)
    if difference.size == 0:
        raise ValueError("a and b: expected at least one query with values, got none")
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    statistic, p_value = 0.0, 1.0
    if wins + losses:
        from scipy.stats import wilcoxon

        outcome = wilcoxon(difference[difference != 0])
        statistic, p_value = float(outcome.statistic), float(outcome.pvalue)
    ties = difference.size - wins - losses
    return Comparison(float(difference.mean()), wins, losses, ties, statistic, p_value)


def paired(a: Any, b: Any) -> tuple[Float, Float]:
    """Return the values of two systems query by query; results of ``evaluate`` are matched by query id."""
    if isinstance(a, EvaluationResult) != isinstance(b, EvaluationResult):
        raise ValueError(
            "a and b: expected two results of evaluate, or two arrays of values, got one of each"
        )
    if not isinstance(a, EvaluationResult):
        return np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.name != b.name:
        raise ValueError(f"a and b: expected results of one measure, got {a.name!r} and {b.name!r}")
    place = {query: row for row, query in enumerate(b.query_ids.tolist())}
    ids = a.query_ids.tolist()
    for query in ids:
        if query not in place:
            raise ValueError(f"a and b: expected the same queries, but {query!r} is in a only")
    if len(place) != len(ids):
        lonely = next(query for query in place if query not in set(ids))
        raise ValueError(f"a and b: expected the same queries, but {lonely!r} is in b only")
    return a.per_query, b.per_query[[place[query] for query in ids]]
