"""The choice of C by cross-validation over whole queries, as by hand, for rankers and SVMDiv."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

import structsvm
from structsvm.estimators.cross_validation import HeldOutLosses, cross_validate_C
from structsvm.metrics import evaluate, weighted_subtopic_loss
from structsvm.readers import make_ranking
from tests.refusing import rejected, rejections

DATA = make_ranking(24, 10, 4, noise=0.6, random_state=2)
X, Y, QID = DATA.X, DATA.y, DATA.qid
CS = [0.01, 1.0, 100.0]


def fit(qid=QID, sample_weight=None, **options):
    options = {"Cs": CS, "cv": 3, "tol": 1e-4} | options
    return structsvm.StructuralRankerCV(**options).fit(X, Y, qid=qid, sample_weight=sample_weight)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (structsvm.StructuralRankerCV(Cs=[-1.0]), r"C=-1\.0: expected"),
        (structsvm.StructuralRankerCV(selection="least"), "selection"),
        (structsvm.StructuralRankerCV(solver="simplex"), "solver='simplex'"),
        (structsvm.TreeRankerCV(Cs=[-1.0]), r"C=-1\.0: expected"),
        (structsvm.TreeRanker(solver="n"), "solver='n'"),
    ],
    ids=repr,
)
def test_options_are_checked_without_data(model, message):
    type(model)().check_options()
    rejected(message, model.check_options)


@pytest.mark.parametrize(("loss", "weights"), [("map", np.ones(24)), ("ndcg@3", 1.0 + np.arange(24) % 5)])
def test_it_equals_fits_by_hand(loss, weights):
    options = {"solver": "one_slack", "tol": 1e-9}  # near enough to one optimum for the same rankings
    weight = weights[QID]
    model = fit(loss=loss, sample_weight=weight, **options)
    assert model.scores_.shape == (24, 3)
    scores = np.full((24, 3), np.nan)
    for train, test in KFold(3).split(np.arange(24)):
        inside, outside = np.isin(QID, train), np.isin(QID, test)
        for i, C in enumerate(CS):
            part = structsvm.StructuralRanker(loss, C, **options)
            part.fit(X[inside], Y[inside], qid=QID[inside], sample_weight=weight[inside])
            values = evaluate(loss, Y[outside], part.predict(X[outside]), qid=QID[outside])
            scores[test, i] = values.per_query
    np.testing.assert_allclose(model.scores_, scores, rtol=1e-12)
    best = np.argmax(np.average(model.scores_, axis=0, weights=weights))
    assert CS[best] == model.C_
    refit = structsvm.StructuralRanker(loss, model.C_, **options).fit(X, Y, qid=QID, sample_weight=weight)
    np.testing.assert_array_equal(model.coef_, refit.coef_)
    assert model.score(X, Y, qid=QID) == refit.score(X, Y, qid=QID)


def test_the_seed_decides():
    a, b, c = fit(random_state=0), fit(random_state=0), fit(random_state=1)
    np.testing.assert_array_equal(a.scores_, b.scores_)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.C_ == b.C_
    assert (a.scores_ != c.scores_).any()
    np.testing.assert_array_equal(fit(n_jobs=2).scores_, fit().scores_)
    mixed = np.argsort(np.arange(len(Y)) % 10, kind="stable")
    other = structsvm.StructuralRankerCV(Cs=CS, cv=3, tol=1e-4).fit(X[mixed], Y[mixed], qid=QID[mixed])
    np.testing.assert_array_equal(other.scores_, fit().scores_)


def test_explicit_splits_are_query_numbers():
    model = fit(cv=KFold(3).split(np.arange(24)))
    np.testing.assert_array_equal(model.scores_, fit(cv=3).scores_)
    for splitter in (KFold(3), structsvm.QueryKFold(3)):
        np.testing.assert_array_equal(fit(cv=splitter).scores_, model.scores_)
    shuffled = KFold(3, shuffle=True, random_state=0)
    by_hand = fit(cv=shuffled.split(np.arange(24)))
    assert (by_hand.scores_ != model.scores_).any()
    np.testing.assert_array_equal(fit(cv=shuffled).scores_, by_hand.scores_)
    assert not np.isnan(fit(cv=GroupKFold(4)).scores_).any()
    once = fit(cv=[(range(16), [20, 16])])
    assert np.flatnonzero(~np.isnan(once.scores_).any(axis=1)).tolist() == [16, 20]
    assert once.C_ in CS
    np.testing.assert_array_equal(fit(cv=[(range(16), [16])]).scores_[16], once.scores_[16])


def test_the_grid_is_sorted_and_ties_go_to_the_smaller():
    assert fit(Cs=[100.0, 0.01, 1.0, 1.0]).Cs_.tolist() == CS
    # depends on the scores, but is 0 for each model
    model = structsvm.StructuralRankerCV(cv=2, scoring=lambda y, s: float(s[0] == -10)).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.Cs_, np.logspace(-3, 3, 13))
    assert model.C_ == 1e-3


def test_queries_of_weight_zero_do_not_affect_the_choice_of_C():
    weight = (QID < 12).astype(float)
    model = fit(sample_weight=weight, cv=[(range(8), range(8, 16)), (range(4, 12), range(4))])
    best = np.argmax(np.nanmean(model.scores_[:12], axis=0))
    assert CS[best] == model.C_
    assert model.n_uninformative_ == 12
    with pytest.raises(ValueError, match="expected a positive weight in a test part"):
        fit(sample_weight=weight, cv=[(range(8), range(12, 16))])


test_bad_input_is_named = rejections(
    lambda options: fit(**options),
    ({"qid": None}, "cv: expected at least 2 queries to assign to folds, got 1 query; pass qid"),
    ({"qid": 0}, "cv=3: expected a number of folds from 2 .* got 1 query; pass qid"),
    ({"selection": "min"}, "selection='min': expected 'max' or 'one_se'"),
    ({"cv": 1}, "cv=1: expected a number of folds from 2"),
    ({"cv": 25}, "cv=25: .* got 24 queries"),
    ({"cv": "five"}, "cv='five': expected a number of folds, a splitter"),
    ({"cv": 2.0}, r"cv=2\.0: expected a number of folds, a splitter"),
    ({"cv": ShuffleSplit(9, random_state=0)}, "expected each query in at most one test part, got query"),
    ({"cv": KFold(25)}, "n_splits=25 greater than the number of samples"),
    ({"cv": []}, "expected a number of folds, a splitter"),
    ({"cv": [([0, 1], [2], [3])]}, "expected a number of folds, a splitter"),
    ({"cv": [([0, 24], [2])]}, "cv, training part 0: expected query indices from 0 to 23, got 24"),
    ({"cv": [([0, 1], [-1])]}, "cv, test part 0: expected query indices from 0 to 23, got -1"),
    ({"cv": [([0, 1], [])]}, "cv, test part 0: expected an array of query indices"),
    ({"cv": [([0, 1], [2.0])]}, "cv, test part 0: expected an array of query indices"),
    ({"cv": [([0, 0], [2])]}, "cv, training part 0: expected each query once"),
    ({"cv": [([0, 1], [1, 2])]}, "cv, split 0: query 1 is in both the training and the test part"),
    (
        {"cv": [([0], [1, 2]), ([3], [2])]},
        "expected each query in at most one test part, got query 2 in several",
    ),
    ({"Cs": []}, r"Cs=\[\]: expected a sequence"),
    ({"Cs": 1.0}, r"Cs=1\.0: expected a sequence"),
    ({"Cs": "1"}, "Cs='1': expected a sequence"),
    ({"Cs": [1.0, 0.0]}, r"C=0\.0: expected a finite number > 0"),
    ({"Cs": [1.0, np.nan]}, "C=nan: expected a finite number > 0"),
    ({"scoring": "accuracy"}, "metric='accuracy': expected one of"),
    ({"convention": "mine"}, "convention='mine': expected one of"),
    ({"tol": 0}, "tol=0: expected a number"),
)


def test_a_training_part_without_a_constraint_is_named():
    with pytest.raises(ValueError, match="cv, training part 1: y: no query carries a constraint"):
        structsvm.StructuralRankerCV(Cs=CS, cv=2).fit(X, np.where(QID < 12, 0, Y), qid=QID)


@pytest.fixture(scope="module")
def labelled_sets():
    """Return sets of documents with words of their subtopic; the fourth set has no subtopics."""
    rng = np.random.default_rng(1)
    sets, labels = [], []
    for q in range(9):
        topics = rng.choice(4, size=8, p=[0.4, 0.3, 0.2, 0.1])
        words = [[f"t{t}w{j}" for j in range(6) if rng.random() < 0.6] for t in topics]
        sets.append(structsvm.CandidateSet([[*own, f"own{d}"] for d, own in enumerate(words)]))
        labels.append(np.eye(4)[topics] * (q != 3))
    return sets, labels


def test_held_out_losses_equal_fits_by_hand(labelled_sets):
    sets, labels = labelled_sets
    model = structsvm.SVMDiv(C=7.0, k=2, tol=1e-9)
    told = []
    held_out = cross_validate_C(
        model, sets, labels, [10.0, 0.1, 10.0], folds=3, callback=lambda *done: told.append(done)
    )
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert held_out.Cs.tolist() == [0.1, 10.0]
    expected = np.full((9, 2), np.nan)
    for testing in ([0, 4, 7], [1, 5, 8], [2, 6]):  # dealt in turn, without the fourth
        training = [i for i in range(9) if i not in {3, *testing}]
        for j, C in enumerate((0.1, 10.0)):
            fit = structsvm.SVMDiv(C=C, k=2, tol=1e-9).fit(
                [sets[i] for i in training], [labels[i] for i in training]
            )
            expected[testing, j] = weighted_subtopic_loss(
                [labels[i] for i in testing], fit.predict([sets[i] for i in testing])
            )
    np.testing.assert_allclose(held_out.losses, expected, atol=1e-12)
    assert np.isnan(held_out.losses[3]).all()
    np.testing.assert_allclose(held_out.means, expected[[0, 1, 2, 4, 5, 6, 7, 8]].mean(axis=0))
    assert held_out.Cs[np.argmin(held_out.means)] == held_out.C
    assert model.C == 7.0
    assert not hasattr(model, "coef_")


def test_of_equal_losses_the_smaller_C():
    third = 0.1 + 0.2
    losses = HeldOutLosses(np.array([0.1, 1.0, 10.0]), np.array([[0.5, third, 0.3], [0.5, 0.3, third]]))
    assert losses.C == 1.0
    assert losses._replace(losses=losses.losses[:, ::-1]).C == 0.1


@pytest.mark.parametrize(
    ("Cs", "folds", "message"),
    [
        ([1.0], 1, "folds=1: expected an integer from 2 to 8; sets without a subtopic"),
        ([1.0], 9, "folds=9: expected an integer from 2 to 8"),
        ([1.0], 2.0, r"folds=2\.0: expected an integer from 2"),
        ([], 2, r"Cs=\[\]: expected a sequence"),
        ([-1.0], 2, r"C=-1\.0: expected a finite number > 0"),
    ],
)
def test_bad_folds_and_grids(Cs, folds, message, labelled_sets):
    rejected(message, cross_validate_C, structsvm.SVMDiv(k=2), *labelled_sets, Cs, folds=folds)


@pytest.mark.filterwarnings("ignore:.* have equal scores:UserWarning")
@pytest.mark.parametrize(
    "model",
    [
        structsvm.SVMMap(),
        structsvm.PairwiseSGD(n_steps=500, random_state=0),
        structsvm.TreeRanker(n_trees=3, random_state=0),
        structsvm.ClickSVM(),
    ],
    ids=repr,
)
def test_score_does_not_reward_the_order_of_rows(model):
    rng = np.random.default_rng(0)
    x, qid = rng.integers(0, 2, size=(400, 3)).astype(float), np.repeat(np.arange(20), 20)
    y = (0.3 * x[:, 0] + rng.random(400) > 1.05).astype(int)
    model.fit(x, y, qid=qid)
    values = [
        model.score(x[order], y[order], qid=qid[order])
        for order in (np.argsort(y), np.argsort(-y), rng.permutation(400))
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)


def test_a_search_whose_model_ties_many_rows_says_so():
    rng = np.random.default_rng(0)
    x, qid = rng.integers(0, 2, size=(400, 2)).astype(float), np.repeat(np.arange(20), 20)
    y = (0.3 * x[:, 0] + rng.random(400) > 1.05).astype(int)
    for search in (
        structsvm.StructuralRankerCV(Cs=[1.0], cv=2),
        structsvm.TreeRankerCV(Cs=[1.0], n_trees=2, cv=2, random_state=0),
    ):
        with pytest.warns(UserWarning, match=r"CV, training rows: \d\d % of the pairs .* have equal scores"):
            search.fit(x, y, qid=qid)


def star_ratings():
    """Return queries with labels 1 to 5, so that every document is relevant at the usual threshold, and one feature
    that matters among large ones."""
    rng = np.random.default_rng(0)
    rows, query = rng.normal(size=(240, 4)) * [0.02, 1, 1, 1], np.repeat(np.arange(20), 12)
    labels = np.digitize(rows[:, 0] * 50 + rng.normal(size=240) * 0.3, [-1.5, -0.5, 0.5, 1.5]) + 1
    return rows, labels, query


@pytest.mark.parametrize("loss", ["pairs", "ndcg@10"])
def test_the_measure_of_the_loss_chooses_for_star_ratings(loss):
    """The chosen C is the best by the loss's own measure, and ``score`` is that measure."""
    rows, labels, query = star_ratings()
    model = structsvm.StructuralRankerCV(loss, Cs=[1e-3, 1e3], cv=4).fit(rows, labels, qid=query)
    assert (model.scoring_, model.C_) == (loss, 1e3)
    means = model.scores_.mean(axis=0)
    assert means[1] > means[0] + 0.05
    assert model.score(rows, labels, qid=query) == evaluate(loss, labels, model.predict(rows), qid=query).mean


def test_a_measure_that_no_ranking_changes_is_refused():
    rows, labels, query = star_ratings()
    for scoring in ("map", "roc", "precision@3"):
        model = structsvm.StructuralRankerCV("pairs", scoring=scoring, Cs=[1e-3, 1e3])
        rejected("same value for all; choose by pairs", model.fit, rows, labels, qid=query)
    assert structsvm.StructuralRankerCV("map", Cs=[1.0], relevance=4).fit(rows, labels, qid=query).C_ == 1
