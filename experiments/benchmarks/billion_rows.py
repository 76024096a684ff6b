"""Training from a store of up to a billion rows on one machine.

    python experiments/benchmarks/billion_rows.py [--rows 1000000000] [--features 12] [--store FOLDER] [--threads 2]

Data: queries of 100 documents with five grades of a noisy linear model, float32, in a store: 56 bytes per row (48 GB of
features and 8 GB of labels at a billion rows). For "map" and "ndcg@10", a separate process binds the labels and trains
to a relative gap of 1e-3, starting with no pages of the store in the page cache. Memory is the anonymous memory of the
process (RssAnon, without the mapped pages of the store), sampled 50 times per second, minus its value before binding;
the rate of the disk is the number of bytes read divided by the seconds of training. Writes
``experiments/results/scale_out/billion_rows.md``. Last line: JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from _cluster import save
from out_of_core import forget

from structsvm.oracles import get_oracle
from structsvm.readers import open_store, write_ranking_store
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import train

DOCS = 100


class Memory:
    """Peak anonymous memory of the process, in bytes."""

    def __init__(self) -> None:
        self.most = self.first = self.now()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.most = max(self.most, self.now())
            time.sleep(0.02)

    @staticmethod
    def now() -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("RssAnon:")[1].split()[0])

    def above(self) -> int:
        """Return the peak above the starting value, and reset it."""
        most, self.most = max(self.most, self.now()) - self.first, 0
        return most


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])


def child(store: str, loss: str, threads: int) -> None:
    oracle = get_oracle(loss)
    small = open_store(store).select([0])
    train(RankingProblem(small.X, small.offsets, oracle.bind(small.y, small.offsets)), 1.0)  # compile
    forget(Path(store))
    data = open_store(store)
    memory, start, cpu = Memory(), time.perf_counter(), time.process_time()
    separator = oracle.bind(data.y, data.offsets)
    bound, of_binding = time.perf_counter(), memory.above()
    read = bytes_read()
    problem = RankingProblem(data.X, data.offsets, separator, n_jobs=threads)
    fit = train(problem, getattr(oracle, "usual_C", 1.0), tol=1e-3)
    end = time.perf_counter()
    row = {
        "rows": data.n_rows,
        "loss": loss,
        "passes": fit.n_passes,
        "gap": float(f"{fit.gap:.1e}"),
        "bind s": round(bound - start, 1),
        "train s": round(end - bound, 1),
        "cpu s": round(time.process_time() - cpu, 1),
        "bytes per row, binding": round(of_binding / data.n_rows, 1),
        "training": round(memory.above() / data.n_rows, 1),
        "disk MB/s": round((bytes_read() - read) / 1e6 / (end - bound)),
    }
    print(json.dumps(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--store", type=Path, help="folder to write; it is kept, and used if it is there")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        store, start = options.store or Path(folder, "data.store"), time.perf_counter()
        if not store.exists():
            write_ranking_store(
                store, options.rows // DOCS, DOCS, options.features, noise=1.0, random_state=0
            )
        written = f", written in {time.perf_counter() - start:.0f} s" if options.store is None else ""
        size = sum(file.stat().st_size for file in store.iterdir()) / 1e9
        print(f"{size:.2f} GB in the store{written}", flush=True)
        rows: list[dict[str, Any]] = []
        for loss in ("map", "ndcg@10"):
            command = [
                sys.executable,
                __file__,
                "--threads",
                f"{options.threads}",
                "--child",
                str(store),
                loss,
            ]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append(json.loads(run.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
    text = f"""
`python experiments/benchmarks/billion_rows.py --rows {options.rows}`

A store of {size:.1f} GB, {options.features} float32 features{written}; {os.cpu_count()} cores, {options.threads} \
threads.
Memory is per row, above that before binding and without the mapped pages of the store.
"""
    save("billion_rows", "Training from a store of many rows", text, {"Losses": rows})
    print(json.dumps({"benchmark": "billion_rows", "store GB": round(size, 2), "rows": rows}))


if __name__ == "__main__":
    main()
