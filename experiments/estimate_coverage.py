"""How good ``estimate()`` is: bias and coverage of cross-validated values, by the number of judged queries.

Each repetition samples n training queries, chooses C by 5-fold cross-validation (NDCG@10), and measures the returned
model on up to 1,200 other queries; this value is the target. *best C* is the cross-validated mean at the chosen C,
*crossed* the mean of ``held_out_``, and *half* the value on one half of a model that was trained, with its choice of C,
on the other half. Intervals have a level of 95 %; they are widened by sqrt(1 + n/n_test) to account for the error of
the target. The difference is from a fixed column, on the same queries. *Factor 1* is the plain t interval, *factor 1.1*
the interval of ``estimate()``.
"""

import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from _common import Experiment, mq2008
from trees import lightgbm_example

from structsvm import StructuralRankerCV
from structsvm.metrics import evaluate
from structsvm.metrics.estimates import estimate_of
from structsvm.queries import QueryData
from structsvm.readers import make_ranking

SIZES, N_TEST, NAME = (6, 10, 20, 40, 80, 160), 1200, "ndcg@10"
CS = np.logspace(-2, 2, 5)


def sets(run: Experiment) -> Iterator[tuple[str, QueryData]]:
    if (run.data / "letor4_mq2008").is_dir():
        data = mq2008(run.data, ["S1", "S2", "S3", "S4", "S5"])
        relevant = np.add.reduceat(data.y, data.offsets[:-1]) > 0
        yield "MQ2008", data.select(np.flatnonzero(relevant))
    if (run.data / "lightgbm_rank").is_dir():
        yield "LightGBM's", lightgbm_example(run)
    for grades, n_features in ((2, 5), (5, 20)):
        data = make_ranking(1400, 15, n_features, grades=grades, noise=1.5, random_state=run.seed)
        yield f"{grades} grades, {n_features} features", data


def per_query(data: QueryData, scores: Any) -> np.ndarray:
    return evaluate(NAME, data.y, scores, qid=data.qid, ties="row").per_query


def one(data: QueryData, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return errors of the three values, and coverage of the intervals of the value (both factors) and the
    difference."""
    order = rng.permutation(data.n_queries)
    train, test = (data.select(part) for part in (order[:n], order[n:][:N_TEST]))

    def search(part: QueryData) -> StructuralRankerCV:
        folds = min(5, part.n_queries)
        return StructuralRankerCV(NAME, Cs=CS, cv=folds).fit(part.X, part.y, qid=part.qid)

    model = search(train)
    on_test = per_query(test, model.predict(test.X))
    column = [np.asarray(some.X)[:, 0] for some in (train, test)]
    base, base_test = (per_query(some, one) for some, one in zip((train, test), column, strict=True))
    halves = train.select(np.arange(n // 2)), train.select(np.arange(n // 2, n))
    half = per_query(halves[1], search(halves[0]).predict(halves[1].X)).mean()
    truth, ahead, wider = on_test.mean(), (on_test - base_test).mean(), np.sqrt(1 + n / test.n_queries)
    best = model.scores_[:, np.flatnonzero(model.Cs_ == model.C_)[0]]

    def holds(values: np.ndarray, factor: float) -> list[bool]:
        found = estimate_of(replace(model.held_out_, per_query=values), baseline=base, wider=factor * wider)
        assert found.difference is not None
        return [
            found.lower <= truth <= found.upper,
            found.difference.lower <= ahead <= found.difference.upper,
        ]

    crossed = model.held_out_.per_query
    plain, usual, naive = holds(crossed, 1.0), holds(crossed, 1.1), holds(best, 1.0)
    half_width = estimate_of(model.held_out_).half_width
    return {
        "errors": np.array([best.mean() - truth, crossed.mean() - truth, half - truth]),
        "holds": np.array([naive[0], plain[0], usual[0], usual[1]], dtype=np.float64),
        "half": np.array([half_width]),
    }


def main() -> None:
    run = Experiment("estimate_coverage", __doc__, uses=["letor4_mq2008", "lightgbm_rank"])
    warnings.simplefilter("ignore")
    logging.getLogger("structsvm").setLevel("ERROR")  # a C at an end of the grid is expected
    draws: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    for name, data in sets(run):
        for n in [n for n in SIZES if n <= data.n_queries // 2][: 4 if run.quick else 6]:
            rngs = [np.random.default_rng([run.seed, n, draw]) for draw in range(run.runs(20, 500))]

            def several(rngs: Any = rngs, data: QueryData = data, n: int = n) -> dict[str, np.ndarray]:
                found = [one(data, n, rng) for rng in rngs]
                return {key: np.array([each[key] for each in found]) for key in found[0]}

            draws[name, n] = run.once(several)
            print(f"  {name} {n}: {run.cpu():.0f} CPU seconds", flush=True)
    sizes = sorted({n for _, n in draws})
    together = {
        n: {
            k: np.concatenate([d[k] for (_, m), d in draws.items() if m == n])
            for k in ("errors", "holds", "half")
        }
        for n in sizes
    }
    columns = ["", *(f"n = {n}" for n in sizes)]
    run.section("Bias x 1000, and root mean squared error x 1000")
    rows = []
    for i, what in enumerate(("best C", "crossed", "half held out")):
        rows.append(
            [f"bias, {what}", *(f"{1000 * d['errors'][:, i].mean():+.0f}" for d in together.values())]
        )
    for i, what in ((1, "crossed"), (2, "half held out")):
        rms = [np.sqrt(np.square(d["errors"][:, i]).mean()) for d in together.values()]
        rows.append([f"rms, {what}", *(f"{1000 * value:.0f}" for value in rms)])
    run.table("bias", columns, rows)
    run.section("Coverage, %")
    rows = []
    for i, what in enumerate(
        ("best C, factor 1", "crossed, factor 1", "crossed, factor 1.1", "difference, factor 1.1")
    ):
        rows.append([what, *(f"{100 * d['holds'][:, i].mean():.0f}" for d in together.values())])
    rows.append(["draws", *(str(len(d["holds"])) for d in together.values())])
    rows.append(["half width x 1000", *(f"{1000 * np.nanmean(d['half']):.0f}" for d in together.values())])
    run.table("coverage", columns, rows)
    run.section("Coverage by set, crossed, factor 1.1, %")
    rows = []
    for name in dict.fromkeys(name for name, _ in draws):
        rows.append(
            [
                name,
                *(
                    f"{100 * draws[name, n]['holds'][:, 2].mean():.0f}" if (name, n) in draws else ""
                    for n in sizes
                ),
            ]
        )
    run.table("by set", columns, rows)
    run.save()


if __name__ == "__main__":
    main()
