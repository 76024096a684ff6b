"""A regularisation path over 13 values of C against the slowest single fit among them.

    python experiments/benchmarks/path.py [--queries 2000] [--threads 2] [--solver auto] [--tol 1e-3]

Generated queries x 120 documents x 136 float32 features; C from 1e-3 to 1e3. Times are medians
over --repeats. Last line: JSON.
"""

import argparse
import json
import time

import numpy as np

from structsvm.oracles import get_oracle
from structsvm.readers import make_ranking
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import fit_path, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--loss", default="map")
    parser.add_argument("--noise", type=float, default=0.5, help="label noise; more makes large C slower")
    parser.add_argument("--repeats", type=int, default=5, help="times are medians over these")
    options = parser.parse_args()
    data = make_ranking(options.queries, 120, 136, noise=options.noise, dtype=np.float32, random_state=0)
    separator = get_oracle(options.loss).bind(data.y, data.offsets)
    problem = RankingProblem(data.X, data.offsets, separator, n_jobs=options.threads)
    Cs = np.logspace(-3, 3, 13)
    train(problem, 1.0, solver=options.solver)  # compiles, or loads what was compiled
    path_times, single_times = [], []
    for _ in range(options.repeats):
        start = time.perf_counter()
        path = list(fit_path(problem, Cs.tolist(), solver=options.solver, tol=options.tol))
        path_times.append(time.perf_counter() - start)
        single = [train(problem, C, solver=options.solver, tol=options.tol) for C in Cs]
        single_times.append([fit.seconds for fit in single])
    path_seconds = float(np.median(path_times))
    alone = np.median(single_times, axis=0)
    dearest, total = float(alone.max()), float(alone.sum())
    print(f"{data}, solver {single[0].solver}, {options.threads} threads")
    print(f"{'C':>9} {'path passes':>11} {'path s':>7} {'alone passes':>12} {'alone s':>8} {'gap':>8}")
    for C, a, b, seconds in zip(Cs, path, single, alone, strict=True):
        print(f"{C:9.4g} {a.n_passes:11d} {a.seconds:7.3f} {b.n_passes:12d} {seconds:8.3f} {a.gap:8.1e}")
    print(
        f"path {path_seconds:.2f} s = {path_seconds / dearest:.2f} x the dearest fit, {total:.2f} s for 13 fits alone"
    )
    print(
        json.dumps(
            {
                "benchmark": "path",
                "solver": single[0].solver,
                "path_s": round(path_seconds, 3),
                "dearest_s": round(dearest, 3),
                "path_per_dearest": round(path_seconds / dearest, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
