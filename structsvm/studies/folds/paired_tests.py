"""Tests of each method against each baseline in each measure, and remarks on the grid of C."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from structsvm.metrics import compare
from structsvm.online.statistics.corrections import holm
from structsvm.protocols import Float
from structsvm.studies.folds.results import Results

__all__ = ["LEVEL", "PairedTest", "paired_tests", "remarks"]

LEVEL = 0.05


class PairedTest(NamedTuple):
    """A method against a baseline on the test queries: the difference with its 95 % interval (Student's t), and tests.

    ``p_value`` is Wilcoxon's, ``t_p_value`` that of the paired t test, both two-tailed; ``holm`` is ``p_value``
    adjusted for all tests of the study.
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
    t_p_value: float | None
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
                test = compare(own, base)
                low, high, p = _student(own - base)
                found.append(
                    PairedTest(
                        measure, method, baseline, test.mean_difference, low, high, test.wins, test.losses, test.ties,
                        test.p_value, p, 1.0,
                    )
                )  # fmt: skip
    adjusted = holm([test.p_value for test in found]).tolist() if found else []
    return [test._replace(holm=p) for test, p in zip(found, adjusted, strict=True)]


def _student(difference: Float) -> tuple[float | None, float | None, float | None]:
    """Return the 95 % interval of a mean and its two-tailed p-value; None for one query."""
    from scipy.special import stdtr, stdtrit

    n = difference.size
    if n < 2:
        return None, None, None
    middle = float(difference.mean())
    error = math.sqrt(float(np.square(difference - middle).mean()) / (n - 1))
    if error == 0:
        return middle, middle, 1.0 if middle == 0 else 0.0
    reach = float(stdtrit(n - 1, 0.975)) * error
    return middle - reach, middle + reach, 2 * float(stdtr(n - 1, -abs(middle) / error))


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
