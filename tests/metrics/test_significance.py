"""The paired comparison: against the enumerated null distribution, and for ties and bad input."""

import itertools

import numpy as np
import pytest
from scipy.stats import rankdata, ttest_rel

from structsvm.metrics import compare, evaluate
from tests.refusing import rejections


def exact_p(difference):
    """Return the two-tailed p-value by enumerating all signs of the ranks."""
    ranks = rankdata(np.abs(difference))
    total = ranks.sum()
    observed = min(ranks[difference > 0].sum(), ranks[difference < 0].sum())
    signed = (np.sign(difference) * ranks).sum()
    sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product([0, 1], repeat=len(ranks))]
    return float(np.mean([min(s, total - s) <= observed for s in sums])), signed


def test_exact_for_few_queries():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.random(9), rng.random(9)
        b[:2] = a[:2]
        p, statistic = exact_p((a - b)[2:])
        result = compare(a, b)
        assert result.p_value == pytest.approx(p, abs=1e-12)
        assert result.statistic == pytest.approx(statistic)
        assert result.ties == 2
        assert result.wins == (a > b).sum()
        assert result.losses == (a < b).sum()
        assert result.mean_difference == pytest.approx(a.mean() - b.mean())
        swapped = compare(b, a)
        assert swapped.p_value == result.p_value
        assert (swapped.wins, swapped.losses) == (result.losses, result.wins)


def test_all_equal_is_no_difference():
    for test in ("wilcoxon", "t", "sign", "randomization"):
        found = compare([0.5, 0.25], [0.5, 0.25], test=test)
        assert found[:6] == (0.0, 0, 0, 2, 0.0, 1.0)
        assert np.isnan([found.lower, found.upper]).all()
    assert compare([0.1 + 0.2], [0.3]).ties == 1


def test_skipped_queries_are_dropped():
    nan = float("nan")
    assert compare([nan, 0.5, 0.75], [nan, 0.25, 0.125]) == compare([0.5, 0.75], [0.25, 0.125])


def test_student_as_scipy_has_it():
    rng = np.random.default_rng(2)
    a, b = rng.random(30), rng.random(30)
    found, theirs = compare(a, b, test="t", level=0.9), ttest_rel(a, b)
    assert (found.statistic, found.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert (found.lower, found.upper) == pytest.approx(tuple(theirs.confidence_interval(0.9)))
    alike = compare([1.0, 2.0], [0.5, 1.5], test="t")
    assert (alike.p_value, alike.statistic, alike.test) == (0.5, 2, "sign")
    assert np.isnan([alike.lower, alike.upper]).all()
    assert compare([1.0], [0.5], test="t").p_value == 1.0
    assert np.isnan(compare([1.0], [0.5]).lower)


def test_randomization_is_exact_for_few_queries_and_near_it_for_many():
    rng = np.random.default_rng(3)
    for n in (5, 9):
        d = np.append(rng.normal(0.3, 1, n), 0.0)  # a tie changes nothing
        sums = [abs(np.dot(signs, np.abs(d[:n]))) for signs in itertools.product([-1, 1], repeat=n)]
        expected = np.mean([s >= abs(d.sum()) - 1e-12 for s in sums])
        assert compare(d, np.zeros(n + 1), test="randomization").p_value == expected
    d = rng.normal(0.15, 1, 200)
    drawn = [compare(d, np.zeros(200), test="randomization", random_state=seed).p_value for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn == pytest.approx([ttest_rel(d, np.zeros(200)).pvalue] * 3, abs=0.01)
    assert compare(d + 1, np.zeros(200), test="randomization").p_value == 1 / 10_001


def test_results_are_compared_query_by_query():
    rng = np.random.default_rng(4)
    (one, two), y, qid = rng.normal(size=(2, 240)), rng.integers(0, 2, 240), np.repeat(np.arange(24), 10)
    order = rng.permutation(240)
    mine, same = evaluate("map", y, one, qid=qid), evaluate("map", y, two, qid=qid)
    other = evaluate("map", y[order], two[order], qid=qid[order])
    assert compare(mine, other) == compare(mine, same) == compare(mine.per_query, same.per_query)


def result(name, qid):
    return evaluate(name, [1, 0] * 2, [1, 2] * 2, qid=qid)


test_bad_input = rejections(
    lambda a, b, options: compare(a, b, **options),
    ([1], [0], {"test": "z"}, "test='z': expected one of 'wilcoxon'"),
    ([1], [0], {"level": 1}, "level=1"),
    ([1, 2], [1], {}, r"got \(2,\) and \(1,\)"),
    ([[1]], [[1]], {}, "one value for each query"),
    ([], [], {}, "at least one query"),
    ([float("nan")], [float("nan")], {}, "at least one query"),
    ([1, float("nan")], [1, 2], {}, "query 1: expected values in both systems, got nan and 2.0"),
    ([float("inf")], [1], {}, "finite"),
    (result("map", [1, 1, 2, 2]), result("mrr", [1, 1, 2, 2]), {}, "one measure"),
    (result("map", [1, 1, 2, 2]), result("map", [2, 2, 3, 3]), {}, "1 is in a only"),
    (result("map", [1, 1, 1, 1]), result("map", [1, 1, 2, 2]), {}, "2 is in b only"),
    (result("map", [1, 1, 2, 2]), [0, 0], {}, "one of each"),
)
