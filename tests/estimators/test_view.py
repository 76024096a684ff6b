"""The regressor view of a ranker: scikit-learn's tools get the ranker's scores, and the ranker is unchanged."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.inspection import partial_dependence

from structsvm import LambdaRank, PairwiseSGD, SVMMap
from structsvm.estimators import as_regressor
from structsvm.readers import make_ranking
from tests.refusing import rejected

DATA = make_ranking(12, 10, 3, grades=3, random_state=0)
NAMES = ["bm25", "age", "clicks"]


def fitted(model):
    return model.fit(DATA.X, DATA.y, qid=DATA.qid)


def test_partial_dependence_is_the_mean_score_with_the_feature_set():
    model = fitted(LambdaRank(hidden=(4,), max_epochs=3, random_state=0))
    found = partial_dependence(as_regressor(model), DATA.X, [1], grid_resolution=5, kind="both")
    for k, value in enumerate(found["grid_values"][0]):
        changed = DATA.X.copy()
        changed[:, 1] = value
        scores = model.predict(changed)
        np.testing.assert_allclose(found["individual"][0, :, k], scores, rtol=1e-12)
        np.testing.assert_allclose(found["average"][0, k], scores.mean(), rtol=1e-9, atol=1e-12)


def test_displays_of_scikit_learn_draw_it():
    pytest.importorskip("matplotlib", reason="matplotlib draws the displays")
    from matplotlib.figure import Figure
    from sklearn.inspection import DecisionBoundaryDisplay, PartialDependenceDisplay

    X = pd.DataFrame(DATA.X, columns=NAMES)
    display = PartialDependenceDisplay.from_estimator(
        as_regressor(SVMMap(C=10).fit(X, DATA.y, qid=DATA.qid)), X, ["age"], ax=Figure().subplots()
    )
    assert display.axes_[0, 0].get_xlabel() == "age"

    plane = SVMMap(C=10).fit(DATA.X[:, :2], DATA.y, qid=DATA.qid)
    surface = DecisionBoundaryDisplay.from_estimator(
        as_regressor(plane), DATA.X[:, :2], ax=Figure().subplots(), grid_resolution=4
    )
    seen = np.column_stack([surface.xx0.ravel(), surface.xx1.ravel()])
    np.testing.assert_allclose(surface.response.ravel(), plane.predict(seen))


def test_the_ranker_itself_claims_to_be_neither_regressor_nor_classifier():
    model = fitted(SVMMap())
    before = model.__sklearn_tags__()
    assert is_regressor(as_regressor(model))
    assert not is_regressor(model)
    assert not is_classifier(model)
    assert model.__sklearn_tags__() == before


def test_a_view_is_not_trained_and_has_no_score():
    view = as_regressor(fitted(SVMMap()))
    with pytest.raises(TypeError, match=r"as_regressor: expected no call of fit, .*; fit the ranker itself"):
        view.fit(DATA.X, DATA.y)
    with pytest.raises(TypeError, match=r"as_regressor: .*; call ranker\.score"):
        view.score(DATA.X, DATA.y)
    with pytest.raises(NotFittedError):
        clone(view).predict(DATA.X)


def test_what_has_no_score_of_its_own_for_a_row_is_refused():
    with pytest.raises(NotFittedError):
        as_regressor(SVMMap())
    for model in (SVMMap(scale="query-zscore"), PairwiseSGD(scale="query-minmax", random_state=0)):
        rejected(
            r"ranker: expected scores of single rows, .*; train with scale=", as_regressor, fitted(model)
        )
