"""Rankers over re-weighted leaves beside boosters, on data that are linear, almost linear, and not at all.

Each data set has training, validation and test queries. Of every method, all that can be chosen (C, trees, leaves,
learning rate, labels, scaling) is chosen by the validation queries, for MAP and for NDCG@10 apart. Every method with
trees has the same three shapes of them (leaves, learning rate, L2 regularization of leaf values). The tree ranker has
C, two numbers of trees, and the same trees in one run or in four (``bags``). ``catboost-bags`` is CatBoost grown four
times, with binary labels and on 70 % of the queries each, whose scores are averaged; ``tree-catboost`` finds new
weights for the leaves of the same trees. A booster has every tenth number of trees until a hundred more gain nothing,
and graded labels in a fourth setting. On real data, which are small, the choice is then trained again on training and
validation queries together, for every method; features of MQ2008 are there twice, as they are and as percentiles
within the query. With 1,500 training queries each method has the shape and labels that it chose with 300. Differences
are tested over test queries (Wilcoxon, two-tailed, uncorrected).

``tree-ndcg`` is trained for NDCG@10, with trees grown by grades, on LightGBM's example, whose labels have five.

The methods of each data set are kept in pieces: a command that was interrupted goes on from there, and Ctrl-C writes
the page of what is finished. ``--only`` computes some data sets anew; the page keeps its rows of the others.
"""

import gzip
import json
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from _boosters import PEERS, Point, boosted_path, catboost_model
from _common import Experiment
from _teachers import make_taught
from scipy.stats import wilcoxon
from sklearn.datasets import load_svmlight_file

from structsvm import StructuralRanker, TreeRanker
from structsvm.common.files import replacing
from structsvm.estimators.structural import model_path
from structsvm.features import LeafFeatures
from structsvm.features.scaling import with_percentiles
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers import read_letor
from structsvm.trainers.certificate import ConvergenceWarning

SETS = ("forest-300", "product-300", "MQ2008", "lightgbm_rank", "step-300", "forest-1500", "product-1500")
MEASURES = ("map", "ndcg@10")
TITLE = "Means over test queries, and differences to the tree rankers for MAP"
CS = np.logspace(-2, 1, 7)
N_TEST, N_VALIDATION = 1000, 150
SMALL_ONLY = ("tree-ndcg",)
METHODS = (
    ("tree", "lightgbm", "xgboost"),
    ("catboost",),
    ("tree-catboost", "catboost-bags"),
    ("linear",),
    ("tree-ndcg",),
)
"""Methods, the most important first, because a run may be interrupted."""
SHAPES = ((7, 0.1, None), (7, 0.1, 30.0), (15, 0.1, 30.0))
"""Leaves of a tree, learning rate and L2 regularization (None: the library's default) for every method with trees."""

BASES = ("tree", "tree-catboost")
BAGS = 4
SHARE = 0.7
"""Share of the queries used to grow a bag."""
PATIENCE = 100


class Fold(NamedTuple):
    """Queries of one test; with ``again`` the chosen model is retrained with the validation queries added."""

    name: str
    train: QueryData
    validation: QueryData
    test: QueryData
    again: bool

    @property
    def rest(self) -> QueryData:
        return joined([self.train, self.validation])


class Chosen(NamedTuple):
    """One point of a method's grid, and how to train it on other queries."""

    says: str
    model: Any
    retrain: Callable[[QueryData], Any]
    point: Point | None
    """The grid point from which the trees were grown."""


class CatBoostBags:
    """CatBoost models grown on samples of the queries, cached as long as the same queries are requested."""

    def __init__(self) -> None:
        self._data: QueryData | None = None
        self._models: dict[Point, list[Any]] = {}

    def grow(self, data: QueryData, point: Point, n_trees: int, seed: int) -> list[Any]:
        if self._data is not data:
            self._data, self._models = data, {}
        if point not in self._models:
            models = []
            for bag in range(BAGS):
                drawn = np.random.default_rng((seed, bag)).permutation(data.n_queries)
                part = data.select(np.sort(drawn[: round(SHARE * data.n_queries)]))
                models.append(catboost_model(part, point, n_trees, seed + bag))
            self._models[point] = models
        return self._models[point]


class Averaged(NamedTuple):
    """A ranker by the mean score of boosters with ``n_trees`` trees each."""

    models: list[Any]
    n_trees: int

    def predict(self, X: np.ndarray, *, qid: Any = None) -> np.ndarray:
        return np.mean([model.predict(X, ntree_end=self.n_trees) for model in self.models], axis=0)


CATBOOST_BAGS = CatBoostBags()


def joined(parts: list[QueryData]) -> QueryData:
    """Return parts with disjoint queries as one data set."""
    n = np.cumsum([0, *(part.n_queries for part in parts)])
    qid = np.concatenate(
        [np.repeat(np.arange(part.n_queries) + n[i], np.diff(part.offsets)) for i, part in enumerate(parts)]
    )
    X, y = np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])
    return QueryData.from_arrays(X, y, qid)


def lightgbm_example(run: Experiment) -> QueryData:
    """Return the training and test queries of LightGBM's ranking example."""
    parts = []
    for part in ("train", "test"):
        with gzip.open(run.data / "lightgbm_rank" / f"rank.{part}.gz") as file:
            X, y = load_svmlight_file(file, n_features=301)
        lengths = np.loadtxt(run.data / "lightgbm_rank" / f"rank.{part}.query", dtype=np.int64)
        parts.append(QueryData.from_arrays(X.toarray(), y, np.repeat(np.arange(lengths.size), lengths)))
    return joined(parts)


def made(teacher: str, n: int, run: Experiment) -> Iterator[Fold]:
    data = make_taught(teacher, n + N_VALIDATION + N_TEST, random_state=run.seed)
    cuts = (0, n, n + N_VALIDATION, data.n_queries)
    yield Fold(f"{teacher}-{n}", *(data.select(np.arange(a, b)) for a, b in pairwise(cuts)), again=False)


def five(name: str, parts: list[QueryData]) -> Iterator[Fold]:
    for fold in range(5):
        order = [parts[(fold + i) % 5] for i in range(5)]
        yield Fold(name, joined(order[:3]), order[3], order[4], again=True)


def folds(run: Experiment) -> Iterator[Fold]:
    """Yield the tests of all data sets; the folds of a data set share its name."""
    yield from made("forest", 300, run)
    yield from made("product", 300, run)
    if (run.data / "letor4_mq2008").is_dir():
        parts = [read_letor(run.data / "letor4_mq2008" / f"S{i}.txt.gz") for i in range(1, 6)]
        yield from five("MQ2008", [with_percentiles(part) for part in parts])
    if (run.data / "lightgbm_rank").is_dir():
        data = lightgbm_example(run)
        dealt = np.random.default_rng(run.seed).permutation(data.n_queries)
        yield from five("lightgbm_rank", [data.select(np.sort(dealt[i::5])) for i in range(5)])
    yield from made("step", 300, run)
    if not run.quick:
        for teacher in ("forest", "product"):
            yield from made(teacher, 1500, run)


def in_order(run: Experiment) -> Iterator[tuple[int, Fold, str]]:
    """Yield the number of a fold, the fold and a method; large data sets come last."""
    for large, methods in product((False, True), METHODS):
        for number, fold in enumerate(folds(run)):
            if (fold.train.n_queries > 1000) == large:
                yield from (
                    (number, fold, method) for method in methods if not (large and method in SMALL_ONLY)
                )


def values(measure: str, data: QueryData, scores: np.ndarray) -> np.ndarray:
    return evaluate(measure, data.y, scores, qid=data.qid, ties="row").per_query


def means(data: QueryData, scores: np.ndarray) -> tuple[float, ...]:
    return tuple(float(values(measure, data, scores).mean()) for measure in MEASURES)


def candidates(
    method: str, fold: Fold, run: Experiment, grid: list[Point]
) -> Iterator[tuple[tuple[float, ...], Chosen]]:
    """Yield the candidates of a method, with their means on the validation queries.

    ``grid`` holds the trees to grow; only boosters have points with graded labels.
    """
    train, validation = fold.train, fold.validation
    most = 400 if train.n_rows < 20_000 else 1000
    in_bag = 7 * most // 10
    if method == "linear":
        for scale, ranker in (
            (scale, StructuralRanker(scale=scale)) for scale in ("zscore", "query-percentile")
        ):
            for model in model_path(ranker, train.X, train.y, CS, qid=train.qid):
                yield _tried(model, f"{scale}, C = {model.C:.2g}", validation)
    elif method == "tree-catboost":
        for point in grid:

            def leaves(data: QueryData, point: Point = point) -> LeafFeatures:
                return LeafFeatures.from_model(CATBOOST_BAGS.grow(data, point, in_bag, run.seed))

            ranker = TreeRanker(leaves=leaves(train), random_state=run.seed)
            for model in model_path(ranker, train.X, train.y, CS, qid=train.qid):
                says = f"{in_bag} x {point.n_leaves} in {BAGS}, l2 {point.l2 or 3:g}, C = {model.C:.2g}"
                yield _tried(model, says, validation, point, leaves)
    elif method == "catboost-bags":
        for point, n_trees in product(grid, range(in_bag // 10, in_bag + 1, in_bag // 10)):

            def averaged(data: QueryData, point: Point = point, n_trees: int = n_trees) -> Averaged:
                return Averaged(CATBOOST_BAGS.grow(data, point, in_bag, run.seed), n_trees)

            mean = averaged(train)
            says = f"{n_trees} x {point.n_leaves} in {BAGS}, l2 {point.l2 or 3:g}"
            yield means(validation, mean.predict(validation.X)), Chosen(says, mean, averaged, point)
    elif method.startswith("tree"):
        loss = "ndcg@10" if method == "tree-ndcg" else "map"
        for point, bags in product(grid, (1, BAGS)):
            if bags > 1 and point.l2 is None:
                continue  # to save time
            shape = {
                "n_leaves": point.n_leaves,
                "learning_rate": point.rate,
                "l2_regularization": point.l2 or 0.0,
                "bags": bags,
                "random_state": run.seed,
            }
            numbers = (most // 2, most) if bags == 1 else (2 * most,)
            all_trees = LeafFeatures(
                numbers[-1], n_bins=0, relevance=None if method == "tree-ndcg" else 1.0, **shape
            )
            forest = all_trees.fit(train.X, train.y, qid=train.qid).forest_
            for n_trees in numbers:
                first = LeafFeatures(forest=forest.first(n_trees), random_state=run.seed)
                ranker = TreeRanker(loss, n_trees=n_trees, leaves=first, **shape)
                for model in model_path(ranker, train.X, train.y, CS, qid=train.qid):
                    says = f"{n_trees} x {point.n_leaves} in {bags}, l2 {point.l2 or 0:g}, C = {model.C:.2g}"
                    yield _tried(model, says, validation, point)
    else:
        for value, model in boosted_path(
            method, train, validation, means, grid, seed=run.seed, most_trees=most, patience=PATIENCE
        ):

            def retrain(data: QueryData, model: Any = model) -> Any:
                stages = boosted_path(
                    method,
                    data,
                    validation,
                    lambda *_: None,
                    [model.point],
                    seed=run.seed,
                    most_trees=model.n_trees,
                )
                return [grown for _, grown in stages][-1]

            point = model.point
            l2 = "" if point.l2 is None else f", l2 {point.l2:g}"
            labels = "grades" if point.graded else "binary"
            yield value, Chosen(f"{model.n_trees} x {point.n_leaves}{l2}, {labels}", model, retrain, point)


def _tried(
    model: Any,
    says: str,
    validation: QueryData,
    point: Point | None = None,
    leaves: Callable[[QueryData], LeafFeatures | None] = lambda _: None,
) -> tuple[tuple[float, ...], Chosen]:
    def retrain(data: QueryData) -> Any:
        again = type(model)(**model.get_params(deep=False))
        if isinstance(again, TreeRanker):
            again.set_params(leaves=leaves(data))  # trees of all these queries
        return again.fit(data.X, data.y, qid=data.qid)

    value = means(validation, model.predict(validation.X, qid=validation.qid))
    return value, Chosen(says, model, retrain, point)


def grid_of(method: str, smaller: dict[str, Any] | None) -> list[Point]:
    """Return the trees to try; given a result on fewer queries (``smaller``), only the trees chosen in it."""
    if smaller is not None:
        return [Point(*smaller["point"])] if smaller["point"] else []
    grades = [Point(True, *SHAPES[1])] if method in PEERS else []
    return [Point(False, *shape) for shape in SHAPES] + grades


def piece(method: str, fold: Fold, run: Experiment, smaller: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the values per test query by each measure, for the model chosen by this measure."""
    started = time.process_time()
    best: list[tuple[float, Chosen | None]] = [(-np.inf, None)] * len(MEASURES)
    for value, chosen in candidates(method, fold, run, grid_of(method, smaller)):
        best = [max(old, (new, chosen), key=lambda one: one[0]) for old, new in zip(best, value, strict=True)]
    found: dict[str, Any] = {"chosen": {}, "values": {}}
    rest = fold.rest if fold.again else None
    for measure, (_, chosen) in zip(MEASURES, best, strict=True):
        model = chosen.model if rest is None else chosen.retrain(rest)
        scores = model.predict(fold.test.X, qid=fold.test.qid)
        found["chosen"][measure] = chosen.says
        found["values"][measure] = values(measure, fold.test, scores).round(6).tolist()
        found.setdefault("point", chosen.point)  # by MAP
    return found | {"cpu": round(time.process_time() - started, 1)}


def kept_rows(run: Experiment) -> list[list[Any]]:
    """Return the rows of the existing page for data sets that are not computed now."""
    others = set(SETS) - set(run.options.only)
    if not others:
        return []
    page = json.loads((run.options.out / "trees.json").read_text())
    kept = [list(row.values()) for row in page[TITLE] if row["data"] in others]
    run.kept_cpu += sum(float(row["CPU s"]) for row in page[TITLE] if row["data"] in others)
    run.say(f"Computed anew: {', '.join(run.options.only)}.")
    run.options.only = list(SETS)
    return kept


def table(run: Experiment, found: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    rows = kept_rows(run)
    for name, by_method in found.items():
        for method, parts in by_method.items():
            row = [name, method]
            for measure in MEASURES:
                own = np.concatenate([part["values"][measure] for part in parts])
                mean = np.mean([np.mean(part["values"][measure]) for part in parts])
                row.append(f"{mean:.4f}")
                for name_of_base in BASES:
                    base = by_method.get(name_of_base, ())
                    said = ""
                    if method != name_of_base and len(base) == len(parts):
                        other = np.concatenate([part["values"][measure] for part in base])
                        said = f"{np.mean(own - other):+.4f}, p {wilcoxon(own, other).pvalue:.1g}"
                    row.append(said)
            picks = (
                "; ".join(dict.fromkeys(part["chosen"]["map"] for part in parts)) if len(parts) == 1 else ""
            )
            rows.append([*row, len(parts), f"{sum(part['cpu'] for part in parts):.0f}", picks])
    columns = [
        f"{head}{also}" for head in ("MAP", "NDCG@10") for also in ("", *(f", to {base}" for base in BASES))
    ]
    run.table(
        TITLE,
        ["data", "method", *columns, "tests", "CPU s", "chosen for MAP"],
        rows,
    )


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    run = Experiment("trees", __doc__, SETS, uses=["letor4_mq2008", "lightgbm_rank"])
    run.say(" ".join(__doc__.split("\n\n", 1)[1].rsplit("\n\n", 1)[0].split()))
    pieces = run.options.out / f"pieces-{run.seed}"
    pieces.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    complete = True
    for number, fold, method in in_order(run):
        if fold.name not in run.options.only or (method == "tree-ndcg" and fold.name != "lightgbm_rank"):
            continue
        path = pieces / f"{number}.{fold.name}.{method}.json"
        if path.exists():
            result = json.loads(path.read_text())
            run.kept_cpu += result["cpu"]
        elif not complete:
            continue
        else:
            smaller = found[f"{fold.name.removesuffix('-1500')}-300"] if fold.name.endswith("-1500") else None
            try:
                result = piece(method, fold, run, smaller and smaller[method][0])
            except KeyboardInterrupt:
                complete = False
                run.say("Interrupted: what is not in the table was not finished.")
                continue
            with replacing(path) as file:
                file.write(json.dumps(result).encode())
        found.setdefault(fold.name, {}).setdefault(method, []).append(result)
        shown = ", ".join(f"{m} {np.mean(result['values'][m]):.4f} ({result['chosen'][m]})" for m in MEASURES)
        print(f"{fold.name} {method}: {shown}, {result['cpu']} CPU s", flush=True)
    table(run, found)
    run.save()
    if complete:
        shutil.rmtree(pieces)


if __name__ == "__main__":
    main()
