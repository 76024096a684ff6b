"""``structsvm datasets``: synthetic data with a known answer, real data, and descriptions of files."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm import readers
from structsvm.cli import paths
from structsvm.cli.files import Table
from structsvm.cli.options import AsJson
from structsvm.cli.terminal import emit, group, note
from structsvm.common.checks import BadInput


def list_(as_json: AsJson = False) -> None:
    """List the data sets that 'make' can write, with their options and defaults."""
    sets = readers.list_datasets()
    emit([line for dataset in sets for line in dataset.lines()], sets, as_json)


def describe(
    path: Annotated[
        Path,
        "<PATH> A LETOR text, a table with named columns (.csv, .tsv, Parquet), a store, a TREC run, judgments, "
        "or JSON Lines.",
    ],
    *,
    table: Table,
    as_json: AsJson = False,
) -> None:
    """Describe PATH: counts, labels and irregularities."""
    if str(path) in ("-", "/dev/stdin"):
        raise BadInput(path, "expected a file, got the standard input", "write it to a file first")
    options: dict[str, Any] = {} if table.fill is None else {"fill": table.fill}
    source = paths.source_at(path)
    if source.is_table:
        options |= table.options()
    elif table.zero_based:
        options["one_based"] = False
    found = readers.describe(source, **options)
    emit(found.lines(), found.to_dict(), as_json)
    for warning in () if as_json else found.warnings:
        note(f"warning: {warning}")


def make(
    name: Annotated[str, "<NAME> A name that 'structsvm datasets list' prints."],
    path: Annotated[Path, "<PATH> The file or folder to write; it must not exist."],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-O", metavar="KEY=VALUE", help="Option of the data set; repeat for more."),
    ] = None,
) -> None:
    """Write the data set NAME to PATH; the same options give the same bytes."""
    known = {dataset.name: dataset.options for dataset in readers.list_datasets()}
    options: dict[str, Any] = {}
    for pair in option or ():
        key, equals, value = pair.partition("=")
        if not equals or key not in known.get(name, {}):
            allowed = ", ".join(known.get(name, {})) or f"of {', '.join(known)}"
            raise BadInput(f"--option {pair}", f"expected KEY=VALUE with one of the keys {allowed}")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    paths.check_folder(path)
    try:
        readers.make_dataset(name, path, **options)
    except BadInput as error:
        raise (error.within("--option") if error.argument in options else error) from None
    typer.echo(f"{path}: written")


app = group(
    "Write synthetic data sets with a known answer, and real ones, and describe files.", list_, describe, make
)
