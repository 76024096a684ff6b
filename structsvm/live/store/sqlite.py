"""SQLite: one file with a write-ahead log; every commit is on disk before the response is sent."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from structsvm.common.files import beside
from structsvm.live.store.rows import ACCEPTED, DUPLICATE, GONE, LATE, ClickRow, ShownRow, Stored, StoreDown

BUSY_S = 2.0
"""Seconds that a writer waits for another process before giving up."""

_SHOWN = (
    "INSERT INTO impressions (id, experiment, shown_at, unit, serve, record, rankings, query, elapsed_ms, chance, "
    "epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_STORED = "SELECT shown_at, serve, record FROM impressions WHERE id = ?"
# a click is late after the window, or once the closer has announced that it closes the impression
_CLICK = (
    "INSERT INTO clicks (impression, place, action, at, dwell, late) "
    "SELECT i.seq, ?2, ?3, ?4, ?5, (?4 > ?7 OR i.seq <= s.horizon) "
    "FROM impressions i JOIN stats s ON s.experiment = i.experiment WHERE i.id = ?1 AND i.shown_at = ?6 "
    "ON CONFLICT DO NOTHING RETURNING late"
)
_ENDED = (
    "INSERT INTO changes (at, who, key, what, reason) SELECT 1000 * CAST(strftime('%s', 'now') AS INTEGER), 'backup', "
    "key, state || ' -> stopped', 'ended after this copy was made' FROM experiments WHERE id = ? AND state <> 'stopped'"
)
_THERE = "SELECT 1 FROM impressions WHERE id = ? AND shown_at = ?"


def engines(path: Path) -> tuple[Engine, Engine]:
    """Return an engine for reading with autocommit, and an engine for transactions that write."""
    reading, writing = (
        create_engine("sqlite://", creator=partial(_connect, path), poolclass=QueuePool, pool_size=size)
        for size in (4, 2)
    )

    @event.listens_for(writing, "begin")
    def begin(connection: Any) -> None:
        # BEGIN IMMEDIATE: a deferred transaction that reads and then writes fails if another process wrote in between
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return reading, writing


def _connect(path: Path) -> sqlite3.Connection:
    # never create the file: a deleted store must not be replaced by an empty one
    options: Any = {"isolation_level": None, "timeout": BUSY_S, "check_same_thread": False}
    connection: sqlite3.Connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, **options
    )
    try:
        for setting in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "secure_delete = ON",  # deleted content is overwritten
            "foreign_keys = OFF",  # only this package creates rows
        ):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


class SqliteConnection:
    """A SQLite connection for the frequent inserts (lists and clicks)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._inode = path.stat().st_ino
            self._connection = _connect(path)
        except (OSError, sqlite3.Error) as error:
            raise StoreDown(f"{path}: {error}") from error

    def write(self, shown: list[ShownRow], clicks: list[ClickRow]) -> tuple[list[Stored | None], list[int]]:
        """Store a batch as :class:`structsvm.live.store.rows.HotConnection` describes."""
        try:
            if self._path.stat().st_ino != self._inode:
                raise StoreDown(f"{self._path}: replaced by another file")
            execute = self._connection.execute
            execute("BEGIN IMMEDIATE")
            try:
                earlier = [self._show(execute, row) for row in shown]
                fates = [self._click(execute, row) for row in clicks]
                execute("COMMIT")
            except BaseException:
                # SQLite has already ended the transaction if the disk is full
                with contextlib.suppress(sqlite3.Error):
                    execute("ROLLBACK")
                raise
        except (OSError, sqlite3.Error) as error:
            raise StoreDown(f"{self._path}: {error}") from error
        return earlier, fates

    def _show(self, execute: Callable[..., sqlite3.Cursor], row: ShownRow) -> Stored | None:
        if execute(_SHOWN, row).rowcount:
            return None
        return Stored(*execute(_STORED, (row.id,)).fetchone())

    def _click(self, execute: Callable[..., sqlite3.Cursor], row: ClickRow) -> int:
        late = execute(_CLICK, row).fetchone()
        if late is not None:
            return LATE if late[0] else ACCEPTED
        return DUPLICATE if execute(_THERE, (row.id, row.shown_at)).fetchone() else GONE

    def close(self) -> None:
        """Close the connection; never raises."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


def backup(path: Path, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Copy a store in use, readable by its owner only; call ``progress`` with the remaining and the total number of
    pages.

    The copy appears complete or not at all.
    """
    unfinished = beside(target, ".unfinished")
    os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT, 0o600))
    source, copy = _connect(path), sqlite3.connect(unfinished)
    try:
        tell = None if progress is None else (lambda status, left, pages: progress(left, pages))
        source.backup(copy, pages=1000, progress=tell)
        copy.execute("PRAGMA journal_mode = DELETE")  # a single file that can be moved elsewhere
        copy.close()
        unfinished.replace(target)
    finally:
        copy.close()
        source.close()
        unfinished.unlink(missing_ok=True)


def drop_unit_keys(path: Path, ended: Collection[int]) -> None:
    """Delete the unit keys of ended experiments from a copy, and stop these experiments in the copy.

    A running experiment in the copy would always show production's list, as drawing lists requires the deleted key.
    """
    # rw: another worker may have deleted the copy meanwhile, and an empty file must not take its place
    existing = f"{path.absolute().as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(existing, uri=True, isolation_level=None)) as copy:
        copy.execute("PRAGMA secure_delete = ON")
        going = "SELECT id FROM experiments WHERE unit_key IS NOT NULL OR state <> 'stopped'"
        ids = [(identity,) for (identity,) in copy.execute(going).fetchall() if identity in ended]
        copy.executemany(_ENDED, ids)
        copy.executemany("UPDATE experiments SET unit_key = NULL, state = 'stopped' WHERE id = ?", ids)
        copy.executemany("DELETE FROM units WHERE experiment = ?", ids)
