"""Rankers over re-weighted leaves beside boosters, on data that is linear, almost linear, and not at all.

Each data set has training, validation and test queries. Of every method, all that is chosen (C, number of trees,
leaves, learning rate, labels) is chosen by the mean of the measure on the validation queries. The difference of each
method to the tree ranker is tested per test query (Wilcoxon, two-tailed, uncorrected).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from _common import Experiment
from scipy.stats import wilcoxon

from structsvm import StructuralRanker, TreeRanker
from structsvm.estimators.structural import model_path
from structsvm.estimators.tree import tree_path
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers import make_taught, read_letor
from structsvm.studies.folds.peers import best_boosted
from structsvm.trainers.certificate import ConvergenceWarning

GRID = np.logspace(-2, 2, 9)
N_TEST, N_VALIDATION = 1000, 150
PEERS = ("lightgbm", "xgboost", "catboost")


def joined(parts: list[QueryData]) -> QueryData:
    """Parts whose queries differ, as one."""
    n = np.cumsum([0, *(part.n_queries for part in parts)])
    qid = np.concatenate([
        np.repeat(np.arange(part.n_queries) + n[i], np.diff(part.offsets)) for i, part in enumerate(parts)
    ])  # fmt: skip
    X, y = np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])
    return QueryData.from_arrays(X, y, qid)


def data_sets(run: Experiment) -> Iterator[tuple[str, QueryData, QueryData, QueryData]]:
    """Name, training, validation and test queries; folds of a set have its name."""
    folder = run.data / "letor4_mq2008"
    if folder.is_dir():
        parts = [read_letor(folder / f"S{i}.txt.gz") for i in range(1, 6)]
        for fold in range(5):
            order = [parts[(fold + i) % 5] for i in range(5)]
            yield "MQ2008", joined(order[:3]), order[3], order[4]
    for n in (300,) if run.quick else (300, 1500):
        for teacher in ("forest", "product", "step"):
            made = make_taught(teacher, n + N_VALIDATION + N_TEST, random_state=run.seed)
            cuts = (0, n, n + N_VALIDATION, made.n_queries)
            parts = [made.select(np.arange(a, b)) for a, b in pairwise(cuts)]
            yield f"{teacher}-{n}", *parts


def values(measure: str, data: QueryData, scores: np.ndarray) -> np.ndarray:
    return evaluate(measure, data.y, scores, qid=data.qid, ties="row").per_query


def candidates(method: str, train: QueryData, validation: QueryData, run: Experiment):
    """Models to choose from."""
    if method == "linear":
        for scale in ("zscore", "query-percentile"):
            ranker = StructuralRanker(scale=scale)
            yield from model_path(ranker, train.X, train.y, GRID, qid=train.qid)
    elif method.startswith("tree"):
        loss = "ndcg@10" if method.endswith("ndcg") else "map"
        small = train.n_rows < 20_000
        for n_trees, n_leaves in ((100, 7), (300, 15)) if small else ((300, 15),):
            ranker = TreeRanker(loss, n_trees=n_trees, n_leaves=n_leaves, random_state=run.seed)
            yield from tree_path(ranker, train.X, train.y, GRID, qid=train.qid)
    else:

        def mean(data, scores):
            return values("map", data, scores).mean()

        yield best_boosted(
            method, train, validation, mean, seed=run.seed, most_trees=300 if run.quick else 600
        )


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    run = Experiment("trees", __doc__)
    methods = ("tree", "tree-ndcg", "linear", *(PEERS[:1] if run.quick else PEERS))
    found: dict[str, dict[str, dict[str, list]]] = {}
    for name, train, validation, test in data_sets(run):
        for method in methods:
            started = time.process_time()
            best, chosen = -np.inf, None
            for model in candidates(method, train, validation, run):
                value = values("map", validation, model.predict(validation.X, qid=validation.qid)).mean()
                if value > best:
                    best, chosen = value, model
            scores = chosen.predict(test.X, qid=test.qid)
            record = found.setdefault(name, {}).setdefault(method, {"map": [], "ndcg@10": [], "cpu": []})
            for measure in ("map", "ndcg@10"):
                record[measure].append(values(measure, test, scores).tolist())
            record["cpu"].append(time.process_time() - started)
            means = [np.mean(record[measure][-1]) for measure in ("map", "ndcg@10")]
            print(
                f"{name} {method}: MAP {means[0]:.4f} N@10 {means[1]:.4f}, {record['cpu'][-1]:.0f} CPU s",
                flush=True,
            )
    rows = []
    for name, by_method in found.items():
        base = {m: np.concatenate(by_method["tree"][m]) for m in ("map", "ndcg@10")}
        for method, record in by_method.items():
            row = [name, method]
            for measure in ("map", "ndcg@10"):
                own = np.concatenate(record[measure])
                mean = np.mean([np.mean(fold) for fold in record[measure]])
                same = np.array_equal(own, base[measure])
                p = "" if same else f" (p {wilcoxon(own, base[measure]).pvalue:.2g})"
                row.append(f"{mean:.4f}{p}")
            rows.append([*row, f"{np.mean(record['cpu']):.0f}"])
    run.table("Means over test queries", ["data", "method", "MAP", "NDCG@10", "CPU s"], rows)
    run.record["values"] = found
    run.save()


if __name__ == "__main__":
    main()
