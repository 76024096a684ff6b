"""``structsvm export``: write a model in the format of a search engine."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import structsvm
from structsvm.cli import paths
from structsvm.cli.files import Table, kept_medians, read_for_model, read_names, split_names, with_medians
from structsvm.cli.options import MaybeOutput
from structsvm.cli.terminal import note
from structsvm.common.checks import BadInput
from structsvm.common.files import replacing
from structsvm.common.user_warnings import ordered_columns


def export(
    model: Annotated[Path, "<MODEL> A linear or tree model that train or search wrote."],
    to: Annotated[str, "One of {formats}."],
    output: Annotated[MaybeOutput, "The file to write. (default: standard output)"] = None,
    feature_names: Annotated[Path | None, "The engine's feature names, one per line, in order."] = None,
    name: Annotated[str | None, "Name of the model in the engine. (default: the name of MODEL)"] = None,
    unmatched: Annotated[
        list[str] | None,
        "How training data record that a feature does not match: zero or missing, for all features or by name, as in "
        "title=zero,price=missing. (default: missing for features with missing values in training, else zero)",
    ] = None,
    engine_version: Annotated[
        str | None, "Version of OpenSearch, Solr or Elasticsearch, such as 3.8. (default: the newest)"
    ] = None,
    store: Annotated[str | None, "For solr: the feature store. (default: _DEFAULT_)"] = None,
    feature_queries: Annotated[Path | None, "For elastic: JSON file with the query of each feature."] = None,
    check: Annotated[
        Path | None,
        "Rows to score with the exported model by the rules of the engine; empty cells are features without a value. "
        "A table needs neither labels nor query ids. The command fails if scores differ.",
    ] = None,
    *,
    columns: Table,
) -> None:
    """Write MODEL, including its scaling, in the format of a search engine.

    Scaling within queries can only be represented in json, and as query-minmax in vespa. json also makes the weights,
    or the trees, available to your own programs.
    """
    paths.check_input(model)
    if output is not None:
        paths.check_output(output, [model])
    elif to == "onnx":
        raise BadInput("--output", "expected a file for onnx, which is binary", "add -o model.onnx")
    names = None if feature_names is None else read_names(feature_names)
    how = dict(part.rpartition("=")[::2] for part in split_names(unmatched or ["auto"]))

    from structsvm.export import check_export, export_model

    ranker = structsvm.load(model)
    same: Any = {"feature_names": names, "unmatched": how.get("", how), "engine_version": engine_version}
    queries = None if feature_queries is None else _read_queries(paths.check_input(feature_queries))
    content = export_model(
        ranker, to, name=model.stem if name is None else name, store=store, feature_queries=queries, **same
    )
    if check is not None:
        rows = with_medians(read_for_model(check, columns, ranker, queries=False, sparse=False), ranker)
        with ordered_columns():
            result = check_export(content, ranker, to, rows.X, **same)
        result.require(to)
        note(f"{check}: {result}")
    if (medians := kept_medians(ranker)) is not None:
        known: Any = names or getattr(ranker, "feature_names_in_", range(1, len(medians) + 1))
        were = ranker.table_.get("missing", range(len(medians)))  # model files of version 0.1 lack this field
        if said := ", ".join(f"{known[j]}={medians[j]:g}" for j in were):
            note(
                f"medians replaced missing features in training, and no format stores them; send them: {said}"
            )
    if output is None:
        text = content.decode()
        typer.echo(text, nl=not text.endswith("\n"))
        return
    with replacing(output) as file:
        file.write(content)
    typer.echo(f"{to}: {output}")
    if to == "xgboost":
        note("declare the attributes of these features in Vespa as float, because it does not round doubles")


def _read_queries(path: Path) -> dict[str, Any]:
    try:
        queries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(path, f"expected JSON ({error})") from None
    if not isinstance(queries, dict):
        raise BadInput(path, 'expected queries keyed by feature name, such as {"title": {"match": ...}}')
    return queries
