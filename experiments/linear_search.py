"""How good a linear ranker is that is chosen by cross-validation alone, over the seeds that deal queries to folds.

On each of the five standard tests of MQ2008 the loss (map or roc, as ``structsvm search`` tries), the scaling (none,
zscore, query-percentile) and C are chosen by the MAP of a 5-fold cross-validation over the queries of the other four
parts, and the ranker is trained on all of these. Nothing is chosen on test queries. A seed decides only how queries are
dealt to the folds of the cross-validation. *Best mean* is what ``structsvm search`` does. *One standard error* takes
the smallest C within one standard error of the best, as ``selection="one_se"``. *Best mean of several deals* averages
the cross-validations of all seeds. *Values and percentiles* has each feature twice, as it is and as its percentile
within the query, all of them scaled by zscore; loss and C are chosen. *Average* ranks by the sum of the scores of six
rankers, one for each loss and scaling with its own best C, each score divided by its standard deviation over the
training rows. The last rows look at the test queries, to say what the choice costs: the best of each test, and the
loss, scaling and C with the best mean over the tests. A command that was interrupted goes on from there.
"""

import warnings
from itertools import product
from typing import Any

import numpy as np
from _common import Experiment
from trees import joined

from structsvm import StructuralRanker, StructuralRankerCV
from structsvm.estimators.choosing_C import select_C
from structsvm.estimators.structural import model_path
from structsvm.features.scaling import with_percentiles
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers import read_letor
from structsvm.trainers.certificate import ConvergenceWarning

BOTH = "values and percentiles"
CHOICES = tuple(product(("map", "roc"), ("none", "zscore", "query-percentile", BOTH)))
SIX = [i for i, (_, scale) in enumerate(CHOICES) if scale != BOTH]
TWO = [i for i, (_, scale) in enumerate(CHOICES) if scale == BOTH]
CS = np.logspace(-2, 3, 11)
MEASURES = ("map", "ndcg@10")

Results = dict[str, np.ndarray]


def compute(train: QueryData, test: QueryData, seeds: range, n_folds: int) -> Results:
    """Cross-validate and train every loss, scaling and C.

    Return, for each seed, means over held-out queries and the index of the C chosen by one standard error; and scores
    of test rows, divided by their standard deviation over training rows, and values on the test queries.
    """
    shape = len(CHOICES), CS.size
    means, one_se = np.empty((len(seeds), *shape)), np.empty((len(seeds), len(CHOICES)), dtype=np.int64)
    scores, values = np.empty((*shape, test.n_rows)), np.empty((*shape, len(MEASURES)))
    doubled = with_percentiles(train), with_percentiles(test)
    for i, (loss, how) in enumerate(CHOICES):
        seen, unseen = doubled if how == BOTH else (train, test)
        scale: Any = "zscore" if how == BOTH else how
        for s, seed in enumerate(seeds):
            model = StructuralRankerCV(loss, CS, cv=n_folds, scoring="map", scale=scale, random_state=seed)
            held_out = model.fit(seen.X, seen.y, qid=seen.qid).scores_
            means[s, i] = held_out.mean(axis=0)
            one_se[s, i] = np.searchsorted(CS, select_C(CS, held_out, selection="one_se"))
        path = model_path(StructuralRanker(loss, scale=scale), seen.X, seen.y, CS, qid=seen.qid)
        for j, model in enumerate(path):
            found = model.predict(unseen.X, qid=unseen.qid)
            scores[i, j] = found / model.predict(seen.X, qid=seen.qid).std()
            values[i, j] = measured(found, test)
    return {"means": means, "one_se": one_se, "scores": scores, "values": values}


def measured(scores: np.ndarray, test: QueryData) -> list[float]:
    return [evaluate(m, test.y, scores, qid=test.qid, ties="row").mean for m in MEASURES]


def best(means: np.ndarray, choices: list[int]) -> tuple[int, int]:
    """Return the index of the best combination of loss and scaling among ``choices``, and the index of C."""
    i, j = np.unravel_index(np.argmax(means[choices]), means[choices].shape)
    return choices[int(i)], int(j)


def by_strategy(found: list[Results], tests: list[QueryData], s: int) -> dict[str, np.ndarray]:
    """Return the values of each way to choose, for seed number ``s``; one row per test set."""
    values: dict[str, list[np.ndarray | list[float]]] = {}
    for one, test in zip(found, tests, strict=True):
        means = one["means"][s]
        i, j = best(means, SIX)
        several = one["means"].mean(axis=0)
        average = sum(one["scores"][k, int(np.argmax(means[k]))] for k in SIX)
        for name, value in {
            "best mean": one["values"][i, j],
            "one standard error": one["values"][i, one["one_se"][s, i]],
            f"best mean of {len(one['means'])} deals": one["values"][best(several, SIX)],
            BOTH: one["values"][best(means, TWO)],
            "average": measured(average, test),
        }.items():
            values.setdefault(name, []).append(value)
    return {name: np.array(rows) for name, rows in values.items()}


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    run = Experiment("linear_search", __doc__, needs=["letor4_mq2008"])
    run.say(" ".join(__doc__.split("\n\n", 1)[1].split()))
    parts = [read_letor(run.data / "letor4_mq2008" / f"S{i}.txt.gz") for i in range(1, 6)]
    seeds = range(run.seed, run.seed + run.runs(2, 10))
    found = []
    for fold, test in enumerate(parts):
        train = joined([part for i, part in enumerate(parts) if i != fold])
        found.append(run.once(lambda t=train, o=test: compute(t, o, seeds, 3 if run.quick else 5)))
        print(f"test {fold + 1}: best C by means {found[-1]['means'].max(axis=(1, 2)).round(4)}", flush=True)

    ways: dict[str, list[np.ndarray]] = {}
    picks = []
    for s, seed in enumerate(seeds):
        for name, values in by_strategy(found, parts, s).items():
            ways.setdefault(name, []).append(values.mean(axis=0))
        chosen = [best(one["means"][s], SIX) for one in found]
        says = "; ".join("{}, {}, {:.2g}".format(*CHOICES[i], CS[j]) for i, j in chosen)
        picks.append([seed, *(f"{value:.4f}" for value in ways["best mean"][-1]), says])
    rows = []
    for name, values in ways.items():
        low, mean, high = (f(values, axis=0) for f in (np.min, np.mean, np.max))
        n = 1 if name.endswith("deals") else len(values)
        rows.append(
            [name, *(f"{a:.4f} ({b:.4f}-{c:.4f})" for a, b, c in zip(mean, low, high, strict=True)), n]
        )
    tested = np.array([one["values"] for one in found])  # axes: test, choice, C, measure
    for name, looked in {
        "best on each test": [one[best(one[..., 0], SIX)] for one in tested],
        "best on all tests": [tested.mean(axis=0)[best(tested.mean(axis=0)[..., 0], SIX)]],
    }.items():
        rows.append([name, *(f"{value:.4f}" for value in np.mean(looked, axis=0)), "–"])
    run.table(
        "MQ2008: means over the five tests; mean (lowest-highest) over seeds",
        ["way to choose", "MAP", "NDCG@10", "seeds"],
        rows,
    )
    run.table("Best mean, by seed", ["seed", "MAP", "NDCG@10", "loss, scaling, C of each test"], picks)
    run.save()


if __name__ == "__main__":
    main()
