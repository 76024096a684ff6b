"""LightGBM, XGBoost and CatBoost as rankers that stop early, to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.protocols import Float
from structsvm.queries import QueryData, row_groups


class Point(NamedTuple):
    """One setting of a booster."""

    graded: bool
    """Whether labels are graded."""
    n_leaves: int
    """Of a tree; of XGBoost and CatBoost at most."""
    rate: float
    l2: float | None = None
    """``lambda_l2``, ``lambda`` or ``l2_leaf_reg``; None is the library's default: 0, 1 and 3."""


_GRID = tuple(
    Point(graded, *shape) for graded in (False, True) for shape in ((7, 0.1), (15, 0.1), (31, 0.05))
)

_MOST_TREES = 600
_EVERY = 10

_Grown = Callable[[Any, int, int], Float]
"""Scores of rows by the trees ``first:last``."""


@dataclass(frozen=True)
class Boosted:
    """Ranker by the first trees of a booster."""

    grown: _Grown
    n_trees: int
    point: Point

    def predict(self, X: Any, *, qid: Any = None) -> Float:
        """Scores, higher is better."""
        return np.asarray(self.grown(X, 0, self.n_trees), dtype=np.float64)


def check_installed(name: str) -> None:
    """Raise for a peer whose library is not installed."""
    try:
        import_module(name)
    except ImportError:
        package = {"xgboost": "xgboost-cpu"}.get(name, name)
        raise BadInput("method", f"the library is not installed; pip install {package}", value=name) from None


def boosted_path(
    name: str,
    train: QueryData,
    validation: QueryData,
    measure: Callable[[QueryData, Float], Any],
    grid: Iterable[Point] = _GRID,
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
    check_installed(name)
    most_trees = _MOST_TREES if most_trees is None else most_trees
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
        for last in range(_EVERY, n_trees + 1, _EVERY):
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


# Each returns the scores by some trees, grown when they are first asked for where the library can go on, and how many
# trees there may be.


def _lightgbm(
    train: QueryData, y: Float, point: Point, n_trees: int, seed: int, n_jobs: int, *_: Any
) -> tuple[_Grown, int]:
    import lightgbm

    lengths = np.diff(train.offsets)
    options = {
        "objective": "lambdarank", "num_leaves": point.n_leaves, "learning_rate": point.rate, "seed": seed,
        "num_threads": n_jobs, "lambdarank_truncation_level": int(lengths.max()), "deterministic": True,
        "force_row_wise": True, "verbosity": -1,
    }  # fmt: skip
    if point.l2 is not None:
        options["lambda_l2"] = point.l2
    data = lightgbm.Dataset(train.X, label=y, group=lengths, params={"verbosity": -1, "num_threads": n_jobs})
    booster = lightgbm.Booster(options, data)

    def grown(X: Any, first: int, last: int) -> Float:
        while booster.current_iteration() < last and not booster.update():
            pass
        return np.asarray(
            booster.predict(X, start_iteration=first, num_iteration=last - first, num_threads=n_jobs)
        )

    return grown, n_trees


def _xgboost(
    train: QueryData, y: Float, point: Point, n_trees: int, seed: int, n_jobs: int, *_: Any
) -> tuple[_Grown, int]:
    import xgboost

    objective = "rank:map" if y.max() <= 1 else "rank:ndcg"
    options = {
        "objective": objective, "grow_policy": "lossguide", "max_leaves": point.n_leaves, "max_depth": 0,
        "eta": point.rate, "tree_method": "hist", "seed": seed, "nthread": n_jobs, "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": int(np.diff(train.offsets).max()), "base_score": 0.0,
    }  # fmt: skip
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
    train: QueryData, y: Float, point: Point, n_trees: int, seed: int, n_jobs: int,
    held_out: QueryData | None, patience: int | None,
) -> tuple[_Grown, int]:  # fmt: skip
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
    """Return a CatBoost model at one setting, with the labels ``y`` in place of those of the queries."""
    import catboost

    def pool(data: QueryData, y: Float) -> Any:
        return catboost.Pool(data.X, label=y, group_id=row_groups(data.offsets))

    y = (train.y >= 1).astype(np.float64) if y is None else y
    measure = "MAP" if y.max() <= 1 else "NDCG"
    options = {
        "loss_function": f"YetiRank:mode={measure}", "iterations": n_trees, "learning_rate": point.rate,
        "depth": int(np.ceil(np.log2(point.n_leaves))), "random_seed": seed, "thread_count": n_jobs, "verbose": 0,
        "allow_writing_files": False, "use_best_model": False,
    }  # fmt: skip
    if point.l2 is not None:
        options["l2_leaf_reg"] = point.l2
    if held_out is not None:
        options |= {"eval_metric": measure, "od_type": "Iter", "od_wait": patience}
    model = catboost.CatBoost(options)
    return model.fit(pool(train, y), eval_set=None if held_out is None else pool(held_out, held_out.y))


PEERS = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}
"""The libraries by name."""
