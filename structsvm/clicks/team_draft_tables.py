"""Team-draft logs as tables: a row for each document of each shown list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.clicks.cells import UNKNOWN_CLICKS, Dropped, _is_known
from structsvm.clicks.tables import USUAL, _parts, check_columns, column_names, guess, place_of
from structsvm.clicks.team_draft_ubi import Drafts, TeamDraftLog
from structsvm.online.clicklog import Click

_USUAL = {
    "impression": "impression_id list list_id search_id request_id",
    "document": USUAL["document"],
    "rank": "position pos place ordinal",
    "clicked": USUAL["clicked"],
    "team": "ranker source system config configuration search_config variant",
    "query": "q query_text user_query search_term keywords",
    "user": "user_id userid client client_id customer customer_id",
    "session": "session_id sessionid visit visit_id",
}
_NEEDED = ("impression", "document", "rank", "clicked", "team")


def read_team_draft_table(table: Any, *, columns: Mapping[str, str] | None = None) -> TeamDraftLog:
    """Read a table of team-draft lists as a click log.

    Parameters
    ----------
    table : frame of pandas or polars, or path
        As in :func:`~structsvm.clicks.read_table`: a row for each document of each list, in any order.
    columns : dict of str to str, optional
        Names of the columns ``impression`` (one value per shown list), ``rank`` (from 0 or 1, only its order counts),
        ``document``, ``team`` (the ranker that the document was drafted from; missing: nobody), ``clicked`` (0 or 1),
        and, if there are some, ``query``, ``user`` and ``session``. Those that are not given are found by these or
        usual names. Empty cells of ``clicked`` as in :func:`~structsvm.clicks.read_table`.

    Returns
    -------
    TeamDraftLog
        ``log``, a :class:`~structsvm.online.clicklog.ClickLog` with the teams, sorted, as rankers; ``dropped`` counts
        by reason what was left out.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"list_id": [1, 1, 2, 2], "rank": [1, 2, 1, 2], "doc": ["a", "b", "b", "a"],
    ...                       "team": ["new", "old", "old", "new"], "click": [1, 0, 0, 1]})
    >>> log, dropped = read_team_draft_table(frame)
    >>> log.rankers, [one.clicks[0].rank for one in log.impressions], dropped
    (('new', 'old'), [1, 2], {})
    """
    given = dict(columns or {})
    for role in given:
        if role not in _USUAL:
            raise BadInput("columns", f"expected some of {', '.join(_USUAL)}, got {role!r}")
    there = column_names(table)
    for role, usual in _USUAL.items():
        if role in given:
            continue
        if role in _NEEDED or any(name.strip().lower() in (role, *usual.split()) for name in there):
            few = ", ".join(usual.split()[:3])
            remedy = f"rename it to {role} or a usual name ({few}), or state {{columns}}"
            given[role] = guess(role, there, table, usual, remedy)
    check_columns(list(given.values()), there, place_of(table), "state others by {columns}")
    roles = [*_NEEDED, *(role for role in ("query", "user", "session") if role in given)]
    dropped = Dropped()
    shown: dict[Any, list[tuple[float, Any, bool, Any]]] = {}
    who: dict[Any, dict[str, Any]] = {}
    for part in _parts(table, [given[role] for role in roles], None):
        for row in zip(*(_plain(column) for column in part), strict=True):
            name, document, rank, clicked, team = row[:5]
            if not (_is_known(name) and _is_known(document) and _is_known(rank)):
                dropped.count("row without an impression, a document or a rank")
                continue
            if clicked not in (0, 1):
                remedy = "count clicks of one list once" if _is_known(clicked) else UNKNOWN_CLICKS
                raise BadInput("clicked", f"expected 0 or 1, got {clicked!r:.40}", remedy)
            shown.setdefault(name, []).append(
                (float(rank), document, bool(clicked), team if _is_known(team) else None)
            )
            who.setdefault(name, {r: v for r, v in zip(roles[5:], row[5:], strict=True) if _is_known(v)})
    teams = sorted({str(row[3]) for rows in shown.values() for row in rows if row[3] is not None})
    if len(teams) < 2:
        raise BadInput("team", f"expected two teams or more, got {teams or 'none'}", dropped.said())
    if all(row[2] for rows in shown.values() for row in rows):
        n = sum(map(len, shown.values()))
        problem = f"expected rows without a click, too, got clicks in all {n:,} rows"
        raise BadInput("clicked", problem, "log every document of a list")
    drafts = Drafts(teams, dropped)
    for name, rows in shown.items():
        order: dict[Any, tuple[Any, bool]] = {}
        for _, document, clicked, team in sorted(rows, key=lambda one: one[0]):
            dropped.count("document twice in a list", document in order)
            order.setdefault(document, (team, clicked))
        row = tuple(None if team is None else teams.index(str(team)) for team, _ in order.values())
        if not drafts.lack(row):
            clicks = (Click(k) for k, (_, clicked) in enumerate(order.values(), 1) if clicked)
            drafts.add(order, row, name, clicks, who[name])
    return drafts.log("team")


def _plain(column: Any) -> list[Any]:
    """Return the values as Python's own; whole floats, which pandas makes of ids with gaps, as integers."""
    values = column.tolist() if isinstance(column, np.ndarray) else column
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
