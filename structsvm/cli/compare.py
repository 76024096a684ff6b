"""``structsvm compare``: compare methods on test queries."""

from pathlib import Path
from typing import Annotated, Any

from structsvm.cli import paths
from structsvm.cli.files import TrainingTable, split_names
from structsvm.cli.options import (
    AsJson,
    FailIfWorse,
    PerQuery,
    Report,
)
from structsvm.cli.study_options import Source, Study
from structsvm.cli.terminal import (
    emit,
    exit_if_worse,
    note,
)
from structsvm.common.files import csv_lines


def compare(
    data: Source,
    metric: Annotated[
        list[str] | None,
        "Measure on the test queries; repeat for more. Differences are tested in each measure. (default: map, ndcg@10, "
        "and those of the losses)",
    ] = None,
    baseline: Annotated[
        list[str] | None,
        "Baseline of the comparisons: a method; a feature, by name or number from 1; or the file of a TREC run, "
        "or of a model trained on other queries. Separate several by commas, or repeat. (default: the first)",
    ] = None,
    *,
    study: Study,
    table: TrainingTable,
    as_json: AsJson = False,
    per_query: PerQuery = False,
    csv: Annotated[Path | None, "Write the table as CSV."] = None,
    report: Report = None,
    fail_if_worse: FailIfWorse = None,
) -> None:
    """Compare methods on test queries, with C chosen on validation queries.

    The first table shows the mean of each measure, the chosen C, the duality gap and the training time. The second
    shows the difference of each method from each baseline in each measure, its 95% interval, queries won and lost, the
    two-tailed Wilcoxon and t tests, and Holm's correction of all Wilcoxon tests. Wilcoxon's signed rank test leaves out
    ties and is exact for up to 50 other queries.
    """
    study.check(data)
    paths.check_outputs({"--csv": csv, "--report": report}, [data])

    from structsvm.cli.studies.folds.page import as_records, lines, page
    from structsvm.cli.studies.folds.results import remarks, usual_report
    from structsvm.metrics.estimates import few_queries

    measures = study.measures(metric or usual_report(study.methods))
    results = study.run(
        study.find(data, table),
        table,
        measures,
        study.training(),
        baseline=list(split_names(baseline or ())),
    )
    _warn_unconverged(results, study.tol)
    if csv is not None:
        _write_csv(csv, results)
    for remark in remarks(results):
        note(f"{remark}; widen --C")
    for name in results.constant:
        note(
            f"warning: {name} has the same value for every ranking of the test queries; report another measure, or "
            "check --relevance"
        )
    if few := few_queries(len(results.methods[0].query_ids)):
        note(f"warning: {few}")
    emit(lines(results), as_records(results, per_query=per_query), as_json)
    if not as_json and study.work is not None and results.reused:
        note(f"{results.reused} of {results.reused + results.computed} results found in {study.work}")
    if report is not None:  # written last, so that the results are printed even if the page fails
        paths.write_text(report, page(results, f"Learning to rank: {data.name}"))
    exit_if_worse(
        [test for test in results.tests.pairs if test.method not in results.baselines], fail_if_worse
    )


def _warn_unconverged(results: Any, tol: float) -> None:
    for m in results.methods:
        if m.unconverged:
            note(
                f"warning: {m.name}: {m.unconverged} of {len(results.folds)} chosen models did not reach the gap "
                f"{tol:g} (worst {m.gap:.1e}); raise --tol, shorten --C or scale the features"
            )


def _write_csv(path: Path, results: Any) -> None:
    """Write one row per method; tests are against the first baseline, and their columns end with the measure."""
    names = results.measures.report
    tested = ("difference", "lower", "upper", "wins", "losses", "ties", "p_value", "t_p_value", "holm")
    tests = [f"{column} {name}" for name in names for column in tested]
    columns = ["method", *names, "C", "gap", "unconverged", "seconds", *tests]
    rows = [columns]
    for m in results.methods:
        row: dict[str, Any] = {
            **{name: m.mean(name) for name in names},
            "method": m.name,
            "C": " ".join(repr(C) for C in m.Cs if C is not None),
            "gap": m.gap,
            "unconverged": m.unconverged,
            "seconds": round(m.seconds, 3),
        }
        for test in results.tests.pairs:
            if (test.method, test.baseline) == (m.name, results.baseline):
                row |= {f"{column} {test.measure}": getattr(test, column) for column in tested}
        rows.append([row.get(column, "") for column in columns])
    paths.write_lines(path, csv_lines(rows))
