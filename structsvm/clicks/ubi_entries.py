"""Entries of a UBI file as columns: each text is a number, each block of the file a few arrays.

With pyarrow installed its JSON parser reads the blocks. A block that it does not take (a field that holds numbers in
one entry and text in another, an answer of ``_search``, a broken line) is read by the JSON parser of Python, which also
names the line of an error. Both give the same columns.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.files import read_blocks, shorten
from structsvm.protocols import Float, Int

__all__ = [
    "CLICK",
    "IMPRESSION",
    "MISSING",
    "NO_ORDINAL",
    "Entries",
    "Events",
    "Queries",
    "Texts",
    "document_of",
    "ordinal_of",
    "read_entries",
    "read_objects",
    "time_of",
]

_BLOCK = 1 << 23  # bytes parsed at once: a few times what one thread of the parser takes
_LARGEST_ORDINAL = 2**53  # beyond, not every whole number is a float

CLICK, IMPRESSION = 0, 1
MISSING = -1
"""Number of a text that an entry does not have."""
NO_ORDINAL = -(2**62)


class Texts:
    """Distinct texts of a file in the order of their first appearance, each with its number."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def names(self) -> list[str]:
        return list(self.number)

    def of_list(self, texts: list[str | None]) -> Int:
        """Return the number of each text; -1 for None."""
        take = self.number.setdefault
        return np.array([MISSING if t is None else take(t, len(self.number)) for t in texts], dtype=np.int64)

    def of_arrow(self, texts: Any) -> Int:
        """Return the number of each text of an Arrow column; -1 for null."""
        coded = texts.combine_chunks().dictionary_encode() if hasattr(texts, "combine_chunks") else texts
        if not hasattr(coded, "indices"):
            coded = coded.dictionary_encode()
        numbers = self.of_list(coded.dictionary.to_pylist())
        indices = coded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
        return np.where(indices < 0, MISSING, np.append(numbers, MISSING)[indices]).astype(np.int64)


class Queries(NamedTuple):
    """Queries of a block: numbers of their ids, applications and texts, and of the ids that they returned."""

    query: Int
    application: Int
    text: Int
    hits: Int
    offsets: Int  # hits[offsets[i]:offsets[i + 1]] are those of query i


class Events(NamedTuple):
    """Clicks and impressions of a block; times in seconds, minus infinity where none was logged."""

    kind: Int
    query: Int
    document: Int
    ordinal: Int
    time: Float


class Entries:
    """What :func:`read_entries` gives: queries and events, the texts behind their numbers, and what was left out."""

    def __init__(self) -> None:
        self.queries: list[Queries] = []
        self.events: list[Events] = []
        self.query_ids, self.documents, self.applications, self.texts = Texts(), Texts(), Texts(), Texts()
        self.dropped: dict[str, int] = {}

    def drop(self, reason: str, count: int = 1) -> None:
        """Count what is left out."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + int(count)


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the queries and events of a UBI file as they are, without the action lines of the bulk format."""
    number = 0
    for array in read_blocks(path, _BLOCK):
        block = array.tobytes()
        for entry in _objects(block, number, path):
            if entry is _WHOLE_ANSWER:
                return
            if not _is_action_line(entry):
                yield entry
        number += block.count(b"\n")


def read_entries(
    path: Path, application: str | None, clicks: Collection[str], impressions: Collection[str]
) -> Entries:
    """Return the queries of a UBI file, and its clicks and impressions that name a query and a document.

    Raises
    ------
    ValueError
        With file and line, for a line that is no JSON object.
    """
    entries = Entries()
    kinds = {**dict.fromkeys(impressions, IMPRESSION), **dict.fromkeys(clicks, CLICK)}
    arrow = _arrow()
    number = 0  # lines before the block
    for array in read_blocks(path, _BLOCK):
        block = array.tobytes()
        table = None if arrow is None or b'"hits"' in block else _parsed(block, arrow)
        if arrow is not None and table is not None:
            _take_table(table, entries, application, kinds, arrow)
        else:
            objects = _objects(block, number, path)
            _take_objects(objects, entries, application, kinds)
            if number == 0 and entries.dropped.pop(_WHOLE_ANSWER, 0):
                return entries
        number += block.count(b"\n")
    return entries


# --- the parser of pyarrow


class _Arrow(NamedTuple):
    pa: Any
    compute: Any
    json: Any
    schema: Any


def _arrow() -> _Arrow | None:
    """Return the modules of pyarrow and the fields to read, or None where it is not installed."""
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.json
    except ImportError:
        return None
    text = pa.string()
    schema = pa.schema(
        {
            "query_id": text,
            "application": text,
            "user_query": text,
            "query_response_hit_ids": pa.list_(text),
            "action_name": text,
            "timestamp": text,
            "event_attributes": pa.struct(
                {
                    "object": pa.struct({"object_id": text}),
                    "position": pa.struct({"ordinal": pa.int64()}),
                }
            ),
            "index": pa.struct({"_index": text}),
            "create": pa.struct({"_index": text}),
        }
    )
    return _Arrow(pa, pyarrow.compute, pyarrow.json, schema)


_NO_OBJECT = re.compile(rb"\n[ \t\r]*[^\s{]")


def _parsed(block: bytes, arrow: _Arrow) -> Any:
    """Return the block as a table, or None where it needs the parser of Python."""
    # pyarrow crashes at a first line "null", and finds wrong bytes only when texts are read, without their line
    if block.lstrip()[:1] != b"{" or _NO_OBJECT.search(block):
        return None
    try:
        block.decode()
    except UnicodeDecodeError:
        return None
    options = arrow.json.ParseOptions(explicit_schema=arrow.schema, unexpected_field_behavior="ignore")
    try:
        table = arrow.json.read_json(
            arrow.pa.BufferReader(block), arrow.json.ReadOptions(block_size=1 << 20), options
        )
    except arrow.pa.ArrowException:
        return None
    # the parser reads on over line ends: a count that differs is a line that is no single object
    lines = block.count(b"\n")
    if table.num_rows != lines and table.num_rows != sum(1 for line in block.split(b"\n") if line.strip()):
        return None
    return table


def _take_table(
    table: Any, entries: Entries, application: str | None, kinds: dict[str, int], arrow: _Arrow
) -> None:
    pc = arrow.compute
    null = {name: _array(pc.is_null(table[name])) for name in table.column_names}
    rest = ~(null["query_id"] & null["action_name"] & ~(null["index"] & null["create"]))  # no action lines
    if application is not None:
        other = rest & ~_array(pc.fill_null(pc.equal(table["application"], application), False))
        entries.drop("entry of another application", other.sum())
        rest &= ~other
    query_id = pc.if_else(pc.equal(table["query_id"], ""), None, table["query_id"])
    query = entries.query_ids.of_arrow(query_id)

    is_query = np.flatnonzero(rest & null["action_name"])
    if is_query.size:
        part = table.take(is_query)
        text, hits = part["user_query"], part["query_response_hit_ids"].combine_chunks()
        good = (query[is_query] >= 0) & _array(pc.fill_null(pc.not_equal(text, ""), False))
        entries.drop("query without id or text", (~good).sum())
        good = np.flatnonzero(good)
        hits = hits.take(arrow.pa.array(good))
        lengths = _array(pc.fill_null(pc.list_value_length(hits), 0)).astype(np.int64)
        flat = hits.flatten()
        numbers = entries.documents.of_arrow(flat)
        if (numbers < 0).any():  # a null among the ids: left out
            owner = np.repeat(np.arange(good.size), lengths)[numbers >= 0]
            lengths, numbers = np.bincount(owner, minlength=good.size), numbers[numbers >= 0]
        entries.queries.append(
            Queries(
                query[is_query][good],
                entries.applications.of_list(
                    [str(a) for a in part["application"].take(arrow.pa.array(good)).to_pylist()]
                ),
                entries.texts.of_arrow(text.take(arrow.pa.array(good))),
                numbers,
                np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
            )
        )

    names = Texts()
    action = names.of_arrow(table["action_name"])
    kind = np.array([kinds.get(name, MISSING) for name in names.names()] + [MISSING], dtype=np.int64)[action]
    event = rest & ~null["action_name"]
    for number, count in enumerate(np.bincount(action[event & (kind < 0)], minlength=len(names.number))):
        entries.drop(f"event {names.names()[number]:.40}", count)
    event &= kind >= 0
    attributes = table["event_attributes"].combine_chunks()
    document_text = pc.struct_field(attributes, ["object", "object_id"])
    document_text = pc.if_else(pc.equal(document_text, ""), None, document_text)
    ordinal_value = pc.struct_field(attributes, ["position", "ordinal"])
    rows = np.flatnonzero(event)
    take = arrow.pa.array(rows)
    _add_events(
        entries,
        kind[rows],
        query[rows],
        entries.documents.of_arrow(document_text.take(take)),
        _ordinals(ordinal_value.take(take)),
        _arrow_times(table["timestamp"].combine_chunks().take(take), arrow),
    )


def _array(column: Any) -> Any:
    return column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)


def _ordinals(column: Any) -> Int:
    known = ~_array(column.is_null())
    values = _array(column.fill_null(0)).astype(np.int64)
    out: Int = np.where(known & (np.abs(values) < _LARGEST_ORDINAL), values, NO_ORDINAL)
    return out


def _arrow_times(column: Any, arrow: _Arrow) -> Float:
    """Return seconds, as :func:`time_of` does one by one."""
    known = ~_array(column.is_null())
    out = np.full(known.size, -np.inf)
    with suppress(arrow.pa.ArrowException):
        stamps = column.cast(arrow.pa.timestamp("us", tz="UTC")).cast(arrow.pa.int64())
        out[known] = _array(stamps.fill_null(0))[known] / 1e6
        return out
    out[:] = [time_of(text) for text in column.to_pylist()]
    return out


# --- the parser of Python


_WHOLE_ANSWER = "an answer over several lines"  # a mark of the reader to itself, never reported


def _objects(block: bytes, number: int, path: Path) -> Iterator[Any]:
    """Yield the objects of the lines, those within answers of ``_search`` each."""
    parse = json.JSONDecoder().decode
    for raw in block.split(b"\n"):
        number += 1
        if not raw.strip():
            continue
        try:
            entry = parse(raw.decode())
        except (ValueError, RecursionError):
            if number == 1:
                yield from _answer(path)
                yield _WHOLE_ANSWER
                return
            raise ValueError(f"{path}:{number}: expected a JSON object, got {shorten(raw)}") from None
        if not isinstance(entry, dict):
            raise ValueError(f"{path}:{number}: expected a JSON object, got {shorten(raw)}")
        if "hits" in entry and "query_id" not in entry:
            yield from _hits(entry, path)
        else:
            yield entry


def _answer(path: Path) -> Iterator[Any]:
    try:
        entry = json.loads(b"".join(block.tobytes() for block in read_blocks(path, _BLOCK)))
    except (ValueError, RecursionError):
        raise ValueError(f"{path}:1: expected JSON objects, one per line, or an answer of _search") from None
    yield from _hits(entry, path)


def _hits(entry: Any, path: Path) -> Iterator[Any]:
    try:
        for hit in entry["hits"]["hits"]:
            source = hit["_source"]
            if not isinstance(source, dict):
                raise TypeError
            yield source
    except (KeyError, TypeError):
        raise ValueError(f"{path}: expected an answer of _search with hits.hits[]._source") from None


def _take_objects(
    objects: Iterator[Any], entries: Entries, application: str | None, kinds: dict[str, int]
) -> None:
    listed: list[tuple[str, str, str, list[str]]] = []
    seen: list[tuple[int, str | None, str | None, int, float]] = []
    for entry in objects:
        if entry is _WHOLE_ANSWER:
            entries.drop(_WHOLE_ANSWER)
            continue
        action, query = entry.get("action_name"), _id(entry.get("query_id"))
        if _is_action_line(entry):
            continue
        if application is not None and entry.get("application") != application:
            entries.drop("entry of another application")
        elif action is None:
            text = entry.get("user_query")
            if query is None or not isinstance(text, str) or not text:
                entries.drop("query without id or text")
                continue
            hits = entry.get("query_response_hit_ids")
            ids = (
                [name for h in hits if (name := _id(h, empty=True)) is not None]
                if isinstance(hits, list)
                else []
            )
            listed.append((query, str(entry.get("application")), text, ids))
        else:
            kind = kinds.get(action, MISSING) if isinstance(action, str) else MISSING
            if kind < 0:
                entries.drop(f"event {action!s:.40}")
                continue
            attributes = entry.get("event_attributes")
            seen.append(
                (
                    kind,
                    query,
                    document_of(attributes),
                    ordinal_of(attributes),
                    time_of(entry.get("timestamp")),
                )
            )
    if listed:
        ids_of, names, texts, hits_of = zip(*listed, strict=True)
        lengths = [len(h) for h in hits_of]
        entries.queries.append(
            Queries(
                entries.query_ids.of_list(list(ids_of)),
                entries.applications.of_list(list(names)),
                entries.texts.of_list(list(texts)),
                entries.documents.of_list([h for one in hits_of for h in one]),
                np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
            )
        )
    if seen:
        kinds_of, queries, documents, ordinals, times = zip(*seen, strict=True)
        _add_events(
            entries,
            np.array(kinds_of, dtype=np.int64),
            entries.query_ids.of_list(list(queries)),
            entries.documents.of_list(list(documents)),
            np.array(ordinals, dtype=np.int64),
            np.array(times, dtype=np.float64),
        )


def _is_action_line(entry: Mapping[str, Any]) -> bool:
    """Return whether a line of the bulk format only says where the next one goes."""
    unnamed = entry.get("action_name") is None and entry.get("query_id") is None
    return unnamed and ("index" in entry or "create" in entry)


def _id(value: Any, *, empty: bool = False) -> str | None:
    usable = isinstance(value, (str, int)) and not isinstance(value, bool) and (empty or value != "")
    return str(value) if usable else None


def document_of(attributes: Any) -> str | None:
    one = attributes.get("object") if isinstance(attributes, dict) else None
    return _id(one.get("object_id")) if isinstance(one, dict) else None


def ordinal_of(attributes: Any) -> int:
    position = attributes.get("position") if isinstance(attributes, dict) else None
    value = position.get("ordinal") if isinstance(position, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if whole and abs(value) < _LARGEST_ORDINAL else NO_ORDINAL  # type: ignore[arg-type]


def time_of(value: Any) -> float:
    """Return seconds since 1970; minus infinity where no time was logged, NaN for what is no time."""
    if value is None:
        return -math.inf
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value / 1000 if -(2**63) < value < 2**63 else math.nan  # epoch, in milliseconds
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _add_events(entries: Entries, kind: Int, query: Int, document: Int, ordinal: Int, time: Float) -> None:
    """Keep the events that can be counted; each other one is left out for the first reason of this order."""
    rest = np.ones(kind.size, dtype=bool)
    for reason, bad in (
        ("event without a query", query < 0),
        ("event without a document", document < 0),
        ("event with an invalid time", np.isnan(time)),
        ("impression without an ordinal", (kind == IMPRESSION) & (ordinal == NO_ORDINAL)),
    ):
        entries.drop(reason, (rest & bad).sum())
        rest &= ~bad
    if rest.any():
        entries.events.append(Events(kind[rest], query[rest], document[rest], ordinal[rest], time[rest]))
