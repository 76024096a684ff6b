"""PostgreSQL: the frequent inserts as one statement per batch.

Sequence numbers are assigned before transactions commit, so a lower number can appear after a higher one. Writers share
an advisory lock. The closer holds it exclusively for a moment to decide how far it closes: meanwhile no lower number
can appear, and no click can be added.
"""

import contextlib
from typing import Any

from sqlalchemy import Engine, create_engine, make_url

from structsvm.live.store.rows import ACCEPTED, DUPLICATE, GONE, LATE, ClickRow, ShownRow, Stored, StoreDown

LOCK = 0x5712C70
"""Number of the advisory lock between writers and the closer."""

_TIMEOUT_MS = 5000

_SHOWN = """
INSERT INTO impressions (id, experiment, shown_at, unit, serve, record, rankings, query, elapsed_ms, chance, epoch)
SELECT * FROM unnest(%s::bytea[], %s::int[], %s::bigint[], %s::bytea[], %s::text[], %s::text[], %s::text[],
                     %s::text[], %s::int[], %s::float8[], %s::int[])
ON CONFLICT (id) DO NOTHING RETURNING id"""
_STORED = "SELECT id, shown_at, serve, record FROM impressions WHERE id = ANY(%s)"
_PLACES = """
SELECT i.id, i.seq, s.horizon, i.shown_at FROM impressions i JOIN stats s ON s.experiment = i.experiment
WHERE i.id = ANY(%s)"""
_CLICKS = """
INSERT INTO clicks (impression, place, action, at, dwell, late)
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::bigint[], %s::float8[], %s::smallint[])
ON CONFLICT DO NOTHING RETURNING impression, place, action"""


def engines(url: str) -> tuple[Engine, Engine]:
    """Return an engine for reading with autocommit, and an engine for transactions that write."""
    address = make_url(url).set(drivername="postgresql+psycopg")
    reading = create_engine(address, isolation_level="AUTOCOMMIT", pool_size=4, pool_pre_ping=True)
    return reading, create_engine(address, pool_size=2, pool_pre_ping=True)


class PostgresConnection:
    """A PostgreSQL connection for the frequent inserts (lists and clicks)."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._error = psycopg.Error
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        try:
            self._connection = psycopg.connect(plain, connect_timeout=2, prepare_threshold=1)
            with self._connection.transaction():
                self._connection.execute(f"SET statement_timeout = {_TIMEOUT_MS}")
        except psycopg.Error as error:
            raise StoreDown(f"store: {error}") from error

    def write(self, shown: list[ShownRow], clicks: list[ClickRow]) -> tuple[list[Stored | None], list[int]]:
        """Store a batch as :class:`structsvm.live.store.rows.HotConnection` describes."""
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", (LOCK,))
                earlier = _show(cursor, shown) if shown else []
                fates = _click(cursor, clicks) if clicks else []
        except self._error as error:
            raise StoreDown(f"store: {error}") from error
        return earlier, fates

    def close(self) -> None:
        """Close the connection; never raises."""
        with contextlib.suppress(Exception):
            self._connection.close()


def _show(cursor: Any, shown: list[ShownRow]) -> list[Stored | None]:
    first = {row.id: row for row in reversed(shown)}  # the first of the rows with the same id
    # always in the same order, so that two workers with the same ids wait instead of deadlocking
    cursor.execute(_SHOWN, [list(column) for column in zip(*sorted(first.values()), strict=True)])
    made = {row[0] for row in cursor.fetchall()}
    earlier = [row.id for row in shown if row.id not in made or row is not first[row.id]]
    stored: dict[bytes, Stored] = {}
    if earlier:
        cursor.execute(_STORED, (earlier,))
        stored = {row[0]: Stored(*row[1:]) for row in cursor.fetchall()}
    return [None if row.id in made and row is first[row.id] else stored[row.id] for row in shown]


def _click(cursor: Any, clicks: list[ClickRow]) -> list[int]:
    cursor.execute(_PLACES, (list({row.id for row in clicks}),))
    places = {(row[0], row[3]): (row[1], row[2]) for row in cursor.fetchall()}
    fates = [GONE] * len(clicks)
    first: dict[tuple[int, int, str], int] = {}
    rows = []
    for k, row in enumerate(clicks):
        if (row.id, row.shown_at) not in places:
            continue
        seq, horizon = places[row.id, row.shown_at]
        fates[k] = DUPLICATE
        if (seq, row.place, row.action) in first:
            continue
        first[seq, row.place, row.action] = k
        late = int(row.at > row.closes_at or seq <= horizon)
        rows.append((seq, row.place, row.action, row.at, row.dwell, late))
    if not rows:
        return fates
    rows.sort(key=lambda row: row[:3])
    is_late = {row[:3]: row[5] for row in rows}
    cursor.execute(_CLICKS, [list(column) for column in zip(*rows, strict=True)])
    for found in cursor.fetchall():
        fates[first[tuple(found)]] = LATE if is_late[tuple(found)] else ACCEPTED
    return fates
