"""``structsvm show`` and ``structsvm explain``: the weights of a model, and why it ranks a document above another."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from structsvm.cli import paths
from structsvm.cli.files import Data, Table, load_ranker, predicted
from structsvm.cli.options import AsJson
from structsvm.cli.tables import read_for_model, with_medians
from structsvm.cli.terminal import emit, note, table_lines
from structsvm.common.checks import BadInput
from structsvm.common.user_warnings import ordered_columns


def show(
    model: Annotated[Path, "<MODEL> A model that train or search wrote."],
    rows: Annotated[Path | None, "Labelled rows on which to compute permutation importances."] = None,
    measure: Annotated[str, "Measure for the importances, one of {measures}."] = "ndcg@10",
    as_json: AsJson = False,
    *,
    columns: Table,
) -> None:
    """Show the weights of MODEL, or the features of its trees, largest first.

    scaled is the weight of the feature as scaled by the model, which makes features comparable; raw is the weight of
    the original feature, the amount that one unit of it adds to the score. For trees: the number of splits, and the
    range of scores that trees and bins using only this feature add.
    """
    ranker = load_ranker(model)
    table = _of_trees(ranker) if hasattr(ranker, "leaves_") else _of_linear(ranker)
    if rows is not None:
        from structsvm.metrics.importance import permutation_importance

        data = _read(rows, columns, ranker)
        if data.y is None:
            raise BadInput(rows, "expected labels, got none", "importance is the drop of a measure")
        with ordered_columns():
            options: Any = {"measure": measure, "random_state": 0}
            result = permutation_importance(ranker, data.X, data.y, qid=data.qid, **options)
        for entry, value in zip(table, result.mean.tolist(), strict=True):
            entry["importance"] = value
    key = "importance" if rows is not None else next(name for name in table[0] if name != "feature")
    table.sort(key=lambda entry: -abs(entry[key]))
    emit(_lines(table), {"model": type(ranker).__name__, "features": table}, as_json)


def explain(
    model: Annotated[Path, "<MODEL> A linear or tree model that train or search wrote."],
    data: Data,
    query: Annotated[str, "Id of the query of both documents."],
    a: Annotated[str, typer.Option("--a", help="Id of a document, or its rank by the model.")],
    b: Annotated[str, typer.Option("--b", help="Id of the other document, or its rank.")],
    as_json: AsJson = False,
    *,
    columns: Table,
) -> None:
    """Explain why document A of a query is above or below B: what each feature adds to the difference of their scores.

    The terms add up to the difference. For trees they are Shapley values. If the model scales within queries, a term
    is the weight times the difference of the scaled values; a and b are the values of DATA.
    """
    from structsvm.export.terms import score_difference

    ranker = load_ranker(model)
    rows = _read(data, columns, ranker)
    ids = [str(one) for one in rows.query_ids]
    if query not in ids:
        raise BadInput(f"--query {query}", f"expected a query of {data}, such as {ids[0]}")
    here = rows.select([ids.index(query)])
    scores = predicted(ranker, here, data)
    order = np.argsort(-scores, kind="stable")
    documents = [] if here.docid is None else [str(one) for one in here.docid]

    def row_of(option: str, document: str) -> int:
        if document in documents:
            return documents.index(document)
        if document.isdigit() and 1 <= int(document) <= here.n_rows:
            return int(order[int(document) - 1])
        kind = "a rank" if not documents else f"a document such as {documents[0]}, or a rank"
        raise BadInput(f"{option} {document}", f"expected {kind} from 1 to {here.n_rows} in query {query}")

    i, j = row_of("--a", a), row_of("--b", b)
    with ordered_columns():
        terms = score_difference(ranker, here.X, i, j)
    at = {name: k for k, name in enumerate(_names(ranker))}
    table: list[dict[str, Any]] = [
        {"feature": name, "adds": value, "a": float(here.X[i, at[name]]), "b": float(here.X[j, at[name]])}
        for name, value in terms
        if value or len(terms) < 10
    ]
    above = "above" if scores[i] > scores[j] else "below" if scores[i] < scores[j] else "level with"
    a, b = (documents[i], documents[j]) if documents else (a, b)
    verdict = f"{a} ({scores[i]:.6g}) is {above} {b} ({scores[j]:.6g}) by {abs(scores[i] - scores[j]):.6g}"
    emit([verdict, *_lines(table)], {"a": scores[i], "b": scores[j], "terms": table}, as_json)


def _lines(table: list[dict[str, Any]]) -> Iterator[str]:
    from structsvm.plots.pages import columns

    names = list(table[0])
    rows = [[str(one["feature"]), *(f"{one[name]:.6g}" for name in names[1:])] for one in table]
    return table_lines(columns(names[0], numbers=names[1:]), rows)


def _read(path: Path, columns: Table, ranker: Any) -> Any:
    source = paths.source_at(path)
    sparse = None if source.is_table else False
    return with_medians(read_for_model(source, columns, ranker, sparse=sparse), ranker)


def _names(ranker: Any) -> list[str]:
    known = getattr(ranker, "feature_names_in_", None)
    return [f"feature_{j + 1}" for j in range(ranker.n_features_in_)] if known is None else [*map(str, known)]


def _of_linear(ranker: Any) -> list[dict[str, Any]]:
    from structsvm.export import linear_form

    form = linear_form(ranker)
    if form.within_query:
        note("the model scales within queries, so raw features have no weights")
    raw = {} if form.within_query else {"raw": form.raw_weights.tolist()}
    return _rows({"feature": list(form.names), "scaled": form.weights.tolist()} | raw)


def _of_trees(ranker: Any) -> list[dict[str, Any]]:
    from structsvm.export.trees import valued_forest

    forest, names = ranker.leaves_.forest_, _names(ranker)
    valued = valued_forest(ranker, tuple(names))
    splits = np.bincount(forest.feature, minlength=len(names))
    alone = np.zeros(len(names))  # range of scores from trees that use only this feature
    for t in range(valued.forest.n_trees):
        used = np.unique(valued.forest.feature[valued.forest.nodes[t] : valued.forest.nodes[t + 1]])
        if len(used) == 1:
            leaves = valued.values[valued.forest.leaves[t] : valued.forest.leaves[t + 1]]
            alone[used[0]] += np.ptp(leaves)
    return _rows({"feature": names, "splits": splits.tolist(), "range alone": alone.tolist()})


def _rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, one, strict=True)) for one in zip(*columns.values(), strict=True)]
