"""Which weights of a hybrid query to take after 10 to 40 judged topics: NDCG@10 on the other topics.

Groups of 2, 4 and 8 runs are drawn from the submissions to TREC DL 2020 (passages) and TREC 2003 Robust, and truncated
to 100 documents. The methods see the training topics, and are measured on all other judged topics, as the linear fusion
of Elasticsearch ranks. *best list* is the list that is best alone on the training topics. *best candidate* is the
candidate of ``hybrid_weights`` with the best mean on the training topics. *learned* minimises the log-rank bound of
NDCG@10 with weights >= 0, drawn towards equality by a column for the sum of all, with C chosen by five folds. *if
shown* takes the learned weights if the interval of their gain over equal weights is above 0, otherwise equal weights.
*by folds* takes the best of equal weights, RRF, one list, one candidate and the learned weights by their means over
held-out folds. *average* is the method of ``hybrid_weights``, the average of the best candidates over bootstrap
samples that are at least one standard error better than equal weights; *any gain* takes the best candidates without
regard to the standard error.
"""

import warnings
from typing import Any

import numpy as np
from _common import Experiment

from structsvm import StructuralRankerCV
from structsvm.estimators import hybrid_weights
from structsvm.estimators.choosing_C import crossed_by
from structsvm.features.hybrid import clause_columns
from structsvm.metrics import compare, evaluate
from structsvm.queries import QueryData
from structsvm.readers import candidates, read_qrels, read_run

SETS = {"DL 2020": "trec_dl2020_passage", "Robust 2003": "trec_robust2003"}
LISTS, TOPICS = (2, 4, 8), (10, 20, 40)
METHODS = (
    "equal",
    "RRF",
    "best list",
    "best candidate",
    "learned",
    "if shown",
    "by folds",
    "any gain",
    "average",
)
PULL = 3.0
"""Factor of the column of sums."""


def learned(
    columns: np.ndarray, data: QueryData, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """Return the learned weights, the held-out values, their folds, and the estimated gain over equal weights."""
    X = columns / np.abs(columns).max()
    model = StructuralRankerCV("ndcg@10", Cs=np.logspace(-3, 3, 7), positive=True, random_state=seed)
    rows: dict[str, Any] = {"y": data.y, "qid": data.qid}
    model.fit(np.column_stack([X, PULL * X.sum(axis=1)]), **rows)
    weights = model.coef_[:-1] + PULL * model.coef_[-1]
    weights = weights / weights.sum() if weights.any() else np.full(len(weights), 1 / len(weights))
    gain = model.estimate(baseline=columns.sum(axis=1), **rows).difference
    return weights, model.held_out_.per_query, model.fold_, gain


def values(data: QueryData, order: np.ndarray, n: int, seed: int) -> list[float]:
    """Return the mean of each method on the topics after the first ``n``."""
    columns = clause_columns(data.X, data.offsets, "minmax_near")
    ranks = clause_columns(data.X, data.offsets, "ranks")
    training, m = np.isin(np.arange(data.n_queries), order[:n]), data.n_features
    train = data.select(training)

    def of(score: np.ndarray) -> np.ndarray:
        return evaluate("ndcg@10", data.y, score, qid=data.qid, ties="average").per_query

    equal, alone = np.full(m, 1 / m), np.eye(m)
    grid = np.vstack([equal, *(t * alone + (1 - t) * equal for t in (0.25, 0.5, 0.75, 0.9, 1.0))])
    of_grid, of_lists = np.array([of(columns @ w) for w in grid]), np.array([of(c) for c in ranks.T])
    within = np.repeat(training, np.diff(data.offsets))
    weights, held_out, fold, gain = learned(columns[within], train, seed)
    of_learned = of(columns @ weights)
    average = of(columns @ hybrid_weights(train, to="elasticsearch-linear", random_state=seed).weights)

    def best(candidates: np.ndarray, rest: Any) -> np.ndarray:
        means = candidates[:, rest].mean(axis=1)
        return candidates[int(np.argmax(means >= means.max() - 1e-9))]

    single, candidate = best(of_lists, training), best(of_grid, training)
    rrf = of(ranks.sum(axis=1))
    own = [one[:, training] for one in (of_lists, of_grid)]
    crossed = [crossed_by(lambda rest, v=v: best(v, rest), fold, np.ones(n)) for v in own]
    choices = [of_grid[0], rrf, single, candidate, of_learned]
    held = [of_grid[0][training], rrf[training], *crossed, held_out]
    by_folds = choices[int(np.argmax([one.mean() for one in held]))]
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=500)
    means = own[1] @ counts.T
    any_gain = of(columns @ grid[np.argmax(means >= means.max(axis=0) - 1e-9, axis=0)].mean(axis=0))
    shown = of_learned if gain.lower > 0 else of_grid[0]
    every = (of_grid[0], rrf, single, candidate, of_learned, shown, by_folds, any_gain, average)
    return [float(one[~training].mean()) for one in every]


def main() -> None:
    run = Experiment("hybrid_weights", __doc__, needs=list(SETS.values()))
    warnings.simplefilter("ignore")
    found: dict[tuple[str, int, int], np.ndarray] = {}
    for name, folder in SETS.items():
        qrels = read_qrels(run.data / folder / "qrels.txt.gz")
        files = sorted((run.data / folder / "runs").glob("*.gz"))
        runs = [read_run(path, depth=100) for path in files]
        for m in LISTS:
            draws = []
            for draw in range(run.runs(3, 20)):
                rng = np.random.default_rng([run.seed, m, draw])
                some = {str(i): runs[i] for i in rng.choice(len(runs), m, replace=False)}
                pool = candidates(some, qrels, depth=100)
                pool = pool.select(pool.judged)
                y = np.maximum(pool.y, 0.0)
                data = QueryData(pool.scores, y, pool.offsets, pool.topics.astype(str), docid=pool.docid)
                order = rng.permutation(data.n_queries)
                draws.append(
                    run.once(lambda x=data, o=order, s=draw: {str(n): values(x, o, n, s) for n in TOPICS})
                )
            found |= {(name, m, n): np.array([one[str(n)] for one in draws]) for n in TOPICS}
            print(f"  {name}, {m} lists: {run.cpu():.0f} CPU seconds", flush=True)
    run.section("NDCG@10 on other topics")
    rows = [[*key, *(f"{v:.4f}" for v in table.mean(axis=0))] for key, table in found.items()]
    every = np.concatenate(list(found.values()))
    rows.append(["all", "", "", *(f"{v:.4f}" for v in every.mean(axis=0))])
    run.table("means", ["data", "lists", "topics", *METHODS], rows)
    run.section("Differences over the draws")
    run.say(
        "*equal ahead* are the draws in which equal weights are ahead of the best list, the best candidate and the "
        "learned weights on the other topics; p-values are those of Wilcoxon tests of *average* against the method."
    )
    ahead = every[:, 0] > every[:, [2, 3, 4]].max(axis=1)
    rows = []
    for j, method in enumerate(METHODS):
        lost = every[:, j] - every[:, 0]
        p = compare(every[:, -1], every[:, j]).p_value
        cells = [f"{(every[:, -1] - every[:, j]).mean():+.4f}", f"{p:.1e}", f"{lost[ahead].mean():+.4f}"]
        rows.append([method, *cells, f"{(lost < -0.01).mean():.3f}"])
    columns = ["method", "average minus it", "p", f"minus equal, equal ahead ({ahead.sum()})"]
    run.table("differences", [*columns, "draws with .01 below equal"], rows)
    run.save()


if __name__ == "__main__":
    main()
