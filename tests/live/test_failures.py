"""Failures: production is shown, nothing is lost, and the service recovers by itself."""

import asyncio
import contextlib
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from structsvm.cli import main
from structsvm.live.contract.clock import Clock
from structsvm.live.store import sqlite
from structsvm.live.store.backups import Backups
from tests.live.processes import wait_until
from tests.live.samples import RANKINGS

_BUSY_S = sqlite.BUSY_S  # before any test


def assert_production(client, request):
    """Assert that the unrecorded list of production is served although the store does not answer."""
    status, shown = client.show(request)
    assert (status, shown["serve"], shown["why"], shown["token"]) == (200, "production", "store", None)
    assert shown["documents"] == RANKINGS["prod"][:10]


def assert_recovers(client, request):
    client.wait_until(lambda: client.show(request)[1]["serve"] == "interleaved")


@pytest.fixture
def impatient(monkeypatch):
    """Wait for locks only as long as the service does by default."""
    monkeypatch.setattr(sqlite, "BUSY_S", _BUSY_S)


def path_of(client):
    return client.service.settings.sqlite_path


@contextlib.contextmanager
def locked(client):
    """Let another program hold the lock of the store."""
    with contextlib.closing(sqlite3.connect(path_of(client), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_locked_database(client):
    client.create()
    _, first = client.show("r1")
    with locked(client):
        assert_production(client, "r2")
        status, answer = client.click({"token": first["token"], "place": 1})
        assert (status, answer["error"]["code"]) == (503, "store")
    assert_recovers(client, "r3")
    taken = client.click({"token": first["token"], "place": 1})[1]
    # the click that was refused may have been stored when the lock went
    assert taken["accepted"] + taken["duplicate"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_full_disk(open_client, monkeypatch):
    real, made = sqlite._connect, []

    def connect(path):
        made.append(real(path))
        return made[-1]

    monkeypatch.setattr(sqlite, "_connect", connect)
    with open_client() as client:
        client.create()
        _, first = client.show("r1")
        room = made[-1].execute("PRAGMA max_page_count").fetchone()[0]
        size = made[-1].execute("PRAGMA page_count").fetchone()[0]
        monkeypatch.setattr(sqlite, "_connect", lambda path: _limited(connect(path), size))
        for connection in made:
            with contextlib.suppress(sqlite3.ProgrammingError):  # closed
                _limited(connection, size)
        refused = []
        for k in range(400):
            _, shown = client.show(f"f{k}")
            if shown["serve"] == "production":
                assert shown["why"] == "store"
                refused.append(f"f{k}")
        assert len(refused) > 3
        assert "full" in client.service.writer.failing
        assert client.call("GET", "/readyz")[0] == 503
        monkeypatch.setattr(sqlite, "_connect", lambda path: _limited(connect(path), room))
        assert_recovers(client, "r3")
        # what was refused was not stored
        assert not any(client.show(request)[1]["replayed"] for request in refused)
        assert client.click({"token": first["token"], "place": 1})[1]["accepted"] == 1
        assert client.call("GET", "/readyz")[0] == 200


def _limited(connection, pages):
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return connection


@pytest.mark.usefixtures("impatient")
def test_a_database_that_is_gone_and_back(client):
    client.create()
    _, first = client.show("r1")
    path = path_of(client)
    moves = [(f"{path}{suffix}", f"{path}.away{suffix}") for suffix in ("", "-wal", "-shm")]
    for there, away in moves:
        Path(there).rename(away)
    assert_production(client, "r2")
    assert not path.exists()  # it is not made anew, empty
    assert client.call("GET", "/readyz")[0] == 503
    for there, away in moves:
        Path(away).rename(there)
    assert_recovers(client, "r3")
    assert client.show("r1")[1] == {**first, "replayed": True}
    assert client.click({"token": first["token"], "place": 1})[1]["accepted"] == 1


@pytest.mark.usefixtures("impatient")
def test_strict_mode_returns_503_if_the_store_is_locked(open_client):
    with open_client(strict=True, behind_s=0.1) as client:
        client.create()
        with locked(client):
            status, answer = client.show("r1")
        assert (status, answer["error"]["code"]) == (503, "store")


@pytest.mark.usefixtures("impatient")
def test_a_list_that_was_given_up_is_not_stored_later(open_client):
    """A request that waited too long and is not yet being written never is."""
    with open_client(behind_s=0.1) as client:
        client.create()
        with locked(client):
            assert_production(client, "r1")  # this one is on its way
            for k in range(5):
                assert_production(client, f"waits {k}")
        assert_recovers(client, "r3")
        assert len(client.stored()) <= 2


def test_a_worker_that_has_not_heard_of_the_experiment(open_client):
    with open_client() as one, open_client() as two:
        one.create()
        shown = one.show("r1")[1]
        assert "e" not in two.service.registry.by_key
        status, answer = two.click({"token": shown["token"], "place": 1})
        assert (status, answer["accepted"]) == (200, 1)
        # a request repeated at another worker is the same impression
        assert two.show("r1")[1] == {**shown, "replayed": True}


def test_a_clock_that_is_set_back():
    wall = [10_000_000]
    monotonic = [0]

    class Own(Clock):
        _wall = staticmethod(lambda: wall[0])
        _monotonic = staticmethod(lambda: monotonic[0])

    clock = Own()
    times = []
    for step, real in ((1000, 1000), (-3_600_000, 10), (1000, 1000), (4_000_000, 20), (5, 5)):
        wall[0] += step
        monotonic[0] += real
        times.append(clock.now())
    assert all(b > a for a, b in pairwise(times))
    assert times[2] - times[1] == 1000  # it goes on at the pace of the other clock
    assert times[-1] == wall[0]
    # one that starts while the clock is behind goes on from what is stored
    behind = Own()
    behind.keep_above(wall[0] + 500)
    assert behind.now() >= wall[0] + 500


def test_the_clock_does_not_jump_if_the_process_halts_between_readings():
    now, halts = [0], iter([0, 500, *[0] * 9])

    class Own(Clock):
        @staticmethod
        def _wall():
            read = now[0]
            now[0] += next(halts)  # the process is halted after the reading
            return read

        _monotonic = _wall

    clock = Own()
    assert [clock.now() for _ in range(3)] == [500] * 3 == [now[0]] * 3


def test_impressions_after_the_clock_was_set_back_are_closed_in_order(client):
    client.create(window_s=0.2)
    client.show("r1")
    ahead = client.service.clock.now() + 700
    client.service.clock._last = ahead  # as if the clock had been ahead
    _, shown = client.show("r2")
    client.service.clock = Clock()  # another worker, whose clock is right
    client.click({"token": shown["token"], "place": 1})
    client.show("r3")
    assert client.wait_closed()["n_impressions"] == 3
    times = [one.shown_at for one in client.stored()]
    assert times != sorted(times)
    assert [
        one["shown_at"] <= click["at"] for one in client.service.rows("e") for click in one["clicks"]
    ] == [True]
    assert main(["live", "check", "--store", client.service.settings.store]) == 0


def test_a_token_of_a_list_that_a_restore_lost_is_good_for_no_other(open_client, tmp_path):
    """The same search asked again after a restore gets the same id, but maybe other documents."""
    with open_client() as client:
        client.create()
        _, kept = client.show("before")
        sqlite.backup(path_of(client), tmp_path / "copy.db")
        _, lost = client.show("after")
        path, window = path_of(client), client.longest
    for part in ("-wal", "-shm"):
        Path(f"{path}{part}").unlink(missing_ok=True)
    (tmp_path / "copy.db").replace(path)
    with open_client() as client:
        client.longest = window
        old = {"token": lost["token"], "place": 1}
        assert client.click(old)[1]["error"]["code"] == "unknown_impression"
        _, again = client.show("after", rankings={"prod": ["x", "y"], "new": ["y", "x"]})
        assert set(again["documents"]) == {"x", "y"} != set(lost["documents"])
        assert client.click(old)[1]["error"]["code"] == "unknown_impression"
        assert client.click({"token": lost["token"], "document": lost["documents"][0]})[0] == 422
        for shown in (kept, again):
            assert client.click({"token": shown["token"], "place": 1})[1]["accepted"] == 1
        client.wait_closed()
        assert [len(one["clicks"]) for one in client.service.rows("e")] == [1, 1]


@pytest.mark.usefixtures("impatient")
def test_the_end_waits_for_what_still_reads(open_client, monkeypatch):
    """If a store is closed while a thread uses it, the connection of the thread stays open."""
    order, reading = [], threading.Event()
    with open_client(behind_s=0.1) as client:
        store = client.service.store
        callers, close = store.callers, store.close

        def slow():
            reading.set()
            time.sleep(0.3)
            found = callers()
            order.append("read")
            return found

        monkeypatch.setattr(store, "callers", slow)
        monkeypatch.setattr(store, "close", lambda: (order.append("closed"), close()))
        while not reading.is_set():
            client.run(asyncio.sleep(0.01))
    assert order[-2:] == ["read", "closed"]


def test_a_port_in_use(tmp_path, capsys):
    """No files are created for a service that cannot listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["live", "serve", "--port", str(port), "--store", f"sqlite:///{tmp_path / 'x.db'}"]) == 2
    assert f"--port: expected a free port on 127.0.0.1, got {port}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_regular_backups(open_client, tmp_path):
    """The first backup is made at once, others hourly; the newest ones are kept, each complete."""
    folder = tmp_path / "copies"
    with open_client(backup_folder=str(folder), backup_every_h=1, backups_kept=2) as client:
        client.create()
        client.show("r")
        backups = Backups(path_of(client), folder, 3600, 2)
        client.wait_until(lambda: backups.newest_at() is not None)
        (first,) = backups.files()
        assert not backups.is_due()
        for seconds in (-3700, 3700):
            stamp = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y%m%dT%H%M%SZ")
            first = first.rename(folder / f"live-{stamp}.db")
            assert backups.is_due()
        backups.make()
        assert not backups.is_due()  # beside a copy of a clock that was ahead
        old = first.rename(folder / "live-20200101T000000Z.db")
        foreign = [folder / name for name in ("live-notes.db", "live-aZ.db", "live-20261399T000000Z.db")]
        for other in foreign:
            other.touch()
        assert backups.files()[0] == old
        (folder / "live-20200102T000000Z.db").touch()
        second = backups.make()
        assert old not in backups.files()
        assert len(backups.files()) == 2
        assert all(other.exists() for other in foreign)
        assert sorted(one.name for one in folder.iterdir() if one.name[0] == ".") == []
    assert main(["live", "check", "--store", f"sqlite:///{second}"]) == 0
    with contextlib.closing(sqlite3.connect(second)) as found:
        assert found.execute("SELECT count(*) FROM impressions").fetchone() == (1,)


def test_a_backup_folder_that_cannot_be_written_stops_nothing(open_client, tmp_path, caplog):
    (tmp_path / "copies").write_text("a file")
    with open_client(backup_folder=str(tmp_path / "copies")) as client:
        client.wait_until(lambda: "cannot back up" in caplog.text)
        client.create()
        assert client.show("r")[1]["token"] is not None


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE clicks SET place = 3 - place", "statistics|series"),
        ("DELETE FROM impressions WHERE seq = 4", "clicks of missing impressions|statistics"),
        ("UPDATE stats SET watermark = watermark - 1", "statistics"),
        ("UPDATE series SET snapshot = replace(snapshot, '\"p\":', '\"p\":1') WHERE n = 3", "series"),
        ("UPDATE impressions SET record = replace(record, '[[0', '[[1')", "statistics"),
        ("UPDATE clicks SET at = at + 100000000", "after the window"),
    ],
)
def test_the_check_finds_damage(client, tmp_path, capsys, damage, said):
    client.create(length=2)
    for k in range(12):
        _, shown = client.show(f"r{k}")
        assert client.click({"token": shown["token"], "place": 1})[1]["accepted"] == 1
    client.wait_closed()
    assert main(["live", "check", "--store", client.service.settings.store]) == 0
    copy = tmp_path / "damaged.db"
    sqlite.backup(path_of(client), copy)
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute(damage)
    capsys.readouterr()
    assert main(["live", "check", "--store", f"sqlite:///{copy}"]) == 3
    assert re.search(said, capsys.readouterr().err)


def test_a_file_in_the_place_of_the_store(tmp_path, capsys):
    path = tmp_path / "no.db"
    path.write_text("no database at all, but some text " * 50)
    assert main(["live", "check", "--store", f"sqlite:///{path}"]) == 2
    assert "expected a database" in capsys.readouterr().err
    assert main(["live", "check", "--store", f"sqlite:///{tmp_path / 'none.db'}"]) == 2
    assert main(["live", "init", "--store", f"sqlite:///{tmp_path / 'no' / 'x.db'}"]) == 2
    assert "expected an existing folder" in capsys.readouterr().err


def test_a_damaged_store_is_one_line(client, tmp_path, capsys):
    client.create(length=2)
    for k in range(200):
        client.show(f"r{k}")
    copy = tmp_path / "damaged.db"
    sqlite.backup(path_of(client), copy)
    content = bytearray(copy.read_bytes())
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    copy.write_bytes(content)
    assert main(["live", "check", "--store", f"sqlite:///{copy}"]) == 2
    said = capsys.readouterr().err
    assert "damaged.db: expected a usable store, got: database disk image is malformed" in said
    assert said.count("\n") == 1


@pytest.mark.slow
def test_workers_end_with_the_main_process(serve):
    served = serve(workers=2)
    workers = served.children()
    assert len(workers) == 2
    served.process.kill()
    served.process.wait()
    wait_until(lambda: not any(is_running(pid) for pid in workers))
    served.start()  # on the same port
    assert served.call("GET", "/readyz")[0] == 200
    assert "the main process has died" in served.log.read_text()  # one may still have been starting


def is_running(pid):
    """Return whether a process is running; a zombie is not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_one_experiment_that_cannot_be_closed_stops_no_other(client):
    """The service reports that it is not ready, the delay, and the cause, until the experiment is stopped."""
    for key in ("a", "b"):
        client.create(key)
        client.show("r", key)
    with client.service.store.writing.begin() as connection:
        connection.exec_driver_sql("UPDATE impressions SET record = '{' WHERE experiment = 1")
    for _ in range(2):  # the second time it is late
        client.let_windows_pass()
    client.service.closer.run()
    assert (client.report("a")["pending"], client.report("b")["pending"]) == (1, 0)
    status, found = client.call("GET", "/readyz")
    assert (status, found["ready"], list(found["closing_fails"])) == (503, False, ["a revision 1"])
    assert found["closer_lag_s"] > 0.1
    client.run(asyncio.sleep(1.0))  # what keeps the figures up
    text = client.request("GET", "/metrics").text
    (lag,) = [line for line in text.splitlines() if line.startswith("structsvm_live_closer_lag_seconds ")]
    assert float(lag.split()[1]) > 0.1
    client.set_state("stopped", "a")
    assert client.call("GET", "/readyz")[0] == 200
    client.service.closer._stopped[1] = 0
    client.service.closer.run()
    assert client.call("GET", "/readyz")[1]["closing_fails"] == {}
    assert all(row.closed for row in client.service.store.experiments() if row.key == "a")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_threads_that_die_are_started_again(client, monkeypatch):
    """Threads are restarted after any exception; meanwhile the service is not ready and reports the delay."""
    client.create()
    client.show("r")
    service = client.service
    rounds = []
    monkeypatch.setattr(type(service.upkeep), "_revive", lambda self: rounds.append(self))
    service.closer._stop.set()
    service.closer._thread.join()
    service.closer._stop.clear()
    service.writer._lock = None  # a defect
    service.writer._wake.set()
    service.writer._thread.join(5)
    status, found = client.call("GET", "/readyz")
    assert (status, found["closer"], found["writer"]) == (503, False, False)
    before = len(rounds)
    client.wait_until(lambda: len(rounds) > before + 1)  # the loop goes on, although the writer is defective
    service.writer._lock = threading.Lock()
    monkeypatch.undo()
    client.wait_until(lambda: client.call("GET", "/readyz")[0] == 200)
    assert client.show("r3")[1]["serve"] == "interleaved"


WORKER = """
import os, signal, sys
from structsvm.live.contract.metrics import Metrics
own = Metrics()
for gauge in (own.waiting, own.failing, own.lag, own.closed, own.backup):
    gauge.set(7)
own.alarm.labels("e", "slow").set(1)
own.state.labels("e", "running").set(1)
own.shown.labels("production", "store").inc()
if sys.argv[1] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
print(own.text().decode())
"""


def test_gauges_of_a_worker_that_was_killed_are_gone_and_its_counters_stay(tmp_path):
    def run(how):
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-c", WORKER, how], env=environment, capture_output=True, text=True
        ).stdout

    for _ in range(2):
        assert run("dies") == ""
    figures = dict(
        line.rsplit(" ", 1) for line in run("lives").splitlines() if " " in line[1:] and line[0] != "#"
    )
    name = "structsvm_live_"
    gauges = ("waiting", "store_failing", "closer_lag_seconds", "folded", "backup_timestamp_seconds")
    assert [float(figures[name + one]) for one in gauges] == [7.0] * 5
    assert figures[name + 'shown_total{serve="production",why="store"}'] == "3.0"
    assert len(list(tmp_path.glob("gauge_live*"))) == 2  # of the one that lives, summed and largest
