"""User Behavior Insights (UBI): queries and events of OpenSearch, Elasticsearch and Solr as counts."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.clicks.batches import Parts
from structsvm.clicks.cells import MAX_POSITION, ClickCells, index_in
from structsvm.clicks.ubi_entries import (
    IMPRESSION,
    MISSING,
    NO_ORDINAL,
    Entries,
    Events,
    Queries,
    read_entries,
)
from structsvm.common.checks import BadInput, check_whole
from structsvm.protocols import Float, Int
from structsvm.queries import offsets_of, places_in, rows_from


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

    A query (``query_id``) is one shown list. Its documents come from its impression events, each at its ``ordinal``,
    or, if there are none, from the first ``length`` ids of ``query_response_hit_ids``; another response for the same
    text whose ids are mostly new is the next page of the list. A click counts at its own ``ordinal``, or otherwise at
    the first position of its document. The counts are keyed by ``user_query``.

    Parameters
    ----------
    path : path
        A file with one object per line. Queries and events may be in any order; they are sorted by ``timestamp``, and
        those without one keep the order of the file. The action lines of the bulk format are skipped. The file may also
        hold the hits of elasticdump, one per line, or a complete ``_search`` response. It may be plain text or
        compressed by gzip, bzip2 or xz.
    application : str, optional
        Application whose queries and events are read. None means all applications.
    first_position : {0, 1} or dict of application to 0 or 1, optional
        First ordinal; required if the log contains both ordinals 0 and 1. A value that the ids returned by the queries
        contradict is an error.
    clicks, impressions : collection of str
        Names of the actions that are clicks and impressions. Events of other actions are left out and counted.
    length : int, default=10
        Number of documents shown from each ``query_response_hit_ids``.
    max_position : int, default=1000
        Impressions beyond this position are left out and counted.

    Returns
    -------
    ClickCells
        With sessions; ``dropped`` counts, by reason: events without a query, a document or an ordinal, other actions,
        clicks on documents that were not shown, or were shown elsewhere, later or below ``length``, invalid times,
        repeated clicks.

    Raises
    ------
    ValueError
        If a line is not a JSON object; the message names the file and the line.
    BadInput
        If the first position is ambiguous or contradicted; if the ordinals of 5 % or more of the clicks differ from
        those of their documents (a page that reorders the response); if nothing can be counted.

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
    ClickCells(1 query, 1 row, 1 cell, 1 show, 1 click)
    """
    path = Path(path)
    check_whole("length", length)
    check_whole("max_position", max_position, 1, 65535)
    entries = read_entries(path, application, frozenset(clicks), frozenset(impressions))
    if not entries.queries.query.size:
        raise BadInput(
            str(path),
            f"expected UBI queries, got none; {entries.dropped.said()}".rstrip("; "),
            "they have query_id and user_query; a table of rows (.jsonl) needs {format=table}",
        )
    queries, events = _queries_by_id(entries, length), _events_of_queries(entries)
    shown = events.kind == IMPRESSION
    base = _bases(queries, events, shown, entries, first_position, path)
    lists = _shown_lists(queries, events, shown, base, length, entries)
    lists, clicked = _clicked(lists, queries, events, shown, base, length, entries, path)
    return _count(lists, clicked, queries, entries, path, max_position)


class _Lists(NamedTuple):
    """Documents of shown lists in the order of time, ``position`` from 0; ``query`` is the number of the list."""

    query: Int
    document: Int
    position: Int
    time: Float


def _queries_by_id(entries: Entries, length: int) -> Queries:
    """Return one entry per query id, in the order of their numbers, with the shown documents; queries that occur only
    in events have the text -1.

    A search is logged repeatedly while the user types; the last entry is the list shown, preceded by its earlier pages.
    """
    queries, n = entries.queries, entries.n_query_ids
    last = np.full(n, MISSING)
    last[queries.query] = np.arange(queries.query.size)  # for repeated indices, the last assignment holds
    known = last >= 0

    def of(values: Int, missing: int) -> Int:
        return np.where(known, values[last], missing)

    application, text = of(queries.application, MISSING), of(queries.text, MISSING)
    size = np.minimum(of(np.diff(queries.offsets), 0), length)
    several = np.flatnonzero(
        (last[queries.query] != np.arange(queries.query.size)) & (queries.text == text[queries.query])
    )
    pages = _pages(queries, np.unique(queries.query[several]), text, length)
    # a next page is joined to its list, not dropped
    used = known.sum() + sum(len(one) - 1 for one in pages.values())
    entries.dropped.count("earlier entry of a query logged several times", queries.query.size - used)
    for number, one in pages.items():
        size[number] = sum(map(len, one))
    start = offsets_of(size)
    hits = np.empty(start[-1], dtype=np.int64)
    plain = np.ones(n, dtype=bool)
    plain[list(pages)] = False
    first = of(queries.offsets[:-1], 0)[plain]
    hits[rows_from(start[:-1][plain], size[plain])] = queries.hits[rows_from(first, size[plain])]
    for number, one in pages.items():
        hits[start[number] : start[number + 1]] = np.concatenate(one)
    return Queries(np.arange(n), application, text, hits, start)


def _pages(queries: Queries, repeated: Int, text: Int, length: int) -> dict[int, list[Int]]:
    """Return the pages of queries with several pages: the responses for a query's last text with mostly new ids."""
    pages: dict[int, list[Int]] = {int(number): [] for number in repeated}
    for k in np.flatnonzero(np.isin(queries.query, repeated) & (queries.text == text[queries.query])):
        ids = queries.hits[queries.offsets[k] : queries.offsets[k + 1]][:length]
        known = pages[int(queries.query[k])]
        again = next((i for i, one in enumerate(known) if 2 * np.isin(ids, one).sum() >= ids.size), None)
        if again is None:
            known.append(ids)
        elif ids.size:
            known[again] = ids
    return {number: one for number, one in pages.items() if len(one) > 1}


def _events_of_queries(entries: Entries) -> Events:
    """Return the events whose query is in the log."""
    keep = np.isin(entries.events.query, entries.queries.query)
    entries.dropped.count("event whose query is not in the log", (~keep).sum())
    return entries.events if keep.all() else Events._make(column[keep] for column in entries.events)


def _shown_lists(
    queries: Queries, events: Events, shown: NDArray[np.bool_], base: Int, length: int, entries: Entries
) -> _Lists:
    """Return the documents that each query shows: its impressions, or otherwise the first ids of its response."""
    has_impressions = np.zeros(queries.query.size, dtype=bool)
    has_impressions[events.query[shown]] = True
    hits = np.diff(queries.offsets)
    known = queries.text >= 0
    responses = np.flatnonzero(known & ~has_impressions & (hits > 0))
    entries.dropped.count(
        f"list without impressions, taken as the first {length} ids of its response", responses.size
    )
    entries.dropped.count("query without a shown list", (known & ~has_impressions & (hits == 0)).sum())
    taken = hits[responses]
    position = rows_from(np.zeros_like(taken), taken)
    impressions = events.query[shown]
    return _Lists(
        np.concatenate([impressions, np.repeat(responses, taken)]),
        np.concatenate([events.document[shown], queries.hits[rows_from(queries.offsets[responses], taken)]]),
        np.concatenate([events.ordinal[shown] - base[queries.application[impressions]], position]),
        np.concatenate([events.time[shown], np.full(position.size, -np.inf)]),
    )


def _clicked(
    lists: _Lists,
    queries: Queries,
    events: Events,
    shown: NDArray[np.bool_],
    base: Int,
    length: int,
    entries: Entries,
    path: Path,
) -> tuple[_Lists, NDArray[np.bool_]]:
    """Return the lists, and a mask of the documents that were clicked, at their ordinal and after their impression.

    A document that was shown twice and clicked counts at the clicked position.
    """
    if not lists.query.size:
        return lists, np.zeros(0, dtype=bool)
    n_documents = len(entries.documents)
    keys, first, number = np.unique(
        lists.query * n_documents + lists.document, return_index=True, return_inverse=True
    )
    place = number * _PLACES + np.clip(lists.position, -1, _PLACES - 2)
    click = events.query[~shown] * n_documents + events.document[~shown]
    index, known = index_in(keys, click)
    # a list without impressions is cut off after ``length`` documents
    returned = entries.queries
    below = np.repeat(returned.query, np.diff(returned.offsets)) * n_documents + returned.hits
    below = below[
        (places_in(returned.offsets) > length) & ~np.isin(below // n_documents, events.query[shown])
    ]
    cut = ~known & np.isin(click, below)
    entries.dropped.count(f"click below the first {length} ids of its response (length={length})", cut.sum())
    entries.dropped.count("click on a document that was not shown", (~known & ~cut).sum())
    early = known & (events.time[~shown] < lists.time[first[index]])
    entries.dropped.count("click before its impression", early.sum())
    index, ordinal = index[known & ~early], events.ordinal[~shown][known & ~early]
    application = queries.application[events.query[~shown][known & ~early]]
    position = np.clip(ordinal - base[application], -1, _PLACES - 2)
    is_stated = ordinal != NO_ORDINAL
    # without an ordinal, a document shown twice was clicked at its first position
    clicks = np.where(is_stated, index * _PLACES + position, place[first[index]])
    right = np.isin(clicks, place)
    wrong, n_stated = int((~right).sum()), int(is_stated.sum())
    if wrong and wrong >= _MOST_CONTRADICTED * n_stated:
        raise BadInput(
            str(path),
            f"expected clicks at the positions of their documents, got {wrong:,} of {n_stated:,} elsewhere",
            "a page that reorders the response has to log impressions, with the ordinals of its clicks",
        )
    entries.dropped.count("click at another position than its document", wrong)
    taken = np.unique(clicks[right])
    entries.dropped.count("repeated click", int(right.sum()) - taken.size)
    clicked = np.isin(place, taken)
    keep = clicked | ~np.isin(number, taken // _PLACES)
    entries.dropped.count("document twice in a list", (~keep).sum())
    return _Lists._make(column[keep] for column in lists), clicked[keep]


_PLACES = 1 << 17  # larger than all positions that are counted
_MOST_CONTRADICTED = 0.05


def _count(
    lists: _Lists,
    clicked: NDArray[np.bool_],
    queries: Queries,
    entries: Entries,
    path: Path,
    max_position: int,
) -> ClickCells:
    """Return the counts, computed in parts so that no step needs several copies of a large log."""
    texts, text_rank = np.unique(np.array(list(entries.texts), dtype=str), return_inverse=True)
    documents, document_rank = np.unique(np.array(list(entries.documents), dtype=str), return_inverse=True)
    order = np.argsort(lists.query, kind="stable")
    borders = lists.query[order[_PART::_PART]]
    parts = Parts()
    for rows in np.split(order, np.searchsorted(lists.query[order], borders)):
        query = lists.query[rows]
        try:
            parts.add(
                ClickCells.from_arrays(
                    text_rank[queries.text[query]],
                    document_rank[lists.document[rows]],
                    lists.position[rows],
                    clicked[rows],
                    session=query,
                    first_position=0,
                    max_position=max_position,
                )
            )
        except BadInput as error:
            if error.argument != "log":
                raise
            entries.dropped.count("position out of range", rows.size)
    cells = parts.whole(str(path), entries.dropped)
    return replace(cells, query_ids=texts[cells.query_ids], docid=documents[cells.docid], gapped=None)


_PART = 1 << 22  # impressions counted at once: their arrays take about 500 MB


def _bases(
    queries: Queries,
    events: Events,
    shown: NDArray[np.bool_],
    entries: Entries,
    first_position: int | Mapping[str, int] | None,
    path: Path,
) -> Int:
    """Return the first ordinal of each application; raise if it is ambiguous or contradicted by returned ids."""
    names: list[Any] = list(entries.applications)
    # if an application logs no impressions, clicks show its first ordinal
    silent = np.ones(len(names) + 1, dtype=bool)
    silent[queries.application[events.query[shown]]] = False
    looked = shown | (silent[queries.application[events.query]] & (events.ordinal != NO_ORDINAL))
    query, document, ordinal = events.query[looked], events.document[looked], events.ordinal[looked]
    application = queries.application[query]
    lowest = np.full(len(names), _NONE)
    np.minimum.at(lowest, application, ordinal)
    agree = np.zeros((len(names), 2), dtype=np.int64)
    hits, start = np.diff(queries.offsets), queries.offsets[:-1]
    for first in (0, 1):
        index = ordinal - first
        inside = np.flatnonzero((index >= 0) & (index < hits[query]))
        same = queries.hits[start[query[inside]] + index[inside]] == document[inside]
        agree[:, first] = np.bincount(application[inside[same]], minlength=len(names))
    zero, one = bool((ordinal == 0).any()), bool((ordinal == 1).any())
    if first_position is None and zero and one:
        by_name = sorted(zip(names, lowest, strict=True))
        counted = [f"{name} from {low}" for name, low in by_name if low != _NONE]
        raise BadInput(
            "first_position",
            f"expected 0 or 1, as {path} holds both positions ({', '.join(counted)})",
            "specify it, reading one {application} at a time" if len(counted) > 1 else "specify it",
        )
    bases = np.zeros(len(names), dtype=np.int64)
    for number, name in enumerate(names):
        base = first_position if first_position is not None else 0 if zero else 1
        if isinstance(base, Mapping):
            if name not in base and lowest[number] != _NONE:
                raise BadInput("first_position", f"expected an entry for the application {name!r}, got none")
            base = base.get(name, 1)
        base = check_whole("first_position", base, 0, 1)
        right, wrong = agree[number, base], agree[number, 1 - base]
        if wrong > 4 * right:  # lists change between response and page, so a few agree by chance
            raise BadInput(
                "first_position",
                f"the ids that queries of {name!r} returned imply {1 - base}: {wrong} events "
                f"agree with it, {right} with {base}",
                "specify the other",
                value=base,
            )
        bases[number] = base
    return bases


_NONE = np.iinfo(np.int64).max  # lowest ordinal of an application without impressions
