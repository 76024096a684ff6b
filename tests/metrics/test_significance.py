"""The paired comparison: against the enumerated null distribution, and its policies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import rankdata

from structsvm.metrics import compare


def exact_p(difference):
    """Two-tailed p by enumerating all signs of the ranks."""
    ranks = rankdata(np.abs(difference))
    total = ranks.sum()
    observed = min(ranks[difference > 0].sum(), ranks[difference < 0].sum())
    sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product([0, 1], repeat=len(ranks))]
    return float(np.mean([min(s, total - s) <= observed for s in sums])), observed


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
    assert compare([0.5, 0.25], [0.5, 0.25]) == (0.0, 0, 0, 2, 0.0, 1.0)
    assert compare([0.1 + 0.2], [0.3]).ties == 1


def test_many_queries_with_a_shift_are_significant():
    rng = np.random.default_rng(1)
    a = rng.random(300)
    assert compare(a + 0.05 * rng.random(300), a).p_value < 1e-10
    assert compare(a, rng.random(300)).p_value > 0.01


def test_skipped_queries_are_dropped():
    nan = float("nan")
    assert compare([nan, 0.5, 0.75], [nan, 0.25, 0.125]) == compare([0.5, 0.75], [0.25, 0.125])


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1, 2], [1], r"got \(2,\) and \(1,\)"),
        ([[1]], [[1]], "one value for each query"),
        ([], [], "at least one query"),
        ([float("nan")], [float("nan")], "at least one query"),
        ([1, float("nan")], [1, 2], "query 1: expected values in both systems, got nan and 2.0"),
        ([float("inf")], [1], "finite"),
    ],
)
def test_bad_input(a, b, message):
    with pytest.raises(ValueError, match=message):
        compare(a, b)
