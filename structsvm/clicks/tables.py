"""Impressions in tables: data frames, Parquet, CSV, JSON lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from structsvm.clicks.batches import BATCH, Parts
from structsvm.clicks.cells import MAX_POSITION, UNKNOWN_CLICKS, ClickCells, Ids, first_position_of
from structsvm.common.checks import BadInput, counted
from structsvm.common.event_logs import Dropped, by_time
from structsvm.common.tables import columns as arrow
from structsvm.common.tables.batches import Batch, Role, Table, checked
from structsvm.common.tables.columns import (
    UNITS,
    coded,
    ids,
    look,
    look_at_type,
    numbers,
    seconds,
    spelled,
    stamp,
    time_of,
    times,
)
from structsvm.common.tables.ids import IdColumn, reread
from structsvm.common.tables.opening import open_tables
from structsvm.common.tables.roles import find_columns

_IDS = ("query", "document", "session", "cluster")
_FIELDS = {"query": "query_ids", "document": "docid", "cluster": "cluster_ids"}


def read_table(
    table: object,
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
    """Count the impressions of a table with one row per impression.

    Parameters
    ----------
    table : frame of pandas or polars, dict of columns, object with the Arrow stream interface, or path
        A path names a file, a folder or a pattern. Files are Parquet, JSON lines (``.jsonl``, ``.ndjson``) or text,
        tab-separated if the name ends with ``.tsv`` (before ``.gz`` and the like) and otherwise comma-separated, with
        column names in the first line. They are read in parts; memory grows with the distinct cells and lists, not with
        the rows.
    query, document, position, clicked : str, optional
        Names of columns. Default: the name of the parameter, or a conventional name such as ``q``, ``doc_id``, ``rank``
        or ``clicks`` if exactly one column has such a name; ``guessed`` of the result records the choice. Ids of a
        text file are text; ``101.0``, as pandas writes a column of floats, is ``101``, and numbers that were rounded
        (``1.73e+18``) are refused. In a text file empty cells of ``clicked`` count as 0 if the column contains no 0,
        and are an error otherwise.
    session : str, optional
        Name of the column with the session; its rows with the same query are one list. In a file of more than
        2^20 rows they must be contiguous: a list continued in a later part of the file is an error.
    cluster : str, optional
        Name of the column with the user; the lists of a user depend on each other. Requires ``session``.
    probability : str, optional
        Name of the column with the probability with which the ranker showed this document at this position.
    time : str, optional
        Name of the column of times: ISO 8601 (UTC if no zone is given), or numbers in seconds, milli-, micro- or
        nanoseconds since 1970, distinguished by magnitude (below 1e11, 1e14, 1e17), all in the same unit. Of the rows
        of a list with the same position or document the earliest is kept; without times, the first of the table.
    between : tuple of (since, until), optional
        Limits of the times: rows before ``since``, and from ``until`` on, are left out and counted. None means no
        limit.
    first_position, max_position
        As in :meth:`ClickCells.from_arrays`. A file is read in parts; ``first_position`` is
        needed if the parts do not agree on it.

    Returns
    -------
    ClickCells

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query": ["q", "q"], "document": ["a", "b"], "position": [1, 2], "clicked": [0, 1]})
    >>> read_table(frame)
    ClickCells(1 query, 2 rows, 2 cells, 2 shows, 1 click)
    """
    span = between or (None, None)
    if time is None and any(limit is not None for limit in span):
        raise BadInput("time", "expected a column of times, got none", "give {time} with {between}")
    if cluster is not None and session is None:
        raise BadInput("cluster", "expected the column of the session too", "name it with {session}")
    limits = [_limit(limit) for limit in span]
    tables = open_tables(table)
    in_parts = tables[0].in_parts
    source = f"{table}" if in_parts else "table"
    asked = {"query": query, "document": document, "position": position, "clicked": clicked}
    more = {"session": session, "cluster": cluster, "probability": probability, "time": time}
    stated = {role: name for role, name in (asked | more).items() if name is not None}
    roles = {role: role for role in (*asked, *stated)}
    named = find_columns(tables, roles, given=stated, needed=asked, by_columns=False)
    columns = {role: IdColumn(source, named[role], missing=True) for role in _IDS if role in named}

    def attempt() -> tuple[ClickCells, int | None]:
        reading = _Reading(named, columns, limits, source, in_parts)
        counted = Parts()
        bases: set[int] = set()
        batches = reading.batches(tables)
        for part in _parts(batches) if in_parts else batches:
            base = first_position_of(arrow.to_numpy(part["position"])[0], first_position)
            bases.add(base)
            if len(bases) > 1:
                raise BadInput(
                    "first_position",
                    "expected 0 or 1, as position 0 occurs in some, but not all, of the parts in which "
                    f"{source} is read",
                    "specify it",
                )
            try:
                counted.add(reading.count(part, first_position=base, max_position=max_position))
            except BadInput as error:
                if not in_parts or error.argument != "log":
                    raise
                reading.dropped.count("row in a part of the file without usable rows", part.num_rows)
        for column in columns.values():
            column.settle()
        return counted.whole(source, reading.dropped), reading.unit

    whole, unit = reread(attempt, columns.values())
    guessed = {role: named[role] for role in asked if role not in stated and named[role] != role}
    if unit is not None and unit > 1:
        guessed["time"] = f"{time} in {UNITS[unit]}"
    return replace(whole, guessed=guessed)


class _Reading:
    """Reader of the columns of a table by their roles, with the state that its batches share."""

    def __init__(
        self,
        named: Mapping[str, str],
        ids: Mapping[str, IdColumn],
        limits: Sequence[float],
        source: str,
        in_parts: bool,
    ) -> None:
        self._named, self._ids, self._limits = named, ids, limits
        self._source, self._in_parts = source, in_parts
        self.dropped = Dropped()
        self.unit: int | None = None
        self._clicked = Clicked(named["clicked"])
        self._lists: list[NDArray[np.uint64]] = []

    def batches(self, tables: Sequence[Table]) -> Iterator[pa.RecordBatch]:
        """Yield the columns, named by their roles, of the rows that lie within the limits."""
        kinds: dict[str, Role] = {**dict.fromkeys(_IDS, "id"), "time": "time"}
        roles: dict[str, Role] = {name: kinds.get(role, "number") for role, name in self._named.items()}
        for table in tables:
            for batch in table.read(roles):
                columns = checked(batch, self._columns)
                if "time" in columns.schema.names:
                    columns = self._within(columns)
                for role, column in self._ids.items():
                    look_at_type(column, columns[role], batch)
                if columns.num_rows:
                    yield columns

    def _columns(self, batch: Batch) -> pa.RecordBatch:
        columns: dict[str, Any] = {}
        for role, name in self._named.items():
            if role in _IDS:
                columns[role] = ids(batch, name, f"the id of a {role}", missing=True)
            elif role == "clicked":
                columns[role] = arrow.to_arrow(self._clicked.of(batch))
            elif role == "time":
                when, self.unit = times(batch, name, self.unit)
                columns[role] = arrow.to_arrow(when)
            else:
                columns[role] = arrow.to_arrow(values := numbers(batch, name))
                if role == "probability":
                    batch.refuse_first(~((values > 0) & (values <= 1)), name, "a number in (0, 1]", values)
        return pa.RecordBatch.from_pydict(columns)

    def _within(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows within the limits of time."""
        when, _ = arrow.to_numpy(columns["time"])
        with np.errstate(invalid="ignore"):
            early, late = when < self._limits[0], when >= self._limits[1]  # false for NaN (no limit)
        unknown = np.isnan(when)
        self.dropped.count("row before since", early.sum())
        self.dropped.count("row from until on", late.sum())
        self.dropped.count("row without a time", unknown.sum())
        return columns.filter(arrow.to_arrow(~(early | late | unknown)))

    def count(self, columns: pa.RecordBatch, **options: Any) -> ClickCells:
        """Count impressions, in the order of their times, by the codes of their ids, without sorting text."""
        if "time" in columns.schema.names:
            order = by_time(arrow.to_numpy(columns["time"])[0])
            columns = columns.drop_columns(["time"]).take(arrow.to_arrow(order))
        words: dict[str, Any] = {}
        given: dict[str, Any] = {}
        for role, array in zip(columns.schema.names, columns.columns, strict=True):
            if role not in _IDS:
                given[role], _ = arrow.to_numpy(array)
                continue
            array = spelled(self._ids[role], look(self._ids[role], array))
            if not pa.types.is_dictionary(array.type):
                values, known = arrow.to_numpy(array)
                given[role] = Ids(values, np.ones(len(values), dtype=bool) if known is None else known)
                continue
            codes, words[role] = coded(array)
            given[role] = Ids(codes, codes >= 0)
        if self._in_parts and "session" in given:
            self._refuse_apart(given, words)
        cells = ClickCells.from_arrays(**given, **options)
        texts: dict[str, Any] = {
            field: np.array(words[role].to_pylist(), dtype=np.str_)[getattr(cells, field)]
            for role, field in _FIELDS.items()
            if role in words
        }
        return replace(cells, **texts)

    def _refuse_apart(self, given: Mapping[str, Any], words: Mapping[str, Any]) -> None:
        """Raise if a list of an earlier part continues in this one; lists are compared by 64-bit hashes."""
        n = len(given["position"])
        keys, there = np.zeros(n, dtype=np.uint64), np.ones(n, dtype=np.bool_)
        for role in ("session", "query"):
            values, known = given[role]
            if role in words:
                values = np.array([hash(word) for word in words[role].to_pylist()] or [0])[values]
            keys = (keys ^ values.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            keys ^= keys >> np.uint64(32)
            there = there & known
        keys = np.unique(keys[there])
        for earlier in self._lists:
            again = np.isin(keys, earlier, assume_unique=True)
            if again.any():
                raise BadInput(
                    self._source,
                    f"expected each list in adjacent rows, got {counted(list=again.sum())} in several parts",
                    f"sort the rows by {self._named['session']!r}",
                )
        self._lists.append(keys)


class Clicked:
    """The column of clicks. In a text file, an empty cell is 0 if the column contains no 0, and unknown otherwise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._zero = False
        self._empty: BadInput | None = None

    def of(self, batch: Batch) -> NDArray[np.bool_]:
        """Return a mask of the clicked rows."""
        values = numbers(batch, self._name, "0 or 1", "write 1 for a click and 0 for none")
        gaps = np.isnan(values)
        batch.refuse_first(
            ~gaps & (values != 0) & (values != 1), self._name, "0 or 1", values, "write 1 for repeated clicks"
        )
        if gaps.any():
            unknown = batch.wrong(int(gaps.argmax()), self._name, "0 or 1", "a missing value", UNKNOWN_CLICKS)
            if batch.written is None:
                raise unknown
            self._empty = self._empty or unknown
        self._zero = self._zero or bool((values == 0).any())
        if self._zero and self._empty is not None:
            raise self._empty
        return np.asarray(values == 1)


def _limit(limit: Any) -> float:
    """Return an end of a span in seconds since 1970; NaN for None."""
    if limit is None:
        return np.nan
    try:
        if isinstance(limit, np.datetime64):
            limit = limit.astype("datetime64[us]").item()
        if isinstance(limit, date):
            return stamp(limit)
        value, counted = time_of(limit.strip()) if isinstance(limit, str) else (float(limit), True)
    except (TypeError, ValueError):
        raise BadInput(
            "time", f"expected numbers or times such as 2026-03-01T12:00, got {limit!r:.60}"
        ) from None
    return float(seconds(np.array([value]), None)[0][0]) if counted else value


def _joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one; numbers of different types, which are one kind of ids, become text."""
    for role in parts[0].schema.names:
        if len({one.schema.field(role).type for one in parts}) > 1:
            at = parts[0].schema.get_field_index(role)
            parts = [one.set_column(at, role, compute.cast(one[role], pa.string())) for one in parts]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield parts of ``BATCH`` additional rows each; the last list of a part moves to the next part."""
    held: list[pa.RecordBatch] = []
    n = moved = 0
    for columns in batches:
        held.append(columns)
        n += columns.num_rows
        while n - moved >= BATCH:
            whole, end = _joined(held), moved + BATCH
            if cut := _start_of_list(whole, end):
                yield whole.slice(0, cut)
            held, n, moved = [whole.slice(cut)], n - cut, end - cut
    if n:
        yield _joined(held)


def _start_of_list(columns: pa.RecordBatch, row: int) -> int:
    """Return the first row of the list that contains row ``row - 1``, or ``row`` if row ``row - 1`` has no session.

    Rows without a query do not end a list.
    """
    if "session" not in columns.schema.names or not columns["session"][row - 1].is_valid:
        return row
    session, query = columns["session"], columns["query"]
    whose, of = session[row - 1].as_py(), None
    while row and session[row - 1].as_py() == whose:
        own = query[row - 1].as_py()
        if None not in (own, of) and own != of:
            break
        of, row = own if of is None else of, row - 1
    return row
