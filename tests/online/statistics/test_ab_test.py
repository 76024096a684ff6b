"""A/B tests of conversions: the capital by exact fractions, the level at every look, refusals."""

import re
from fractions import Fraction
from math import factorial, log
from pathlib import Path

import numpy as np
import pytest

from structsvm.online.statistics import ab_test
from structsvm.online.statistics.conversions import _log_capital
from tests.refusing import rejected


def exact_capital(a: int, b: int, q: Fraction) -> Fraction:
    """Return the mean likelihood ratio under the prior, by rising factorials of its whole parameters."""

    def rising(start: int, n: int) -> int:
        return factorial(start + n - 1) // factorial(start - 1)

    total = sum(
        weight * Fraction(rising(half, a) * rising(half, b), rising(2 * half, a + b))
        for half, weight in ((100, Fraction(8, 10)), (1, Fraction(2, 10)))
    )
    return total / ((1 - q) ** a * q**b)


@pytest.mark.parametrize("counts", [(0, 0), (3, 1), (0, 9), (40, 61)])
def test_the_capital_is_that_of_exact_bets(counts):
    for q in (Fraction(1, 2), Fraction(1, 5)):
        exact = exact_capital(*counts, q)
        expected = log(exact.numerator) - log(exact.denominator)
        assert _log_capital(np.array(counts, dtype=float), 0.5, float(q)) == pytest.approx(expected, abs=1e-9)


def test_a_conversion_keeps_the_mean_of_the_capital_where_rates_are_equal():
    before = exact_capital(7, 4, Fraction(1, 2))
    assert (exact_capital(8, 4, Fraction(1, 2)) + exact_capital(7, 5, Fraction(1, 2))) / 2 == before


def test_the_interval_is_what_the_capital_does_not_refute():
    result = ab_test([14000, 14000], [700, 868])
    for lift, inside in ((result.lower, 1e-4), (result.upper, -1e-4)):
        for change, refuted in ((inside, False), (-inside, True)):
            ratio = 1 + lift + change
            capital = _log_capital(np.array([700.0, 868.0]), 0.5, ratio / (1 + ratio))
            assert (capital >= np.log(20)) == refuted
    assert (result.winner, result.p_value <= 0.05, result.lower > 0) == ("B", True, True)
    mirrored = ab_test([14000, 14000], [868, 700])
    assert (1 + mirrored.lower) * (1 + result.upper) == pytest.approx(1)
    assert ab_test([10, 12], [0, 0]).p_value == 1
    assert ab_test([10, 12], [0, 0]).lower == -1


def test_equal_rates_are_rarely_told_apart_at_any_look():
    wrong, n = 0, 100
    for seed in range(n):
        of_b = np.cumsum(np.random.default_rng(seed).random(600) < 0.3)
        # at every conversion, an arm with 30 % of the users
        p = [
            ab_test([700, 300], [t - b, b], share=0.3).p_value
            for t, b in zip(range(20, 601, 20), of_b[19::20], strict=True)
        ]
        wrong += min(p) <= 0.05
    assert wrong / n <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_a_difference_is_found_as_often_as_the_manual_says():
    page = (Path(__file__).parents[3] / "docs/guide/ab_test.md").read_text(encoding="utf-8")
    power = int(re.search(r"names the better arm in (\d+)%", page)[1]) / 100
    rng, n, found = np.random.default_rng(0), 60, 0
    for _ in range(n):
        of_b = rng.random(28_000) < 0.5
        converted = rng.random(28_000) < np.where(of_b, 0.062, 0.05)
        counts = [np.cumsum(one)[1999::2000] for one in (~of_b, of_b, converted & ~of_b, converted & of_b)]
        p = [ab_test(look[:2].tolist(), look[2:].tolist()).p_value for look in np.column_stack(counts)]
        found += min(p) <= 0.05
    assert abs(found / n - power) <= 3 * np.sqrt(power * (1 - power) / n)


def test_bad_counts_are_refused():
    rejected("pass counts of users; revenue has no bound known in advance", ab_test, [100, 100], [20.5, 30.0])
    rejected("expected two whole numbers", ab_test, [100, 100, 100], [20, 30, 40])
    rejected("expected two whole numbers, of A and of B, got .'100', 'x'.", ab_test, ["100", "x"], [20, 30])
    rejected("expected at most the number of users", ab_test, [10, 10], [20, 0])
    rejected("expected 50% of 2,200 users in B, got 54.5%", ab_test, [1000, 1200], [1, 1])
