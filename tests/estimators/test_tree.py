"""Rankers over leaves: certificates on the explicit matrix, cross-validation without leakage, files."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from experiments._teachers import make_taught
from structsvm import QueryData, StructuralRanker, TreeRanker, TreeRankerCV, load
from structsvm.common.checks import BadInput
from structsvm.export import check_export, export_model
from structsvm.features import LeafFeatures
from structsvm.metrics import evaluate
from structsvm.oracles import NDCG, AveragePrecision, get_oracle
from structsvm.readers import open_store, write_store
from structsvm.trainers import ConvergenceWarning
from tests.refusing import rejected
from tests.trainers.problems import LOSS_NAMES

lightgbm = pytest.importorskip("lightgbm")

SMALL = {"n_trees": 8, "n_leaves": 6, "n_bins": 10, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    made = make_taught("product", 60, 30, 6, noise=0.1, dtype=np.float64)
    return made.X, made.y, made.qid


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_the_same_optimum_as_the_linear_ranker_on_the_matrix(data, loss):
    X, y, qid = data
    model = TreeRanker(loss, C=0.3, **SMALL).fit(X, y, qid=qid)
    linear = StructuralRanker(loss, C=0.3).fit(model.leaves_.transform(X), y, qid=qid)
    assert model.fit_.converged
    assert model.fit_.primal <= linear.fit_.primal * (1 + 1.1e-3)
    assert linear.fit_.primal <= model.fit_.primal * (1 + 1.1e-3)
    np.testing.assert_allclose(model.predict(X), model.leaves_.transform(X) @ model.coef_, atol=1e-12)
    # grades that the loss does not see are not seen by the trees either
    assert model.leaves_.relevance == getattr(get_oracle(loss), "relevance", None)


def test_many_queries_are_trained_by_frank_wolfe():
    made = make_taught("step", 1100, 8, 3)
    weight = np.repeat(np.random.default_rng(0).integers(0, 3, 1100), 8)
    options = {"C": 3, "n_trees": 3, "n_leaves": 4, "n_bins": 4, "random_state": 0}
    model, exact = (
        TreeRanker(**options | more).fit(made.X, made.y, qid=made.qid, sample_weight=weight)
        for more in ({}, {"solver": "one_slack", "tol": 1e-6})
    )
    assert model.fit_.solver == "frank_wolfe"
    assert model.fit_.converged
    assert exact.fit_.dual <= model.fit_.primal <= exact.fit_.primal * (1 + 1.1e-3)
    assert model.fit_.dual <= exact.fit_.primal
    assert model.predict(made.X) == pytest.approx(exact.predict(made.X), abs=0.1)


def test_interactions_are_learned():
    made = make_taught("product", 200, 40, 4, noise=0.1)
    train, test = made.select(range(100)), made.select(range(100, 200))
    tree = TreeRanker(C=1, n_trees=60, random_state=0).fit(train.X, train.y, qid=train.qid)
    linear = StructuralRanker(C=1, scale="zscore").fit(train.X, train.y, qid=train.qid)
    assert tree.score(test.X, test.y, qid=test.qid) > linear.score(test.X, test.y, qid=test.qid) + 0.2


def test_queries_of_weight_zero_are_left_out(data):
    X, y, qid = data
    weight = np.where(qid < 40, 2.0, 0.0)
    kept = qid < 40
    weighted = TreeRanker(**SMALL | {"n_bins": 0}).fit(X, y, qid=qid, sample_weight=weight)
    without = TreeRanker(**SMALL | {"n_bins": 0}).fit(X[kept], y[kept], qid=qid[kept])
    assert (weighted.leaves_.forest_.threshold == without.leaves_.forest_.threshold).all()
    assert weighted.fit_.primal == pytest.approx(without.fit_.primal, rel=1.1e-3)
    uneven = TreeRanker(**SMALL).fit(X, y, qid=qid, sample_weight=1.0 + qid % 2)
    assert not np.array_equal(
        uneven.leaves_.forest_.threshold, TreeRanker(**SMALL).fit(X, y, qid=qid).leaves_.forest_.threshold
    )


@pytest.mark.parametrize("trained", [np.float64, np.float32])
def test_copies_in_float32_and_float64_have_the_same_scores(trained, tmp_path):
    rng = np.random.default_rng(1)
    X = np.round(rng.gamma(2, 1, size=(3000, 4)), 1)
    qid = np.repeat(np.arange(150), 20)
    y = X[:, 0] - X[:, 1] + rng.normal(size=3000) > 1.5
    model = TreeRanker("map", n_trees=30, random_state=0).fit(
        X[:2000].astype(trained), y[:2000], qid=qid[:2000]
    )
    test = X[2000:]
    scores = model.predict(test)
    np.testing.assert_array_equal(model.predict(test.astype(np.float32)), scores)
    kept = QueryData(test.astype(np.float32), y[2000:] * 1.0, np.arange(0, 1001, 20), np.arange(50))
    write_store(kept, tmp_path / "rows.store")
    np.testing.assert_array_equal(model.predict(open_store(tmp_path / "rows.store").X), scores)
    for to in ("solr", "elastic", "xgboost"):
        for rows in (test, test.astype(np.float32)):
            assert check_export(export_model(model, to), model, to, rows).difference < 1e-5
    booster = lightgbm.Booster(model_str=export_model(model, "lightgbm").decode())
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(export_model(model, "onnx"), providers=["CPUExecutionProvider"])
    for rows in (test, test.astype(np.float32)):
        np.testing.assert_allclose(booster.predict(rows), scores, atol=1e-12)
        (run,) = session.run(None, {"features": rows.astype(float)})
        np.testing.assert_allclose(run, scores, atol=1e-12)


def test_values_missing_only_at_serving_are_told_by_name(data):
    X, y, qid = data
    X = X.copy()
    X[::7, 1] = np.nan
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = TreeRanker(categorical_features=["f"], **SMALL).fit(frame.assign(f=1.0), y, qid=qid)
    gaps = frame.assign(b=np.nan, f=np.nan)
    model.predict(gaps)
    gaps.loc[3, ["a", "c"]] = np.nan
    with pytest.warns(UserWarning, match="X: missing values in a, c, which had none in training") as told:
        scores = model.predict(gaps)
    assert len(told) == 1
    # trees take them for 0, bins for less than all values
    trees = model.leaves_.starts_[model.leaves_.forest_.n_trees]
    zero = gaps.copy()
    zero.loc[3, ["a", "c"]] = 0.0
    np.testing.assert_array_equal(
        model.leaves_.transform(gaps)[3, :trees].toarray(), model.leaves_.transform(zero)[3, :trees].toarray()
    )
    assert np.isfinite(scores).all()


def test_leaves_without_a_training_row_have_no_weight(data):
    X, y, qid = data
    grown = LeafFeatures(5, 4, n_bins=0, random_state=0).fit(X, y, qid=qid)
    codes = grown.transform_rows(X).codes
    rows = codes[:, 0] != 0  # no row of the first tree's first leaf
    model = TreeRanker(leaves=LeafFeatures.from_model(grown.forest_)).fit(X[rows], y[rows], qid=qid[rows])
    assert model.coef_[0] == 0
    assert (model.coef_ != 0).any()
    columns = grown.forest_.leaves[:-1] + codes
    np.testing.assert_allclose(model.predict(X), model.coef_[columns].sum(axis=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{"min_rows": 650}, {"growth_callback": lambda i, n: i >= 3}], ids=["no split", "callback"]
)
def test_cross_validation_where_fewer_trees_grow_than_asked_for(data, options):
    """Numbers above the number of grown trees have the effect of all grown trees."""
    X, y, qid = data
    options = {"n_leaves": 6, "n_bins": 10, "random_state": 0} | options
    model = TreeRankerCV(Cs=[0.1, 1.0], n_trees=[2, 8, 12], cv=3, **options).fit(X, y, qid=qid)
    np.testing.assert_array_equal(model.scores_[:, 1], model.scores_[:, 2])
    assert model.n_trees_ in (2, 8)
    for training, testing in model._splits(60):
        rows, held_out = np.isin(qid, training), np.isin(qid, testing)
        one = TreeRanker(C=0.1, n_trees=8, **options).fit(X[rows], y[rows], qid=qid[rows])
        assert one.leaves_.forest_.n_trees < 8
        expected = evaluate("map", y[held_out], one.predict(X[held_out]), qid=qid[held_out], ties="average")
        np.testing.assert_allclose(model.scores_[testing, 1, 0], expected.per_query, atol=0.05)
        assert np.mean(model.scores_[testing, 1, 0] == expected.per_query) > 0.8


def test_cross_validation_grows_trees_without_the_held_out_queries(data, monkeypatch):
    X, y, qid = data
    seen = []
    grow = LeafFeatures.grow
    monkeypatch.setattr(
        LeafFeatures, "grow", lambda self, X, *args, **o: seen.append(X) or grow(self, X, *args, **o)
    )
    model = TreeRankerCV(Cs=[0.03, 3], n_trees=[3, 8], cv=3, n_leaves=6, n_bins=6, random_state=0).fit(
        X, y, qid=qid
    )
    assert [rows.shape[0] for rows in seen] == [1200, 1200, 1200, 1800]
    assert model.scores_.shape == (60, 2, 2)
    assert model.leaves_.forest_.n_trees == model.n_trees_
    # by hand
    training, testing = model._splits(60)[1]
    part, rest = np.isin(qid, training), np.isin(qid, testing)
    assert not {row.tobytes() for row in seen[1]} & {row.tobytes() for row in X[rest]}
    one = TreeRanker(C=3, n_trees=3, n_leaves=6, n_bins=6, random_state=0).fit(
        X[part], y[part], qid=qid[part]
    )
    values = evaluate("map", y[rest], one.predict(X[rest]), qid=qid[rest], ties="average").per_query
    np.testing.assert_allclose(model.scores_[testing, 0, 1], values, atol=0.02)
    means = model.scores_.mean(axis=0)
    assert means[model.numbers_of_trees_.tolist().index(model.n_trees_)].max() == means.max()


def test_files_whose_trees_lead_nowhere_are_refused(data, tmp_path):
    X, y, qid = data
    model = TreeRanker(**SMALL).fit(X, y, qid=qid)
    forest = model.leaves_.forest_
    for changes in (
        {"left": forest.left * 0},
        {"feature": forest.feature + 6},
        {"leaves": forest.leaves[:-1]},
    ):
        model.leaves_.forest_ = dataclasses.replace(forest, **changes)
        model.save(tmp_path / "model.npz")
        rejected("expected", load(tmp_path / "model.npz").predict, X)
    model.leaves_.forest_ = forest
    model.leaves_.thresholds_[0] = model.leaves_.thresholds_[0][::-1]
    model.save(tmp_path / "model.npz")
    rejected("ascending edges", load(tmp_path / "model.npz").predict, X)


def test_categories_by_the_name_of_a_column(data):
    X, y, qid = data
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = TreeRanker(categorical_features=["f"], **SMALL).fit(frame.abs().round(), y, qid=qid)
    assert model.leaves_.thresholds_[5].tolist() == [-np.inf]
    assert "f>-inf" in model.leaves_.get_feature_names_out()


@pytest.fixture(scope="module")
def branded(data):
    """Return a frame whose labels depend on the brand: as text with missing values, and encoded as numbers."""
    X, y, qid = data
    codes = np.random.default_rng(3).integers(0, 12, size=X.shape[0]).astype(float)
    codes[::50] = np.nan
    names = np.array([f"brand {i:02}" for i in range(12)], dtype=object)
    brand = np.where(np.isnan(codes), None, names[np.nan_to_num(codes).astype(int)])
    return X, np.minimum(y + 2 * np.isin(codes, [1, 5, 7]), 4), qid, codes, brand


def in_library(library, X, brand):
    columns = {f"f{i}": X[:, i] for i in range(3)}
    if library == "pandas":
        return pd.DataFrame(columns | {"brand": pd.Categorical(brand)})
    if library == "arrow":
        brand = pa.array(brand.tolist()).dictionary_encode()
        return pa.table({name: pa.array(values) for name, values in columns.items()} | {"brand": brand})
    kind = (
        pl.Categorical if library == "polars" else pl.Enum(sorted({one for one in brand if one is not None}))
    )
    return pl.DataFrame(columns | {"brand": pl.Series(brand.tolist(), dtype=kind)})


@pytest.mark.parametrize("library", ["pandas", "polars", "polars enum", "arrow"])
def test_categories_of_a_frame(branded, library, tmp_path):
    X, y, qid, codes, brand = branded
    frame = in_library(library, X, brand)
    model = TreeRanker(C=1, **SMALL).fit(frame, y, qid=qid)
    numbered = np.column_stack([X[:, :3], codes])
    own = TreeRanker(C=1, categorical_features=[3], **SMALL).fit(numbered, y, qid=qid)
    assert model.categories_ == {"brand": sorted({one for one in brand if one is not None})}
    assert (model.leaves_.forest_.sets >= 0).any()
    np.testing.assert_array_equal(model.coef_, own.coef_)
    np.testing.assert_array_equal(model.predict(frame), own.predict(numbered))
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_array_equal(model.predict(numbered), own.predict(numbered))
    model.save(tmp_path / "m.npz")
    back = load(tmp_path / "m.npz")
    assert back.categories_ == model.categories_
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))


def test_categories_go_by_value_in_predict(branded):
    X, y, qid, codes, brand = branded
    frame = in_library("pandas", X, brand)
    model = TreeRanker(C=1, **SMALL).fit(frame, y, qid=qid)
    own = TreeRanker(C=1, categorical_features=[3], **SMALL).fit(
        np.column_stack([X[:, :3], codes]), y, qid=qid
    )
    part = frame[40:60]
    expected = model.predict(frame)[40:60]
    fewer = part.assign(brand=part["brand"].cat.remove_unused_categories())  # other numbers, the same values
    text = part.assign(brand=part["brand"].astype(object))
    for rows in (part, fewer, text, pl.DataFrame(text)):
        np.testing.assert_array_equal(model.predict(rows), expected)
    unseen = part.assign(brand=["new"] * 10 + ["newer"] * 10)
    with pytest.warns(
        UserWarning, match=r"'brand' has 2 categories that did not occur in training \('new', 'newer'\)"
    ):
        scores = model.predict(unseen)
    np.testing.assert_array_equal(scores, model.predict(part.assign(brand=None)))
    for value in (-1.0, 2.5):
        rejected(f"integer categories .* in column 3, got {value:g}", own.predict, np.full((1, 4), value))


def test_categories_that_cannot_be_kept(branded):
    X, y, qid, _, brand = branded
    frame = in_library("pandas", X, brand)
    dated = frame.assign(day=pd.Categorical(pd.to_datetime(["2020-01-01"] * len(frame))))
    with pytest.raises(BadInput, match="expected categories of text or numbers in the column 'day'"):
        TreeRanker(**SMALL).fit(dated, y, qid=qid)
    grown = LeafFeatures(2, 4, n_bins=0, random_state=0).fit(X[:, :4], y, qid=qid)
    with pytest.raises(BadInput, match=r"got categories in \['brand'\]"):
        TreeRanker(leaves=LeafFeatures.from_model(grown.forest_)).fit(frame, y, qid=qid)
    other = TreeRanker(**SMALL).fit(frame, y, qid=qid)
    other.fit(X[:, :4], y, qid=qid)  # nothing of the earlier fit stays
    assert other.categories_ == {}


def test_bad_input(data):
    X, y, qid = data
    rejected("expected at least one number", TreeRankerCV(n_trees=[]).fit, X, y, qid=qid)
    rejected("pass qid", TreeRankerCV().fit, X, y)


def test_an_oracle_tells_the_relevance_of_the_trees(data):
    X, y, qid = data
    assert TreeRanker(AveragePrecision(2.0), **SMALL).fit(X, y, qid=qid).leaves_.relevance == 2.0
    for loss, gain in ((get_oracle("ndcg@3"), "exp2"), (NDCG(3, gain="linear"), "linear"), ("pairs", "exp2")):
        leaves = TreeRanker(loss, **SMALL).fit(X, y, qid=qid).leaves_
        assert (leaves.relevance, leaves.gain) == (None, gain)


def test_few_passes_say_so(data):
    X, y, qid = data
    with pytest.warns(ConvergenceWarning):
        TreeRanker(C=10, max_passes=2, **SMALL).fit(X, y, qid=qid)
