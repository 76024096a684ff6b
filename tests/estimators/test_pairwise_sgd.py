"""PairwiseSGD: the estimator API, resuming, early stopping, memory maps."""

import pickle

import numpy as np
import pytest

from structsvm import PairwiseSGD, QueryScaler, load
from structsvm.estimators import pairwise_sgd
from structsvm.readers import make_ranking
from structsvm.trainers import pairwise_descent
from tests.refusing import rejected


@pytest.fixture(scope="module")
def data():
    return make_ranking(40, 15, 4, noise=0.3, random_state=0)


def test_fit_then_partial_fit_is_one_long_fit(data):
    long = PairwiseSGD(n_steps=3000, random_state=1).fit(data.X, data.y, qid=data.qid)
    short = PairwiseSGD(n_steps=1000, random_state=1).fit(data.X, data.y, qid=data.qid)
    short.partial_fit(data.X, data.y, qid=data.qid).partial_fit(data.X, data.y, qid=data.qid, n_steps=1000)
    assert (long.coef_ == short.coef_).all()
    only = PairwiseSGD(random_state=1)
    for _ in range(3):
        only.partial_fit(data.X, data.y, qid=data.qid, n_steps=1000)
    assert (only.coef_ == long.coef_).all()


def test_partial_fit_takes_batches_without_pairs(data):
    model = PairwiseSGD(n_steps=100, random_state=1).fit(data.X, data.y, qid=data.qid)
    before = model.coef_.copy()
    model.partial_fit(data.X[:3], np.ones(3), qid=0)
    assert (model.coef_ == before).all()
    assert model.fit_.t == 100


def test_a_refused_first_batch_leaves_nothing_behind(data):
    model = PairwiseSGD(n_steps=100, scale="zscore", random_state=1)
    with pytest.raises(ValueError, match="no query carries a constraint"):
        model.partial_fit(1000 * data.X, np.ones(data.n_rows), qid=data.qid)
    model.partial_fit(data.X, data.y, qid=data.qid)
    fresh = PairwiseSGD(n_steps=100, scale="zscore", random_state=1).partial_fit(data.X, data.y, qid=data.qid)
    assert (model.coef_ == fresh.coef_).all()
    rejected("no query carries a constraint", model.fit, 1000 * data.X, np.ones(data.n_rows), qid=data.qid)
    for one in (model, fresh):
        one.partial_fit(data.X, data.y, qid=data.qid)
    assert (model.coef_ == fresh.coef_).all()


def test_long_training_can_be_interrupted(data, monkeypatch):
    """Training returns from compiled code at intervals; an interrupted fit leaves the fitted model unchanged."""
    long = PairwiseSGD(n_steps=1000, random_state=1).fit(data.X, data.y, qid=data.qid)
    monkeypatch.setattr(pairwise_sgd, "_PIECE", 300)
    pieces = PairwiseSGD(n_steps=1000, random_state=1).fit(data.X, data.y, qid=data.qid)
    assert (pieces.coef_ == long.coef_).all()
    descend, calls = pairwise_descent.descend, []

    def interrupted(*args, **options):
        calls.append(args[5])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return descend(*args, **options)

    monkeypatch.setattr(pairwise_descent, "descend", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pieces.partial_fit(data.X, data.y, qid=data.qid)
    assert calls == [300, 300, 300]
    assert pieces.fit_.t == 1000


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize(("unit", "lam"), [(1e-12, 1e2), (1e-30, 1e-4), (1.0, 1e20)])
def test_a_penalty_that_is_huge_beside_the_features(data, loss, unit, lam):
    """The first step shrinks the weights by a factor that rounds to 0."""
    model = PairwiseSGD(loss, lam, n_steps=1000, random_state=0).fit(data.X * unit, data.y, qid=data.qid)
    assert np.isfinite(model.coef_).all()
    assert model.coef_.any()
    # lam ||w|| <= mean ||p||, the steepest the hinge is: the shortest steps lead to the short weights
    if loss == "hinge":
        longest = 2 * unit * np.linalg.norm(data.X, axis=1).max()
        assert np.linalg.norm(model.coef_) <= longest / lam


def test_scaling_of_the_first_batch_is_kept(data):
    half = data.n_rows // 2
    model = PairwiseSGD(scale="zscore", n_steps=500, random_state=0)
    model.partial_fit(data.X[:half], data.y[:half], qid=data.qid[:half])
    shift = model.scaler_.shift_.copy()
    model.partial_fit(100 * data.X[half:], data.y[half:], qid=data.qid[half:])
    assert (model.scaler_.shift_ == shift).all()
    assert np.isfinite(model.coef_).all()


def test_the_scaling_is_fitted_on_rows_with_their_own_ids(data, monkeypatch):
    seen = []
    fit = QueryScaler.fit
    monkeypatch.setattr(
        QueryScaler,
        "fit",
        lambda self, X, y=None, *, qid=None: seen.append((X, qid)) or fit(self, X, qid=qid),
    )
    mixed = np.random.default_rng(0).permutation(data.n_rows)
    X = np.column_stack([data.X, data.qid])[mixed]  # the last feature says whose row it is
    for qid in (data.qid[mixed].tolist(), data.qid[mixed]):
        PairwiseSGD(scale="query-minmax", n_steps=10, random_state=0).fit(X, data.y[mixed], qid=qid)
        rows, ids = seen.pop()
        np.testing.assert_array_equal(rows[:, -1], ids)


def test_early_stopping(data):
    stopped = PairwiseSGD(early_stopping=True, n_iter_no_change=2, random_state=0).fit(
        data.X, data.y, qid=data.qid
    )
    values = [value for _, value in stopped.history_]
    assert stopped.fit_.t == stopped.history_[int(np.argmax(values))][0]
    assert len(values) == np.argmax(values) + 1 + 2
    held = make_ranking(20, 15, 4, noise=0.3, random_state=1)
    watched = PairwiseSGD(random_state=0).fit(
        data.X, data.y, qid=data.qid, validation=(held.X, held.y, held.qid)
    )
    assert watched.score(held.X, held.y, qid=held.qid) == pytest.approx(
        max(value for _, value in watched.history_)
    )
    with pytest.raises(ValueError, match="early_stopping: expected at least 2 queries"):
        PairwiseSGD(early_stopping=True).fit(data.X[:15], data.y[:15], qid=0)


def test_does_not_stop_by_a_measure_that_cannot_rise(data):
    """Grades of 1 and more are all relevant, so that every ranking has MAP 1 and the first check would be the best."""
    ratings = data.y + 1
    with pytest.raises(ValueError, match="expected at least 2 queries whose ranking changes the measure"):
        PairwiseSGD(early_stopping=True, random_state=0).fit(data.X, ratings, qid=data.qid)
    model = PairwiseSGD(early_stopping=True, measure="ndcg", n_steps=2000, random_state=0)
    assert len(model.fit(data.X, ratings, qid=data.qid).history_) > 1
    with pytest.raises(ValueError, match="validation: expected a query whose ranking changes measure='map'"):
        PairwiseSGD(random_state=0).fit(data.X, data.y, qid=data.qid, validation=(data.X, ratings, data.qid))


def test_saves_and_goes_on(data, tmp_path):
    model = PairwiseSGD(scale="minmax", n_steps=500, random_state=0).fit(data.X, data.y, qid=data.qid)
    model.save(tmp_path / "model.npz")
    copies = [load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))]
    model.partial_fit(data.X, data.y, qid=data.qid)
    for copy in copies:
        copy.partial_fit(data.X, data.y, qid=data.qid)
        assert (copy.coef_ == model.coef_).all()


def test_labels_without_a_pair(data):
    model = PairwiseSGD(n_steps=10).fit(data.X, np.where(data.qid < 30, data.y, 1.0), qid=data.qid)
    assert model.n_queries_ == 40
    assert model.n_uninformative_ >= 10
