"""LightGBM, XGBoost and CatBoost as rankers that stop early, to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.protocols import Float
from structsvm.queries import QueryData

__all__ = ["PEERS", "Boosted", "best_boosted", "boosted_path", "check_installed"]

_GRID = tuple((graded, *shape) for graded in (False, True) for shape in ((7, 0.1), (15, 0.1), (31, 0.05)))
"""Whether labels are graded, leaves of a tree (of XGBoost and CatBoost at most), and learning rate."""

_MOST_TREES = 600
_EVERY = 10

Staged = Iterator[tuple[int, Callable[[Any], Float]]]


class Boosted:
    """Ranker by the first trees of a booster."""

    def __init__(self, score: Callable[[Any], Float], n_trees: int, point: tuple[bool, int, float]) -> None:
        self._score = score
        self.n_trees = n_trees
        self.point = point
        """Of the grid: whether labels are graded, leaves of a tree, and learning rate."""

    def predict(self, X: Any, *, qid: Any = None) -> Float:
        """Scores, higher is better."""
        return np.asarray(self._score(X), dtype=np.float64)


def check_installed(name: str) -> None:
    """Raise for a peer whose library is not installed.

    Raises
    ------
    ValueError
        With the command that installs it.
    """
    try:
        import_module(name)
    except ImportError:
        package = {"xgboost": "xgboost-cpu"}.get(name, name)
        raise BadInput("method", f"the library is not installed; pip install {package}", value=name) from None


def best_boosted(
    name: str,
    train: QueryData,
    validation: QueryData,
    measure: Callable[[QueryData, Float], float],
    *,
    relevance: float = 1.0,
    seed: int = 0,
    n_jobs: int = 1,
    most_trees: int = _MOST_TREES,
) -> Boosted:
    """Return the best of a grid on the validation queries.

    The grid is 7, 15 and 31 leaves (learning rates .1, .1, .05) times binary and graded labels, each with every tenth
    number of trees up to 600.

    Parameters
    ----------
    name : {"lightgbm", "xgboost", "catboost"}
    train, validation : QueryData
    measure : callable
        ``measure(data, scores)``, higher is better.
    relevance : float, default=1.0
        Of the binary labels.
    seed, n_jobs : int
    most_trees : int, default=600

    Returns
    -------
    Boosted
    """
    best, model = -np.inf, None
    for value, grown in boosted_path(
        name, train, validation, measure, _GRID, relevance=relevance, seed=seed, n_jobs=n_jobs, most_trees=most_trees
    ):  # fmt: skip
        if value > best:
            best, model = value, grown
    assert model is not None
    return model


def boosted_path(
    name: str,
    train: QueryData,
    validation: QueryData,
    measure: Callable[[QueryData, Float], Any],
    grid: Iterable[tuple[bool, int, float]] = _GRID,
    *,
    relevance: float = 1.0,
    seed: int = 0,
    n_jobs: int = 1,
    most_trees: int = _MOST_TREES,
) -> Iterator[tuple[Any, Boosted]]:
    """Yield every tenth stage of a booster at each point of a grid, with the measure on the validation queries.

    Parameters
    ----------
    name, train, validation, relevance, seed, n_jobs, most_trees
        As in :func:`best_boosted`.
    measure : callable
        ``measure(data, scores)``, a number or several.
    grid : iterable of (bool, int, float)
        Whether labels are graded, leaves of a tree, and learning rate. Points with graded labels are left out where
        these are binary.

    Yields
    ------
    tuple of what ``measure`` returns and Boosted
    """
    check_installed(name)
    binary = (train.y >= relevance).astype(np.float64)
    for graded, n_leaves, rate in grid:
        if graded and np.array_equal(binary, train.y):
            continue
        y = train.y if graded else binary
        grown = PEERS[name](train, y, n_leaves, rate, most_trees, seed, n_jobs)
        scores, done = np.zeros(validation.n_rows), 0
        for last in range(_EVERY, most_trees + 1, _EVERY):
            scores = scores + grown(validation.X, done, last)
            done = last
            yield measure(validation, scores), Boosted(_first(grown, last), last, (graded, n_leaves, rate))


_Grown = Callable[[Any, int, int], Float]
"""Scores of rows by the trees ``first:last``."""


def _first(grown: _Grown, last: int) -> Callable[[Any], Float]:
    return lambda X: grown(X, 0, last)


def _lightgbm(
    train: QueryData, y: Float, n_leaves: int, rate: float, n_trees: int, seed: int, n_jobs: int
) -> _Grown:
    import lightgbm

    lengths = np.diff(train.offsets)
    options = {
        "objective": "lambdarank", "num_leaves": n_leaves, "learning_rate": rate, "seed": seed, "num_threads": n_jobs,
        "lambdarank_truncation_level": int(lengths.max()), "deterministic": True, "force_row_wise": True,
        "verbosity": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(train.X, label=y, group=lengths, params={"verbosity": -1, "num_threads": n_jobs})
    booster = lightgbm.train(options, data, n_trees)
    return lambda X, first, last: np.asarray(
        booster.predict(X, start_iteration=first, num_iteration=last - first, num_threads=n_jobs)
    )


def _xgboost(
    train: QueryData, y: Float, n_leaves: int, rate: float, n_trees: int, seed: int, n_jobs: int
) -> _Grown:
    import xgboost

    objective = "rank:map" if y.max() <= 1 else "rank:ndcg"
    options = {
        "objective": objective, "grow_policy": "lossguide", "max_leaves": n_leaves, "max_depth": 0, "eta": rate,
        "tree_method": "hist", "seed": seed, "nthread": n_jobs, "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": int(np.diff(train.offsets).max()), "base_score": 0.0,
    }  # fmt: skip
    booster = xgboost.train(
        options, xgboost.DMatrix(train.X, label=y, qid=np.repeat(np.arange(train.n_queries), np.diff(train.offsets))),
        n_trees,
    )  # fmt: skip
    return lambda X, first, last: np.asarray(
        booster.predict(xgboost.DMatrix(X), iteration_range=(first, last), output_margin=True),
        dtype=np.float64,
    )


def _catboost(
    train: QueryData, y: Float, n_leaves: int, rate: float, n_trees: int, seed: int, n_jobs: int
) -> _Grown:
    import catboost

    loss = "YetiRank:mode=MAP" if y.max() <= 1 else "YetiRank:mode=NDCG"
    pool = catboost.Pool(
        train.X, label=y, group_id=np.repeat(np.arange(train.n_queries), np.diff(train.offsets))
    )
    model = catboost.CatBoost({
        "loss_function": loss, "iterations": n_trees, "learning_rate": rate, "depth": int(np.ceil(np.log2(n_leaves))),
        "random_seed": seed, "thread_count": n_jobs, "verbose": 0, "allow_writing_files": False,
    })  # fmt: skip
    model.fit(pool)
    return lambda X, first, last: np.asarray(
        model.predict(
            X, prediction_type="RawFormulaVal", ntree_start=first, ntree_end=last, thread_count=n_jobs
        )
    )


PEERS = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}
"""The libraries by name."""
