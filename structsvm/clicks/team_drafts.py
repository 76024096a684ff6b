"""Team-draft logs of other programs: UBI events of an A/B search, and tables with one row for each document of a
list."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from structsvm.clicks.ubi_entries import NO_ORDINAL, document_of, ordinal_of, parse_entries, time_of
from structsvm.common.checks import BadInput
from structsvm.common.event_logs import Dropped, by_time
from structsvm.common.tables.roles import find_columns
from structsvm.online.clicklog import Click, ClickLog, Impression
from structsvm.online.interleaving import Shown

CONFIGURATION = ("search_config", "search_configuration_id", "_search_configuration_id")
"""Names under which an event may state the configuration, in ``event_attributes`` or its ``object``."""

_ROLES = {
    role: role for role in ("impression", "document", "clicked", "team", "query", "user", "session", "time")
}
_ROLES["rank"] = "position"
"""The role of each column that a table may have, keyed by the name of the column here."""

_NEEDED = ("impression", "document", "rank", "clicked", "team")
_LACKING = "list that lacks a ranker, so it is not a team draft"


class TeamDraftLog(NamedTuple):
    """A log for :func:`structsvm.online.statistics.analyse`, and the counts of omissions by reason."""

    log: ClickLog
    dropped: dict[str, int]


class _Hit(NamedTuple):
    """A document of a list, or a click on it; ``time`` is in seconds, minus infinity if none was logged."""

    document: Any
    rank: float
    team: str | None
    clicked: bool = False
    time: float = -math.inf


_Order = dict[Any, _Hit]
"""The hits of a list by document, in the order of their ranks."""


def read_team_draft_table(table: object, *, columns: Mapping[str, str] | None = None) -> TeamDraftLog:
    """Read a table of team-draft lists as a click log.

    Parameters
    ----------
    table : frame of pandas or polars, or path
        As in :func:`~structsvm.clicks.read_table`: one row for each document of each list, in any order. Several rows
        of one list and document are merged: the document has the first rank, and is clicked if any row is. Of rows
        that disagree, the earliest counts; without times, the first of the table.
    columns : dict of str to str, optional
        Names of the columns ``impression`` (one value per shown list), ``rank`` (from 0 or 1; only the order matters),
        ``document``, ``team`` (the ranker that contributed the document; missing means none), ``clicked`` (0 or 1),
        and, if available, ``query``, ``user``, ``session`` and ``time`` (as in :func:`~structsvm.clicks.read_table`).
        Columns that are not given are recognised by these names or by conventional ones. Empty cells of ``clicked``
        are treated as in :func:`~structsvm.clicks.read_table`.

    Returns
    -------
    TeamDraftLog
        ``log``, a :class:`~structsvm.online.clicklog.ClickLog` with the teams, sorted, as rankers; ``dropped`` counts
        the omissions by reason.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"list_id": [1, 1, 2, 2], "rank": [1, 2, 1, 2], "doc": ["a", "b", "b", "a"],
    ...                       "team": ["new", "old", "old", "new"], "click": [1, 0, 0, 1]})
    >>> log, dropped = read_team_draft_table(frame)
    >>> log.rankers, [one.clicks[0].rank for one in log.impressions], dropped
    (('new', 'old'), [1, 2], {})
    """
    from structsvm.clicks.tables import Clicked  # Arrow takes some time to load
    from structsvm.common.tables.batches import Role, checked
    from structsvm.common.tables.columns import ids, look, numbers, spelled, times, values_of
    from structsvm.common.tables.ids import IdColumn
    from structsvm.common.tables.opening import open_tables

    tables = open_tables(table)
    named = find_columns(tables, _ROLES, given=columns or {}, needed=_NEEDED)
    source = str(table) if tables[0].in_parts else "table"
    kinds: dict[str, Role] = {
        **dict.fromkeys(named, "id"),
        "rank": "number",
        "clicked": "number",
        "time": "time",
    }
    of_ids = {role: IdColumn(source, named[role], missing=True) for role in named if kinds[role] == "id"}
    dropped, clicked = Dropped(), Clicked(named["clicked"])
    unit: int | None = None

    def typed(batch: Any) -> dict[str, Any]:
        nonlocal unit
        when = np.full(batch.n, -np.inf)
        if "time" in named:
            when, unit = times(batch, named["time"], unit)
        read = {role: ids(batch, named[role], f"the id of a {role}", missing=True) for role in of_ids}
        numeric = {"rank": numbers(batch, named["rank"]), "clicked": clicked.of(batch)}
        numeric["time"] = np.where(np.isnan(when), -np.inf, when)
        return read | {role: values.tolist() for role, values in numeric.items()}

    parts = []
    for one in tables:
        for batch in one.read({name: kinds[role] for role, name in named.items()}):
            read = checked(batch, typed)
            parts.append(read | {role: look(column, read[role], batch) for role, column in of_ids.items()})
    for column in of_ids.values():
        column.settle()
    rows: list[tuple[Any, _Hit, dict[str, Any]]] = []
    more = [role for role in ("query", "user", "session") if role in named]
    for part in parts:
        part |= {role: values_of(spelled(column, part[role])) for role, column in of_ids.items()}
        for name, document, rank, click, team, time, *rest in zip(
            *(part[role] for role in (*_NEEDED, "time", *more)), strict=True
        ):
            if name is None or document is None or math.isnan(rank):
                dropped.count("row without an impression, a document or a rank")
                continue
            rows.append(
                (
                    name,
                    _Hit(document, rank, None if team is None else str(team), click, time),
                    {role: value for role, value in zip(more, rest, strict=True) if value is not None},
                )
            )
    shown: dict[Any, list[_Hit]] = {}
    who: dict[Any, dict[str, Any]] = {}
    for k in by_time([hit.time for _, hit, _ in rows]):
        name, hit, about = rows[k]
        shown.setdefault(name, []).append(hit)
        who.setdefault(name, about)
    if shown and all(hit.clicked for hits in shown.values() for hit in hits):
        raise BadInput(
            "clicked",
            f"expected rows without a click, too, got clicks in all {sum(map(len, shown.values())):,} rows",
            "log every document of a list",
        )

    def clicks(name: object, order: _Order) -> Iterable[Click]:
        return (Click(k) for k, hit in enumerate(order.values(), 1) if hit.clicked)

    return _drafted("team", "at least two teams", shown, clicks, who, dropped)


def read_team_draft_ubi(
    path: str | PathLike[str],
    *,
    configuration: str | None = None,
    application: str | None = None,
    clicks: Collection[str] = ("click", "item_click"),
    impressions: Collection[str] = ("impression", "view"),
) -> TeamDraftLog:
    """Read UBI events of a team-draft A/B test as a click log.

    OpenSearch's A/B search interleaves two search configurations and marks each hit with its configuration; the page
    logs the mark with the impressions of the hits. A query (``query_id``) is one list. Its documents are those with an
    impression, by ordinal, each in the team of its configuration; clicks are joined by ``object_id``.

    Parameters
    ----------
    path : path
        As in :func:`~structsvm.clicks.read_ubi`.
    configuration : str, optional
        Name of the attribute that states the configuration, in ``event_attributes`` or its ``object``; default:
        ``search_config``, ``search_configuration_id`` or ``_search_configuration_id``.
    application, clicks, impressions
        As in :func:`~structsvm.clicks.read_ubi`.

    Returns
    -------
    TeamDraftLog
        ``log``, a :class:`~structsvm.online.clicklog.ClickLog` with the names of the configurations, sorted, as
        rankers; the user is the ``client_id``, the session the ``session_id``, the impression id the ``query_id``.
        ``dropped`` counts the omissions by reason; a list that is long enough for all rankers but lacks one is not a
        draft and is left out.

    Raises
    ------
    ValueError
        If a line is not a JSON object; the message names the file and the line.
    BadInput
        If no impression names a configuration, if all name the same one, or if some configurations never share a list
        (several experiments).

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> def event(action, document, ordinal, team):
    ...     return json.dumps({"action_name": action, "query_id": "1", "event_attributes": {
    ...         "object": {"object_id": document}, "position": {"ordinal": ordinal}, "search_config": team}})
    >>> lines = [event("impression", "a", 1, "new"), event("impression", "b", 2, "old"), event("click", "a", 1, "new")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "events.ndjson"
    ...     _ = path.write_text("\\n".join(lines))
    ...     log, dropped = read_team_draft_ubi(path)
    >>> log.rankers, log.impressions[0].shown.evidence, log.impressions[0].clicks, dropped
    (('new', 'old'), ((0, 1),), (Click(rank=1),), {})
    """
    path = Path(path)
    names = CONFIGURATION if configuration is None else (configuration,)
    dropped = Dropped()
    shown: dict[str, list[_Hit]] = {}
    clicked: dict[str, list[_Hit]] = {}
    who: dict[str, dict[str, Any]] = {}
    texts: dict[str, str] = {}
    searches: list[tuple[float, str, str]] = []
    events: list[tuple[str, str, _Hit, dict[str, Any]]] = []
    kinds = {**dict.fromkeys(impressions, shown), **dict.fromkeys(clicks, clicked)}

    for entry in parse_entries(path):
        query_id, action, attributes = entry.query_id, entry.action_name, entry.event_attributes
        if application is not None and entry.application != application:
            dropped.count("entry of another application")
        elif not isinstance(query_id, str) or not query_id:
            dropped.count("event without a query")
        elif action is None:
            if isinstance(entry.user_query, str):
                searches.append((time_of(entry.timestamp), query_id, entry.user_query))
        elif not isinstance(action, str) or action not in kinds:
            dropped.count(f"event {action!s:.40}")
        elif (document := document_of(attributes)) is None:
            dropped.count("event without a document")
        elif math.isnan(time := time_of(entry.timestamp)):
            dropped.count("event with an invalid time")
        else:
            hit = _Hit(document, ordinal_of(attributes), _team(attributes, names), time=time)
            ids = {"session": entry.session_id, "user": entry.client_id}
            about = {role: text for role, text in ids.items() if isinstance(text, str) and text}
            events.append((action, query_id, hit, about))
    for k in by_time([time for time, *_ in searches]):
        texts[searches[k][1]] = searches[k][2]
    for k in by_time([hit.time for _, _, hit, _ in events], [hit.rank for _, _, hit, _ in events]):
        action, query_id, hit, about = events[k]
        kinds[action].setdefault(query_id, []).append(hit)
        who.setdefault(query_id, about)
    for query_id in who:
        who[query_id]["query"] = texts.get(query_id)

    def clicks_of(query_id: str, order: _Order) -> Iterable[Click]:
        return filter(None, (_click(hit, order, dropped) for hit in clicked.pop(query_id, [])))

    expected = (
        f"impressions of at least two search configurations, in one of the attributes {', '.join(names)}"
    )
    log = _drafted(str(path), expected, shown, clicks_of, who, dropped)
    for query_id, hits in clicked.items():
        problem = "that is not a team draft" if query_id in shown else "without impressions"
        dropped.count(f"click on a list {problem}", len(hits))
    return log


def _drafted(
    source: str,
    several: str,
    shown: Mapping[Any, list[_Hit]],
    clicks: Callable[[Any, _Order], Iterable[Click]],
    who: Mapping[Any, Mapping[str, Any]],
    dropped: Dropped,
) -> TeamDraftLog:
    """Return the log of the lists in which every ranker picks once before any ranker picks again.

    Raise if there are not ``several`` teams, or if the lists belong to several experiments: most lists lack a ranker,
    or some rankers never share a list.
    """
    teams = sorted({hit.team for hits in shown.values() for hit in hits if hit.team is not None})
    if len(teams) < 2:
        raise BadInput(source, f"expected {several}, got {teams or 'none'}", dropped.said())
    lists: list[Impression] = []
    rankers: Counter[tuple[int, ...]] = Counter()
    for name, hits in shown.items():
        order: _Order = {}
        for hit in sorted(hits, key=lambda hit: hit.rank):
            if hit.rank == NO_ORDINAL:
                dropped.count("impression without an ordinal")
            elif hit.document in order:  # logged by several events or rows
                dropped.count("document twice in a list")
                one = order[hit.document]
                times = [time for time in (one.time, hit.time) if math.isfinite(time)]
                order[hit.document] = one._replace(
                    clicked=one.clicked or hit.clicked, time=min(times, default=-math.inf)
                )
            else:
                order[hit.document] = hit
        row = tuple(None if hit.team is None else teams.index(hit.team) for hit in order.values())
        members = [team for team in row if team is not None]
        there = tuple(sorted(set(members)))
        rankers[there] += 1
        if len(there) < max(1, min(len(members), len(teams))):
            dropped.count(_LACKING)
            continue
        lists.append(
            Impression(
                Shown("team_draft", tuple(order), len(teams), (row,), impression=name),
                tuple(clicks(name, order)),
                rankers=tuple(teams),
                **who[name],
            )
        )
    met = {pair for there in rankers for pair in combinations(there, 2)}
    apart = any(len(there) > 1 for there in rankers) and len(met) < math.comb(len(teams), 2)
    if len(teams) > 2 and (apart or dropped.get(_LACKING, 0) > len(lists)):
        counts = [
            f"{n:,} of {', '.join(repr(teams[team]) for team in there) or 'nobody'}"
            for there, n in rankers.most_common(4)
        ]
        raise BadInput(
            source,
            f"expected lists drafted from all of {', '.join(map(repr, teams))}, got {'; '.join(counts)}",
            "correct misspelled rankers; analyse each experiment separately",
        )
    if not lists:
        raise BadInput(source, "expected drafted lists, got none", dropped.said())
    return TeamDraftLog(ClickLog.of(lists), dropped)


def _team(attributes: object, names: tuple[str, ...]) -> str | None:
    """Return the configuration that an event names in its attributes, or otherwise in their ``object``; None if there
    is none."""
    inner = attributes.get("object") if isinstance(attributes, dict) else None
    for holder in (attributes, inner):
        found = [holder.get(name) for name in names] if isinstance(holder, dict) else []
        for text in found:
            if isinstance(text, str) and text.strip() and text.isprintable():
                return text
    return None


def _click(hit: _Hit, order: _Order, dropped: Dropped) -> Click | None:
    """Return the click, timed from the impression if both times are known; None if the event cannot be a click."""
    impression = order.get(hit.document)
    if impression is None:
        dropped.count("click on a document that was not shown")
        return None
    known = math.isfinite(hit.time) and math.isfinite(impression.time)
    seconds = hit.time - impression.time if known else None
    if seconds is not None and seconds < 0:
        dropped.count("click before its impression")
        return None
    return Click(list(order).index(hit.document) + 1, seconds)
