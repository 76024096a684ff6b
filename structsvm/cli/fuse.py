"""``structsvm fuse``: learn to combine the rankings of several systems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import structsvm
from structsvm import oracles, readers
from structsvm.cli import paths
from structsvm.cli.files import Ids, names_of_runs, read_data, split_names
from structsvm.cli.groups import Group
from structsvm.cli.options import GRID, AsJson, Jobs, MaybeOutput, PerQuery, Seed, Selection, parse_grid
from structsvm.cli.terminal import emit, note, table_lines, working
from structsvm.common.checks import BadInput, check_positive, counted
from structsvm.common.tables.source import Source

if TYPE_CHECKING:
    from structsvm.queries import QueryData
    from structsvm.readers.runs import Run


@dataclass(frozen=True)
class Learning(Group):
    """Options for the order of runs, for learning from judgments, and for the folds."""

    by_rank: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A file of RUNS to order by its rank column; repeat for more."),
    ] = None
    weights_for: Annotated[
        str | None,
        "Choose weights of a hybrid query instead, for the fusion of this engine: one of {engines}. RUNS may be one "
        "table with columns of query ids, labels and scores, whose empty cells stand for documents that a list lacks.",
    ] = None
    features: Annotated[
        list[str] | None,
        "Columns of scores of a table, if --weights-for is given: a,b,c or repeated. (default: all other columns)",
    ] = None
    relevance: Annotated[float, "Lowest grade of a relevant document."] = 1.0
    loss: Annotated[
        str | None,
        "One of {losses}; k is any cut-off, as in ndcg@10. (default: map). With --weights-for "
        "the measure that chooses. (default: ndcg@10)",
    ] = None
    depth: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of documents of each run that are pooled, and length of rankings; with --weights-for, the "
            "number that the engine fuses. Single runs are measured at full length. (default: 1000; 100 with "
            "--weights-for)",
        ),
    ] = None
    folds: Annotated[int, typer.Option(min=2, help="Number of folds of topics.")] = 5
    C: Annotated[str | None, f"{GRID} (default: seven values from 0.1 to 100)"] = None
    selection: Selection = "max"
    seed: Annotated[Seed, "Seed of the division of topics into folds."] = 0

    def check(self) -> None:
        """Validate the options that do not depend on the files."""
        check_positive("relevance", self.relevance)
        oracles.get_oracle(self.loss or "map", relevance=self.relevance)
        _ = self.choice

    @property
    def choice(self) -> dict[str, Any]:
        """The arguments for the choice of C; its values are absent for the default grid."""
        return {"selection": self.selection} | ({} if self.C is None else {"Cs": parse_grid(self.C)})


def fuse(
    runs: Annotated[list[Path], "<RUNS> TREC runs (plain or compressed); with --weights-for also a table."],
    output: Annotated[
        MaybeOutput, "The re-ranked TREC run to write; with --weights-for the text for the engine."
    ] = None,
    qrels: Annotated[Path | None, "TREC judgments to learn from."] = None,
    apply: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Re-rank with a saved model instead of learning one.")
    ] = None,
    *,
    learning: Learning,
    columns: Ids,
    tag: Annotated[str, "Name (tag) of the output run."] = "structsvm",
    save: Annotated[Path | None, "File for the model trained on all judged topics (.npz)."] = None,
    as_json: AsJson = False,
    per_query: PerQuery = False,
    jobs: Jobs = -1,
) -> None:
    """Learn from judgments how to combine RUNS; write the combined run, or the weights of a hybrid query.

    With --weights-for the weights are for the fusion of the engine. Measures then count only documents of the lists,
    so that NDCG is higher than in trec_eval where relevant documents are in no list. Otherwise, every judged topic is
    ranked by a model trained without this topic, with the C that is best on the topics of other folds. Topics without
    judgments are ranked by the model trained on all judged topics, which --save writes. Runs are named by their tag, or
    by their file name if a tag repeats. With --apply a saved model ranks new runs of the same systems.
    """
    if unknown := [path for path in learning.by_rank or () if path not in runs]:
        raise BadInput("--by-rank", f"expected one of the runs, got {unknown[0]}", "give the run's file")
    ranked_by = [(path, "rank" if path in (learning.by_rank or ()) else "score") for path in runs]
    if learning.weights_for is not None:
        unused = {
            name: getattr(learning, name) != getattr(Learning, name)
            for name in ("relevance", "folds", "C", "selection")
        }
        for name, given in (unused | {"apply": apply, "save": save, "per-query": per_query}).items():
            if given:
                raise BadInput(
                    f"--{name}", "cannot be combined with --weights-for, whose weights it does not change"
                )
        _print_weights(learning.weights_for, ranked_by, qrels, output, learning, columns, as_json)
        return
    _check_no_table(learning, columns)
    if output is None:
        raise BadInput("--output", "a file for the combined run is required")
    _check_files(runs, qrels, apply, output, save)
    if [tag] != tag.split():
        raise BadInput("--tag", f"expected one word without blanks, got {tag!r}")
    if apply is not None:
        _apply(apply, ranked_by, output, tag, as_json)
        return
    if qrels is None:
        raise BadInput(
            "--qrels",
            "a file of judgments to learn from is required",
            "or give --apply MODEL, or for a table of scores --weights-for ENGINE",
        )

    learning.check()
    depth = learning.depth or 1000

    from structsvm.cli.studies.fusion import cross_validate_fusion

    with working("reading") as status:
        judgments = readers.read_qrels(qrels)
        named_runs = _read(ranked_by, None, status)
        status.update("learning")
        result = cross_validate_fusion(
            named_runs,
            judgments,
            **learning.choice,
            loss=learning.loss or "map",
            relevance=learning.relevance,
            folds=learning.folds,
            depth=depth,
            random_state=learning.seed,
            n_jobs=jobs,
            callback=lambda done: status.update(f"learning: {done} of {learning.folds} folds"),
        )
        status.update("writing")
        readers.write_run(replace(result.run, tag=tag), output)
        if save is not None:
            result.model.save(save)
    ignored = judgments.n_topics - result.pool.n_topics
    if ignored:
        note(f"{ignored} of {judgments.n_topics} judged topics are in none of the runs, and are left out")
    if n_new := result.run.n_topics - result.pool.n_topics:
        note(f"{counted(topic=n_new)} without judgments: ranked by the final model")
    lines = [*table_lines(*result.rows()), *result.lines()]
    if max(int(np.diff(run.offsets).max(initial=1)) for run in named_runs.values()) > depth:
        lines.append(f"fusions rank {depth} documents per topic; single runs are measured with all of theirs")
    lines += [f"run    {output}", *([] if save is None else [f"model  {save}"])]
    emit(lines, result.to_dict(per_query=per_query), as_json)


def _print_weights(
    to: str,
    runs: list[tuple[Path, str]],
    qrels: Path | None,
    output: Path | None,
    learning: Learning,
    columns: Ids,
    as_json: bool,
) -> None:
    """Choose weights of a hybrid query; print them with advice, and the query for the engine."""
    from structsvm.estimators import hybrid_weights

    files = [path for path, _ in runs]
    inputs = [paths.check_input(path) for path in (*files, qrels) if path is not None]
    if output is not None:
        paths.check_output(output, inputs)
    source = paths.source_at(files[0])
    table = len(files) == 1 and source.is_table
    if not table:
        _check_no_table(learning, columns)
    if table == (qrels is not None):
        raise BadInput("--qrels", "required for runs, not allowed for a table", "a table has labels")
    depth, measure = learning.depth or 100, learning.loss or "ndcg@10"
    oracles.get_oracle(measure)  # raises an error about --loss
    with working("reading") as status:
        lists: Any = _read_lists(source, columns, learning.features) if table else _read(runs, depth, status)
        status.update("learning")
        result = hybrid_weights(
            lists,
            None if qrels is None else readers.read_qrels(qrels),
            to=to,
            depth=depth,
            measure=measure,
            random_state=learning.seed,
        )
    for line in () if as_json else str(result).splitlines():
        note(line)
    if output is not None:
        paths.write_text(output, result.text())
    emit(result.text().splitlines() if output is None else (), result.to_dict(), as_json)


def _check_no_table(learning: Learning, columns: Ids) -> None:
    """Raise for options that apply only to tables of scores, not to runs."""
    for name in columns.options() if learning.features is None else ("features",):
        raise BadInput(f"--{name}", "requires a table and --weights-for, got runs")


def _check_files(
    runs: list[Path], qrels: Path | None, apply: Path | None, output: Path, save: Path | None
) -> None:
    inputs = [paths.check_input(path) for path in (*runs, qrels, apply) if path is not None]
    if apply is not None:
        for name, path in (("--qrels", qrels), ("--save", save)):
            if path is not None:
                raise BadInput(name, "nothing is learned with --apply", "leave one of the two out")
    if save is not None:
        paths.check_model_output(save, inputs, option="--save")
    paths.check_outputs({"--output": output, "--save": save}, inputs)


def _apply(path: Path, runs: list[tuple[Path, str]], output: Path, tag: str, as_json: bool) -> None:
    from structsvm.estimators.fusion import FusionModel

    model = structsvm.load(path)
    if not isinstance(model, FusionModel):
        raise BadInput(path, f"expected a model that fuse saved, got a {type(model).__name__}")
    depth = model.depth or 1000
    with working("reading") as status:
        pool = readers.candidates(_read(runs, depth, status), depth=depth)
        status.update("ranking")
        ranked = model.rank(pool, tag=tag)
        readers.write_run(ranked, output)
    emit(
        [
            f"{counted(topic=ranked.n_topics, document=ranked.n_rows)} of {counted(run=len(model.names))}",
            f"run    {output}",
        ],
        {"n_topics": ranked.n_topics, "n_documents": ranked.n_rows, "runs": model.names},
        as_json,
    )


def _read_lists(source: Source, columns: Ids, features: list[str] | None) -> QueryData:
    """Read the candidates of the queries with their scores, labels and missing values."""
    try:
        data = read_data(
            source, columns, fill="keep", features=None if features is None else split_names(features)
        )
        if features is None and data.feature_names is not None:
            note(
                f"{source}: columns read as scores of searches: {', '.join(data.feature_names)}; choose others with "
                "--features"
            )
        return data
    except BadInput as error:
        if "a finite label" not in error.problem:
            raise
        # without the rows of unjudged documents, lists would not be scaled as the engine scales them
        raise BadInput(
            error.argument,
            error.problem,
            "write 0 for documents that are not judged; keep their rows, because they are needed to scale the scores",
        ) from None


def _read(runs: list[tuple[Path, Any]], depth: int | None, status: Any) -> dict[str, Run]:
    """Return the runs by name: the tag, or the name of the file if runs share a tag."""
    found: list[Run] = []
    for i, (path, by) in enumerate(runs):
        status.update(f"reading: run {i + 1} of {len(runs)}")
        found.append(readers.read_run(path, depth=depth, by=by))
    return dict(
        zip(names_of_runs([path for path, _ in runs], [run.tag for run in found]), found, strict=True)
    )
