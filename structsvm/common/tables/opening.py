"""Open tables: files, folders, patterns and frames."""

from os import PathLike
from pathlib import Path
from typing import Any

from structsvm.common.checks import BadInput
from structsvm.common.extras import needed
from structsvm.common.tables.batches import Table
from structsvm.common.tables.files import is_json_lines, is_parquet, table_files


def open_tables(table: Any, *, source: str = "table", max_expansion: float | None = None) -> list[Table]:
    """Return the tables of a path (a file, a folder or a pattern), or a frame as a single table; only column names are
    read. Errors call a frame ``source``.

    Raise ImportError without pyarrow, and BadInput if there is no table.
    """
    with needed("reading tables", "pyarrow; it has no wheel for Windows on ARM: use Python for x64 there"):
        from structsvm.common.tables.frames import frame_table, parquet_table
        from structsvm.common.tables.text import csv_table, json_table
    if not isinstance(table, (str, PathLike)):
        return [frame_table(table, source)]
    files = table_files(table)
    if not files:
        raise BadInput(Path(table), "expected a table, a folder of tables or a pattern, found none")
    tables = []
    for file in files:
        if file.suffix == ".parquet" or is_parquet(file):
            tables.append(parquet_table(file))
        else:
            read = json_table if is_json_lines(file) else csv_table
            tables.append(read(file, max_expansion))
    return tables
