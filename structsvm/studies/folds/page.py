"""A comparison as tables and as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from structsvm import report
from structsvm.metrics.leaders import Leaders, leaders
from structsvm.metrics.recall_levels import RECALL_LEVELS
from structsvm.studies.folds.cells import MethodResult, Results

__all__ = ["as_records", "best_in_search", "headline", "page", "table"]

_SHOWN_WEIGHTS = 15
_PER_CHART = 4  # most lines per chart, so that they can be distinguished


def table(results: Results) -> tuple[list[report.Column], list[list[str]]]:
    """Return columns and formatted rows: means, differences from the baseline, and the cost of training."""
    names = results.measures.report
    columns = [
        report.Column("method"),
        *(
            report.Column(name, numeric=True)
            for name in (*names, "difference", "better/worse", "p", "C", "gap", "seconds")
        ),
    ]
    rows = []
    for row in results.rows():
        difference = ["", "", ""]
        if row.method != results.baseline:
            difference = [f"{row.difference:+.4f}", f"{row.wins}/{row.losses}", report.p_value(row.p_value)]
        rows.append(
            [row.method, *(f"{row.means[name]:.4f}" for name in names), *difference, _range(row.Cs), _gap(row.gap),
             f"{row.seconds:.2f}"]
        )  # fmt: skip
    return columns, rows


def as_records(results: Results, *, per_query: bool = False) -> dict[str, Any]:
    """Return the same, unrounded, as plain objects.

    Seconds are separate, as only they differ from run to run.
    """
    measures = results.measures
    record: dict[str, Any] = {
        "select": measures.select, "convention": measures.convention, "relevance": measures.relevance,
        "baseline": results.baseline, "folds": list(results.folds), "methods": [], "seconds": {},
    }  # fmt: skip
    for method, row in zip(results.methods, results.rows(), strict=True):
        entry: dict[str, Any] = {
            "method": row.method, "means": row.means, "difference": row.difference, "wins": row.wins,
            "losses": row.losses, "ties": row.ties, "p_value": row.p_value, "C": list(row.Cs), "gap": row.gap,
            "unconverged": row.unconverged,
            "fold_means": {
                name: [float(np.mean(cell["test"]["values"][name])) for cell in method.cells]
                for name in measures.report
            },
        }  # fmt: skip
        if per_query:
            entry["per_query"] = {name: method.per_query(name).tolist() for name in measures.report}
        record["methods"].append(entry)
        record["seconds"][row.method] = row.seconds
    if per_query:
        record["query_ids"] = results.methods[0].query_ids
    return record


def headline(results: Results) -> str:
    """Return the result in words: the best method, those as good, and the baseline."""
    first = results.measures.report[0]
    rows = {row.method: row for row in results.rows()}
    best = _leaders(results)
    n = results.methods[0].per_query(first).shape[0]
    text = (
        f"{report.listed(best.first)} {'has' if len(best.first) == 1 else 'equally have'} the best mean {first} on {n} "
        f"test queries, {rows[best.first[0]].means[first]:.4f}"
    )
    if not best.n_tested:
        return f"{text}."

    def with_mean(name: str, p: float) -> str:
        return f"{name} ({rows[name].means[first]:.4f}, {report.p_said(p)})"

    findings = []
    if results.baseline not in (*best.first, *best.level):
        p = rows[best.first[0]].p_value
        findings.append(f"significantly better than the baseline {with_mean(results.baseline, p)}")
    if best.level:
        findings.append(
            f"no significant difference to {report.listed([with_mean(*other) for other in best.level.items()])}"
        )
    elif best.n_tested > 1 or results.baseline in best.first:
        findings = ["significantly better than each of the others"]
    several = f", not corrected for {best.n_tested} comparisons" if best.n_tested > 1 else ""
    return f"{text}: {'; '.join(findings)} (two-tailed Wilcoxon test{several})."


def _leaders(results: Results) -> Leaders:
    first = results.measures.report[0]
    return leaders({m.name: m.per_query(first) for m in results.methods})


def page(results: Results, title: str) -> str:
    """Return the report: table, measure against C, precision and recall, weights, gaps, per-query differences."""
    columns, rows = table(results)
    first = results.measures.report[0]
    best = [i for i, m in enumerate(results.methods) if m.name in _leaders(results).first]
    sections = [
        report.section(
            "Result",
            report.table(
                columns, rows, caption=f"Test queries; {first} is compared with {results.baseline}",
                highlight=best,
            ),
            report.paragraph(
                f"C: the values chosen in the folds, by the mean {results.measures.select} on the validation queries. "
                "better/worse: test queries. p: two-tailed Wilcoxon signed rank test, not corrected for the number of "
                "methods. gap: the largest relative "
                "duality gap of the models chosen; methods without a certificate have none. seconds: training of the "
                f"whole grid on all folds, after a warm-up. Convention: {results.measures.convention}.",
                small=True,
            ),
            _folds(results, first),
        ),
        report.section(f"{results.measures.select} against C, validation queries", *_curves(results)),
        report.section("Precision and recall, test queries", *_precision(results)),
        report.section("What was learned", *_weights(results, best)),
        report.section("How sure is the optimum", *_gaps(results)),
        report.section("Query by query", *_differences(results, first)),
    ]  # fmt: skip
    return report.page(title, *sections, lead=headline(results))


def _range(Cs: Sequence[float | None]) -> str:
    values = sorted({C for C in Cs if C is not None})
    if not values:
        return "–"
    return f"{values[0]:.3g}" if len(values) == 1 else f"{values[0]:.3g} – {values[-1]:.3g}"


def _gap(gap: float | None) -> str:
    return "–" if gap is None else f"{gap:.0e}"


def _folds(results: Results, measure: str) -> str:
    columns = [report.Column("method"), *(report.Column(name, numeric=True) for name in results.folds)]
    rows = [
        [m.name, *(f"{np.mean(cell['test']['values'][measure]):.4f}" for cell in m.cells)] for m in results.methods
    ]  # fmt: skip
    return report.table(columns, rows, caption=f"Mean {measure} of each fold")


def _curves(results: Results) -> list[str]:
    with_C = [m for m in results.methods if m.cells[0]["grid"][0] is not None]
    if not with_C:
        return [report.paragraph("No method has a C.")]
    charts = []
    for group in _groups(with_C):
        series = []
        for m in group:
            grid, values = m.curve()
            series.append(report.Series(m.name, grid, values.tolist()))
        charts.append(
            report.line_chart(
                series, x="C", y=results.measures.select, log_x=True, rings=[m.best()[0] for m in group]
            )
        )
    columns = [report.Column("method"), *(report.Column(name, numeric=True) for name in results.folds)]
    rows = [[m.name, *(f"{C:.3g}" for C in m.Cs)] for m in with_C]
    return [
        report.paragraph(
            "Mean over the validation queries of all folds, the best C ringed. The table has the C chosen in each fold."
        ),
        report.side_by_side(*charts),
        report.table(columns, rows, caption="C chosen"),
    ]


def _precision(results: Results) -> list[str]:
    recalls = RECALL_LEVELS.tolist()
    curves = [(m.name, m.precision()) for m in results.methods]
    drawable = [(name, values) for name, values in curves if values is not None]
    ends = [float(end) for _, values in drawable for end in (values.min(), values.max())]
    charts = [
        report.line_chart(
            [report.Series(name, recalls, values.tolist()) for name, values in group],
            x="recall", y="interpolated precision", y_range=(min(ends), max(ends)),
        )
        for group in _groups(drawable)
    ]  # fmt: skip
    return [
        report.paragraph("Mean over the queries that have a relevant document."),
        report.side_by_side(*charts),
    ]


def _weights(results: Results, best: Sequence[int]) -> list[str]:
    lists = []
    for i, m in enumerate(results.methods):
        weights = [cell["coef"] for cell in m.cells]
        if None in weights or len({len(w) for w in weights}) > 1:
            continue
        # the length of w depends on C, so folds are compared by direction
        mean = np.mean([np.asarray(w) / (np.linalg.norm(w) or 1.0) for w in weights], axis=0)
        names = m.cells[0]["feature_names"] or [f"feature {j + 1}" for j in range(mean.shape[0])]
        top = [j for j in np.argsort(-np.abs(mean), kind="stable")[:_SHOWN_WEIGHTS] if mean[j]]
        lists.append(
            report.bar_list(
                [names[j] for j in top], [float(mean[j]) for j in top],
                caption=f"{m.name}{' (best)' if i in best else ''}: "
                + (f"the {len(top)} largest of " if len(top) < mean.shape[0] else "")
                + f"{mean.shape[0]} weights, mean direction over folds",
            )
        )  # fmt: skip
    if not lists:
        return [report.paragraph("No linear model.")]
    return [report.side_by_side(*lists)]


def _gaps(results: Results) -> list[str]:
    drawable = [
        (m.name, h) for m in results.methods if (h := [p for p in m.cells[0]["history"] if 0 < p[1] <= 1])
    ]
    if not drawable:
        return [report.paragraph("No method with a certificate needed more than one pass.")]
    charts = []
    for group in _groups(drawable):
        for x, column in (("passes over the data", 0), ("seconds", 2)):
            series = [report.Series(name, [p[column] for p in h], [p[1] for p in h]) for name, h in group]
            charts.append(report.line_chart(series, x=x, y="relative gap", log_y=True))
    return [
        report.paragraph(
            f"The model chosen in {results.folds[0]}: how far at most its objective was from the optimum, as training "
            "went on. It starts from what smaller values of C left behind."
        ),
        report.side_by_side(*charts),
    ]


def _differences(results: Results, measure: str) -> list[str]:
    base = next(m for m in results.methods if m.name == results.baseline).per_query(measure)
    charts = []
    for m, row in zip(results.methods, results.rows(), strict=True):
        if m.name == results.baseline:
            continue
        text = f"{m.name}: {row.wins} queries better, {row.losses} worse, {row.ties} equal"
        chart = report.difference_chart(
            (m.per_query(measure) - base).tolist(), y=f"difference in {measure}", title=text
        )
        charts.append(report.paragraph(text) + chart)
    if not charts:
        return [report.paragraph("There is only one method.")]
    return [
        report.paragraph(f"{measure} minus that of {results.baseline}, one bar per test query."),
        report.side_by_side(*charts),
    ]


def _groups(items: Sequence[Any]) -> list[Sequence[Any]]:
    """Split what is drawn into charts of about as many lines each."""
    n_charts = -(-len(items) // _PER_CHART)
    cuts = [round(i * len(items) / n_charts) for i in range(n_charts + 1)] if n_charts else [0]
    return [items[a:b] for a, b in pairwise(cuts)]


def best_in_search(results: Sequence[MethodResult]) -> MethodResult:
    """Return the method whose chosen C has the best validation mean, the first on ties.

    Methods without C come after all others: those that stop early chose their settings on the same queries in each
    fold, so that their means are too high to be compared.
    """
    return max(results, key=lambda m: (m.best()[0] is not None, m.best()[1]))
