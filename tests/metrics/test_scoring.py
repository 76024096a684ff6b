"""The scorers inside scikit-learn: qid is routed, and is required."""

import pickle

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate

from structsvm import SVMMap
from structsvm.metrics import evaluate, make_scorer
from tests.refusing import rejected

NEEDS_QID = (
    r"expected qid .* sklearn\.set_config\(enable_metadata_routing=True\).* use .*permutation_importance"
)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.repeat([f"q{i}" for i in range(12)], 10))
    X = rng.normal(size=(120, 4))
    return X, (X[:, 0] + rng.normal(size=120) > 0.8).astype(int), qid


@pytest.fixture
def folds(data):
    X, y, qid = data
    return list(GroupKFold(3).split(X, y, groups=qid))


def expected(name, model, data, folds, **options):
    X, y, qid = data
    return [
        evaluate(name, y[b], model.fit(X[a], y[a]).predict(X[b]), qid=qid[b], **options).mean
        for a, b in folds
    ]


@pytest.mark.parametrize(
    ("model", "scores"),
    [
        (Ridge(), lambda model, X, qid: model.predict(X)),
        # a classifier predicts classes; scaling within queries needs their ids
        (LogisticRegression(), lambda model, X, qid: model.decision_function(X)),
        (SVMMap(scale="query-minmax"), lambda model, X, qid: model.predict(X, qid=qid)),
    ],
)
def test_a_direct_call_equals_evaluate(data, model, scores):
    X, y, qid = data
    model.fit(X, y, qid=qid) if isinstance(model, SVMMap) else model.fit(X, y)
    score = make_scorer("ndcg@3", convention="burges")(model, X, y, qid=qid)
    assert score == evaluate("ndcg@3", y, scores(model, X, qid), qid=qid, convention="burges").mean


def test_docids_break_ties(data):
    X, y, qid = data
    model, score = LinearRegression().fit(X, np.zeros(120)), make_scorer("mrr", empty="one", ties="docid")
    assert score(model, X, y, qid=qid, docid=np.where(y == 1, "b", "a")) == 1.0
    assert score(model, X, y, qid=qid, docid=np.where(y == 1, "a", "b")) < 1.0


@pytest.mark.usefixtures("routing")
def test_several_scorers_and_docids(data, folds):
    X, y, qid = data
    scoring = {"map": make_scorer("map"), "ndcg": make_scorer("ndcg@5")}
    result = cross_validate(
        Ridge(), X, y, cv=folds, scoring=scoring, params={"qid": qid, "docid": np.arange(120)}
    )
    np.testing.assert_array_equal(result["test_map"], expected("map", Ridge(), data, folds))
    np.testing.assert_array_equal(result["test_ndcg"], expected("ndcg@5", Ridge(), data, folds))


@pytest.mark.usefixtures("routing")
def test_grid_search_fits_scores_and_pickles(data, folds):
    X, y, qid = data
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1e4]}, cv=folds, scoring=make_scorer("map"), n_jobs=1)
    search.fit(X, y, qid=qid)
    for i, alpha in enumerate([0.1, 1e4]):
        mean = np.mean(expected("map", Ridge(alpha=alpha), data, folds))
        assert search.cv_results_["mean_test_score"][i] == pytest.approx(mean, abs=1e-14)
    assert search.score(X, y, qid=qid) == evaluate("map", y, search.predict(X), qid=qid).mean
    assert pickle.loads(pickle.dumps(search)).score(X, y, qid=qid) == search.score(X, y, qid=qid)
    rejected(NEEDS_QID, search.score, X, y)


@pytest.mark.usefixtures("routing")
def test_another_name_for_qid(data, folds):
    X, y, qid = data
    scorer = make_scorer("map").set_score_request(qid="query", docid=False)
    scores = cross_val_score(Ridge(), X, y, cv=folds, scoring=scorer, params={"query": qid})
    np.testing.assert_array_equal(scores, expected("map", Ridge(), data, folds))


def test_without_qid_the_scorer_refuses(data, folds):
    X, y, _ = data
    scorer = make_scorer("map")
    rejected(NEEDS_QID, scorer, Ridge().fit(X, y), X, y)
    rejected(NEEDS_QID, cross_val_score, Ridge(), X, y, cv=folds, scoring=scorer, error_score="raise")


class FirstColumn:
    def predict(self, X):
        return np.asarray(X["x"])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_brings_its_qid_column(library):
    frame = pytest.importorskip(library).DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "qid": ["a", "a", "b", "b"]})
    assert make_scorer("mrr")(FirstColumn(), frame, [1, 0, 0, 1]) == 0.75


def test_errors_come_when_the_scorer_is_made():
    for name, options, message in [
        ("map", {"empty": "drop"}, "empty"),
        ("map", {"qid": [1]}, "qid with the data"),
        ("map", {"unknown": 1}, "unknown"),
        ("accuracy", {}, "metric='accuracy': expected one of"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            make_scorer(name, **options)
    assert repr(make_scorer("map", empty="skip")) == "make_scorer('map', empty='skip')"
