"""PairwiseSVM: against scikit-learn on explicit pair differences, SVM-roc on binary labels, and on real folds."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import LinearSVC

from structsvm.estimators.pairwise import PairwiseSVM
from structsvm.estimators.structural import SVMRoc
from structsvm.metrics import evaluate
from structsvm.readers import read_letor
from structsvm.readers.synthetic import make_ranking


def one_query(seed=0, n=40, m=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.clip(np.round(X @ rng.normal(size=m) + rng.normal(size=n)), 0, 3)


def differences(X, y, qid=None):
    """Of all pairs of a query, the better document first."""
    qid = np.zeros(len(y)) if qid is None else qid
    better = (y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :])
    i, j = np.nonzero(better)
    return X[i] - X[j]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_one_query_equals_linear_svc_on_pair_differences(loss, C):
    X, y = one_query()
    D = differences(X, y)
    signs = np.where(
        np.arange(len(D)) % 2 == 0, 1, -1
    )  # LinearSVC wants two classes; half of the pairs turned round
    svc = LinearSVC(
        loss=loss, C=C / len(D), fit_intercept=False, dual=loss == "hinge", tol=1e-10, max_iter=10**6
    ).fit(D * signs[:, None], signs)

    def objective(w):
        violation = np.maximum(0.0, 1.0 - D @ w)
        return 0.5 * w @ w + C * np.mean(violation if loss == "hinge" else violation**2)

    model = PairwiseSVM(loss, C=C, tol=5e-7).fit(X, y, qid=0)
    assert objective(model.coef_) == pytest.approx(objective(svc.coef_[0]), rel=1e-6)
    assert model.fit_.primal == pytest.approx(objective(model.coef_), rel=1e-12)
    assert model.fit_.dual <= objective(svc.coef_[0]) * (1 + 1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("c", [0.05, 3.0])
def test_C_is_that_of_other_programs_as_the_notes_say(loss, c):
    """Two of the six queries have no pair: they count among the queries all the same."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(6), [5, 12, 1, 8, 20, 3])
    X = rng.normal(size=(len(qid), 4))
    y = np.clip(np.round(X @ rng.normal(size=4) + rng.normal(size=len(qid))), 0, 3)
    y[qid == 5] = 1.0
    D = differences(X, y, qid)
    pairs = [len(differences(X[qid == q], y[qid == q])) for q in range(6)]
    signs = np.where(np.arange(len(D)) % 2 == 0, 1, -1)

    def on_pairs(c, weights=None):
        """``1/2 ||w||^2 + c * weighted sum over pairs``, pairs query by query."""
        svc = LinearSVC(loss=loss, C=c, fit_intercept=False, dual=True, tol=1e-10, max_iter=10**6)
        return svc.fit(D * signs[:, None], signs, sample_weight=weights).coef_[0]

    of_query = np.repeat(pairs, pairs)
    for C, normalize, theirs in (
        (c * len(D) / 6, "pairs", on_pairs(c / 6)),  # SVM-rank -l 1
        (c, "query", on_pairs(c / 6, 1 / of_query)),  # SVM-rank -l 2
        (c * len(D), "pairs", on_pairs(c)),  # SVM-light, LIBLINEAR
    ):
        ours = PairwiseSVM(loss, C=C, normalize=normalize, tol=1e-8).fit(X, y, qid=qid)
        assert ours.coef_ == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("solver", ["one_slack", "frank_wolfe", "n_slack"])
def test_roc_svm_and_pairwise_svm_coincide_on_binary_labels(solver):
    data = make_ranking(25, 12, 4, noise=1.0, grades=2, random_state=3)
    pair = PairwiseSVM(C=4.0, normalize="query", tol=1e-7, solver=solver).fit(data.X, data.y, qid=data.qid)
    roc = SVMRoc(C=1.0, tol=1e-7).fit(data.X, data.y, qid=data.qid)
    # 1/2 |w - optimum|^2 <= gap, for both
    distance = 0.5 * np.sqrt(2 * pair.fit_.primal * 1e-7) + np.sqrt(2 * roc.fit_.primal * 1e-7)
    assert np.linalg.norm(roc.coef_ - 0.5 * pair.coef_) <= distance
    assert distance < 2e-3 * np.linalg.norm(roc.coef_)
    assert roc.fit_.primal == pytest.approx(0.25 * pair.fit_.primal, rel=2e-7)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_normalisation_and_weights_mean_what_they_say(loss):
    rng = np.random.default_rng(0)
    qid = np.repeat([0, 1, 2], [5, 20, 10])
    X = rng.normal(size=(35, 3))
    y = rng.integers(0, 3, 35).astype(float)
    weights = np.repeat([2.0, 0.5, 0.0], [5, 20, 10])
    for normalize in ("pairs", "query"):
        model = PairwiseSVM(loss, C=3.0, normalize=normalize, tol=1e-6).fit(
            X, y, qid=qid, sample_weight=weights
        )
        total, count = 0.0, 0.0
        for q, weight in ((0, 2.0), (1, 0.5)):
            h = np.maximum(0, 1 - differences(X[qid == q], y[qid == q]) @ model.coef_)
            h = h if loss == "hinge" else h**2
            share = weight * (len(h) if normalize == "pairs" else 1.0)
            total += share * h.mean()
            count += share
        assert model.fit_.primal == pytest.approx(
            0.5 * model.coef_ @ model.coef_ + 3.0 * total / count, rel=1e-10
        )


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_path_yields_fitted_models_and_leaves_the_original_alone(loss):
    data = make_ranking(20, 15, 4, random_state=1)
    template = PairwiseSVM(loss, scale="zscore", tol=1e-5)
    models = list(template.path(data.X, data.y, [10.0, 0.1, 1.0, 0.1], qid=data.qid))  # each C once
    assert not hasattr(template, "coef_")
    assert not hasattr(template, "n_features_in_")
    assert [model.C for model in models] == [0.1, 1.0, 10.0]
    for model in models:
        alone = clone(template).set_params(C=model.C).fit(data.X, data.y, qid=data.qid)
        assert model.fit_.primal == pytest.approx(alone.fit_.primal, rel=1e-5)
        assert (model.rank(data.X, data.qid) >= 1).all()
        with pytest.raises(ValueError, match="qid"):
            model.score(data.X, data.y)
    with pytest.raises(ValueError, match=r"\bC="):
        next(template.path(data.X, data.y, [1.0, -1.0], qid=data.qid))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_repeating_the_queries_changes_nothing(loss):
    data = make_ranking(12, 10, 3, random_state=2)
    once = PairwiseSVM(loss, tol=1e-7).fit(data.X, data.y, qid=data.qid)
    twice = PairwiseSVM(loss, tol=1e-7).fit(
        np.vstack([data.X, data.X]), np.tile(data.y, 2), qid=np.concatenate([data.qid, data.qid + 100])
    )
    assert twice.fit_.primal == pytest.approx(once.fit_.primal, rel=2e-7)


@pytest.mark.parametrize(("loss", "C"), [("hinge", 100.0), ("squared_hinge", 10.0)])
def test_mq2008_five_folds(loss, C, shared_data):
    """At a fixed C, as the C that 157 validation queries choose jumps; RankSVM's published MAP is 0.4696."""
    parts = [read_letor(shared_data(f"letor4_mq2008/S{i}.txt.gz")) for i in range(1, 6)]
    values = []
    for fold in range(5):
        training, test = [parts[(fold + k) % 5] for k in range(3)], parts[(fold + 4) % 5]
        X, y = np.vstack([p.X for p in training]), np.concatenate([p.y for p in training])
        qid = np.concatenate([p.qid for p in training])
        model = PairwiseSVM(loss, C=C, normalize="query").fit(X, y, qid=qid)
        scores = model.predict(test.X)
        values.append(evaluate("map", test.y, scores, qid=test.qid, convention="letor4").mean)
    assert np.mean(values) >= 0.47
