"""``structsvm evaluate``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli.dask import Dask, Groups, connecting, evaluate_there
from structsvm.cli.files import (
    Columns,
    Data,
    check_file,
    check_input,
    is_table,
    read_data,
    read_scores,
    stdin_as_path,
)
from structsvm.cli.options import AsJson, Convention, Relevance
from structsvm.common.escaping import printable


def evaluate(
    data: Data,
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES",
            help="One score per line, in the order of the rows of DATA (for a store: of the text it was made of), or a "
            "csv of predict. If DATA are TREC judgments, a TREC run; with --dask the model that ranks.",
            callback=stdin_as_path,
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="One of {measures}, k a number, or a name of trec_eval or ir_measures such as ndcg_cut_10 and "
            "nDCG@10; repeat for more.",
            show_default="map, ndcg@10",
        ),
    ] = None,
    convention: Convention = "trec",
    relevance: Relevance = 1.0,
    *,
    columns: Columns,
    common_topics: Annotated[
        bool,
        typer.Option(
            "--common-topics",
            help="With judgments and a run: only topics of both, as trec_eval does without -c. Otherwise judged topics "
            "that the run lacks count 0.",
        ),
    ] = False,
    dask: Dask = None,
    groups: Groups = "refuse",
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Also print the value of each query.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print measures of a ranking: measure, query and value on each line, with 'all' for the mean over queries.

    DATA and SCORES are rows with labels and their scores, or TREC judgments (qrels) and a TREC run.
    """
    if data == scores:
        raise ValueError(f"{data}: expected DATA and SCORES to be two files, got the same twice; name both")
    names = metric or ["map", "ndcg@10"]

    from structsvm.metrics import evaluate as measure

    check_file(scores)
    if dask is not None:
        import structsvm

        with connecting(dask) as client:
            results = evaluate_there(
                client, structsvm.load(scores), data, columns, groups, names, convention=convention,
                relevance=relevance,
            )  # fmt: skip
        _say(results, names, data, scores, convention, relevance, None, per_query, as_json)
        return
    if groups != "refuse":
        raise ValueError("--groups: expected --dask with it")
    if _are_judgments(check_input(data)):
        rows = _judged(data, scores, complete=not common_topics)
        results = [
            measure(name, **rows._asdict(), convention=convention, relevance=relevance) for name in names
        ]
        _say(results, names, data, scores, convention, relevance, len(rows.y_true), per_query, as_json)
        return
    if common_topics:
        raise ValueError(f"--common-topics: expected TREC judgments and a run, got {data} of another kind")
    # the features are not looked at, so a missing one does no harm
    options: dict[str, Any] = {"features": ()} if is_table(data) else {}
    rows = read_data(data, columns, fill=None if data.is_dir() else 0.0, **options)
    values, ids = read_scores(scores)
    if values.shape[0] != rows.n_rows:
        raise ValueError(
            f"{scores}: expected {rows.n_rows} scores, one for each row of {data}, got {values.shape[0]}; "
            "predict on this file"
        )
    if ids is not None:
        _check_ids(rows, ids, data, scores)
    if rows.order is not None:
        values = values[rows.order]
    results = [
        measure(
            name, rows.y, values, qid=rows.qid, docid=rows.docid, convention=convention, relevance=relevance
        )
        for name in names
    ]
    _say(results, names, data, scores, convention, relevance, rows.n_rows, per_query, as_json)


def _check_ids(rows: Any, ids: Sequence[tuple[str, str]], data: Path, scores: Path) -> None:
    """Raise where a csv of predict has the query or document of another row."""
    import numpy as np

    queries = np.repeat(rows.query_ids, np.diff(rows.offsets)).tolist()
    documents = [None] * rows.n_rows if rows.docid is None else rows.docid.tolist()
    places = range(rows.n_rows) if rows.order is None else rows.order.tolist()
    for row, query, document in zip(places, queries, documents, strict=True):
        known, of = ids[row]
        # without --docid in both, documents are numbers of rows
        if known != str(query) or (document is not None and of not in (str(document), str(row + 1))):
            raise ValueError(
                f"{scores}, row {row + 1}: expected query {query} and document {document or row + 1} as in {data}, got "
                f"{known} and {of}; predict on this file"
            )


def _are_judgments(data: Path) -> bool:
    """Whether a file begins like TREC judgments; a stream is taken for LETOR text, as it can be read once only."""
    from structsvm.common.files import is_stream, read_lines

    if data.is_dir() or is_table(data) or is_stream(data):
        return False
    for _, line in read_lines(data):
        words = line.split(None, 5)
        if words and not line.startswith("#"):
            return len(words) == 4 and ":" not in words[1] and _is_whole(words[3])
    return False


def _is_whole(word: str) -> bool:
    return word.removeprefix("-").isdecimal()


def _judged(qrels: Path, run: Path, *, complete: bool) -> Any:
    """Return the rows on which a run is evaluated."""
    from structsvm.readers import judge_run, read_qrels, read_run

    return judge_run(read_run(run), read_qrels(qrels), complete=complete)


def _say(
    results: Sequence[Any],
    names: Sequence[str],
    data: Path,
    scores: Path,
    convention: str,
    relevance: float,
    n_rows: int | None,
    per_query: bool,
    as_json: bool,
) -> None:
    """Print the results as a table or JSON; the rows on a cluster are not counted."""
    if as_json:
        out: dict[str, Any] = {
            "data": str(data), "scores": str(scores), "convention": convention, "relevance": relevance,
            "n_queries": len(results[0].query_ids), **({} if n_rows is None else {"n_rows": n_rows}),
            "metrics": {result.name: result.mean for result in results},
        }  # fmt: skip
        if per_query:
            out["per_query"] = {
                result.name: dict(
                    zip(map(str, result.query_ids.tolist()), result.per_query.tolist(), strict=True)
                )
                for result in results
            }
        typer.echo(json.dumps(out, allow_nan=False))
        return
    width = max(len(name) for name in names)
    for result in results:
        if per_query:
            for query, value in zip(result.query_ids.tolist(), result.per_query.tolist(), strict=True):
                typer.echo(f"{result.name:<{width}}\t{printable(str(query))}\t{value:.4f}")
        typer.echo(f"{result.name:<{width}}\tall\t{result.mean:.4f}")
