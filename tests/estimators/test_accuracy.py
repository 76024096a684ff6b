"""AccuracySVM: its objective, its parts combined by hand, and the effect of each variant."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from structsvm import AccuracySVM, QueryScaler
from structsvm.metrics import evaluate
from structsvm.readers import make_ranking
from tests.refusing import rejected

pytestmark = pytest.mark.filterwarnings("ignore:AccuracySVM")  # few documents are relevant, and C is small

DATA = make_ranking(20, 15, 4, noise=0.5, grades=3, random_state=0)
RELEVANT = np.where(DATA.y >= 2, 1.0, -1.0)


def objective(model, X, C, importance):
    margins = RELEVANT * (X @ model.coef_ + model.intercept_)
    penalty = 0.5 * (model.coef_ @ model.coef_ + model.intercept_**2)
    return penalty + C * importance @ np.maximum(0.0, 1.0 - margins) / len(RELEVANT)


def optimum(X, C, importance):
    """Solve the dual, a quadratic programme over a box, with a general solver; return its value."""
    Z = RELEVANT[:, None] * np.column_stack((X, np.ones(len(X))))
    cap = C * importance / len(X)

    def negative(alpha):
        w = Z.T @ alpha
        return 0.5 * w @ w - alpha.sum(), Z @ w - 1.0

    result = minimize(
        negative,
        cap / 2,
        jac=True,
        bounds=[(0, c) for c in cap],
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-14, "gtol": 1e-9},
    )
    return -result.fun


@pytest.mark.parametrize("variant", ["acc", "acc2", "acc3", "acc4"])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_reaches_the_optimum_of_the_stated_objective(variant, C):
    X = DATA.X
    if variant in ("acc3", "acc4"):
        X = QueryScaler({"acc3": "percentile", "acc4": "minmax"}[variant]).fit_transform(X, qid=DATA.qid)
        means = X.mean(axis=0)
        X = X - means
    importance = np.ones(len(X))
    if variant == "acc2":
        importance[RELEVANT > 0] = (RELEVANT < 0).sum() / (RELEVANT > 0).sum()
    model = AccuracySVM(variant, C=C, relevance=2).fit(DATA.X, DATA.y, qid=DATA.qid)
    centred = copy(model)
    if variant in ("acc3", "acc4"):  # b is that of features that are not centred
        centred.intercept_ = model.intercept_ + float(model.coef_ @ means)
    value = objective(centred, X, C, importance)
    lower = optimum(X, C, importance)
    assert lower <= value * (1 + 1e-12)
    assert value == pytest.approx(lower, rel=1e-4)
    scores = model.predict(DATA.X, qid=DATA.qid)
    assert scores == pytest.approx(X @ model.coef_ + centred.intercept_, abs=1e-12)


def test_labels_of_one_class_are_refused():
    rejected("labels of relevant", AccuracySVM(relevance=9).fit, DATA.X, DATA.y, qid=0)


def one_relevant_of_fifteen():
    """Return data in which the only relevant document of each query is the best one, up to noise."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(1350, 8)), np.repeat(np.arange(90), 15)
    gains = X @ [1.0, -1, 0.5, 0.3, 0, 0, 0, 0] + 1.2 * rng.normal(size=1350)
    y = np.zeros((90, 15))
    y[np.arange(90), gains.reshape(90, 15).argmax(axis=1)] = 1
    return X, y.ravel(), qid, qid < 45


@pytest.mark.parametrize("variant", ["acc3", "acc4"])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_few_relevant_documents_do_not_mean_chance(variant, C):
    X, y, qid, train = one_relevant_of_fifteen()
    model = AccuracySVM(variant, C=C)
    with pytest.warns(UserWarning, match=f"variant='{variant}' and C={C} no training document is pred"):
        model.fit(X[train], y[train], qid=qid[train])
    chance = evaluate("map", y, np.random.default_rng(1).random(1350), qid=qid).mean
    assert model.score(X[~train], y[~train], qid=qid[~train]) > chance + 0.2


def test_accuracy_svm_does_not_warn_if_it_predicts_some_relevant():
    X, y, qid, _ = one_relevant_of_fifteen()
    with warnings.catch_warnings(action="error"):
        assert (AccuracySVM("acc2").fit(X, y, qid=qid).predict(X) > 0).any()


def test_sparse_rows_with_wide_indices():
    """LIBLINEAR takes 32-bit indices; larger files are read with 64-bit ones."""
    narrow = sparse.csr_matrix(np.where(np.abs(DATA.X) < 0.5, 0, DATA.X))
    wide = narrow.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    coefs = [AccuracySVM().fit(X, DATA.y, qid=DATA.qid).coef_ for X in (narrow, wide)]
    assert (coefs[0] == coefs[1]).all()
    assert wide.indices.dtype == np.int64


def test_threads_do_not_disturb_each_other():
    data = make_ranking(60, 30, 10, noise=0.5, random_state=0)

    def coef(_):
        return AccuracySVM("acc2", C=100).fit(data.X, data.y, qid=data.qid).coef_

    alone = coef(0)
    # without turns about a quarter of the fits differ in the fourth digit
    with ThreadPoolExecutor(4) as pool:
        assert all((w == alone).all() for w in pool.map(coef, range(32)))
