"""Folds of whole queries, queries that other folds cut, and ids that reach the steps of a pipeline."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

from structsvm import PairwiseSGD, QueryKFold, QueryScaler, StructuralRankerCV, SVMMap, SVMRoc, TreeRanker
from structsvm.common.checks import BadInput
from structsvm.metrics import evaluate, make_scorer
from structsvm.readers import make_ranking
from tests.refusing import rejected

DATA = make_ranking(30, 10, 4, grades=2, noise=1.0, random_state=0)


pytestmark = pytest.mark.usefixtures("routing")


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("ids", ["as they stand", "rows apart", "text"])
def test_each_query_is_in_one_test_part_and_whole(shuffle, ids):
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(17), rng.integers(1, 9, 17))
    if ids != "as they stand":
        qid = rng.permutation(qid)
    if ids == "text":
        qid = np.char.add("q", qid.astype(str))
    X = np.zeros((len(qid), 2))
    parts = list(QueryKFold(4, shuffle=shuffle, random_state=0 if shuffle else None).split(X, qid=qid))
    assert len(parts) == QueryKFold(4).get_n_splits(X, None, qid=qid) == 4
    assert (np.sort(np.concatenate([test for _, test in parts])) == np.arange(len(qid))).all()
    for train, test in parts:
        assert not set(qid[train]) & set(qid[test])
        assert (np.sort(np.concatenate([train, test])) == np.arange(len(qid))).all()
        assert len(set(qid[test])) in (4, 5)
    first = next(iter(QueryKFold(4).split(X, qid=qid)))[1]
    assert (next(iter(QueryKFold(4).split(X, None, qid)))[1] == first).all()
    assert np.array_equal(parts[0][1], first) != shuffle
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(qid=qid)
    assert (next(QueryKFold(4).split(frame))[1] == first).all()


def test_query_folds_equal_those_of_the_cv_ranker():
    model = StructuralRankerCV("map", Cs=[1.0], cv=3).fit(DATA.X, DATA.y, qid=DATA.qid)
    scores = cross_val_score(SVMMap(C=1.0), DATA.X, DATA.y, cv=QueryKFold(3), params={"qid": DATA.qid})
    np.testing.assert_allclose(scores, model.scores_[:, 0].reshape(3, 10).mean(axis=1), rtol=1e-12)


def test_refusals():
    rejected(
        r"qid: expected the query of each row, got none; call sklearn\.set_config",
        next,
        QueryKFold(3).split(DATA.X),
    )
    rejected("n_splits=31: expected 2 to 30, one per query", next, QueryKFold(31).split(DATA.X, qid=DATA.qid))
    assert len(list(QueryKFold(30).split(DATA.X, qid=DATA.qid))) == 30
    rejected("n_splits=1: expected an integer", QueryKFold, 1)
    with pytest.raises(BadInput, match=r"random_state=3: expected None, .* not shuffled; pass shuffle=True"):
        QueryKFold(5, random_state=3)


@pytest.mark.parametrize(
    "model",
    [
        SVMMap(),
        TreeRanker(n_trees=2, n_leaves=3),
        PairwiseSGD(n_steps=50),
        make_pipeline(QueryScaler("zscore"), SVMRoc()),
    ],
    ids=["SVMMap", "TreeRanker", "PairwiseSGD", "pipeline"],
)
@pytest.mark.parametrize("scoring", [None, "map"])
def test_folds_that_cut_queries_are_noticed(model, scoring):
    options = {"params": {"qid": DATA.qid}, "scoring": None if scoring is None else make_scorer(scoring)}
    with pytest.warns(
        UserWarning, match=r"\d+ of \d+ queries of a test part, .* scores do not refer to whole"
    ):
        cross_val_score(model, DATA.X, DATA.y, cv=KFold(3, shuffle=True, random_state=0), **options)
    # warnings are errors here
    cross_validate(model, DATA.X, DATA.y, cv=QueryKFold(3), return_train_score=True, **options)


def test_the_same_ids_in_other_data_are_no_cut():
    model = SVMMap().fit(DATA.X[:200], DATA.y[:200], qid=DATA.qid[:200])
    model.score(DATA.X[:150], DATA.y[:150], qid=DATA.qid[:150])


@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
def test_ids_reach_the_steps_of_a_pipeline():
    pipeline = make_pipeline(QueryScaler("minmax"), SVMMap())
    scores = cross_val_score(
        pipeline,
        DATA.X,
        DATA.y,
        cv=QueryKFold(3),
        scoring=make_scorer("map"),
        params={"qid": DATA.qid},
        error_score="raise",
    )
    direct = cross_val_score(
        SVMMap(scale="query-minmax"), DATA.X, DATA.y, cv=QueryKFold(3), params={"qid": DATA.qid}
    )
    np.testing.assert_allclose(scores, direct, rtol=1e-9)
    search = GridSearchCV(
        pipeline,
        {"svmmap__C": [0.01, 1.0]},
        cv=QueryKFold(3),
        scoring=make_scorer("ndcg@5"),
        error_score="raise",
    ).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    plain = make_pipeline(QueryScaler("minmax"), Ridge()).fit(DATA.X, DATA.y, qid=DATA.qid)
    scaled = QueryScaler("minmax").fit_transform(DATA.X, qid=DATA.qid)
    expected = evaluate("map", DATA.y, Ridge().fit(scaled, DATA.y).predict(scaled), qid=DATA.qid).mean
    assert make_scorer("map")(plain, DATA.X, DATA.y, qid=DATA.qid) == pytest.approx(expected)
    with sklearn.config_context(enable_metadata_routing=False):
        last = make_pipeline(SVMMap(scale="query-minmax")).fit(DATA.X, DATA.y, svmmap__qid=DATA.qid)
        assert make_scorer("map")(last, DATA.X, DATA.y, qid=DATA.qid) > 0.5


@pytest.mark.parametrize("scale", ["minmax", "zscore"])
def test_each_fold_is_scaled_by_its_training_part(scale):
    """An outlier in a test part does not change the model evaluated there."""
    X = DATA.X * [1, 10, 100, 1] + 3
    X[7, 0], X[155, 2] = 1e4, -1e5
    model = StructuralRankerCV("map", Cs=[0.1, 1.0], cv=3, scale=scale, tol=1e-6).fit(X, DATA.y, qid=DATA.qid)
    for j, C in enumerate(model.Cs_):
        scores = cross_val_score(
            SVMMap(C=C, scale=scale, tol=1e-6), X, DATA.y, cv=QueryKFold(3), params={"qid": DATA.qid}
        )
        np.testing.assert_allclose(model.scores_[:, j].reshape(3, 10).mean(axis=1), scores, atol=6e-3)
