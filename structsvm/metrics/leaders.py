"""The best of several systems, and those that the queries do not distinguish from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from structsvm.metrics.significance import compare
from structsvm.protocols import Float

__all__ = ["LEVEL", "Leaders", "leaders"]

LEVEL = 0.05
"""Significance level: a difference is called significant if its p-value is below."""

_ROUNDING = 1e-12


class Leaders(NamedTuple):
    """Result of :func:`leaders`.

    Attributes
    ----------
    first : tuple of str
        The system of the best mean; several if their means are equal up to rounding.
    level : dict of str to float
        The other systems without a significant difference to the first, best first, each with its p.
    n_tested : int
        Number of comparisons made.
    """

    first: tuple[str, ...]
    level: dict[str, float]
    n_tested: int


def leaders(per_query: Mapping[str, Float]) -> Leaders:
    """Return the best system, those equal to it, and those not significantly different: a headline has to name all.

    Parameters
    ----------
    per_query : mapping of name to array-like, shape (n_queries,)
        Higher is better.

    Returns
    -------
    Leaders
        The p-values are those of :func:`compare`, the two-tailed Wilcoxon test against the first of ``first``, and not
        corrected for their number: fewer differences would be significant if they were.

    Examples
    --------
    >>> found = leaders({"a": [.5] * 8, "b": [.1, .9] + [.5] * 6, "c": [.1, .2, .3, .4] * 2, "d": [.5] * 8})
    >>> found.first, list(found.level), found.n_tested
    (('a', 'b', 'd'), [], 1)
    """
    means = {name: float(sum(values) / len(values)) for name, values in per_query.items()}
    top = max(means.values())
    first = tuple(name for name, mean in means.items() if mean >= top - _ROUNDING)
    others = sorted((name for name in means if name not in first), key=lambda name: -means[name])
    p_values = {name: compare(per_query[first[0]], per_query[name]).p_value for name in others}
    return Leaders(first, {name: p for name, p in p_values.items() if p >= LEVEL}, len(others))
