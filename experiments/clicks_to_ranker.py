"""From clicks to a ranker: naive clicks, inverse propensities, harvested propensities, and boosted trees.

Users of MQ2008 look at position ``k`` of the whole list with probability ``1 / k``, and click on what they look at
with probability 1 if it is relevant, else .1. Rankers trained on 1 % of the labels make the log: one of them, or three
at random. Rankers trained on the log are compared with one trained on all labels (the skyline); C is chosen by the
log's own held-out clicks. Propensities of the sessions of Yandex are estimated beside.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from _common import Experiment, mean_error, mq2008
from scipy.stats import ttest_rel

from structsvm import PairwiseSVM
from structsvm.clicks import ClickCells, ClickSVMCV, Propensities, harvest, read_sessions
from structsvm.metrics import evaluate
from structsvm.queries import QueryData

NOISE = 0.1
CS = np.logspace(-4, 1, 6)


def measured(scores: Any, data: QueryData) -> tuple[float, float]:
    """MAP and NDCG@10 at label 1."""
    relevant = (data.y >= 1).astype(float)
    return tuple(evaluate(m, relevant, scores, qid=data.qid, ties="row").mean for m in ("map", "ndcg@10"))


def production(data: QueryData, rng: np.random.Generator, n: int) -> list[Any]:
    """Rankers trained on 1 % of the queries, at least two with something to learn."""
    relevant = data.y >= 1
    sums = np.add.reduceat(relevant, data.offsets[:-1])
    useful = np.flatnonzero((sums > 0) & (sums < np.diff(data.offsets)))
    size = max(2, round(0.01 * data.n_queries))
    models = []
    for _ in range(n):
        part = data.select(np.sort(rng.choice(useful, size, replace=False)))
        models.append(
            PairwiseSVM(C=0.1, normalize="query").fit(part.X, (part.y >= 1).astype(float), qid=part.qid)
        )
    return models


def simulate(data: QueryData, models: list[Any], n_clicks: int, rng: np.random.Generator) -> ClickCells:
    """Counts of about so many clicks; a session draws a query and a ranker."""
    lengths = np.diff(data.offsets)
    attraction = np.where(data.y >= 1, 1.0, NOISE)
    ranks = [model.rank(data.X, data.qid) for model in models]
    per_session = np.mean([(attraction / r).sum() / data.n_queries for r in ranks])
    sessions = rng.multinomial(
        round(n_clicks / per_session),
        np.full(data.n_queries * len(models), 1 / (data.n_queries * len(models))),
    ).reshape(len(models), -1)
    row = np.tile(np.arange(data.n_rows), len(models))
    position = np.concatenate(ranks)
    shows = np.concatenate([np.repeat(s, lengths) for s in sessions])
    key, cell = np.unique(row * (position.max() + 1) + position, return_inverse=True)
    shows = np.bincount(cell, shows).astype(np.int64)
    row, position = key // (position.max() + 1), key % (position.max() + 1)
    clicks = rng.binomial(shows, attraction[row] / position)
    keep = shows > 0
    return ClickCells(
        data.query_ids, data.offsets, np.arange(data.n_rows), row[keep], position[keep], shows[keep], clicks[keep]
    )  # fmt: skip


def linear(cells: ClickCells, train: QueryData, test: QueryData, theta: Propensities) -> tuple[float, float]:
    """A ranker by clicks weighted with these propensities."""
    model = ClickSVMCV(CS, cv=4, propensities=theta, tol=1e-2, random_state=0)
    model.fit(train.X, cells, qid=train.qid, docid=np.arange(train.n_rows))
    return measured(model.predict(test.X), test)


def trees(cells: ClickCells, train: QueryData, test: QueryData, kind: str) -> tuple[float, float]:
    """Boosted trees of a peer, with a row per cell, its click-through as the label and its position."""
    import lightgbm

    order = np.lexsort((cells.position, cells.row_query[cells.row]))
    rate = cells.clicks[order] / cells.shows[order]
    group = np.unique(cells.row_query[cells.row[order]], return_counts=True)[1]
    options: Any = {"objective": "lambdarank", "num_leaves": 15, "verbose": -1, "seed": 0, "num_threads": 1}
    options["label_gain"] = list(range(32))
    label = np.minimum(np.round(31 * rate), 31).astype(int)
    position = cells.position[order] if kind == "position" else None
    data = lightgbm.Dataset(train.X[cells.row[order]], label, group=group, position=position)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lightgbm.train(options, data, 60)
    return measured(model.predict(test.X), test)


def truth(n: int) -> Propensities:
    """The users' own propensities."""
    return Propensities.given(1 / np.arange(1, n + 1))


def harvested(cells: ClickCells) -> Propensities:
    """Ten positions and a power law; fewer while clicks do not determine them."""
    for last in (10, 7, 5, 3, 2):
        try:
            return harvest(cells, last=last, tail=True)
        except ValueError:
            continue
    return truth(cells.n_positions)


def main() -> None:
    run = Experiment("clicks_to_ranker", __doc__ or "")
    train, test = mq2008(run.data), mq2008(run.data, ["S5"])
    sizes = (10**4, 10**6) if run.quick else (10**3, 10**4, 10**5, 10**6)
    seeds = run.runs(2, 10)
    skyline = PairwiseSVM(C=10, normalize="query").fit(train.X, (train.y >= 1).astype(float), qid=train.qid)
    run.section("Test MAP / NDCG@10 (mean, standard error of MAP)")
    results: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for seed in range(seeds):
        for size in sizes:
            rng = np.random.default_rng([run.seed, seed, size])
            models = production(train, rng, 3)
            one, three = (simulate(train, models[:n], size, rng) for n in (1, 3))
            flat = Propensities.given(np.ones(max(one.n_positions, three.n_positions)))
            jobs = {
                "naive, 1 ranker": lambda c=one, t=flat: linear(c, train, test, t),
                "IPS, 1 ranker": lambda c=one: linear(c, train, test, truth(c.n_positions)),
                "naive, 3 rankers": lambda c=three, t=flat: linear(c, train, test, t),
                "IPS, 3 rankers": lambda c=three: linear(c, train, test, truth(c.n_positions)),
                "harvest, 3 rankers": lambda c=three: linear(c, train, test, harvested(c)),
                "LightGBM position=, 3 rankers": lambda c=three: trees(c, train, test, "position"),
                "production": lambda m=models[0]: measured(m.predict(test.X), test),
            }
            for name, job in jobs.items():
                results.setdefault(name, {}).setdefault(size, []).append(job())
    rows = [
        [
            "skyline (all labels)",
            *["{:.4f}/{:.4f}".format(*measured(skyline.predict(test.X), test))] * len(sizes),
        ]
    ]
    for name, found in results.items():
        cells = []
        for size in sizes:
            values = np.array(found[size])
            mean, error = mean_error(values[:, 0])
            cells.append(f"{mean:.4f}/{values[:, 1].mean():.4f} ({error:.4f})")
        rows.append([name, *cells])
    run.table("map", ["clicks", *[f"{size:,}" for size in sizes]], rows)
    run.section("MAP of harvest, 3 rankers, minus the others' (p of a paired t-test over logs)")
    ours = results["harvest, 3 rankers"]
    rows = []
    for name, found in results.items():
        if found is not ours:
            pairs = [[np.array(v)[:, 0] for v in (ours[size], found[size])] for size in sizes]
            rows.append([name, *[f"{(a - b).mean():+.4f} ({ttest_rel(a, b).pvalue:.3g})" for a, b in pairs]])
    run.table("p", ["clicks", *[f"{size:,}" for size in sizes]], rows)
    run.section("Propensities of the sessions of Yandex")
    found = harvest(read_sessions(run.data / "yandex_sessions" / "train.txt.gz"))
    places = [str(k) for k in range(1, found.theta.shape[0] + 1)]
    run.table(
        "yandex", ["", *places],
        [["theta", *[f"{v:.3f}" for v in found.theta]], ["se(log)", *[f"{v:.3f}" for v in found.standard_errors]]],
    )  # fmt: skip
    run.save()


if __name__ == "__main__":
    main()
