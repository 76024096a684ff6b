"""Rankers of three libraries on the same Dask cluster and files, undisturbed and with a worker killed.

    python experiments/benchmarks/scale_out_peers.py [--queries 8000] [--features 32] [--trees 100]

Data: queries of 120 documents with float32 features, graded labels of a noisy linear model (noise 1), in eight Parquet
files that split queries; 1,000 further queries for the test. There are two worker processes of one thread. Each ranker
reads the files as its manual recommends: ``DaskXGBRanker`` sorts and divides the rows by ``qid`` itself;
``DaskLGBMRanker`` requires whole queries in each partition and their sizes, which ``set_index`` and a ``groupby``
provide. Each ranker runs in a separate process and a separate network (``unshare``, which requires root), whose bytes
are counted. It then runs again, and one worker receives SIGKILL after 80 % of the time of the first run; the second run
has twice that time plus 40 s to end. Writes ``experiments/results/scale_out/peers.md``. Last line: JSON.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from _cluster import DOCS, cluster_of, resident, save, write_tables

from structsvm.dask import DaskStructuralRanker
from structsvm.metrics import evaluate
from structsvm.readers import make_ranking

N_TEST = 1000
RANKERS = ("DaskStructuralRanker", "DaskLGBMRanker", "DaskXGBRanker")


def fit_structsvm(client: Any, tables: str, trees: int) -> Any:
    model = DaskStructuralRanker("map", C=10.0, client=client, groups="mend").fit(tables)
    return lambda X: X @ model.coef_


def fit_lightgbm(client: Any, tables: str, trees: int) -> Any:
    import dask.dataframe as dd
    from lightgbm.dask import DaskLGBMRanker

    frame = dd.read_parquet(tables)
    ids = frame["qid"].compute()
    middle = int(ids.iloc[len(ids) // 2])
    # sorted by query, cut between queries: one partition for each worker
    whole = frame.set_index("qid", divisions=[int(ids.min()), middle, int(ids.max())]).persist()
    sizes = whole.map_partitions(_sizes, meta=("size", "i8"))
    X = whole[[name for name in whole.columns if name != "label"]]
    model = DaskLGBMRanker(n_estimators=trees, client=client, verbose=-1)
    model.fit(X, whole["label"], group=sizes)
    local = model.to_local()
    return lambda X: local.booster_.predict(X)


def _sizes(frame: Any) -> Any:
    """Return the number of rows of each query, in query order."""
    return frame.groupby(level=0, sort=False).size()


def fit_xgboost(client: Any, tables: str, trees: int) -> Any:
    import dask.dataframe as dd
    from xgboost.dask import DaskXGBRanker

    frame = dd.read_parquet(tables)
    X = frame[[name for name in frame.columns if name not in ("label", "qid")]]
    model = DaskXGBRanker(n_estimators=trees, objective="rank:ndcg", tree_method="hist")
    model.client = client
    model.fit(X, frame["label"], qid=frame["qid"])
    booster = model.get_booster()
    booster.feature_names = None
    return lambda X: booster.inplace_predict(X)


def crossed() -> int:
    """Return the number of bytes that have crossed the loopback device of this network."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == "lo":
            return int(figures.split()[0])
    return 0


def child(ranker: str, folder: Path, trees: int, blow: float) -> dict[str, Any]:
    """Train and test one ranker; ``blow`` seconds after the start a worker is killed, 0 for none."""
    fit = dict(zip(RANKERS, (fit_structsvm, fit_lightgbm, fit_xgboost), strict=True))[ranker]
    with np.load(folder / "test.npz") as test:
        X, y, qid = test["X"], test["y"], test["qid"]
    with cluster_of(2) as client:
        warm = DaskStructuralRanker("map", client=client, groups="mend")
        if ranker == RANKERS[0]:
            warm.fit(str(folder / "warm" / "*.parquet"))  # loads compiled kernels
        pids = list(client.run(os.getpid).values())
        empty, bytes_before = resident(client)["now"], crossed()
        if blow:
            timer = threading.Timer(blow, os.kill, (pids[0], signal.SIGKILL))
            timer.daemon = True
            timer.start()
        start = time.perf_counter()
        try:
            predict = fit(client, str(folder / "tables" / "*.parquet"), trees)
        except Exception as error:  # record any error that a library raises
            said = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
            _last({"ended after, s": round(time.perf_counter() - start, 1), "ended with": said})
        seconds = time.perf_counter() - start
        scores = predict(X)
        row: dict[str, Any] = {"s": round(seconds, 1)}
        if not blow:
            row |= {
                "MB over the network": round((crossed() - bytes_before) / 1e6, 1),
                "peak of a worker over an empty one, GB": round((resident(client)["peak"] - empty) / 1e9, 2),
            }
        for name in ("map", "ndcg@10"):
            row[f"test {name}"] = round(evaluate(name, y, np.asarray(scores), qid=qid).mean, 4)
        _last(row)
    return row


def _last(row: dict[str, Any]) -> None:
    """Print the result and exit immediately, without waiting for threads that a killed worker left behind."""
    print(json.dumps(row), flush=True)
    for process in _children(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    os._exit(0)


def _children(pid: int) -> list[int]:
    """Return the child processes of a process, and their descendants."""
    found = [
        child
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [each for child in map(int, found) for each in (child, *_children(child))]


def apart() -> list[str]:
    """Return the command prefix that creates a separate network, or an empty list if that is impossible."""
    words = ["unshare", "--net", "--", "sh", "-c", 'ip link set lo up && exec "$0" "$@"']
    if shutil.which("unshare") and shutil.which("ip"):
        tried = subprocess.run([*words, "true"], capture_output=True)
        if tried.returncode == 0:
            return words
    print("no network apart: bytes are those of the whole machine", file=sys.stderr)
    return []


def run(command: list[str], limit: float) -> dict[str, Any]:
    """Run a command for at most this many seconds, and return the content of its last line."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            for each in [*_children(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            process.wait()
            return {"ended with": f"no answer in {limit:.0f} s: ended by us"}
        out.seek(0)
        err.seek(0)
        lines = [line for line in out if line.startswith("{")]
        if not lines:
            said = (err.read().strip().splitlines() or ["nothing"])[-1]
            return {"ended with": f"exit code {process.returncode}, {said[:160]}"}
        return dict(json.loads(lines[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=8000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--rankers", nargs="+", choices=RANKERS, default=RANKERS)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        ranker, folder, blow = options.child
        child(ranker, Path(folder), options.trees, float(blow))
        return
    calm, killed = [], []
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        n, width = options.queries, options.features
        write_tables(place / "tables", n, width, 8)
        write_tables(place / "warm", 40, width, 2)
        whole = make_ranking(n + N_TEST, DOCS, width, noise=1.0, dtype=np.float32, random_state=0)
        test = whole.select(np.arange(n, n + N_TEST))
        np.savez(place / "test.npz", X=test.X, y=test.y, qid=test.qid)
        del whole
        words = apart()
        for ranker in options.rankers:
            command = [
                *words,
                sys.executable,
                __file__,
                "--trees",
                str(options.trees),
                "--child",
                ranker,
                temporary,
            ]
            calm.append({"ranker": ranker} | run([*command, "0"], 100.0))
            print(calm[-1], flush=True)
            if "s" not in calm[-1]:
                continue
            seconds = float(calm[-1]["s"])
            killed.append({"ranker": ranker} | run([*command, str(0.8 * seconds)], 2 * seconds + 40.0))
            print(killed[-1], flush=True)
    text = f"""
`python experiments/benchmarks/scale_out_peers.py --queries {n} --features {width} --trees {options.trees}`

{n * DOCS:,} rows of {width} float32 features ({4e-9 * n * DOCS * width:.2f} GB) in eight Parquet files that cut \
queries, two worker processes of one thread on a machine of two cores; {N_TEST:,} other queries for the test. Seconds \
are from the files to the model. The labels are those of a noisy linear model, which suits a linear ranker: the \
measures say that each has learned, not which is better. A worker is killed after 80 % of the undisturbed seconds; \
then a ranker has twice these seconds and 40 s. `DaskStructuralRanker` has loss `map` and C = 10, and has \
loaded its compiled kernels; the others have {options.trees} trees and their defaults.
"""
    save(
        "peers",
        "Rankers on the same Dask cluster",
        text,
        {"Undisturbed": calm, "With a worker killed": killed},
    )
    print(json.dumps({"benchmark": "scale_out_peers", "undisturbed": calm, "killed": killed}))


if __name__ == "__main__":
    main()
