"""Exports of linear models, scored by the rules of their engines, and the learner as PyTerrier calls it."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import structsvm
from structsvm import (
    AccuracySVM,
    ClickSVM,
    LambdaRank,
    OrdinalSVM,
    PairwiseSGD,
    PairwiseSVM,
    StructuralRanker,
    StructuralRankerCV,
    SVMMap,
)
from structsvm.export import FORMATS, PyTerrierRanker, check_export, export_model, linear_form
from structsvm.export.checking import RULES
from structsvm.export.target import Target
from tests.refusing import rejected

RNG = np.random.default_rng(5)
N = 7
X = RNG.normal(size=(120, N)) * [1, 2, 0.5, 2, 1, 3, 0] + [0, 3, 0, -2, 0, 10, 4]  # the last is constant
QID = np.repeat(np.arange(12), 10)
Y = np.clip(np.round(X[:, 0] + X[:, 1] / 5 + 0.3 * RNG.normal(size=120)), 0, 2)
DOCUMENTS = RNG.normal(size=(100, N)) * [1, 2, 0.5, 2, 1, 3, 9] + [0, 3, 0, -2, 0, 10, 4]
NAMES = ["bm25", "title match", "größe", "a.b", 'say "x"', "price", "constant"]
RANK_FEATURES = [
    "bm25(title)",
    "bm25(body)",
    "fieldMatch(title).order",
    "a.b",
    "query(x)",
    "attribute(price)",
    "f_7",
]


def names_for(to):
    return RANK_FEATURES if to == "vespa" else NAMES


MODELS = {
    "map": StructuralRanker("map", 1.0),
    "map, zscore": StructuralRanker("map", 1.0, scale="zscore"),
    "ndcg, minmax": StructuralRanker("ndcg@5", 1.0, scale="minmax"),
    "cv": StructuralRankerCV(Cs=[0.1, 1.0], cv=2, scale="zscore"),
    "pairwise": PairwiseSVM("squared_hinge", scale="minmax"),
    "sgd": PairwiseSGD(n_steps=2000, scale="zscore", random_state=0),
    "lambdarank": LambdaRank(max_epochs=3, random_state=0),
    "lambdarank, minmax": LambdaRank(max_epochs=3, scale="minmax", random_state=0),
    "acc": AccuracySVM("acc", 0.1),
    "ordinal": OrdinalSVM(decompose=True, scale="zscore"),
    "clicks": ClickSVM(scale="zscore"),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param].fit(X, Y, qid=QID)


def without_warning(model, to, **options):
    """Return the export, and the difference of its scores that the warning states."""
    if to in ("solr", "elasticsearch", "opensearch") and linear_form(model).intercept:
        with pytest.warns(UserWarning, match=r"no intercept: the scores of all documents are lower by"):
            return export_model(model, to, **options), linear_form(model).intercept
    return export_model(model, to, **options), 0.0


def scored(content, to, documents=DOCUMENTS):
    return RULES[to](content, documents, names_for(to), Target(to, ""))


@pytest.mark.parametrize("to", sorted({*FORMATS} - {"multi_match"}))
def test_scores_are_the_same(model, to):
    if to == "onnx":
        pytest.importorskip("onnx", reason="onnx is not installed")
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    content, missing = without_warning(model, to, feature_names=names_for(to))
    expected = model.predict(DOCUMENTS)
    single = to in ("solr", "elasticsearch", "opensearch")
    close = 1e-5 * np.ptp(expected) if single else 1e-6
    assert scored(content, to) + missing == pytest.approx(expected, rel=1e-9, abs=close)
    result = check_export(content, model, to, DOCUMENTS, feature_names=names_for(to))
    assert result.difference < 1e-5
    assert result.n_reversed == 0
    assert np.ptp(expected) > 1e-3


def test_opensearch_is_elasticsearch():
    model = MODELS["map"].fit(X, Y, qid=QID)
    assert export_model(model, "opensearch") == export_model(model, "elasticsearch")


@pytest.mark.parametrize("method", ["minmax", "zscore", "percentile"])
def test_scaling_within_queries_is_refused_with_the_reason_but_json_says_it(method):
    model = SVMMap(scale=f"query-{method}").fit(X, Y, qid=QID)
    for to in ("solr", "elasticsearch", "svmlight", "onnx"):
        rejected(rf"{to}: .*scale='query-{method}'.*each query's own candidates", export_model, model, to)
    spec = json.loads(export_model(model, "json"))
    assert spec["scaling"] == {"method": method, "within": "query"}
    assert all("shift" not in feature for feature in spec["features"])
    scaled = model.scaler_.transform(X, qid=QID)
    weights = [feature["weight"] for feature in spec["features"]]
    assert scaled @ weights == pytest.approx(model.predict(X, qid=QID), abs=1e-12)


def test_what_is_not_linear_is_refused():
    for bad in (LambdaRank(hidden=(4,), max_epochs=1, random_state=0).fit(X, Y, qid=QID), SVMMap()):
        rejected("only linear models are exported", export_model, bad, "solr")

    class Bent(SVMMap):
        def predict(self, X, *, qid=None):
            return super().predict(X, qid=qid) ** 2

    rejected("linear in its features", export_model, Bent().fit(X, Y, qid=QID), "json")


def test_names_are_those_of_the_frame_or_counted_and_checked():
    model = SVMMap().fit(pytest.importorskip("pandas").DataFrame(X, columns=NAMES), Y, qid=QID)
    assert linear_form(model).names == tuple(NAMES)
    model = SVMMap().fit(X, Y, qid=QID)
    assert linear_form(model).names[:2] == ("feature_1", "feature_2")
    for names, message in (
        (["a"], "expected 7 names, one per feature, got 1"),
        (["a"] * 7, "got 'a' twice"),
        ([*"abcdef", " "], "not empty"),
        ("abcdefg", "expected 7 names, one per feature, got the text 'abcdefg'"),
    ):
        rejected(message, export_model, model, "json", feature_names=names)
    rejected("to='lucene': expected one of .*'solr'", export_model, model, "lucene")


def test_a_missing_onnx_names_the_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"needs onnx: pip install 'onnx>="):
        export_model(SVMMap().fit(X, Y, qid=QID), "onnx")


def test_the_command(cli):
    model = SVMMap(scale="zscore").fit(X, Y, qid=QID)
    expected = pytest.approx(model.predict(DOCUMENTS), abs=1e-5)
    model.save("shop.npz")
    Path("names.txt").write_text("\n".join(NAMES) + "\n", encoding="utf-8")
    command = "export shop.npz --feature-names names.txt"
    printed = cli(f"{command} --to solr")
    assert json.loads(printed)["name"] == "shop"
    assert scored(printed, "solr") == expected
    cli(f"{command} --to svmlight -o shop.model --name x")
    content = Path("shop.model").read_bytes()
    assert scored(content, "svmlight") == expected
    assert "expected a file for onnx" in cli.refuses(f"{command} --to onnx")
    SVMMap(scale="query-minmax").fit(X, Y, qid=QID).save("shop.npz")
    assert "each query's own candidates" in cli.refuses(f"{command} --to svmlight -o shop.model")
    assert Path("shop.model").read_bytes() == content


@pytest.mark.parametrize("scale", ["zscore", "minmax"])
def test_an_intercept_that_is_rounding_is_none(scale):
    rng = np.random.default_rng(0)
    for _ in range(20):
        moved = X * rng.uniform(0.1, 3, X.shape[1]) + rng.uniform(-1e3, 1e3, X.shape[1])
        model = SVMMap(scale=scale).fit(moved, Y, qid=QID)
        assert linear_form(model).intercept == 0.0
    model.coef_ = model.coef_.copy()
    model.predict = lambda rows: SVMMap.predict(model, rows) + 1e-6
    assert linear_form(model).intercept == pytest.approx(1e-6, rel=1e-3)


def test_pyterrier_calls_the_learner_as_lightgbm():
    """As ``pt.ltr.LTRTransformer`` does (pyterrier/ltr.py), without Java."""
    groups = {"group": np.full(8, 10), "eval_set": [(X[80:], Y[80:])], "eval_group": [np.full(4, 10)]}
    Cs = [1e-3, 1e-2, 0.1]
    learner = PyTerrierRanker(SVMMap(scale="zscore", relevance=2.0), Cs=Cs)
    learner.fit(X[:80], Y[:80], **groups)
    by_hand = [SVMMap(C, scale="zscore", relevance=2.0).fit(X[:80], Y[:80], qid=QID[:80]) for C in Cs]
    values = [
        structsvm.metrics.evaluate("map", Y[80:], m.predict(X[80:]), qid=QID[80:], relevance=2.0).mean
        for m in by_hand
    ]
    assert np.array_equal(learner.predict(X), by_hand[int(np.argmax(values))].predict(X))
    plain = PyTerrierRanker(SVMMap(2.0))
    plain.fit(X[:80], Y[:80], **groups)
    assert plain.estimator_.C == 2.0
    assert learner.estimator.C is None


def test_pyterrier_learner_refuses_what_cannot_work():
    for estimator, options, arguments, message in (
        (SVMMap(scale="query-minmax"), {}, {"group": [120]}, "does not tell a learner which query"),
        (SVMMap(), {}, {}, "group: expected the number of documents of each query, got none"),
        (SVMMap(), {}, {"group": [3]}, "add up to 120 rows"),
        (SVMMap(), {"Cs": [1.0]}, {"group": [120]}, "eval_set: expected validation queries"),
    ):
        rejected(message, PyTerrierRanker(estimator, **options).fit, X, Y, **arguments)


@pytest.mark.parametrize("scale", ["none", "minmax", "zscore"])
def test_boosts_add_up_the_scores_of_fields(scale):
    rows = np.abs(X[:, :4])
    model = SVMMap(C=1.0, positive=True, scale=scale).fit(rows, (rows.sum(axis=1) > 8).astype(int), qid=QID)
    names = ["title", "body", "tags.raw", "größe"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*has no intercept")
        content = export_model(model, "multi_match", feature_names=names)
    [query] = json.loads(content)["query"].values()
    assert query["type"] == "most_fields"
    boosts = dict(field.split("^") for field in query["fields"])
    total = sum(float(boosts[name]) * rows[:, j] for j, name in enumerate(names) if name in boosts)
    expected = model.predict(rows)
    assert total - total.mean() == pytest.approx(expected - expected.mean(), abs=1e-9 * np.ptp(expected))
    assert check_export(content, model, "multi_match", rows, feature_names=names).n_reversed == 0


def test_what_boosts_cannot_carry():
    model = SVMMap(C=1.0).fit(X[:, :2] * [1, -1], Y > 1, qid=QID)
    rejected(
        r"to='multi_match': expected weights >= 0.* train with positive=True",
        export_model,
        model,
        "multi_match",
    )
    with pytest.warns(UserWarning, match="no better than zero weights"):
        zero = SVMMap(C=1.0, positive=True).fit(X[:, :1] * -1, Y > 1, qid=QID)
    rejected("expected a weight > 0", export_model, zero, "multi_match")
    positive = SVMMap(C=1.0, positive=True).fit(X[:, :1], Y > 1, qid=QID)
    rejected("expected names of fields", export_model, positive, "multi_match", feature_names=["title^2"])
