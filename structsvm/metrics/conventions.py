"""Named conventions of measures: the gain of a grade, the discount of a rank, and the order of ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from structsvm.common.portable.elementary import exp2, log2
from structsvm.protocols import Float

Ties = Literal["docid", "row"]
TIES: tuple[Ties, ...] = ("docid", "row")

# 2**1000 times the number of rows of any array is below the largest double, so no sum of gains overflows
_MAX_EXPONENTIAL_GRADE = 1000.0


@dataclass(frozen=True)
class Convention:
    """A way to turn grades and scores into numbers; ``single_precision`` compares scores as float32.

    The gain of a negative grade is 0; ``short_lists_zero`` makes NDCG@k of a query with fewer than k documents 0.
    """

    gain: Literal["linear", "exponential"]
    discount: Literal["log2(i+1)", "log2(i), first two 1"]
    ties: Ties
    single_precision: bool = False
    short_lists_zero: bool = False


CONVENTIONS: dict[str, Convention] = {
    "trec": Convention("linear", "log2(i+1)", "docid", single_precision=True),
    "letor4": Convention("exponential", "log2(i), first two 1", "row"),
    "letor4_script": Convention("exponential", "log2(i), first two 1", "row", short_lists_zero=True),
    "burges": Convention("exponential", "log2(i+1)", "row"),
}
"""The conventions that ``evaluate`` knows by name.

``trec`` is trec_eval 9. ``letor4`` is the formula of the LETOR 4.0 benchmark. ``letor4_script`` is the number
that the benchmark's own evaluation script prints: it takes NDCG@k of a query with fewer than k documents as 0 (403 of
the 784 queries of MQ2008 for k = 10). Use it to compare with figures made by that script. ``burges`` is the usual NDCG
of the boosting literature (Burges et al. 2005).
"""


def gains(grades: Float, convention: Convention) -> Float:
    """Return the gain of each grade, never negative."""
    positive = np.maximum(grades, 0.0)
    return positive if convention.gain == "linear" else exp2(positive) - 1.0


def largest_grade(convention: Convention) -> float:
    """Return the largest grade with a finite gain."""
    return np.inf if convention.gain == "linear" else _MAX_EXPONENTIAL_GRADE


def discounts(n: int, convention: Convention) -> Float:
    """Return the divisors of the ranks ``1..n``."""
    rank = np.arange(1, n + 1, dtype=np.float64)
    if convention.discount == "log2(i+1)":
        return np.asarray(log2(rank + 1.0))
    return np.asarray(log2(np.maximum(rank, 2.0)))
