"""Training on a Dask cluster of processes on this machine: rounds, slope, memory, faults, and two tree boosters.

    python experiments/benchmarks/scale_out.py [--parts rounds slope memory faults peers] [--rows 1e6 2e6 4e6 8e6]

Data: queries of 120 documents with float32 features, graded labels of a noisy linear model (noise 1), written to
Parquet files whose borders cut queries, and to a store. Two worker processes of one thread, three for the faults.
Seconds are of a machine that others may use, too; counts and bytes are exact. Last line: JSON.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from structsvm import StructuralRanker
from structsvm.dask import DaskStructuralRanker
from structsvm.dask.cluster import DaskPartitions
from structsvm.metrics import evaluate
from structsvm.readers import make_ranking, open_store, read_parquet, write_ranking_store

DOCS = 120


def cluster_of(n: int) -> tuple[Any, Any]:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    cluster = LocalCluster(
        n_workers=n, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    )
    return cluster, Client(cluster)


def write_tables(folder: Path, n_queries: int, width: int, n_files: int, seed: int = 0) -> str:
    """Parquet files of equal numbers of rows, whose borders cut queries."""
    import pyarrow
    from pyarrow import parquet

    data = make_ranking(n_queries, DOCS, width, noise=1.0, dtype=np.float32, random_state=seed)
    folder.mkdir()
    borders = np.linspace(0, data.n_rows, n_files + 1).astype(int)
    borders[1:-1] += 7
    for k in range(n_files):
        rows = slice(borders[k], borders[k + 1])
        columns = {f"f{j}": data.X[rows, j] for j in range(width)}
        columns |= {"label": data.y[rows].astype(np.int32), "qid": data.qid[rows]}
        parquet.write_table(pyarrow.table(columns), folder / f"part-{k:03d}.parquet")
    return str(folder / "*.parquet")


def busy(client: Any) -> float:
    """Seconds that the processors spent on all workers so far."""
    return float(sum(client.run(time.process_time).values()))


class Rounds:
    """Seconds and bytes of each round, counted where they leave and come back."""

    def __init__(self) -> None:
        self.all: list[tuple[str, float, int, int]] = []
        self.cpu: dict[str, list[float]] = {}
        self._each = DaskPartitions.each
        rounds = self

        def each(parts: Any, method: str, payloads: Any) -> Any:
            cpu = busy(parts._client) if method in ("descend", "certify") else 0.0
            start = time.perf_counter()
            answers = rounds._each(parts, method, payloads)
            seconds = time.perf_counter() - start
            if cpu:
                cpu = busy(parts._client) - cpu
            rounds.cpu.setdefault(method, []).append(cpu)
            sent = sum(len(pickle.dumps(p)) for p in payloads) // len(payloads)
            back = sum(len(pickle.dumps(a)) for a in answers) // len(answers)
            rounds.all.append((method, seconds, sent, back))
            return answers

        DaskPartitions.each = each  # type: ignore[method-assign]

    def take(self) -> list[tuple[str, float, int, int]]:
        taken, self.all = self.all, []
        return taken


def resident(client: Any) -> dict[str, float]:
    """Resident bytes of each worker, and the most there were."""

    def look() -> tuple[int, int]:
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(lines["RssAnon"].split()[0]) * 1024, int(lines["VmHWM"].split()[0]) * 1024

    found = client.run(look)
    return {"anonymous": max(a for a, _ in found.values()), "peak": max(b for _, b in found.values())}


def rounds_section(client: Any, folder: Path) -> list[dict[str, Any]]:
    """Latency of a round that does nothing, by partitions."""
    from dask import delayed

    data = make_ranking(2048, 4, 3, noise=1.0, random_state=0)
    rows = []
    for n_parts in (2, 8, 32, 128):
        borders = np.linspace(0, data.n_queries, n_parts + 1).astype(int)
        pieces = [delayed(data.select(np.arange(a, b))) for a, b in pairwise(borders)]
        counted = Rounds()
        DaskStructuralRanker("map", C=1.0, client=client).fit(pieces)
        fit = counted.take()
        DaskPartitions.each = counted._each  # type: ignore[method-assign]
        small = [seconds for method, seconds, _, _ in fit if method in ("slope", "improve", "describe")]
        rows.append({"partitions": n_parts, "ms a round": round(1e3 * float(np.median(small)), 1)})
        print(rows[-1], flush=True)
    return rows


def slope_section(client: Any, folder: Path, sizes: list[int], width: int) -> list[dict[str, Any]]:
    """Seconds of a pass and bytes of a round, by rows; from a store, which is mapped."""
    rows = []
    for n in sizes:
        store = folder / f"{n}.store"
        write_ranking_store(store, n // DOCS, DOCS, width, noise=1.0, random_state=0)
        counted = Rounds()
        start = time.perf_counter()
        model = DaskStructuralRanker("map", C=10.0, client=client).fit(store)
        seconds = time.perf_counter() - start
        counted_rounds = counted.take()
        DaskPartitions.each = counted._each  # type: ignore[method-assign]
        passes = {m: min(counted.cpu[m]) for m in ("descend", "certify")}
        sent = next((s, b) for method, _, s, b in counted_rounds if method == "certify")
        rows.append(
            {
                "rows": n, "GB": round(4e-9 * n * width, 2), "fit s": round(seconds, 1), "passes": model.fit_.n_passes,
                "descend, cpu s": round(passes["descend"], 2),
                "certify, cpu s": round(passes["certify"], 2),
                "cpu s a million rows": round(1e6 * sum(passes.values()) / 2 / n, 3), "bytes out": sent[0],
                "bytes back": sent[1],
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
        for file in store.iterdir():
            file.unlink()
        store.rmdir()
    return rows


def memory_section(folder: Path, n_queries: int, width: int) -> list[dict[str, Any]]:
    """Memory of a worker, in units of its rows: peak while reading Parquet files, and after training."""
    tables = write_tables(folder / "memory", n_queries, width, 8)
    size = 4 * n_queries * DOCS * width / 2
    cluster, client = cluster_of(2)
    with cluster, client:
        client.run(_import)
        empty = resident(client)
        model = DaskStructuralRanker("map", C=10.0, client=client, groups="mend")
        model.callback = lambda progress: seen.append(resident(client))
        seen: list[dict[str, float]] = []
        start = time.perf_counter()
        model.fit(tables)
        row = {
            "rows GB a worker": round(size / 1e9, 2),
            "empty worker GB": round(empty["anonymous"] / 1e9, 2),
            "after reading": round((seen[0]["anonymous"] - empty["anonymous"]) / size, 2),
            "after training": round((seen[-1]["anonymous"] - empty["anonymous"]) / size, 2),
            "peak": round((seen[-1]["peak"] - empty["anonymous"]) / size, 2),
            "fit s": round(time.perf_counter() - start, 1),
        }
    print(row, flush=True)
    return [row]


def _import() -> None:
    import structsvm.dask.rows  # noqa: F401


def faults_section(folder: Path, n_queries: int, width: int) -> list[dict[str, Any]]:
    """What a killed worker costs, by the moment."""
    tables = write_tables(folder / "faults", n_queries, width, 8)
    data = read_parquet(tables)
    one = StructuralRanker("map", C=100.0, tol=1e-6).fit(data.X, data.y, qid=data.qid)
    problem = StructuralRanker("map")._bind(data, np.ones(data.n_queries))
    rows = []
    cluster, client = cluster_of(3)
    with cluster, client:
        client.run(_import)
        moments = {
            "none": (0, 0, 0.0),
            "while reading": (0, 1, 0.2),
            "before the first certificate": (1, 1, 0.0),
            "in a certificate": (1, 1, 0.05),
            "before a descent": (2, 1, 0.0),
            "in a descent": (2, 1, 0.05),
            "all but one": (2, 2, 0.0),
        }
        for moment, (at, count, later) in moments.items():
            client.wait_for_workers(3, timeout=120)

            def strike(pass_: int, at: int = at, count: int = count, later: float = later) -> None:
                if pass_ == at and count:
                    pids = list(client.run(os.getpid).values())[:count]
                    timer = threading.Timer(later, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids])
                    timer.start()
                    if not later:
                        timer.join()

            counted = Rounds()
            model = DaskStructuralRanker(
                "map", C=100.0, client=client, groups="mend", callback=lambda p, s=strike: s(p.n_passes)
            )
            strike(0)
            start = time.perf_counter()
            model.fit(tables)
            seconds = time.perf_counter() - start
            slowest = max(s for _, s, _, _ in counted.take())
            DaskPartitions.each = counted._each  # type: ignore[method-assign]
            fit = model.fit_
            cut = problem.cut(fit.w)
            exact = 0.5 * float(fit.w @ fit.w) + 100.0 * (cut.loss - float(cut.joint @ fit.w))
            rows.append(
                {
                    "killed": moment, "passes": fit.n_passes, "gap": float(f"{fit.gap:.1e}"),
                    "fit s": round(seconds, 1),
                    "slowest round s": round(slowest, 2), "calls made again": model.n_lost_,
                    "primal off by": float(f"{abs(fit.primal / exact - 1):.1e}"),
                    "dual <= optimum": bool(fit.dual <= one.fit_.primal),
                }
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def peer(name: str, folder: Path, tables: str, killed: bool) -> dict[str, Any]:
    """One ranker on two workers; in a process of its own, as some do not come back."""
    import dask.dataframe as dd

    _, client = cluster_of(2)
    client.run(_import)
    test = open_store(folder / "test.store")
    before = resident(client)

    def strike() -> None:
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    if killed:
        threading.Timer(4.0, strike).start()
    start = time.perf_counter()
    if name == "structsvm":
        model = DaskStructuralRanker("map", C=10.0, client=client, groups="mend")
        scores = np.asarray(test.X, dtype=np.float64) @ model.fit(tables).coef_
    else:
        # these need whole queries in each partition, in order
        frame = dd.read_parquet(tables, index=False).repartition(npartitions=1).compute()
        n = len(frame) // DOCS // 2 * DOCS
        ddf = dd.concat(
            [dd.from_pandas(frame.iloc[:n], npartitions=1), dd.from_pandas(frame.iloc[n:], npartitions=1)]
        )
        X, y = ddf[[f"f{j}" for j in range(test.n_features)]], ddf["label"]
        if name == "lightgbm":
            import dask.array as da
            from lightgbm.dask import DaskLGBMRanker

            sizes = np.full(len(frame) // DOCS, DOCS)
            group = da.from_array(sizes, chunks=(n // DOCS, len(sizes) - n // DOCS))
            booster: Any = DaskLGBMRanker(n_estimators=100, client=client, verbose=-1)
            booster.fit(X.to_dask_array(lengths=True), y.to_dask_array(lengths=True), group=group)
            scores = booster.to_local().predict(np.asarray(test.X))
        else:
            from xgboost.dask import DaskXGBRanker

            booster = DaskXGBRanker(n_estimators=100, objective="rank:ndcg")
            booster.client = client
            booster.fit(X, y, qid=ddf["qid"])
            scores = booster.get_booster().inplace_predict(np.asarray(test.X))
    seconds = time.perf_counter() - start
    after = resident(client)
    named = {m: round(evaluate(m, test.y, scores, qid=test.qid).mean, 4) for m in ("map", "ndcg@10")}
    return {
        "ranker": name, "s": round(seconds, 1), **named,
        "peak GB a worker, over an empty one": round((after["peak"] - before["anonymous"]) / 1e9, 2),
    }  # fmt: skip


def peers_section(folder: Path, n_queries: int, width: int) -> list[dict[str, Any]]:
    tables = write_tables(folder / "peers", n_queries, width, 8)
    write_ranking_store(folder / "test.store", 500, DOCS, width, noise=1.0, random_state=0)
    test = make_ranking(n_queries + 500, DOCS, width, noise=1.0, dtype=np.float32, random_state=0)
    from structsvm.readers import write_store

    write_store(test.select(np.arange(n_queries, n_queries + 500)), folder / "test.store")
    rows = []
    for name in ("structsvm", "lightgbm", "xgboost"):
        for killed in (False, True):
            command = [sys.executable, __file__, "--peer", name, str(folder), tables, str(int(killed))]
            try:
                run = subprocess.run(command, capture_output=True, text=True, timeout=300)
                lines = run.stdout.strip().splitlines()
                row = json.loads(lines[-1]) if run.returncode == 0 and lines else {
                    "ranker": name, "ended": (run.stderr.strip().splitlines() or ["?"])[-1][:150]
                }  # fmt: skip
            except subprocess.TimeoutExpired:
                row = {"ranker": name, "ended": "no answer in 300 s"}
            rows.append({"worker killed": killed, **row})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["rounds", "slope", "memory", "faults", "peers"]
    parser.add_argument("--parts", nargs="+", default=names, choices=names)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 2e6, 4e6, 8e6])
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--queries", type=int, default=8000, help="of the faults, memory and peers")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peer", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        name, folder, tables, killed = options.peer
        print(json.dumps(peer(name, Path(folder), tables, killed == "1")), flush=True)
        os._exit(0)  # what a killed worker left behind is not waited for
    record: dict[str, Any] = {
        "benchmark": "scale_out",
        "features": options.features,
        "queries": options.queries,
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if {"rounds", "slope"} & set(options.parts):
            cluster, client = cluster_of(2)
            with cluster, client:
                client.run(_import)
                if "rounds" in options.parts:
                    record["rounds"] = rounds_section(client, folder)
                if "slope" in options.parts:
                    sizes = [int(n) for n in options.rows]
                    record["slope"] = slope_section(client, folder, sizes, options.features)
        for part in ("memory", "faults", "peers"):
            if part in options.parts:
                section = {"memory": memory_section, "faults": faults_section, "peers": peers_section}[part]
                record[part] = section(folder, options.queries, options.features)
    print(json.dumps(record))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        lines = ["# Training on a Dask cluster of processes on one machine", ""]
        for part in names:
            if part in record:
                heads = list(dict.fromkeys(key for row in record[part] for key in row))
                lines += [
                    f"## {part.capitalize()}",
                    "",
                    f"| {' | '.join(heads)} |",
                    f"|{'---|' * len(heads)}",
                ]
                lines += [
                    f"| {' | '.join(str(row.get(head, '')) for head in heads)} |" for row in record[part]
                ]
                lines.append("")
        (options.out / "scale_out_dask.md").write_text("\n".join(lines))
        (options.out / "scale_out_dask.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
