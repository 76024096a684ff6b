"""Squared-hinge PairwiseSVM on all pairs against LinearSVC on a sample of pair differences.

    python experiments/benchmarks/pairwise.py [--queries 2000] [--documents 120] [--features 136] [--pairs 200]

Both minimise ``1/2 ||w||^2 + C * mean over their pairs`` for the same C, ours on all pairs to a relative gradient norm
of 1e-4, LinearSVC on some pairs of each query with its default tolerance and its faster solver for so many rows (the
primal). MAP is measured on queries that neither was trained on; documents of grade 2 and more are relevant. The two
take turns, so that a busy machine slows down both; times are medians and exclude compilation. Prints a table and, as
the last line, JSON.
"""

import argparse
import json
import os
import statistics
import time
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from structsvm.estimators.pairwise import PairwiseSVM
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers.synthetic import make_ranking


def sampled_differences(data: QueryData, per_query: int, seed: int) -> tuple[Any, Any]:
    """Return differences of pairs with different grades, sampled with replacement; every other pair is reversed."""
    rng = np.random.default_rng(seed)
    left, right = [], []
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        found = 0
        while found < per_query:
            i, j = rng.integers(first, last, size=(2, 2 * per_query))
            better = np.flatnonzero(data.y[i] > data.y[j])[: per_query - found]
            left.append(i[better])
            right.append(j[better])
            found += better.size
    D = data.X[np.concatenate(left)] - data.X[np.concatenate(right)]
    signs = np.where(np.arange(D.shape[0]) % 2 == 0, 1.0, -1.0)
    D *= signs[:, None]
    return D, signs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--documents", type=int, default=120)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--pairs", type=int, default=200, help="pair differences a query for LinearSVC")
    parser.add_argument("--C", type=float, default=100.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    n_test = max(100, options.queries // 4)
    everything = make_ranking(options.queries + n_test, options.documents, options.features, random_state=0)
    training = everything.select(np.arange(options.queries))
    unseen = everything.select(np.arange(options.queries, options.queries + n_test))
    small = everything.select(np.arange(20))
    PairwiseSVM("squared_hinge", C=options.C).fit(small.X, small.y, qid=small.qid)  # compiles, or loads

    def test_map(scores: Any) -> float:
        return evaluate("map", unseen.y, scores, qid=unseen.qid, relevance=2).mean

    names = [
        "PairwiseSVM, 1 thread",
        "PairwiseSVM, 2 threads",
        "LinearSVC, with its pairs",
        "LinearSVC, fit alone",
    ]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    values: dict[str, float] = {}
    fits = {}
    for repeat in range(options.repeats):
        for name, n_jobs in ((names[0], 1), (names[1], 2)):
            model = PairwiseSVM("squared_hinge", C=options.C, tol=1e-4, n_jobs=n_jobs)
            start = time.perf_counter()
            model.fit(training.X, training.y, qid=training.qid)
            seconds[name].append(time.perf_counter() - start)
            values[name] = test_map(model.predict(unseen.X))
            fits[name] = model.fit_
        start = time.perf_counter()
        D, signs = sampled_differences(training, options.pairs, repeat)
        middle = time.perf_counter()
        svc = LinearSVC(C=options.C / len(signs), fit_intercept=False, dual=False).fit(D, signs)
        end = time.perf_counter()
        seconds[names[2]].append(end - start)
        seconds[names[3]].append(end - middle)
        values[names[2]] = values[names[3]] = test_map(unseen.X @ svc.coef_[0])
        del D

    median = {name: statistics.median(times) for name, times in seconds.items()}
    fit = fits[names[0]]
    print(
        f"{options.queries} queries x {options.documents} documents x {options.features} features, C={options.C:g}, "
        f"{os.cpu_count()} processors"
    )
    print(f"{'':28}{'seconds':>9}{'ratio':>8}{'MAP':>8}")
    for name, value in median.items():
        print(f"{name:28}{value:9.3f}{value / median[names[0]]:8.1f}{values[name]:8.4f}")
    print(
        f"PairwiseSVM: {fit.n_iterations} steps, {fit.n_passes} passes, relative gradient norm "
        f"{fit.gradient_norm:.1e}, relative duality gap {fit.gap:.1e}"
    )
    result = {
        "benchmark": "pairwise",
        "shape": [options.queries, options.documents, options.features],
        "seconds": {name: round(value, 3) for name, value in median.items()},
        "map": {name: round(value, 4) for name, value in values.items()},
        "ratio": round(median[names[2]] / median[names[0]], 1),
        "ratio_fit_alone": round(median[names[3]] / median[names[0]], 1),
        "passes": fit.n_passes,
        "gradient_norm": fit.gradient_norm,
        "gap": fit.gap,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
