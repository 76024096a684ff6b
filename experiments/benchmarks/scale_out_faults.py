"""Time that a fit on a Dask cluster loses to killed workers and to a killed client, by the moment.

    python experiments/benchmarks/scale_out_faults.py [--queries 4000] [--features 64] [--C 100]

Data: queries of 120 documents with float32 features, graded labels of a noisy linear model (noise 1), in eight Parquet
files that split queries. There are three worker processes of two threads; a worker receives SIGKILL in the middle of
the named round, after half the time of this round in an undisturbed fit. Each fit is compared with a fit on one
machine: its primal value is recomputed, and its dual value must not exceed the optimum. Writes
``experiments/results/scale_out/faults.md``. Last line: JSON.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from _cluster import DOCS, cluster_of, save, watching, write_tables

from structsvm import StructuralRanker
from structsvm.dask import DaskStructuralRanker
from structsvm.estimators.structural import bind_problem
from structsvm.readers import read_parquet

WORKERS = 3
LIMIT = 240.0
"""Number of seconds after which a fit counts as hanging."""


class Truth:
    """The same problem on one machine."""

    def __init__(self, tables: str, C: float) -> None:
        data = read_parquet(tables)
        self.C = C
        self.problem = bind_problem(StructuralRanker("map"), "map", data, np.ones(data.n_queries))
        self.optimum = StructuralRanker("map", C=C, tol=1e-6).fit(data.X, data.y, qid=data.qid).fit_.primal

    def judge(self, fit: Any) -> dict[str, Any]:
        cut = self.problem.cut(fit.w)
        primal = 0.5 * float(fit.w @ fit.w) + self.C * (cut.loss - float(cut.joint @ fit.w))
        return {
            "passes": fit.n_passes,
            "gap": float(f"{fit.gap:.1e}"),
            "primal off by": float(f"{abs(fit.primal / primal - 1):.0e}"),
            "dual <= optimum": bool(fit.dual <= self.optimum * (1 + 1e-12)),
        }


def killer(client: Any, count: int) -> Any:
    """Return a function that kills workers immediately; the workers are selected in advance."""
    pids = list(client.run(os.getpid).values())[:count]
    return lambda: [os.kill(pid, signal.SIGKILL) for pid in pids]


def one(client: Any) -> Any:
    return killer(client, 1)


def all_but_one(client: Any) -> Any:
    return killer(client, WORKERS - 1)


def restart(client: Any) -> Any:
    """Return a function that restarts a worker gracefully."""
    address = next(iter(client.run(os.getpid)))
    return lambda: client.restart_workers([address], raise_for_error=False, timeout=60)


def fit(client: Any, tables: str, C: float, **options: Any) -> Any:
    return DaskStructuralRanker("map", C=C, client=client, groups="mend", timeout=LIMIT, **options).fit(
        tables
    )


def struck(tables: str, truth: Truth, name: str, calm: list[Any], blows: dict[int, Any]) -> dict[str, Any]:
    """Fit on a separate cluster while ``blows`` hit rounds, given by round number.

    Blow -1 hits while files are read.
    """
    timers = []

    def fall(number: int, seconds: float) -> None:
        if number in blows:
            timers.append(threading.Timer(0.5 * seconds, blows[number](client)))
            timers[-1].start()

    def before(number: int, method: str) -> None:
        fall(number, calm[min(number, len(calm) - 1)].seconds)

    with cluster_of(WORKERS, threads=2) as client:
        fit(client, tables, truth.C)  # loads compiled kernels
        with watching(before) as rounds:
            start = time.perf_counter()
            fall(-1, READING)
            model = fit(client, tables, truth.C)
            seconds = time.perf_counter() - start
        for timer in timers:
            timer.join()
    hit = [number for number in blows if 0 <= number < len(rounds)]
    return {
        "killed": name,
        "struck rounds, s": " + ".join(f"{rounds[n].seconds:.2f}" for n in hit),
        "undisturbed, s": " + ".join(f"{calm[n].seconds:.2f}" for n in hit),
        "fit, s": round(seconds, 1),
        "calls made again": model.n_lost_,
        **truth.judge(model.fit_),
    }


READING = 2.0
"""Seconds that reading takes, measured in the undisturbed fit."""

CLIENT = """
import os, signal, sys
from distributed import Client
from structsvm.dask import DaskStructuralRanker

def die(progress):
    if progress.n_passes >= int(sys.argv[5]):
        os.kill(os.getpid(), signal.SIGKILL)

with Client(sys.argv[1]) as client:
    DaskStructuralRanker("map", C=float(sys.argv[4]), client=client, groups="mend", checkpoint=sys.argv[3],
                         callback=die).fit(sys.argv[2])
"""


def killed_client(client: Any, folder: Path, tables: str, truth: Truth, passes: int) -> dict[str, Any]:
    """Kill the process that started the fit after this many passes; another process resumes the fit."""
    path = folder / "fit.checkpoint"
    command = [
        sys.executable,
        "-c",
        CLIENT,
        client.scheduler.address,
        tables,
        str(path),
        str(truth.C),
        str(passes),
    ]
    first = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert first.returncode == -signal.SIGKILL, first.stderr
    size = path.stat().st_size
    seen: list[Any] = []
    start = time.perf_counter()
    model = fit(client, tables, truth.C, checkpoint=path, callback=seen.append)
    return {
        "killed": f"the client after pass {passes}, then resumed (checkpoint {size / 1e3:.0f} kB)",
        "fit, s": f"{time.perf_counter() - start:.1f} after",
        "calls made again": model.n_lost_,
        **truth.judge(model.fit_),
        "passes": f"{model.fit_.n_passes}, of which {seen[0].n_passes - 1} before",
    }


def main() -> None:
    global READING
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--C", type=float, default=100.0)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tables = write_tables(folder / "tables", options.queries, options.features, 8)
        truth = Truth(tables, options.C)
        with cluster_of(WORKERS, threads=2) as client:
            fit(client, tables, options.C)  # compiles kernels
            begun: list[float] = []
            with watching(lambda number, method: begun.append(time.perf_counter())) as calm:
                start = time.perf_counter()
                model = fit(client, tables, options.C)
                seconds = time.perf_counter() - start
            READING = begun[0] - start
            row = {"killed": "nothing", "fit, s": round(seconds, 1), "calls made again": model.n_lost_}
            rows.append(row | truth.judge(model.fit_))
            print(rows[-1], flush=True)
            rows.append(killed_client(client, folder, tables, truth, max(2, model.fit_.n_passes // 2)))
            print(rows[-1], flush=True)
        methods = [one.method for one in calm]
        first = methods.index
        last = len(methods) - 1 - methods[::-1].index("certify")
        cases: list[tuple[str, dict[int, Any]]] = [
            ("one worker while files are read", {-1: one}),
            ("one in the first descent", {first("descend"): one}),
            ("one in a small round (slope)", {first("slope"): one}),
            ("one in the first certificate", {first("certify"): one}),
            ("one in a small round (mass among planes)", {first("improve"): one}),
            ("one in the last certificate", {last: one}),
            ("two of three in the first certificate", {first("certify"): all_but_one}),
            ("one in the first descent, one in the last certificate", {first("descend"): one, last: one}),
            ("none; Dask restarts one in the first certificate", {first("certify"): restart}),
        ]
        for name, blows in cases:
            rows.append(struck(tables, truth, name, calm, blows))
            print(rows[-1], flush=True)
    text = f"""
`python experiments/benchmarks/scale_out_faults.py --queries {options.queries} --features {options.features} --C \
{options.C:g}`

{options.queries * DOCS:,} rows of {options.features} float32 features in eight Parquet files that cut queries, \
C = {options.C:g}, relative gap 1e-3, {WORKERS} worker processes of two threads on a machine of two cores, \
{model.n_partitions_} partitions. Reading took {READING:.1f} s undisturbed. A struck round waits for the partitions of \
the dead worker, which Dask reads again from the files, on the other workers. `primal off by` is relative to the value \
computed on one machine.
"""
    save("faults", "What a killed process costs a fit on a Dask cluster", text, {"Moments": rows})
    print(json.dumps({"benchmark": "scale_out_faults", "rows": rows}))


if __name__ == "__main__":
    main()
