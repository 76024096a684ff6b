"""Ranking over re-weighted leaves, in units of the time that LightGBM takes to grow the trees.

    python experiments/benchmarks/trees.py [--queries 31000] [--docs 120] [--features 136] [--trees 300] [--grown-on N]
        [--C 1] [--threads 1]

Data: float32 features and graded labels of a linear model with noise and a product of two features. The script measures
CPU seconds of growing 300 trees of 15 leaves, of computing leaves and 64 bins per feature for all rows, and of training
to a gap of 1e-3 at each C; the rows scored per CPU second, compared with LightGBM's own prediction on as many threads;
and the peak of resident memory in units of X, while trees are grown and in total. With ``--grown-on`` the trees are
grown only on the first N queries, and the time for all queries is extrapolated proportionally (300 trees on 3.7 million
rows take a quarter of an hour). Last line: JSON.
"""

import argparse
import json
import resource
import time

import lightgbm
import numpy as np

from structsvm.estimators.tree import TreeRanker
from structsvm.export import export_model
from structsvm.features import LeafFeatures
from structsvm.queries import QueryData


def make(n_queries: int, n_docs: int, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, labels and offsets, generated query by query without a second copy."""
    rng = np.random.default_rng(0)
    n = n_queries * n_docs
    X, y = np.empty((n, n_features), dtype=np.float32), np.empty(n)
    w = rng.normal(size=n_features) / np.sqrt(n_features)
    for q in range(n_queries):
        rows = slice(q * n_docs, (q + 1) * n_docs)
        X[rows] = rng.standard_normal((n_docs, n_features), dtype=np.float32)
        utility = X[rows] @ w + X[rows, 0] * X[rows, 1] + 0.7 * rng.normal(size=n_docs)
        y[rows] = (utility[:, None] > np.quantile(utility, [0.8, 0.9, 0.95, 0.98])).sum(axis=1)
    return X, y, np.arange(0, n + 1, n_docs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=31_000)
    parser.add_argument("--docs", type=int, default=120)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--C", type=float, nargs="+", default=[1.0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--grown-on", type=int, help="number of queries to grow the trees on")
    options = parser.parse_args()
    few = make(40, 20, options.features)  # compiles the kernels that are timed below
    TreeRanker(n_trees=2, solver="frank_wolfe", n_jobs=options.threads).fit(
        *few[:2], qid=np.arange(800) // 20
    )
    X, y, offsets = make(options.queries, options.docs, options.features)
    print(f"{options.queries} x {options.docs} x {options.features}, X {X.nbytes / 1e9:.2f} GB", flush=True)
    record: dict[str, object] = {"options": vars(options)}

    features = LeafFeatures(options.trees, n_jobs=options.threads, random_state=0)
    features.n_features_in_ = options.features
    start = time.process_time()
    n = options.queries if options.grown_on is None else options.grown_on
    first = slice(int(offsets[n]))
    forest = features.grow(X[first], y[first], offsets[: n + 1])
    record["grow"] = growing = (time.process_time() - start) * options.queries / n
    scaled = "" if n == options.queries else f", in proportion to {n} queries"
    print(f"growing {options.trees} trees: {growing:.1f} CPU s{scaled}", flush=True)
    record["peak of growing"] = _peak(X)
    print(f"peak memory so far {record['peak of growing']:.2f} x X", flush=True)

    start = time.process_time()
    features._set(forest, features.edges(X))
    rows = features.rows(X)
    record["rows"] = time.process_time() - start
    print(f"{rows}: {record['rows'] / growing:.2f} x growing", flush=True)

    data = QueryData(rows, y, offsets, np.arange(options.queries))
    problem = TreeRanker(n_jobs=options.threads)._problem(rows, data, np.ones(options.queries))
    record["fits"] = []
    for C in options.C:
        start = time.process_time()
        fit = next(TreeRanker(n_jobs=options.threads)._train(problem, [C]))
        cpu = time.process_time() - start
        record["fits"].append(
            {"C": C, "cpu": cpu, "passes": fit.n_passes, "gap": fit.gap, "solver": fit.solver}
        )
        print(
            f"C = {C:g}: {fit.solver}, {fit.n_passes} passes to gap {fit.gap:.1e}: {cpu / growing:.2f} x growing",
            flush=True,
        )
    record["peak"] = _peak(X)
    print(f"peak memory {record['peak']:.2f} x X", flush=True)

    model = TreeRanker(n_jobs=options.threads)
    model.leaves_, model.coef_, model.fit_ = features, fit.w, fit
    model.n_features_in_ = options.features
    booster = lightgbm.Booster(model_str=export_model(model, "lightgbm").decode())
    plain = lightgbm.Booster(model_str=export_model(_without_bins(model), "lightgbm").decode())
    part = X[:200_000]
    speeds = {}
    for name, score in {
        "predict": model.predict,
        "predict without bins": _without_bins(model).predict,
        "LightGBM, the same trees and bins": lambda X: booster.predict(X, num_threads=options.threads),
        "LightGBM, the same trees": lambda X: plain.predict(X, num_threads=options.threads),
    }.items():
        score(part[:1000])
        start = time.process_time()
        score(part)
        speeds[name] = part.shape[0] / (time.process_time() - start)
        print(f"{name}: {speeds[name] / 1e6:.2f} million rows per CPU second", flush=True)
    record["rows_per_second"] = speeds
    print(json.dumps(record))


def _peak(X: np.ndarray) -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / X.nbytes


def _without_bins(model: TreeRanker) -> TreeRanker:
    features = LeafFeatures(n_bins=0)
    features.n_features_in_ = model.n_features_in_
    features._set(model.leaves_.forest_, [])
    other = TreeRanker(n_jobs=model.n_jobs)
    other.leaves_, other.coef_, other.fit_ = features, model.coef_[: features.starts_[-1]], model.fit_
    other.n_features_in_ = model.n_features_in_
    return other


if __name__ == "__main__":
    main()
