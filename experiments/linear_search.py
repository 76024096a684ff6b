"""How good a linear ranker is that is chosen by cross-validation alone, over the seeds that deal queries to folds.

On each of the five standard tests of MQ2008 the loss (map or roc, as ``structsvm search`` tries), the scaling (none,
zscore, query-percentile) and C are those with the best mean MAP in a cross-validation over the queries of the other
four parts, and the ranker is trained on all of these. Nothing is chosen on test queries. A seed decides only how
queries are dealt to the folds of the cross-validation. A command that was interrupted goes on from there.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
from _common import Experiment
from trees import joined

from structsvm import StructuralRankerCV
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers import read_letor
from structsvm.trainers.certificate import ConvergenceWarning

CHOICES = tuple(product(("map", "roc"), ("none", "zscore", "query-percentile")))
CS = np.logspace(-2, 3, 11)
MEASURES = ("map", "ndcg@10")


def chosen(train: QueryData, seed: int, n_folds: int) -> tuple[StructuralRankerCV, int]:
    """Return the best by cross-validation, and which of the choices it is."""
    best = -np.inf
    for i, (loss, scale) in enumerate(CHOICES):
        model = StructuralRankerCV(loss, CS, cv=n_folds, scoring="map", scale=scale, random_state=seed)
        model.fit(train.X, train.y, qid=train.qid)
        value = float(np.nanmean(model.scores_, axis=0).max())
        if value > best:
            best, kept, choice = value, model, i
    return kept, choice


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "C = ", UserWarning)  # at an end of the grid
    run = Experiment("linear_search", __doc__)
    run.say(" ".join(__doc__.split("\n\n", 1)[1].split()))
    parts = [read_letor(run.data / "letor4_mq2008" / f"S{i}.txt.gz") for i in range(1, 6)]
    rows, means = [], []
    for seed in range(run.seed, run.seed + run.runs(2, 5)):
        tests, picks = [], []
        for fold, test in enumerate(parts):

            def compute(seed: int = seed, fold: int = fold, test: QueryData = test) -> dict[str, np.ndarray]:
                train = joined([part for i, part in enumerate(parts) if i != fold])
                model, choice = chosen(train, seed, 3 if run.quick else 5)
                scores = model.predict(test.X, qid=test.qid)
                found = [evaluate(m, test.y, scores, qid=test.qid, ties="row").mean for m in MEASURES]
                return {"means": np.array(found), "choice": np.array(choice), "C": np.array(model.C_)}

            kept = run.once(compute)
            tests.append(kept["means"])
            picks.append("{}, {}, {:.2g}".format(*CHOICES[int(kept["choice"])], float(kept["C"])))
        means.append(np.mean(tests, axis=0))
        rows.append([seed, *(f"{value:.4f}" for value in means[-1]), "; ".join(picks)])
        print(rows[-1], flush=True)
    for name, summary in (("mean", np.mean), ("lowest", np.min), ("highest", np.max)):
        rows.append([name, *(f"{value:.4f}" for value in summary(means, axis=0)), ""])
    run.table(
        "MQ2008, means over the five tests", ["seed", "MAP", "NDCG@10", "loss, scaling, C of each test"], rows
    )
    run.save()


if __name__ == "__main__":
    main()
