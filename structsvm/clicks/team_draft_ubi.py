"""Team-draft logs that an A/B search writes as UBI events: each hit names the configuration that it came from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from structsvm.checks import BadInput
from structsvm.clicks.cells import Dropped
from structsvm.clicks.ubi_entries import NO_ORDINAL, document_of, ordinal_of, parse_entries, time_of
from structsvm.online.clicklog import Click, ClickLog, Impression
from structsvm.online.interleaving import Shown

CONFIGURATION = ("search_config", "search_configuration_id", "_search_configuration_id")
"""Names under which an event may say the configuration, in ``event_attributes`` or its ``object``."""


class TeamDraftLog(NamedTuple):
    """A log for :func:`structsvm.online.statistics.analyse`, and what was left out of it, by reason."""

    log: ClickLog
    dropped: dict[str, int]


class Drafts:
    """The lists of one team draft, and how often each set of rankers was on one."""

    def __init__(self, teams: list[str], dropped: Dropped) -> None:
        self.teams, self.dropped = teams, dropped
        self._lists: list[Impression] = []
        self._rankers: Counter[tuple[int, ...]] = Counter()

    def lack(self, row: Collection[int | None]) -> bool:
        """Return, and count, whether these places are no draft: each ranker has picked before one picks again."""
        members = [team for team in row if team is not None]
        there = tuple(sorted(set(members)))
        self._rankers[there] += 1
        lacking = len(there) < max(1, min(len(members), len(self.teams)))
        if lacking:
            self.dropped.count(_LACKING)
        return lacking

    def add(
        self, documents: Iterable[Any], row: tuple[int | None, ...], name: Any, clicks: Any, who: Any
    ) -> None:
        """Append a list with its clicks, and the query, session and user as far as they are known."""
        record = Shown("team_draft", tuple(documents), len(self.teams), (row,), impression=name)
        self._lists.append(Impression(record, tuple(clicks), rankers=tuple(self.teams), **who))

    def log(self, place: str) -> TeamDraftLog:
        """Return the log; refuse lists of several experiments: most lack a ranker, or some rankers never met."""
        met = {pair for there in self._rankers for pair in combinations(there, 2)}
        longer = any(len(there) > 1 for there in self._rankers)
        apart = longer and len(met) < math.comb(len(self.teams), 2)
        if len(self.teams) > 2 and (apart or self.dropped.get(_LACKING, 0) > len(self._lists)):
            counts = [
                f"{n:,} of {', '.join(repr(self.teams[team]) for team in there) or 'nobody'}"
                for there, n in self._rankers.most_common(4)
            ]
            everyone = ", ".join(map(repr, self.teams))
            raise BadInput(
                place, f"expected lists drafted from all of {everyone}, got {'; '.join(counts)}",
                "correct misspelled rankers; analyse each experiment alone",
            )  # fmt: skip
        if not self._lists:
            raise BadInput(place, "expected drafted lists, got none", self.dropped.said())
        return TeamDraftLog(ClickLog.of(self._lists), self.dropped)


_LACKING = "list that lacks a ranker, which is no draft"


class _Event(NamedTuple):
    document: str
    ordinal: int
    time: float
    team: str | None


def read_team_draft_ubi(
    path: str | PathLike[str],
    *,
    configuration: str | None = None,
    application: str | None = None,
    clicks: Collection[str] = ("click", "item_click"),
    impressions: Collection[str] = ("impression", "view"),
) -> TeamDraftLog:
    """Read UBI events of a team-draft A/B test as a click log.

    OpenSearch's A/B search interleaves two search configurations and marks each hit with the one it came from; the page
    logs the mark with the impressions of the hits. A query (``query_id``) is one list. Its documents are those with an
    impression, by ordinal, each of the team of its configuration; clicks are joined by ``object_id``.

    Parameters
    ----------
    path : path
        As in :func:`~structsvm.clicks.read_ubi`.
    configuration : str, optional
        The attribute with the configuration, in ``event_attributes`` or its ``object``; default: ``search_config``,
        ``search_configuration_id`` or ``_search_configuration_id``.
    application : str, optional
        Only events of this application.
    clicks, impressions : collection of str
        Names of actions. All others are left out.

    Returns
    -------
    TeamDraftLog
        ``log``, a :class:`~structsvm.online.clicklog.ClickLog` with the names of the configurations, sorted, as
        rankers; the user is the ``client_id``, the session the ``session_id``, the impression id the ``query_id``.
        ``dropped`` counts by reason; a list with a place for each ranker in which one has none is no draft and is left
        out.

    Raises
    ------
    ValueError
        With file and line, for a line that is no JSON object.
    BadInput
        If no impression names a configuration, all name the same, or some never met in a list (several experiments).

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
    (('new', 'old'), ((0, 1),), (Click(rank=1, time=None, dwell=None, download=None),), {})
    """
    path = Path(path)
    names = CONFIGURATION if configuration is None else (configuration,)
    dropped = Dropped()
    drop = dropped.count
    shown: dict[str, list[_Event]] = {}
    clicked: dict[str, list[_Event]] = {}
    who: dict[str, tuple[Any, Any]] = {}
    texts: dict[str, str] = {}

    for entry in parse_entries(path):
        query_id, action = entry.query_id, entry.action_name
        if application is not None and entry.application != application:
            drop("entry of another application")
            continue
        if not isinstance(query_id, str) or not query_id:
            drop("event without a query")
            continue
        if action is None:
            if isinstance(entry.user_query, str):
                texts[query_id] = entry.user_query
            continue
        kind = clicked if action in tuple(clicks) else shown if action in tuple(impressions) else None
        if kind is None:
            drop(f"event {action!s:.40}")
            continue
        attributes = entry.event_attributes
        document, time = document_of(attributes), time_of(entry.timestamp)
        if document is None or np.isnan(time):
            drop("event without a document" if document is None else "event with an invalid time")
            continue
        kind.setdefault(query_id, []).append(
            _Event(document, ordinal_of(attributes), time, _team(attributes, names))
        )
        who.setdefault(query_id, (_text(entry.client_id), _text(entry.session_id)))
    teams = sorted({e.team for events in shown.values() for e in events if e.team is not None})
    if len(teams) < 2:
        raise BadInput(
            str(path), f"expected impressions of two search configurations or more, got {teams or 'none'}",
            "; ".join(filter(None, (f"name their attribute in place of {', '.join(names)}", dropped.said()))),
        )  # fmt: skip
    number = {team: i for i, team in enumerate(teams)}
    drafts = Drafts(teams, dropped)
    for query_id, events in shown.items():
        order: dict[str, _Event] = {}
        for event in sorted(events, key=lambda e: e.ordinal):
            if event.ordinal == NO_ORDINAL:
                drop("impression without an ordinal")
            elif event.document in order:
                drop("document twice in a list")
            else:
                order[event.document] = event
        row = tuple(None if e.team is None else number[e.team] for e in order.values())
        if drafts.lack(row):
            drop("click on a list that is no draft", len(clicked.pop(query_id, [])))
            continue
        taps = [_click(e, order, drop) for e in clicked.pop(query_id, [])]
        user, session = who[query_id]
        more = {"query": texts.get(query_id), "session": session, "user": user}
        drafts.add(order, row, query_id, (tap for tap in taps if tap is not None), more)
    drop("click on a list without impressions", sum(map(len, clicked.values())))
    return drafts.log(str(path))


def _team(attributes: Any, names: tuple[str, ...]) -> str | None:
    places: list[Mapping[str, Any]] = [attributes] if isinstance(attributes, dict) else []
    if places and isinstance(attributes.get("object"), dict):
        places.append(attributes["object"])
    for place in places:
        for name in names:
            if isinstance(place.get(name), str) and place[name].strip() and place[name].isprintable():
                return str(place[name])
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _click(event: _Event, order: Mapping[str, _Event], drop: Any) -> Click | None:
    """Return the click, timed from the impression where both times are known; None if it cannot be one."""
    impression = order.get(event.document)
    if impression is None:
        drop("click on a document that was not shown")
        return None
    seconds = event.time - impression.time if np.isfinite([event.time, impression.time]).all() else None
    if seconds is not None and seconds < 0:
        drop("click before its impression")
        return None
    return Click(list(order).index(event.document) + 1, seconds)
