"""Signs, constraints and penalties of the weights: by name and column, in every estimator that takes them."""

import pickle

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import structsvm
from structsvm import SVMNDCG, StructuralRanker, StructuralRankerCV, SVMMap, SVMRoc, TreeRanker
from structsvm.clicks import ClickSVM, ClickSVMCV
from structsvm.estimators.structural import model_path
from structsvm.estimators.weight_constraints import numbered_signs
from tests.refusing import rejected, rejections

NAMES = ["title", "body", "anchor", "length"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4))
QID = np.repeat(np.arange(40), 15)
Y = (X @ [0.5, 1.0, 0.3, -0.6] + 0.7 * RNG.normal(size=600) > 1).astype(float)
FRAME = pd.DataFrame(X, columns=NAMES)


def title_first(w):
    return [w["title"] >= w["body"]]


def few(w):
    return cp.norm1(w)


@pytest.mark.parametrize("make", [StructuralRanker, SVMMap, SVMRoc, SVMNDCG])
def test_signs_by_name_column_and_place(make):
    by_name = make(C=10, monotone_constraints={"title": -1, "length": 1}).fit(FRAME, Y, qid=QID)
    by_column = make(C=10, monotone_constraints={0: -1, 3: 1}).fit(X, Y, qid=QID)
    by_place = make(C=10, monotone_constraints=[-1, 0, 0, 1]).fit(X, Y, qid=QID)
    array = make(C=10, monotone_constraints=np.array([-1, 0, 0, 1])).fit(X, Y, qid=QID)
    for model in (by_name, by_column, by_place, array):
        assert model.coef_[0] <= 0 <= model.coef_[3]
        np.testing.assert_array_equal(model.coef_, by_name.coef_)
    free = make(C=10).fit(X, Y, qid=QID)
    assert free.coef_[0] > 0 > free.coef_[3]
    assert by_name.fit_.primal > free.fit_.primal


def test_a_series_of_signs_is_matched_by_label():
    signs = {"length": 1, "title": 0, "body": -1, "anchor": 1}
    expected = SVMMap(C=10, monotone_constraints=signs).fit(FRAME, Y, qid=QID)
    series = SVMMap(C=10, monotone_constraints=pd.Series(signs)).fit(FRAME, Y, qid=QID)
    np.testing.assert_array_equal(series.coef_, expected.coef_)
    by_place = SVMMap(C=10, monotone_constraints=pd.Series([0, -1, 1, 1])).fit(FRAME, Y, qid=QID)
    np.testing.assert_array_equal(by_place.coef_, expected.coef_)
    twice = pd.Series([1, -1], index=["title", "title"])
    for bad, message in ((pd.Series({"titel": 1}), "no such feature"), (twice, "expected each feature once")):
        rejected(message, SVMMap(monotone_constraints=bad).fit, FRAME, Y, qid=QID)


def test_one_feature_has_one_sign():
    with pytest.raises(ValueError, match=r"monotone_constraints\[0\]: this feature already has a sign"):
        SVMMap(monotone_constraints={"title": 1, 0: -1}).fit(FRAME, Y, qid=QID)
    with pytest.raises(ValueError, match=r"monotone_constraints\['title'\]: this feature already has a sign"):
        numbered_signs({"1": 1, "title": -1}, 4, NAMES)


def test_numbers_of_columns_that_have_numbers_of_their_own_are_refused(tmp_path):
    letor = FRAME.set_axis([1, 2, 3, 4], axis=1)
    for options, place in (
        ({"monotone_constraints": {1: 1}}, r"monotone_constraints\[1\]"),
        ({"monotone_constraints": pd.Series({1: 1})}, r"monotone_constraints\[1\]"),
        ({"constraints": lambda w: [w[1] >= 0]}, r"constraints\[1\]"),
        ({"constraints": lambda w: [w[[2, 3]] >= 0]}, r"constraints\[2\]"),
        ({"penalty": lambda w: cp.abs(w[1])}, r"penalty\[1\]"),
    ):
        for model in (SVMMap(**options), StructuralRankerCV(Cs=[1.0], cv=2, **options)):
            rejected(
                f"^{place}: the columns of X are called 1, 2, 3, 4, so that", model.fit, letor, Y, qid=QID
            )
    tree = TreeRanker(n_trees=2, categorical_features=[1])
    rejected(
        r"^categorical_features\[1\]: the columns of X are called 1, 2, 3, 4", tree.fit, letor, Y, qid=QID
    )
    for options in (
        {"monotone_constraints": [0, 1, 0, -1]},
        {"constraints": lambda w: [cp.sum(w[1:3]) >= 0]},
    ):
        a, b = (SVMMap(C=10, **options).fit(rows, Y, qid=QID) for rows in (letor, X))
        np.testing.assert_array_equal(a.coef_, b.coef_)
    a.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(structsvm.load(tmp_path / "model.npz").coef_, a.coef_)
    b = SVMMap(C=10, monotone_constraints={1: -1}).fit(FRAME.set_axis(range(4), axis=1), Y, qid=QID)
    assert b.coef_[1] == 0


def test_names_as_an_array_or_an_index():
    expected = SVMMap(C=10, constraints=lambda w: [w[["anchor", "length"]] >= 0]).fit(FRAME, Y, qid=QID)
    for names in (np.array(["anchor", "length"]), FRAME.columns[2:], ("anchor", "length")):
        model = SVMMap(C=10, constraints=lambda w, n=names: [w[n] >= 0]).fit(FRAME, Y, qid=QID)
        np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_positive_is_a_sign_for_each():
    a = SVMRoc(C=10, positive=True).fit(X, Y, qid=QID)
    b = SVMRoc(C=10, monotone_constraints=[1] * 4).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_an_order_of_weights():
    free = SVMMap(C=10).fit(FRAME, Y, qid=QID)
    assert free.coef_[0] < free.coef_[1]
    model = SVMMap(C=10, constraints=title_first, tol=1e-5).fit(FRAME, Y, qid=QID)
    assert model.coef_[0] >= model.coef_[1] - 1e-12
    assert model.coef_[0] == pytest.approx(model.coef_[1], rel=1e-4)
    assert model.constraints_ == ("w['body'] <= w['title']",)
    assert model.fit_.gap <= 1e-5
    assert model.fit_.solver == "one_slack"


def test_constraints_penalty_and_signs_at_once():
    model = SVMMap(
        C=10,
        monotone_constraints={"anchor": -1},
        constraints=lambda w: [cp.sum(w) == 1],
        penalty=few,
        scale="query-zscore",
    ).fit(FRAME, Y, qid=QID)
    assert model.coef_[2] == 0
    assert model.coef_.sum() == pytest.approx(1, abs=1e-12)
    assert model.penalty_ == "norm1(w)"


def test_exposure_of_a_group_as_a_linear_bound():
    """Mean scores of two groups of documents may differ by a bound: their difference is linear in the weights."""
    new = (X[:, 1] + 0.5 * RNG.normal(size=600) > 0.5).astype(float)  # a group that the features tell of
    difference = X[new == 1].mean(axis=0) - X[new == 0].mean(axis=0)
    free = SVMMap(C=10).fit(X, Y, qid=QID)
    fair = SVMMap(C=10, constraints=lambda w: [cp.abs(difference @ w) <= 0.1]).fit(X, Y, qid=QID)
    scores = fair.predict(X)
    assert abs(difference @ free.coef_) > 0.5
    assert abs(scores[new == 1].mean() - scores[new == 0].mean()) <= 0.1 + 1e-9


def test_the_grid_of_C_and_paths():
    model = StructuralRankerCV(
        Cs=[1.0, 10.0], cv=3, constraints=title_first, monotone_constraints={"length": 1}
    )
    model.fit(FRAME, Y, qid=QID)
    assert model.coef_[0] >= model.coef_[1] - 1e-12
    assert model.coef_[3] >= 0
    assert model.constraints_
    path = list(model_path(SVMMap(penalty=few), FRAME, Y, [0.5, 50.0], qid=QID))
    assert [one.penalty_ for one in path] == ["norm1(w)"] * 2
    assert np.count_nonzero(path[0].coef_) <= np.count_nonzero(path[1].coef_)


@pytest.mark.parametrize("make", [ClickSVM, ClickSVMCV])
def test_click_svm_takes_them(make):
    options = {"Cs": [10.0]} if make is ClickSVMCV else {"C": 10.0}
    model = make(**options, monotone_constraints=[-1, 0, 0, 0]).fit(X, Y, qid=QID)
    assert model.coef_[0] == 0
    model = make(**options, constraints=lambda w: [w[0] <= 0.01]).fit(X, Y, qid=QID)
    assert model.coef_[0] <= 0.01


def test_functions_are_parameters_like_others(tmp_path):
    model = SVMMap(C=10, constraints=title_first, penalty=few, monotone_constraints={"anchor": 1})
    assert model.get_params()["constraints"] is title_first
    assert clone(model).get_params() == model.get_params()
    model.fit(FRAME, Y, qid=QID)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.constraints is title_first
    np.testing.assert_array_equal(copy.predict(FRAME), model.predict(FRAME))
    model.save(tmp_path / "model.npz")
    loaded = structsvm.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    assert loaded.constraints is None
    assert loaded.penalty is None
    assert loaded.monotone_constraints == {"anchor": 1}
    assert list(loaded.constraints_) == list(model.constraints_)
    assert loaded.penalty_ == model.penalty_
    by_column = SVMMap(C=10, monotone_constraints={2: -1, 0: 1}).fit(X, Y, qid=QID)
    by_column.save(tmp_path / "columns.npz")
    assert structsvm.load(tmp_path / "columns.npz").monotone_constraints == {2: -1, 0: 1}
    listed = SVMMap(C=10, monotone_constraints=[0, 1, 0, -1]).fit(X, Y, qid=QID)
    listed.save(tmp_path / "list.npz")
    assert structsvm.load(tmp_path / "list.npz").monotone_constraints == [0, 1, 0, -1]


def signs(given, **options):
    return {"monotone_constraints": given, **options}


test_bad_input_is_named = rejections(
    lambda options: SVMMap(**options).fit(FRAME, Y, qid=QID),
    (signs([1, 2, 0, 0]), r"monotone_constraints\[1\]: expected -1, 0 or 1, got 2"),
    (signs([1, True, 0, 0]), r"monotone_constraints\[1\]: expected -1, 0 or 1, got True"),
    (signs("+"), r"monotone_constraints='\+': expected -1, 0 or 1 for each feature"),
    (signs(1), "monotone_constraints=1: expected -1, 0 or 1 for each feature"),
    (signs([1, 0]), "expected one sign for each of 4 features, got 2"),
    (signs({"titel": 1}), r"monotone_constraints\['titel'\]: no such feature; did you mean"),
    (signs({4: 1}), r"monotone_constraints\[4\]: expected a name or a column from 0 to 3"),
    (signs({1.5: 1}), r"monotone_constraints\[1.5\]: expected a name or a column"),
    (signs([1] * 4, positive=True), "expected no signs, as all weights are constrained to be >= 0"),
    ({"constraints": [1]}, r"constraints=\[1\]: expected a function of the cvxpy variable w"),
    (
        {"penalty": few, "solver": "frank_wolfe"},
        "solver='frank_wolfe': expected .*supports convex constraints and penalties; use solver='one_slack'",
    ),
    (
        {"constraints": lambda w: [w["title"] <= -1], "positive": True},
        "<= -1.0.* and 'positive=True' together",
    ),
)


def test_names_need_a_frame():
    with pytest.raises(ValueError, match="the features have no names; pass X as a data frame"):
        SVMMap(monotone_constraints={"title": 1}).fit(X, Y, qid=QID)
