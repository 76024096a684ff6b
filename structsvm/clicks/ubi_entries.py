"""Read the entries of a UBI file as columns: texts are numbered, and a block of the file becomes a few arrays."""

import math
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, Struct, ValidationError, convert, field
from msgspec.json import Decoder, decode

from structsvm.common.checks import BadInput
from structsvm.common.event_logs import Dropped, by_time
from structsvm.common.files import read_blocks, shorten
from structsvm.protocols import Float, Int
from structsvm.queries import choose_groups

_BLOCK = 1 << 21
_ENTRIES = 1 << 16  # events held as lists at once
_LARGEST_ORDINAL = 2**53  # beyond this, a float cannot represent every integer

CLICK, IMPRESSION = 0, 1
MISSING = -1
"""Number that stands for a missing text."""
NO_ORDINAL = -(2**62)


class Entry(Struct, gc=False):
    """A line of a UBI file: a query, an event, or an envelope. Any value may have the wrong type."""

    query_id: Any = None
    application: Any = None
    action_name: Any = None
    user_query: Any = None
    query_response_hit_ids: Any = None
    event_attributes: Any = None
    timestamp: Any = None
    client_id: Any = None
    session_id: Any = None
    index: Any = UNSET
    create: Any = UNSET
    hits: Any = UNSET
    source: Any = field(default=UNSET, name="_source")


class _Object(Struct, gc=False):
    object_id: str | int | None = None


class _Position(Struct, gc=False):
    ordinal: int | float | None = None


class _Attributes(Struct, gc=False):
    object: _Object | None = None
    position: _Position | None = None


class _Usual(Entry, gc=False):
    """An entry whose values have the types of the schema."""

    query_id: str | int | None = None
    action_name: str | None = None
    event_attributes: _Attributes | None = None
    timestamp: datetime | int | float | None = None


class Texts(dict[str | None, int]):
    """Distinct texts of a file in the order of their first appearance, each with its number; None has -1."""

    def __missing__(self, text: str | None) -> int:
        return MISSING if text is None else self.setdefault(text, len(self))


class Queries(NamedTuple):
    """Queries of a file: integer codes of their ids, applications, texts and returned documents."""

    query: Int
    application: Int
    text: Int
    hits: Int
    offsets: Int  # hits[offsets[i]:offsets[i + 1]] are the hits of query i


class Events(NamedTuple):
    """Clicks and impressions of a file; times in seconds, minus infinity if none was logged."""

    kind: Int
    query: Int
    document: Int
    ordinal: Int
    time: Float


class Entries:
    """Result of :func:`read_entries`: queries and events in the order of their times, the strings that are stored as
    numbers, and counts of omissions."""

    queries: Queries
    events: Events
    n_query_ids: int

    def __init__(self) -> None:
        self.documents, self.applications, self.texts = Texts(), Texts(), Texts()
        self.dropped = Dropped()


def parse_entries(path: Path, kind: type[Entry] = Entry) -> Iterator[Entry]:
    """Yield the queries and events of a UBI file, without the action lines of the bulk format."""
    parse = Decoder(kind).decode
    blocks = (array.tobytes().removesuffix(b"\n").split(b"\n") for array in read_blocks(path, _BLOCK))
    for number, raw in enumerate(chain.from_iterable(blocks), 1):
        try:
            try:
                entry = parse(raw)
            except ValidationError:
                entry = decode(raw, type=Entry)
        except (ValueError, RecursionError):
            if not raw.strip():
                continue
            if number == 1:  # a response spread over several lines
                yield from _answer(path)
                return
            raise BadInput(f"{path}:{number}", f"expected a JSON object, got {shorten(raw)}") from None
        if entry.query_id is None:
            if entry.hits is not UNSET:
                yield from _hits(entry.hits, path)
                continue
            if entry.source is not UNSET:  # a line of elasticdump or of a scroll
                yield _convert(entry.source, f"{path}:{number}: expected an object as _source")
                continue
            if entry.action_name is None and (entry.index is not UNSET or entry.create is not UNSET):
                continue
        yield entry


def _answer(path: Path) -> Iterator[Entry]:
    try:
        entry = decode(b"".join(block.tobytes() for block in read_blocks(path, _BLOCK)), type=Entry)
    except (ValueError, RecursionError):
        raise BadInput(f"{path}:1", "expected JSON objects, one per line, or a response of _search") from None
    yield from _hits(entry.hits, path)


def _hits(hits: Any, path: Path) -> Iterator[Entry]:
    try:
        sources = [hit["_source"] for hit in hits["hits"]]
    except (KeyError, TypeError):
        sources = [None]
    for source in sources:
        yield _convert(source, f"{path}: expected a response of _search with hits.hits[]._source")


def _convert(source: object, expected: str) -> Entry:
    try:
        return convert(source, Entry)
    except ValidationError:
        raise ValueError(expected) from None


def read_entries(
    path: Path, application: str | None, clicks: Collection[str], impressions: Collection[str]
) -> Entries:
    """Return the queries of a UBI file, and its clicks and impressions that name a query and a document.

    Both are sorted by time, and query ids are numbered by their earliest entry.
    """
    entries = Entries()
    kinds = {**dict.fromkeys(impressions, IMPRESSION), **dict.fromkeys(clicks, CLICK)}
    query_ids, documents, texts = Texts(), entries.documents, entries.texts
    searched: list[float] = []
    listed: list[list[Any]] = [[], [], [], [], [0]]
    seen: list[list[Any]] = [[], [], [], [], []]
    blocks: list[Events] = []
    for entry in parse_entries(path, _Usual):
        action = entry.action_name
        if application is not None and entry.application != application:
            entries.dropped.count("entry of another application")
        elif action is None:
            query, text = _id(entry.query_id), entry.user_query
            if query is None or not isinstance(text, str) or not text:
                entries.dropped.count("query without id or text")
                continue
            hits = entry.query_response_hit_ids
            searched.append(time_of(entry.timestamp))
            listed[0].append(query_ids[query])
            listed[1].append(entries.applications[str(entry.application)])
            listed[2].append(texts[text])
            if isinstance(hits, list):
                listed[3] += [documents[str(hit)] for hit in hits if type(hit) in (str, int)]
            listed[4].append(len(listed[3]))
        else:
            kind = kinds.get(action, MISSING) if isinstance(action, str) else MISSING
            if kind < 0:
                entries.dropped.count(f"event {action!s:.40}")
                continue
            at = entry.event_attributes
            seen[0].append(kind)
            seen[1].append(query_ids[_id(entry.query_id)])
            seen[2].append(documents[document_of(at)])
            seen[3].append(ordinal_of(at))
            seen[4].append(time_of(entry.timestamp))
            if len(seen[0]) == _ENTRIES:
                blocks.append(_events(seen, entries.dropped))
    blocks.append(_events(seen, entries.dropped))
    entries.n_query_ids = len(query_ids)
    queries = Queries(*(np.array(column, dtype=np.int64) for column in listed))
    _sort(entries, queries, Events._make(map(np.concatenate, zip(*blocks, strict=True))), searched)
    return entries


def _sort(entries: Entries, queries: Queries, events: Events, searched: list[float]) -> None:
    """Store queries and events by time (of events at one time, the first ordinal first), and renumber the query ids.

    Readers may then take the first or last entry of a query for the earliest or latest, whatever the order of lines.
    """
    time = np.array(searched, dtype=np.float64)
    time[np.isnan(time)] = -np.inf  # an invalid time of a query counts as missing
    earliest = np.full(entries.n_query_ids, np.inf)
    np.minimum.at(earliest, queries.query, time)
    np.minimum.at(earliest, events.query, events.time)
    number = np.empty(entries.n_query_ids, dtype=np.int64)
    number[by_time(earliest)] = np.arange(entries.n_query_ids)
    order, offsets, at = choose_groups(queries.offsets, by_time(time))
    entries.queries = Queries(
        number[queries.query[order]],
        queries.application[order],
        queries.text[order],
        queries.hits[at],
        offsets,
    )
    order = by_time(events.time, events.ordinal)
    entries.events = Events._make(column[order] for column in events._replace(query=number[events.query]))


def _id(value: object) -> str | None:
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int else None


def document_of(attributes: object) -> str | None:
    """Return the id of the object of an event; None without a usable id."""
    if type(attributes) is _Attributes:
        return None if attributes.object is None else _id(attributes.object.object_id)
    one = attributes.get("object") if isinstance(attributes, dict) else None
    return _id(one.get("object_id")) if isinstance(one, dict) else None


def ordinal_of(attributes: object) -> int:
    """Return the logged position of an event, or :data:`NO_ORDINAL` if it is not an integer."""
    if type(attributes) is _Attributes:
        value: Any = None if attributes.position is None else attributes.position.ordinal
    else:
        position = attributes.get("position") if isinstance(attributes, dict) else None
        value = position.get("ordinal") if isinstance(position, dict) else None
    is_text = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16
    if is_text or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return value if type(value) is int and abs(value) < _LARGEST_ORDINAL else NO_ORDINAL


def time_of(value: Any) -> float:
    """Return seconds since 1970; minus infinity if no time was logged, NaN for an invalid time."""
    if value is None:
        return -math.inf
    if type(value) in (int, float):
        return value / 1000 if -(2**63) < value < 2**63 else math.nan  # epoch, in milliseconds
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _events(columns: list[list[Any]], dropped: Dropped) -> Events:
    """Return the events of ``columns`` that can be counted, and empty ``columns``.

    Each omitted event is counted in ``dropped`` under the first reason that applies.
    """
    kind, query, document, ordinal = (np.array(column, dtype=np.int64) for column in columns[:4])
    time = np.array(columns[4], dtype=np.float64)
    for column in columns:
        column.clear()
    rest = np.ones(kind.size, dtype=bool)
    for reason, bad in (
        ("event without a query", query < 0),
        ("event without a document", document < 0),
        ("event with an invalid time", np.isnan(time)),
        ("impression without an ordinal", (kind == IMPRESSION) & (ordinal == NO_ORDINAL)),
    ):
        dropped.count(reason, (rest & bad).sum())
        rest &= ~bad
    return Events(kind[rest], query[rest], document[rest], ordinal[rest], time[rest])
