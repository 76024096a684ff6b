"""Which C suits ``TreeRanker`` on small data: the measure on test queries by C, loss and number of training queries.

Trees are grown with the default settings. Training queries are sampled from one part of a data set, and the other part
is for testing. For comparison, the linear ranker is trained on features scaled by z-score, at its default C and at the
C that is best on the test queries on average. All figures are means over samples. The last table shows how far each C
is below the best C of the same row, on average over the data sets. The value at the default, .002 times the number of
queries for MAP and .01 times for NDCG, is interpolated; these two factors were chosen from the same figures.
"""

import warnings
from collections.abc import Iterator

import numpy as np
from _common import Experiment, mq2008
from _teachers import make_taught
from trees import lightgbm_example

from structsvm import StructuralRanker, TreeRanker
from structsvm.estimators.structural import model_path
from structsvm.queries import QueryData

CS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
LOSSES = ("map", "ndcg@10")
SIZES = (20, 50, 100, 300)
N_TEST = 250


def sets(run: Experiment) -> Iterator[tuple[str, QueryData]]:
    for teacher in ("forest", "product", "step"):
        yield teacher, make_taught(teacher, N_TEST + max(SIZES), random_state=run.seed)
    if (run.data / "letor4_mq2008").is_dir():
        yield "MQ2008", mq2008(run.data, ["S1", "S2", "S3", "S4", "S5"])
    if (run.data / "lightgbm_rank").is_dir():
        yield "LightGBM's", lightgbm_example(run)


def values(loss: str, train: QueryData, test: QueryData) -> dict[str, np.ndarray]:
    """Return the measure on test queries by C, for trees and for the linear ranker."""
    found = {}
    for name, ranker in (
        ("trees", TreeRanker(loss, random_state=0)),
        ("linear", StructuralRanker(loss, scale="zscore")),
    ):
        models = model_path(ranker, train.X, train.y, CS, qid=train.qid)
        found[name] = np.array([model.score(test.X, test.y, qid=test.qid) for model in models])
    return found


def main() -> None:
    run = Experiment("tree_C", __doc__, uses=["letor4_mq2008", "lightgbm_rank"])
    warnings.simplefilter("ignore")
    draws: dict[tuple[str, str, int], list[dict[str, np.ndarray]]] = {}
    for draw in range(run.runs(2, 4)):
        for name, data in sets(run):
            order = np.random.default_rng([run.seed, draw]).permutation(data.n_queries)
            n_test = min(N_TEST, data.n_queries // 2)
            test = data.select(np.sort(order[:n_test]))
            for loss in LOSSES:
                for n in [n for n in SIZES if n <= data.n_queries - n_test]:
                    train = data.select(np.sort(order[n_test:][:n]))
                    one = run.once(lambda x=(loss, train, test): values(*x))
                    draws.setdefault((loss, name, n), []).append(one)
                    print(
                        f"  {draw} {loss} {name} {n}: {one['trees'].round(4)}, {run.cpu():.0f} CPU s",
                        flush=True,
                    )
    means = {key: {k: np.mean([d[k] for d in some], axis=0) for k in some[0]} for key, some in draws.items()}
    columns = [f"C = {C:g}" for C in CS]
    for loss in LOSSES:
        run.section(f"{loss} on test queries")
        rows = []
        for name, n in [(name, n) for of, name, n in means if of == loss]:
            one = means[loss, name, n]
            linear = one["linear"]
            rows.append(
                [
                    name,
                    n,
                    *(f"{v:.4f}" for v in one["trees"]),
                    f"{linear[CS.index(1.0)]:.4f}",
                    f"{linear.max():.4f}",
                ]
            )
        run.table(loss, ["data", "queries", *columns, "linear, C = 1", "linear, best C"], rows)
    run.section("Below the best C of the row, mean over data sets")
    rows = []
    for loss, per_query in zip(LOSSES, (0.002, 0.01), strict=True):
        for n in SIZES:
            some = [one["trees"] for (of, _, m), one in means.items() if (of, m) == (loss, n)]
            at = [np.interp(np.log(per_query * n), np.log(CS), v) for v in some]
            usual = f"{np.mean([v.max() - a for v, a in zip(some, at, strict=True)]):.4f}"
            rows.append([loss, n, *(f"{v:.4f}" for v in np.mean([v.max() - v for v in some], axis=0)), usual])
    run.table("lost", ["loss", "queries", *columns, "default"], rows)
    run.save()


if __name__ == "__main__":
    main()
