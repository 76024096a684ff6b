"""``RunTable``: several measures of several runs, with tests against one of the runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.frames import frame
from structsvm.common.notebook import html_by
from structsvm.metrics.results import EvaluationResult
from structsvm.metrics.significance import Comparison, Test, compare, holm
from structsvm.protocols import Float

_MARK = "†"


@dataclass(frozen=True, eq=False, repr=False)
class RunTable:
    """Measures of runs over the judged topics, as :func:`structsvm.metrics.evaluate` returns them for several runs.

    Attributes
    ----------
    names : tuple of str
        The runs.
    measures : tuple of str
    results : dict of (str, str) to EvaluationResult
        By run and measure.
    baseline : str or None
        The run used as the reference by :meth:`against`.
    comparisons : dict of (str, str) to Comparison
        Comparisons of the other runs with the baseline.
    adjusted : dict of (str, str) to float
        Their p-values by Holm's method over all runs and measures.
    level : float
        A difference is marked where the adjusted p is below ``1 - level``.

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
    Comparison(+0.2500 [-2.9266, 3.4266], 1 win, 0 losses, 1 tie, p = 0.5 by t)
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

    def against(self, baseline: str, *, test: Test = "wilcoxon", level: float = 0.95) -> RunTable:
        """Return the table with every other run compared to a baseline, in every measure.

        Parameters
        ----------
        baseline : str
            One of the runs.
        test : {"wilcoxon", "t", "randomization"}, default="wilcoxon"
            As in :func:`structsvm.metrics.compare`.
        level : float, default=0.95
            Level of the intervals and of the marks; p-values are adjusted by Holm over all runs and measures.

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
        """Return a pandas DataFrame of the means or, after :meth:`against`, one row per comparison with interval and
        p."""
        if self.comparisons is None or self.adjusted is None:
            return frame(
                dict(zip(self.measures, self.means().T, strict=True)), index=self.names, index_name="run"
            )
        rows = [
            {
                "run": name, "measure": m, "mean": self.results[name, m].mean, "difference": c.mean_difference,
                "lower": c.lower, "upper": c.upper, "p": c.p_value, "p_holm": self.adjusted[name, m],
            }
            for (name, m), c in self.comparisons.items()
        ]  # fmt: skip
        return frame({key: [row[key] for row in rows] for key in rows[0]} if rows else {})

    def to_markdown(self) -> str:
        """Return the means as a Markdown table: the best per measure is bold, ``†`` marks significant differences."""
        lines = ["| run | " + " | ".join(self.measures) + " |", "|---" + "|---:" * len(self.measures) + "|"]
        lines += [f"| {' | '.join([name, *cells])} |" for name, cells in self._cells("**{}**", _MARK)]
        return "\n".join([*lines, *self._note("\n")])

    def to_latex(self) -> str:
        """Return the means as a LaTeX ``tabular`` (package booktabs), marked as :meth:`to_markdown` does."""
        rows = [("run", list(map(_tex, self.measures))), *self._cells(r"\textbf{{{}}}", r"$^{\dagger}$")]
        head, *body = [" & ".join([_tex(name), *cells]) + r" \\" for name, cells in rows]
        lines = [rf"\begin{{tabular}}{{l{'r' * len(self.measures)}}}", r"\toprule", head, r"\midrule", *body]
        return "\n".join(
            [*lines, r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in self._note(""))]
        )

    def _cells(self, best: str, mark: str) -> list[tuple[str, list[str]]]:
        means = self.means()
        top = np.array([np.nanmax(column) if not np.isnan(column).all() else math.nan for column in means.T])
        rows = []
        for i, name in enumerate(self.names):
            cells = []
            for j, measure in enumerate(self.measures):
                text = f"{means[i, j]:.4f}"
                text = best.format(text) if means[i, j] >= top[j] - 1e-12 else text
                cells.append(text + (mark if self._differs(name, measure) else ""))
            rows.append((name, cells))
        return rows

    def _differs(self, name: str, measure: str) -> bool:
        return self.adjusted is not None and self.adjusted.get((name, measure), 1.0) < 1.0 - self.level

    def _note(self, before: str) -> list[str]:
        if self.comparisons is None:
            return []
        test = next(iter(self.comparisons.values())).test if self.comparisons else ""
        how = f"({test}, Holm over all cells, p < {1 - self.level:.3g})"
        return [f"{before}{_MARK} differs from {self.baseline} {how}"]

    def __repr__(self) -> str:
        rows = [("run", list(self.measures)), *self._cells("{}", _MARK)]
        if self.comparisons is not None:  # digits below digits
            rows = [(name, [c if c.endswith(_MARK) else f"{c} " for c in cells]) for name, cells in rows]
        width = max(len(name) for name, _ in rows)
        widths = [max(map(len, column)) + 1 for column in zip(*(cells for _, cells in rows), strict=True)]
        lines = []
        for name, cells in rows:
            aligned = [cell.rjust(w) for cell, w in zip(cells, widths, strict=True)]
            lines.append("  ".join([name.ljust(width), *aligned]).rstrip())
        return "\n".join([*lines, *self._note("")])

    _repr_html_ = html_by("run_table")


def _tex(text: str) -> str:
    for character in "\\&%$#_{}":
        text = text.replace(character, "\\" + character if character != "\\" else "/")
    return text


def runs_by_name(runs: Any) -> dict[str, Any]:
    """Return one or several runs by name; raise if two share a name."""
    if isinstance(runs, Mapping):
        return {str(name): run for name, run in runs.items()}
    several: Sequence[Any] = [runs] if hasattr(runs, "docid") else list(runs)
    names = [run.tag for run in several]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(
            "runs", f"expected a name for each, got {twice!r} twice", "pass a mapping of names to runs"
        )
    return dict(zip(names, several, strict=True))
