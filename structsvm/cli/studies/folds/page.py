"""A comparison as tables and as a self-contained HTML page."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from structsvm.cli.studies.best import best_said
from structsvm.cli.studies.folds.results import MethodResult, PairedTest, Results, remarks
from structsvm.cli.terminal import table_lines
from structsvm.common.records import plain
from structsvm.plots import figures, pages

_PER_CHART = 4  # maximum number of lines per chart, so that they can be distinguished


def table(results: Results) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows: means with their 95 % intervals, C chosen, and the cost of training."""
    names = results.measures.report
    rows = [
        [
            m.name,
            *(_mean(m, name) for name in names),
            _range(m.Cs),
            "–" if m.gap is None else f"{m.gap:.0e}",
            f"{m.seconds:.2f}",
        ]
        for m in results.methods
    ]
    return pages.columns("method", numbers=(*names, "C", "gap", "seconds")), rows


def tests_table(tests: Iterable[PairedTest]) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows of the tests against the baselines, measure by measure."""
    columns = pages.columns(
        "measure",
        "method",
        "against",
        numbers=("difference", "95% interval", "better/worse", "p (Wilcoxon)", "p (t)", "Holm"),
    )
    rows = [
        [
            t.measure,
            t.method,
            t.baseline,
            f"{t.difference:+.4f}",
            "–" if t.lower is None else f"{t.lower:+.4f} to {t.upper:+.4f}",
            f"{t.wins}/{t.losses}",
            pages.p_value(t.p_value),
            pages.p_value(t.t_p_value),
            pages.p_value(t.holm),
        ]
        for t in tests
    ]
    return columns, rows


def as_records(results: Results, *, per_query: bool = False) -> dict[str, Any]:
    """Return the values of the tables, unrounded, as plain objects.

    Seconds are kept separately, because only these differ between runs.
    """
    measures = results.measures
    methods = []
    for m in results.methods:
        entry: dict[str, Any] = {
            "method": m.name,
            "means": {name: m.mean(name) for name in measures.report},
            "intervals": {name: m.result(name).interval() for name in measures.report},
            "C": list(m.Cs),
            "gap": m.gap,
            "unconverged": m.unconverged,
            "fold_means": {
                name: [float(np.mean(cell["test"]["values"][name])) for cell in m.cells]
                for name in measures.report
            },
        }
        if per_query:
            entry["per_query"] = {name: m.per_query(name) for name in measures.report}
        methods.append(entry)
    ids = {"query_ids": results.methods[0].query_ids} if per_query else {}
    return plain(
        {
            "select": measures.select or results.selecting,
            "convention": measures.convention,
            "relevance": measures.relevance,
            "baseline": results.baseline,
            "baselines": results.baselines,
            "folds": results.folds,
            "methods": methods,
            "seconds": {m.name: m.seconds for m in results.methods},
            "tests": results.tests.pairs,
            "remarks": remarks(results),
            **ids,
        }
    )


def lines(results: Results) -> Iterator[str]:
    """Yield the tables of means and tests, and the result in words."""
    yield from table_lines(*table(results))
    if results.tests.pairs:
        yield from ("", *table_lines(*tests_table(results.tests.pairs)), "")
    with_C = any(C is not None for m in results.methods for C in m.Cs)
    chosen = f" C was chosen by {results.selecting} on validation queries." if with_C else ""
    yield headline(results) + chosen


def headline(results: Results) -> str:
    """Return the result in words: the best method, the methods that perform equally well, and the baseline."""
    first, tests = results.leading, results.tests
    if first in results.constant:
        return "No measure depends on the ranking of the test queries: nothing distinguishes the methods."
    means = {m.name: f"{m.mean(first):.4f}" for m in results.methods}
    return best_said(
        tests.best,
        means,
        f"{first} on {len(results.methods[0].query_ids)} test queries",
        n_tests=tests.n,
        baseline=results.baseline,
    )


def page(results: Results, title: str) -> str:
    """Return the report: tables, measure against C, differences by query."""
    columns, rows = table(results)
    first, best = results.leading, results.tests.best.first
    with_C = [m for m in results.methods if m.cells[0]["grid"][0] is not None]
    return pages.render(
        "cli/studies/folds/page.html",
        title=title,
        lead=headline(results),
        results=results,
        columns=columns,
        rows=rows,
        tests=tests_table(results.tests.pairs),
        remarks=remarks(results),
        measure=first,
        baselines=pages.listed(results.baselines),
        best=[i for i, m in enumerate(results.methods) if m.name in best],
        of_folds=pages.columns("method", numbers=results.folds),
        means=[
            [m.name, *(f"{np.mean(cell['test']['values'][first]):.4f}" for cell in m.cells)]
            for m in results.methods
        ],
        curves=[
            figures.against_C(dict(group), measure=results.selecting)
            for group in _groups([(m.name, (*m.curve(), m.best()[0])) for m in with_C])
        ],
        Cs=[[m.name, *(f"{C:.3g}" for C in m.Cs)] for m in with_C],
        differences=_differences(results, first),
    )


def _mean(m: MethodResult, name: str) -> str:
    lower, upper = m.result(name).interval()
    return f"{m.mean(name):.4f}" + ("" if np.isnan(lower) else f" [{lower:.3f}, {upper:.3f}]")


def _range(Cs: Sequence[float | None]) -> str:
    values = sorted({C for C in Cs if C is not None})
    if not values:
        return "–"
    return f"{values[0]:.3g}" if len(values) == 1 else f"{values[0]:.3g} – {values[-1]:.3g}"


def _differences(results: Results, measure: str) -> list[figures.Differences]:
    base = next(m for m in results.methods if m.name == results.baseline).per_query(measure)
    return [
        figures.differences(m.per_query(measure) - base, measure=f"{measure}, {m.name}")
        for m in results.methods
        if m.name != results.baseline
    ]


def _groups(items: Sequence[Any]) -> list[Sequence[Any]]:
    """Split lines into charts of about equal size."""
    n_charts = -(-len(items) // _PER_CHART)
    cuts = [round(i * len(items) / n_charts) for i in range(n_charts + 1)] if n_charts else [0]
    return [items[a:b] for a, b in pairwise(cuts)]


def best_in_search(results: Sequence[MethodResult]) -> MethodResult:
    """Return the method whose chosen C has the best validation mean, the first on ties.

    Methods without C come last: they use early stopping on the same validation queries, which makes their validation
    means too high for a comparison.
    """
    return max(results, key=lambda m: (m.best()[0] is not None, m.best()[1]))
