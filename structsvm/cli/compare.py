"""``structsvm compare`` and ``structsvm search``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli.files import (
    Columns,
    DocId,
    Features,
    Fill,
    Label,
    QueryId,
    Selection,
    check_input,
    check_jobs,
    check_kept,
    check_model_output,
    check_outputs,
    keep_names,
    write_text,
)
from structsvm.cli.grids import GRID, parse_grid
from structsvm.cli.scales import Scale
from structsvm.cli.signs import Monotone, read_signs
from structsvm.cli.terminal import note, print_table


def _list_methods(method: list[str] | None) -> list[str] | None:
    if method == ["list"]:
        from structsvm.studies.folds import methods

        for name, description in methods().items():
            typer.echo(f"{name:<16}{description}")
        raise typer.Exit
    if method is None:
        return None
    from structsvm.studies.folds.methods import full_name

    return [full_name(name.strip()) for names in method for name in names.split(",")]


Source = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A folder with Fold1, Fold2, ... or train, vali, test or parts S1, S2, ...; or one file or store to cut "
        "into folds. Files are LETOR text or tables with named columns (.csv, .tsv, Parquet).",
    ),
]
Method = Annotated[
    list[str] | None,
    typer.Option(
        help="svm-map, svm-ndcg@10, tree, lightgbm, ...; several with commas or repeated, 'list' shows them.",
        show_default="svm-map, svm-roc",
        callback=_list_methods,
        is_eager=True,  # the list needs no data
    ),
]
Grid = Annotated[str, typer.Option("--C", help=GRID)]
Select = Annotated[str, typer.Option(help="Measure that chooses C on the validation queries.")]
Convention = Annotated[str, typer.Option(help="trec (trec_eval 9), letor4, letor4_script or burges.")]
Relevance = Annotated[float, typer.Option(help="Label from which a document is relevant.")]


Folds = Annotated[int, typer.Option(help="Number of parts that a single file is cut into.")]
Seed = Annotated[int, typer.Option(help="Seed of the shuffle before the cut, and of random methods.")]
Tol = Annotated[float, typer.Option(help="Relative duality gap to reach.")]
Work = Annotated[
    Path | None,
    typer.Option(help="Folder of finished results, from which a stopped run continues."),
]
Jobs = Annotated[
    int,
    typer.Option(
        callback=check_jobs,
        help="Largest number of processes; -1 is one per processor. Short work is done in one, which is faster. "
        "Results do not depend on it.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]

_DEFAULT_GRID = "1e-3:1e4:15"
_DEFAULT_METHODS = ["svm-map", "svm-roc"]
_STOPPED_EARLY = ("lightgbm", "xgboost", "catboost", "lambdarank", "lambdarank-net")
_NOT_SAVED = ("lightgbm", "xgboost", "catboost", "best-feature")


def compare(
    data: Source,
    method: Method = None,
    C: Grid = _DEFAULT_GRID,
    select: Select = "map",
    selection: Selection = "max",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure on the test queries; repeat for more. Differences are tested in the first.",
            show_default="map, ndcg@10",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Method that the others are compared with.", show_default="the first"),
    ] = None,
    convention: Convention = "trec",
    relevance: Relevance = 1.0,
    scale: Scale = "none",
    folds: Folds = 5,
    seed: Seed = 0,
    tol: Tol = 1e-3,
    fill: Fill = None,
    label: Label = "label",
    qid: QueryId = "qid",
    docid: DocId = "docid",
    features: Features = None,
    jobs: Jobs = -1,
    work: Work = None,
    as_json: AsJson = False,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="With --json: also the value of each query.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with figures.")] = None,
) -> None:
    """Compare methods on test queries, with C chosen on validation queries.

    The table has the mean of each measure, the queries won and lost against the baseline with the two-tailed Wilcoxon
    test, the C chosen, the duality gap and the training time.
    """
    check_input(data)
    grid = parse_grid(C)
    columns = Columns.given(label, qid, docid, features)
    check_outputs({"--csv": csv, "--report": report}, [data])
    if work is not None:
        check_kept(work)

    from structsvm.studies import folds as comparison
    from structsvm.studies.folds.page import as_records, headline, page, table

    measures = comparison.Measures(
        select,
        tuple(metric or ("map", "ndcg@10")),
        convention,
        relevance,
        selection,  # type: ignore[arg-type]
    )
    measures.check()
    found = comparison.find_folds(data, n_folds=folds, random_state=seed, columns=columns.options())
    with _Told(len(found) * len(set(method or _DEFAULT_METHODS))) as callback:
        results = comparison.run(
            found, method or _DEFAULT_METHODS, grid, measures=measures,
            training=comparison.Training(scale, relevance, tol, random_state=seed),
            baseline=baseline, fill=fill, columns=columns.options(), work=work, n_jobs=jobs, callback=callback,
        )  # fmt: skip
    _warn_unconverged(results, tol)
    heads, rows = table(results)
    if csv is not None:
        _write_csv(csv, results)
    if report is not None:
        write_text(report, page(results, f"Learning to rank: {data.name}"))
    if as_json:
        typer.echo(json.dumps(as_records(results, per_query=per_query), allow_nan=False))
        return
    print_table(heads, rows)
    typer.echo(headline(results))
    if work is not None and results.reused:
        note(f"{results.reused} of {results.reused + results.computed} cells found in {work}")


def search(
    data: Source,
    validation: Annotated[
        Path | None,
        typer.Option(help="A file to choose on; without it, DATA is cut for cross-validation over queries."),
    ] = None,
    method: Method = None,
    C: Grid = _DEFAULT_GRID,
    select: Select = "map",
    selection: Selection = "max",
    convention: Convention = "trec",
    relevance: Relevance = 1.0,
    scale: Scale = "none",
    monotone: Monotone = None,
    folds: Folds = 5,
    seed: Seed = 0,
    tol: Tol = 1e-3,
    fill: Fill = None,
    label: Label = "label",
    qid: QueryId = "qid",
    docid: DocId = "docid",
    features: Features = None,
    jobs: Jobs = -1,
    work: Work = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Train the best on all of DATA and write the model (.npz)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the method and C with the best mean on validation queries; test queries are not used.

    If DATA is a folder with folds, the mean is over the validation parts of all of them.
    """
    check_input(data)
    grid = parse_grid(C)
    signs = read_signs(monotone)
    for name in method or _DEFAULT_METHODS:
        if signs and not name.startswith("svm-"):
            raise ValueError(f"--monotone: expected methods svm-LOSS only, got {name}")
    columns = Columns.given(label, qid, docid, features)
    for name in method or _DEFAULT_METHODS:
        if output is not None and name in _NOT_SAVED:
            raise ValueError(f"--output: expected methods whose model can be saved, got {name}; leave it out")
    if output is not None:
        check_model_output(output, [data])
    if work is not None:
        check_kept(work)

    from structsvm.report.html import Column
    from structsvm.studies import folds as comparison
    from structsvm.studies.folds.page import best_in_search

    measures = comparison.Measures(select, (select,), convention, relevance, selection)  # type: ignore[arg-type]
    measures.check()
    found = comparison.find_folds(
        data, n_folds=folds, random_state=seed, validation=validation, test=False, columns=columns.options()
    )
    if output is not None and (len(found[0].train.files) > 1 or found[0].train.files[0] != data):
        raise ValueError(f"--output: expected one file or store to train on, got the folder {data}")
    training = comparison.Training(scale, relevance, tol, random_state=seed, monotone=tuple(signs.items()))
    with _Told(len(found) * len(set(method or _DEFAULT_METHODS))) as callback:
        results = comparison.run(
            found, method or _DEFAULT_METHODS, grid, measures=measures, training=training, fill=fill,
            columns=columns.options(), work=work,
            n_jobs=jobs, callback=callback,
        )  # fmt: skip
    early = [m.name for m in results.methods if m.name in _STOPPED_EARLY]
    if early:
        note(
            f"warning: {', '.join(early)}: settings were chosen on the same validation queries in each fold, so that "
            "the means are too high; compare measures on test queries"
        )
    best = best_in_search(results.methods)
    chosen, mean = best.best()
    equal = [m.name for m in results.methods if m is not best and m.best()[1] >= mean - 1e-12]
    if output is not None:
        _refit(data, best, training, fill, columns, output)
    if as_json:
        record = {
            "select": select, "convention": convention, "relevance": relevance,
            "best": {"method": best.name, "C": chosen, "mean": mean},
            "equal": equal,
            "methods": [
                {"method": m.name, "C": m.curve()[0], "means": m.curve()[1].tolist()} for m in results.methods
            ],
        }  # fmt: skip
        typer.echo(json.dumps(record, allow_nan=False))
        return
    rows = [
        [
            m.name,
            "–" if C_ is None else f"{C_:.4g}",
            f"{value:.4f}",
            "best" if m is best and chosen == C_ else "",
        ]
        for m in results.methods
        for C_, value in zip(*m.curve(), strict=True)
    ]
    print_table([Column("method"), Column("C", numeric=True), Column(select, numeric=True), Column("")], rows)
    at = "" if chosen is None else f" with C = {chosen:.4g}"
    typer.echo(f"Best: {best.name}{at}, mean {select} {mean:.4f} on validation queries")
    if equal:
        typer.echo(f"Equal to it: {', '.join(equal)}")
    if output is not None:
        typer.echo(f"Model: {output}")


class _Told:
    """A bar on the terminal, on stderr, that counts cells."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[last]}"),
            TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("training", total=total, last="")

    def __enter__(self) -> Callable[[str, str, bool], object]:
        self._bar.start()
        return lambda method, fold, reused: self._bar.update(self._task, advance=1, last=f"{fold} {method}")

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _warn_unconverged(results: Any, tol: float) -> None:
    for row in results.rows():
        if row.unconverged:
            note(
                f"warning: {row.method}: {row.unconverged} of {len(results.folds)} chosen models did not reach the gap "
                f"{tol:g} (worst {row.gap:.1e}); raise --tol, shorten --C or scale the features"
            )


def _refit(data: Path, best: Any, training: Any, fill: float | None, columns: Columns, output: Path) -> None:
    """Train the winner on all queries."""
    from structsvm.cli.files import read_data
    from structsvm.export.model_file import save
    from structsvm.studies.folds.methods import walk

    rows = read_data(data, columns, fill=fill)
    chosen, _ = best.best()
    walked = walk(best.name, [1.0 if chosen is None else chosen], rows, rows, training, None)
    model = next(walked).model
    keep_names(model, rows)
    save(model, output)


def _write_csv(path: Path, results: Any) -> None:
    import csv
    import io

    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    names = results.measures.report
    writer.writerow(
        [
            "method",
            *names,
            "difference",
            "wins",
            "losses",
            "ties",
            "p_value",
            "C",
            "gap",
            "unconverged",
            "seconds",
        ]
    )
    for row in results.rows():
        Cs = " ".join("" if C is None else repr(C) for C in row.Cs).strip()
        writer.writerow(
            [row.method, *(row.means[name] for name in names), row.difference, row.wins, row.losses, row.ties,
             row.p_value, Cs, "" if row.gap is None else row.gap, row.unconverged, round(row.seconds, 3)]
        )  # fmt: skip
    write_text(path, buffer.getvalue())
