"""``structsvm compare`` and ``structsvm search``: compare methods on test queries, and choose a method and C."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli import paths
from structsvm.cli.files import keep_names, split_names
from structsvm.cli.groups import Group
from structsvm.cli.options import (
    GRID,
    AsJson,
    Convention,
    FailIfWorse,
    Jobs,
    MaybeOutput,
    Monotone,
    PerQuery,
    Positive,
    Relevance,
    Report,
    Scale,
    Seed,
    Selection,
    Tol,
    parse_grid,
    read_signs,
)
from structsvm.cli.tables import TrainingTable
from structsvm.cli.terminal import (
    INTERRUPTED,
    bar,
    emit,
    exit_if_worse,
    note,
    table_lines,
)
from structsvm.common.checks import BadInput
from structsvm.common.files import csv_lines


def _list_methods(method: list[str] | None) -> list[str] | None:
    if method == ["list"]:
        from structsvm.cli.studies.folds import METHODS

        for name, description in METHODS.items():
            typer.echo(f"{name:<16}{description}")
        raise typer.Exit
    if method is None:
        return None
    from structsvm.cli.studies.folds.methods import full_name

    return [full_name(name) for name in split_names(method)]


Source = Annotated[
    Path,
    "<DATA> A folder with Fold1, Fold2, ... or train, vali, test or parts S1, S2, ...; or one file or store to split "
    "into folds. Files are LETOR text or tables with named columns (.csv, .tsv, Parquet).",
]

_MINUTE = 60.0
"""Seconds between two lines of progress if there is no terminal for a progress bar."""
_DEFAULT_METHODS = ("svm-map", "svm-roc")
_NOT_SAVED = ("lightgbm", "best-feature")


@dataclass(frozen=True)
class Study(Group):
    """Options of a comparison: methods, folds, and the choice of C."""

    method: Annotated[
        list[str] | None,
        typer.Option(
            help="map (svm-map), ndcg@10, tree-mrr, lightgbm, ...; repeat or use commas for more; 'list' shows them. "
            "(default: svm-map, svm-roc)",
            callback=_list_methods,
            is_eager=True,  # 'list' needs no DATA
        ),
    ] = None
    C: Annotated[str, GRID] = "1e-3:1e4:15"
    select: Annotated[
        str | None,
        "Measure that chooses C on the validation queries. (default: the measure of the loss of each method; in "
        "search, which compares methods by one measure, that of the first method)",
    ] = None
    selection: Selection = "max"
    convention: Convention = "trec"
    relevance: Relevance = 1.0
    scale: Scale = "none"
    monotone: Monotone = None
    positive: Positive = False
    folds: Annotated[int, "Number of folds that a single file is split into."] = 5
    seed: Annotated[
        Seed,
        "Seed of the shuffle before the split, and of random methods. Folds also depend on the order of the queries "
        "in DATA.",
    ] = 0
    tol: Tol = 1e-3
    jobs: Annotated[
        Jobs,
        "Largest number of processes; -1 is one per processor. Short work uses a single process, which is faster. "
        "Results do not depend on it.",
    ] = -1
    work: Annotated[Path | None, "Folder for finished results, from which a stopped run continues."] = None

    @property
    def methods(self) -> list[str]:
        """The methods; by default those of the package."""
        return self.method or list(_DEFAULT_METHODS)

    @property
    def grid(self) -> list[float]:
        """The values of C."""
        return parse_grid(self.C)

    def check(self, data: Path) -> None:
        """Validate the options that do not depend on data."""
        paths.check_input(data)
        _ = self.grid, self.signs
        for name in self.methods:
            if (self.signs or self.positive) and not name.startswith("svm-"):
                option = "--monotone" if self.signs else "--positive"
                raise BadInput(
                    option, f"expected only methods svm-LOSS, got {name}", "compare others with --baseline"
                )
        if self.work is not None:
            paths.check_kept(self.work)

    def measures(self, report: Sequence[str]) -> Any:
        """Return the measures of the study; the ``report`` measures are for the test queries."""
        from structsvm.cli.studies.folds import Measures

        selection: Any = self.selection
        found = Measures(tuple(report), self.select, self.convention, self.relevance, selection)
        found.check()
        return found

    @property
    def signs(self) -> dict[str, int]:
        """The required sign of each feature."""
        return read_signs(self.monotone)

    def training(self) -> Any:
        """Return the training settings of the methods."""
        from structsvm.cli.studies.folds import Training

        bound: Any = {"monotone": tuple(self.signs.items()), "positive": self.positive}
        return Training(self.scale, self.relevance, self.tol, random_state=self.seed, **bound)

    def find(self, data: Path, table: TrainingTable, **options: Any) -> Any:
        """Return the folds of the data."""
        from structsvm.cli.studies.folds import find_folds

        columns = table.options()
        return find_folds(data, n_folds=self.folds, random_state=self.seed, columns=columns, **options)

    def run(self, folds: Any, table: TrainingTable, measures: Any, training: Any, **options: Any) -> Any:
        """Train and measure all methods on all folds; a progress bar counts pairs of a method and a fold."""
        from structsvm.cli.studies import folds as comparison

        with bar("training", "{task.fields[last]}", counts=True) as shown:
            total, said = len(folds) * len(set(self.methods)), [time.monotonic()]
            task = shown.add_task("training", total=total, last="")

            def tell(method: str, fold: str, _: Any) -> None:
                shown.update(task, advance=1, last=f"{fold} {method}")
                if shown.disable and time.monotonic() >= said[-1] + _MINUTE:
                    said.append(time.monotonic())
                    note(f"{shown.tasks[0].completed} of {total} trained, the last {method} on {fold}")

            try:
                return comparison.run(
                    folds,
                    self.methods,
                    self.grid,
                    measures=measures,
                    training=training,
                    fill=table.learned_fill,
                    columns=table.options(),
                    work=self.work,
                    n_jobs=self.jobs,
                    callback=tell,
                    **options,
                )
            except KeyboardInterrupt:
                if self.work is None:
                    raise
                note(f"interrupted; the same command continues from the results in {self.work}")
                raise typer.Exit(INTERRUPTED) from None


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

    measures = study.measures(metric or usual_report(study.methods))
    found = study.find(data, table)
    baselines = list(split_names(baseline or ()))
    results = study.run(found, table, measures, study.training(), baseline=baselines)
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
    emit(lines(results), as_records(results, per_query=per_query), as_json)
    if not as_json and study.work is not None and results.reused:
        note(f"{results.reused} of {results.reused + results.computed} results found in {study.work}")
    if report is not None:  # written last, so that the results are printed even if the page fails
        paths.write_text(report, page(results, f"Learning to rank: {data.name}"))
    exit_if_worse(
        [test for test in results.tests.pairs if test.method not in results.baselines], fail_if_worse
    )


def search(
    data: Source,
    validation: Annotated[
        Path | None, "Queries to choose on; without it, DATA is split for cross-validation over queries."
    ] = None,
    *,
    study: Study,
    table: TrainingTable,
    baseline: Annotated[
        str | None,
        "Baseline of the estimate: a feature, by name or number from 1, or the file of a TREC run, or of a "
        "model trained on other queries.",
    ] = None,
    output: Annotated[MaybeOutput, "Train the winner on all of DATA and write the model (.npz)."] = None,
    as_json: AsJson = False,
) -> None:
    """Find the method and C with the best mean on validation queries; test queries are not used.

    If DATA is a folder with folds, the mean is over the validation parts of all of them. The best of many means is
    biased upwards. The estimate printed below this mean measures each part of the queries with the method and C chosen
    on the other parts.
    """
    study.check(data)
    for name in study.methods:
        if output is not None and name in _NOT_SAVED:
            raise BadInput(
                "--output", f"expected methods whose model can be saved, got {name}", "leave it out"
            )
    if output is not None:
        paths.check_model_output(output, [data])

    from structsvm.cli.studies.folds.methods import STOPPED_EARLY, full_name, measure_of
    from structsvm.cli.studies.folds.page import best_in_search
    from structsvm.cli.studies.folds.results import (
        estimate_of_search,
        remarks,
        values_of_baseline,
    )
    from structsvm.metrics.estimates import FEW

    select = study.select or measure_of(full_name(study.methods[0])) or "map"
    measures = replace(study, select=select).measures((select,))
    found = study.find(data, table, validation=validation, test=False)
    if output is not None and (len(found[0].train.files) > 1 or found[0].train.files[0] != data):
        raise BadInput("--output", f"expected one file or store to train on, got the folder {data}")
    training = study.training()
    column = None
    if baseline is not None:  # measured first, because its name may be misspelled
        column = values_of_baseline(baseline, found, measures, table.learned_fill, table.options())
    results = study.run(found, table, measures, training)
    early = [m.name for m in results.methods if m.name in STOPPED_EARLY]
    if early:
        note(
            f"warning: {', '.join(early)}: settings were chosen on the same validation queries in each fold, so that "
            "the means are too high; compare measures on test queries"
        )
    for remark in remarks(results):
        note(f"{remark}; widen --C")
    best = best_in_search(results.methods)
    if output is not None:
        _refit(data, best, training, table, output)
    estimate = estimate_of_search(results, column)
    if estimate is not None and estimate.n_queries < FEW:
        note(f"{estimate.n_queries} validation queries are few: the interval may be too narrow")
    more = [] if estimate is None else [repr(estimate)]
    more += [] if output is None else [f"Model: {output}"]
    emit([*_search_lines(results, best), *more], _search_record(results, best, estimate), as_json)


def _equal(results: Any, best: Any) -> list[str]:
    """Return the names of the other methods with the same mean."""
    return [m.name for m in results.methods if m is not best and m.best()[1] >= best.best()[1] - 1e-12]


def _search_record(results: Any, best: Any, estimate: Any) -> dict[str, Any]:
    chosen, mean = best.best()
    measures = results.measures
    return {
        "select": measures.select,
        "convention": measures.convention,
        "relevance": measures.relevance,
        "best": {"method": best.name, "C": chosen, "mean": mean},
        "equal": _equal(results, best),
        "methods": [
            dict(zip(("method", "C", "means"), (m.name, *m.curve()), strict=True)) for m in results.methods
        ],
        "estimate": estimate,
    }


def _search_lines(results: Any, best: Any) -> Iterator[str]:
    from structsvm.plots.pages import Column

    chosen, mean = best.best()
    select = results.measures.select
    rows = [
        [
            m.name,
            "–" if C is None else f"{C:.4g}",
            f"{value:.4f}",
            "best" if m is best and chosen == C else "",
        ]
        for m in results.methods
        for C, value in zip(*m.curve(), strict=True)
    ]
    columns = [Column("method"), Column("C", numeric=True), Column(select, numeric=True), Column("")]
    yield from table_lines(columns, rows)
    at = "" if chosen is None else f" with C = {chosen:.4g}"
    yield f"Best: {best.name}{at}, mean {select} {mean:.4f} on validation queries"
    if equal := _equal(results, best):
        yield f"Equal to the best: {', '.join(equal)}"


def _warn_unconverged(results: Any, tol: float) -> None:
    for m in results.methods:
        if m.unconverged:
            note(
                f"warning: {m.name}: {m.unconverged} of {len(results.folds)} chosen models did not reach the gap "
                f"{tol:g} (worst {m.gap:.1e}); raise --tol, shorten --C or scale the features"
            )


def _refit(data: Path, best: Any, training: Any, table: TrainingTable, output: Path) -> None:
    """Train the best method on all queries, and save its model."""
    from structsvm.cli.studies.folds.methods import takes_missing, walk
    from structsvm.export.model_file import save

    rows, kept = table.read_to_train(data, keep=table.missing is None and takes_missing(best.name))
    chosen, _ = best.best()
    walked = walk(best.name, [1.0 if chosen is None else chosen], rows, rows, training, None)
    model = next(walked).model
    keep_names(model, rows)
    if kept:
        model.table_ = kept
    save(model, output)


def _write_csv(path: Path, results: Any) -> None:
    """Write one row per method; tests are against the first baseline, and their columns end with the measure."""
    names = results.measures.report
    tested = ("difference", "lower", "upper", "wins", "losses", "ties", "p_value", "t_p_value", "holm")
    tests = [f"{column} {name}" for name in names for column in tested]
    columns = ["method", *names, "C", "gap", "unconverged", "seconds", *tests]
    rows = [columns]
    for m in results.methods:
        row: dict[str, Any] = {name: m.mean(name) for name in names}
        row |= {"method": m.name, "gap": m.gap, "unconverged": m.unconverged, "seconds": round(m.seconds, 3)}
        row["C"] = " ".join(repr(C) for C in m.Cs if C is not None)
        for test in results.tests.pairs:
            if (test.method, test.baseline) == (m.name, results.baseline):
                row |= {f"{column} {test.measure}": getattr(test, column) for column in tested}
        rows.append([row.get(column, "") for column in columns])
    paths.write_lines(path, csv_lines(rows))
