"""Training from a store that is larger than the memory the process may use.

    python experiments/benchmarks/out_of_core.py [--queries 30000] [--share 1 0.5] [--C 1 10]

Data: queries x 120 documents x 136 float32 features of a noisy linear model, in a store. Each solver trains on the
mapped store in a separate process. A control group (version 1, which requires root) limits its memory, including pages
of the store, to 10 times the store, and then to the given shares of it, plus 0.5 GB for the interpreter. The store is
evicted from the page cache before each run. Weights must be bit-identical for all limits. Writes
``experiments/results/scale_out/out_of_core.md``. Last line: JSON.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _cluster import save

from structsvm.oracles import get_oracle
from structsvm.readers import open_store, write_ranking_store
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import train

_GROUPS = Path("/sys/fs/cgroup/memory")
_INTERPRETER = 500_000_000


def forget(store: Path) -> None:
    """Evict the files of a store from the page cache."""
    for file in store.iterdir():
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def child(store: str, solver: str, C: float) -> None:
    data = open_store(store)
    problem = RankingProblem(data.X, data.offsets, get_oracle("map").bind(data.y, data.offsets), n_jobs=2)
    start, cpu = time.perf_counter(), time.process_time()
    fit = train(problem, C, solver=solver)  # type: ignore[arg-type]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "passes": fit.n_passes,
                "s": round(time.perf_counter() - start, 1),
                "cpu s": round(time.process_time() - cpu, 1),
                "gap": float(f"{fit.gap:.1e}"),
                "major faults": usage.ru_majflt,
                "w": hashlib.sha256(fit.w.tobytes()).hexdigest()[:12],
            }
        )
    )


def limited(command: list[str], limit: int, name: str) -> dict[str, Any]:
    """Run a command in a control group with this much memory."""
    group = _GROUPS / name
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None,
        )
        if run.returncode:
            return {"ended": f"exit code {run.returncode}: {run.stderr.strip()[-200:]}"}
        most = int((group / "memory.max_usage_in_bytes").read_text())
        return {**json.loads(run.stdout), "most GB": round(most / 1e9, 2)}
    finally:
        group.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=30_000)
    parser.add_argument("--share", type=float, nargs="+", default=[1.0, 0.5])
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        store, solver, C = options.child
        child(store, solver, float(C))
        return
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "data.store")
        write_ranking_store(store, options.queries, 120, 136, noise=1.0, random_state=0)
        size = sum(file.stat().st_size for file in store.iterdir())
        print(f"{size / 1e9:.2f} GB in the store", flush=True)
        rows = []
        for C in options.C:
            for solver in ("one_slack", "frank_wolfe"):
                for share in (10.0, *options.share):
                    forget(store)
                    limit = int(share * size) + _INTERPRETER
                    command = [sys.executable, __file__, "--child", str(store), solver, str(C)]
                    found = limited(command, limit, f"structsvm-{os.getpid()}")
                    rows.append({"solver": solver, "C": C, "limit GB": round(limit / 1e9, 2), **found})
                    print(rows[-1], flush=True)
                same = {row.get("w") for row in rows if (row["solver"], row["C"]) == (solver, C)}
                assert len(same) == 1, f"{solver}, C={C}: other weights"
        text = f"""
`python experiments/benchmarks/out_of_core.py --queries {options.queries} --share \
{" ".join(f"{share:g}" for share in options.share)} --C {" ".join(f"{C:g}" for C in options.C)}`

A store of {size / 1e9:.2f} GB ({options.queries * 120:,} rows of 136 float32 features), loss `map`, relative gap \
1e-3, two threads. The limit is on all memory of the process, pages of the store included, and set by a control \
group; the first line of each solver has memory for everything. `most GB` is what was used of it. Weights are the same \
bytes in all lines of a solver and C.
"""
        save("out_of_core", "Training from a store larger than memory", text, {"Limits": rows})
        print(json.dumps({"benchmark": "out_of_core", "store GB": round(size / 1e9, 2), "rows": rows}))


if __name__ == "__main__":
    main()
