"""Which of several systems is best, as far as the queries can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from structsvm.metrics.significance import compare
from structsvm.protocols import Float

__all__ = ["LEVEL", "Leaders", "leaders"]

LEVEL = 0.05
"""Below this p a difference is called significant."""

_ROUNDING = 1e-12


class Leaders(NamedTuple):
    """What :func:`leaders` returns.

    Attributes
    ----------
    first : tuple of str
        The system of the best mean; several where their means are equal up to rounding.
    level : dict of str to float
        The other systems without a significant difference to the first, best first, each with its p.
    n_tested : int
        Comparisons made.
    """

    first: tuple[str, ...]
    level: dict[str, float]
    n_tested: int


def leaders(per_query: Mapping[str, Float]) -> Leaders:
    """The best system, those equal to it, and those that may be as good: a headline has to name all of them.

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
    rest = sorted((name for name in means if name not in first), key=lambda name: -means[name])
    p_values = {name: compare(per_query[first[0]], per_query[name]).p_value for name in rest}
    return Leaders(first, {name: p for name, p in p_values.items() if p >= LEVEL}, len(rest))
