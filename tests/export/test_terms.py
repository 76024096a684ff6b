"""Contributions of features to the difference of two scores."""

from itertools import permutations

import numpy as np
import pytest

from structsvm import SVMMap, TreeRanker
from structsvm.export import score_difference
from tests.export.test_checking import random_trees

pytestmark = [pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")]


def shapley(model, a, b):
    """Return Shapley values by enumeration: means over all orders in which values of ``b`` become those of ``a``."""
    total, orders = np.zeros(len(a)), list(permutations(range(len(a))))
    for order in orders:
        row = b.copy()
        before = model.predict(row[None])[0]
        for j in order:
            row[j] = a[j]
            after = model.predict(row[None])[0]
            total[j] += after - before
            before = after
    return total / len(orders)


@pytest.mark.filterwarnings("ignore:X. missing values")
@pytest.mark.parametrize("seed", range(5))
def test_trees_have_shapley_values(seed):
    model, X = random_trees(np.random.default_rng(seed))
    a, b = X[0], X[7]
    terms = dict(score_difference(model, X, 0, 7))
    expected = shapley(model, a, b)
    scale = np.abs(model.coef_).max()
    assert [terms[f"feature_{j + 1}"] for j in range(4)] == pytest.approx(expected, abs=1e-12 * scale)
    assert sum(terms.values()) == pytest.approx(np.diff(model.predict(X[[7, 0]]))[0], abs=1e-12 * scale)


def test_terms_of_a_linear_model_add_up():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    model = SVMMap(C=1.0, scale="zscore").fit(X, y, qid=np.arange(40) // 10)
    terms = score_difference(model, X, 0, 1)
    assert sum(value for _, value in terms) == pytest.approx(np.diff(model.predict(X[[1, 0]]))[0])
    assert [abs(value) for _, value in terms] == sorted((abs(value) for _, value in terms), reverse=True)
    for scale in ("query-minmax", "query-zscore", "query-percentile"):
        model = SVMMap(C=1.0, scale=scale).fit(X, y, qid=np.arange(40) // 10)
        scores, terms = model.predict(X[:10], qid=np.zeros(10)), score_difference(model, X[:10], 3, 7)
        assert sum(value for _, value in terms) == pytest.approx(scores[3] - scores[7])


def test_trees_with_categories():
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 5, 300).astype(float), rng.normal(size=300)], axis=1)
    y = (np.isin(X[:, 0], [1, 3]) & (X[:, 1] > 0)).astype(int)
    model = TreeRanker(n_trees=3, n_leaves=4, categorical_features=[0], min_rows=5, random_state=0)
    model.fit(X, y, qid=np.arange(300) // 10)
    for i, j in ((0, 1), (2, 3), (4, 5)):
        terms = dict(score_difference(model, X, i, j))
        assert [terms["feature_1"], terms["feature_2"]] == pytest.approx(
            shapley(model, X[i], X[j]), abs=1e-10
        )
