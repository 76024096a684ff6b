"""Data frames, dictionaries of columns, Arrow streams, and Parquet files."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from pyarrow import parquet

from structsvm.common.checks import BadInput
from structsvm.common.files import shorten
from structsvm.common.tables.batches import Batch, Role, Table
from structsvm.common.tables.ids import first_inexact, is_missing

_ROWS, _CELLS = 1 << 16, 1 << 22
"""Maximum number of rows and cells of a batch."""

_BUFFER_BYTES = 1 << 20


def frame_table(frame: Any, source: str = "table") -> Table:
    """Return a frame of pandas or polars, a dictionary of columns, or an Arrow stream as a table."""
    if isinstance(frame, Mapping) or hasattr(frame, "iloc") or hasattr(frame, "get_column"):
        own = {str(name): name for name in (frame if isinstance(frame, Mapping) else frame.columns)}
        names = [str(name) for name in (frame if isinstance(frame, Mapping) else frame.columns)]

        def column(name: str) -> Any:
            return frame[own[name]]
    elif hasattr(frame, "__arrow_c_stream__"):  # Arrow, DuckDB, narwhals, Ibis, ...
        table = pa.table(frame)
        names, column = table.column_names, table.column
    else:
        kind = type(frame).__name__
        raise BadInput(source, f"expected a pandas or polars frame, an Arrow table, or a path, got {kind}")
    if len(set(names)) < len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise BadInput(source, f"expected each column once, got {shorten(twice)} twice", "rename or drop one")

    def read(roles: Mapping[str, Role], *, row_groups: Sequence[int] | None = None) -> Iterator[Batch]:
        # only the requested columns: other columns may have a type that Arrow lacks
        columns = {name: arrow_of(column(name), source, name, role) for name, role in roles.items()}
        n = len(next(iter(columns.values())))
        if n:
            yield Batch(columns, n, _rows_from(source, 0))

    return Table(source, names, read, {})


def _rows_from(source: Path | str, start: int) -> Callable[[int], tuple[Path | str, str]]:
    return lambda row: (source, f"row {start + row}, ")


def arrow_of(values: Any, source: Path | str, name: str, role: Role = "category") -> Any:
    """Return values as one Arrow array; raise for a mixture of types, except integers and floats as numbers or ids."""
    try:
        if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):  # Arrow or polars
            values = pa.chunked_array(values)
        elif not isinstance(values, (pa.Array, pa.ChunkedArray)):
            array = pa.array(values, from_pandas=True)
            if role == "id" and pa.types.is_floating(array.type) and getattr(values, "dtype", "O") == "O":
                return _numbers_of(values, role)  # Arrow would round integers
            values = array
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    except (pa.ArrowException, OverflowError, ValueError, TypeError, NotImplementedError) as error:
        known = [v for v in np.asarray(values, dtype=object).tolist() if not is_missing(v)]
        kinds = sorted({type(v).__name__ for v in known})
        if kinds == ["int"] or (kinds == ["float", "int"] and role in ("number", "id")):
            with suppress(pa.ArrowException, OverflowError, ArithmeticError):
                return _numbers_of(values, role)
        expected, remedy = "64-bit numbers, text or times", "convert it to numbers or str"
        got = f"{' and '.join(kinds) or 'none'} ({error!s:.80})"
        if kinds == ["int"]:
            expected, got = "64-bit integers", f"{max(known, key=abs)}"
            remedy = "read ids as strings"
        elif len(kinds) > 1:
            expected, got, remedy = "values of one type", " and ".join(kinds), "convert them to str"
        raise BadInput(source, f"column {shorten(name)}: expected {expected}, got {got}", remedy) from None


def _numbers_of(values: ArrayLike, role: Role) -> Any:
    """Return integers and floats as an Arrow array: floats as numbers; as ids exact integers, if all are whole."""
    numbers = [None if is_missing(v) else v for v in np.asarray(values, dtype=object).tolist()]
    floats = [v for v in numbers if isinstance(v, float)]
    if role == "number" or first_inexact(np.array(floats, dtype=np.float64)) is not None:
        return pa.array([None if v is None else float(v) for v in numbers], pa.float64())
    exact = [None if v is None else int(v) for v in numbers]
    if all(v is None or -(2**63) <= v < 2**63 for v in exact):
        return pa.array(exact, pa.int64())
    return pa.array([None if v is None else Decimal(v) for v in exact], pa.decimal256(76, 0))


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """Open a Parquet file; errors name the file."""
    file.stat()  # for a missing file, raises the error of the system
    try:
        # with its defaults pyarrow would keep everything it reads from the file in memory
        with parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER_BYTES) as table:
            yield table
    except (pa.ArrowException, OSError) as error:
        told = shorten(" ".join(f"{error}".split()), 200)
        raise BadInput(
            file, f"expected a Parquet file, got one that pyarrow cannot read: {told}", "write it again"
        ) from None


def parquet_table(file: Path) -> Table:
    """Return a Parquet file as a table, without an unnamed index of pandas."""
    with opened(file) as one:
        schema, n_rows = one.schema_arrow, int(one.metadata.num_rows)
    names = [name for name in schema.names if not re.fullmatch(r"__index_level_\d+__", name)]
    index = _index_columns(schema.metadata or {})

    def read(roles: Mapping[str, Role], *, row_groups: Sequence[int] | None = None) -> Iterator[Batch]:
        with opened(file) as one:
            size = max(1, min(_ROWS, _CELLS // max(1, len(roles))))
            start = sum(one.metadata.row_group(k).num_rows for k in range(row_groups[0])) if row_groups else 0
            for batch in one.iter_batches(batch_size=size, columns=[*roles], row_groups=row_groups):
                columns = {name: batch.column(name) for name in roles}
                if batch.num_rows:
                    yield Batch(columns, batch.num_rows, _rows_from(file, start))
                start += batch.num_rows

    return Table(file, names, read, dict(zip(schema.names, schema.types, strict=True)), n_rows, index)


def _index_columns(metadata: Mapping[bytes, bytes]) -> list[str]:
    """Return the columns that hold the index of a pandas frame, according to the metadata of a Parquet file."""
    try:
        index = json.loads(metadata.get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError):
        return []
    return [name for name in index if isinstance(name, str)] if isinstance(index, list) else []


def row_groups_of(file: Path) -> list[int]:
    """Return the number of rows of each row group of a file."""
    with opened(file) as table:
        return [int(table.metadata.row_group(k).num_rows) for k in range(table.metadata.num_row_groups)]


def release_memory() -> None:
    """Release memory that Arrow would keep, about half as much as the rows take."""
    pa.default_memory_pool().release_unused()
