"""``structsvm evaluate``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli.dask import Dask, Groups, connecting, evaluate_there
from structsvm.cli.files import (
    Data,
    Label,
    QueryId,
    check_file,
    is_table,
    read_data,
    read_scores,
    read_table,
    stdin_as_path,
)
from structsvm.common.escaping import printable


def evaluate(
    data: Data,
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES",
            help="One score per line, in the order of the rows of DATA (for a store: of the text it was made of); with "
            "--dask the model that ranks.",
            callback=stdin_as_path,
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="One of {measures}, k a number; repeat for more.",
            show_default="map, ndcg@10",
        ),
    ] = None,
    convention: Annotated[
        str, typer.Option(help="trec (trec_eval 9), letor4, letor4_script or burges.")
    ] = "trec",
    relevance: Annotated[float, typer.Option(help="Label from which a document is relevant.")] = 1.0,
    label: Label = "label",
    qid: QueryId = "qid",
    dask: Dask = None,
    groups: Groups = "refuse",
    per_query: Annotated[bool, typer.Option("--per-query", help="Also the value of each query.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Print measures of a ranking: measure, query and value on each line, with 'all' for the mean over queries."""
    if data == scores:
        raise ValueError(f"{data}: expected DATA and SCORES to be two files, got the same twice; name both")
    names = metric or ["map", "ndcg@10"]

    from structsvm.metrics import evaluate as measure

    check_file(scores)
    if dask is not None:
        import structsvm

        with connecting(dask) as client:
            results = evaluate_there(
                client, structsvm.load(scores), data, label, qid, groups, names, convention=convention,
                relevance=relevance,
            )  # fmt: skip
        _say(results, names, data, scores, convention, relevance, None, per_query, as_json)
        return
    # the features are not looked at, so a missing one does no harm
    if is_table(data):
        rows = read_table(data, label, qid)
    else:
        rows = read_data(data, fill=None if data.is_dir() else 0.0)
    values = read_scores(scores)
    if values.shape[0] != rows.n_rows:
        raise ValueError(
            f"{scores}: expected {rows.n_rows} scores, one for each row of {data}, got {values.shape[0]}; "
            "predict on this file"
        )
    if rows.order is not None:
        values = values[rows.order]
    results = [
        measure(
            name, rows.y, values, qid=rows.qid, docid=rows.docid, convention=convention, relevance=relevance
        )
        for name in names
    ]
    _say(results, names, data, scores, convention, relevance, rows.n_rows, per_query, as_json)


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
