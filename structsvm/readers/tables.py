"""Tables of logged features with one row per document: CSV, JSON lines and Parquet with named columns."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray
from pyarrow import compute

from structsvm.common.checks import BadInput, counted
from structsvm.common.files import AnyPath, shorten
from structsvm.common.names import QID
from structsvm.common.tables.batches import Batch, Role, Table, checked
from structsvm.common.tables.columns import (
    all_ids,
    ids,
    is_number,
    look,
    numbers,
    spelled,
    texts,
    to_numpy,
    unified,
    values_of,
)
from structsvm.common.tables.ids import IdColumn
from structsvm.common.tables.opening import open_tables
from structsvm.queries import (
    QueryData,
    first_beyond,
    group_ids,
    group_queries,
    rows_in_groups,
    value_at,
    warn_user,
)
from structsvm.readers.choosing_columns import choose_columns
from structsvm.readers.letor import check_fill
from structsvm.readers.query_writers import query_writer, write_in_attempts
from structsvm.readers.store import StoreWriter, open_store, place_of

_REMEDY = (
    "a missing value is an empty cell or nan, see {fill}, and numbers have no thousands separators; name the column of "
    "ids with {docid}, the columns to read with {features}, or, in train, columns of words with --categorical"
)


Units = Sequence[tuple[Table, Sequence[int] | None]]
"""Tables, or some row groups of each."""


class Layout(NamedTuple):
    """Properties shared by the files of a table."""

    label: str | None
    qid: str | None
    docid: str | None
    features: tuple[str, ...]
    """Numeric columns."""

    dtype: np.dtype[Any]
    """float32 if every feature of every file is a float of at most 32 bits."""

    fill: float | None = None
    """Value that replaces missing features; None means that they are an error."""

    needs_labels: bool = True
    words: tuple[str, ...] = ()

    @property
    def roles(self) -> dict[str, Role]:
        """Return the role of each column."""
        named: list[tuple[str | None, Role]] = [(self.label, "number"), (self.qid, "id"), (self.docid, "id")]
        named += [(name, "number") for name in self.features] + [(name, "category") for name in self.words]
        return {name: role for name, role in named if name is not None}


def read_csv(
    path: AnyPath,
    *,
    label: str | None = "label",
    qid: str = QID,
    docid: str = "docid",
    features: Sequence[str] | None = None,
    fill: float | None = None,
    max_expansion: float | None = None,
) -> QueryData:
    """Read CSV files of logged features whose first line holds the names of the columns.

    Parameters
    ----------
    path : path
        A file, plain or compressed as for :func:`read_letor`, a folder or a pattern, as for :func:`read_parquet`.
        Cells are separated by tabs if the name ends in ``.tsv`` (before ``.gz`` and the like), otherwise by commas; a
        name that ends in ``.jsonl`` or ``.ndjson`` means one JSON object per line.
    label : str or None
        Column of labels, which are numbers. If there is no column ``label``, one with another usual name is read:
        ``grade``, ``relevance`` or ``rel``; case, ``_`` and ``-`` do not matter, and several such columns are refused.
        None makes labels optional: if they are absent or incomplete, ``y`` is None.
    qid : str
        Column of query ids (integers or strings); other usual names are ``query``, ``query_id`` and ``topic``. If all
        are written like ``7`` or ``1.0``, as pandas writes a column
        of floats, they become integers; rounded numbers (``1.73e+18``) are refused. Other ids are text as written:
        ``1.10`` and ``1.1`` are distinct, whereas ``qid`` in Python refuses floats with a fraction.
    docid : str
        Column of document ids; other usual names are ``document``, ``doc_id``, ``docno``, ``item_id`` and
        ``product_id``. The default column need not exist.
    features : sequence of str, optional
        Columns of the features, in this order; by default all other columns, which must have names. ``true`` and
        ``false``, in any case, are 1 and 0.
    fill : float, optional
        Value that replaces missing features (empty cells and ``nan``), which are an error by default. NaN keeps them
        missing.
    max_expansion : float, optional
        As for :func:`read_letor`.

    Returns
    -------
    QueryData
        With ``feature_names``; ``X`` is float64.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        For a missing or repeated column, a row with a wrong number of cells, missing ids, and cells that are not finite
        numbers; the message names file and line.

    Examples
    --------
    >>> _ = Path("train.csv").write_text("qid,docid,bm25,age,label\\nq1,d7,2.5,1,1\\nq1,d9,1.5,,0\\n")
    >>> data = read_csv("train.csv", fill=0.0)
    >>> data, data.feature_names, data.X.tolist()
    (QueryData(1 query, 2 rows, 2 features, dense float64), ('bm25', 'age'), [[2.5, 1.0], [1.5, 0.0]])
    """
    return read_rows(
        path, max_expansion=max_expansion, label=label, qid=qid, docid=docid, features=features, fill=fill
    )[0]


def read_parquet(
    path: AnyPath,
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
        the order of their names, and may split a query.
    label, docid : str
        As for :func:`read_csv`.
    qid : str
        Column of query ids (integers, strings or categories).
    features : sequence of str, optional
        Columns of the features, in this order; by default all other columns, in the order of the first
        file, except the index that pandas adds. Columns are found by name in every file.
    fill : float, optional
        Value that replaces missing features (null and NaN), which are an error by default. NaN keeps them missing.

    Returns
    -------
    QueryData
        With ``feature_names``. ``X`` is float32 if every feature is a float of at most 32 bits, else float64.

    Raises
    ------
    ValueError
        If no file exists, a file cannot be read, or its columns differ from those of the first file; for columns that
        are not numeric, and for missing values. The message names the file.

    Notes
    -----
    Memory use is that of the result plus 65,536 rows; :func:`convert_parquet` needs only the latter.

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
    return read_rows(path, label=label, qid=qid, docid=docid, features=features, fill=fill)[0]


def convert_csv(source: AnyPath, path: AnyPath, *, dtype: DTypeLike = np.float64, **options: object) -> None:
    """Convert CSV files to a store, block by block, as :func:`convert_parquet` does.

    Parameters
    ----------
    source : path
        As for :func:`read_csv`.
    path : path
        As for :class:`StoreWriter`; if the conversion fails, no store is left behind.
    dtype : {float64, float32}
        Type in which ``X`` is stored.
    **options
        Options of :func:`read_csv`.

    Examples
    --------
    >>> from structsvm.readers import open_store
    >>> _ = Path("train.csv").write_text("qid,bm25,label\\nq1,2.5,1\\nq1,1.5,0\\n")
    >>> convert_csv("train.csv", "train.store")
    >>> open_store("train.store").feature_names
    ('bm25',)
    """
    convert_parquet(source, path, dtype=dtype, **options)


def convert_parquet(source: AnyPath, path: AnyPath, *, dtype: Any = None, **options: Any) -> None:
    """Convert Parquet files to a store, 65,536 rows at a time: neither files nor store have to fit into memory.

    If the rows of some query are not contiguous, all rows are sorted in a temporary file of the size of the store, in
    the same folder. About 600 MB of memory are enough for any number of rows, plus some 200 bytes per query.

    Parameters
    ----------
    source : path
        As for :func:`read_parquet`.
    path : path
        As for :class:`StoreWriter`; if the conversion fails, no store is left behind.
    dtype : {float32, float64}, optional
        Type in which ``X`` is stored; by default that of the files.
    **options
        Options of :func:`read_parquet`.

    Examples
    --------
    >>> import pandas as pd
    >>> from structsvm.readers import open_store
    >>> frame = pd.DataFrame({"qid": ["a", "a", "b"], "label": [1, 0, 1], "bm25": [2.0, 1.0, 3.0]})
    >>> frame.to_parquet("part.parquet")
    >>> convert_parquet("*.parquet", "all.store")
    >>> open_store("all.store")
    QueryData(2 queries, 3 rows, 1 feature, dense float64)
    """
    place_of(Path(path))  # check the target before long files are read
    max_expansion = options.pop("max_expansion", None)
    check_fill(options.get("fill"), np.float64 if dtype is None else dtype)
    tables = open_tables(source, max_expansion=max_expansion)
    layout = layout_of(tables, **options)
    kind = layout.dtype if dtype is None else np.dtype(dtype)
    queries, documents = (IdColumn(tables[0].source, name or "") for name in (layout.qid, layout.docid))
    more = Path(path), kind, queries, documents
    try:
        write_in_attempts(partial(_write, tables, layout, *more), (queries, documents))
    except _Unlabelled:
        write_in_attempts(partial(_write, tables, layout._replace(label=None), *more), (queries, documents))
    warn_of_repeats(Path(tables[0].source), open_store(path))


def layout_of(
    tables: Sequence[Table],
    *,
    label: str | None = "label",
    qid: str | None = QID,
    docid: str = "docid",
    features: Sequence[str] | None = None,
    fill: float | None = None,
    words: Sequence[str] = (),
) -> Layout:
    """Check the names and types of columns before any row is read, and return them as a layout."""
    check_fill(fill)
    first, narrow = tables[0].source, all(table.kinds for table in tables)
    options: dict[str, Any] = {"label": label, "qid": qid, "docid": docid, "words": words}
    found, chosen = choose_columns(tables[0], features=features, **options)
    whose = "requested" if features is not None else f"of {first}"
    for table in tables:
        named, _ = choose_columns(table, features=chosen, whose=whose, **options)
        expected = {*found, *chosen, *words, *table.unused}
        further = [] if features is not None else [name for name in table.names if name not in expected]
        if further or named != found:
            more = [*further, *(name for name in named if name not in (*found, None))]
            lacking = next((name for name in found if name not in named), None)
            what = f"an additional column {more[0]!r}" if more else f"no column {lacking!r}"
            raise BadInput(
                Path(table.source),
                f"expected the columns of {first}, got {what}",
                "write all files with the same columns, or name the columns to read with {features}",
            )
        remedy = "name the columns to read with {features}, or, in train, columns of words with --categorical"
        columns = [(name, repr(name), remedy) for name in chosen]
        columns += [] if found.label is None else [(found.label, f"{found.label!r} of labels", "")]
        kinds = table.kinds or {}
        for name, column, remedy in columns:
            if name in kinds and not is_number(kinds[name]):
                raise BadInput(
                    Path(table.source), f"expected numbers in the column {column}, got {kinds[name]}", remedy
                )
        narrow = narrow and all(pa.types.is_floating(kinds[n]) and kinds[n].bit_width <= 32 for n in chosen)
    if all(table.n_rows == 0 for table in tables):
        raise BadInput(Path(first), "expected rows, got none")
    return Layout(
        *found, chosen, np.dtype(np.float32 if narrow else np.float64), fill, label is not None, tuple(words)
    )


class _Rows(NamedTuple):
    X: NDArray[Any]
    y: NDArray[np.float64] | None
    qid: Any
    docid: Any
    words: dict[str, Any]


def _rows_of(batch: Batch, layout: Layout) -> _Rows:
    """Return the columns of a batch by their roles; raise for the first cell that does not fit."""
    X = np.empty((batch.n, len(layout.features)), dtype=layout.dtype)
    for j, name in enumerate(layout.features):
        X[:, j] = numbers(batch, name, "a number", _REMEDY, dtype=layout.dtype)
    if layout.fill is not None:
        X[np.isnan(X)] = layout.fill
    if (bad := first_beyond(X, missing=layout.fill is not None)) is not None:
        raise batch.wrong(
            bad[0],
            layout.features[bad[1]],
            "a finite number",
            value_at(X, *bad),
            "specify a value for missing features with {fill}" if np.isnan(X[bad]) else "",
        )
    y = None
    if layout.label is not None:
        y = numbers(batch, layout.label, "a finite label", "drop the row or grade it")
        wrong = ~np.isfinite(y) if layout.needs_labels else np.isinf(y)
        batch.refuse_first(wrong, layout.label, "a finite label", y, "drop the row or grade it")
    qid = None if layout.qid is None else ids(batch, layout.qid, "a query id")
    docid = None if layout.docid is None else ids(batch, layout.docid, "the id of a document")
    return _Rows(X, y, qid, docid, {name: texts(batch, name) for name in layout.words})


def read_rows(
    path: object, *, max_expansion: float | None = None, **options: Any
) -> tuple[QueryData, dict[str, tuple[NDArray[Any], list[str]]]]:
    """Read a table; also return codes and distinct values of the categorical columns ``words``, in the order of the
    data."""
    tables = open_tables(path, max_expansion=max_expansion)
    return read_units([(table, None) for table in tables], layout_of(tables, **options))


def read_units(units: Units, layout: Layout) -> tuple[QueryData, dict[str, tuple[NDArray[Any], list[str]]]]:
    """Read tables, or some row groups of them, whose layout is known."""
    X: list[Any] = []
    y: list[Any] = []
    qid: list[Any] = []
    docid: list[Any] = []
    words: dict[str, list[Any]] = {name: [] for name in layout.words}
    source = units[0][0].source
    queries, documents = (IdColumn(source, name or "") for name in (layout.qid, layout.docid))
    for batch, rows in _batches(units, layout):
        X.append(rows.X)
        y.append(rows.y)
        if layout.qid is not None:
            qid.append(look(queries, rows.qid, batch))
        if layout.docid is not None:
            docid.append(look(documents, rows.docid, batch))
        for name in layout.words:
            words[name].append(compute.dictionary_encode(rows.words[name]))
    if not X:
        raise BadInput(Path(source), "expected rows, got none")
    n_rows = sum(map(len, X))
    labels = None if layout.label is None else np.concatenate(y)
    if labels is not None and np.isnan(labels).any():
        labels = None
    grouping = group_ids(all_ids(queries, qid)) if qid else group_queries(None, n_rows)
    names = all_ids(documents, docid, as_text=True) if docid else None
    categories = {}
    for name, arrays in words.items():
        codes, distinct = unified(arrays)
        categories[name] = codes if grouping.order is None else codes[grouping.order], distinct.to_pylist()
    data = rows_in_groups(_stacked(X, n_rows, layout), labels, grouping, names, layout.features)
    warn_of_repeats(Path(source), data)
    return data, categories


def _stacked(blocks: list[Any], n_rows: int, layout: Layout) -> NDArray[Any]:
    """Return blocks as one matrix; the memory of each block is freed after it is copied."""
    if len(blocks) == 1:
        return np.asarray(blocks[0])
    X, start = np.empty((n_rows, len(layout.features)), dtype=layout.dtype), 0
    for k, block in enumerate(blocks):
        X[start : start + len(block)] = block
        start += len(block)
        blocks[k] = None
    return X


def _batches(units: Units, layout: Layout) -> Iterator[tuple[Batch, _Rows]]:
    for table, row_groups in units:
        for batch in table.read(layout.roles, row_groups=row_groups):
            yield batch, checked(batch, lambda some: _rows_of(some, layout))


class _Unlabelled(Exception):
    """Raised if optional labels are incomplete; the store is then written without labels."""


def _write(
    tables: Sequence[Table],
    layout: Layout,
    path: Path,
    dtype: DTypeLike,
    queries: IdColumn,
    documents: IdColumn,
    apart: bool,
) -> None:
    """Make one attempt to write the store; ``apart`` tells whether the rows of some query are not contiguous."""
    with StoreWriter(path, len(layout.features), dtype=dtype, feature_names=layout.features) as writer:
        rows = query_writer(writer, apart, queries)
        for batch, block in _batches([(table, None) for table in tables], layout):
            if block.y is not None and np.isnan(block.y).any():
                raise _Unlabelled
            ids = _array(spelled(queries, look(queries, block.qid, batch)))
            names = None
            if block.docid is not None:
                names = _array(spelled(documents, look(documents, block.docid, batch))).astype(np.str_)
            starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
            rows.add(
                block.X.astype(dtype, copy=False),
                block.y,
                names,
                ids[starts].tolist(),
                np.diff(starts, append=batch.n),
            )
        queries.settle()
        documents.settle()
        rows.finish()


def _array(array: Any) -> NDArray[Any]:
    """Return Arrow ids as a NumPy array."""
    is_text = pa.types.is_dictionary(array.type)
    return np.array(values_of(array), dtype=np.str_) if is_text else to_numpy(array)[0]


def warn_of_repeats(file: Path, data: QueryData) -> None:
    """Warn about documents that occur twice in a query."""
    if data.docid is None:
        return
    repeats = []
    for query, first, last in zip(data.query_ids, data.offsets, data.offsets[1:], strict=False):
        documents = data.docid[first:last].tolist()
        if len(set(documents)) < len(documents):  # names are counted only if there are repeats
            repeats += [(query, name) for name, n in Counter(documents).items() if n > 1 and name != ""]
    if repeats:
        query, document = repeats[0]
        warn_user(
            f"{file}: {counted(document=len(repeats))} with several rows in a query; the first is document "
            f"{shorten(str(document))} of query {shorten(str(query))}. Keep one row per document of a query"
        )
