"""Paired comparison of two systems over queries, and corrections for several comparisons.

:func:`compare` computes one test without correction, and :func:`holm` corrects the p-values of several tests. The tests
of ``structsvm compare`` are corrected in ``structsvm.cli.studies.folds.results``, those of a table in ``run_table``.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_choice, check_fraction, check_whole
from structsvm.common.notebook import html_by
from structsvm.metrics.intervals import student_mean
from structsvm.metrics.results import EvaluationResult
from structsvm.protocols import Float
from structsvm.queries import refuse_first

Test = Literal["wilcoxon", "t", "randomization"]
TESTS: tuple[Test, ...] = ("wilcoxon", "t", "randomization")

# differences that are due only to the order of summation count as ties
_DECIMALS = 12
_ROUNDING = 1e-12
_BLOCK = 1 << 20
"""Number of random signs that the randomization test draws at once."""


class Comparison(NamedTuple):
    """Paired comparison of systems ``a`` and ``b``.

    Attributes
    ----------
    mean_difference : float
        Mean of ``a - b`` over the queries.
    wins, losses, ties : int
        Number of queries for which ``a`` is larger than, smaller than and equal to ``b``.
    statistic : float
        Wilcoxon's signed rank statistic, the smaller of the two rank sums; Student's t; or the mean difference in the
        randomization test.
    p_value : float
        Two-tailed p-value; 1 if the systems are equal on all queries.
    lower, upper : float
        Interval of the mean difference by Student's t; NaN for a single query.
    test : str
        Name of the test.
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
    test: Test = "wilcoxon"
    level: float = 0.95

    def __repr__(self) -> str:
        counts = [(self.wins, "win", "wins"), (self.losses, "loss", "losses"), (self.ties, "tie", "ties")]
        told = ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts)
        return (
            f"Comparison({self.mean_difference:+.4f} [{self.lower:.4f}, {self.upper:.4f}], {told}, "
            f"p = {self.p_value:.3g} by {self.test})"
        )

    def _repr_html_(self) -> str:
        return html_by("comparison")(self)


def compare(
    a: Any,
    b: Any,
    *,
    test: Test = "wilcoxon",
    level: float = 0.95,
    n_resamples: int = 10_000,
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
    test : {"wilcoxon", "t", "randomization"}, default="wilcoxon"
        Wilcoxon's signed rank test, which drops ties as in Wilcoxon (1945); Student's paired t-test; or Fisher's
        randomization test, which flips the signs of the differences at random (Smucker, Allan and Carterette, CIKM
        2007).
    level : float, default=0.95
        Level of the interval of the mean difference.
    n_resamples : int, default=10000
        Number of random sign vectors of the randomization test; if there are at most this many, all are enumerated.
    random_state : int, default=0
        Seed of the random signs.

    Returns
    -------
    Comparison

    Notes
    -----
    The p-value of Wilcoxon's test is computed by ``scipy.stats.wilcoxon`` with its defaults for differences rounded to
    12 decimals, so that equal differences share a rank. It is exact for few queries, and uses the normal approximation
    for many (in SciPy 1.17, for more than 50, or more than 13 if absolute differences are tied).

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
    check_whole("n_resamples", n_resamples, 1)
    difference = _differences(*paired(a, b))
    found = student_comparison(difference, level=level)
    if test == "t" or not found.wins + found.losses:
        return found._replace(test=test)
    if test == "randomization":
        p_value = _randomized(difference, n_resamples, random_state)
        return found._replace(statistic=found.mean_difference, p_value=p_value, test=test)
    from scipy.stats import wilcoxon

    outcome = wilcoxon(difference[difference != 0])
    return found._replace(statistic=float(outcome.statistic), p_value=float(outcome.pvalue), test=test)


def student_comparison(
    difference: Float, weights: Float | None = None, *, wider: float = 1.0, level: float = 0.95
) -> Comparison:
    """Return the comparison by Student's t test of differences per query, with the error of :func:`student_mean`."""
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    found = student_mean(difference, weights, wider=wider)
    statistic, p_value = found.test() if wins + losses else (0.0, 1.0)
    counts, half = (wins, losses, difference.size - wins - losses), found.half(level)
    ends = found.mean - half, found.mean + half
    return Comparison(found.mean, *counts, statistic, p_value, *ends, "t", float(level))


def _differences(a: Float, b: Float) -> Float:
    """Return ``a - b`` for the queries with values; raise BadInput if the systems do not match."""
    if a.ndim != 1 or a.shape != b.shape:
        raise BadInput("a and b", f"expected one value for each query, got {a.shape} and {b.shape}")
    if np.isinf(a).any() or np.isinf(b).any():
        raise BadInput("a and b", "expected finite values, got infinity")
    one_sided = np.isnan(a) != np.isnan(b)
    if one_sided.any():
        query = int(np.argmax(one_sided))
        problem = f"expected values in both systems, got {a[query]} and {b[query]}"
        raise BadInput(f"query {query}", problem, "use the same labels and the same empty= policy for both")
    difference = np.round((a - b)[~np.isnan(a)], _DECIMALS)
    if difference.size == 0:
        raise BadInput("a and b", "expected at least one query with values, got none")
    return difference


def _randomized(difference: Float, n_resamples: int, seed: int) -> float:
    """Return the share of sign vectors whose sum is at least as far from 0 as the observed sum; a random sample of
    vectors includes the observed one."""
    sizes = np.abs(difference[difference != 0])
    observed = abs(float(difference.sum())) * (1.0 - 1e-12)
    n = sizes.size
    if n < 63 and 2**n <= n_resamples:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, np.newaxis] >> np.arange(n)) & 1)
        return float((np.abs((signs * sizes).sum(axis=1)) >= observed).mean())
    rng = np.random.default_rng(seed)
    as_far, step = 0, max(1, _BLOCK // n)
    for start in range(0, n_resamples, step):
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(min(step, n_resamples - start), n))
        as_far += int((np.abs((signs * sizes).sum(axis=1)) >= observed).sum())
    return (1 + as_far) / (1 + n_resamples)


def p_values(p: ArrayLike) -> Float:
    """Return p-values of several comparisons as an array; raise BadInput for other input."""
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1:
        raise BadInput("p", f"expected one p-value per comparison, got shape {values.shape}")
    refuse_first("p", values, ~((values >= 0) & (values <= 1)), "a number in [0, 1]")
    return values


def holm(p: ArrayLike) -> Float:
    """Return Holm's step-down adjusted p-values, which bound the probability of any false rejection.

    If all hypotheses with adjusted p-values of at most alpha are rejected, the probability of a false rejection is at
    most alpha, for any dependence between the comparisons. This also holds for always-valid p-values.

    Parameters
    ----------
    p : array-like, shape (n_comparisons,)
        p-values of the comparisons.

    Returns
    -------
    ndarray of float64, shape (n_comparisons,)

    Notes
    -----
    Holm, A simple sequentially rejective multiple test procedure (Scand. J. Statist. 1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = p_values(p)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * values[order]), 1.0)
    return adjusted


def paired(a: Any, b: Any) -> tuple[Float, Float]:
    """Return the values of two systems in the same query order; results of ``evaluate`` are matched by query id."""
    if isinstance(a, EvaluationResult) != isinstance(b, EvaluationResult):
        raise BadInput(
            "a and b", "expected two results of evaluate, or two arrays of values, got one of each"
        )
    if not isinstance(a, EvaluationResult):
        return np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.name != b.name:
        raise BadInput("a and b", f"expected results of one measure, got {a.name!r} and {b.name!r}")
    row_of = {query: row for row, query in enumerate(b.query_ids.tolist())}
    ids = dict.fromkeys(a.query_ids.tolist())
    for name, own, others in (("a", ids, row_of), ("b", row_of, ids)):
        lonely = next((query for query in own if query not in others), None)
        if lonely is not None:
            raise BadInput("a and b", f"expected the same queries, but {lonely!r} is in {name} only")
    return a.per_query, b.per_query[[row_of[query] for query in ids]]


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
    first = tuple(name for name, mean in means.items() if mean >= top - _ROUNDING)
    others = sorted((name for name in means if name not in first), key=lambda name: -means[name])
    p_values = [compare(per_query[first[0]], per_query[name]).p_value for name in others]
    adjusted = holm(p_values).tolist() if others else []
    return Leaders(first, dict(zip(others, adjusted, strict=True)))
