"""Laws of the tests: exact levels on small logs, equality to SciPy and to enumeration, and intervals."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from structsvm.cli.studies.folds import MethodResult
from structsvm.metrics import compare, evaluate, tests
from structsvm.metrics.estimates import estimate_of
from structsvm.online.clicklog import Click, ClickLog, Impression
from structsvm.online.interleaving import Shown
from structsvm.online.statistics import analyse
from structsvm.readers import make_ranking

ALPHA = 0.05
EACH = {
    "sign": tests.sign,
    "t": tests.student,
    "z": tests.normal,
    "wilcoxon": tests.wilcoxon,
    "randomization": tests.randomization,
}


def small_logs(n):
    """Yield the numbers of wins, losses and ties of all logs of ``n`` lists, and how many logs have them."""
    for won in range(n + 1):
        for lost in range(n + 1 - won):
            yield won, lost, n - won - lost, math.comb(n, won) * math.comb(n - won, lost)


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("n", range(1, 13))
def test_no_test_exceeds_its_level_on_logs_of_equal_rankers(name, n):
    """Over all logs of ``n`` lists, each won and lost with the same probability, and without a click otherwise."""
    rejected = []
    for won, lost, tied, ways in small_logs(n):
        p = EACH[name](np.repeat([1.0, -1.0, 0.0], [won, lost, tied])).p_value
        rejected.append((won + lost, tied, ways, p <= ALPHA))
    clicked, tied, ways, named = map(np.array, zip(*rejected, strict=True))
    for rate in np.linspace(0.1, 1.0, 10):
        chance = ways * (rate / 2) ** clicked * (1.0 - rate) ** tied
        assert chance.sum() == pytest.approx(1)
        assert chance @ named <= ALPHA


def team_draft(wins):
    """Return a log of lists of two documents with one click each."""
    return ClickLog.of(
        Impression(
            Shown("team_draft", ("a", "b"), 2, ((team, 1 - team),)), (Click(1),), rankers=("old", "new")
        )
        for team in wins
    )


@pytest.mark.parametrize("n", range(1, 13))
def test_analyse_names_a_winner_of_equal_rankers_in_at_most_the_level(n):
    """All 2^n logs with a click on every list; logs with the same number of wins have the same analysis."""
    named = dict.fromkeys(("t", "z", "sign", "wilcoxon"), 0)
    for won in range(n + 1):
        log = team_draft([0] * won + [1] * (n - won))
        for test in named if n in (2, 3, 7) else ["t"]:
            answer = analyse(log, test=test)
            named[test] += math.comb(n, won) * (answer.fixed_sample_winner is not None)
            assert answer.pairs[0].test == ("randomization" if test in "tz" else test)
            assert min(answer.pairs[0].p_values.values()) >= stats.binomtest(won, n).pvalue - 1e-12
    assert max(named.values()) <= ALPHA * 2**n


@pytest.mark.parametrize("seed", range(40))
def test_small_samples_have_the_p_value_of_all_sign_vectors(seed):
    """The twin enumerates the sums of signed values (or ranks); whole numbers make ties and zeros."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 11))
    values = rng.integers(-3, 4, n).astype(float) if seed % 2 else rng.normal(size=n)
    kept = values[values != 0]
    vectors = np.array(list(itertools.product([-1.0, 1.0], repeat=kept.size)))
    ranks = stats.rankdata(np.abs(kept))
    for test, sizes in ((tests.randomization, np.abs(kept)), (tests.wilcoxon, ranks)):
        observed = abs(np.sign(kept) @ sizes)
        expected = (np.abs(vectors @ sizes) >= observed - 1e-9).mean()
        found = test(values)
        assert found.p_value == pytest.approx(expected, abs=1e-12)
        assert found.direction == np.sign(np.round(np.sign(kept) @ sizes, 9))
    counted = np.unique(values, return_counts=True)
    for name, test in EACH.items():
        assert test(*counted) == pytest.approx(test(values), nan_ok=True), name


def test_the_largest_exact_samples_are_those_of_scipy():
    rng = np.random.default_rng(1)
    for n in (10, 13, 29, 50):
        values = rng.normal(0.3, 1, n)
        assert tests.wilcoxon(values).p_value == pytest.approx(stats.wilcoxon(values).pvalue, rel=1e-10)
    tied = rng.integers(1, 4, 13) * rng.choice([-1.0, 1.0], 13)
    assert tests.wilcoxon(tied).p_value == pytest.approx(stats.wilcoxon(tied).pvalue)
    for n in (51, 80):
        values = rng.integers(1, 9, n) * rng.choice([-1.0, 1.0], n)
        assert tests.wilcoxon(values).p_value == pytest.approx(stats.wilcoxon(values).pvalue)
    # 2**20 sign vectors, by a different route: the distribution of whole sums
    values = rng.integers(1, 30, 20) * rng.choice([-1.0, 1.0], 20)
    share = np.array([1.0])
    for size in np.abs(values).astype(int):
        step = np.zeros(2 * size + 1)
        step[[0, -1]] = 0.5
        share = np.convolve(share, step)
    sums = np.arange(share.size) - share.size // 2
    expected = share[np.abs(sums) >= abs(values.sum())].sum()
    assert tests.randomization(values).p_value == pytest.approx(expected)
    assert tests.randomization(0.1 * values).p_value == pytest.approx(expected)
    large = rng.normal(0.2, 1, 29)
    resampled = stats.permutation_test(
        (large,), np.mean, permutation_type="samples", n_resamples=5_000, random_state=rng
    )
    assert tests.randomization(large).p_value == pytest.approx(resampled.pvalue, abs=0.03)


def test_values_without_spread_have_no_interval_and_the_p_value_of_the_sign_test():
    for values in ([0.5, 0.5], [0.1 + 0.2, 0.3], [2.0], [0.0, 0.0], [1 / 3] * 7):
        values = np.array(values)
        assert np.isnan(tests.mean_of(values).interval(0.95)).all()
        for weights in (np.ones(values.size), np.arange(1.0, values.size + 1)):
            assert np.isnan(tests.mean_of(values, weights).interval(0.95)).all()
        for test in (tests.student, tests.normal):
            assert test(values) == tests.sign(values)
    # from 30 values on, a t statistic of equal sizes is close enough to the binomial
    assert tests.student(np.repeat([1.0, -1.0], [14, 15])).test == "sign"
    assert tests.student(np.repeat([1.0, -1.0], [15, 15])).test == "t"


@pytest.mark.parametrize("seed", range(40))
def test_an_interval_contains_its_mean_and_is_clipped_by_the_range_only(seed):
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, 1.0], 9, p=[0.9, 0.1]) if seed % 2 else rng.normal(-3, 10, 9)
    found = tests.mean_of(values)
    if np.ptp(values) == 0:
        return
    expected = stats.t.interval(0.9, 8, values.mean(), stats.sem(values))
    assert found.interval(0.9) == pytest.approx(expected)
    bounds = float(values.min()), float(values.max())
    low, high = found.interval(0.9, bounds)
    assert (low, high) == pytest.approx((max(bounds[0], expected[0]), min(bounds[1], expected[1])))
    assert low <= found.mean <= high


def minus_rank_of_the_first_good(y, scores):
    good = np.flatnonzero(y[np.argsort(-scores, kind="stable")] >= 2)
    return -float(good[0] if good.size else y.size)


@pytest.mark.parametrize("measure", ["ndcg@3", "dcg@3", "precision@1", minus_rank_of_the_first_good])
def test_every_door_gives_the_same_interval_for_the_same_values(measure):
    """``evaluate``, ``estimate`` (without its factor), ``compare`` and the studies of the command line."""
    data = make_ranking(12, 8, 4, grades=4, noise=2.0, random_state=3)
    one, other = (evaluate(measure, data.y, data.X[:, j], qid=data.qid) for j in (0, 1))
    named = isinstance(measure, str) and not measure.startswith("dcg")
    low, high = stats.t.interval(0.95, 11, one.per_query.mean(), stats.sem(one.per_query))
    expected = (max(low, 0.0), min(high, 1.0)) if named else (low, high)
    assert one.interval() == pytest.approx(expected)
    found = estimate_of(one, baseline=other.per_query, wider=1.0)
    assert (found.lower, found.upper) == pytest.approx(expected)
    apart = one.per_query - other.per_query
    low, high = stats.t.interval(0.95, 11, apart.mean(), stats.sem(apart))
    expected = (max(low, -1.0), min(high, 1.0)) if named else (low, high)
    for same in (found.difference, compare(one, other, test="t"), compare(one, other)):
        assert (same.lower, same.upper) == pytest.approx(expected)
        assert same.lower <= same.mean_difference <= same.upper
    if isinstance(measure, str):
        cells = ({"test": {"values": {measure: one.per_query}, "query_ids": one.query_ids}},)
        assert MethodResult("mine", cells).result(measure).interval() == pytest.approx(one.interval())
