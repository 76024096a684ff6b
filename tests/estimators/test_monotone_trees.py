"""Monotone constraints of rankers over leaves: no step against a sign, the optimum of the matrix written out, files."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

from structsvm import StructuralRanker, TreeRanker, TreeRankerCV, load
from structsvm.export import export_model
from structsvm.features import LeafFeatures
from structsvm.features.monotone_leaves import MonotoneRows
from structsvm.metrics import evaluate
from tests.refusing import rejected

lightgbm = pytest.importorskip("lightgbm")

SIGNS = [1, -1, 0, 0]
SMALL = {"n_trees": 30, "n_leaves": 7, "random_state": 0}


def make_rows(seed=0, n_queries=60, missing=0.0):
    """Return rows whose utility increases with the first feature, decreases with the second, and has an interaction."""
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(20 * n_queries, 4)), np.repeat(np.arange(n_queries), 20)
    utility = X[:, 0] - np.exp(0.5 * X[:, 1]) + 0.5 * X[:, 0] * X[:, 3] * (X[:, 3] > 0)
    y = np.digitize(utility + rng.normal(size=len(X)), [0, 1, 2])
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, qid


def steps_against(model, X, signs=SIGNS, grid=41):
    """Return how often a score moves against a sign when one feature of a row increases, and the number of steps."""
    against = total = 0
    for feature in np.flatnonzero(signs):
        rows = np.repeat(X, grid, axis=0)
        rows[:, feature] = np.tile(np.linspace(-3, 3, grid), len(X))
        steps = np.diff(model.predict(rows).reshape(len(X), grid), axis=1)
        against, total = against + int((signs[feature] * steps < 0).sum()), total + steps.size
    return against, total


@pytest.mark.parametrize("loss", ["map", "ndcg@10"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_no_step_is_against_a_sign(loss, missing):
    X, y, qid = make_rows(missing=missing)
    free = TreeRanker(loss, relevance=2, **SMALL).fit(X, y, qid=qid)
    model = TreeRanker(loss, relevance=2, monotone_constraints=SIGNS, **SMALL).fit(X, y, qid=qid)
    assert steps_against(model, X[:30]) == (0, 2400)
    assert steps_against(free, X[:30])[0] > 0
    assert model.fit_.converged


def test_trees_of_any_model_get_weights_that_satisfy_the_signs():
    X, y, qid = make_rows()
    forest = RandomForestRegressor(10, max_leaf_nodes=9, random_state=0, n_jobs=1).fit(X, y)
    booster = lightgbm.LGBMRanker(
        n_estimators=20, num_leaves=7, monotone_constraints=SIGNS, verbose=-1, n_jobs=1
    ).fit(X, y, group=[20] * 60)
    for leaves, given in ((LeafFeatures.from_model(forest), SIGNS), (LeafFeatures.from_model(booster), None)):
        model = TreeRanker("ndcg@10", leaves=leaves, monotone_constraints=given).fit(X, y, qid=qid)
        assert steps_against(model, X[:30])[0] == 0
        assert model.score(X, y, qid=qid) > 0.8
    # a user may give up the constraints of a model
    free = TreeRanker("ndcg@10", leaves=leaves, monotone_constraints=[0] * 4).fit(X, y, qid=qid)
    assert steps_against(free, X[:30])[0] > 0


def test_the_optimum_over_the_matrix_of_sets():
    """The columns are the up-sets of the leaves that a dense computation finds, and the optimum is the same."""
    X, y, qid = make_rows()
    model = TreeRanker("map", C=0.3, tol=1e-5, relevance=2, monotone_constraints=SIGNS, **SMALL).fit(
        X, y, qid=qid
    )
    rows, forest = model.leaves_.rows(X), model.leaves_.forest_
    ours = MonotoneRows(rows, forest, np.array(SIGNS))
    dense = np.column_stack([rows.tocsr() @ ours.leaf_weights(column) for column in np.eye(ours.shape[1])])
    linear = StructuralRanker("map", C=0.3, tol=1e-5, relevance=2, monotone_constraints=ours.signs)
    linear.fit(dense, y, qid=qid)
    assert model.fit_.primal == pytest.approx(linear.fit_.primal, rel=2e-5)
    np.testing.assert_allclose(model.predict(X), rows.tocsr() @ model.coef_, atol=1e-12)


def test_leaves_that_no_split_orders_are_weighted_freely():
    X, y, qid = make_rows()
    X[:, 2] = 0.0
    free, signed = (
        TreeRanker("map", solver="one_slack", relevance=2, monotone_constraints=signs, **SMALL).fit(
            X, y, qid=qid
        )
        for signs in (None, {2: 1})
    )
    assert signed.coef_.tobytes() == free.coef_.tobytes()


def test_every_order_that_the_splits_require_and_no_other_is_kept():
    """Against a walk: two leaves are ordered if the split where their paths part is on a feature with a sign."""
    X, y, qid = make_rows(n_queries=30)
    forest = TreeRanker(n_trees=5, n_leaves=9, random_state=0).fit(X, y, qid=qid).leaves_.forest_
    rows = LeafFeatures.from_model(forest).rows(X)
    signs = np.array(SIGNS)
    columns = MonotoneRows(rows, forest, signs)
    weights = [columns.leaf_weights(one) for one in np.eye(columns.shape[1])]
    required = np.array([w for w, sign in zip(weights, columns.signs, strict=True) if sign == 1])
    for tree in range(forest.n_trees):
        start, root = forest.leaves[tree], forest.nodes[tree]

        def path(leaf, node=0, root=root):
            for side in (forest.left, forest.right):
                child = side[root + node]
                below = [(node, side is forest.right)]
                if child == ~leaf:
                    return below
                if child >= 0 and (rest := path(leaf, child)):
                    return below + rest
            return None

        for a, b in itertools.permutations(range(forest.leaves[tree + 1] - start), 2):
            parted = next((x, y) for x, y in zip(path(a), path(b), strict=False) if x != y)
            ordered = signs[forest.feature[root + parted[0][0]]] * (1 if parted[1][1] else -1) == 1
            always = bool((required[:, start + a] <= required[:, start + b]).all())
            touched = required[:, [start + a, start + b]].any()
            assert always == ordered or not touched


def test_files_exports_folds_and_blocks_of_queries(tmp_path):
    X, y, qid = make_rows(n_queries=420)
    frame = pd.DataFrame(X, columns=["price", "age", "c", "d"])
    signs = {"price": 1, "age": -1}
    model = TreeRanker("ndcg@10", monotone_constraints=signs, **SMALL).fit(frame, y, qid=qid)
    assert model.fit_.solver == "frank_wolfe"
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.monotone_constraints == signs
    assert again.predict(frame).tobytes() == model.predict(frame).tobytes()
    booster = lightgbm.Booster(model_str=export_model(model, "lightgbm").decode())
    assert steps_against(booster, X[:10])[0] == 0
    search = TreeRankerCV("map", Cs=[0.1, 1.0], n_trees=[5, 10], cv=2, monotone_constraints=signs, n_leaves=5)
    search.fit(frame, y, qid=qid)
    plain = type(
        "Rows",
        (),
        {"predict": staticmethod(lambda rows: search.predict(pd.DataFrame(rows, columns=[*frame])))},
    )
    assert steps_against(plain, X[:10])[0] == 0
    refit = TreeRanker("map", search.C_, search.n_trees_, monotone_constraints=signs, n_leaves=5).fit(
        frame, y, qid=qid
    )
    assert refit.coef_.tobytes() == search.coef_.tobytes()


def test_signs_cost_little_quality():
    """On labels that satisfy the signs, the ranker is level with LightGBM's own values of the same trees."""
    X, y, qid = make_rows(n_queries=150)
    test = make_rows(100, n_queries=200)
    booster = lightgbm.LGBMRanker(
        n_estimators=60, num_leaves=7, monotone_constraints=SIGNS, verbose=-1, n_jobs=1
    ).fit(X, y, group=[20] * 150)
    model = TreeRanker("ndcg@10", leaves=LeafFeatures.from_model(booster, n_bins=64)).fit(X, y, qid=qid)
    ours, own = (
        evaluate("ndcg@10", test[1], one.predict(test[0]), qid=test[2], convention="burges").mean
        for one in (model, booster)
    )
    assert ours > own - 0.02


def test_what_is_refused():
    X, y, qid = make_rows(n_queries=10)
    fit = {"qid": qid}
    rejected(
        "monotone_constraints: expected one sign for each of 4",
        TreeRanker(monotone_constraints=[1]).fit,
        X,
        y,
        **fit,
    )
    rejected(
        "expected -1, 0 or 1, got 2",
        TreeRanker(monotone_constraints=[2, 0, 0, 0]).fit,
        X,
        y,
        **fit,
    )
    rejected(
        "solver='newton'", TreeRanker("ndcg", solver="newton", monotone_constraints=SIGNS).fit, X, y, **fit
    )
    numbered = pd.DataFrame(X, columns=[3, 2, 1, 0])  # is 0 a name or a position?
    rejected("monotone_constraints", TreeRanker(monotone_constraints={0: 1}).fit, numbered, y, **fit)
    X[:, 2] = 1
    wrong = TreeRanker(monotone_constraints={2: 1}, categorical_features=[2])
    rejected("monotone_constraints: expected no sign of a categorical feature", wrong.fit, X, y, **fit)
