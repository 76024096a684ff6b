"""From how many queries on a search among losses and scalings pays: MAP on test queries against the training queries.

A third of the queries are test queries; training queries are sampled from the others. *Default* is ``SVMMap()`` with
``C = 10`` on unscaled features, *C chosen* chooses C by 5-fold cross-validation, and *search* chooses among four
losses, three scalings and C by the MAP of the same folds, like ``structsvm search``. All figures are means over
samples; the last column is the difference between *search* and *C chosen*, with its standard error over samples.
"""

import warnings
from collections.abc import Iterator
from itertools import product

import numpy as np
from _common import Experiment
from top_losses import scaled
from trees import joined, lightgbm_example

from structsvm import StructuralRankerCV, SVMMap
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers import read_letor

CHOICES = tuple(product(("map", "roc", "pairs", "ndcg@10"), ("none", "zscore", "query-percentile")))
CS = np.logspace(-2, 3, 6)
SIZES = (10, 25, 50, 100, 200, 400)


def sets(run: Experiment) -> Iterator[tuple[str, QueryData]]:
    yield "MQ2008", joined([read_letor(run.data / "letor4_mq2008" / f"S{i}.txt.gz") for i in range(1, 6)])
    yield "LightGBM's", lightgbm_example(run)
    parts = [read_letor(run.data / "letor3_np2004_fold1" / f"{name}.txt.gz") for name in ("vali", "test")]
    yield "NP2004", scaled(joined(parts))


def measured(model: object, test: QueryData) -> float:
    return float(evaluate("map", test.y, model.predict(test.X, qid=test.qid), qid=test.qid).mean)  # type: ignore[attr-defined]


def values(train: QueryData, test: QueryData) -> np.ndarray:
    """Return MAP on test queries for the default, the chosen C and search."""
    best, found = -np.inf, []
    default = SVMMap(C=10).fit(train.X, train.y, qid=train.qid)
    for loss, scale in CHOICES:
        model = StructuralRankerCV(loss, scale=scale, Cs=CS, cv=5, scoring="map", random_state=0)
        model.fit(train.X, train.y, qid=train.qid)
        mean = float(np.nanmean(model.scores_, axis=0).max())
        value = measured(model, test)
        if (loss, scale) == ("map", "none"):
            found.append(value)
        if mean > best:
            best, chosen = mean, value
    return np.array([measured(default, test), *found, chosen])


def main() -> None:
    run = Experiment("search_size", __doc__, needs=["letor4_mq2008", "lightgbm_rank", "letor3_np2004_fold1"])
    warnings.simplefilter("ignore")
    for name, data in sets(run):
        run.section(name)
        relevant = np.array(
            [data.y[a:b].max() > 0 for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]
        )
        queries = np.flatnonzero(relevant)  # queries without relevant documents have no effect
        rows = []
        for n in SIZES:
            if n > 2 * len(queries) // 3:
                break
            draws = []
            for draw in range(run.runs(4, 20)):
                order = np.random.default_rng([run.seed, n, draw]).permutation(queries)
                test, train = order[: len(queries) // 3], order[len(queries) // 3 :][:n]
                parts = [data.select(np.sort(part)) for part in (train, test)]
                draws.append(run.once(lambda parts=parts: {"values": values(*parts)})["values"])
            table = np.array(draws)
            gain = table[:, 2] - table[:, 1]
            error = gain.std(ddof=1) / np.sqrt(len(gain))
            rows.append([n, *(f"{v:.4f}" for v in table.mean(axis=0)), f"{gain.mean():+.4f} ({error:.4f})"])
            print(f"  {name} {n}: {run.cpu():.0f} CPU seconds", flush=True)
        run.table(name, ["queries", "default", "C chosen", "search", "search - C chosen"], rows)
    run.save()


if __name__ == "__main__":
    main()
