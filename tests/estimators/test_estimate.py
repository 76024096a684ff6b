"""The estimate for new queries: nested cross-validation by hand, its bias, the interval, and errors."""

import numpy as np
import pytest
from scipy import stats

from structsvm import CandidateSet, StructuralRanker, StructuralRankerCV, SVMDiv, TreeRankerCV
from structsvm.clicks import ClickSVMCV
from structsvm.estimators import cross_validate_C, crossed, select_C
from structsvm.metrics import EvaluationResult, compare, evaluate
from structsvm.metrics.estimates import estimate_of
from structsvm.metrics.evaluation import bounds_of
from structsvm.metrics.tests import mean_of
from structsvm.readers import make_ranking
from tests.refusing import rejected

# small and random data, in which there is next to nothing to learn
pytestmark = [pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")]

DATA = make_ranking(30, 8, 4, noise=0.8, random_state=1)
CS = [0.01, 1.0, 100.0]


def search(kind=StructuralRankerCV, qid=DATA.qid, sample_weight=None, y=DATA.y, **options):
    return kind(Cs=CS, **({"cv": 3} | options)).fit(DATA.X, y, qid=qid, sample_weight=sample_weight)


def test_crossing_by_hand():
    values = np.array([[0.9, 0.2], [0.8, 0.1], [0.3, 0.7], [0.2, 0.6]])
    Cs = np.array([1.0, 10.0])
    np.testing.assert_array_equal(crossed(Cs, values, np.array([0, 0, 1, 1])), [0.2, 0.1, 0.3, 0.2])
    # each query by itself: the others' means are .433 .467, .467 .5, .633 .3 and .667 .333
    np.testing.assert_array_equal(crossed(Cs, values, np.arange(4)), [0.2, 0.1, 0.3, 0.2])
    # a query of great weight chooses for the others, and one that was not tested has no value
    np.testing.assert_array_equal(
        crossed(Cs, values, np.arange(4), np.array([9.0, 1.0, 1.0, 1.0])), [0.2, 0.8, 0.3, 0.2]
    )
    np.testing.assert_array_equal(crossed(Cs, values, np.array([0, 0, 1, -1])), [0.2, 0.1, 0.3, np.nan])
    assert np.isnan(crossed(Cs, values, np.zeros(4, dtype=int))).all()
    # of two numbers of trees the second is better in both folds, and its C are chosen across
    np.testing.assert_array_equal(
        crossed(Cs, np.stack([values - 0.15, values], axis=1), np.array([0, 0, 1, 1])), [0.2, 0.1, 0.3, 0.2]
    )


def test_one_column_gives_the_plain_mean():
    values, fold = np.random.default_rng(0).random((12, 1)), np.arange(12) % 4
    np.testing.assert_array_equal(crossed(np.ones(1), values, fold), values[:, 0])
    alone = StructuralRankerCV(Cs=[1.0], cv=3).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert alone.estimate().mean == pytest.approx(alone.scores_.mean())


@pytest.mark.parametrize("selection", ["max", "one_se"])
def test_crossed_columns_of_noise_are_unbiased_and_the_best_is_above(selection):
    rng = np.random.default_rng(3)
    Cs, fold = np.logspace(-2, 2, 20), np.arange(20) % 5
    cross, best = [], []
    for _ in range(400):
        values = rng.normal(size=(20, 20))
        cross.append(crossed(Cs, values, fold, selection=selection).mean())
        best.append(values[:, np.flatnonzero(Cs == select_C(Cs, values, selection=selection))[0]].mean())
    error = np.std(cross) / 20
    assert abs(np.mean(cross)) < 3 * error < 0.06
    assert np.mean(best) > 0.25


def held(name, values):
    return EvaluationResult(name, values.mean(), values, np.arange(values.size), bounds_of(name))


def test_the_interval_is_students():
    rng = np.random.default_rng(0)
    a, b = rng.random(15), rng.random(15)
    found, plain = estimate_of(held("map", a), baseline=b, wider=1.0), compare(a, b, test="t")
    assert found.difference[:6] == pytest.approx(plain[:6], rel=1e-9)
    assert (found.difference.lower, found.difference.upper) == pytest.approx((plain.lower, plain.upper))
    expected = stats.t.interval(0.9, 14, a.mean(), 1.1 * a.std(ddof=1) / np.sqrt(15))
    found = estimate_of(held("map", a), level=0.9)
    assert (found.lower, found.upper) == pytest.approx(expected)
    assert found.queries_for(found.half_width) == 15
    assert found.queries_for(found.half_width / 2) == 60
    # equal weights are none, a query of weight 2 is no two queries; ends are cut to the range of the measure
    assert mean_of(a, np.full(15, 2.0)) == pytest.approx(mean_of(a))
    weights = rng.integers(1, 4, 15).astype(float)
    p = weights / weights.sum()
    mean = p @ a
    error = np.sqrt(15 / 14 * (p**2 @ (a - mean) ** 2))
    assert mean_of(a, weights) == pytest.approx((mean, error, 1 / (p @ p) - 1))
    high = estimate_of(held("map", np.r_[np.ones(11), 0.0]))
    assert (high.upper, estimate_of(held("dcg@10", 9 * a)).upper > 1) == (1.0, True)
    result = evaluate("map", DATA.y, DATA.X[:, 0], qid=DATA.qid)
    assert result.interval(level=0.9) == pytest.approx(
        stats.t.interval(0.9, 29, result.mean, stats.sem(result.per_query))
    )


@pytest.mark.parametrize("ids", ["numbers", "names"])
def test_estimate_uses_the_folds_and_scores_of_the_search(ids):
    qid = DATA.qid if ids == "numbers" else np.array([f"q{q}" for q in DATA.qid])
    weight = (1.0 + DATA.qid % 3) * (DATA.qid != 7)
    model = search(qid=qid, sample_weight=weight, random_state=4)
    assert [set(np.flatnonzero(model.fold_ == k)) for k in range(3)] == [
        set(part) for part in np.array_split(np.random.default_rng(4).permutation(30), 3)
    ]
    weights = (1.0 + np.arange(30) % 3) * (np.arange(30) != 7)
    values = crossed(model.Cs_, model.scores_, model.fold_, weights)
    np.testing.assert_array_equal(model.held_out_.per_query, values)
    found = model.estimate()
    assert found.mean == pytest.approx(np.average(values, weights=weights))
    assert found.mean == pytest.approx(model.held_out_.mean)
    assert found.n_queries == 29
    assert found.mean <= np.average(model.scores_, axis=0, weights=weights).max()
    # a baseline as scores in any order of rows, and as the result of evaluate
    column = np.round(DATA.X[:, 1])
    with pytest.warns(UserWarning, match="estimate: the baseline: .* have equal scores"):
        other = model.estimate(baseline=column, y=DATA.y, qid=qid).difference
    mixed = np.random.default_rng(0).permutation(DATA.n_rows)
    tied = evaluate("map", DATA.y, column, qid=qid, ties="average").per_query
    used = np.arange(30) != 7
    slow = mean_of((values - tied)[used], weights[used], wider=1.1)
    assert other.mean_difference == pytest.approx(slow.mean)
    assert other.p_value == pytest.approx(slow.student()[1])
    plain = search(qid=qid)
    scores = DATA.X[:, 1]  # without ties
    result = evaluate("map", DATA.y, scores, qid=qid)
    a, b = (
        plain.estimate(baseline=result),
        plain.estimate(baseline=scores[mixed], y=DATA.y[mixed], qid=qid[mixed]),
    )
    assert (
        a.difference == pytest.approx(b.difference)
        if ids == "numbers"
        else a.difference[0] == b.difference[0]
    )
    assert compare(plain.held_out_, result).mean_difference == pytest.approx(a.difference.mean_difference)
    assert "better than the baseline by" in repr(a) or "not shown to be better" in repr(a)
    assert "on new queries" in plain._repr_html_()


def test_other_cross_validated_rankers_have_estimate():
    trees = search(TreeRankerCV, n_trees=[2, 4], n_leaves=4, min_rows=5, random_state=0)
    np.testing.assert_array_equal(trees.held_out_.per_query, crossed(trees.Cs_, trees.scores_, trees.fold_))
    assert trees.estimate().n_queries == 30

    clicks = np.where(DATA.y > 0, 1.0 + DATA.qid % 2, 0.0)
    model = search(ClickSVMCV, y=clicks)
    n = int((np.bincount(DATA.qid, clicks) > 0).sum())
    found = model.estimate(baseline=DATA.X[:, 0], y=clicks, qid=DATA.qid)
    assert (found.name, found.n_queries) == ("pairs of clicks", n)
    assert found.mean <= model.scores_.max() + 1e-12
    best = StructuralRanker("pairs", C=100.0).fit(DATA.X, DATA.y, qid=DATA.qid).predict(DATA.X)
    ahead = model.estimate(baseline=best, y=clicks, qid=DATA.qid).difference.mean_difference
    assert ahead < found.difference.mean_difference

    sets = [CandidateSet([f"w{q % 3} a", f"w{q % 3} b", "c d", f"e w{q % 2}"]) for q in range(12)]
    labels = [np.eye(4)[[0, 0, q % 3, 2]] for q in range(12)]
    held = cross_validate_C(SVMDiv(k=2), sets, labels, [0.1, 10.0], folds=3)
    assert held.fold.tolist() == [0, 1, 2] * 4
    np.testing.assert_allclose(held.held_out.per_query, 1 + crossed(held.Cs, -held.losses, held.fold))
    loss = held.losses[:, 0]
    found = held.estimate(baseline=loss)
    assert found.difference.mean_difference == pytest.approx(found.mean - (1 - loss.mean()))


def test_what_is_refused_and_warned_of():
    few = make_ranking(6, 8, 3, random_state=0)
    model = StructuralRankerCV(Cs=CS, cv=3).fit(few.X, few.y, qid=few.qid)
    with pytest.warns(UserWarning, match="6 queries are few"):
        found = model.estimate(baseline=few.X[:, 0], y=few.y, qid=few.qid)
    assert np.isnan(found.difference.p_value)
    assert "p =" not in repr(found)
    one_part = search(cv=[(range(20), range(20, 30))])
    rejected("cv: expected at least 2 test parts", one_part.estimate)
    assert "on new queries" not in one_part._repr_html_()
    two = search(cv=[(range(20), [20]), (range(20), [21])])
    assert (two.fold_ >= 0).sum() == 2
    rejected("at least 3 held-out queries", two.estimate)
    model = search()
    rejected("expected y and qid of the scored rows", model.estimate, baseline=DATA.X[:, 0])
    with pytest.raises(ValueError, match="expected the same queries, but 29 is in a only"):
        model.estimate(baseline=DATA.X[:232, 0], y=DATA.y[:232], qid=DATA.qid[:232])
    with pytest.raises(ValueError, match="expected results of one measure, got 'map' and 'mrr'"):
        model.estimate(baseline=evaluate("mrr", DATA.y, DATA.X[:, 0], qid=DATA.qid))
    rejected("level", model.estimate, level=95)


def test_repeated_rows_are_said():
    """Each query occurs twice, in different folds, so that fold models have seen the rows of held-out queries."""
    half = make_ranking(12, 8, 4, noise=0.8, random_state=1)
    X, y = np.vstack([half.X, half.X]), np.tile(half.y, 2)
    qid = np.r_[half.qid, half.qid + 12]
    with pytest.warns(
        UserWarning, match="24 of 24 queries have most of their rows in queries of other folds"
    ):
        StructuralRankerCV(Cs=CS, cv=2).fit(X, y, qid=qid).estimate()
    few = np.round(make_ranking(40, 20, 3, random_state=0).X)  # so that most rows are in many queries
    many = make_ranking(40, 20, 3, random_state=0)
    assert StructuralRankerCV(Cs=[1.0], cv=2).fit(few, many.y, qid=many.qid).estimate().n_queries == 40
    queries = np.arange(24)
    clusters = [(queries[queries % 2 != k], queries[queries % 2 == k]) for k in (0, 1)]
    assert StructuralRankerCV(Cs=CS, cv=clusters).fit(X, y, qid=qid).estimate().n_queries == 24
