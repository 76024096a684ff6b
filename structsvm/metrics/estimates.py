"""``Estimate``: the expected score of a ranker on new queries, estimated from held-out queries."""

import math
from typing import NamedTuple

from structsvm.common.checks import BadInput, check_fraction, check_positive, counted
from structsvm.metrics.results import EvaluationResult
from structsvm.metrics.significance import Comparison, comparison_of
from structsvm.metrics.tests import mean_of
from structsvm.plots.html_by import html_by
from structsvm.protocols import Float
from structsvm.queries import warn_user

WIDER = 1.1
"""Factor applied to the standard error of cross-validated values, whose models share training queries. With this
factor, the coverage of 95 % intervals was 92 to 98 % for 10 or more queries (``experiments/estimate_coverage.py``)."""

FEWEST, FEW = 3, 10


class Estimate(NamedTuple):
    """Expected score of a ranker on new queries, with Student's t interval.

    Attributes
    ----------
    name : str
        Name of the measure.
    mean, lower, upper : float
        The estimate and the ends of its interval, clipped to the range of the measure; NaN if all values are equal.
    n_queries : int
        Number of held-out queries.
    half_width : float
        Half the width of the interval before clipping.
    level : float
        Confidence level of the interval.
    difference : Comparison or None
        The score minus that of the baseline on the same queries, with an interval of the same kind; its ``p_value`` is
        NaN for fewer than 10 queries. None without a baseline.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([0.2, 0.4, 0.6, 0.3, 0.5, 0.4, 0.2, 0.6, 0.5, 0.3])
    >>> found = estimate_of(EvaluationResult("map", values.mean(), values, np.arange(10), (0.0, 1.0)))
    >>> found
    map on new queries 0.400 [0.283, 0.517] (10 queries); for ±0.1 judge about 14
    >>> found.queries_for(0.02)
    344
    """

    name: str
    mean: float
    lower: float
    upper: float
    n_queries: int
    half_width: float
    level: float = 0.95
    difference: Comparison | None = None

    def queries_for(self, half_width: float) -> int:
        """Return the approximate number of queries for which the interval would be ``mean +- half_width``.

        Raise BadInput if there is no interval, as all values are equal.
        """
        check_positive("half_width", half_width)
        if math.isnan(self.half_width):
            raise BadInput("estimate", "expected values that differ, got equal values for all queries")
        return math.ceil(self.n_queries * (self.half_width / half_width) ** 2)

    def __repr__(self) -> str:
        ends = _ends(self.lower, self.upper)
        text = f"{self.name} on new queries {self.mean:.3f} {ends} ({counted(query=self.n_queries)})"
        if self.half_width > 0:
            nicer = _nice(self.half_width)
            n = self.queries_for(nicer)
            digits = max(0, len(str(n)) - 2)
            text += f"; for ±{nicer:g} judge about {math.ceil(n / 10**digits) * 10**digits}"
        return text if self.difference is None else f"{text}\n{_verdict(self.difference)}"

    def _repr_html_(self) -> str:
        return html_by("estimate")(self)


def _nice(half: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten below ``half``."""
    # from the decimal form, which avoids rounding of a logarithm
    power = float(f"1e{int(f'{half:e}'.partition('e')[2])}")
    return float(f"{next(f * power for f in (5, 2, 1, 0.5) if f * power < half):.1g}")


def _ends(lower: float, upper: float) -> str:
    return "[no interval: all values are equal]" if math.isnan(lower) else f"[{lower:.3f}, {upper:.3f}]"


def _verdict(found: Comparison) -> str:
    p = "" if math.isnan(found.p_value) else f", p = {found.p_value:.2g}"
    interval = f"{_ends(found.lower, found.upper)}{p}"
    if found.lower > 0:
        return f"better than the baseline by {found.mean_difference:.3f} {interval}"
    if found.upper < 0:
        return f"worse than the baseline: {found.mean_difference:+.3f} {interval}"
    told = "difference from" if math.isnan(found.lower) else "not shown to be better than"
    return f"{told} the baseline: {found.mean_difference:+.3f} {interval}"


def few_queries(n: int) -> str:
    """Return a warning about intervals from ``n`` queries; empty if these are enough, or too few for an interval."""
    if not 1 < n < FEW:
        return ""
    return f"{n} queries are few; intervals from fewer than {FEW} contain the mean less often than their level states"


def estimate_of(
    held_out: EvaluationResult,
    weights: Float | None = None,
    *,
    baseline: Float | None = None,
    level: float = 0.95,
    wider: float = WIDER,
) -> Estimate:
    """Return the estimate, given one value per held-out query and, optionally, the values of a baseline."""
    check_fraction("level", level)
    values = held_out.per_query
    n = int(values.size)
    if n < FEWEST:
        raise BadInput(
            "estimate",
            f"expected at least {FEWEST} held-out queries of positive weight, got {n}",
            "judge more queries",
        )
    if few := few_queries(n):
        warn_user(f"estimate: {few}, and there is no p-value")
    found = mean_of(values, weights, wider=wider)
    difference = None
    if baseline is not None:
        most = held_out.bounds[1] - held_out.bounds[0]
        difference = comparison_of(
            values - baseline, weights=weights, bounds=(-most, most), wider=wider, level=level
        )
        if n < FEW:
            difference = difference._replace(p_value=math.nan)
    ends = found.interval(level, held_out.bounds)
    return Estimate(held_out.name, found.mean, *ends, n, found.half(level), level, difference)
