"""Paired comparison of two systems over queries.

:func:`compare` computes one test without correction. The tests of ``structsvm compare`` are corrected in
``structsvm.cli.studies.folds.results``, those of a table in ``run_table``.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from structsvm.common.checks import BadInput, check_choice, check_fraction
from structsvm.metrics.results import EvaluationResult
from structsvm.metrics.tests import (
    DECIMALS,
    ROUNDING,
    UNBOUNDED,
    TestResult,
    holm,
    mean_of,
    randomization,
    sign,
    student,
    wilcoxon,
)
from structsvm.plots.html_by import html_by
from structsvm.protocols import Float

Test = Literal["wilcoxon", "t", "sign", "randomization"]
TESTS: tuple[Test, ...] = ("wilcoxon", "t", "sign", "randomization")


class Comparison(NamedTuple):
    """Paired comparison of systems ``a`` and ``b``.

    Attributes
    ----------
    mean_difference : float
        Mean of ``a - b`` over the queries.
    wins, losses, ties : int
        Number of queries for which ``a`` is larger than, smaller than and equal to ``b``.
    statistic : float
        Sum of Wilcoxon's signed ranks; Student's t; number of wins in the sign test; or the mean difference in the
        randomization test.
    p_value : float
        Two-tailed p-value; 1 if the systems are equal on all queries.
    lower, upper : float
        Interval of the mean difference by Student's t, clipped to the range of the measure; NaN if all differences are
        equal, as for a single query.
    test : str
        Name of the test that was computed.
    level : float
        Level of the interval.

    Examples
    --------
    >>> from structsvm.metrics import compare
    >>> found = compare([0.9, 0.8, 0.7, 0.6, 0.8, 0.9], [0.6, 0.7, 0.5, 0.2, 0.3, 0.9])
    >>> found
    Comparison(+0.2500 [0.0537, 0.4463], 5 wins, 0 losses, 1 tie, p = 0.0625 by wilcoxon)
    >>> found.wins, found.losses, found.ties
    (5, 0, 1)
    """

    mean_difference: float
    wins: int
    losses: int
    ties: int
    statistic: float
    p_value: float
    lower: float = math.nan
    upper: float = math.nan
    test: str = "wilcoxon"
    level: float = 0.95

    def __repr__(self) -> str:
        counts = [(self.wins, "win", "wins"), (self.losses, "loss", "losses"), (self.ties, "tie", "ties")]
        told = ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts)
        ends = "" if math.isnan(self.lower) else f" [{self.lower:.4f}, {self.upper:.4f}]"
        return f"Comparison({self.mean_difference:+.4f}{ends}, {told}, p = {self.p_value:.3g} by {self.test})"

    def _repr_html_(self) -> str:
        return html_by("comparison")(self)


def compare(
    a: object,
    b: object,
    *,
    test: Test = "wilcoxon",
    level: float = 0.95,
    random_state: int = 0,
) -> Comparison:
    """Compare two systems on the same queries by a two-tailed paired test.

    Differences up to 1e-12, which are due to rounding, count as ties. Queries that are NaN in both systems (left out by
    ``empty="skip"``) are ignored.

    Parameters
    ----------
    a, b : EvaluationResult or array-like of float, shape (n_queries,)
        Results of :func:`structsvm.metrics.evaluate` for the same measure, which are matched by query id; or values in
        the same order of queries.
    test : {"wilcoxon", "t", "sign", "randomization"}, default="wilcoxon"
        Wilcoxon's signed rank test, which drops ties as in Wilcoxon (1945); Student's paired t-test; the binomial sign
        test, which drops ties; or Fisher's randomization test, which flips the signs of the differences at random
        (Smucker, Allan and Carterette, CIKM 2007).
    level : float, default=0.95
        Level of the interval of the mean difference.
    random_state : int, default=0
        Seed of the random signs.

    Returns
    -------
    Comparison

    Notes
    -----
    Differences are rounded to 12 decimals, so that equal differences share a rank. The p-value of Wilcoxon's test is
    exact for up to 50 differences that are not zero, with and without ties, and that of the randomization test for
    fewer than 30; for more, the former is that of the normal distribution, and the latter is estimated from
    10,000 random sign vectors. Wilcoxon's p-value is that of ``scipy.stats.wilcoxon``, except for 14 to 50
    tied differences, where SciPy approximates. If all differences are equal, and for fewer than 30 that are not zero
    and have the same absolute value, the t test is replaced by the sign test, which is exact.

    Examples
    --------
    >>> compare([0.5, 0.75, 1.0, 0.4], [0.25, 0.25, 0.25, 0.4], test="t")
    Comparison(+0.3750 [-0.1386, 0.8886], 3 wins, 0 losses, 1 tie, p = 0.103 by t)

    Results are matched by query, whatever their order:

    >>> from structsvm.metrics import evaluate
    >>> mine = evaluate("map", [1, 0, 0, 1], [2, 1, 2, 1], qid=["x", "x", "y", "y"])
    >>> other = evaluate("map", [0, 1, 1, 0], [2, 1, 1, 2], qid=["y", "y", "x", "x"])
    >>> compare(mine, other).wins
    1
    """
    check_choice("test", test, TESTS)
    check_fraction("level", level)
    difference = _differences(*paired(a, b))
    if test == "randomization":
        result = randomization(difference, random_state=random_state)
    else:
        result = _COMPUTE[test](difference)
    bounds = UNBOUNDED
    if isinstance(a, EvaluationResult) and isinstance(b, EvaluationResult):
        bounds = a.bounds[0] - b.bounds[1], a.bounds[1] - b.bounds[0]
    return comparison_of(difference, result, bounds=bounds, level=level)


_COMPUTE = {"wilcoxon": wilcoxon, "t": student, "sign": sign}


def comparison_of(
    difference: Float,
    result: TestResult | None = None,
    weights: Float | None = None,
    *,
    bounds: tuple[float, float] = UNBOUNDED,
    wider: float = 1.0,
    level: float = 0.95,
) -> Comparison:
    """Return the comparison with given differences per query, with the interval of :func:`mean_of`.

    Without the result of a test, the p-value belongs to this interval. It is that of the sign test if the differences
    have no spread.
    """
    found = mean_of(difference, weights, wider=wider)
    statistic, p_value, _, test = result or TestResult(*found.student(), difference.size, "t")
    if result is None and math.isnan(found.error):
        statistic, p_value, _, test = sign(difference)
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    counts, ends = (wins, losses, difference.size - wins - losses), found.interval(level, bounds)
    return Comparison(found.mean, *counts, statistic, p_value, *ends, test, float(level))


def _differences(a: Float, b: Float) -> Float:
    """Return ``a - b`` for the queries with values; raise BadInput if the systems do not match."""
    if a.ndim != 1 or a.shape != b.shape:
        raise BadInput("a and b", f"expected one value for each query, got {a.shape} and {b.shape}")
    if np.isinf(a).any() or np.isinf(b).any():
        raise BadInput("a and b", "expected finite values, got infinity")
    one_sided = np.isnan(a) != np.isnan(b)
    if one_sided.any():
        query = int(np.argmax(one_sided))
        raise BadInput(
            f"query {query}",
            f"expected values in both systems, got {a[query]} and {b[query]}",
            "use the same labels and the same empty= policy for both",
        )
    difference = np.round((a - b)[~np.isnan(a)], DECIMALS)
    if difference.size == 0:
        raise BadInput("a and b", "expected at least one query with values, got none")
    return difference


def paired(a: Any, b: Any) -> tuple[Float, Float]:
    """Return the values of two systems in the same query order; results of ``evaluate`` are matched by query id."""
    if isinstance(a, EvaluationResult) != isinstance(b, EvaluationResult):
        raise BadInput(
            "a and b", "expected two results of evaluate, or two arrays of values, got one of each"
        )
    if not isinstance(a, EvaluationResult):
        return np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return a.paired(b)


LEVEL = 0.05
"""Significance level: a difference with a smaller p-value is significant."""


class Leaders(NamedTuple):
    """Systems with the best mean, and p-values of the other systems against the first, in descending order of mean."""

    first: tuple[str, ...]
    p_values: dict[str, float]

    @property
    def level(self) -> dict[str, float]:
        """Systems that do not differ significantly from the first, and their p-values."""
        return {name: p for name, p in self.p_values.items() if p >= LEVEL}


def leaders(per_query: Mapping[str, Float]) -> Leaders:
    """Return the systems with the best mean, and the p-values of all other systems against the first of these.

    The p-values are those of :func:`compare`, corrected for their number by :func:`holm`.
    """
    means = {name: float(sum(values) / len(values)) for name, values in per_query.items()}
    top = max(means.values())
    first = tuple(name for name, mean in means.items() if mean >= top - ROUNDING)
    others = sorted((name for name in means if name not in first), key=lambda name: -means[name])
    p_values = [compare(per_query[first[0]], per_query[name]).p_value for name in others]
    adjusted = holm(p_values).tolist() if others else []
    return Leaders(first, dict(zip(others, adjusted, strict=True)))
