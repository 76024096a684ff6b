"""Leaves and bins as columns: against the libraries' own leaf numbers, and against the matrix written out."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import ensemble
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder

from structsvm import TreeRanker
from structsvm.features import BinnedFeatures, LeafFeatures, lookup
from structsvm.features.boosters import forest_of, lightgbm_forest
from structsvm.features.coded_rows import LeafRows
from structsvm.features.forest import Forest, Tree
from tests.refusing import rejected

lightgbm = pytest.importorskip("lightgbm")

N_QUERIES, LENGTH, N_FEATURES = 40, 25, 8
QUIET = {"verbosity": -1, "num_threads": 1}


def make_data(seed=0, missing=0.05):
    """Return rows with ties, missing values, a column of categories, and values between float32 numbers."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(N_QUERIES * LENGTH, N_FEATURES)) * 4, 1)
    X[:, 3] = rng.integers(0, 40, size=X.shape[0])
    y = ((X[:, 0] * X[:, 1] > 4) + (X[:, 3] % 3 == 0)).astype(np.float64)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, np.repeat(np.arange(N_QUERIES), LENGTH)


def codes_of(forest, X, n_jobs=None):
    """Return the leaf of each row in each tree."""
    return LeafFeatures.from_model(forest, n_jobs=n_jobs).transform_rows(X).codes


def near(X, seed=1):
    """Return values that float32 rounds up or down."""
    return X + np.random.default_rng(seed).normal(size=X.shape) * 1e-7


def same_partition(codes, leaves):
    """Assert that the one-hot columns of both are equal, column by column, up to their names."""
    assert codes.shape == leaves.shape
    for t in range(leaves.shape[1]):
        mine, theirs = (OneHotEncoder().fit_transform(one[:, [t]]) for one in (codes, leaves))
        assert (mine != theirs).nnz == 0, t


@pytest.mark.slow
@pytest.mark.parametrize("n_leaves", [2, 7, 15, 31, 60, 100, 300])
def test_lightgbm(n_leaves):
    X, y, _ = make_data()
    data = lightgbm.Dataset(X, label=y, group=[LENGTH] * N_QUERIES, categorical_feature=[3], params=QUIET)
    options = {
        "objective": "lambdarank",
        "num_leaves": n_leaves,
        "min_data_in_leaf": 1,
        "max_bin": 1000,
        **QUIET,
    }
    booster = lightgbm.train(options, data, 12)
    forest = forest_of(booster)
    assert (forest.sets >= 0).any() or n_leaves == 2
    assert forest.code_type == (np.uint16 if forest.most_leaves > 256 else np.uint8)
    for rows in (X, near(X), X.astype(np.float32), np.nan_to_num(X)):
        assert (codes_of(forest, rows) == booster.predict(rows, pred_leaf=True)).all()
    assert (codes_of(forest, np.asfortranarray(X)[:33]) == booster.predict(X[:33], pred_leaf=True)).all()


def test_lightgbm_estimator_beyond_its_early_stop():
    X, y, _ = make_data()
    model = lightgbm.LGBMRegressor(n_estimators=8, verbosity=-1, n_jobs=1).fit(X, y)
    model.booster_.best_iteration = 3
    assert forest_of(model).n_trees == 8


def test_a_linear_booster_is_refused():
    xgboost = pytest.importorskip("xgboost")
    X, y, _ = make_data()
    with pytest.raises(ValueError, match="linear booster"):
        forest_of(xgboost.train({"booster": "gblinear", "nthread": 1}, xgboost.DMatrix(X, label=y), 2))


def grown_elsewhere(library, rng, X, y):
    """Return a small model of another library, the message if it is refused, and its own leaves of rows."""
    from sklearn import ensemble, tree

    seed = int(rng.integers(1000))
    if library.startswith("lightgbm"):
        zero, use = (bool(v) for v in rng.random(2) < 0.3)
        refused = "train with zero_as_missing=False" if zero else None
        model = lightgbm.LGBMRegressor(
            n_estimators=3,
            num_leaves=int(rng.integers(2, 9)),
            min_child_samples=2,
            zero_as_missing=zero,
            use_missing=not use,
            verbosity=-1,
            n_jobs=1,
            random_state=seed,
        )
        if library == "lightgbm":
            model.fit(X, y, categorical_feature=[3] if rng.random() < 0.5 else "auto")
            return model, refused, lambda rows: model.predict(rows, pred_leaf=True)
        names = ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4], [30, 10, 20, 40, 50], list("eabdc"))[seed % 4]

        def frame(rows):
            codes = np.where(np.isfinite(rows[:, 3]), rows[:, 3], -1).astype(int).clip(-1, 4)
            columns = dict(zip("abc", rows.T[:3], strict=True))
            return pd.DataFrame(columns).assign(d=pd.Categorical.from_codes(codes, categories=names))

        if names != list(range(5)):
            refused = r"pandas column with the categories .*cat\.codes|train with zero"
        return model.fit(frame(X), y), refused, lambda rows: model.predict(frame(rows), pred_leaf=True)
    if library == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        missing = float(rng.choice([np.nan, np.nan, 0.0, -999.0]))
        model = xgboost.XGBRegressor(
            n_estimators=3, max_depth=3, missing=missing, n_jobs=1, random_state=seed
        )
        refused = None if np.isnan(missing) else f"expected NaN for missing values, got {missing:g}; replace"
        return model.fit(X, y), refused, model.apply
    if library == "HistGradientBoostingRegressor":
        categorical = [3] if rng.random() < 0.3 else None
        model = ensemble.HistGradientBoostingRegressor(
            max_iter=2, max_leaf_nodes=4, min_samples_leaf=2, categorical_features=categorical
        )
        return model.fit(X, y), categorical and "expected numerical features, got categories", None
    model = (getattr(ensemble, library, None) or getattr(tree, library))(random_state=seed)
    if "n_estimators" in model.get_params():
        model.set_params(n_estimators=4)
    if library not in ("BaggingRegressor", "IsolationForest"):
        model.fit(X, y > 1)
        return model, None, lambda rows: model.apply(rows).reshape(len(rows), -1)
    model.set_params(max_features=float(rng.choice([0.3, 0.5, 1.0]))).fit(X, y)
    return (
        model,
        None,
        lambda rows: np.column_stack(
            [
                one.tree_.apply(rows[:, own].astype(np.float32))
                for one, own in zip(model.estimators_, model.estimators_features_, strict=True)
            ]
        ),
    )


WITHOUT_MISSING = "GradientBoostingRegressor", "BaggingRegressor", "IsolationForest"


@pytest.mark.parametrize(
    "library",
    [
        "lightgbm",
        "lightgbm of pandas",
        "xgboost",
        "HistGradientBoostingRegressor",
        "RandomForestRegressor",
        "ExtraTreesClassifier",
        "DecisionTreeRegressor",
        *WITHOUT_MISSING,
    ],
)
@pytest.mark.parametrize("seed", range(10))
def test_trees_of_other_libraries(library, seed):
    """Leaves agree on the rows, near them, with missing values and new categories; or the model is refused."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(60, 4)) * 3, 1)
    X[:, 3] = rng.integers(0, 5, 60)
    y = X[:, 0] + np.isin(X[:, 3], [0, 3]) + rng.normal(size=60)
    if library not in WITHOUT_MISSING:
        X[rng.random(X.shape) < rng.choice([0.0, 0.1])] = np.nan
    X[rng.random(X.shape) < 0.1] = 0
    model, refused, leaves = grown_elsewhere(library, rng, X, y)
    if refused:
        rejected(f"^model: .*({refused})", LeafFeatures.from_model, model)
        return
    forest, rows = forest_of(model), X.copy()
    rows[:30, :3] += rng.normal(size=(30, 3)) * rng.choice([1e-7, 1.0])
    rows[:5, 3] = rng.choice([4, 5, 7, 0])
    if library.startswith(("light", "xg", "Hist")):
        rows[rng.random(rows.shape) < 0.1] = np.nan
    if leaves is not None:
        same_partition(codes_of(forest, rows), leaves(rows))
        return
    nodes = [one.nodes for row in model._predictors for one in row]
    values = np.concatenate([n["value"][n["is_leaf"].astype(bool)] for n in nodes])
    scores = model._baseline_prediction.item() + LeafFeatures.from_model(forest).scores(rows, values)
    np.testing.assert_allclose(scores, model.predict(rows), rtol=0, atol=1e-9)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost", "histogram", "forest"])
def test_signs_of_models_are_kept(library):
    """Columns of single leaves would not keep the constraints; constraints without a sign are none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.normal(size=200)

    def model(signs):
        if library == "lightgbm":
            return lightgbm.LGBMRegressor(
                n_estimators=2, monotone_constraints=signs, verbose=-1, n_jobs=1, min_child_samples=5
            )
        if library == "xgboost":
            return pytest.importorskip("xgboost").XGBRegressor(
                n_estimators=2, monotone_constraints=tuple(signs), n_jobs=1
            )
        if library == "catboost":
            return pytest.importorskip("catboost").CatBoostRegressor(
                iterations=2, monotone_constraints=signs, verbose=0, allow_writing_files=False, thread_count=1
            )
        kind = {"histogram": ensemble.HistGradientBoostingRegressor, "forest": ensemble.RandomForestRegressor}
        options = {"max_iter": 2} if library == "histogram" else {"n_estimators": 2}
        return kind[library](monotonic_cst=signs, **options)

    assert LeafFeatures.from_model(model([0, 0, 0]).fit(X, y)).transform_rows(X).n_trees == 2
    leaves = LeafFeatures.from_model([model([1, 0, -1]).fit(pd.DataFrame(X, columns=["2", "b", "0"]), y)] * 2)
    assert leaves.forest_.signs.tolist() == [1, 0, -1]
    rejected("forest: expected no monotone constraints", leaves.transform, X)
    both = [model(signs).fit(X, y) for signs in ([1, 0, -1], [0, 0, -1])]
    rejected("expected the same monotone constraints", LeafFeatures.from_model, both)


def test_histogram_boosting_with_categories_that_no_tree_uses_is_refused():
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, _, _ = make_data(missing=0)
    model = HistGradientBoostingRegressor(max_iter=2, categorical_features=[3], max_depth=1)
    model.fit(X, X[:, 0] > 0)
    assert not any(one.nodes["is_categorical"].any() for row in model._predictors for one in row)
    rejected("expected numerical features, got categories", forest_of, model)


def named_models(frame, y, qid):
    """Return models of each library, grown on a frame."""
    from sklearn.ensemble import RandomForestRegressor

    yield lightgbm.LGBMRanker(n_estimators=2, verbosity=-1, n_jobs=1).fit(frame, y, group=np.bincount(qid))
    yield RandomForestRegressor(n_estimators=2, max_depth=3, random_state=0).fit(frame, y)
    try:
        import xgboost

        yield xgboost.XGBRanker(n_estimators=2, max_depth=3, n_jobs=1).fit(frame, y, qid=qid)
        import catboost
    except ImportError:
        return
    yield catboost.CatBoostRegressor(
        iterations=2, depth=3, verbose=0, allow_writing_files=False, thread_count=1
    ).fit(frame, y)


def test_names_of_the_model_are_those_of_the_rows():
    X, y, qid = make_data(missing=0)
    names = ["body length", *"bcdefgh"]  # LightGBM writes body_length
    frame = pd.DataFrame(X, columns=names)
    moved = frame[names[::-1]]
    for model in named_models(frame, y, qid):
        ready, binned = LeafFeatures.from_model(model), LeafFeatures.from_model(model, n_bins=4)
        expected = ready.transform_rows(X).codes
        assert (ready.transform_rows(frame).codes == expected).all()
        assert (binned.fit(frame).transform_rows(frame).codes[:, :2] == expected).all()
        for refused in (ready.transform, binned.fit, TreeRanker(leaves=ready).fit):
            with pytest.raises(
                ValueError, match="X column 0: expected the columns that the trees were grown on"
            ):
                refused(moved, y, qid=qid) if refused.__name__ == "fit" else refused(moved)
        with pytest.raises(ValueError, match=r"model\[1\]: expected the same columns"):
            LeafFeatures.from_model([model, next(named_models(moved, y, qid))])
    model = lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1, n_jobs=1).fit(X, y)
    assert forest_of(model).feature_names is None


def test_catboost():
    catboost = pytest.importorskip("catboost")
    X, y, _ = make_data()
    options = {"iterations": 6, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    for mode in ("Min", "Max"):
        model = catboost.CatBoostRegressor(depth=3, nan_mode=mode, **options).fit(X, y)
        for rows in (X, near(X)):
            assert (codes_of(model, rows) == model.calc_leaf_indexes(rows)).all()
    rejected(
        "expected symmetric trees",
        forest_of,
        catboost.CatBoostRegressor(depth=3, grow_policy="Lossguide", **options).fit(X, y),
    )


def test_masks_and_walks_find_the_same_leaves(monkeypatch):
    X, y, _ = make_data()
    leaves = LeafFeatures(6, 20, random_state=0, categorical_features=[3]).fit(
        X, y, qid=np.arange(1000) // 25
    )
    values = np.random.default_rng(0).normal(size=leaves.forest_.leaves[-1])
    codes, scores = codes_of(leaves.forest_, X), LeafFeatures.from_model(leaves.forest_).scores(X, values)
    assert (codes == codes_of(leaves.forest_, X, n_jobs=2)).all()
    monkeypatch.setattr(lookup, "MOST_MASKED", 1)
    assert (codes == codes_of(leaves.forest_, X)).all()
    assert (LeafFeatures.from_model(leaves.forest_).scores(X, values) == scores).all()
    np.testing.assert_allclose(
        scores, values[codes + leaves.forest_.leaves[:-1]].sum(axis=1), rtol=0, atol=1e-12
    )


def fitted(**options):
    X, y, qid = make_data()
    options = {"n_trees": 7, "n_leaves": 5, "n_bins": 9, "random_state": 0} | options
    return LeafFeatures(**options).fit(X, y, qid=qid), X


@pytest.mark.parametrize("value", [-1.0, 2.5, 1e7, 1e12])
def test_what_is_no_category_is_refused(value):
    X, y, qid = make_data()
    X[[10, 11], 3] = value
    shown = f"got {value:g}"
    message = f"X: expected integer categories from 0 to 1000000 in column 3, {re.escape(shown)}"
    for ranker in (LeafFeatures, TreeRanker):
        rejected(message, ranker(n_trees=2, categorical_features=[3]).fit, X, y, qid=qid)


def test_weights_beyond_single_precision_are_refused():
    X, y, qid = make_data()
    with pytest.raises(ValueError, match=r"sample_weight: expected a number up to 1e\+30, got 1e\+39"):
        LeafFeatures(2).fit(X, y, qid=qid, sample_weight=np.full(len(y), 1e39))


def test_columns_are_the_one_hot_of_leaves_and_the_thermometer_of_bins():
    leaves, X = fitted()
    matrix = leaves.transform(X).toarray()
    codes = codes_of(leaves.forest_, X)
    column = 0
    for t in range(7):
        for leaf in range(leaves.forest_.leaves[t + 1] - leaves.forest_.leaves[t]):
            assert (matrix[:, column] == (codes[:, t] == leaf)).all()
            column += 1
    bins = BinnedFeatures(9, spacing="quantile").fit(X)
    assert (matrix[:, column:] == bins.transform(X).toarray()).all()
    names = leaves.get_feature_names_out()
    assert names.shape == (matrix.shape[1],)
    assert names[0] == "tree0=0"
    assert names[column] == "x0>-inf"


@pytest.mark.parametrize(("n_bins", "n_leaves"), [(0, 5), (9, 5), (9, 18)])
def test_rows_are_the_matrix(n_bins, n_leaves):
    leaves, X = fitted(n_bins=n_bins, n_leaves=n_leaves, min_rows=5)
    rows, matrix = leaves.transform_rows(X), leaves.transform(X)
    assert (leaves.forest_.most_leaves <= 16) == (n_leaves == 5)
    n_binned = 8 if n_bins else 0
    # of small trees three pairs, and the seventh alone
    assert rows.nbytes == 1000 * ((4 if n_leaves == 5 else 7) + n_binned)
    assert (rows.codes[:, :7] == codes_of(leaves.forest_, X)).all()
    plain = LeafRows(rows.codes, rows.starts, 7)
    assert rows.shape == plain.shape == matrix.shape
    assert (plain.tocsr() != matrix).nnz == 0
    w = np.random.default_rng(0).normal(size=matrix.shape[1])
    np.testing.assert_allclose(rows @ w, matrix @ w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(leaves.scores(X, w), matrix @ w, rtol=0, atol=1e-12)
    limits = np.tile(leaves.forest_.threshold[:, None], N_FEATURES)
    # rounded to one side or the other of edges and thresholds
    single = np.vstack([X, limits]).astype(np.float32)
    assert (leaves.scores(single, w) == leaves.scores(single.astype(np.float64), w)).all()
    _, combine, query_joint = rows.row_kernels
    offsets = np.array([0, 40, 40, 300, 1000])
    rng = np.random.default_rng(1)
    coef, weights = rng.normal(size=960), rng.random(4)
    joint, total = np.empty((2, matrix.shape[1])), np.ones(matrix.shape[1])
    query_joint(*rows.row_arrays, offsets, 2, 4, coef, joint)
    np.testing.assert_allclose(joint[0], matrix[40:300].T @ coef[:260], rtol=0, atol=1e-11)
    np.testing.assert_allclose(joint[1], matrix[300:].T @ coef[260:], rtol=0, atol=1e-11)
    combine(*rows.row_arrays, offsets, 2, 4, weights, coef, total)
    np.testing.assert_allclose(total, 1 + weights[2:4] @ joint, rtol=0, atol=1e-11)
    some = np.array([3, 1, 700])
    assert (rows[some].tocsr() != matrix[some]).nnz == 0
    for first, last in ((2, 4), (1, 6), (0, 7), (3, 4), (0, 0)):
        part = rows.of_trees(first, last)
        assert (
            part.tocsr()
            != sparse.hstack(
                [matrix[:, leaves.starts_[first] : leaves.starts_[last]], matrix[:, leaves.starts_[7] :]]
            ).tocsr()
        ).nnz == 0
        again = part[:3].of_trees(0, last - first).codes[:, : last - first]
        assert (again == rows.codes[:3, first:last]).all()
    for one, other in ((rows @ w, plain @ w), (rows[2:7] @ w, plain[2:7] @ w)):
        assert (one == other).all()


def test_the_same_seed_gives_the_same_trees_on_any_number_of_threads():
    X, y, qid = make_data()
    one, two = (LeafFeatures(5, 5, n_jobs=n, random_state=3).fit(X, y, qid=qid) for n in (1, 2))
    for name in ("nodes", "feature", "threshold", "left", "right"):
        assert (getattr(one.forest_, name) == getattr(two.forest_, name)).all()
    assert (one.transform_rows(X).codes == two.transform_rows(X).codes).all()


def test_bags_are_runs_on_some_of_the_queries_whose_trees_stand_in_turn():
    X, y, qid = make_data()
    offsets = np.arange(0, X.shape[0] + 1, LENGTH)
    seen = []
    maker = LeafFeatures(
        7, 5, bags=3, categorical_features=[3], random_state=0, callback=lambda n, of: seen.append((n, of))
    )
    forest = maker.grow(X, y, offsets)
    forest.check()
    assert seen == [(n, 7) for n in range(1, 8)]
    codes = codes_of(forest, X)
    data = lightgbm.Dataset(
        X, label=y >= 1, group=[LENGTH] * N_QUERIES, categorical_feature=[3], params=QUIET
    )
    options = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": LENGTH,
        "num_leaves": 5,
        "deterministic": True,
        "force_row_wise": True,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        "bagging_by_query": True,
        **QUIET,
    }
    seed = int(np.random.RandomState(0).randint(1 << 30))
    for bag, n in enumerate((3, 2, 2)):
        booster = lightgbm.train(options | {"seed": seed + bag}, data, n)
        assert (codes[:, bag::3] == booster.predict(X, pred_leaf=True)).all()
    fewer = clone(maker).set_params(n_trees=5).grow(X, y, offsets)
    assert (codes_of(fewer, X) == codes[:, :5]).all()
    assert maker.set_params(bags=20).grow(X, y, offsets).n_trees == 7
    stopped = LeafFeatures(9, 5, bags=3, callback=lambda n, _: n == 4).fit(X, y, qid=qid)
    assert stopped.forest_.n_trees == 4
    shrunk = [
        LeafFeatures(5, 5, l2_regularization=l2, random_state=0).fit(X, y, qid=qid).forest_ for l2 in (0, 50)
    ]
    assert not np.array_equal(shrunk[0].threshold, shrunk[1].threshold)


def test_rows_of_a_query_may_stand_anywhere():
    X, y, qid = make_data()
    mixed = np.argsort(np.tile(np.arange(LENGTH), N_QUERIES), kind="stable")
    together = LeafFeatures(5, 5, random_state=0).fit(X, y, qid=qid)
    apart = LeafFeatures(5, 5, random_state=0).fit(X[mixed], y[mixed], qid=qid[mixed])
    assert (together.forest_.threshold == apart.forest_.threshold).all()


def test_forests_are_joined():
    X, y, _ = make_data()
    offsets = np.arange(0, X.shape[0] + 1, LENGTH)
    first, other = (LeafFeatures(4, n, random_state=0).grow(X, y, offsets) for n in (5, 4))
    both = first.joined(other)
    assert (codes_of(both, X) == np.hstack([codes_of(first, X), codes_of(other, X)])).all()
    assert (codes_of(both.first(4), X) == codes_of(first, X)).all()
    both.check()


@pytest.mark.parametrize(("gain", "gains"), [("linear", [0, 1, 2, 3, 4]), ("exp2", [0, 1, 3, 7, 15])])
def test_grades_and_gains_of_the_trees(gain, gains):
    X, y, _ = make_data()
    offsets, y = np.arange(0, X.shape[0] + 1, LENGTH), 2 * y
    grown = LeafFeatures(5, 5, relevance=None, gain=gain).grow(X, y, offsets)
    options = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": LENGTH,
        "num_leaves": 5,
        "deterministic": True,
        "force_row_wise": True,
        "label_gain": gains,
        **QUIET,
    }
    booster = lightgbm.train(options, lightgbm.Dataset(X, label=y, group=np.diff(offsets), params=QUIET), 5)
    assert (codes_of(grown, X) == booster.predict(X, pred_leaf=True)).all()


def test_grades():
    leaves = LeafFeatures(relevance=None)
    assert leaves._grades(np.array([0.0, 4.0, 2.0])).tolist() == [0, 4, 2]
    assert leaves._grades(np.array([-1.0, 0.5, 7.0])).tolist() == [0, 1, 2]
    assert leaves._grades(np.arange(100) - 0.5).max() == 30
    assert LeafFeatures(relevance=2)._grades(np.array([1.0, 2.0])).tolist() == [0, 1]


def test_several_models_give_the_columns_of_each():
    X, y, qid = make_data()
    models = [
        LeafFeatures(n, n_leaves=4, n_bins=0, random_state=n).fit(X, y, qid=qid).forest_ for n in (3, 5)
    ]
    both = LeafFeatures.from_model(models).transform(X).toarray()
    each = [LeafFeatures.from_model(model).transform(X).toarray() for model in models]
    assert both.shape[1] == sum(part.shape[1] for part in each)
    columns = np.concatenate(each, axis=1)
    order = [np.lexsort(matrix) for matrix in (both, columns)]
    np.testing.assert_array_equal(both[:, order[0]], columns[:, order[1]])
    rejected("model: expected at least one model, got an empty sequence", LeafFeatures.from_model, [])
    narrow = LeafFeatures(2, n_bins=0, random_state=0).fit(X[:, :3], y, qid=qid).forest_
    with pytest.raises(ValueError, match=r"model\[1\]: expected \d+ features as in the first model, got 3"):
        LeafFeatures.from_model((models[0], narrow))


def test_from_model_keeps_the_trees_through_clone_and_fit():
    X, _, _ = make_data()
    grown, _ = fitted()
    taken = LeafFeatures.from_model(grown.forest_)
    assert (taken.transform_rows(X).codes == grown.transform_rows(X).codes[:, :7]).all()
    binned = clone(LeafFeatures.from_model(grown.forest_, n_bins=9)).fit(X)
    assert (binned.transform_rows(X).codes == grown.transform_rows(X).codes).all()


def test_refusals():
    X, y, qid = make_data()
    grown, _ = fitted()
    with pytest.raises(ValueError, match="expected the 8 features of the trees, got 7"):
        LeafFeatures.from_model(grown.forest_, n_bins=4).fit(X[:, :7])
    rejected("X has 7 features, but LeafFeatures is expecting 8", grown.transform, X[:, :7])
    with pytest.raises(TypeError, match="expected a fitted LightGBM"):
        LeafFeatures.from_model(object())
    rejected("requires y to be passed", LeafFeatures().fit, X)
    rejected("infinity", grown.transform, np.where(np.isnan(X), np.inf, X))
    for options, message in {
        (("n_leaves", 1),): "n_leaves=1: expected an integer from 2",
        (("n_bins", 256),): "n_bins=256",
        (("learning_rate", 0),): "learning_rate=0",
        (("l2_regularization", -1),): "l2_regularization=-1",
        (("bags", 0),): "bags=0",
        (("gain", "exp"),): "gain='exp': expected 'exp2' or 'linear'",
        (("forest", "trees"),): "from_model",
        (("categorical_features", (8,)),): "expected numbers from 0 to 7, got 8",
        (("categorical_features", ("brand",)),): "got 'brand'",
    }.items():
        rejected(message, LeafFeatures(**dict(options)).fit, X, y, qid=qid)
    rejected("expected a model file of LightGBM", lightgbm_forest, "nothing")


def test_codes_of_leaves_that_are_not_there_are_refused():
    starts = np.array([0, 3, 5])
    LeafRows(np.array([[2, 2]], dtype=np.uint8), starts, 1)
    paired = np.array([0, 3, 5, 9])
    assert LeafRows(np.array([[0x12, 4]], dtype=np.uint8), paired, 2, n_pairs=1).codes.tolist() == [[2, 1, 4]]
    for codes, kind, given, n_trees, n_pairs, message in (
        ([[3, 0]], np.uint8, starts, 1, 0, r"codes\[0, 0\]: expected a leaf number up to 2, got 3"),
        ([[0, 0], [0, 3]], np.uint8, starts, 1, 0, r"codes\[1, 1\]: expected a count of edges up to 2"),
        ([[0, 0]], np.uint8, starts[:2], 1, 0, "starts"),
        ([[0, 0]], np.uint8, [0, 6, 5], 1, 0, r"starts\[2\]: expected at least 6, the entry before it"),
        ([[0, 0]], np.int64, starts, 1, 0, "matrix of bytes"),
        ([[0x22, 4]], np.uint8, paired, 2, 1, r"codes\[0, 1\]: expected a leaf number up to 1, got 2"),
        ([[0x12, 4]], np.uint8, paired, 1, 1, "1 pairs and starts"),
    ):
        rejected(message, LeafRows, np.array(codes, dtype=kind), given, n_trees, n_pairs=n_pairs)


def test_trees_beyond_those_there_are_refused():
    rows = LeafRows(np.array([[1, 4]], dtype=np.uint8), np.array([0, 3, 8]), 1)
    assert rows.of_trees(0, 1).shape == (1, 8)
    for first, last in ((0, 2), (-1, 1), (1, 0)):
        rejected("trees: expected a range in 0:1", rows.of_trees, first, last)


def test_names_of_edges_that_are_alike_in_six_digits_differ():
    X = 1e7 + np.arange(80.0)[:, np.newaxis]
    y = np.arange(80) % 2
    names = LeafFeatures(1, n_bins=10).fit(X, y, qid=np.arange(80) // 8).get_feature_names_out()
    assert len(set(names)) == len(names)


def tree(**changes):
    fields = {
        "feature": [0, 1],
        "threshold": [0.5, 1.5],
        "nan_left": [False, True],
        "left": [~0, ~1],
        "right": [1, ~2],
        "n_leaves": 3,
        "categories": {},
    }
    return Tree(**(fields | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"feature": [0, 2]},
        {"threshold": [0.5, np.nan]},
        {"left": [0, ~1]},
        {"left": [~0, ~0]},
        {"right": [1, ~3]},
        {"right": [2, ~2]},
        {"n_leaves": 2},
        {"left": [~0]},
    ],
)
def test_what_is_no_tree_is_refused(changes):
    Forest.of([tree()], 2)
    rejected("forest: expected", Forest.of, [tree(**changes)], 2)


def test_categories_cut_off_fractions():
    forest = Forest.of([Tree([0], [0.0], [False], [~0], [~1], 2, {0: [7, 0, 40]})], 1)
    values = np.array([[0.0], [0.9], [-0.5], [-1.0], [7.3], [8.0], [40.0], [1e300], [np.nan]])
    assert codes_of(forest, values).ravel().tolist() == [0, 0, 0, 1, 0, 1, 0, 1, 1]
