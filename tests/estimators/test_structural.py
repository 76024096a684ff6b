"""StructuralRanker: equal fits for all forms of input, errors for bad input, the meaning of weights and C."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from structsvm import (
    SVMNDCG,
    AccuracySVM,
    LambdaRank,
    OrdinalSVM,
    PairwiseSGD,
    PairwiseSVM,
    StructuralRanker,
    StructuralRankerCV,
    SVMMap,
    SVMRoc,
)
from structsvm.estimators import structural
from structsvm.metrics import evaluate
from structsvm.oracles import LOSSES, NDCG, get_oracle
from structsvm.readers import make_ranking
from tests.refusing import rejected, rejections
from tests.trainers.problems import SOLVERS

# on noisy data the optimum of a loss may be zero weights
pytestmark = pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
DATA = make_ranking(30, 12, 4, noise=0.3, random_state=1)
X, Y, QID = DATA.X, DATA.y, DATA.qid


def distance_allowed(*models):
    """Return the largest distance of two solutions of one problem: 1/2 |w - w*|^2 <= primal - dual."""
    return sum(np.sqrt(2 * max(0, m.fit_.primal - m.fit_.dual)) for m in models) + 1e-9


def assert_same_problem(a, b):
    assert np.linalg.norm(a.coef_ - b.coef_) <= distance_allowed(a, b)
    assert max(a.fit_.dual, b.fit_.dual) <= min(a.fit_.primal, b.fit_.primal) * (1 + 1e-9)


def test_names_are_the_losses():
    for named, loss in ((SVMMap(C=2), "map"), (SVMRoc(C=2), "roc"), (SVMNDCG(C=2), "ndcg@10")):
        plain = StructuralRanker(loss, C=2).fit(X, Y, qid=QID)
        np.testing.assert_array_equal(named.fit(X, Y, qid=QID).coef_, plain.coef_)
    changed = SVMNDCG().set_params(k=3).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(changed.coef_, StructuralRanker("ndcg@3").fit(X, Y, qid=QID).coef_)
    whole = SVMNDCG(k=None).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(whole.coef_, StructuralRanker(get_oracle("ndcg")).fit(X, Y, qid=QID).coef_)
    assert whole.score(X, Y, qid=QID) == evaluate("ndcg", Y, whole.predict(X), qid=QID, ties="row").mean


# -- the same data in other containers ----------------------------------------------------------------


@pytest.mark.parametrize("dress", [np.asfortranarray, np.ndarray.tolist])
def test_fits_do_not_depend_on_memory_layout_or_container(dress):
    plain = SVMMap(C=10).fit(X, Y, qid=QID)
    other = SVMMap(C=10).fit(dress(X), Y.tolist(), qid=QID.tolist())
    np.testing.assert_array_equal(other.coef_, plain.coef_)


def test_float32_is_taken_as_it_is():
    rounded = X.astype(np.float32)
    single = SVMMap(C=10, tol=1e-5).fit(rounded, Y, qid=QID)
    assert_same_problem(single, SVMMap(C=10, tol=1e-5).fit(rounded.astype(np.float64), Y, qid=QID))
    assert single.coef_.dtype == np.float64
    np.testing.assert_allclose(single.predict(rounded), rounded.astype(float) @ single.coef_, rtol=1e-12)
    assert single.predict(rounded).dtype == np.float64


def test_the_data_are_not_copied(monkeypatch):
    seen = []
    bind = structural.bind_problem
    monkeypatch.setattr(structural, "bind_problem", lambda *args: seen.append(args[2].X) or bind(*args))
    for own in (X, X.astype(np.float32)):
        SVMMap().fit(own, Y, qid=QID)
        assert np.shares_memory(seen[-1], own)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("names", [False, True])
def test_frames_with_a_column_qid(library, names):
    module = pytest.importorskip(library)
    ids = np.array([f"topic {q}" for q in QID]) if names else QID
    frame = module.DataFrame({"a": X[:, 0], "b": X[:, 1], "qid": ids, "c": X[:, 2], "d": X[:, 3]})
    model = SVMMap(C=10).fit(frame, module.Series(Y))
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    assert model.n_queries_ == 30
    plain = SVMMap(C=10).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.rank(frame), plain.rank(X, QID))
    assert model.score(frame, Y) == plain.score(X, Y, qid=QID)
    np.testing.assert_array_equal(
        model.predict(frame),
        model.predict(frame.drop(columns="qid") if library == "pandas" else frame.drop("qid")),
    )
    other = SVMMap(C=10).fit(frame, Y, qid=np.arange(len(Y)) % 7)  # ids given separately go first
    assert other.n_queries_ == 7
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "x"}) if library == "pandas" else frame.rename({"a": "x"}))


# -- weights of queries -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:AccuracySVM")
@pytest.mark.parametrize(
    "model",
    [
        SVMMap(C=10, tol=1e-6),
        PairwiseSVM(C=10, tol=1e-6),
        OrdinalSVM(10, tol=1e-6),
        AccuracySVM("acc2", tol=1e-6),
    ],
    ids=repr,
)
def test_weight_two_is_the_query_twice_and_zero_is_none(model):
    weight = np.where(QID < 5, 2.0, np.where(QID >= 20, 0.0, 1.0))
    weighted = clone(model).fit(X, Y, qid=QID, sample_weight=weight)
    keep, twice = QID < 20, QID < 5
    repeated = clone(model).fit(
        np.vstack([X[keep], X[twice]]),
        np.append(Y[keep], Y[twice]),
        qid=np.append(QID[keep], QID[twice] + 1000),
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=2e-3 * np.abs(repeated.coef_).max())
    mixed = np.argsort(np.arange(len(Y)) % 12, kind="stable")  # of each query a row in turn
    dealt = clone(model).fit(X[mixed], Y[mixed], qid=QID[mixed], sample_weight=weight[mixed])
    np.testing.assert_array_equal(dealt.coef_, weighted.coef_)
    if isinstance(model, SVMMap):
        assert_same_problem(weighted, repeated)
        assert weighted.n_uninformative_ == 10
        score = weighted.score(X, Y, qid=QID, sample_weight=weight)
        values = evaluate("map", Y, weighted.predict(X), qid=QID, ties="row").per_query
        assert score == pytest.approx((2 * values[:5].sum() + values[5:20].sum()) / 25)


def test_only_the_mean_weight_of_a_query_and_its_ratio_to_others_matter():
    a = SVMMap(C=10, tol=1e-6).fit(X, Y, qid=QID)
    weight = np.random.default_rng(0).random(len(Y))
    # rows differ, the means of queries do not
    weight /= (np.add.reduceat(weight, DATA.offsets[:-1]) / 12)[QID]
    assert_same_problem(a, SVMMap(C=10, tol=1e-6).fit(X, Y, qid=QID, sample_weight=7 * weight))


# -- the objective ------------------------------------------------------------------------------------


def test_features_that_do_not_vary_get_no_weight():
    """Constant features get weight zero without an error; if all are constant, all scores are equal."""
    model = SVMMap(C=10).fit(np.column_stack([X, QID, np.full(len(Y), 0.1)]), Y, qid=QID)
    np.testing.assert_allclose(model.coef_[4:], 0, atol=1e-12)
    for solver in SOLVERS:
        flat = SVMMap(C=10, solver=solver).fit(np.full_like(X, 0.1), Y, qid=QID)
        np.testing.assert_allclose(flat.coef_, 0, atol=1e-12)
        assert flat.fit_.converged
        np.testing.assert_array_equal(flat.rank(X * 0 + 0.1, QID), np.tile(np.arange(1, 13), 30))
        with pytest.warns(UserWarning, match="100 % of the pairs of documents with different labels"):
            flat.score(X, Y, qid=QID)
    assert not SVMMap().fit(np.zeros_like(X), Y, qid=QID).coef_.any()


def test_uninformative_queries_are_counted_and_change_only_the_mean():
    y = np.where(QID < 6, 0, Y)
    model = SVMMap(C=10, tol=1e-6).fit(X, y, qid=QID)
    assert (model.n_queries_, model.n_uninformative_) == (30, 6)
    fewer = SVMMap(C=8, tol=1e-6).fit(X[QID >= 6], y[QID >= 6], qid=QID[QID >= 6])  # 10 * 24 / 30
    assert_same_problem(model, fewer)


@pytest.mark.parametrize(
    "model", [SVMMap(), PairwiseSGD(n_steps=10), LambdaRank(max_epochs=1)], ids=lambda m: type(m).__name__
)
def test_most_queries_without_a_constraint_are_warned_of(model):
    with pytest.warns(UserWarning, match=f"{type(model).__name__}: 16 of 30 queries carry no constraint"):
        clone(model).fit(X, np.where(QID < 16, 0, Y), qid=QID)
    clone(model).fit(X, np.where(QID < 15, 0, Y), qid=QID)


def test_labels_of_binary_losses_are_thresholded():
    coef = SVMMap().fit(X, Y, qid=QID).coef_
    for y in (Y >= 1, np.where(Y >= 1, 1.7, 0.3), np.where(Y >= 1, 1.0, -2.5), np.where(Y >= 1, 9, 0)):
        np.testing.assert_array_equal(SVMMap().fit(X, y, qid=QID).coef_, coef)
    np.testing.assert_array_equal(SVMMap(relevance=2).fit(X, Y + 1, qid=QID).coef_, coef)
    # NDCG: a negative grade is worth as little as grade 0
    np.testing.assert_array_equal(
        SVMNDCG().fit(X, np.where(Y == 0, -1, Y), qid=QID).coef_, SVMNDCG().fit(X, Y, qid=QID).coef_
    )


@pytest.mark.parametrize("scale", ["minmax", "zscore", "query-minmax", "query-zscore", "query-percentile"])
def test_scaling_makes_units_irrelevant(scale):
    units = np.array([1e-6, 1.0, 1e3, 1e6])
    a = SVMMap(C=10, scale=scale, tol=1e-5).fit(X, Y, qid=QID)
    b = SVMMap(C=10, scale=scale, tol=1e-5).fit(X * units + 5 * units, Y, qid=QID)
    assert_same_problem(a, b)
    np.testing.assert_allclose(
        b.predict(X * units + 5 * units, qid=QID), a.predict(X, qid=QID), atol=10 * distance_allowed(a, b)
    )
    if scale.startswith("query"):
        rejected("expected qid", a.predict, X)


# -- searching ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        SVMMap(C=1.0),
        PairwiseSGD(n_steps=500, random_state=0),
        LambdaRank(max_epochs=3, random_state=0),
        OrdinalSVM(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_searches_route_qid(model):
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(model, {"relevance": [1.0, 2.0]}, cv=GroupKFold(3), error_score="raise")
        search.fit(X, Y, qid=QID, groups=QID)
        scores = cross_val_score(model, X, Y, cv=GroupKFold(3), params={"qid": QID, "groups": QID})
    by_hand = [
        clone(model).fit(X[train], Y[train], qid=QID[train]).score(X[test], Y[test], qid=QID[test])
        for train, test in GroupKFold(3).split(X, Y, QID)
    ]
    np.testing.assert_allclose(scores, by_hand, atol=1e-12)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand), abs=1e-12)


# -- bad input ----------------------------------------------------------------------------------------


test_bad_losses_are_named = rejections(
    lambda loss: StructuralRanker(loss).fit(X, Y, qid=QID),
    ("mapp", "loss='mapp': expected one of .*map, .*roc"),
    ("map@3", "takes no cut-off"),
    ("precision", "expected a cut-off"),
    ("ndcg@0", "at least 1"),
    *((f"precision@{k}", "expected one of .*map, .*roc") for k in ("２", "", "-1", "1.5", " 2")),
    ("@", "expected one of .*map, .*roc"),
)


def test_a_bad_cutoff_or_loss_object_is_named():
    for k in (0, -1, 2.5, "ten"):
        rejected(r"^k=.*: expected an integer >= 1; None", SVMNDCG(k=k).fit, X, Y, qid=QID)
    with pytest.raises(TypeError, match=r"expected a name .* or an oracle with a method bind"):
        StructuralRanker(loss=3).fit(X, Y, qid=QID)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (Y * 0, {}, " for loss='map'.*30 queries, labels 0 to 0"),
        (Y * 0 + 2, {}, ""),
        (Y, {"qid": np.arange(len(Y))}, ".*360 queries.*check the labels.*qid"),
        (np.where(QID == 0, Y, 0), {"sample_weight": (QID > 0).astype(float)}, ""),
    ],
)
def test_labels_without_a_constraint(y, options, message):
    rejected(f"y: no query carries a constraint{message}", SVMMap().fit, X, y, **{"qid": QID} | options)


def test_grades_below_one_are_no_matter_of_relevance():
    for model in (SVMNDCG(), StructuralRanker("ndcg@3"), LambdaRank()):
        rejected(
            r"\(labels of 0 and less count the same\); .*check the labels and qid",
            model.fit,
            X,
            -np.abs(Y) - 1.0,
            qid=QID,
        )
    # grades divided by their maximum: only the highest are relevant
    grades = np.arange(len(Y)) % 4 / 3
    with pytest.warns(UserWarning, match="labels are fractions up to 1, .* pass relevance=0.333333 if"):
        SVMMap().fit(X, grades, qid=QID)
    SVMNDCG().fit(X, grades, qid=QID)


def test_ranks_number_the_documents_of_a_query_from_the_best():
    model = SVMMap().fit([[1.0], [0.0]], [1, 0], qid=0)
    np.testing.assert_array_equal(
        model.rank([[3], [1], [2], [2], [9]], ["b", "b", "a", "b", "a"]), [1, 3, 2, 2, 1]
    )
    np.testing.assert_array_equal(model.rank([[2], [1], [2]], qid=0), [1, 3, 2])
    rejected(r"SVMMap\.rank: expected qid, as in fit; .* pass its id: qid=0", model.rank, [[2], [1]])


class Described:
    """Return a user-defined oracle with the given attributes."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def bind(self, y, offsets):
        return get_oracle("map").bind(y, offsets)


@pytest.mark.parametrize(
    ("loss", "measure"),
    [(name.replace("@k", "@3"), None) for name in LOSSES]
    + [("pairs", "pairs"), (Described(), "map")]
    + [(Described(measure="ndcg@2"), "ndcg@2"), (Described(measure="roc", label="map"), "roc")]
    + [(Described(label="mine", k=3), "map"), (Described(label="roc", k=3), "map")]
    + [(Described(label="err", k=3), "err@3")],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_an_oracle_is_scored_by_what_it_names(loss, measure):
    model = StructuralRanker(get_oracle(loss)).fit(X, Y, qid=QID)
    measure = measure or getattr(get_oracle(loss), "measure", loss)
    assert model.score(X, Y, qid=QID) == evaluate(measure, Y, model.predict(X), qid=QID).mean
    if isinstance(loss, str):
        assert model.score(X, Y, qid=QID) == StructuralRanker(loss).fit(X, Y, qid=QID).score(X, Y, qid=QID)


def ndcg_at_2(y, scores):
    return evaluate("ndcg@2", y, scores, qid=0).mean


def test_a_search_with_an_oracle_chooses_C_by_its_measure(caplog):
    def search(loss, scoring=None):
        return StructuralRankerCV(loss, Cs=[0.1, 1, 10], cv=3, scoring=scoring).fit(X, Y, qid=QID)

    by_name = search("ndcg@2")
    with_method = Described(measure=ndcg_at_2)
    for one, name in [
        (search(NDCG(2)), "ndcg@2"),
        (search("ndcg@2", ndcg_at_2), "ndcg_at_2"),
        (search(with_method), "ndcg_at_2"),
    ]:
        if not isinstance(one.loss, Described):
            np.testing.assert_array_equal(one.scores_, by_name.scores_)
            assert one.C_ == by_name.C_
        assert one.scoring_ == one.held_out_.name == name
        assert name in repr(one.estimate())
    assert one.score(X, Y, qid=QID) == evaluate(ndcg_at_2, Y, one.predict(X), qid=QID).mean
    assert "chose C" not in caplog.text
    assert search(Described()).scoring_ == "map"
    assert "so that C was selected by MAP; pass scoring=" in caplog.text


@pytest.mark.parametrize(
    ("model", "C"),
    [
        (StructuralRanker(), 1.0),
        (StructuralRanker("roc"), 1.0),
        (StructuralRanker("mrr@5"), 10.0),
        (StructuralRanker("precision@3"), 10.0),
        (StructuralRanker("pairs"), 10.0),
        (SVMNDCG(), 10.0),
        (PairwiseSVM(), 10.0),
        (PairwiseSVM("squared_hinge"), 1.0),
        (PairwiseSVM(C=0.5), 0.5),
    ],
    ids=repr,
)
def test_C_is_by_loss_where_it_is_not_stated(model, C):
    data = make_ranking(12, 8, 3, random_state=0)
    model.check_options()
    assert model.fit(data.X, data.y, qid=data.qid).fit_.C == C
    other = clone(model).set_params(C=C).fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(model.coef_, other.coef_)
