"""Training on data of the size of MSLR-WEB30K, in units of one pass pair over the same matrix.

    python experiments/benchmarks/training.py [--queries 31000] [--threads 1 2] [--C 1 10 100] [--tol 1e-3]

Data: queries x 120 documents x 136 float32 features, graded labels of a noisy linear model, generated into a
memory-mapped store. A pass pair is ``X @ w`` and ``X.T @ a`` with float32 vectors and as many BLAS threads as the
trainer has; it is timed before and after each fit. Each setting is trained from memory and from the store; both must
give the same weights, bit for bit. Peak memory is measured in a separate process that opens the store, copies X into
memory and trains at each C. Last line: JSON.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from structsvm import StructuralRanker
from structsvm.oracles import get_oracle
from structsvm.readers import open_store, write_ranking_store
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import train


def pass_pair(X: Any, threads: int, repeats: int = 3) -> float:
    w, a = np.ones(X.shape[1], np.float32), np.ones(X.shape[0], np.float32)
    times = []
    with threadpool_limits(threads):
        for _ in range(repeats):
            start = time.perf_counter()
            X @ w
            X.T @ a
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak(store: Path, Cs: list[float], tol: float) -> None:
    """Print the peak resident memory of training and the size of X; runs in its own process."""
    data = open_store(store)
    X = np.array(data.X)
    for C in Cs:
        StructuralRanker(C=C, tol=tol, n_jobs=2).fit(X, data.y, qid=data.qid)
    # the mapped pages read while copying count as resident, too, but belong to the page cache
    with Path("/proc/self/status").open() as status:
        lines = dict(line.split(":", 1) for line in status)
    mapped = int(lines["RssFile"].split()[0]) * 1024
    total = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"peak": total - mapped, "X": X.nbytes}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=31_000)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0, 100.0, 1e3, 1e4])
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--loss", default="map")
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak, options.C, options.tol)
        return
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "data.store")
        start = time.perf_counter()
        write_ranking_store(store, options.queries, 120, 136, noise=options.noise, random_state=0)
        print(f"generated in {time.perf_counter() - start:.0f} s: {open_store(store)}", flush=True)
        data = open_store(store)
        X = np.array(data.X)
        oracle = get_oracle(options.loss)
        small = RankingProblem(X[:1200], data.offsets[:11], oracle.bind(data.y[:1200], data.offsets[:11]))
        train(small, 1.0)  # compiles, or loads what was compiled
        mapped = data.select(np.arange(10))
        train(RankingProblem(mapped.X, mapped.offsets, oracle.bind(mapped.y, mapped.offsets)), 1.0)
        print(
            f"{'threads':>7} {'C':>6} {'from':>7} {'pair s':>7} {'fit s':>7} {'pairs':>6} {'passes':>6} {'gap':>8}"
        )
        rows = []
        for threads in options.threads:
            for C in options.C:
                weights = []
                for source, matrix in (("memory", X), ("store", data.X)):
                    before = pass_pair(X, threads)
                    start = time.perf_counter()
                    separator = oracle.bind(data.y, data.offsets)
                    fit = train(
                        RankingProblem(matrix, data.offsets, separator, n_jobs=threads), C, tol=options.tol
                    )
                    seconds = time.perf_counter() - start
                    pair = (before + pass_pair(X, threads)) / 2
                    weights.append(fit.w)
                    row = {
                        "threads": threads,
                        "C": C,
                        "from": source,
                        "pair_s": round(pair, 3),
                        "fit_s": round(seconds, 3),
                        "pairs": round(seconds / pair, 2),
                        "passes": fit.n_passes,
                        "gap": float(f"{fit.gap:.2e}"),
                    }
                    rows.append(row)
                    print(
                        f"{threads:7d} {C:6g} {source:>7} {pair:7.3f} {seconds:7.2f} {seconds / pair:6.1f} "
                        f"{fit.n_passes:6d} {fit.gap:8.1e}",
                        flush=True,
                    )
                assert (weights[0] == weights[1]).all(), "memory and store give other weights"
        del X
        command = [sys.executable, __file__, "--peak", str(store), "--tol", str(options.tol)]
        command += ["--C", *map(str, options.C)]
        memory = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"peak memory {memory['peak'] / memory['X']:.2f} x the size of X ({memory['X'] / 1e9:.2f} GB)")
        print(
            json.dumps(
                {
                    "benchmark": "training",
                    "queries": options.queries,
                    "tol": options.tol,
                    "rows": rows,
                    "peak_per_X": round(memory["peak"] / memory["X"], 3),
                }
            )
        )


if __name__ == "__main__":
    main()
