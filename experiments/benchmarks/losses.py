"""Every loss in units of one pass pair over the same matrix, beside another checkout of the package if one is named.

    python experiments/benchmarks/losses.py [--queries 4000] [--noise .3 .6 1] [--C 1 10 100 1000] [--tol 1e-3 1e-4]
    python experiments/benchmarks/losses.py --queries 31000 --threads 1 2
    python experiments/benchmarks/losses.py --data mq2008 np2004 robust --C .01 .1 1 10 100 1000 10000
    python experiments/benchmarks/losses.py --before ../earlier    the same fits there, in turn, with the ratio

Generated data are queries x 120 documents x 136 float32 features of a noisy linear model. The real sets are MQ2008,
NP2004 and the TREC 2003 Robust submissions as binned features (--folder). A pass pair is ``X @ w`` and ``X.T @ a`` in
single precision with as many BLAS threads as the trainer has. Seconds are those of the processor, summed over threads:
those of the clock stand in the JSON. A fit that takes more than --limit seconds is stopped (its gap is shown).
``--path`` trains a path over 13 values of C, too, and compares it with the dearest of its fits alone. Last line: JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
REAL = ("mq2008", "np2004", "robust")
LOSSES = ("map", "ndcg@10", "mrr", "precision@10")


@cache
def load(name: str, queries: int, noise: float, folder: str) -> Any:
    """Rows, labels and offsets."""
    if name == "made":
        from structsvm.readers import make_ranking

        data = make_ranking(queries, 120, 136, noise=noise, dtype=np.float32, random_state=0)
        return data.X, data.y, data.offsets
    if name == "robust":
        from structsvm.features.binning import BinnedFeatures
        from structsvm.readers.pool import candidates
        from structsvm.readers.qrels import read_qrels
        from structsvm.readers.runs import read_run

        place = Path(folder, "trec_robust2003")
        runs = [read_run(path) for path in sorted((place / "runs").glob("*.gz"))]
        pool = candidates(runs, read_qrels(place / "qrels.txt.gz"), depth=100)
        binning = BinnedFeatures(within="query").fit(pool.scores, qid=pool.qid)
        rows = binning.transform_rows(pool.scores, qid=pool.qid)
        return rows, np.maximum(pool.y, 0), pool.offsets
    from structsvm.readers import read_letor

    if name == "np2004":
        read = [read_letor(Path(folder, "letor3_np2004_fold1", "test.txt.gz"))]
    else:
        read = [read_letor(Path(folder, "letor4_mq2008", f"S{i}.txt.gz")) for i in (1, 2, 3)]
    lengths = np.concatenate([np.diff(part.offsets) for part in read])
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return np.vstack([part.X for part in read]), np.concatenate([part.y for part in read]), offsets


def pass_pair(n_rows: int, n_features: int, X: Any, threads: int, clock: Callable[[], float]) -> float:
    """Seconds of one, the median of five; of rows in a format of their own, over as many dense single ones."""
    if not isinstance(X, np.ndarray) or X.dtype != np.float32:
        X = np.ones((n_rows, n_features), np.float32)
    w, a = np.ones(n_features, np.float32), np.ones(n_rows, np.float32)
    times = []
    with threadpool_limits(threads):
        for _ in range(5):
            start = clock()
            X @ w
            X.T @ a
            times.append(clock() - start)
    return statistics.median(times)


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """One fit, or one path, as the task says."""
    from structsvm.oracles import get_oracle
    from structsvm.trainers.passes import RankingProblem
    from structsvm.trainers.path import fit_path, train

    warnings.simplefilter("ignore")
    X, y, offsets = load(task["data"], task["queries"], task["noise"], task["folder"])
    separator = get_oracle(task["loss"]).bind(y, offsets)
    problem = RankingProblem(X, offsets, separator, n_jobs=task["threads"])
    end = time.process_time() + task["limit"]
    options = {"tol": task["tol"], "solver": task["solver"]}
    train(problem, 1e-3, max_passes=2, **options)  # compiles, or loads what was compiled
    train(problem, 1.0, max_passes=4, **options)
    pair = [
        pass_pair(*X.shape, X, task["threads"], clock) for clock in (time.process_time, time.perf_counter)
    ]
    start, start_wall = time.process_time(), time.perf_counter()
    end = start + task["limit"]
    if task["path"]:
        fits = list(fit_path(problem, task["path"], callback=lambda _: time.process_time() > end, **options))
    else:
        fits = [train(problem, task["C"], callback=lambda _: time.process_time() > end, **options)]
    seconds, wall = time.process_time() - start, time.perf_counter() - start_wall
    return {
        "solver": fits[-1].solver, "passes": sum(f.n_passes for f in fits), "gap": max(f.gap for f in fits),
        "primal": fits[-1].primal, "dual": fits[-1].dual, "seconds": seconds, "wall": wall,
        "pairs": seconds / pair[0], "pair": pair[0], "pairs_wall": wall / pair[1],
    }  # fmt: skip


class Worker:
    """A process with one checkout of the package, which keeps its data and its compiled code."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "2"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["made"], choices=("made", *REAL))
    parser.add_argument("--folder", type=Path, default=DATA, help="of the public data sets")
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.3, 0.6, 1.0])
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0, 100.0, 1000.0])
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds after which a fit is stopped")
    parser.add_argument(
        "--path", action="store_true", help="a path over 13 values of C, and each of them alone"
    )
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), flush=True)
        return
    here = Worker(Path(__file__).resolve().parents[2])
    there = Worker(options.before) if options.before else None
    Cs = np.logspace(-3, 3, 13).tolist() if options.path else options.C
    print(
        f"{'data':>8} {'noise':>5} {'loss':>12} {'tol':>6} {'threads':>7} {'C':>8} {'passes':>6} {'pairs':>7} "
        f"{'seconds':>8} {'gap':>8}  solver" + ("      before: passes, seconds, gap, ratio" if there else "")
    )
    rows = []
    for name in options.data:
        for noise in options.noise if name == "made" else [0.0]:
            for loss in options.losses:
                for tol in options.tol:
                    for threads in options.threads:
                        for C in [*Cs, "path"] if options.path else Cs:
                            task = {
                                "data": name, "noise": noise, "loss": loss, "tol": tol, "threads": threads, "C": C,
                                "queries": options.queries, "folder": str(options.folder), "limit": options.limit,
                                "solver": options.solver, "path": Cs if C == "path" else None,
                            }  # fmt: skip
                            row = {**task, **here(task)}
                            text = (
                                f"{name:>8} {noise:5g} {loss:>12} {tol:6g} {threads:7d} {C:>8.4g} "
                                if C != "path"
                                else f"{name:>8} {noise:5g} {loss:>12} {tol:6g} {threads:7d}     path "
                            ) + (
                                f"{row['passes']:6d} {row['pairs']:7.1f} {row['seconds']:8.3f} {row['gap']:8.1e}  "
                                f"{row['solver']:11}"
                            )
                            if there is not None:
                                row["before"] = before = there(task)
                                text += (
                                    f" {before['passes']:6d} {before['seconds']:8.3f} {before['gap']:8.1e} "
                                    f"{row['seconds'] / before['seconds']:6.2f}"
                                )
                            print(text, flush=True)
                            rows.append(row)
    here.close()
    if there is not None:
        there.close()
    print(json.dumps({"benchmark": "losses", "rows": rows}))


if __name__ == "__main__":
    main()
