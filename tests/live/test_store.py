"""Databases: schema and its upgrade, and the hot inserts of both kinds."""

import asyncio
import json
import sqlite3
import threading
from contextlib import closing

import pytest
from sqlalchemy import inspect, text

from structsvm.cli import main
from structsvm.live.contract.clock import Clock
from structsvm.live.contract.config import check_config
from structsvm.live.counting.closing import Closer
from structsvm.live.store import schema
from structsvm.live.store.opening import connector, open_database, prepare
from structsvm.live.store.rows import ACCEPTED, DUPLICATE, GONE, LATE, Stored, StoreDown
from structsvm.live.store.writer import Writer
from structsvm.online.interleaving import Shown
from tests.live.samples import RECORD, click_row, shown_row

CONFIG = check_config({"rankers": ["prod", "new"], "window_s": 10, "length": 2})

FIRST = """
CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE experiments (id INTEGER NOT NULL PRIMARY KEY, key TEXT NOT NULL, revision INTEGER NOT NULL,
  state TEXT NOT NULL, config TEXT NOT NULL, salt BLOB NOT NULL, unit_key BLOB, created_at INTEGER NOT NULL,
  UNIQUE (key, revision));
CREATE TABLE changes (id INTEGER NOT NULL PRIMARY KEY, at INTEGER NOT NULL, who TEXT NOT NULL, key TEXT NOT NULL,
  what TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE impressions (seq INTEGER NOT NULL PRIMARY KEY, id BLOB NOT NULL UNIQUE, experiment INTEGER NOT NULL,
  shown_at INTEGER NOT NULL, unit BLOB, serve TEXT NOT NULL, record TEXT NOT NULL, rankings TEXT, query TEXT);
CREATE INDEX impressions_of ON impressions (experiment, seq);
CREATE TABLE clicks (impression INTEGER NOT NULL, place INTEGER NOT NULL, action TEXT NOT NULL, at INTEGER NOT NULL,
  dwell FLOAT, PRIMARY KEY (impression, place, action)) WITHOUT ROWID;
CREATE TABLE stats (experiment INTEGER NOT NULL PRIMARY KEY, watermark INTEGER NOT NULL, version INTEGER NOT NULL,
  state TEXT NOT NULL);
CREATE TABLE series (experiment INTEGER NOT NULL, n INTEGER NOT NULL, snapshot TEXT NOT NULL,
  PRIMARY KEY (experiment, n));
CREATE TABLE bandits (experiment INTEGER NOT NULL PRIMARY KEY, version INTEGER NOT NULL, state TEXT NOT NULL);
CREATE TABLE keys (id TEXT NOT NULL PRIMARY KEY, hash BLOB NOT NULL, scope TEXT NOT NULL, created_at INTEGER NOT NULL,
  last_used_day INTEGER);
"""
"""The first schema, as SQLite had it."""


def test_inserts_return_the_earlier_row_of_a_duplicate(opened):
    store, connection, row, _ = opened
    assert connection.write([shown_row(row, 1), shown_row(row, 2)], []) == ([None, None], [])
    # an id that is there already, and one twice in a batch
    other = Shown("team_draft", ("x", "y"), 2, ((0, 1),))
    batch = [shown_row(row, 1, 9, record=other), shown_row(row, 3), shown_row(row, 3, record=other)]
    earlier = Stored(1000, "interleaved", RECORD.to_json())
    assert connection.write(batch, [])[0] == [earlier, None, earlier]
    assert [one.record for one in store.impressions(row.id, 0, None)] == [RECORD] * 3
    click = click_row
    events = [
        click(1, 1, dwell=2.5), click(1, 1), click(1, 2, at=2001), click(2, 1, action="buy"), click(2, 1), click(8, 1),
        click(1, 1, action="buy"),
    ]  # fmt: skip
    assert connection.write([], events)[1] == [ACCEPTED, DUPLICATE, LATE, ACCEPTED, ACCEPTED, GONE, ACCEPTED]
    assert connection.write([], events)[1] == [DUPLICATE] * 5 + [GONE, DUPLICATE]
    assert connection.write([], [click(1, 1, shown=999), click(1, 7, shown=999)])[1] == [GONE, GONE]
    first = store.impressions(row.id, 0, None)[0]
    assert first.clicks == ((1, "buy", 1500, None, 0), (1, "click", 1500, 2.5, 0))
    assert len(store.impressions(row.id, 0, None, late=True)[0].clicks) == 3
    assert store.n_late(row.id) == 1
    assert (store.n_after(row.id, 0), store.last_shown_at()) == (3, 1000)
    # once the closer has announced an impression, a click is late whatever the clock of its worker says
    assert store.announce(row.id, 0, 1000, 500) == store.impressions(row.id, 0, None)[-1].seq
    assert connection.write([], [click(3, 1, at=1001)])[1] == [LATE]


def test_a_click_whose_caller_went_away_is_stored(opened):
    store, connection, row, url = opened
    connection.write([shown_row(row, 1)], [])

    async def leave():
        writer = Writer(connector(url))
        writer.start()
        call = asyncio.ensure_future(writer.click([click_row(1, 1)], 10.0))
        await asyncio.sleep(0)
        call.cancel()
        await writer.stop()

    asyncio.run(leave())
    assert [len(one.clicks) for one in store.impressions(row.id, 0, None)] == [1]


def test_requests_that_were_given_up_do_not_stand_in_the_way_of_others(monkeypatch):
    """While the store hangs, only requests that still wait count; abandoned ones are never written."""
    monkeypatch.setattr("structsvm.live.store.writer._MOST_WAITING", 5)
    written, begun, goes_on = [], threading.Event(), threading.Event()

    class Hanging:
        def write(self, shown, clicks):
            begun.set()
            goes_on.wait(60)
            written.extend(shown)
            return [None] * len(shown), []

        def close(self):
            pass

    async def ask():
        writer = Writer(Hanging)
        writer.start()
        first = asyncio.ensure_future(writer.show("first", 60))
        await asyncio.to_thread(begun.wait, 60)
        for k in range(12):
            with pytest.raises(StoreDown, match="too slow"):
                await writer.show(k, 0.001)
        assert writer.n_waiting == 0
        last = asyncio.ensure_future(writer.show("last", 60))
        goes_on.set()
        assert await asyncio.gather(first, last) == [None, None]
        await writer.stop()

    asyncio.run(ask())
    assert written == ["first", "last"]


def test_writers_and_closers_at_once(opened):
    """Several writers and two closers: every impression is announced once, in one order, and none appears behind."""
    store, _, row, url = opened
    n, seen, stop = 60, [], threading.Event()

    def write(start):
        own = connector(url)()
        for k in range(start, start + n):
            own.write([shown_row(row, k, at=10)], [])
        own.close()

    def close():
        while not stop.is_set() or store.n_after(row.id, store.progress(row.id).horizon):
            horizon = store.progress(row.id).horizon
            reached = store.announce(row.id, horizon, 100, 7)
            if reached > horizon:
                found = [one.seq for one in store.impressions(row.id, horizon, reached)]
                seen.append((horizon, reached, found))

    threads = [threading.Thread(target=write, args=(1000 * (k + 1),)) for k in range(3)]
    closers = [threading.Thread(target=close) for _ in range(2)]
    for thread in (*threads, *closers):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    for thread in closers:
        thread.join()
    seen.sort()
    assert [a for a, _, _ in seen[1:]] == [b for _, b, _ in seen[:-1]]
    # what was read at the announcement is all there ever is
    every = [one.seq for one in store.impressions(row.id, 0, None)]
    assert [seq for _, _, found in seen for seq in found] == every
    assert sum(len(found) for _, _, found in seen) == 3 * n


def test_counters_keys_and_states(opened):
    store, _, row, _ = opened
    store.count({(row.id, "a"): 2})
    store.count({(row.id, "a"): 3, (row.id, "b"): 1})
    assert store.counters(row.id) == {"a": 5, "b": 1}
    store.add_key("k1", b"h" * 32, "read", 5)
    store.use_keys({"k1": 77})
    (key,) = store.callers()
    assert key == {"id": "k1", "hash": b"h" * 32, "scope": "read", "created_at": 5, "last_used_day": 77}
    before = store.change_number()
    assert store.set_state(row.id, "paused", now=2, who="me", reason="why")
    assert not store.set_state(row.id, "paused", now=2, who="me", reason="why")
    assert store.change_number() == before + 1
    assert store.forget(row.id, b"12345678") == 0
    assert store.integrity() == []


def test_the_service_on_postgres(postgres_url, open_client, tmp_path, capsys):
    rankings = {"prod": ["a", "b", "c"], "new": ["c", "b", "a"]}
    with open_client(postgres_url, secret_file=str(tmp_path / "s")) as client:
        client.create(kind="bandit")
        client.create("i")
        for k in range(10):
            _, shown = client.show(f"r{k}", key="i", rankings=rankings, unit="é")
            client.click({"token": shown["token"], "document": "b"})
            assert client.show(f"r{k}", key="i", rankings=rankings)[1]["replayed"]
        report = client.wait_closed("i")
        assert report["n_impressions"] == 10
        assert len(report["series"]) == 10
        assert client.export("i").count(b"\n") == 10
    assert main(["live", "check", "--store", postgres_url]) == 0
    assert main(["live", "backup", "--store", postgres_url, "-o", str(tmp_path / "x")]) == 2
    assert "pg_dump" in capsys.readouterr().err


def test_an_upgrade_from_the_first_schema(tmp_path, capsys):
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.executescript(FIRST)
    old.execute("INSERT INTO meta VALUES ('schema', '1')")
    config = json.dumps(CONFIG)
    old.execute(
        "INSERT INTO experiments VALUES (1, 'e', 1, 'running', ?, ?, ?, 5)", (config, b"s" * 16, b"u" * 16)
    )
    record = json.dumps({"documents": ["a", "b"], "evidence": [[0, 1]]})
    for seq in (1, 2, 3):
        old.execute(
            "INSERT INTO impressions VALUES (?, ?, 1, ?, NULL, 'interleaved', ?, NULL, NULL)",
            (seq, seq.to_bytes(16), 1000 * seq, record),
        )
    # in time; late by a second; to be counted
    clicks = [(1, 1, "click", 2000, None), (1, 2, "click", 12_000, None), (3, 1, "click", 3500, 2.0)]
    old.executemany("INSERT INTO clicks VALUES (?, ?, ?, ?, ?)", clicks)
    old.execute("INSERT INTO stats VALUES (1, 0, 0, '')")
    old.commit()
    old.close()
    url = f"sqlite:///{path}"
    for command in ("check", "serve"):
        assert main(["live", command, "--store", url]) == 2
        assert f"structsvm live migrate --store {url}" in capsys.readouterr().err
    assert main(["live", "migrate", "--store", url]) == 0
    assert capsys.readouterr().out == f"schema 1 -> {schema.VERSION}\n"
    fresh = f"sqlite:///{tmp_path / 'new.db'}"
    prepare(fresh)
    with closing(open_database(url)) as store, closing(open_database(fresh)) as made:
        for table in schema.tables.sorted_tables:
            columns = [
                {c["name"]: (str(c["type"]).replace("INTEGER", "BIGINT"), c["nullable"]) for c in found}
                for found in (inspect(s.reading).get_columns(table.name) for s in (store, made))
            ]
            assert columns[0] == columns[1], table.name
            names = [{i["name"] for i in inspect(s.reading).get_indexes(table.name)} for s in (store, made)]
            assert names[0] == names[1]
        assert [len(one.clicks) for one in store.impressions(1, 0, None)] == [1, 0, 1]
        assert store.n_late(1) == 1
        # and it goes on: what was open is closed, and all of it agrees
        assert Closer(store, Clock(), 0, 1).run() == 3
        assert Closer(store, Clock(), 0, 1).run() == 0
    assert main(["live", "check", "--store", url]) == 0


def test_a_store_of_a_later_release(store_url, capsys):
    prepare(store_url)
    store = open_database(store_url)
    with store.writing.begin() as connection:
        connection.execute(text("UPDATE meta SET value = '99' WHERE name = 'schema'"))
    store.close()
    assert main(["live", "migrate", "--store", store_url]) == 2
    assert "install the version of structsvm that wrote it" in capsys.readouterr().err


def test_put_compares_with_the_stored_configuration(opened):
    """The check is part of the transaction, so that concurrent calls do not create two equal revisions."""
    store, *_ = opened
    config = check_config({"rankers": ["a", "b"]})
    meant = {**config, "length": 5}
    rows = [
        store.put("k", given, now=n, who="w")
        for n, given in enumerate([config, config, meant, {**meant, "share": 0.5}])
    ]
    assert [row.revision for row in rows] == [1, 1, 2, 2]
    assert {row.state for row in rows} == {"draft"}
    assert [one.state for one in store.experiments(newest=False) if one.key == "k"] == ["stopped", "draft"]
    assert [row.config.get("epoch") for row in rows] == [None, None, None, 1]
    changes = [one.what for one in store.changes("k")]
    assert changes == ["changed", "new revision", "changed", "created"]
