"""User Behavior Insights (UBI): queries and events of OpenSearch, Elasticsearch and Solr as counts."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from structsvm.checks import BadInput, check_whole
from structsvm.clicks.batches import Batches
from structsvm.clicks.cells import MAX_POSITION, ClickCells, said
from structsvm.common.files import read_blocks, shorten

__all__ = ["read_ubi"]

_BLOCK = 1 << 22


def read_ubi(
    path: str | PathLike[str],
    *,
    application: str | None = None,
    first_position: int | Mapping[str, int] | None = None,
    clicks: Collection[str] = ("click", "item_click"),
    impressions: Collection[str] = ("impression", "view"),
    length: int = 10,
    max_position: int = MAX_POSITION,
) -> ClickCells:
    """Read UBI queries and events, schema 1.3.0.

    A query (``query_id``) is one shown list. It shows what its impression events say, each at its ``ordinal``, or,
    without any, the first ``length`` of ``query_response_hit_ids``. The query of the counts is the ``user_query``.

    Parameters
    ----------
    path : path
        Objects one a line, queries and events in any order; in bulk format the action lines are skipped. Or an answer
        of ``_search``, whole, whose hits hold them. Plain, gzip, bzip2 or xz.
    application : str, optional
        Only queries and events of this application.
    first_position : {0, 1} or dict of application to it, optional
        How ordinals count. It is not guessed: it is needed where both 0 and 1 occur, and where the ids that the query
        returned contradict it, that is an error.
    clicks, impressions : collection of str
        Names of actions. All others are left out and counted.
    length : int, default=10
        Documents shown of ``query_response_hit_ids``.
    max_position : int, default=1000

    Returns
    -------
    ClickCells
        With sessions; ``dropped`` counts, by reason: events without a query, a document or an ordinal, other actions,
        clicks on what was not shown or before it was, times that are none, repeated clicks.

    Raises
    ------
    ValueError
        With file and line, for a line that is no JSON object.
    BadInput
        For an ambiguous or contradicted first position, and when nothing can be counted.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> lines = ['{"query_id": "1", "user_query": "ps4"}',
    ...          '{"action_name": "impression", "query_id": "1", "event_attributes": {"object": {"object_id": "a"}, '
    ...          '"position": {"ordinal": 1}}}',
    ...          '{"action_name": "click", "query_id": "1", "event_attributes": {"object": {"object_id": "a"}}}']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "ubi.ndjson"
    ...     _ = path.write_text("\\n".join(lines))
    ...     read_ubi(path)
    ClickCells(1 queries, 1 rows, 1 cells, 1 shows, 1 clicks)
    """
    path = Path(path)
    check_whole("length", length)
    batches = Batches(str(path), 0, max_position)
    queries: dict[str, tuple[str, str, list[str]]] = {}
    shown: dict[str, list[tuple[str, int, float]]] = {}
    clicked: dict[str, list[tuple[str, float]]] = {}
    click_names, impression_names = frozenset(clicks), frozenset(impressions)
    for entry in _objects(path):
        if application is not None and entry.get("application") != application:
            batches.drop("entry of another application")
            continue
        action = entry.get("action_name")
        if action is None:
            _take_query(entry, queries, batches)
            continue
        if action not in impression_names and action not in click_names:
            batches.drop(f"event {action!s:.40}")
            continue
        query_id = entry.get("query_id")
        if not isinstance(query_id, (str, int)) or query_id == "":
            batches.drop("event without a query")
            continue
        attributes = entry.get("event_attributes")
        document = _document(attributes)
        if document is None:
            batches.drop("event without a document")
            continue
        time = _time(entry.get("timestamp"))
        if time is None:
            batches.drop("event whose time is none")
            continue
        if action in click_names:
            clicked.setdefault(str(query_id), []).append((document, time))
            continue
        ordinal = _ordinal(attributes)
        if ordinal is None:
            batches.drop("impression without an ordinal")
            continue
        shown.setdefault(str(query_id), []).append((document, ordinal, time))
    bases = _bases(queries, shown, first_position, path)
    for query_id, events in shown.items():
        if query_id not in queries:
            batches.drop("event whose query is not in the log", len(events))
    for query_id, taps in clicked.items():
        if query_id not in queries:
            batches.drop("event whose query is not in the log", len(taps))
    for query_id, (name, text, hits) in queries.items():
        events = shown.get(query_id, [])
        if events:
            base = bases[name]
            seen = {document: time for document, _, time in reversed(events)}
            documents, positions = [e[0] for e in events], [e[1] - base for e in events]
        elif hits:
            batches.drop(f"list without impressions, taken as the first {length} ids of its response")
            documents = hits[:length]
            seen = dict.fromkeys(documents, -math.inf)
            positions = list(range(len(documents)))
        else:
            batches.drop("query without a shown list")
            batches.drop("click on a document that was not shown", len(clicked.get(query_id, [])))
            continue
        hit: set[str] = set()
        for document, time in clicked.get(query_id, []):
            if document not in seen:
                batches.drop("click on a document that was not shown")
            elif time < seen[document]:
                batches.drop("click before its impression")
            elif document in hit:
                batches.drop("repeated click")
            else:
                hit.add(document)
        batches.add(text, documents, positions, [d in hit for d in documents])
    if not queries:
        raise BadInput(str(path), "expected UBI queries, got none", said(batches.dropped))
    return batches.cells()


def _take_query(entry: Mapping[str, Any], queries: dict[str, Any], batches: Batches) -> None:
    query_id, text = entry.get("query_id"), entry.get("user_query")
    if not isinstance(query_id, (str, int)) or query_id == "" or not isinstance(text, str) or not text:
        batches.drop("query without id or text")
        return
    if str(query_id) in queries:  # as users type, the same search is logged again; the last is what was shown
        batches.drop("earlier entry of a query logged several times")
    hits = entry.get("query_response_hit_ids")
    ids = [str(h) for h in hits if isinstance(h, (str, int))] if isinstance(hits, list) else []
    queries[str(query_id)] = (str(entry.get("application")), text, ids)


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield queries and events: objects one a line without action lines, or the hits of an answer."""
    number, parse = 0, json.JSONDecoder().decode
    for block in read_blocks(path, _BLOCK):
        for raw in block.tobytes().split(b"\n"):
            number += 1
            if not raw.strip():
                continue
            try:
                entry = parse(raw.decode())
            except ValueError:
                if number == 1:  # an answer that is broken over lines
                    yield from _answer(path)
                    return
                raise ValueError(f"{path}:{number}: expected a JSON object, got {shorten(raw)}") from None
            if not isinstance(entry, dict):
                raise ValueError(f"{path}:{number}: expected a JSON object, got {shorten(raw)}")
            if "hits" in entry and "query_id" not in entry:
                yield from _hits(entry, path)
            elif not (len(entry) == 1 and next(iter(entry)) in ("index", "create")):
                yield entry
        number -= 1  # the text ends in a line feed, behind which there is no line


def _answer(path: Path) -> Iterator[dict[str, Any]]:
    try:
        entry = json.loads(b"".join(block.tobytes() for block in read_blocks(path, _BLOCK)))
    except ValueError:
        raise ValueError(f"{path}:1: expected JSON objects, one a line, or an answer of _search") from None
    yield from _hits(entry, path)


def _hits(entry: Any, path: Path) -> Iterator[dict[str, Any]]:
    try:
        for hit in entry["hits"]["hits"]:
            source = hit["_source"]
            if not isinstance(source, dict):
                raise TypeError
            yield source
    except (KeyError, TypeError):
        raise ValueError(f"{path}: expected an answer of _search with hits.hits[]._source") from None


def _document(attributes: Any) -> str | None:
    one = attributes.get("object") if isinstance(attributes, dict) else None
    name = one.get("object_id") if isinstance(one, dict) else None
    return str(name) if isinstance(name, (str, int)) and not isinstance(name, bool) and name != "" else None


def _ordinal(attributes: Any) -> int | None:
    place = attributes.get("position") if isinstance(attributes, dict) else None
    value = place.get("ordinal") if isinstance(place, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else None


def _time(value: Any) -> float | None:
    """Return seconds; minus infinity where no time was logged, None where it is none."""
    if value is None:
        return -math.inf
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value / 1000 if math.isfinite(value) else None  # epoch, in milliseconds
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _bases(
    queries: Mapping[str, tuple[str, str, list[str]]],
    shown: Mapping[str, list[tuple[str, int, float]]],
    first_position: int | Mapping[str, int] | None,
    path: Path,
) -> dict[str, int]:
    """Return how each application counts; raise where that is open or contradicted by returned ids."""
    lowest: dict[str, int] = {}
    both: dict[str, set[int]] = {}
    agree: dict[str, list[int]] = {}
    for query_id, events in shown.items():
        if query_id not in queries:
            continue
        name, _, hits = queries[query_id]
        for document, ordinal, _ in events:
            lowest[name] = min(ordinal, lowest.get(name, ordinal))
            if ordinal in (0, 1):
                both.setdefault(name, set()).add(ordinal)
            for base in (0, 1):
                if 0 <= ordinal - base < len(hits) and hits[ordinal - base] == document:
                    agree.setdefault(name, [0, 0])[base] += 1
    names = {name for name, _, _ in queries.values()}
    seen = set().union(*both.values()) if both else set()
    if first_position is None and seen == {0, 1}:
        counted = ", ".join(f"{name} from {low}" for name, low in sorted(lowest.items()))
        raise BadInput(
            "first_position", f"expected 0 or 1, as {path} holds both positions ({counted})",
            "state it, or one for each application; or read one application at a time",
        )  # fmt: skip
    bases = {}
    for name in names:
        if isinstance(first_position, Mapping):
            if name not in first_position and name in lowest:
                raise BadInput("first_position", f"expected an entry for the application {name!r}, got none")
            base = check_whole("first_position", first_position.get(name, 1), 0, 1)
        elif first_position is None:
            base = 0 if seen == {0} else 1
        else:
            base = check_whole("first_position", first_position, 0, 1)
        right, wrong = agree.get(name, [0, 0])[base], agree.get(name, [0, 0])[1 - base]
        if wrong > 4 * right:  # lists change between response and page, so a few agree by chance
            raise BadInput(
                "first_position", f"the ids that queries of {name!r} returned say {1 - base}: {wrong} impressions "
                f"agree with it, {right} with {base}", "state the other", value=base,
            )  # fmt: skip
        bases[name] = base
    return bases
