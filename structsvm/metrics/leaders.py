"""The best of several systems, and those that the queries do not distinguish from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from structsvm.metrics.significance import compare, holm
from structsvm.protocols import Float

LEVEL = 0.05
"""Significance level: a difference is called significant if its p-value is below."""

_ROUNDING = 1e-12


class Leaders(NamedTuple):
    """The systems of the best mean, and how the others compare with the first of them, best first."""

    first: tuple[str, ...]
    p_values: dict[str, float]

    @property
    def level(self) -> dict[str, float]:
        """Systems without a significant difference to the first, and their p-values."""
        return {name: p for name, p in self.p_values.items() if p >= LEVEL}


def leaders(per_query: Mapping[str, Float]) -> Leaders:
    """Return the best system, those equal to it, and those not significantly different: a headline has to name all.

    The p-values are of :func:`compare` against the first, corrected for their number by :func:`holm`.
    """
    means = {name: float(sum(values) / len(values)) for name, values in per_query.items()}
    top = max(means.values())
    first = tuple(name for name, mean in means.items() if mean >= top - _ROUNDING)
    others = sorted((name for name in means if name not in first), key=lambda name: -means[name])
    p_values = [compare(per_query[first[0]], per_query[name]).p_value for name in others]
    adjusted = holm(p_values).tolist() if others else []
    return Leaders(first, dict(zip(others, adjusted, strict=True)))
