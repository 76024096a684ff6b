"""``RunTable``: several measures of several runs, with tests against a baseline run."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from structsvm.common.checks import check_choice
from structsvm.common.frames import frame
from structsvm.common.text_tables import aligned
from structsvm.metrics.results import EvaluationResult
from structsvm.metrics.significance import Comparison, Test, compare
from structsvm.metrics.tests import holm
from structsvm.plots.html_by import html_by
from structsvm.protocols import Float

_MARK = "†"


@dataclass(frozen=True, eq=False, repr=False)
class RunTable:
    """Measures of runs over the judged topics, as :func:`structsvm.metrics.evaluate` returns them for several runs.

    Attributes
    ----------
    names : tuple of str
        Names of the runs.
    measures : tuple of str
        Names of the measures.
    results : dict of (str, str) to EvaluationResult
        Results by run and measure.
    baseline : str or None
        The run with which :meth:`against` compared the others; None in a table without comparisons.
    comparisons : dict of (str, str) to Comparison
        Comparisons of the other runs with the baseline, by run and measure.
    adjusted : dict of (str, str) to float
        p-values of the comparisons, adjusted by Holm's method over all runs and measures.
    level : float
        Differences with an adjusted p-value below ``1 - level`` are marked.

    Examples
    --------
    >>> from structsvm.metrics import evaluate
    >>> from structsvm.readers import Qrels, Run
    >>> qrels = Qrels.from_dict({"1": {"a": 1, "b": 0}, "2": {"a": 0, "b": 1}})
    >>> good = Run.from_dict({"1": {"a": 2.0, "b": 1.0}, "2": {"b": 2.0, "a": 1.0}}, tag="good")
    >>> bad = Run.from_dict({"1": {"a": 1.0, "b": 2.0}, "2": {"b": 2.0, "a": 1.0}}, tag="bad")
    >>> table = evaluate(qrels, [good, bad], ["map", "ndcg@10"])
    >>> table
    run      map   ndcg@10
    good  1.0000    1.0000
    bad   0.7500    0.8155
    >>> table.against("bad", test="t").comparisons["good", "map"]
    Comparison(+0.2500 [-1.0000, 1.0000], 1 win, 0 losses, 1 tie, p = 1 by sign)
    """

    names: tuple[str, ...]
    measures: tuple[str, ...]
    results: dict[tuple[str, str], EvaluationResult]
    baseline: str | None = None
    comparisons: dict[tuple[str, str], Comparison] | None = None
    adjusted: dict[tuple[str, str], float] | None = None
    level: float = 0.95

    def means(self) -> Float:
        """Return the mean of each run (row) and measure (column)."""
        return np.array([[self.results[name, m].mean for m in self.measures] for name in self.names])

    def against(self, baseline: str, *, test: Test = "wilcoxon", level: float = 0.95) -> Self:
        """Return the table with comparisons of every other run with a baseline, for every measure.

        Parameters
        ----------
        baseline : str
            Name of the run to compare with.
        test : {"wilcoxon", "t", "sign", "randomization"}, default="wilcoxon"
            As in :func:`structsvm.metrics.compare`.
        level : float, default=0.95
            Level of the intervals and of the marks; p-values are adjusted by Holm's method over all runs and
            measures.

        Returns
        -------
        RunTable
        """
        check_choice("baseline", baseline, self.names)
        cells = [(name, m) for name in self.names if name != baseline for m in self.measures]
        found = {
            (name, m): compare(self.results[name, m], self.results[baseline, m], test=test, level=level)
            for name, m in cells
        }
        adjusted = dict(zip(cells, holm([found[cell].p_value for cell in cells]).tolist(), strict=True))
        return replace(self, baseline=baseline, comparisons=found, level=level, adjusted=adjusted)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the means or, after :meth:`against`, of the comparisons with intervals and
        p-values, one per row."""
        if self.comparisons is None or self.adjusted is None:
            return frame(
                dict(zip(self.measures, self.means().T, strict=True)), index=self.names, index_name="run"
            )
        rows = [
            {
                "run": name,
                "measure": m,
                "mean": self.results[name, m].mean,
                "difference": c.mean_difference,
                "lower": c.lower,
                "upper": c.upper,
                "p": c.p_value,
                "p_holm": self.adjusted[name, m],
            }
            for (name, m), c in self.comparisons.items()
        ]
        return frame({key: [row[key] for row in rows] for key in rows[0]} if rows else {})

    def _cells(self) -> list[list[str]]:
        """Return the header, and the name and means of each run, with a mark at significant differences."""
        adjusted = self.adjusted or {}
        # pad cells without a mark with a blank, so that digits are aligned
        blank = "" if self.comparisons is None else " "
        rows = [["run", *(measure + blank for measure in self.measures)]]
        for name in self.names:
            marks = (adjusted.get((name, measure), 1.0) < 1.0 - self.level for measure in self.measures)
            values = (f"{self.results[name, measure].mean:.4f}" for measure in self.measures)
            marked = zip(values, marks, strict=True)
            rows.append([name, *(value + (_MARK if differs else blank) for value, differs in marked)])
        return rows

    def _note(self) -> list[str]:
        if not self.comparisons:  # None, or empty for a single run
            return []
        test = next(iter(self.comparisons.values())).test
        return [
            f"{_MARK} differs from {self.baseline} ({test}, Holm over all cells, p < {1 - self.level:.3g})"
        ]

    def __repr__(self) -> str:
        rows = [[name, *(f" {cell}" for cell in cells)] for name, *cells in self._cells()]
        numeric = [False] + [True] * len(self.measures)
        return "\n".join([*aligned(rows, numeric), *self._note()])

    _repr_html_ = html_by("run_table")
