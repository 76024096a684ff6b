"""Tests of each method against each baseline in each measure, and remarks on the grid of C.

Holm's correction of ``structsvm compare`` is applied here; its formula is in ``structsvm.metrics.significance``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from structsvm.metrics.significance import compare, holm
from structsvm.studies.folds.results import Results

LEVEL = 0.05


class PairedTest(NamedTuple):
    """A method against a baseline on the test queries: the difference with its 95 % interval (Student's t), and tests.

    All p-values are two-tailed: ``p_value`` is Wilcoxon's; ``holm`` is that adjusted for all tests of the study.
    """

    measure: str
    method: str
    baseline: str
    difference: float
    lower: float | None
    upper: float | None
    wins: int
    losses: int
    ties: int
    p_value: float
    t_p_value: float
    randomization_p_value: float
    holm: float


def paired_tests(results: Results) -> list[PairedTest]:
    """Return the tests of a study, measure by measure."""
    values = {m.name: m for m in results.methods}
    found = []
    for measure in results.measures.report:
        for baseline in results.baselines:
            base = values[baseline].per_query(measure)
            for method in (name for name in values if name != baseline):
                own = values[method].per_query(measure)
                test, t = compare(own, base), compare(own, base, test="t")
                randomized = compare(own, base, test="randomization").p_value
                found.append(
                    PairedTest(
                        measure, method, baseline, test.mean_difference, _or_none(t.lower), _or_none(t.upper),
                        test.wins, test.losses, test.ties, test.p_value, t.p_value, randomized, 1.0,
                    )
                )  # fmt: skip
    adjusted = holm([test.p_value for test in found]).tolist() if found else []
    return [test._replace(holm=p) for test, p in zip(found, adjusted, strict=True)]


def _or_none(value: float) -> float | None:
    """Return a figure as JSON can hold it."""
    return value if math.isfinite(value) else None


def remarks(results: Results) -> list[str]:
    """Return what is to be said of methods whose C is at an end of the grid, beyond which a better one may lie."""
    found = []
    for m in results.methods:
        for end, beside, word, verb in ((0, 1, "smallest", "smaller"), (-1, -2, "largest", "larger")):
            at_end, grid = 0, m.cells[0]["grid"]
            for cell in m.cells:
                means = np.asarray(cell["validation"]).mean(axis=0)
                at_end += len(grid) >= 3 and cell["C"] == grid[end] and bool(means[end] > means[beside])
            if at_end:
                found.append(
                    f"{m.name}: C = {grid[end]:g}, the {word} of the grid, was chosen in {at_end} of {len(m.cells)} "
                    f"folds: a {verb} one may rank better"
                )
    return found
