"""Which C the losses have as they come: own measure on test queries, by C, beside "map" at its own default.

Linear rankers are trained on unscaled features (NP2004 and the generated sets in the scale of their loaders) of 20 and
100 queries of each data set, and tested on up to 250 other queries. Columns named by a value of C are means over
samples of training queries; this value is multiplied, as the default is, by the number of queries and divided by the
number with a constraint. *default* is ``C = None``, *chosen* is the value of C among these four with the best mean
over five folds of the training queries, and *map* is ``StructuralRanker("map")`` with its default parameters, by the
measure of the row. The last table shows how far each column is below the best C of its row, on average over data sets
and sizes, and the largest distance of the default below the best C, below *chosen* and below *map*.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from _common import Experiment
from sklearn.base import clone
from top_losses import made, real

from structsvm import PairwiseSVM, StructuralRanker
from structsvm.estimators.structural import model_path
from structsvm.features.scaling import minmax_within
from structsvm.metrics import evaluate
from structsvm.oracles import get_oracle
from structsvm.queries import QueryData
from structsvm.readers import candidates, read_qrels, read_run

CS = (0.1, 1.0, 10.0, 100.0)
SIZES, N_TEST = (20, 100), 250
RANKERS: dict[str, tuple[Any, str]] = {
    **{loss: (StructuralRanker(loss), loss) for loss in ("map", "roc", "ndcg@10", "mrr", "precision@10")},
    "pairs": (StructuralRanker("pairs"), "map"),
    "hinge, query": (PairwiseSVM(normalize="query"), "map"),
    "squared hinge": (PairwiseSVM("squared_hinge"), "map"),
}
"""The losses, each with the measure used to judge it."""


def sets(run: Experiment) -> Iterator[tuple[str, QueryData, float]]:
    for name, data, relevance in real(run):
        if name in ("MQ2008", "LightGBM's", "NP2004"):
            yield name, data, relevance
    place = run.data / "trec_robust2003"
    if place.is_dir():  # scores of five runs, scaled within the topic
        runs = [read_run(path) for path in sorted((place / "runs").glob("*.gz"))[::16][:5]]
        pool = candidates(runs, read_qrels(place / "qrels.txt.gz"), depth=100)
        X = np.nan_to_num(minmax_within(pool.scores, pool.offsets))
        topics = np.arange(pool.n_topics)
        yield "Robust fusion", QueryData(X, np.maximum(pool.y, 0.0), pool.offsets, topics), 1.0
    yield from ((name, data, 1.0) for name, data in made(run.seed) if name != "1000 docs")


def values(train: QueryData, test: QueryData, relevance: float) -> dict[str, np.ndarray]:
    """Return each loss's measure at each C, the default and the chosen C, and "map"'s measure at its default."""

    def measured(models: Any, name: str, data: QueryData) -> np.ndarray:
        scores = [model.predict(data.X, qid=data.qid) for model in models]
        rules: Any = {"qid": data.qid, "relevance": relevance, "ties": "row"}
        return np.array([evaluate(name, data.y, one, **rules).mean for one in scores])

    rows: Any = {"X": train.X, "y": train.y, "qid": train.qid}
    usual = StructuralRanker(relevance=relevance).fit(**rows)

    def path(ranker: Any, part: QueryData) -> Iterator[Any]:
        own: Any = {"X": part.X, "y": part.y, "qid": part.qid}
        factor = clone(ranker).set_params(C=None).fit(**own).fit_.C / getattr(
            get_oracle(ranker._loss), "usual_C", 1.0
        )
        return model_path(ranker, Cs=[C * factor for C in CS], **own)

    fold = np.arange(train.n_queries) % 5
    parts = [
        (train.select(np.flatnonzero(fold != k)), train.select(np.flatnonzero(fold == k))) for k in range(5)
    ]
    found = {}
    for loss, (ranker, name) in RANKERS.items():
        ranker.set_params(relevance=relevance, max_passes=300)
        models = [*path(ranker, train), ranker.fit(**rows), usual]
        held_out = [measured(path(ranker, part), name, rest) for part, rest in parts]
        of_each = measured(models, name, test)
        found[loss] = np.insert(of_each, len(CS) + 1, of_each[np.mean(held_out, axis=0).argmax()])
    return found


def main() -> None:
    run = Experiment(
        "default_C",
        __doc__,
        uses=["letor4_mq2008", "lightgbm_rank", "letor3_np2004_fold1", "trec_robust2003"],
    )
    warnings.simplefilter("ignore")
    means: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    for name, data, relevance in sets(run):
        for n in [n for n in SIZES[: run.runs(1, 2)] if n <= 2 * data.n_queries // 3]:
            draws = []
            for draw in range(run.runs(2, 4)):
                order = np.random.default_rng([run.seed, n, draw]).permutation(data.n_queries)
                train, test = (data.select(np.sort(part)) for part in (order[:n], order[n:][:N_TEST]))
                draws.append(run.once(lambda x=(train, test, relevance): values(*x)))
            means[name, n] = {loss: np.mean([one[loss] for one in draws], axis=0) for loss in RANKERS}
            print(f"  {name} {n}: {run.cpu():.0f} CPU seconds", flush=True)
    columns = [*(f"C = {C:g}" for C in CS), "default", "chosen", "map"]
    summary = []
    for loss, (_, measure) in RANKERS.items():
        run.section(f"{loss}: {measure}")
        rows = [[name, n, *(f"{v:.4f}" for v in one[loss])] for (name, n), one in means.items()]
        run.table(loss, ["data", "queries", *columns], rows)
        table = np.array([one[loss] for one in means.values()])
        lost = table[:, : len(CS)].max(axis=1, keepdims=True) - table[:, :-1]
        default = table[:, len(CS)]
        below = [f"{(table[:, column] - default).max():+.4f}" for column in (-2, -1)]
        means_lost = [f"{v:.4f}" for v in lost.mean(axis=0)]
        summary.append([loss, *means_lost, f"{lost[:, len(CS)].max():.4f}", *below])
    run.section("Below the best C of the row")
    run.table("lost", ["loss", *columns[:-1], "default at most", "below chosen", "below map"], summary)
    run.save()


if __name__ == "__main__":
    main()
