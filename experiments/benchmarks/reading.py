"""How fast LETOR text is read, against scikit-learn on the same file, tables beside pandas and polars, and how fast a
large store opens.

    python experiments/benchmarks/reading.py [--megabytes 100] [--repeats 5] [--store-megabytes 600]
    python experiments/benchmarks/reading.py --tables 1000000

The text has 136 features per row like MSLR-WEB30K: zeros, counts and numbers of about six digits. Both readers take
turns, so that a busy machine slows down both; times are medians and exclude compilation. Prints a table and, as the
last line, JSON. With ``--tables N``, only tables of N rows are read, each in a separate process with one thread; the
script prints CPU seconds, and peak memory minus the memory before reading.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.datasets import load_svmlight_file

from structsvm.clicks import read_table
from structsvm.readers import (
    convert_letor,
    open_store,
    read_csv,
    read_letor,
    read_parquet,
    write_ranking_store,
)

N_FEATURES = 136


def write_text(path: Path, n_bytes: int) -> None:
    rng = np.random.default_rng(0)
    pool = []
    for _ in range(2000):
        values = np.where(
            rng.random(N_FEATURES) < 0.3,
            np.round(rng.gamma(1, 20, N_FEATURES)),
            np.round(rng.normal(0, 10, N_FEATURES), 6),
        )
        values[rng.random(N_FEATURES) < 0.15] = 0
        pool.append(" ".join(f"{k + 1}:{v:.8g}" for k, v in enumerate(values)))
    written = row = 0
    with path.open("w") as file:
        while written < n_bytes:
            written += file.write(f"{rng.integers(5)} qid:{row // 120 + 1} {pool[rng.integers(len(pool))]}\n")
            row += 1


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def write_tables(folder: Path, n_rows: int) -> None:
    """Write features (20 columns) and clicks (lists of ten, text ids) as CSV and as Parquet."""
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(n_rows, 20)).round(5), columns=[f"f{j}" for j in range(20)])
    features.insert(0, "qid", np.arange(n_rows) // 20)
    features.insert(1, "label", rng.integers(0, 5, n_rows))
    lists = np.arange(n_rows) // 10
    query = rng.integers(0, 2000, lists[-1] + 1)[lists]
    clicks = pd.DataFrame(
        {
            "query": [f"query {q}" for q in query],
            "document": [f"doc{d}" for d in (query * 37 + rng.integers(0, 30, n_rows)) % 50_000],
            "position": np.arange(n_rows) % 10 + 1,
            "clicked": (rng.random(n_rows) < 0.1).astype(int),
            "session": [f"s{k}" for k in lists],
        }
    )
    for name, frame in (("features", features), ("clicks", clicks)):
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet")


def read_one(case: str, path: Path) -> Any:
    """Read one table, after small tables, which trigger compilation and imports."""
    reader, kind = case.split()[:2]
    small = pd.DataFrame({"query": ["a", "a"], "document": ["x", "y"], "position": [1, 2], "clicked": [0, 1]})
    read_table(small.assign(session="s"), session="session")
    read: dict[str, Callable[[Path], Any]] = {
        "features": read_csv if kind == "csv" else read_parquet,
        "clicks": lambda path: read_table(path, session="session"),
        "counts": read_table,
        "pandas": pd.read_csv if kind == "csv" else pd.read_parquet,
        "polars": pl.read_csv if kind == "csv" else pl.read_parquet,
    }
    before = resource.getrusage(resource.RUSAGE_SELF)
    read[reader](path)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, (
        after.ru_maxrss - before.ru_maxrss
    ) / 1024


def tables(n_rows: int) -> None:
    """Print CPU seconds and megabytes of each reader of tables."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "NUMBA_NUM_THREADS"), "1")
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        # in a new process, because a child inherits the peak memory of its parent
        subprocess.run([sys.executable, __file__, "--tables", str(n_rows), "--path", folder], check=True)
        for data, readers in (("features", ("features",)), ("clicks", ("clicks", "counts"))):
            for kind in ("csv", "parquet"):
                for reader in (*readers, "pandas", "polars"):
                    case = f"{reader} {kind} {data}"
                    command = [sys.executable, __file__, "--case", case, "--path", f"{folder}/{data}.{kind}"]
                    done = subprocess.run(
                        command, env={**os.environ, **one_thread}, capture_output=True, text=True, check=True
                    )
                    result[case] = json.loads(done.stdout)
                    print(f"{case:26}{result[case][0]:8.2f} s{result[case][1]:8.0f} MB", flush=True)
    print(json.dumps({"benchmark": "reading of tables", "rows": n_rows, "seconds and megabytes": result}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--store-megabytes", type=int, default=600)
    parser.add_argument("--tables", type=int, metavar="ROWS")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps([round(value, 3) for value in read_one(options.case, options.path)]))
        return
    if options.tables is not None:
        tables(options.tables) if options.path is None else write_tables(options.path, options.tables)
        return

    with tempfile.TemporaryDirectory() as folder:
        small, text = Path(folder, "small.txt"), Path(folder, "train.txt")
        write_text(small, 10_000)
        write_text(text, options.megabytes * 1_000_000)
        for dtype in (np.float64, np.float32):
            read_letor(small, dtype=dtype)  # compiles, or loads what was compiled

        peer = load_svmlight_file(str(text), query_id=True)
        ours = read_letor(text)
        assert (peer[0].toarray() == ours.X).all()
        assert (peer[1] == ours.y).all()
        assert (peer[2] == ours.qid).all()
        del peer, ours

        readers: dict[str, Callable[[], Any]] = {
            "read_letor": lambda: read_letor(text),
            "read_letor, one thread": lambda: read_letor(text, n_jobs=1),
            "read_letor, float32": lambda: read_letor(text, dtype=np.float32),
            "scikit-learn load_svmlight_file": lambda: load_svmlight_file(str(text), query_id=True),
        }
        times: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(options.repeats):
            for name, work in readers.items():
                times[name].append(seconds(work))
        converting = seconds(lambda: convert_letor(text, Path(folder, "train.store")))

        store = Path(folder, "large.store")
        n_queries = options.store_megabytes * 1_000_000 // (120 * N_FEATURES * 4)
        writing = seconds(lambda: write_ranking_store(store, n_queries))
        n_bytes = sum(file.stat().st_size for file in store.iterdir())
        opening = [1000 * seconds(lambda: open_store(store)) for _ in range(max(20, options.repeats))]

        median = {name: statistics.median(values) for name, values in times.items()}
        slowest = median["scikit-learn load_svmlight_file"]
        size = text.stat().st_size / 1e6
        print(f"{size:.0f} MB of text, {N_FEATURES} features, {os.cpu_count()} processors")
        print(f"{'':34}{'seconds':>9}{'MB/s':>8}{'ratio':>8}")
        for name, value in median.items():
            print(f"{name:34}{value:9.3f}{size / value:8.0f}{slowest / value:8.1f}")
        print(f"{'convert_letor':34}{converting:9.3f}{size / converting:8.0f}{slowest / converting:8.1f}")
        print(
            f"store of {n_bytes / 1e6:.0f} MB: made in {writing:.1f} s, "
            f"opened in {statistics.median(opening):.2f} ms (worst {max(opening):.2f})"
        )
        result = {
            "benchmark": "reading",
            "megabytes": round(size),
            "seconds": {name: round(value, 4) for name, value in median.items()},
            "ratio": round(slowest / median["read_letor"], 2),
            "ratio_one_thread": round(slowest / median["read_letor, one thread"], 2),
            "store_megabytes": round(n_bytes / 1e6),
            "open_ms": round(statistics.median(opening), 3),
            "open_ms_worst": round(max(opening), 3),
        }
        print(json.dumps(result))


if __name__ == "__main__":
    main()
