"""Cost of training on a Dask cluster of two processes: empty rounds, time by rows, bytes per round, memory per worker.

    python experiments/benchmarks/scale_out.py [--parts rounds slope memory] [--rows 1e6 2e6 5e6 1e7] [--folder DATA]

Data: queries of 120 documents with 32 float32 features, graded labels of a noisy linear model (noise 1). Time is
measured on memory-mapped stores, memory on Parquet files that split queries. With ``--folder`` the data are kept in
this folder and reused. Writes the measured sections of ``experiments/results/scale_out/cost.md``; other sections are
unchanged. Last line: JSON.
"""

import argparse
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _cluster import DOCS, RESULTS, cluster_of, resident, save, watching, write_tables

from structsvm.dask import DaskStructuralRanker
from structsvm.dask.cluster import DaskPartitions
from structsvm.dask.rows import hold, to_rows
from structsvm.readers import make_ranking, write_ranking_store

SECTIONS = {"rounds": "Empty rounds", "slope": "Time by rows", "memory": "Memory per worker"}
PASSES = ("descend", "certify")


def rounds_section() -> list[dict[str, Any]]:
    """Measure the seconds of a round that computes nothing, by the number of partitions."""
    data = make_ranking(2048, 4, 3, noise=1.0, random_state=0)
    rows = []
    with cluster_of(2) as client:
        for n_parts in (2, 8, 32, 128, 512):
            held = []
            for k, (a, b) in enumerate(pairwise(np.linspace(0, data.n_queries, n_parts + 1).astype(int))):
                some = data.select(np.arange(a, b))
                part = client.submit(to_rows, some.X, some.y, some.qid, None, str(k), pure=False)
                held.append(client.submit(hold, part, "map", 1.0, None, None, pure=False))
            parts = DaskPartitions(client, held, 60.0)
            seconds = []
            for _ in range(12):
                start = time.perf_counter()
                parts.each("describe", [(None,)] * n_parts)
                seconds.append(time.perf_counter() - start)
            middle = 1e3 * float(np.median(seconds[2:]))
            rows.append(
                {
                    "partitions": n_parts,
                    "ms per round": round(middle, 1),
                    "ms per partition": round(middle / n_parts, 2),
                }
            )
            print(rows[-1], flush=True)
    return rows


def slope_section(folder: Path, sizes: list[int], width: int) -> list[dict[str, Any]]:
    """Measure passes and messages by the number of rows."""
    rows = []
    stores = []
    for n in sizes:
        stores.append(folder / f"{n}x{width}.store")
        if not stores[-1].exists():
            write_ranking_store(stores[-1], n // DOCS, DOCS, width, noise=1.0, random_state=0)
    with cluster_of(2) as client:

        def spent() -> float:
            return float(sum(client.run(time.process_time).values()))

        model = DaskStructuralRanker("map", C=10.0, client=client)
        model.fit(stores[0])  # kernels are compiled
        for n, store in zip(sizes, stores, strict=True):
            for file in store.iterdir():
                file.read_bytes()  # reads the file into the page cache
            best: dict[str, Any] = {}
            for _ in range(2):
                start = time.perf_counter()
                with watching(cpu=spent) as rounds:
                    model.fit(store)
                seconds = time.perf_counter() - start
                for one in rounds:
                    if one.method in PASSES:
                        known = best.get(one.method, one)
                        best[one.method] = one._replace(
                            cpu=min(one.cpu, known.cpu), seconds=min(one.seconds, known.seconds)
                        )
                best["fit"] = min(seconds, best.get("fit", seconds))
            row: dict[str, Any] = {"rows": f"{n:,}", "GB": round(4e-9 * n * width, 2)}
            for method in PASSES:
                row[f"{method}, s"] = round(best[method].seconds, 2)
                row[f"{method}, CPU s"] = round(best[method].cpu, 2)
            mean = sum(best[method].cpu for method in PASSES) / 2
            row |= {
                "CPU s per pass and million rows": round(1e6 * mean / n, 3),
                "passes": model.fit_.n_passes,
                "fit, s": round(best["fit"], 2),
                "bytes to a partition (certify)": best["certify"].sent,
                "back": best["certify"].returned,
            }
            rows.append(row)
            print(rows[-1], flush=True)
    return rows


def memory_section(folder: Path, sizes: list[int], width: int) -> list[dict[str, Any]]:
    """Measure the memory of a worker in units of its rows: while reading and joining, and while training."""
    rows = []
    for n in sizes:
        place = folder / f"{n}x{width}.tables"
        if not place.exists():
            write_tables(place, n // DOCS, width, 8)
        size = 4 * (n // DOCS * DOCS) * width / 2
        for solver in ("partitioned", "one_slack"):
            with cluster_of(2) as client:
                empty = resident(client)["now"]
                loaded: list[float] = []

                def watch(progress: Any, client: Any = client, loaded: list[float] = loaded) -> None:
                    if not loaded:
                        loaded.append(resident(client)["peak"])
                        client.run(_forget_peak)

                model = DaskStructuralRanker(
                    "map", C=10.0, client=client, groups="mend", solver=solver, callback=watch
                )
                start = time.perf_counter()
                model.fit(str(place / "*.parquet"))
                seconds = time.perf_counter() - start
                after = resident(client)
            rows.append(
                {
                    "rows": f"{n:,}",
                    "solver": solver,
                    "rows of a worker, GB": round(size / 1e9, 2),
                    "empty worker, GB": round(empty / 1e9, 2),
                    "peak until the first pass, x rows": round((loaded[0] - empty) / size, 2),
                    "peak after it, x rows": round((after["peak"] - empty) / size, 2),
                    "at the end, x rows": round((after["now"] - empty) / size, 2),
                    "fit with reading, s": round(seconds, 1),
                }
            )
            print(rows[-1], flush=True)
    return rows


def _forget_peak() -> None:
    """Reset the peak memory of this process (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 2e6, 5e6, 1e7])
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    page = RESULTS / "cost.json"
    record = json.loads(page.read_text()) if page.exists() else {}
    sizes = [int(n) for n in options.rows]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        for part in options.parts:
            if part == "rounds":
                found = rounds_section()
            elif part == "slope":
                found = slope_section(folder, sizes, options.features)
            else:
                found = memory_section(folder, sizes, options.features)
            record[SECTIONS[part]] = found
    text = f"""
`python experiments/benchmarks/scale_out.py`

Two worker processes of one thread on a machine of two cores, {options.features} float32 features, queries of {DOCS} \
documents, C = 10. Seconds and CPU seconds are the best of two fits, those of all workers together for the CPU; bytes \
are pickled. Memory is what a worker has resident over an idle one, in units of the features of its rows.
"""
    sections = {title: record[title] for title in SECTIONS.values() if title in record}
    save("cost", "What training on a Dask cluster costs", text, sections)
    print(json.dumps(sections))


if __name__ == "__main__":
    main()
