"""The average-precision oracle against sorting the same scores query by query.

    python experiments/benchmarks/oracle.py [--queries 10000] [--docs 120] [--relevant 30] [--repeats 9]

Oracle and sort take turns on the same scores; times are medians on one core. "Sort" is one ``numpy.sort`` call per
query; the oracle is called for 16 queries at a time, as training does. Scores are noise, and those of a half-trained
model (labels shifted by noise). Last line: JSON.
"""

import argparse
import json
import statistics
import time

import numpy as np

from structsvm.oracles.average_precision import AveragePrecision

CHUNK = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--docs", type=int, default=120)
    parser.add_argument("--relevant", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    n, length = options.queries, options.docs
    rng = np.random.default_rng(0)
    offsets = np.arange(n + 1) * length
    y = np.zeros((n, length))
    y[np.arange(n)[:, None], np.argsort(rng.random((n, length)), axis=1)[:, : options.relevant]] = 1
    separator = AveragePrecision().bind(y.ravel(), offsets)
    loss, coef = np.empty(CHUNK), np.empty(CHUNK * length)
    separator.separate(np.zeros(CHUNK * length), 0, CHUNK, loss, coef)  # compiles, or loads compiled code

    print(f"{n} queries x {length} documents, {options.relevant} relevant; microseconds a query (median)")
    print(f"{'scores':12} {'oracle':>8} {'sort':>8} {'argsort':>8} {'oracle / sort':>14}")
    result = {}
    for name, scale in (("noise", 0.0), ("half-trained", 1.0)):
        scores = (rng.normal(size=(n, length)) + scale * y).ravel()
        times: dict[str, list[float]] = {"oracle": [], "sort": [], "argsort": []}
        for _ in range(options.repeats):
            start = time.perf_counter()
            for q in range(0, n, CHUNK):
                last = min(q + CHUNK, n)
                separator.separate(scores[offsets[q] : offsets[last]], q, last, loss, coef)
            times["oracle"].append(time.perf_counter() - start)
            for kind, function in (("sort", np.sort), ("argsort", np.argsort)):
                start = time.perf_counter()
                for q in range(n):
                    function(scores[offsets[q] : offsets[q + 1]])
                times[kind].append(time.perf_counter() - start)
        micro = {k: statistics.median(v) / n * 1e6 for k, v in times.items()}
        ratio = statistics.median(a / b for a, b in zip(times["oracle"], times["sort"], strict=True))
        print(f"{name:12} {micro['oracle']:8.2f} {micro['sort']:8.2f} {micro['argsort']:8.2f} {ratio:14.2f}")
        result[name] = {"oracle_us": round(micro["oracle"], 3), "oracle_per_sort": round(ratio, 3)}
    print(json.dumps({"benchmark": "oracle", **result}))


if __name__ == "__main__":
    main()
