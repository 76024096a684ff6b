"""``structsvm explain``: why a model ranks a document above another."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from structsvm.cli.files import Data, Table, fill_of, kept_medians, load_ranker, predicted, read_for_model
from structsvm.cli.options import AsJson
from structsvm.cli.terminal import emit, table_lines
from structsvm.common.checks import BadInput
from structsvm.common.user_warnings import ordered_columns

if TYPE_CHECKING:
    from structsvm.protocols import Float
    from structsvm.queries import QueryData


def explain(
    model: Annotated[Path, "<MODEL> A linear or tree model that train or search wrote."],
    data: Data,
    query: Annotated[str, "Id of the query of both documents."],
    a: Annotated[
        str,
        typer.Option(
            "--a", help="Id of a document; if no document of the query has this id, its rank by the model."
        ),
    ],
    b: Annotated[str, typer.Option("--b", help="Id of the other document, or its rank in the same way.")],
    as_json: AsJson = False,
    *,
    columns: Table,
) -> None:
    """Explain why document A of a query is above or below B: what each feature adds to the difference of their scores.

    The terms add up to the difference. For trees they are Shapley values. If the model scales within queries, a term
    is the weight times the difference of the scaled values; a and b are the values of DATA, or the numbers that
    replace missing values, which are marked as filled.
    """
    from structsvm.export.terms import score_difference
    from structsvm.features.scaling import filled

    ranker = load_ranker(model)
    rows, fill = read_rows(data, columns, ranker)
    ids = [str(one) for one in rows.query_ids]
    if query not in ids:
        raise BadInput(f"--query {query}", f"expected a query of {data}, such as {ids[0]}")
    unfilled = rows.select([ids.index(query)])
    here = filled(unfilled, fill)
    scores = predicted(ranker, here, data)
    order = np.argsort(-scores, kind="stable")
    documents = [] if here.docid is None else [str(one) for one in here.docid]

    def row_of(option: str, document: str) -> int:
        if document in documents:
            return documents.index(document)
        if document.isdecimal() and 1 <= int(document) <= here.n_rows:
            return int(order[int(document) - 1])
        kind = "a rank" if not documents else f"a document such as {documents[0]}, or a rank"
        raise BadInput(f"{option} {document}", f"expected {kind} from 1 to {here.n_rows} in query {query}")

    i, j = row_of("--a", a), row_of("--b", b)
    with ordered_columns():
        terms = score_difference(ranker, here.X, i, j)
    at = {name: k for k, name in enumerate(feature_names(ranker))}
    replaced = np.isnan(unfilled.X) & ~np.isnan(here.X)
    table: list[dict[str, Any]] = [
        {
            "feature": name,
            "adds": value,
            "a": float(here.X[i, at[name]]),
            "b": float(here.X[j, at[name]]),
            "filled": [key for key, row in (("a", i), ("b", j)) if replaced[row, at[name]]],
        }
        for name, value in terms
        if value or len(terms) < 10
    ]
    above = "level with"
    if scores[i] != scores[j]:
        above = "above" if scores[i] > scores[j] else "below"
    a, b = (documents[i], documents[j]) if documents else (a, b)
    emit(
        [
            f"{a} ({scores[i]:.6g}) is {above} {b} ({scores[j]:.6g}) by {abs(scores[i] - scores[j]):.6g}",
            *feature_lines(table, ("adds", "a", "b")),
        ],
        {"a": scores[i], "b": scores[j], "terms": table},
        as_json,
    )


def feature_lines(table: list[dict[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """Return the lines of a table with one row per feature and the numeric columns ``names``."""
    from structsvm.plots.pages import columns

    rows = [
        [
            str(one["feature"]),
            *(f"{one[name]:.6g}{' (filled)' if name in one.get('filled', ()) else ''}" for name in names),
        ]
        for one in table
    ]
    return table_lines(columns("feature", numbers=names), rows)


def read_rows(path: Path, columns: Table, ranker: Any) -> "tuple[QueryData, Float]":
    """Return dense rows with NaN for missing features, and the numbers that replace NaN, which are NaN if nothing
    does."""
    fill = fill_of(ranker, columns)
    rows = read_for_model(path, columns, ranker, fill=None if fill is None else "keep", sparse=False)
    if hasattr(rows.X, "toarray"):  # a sparse store
        rows = replace(rows, X=rows.X.toarray())
    values = kept_medians(ranker) if fill == "keep" else fill
    return rows, np.full(rows.n_features, np.nan if values is None else values)


def feature_names(ranker: Any) -> list[str]:
    known = getattr(ranker, "feature_names_in_", None)
    return [f"feature_{j + 1}" for j in range(ranker.n_features_in_)] if known is None else [*map(str, known)]
