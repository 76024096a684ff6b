"""Seconds and memory of ``structsvm interleave analyse`` on a large click log, on one core.

The logs are synthetic: lists of 10 with string ids (``--lists`` distinct lists, because popular queries recur; a
repeated list is parsed once), impression, session and user ids, names of the rankers, and about one click per list with
time and dwell time. Each command runs in a separate process, whose peak memory is measured. For comparison, a log of
100,000 lines is analysed through objects, by ``read_log`` and ``analyse``. Targets for 1e7 impressions: at most 180 s
and 2 GB.

    python experiments/benchmarks/logs.py [--quick] [--impressions 10000000] [--lists 5000] [--folder /tmp]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from structsvm.online.interleaving import Probabilistic, TeamDraft

BY_OBJECTS = 100_000
OBJECTS = (
    "import sys; from structsvm.online.clicklog import read_log; from structsvm.online.statistics import analyse; "
    "analyse(read_log(sys.argv[1]))"
)


def write(path: Path, method: TeamDraft | Probabilistic, n: int, n_lists: int, seed: int = 0) -> None:
    """Write a log of ``n`` impressions of ``n_lists`` lists, with slightly more clicks on the first document."""
    rng = np.random.default_rng(seed)
    lists = []
    for query in range(n_lists):
        first = int(rng.integers(10**8))
        documents = [f"doc-{(first + 7919 * k) % 10**8:08d}" for k in range(20)]
        rankings = [[documents[k] for k in rng.permutation(20)] for _ in range(2)]
        record = method.show(rankings, 10, rng).to_json()
        lists.append((record[:-1], query))
    users = max(1, n // 30)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, n, 100_000):
            m = min(100_000, n - start)
            which, user = rng.integers(n_lists, size=m).tolist(), rng.integers(users, size=m).tolist()
            n_clicks = rng.choice(4, size=m, p=[0.35, 0.4, 0.15, 0.1]).tolist()
            ranks = rng.geometric(0.3, size=(m, 3)).clip(1, 10).tolist()
            seconds = rng.exponential(20, size=(m, 6)).round(2).tolist()
            lines = []
            for k in range(m):
                record, query = lists[which[k]]
                clicks = ",".join(
                    f'{{"rank":{ranks[k][c]},"time":{seconds[k][c]},"dwell":{seconds[k][c + 3]}}}'
                    for c in range(n_clicks[k])
                )
                lines.append(
                    f'{{"shown":{record},"impression":"i{start + k:012x}"}},"rankers":["production","candidate"],'
                    f'"query":"q{query}","session":"s{(start + k) // 3}","user":"u{user[k]}","clicks":[{clicks}]}}\n'
                )
            file.writelines(lines)


def cost(*command: str) -> tuple[float, float]:
    """Return the processor seconds and peak memory in GB of a command in a separate process."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.DEVNULL, env={**os.environ, **one}
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{command}: status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the impressions")
    parser.add_argument("--impressions", type=int, default=10_000_000)
    parser.add_argument("--lists", type=int, default=5000, help="number of distinct lists")
    parser.add_argument("--folder", type=Path, help="where the logs are written; 8 GB for 1e7 impressions")
    arguments = parser.parse_args()
    n = arguments.impressions // 50 if arguments.quick else arguments.impressions
    result: dict[str, float] = {"impressions": n, "lists": arguments.lists}
    print(f"{'log':34}{'bytes a line':>14}{'CPU s':>9}{'us a line':>11}{'GB':>7}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path, few = Path(folder) / "log.jsonl", Path(folder) / "few.jsonl"
        for method in (TeamDraft(), Probabilistic()):
            write(path, method, n, arguments.lists)
            write(few, method, min(n, BY_OBJECTS), arguments.lists)
            size = path.stat().st_size / n
            analyse = ("-m", "structsvm", "interleave", "analyse")
            for name, lines, command in (
                ("", n, (*analyse, str(path))),
                ("_by_user", n, (*analyse, str(path), "--cluster", "user")),
                ("_by_objects", min(n, BY_OBJECTS), ("-c", OBJECTS, str(few))),
            ):
                seconds, memory = cost(*command)
                print(
                    f"{method.name + name:34}{size:14.0f}{seconds:9.1f}{seconds / lines * 1e6:11.1f}{memory:7.2f}"
                )
                result[f"{method.name}{name}_us_per_line"] = round(seconds / lines * 1e6, 2)
                result[f"{method.name}{name}_gb"] = round(memory, 3)
    print(json.dumps({"benchmark": "logs", **result}))


if __name__ == "__main__":
    main()
