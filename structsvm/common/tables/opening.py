"""Open tables: files, folders, patterns and frames."""

from collections.abc import Sequence
from typing import Any

from structsvm.common.extras import needed
from structsvm.common.tables.batches import Table
from structsvm.common.tables.source import File, none_found, source_of


def open_tables(table: object, *, source: str = "table", max_expansion: float | None = None) -> list[Table]:
    """Return the tables of a source, a path (a file, a folder or a pattern), or a frame as a single table; only column
    names are read. Errors call a frame ``source``.

    Raise ImportError without pyarrow, and BadInput if there is no table.
    """
    given = source_of(table)
    if given.kind == "frame":
        with _needing_arrow():
            from structsvm.common.tables.frames import frame_table
        return [frame_table(given.given, source)]
    if not given.files:
        raise none_found(given)
    return open_files(given.files, max_expansion)


def open_files(files: Sequence[File], max_expansion: float | None = None) -> list[Table]:
    """Return the tables of files, with the columns stated by the names of their folders."""
    with _needing_arrow():
        from structsvm.common.tables.folders import folder_columns, with_folders
        from structsvm.common.tables.frames import parquet_table
        from structsvm.common.tables.text import csv_table, json_table
    columns = folder_columns(files)
    tables = []
    for file in files:
        if file.kind == "parquet":
            table = parquet_table(file.path)
        else:
            read = json_table if file.kind == "json-lines" else csv_table
            table = read(file.path, max_expansion)
        tables.append(with_folders(table, file, columns))
    return tables


def _needing_arrow() -> Any:
    return needed("reading tables", "pyarrow; it has no wheel for Windows on ARM: use Python for x64 there")
