"""LightGBM's LambdaRank with early stopping on the validation queries, for comparison."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.protocols import Float
from structsvm.queries import QueryData


class Point(NamedTuple):
    """One setting of a booster."""

    graded: bool
    """Whether labels are graded."""
    n_leaves: int
    """Number of leaves of a tree; the maximum for XGBoost and CatBoost."""
    rate: float
    l2: float | None = None
    """``lambda_l2``, ``lambda`` or ``l2_leaf_reg``; None is the library's default: 0, 1 and 3."""


SHAPES = ((7, 0.1), (15, 0.1), (31, 0.05))
GRID = tuple(Point(graded, *shape) for graded in (False, True) for shape in SHAPES)
MOST_TREES = 600
EVERY = 10

Grown = Callable[[Any, int, int], Float]
"""Function of rows, ``first`` and ``last`` that returns the scores by the trees ``first:last``."""


@dataclass(frozen=True)
class Boosted:
    """Ranker that uses the first trees of a booster."""

    grown: Grown
    n_trees: int
    point: Point

    def predict(self, X: object, *, qid: ArrayLike | None = None) -> Float:
        """Return scores, higher is better."""
        return np.asarray(self.grown(X, 0, self.n_trees), dtype=np.float64)


def check_installed(name: str) -> None:
    """Raise for a library that is not installed."""
    try:
        import_module(name)
    except ImportError:
        raise BadInput("method", f"the library is not installed; pip install {name}", value=name) from None


def best_stage(
    train: QueryData,
    validation: QueryData,
    measure: Any,
    *,
    relevance: float = 1.0,
    seed: int = 0,
    signs: Mapping[int, int] | None = None,
) -> Boosted:
    """Return the best model on the validation queries, among each point of a grid after every tenth tree.

    The grid is 7, 15 and 31 leaves (learning rates .1, .1, .05) times binary and graded labels, each with up to 600
    trees. ``signs`` are the directions in which the score may move with features, by index.
    """
    binary = (train.y >= relevance).astype(np.float64)
    stages = []
    for point in GRID:
        if point.graded and np.array_equal(binary, train.y):
            continue
        grown = grow(train, train.y if point.graded else binary, point, seed, signs=signs)
        scores = np.zeros(validation.n_rows)
        for last in range(EVERY, MOST_TREES + 1, EVERY):
            scores = scores + grown(validation.X, last - EVERY, last)
            stages.append((measure(validation, scores), Boosted(grown, last, point)))
    return max(stages, key=lambda stage: stage[0])[1]


def grow(
    train: QueryData,
    y: Float,
    point: Point,
    seed: int,
    n_jobs: int = 1,
    *,
    signs: Mapping[int, int] | None = None,
) -> Grown:
    """Return a function that scores rows by some of the trees, which are grown when first needed."""
    import lightgbm

    lengths = np.diff(train.offsets)
    options = {
        "objective": "lambdarank",
        "num_leaves": point.n_leaves,
        "learning_rate": point.rate,
        "seed": seed,
        "num_threads": n_jobs,
        "lambdarank_truncation_level": int(lengths.max()),
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
        "monotone_constraints": [signs.get(j, 0) for j in range(train.n_features)] if signs else None,
    } | ({} if point.l2 is None else {"lambda_l2": point.l2})
    data = lightgbm.Dataset(train.X, label=y, group=lengths, params={"verbosity": -1, "num_threads": n_jobs})
    booster = lightgbm.Booster(options, data)

    def grown(X: object, first: int, last: int) -> Float:
        while booster.current_iteration() < last and not booster.update():
            pass
        return np.asarray(
            booster.predict(X, start_iteration=first, num_iteration=last - first, num_threads=n_jobs)
        )

    return grown
