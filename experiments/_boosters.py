"""LightGBM, XGBoost and CatBoost as rankers with early stopping, for comparison."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from structsvm.cli.studies.folds.lightgbm_ranker import EVERY, GRID, MOST_TREES, Boosted, Grown, Point, grow
from structsvm.protocols import Float
from structsvm.queries import QueryData, row_groups


def boosted_path(
    name: str,
    train: QueryData,
    validation: QueryData,
    measure: Callable[[QueryData, Float], Any],
    grid: Iterable[Point] = GRID,
    *,
    relevance: float = 1.0,
    seed: int = 0,
    n_jobs: int = 1,
    most_trees: int | None = None,
    patience: int | None = None,
) -> Iterator[tuple[Any, Boosted]]:
    """Yield every tenth stage of a booster at each point of a grid, with the measure on the validation queries.

    The grid is 7, 15 and 31 leaves (learning rates .1, .1, .05) times binary and graded labels, each with up to 600
    trees.
    """
    most_trees = MOST_TREES if most_trees is None else most_trees
    binary = (train.y >= relevance).astype(np.float64)
    for point in grid:
        graded = point.graded
        if graded and np.array_equal(binary, train.y):
            continue
        y = train.y if graded else binary
        held_out = None if patience is None else validation
        if held_out is not None and not graded:
            held_out = replace(validation, y=(validation.y >= relevance).astype(np.float64))
        grown, n_trees = PEERS[name](train, y, point, most_trees, seed, n_jobs, held_out, patience)
        scores, done, best, risen = np.zeros(validation.n_rows), 0, np.array(-np.inf), 0
        for last in range(EVERY, n_trees + 1, EVERY):
            scores = scores + grown(validation.X, done, last)
            done = last
            value = measure(validation, scores)
            yield value, Boosted(grown, last, point)
            if patience is None:
                continue
            if (np.asarray(value) > best).any():
                best, risen = np.maximum(value, best), last
            elif last - risen >= patience:
                break


# Each function below returns a function from a number of trees to scores, and the maximum number of trees. Trees are
# grown when first requested if the library can continue training.


def _lightgbm(
    train: QueryData, y: Float, point: Point, n_trees: int, seed: int, n_jobs: int, *_: Any
) -> tuple[Grown, int]:
    return grow(train, y, point, seed, n_jobs), n_trees


def _xgboost(
    train: QueryData, y: Float, point: Point, n_trees: int, seed: int, n_jobs: int, *_: Any
) -> tuple[Grown, int]:
    import xgboost

    objective = "rank:map" if y.max() <= 1 else "rank:ndcg"
    options = {
        "objective": objective,
        "grow_policy": "lossguide",
        "max_leaves": point.n_leaves,
        "max_depth": 0,
        "eta": point.rate,
        "tree_method": "hist",
        "seed": seed,
        "nthread": n_jobs,
        "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": int(np.diff(train.offsets).max()),
        "base_score": 0.0,
    }
    if point.l2 is not None:
        options["lambda"] = point.l2
    data = xgboost.DMatrix(train.X, label=y, qid=row_groups(train.offsets))
    booster = xgboost.Booster(options, [data])

    def grown(X: Any, first: int, last: int) -> Float:
        for i in range(booster.num_boosted_rounds(), last):
            booster.update(data, i)
        return np.asarray(
            booster.predict(xgboost.DMatrix(X), iteration_range=(first, last), output_margin=True),
            dtype=np.float64,
        )

    return grown, n_trees


def _catboost(
    train: QueryData,
    y: Float,
    point: Point,
    n_trees: int,
    seed: int,
    n_jobs: int,
    held_out: QueryData | None,
    patience: int | None,
) -> tuple[Grown, int]:
    model = catboost_model(train, point, n_trees, seed, n_jobs, y=y, held_out=held_out, patience=patience)

    def grown(X: Any, first: int, last: int) -> Float:
        return np.asarray(
            model.predict(
                X, prediction_type="RawFormulaVal", ntree_start=first, ntree_end=last, thread_count=n_jobs
            )
        )

    return grown, int(model.tree_count_)


def catboost_model(
    train: QueryData,
    point: Point,
    n_trees: int,
    seed: int,
    n_jobs: int = 1,
    *,
    y: Float | None = None,
    held_out: QueryData | None = None,
    patience: int | None = None,
) -> Any:
    """Return a CatBoost model with one setting and with the labels ``y`` instead of the queries' labels."""
    import catboost

    def pool(data: QueryData, y: Float) -> Any:
        return catboost.Pool(data.X, label=y, group_id=row_groups(data.offsets))

    y = (train.y >= 1).astype(np.float64) if y is None else y
    measure = "MAP" if y.max() <= 1 else "NDCG"
    options = {
        "loss_function": f"YetiRank:mode={measure}",
        "iterations": n_trees,
        "learning_rate": point.rate,
        "depth": int(np.ceil(np.log2(point.n_leaves))),
        "random_seed": seed,
        "thread_count": n_jobs,
        "verbose": 0,
        "allow_writing_files": False,
        "use_best_model": False,
    }
    if point.l2 is not None:
        options["l2_leaf_reg"] = point.l2
    if held_out is not None:
        options |= {"eval_metric": measure, "od_type": "Iter", "od_wait": patience}
    model = catboost.CatBoost(options)
    return model.fit(pool(train, y), eval_set=None if held_out is None else pool(held_out, held_out.y))


PEERS = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}
"""The boosting libraries by name."""
