"""Monotone trees: new weights of sets of leaves beside LightGBM's own leaf values, on the same trees.

    python experiments/benchmarks/monotone_trees.py

The synthetic data are those of docs/guide/constraints.md: 150 queries of 20 rows train, as many test. A step is the
difference of the scores at two neighbouring values of the rating or of the price, all other features being the same.
"""

import warnings

import numpy as np
import pandas as pd
from lightgbm import LGBMRanker

from structsvm import TreeRanker
from structsvm.features import LeafFeatures
from structsvm.metrics import evaluate

SIGNS = {"rating": 1, "price": -1, "size": 0, "season": 0}
N_SETS, N_ROWS, N_VALUES = 4, 60, 41


def hotels(seed: int, n: int = 150) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return features, grades and query ids."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(20 * n, 4)), columns=[*SIGNS])
    interaction = 0.5 * X["rating"] * X["season"].clip(lower=0)
    utility = X["rating"] - np.exp(0.5 * X["price"]) + interaction + rng.normal(size=20 * n)
    return X, np.digitize(utility, [0, 1, 2]), np.repeat(np.arange(n), 20)


def steps_against(model: object, X: pd.DataFrame) -> int:
    """Return the number of steps of the score against a sign."""
    against = 0
    for feature in ("rating", "price"):
        rows = X.iloc[:N_ROWS].loc[np.repeat(X.index[:N_ROWS], N_VALUES)]
        rows = rows.assign(**{feature: np.tile(np.linspace(-2, 2, N_VALUES), N_ROWS)})
        scores = model.predict(rows).reshape(N_ROWS, N_VALUES)  # type: ignore[attr-defined]
        against += int((SIGNS[feature] * np.diff(scores, axis=1) < 0).sum())
    return against


def main() -> None:
    warnings.simplefilter("ignore")
    found: dict[str, list[float]] = {}
    for k in range(N_SETS):
        (X, y, qid), (test, grades, of) = hotels(2 * k), hotels(2 * k + 1)
        booster = LGBMRanker(
            n_estimators=60, num_leaves=7, monotone_constraints=[*SIGNS.values()], verbose=-1, n_jobs=1
        )
        booster.fit(X, y, group=[20] * 150)
        leaves = LeafFeatures.from_model(booster, n_bins=64)
        models = {
            "LightGBM": booster,
            "new weights": TreeRanker("ndcg@10", leaves=leaves).fit(X, y, qid=qid),
            "without signs": TreeRanker("ndcg@10", leaves=leaves, monotone_constraints=[0] * 4).fit(
                X, y, qid=qid
            ),
        }
        for name, model in models.items():
            value = evaluate("ndcg@10", grades, model.predict(test), qid=of, convention="burges").mean
            found.setdefault(name, []).extend([value, steps_against(model, test)])
    print(f"NDCG@10 of {N_SETS} data sets; steps against a sign, of {2 * N_ROWS * (N_VALUES - 1) * N_SETS:,}")
    for name, values in found.items():
        print(f"{name:14}", *(f"{value:.3f}" for value in values[::2]), f"{sum(values[1::2]):6,.0f}")


if __name__ == "__main__":
    main()
