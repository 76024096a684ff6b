"""Which loss to take for which measure: linear rankers on real and made data, C chosen by validation queries.

Queries of real data sets are assigned to five folds at random, several times: three folds train, one validates, one
tests. Synthetic sets are generated for each repetition, with 300 training, 150 validation and 300 test queries. Each
loss has a path of 7 values of C, and each measure chooses its own value. ``hinge`` is the structural hinge of NDCG@10
with position features (``PositionNDCG``), whose optimum is often w = 0. The second table shows the certified lower
bound on the optimum at C = 10,000, as a share of the objective at w = 0: a value of 1 means that zero weights are
optimal for this loss. The third table shows how much NDCG@10 changes with ``tol``, at the default C of ``SVMNDCG``.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from _common import Experiment
from _position_ndcg import PositionNDCG
from _teachers import make_taught
from trees import joined, lightgbm_example

from structsvm.features.binning import BinnedFeatures
from structsvm.features.scaling import QueryScaler
from structsvm.metrics import evaluate
from structsvm.oracles import get_oracle
from structsvm.queries import QueryData
from structsvm.readers import candidates, make_ranking, read_letor, read_qrels, read_run
from structsvm.trainers import RankingProblem, fit_path

LOSSES = ("ndcg@10", "map", "pairs", "mrr", "precision@10", "hinge")
MEASURES = ("ndcg@10", "map", "mrr", "precision@10")
CS = np.logspace(-1, 3, 7)
N_TRAIN, N_VALIDATION, N_TEST = 300, 150, 300


def scaled(data: QueryData) -> QueryData:
    X = QueryScaler("minmax", within="query").fit(data.X).transform(data.X, qid=data.qid)
    return QueryData(X, data.y, data.offsets, data.query_ids)


def submissions(run: Experiment, folder: str, depth: int) -> QueryData:
    """Return the pooled documents of the runs; features are bins of each run's scores."""
    place = run.data / folder
    runs = [read_run(path) for path in sorted((place / "runs").glob("*.gz"))]
    pool = candidates(runs, read_qrels(place / "qrels.txt.gz"), depth=depth)
    rows: Any = BinnedFeatures(within="query").fit(pool.scores, qid=pool.qid)
    X = rows.transform_rows(pool.scores, qid=pool.qid)
    return QueryData(X, np.maximum(pool.y, 0.0), pool.offsets, np.arange(len(pool.offsets) - 1))


def real(run: Experiment) -> Iterator[tuple[str, QueryData, float]]:
    """Yield name, queries, and the grade from which a document is relevant."""
    if (run.data / "letor4_mq2008").is_dir():
        parts = [read_letor(run.data / "letor4_mq2008" / f"S{i}.txt.gz") for i in range(1, 6)]
        yield "MQ2008", joined(parts), 1.0
    if (run.data / "lightgbm_rank").is_dir():
        yield "LightGBM's", lightgbm_example(run), 1.0
    if (run.data / "letor3_np2004_fold1").is_dir():
        parts = [read_letor(run.data / "letor3_np2004_fold1" / f"{name}.txt.gz") for name in ("vali", "test")]
        yield "NP2004", scaled(joined(parts)), 1.0
    if (run.data / "trec_robust2003").is_dir():
        yield "Robust 2003", submissions(run, "trec_robust2003", 100), 1.0
    if (run.data / "trec_dl2020_passage").is_dir():
        yield "DL 2020", submissions(run, "trec_dl2020_passage", 50), 2.0


def made(seed: int) -> Iterator[tuple[str, QueryData]]:
    n = N_TRAIN + N_VALIDATION + N_TEST
    for teacher, name in (("forest", "forest"), ("step", "steps")):
        data = make_taught(teacher, n, random_state=seed)
        X = QueryScaler("zscore").fit(data.X).transform(data.X)
        yield name, QueryData(X, data.y, data.offsets, data.query_ids)
    for n_docs in (10, 100, 1000):
        yield f"{n_docs} docs", make_ranking(n, n_docs, 30, noise=1.0, dtype=np.float32, random_state=seed)


def splits(run: Experiment, draws: int) -> Iterator[tuple[str, QueryData, float, list[Any]]]:
    """Yield each data set with the query numbers of its training, validation and test parts."""
    for name, data, relevance in real(run):
        parts = []
        for draw in range(draws):
            dealt = np.array_split(np.random.default_rng([run.seed, draw]).permutation(data.n_queries), 5)
            for fold in range(5):
                turned = [np.sort(dealt[(fold + i) % 5]) for i in range(5)]
                parts.append((np.sort(np.concatenate(turned[:3])), turned[3], turned[4]))
        yield name, data, relevance, parts
    for draw in range(max(1, draws // 2)):
        for name, data in made(run.seed + draw):
            cuts = np.split(np.arange(data.n_queries), [N_TRAIN, N_TRAIN + N_VALIDATION])
            yield name, data, 1.0, [cuts]


def problem_of(loss: str, data: QueryData, relevance: float) -> RankingProblem:
    oracle = PositionNDCG() if loss == "hinge" else get_oracle(loss, relevance=relevance)
    separator = oracle.bind(data.y, data.offsets)
    return RankingProblem(data.X, data.offsets, separator, weights=separator.query_weights)


def products(X: Any, w: np.ndarray) -> np.ndarray:
    return np.asarray(X @ w)


def measured(data: QueryData, w: np.ndarray, relevance: float) -> list[float]:
    scores = products(data.X, w)
    return [
        float(evaluate(name, data.y, scores, qid=data.qid, relevance=relevance, ties="row").mean)
        for name in MEASURES
    ]


def trained(data: QueryData, parts: list[Any], relevance: float) -> dict[str, np.ndarray]:
    """Return test values by loss, split and measure, with the C that has the best validation value of the measure."""
    out = {}
    for loss in LOSSES:
        rows = []
        for train, validation, test in parts:
            problem = problem_of(loss, data.select(train), relevance)
            fits = list(fit_path(problem, CS.tolist(), max_passes=300))
            seen = np.array([measured(data.select(validation), fit.w, relevance) for fit in fits])
            values = np.array([measured(data.select(test), fit.w, relevance) for fit in fits])
            rows.append(np.take_along_axis(values, seen.argmax(axis=0)[None], axis=0)[0])
        out[loss] = np.array(rows)
    return out


def bounds(data: QueryData, train: Any, relevance: float) -> dict[str, np.ndarray]:
    """Return the lower bound on the optimum at C = 10,000, divided by the objective at zero."""
    out = {}
    for loss in LOSSES:
        problem = problem_of(loss, data.select(train), relevance)
        fit = next(fit_path(problem, [1e4], tol=3e-3, max_passes=300))
        zero = 1e4 * problem.cut(np.zeros(problem.n_features)).loss
        out[loss] = np.array([fit.dual / zero])
    return out


def moved(data: QueryData, parts: Any, relevance: float) -> dict[str, np.ndarray]:
    """Return the NDCG@10 of each split for two tolerances."""
    train, _, test = parts
    problem = problem_of("ndcg@10", data.select(train), relevance)
    fits = [next(fit_path(problem, [10.0], tol=tol)) for tol in (1e-3, 1e-6)]
    return {"values": np.array([measured(data.select(test), fit.w, relevance)[0] for fit in fits])}


def main() -> None:
    run = Experiment(
        "top_losses",
        __doc__,
        uses=[
            "letor4_mq2008",
            "lightgbm_rank",
            "letor3_np2004_fold1",
            "trec_robust2003",
            "trec_dl2020_passage",
        ],
    )
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, list[np.ndarray]]] = {}
    optima: dict[str, dict[str, float]] = {}
    changes: dict[str, list[float]] = {}
    for name, data, relevance, parts in splits(run, run.runs(1, 4)):
        values = run.once(lambda data=data, parts=parts, r=relevance: trained(data, parts, r))
        for loss in LOSSES:
            found.setdefault(name, {}).setdefault(loss, []).append(values[loss])
        if name not in optima:
            kept = run.once(lambda data=data, parts=parts, r=relevance: bounds(data, parts[0][0], r))
            optima[name] = {loss: float(kept[loss][0]) for loss in LOSSES}
        for part in parts[: 5 if len(parts) > 1 else 1]:
            two = run.once(lambda data=data, part=part, r=relevance: moved(data, part, r))["values"]
            changes.setdefault(name, []).append(float(two[1] - two[0]))
        print(f"  {name}: {run.cpu():.0f} CPU seconds", flush=True)
    sets = list(found)
    for i, measure in enumerate(MEASURES):
        run.section(f"{measure} of test queries")
        rows = []
        for loss in LOSSES:
            means = [float(np.concatenate(found[name][loss])[:, i].mean()) for name in sets]
            rows.append([loss, *(f"{value:.3f}" for value in means), f"{np.mean(means):.3f}"])
        run.table(measure, ["loss", *sets, "mean"], rows)
    run.section("Optimum over the objective at w = 0")
    rows = [[loss, *(f"{optima[name][loss]:.3f}" for name in sets)] for loss in LOSSES]
    run.table("optima", ["loss", *sets], rows)
    run.section("NDCG@10 at tol 1e-6 minus at 1e-3")
    run.say("Loss ndcg@10, C = 10: the mean of the splits, and the largest change of one.")
    rows = [["mean", *(f"{np.mean(changes[name]):+.4f}" for name in sets)]]
    rows.append(["largest", *(f"{np.abs(changes[name]).max():.4f}" for name in sets)])
    run.table("moved", ["", *sets], rows)
    run.save()


if __name__ == "__main__":
    main()
