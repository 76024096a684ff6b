"""Warning of rows without query ids: once per call, and never for rows with ids."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, cross_val_score

import structsvm
from structsvm import SVMNDCG, SingleQueryWarning, StructuralRanker, StructuralRankerCV, SVMMap
from structsvm.estimators.structural import model_path
from structsvm.export.pyterrier import PyTerrierRanker
from structsvm.metrics import evaluate, make_scorer, permutation_importance
from tests.refusing import refused, rejected

RNG = np.random.default_rng(0)
QID = np.repeat(np.arange(8), 6)
X = RNG.normal(size=(48, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=48) > 0.4).astype(int)

RANKERS = [
    structsvm.AccuracySVM(),
    structsvm.CoRegularizedSGD(n_steps=50, random_state=0),
    structsvm.OrdinalSVM(),
    *(structsvm.LambdaRank(max_epochs=2, scale=scale, random_state=0) for scale in ("none", "query-minmax")),
    *(structsvm.PairwiseSGD(n_steps=50, scale=scale, random_state=0) for scale in ("none", "query-minmax")),
    structsvm.PairwiseSVM(),
    StructuralRanker(),
    SVMMap(),
    SVMNDCG(),
    structsvm.SVMRoc(),
    SVMMap(scale="query-zscore"),
]


@pytest.fixture
def said():
    """Return the warnings of the test so far."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        yield caught


def assert_once(said, place):
    """Assert that there is one warning of this package, which points at this file."""
    assert [w.category for w in said] == [SingleQueryWarning], [str(w.message) for w in said]
    assert str(said[0].message).startswith(f"{place}: expected qid")
    assert said[0].filename == __file__
    said.clear()


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_fit_and_score_warn_once(ranker, said):
    name = type(ranker).__name__
    model = sklearn.clone(ranker).fit(X, Y)
    assert_once(said, f"{name}.fit")
    without = model.score(X, Y)
    assert_once(said, f"{name}.score")
    one = sklearn.clone(ranker).fit(X, Y, qid=0)
    many = sklearn.clone(ranker).fit(X, Y, qid=np.zeros(48, int))
    assert one.score(X, Y, qid=0) == many.score(X, Y, qid=np.zeros(48, int)) == without
    np.testing.assert_array_equal(one.predict(X, qid=0), model.predict(X))
    rejected(r"expected qid, as in fit.*enable_metadata_routing=True", one.score, X, Y)
    sklearn.clone(ranker).fit(X, Y, qid=QID).score(X, Y, qid=QID)
    assert not said


def test_a_scaler_warns_once_where_it_takes_all_rows_as_one_query(said):
    one = structsvm.QueryScaler().fit_transform(X, qid=0)
    assert not said
    np.testing.assert_array_equal(structsvm.QueryScaler().fit_transform(X), one)
    assert_once(said, "QueryScaler.transform")
    scaler = structsvm.QueryScaler("percentile").fit(X)
    assert not said
    scaler.transform(X)
    assert_once(said, "QueryScaler.transform")
    scaler.transform(X, qid=QID)
    structsvm.QueryScaler(within="data").fit_transform(X)
    assert not said


def test_going_on_and_paths_warn_once(said):
    structsvm.PairwiseSGD(n_steps=50, random_state=0).partial_fit(X, Y)
    assert_once(said, "PairwiseSGD.fit")
    list(model_path(SVMMap(), X, Y, [0.1, 1.0]))
    assert_once(said, "SVMMap.fit")
    list(model_path(SVMMap(), X, Y, [0.1, 1.0], qid=1))
    assert not said


@pytest.mark.parametrize("column", ["qid", "query"])
@pytest.mark.parametrize("ids", [QID, QID.astype(str)], ids=["numbers", "text"])
def test_the_name_of_a_column_is_not_one_id_of_all_rows(column, ids, said):
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abc"))
    named = frame.assign(**{column: ids})
    models = [SVMMap(), structsvm.PairwiseSGD(n_steps=50), structsvm.LambdaRank(), structsvm.TreeRanker()]
    fitted = SVMMap().fit(frame, Y, qid=QID)
    calls = [
        *(lambda model=model: model.fit(named, Y, qid=column) for model in models),
        lambda: StructuralRankerCV(cv=2).fit(named, Y, qid=column),
        lambda: fitted.score(named, Y, qid=column),
        lambda: fitted.rank(named, column),
        lambda: evaluate("map", Y, X[:, 0], qid=column),
        lambda: make_scorer("map")(fitted, frame, Y, qid=column),
        lambda: permutation_importance(fitted, named, Y, qid=column),
        lambda: structsvm.LambdaRank().fit(frame, Y, qid=QID, validation=(named, Y, column)),
        lambda: next(structsvm.QueryKFold(2).split(named, qid=column)),
        lambda: structsvm.QueryScaler().fit_transform(frame, qid=column),
    ]
    for call in calls:
        refused(f"qid='{column}': expected the query of each row, got a string", call)
    assert not said


def test_unlabelled_rows_without_ids_beside_rows_with_ids(said):
    model = structsvm.CoRegularizedSGD(n_steps=50, random_state=0)
    model.fit(X, Y, qid=QID, X_unlabeled=X)
    assert_once(said, "CoRegularizedSGD.fit, qid_unlabeled")
    model.fit(X, Y, X_unlabeled=X)
    assert_once(said, "CoRegularizedSGD.fit")
    model.fit(X, Y, qid=QID, X_unlabeled=X, qid_unlabeled=QID)
    assert not said


def test_evaluate_warns_once(said):
    scores = X[:, 0]
    without = evaluate("ndcg@10", Y, scores).mean
    assert_once(said, "evaluate")
    assert evaluate("ndcg@10", Y, scores, qid=0).mean == without
    assert evaluate("ndcg@10", Y, scores, qid=QID).mean != without
    assert not said


def test_cross_validation_without_ids_warns(said):
    cross_val_score(SVMMap(), X, Y)
    GridSearchCV(SVMNDCG(), {"C": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert {w.category for w in said} == {SingleQueryWarning}
    places = [str(w.message).split(":")[0] for w in said]
    # five folds; two folds of two candidates and the refit on all rows
    assert {p: places.count(p) for p in places} == {
        "SVMMap.fit": 5,
        "SVMMap.score": 5,
        "SVMNDCG.fit": 5,
        "SVMNDCG.score": 4,
    }


def test_scorers_refuse(said):
    search = GridSearchCV(SVMMap(), {"C": [0.1]}, cv=2, scoring=make_scorer("map"), error_score="raise")
    rejected(r"expected qid .* pass its id: qid=0", search.fit, X, Y)


def test_one_id_is_routed_whole(said):
    """scikit-learn only splits arrays, so that a single id is passed unchanged to each part."""
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(SVMMap(), {"C": [0.1, 1.0]}, cv=2, scoring=make_scorer("map"))
        assert 0 < search.fit(X, Y, qid=0).best_score_ <= 1
    assert not said


def test_pyterrier_without_groups(said):
    """``form="regression"`` calls ``fit(X, y)``, with rows of all queries."""
    rejected("group: expected the number of documents of each query", PyTerrierRanker(SVMMap()).fit, X, Y)
    SVMMap().fit(X, Y)
    assert_once(said, "SVMMap.fit")
