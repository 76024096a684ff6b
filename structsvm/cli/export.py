"""``structsvm export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import structsvm
from structsvm.cli import paths
from structsvm.cli.files import read_names
from structsvm.cli.tables import kept_medians
from structsvm.cli.terminal import note
from structsvm.common.checks import BadInput
from structsvm.common.files import replacing


def export(
    model: Annotated[Path, "<MODEL> A linear or tree model that train or search wrote."],
    to: Annotated[str, "One of {formats}."],
    output: Annotated[Path | None, "-o The file to write; standard output without it."] = None,
    feature_names: Annotated[
        Path | None, "A file with the engine's names of the features, one per line, in order."
    ] = None,
    name: Annotated[str | None, "Name of the model in the engine. (default: the name of MODEL)"] = None,
) -> None:
    """Write MODEL in the format of a search engine, its scaling included.

    Scaling within queries can only be represented in json, and is refused in the other formats.
    """
    paths.check_input(model)
    if output is not None:
        paths.check_output(output, [model])
    elif to == "onnx":
        raise BadInput("--output", "expected a file for onnx, which is binary", "add -o model.onnx")
    names = None if feature_names is None else read_names(feature_names)

    from structsvm.export.search_engines import export_model

    ranker = structsvm.load(model)
    content = export_model(ranker, to, feature_names=names, name=model.stem if name is None else name)
    if (medians := kept_medians(ranker)) is not None:
        known: Any = names or getattr(ranker, "feature_names_in_", range(1, len(medians) + 1))
        were = ranker.table_.get("missing", range(len(medians)))  # models of 0.1 do not say
        if said := ", ".join(f"{known[j]}={medians[j]:g}" for j in were):
            note(
                f"training had medians in place of missing features, which no format holds; send them: {said}"
            )
    if output is None:
        typer.echo(content.decode(), nl=False)
        return
    with replacing(output) as file:
        file.write(content)
    typer.echo(f"{to}: {output}")
