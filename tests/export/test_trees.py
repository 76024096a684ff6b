"""Rankers over trees in other systems: each scores rows as ``predict`` does."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import structsvm
from experiments._teachers import make_taught
from structsvm import SVMMap, TreeRanker
from structsvm.export import check_export, export_model, write_export
from structsvm.export.checking import RULES
from structsvm.export.target import Target
from structsvm.export.trees import TREE_FORMATS
from structsvm.features import LeafFeatures
from structsvm.features.boosters import lightgbm_forest
from tests.refusing import rejected

# small and random data, in which there is next to nothing to learn
pytestmark = [
    pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning"),
    pytest.mark.filterwarnings("ignore:X. missing values in:UserWarning"),
]

lightgbm = pytest.importorskip("lightgbm")


def rows(n=10_000, missing=0.05, seed=1):
    """Return many rows with ordinary and missing values, and values on bin edges and thresholds."""
    rng = np.random.default_rng(seed)
    X = make_taught("product", n // 100, 100, 6, random_state=seed, dtype=np.float64).X
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.fixture(scope="module")
def model():
    data = make_taught("product", 60, 30, 6, noise=0.1, dtype=np.float64)
    X = data.X
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    X[:, 5] = np.floor(np.abs(X[:, 5]) * 20)
    return TreeRanker(C=3, n_trees=12, n_bins=20, categorical_features=[5], random_state=0).fit(
        X, data.y, qid=data.qid
    )


@pytest.fixture(scope="module")
def plain():
    data = make_taught("forest", 60, 30, 6, noise=0.1)
    return TreeRanker(C=3, n_trees=12, n_leaves=70, min_rows=3, n_bins=20, random_state=0).fit(
        data.X, data.y, qid=data.qid
    )


def tried(model, **options):
    """Return rows with some values exactly on thresholds or bin edges; the last rows have no missing values."""
    X, forest = rows(**options), model.leaves_.forest_
    for k in range(0, forest.feature.shape[0], 7):
        if abs(forest.threshold[k]) > 1e-30:  # what is smaller counts as zero in LightGBM
            X[k, forest.feature[k]] = forest.threshold[k]
    for f, edges in enumerate(model.leaves_.thresholds_):
        # float32 does not tell an edge from a threshold between the same two values
        own = forest.threshold[forest.feature == f].astype(np.float32)
        edges = edges[1:][~np.isin(edges[1:].astype(np.float32), own)]
        X[1000 : 1000 + len(edges), f] = edges
    X[:, 5] = np.floor(np.abs(X[:, 5]) * 20)
    return X


@pytest.mark.slow
def test_lightgbm(model, plain):
    for one in (model, plain):
        X = tried(one)
        text = export_model(one, "lightgbm").decode()
        booster = lightgbm.Booster(model_str=text)
        np.testing.assert_allclose(booster.predict(X, num_threads=1), one.predict(X), rtol=0, atol=1e-9)
        # our own reader, and the trees themselves
        forest = lightgbm_forest(text)
        n = one.leaves_.forest_.n_trees
        codes = LeafFeatures.from_model(forest).transform_rows(X).codes
        assert (codes[:, :n] == LeafFeatures.from_model(one.leaves_.forest_).transform_rows(X).codes).all()
        assert (LeafFeatures.from_model(booster).transform_rows(X).codes == codes).all()


@pytest.fixture(scope="module")
def branded():
    data = make_taught("product", 60, 30, 6, noise=0.1, dtype=np.float64)
    brands = np.random.default_rng(1).choice(["acme", "bolt", "cog", "dial"], size=data.n_rows)
    frame = pd.DataFrame(data.X).add_prefix("f").assign(brand=pd.Categorical(brands))
    y = data.y + 2 * np.isin(brands, ["bolt", "dial"])
    return TreeRanker(C=3, n_trees=12, n_bins=20, random_state=0).fit(frame, y, qid=data.qid), frame


def test_categories_of_a_frame_are_exported_where_the_format_has_them(branded):
    model, frame = branded
    booster = lightgbm.Booster(model_str=export_model(model, "lightgbm").decode())
    np.testing.assert_allclose(booster.predict(frame, num_threads=1), model.predict(frame), rtol=0, atol=1e-9)
    turned = frame["brand"][:50].cat.reorder_categories(["dial", "acme", "cog", "bolt"])
    fewer = frame[:50].assign(brand=turned)
    np.testing.assert_allclose(booster.predict(fewer, num_threads=1), model.predict(fewer), rtol=0, atol=1e-9)
    for form in ("solr", "opensearch"):
        rejected(r"the format has no categories; .*got 'brand'.*OneHotEncoder", export_model, model, form)
    kept = pytest.importorskip("onnx").load_from_string(export_model(model, "onnx")).metadata_props
    props = {one.key: json.loads(one.value) for one in kept}
    assert props["categories"] == {"brand": ["acme", "bolt", "cog", "dial"]}


def test_onnx(model, plain):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    for one in (model, plain):
        X = tried(one)
        session = runtime.InferenceSession(export_model(one, "onnx"), providers=["CPUExecutionProvider"])
        (scores,) = session.run(None, {"features": X})
        np.testing.assert_allclose(scores, one.predict(X), rtol=0, atol=1e-9)
        assert json.loads(session.get_modelmeta().custom_metadata_map["feature_names"])[0] == "feature_1"


@pytest.mark.parametrize("to", ["opensearch", "elasticsearch", "solr", "elastic", "xgboost", "json"])
def test_engines_score_as_predict(plain, to):
    options = {"feature_names": list("abcdef")} | ({"engine_version": "3.8"} if to == "opensearch" else {})
    X = tried(plain, n=2000, missing=0)
    content = export_model(plain, to, name="mine", check=X, **options)
    result = check_export(content, plain, to, X, **options)
    assert result.difference < 2e-6
    assert result.n_reversed == 0
    if to in ("opensearch", "elasticsearch"):  # what is behind the window of a rescorer has score 0
        assert RULES[to](content, X, "abcdef", Target(to, "")).min() > 0


def said_of(model, to, names, **options):
    """Return the warnings of an export, and its content."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        content = export_model(model, to, feature_names=names, **options)
    return [str(warning.message) for warning in caught], content


@pytest.mark.parametrize(
    ("to", "version", "warnings"),
    [
        ("opensearch", None, ["3.2 to 3.7", "before 3.2 counts"]),
        ("opensearch", "3.8", []),
        ("opensearch", "3.5", ["3.2 to 3.7"]),
        ("opensearch", "3.1", ["before 3.2 counts"]),
        ("elasticsearch", None, ["releases of the plugin before 2024"]),
        ("elastic", None, []),
        ("solr", None, ['"defaultValue": "NaN"']),
        ("solr", "9.1", ["Solr before 9.2 counts these as 0"]),
        ("lightgbm", None, []),
        ("onnx", None, []),
    ],
)
def test_features_with_missing_values_are_named_where_engines_differ(to, version, warnings, tmp_path):
    data = make_taught("forest", 20, 20, 3, dtype=np.float64)
    data.X[::7, 1] = np.nan
    names = ["title", "price", "stock"]
    model = TreeRanker(n_trees=3, n_leaves=4, random_state=0).fit(data.X, data.y, qid=data.qid)
    model.save(tmp_path / "model.npz")
    for one in (model, structsvm.load(tmp_path / "model.npz")):
        assert one.missing_features_.tolist() == [1]
        said, content = said_of(one, to, names, engine_version=version)
        assert len(said) == len(warnings)
        for message, expected in zip(said, warnings, strict=True):
            assert expected in message
            assert message.startswith("price: values were missing") or "3.2 to 3.7" in message
    result = check_export(content, one, to, data.X, feature_names=names, engine_version=version)
    exact = to not in ("opensearch", "solr") or version in (None, "3.8")
    assert (result.difference < 1e-5) == exact
    unset = to not in ("lightgbm", "onnx")
    message = (
        "expected names of features, such as 'title', got 'prize'" if unset else f"expected 'auto' for {to}"
    )
    rejected(message, export_model, model, to, feature_names=names, unmatched={"prize": "zero"})


@pytest.mark.parametrize("n_bins", [0, 20])
def test_decimals_that_are_thresholds_go_the_same_way_in_an_engine(n_bins):
    """Decimals are not exact in float32: a rounded value may be above the equal threshold of float64."""
    rng = np.random.default_rng(0)
    n = 1200
    X = np.stack([
        rng.integers(10, 51, n) / 10, rng.integers(20, 61, n) + 0.99, -rng.integers(0, 40, n) / 1e4,
        rng.integers(0, 30, n) * 1e-7, rng.integers(-9, 9, n), rng.normal(size=n).round(3),
    ], axis=1)  # fmt: skip
    y = np.digitize(np.argsort(np.argsort(X, axis=0), axis=0).mean(axis=1) / n, [0.4, 0.5, 0.6])
    model = TreeRanker(n_trees=15, n_bins=n_bins, random_state=0).fit(X, y, qid=np.arange(n) // 20)
    for to in ("elasticsearch", "solr", "elastic"):
        assert check_export(export_model(model, to), model, to, X).difference < 2e-6


@pytest.mark.parametrize("to", ["elasticsearch", "solr", "lightgbm"])
def test_thresholds_that_an_engine_cannot_tell_apart_are_said(to):
    rng = np.random.default_rng(0)
    seconds = 1.7e9 + rng.integers(0, 900, 600)  # float32 knows each 128
    X = np.stack([seconds, rng.normal(size=600)], axis=1)
    model = TreeRanker(n_trees=5, random_state=0).fit(
        X, np.digitize(X[:, 0] - 1.7e9, [300, 600]), qid=np.arange(600) // 20
    )
    said, _ = said_of(model, to, ["published", "title"])
    assert len(said) == (to != "lightgbm")
    assert all(one.startswith("published: thresholds are equal in float32") for one in said)


def test_without_bins_and_trees_of_one_leaf(tmp_path):
    data = make_taught("step", 20, 10, 3)
    model = TreeRanker(n_trees=2, n_bins=0, min_rows=150, random_state=0).fit(data.X, data.y, qid=data.qid)
    assert model.leaves_.forest_.most_leaves == 1
    write_export(tmp_path / "model.txt", model, "lightgbm")
    np.testing.assert_allclose(
        lightgbm.Booster(model_file=tmp_path / "model.txt").predict(data.X), model.predict(data.X), atol=1e-12
    )
    for to in set(TREE_FORMATS) - {"opensearch"}:
        assert check_export(export_model(model, to), model, to, data.X).difference < 1e-5


@pytest.mark.filterwarnings("ignore:.*values were missing in training:UserWarning")
def test_splits_that_only_separate_missing_values():
    """Their threshold is infinite, which not every format can write."""
    data = make_taught("step", 20, 10, 1, dtype=np.float64)
    X, y = np.where(data.y[:, None] > 0, np.nan, data.X), data.y
    model = TreeRanker(n_trees=2, n_leaves=2, min_rows=5, random_state=0).fit(X, y, qid=data.qid)
    assert np.isinf(model.leaves_.forest_.threshold).any()
    for to in set(TREE_FORMATS) - {"opensearch"}:
        assert check_export(export_model(model, to), model, to, X).difference < 1e-5


def test_refusals(model):
    rejected("to='svmlight': expected one of .*'lightgbm'", export_model, model, "svmlight")
    rejected("the format has no categories", export_model, model, "solr")
    rejected(
        r"feature_names: expected names .* got 'a b'; rename .* feature_names=",
        export_model,
        model,
        "lightgbm",
        feature_names=["a b", *"bcdef"],
    )
    rejected(
        "to='lightgbm': expected a tree ranker, got SVMMap",
        export_model,
        SVMMap().fit([[1.0], [0.0]], [1, 0], qid=0),
        "lightgbm",
    )


@pytest.mark.parametrize("n_bins", [0, 16])
@pytest.mark.parametrize("last", [3.0, 1e-36])
@pytest.mark.parametrize("size", [1.0, 1e-6, 5.5e-17, 1e-30, 1e-36])
def test_values_that_an_engine_takes_for_zero_are_named_if_training_had_them(size, last, n_bins):
    """Negative values, zeros and positive values, which are learned apart; the check shows which engine errs."""
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 3, 1200)
    rows = np.column_stack([np.array([-size, 0, last])[grades], rng.normal(size=1200)])
    model = TreeRanker(C=1, n_trees=10, n_bins=n_bins, random_state=0).fit(
        rows, grades, qid=np.arange(1200) // 30
    )
    for to in ("solr", "lightgbm", "opensearch"):
        said, content = said_of(
            model, to, ["price", "title"], **({"engine_version": "3.8"} if to == "opensearch" else {})
        )
        wrong = check_export(content, model, to, rows, feature_names=["price", "title"]).difference > 1e-3
        print(
            to,
            size,
            last,
            n_bins,
            wrong,
            [one for one in said if one.startswith("price: some values in training")],
        )


@pytest.mark.parametrize(("days", "warned"), [(30, True), (365, True), (0, False)])
def test_times_whose_spacing_in_float32_is_coarse_are_named(days, warned):
    """Seconds over a month or a year; for 0 days years, which float32 represents."""
    rng = np.random.default_rng(0)
    span = 86400 * days
    times = 1.7e9 + rng.integers(0, span, 1200) if days else rng.integers(1990, 2025, 1200).astype(float)
    rows = np.column_stack([times, rng.normal(size=1200)])
    labels = (rows[:, 0] > np.median(times)).astype(int)
    model = TreeRanker(n_trees=20, random_state=0).fit(rows, labels, qid=np.repeat(np.arange(40), 30))
    with warnings.catch_warnings(record=True, action="always") as caught:
        export_model(model, "opensearch", engine_version="3.8")
    assert any(str(one.message).startswith("feature_1: ") for one in caught) == warned


def test_attributes_of_type_double_are_named_by_the_check_of_xgboost():
    """Decimals at a threshold go to the other side if Vespa does not round them to float32, as XGBoost does."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 200, (2000, 2)) / 100 + 0.01
    labels = (rows[:, 0] + 0.2 * rng.normal(size=2000) > 1).astype(int)
    booster = xgboost.XGBRegressor(n_estimators=10, max_depth=3, max_bin=512).fit(rows, labels)
    model = TreeRanker(leaves=LeafFeatures.from_model(booster), n_bins=0)
    model.fit(rows, labels, qid=np.repeat(np.arange(100), 20))
    content = export_model(model, "xgboost")
    with pytest.warns(UserWarning, match="declare these attributes as float"):
        assert check_export(content, model, "xgboost", rows).n_reversed == 0
    with warnings.catch_warnings(action="error"):
        check_export(content, model, "xgboost", rows.astype(np.float32))
