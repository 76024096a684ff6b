"""LambdaRank: the estimator API, early stopping, warm start, scaling."""

import numpy as np
import pytest
from sklearn.base import clone

from structsvm import SVMNDCG, LambdaRank
from structsvm.readers import make_ranking
from tests.refusing import rejected


@pytest.fixture(scope="module")
def data():
    return make_ranking(40, 15, 4, noise=0.3, random_state=0)


def test_defaults_learn_from_few_queries():
    """With few queries, a pass consists of few steps."""
    data = make_ranking(230, 15, 30, noise=0.3, random_state=1)
    few, unseen = data.select(range(30)), data.select(range(30, 230))
    model = LambdaRank(random_state=0).fit(few.X, few.y, qid=few.qid)
    best = SVMNDCG(C=1).fit(few.X, few.y, qid=few.qid).score(unseen.X, unseen.y, qid=unseen.qid)
    assert model.score(unseen.X, unseen.y, qid=unseen.qid) > best - 0.03


def test_linear_coef_is_the_scorer(data):
    model = LambdaRank(max_epochs=3, random_state=0).fit(5 + 3 * data.X, data.y, qid=data.qid)
    difference = model.predict(data.X) - data.X @ model.coef_
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)
    net = LambdaRank(hidden=(2,), max_epochs=1, random_state=0).fit(data.X, data.y, qid=data.qid)
    assert not hasattr(net, "coef_")


def test_a_net_orders_what_no_linear_scorer_can():
    X = np.random.default_rng(0).normal(size=(1500, 2))
    y = np.clip(np.round(2 - 2 * np.abs(X[:, 0])), 0, 2)
    qid = np.repeat(np.arange(100), 15)
    options = {"learning_rate": 0.02, "max_epochs": 40, "random_state": 0}
    linear = LambdaRank(**options).fit(X, y, qid=qid).score(X, y, qid=qid)
    neural = LambdaRank(hidden=(8,), **options).fit(X, y, qid=qid).score(X, y, qid=qid)
    assert linear < 0.7
    assert neural > 0.9


def test_units_do_not_matter(data):
    one = LambdaRank(max_epochs=5, random_state=0).fit(data.X, data.y, qid=data.qid).predict(data.X)
    units = np.array([1e-6, 1e6, 1.0, 1e3])
    other = LambdaRank(max_epochs=5, random_state=0).fit(data.X * units + units, data.y, qid=data.qid)
    np.testing.assert_allclose(other.predict(data.X * units + units), one, rtol=1e-5, atol=1e-8)


def test_early_stopping_keeps_the_best(data):
    model = LambdaRank(early_stopping=True, n_iter_no_change=3, learning_rate=0.05, random_state=0)
    model.fit(data.X, data.y, qid=data.qid)
    values = [epoch.validation for epoch in model.fit_.history]
    assert model.fit_.best_epoch == np.argmax(values) + 1
    assert len(values) in (100, model.fit_.best_epoch + 3)
    held = make_ranking(20, 15, 4, noise=0.3, random_state=1)
    shuffled = np.random.default_rng(0).permutation(held.n_rows)
    watched = LambdaRank("map", learning_rate=0.05, max_epochs=20, random_state=0).fit(
        data.X, data.y, qid=data.qid, validation=(held.X[shuffled], held.y[shuffled], held.qid[shuffled])
    )
    assert watched.score(held.X, held.y, qid=held.qid) == pytest.approx(
        max(epoch.validation for epoch in watched.fit_.history)
    )
    with pytest.raises(ValueError, match="early_stopping: expected at least 2 queries"):
        LambdaRank(early_stopping=True).fit(data.X[:15], data.y[:15], qid=0)


def test_queries_held_out_are_not_trained_on(data):
    """A pass does not depend on the labels of the held-out quarter of the queries, but on those of the others."""
    model = LambdaRank(early_stopping=True, validation_fraction=0.25, max_epochs=1, random_state=0)
    X, y, qid = data.X[:300], data.y[:300], data.qid[:300]
    coef = clone(model).fit(X, y, qid=qid).coef_
    turned = [np.where(qid == q, y.max() - y, y) for q in range(20)]
    assert sum([(clone(model).fit(X, other, qid=qid).coef_ == coef).all() for other in turned]) == 5


def test_only_the_ratio_of_weights_counts(data):
    weights = np.where(data.qid < 20, 3.0, 1.0)
    one = LambdaRank(max_epochs=5, lam=0.1, random_state=0)
    scores = clone(one).fit(data.X, data.y, qid=data.qid, sample_weight=weights).predict(data.X)
    assert (scores != clone(one).fit(data.X, data.y, qid=data.qid).predict(data.X)).any()
    for unit in (1e-12, 1e12):
        other = clone(one).fit(data.X, data.y, qid=data.qid, sample_weight=weights * unit)
        np.testing.assert_allclose(other.predict(data.X), scores, rtol=1e-9)


def test_grades_whose_gains_overflow(data):
    with pytest.raises(ValueError, match=r"y: expected labels whose gains have a finite sum.* gain='linear'"):
        LambdaRank(max_epochs=1).fit(data.X, 1000 * data.y, qid=data.qid)
    with pytest.raises(ValueError, match="validation: y: expected labels whose gains"):
        LambdaRank(max_epochs=1).fit(
            data.X, data.y, qid=data.qid, validation=(data.X, 1000 * data.y, data.qid)
        )
    for options in ({"gain": "linear"}, {"utility": "map"}):
        model = LambdaRank(max_epochs=1, **options).fit(data.X, 1000 * data.y, qid=data.qid)
        assert np.isfinite(model.coef_).all()


def test_warm_start_keeps_the_net_and_the_scaling(data):
    model = LambdaRank(scale="query-minmax", max_epochs=2, warm_start=True, random_state=0)
    model.fit(data.X, data.y, qid=data.qid)
    weights, scaler = model.fit_.weights[0], model.scaler_
    model.set_params(scale="zscore", learning_rate=1e-12).fit(data.X[:40], data.y[:40], qid=data.qid[:40])
    assert (model.scaler_, model.training_data_["n_rows"]) == (scaler, 40)
    np.testing.assert_allclose(model.fit_.weights[0], weights, atol=1e-9)
    rejected(
        r"hidden=\(4,\): expected \(\), the network that warm_start continues",
        model.set_params(hidden=(4,)).fit,
        data.X,
        data.y,
        qid=data.qid,
    )


def test_warm_start_goes_on(data):
    model = LambdaRank("map", max_epochs=5, warm_start=True, random_state=0).fit(data.X, data.y, qid=data.qid)
    values = [model.fit_.history[-1].training]
    for _ in range(4):
        before = model.fit_.weights[0].copy()
        model.fit(data.X, data.y, qid=data.qid)
        values.append(model.fit_.history[-1].training)
        assert 0 < np.abs(model.fit_.weights[0] - before).max() < 0.2
    assert values[-1] > values[0]


def test_the_callback_ends_the_training(data):
    seen = []
    model = LambdaRank(
        max_epochs=9, random_state=0, callback=lambda epoch: seen.append(epoch) or epoch.number == 4
    )
    model.fit(data.X, data.y, qid=data.qid)
    assert [epoch.number for epoch in seen] == [1, 2, 3, 4]
