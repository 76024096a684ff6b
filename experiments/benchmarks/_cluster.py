"""Shared code of the benchmarks on Dask clusters: clusters, files that split queries, rounds, memory, pages."""

import contextlib
import json
import logging
import pickle
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from structsvm.dask.cluster import DaskPartitions
from structsvm.readers import make_ranking

DOCS = 120
"""Number of documents per query."""

RESULTS = Path(__file__).resolve().parent.parent / "results" / "scale_out"


@contextlib.contextmanager
def cluster_of(n_workers: int, threads: int = 1) -> Iterator[Any]:
    """Start worker processes on this machine, and yield their client."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=threads,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(warm_up)
        yield client


def warm_up() -> None:
    """Import the modules that a worker needs, so that no timed round includes imports."""
    import structsvm.dask.rows  # noqa: F401


def write_tables(folder: Path, n_queries: int, width: int, n_files: int, seed: int = 0) -> str:
    """Write Parquet files with equal numbers of rows, which split queries; return their pattern."""
    import pyarrow
    from pyarrow import parquet

    data = make_ranking(n_queries, DOCS, width, noise=1.0, dtype=np.float32, random_state=seed)
    folder.mkdir()
    borders = np.linspace(0, data.n_rows, n_files + 1).astype(int)
    borders[1:-1] += 7
    for k in range(n_files):
        rows = slice(borders[k], borders[k + 1])
        columns = {f"f{j}": data.X[rows, j] for j in range(width)}
        columns |= {"label": data.y[rows].astype(np.int32), "qid": data.qid[rows]}
        parquet.write_table(pyarrow.table(columns), folder / f"part-{k:03d}.parquet")
    return str(folder / "*.parquet")


class Round(NamedTuple):
    """A call to all partitions."""

    method: str
    seconds: float
    cpu: float
    """Processor seconds of all workers; 0 unless requested."""
    sent: int
    """Bytes sent to one partition and received from it."""
    returned: int


@contextlib.contextmanager
def watching(before: Any = None, cpu: Any = None) -> Iterator[list[Round]]:
    """Yield a list that grows by a :class:`Round` for each round of the fits in the block.

    ``before(number, method)`` is called before each round; ``cpu()`` returns processor seconds so far.
    """
    rounds: list[Round] = []
    each = DaskPartitions.each

    def watched(parts: Any, method: str, payloads: Any) -> Any:
        if before is not None:
            before(len(rounds), method)
        spent = 0.0 if cpu is None else cpu()
        start = time.perf_counter()
        answers = each(parts, method, payloads)
        seconds = time.perf_counter() - start
        spent = 0.0 if cpu is None else cpu() - spent
        sent, returned = (sum(len(pickle.dumps(one)) for one in many) for many in (payloads, answers))
        rounds.append(Round(method, seconds, spent, sent // len(payloads), returned // len(answers)))
        return answers

    DaskPartitions.each = watched  # type: ignore[method-assign]
    try:
        yield rounds
    finally:
        DaskPartitions.each = each  # type: ignore[method-assign]


def resident(client: Any) -> dict[str, float]:
    """Return the largest current and the largest peak resident memory of a worker, in bytes."""

    def look() -> tuple[int, int]:
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(lines["VmRSS"].split()[0]) * 1024, int(lines["VmHWM"].split()[0]) * 1024

    found = client.run(look)
    return {"now": max(a for a, _ in found.values()), "peak": max(b for _, b in found.values())}


def save(name: str, title: str, text: str, sections: dict[str, Sequence[dict[str, Any]]]) -> None:
    """Write tables to a page of the results, and as records to a JSON file beside it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", text.strip(), ""]
    for heading, rows in sections.items():
        heads = list(dict.fromkeys(key for row in rows for key in row))
        lines += [f"## {heading}", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        lines += [f"| {' | '.join(str(row.get(head, '')) for head in heads)} |" for row in rows]
        lines.append("")
    (RESULTS / f"{name}.md").write_text("\n".join(lines))
    record = {"benchmark": f"scale_out_{name}", **sections}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
