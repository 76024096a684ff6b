"""Power loss: whatever of SQLite's unsynced writes reaches the disk, what was acknowledged is there afterwards."""

import random
import re
import shutil
import sqlite3
import subprocess
import sys

import pytest

from structsvm.live.store.opening import open_database, prepare
from structsvm.live.store.rows import StoreDown
from structsvm.live.store.sqlite import SqliteConnection

SECTOR = 512

WRITER = """
import json, os, sys
from pathlib import Path
from structsvm.live.store.opening import open_database, prepare
from structsvm.live.store.rows import ClickRow, ShownRow
from structsvm.live.store.sqlite import SqliteConnection

path = Path(sys.argv[1])
told = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
connection = SqliteConnection(path)
connection._connection.execute("PRAGMA wal_autocheckpoint = 20")
record = json.dumps({"documents": [f"document {k}" for k in range(20)], "evidence": [[0, 1] * 10]})
for k in range(int(sys.argv[3])):
    rows = [ShownRow(f"{k:08}-{j:07}".encode(), 1, k, None, "interleaved", record, None, None, None) for j in range(3)]
    clicks = [ClickRow(rows[0].id, 1, "click", k, None, k, 10**9)] if k % 2 else []
    connection.write(rows, clicks)
    os.write(told, b"%d\\n" % k)  # as the answer to the caller
"""


def recorded(trace, folder):
    """The writes and syncs of the store's files in their order: (kind, file, offset or length, bytes)."""

    def plain(text):
        return bytes.fromhex(text.replace("\\x", ""))

    events = []
    call_of_file = r"(\w+)\(\d+<((?:\\x..)+)>(.*)\)\s+= \d+$"
    for call, name, arguments in re.findall(call_of_file, trace.read_text(), flags=re.M):
        name, number = plain(name).decode(), arguments.rpartition(" ")[2]
        data = plain("".join(re.findall(r'"((?:\\x..)*)"', arguments)))
        if call == "pwrite64" and name.startswith(str(folder)) and not name.endswith("-shm"):
            events.append(("write", name, int(number), data))
        elif call == "write" and name.endswith("told"):
            events.append(("told", "", int(data), b""))
        elif call in ("fsync", "fdatasync"):
            events.append(("sync", name, 0, b""))
        elif call == "ftruncate":
            events.append(("cut", name, int(number), b""))
    return events


class Disk:
    """Files as they are after syncs, and the writes since then."""

    def __init__(self, folder):
        self.files = {
            str(path): bytearray(path.read_bytes()) for path in folder.iterdir() if "-shm" not in path.name
        }
        self.waiting = []

    @staticmethod
    def apply(files, event):
        kind, name, at, data = event
        file = files.setdefault(name, bytearray())
        if kind == "cut":
            del file[at:]
            file.extend(bytes(max(0, at - len(file))))
        else:
            file.extend(bytes(max(0, at + len(data) - len(file))))
            file[at : at + len(data)] = data

    def sync(self, name):
        for event in [one for one in self.waiting if one[1] == name]:
            self.apply(self.files, event)
        self.waiting = [one for one in self.waiting if one[1] != name]

    def after_power_loss(self, rng):
        """Some of the unsynced writes, sector by sector, in any order; some sectors torn off."""
        files = {name: bytearray(content) for name, content in self.files.items()}
        parts = []
        for kind, name, at, data in self.waiting:
            if kind == "cut":
                parts.append((kind, name, at, data))
            parts += [("write", name, at + k, data[k : k + SECTOR]) for k in range(0, len(data), SECTOR)]
        rng.shuffle(parts)
        keep = rng.choice([0.0, 0.2, 0.5, 0.8, 1.0])
        for part in parts:
            if rng.random() < keep:
                self.apply(files, part)
        return files


def lost(files, folder, told):
    """Of a disk after power loss: what is wrong with the store that is opened from it."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    for name, content in files.items():
        (folder / name.rpartition("/")[2]).write_bytes(content)
    try:
        return read_back(SqliteConnection(folder / "live.db"), told)
    except (sqlite3.DatabaseError, StoreDown) as error:
        return str(error)


def read_back(connection, told):
    """What of the acknowledged transactions a store does not have."""
    execute = connection._connection.execute
    try:
        if execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            return "damaged"
        ids = {bytes(row[0]).decode() for row in execute("SELECT id FROM impressions")}
        clicked = {bytes(row[0]).decode() for row in execute(
            "SELECT i.id FROM clicks c JOIN impressions i ON i.seq = c.impression")}  # fmt: skip
    finally:
        connection.close()
    for k in range(told + 1):
        missing = {f"{k:08}-{j:07}" for j in range(3)} - ids
        if missing or (k % 2 and f"{k:08}-{0:07}" not in clicked):
            return f"transaction {k} of {told + 1}"
    batches = {one.partition("-")[0] for one in ids}
    whole = all(f"{batch}-{j:07}" in ids for batch in batches for j in range(3))
    return "" if whole else "half a transaction"


@pytest.fixture
def story(tmp_path):
    """A store before its writes, and what was written, synced and acknowledged then."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace (Debian: apt install strace)")
    folder = tmp_path / "store"
    folder.mkdir()
    url = f"sqlite:///{folder / 'live.db'}"
    prepare(url)
    store = open_database(url)
    store.put("e", {"kind": "interleaving"}, fresh=True, state="running", now=0, who="", what="")
    store.close()
    disk, trace = Disk(folder), tmp_path / "trace"
    calls = "pwrite64,write,fsync,fdatasync,ftruncate"
    command = [strace, "-f", "-y", "-xx", "-s", "100000", "-e", calls, "-o", str(trace)]
    command += [sys.executable, "-c", WRITER, str(folder / "live.db"), str(tmp_path / "told"), "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode and "ptrace" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr[-100:]}")
    assert done.returncode == 0, done.stderr
    return disk, recorded(trace, folder)


def losses(disk, events, folder, rng, times, *, synced=True):
    """Cut the power at each sync and acknowledgement; return what is found after each."""
    found, told = [], -1
    for event in events:
        if event[0] == "told":
            told = event[2]
        if event[0] in ("sync", "told"):
            found += [lost(disk.after_power_loss(rng), folder, told) for _ in range(times)]
        if event[0] == "sync" and synced:
            disk.sync(event[1])
        elif event[0] in ("write", "cut"):
            disk.waiting.append(event)
    return told, found


def test_what_was_acknowledged_survives_a_power_loss(story, tmp_path):
    disk, events = story
    kinds = [event[0] for event in events]
    assert kinds.count("told") == 40
    assert kinds.count("sync") >= 40  # one per commit at least, and those of checkpoints
    # a checkpoint among them
    assert any(name.endswith(".db") for kind, name, *_ in events if kind == "write")
    told, found = losses(disk, events, tmp_path / "after", random.Random(0), 2)
    assert told == 39
    assert len(found) >= 160
    assert set(found) == {""}


def test_without_syncs_it_would_be_noticed(story, tmp_path):
    """The twin: a disk that passes over syncs loses what was acknowledged."""
    disk, events = story
    _, found = losses(disk, events, tmp_path / "after", random.Random(0), 1, synced=False)
    assert sum(bool(one) for one in found) > len(found) / 4
