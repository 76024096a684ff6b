"""Tables for papers: LaTeX and Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structsvm.plots.pages import Column

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "–": "--",
    "<": "$<$",
}


def means_table(results: Any, level: float) -> tuple[list[Column], list[list[str]], str]:
    """Return columns, rows and a note: means, the best in bold, with letters for the baselines that differ from them.

    ``\\0b`` begins bold text, ``\\0r`` superscripts, and ``\\0`` ends both.
    """
    from structsvm.plots.pages import columns, measure_name

    letters = {name: chr(ord("a") + k) for k, name in enumerate(results.baselines)}
    measures = results.measures.report
    rows = []
    differs = {
        (t.measure, *pair)
        for t in results.tests.pairs
        for pair in ((t.method, t.baseline), (t.baseline, t.method))
        if t.holm <= level
    }
    means = {m.name: {name: m.mean(name) for name in measures} for m in results.methods}
    best = {name: max(own[name] for own in means.values()) for name in measures}
    for method, own in means.items():
        letter = f" ({letters[method]})" if method in letters else ""
        cells = [f"{method}{letter}"]
        for name in measures:
            raised = "".join(letters[other] for other in letters if (name, method, other) in differs)
            text = f"{own[name]:.4f}"
            text = f"\0b{text}\0" if own[name] == best[name] else text
            cells.append(f"{text}\0r{raised}\0" if raised else text)
        rows.append(cells)
    note = (
        f"Bold: the best mean. Letters: different from the method of that letter at {level:g} (two-tailed Wilcoxon "
        f"test, Holm's correction for {results.tests.n} tests)."
    )
    return columns("method", numbers=map(measure_name, measures)), rows, note


def markdown(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""

    def cell(text: str) -> str:
        text = re.sub(r"([\\|*_<>`])", r"\\\1", text)
        return re.sub("\0b(.*?)\0", r"**\1**", re.sub("\0r(.*?)\0", r"<sup>\1</sup>", text))

    lines = [[cell(column.name) for column in columns], ["---:" if c.numeric else "---" for c in columns]]
    lines += [[cell(text) for text in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return a LaTeX tabular with booktabs rules."""

    def cell(text: str) -> str:
        text = re.sub(r"[\\~^−–<&%$#_{}]", lambda m: _SPECIAL.get(m[0], "\\" + m[0]), text)
        text = re.sub("\0r(.*?)\0", r"$^{\\mathrm{\1}}$", text)
        text = re.sub(r"(?<![\w.-])-(?=\d)", "$-$", text)  # the minus sign of a number
        return re.sub("\0b(.*?)\0", r"\\textbf{\1}", text)

    lines = [r"\begin{tabular}{" + "".join("r" if c.numeric else "l" for c in columns) + "}", r"\toprule"]
    lines += [" & ".join(cell(c.name) for c in columns) + r" \\", r"\midrule"]
    lines += [" & ".join(map(cell, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])
