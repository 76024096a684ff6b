"""``structsvm convert``: convert text or tables to a store."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from structsvm import readers
from structsvm.cli import paths
from structsvm.cli.files import Table
from structsvm.cli.options import Jobs
from structsvm.cli.terminal import bar, terminable
from structsvm.common.checks import BadInput, check_choice, counted
from structsvm.common.tables.source import Source

if TYPE_CHECKING:
    from structsvm.queries import QueryData


@dataclasses.dataclass(frozen=True)
class _Table(Table):
    """A table whose missing values may be kept in the store."""

    takes_nan: ClassVar[bool] = True


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="LETOR/SVMlight text (plain, gzip, bzip2, xz; - is the standard input) or a table with named columns "
            "(a .csv or .tsv file; a Parquet file, a folder of them, or a pattern in quotes); with --check a store.",
            callback=paths.stdin_as_path,
        ),
    ],
    store: Annotated[
        Path | None,
        "<STORE> The folder to write, by convention <name>.store. (default: none; required without --check)",
    ] = None,
    dtype: Annotated[
        str | None, "float64, or float32 for half the size. (default: float64, or the type of the table)"
    ] = None,
    matrix: Annotated[str, "dense, sparse, or auto: sparse if at least nine in ten cells are 0."] = "auto",
    n_features: Annotated[int | None, "Number of features. (default: the highest in the file)"] = None,
    percentiles: Annotated[
        bool,
        "Add the percentile of each feature within its query as additional features; the rows have to "
        "fit into memory. SOURCE may be a store, too.",
    ] = False,
    *,
    table: _Table,
    jobs: Jobs = -1,
    check: Annotated[bool, "Convert nothing; read a whole store and report whether it is intact."] = False,
) -> None:
    """Convert text or tables to a store, which train, predict and evaluate open at once, without parsing text.

    Neither source nor store has to fit into memory. The names of features are kept. If the rows of a query are not
    contiguous, they are gathered with a temporary file of the size of the store, in the same folder. The original order
    is recorded: predict and evaluate use the order of the source.
    """
    if check:
        _check(source, store)
        return
    if store is None:
        raise BadInput("STORE", "the name of a folder is required", "use convert SOURCE STORE")
    if store.suffix in (".parquet", ".csv", ".tsv", ".txt"):
        raise BadInput(
            store,
            "expected the name of a folder, got that of a file",
            "convert writes a store, usually called <name>.store",
        )
    kinds: dict[str, Any] = {"auto": "auto", "dense": False, "sparse": True}
    if dtype is not None:
        check_choice("dtype", dtype, ("float64", "float32"))
    check_choice("matrix", matrix, kinds)
    given = paths.source_at(source)
    if given.is_table and (matrix == "sparse" or n_features is not None):
        raise BadInput("--matrix, --n-features", f"require LETOR text, got the table {source}")
    if percentiles:
        if matrix == "sparse":
            raise BadInput("--matrix", "expected dense or auto with --percentiles, got sparse")
        n_jobs = None if given.kind in ("store", "folder") else jobs  # reading a store uses no threads
        with terminable():
            _add_percentiles(given, store, table, dtype, n_features=n_features, n_jobs=n_jobs)
        return
    if given.is_table:
        paths.check_text(given, table.zero_based)
        paths.check_folder(store)
        with terminable():
            readers.convert_parquet(given, store, dtype=dtype, fill=table.fill, **table.options(labels=False))
        _say(store, readers.open_store(store))
        return
    columns = table.options()
    one_based = columns.pop("one_based", True)
    if columns:
        raise BadInput(next(iter(columns)), f"requires a table, got the text file {source}")
    if given.kind in ("store", "folder"):
        raise BadInput(source, "expected a text file, got a folder", "a store needs no conversion")
    paths.check_folder(store)

    with terminable():
        readers.convert_letor(
            source,
            store,
            dtype=dtype or "float64",
            sparse=kinds[matrix],
            n_features=n_features,
            fill=table.fill,
            n_jobs=jobs,
            label=None,
            one_based=one_based,
        )
    _say(store, readers.open_store(store))


def _say(store: Path, data: "QueryData") -> None:
    unlabelled = "; without labels, which train requires and predict does not" if data.y is None else ""
    typer.echo(
        f"{store}: {counted(query=data.n_queries, document=data.n_rows, feature=data.n_features)}{unlabelled}"
    )


def _add_percentiles(source: Source, store: Path, table: Table, dtype: str | None, **options: object) -> None:
    """Write the rows and their percentiles."""
    from structsvm.features.scaling import with_percentiles

    paths.check_folder(store)
    if store.exists() and source.path.exists() and store.samefile(source):
        raise BadInput("STORE", "expected a folder other than SOURCE", value=str(store))
    data = table.read(source, labels=False, **options)
    if dtype is not None:
        data = dataclasses.replace(data, X=data.X.astype(dtype, copy=False))
    data = with_percentiles(data)
    readers.write_store(data, store)
    _say(store, data)


def _check(source: Path, store: Path | None) -> None:
    if store is not None:
        raise BadInput(store, "expected one path with --check, which writes nothing, got two")
    from structsvm.readers.store import check_store

    with bar("reading", data=True) as shown:
        task = shown.add_task("reading", total=None)

        compared = check_store(
            source, callback=lambda n_bytes, n_all: shown.update(task, completed=n_bytes, total=n_all)
        )
    _say(source, readers.open_store(source))
    if compared:
        typer.echo("All arrays are as they were written.")
        return
    typer.echo(
        "All values are valid, but changes cannot be detected, as an earlier version wrote this store, without "
        "checksums. Convert the data again to add them."
    )
