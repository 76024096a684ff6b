"""SVM-map against tree boosters and LinearSVC on pair differences, at the quality each reaches.

    python experiments/benchmarks/peers.py [--queries 2000] [--threads 2] [--repeats 3]

Generated queries x 120 documents x 136 features, graded labels of a noisy linear model, data already in memory; a
second set of the same size measures test MAP (relevant: label >= 1). Peers: scikit-learn ``LinearSVC`` on 200 sampled
pair differences a query (differences made beforehand), LightGBM ``lambdarank`` and XGBoost ``rank:map``, 100 trees
each. All take turns in one process; times are medians. Needs the ``bench`` extra. Last line: JSON.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from structsvm import SVMMap
from structsvm.metrics import evaluate
from structsvm.readers import make_ranking


def pair_differences(X: Any, y: Any, offsets: Any, per_query: int, rng: Any) -> tuple[Any, Any]:
    first, second = [], []
    for start, stop in pairwise(offsets):
        i, j = rng.integers(start, stop, (2, 4 * per_query))
        keep = y[i] > y[j]
        first.append(i[keep][:per_query])
        second.append(j[keep][:per_query])
    i, j = np.concatenate(first), np.concatenate(second)
    sign = rng.choice([-1, 1], len(i))
    return (X[i] - X[j]) * sign[:, None].astype(X.dtype), sign


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--C", type=float, default=10.0)
    options = parser.parse_args()
    try:
        import lightgbm
        import xgboost
    except ImportError as error:
        raise SystemExit(f"{error.name} is missing: pip install '.[bench]'") from None
    from sklearn.svm import LinearSVC

    both = make_ranking(2 * options.queries, 120, 136, dtype=np.float32, random_state=0)
    data, test = (
        both.select(np.arange(options.queries)),
        both.select(np.arange(options.queries, 2 * options.queries)),
    )
    X, y, qid, sizes = data.X, data.y, data.qid, np.diff(data.offsets)
    D, sign = pair_differences(X, y, data.offsets, 200, np.random.default_rng(0))
    threads = options.threads
    booster = {"tree_method": "hist", "n_estimators": 100, "n_jobs": threads}

    def map_of(scores: Any) -> float:
        return float(evaluate("map", test.y, scores, qid=test.qid, ties="row").mean)

    def linear_svc(C: float) -> Callable[[], Any]:
        def run() -> Any:
            with warnings.catch_warnings(action="ignore"):  # of the peer, which may not converge
                model = LinearSVC(C=C, loss="hinge", fit_intercept=False, dual=True).fit(D, sign)
            return test.X @ model.coef_[0]

        return run

    methods: dict[str, Callable[[], Any]] = {
        f"SVM-map, C={options.C:g}": lambda: (
            SVMMap(C=options.C, n_jobs=threads).fit(X, y, qid=qid).predict(test.X)
        ),
        "LinearSVC, 200 pairs a query, C=0.01": linear_svc(0.01),
        "LightGBM lambdarank, 100 trees": lambda: (
            lightgbm.LGBMRanker(n_estimators=100, n_jobs=threads, verbose=-1)
            .fit(X, y.astype(int), group=sizes)
            .predict(test.X)
        ),
        "XGBoost rank:map, 100 trees": lambda: (
            xgboost.XGBRanker(objective="rank:map", **booster)
            .fit(X, (y >= 1).astype(int), qid=qid)
            .predict(test.X)
        ),
    }
    ours = next(iter(methods))
    methods[ours]()  # compiles, or loads what was compiled
    times: dict[str, list[float]] = {name: [] for name in methods}
    quality: dict[str, float] = {}
    for _ in range(options.repeats):
        for name, run in methods.items():
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                start = time.perf_counter()
                scores = run()
                times[name].append(time.perf_counter() - start)
            quality[name] = map_of(scores)
    print(
        f"{options.queries} x 120 x 136 float32, {threads} threads, seconds with predict (median of {options.repeats})"
    )
    print(f"{'method':40} {'seconds':>8} {'test MAP':>9} {'x SVM-map':>10}")
    result = {}
    for name in methods:
        seconds = statistics.median(times[name])
        ratio = statistics.median(a / b for a, b in zip(times[name], times[ours], strict=True))
        print(f"{name:40} {seconds:8.2f} {quality[name]:9.4f} {ratio:10.1f}")
        result[name] = {
            "seconds": round(seconds, 3),
            "map": round(quality[name], 4),
            "ratio": round(ratio, 1),
        }
    print(json.dumps({"benchmark": "peers", "queries": options.queries, "threads": threads, **result}))


if __name__ == "__main__":
    main()
