"""What the live service takes on this machine: CPU per request, requests per second, latencies, report, closer, memory.

The load comes from another process over loopback (``live_load.py``) and shares the processors, so latencies are upper
and rates lower bounds; CPU per request is of the service's processes alone, closing included. Targets: CPU <= 0.35 ms
per request (one worker, SQLite, every commit on disk), >= 2,000 requests per second with two workers on two free
processors, p99 <= 25 ms at 100 lists per second, report <= 50 ms at 10^7 closed impressions, closer >= 15,000
impressions per second, memory flat.

    python experiments/benchmarks/live.py [PART ...] [--quick] [--store URL] [--workers N ...] [--requests N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from live_load import RANKINGS, load

TICK = os.sysconf("SC_CLK_TCK")


class Service:
    """``structsvm live serve`` as a child process."""

    def __init__(self, store: str, workers: int, folder: Path) -> None:
        with socket.socket() as own:
            own.bind(("127.0.0.1", 0))
            self.port = own.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "structsvm",
            "live",
            "serve",
            "--no-keys",
            "--port",
            str(self.port),
            "--store",
            store,
        ]
        command += ["--workers", str(workers), "--secret-file", str(folder / "secret")]
        began = time.perf_counter()
        self.process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        while True:
            try:
                if asyncio.run(self.ask("GET", "/readyz", None))[0] == 200:
                    break
            except OSError:
                time.sleep(0.02)
        self.start_s = time.perf_counter() - began

    async def ask(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        connection = await Connection.open(self.port)
        try:
            return await connection.ask(method, path, body)
        finally:
            connection.close()

    def _members(self) -> list[int]:
        group = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.getpgid(int(entry.name)) == self.process.pid:
                        group.append(int(entry.name))
                except OSError:
                    continue
        return group

    def cpu_s(self) -> float:
        """Return the processor seconds of all its processes."""
        total = 0
        for pid in self._members():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICK

    def memory_mb(self) -> float:
        """Return the resident memory of all its processes."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self._members())
        return pages * resource.getpagesize() / 1e6

    def unrecorded(self) -> dict[str, int]:
        """Return the number of lists that were not interleaved, by the service's reason."""
        text = asyncio.run(self.ask("GET", "/metrics", None))[1].decode()
        found = re.findall(r'live_shown_total\{serve="production",why="(\w+)"\} (\S+)', text)
        return {why: round(float(n)) for why, n in found}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)


class Connection:
    """An HTTP/1.1 client with minimal overhead."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
        self.writer.write(head.encode() + content)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        return int(answer[9:12]), await self.reader.readexactly(length)

    def close(self) -> None:
        self.writer.close()


def percentiles(seconds: list[float]) -> list[float]:
    return [round(1000 * float(np.quantile(seconds, q)), 2) for q in (0.5, 0.99)] if seconds else []


def measure_load(store: str, workers: int, seconds: float, folder: Path) -> dict[str, object]:
    service = Service(store, workers, folder)
    try:
        config = {"rankers": ["prod", "new"], "production": "prod", "window_s": 2}
        asyncio.run(service.ask("PUT", "/v1/experiments/load", config))
        asyncio.run(service.ask("POST", "/v1/experiments/load/state", {"to": "running"}))
        time.sleep(1.5)
        load("closed", service.port, 16, 1.0, f"warm{time.time_ns()}")
        before, began = service.cpu_s(), time.perf_counter()
        times = load("closed", service.port, 16, seconds, f"c{time.time_ns()}")
        took = time.perf_counter() - began
        n = len(times["show"]) + len(times["click"])
        found: dict[str, object] = {
            "workers": workers,
            "start_s": round(service.start_s, 2),
            "requests_per_s": round(n / seconds),
            "load_cpu_ms_per_request": round(1000 * times["cpu"][0] / n, 3),
            # includes the closer, which runs in the same processes
            "cpu_ms_per_request": round(1000 * (service.cpu_s() - before) / n, 3),
            "closed_show_ms": percentiles(times["show"]),
            "closed_click_ms": percentiles(times["click"]),
            "refused": len(times["refused"]),
            "unrecorded": service.unrecorded(),
            "seconds": round(took, 1),
        }
        time.sleep(5)  # until what was shown is closed: the load that follows is small
        found["cpu_ms_per_request_closed"] = round(1000 * (service.cpu_s() - before) / n, 3)
        times = load("open", service.port, 100, seconds, f"o{time.time_ns()}")
        found |= {
            "open_show_ms": percentiles(times["show"]),
            "open_click_ms": percentiles(times["click"]),
            "open_refused": len(times["refused"]),
        }
        return found
    finally:
        service.stop()


def measure_memory(store: str, n_requests: int, folder: Path) -> dict[str, object]:
    """Return the resident memory after each tenth of the requests."""
    service = Service(store, 1, folder)
    try:
        config = {"rankers": ["prod", "new"], "production": "prod", "window_s": 2}
        asyncio.run(service.ask("PUT", "/v1/experiments/load", config))
        asyncio.run(service.ask("POST", "/v1/experiments/load/state", {"to": "running"}))
        time.sleep(1)
        done, marks = 0, []
        while done < n_requests:
            times = load("closed", service.port, 16, 5.0, f"m{time.time_ns()}")
            done += len(times["show"]) + len(times["click"])
            if done >= n_requests * (len(marks) + 1) / 10:
                marks.append([done, round(service.memory_mb(), 1)])
                print(f"  {done:,} requests: {marks[-1][1]} MB", flush=True)
        return {"memory_mb": marks}
    finally:
        service.stop()


def measure_closer(store: str, n: int, folder: Path) -> dict[str, object]:
    """Return the impressions per second that the closer reads, credits, folds and stores."""
    from structsvm.live.contract.clock import Clock
    from structsvm.live.contract.config import check_config
    from structsvm.live.contract.tokens import impression_id
    from structsvm.live.counting.closing import Closer
    from structsvm.live.experiment.draw import draw
    from structsvm.live.store.opening import connector, open_database, prepare
    from structsvm.live.store.rows import ClickRow, ShownRow

    prepare(store)
    opened = open_database(store)
    config = check_config({"rankers": ["prod", "new"], "production": "prod", "window_s": 1})
    key = f"closer{time.time_ns()}"
    row = opened.put(key, config, fresh=True, state="running", now=1, who="benchmark", what="made")
    connection = connector(store)()
    rng = np.random.default_rng(0)
    made = []
    for k in range(1000):
        shown = draw("team_draft", list(RANKINGS.values()), 10, row.salt, str(k))
        evidence = [list(line) for line in shown.evidence]
        made.append(
            json.dumps({"documents": list(shown.documents), "evidence": evidence}, separators=(",", ":"))
        )
    began = time.perf_counter()
    for start in range(0, n, 1000):
        ids = [impression_id(row.salt, str(k), 0) for k in range(start, start + 1000)]
        shows = [
            ShownRow(i, row.id, 1000 + start, None, "interleaved", made[k], None, None, None)
            for k, i in enumerate(ids)
        ]
        clicks = [
            ClickRow(i, int(rng.integers(1, 11)), "click", 1500 + start, None, 1000 + start, 2000 + start)
            for i in ids
        ]
        connection.write(shows, clicks)
    stored_s = time.perf_counter() - began
    connection.close()
    closer = Closer(opened, Clock(), 0, 1.0)
    cpu, began = time.process_time(), time.perf_counter()
    counts = closer.run()
    cpu, took = time.process_time() - cpu, time.perf_counter() - began
    opened.close()
    return {
        "closer_per_s": round(counts / took),
        "closer_per_cpu_s": round(counts / cpu),
        "stored_rows_per_s": round(2 * n / stored_s),
    }


def measure_report(store: str, n: int) -> dict[str, object]:
    """Return the time of a report over ``n`` closed impressions."""
    from structsvm.live.contract.config import check_config
    from structsvm.live.counting.closing import Counts, next_snapshot
    from structsvm.live.counting.reporting import Reports
    from structsvm.live.store.opening import open_database, prepare
    from structsvm.online.interleaving import Shown

    prepare(store)
    opened = open_database(store)
    config = check_config({"rankers": ["prod", "new"], "production": "prod", "window_s": 1})
    key = f"report{time.time_ns()}"
    row = opened.put(key, config, fresh=True, state="running", now=1, who="benchmark", what="made")
    rng = np.random.default_rng(0)
    teams = [tuple(int(t) for t in rng.permutation([0, 1] * 5)) for _ in range(100_000)]
    documents = tuple(RANKINGS["prod"][:10])
    lists = [Shown("team_draft", documents, 2, (team,)) for team in teams]
    places = [(int(rng.integers(10)),) for _ in lists]
    counts = Counts(config)
    assert counts.running is not None
    began = time.perf_counter()
    for _ in range(n // len(lists)):
        counts.running.add(lists, places)
    took = time.perf_counter() - began
    snapshots, at = [], 0
    while (at := next_snapshot(at)) <= n:
        snapshots.append(
            (
                at,
                json.dumps({"n": at, "at": at, "pairs": [{"mean": 0.1, "lower": 0.0, "upper": 0.2, "p": 1}]}),
            )
        )
    opened.save_counts(row.id, opened.progress(row.id), counts.to_json(), snapshots)
    Reports(opened).of(row, 10**12)  # loads what it needs
    seconds, cpu = [], []
    for _ in range(20):
        began, used = time.perf_counter(), time.process_time()
        Reports(opened).of(row, 10**12)
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    opened.close()
    return {
        "report_impressions": counts.running.n_impressions,
        "report_ms": percentiles(seconds),
        "report_cpu_ms": percentiles(cpu),
        "fold_us_per_impression": round(1e6 * took / counts.running.n_impressions, 2),
        "state_bytes": len(counts.to_json()),
        "series": len(snapshots),
    }


PARTS = ("report", "closer", "load", "memory")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all but memory by default"
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--store", help="URL of an empty store instead of a temporary SQLite file")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--requests", type=int, default=10**6, help="of memory")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part not in PARTS:
            parser.error(f"expected parts of {', '.join(PARTS)}, got {part}")
    parts = arguments.parts or PARTS[:3]
    found: dict[str, object] = {}

    def note(figures: dict[str, object]) -> None:
        found.update(figures)
        print(figures, flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = arguments.store or f"sqlite:///{folder / 'live.db'}"
        if "report" in parts:
            note(measure_report(store, 10**6 if arguments.quick else 10**7))
        if "closer" in parts:
            note(measure_closer(store, 20_000 if arguments.quick else 100_000, folder))
        if "load" in parts:
            for workers in arguments.workers:
                note(
                    {
                        f"load_{workers}": measure_load(
                            store, workers, 4.0 if arguments.quick else 15.0, folder
                        )
                    }
                )
        if "memory" in parts:
            note(measure_memory(store, arguments.requests, folder))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
