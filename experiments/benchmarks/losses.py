"""Every loss in units of one pass pair over the same matrix, beside another checkout of the package if one is named.

    python experiments/benchmarks/losses.py [--queries 4000] [--noise .3 .6 1] [--C 1 10 100 1000] [--tol 1e-3 1e-4]
    python experiments/benchmarks/losses.py --queries 31000 --threads 1 2 python experiments/benchmarks/losses.py --data
    mq2008 np2004 robust --C .01 .1 1 10 100 1000 10000 python experiments/benchmarks/losses.py --before ../earlier
    the same fits with that checkout, and the ratio

Generated data are queries x 120 documents x 136 float32 features of a noisy linear model. The real sets are MQ2008,
NP2004 and the TREC 2003 Robust submissions as binned features (--folder). A pass pair is ``X @ w`` and ``X.T @ a`` in
single precision with as many BLAS threads as the trainer has. Seconds are processor seconds, summed over threads
(wall-clock seconds are in the JSON); for fits below a tenth of a second, they are medians of five. A fit that takes
more than --limit seconds is stopped (its gap is shown). ``--path`` also trains a path over 13 values of C, and compares
it with the slowest of its fits alone. ``--fresh`` starts a process for each fit, so that the peak memory of the process
is that of the fit. ``--save`` writes the rows as a section of ``results/losses/losses.md`` and ``.json``, replacing a
section with the same title. Last line: JSON.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
RESULTS = Path(__file__).resolve().parents[1] / "results" / "losses"
REAL = {"mq2008": "letor4_mq2008", "np2004": "letor3_np2004_fold1", "robust": "trec_robust2003"}
_SHORT, _REPEATS = 0.1, 5
"""Fits of at most this many seconds are repeated, and the median is taken."""

LOSSES = ("map", "ndcg@10", "mrr", "precision@10")


@cache
def load(name: str, queries: int, noise: float, folder: str) -> Any:
    """Return rows, labels and offsets."""
    if name == "made":
        from structsvm.readers import make_ranking

        data = make_ranking(queries, 120, 136, noise=noise, dtype=np.float32, random_state=0)
        return data.X, data.y, data.offsets
    if name == "robust":
        from structsvm.features.binning import BinnedFeatures
        from structsvm.readers import candidates, read_qrels, read_run

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


def pass_pair(X: Any, threads: int) -> tuple[float, float]:
    """Return processor and wall-clock seconds, medians of five; for rows in another format, relative to dense rows."""
    n_rows, n_features = X.shape
    if not isinstance(X, np.ndarray) or X.dtype != np.float32:
        X = np.ones((n_rows, n_features), np.float32)
    w, a = np.ones(n_features, np.float32), np.ones(n_rows, np.float32)
    times = []
    with threadpool_limits(threads):
        for _ in range(5):
            start, start_wall = time.process_time(), time.perf_counter()
            X @ w
            X.T @ a
            times.append((time.process_time() - start, time.perf_counter() - start_wall))
    seconds, wall = (statistics.median(column) for column in zip(*times, strict=True))
    return seconds, wall


@cache
def compiled(name: str, loss: str, folder: str, solver: Any, threads: int) -> None:
    """Train on a few queries, to compile all kernels or load them from the cache."""
    from structsvm.oracles import get_oracle
    from structsvm.trainers.passes import RankingProblem
    from structsvm.trainers.path import train

    for source, Cs in (("made", (1.0, 1e4)), (name, (1e-3, 1.0))):  # the first needs all kernels of a fit
        X, y, offsets = load(source, 1200, 0.3, folder)
        problem = RankingProblem(X, offsets, get_oracle(loss).bind(y, offsets), n_jobs=threads)
        for C in Cs:
            train(problem, C, max_passes=4, solver=solver)
        train(problem, 1.0, max_passes=4, solver="one_slack" if solver == "auto" else solver)


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """Run one fit or one path, depending on the task."""
    from structsvm.oracles import get_oracle
    from structsvm.trainers.passes import RankingProblem
    from structsvm.trainers.path import fit_path

    warnings.simplefilter("ignore")
    X, y, offsets = load(task["data"], task["queries"], task["noise"], task["folder"])
    separator = get_oracle(task["loss"]).bind(y, offsets)
    problem = RankingProblem(X, offsets, separator, n_jobs=task["threads"])
    options = {"tol": task["tol"], "solver": task["solver"]}
    compiled(task["data"], task["loss"], task["folder"], task["solver"], task["threads"])
    pair = pass_pair(X, task["threads"])
    times = []
    while len(times) < (1 if not times or times[0][0] > _SHORT else _REPEATS):
        start, start_wall = time.process_time(), time.perf_counter()
        options["callback"] = lambda _, end=start + task["limit"]: time.process_time() > end
        fits = list(fit_path(problem, task["path"] or [task["C"]], **options))
        times.append((time.process_time() - start, time.perf_counter() - start_wall))
    seconds, wall = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "solver": fits[-1].solver,
        "passes": sum(f.n_passes for f in fits),
        "gap": max(f.gap for f in fits),
        "primal": fits[-1].primal,
        "dual": fits[-1].dual,
        "seconds": seconds,
        "wall": wall,
        "peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "pairs": seconds / pair[0],
        "pair": pair[0],
        "pairs_wall": wall / pair[1],
    }


class Worker:
    """A process with one checkout of the package that keeps its data and compiled code."""

    def __init__(self, checkout: Path, *, fresh: bool = False) -> None:
        self._checkout, self._fresh = checkout, fresh
        self._start()

    def _start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(self._checkout), "OMP_NUM_THREADS": "2"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        result = dict(json.loads(self._process.stdout.readline()))
        if self._fresh:
            self.close()
            self._start()
        return result

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


COLUMNS = (
    "data",
    "queries",
    "noise",
    "loss",
    "tol",
    "threads",
    "C",
    "passes",
    "pairs",
    "seconds",
    "gap",
    "peak_MB",
)
BEFORE = ("passes", "seconds", "gap", "peak_MB")


def save(title: str, rows: list[dict[str, Any]]) -> None:
    """Add a section to the results page."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    stored = RESULTS / "losses.json"
    sections = json.loads(stored.read_text()) if stored.exists() else {}
    words = list(sys.argv[1:])
    # as elsewhere they are elsewhere
    for option, shown in (
        ("--before", "../earlier"),
        ("--folder", "../data"),
    ):
        if option in words:
            words[words.index(option) + 1] = shown
    command = " ".join(f"'{word}'" if " " in word else word for word in words)
    plain = [{key: value for key, value in row.items() if key != "folder"} for row in rows]
    sections[title] = {"command": f"python experiments/benchmarks/losses.py {command}", "rows": plain}
    stored.write_text(json.dumps(sections, indent=1) + "\n")
    lines = ["# Every loss: passes, pass pairs and seconds", ""]
    lines += [
        "Seconds are those of the processor. A pass pair is `X @ w` and `X.T @ a` in single precision.",
        "",
    ]
    for name, section in sections.items():
        lines += [f"## {name}", "", f"`{section['command']}`", ""]
        fits = section["rows"]
        columns = [c for c in COLUMNS if len({json.dumps(row[c]) for row in fits}) > 1 or c in ("loss", "C")]
        if not any(row["fresh"] for row in fits):
            columns = [c for c in columns if c != "peak_MB"]
        beside = [c for c in BEFORE if c in columns] if "before" in fits[0] else []
        head = columns + [f"{c} before" for c in beside] + (["ratio"] if beside else [])
        lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        for row in fits:
            cells = [_cell(row[c]) for c in columns]
            if beside:
                cells += [_cell(row["before"][c]) for c in beside]
                cells += [_cell(row["seconds"] / max(row["before"]["seconds"], 1e-9))]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    (RESULTS / "losses.md").write_text("\n".join(lines))


def _cell(value: Any) -> str:
    return (
        f"{value:.3g}"
        if isinstance(value, float) and value < 1000
        else f"{value:.0f}"
        if isinstance(value, float)
        else str(value)
    )


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
    parser.add_argument("--save", metavar="TITLE", help="of the section of the results page")
    parser.add_argument("--fresh", action="store_true", help="a process for each fit")
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), flush=True)
        return
    for folder in (options.folder / REAL[name] for name in options.data if name in REAL):
        if not folder.is_dir():
            parser.error(f"{folder} is missing; data/README.md says where it is obtained")
    here = Worker(Path(__file__).resolve().parents[2], fresh=options.fresh)
    there = Worker(options.before, fresh=options.fresh) if options.before else None
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
                                "data": name,
                                "noise": noise,
                                "loss": loss,
                                "tol": tol,
                                "threads": threads,
                                "C": C,
                                "queries": options.queries,
                                "folder": str(options.folder),
                                "limit": options.limit,
                                "solver": options.solver,
                                "fresh": options.fresh,
                                "path": Cs if C == "path" else None,
                            }
                            row = {**task, **here(task)}
                            text = (
                                f"{name:>8} {noise:5g} {loss:>12} {tol:6g} {threads:7d} {C:>8.4g} "
                                if C != "path"
                                else f"{name:>8} {noise:5g} {loss:>12} {tol:6g} {threads:7d}     path "
                            ) + (
                                f"{row['passes']:6d} {row['pairs']:7.1f} {row['seconds']:8.3f} {row['gap']:8.1e}  "
                                f"{row['solver']:11}"
                                + (f" {row['peak_MB']:6.0f} MB" if options.fresh else "")
                            )
                            if there is not None:
                                row["before"] = before = there(task)
                                text += (
                                    f" {before['passes']:6d} {before['seconds']:8.3f} {before['gap']:8.1e} "
                                    f"{row['seconds'] / before['seconds']:6.2f}"
                                    + (f" {before['peak_MB']:6.0f} MB" if options.fresh else "")
                                )
                            print(text, flush=True)
                            rows.append(row)
    here.close()
    if there is not None:
        there.close()
    if options.save:
        save(options.save, rows)
    print(json.dumps({"benchmark": "losses", "rows": rows}))


if __name__ == "__main__":
    main()
