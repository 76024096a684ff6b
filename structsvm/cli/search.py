"""``structsvm search``: choose a method and C on validation queries."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from structsvm.cli import paths
from structsvm.cli.files import TrainingTable, keep_names
from structsvm.cli.options import (
    AsJson,
    MaybeOutput,
)
from structsvm.cli.study_options import Source, Study
from structsvm.cli.terminal import (
    emit,
    note,
    table_lines,
)
from structsvm.common.checks import BadInput

_NOT_SAVED = ("lightgbm", "best-feature")


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
    from structsvm.metrics.estimates import few_queries

    select = study.select or measure_of(full_name(study.methods[0])) or "map"
    measures = replace(study, select=select).measures((select,))
    found = study.find(data, table, validation=validation, test=False)
    if output is not None and (len(found[0].train.files) > 1 or found[0].train.files[0] != data):
        raise BadInput("--output", f"expected one file or store to train on, got the folder {data}")
    training = study.training()
    # measured first, because its name may be misspelled
    column = (
        None
        if baseline is None
        else values_of_baseline(baseline, found, measures, table.learned_fill, table.options())
    )
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
    estimate = estimate_of_search(results, column)
    if output is not None:
        _refit(data, best, training, table, output, estimate)
    if estimate is not None and (few := few_queries(estimate.n_queries)):
        note(f"warning: {few}")
    if n := sum(cell["undefined"] for cell in best.cells):
        note(
            f"the labels of {n} of {len(best.validation())} validation queries do not define {select}: they count as 0"
        )
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
    yield from table_lines(
        [Column("method"), Column("C", numeric=True), Column(select, numeric=True), Column("")], rows
    )
    at = "" if chosen is None else f" with C = {chosen:.4g}"
    yield f"Best: {best.name}{at}, mean {select} {mean:.4f} on validation queries"
    if equal := _equal(results, best):
        yield f"Equal to the best: {', '.join(equal)}"


def _refit(data: Path, best: Any, training: Any, table: TrainingTable, output: Path, estimate: Any) -> None:
    """Train the best method on all queries, and save its model with the estimate of the search."""
    from structsvm.cli.studies.folds.methods import takes_missing, walk
    from structsvm.export.model_file import save

    rows, kept = table.read_to_train(data, keep=table.missing is None and takes_missing(best.name))
    chosen, _ = best.best()
    model = next(walk(best.name, [1.0 if chosen is None else chosen], rows, rows, training, None)).model
    keep_names(model, rows)
    if kept:
        model.table_ = kept
    if estimate is not None:
        getattr(model, "training_data_", {})["estimate"] = repr(estimate)
    save(model, output)
