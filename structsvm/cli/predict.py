"""``structsvm predict``: score rows with a saved model."""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from structsvm import readers
from structsvm.cli import paths
from structsvm.cli.dask import Dask, connecting, predict_there
from structsvm.cli.files import (
    Data,
    Table,
    load_ranker,
    predicted,
    read_for_model,
    with_medians,
)
from structsvm.cli.options import Jobs, Output, known
from structsvm.cli.terminal import note
from structsvm.common.checks import BadInput
from structsvm.common.files import csv_lines, is_model, replacing

if TYPE_CHECKING:
    from structsvm.protocols import Float
    from structsvm.queries import QueryData


FORMATS = ("scores", "csv", "parquet", "run")


def predict(
    model: Annotated[Path, "<MODEL> A model that train wrote."],
    data: Data,
    output: Annotated[Output, "The file to write; - is the standard output."],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            callback=known(lambda: FORMATS),
            help="scores: one per line. csv, parquet: query, document, score and rank of each row. run: a TREC run, "
            "best first. (default: csv for an output .csv, parquet for .parquet, else scores)",
        ),
    ] = None,
    *,
    columns: Table,
    jobs: Jobs = -1,
    dask: Dask = None,
) -> None:
    """Score each row of DATA, in the order of its rows (for a store: of its source file); higher is better.

    The scaling of the model is applied. Columns of a table are matched by name with the features of the model. Features
    missing from a text file are 0. Labels are needed only with --dask.

    Ids of queries and documents are written as in DATA. In csv and Parquet a row without a document id gets its row
    number in DATA, from 1, and ties are ranked in the order of the rows. In a run, ties are ranked as trec_eval sorts
    them.
    """
    if form is None and output.suffix in (".tsv", ".xlsx"):
        raise BadInput(
            f"--output {output}",
            "expected a name such as scores.txt, scores.csv or scores.parquet",
            "or give --format",
        )
    form = form or {".csv": "csv", ".parquet": "parquet"}.get(output.suffix, "scores")
    if form == "parquet" and paths.is_stdout(output):
        raise BadInput(
            "--format parquet", "expected the name of a file with --output, got the standard output"
        )
    source = paths.source_at(data)
    sources = [paths.check_file(model), data]
    if is_model(data) and not is_model(model):
        raise BadInput(data, "expected DATA, got a model", "MODEL comes first, DATA second")
    if not paths.is_stdout(output):
        paths.check_output(output, sources)

    from sklearn.utils import get_tags

    ranker = load_ranker(model)
    n_features = ranker.n_features_in_
    if dask is not None:
        if form != "scores":
            raise BadInput(
                f"--format {form}", "expected --format scores with --dask", "or predict on one machine"
            )
        with connecting(dask) as client:
            parts = predict_there(client, ranker, source, columns)
            paths.write_lines(output, (repr(score) for scores in parts for score in scores.tolist()))
        return
    # scaling and trees do not accept sparse rows
    dense = getattr(ranker, "scaler_", None) is not None or not get_tags(ranker).input_tags.sparse
    rows = read_for_model(
        source, columns, ranker, sparse=False if dense else None, n_features=n_features, n_jobs=jobs
    )
    if source.kind in ("text", "stream"):
        # the highest index of a feature that is not 0 in all rows
        used = np.flatnonzero(rows.X.getnnz(axis=0) if hasattr(rows.X, "getnnz") else rows.X.any(axis=0))
        width = int(used[-1]) + 1 if used.size else 0
        if width < n_features:
            note(
                f"warning: {data}: it has features up to {width}, the model has {n_features}; the others count as 0"
            )
    rows = with_medians(rows, ranker)
    scores = predicted(ranker, rows, data)
    if form == "run":
        _write_run(rows, scores, output, data, tag=model.stem)
        return
    in_data = slice(None) if rows.order is None else np.argsort(rows.order)
    if form == "scores":
        paths.write_lines(output, map(repr, scores[in_data].tolist()))
        return
    if rows.docid is None:
        note(
            f"{data}: no ids of documents (in text #docid = ..., in a table the column given by --docid); rows are "
            "numbered"
        )
    table = {name: column[in_data] for name, column in _columns(rows, scores).items()}
    if form == "csv":
        cells = (map(repr, one.tolist()) if name == "score" else one.tolist() for name, one in table.items())
        paths.write_lines(output, csv_lines(chain([tuple(table)], zip(*cells, strict=True))))
        return
    import pyarrow
    from pyarrow import parquet

    with replacing(output) as file:
        parquet.write_table(pyarrow.table(table), file)


def _columns(rows: QueryData, scores: Float) -> dict[str, Any]:
    """Return query, document, score and rank of each row."""
    from structsvm.estimators.fitted import ranks
    from structsvm.queries import Grouping

    number = np.arange(1, rows.n_rows + 1) if rows.order is None else rows.order + 1
    rank = ranks(scores, Grouping(rows.offsets, rows.query_ids, None))
    return {
        "query": rows.qid,
        "document": number if rows.docid is None else rows.docid,
        "score": scores,
        "rank": rank,
    }


def _write_run(rows: QueryData, scores: Float, output: Path, data: Path, *, tag: str) -> None:
    """Write a TREC run."""
    if rows.docid is None:
        raise BadInput(
            data,
            "expected the id of each document for a run (in text #docid = ..., in a table the column given by "
            "--docid), got none",
            "use --format csv",
        )
    try:
        run = readers.Run.from_arrays(rows.qid, rows.docid, scores, tag="_".join(tag.split()) or "structsvm")
        if not paths.is_stdout(output):
            readers.write_run(run, output)
            return
        with tempfile.TemporaryDirectory() as folder:
            readers.write_run(run, Path(folder, "run"))
            paths.write_lines(output, Path(folder, "run").read_text(encoding="utf-8").splitlines())
    except BadInput as error:
        if error.argument.partition("[")[0] not in ("topic", "docid"):
            raise
        raise BadInput(data, f"{error.argument}: {error.problem}", "use --format csv") from None
