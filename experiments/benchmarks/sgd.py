"""Speed of the stochastic rankers, as ratios in one run: pairs a second by size, LCRA steps, LambdaRank epochs.

The references are: reading the same pairs of rows at random positions without learning (in Numba, like the training
kernels), scikit-learn's ``SGDClassifier`` on precomputed pair differences, and one pass over the data.

    python experiments/benchmarks/sgd.py [--rows 10000 1000000 4000000] [--repeats 3]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from sklearn.linear_model import SGDClassifier

from structsvm.estimators.lambdarank import LambdaRank
from structsvm.queries import group_queries
from structsvm.trainers.pair_index import draw_pairs, index_pairs
from structsvm.trainers.pairwise_descent import Agreement, Views, descend, mean_squared_norms, start

N_FEATURES = 136
LENGTH = 120


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the median processor time of this thread: other processes do not count, except their cache misses."""
    times = []
    for _ in range(repeats):
        begun = time.thread_time()
        work()
        times.append(time.thread_time() - begun)
    return statistics.median(times)


def make_rows(n: int, dtype: Any = np.float32) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = np.empty((n, N_FEATURES), dtype=dtype)
    for first in range(0, n, 100_000):
        X[first : first + 100_000] = rng.random((min(100_000, n - first), N_FEATURES), dtype=np.float32)
    y = np.clip(np.round(2 * X[:, 0] + 2 * X[:, 1] + rng.normal(scale=0.5, size=n) - 1), 0, 4)
    return X, y, group_queries(np.arange(n) // LENGTH, n)


@njit(nogil=True)
def read_pairs(X: Any, better: Any, worse: Any) -> float:
    """Sum the differences of the rows of each pair, which has the memory traffic of SPD."""
    total = np.zeros(X.shape[1])
    for i in range(better.shape[0]):
        a, b = X[better[i]], X[worse[i]]
        for j in range(X.shape[1]):
            total[j] += a[j] - b[j]
    return total.sum()


def measure_descent(
    X: Any, y: Any, grouping: Any, n_views: int, n_unlabeled: int, n_steps: int, repeats: int
) -> dict[str, float]:
    index = index_pairs(y, grouping)
    columns = np.random.default_rng(1).permutation(N_FEATURES) if n_views > 1 else np.arange(N_FEATURES)
    views = Views.of([np.sort(part) for part in np.array_split(columns, n_views)])
    options: Any = {
        "eta_0": 1 / mean_squared_norms(X, index, views, 0),
        "lam": 1e-4,
        "agreement": Agreement(0.1, n_unlabeled, index_pairs(None, grouping)) if n_unlabeled else None,
    }
    begin = start(views, 0)
    descend(X, y, index, views, begin, 1000, **options)
    trained = seconds(lambda: descend(X, y, index, views, begin, n_steps, **options), repeats)
    better, worse = draw_pairs(index, 0, 0, n_steps)
    read_pairs(X, better[:10], worse[:10])
    read = seconds(lambda: read_pairs(X, better, worse), repeats)
    return {"steps_per_second": n_steps / trained, "reads_per_second": n_steps / read}


def measure_scikit(n: int, repeats: int) -> float:
    """Return pairs per second of ``SGDClassifier`` on precomputed differences."""
    X, y, grouping = make_rows(n)
    better, worse = draw_pairs(index_pairs(y, grouping), 0, 0, 50_000)
    sign = np.where(np.arange(50_000) % 2, 1, -1)
    pairs = (X[better] - X[worse]).astype(np.float64) * sign[:, None]
    model = SGDClassifier(alpha=1e-4, fit_intercept=False, max_iter=4, tol=None, average=True, random_state=0)
    return 4 * 50_000 / seconds(lambda: model.fit(pairs, sign), repeats)


def measure_epoch(hidden: tuple[int, ...], utility: str, repeats: int) -> float:
    """Return the seconds per epoch on 2,000 queries of 120 documents: a third of four epochs minus one."""
    X, y, grouping = make_rows(2000 * LENGTH)
    qid = np.repeat(np.arange(2000), LENGTH)
    del grouping

    def fit(n: int) -> None:
        LambdaRank(
            utility, hidden=hidden, max_epochs=n, scale="none", early_stopping=False, random_state=0
        ).fit(X, y, qid=qid)

    fit(1)
    return (seconds(lambda: fit(4), repeats) - seconds(lambda: fit(1), repeats)) / 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000, 4_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    result: dict[str, Any] = {"benchmark": "sgd", "spd": {}, "lcra_1_5": {}, "lambdarank_epoch_seconds": {}}
    print(f"{'SPD, rows of 136 float32':34}{'pairs/s':>12}{'reads/s':>12}{'ratio':>8}")
    for n in options.rows:
        data = make_rows(n)
        found = measure_descent(*data, n_views=1, n_unlabeled=0, n_steps=1_000_000, repeats=options.repeats)
        ratio = found["steps_per_second"] / found["reads_per_second"]
        print(f"{n:34,}{found['steps_per_second']:12,.0f}{found['reads_per_second']:12,.0f}{ratio:8.2f}")
        result["spd"][str(n)] = {
            "pairs_per_second": round(found["steps_per_second"]),
            "ratio_to_reading": round(ratio, 3),
        }
        if n <= 1_000_000:
            found = measure_descent(*data, n_views=2, n_unlabeled=5, n_steps=200_000, repeats=options.repeats)
            print(f"{'LCRA-1-5, 2 views, steps/s':34}{found['steps_per_second']:12,.0f}")
            result["lcra_1_5"][str(n)] = round(found["steps_per_second"])
        del data
    rates = [entry["pairs_per_second"] for entry in result["spd"].values()]
    result["slowdown_to_largest"] = round(rates[-2] / rates[-1], 3) if len(rates) > 1 else None
    print(f"{'slower at the largest size by':34}{result['slowdown_to_largest']!s:>12}")
    scikit = measure_scikit(10_000, options.repeats)
    result["ratio_to_scikit_learn"] = round(rates[0] / scikit, 2)
    print(f"{'SGDClassifier on made pairs':34}{scikit:12,.0f}{'':12}{rates[0] / scikit:8.2f}")
    X = make_rows(2000 * LENGTH)[0]
    w = np.ones(N_FEATURES, dtype=np.float32)
    one_pass = seconds(lambda: X @ w, options.repeats)
    print(f"{'LambdaRank, 2,000 x 120 x 136':34}{'s/epoch':>12}{'':12}{'passes':>8}")
    for name, hidden, utility in (
        ("linear ndcg@10", (), "ndcg@10"),
        ("linear map", (), "map"),
        ("linear ranknet", (), "ranknet"),
        ("one hidden layer of 32, ndcg@10", (32,), "ndcg@10"),
    ):
        epoch = measure_epoch(hidden, utility, options.repeats)
        result["lambdarank_epoch_seconds"][name] = round(epoch, 3)
        print(f"{name:34}{epoch:12.3f}{'':12}{epoch / one_pass:8.1f}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
