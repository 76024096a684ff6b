"""Impressions in tables: pandas and polars frames, Parquet, CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.clicks.batches import Parts
from structsvm.clicks.cells import (
    MAX_POSITION,
    UNKNOWN_CLICKS,
    ClickCells,
    Dropped,
    _is_known,
    first_position_of,
)
from structsvm.common.checks import BadInput
from structsvm.common.files import is_stream, read_rows, shorten
from structsvm.readers.parquet_tables import opened

_BATCH = 1 << 20  # rows held at once


def read_table(
    table: Any,
    *,
    query: str | None = None,
    document: str | None = None,
    position: str | None = None,
    clicked: str | None = None,
    session: str | None = None,
    cluster: str | None = None,
    probability: str | None = None,
    time: str | None = None,
    between: tuple[str | float | None, str | float | None] | None = None,
    first_position: int | None = None,
    max_position: int = MAX_POSITION,
) -> ClickCells:
    """Count impressions of a table, a row each.

    Parameters
    ----------
    table : frame of pandas or polars, or path
        A path that ends in ``.parquet`` (needs pyarrow) is read so, any other as text: tab-separated if it ends in
        ``.tsv`` (before ``.gz`` and the like), else comma-separated, with names in the first line. Files are read in
        parts; memory grows with the distinct cells and lists, not with the rows.
    query, document, position, clicked : str, optional
        Names of columns. Default: these words, or else a usual name such as ``q``, ``doc_id``, ``rank`` or ``clicks``
        if one column has one; ``guessed`` of the result says which.
        In a text file empty cells of ``clicked`` are 0 where the column holds no 0, and an error where it holds some.
    session : str, optional
        Name of the column with the session; its rows with the same query are one list, and stand together in a file.
    cluster : str, optional
        Name of the column with the user, whose lists depend on each other. Needs ``session``.
    probability : str, optional
        Name of the column with the probability with which the ranker showed this document at this position.
    time : str, optional
        Name of the column with the times of ``between``: numbers, or ISO 8601 (UTC where no zone is given).
    between : tuple of (since, until), optional
        Only rows from ``since`` on, and before ``until``; others are left out and counted. None is no limit.
    first_position, max_position
        As in :meth:`ClickCells.from_arrays`. For a file, ``first_position`` is also needed when any part is ambiguous.

    Returns
    -------
    ClickCells

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query": ["q", "q"], "document": ["a", "b"], "position": [1, 2], "clicked": [0, 1]})
    >>> read_table(frame)
    ClickCells(1 queries, 2 rows, 2 cells, 2 shows, 1 clicks)
    """
    span = between or (None, None)
    if (time is None) != all(limit is None for limit in span):
        raise BadInput(
            "time", "expected a column and one end of a span or both", "give {time} with {between}"
        )
    limits = [_seconds([limit])[0] for limit in span]
    found = column_names(table)
    asked = dict(zip(USUAL, (query, document, position, clicked), strict=True))
    usual = {role: name if name is not None else guess(role, found, table) for role, name in asked.items()}
    more = {"session": session, "cluster": cluster, "probability": probability}
    given = {name: column for name, column in more.items() if column is not None}
    if cluster is not None and session is None:
        raise BadInput("cluster", "expected the column of the session too", "name it with {session}")
    names = [*usual.values(), *given.values(), *([time] if time is not None else [])]
    parts = _parts(table, names, None if probability is None else names.index(probability, 4))
    counted, dropped = Parts(), Dropped()
    bases: set[int] = set()
    n_before = 0
    for columns in _whole_lists(parts, session is not None):
        n_read = len(columns[0])
        if time is not None:
            columns = _within(columns, limits, dropped)
            if not len(columns[0]):
                n_before += n_read
                continue
        base, positions = first_position, _numbers(columns[2])
        if base is None and positions is not None:
            base = first_position_of(positions, None)
            bases.add(base)
            if len(bases) > 1:
                problem = f"expected 0 or 1, as position 0 is in some of the parts in which {table} is read"
                raise BadInput("first_position", f"{problem}, and not in others", "state it")
        try:
            counted.add(
                ClickCells.from_arrays(
                    *columns[:4], **dict(zip(given, columns[4:], strict=True)), first_position=base,
                    max_position=max_position,
                )
            )  # fmt: skip
        except BadInput as error:
            if not isinstance(table, (str, PathLike)):
                raise
            if error.argument in ("clicked", "probability"):
                raise error.within(f"{table}, rows {n_before + 1:,} to {n_before + n_read:,}") from None
            if error.argument != "log":
                raise
            dropped.count("row in a part of the file without any usable one", len(columns[0]))
        n_before += n_read
    whole = counted.whole(source_of(table), dropped)
    guessed = {role: name for role, name in usual.items() if name != role and asked[role] is None}
    return replace(whole, guessed=guessed)


USUAL = {
    "query": "q qid query_id user_query search_query search_term query_text keywords",
    "document": "doc docid doc_id document_id item item_id product product_id object_id",
    "position": "rank pos place ordinal",
    "clicked": "click clicks is_click is_clicked has_click",
}
"""Usual names of columns, in any case; beside them stand the words of the options."""


def source_of(table: Any) -> str:
    """Return what errors call a table: its path, if it has one."""
    return str(table) if isinstance(table, (str, PathLike)) else "table"


def column_names(table: Any) -> list[str]:
    """Return the names of the columns of a frame or a file."""
    if not isinstance(table, (str, PathLike)):
        columns = getattr(table, "columns", None)
        if columns is None:
            kind = type(table).__name__
            raise BadInput("table", f"expected a frame of pandas or polars, or a path, got {kind}")
        return list(map(str, columns))
    path = Path(table)
    if is_stream(path):  # which can be read once
        return list(USUAL)
    if path.suffix == ".parquet":
        with _parquet(path) as file:
            return list(file.schema_arrow.names)
    return next(read_rows(path), (1, []))[1]


def guess(role: str, names: list[str], table: Any, usual: str | None = None, remedy: str = "") -> str:
    """Return the column that holds ``role`` by its name; raise where none or several could, with this remedy."""
    if role in names:
        return role
    words = (USUAL[role] if usual is None else usual).split()
    found = [name for name in names if name.strip().lower() in (role, *words)]
    if len(found) == 1:
        return found[0]
    source = source_of(table)
    if found:
        raise BadInput(source, f"expected one column that may be {role!r}, got {' and '.join(map(repr, found))}",
                       remedy or f"name it by {{{role}}}")  # fmt: skip
    check_columns([role], names, source, remedy)
    raise AssertionError("refused")


def _within(columns: list[Any], limits: Any, dropped: Dropped) -> list[Any]:
    """Return the rows of a span of time, without the last column, the times."""
    times = _seconds(columns[-1])
    with np.errstate(invalid="ignore"):
        early, late = times < limits[0], times >= limits[1]  # NaN is no limit
    unknown = np.isnan(times)
    dropped.count("row before since", early.sum())
    dropped.count("row from until on", late.sum())
    dropped.count("row without a time", unknown.sum())
    rows = np.flatnonzero(~(early | late | unknown))
    return [c[rows] if isinstance(c, np.ndarray) else [c[i] for i in rows.tolist()] for c in columns[:-1]]


def _seconds(values: Any) -> Any:
    """Return times as seconds, missing ones as NaN: numbers as they are, texts by ISO 8601."""
    array = np.asarray(values)
    if array.dtype.kind == "M":
        return np.where(np.isnat(array), np.nan, array.astype("datetime64[us]").astype(np.int64) / 1e6)
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    return np.array([_second(value) for value in values])


def _second(value: Any) -> float:
    if not _is_known(value):
        return math.nan
    try:
        if isinstance(value, str) and not value.strip().lstrip("-").replace(".", "", 1).isdigit():
            value = datetime.fromisoformat(value.strip())
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        return float(value)
    except (TypeError, ValueError):
        problem = f"expected numbers or times such as 2026-03-01T12:00, got {value!r:.60}"
        raise BadInput("time", problem) from None


def _numbers(positions: Any) -> Any:
    """Return positions as float64, missing ones as NaN; None for what is refused later."""
    with suppress(TypeError, ValueError):
        return np.asarray(positions, dtype=np.float64)
    return None


def _parts(table: Any, names: list[str], probability: int | None) -> Iterator[list[Any]]:
    if not isinstance(table, (str, PathLike)):
        check_columns(names, list(table.columns), "table")
        yield _columns(table, names)
    elif (path := Path(table)).suffix == ".parquet":
        yield from _parquet_parts(path, names)
    else:
        yield from _text_parts(path, names, probability)


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    path.stat()  # a missing file is the error of the system
    try:
        with opened(path) as file:
            yield file
    except ImportError:
        remedy = "pip install 'structsvm-ranking[parquet]'"
        raise BadInput(str(path), "expected pyarrow to read Parquet, got none", remedy) from None


def _parquet_parts(path: Path, names: list[str]) -> Iterator[list[Any]]:
    with _parquet(path) as file:
        import pyarrow as pa

        check_columns(names, file.schema_arrow.names, str(path))
        held: list[Any] = []
        rows = 0
        for batch in file.iter_batches(batch_size=_BATCH, columns=names):
            while batch.num_rows:  # batches end with row groups; parts are full but for the last
                held.append(batch.slice(0, _BATCH - rows))
                rows += held[-1].num_rows
                batch = batch.slice(held[-1].num_rows)
                if rows == _BATCH:
                    yield _columns(pa.Table.from_batches(held), names)
                    held, rows = [], 0
        if held:
            yield _columns(pa.Table.from_batches(held), names)


def _columns(table: Any, names: list[str]) -> list[Any]:
    return [table[name].to_numpy() for name in names]


def _text_parts(path: Path, names: list[str], probability: int | None) -> Iterator[list[Any]]:
    """Yield columns: ids as text, positions and clicks as numbers, empty positions missing, empty clicks 0."""
    rows = read_rows(path)
    _, header = next(rows, (1, []))
    check_columns(names, header, str(path))
    at = [header.index(name) for name in names]
    numbers = [2, 3] if probability is None else [2, 3, probability]
    read = {"true": 1.0, "false": 0.0, "True": 1.0, "False": 0.0, "": 0.0}  # texts of clicked so far
    first: dict[str, int] = {}  # line of each of them
    held: list[list[Any]] = []

    def columns() -> list[Any]:
        # empty ones are unknown where a 0 is
        if "" in first and any(text and not read[text] for text in first):
            problem = f"expected 0 or 1, got an empty cell ({path}:{first['']})"
            raise BadInput("clicked", problem, UNKNOWN_CLICKS)
        found: list[Any] = [list(column) for column in zip(*held, strict=True)]
        for k in numbers:
            found[k] = np.array(found[k], dtype=np.float64)
        held.clear()
        return found

    for line, row in rows:
        if len(row) != len(header):
            raise BadInput(f"{path}:{line}", f"expected {len(header)} columns, got {len(row)}")
        cells: list[Any] = [row[i] for i in at]
        k = 2
        try:
            for k in numbers:
                text = cells[k].strip()
                if k == 3:
                    first.setdefault(text, line)
                    cells[k] = read[text] if text in read else read.setdefault(text, float(text))
                else:
                    cells[k] = math.nan if k == 2 and not text else float(text)
        except ValueError:
            wanted, remedy = ("0 or 1", "write 1 for a click and 0 for none") if k == 3 else ("a number", "")
            problem = f"column {names[k]!r}: expected {wanted}, got {shorten(text)}"
            raise BadInput(f"{path}:{line}", problem, remedy) from None
        held.append(cells)
        if len(held) == _BATCH:
            yield columns()
    if held:
        yield columns()


def _whole_lists(parts: Iterator[list[Any]], sessions: bool) -> Iterator[list[Any]]:
    """Move the list that a part ends in to the next part, so that none is cut."""
    if not sessions:
        yield from parts
        return
    kept: list[Any] | None = None
    for part in parts:
        columns = part if kept is None else [
            np.concatenate([np.asarray(a, dtype=object), np.asarray(b, dtype=object)])
            for a, b in zip(kept, part, strict=True)
        ]  # fmt: skip
        query, session = columns[0], columns[4]
        cut = len(query)
        # the last part is whole; rows without a session are in no list
        if len(part[0]) == _BATCH and _is_known(session[-1]):
            while cut > 0 and session[cut - 1] == session[-1] and query[cut - 1] == query[-1]:
                cut -= 1
        kept = [column[cut:] for column in columns] if cut < len(query) else None
        if cut:
            yield [_plain(column[:cut]) for column in columns]
    if kept is not None:
        yield [_plain(column) for column in kept]


def _plain(values: Any) -> Any:
    """Return numbers of object arrays as numbers again; ids that these types would not hold stay in a list."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.size:
        kinds = {type(v) for v in values}
        dtype, limit = (np.float64, 2**53) if kinds & {float, np.float64} else (np.int64, 2**63)
        numbers = kinds <= {int, float, bool, np.int64, np.float64, np.bool_}
        fit = numbers and not any(abs(v) >= limit for v in values)
        return values.astype(dtype) if fit else values.tolist()
    return values


def check_columns(names: list[str], found: list[str], source: str, remedy: str = "") -> None:
    """Raise unless these columns are there."""
    for name in names:
        if name not in found:
            shown = ", ".join(map(str, found[:10])) or "an empty file"
            raise BadInput(
                source, f"expected a column {name!r}, got {shown}", remedy or
                "name the columns with {query}, {document}, {position}, {clicked}, {session}",
            )  # fmt: skip
