"""How fast LETOR text is read, against scikit-learn on the same file, and how fast a large store opens.

    python experiments/benchmarks/reading.py [--megabytes 100] [--repeats 5] [--store-megabytes 600]

The text has 136 features a row in the manner of MSLR-WEB30K: zeros, counts and numbers of six or so digits.
Both readers take it in turns, so that a busy machine slows both; times are medians, and compiling comes
before. Prints a table and, as the last line, JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from structsvm.readers import convert_letor, open_store, read_letor, write_ranking_store

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--store-megabytes", type=int, default=600)
    options = parser.parse_args()

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
