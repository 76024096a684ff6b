"""Random models, exported and scored from the text by the rules of each engine, and errors of the check."""

import copy
import json
import warnings

import numpy as np
import pytest

from structsvm import SVMMap, TreeRanker
from structsvm.common.checks import BadInput
from structsvm.export import FORMATS, check_export, export_model
from structsvm.export.checking import score_plugin, score_solr
from structsvm.export.target import Target
from structsvm.features import LeafFeatures
from structsvm.features.forest import Forest, Tree
from tests.refusing import rejected

# what is learned here is of no interest
pytestmark = [pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")]

N = 4
VERSIONS = {"opensearch": "3.8"}
SAID = ("slack", "equal in float32", "large relative to their differences", "no intercept")


def random_tree(rng, unit):
    """Return a random tree, with its nodes in order; thresholds are values of the data, some are 0."""
    n = int(rng.integers(0, 12))
    left, right, free, leaves = [0] * n, [0] * n, [], 0
    for k in range(n):
        if k:
            parent, side = free.pop(int(rng.integers(len(free))))
            side[parent] = k
        free += [(k, left), (k, right)]
    for parent, side in free:
        side[parent], leaves = ~leaves, leaves + 1
    feature = rng.integers(0, N, n)
    steps = np.where(rng.random(n) < 0.2, 0.0, rng.integers(-20, 21, n) / 10)
    nan_left = rng.random(n) < 0.5
    return Tree(
        feature.tolist(), (steps * unit[feature]).tolist(), nan_left.tolist(), left, right, max(leaves, 1), {}
    )


def ranker(forest, coef, missing=()):
    """Return a ranker over the given trees, without bins."""
    model = TreeRanker(leaves=LeafFeatures.from_model(forest))
    model.leaves_ = LeafFeatures.from_model(forest)
    model.leaves_._set(forest, [])
    model.n_features_in_ = model.leaves_.n_features_in_ = forest.n_features
    model.coef_, model.missing_features_ = coef, np.array(missing, dtype=int)
    return model


def random_trees(rng):
    """Return a ranker over random trees, and rows at, near and between its thresholds, some with missing values."""
    unit = 10.0 ** rng.uniform(-30, 30, N) if rng.random() < 0.5 else 10.0 ** rng.integers(-9, 9, N)
    forest = Forest.of([random_tree(rng, unit) for _ in range(6)], N)
    coef = rng.normal(size=int(forest.leaves[-1])) * 10.0 ** rng.integers(-3, 4)
    model = ranker(forest, coef, np.flatnonzero(rng.random(N) < 0.3))
    X = rng.integers(-25, 26, (60, N)) / 10 * unit
    X = np.where(rng.random(X.shape) < 0.3, np.nextafter(X.astype(np.float32), np.float32(np.inf)), X)
    for k in range(len(forest.threshold)):
        X[k % 60, forest.feature[k]] = forest.threshold[k]
    X[rng.random(X.shape) < 0.1] = np.nan
    return model, X


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, N)), rng.integers(0, 2, 40)
    scales = ("none", "minmax", "zscore")
    return [SVMMap(C=1.0, scale=scale).fit(X, y, qid=np.repeat(range(8), 5)) for scale in scales]


def random_linear(rng, linear):
    model = copy.deepcopy(linear[int(rng.integers(len(linear)))])
    scaled = model.scaler_ is not None
    unit = 10.0 ** rng.uniform(-30, 30, N)
    shift = unit * rng.normal(size=N) * 10.0 ** rng.integers(-1, 8 if scaled else 1, N)
    model.coef_ = rng.normal(size=N) * (rng.random(N) < 0.9) * (1 if scaled else 1 / unit)
    if scaled:
        model.scaler_.shift_, model.scaler_.scale_ = shift, unit
    return model, shift + unit * rng.uniform(0, 1, (60, N))


@pytest.mark.parametrize("to", ["solr", "opensearch", "elasticsearch", "elastic", "xgboost", "json"])
@pytest.mark.parametrize("kind", ["trees", "linear"])
def test_no_pair_is_reversed_without_a_warning(kind, to, linear):
    if kind == "linear" and to not in FORMATS:
        to = "vespa" if to == "elastic" else "svmlight"
    silent, refused = 0, set()
    for seed in range(50):
        rng = np.random.default_rng(seed)
        model, X = random_trees(rng) if kind == "trees" else random_linear(rng, linear)
        with warnings.catch_warnings(record=True, action="always") as caught:
            try:
                content = export_model(
                    model, to, engine_version=VERSIONS.get(to) if kind == "trees" else None
                )
            except BadInput as error:  # float32 cannot hold it
                refused.add(error.problem[:40])
                continue
        version = VERSIONS.get(to)
        if any(said in str(one.message) for one in caught for said in SAID[:3]):
            continue
        silent += 1
        result = check_export(content, model, to, X, engine_version=version)
        assert result.n_reversed == 0, (seed, result)
        assert result.difference < 1e-4, (seed, result)
    assert silent >= 15
    assert refused <= {"expected values that float32 can tell apart"[:40]}


def stump(threshold, missing=()):
    """Return a tree with one condition on the first of two features: 1 in the left leaf, 3 in the right."""
    tree = Tree([0], [threshold], [False], [~0], [~1], 2, {})
    return ranker(Forest.of([tree], 2), np.array([1.0, 3.0]), missing)


def test_an_unset_feature_goes_where_0_goes_or_a_missing_value():
    X = np.array([[-1.0, 0], [2.0, 0], [np.nan, 0]])
    for missing, how, expected in (
        ((), "auto", 1),
        ((0,), "auto", 3),
        ((0,), "zero", 1),
        ((), "missing", 3),
        ((), {"feature_1": "missing"}, 3),
    ):
        model = stump(0.5, missing)
        for to, score in (("elasticsearch", score_plugin), ("solr", score_solr)):
            with warnings.catch_warnings(action="ignore"):
                content = export_model(model, to, unmatched=how)
            got = score(content, X, ["feature_1", "feature_2"], Target(to, ""))
            assert got.tolist() == [1, 3, expected], (missing, how, to)


def test_a_version_that_takes_the_wrong_branch_is_checked_on_what_matches():
    model = stump(0.5)
    with pytest.warns(UserWarning, match="3.2 to 3.7 sends a document that a feature does not match"):
        content = export_model(model, "opensearch", engine_version="3.5")
    for unset, off in ((0.0, False), (np.nan, True)):
        result = check_export(
            content,
            model,
            "opensearch",
            np.array([[1.0, 0], [unset, 0], [0.0, 0], [2.0, 0]]),
            engine_version="3.5",
        )
        assert (result.difference > 0.5) == off


def test_a_model_that_the_store_of_solr_may_lose_is_said(monkeypatch):
    monkeypatch.setattr("structsvm.export.bodies._LARGEST_SOLR_MODEL", 100)
    with pytest.warns(UserWarning, match="SolrCloud by default stores at most 1 MB of models"):
        export_model(stump(0.5), "solr")


@pytest.mark.parametrize("size", [1e-7, 1e-12, 1e-28, 1e25])
def test_the_slack_of_solr_vanishes(size):
    content = export_model(stump(3 * size), "solr", store="shop")
    spec = json.loads(content)
    assert spec["store"] == "shop"
    assert ("norm" in spec["features"][0]) == (size < 1e-7)
    values = np.float32(3 * size) * np.ones(3, np.float32)
    values[0], values[2] = np.nextafter(values[0], np.float32(0)), np.nextafter(values[2], np.float32(1e30))
    X = np.stack([values, values], axis=1).astype(float)
    assert score_solr(content, X, ["feature_1", "feature_2"], Target("solr", "")).tolist() == [1, 1, 3]


def test_what_the_check_refuses():
    X = np.random.default_rng(0).uniform(1, 2, (40, 2))
    model = SVMMap(C=1.0, scale="zscore").fit(X, X[:, 0] > X[:, 1], qid=np.arange(40) // 10)
    content = export_model(model, "solr", check=X)
    wrong = content.replace(f'"std":"{float(model.scaler_.scale_[0])!r}"'.encode(), b'"std":"1.0"')
    assert wrong != content
    result = check_export(wrong, model, "solr", X)
    assert result.difference > 1e-4
    rejected(r"check: expected solr to score the rows as predict does, got largest", result.require, "solr")
    seconds = np.stack([1.7e9 + np.arange(40) * 3.0, np.arange(40) % 7], axis=1)
    model = SVMMap(C=1.0, scale="minmax").fit(seconds, np.arange(40) % 10 > 4, qid=np.arange(40) // 10)
    with (
        pytest.warns(UserWarning, match="feature_1: values are large relative to their differences"),
        pytest.raises(
            ValueError, match=r"pairs reversed, due to feature_1; float32 holds about seven digits"
        ),
    ):
        export_model(model, "opensearch", check=seconds)
    seconds[:, 0] = 1.7e9 + np.arange(40)
    model = SVMMap(C=1.0, scale="minmax").fit(seconds, np.arange(40) % 10 > 4, qid=np.arange(40) // 10)
    for to in ("solr", "opensearch"):
        rejected(
            r"values that float32 can tell apart, got 1700000000.0 to 1700000039.0", export_model, model, to
        )
    for options, message in (
        ({"to": "json", "engine_version": "3"}, "engine_version='3': expected none for json"),
        ({"to": "opensearch", "engine_version": "new"}, "expected numbers with dots"),
        ({"to": "opensearch", "store": "s"}, "store: applies only to the format 'solr'"),
        ({"to": "solr", "unmatched": "missing"}, "expected 'zero' or 'auto' for a linear model"),
    ):
        rejected(message, export_model, model, **options)


def test_elastic_takes_the_queries_of_the_features():
    queries = {"feature_1": {"match": {"title": "{{q}}"}}, "feature_2": {"match_all": {}}}
    body = json.loads(export_model(stump(0.5), "elastic", feature_queries=queries, engine_version="8.13"))
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    assert [one["query_extractor"]["query"] for one in extractors] == list(queries.values())
    assert body["input"] == {"field_names": ["feature_1", "feature_2"]}
    assert set(json.loads(export_model(stump(0.5), "elastic"))) == {"definition"}
    rejected("unmatched='zero': expected 'auto' for onnx", export_model, stump(0.5), "onnx", unmatched="zero")
    with pytest.raises(ValueError, match="got none for 'feature_2'"):
        export_model(stump(0.5), "elastic", feature_queries={"feature_1": {}})


def test_vespa_normalizes_within_the_query():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    model = SVMMap(scale="query-minmax").fit(X, y, qid=np.repeat(range(8), 5))
    text = export_model(model, "vespa", feature_names=["bm25(title)", "closeness(v)"]).decode()
    assert "global-phase" in text
    assert f"{float(model.coef_[0])!r} * normalize_linear(bm25(title))" in text


def test_trees_that_are_too_deep_for_json_are_refused():
    n = 450
    left, right = [~k for k in range(n)], [*range(1, n), ~n]
    tree = Tree([0] * n, list(range(n)), [False] * n, left, right, n + 1, {})
    with pytest.raises(ValueError, match="trees of at most 400 levels"):
        export_model(ranker(Forest.of([tree], 2), np.arange(n + 1.0)), "solr")
