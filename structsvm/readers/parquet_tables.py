"""Tables of logged features: Parquet files with a column of labels, one of query ids, and one for each feature.

Read by pyarrow: ``pip install 'structsvm-ranking[parquet]'``.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.files import shorten
from structsvm.common.names import QID
from structsvm.queries import QueryData, first_beyond, group_queries, rows_in_groups, value_at
from structsvm.readers.csv_tables import choose_columns, is_csv, warn_of_repeats
from structsvm.readers.letor import check_fill
from structsvm.readers.store import Apart, QueryWriter, StoreWriter, place_of, write_store

_MAGIC = b"PAR1"
_BATCH_ROWS = 1 << 16


class Layout(NamedTuple):
    """What files of a table have in common."""

    label: str | None
    qid: str
    features: tuple[str, ...]
    dtype: np.dtype[Any]
    """float32 if every feature of every file is a float of at most 32 bits."""
    n_rows: tuple[int, ...]
    """Of each file."""
    docid: str | None = None
    """Column of document ids, if there is one."""
    fill: float | None = None
    """Value for missing features, which are an error without it."""


def is_parquet(path: str | PathLike[str]) -> bool:
    """Return whether ``path`` is a Parquet file (its first bytes or its name), a folder with one, or a pattern."""
    text = fspath(path)
    if glob.has_magic(text) and not Path(text).exists():
        return text.endswith(".parquet")
    place = Path(text)
    if place.is_dir():
        return not (place / "meta.json").exists() and next(place.glob("*.parquet"), None) is not None
    if not place.is_file():
        return False
    if place.suffix == ".parquet":  # one that is damaged is not taken for a text
        return True
    with place.open("rb") as file:
        return file.read(4) == _MAGIC


def is_table(path: str | PathLike[str]) -> bool:
    """Return whether ``path`` stands for tables with named columns: Parquet files or CSV."""
    return is_csv(path) or is_parquet(path)


def parquet_files(path: str | PathLike[str]) -> list[Path]:
    """Return the files that a path stands for, in the order of their names."""
    text = fspath(path)
    place = Path(text)
    if place.is_dir():
        files = sorted(place.glob("*.parquet"))
    elif place.exists():
        files = [place]
    else:
        files = sorted(map(Path, glob.glob(text, recursive=True)))  # noqa: PTH207 - pathlib takes no absolute pattern
    if not files:
        raise BadInput(place, "expected a Parquet file, or a folder or a pattern of some, got nothing there")
    return files


def without_index(names: Sequence[str]) -> list[str]:
    """Return the names of columns but for the index that pandas adds."""
    return [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]


def layout_of(
    files: Sequence[Path],
    *,
    label: str | None = "label",
    qid: str = QID,
    docid: str = "docid",
    features: Sequence[str] | None = None,
    fill: float | None = None,
) -> Layout:
    """Look at the schemas of files, and refuse what does not fit together, before any row is read."""
    check_fill(fill)
    import_pyarrow()
    import pyarrow.types as types

    chosen = None if features is None else tuple(features)
    labels: str | None = None
    document: str | None = None
    narrow, n_rows = True, []
    for file in files:
        with opened(file) as table:
            schema = table.schema_arrow
            n_rows.append(int(table.metadata.num_rows))
        names = without_index(schema.names)
        whose = "asked for" if features is not None else f"of {files[0]}"
        grades, at, own = choose_columns(
            file, names, label=label, qid=qid, docid=docid, features=chosen, whose=whose
        )
        if len(n_rows) == 1:
            labels, chosen, document = grades, own, at
        assert chosen is not None, "those of the first file"
        further = sorted(set(names) - {labels, qid, document, *chosen}) if features is None else []
        if further or (grades, at) != (labels, document):
            more = [*further, *(name for name in (grades, at) if name not in (labels, document, None))]
            lacking = labels if grades is None else document
            what = f"a further column {more[0]!r}" if more else f"no column {lacking!r}"
            raise BadInput(
                file,
                f"expected the columns of {files[0]}, got {what}",
                "write all files with the same columns, or name those to read by {features}",
            )
        remedy = "name the columns to read by {features}, or in train those of words by --categorical"
        columns = [(name, repr(name), remedy) for name in chosen]
        columns += [] if labels is None else [(labels, f"{labels!r} of labels", "")]
        for name, column, remedy in columns:
            kind = schema.field(name).type
            if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
                raise BadInput(file, f"expected numbers in the column {column}, got {kind}", remedy)
        kinds = [schema.field(name).type for name in chosen]
        narrow = narrow and all(types.is_floating(kind) and kind.bit_width <= 32 for kind in kinds)
    if not sum(n_rows):
        raise BadInput(files[0], "expected rows, got none")
    assert chosen is not None, "there is at least one file"
    kind_of_X = np.dtype(np.float32 if narrow else np.float64)
    return Layout(labels, qid, chosen, kind_of_X, tuple(n_rows), document, fill)


def read_parquet(
    path: str | PathLike[str],
    *,
    label: str | None = "label",
    qid: str = QID,
    docid: str = "docid",
    features: Sequence[str] | None = None,
    fill: float | None = None,
) -> QueryData:
    """Read one or more Parquet files of logged features.

    Parameters
    ----------
    path : path
        A file, a folder (its files ``*.parquet``) or a pattern such as ``"logs/part-*.parquet"``; files are read in
        the order of their names, and may cut a query.
    label, docid : str
        As for :func:`read_csv`.
    qid : str
        Column of query ids (whole numbers, strings or categories).
    features : sequence of str, optional
        Columns of the features, in this order; by default all others, in the order of the first file, but for the
        index that pandas adds. Columns are found by name in every file.
    fill : float, optional
        Value for missing features (null and NaN), which are an error without it. NaN: they stay missing.

    Returns
    -------
    QueryData
        With ``feature_names``. ``X`` is float32 if every feature is a float of at most 32 bits, else float64.

    Raises
    ------
    ImportError
        Without pyarrow.
    ValueError
        With the file: for none there, one that cannot be read, other columns than the first one has, columns that
        are no numbers, and missing values.

    Notes
    -----
    Memory: the result, and 65,536 rows besides. :func:`convert_parquet` needs no more than these.

    Examples
    --------
    >>> import pyarrow
    >>> from pyarrow import parquet
    >>> table = {"qid": ["a", "a", "b"], "bm25": [2.0, 1.0, 3.0], "age": [1, 5, 2], "label": [1, 0, 0]}
    >>> parquet.write_table(pyarrow.table(table), "part-0.parquet")
    >>> data = read_parquet("part-*.parquet")
    >>> data, data.feature_names
    (QueryData(2 queries, 3 rows, 2 features, dense float64), ('bm25', 'age'))
    """
    files = parquet_files(path)
    layout = layout_of(files, label=label, qid=qid, docid=docid, features=features, fill=fill)
    return read_units([(file, None, n) for file, n in zip(files, layout.n_rows, strict=True)], layout)


def read_units(units: Sequence[tuple[Path, Sequence[int] | None, int]], layout: Layout) -> QueryData:
    """Read files, or some row groups of them, whose layout is known."""
    n_rows = sum(n for _, _, n in units)
    X = np.empty((n_rows, len(layout.features)), dtype=layout.dtype)
    y: Any = None if layout.label is None else np.empty(n_rows)
    ids: list[Any] = []
    documents: list[Any] = []
    start = 0
    for file, row_groups, _ in units:
        for block_X, block_y, block_ids, block_docid in _batches(file, layout, row_groups):
            stop = start + block_X.shape[0]
            X[start:stop] = block_X
            if y is not None:
                y[start:stop] = block_y
            ids.append(block_ids)
            documents.append(block_docid)
            start = stop
    docid = np.concatenate(documents) if documents and layout.docid is not None else None
    qid = _one_type(ids, [file for file, _, _ in units]) if ids else np.empty(0, dtype=np.int64)
    data = rows_in_groups(X, y, group_queries(qid, n_rows), docid, layout.features)
    if units:
        warn_of_repeats(units[0][0], data)
    return data


def row_groups_of(file: Path) -> list[int]:
    """Return the number of rows of each row group of a file."""
    with opened(file) as table:
        return [int(table.metadata.row_group(k).num_rows) for k in range(table.metadata.num_row_groups)]


def convert_parquet(
    source: str | PathLike[str],
    path: str | PathLike[str],
    *,
    label: str | None = "label",
    qid: str = QID,
    docid: str = "docid",
    features: Sequence[str] | None = None,
    fill: float | None = None,
    dtype: Any = None,
) -> None:
    """Convert Parquet files to a store, 65,536 rows at a time: neither has to fit into memory.

    Files in which the rows of some query are apart are read whole.

    Parameters
    ----------
    source, label, qid, docid, features, fill
        As for :func:`read_parquet`.
    path : path
        As for :class:`StoreWriter`; if the source is refused, no store is left.
    dtype : {float32, float64}, optional
        By default that of the files.

    Examples
    --------
    >>> import pandas as pd
    >>> from structsvm.readers import open_store
    >>> frame = pd.DataFrame({"qid": ["a", "a", "b"], "label": [1, 0, 1], "bm25": [2.0, 1.0, 3.0]})
    >>> frame.to_parquet("part.parquet")
    >>> convert_parquet("*.parquet", "all.store")
    >>> open_store("all.store")
    QueryData(2 queries, 3 rows, 1 features, dense float64)
    """
    place_of(Path(path))  # before the first look at long files
    check_fill(fill, store=True)
    files = parquet_files(source)
    layout = layout_of(files, label=label, qid=qid, docid=docid, features=features, fill=fill)
    kind = layout.dtype if dtype is None else np.dtype(dtype)
    try:
        _write(files, layout, Path(path), kind)
    except Apart:
        data = read_parquet(source, label=label, qid=qid, docid=docid, features=features, fill=fill)
        write_store(replace(data, X=data.X.astype(kind, copy=False)), path)


def _write(files: Sequence[Path], layout: Layout, path: Path, dtype: np.dtype[Any]) -> None:
    kinds: list[Any] = []
    with StoreWriter(path, len(layout.features), dtype=dtype, feature_names=layout.features) as writer:
        queries = QueryWriter(writer, np.array)
        for file in files:
            for X, y, ids, docid in _batches(file, layout):
                kinds = [*kinds[:1], ids[:1]]
                _one_type(kinds, [files[0], file])
                grouping = group_queries(ids, X.shape[0])
                if grouping.order is not None:
                    raise Apart
                lengths = np.diff(grouping.offsets)
                queries.add(X.astype(dtype, copy=False), y, docid, grouping.query_ids.tolist(), lengths)
        queries.finish()


def _batches(
    file: Path, layout: Layout, row_groups: Sequence[int] | None = None
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield features, labels, ids of queries and of documents of some rows at a time, of some row groups if named.
    Labels and ids of documents are None without a column of them.
    """
    import pyarrow

    columns = [*filter(None, (layout.label, layout.qid, layout.docid)), *layout.features]
    start = 0
    with opened(file) as table:
        if row_groups:
            start = sum(table.metadata.row_group(k).num_rows for k in range(row_groups[0]))
        for batch in table.iter_batches(batch_size=_BATCH_ROWS, columns=columns, row_groups=row_groups):
            n = batch.num_rows
            if n == 0:
                continue
            X = np.empty((n, len(layout.features)), dtype=layout.dtype)
            for j, name in enumerate(layout.features):
                X[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
            if layout.fill is not None:
                X[np.isnan(X)] = layout.fill
            if (bad := first_beyond(X, missing=layout.fill is not None)) is not None:
                remedy = "state a value for missing ones by {fill}" if np.isnan(X[bad]) else ""
                name, got = layout.features[bad[1]], f"a finite number, got {value_at(X, *bad)}"
                raise _wrong_cell(file, start + bad[0], name, got, remedy)
            y = None
            if layout.label is not None:
                y = batch.column(layout.label).to_numpy(zero_copy_only=False).astype(np.float64)
                if not np.isfinite(y).all():
                    row = int(np.argmin(np.isfinite(y)))
                    got = f"a finite label, got {y[row]}"
                    raise _wrong_cell(file, start + row, layout.label, got, "drop the row or grade it")
            column = batch.column(layout.qid)
            if pyarrow.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if column.null_count:
                row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                got = "a query id, got none"
                raise _wrong_cell(file, start + row, layout.qid, got, "drop rows without a query")
            ids = column.to_numpy(zero_copy_only=False)
            try:
                ids = ids.astype(str) if ids.dtype.kind == "O" and isinstance(ids[0], str) else ids
                group_queries(ids[:1], 1)
            except ValueError as error:
                raise BadInput(file, f"column {layout.qid!r}: {error}") from None
            docid = None if layout.docid is None else _documents(file, batch, layout.docid, start)
            yield X, y, ids, docid
            start += n


def _wrong_cell(file: Path, row: int, column: str | None, expected: str, remedy: str) -> BadInput:
    return BadInput(file, f"row {row}, column {column!r}: expected {expected}", remedy)


def _documents(file: Path, batch: Any, name: str, start: int) -> Any:
    """Return the document ids of a batch as strings."""
    words = batch.column(name).to_pylist()
    for row, word in enumerate(words):
        if not isinstance(word, (str, int)):
            got = f"the id of a document, got {'none' if word is None else type(word).__name__}"
            raise _wrong_cell(
                file, start + row, name, got, "drop the row, or state another column by {docid}"
            )
    return np.array([str(word) for word in words], dtype=np.str_)


def _one_type(ids: list[Any], files: Sequence[Path]) -> Any:
    """All ids in one array; ints and strings are not mixed."""
    kinds = {"text" if block.dtype.kind == "U" else "number" for block in ids}
    if len(kinds) > 1:
        raise BadInput(
            files[-1],
            "expected query ids of one type in all files, got strings in some and numbers in others",
            "write them all as strings",
        )
    return np.concatenate(ids)


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """Open a Parquet file, whose errors name it."""
    pyarrow = import_pyarrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as table:
            yield table
    except (pyarrow.ArrowException, OSError) as error:
        told = shorten(" ".join(f"{error}".split()), 200)
        problem = f"expected a Parquet file, got one that pyarrow cannot read: {told}"
        raise BadInput(file, problem, "write it again") from None


def import_pyarrow() -> Any:
    """Return pyarrow; ImportError with the install command where it is not."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'structsvm-ranking[parquet]'") from None
    return pyarrow
