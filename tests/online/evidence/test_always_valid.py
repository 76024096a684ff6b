"""Always-valid inference, and several comparisons."""

from itertools import chain, combinations

import numpy as np
import pytest

from structsvm.metrics.tests import benjamini_hochberg
from structsvm.online.evidence import always_valid as av
from structsvm.online.statistics import confidence_sequence, holm
from tests.refusing import rejected


def capital(values, m):
    """Return the mixture of products of bets: each factor has mean 1 if the outcomes have mean ``m``."""
    wealth = 0.0
    for c in av.SHARES:
        wealth += np.prod([(1 - c) + c * (1 + x) / (1 + m) for x in values])
        wealth += np.prod([(1 - c) + c * (1 - x) / (1 - m) for x in values])
    return wealth / (2 * len(av.SHARES))


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_is_what_the_capital_cannot_refute(seed):
    rng = np.random.default_rng(seed)
    values = rng.choice([-1.0, 0.0, 1.0], 50) if seed % 2 else rng.uniform(-1, 1, 50)
    seen = confidence_sequence(values, alpha=0.1)
    grid, step = np.linspace(-0.995, 0.995, 399, retstep=True)
    kept = grid[[capital(values, m) < 10 for m in grid]]
    assert kept[0] - step <= seen.lower[0] <= kept[0]
    assert kept[-1] <= seen.upper[0] <= kept[-1] + step
    np.testing.assert_allclose(np.diff(kept), step)  # without a hole
    assert seen.lower[0] < values.mean() < seen.upper[0]


def test_the_p_value_is_one_over_the_capital_and_agrees_with_the_interval():
    values = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], 120, p=[0.1, 0.3, 0.6])
    values[60:] *= -1  # a lead that turns
    now = np.array([max(capital(values[: t + 1], 0.0), 1.0) for t in range(120)])
    seen = confidence_sequence(values, looks=np.arange(1, 121))
    np.testing.assert_allclose(seen.p_values, 1 / now, rtol=1e-9)
    np.testing.assert_allclose(seen.mean, values.cumsum() / np.arange(1, 121))
    outside = (seen.lower > 0) | (seen.upper < 0)
    assert outside.any()
    assert not outside[-1]
    np.testing.assert_array_equal(outside, seen.p_values <= 0.05)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_are_those_of_a_bisection(seed):
    """The slow twin halves the interval between the mean and either end until it knows where the capital crosses."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    values = [rng.choice([-1.0, 0.0, 1.0], n), rng.uniform(-1, 1, n), np.full(n, rng.choice([-1.0, 0.3]))][
        seed % 3
    ]
    alpha = float(rng.choice([1e-6, 0.05, 0.3]))
    seen = confidence_sequence(values, alpha=alpha)
    for end, bound in ((-1.0, seen.lower[0]), (1.0, seen.upper[0])):
        inside, outside = values.mean(), end
        while abs(inside - outside) > 1e-12:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if capital(values, middle) < 1 / alpha else (inside, middle)
        assert 0 <= end * (bound - outside) <= 1.1e-9 or bound == end


def test_clusters_are_one_outcome_each():
    values = np.random.default_rng(3).choice([-1.0, 0.0, 1.0], 80, p=[0.1, 0.2, 0.7])
    alone = confidence_sequence(values)
    repeated = confidence_sequence(np.repeat(values, 4), clusters=np.repeat(np.arange(80), 4).tolist())
    for name in ("looks", "mean", "lower", "upper", "p_values"):
        np.testing.assert_allclose(getattr(repeated, name), getattr(alone, name), atol=1e-9)


def test_extreme_outcomes():
    for sign in (1.0, -1.0):
        seen = confidence_sequence(np.full(30, sign))
        bounds = sorted([sign * seen.lower[0], sign * seen.upper[0]])
        assert bounds[1] == 1
        assert 0 < bounds[0] < 1
    flat = confidence_sequence(np.zeros(5))
    assert flat.p_values[0] == 1
    assert flat.lower[0] < 0 < flat.upper[0]
    assert av.counted_needed(np.zeros(1), np.array([5]), 0.05) == np.inf
    assert av.counted_needed(np.array([-1.0, 1.0]), np.ones(2, dtype=int), 0.05) == np.inf
    single = confidence_sequence([0.5])
    assert single.lower[0] <= -0.5


def test_bad_outcomes_are_refused():
    rejected(r"outcomes\[1\]: expected a number in \[-1, 1\], got 2", confidence_sequence, [0.0, 2.0])
    for looks in ([0], [3], [2, 1], [], [1.5, 2]):
        with pytest.raises(ValueError, match="looks: expected increasing whole numbers from 1 to 2"):
            confidence_sequence([0.0, 1.0], looks=looks)
    rejected("alpha", confidence_sequence, [0.0], alpha=1)


# -- several comparisons -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_the_closure_of_bonferroni(seed):
    """A comparison's p-value is the largest Bonferroni p of all sets of comparisons that it is in."""
    p = np.random.default_rng(seed).random(5) ** 3
    if seed == 0:
        p[1] = p[2]
    sets = list(chain.from_iterable(combinations(range(5), r) for r in range(1, 6)))
    expected = [max(min(1, len(s) * p[list(s)].min()) for s in sets if k in s) for k in range(5)]
    np.testing.assert_allclose(holm(p), expected)


def test_benjamini_hochberg_by_hand():
    """The smallest p-values up to the largest k with p(k) <= k alpha / n are rejected; adjusted p by hand."""
    np.testing.assert_allclose(benjamini_hochberg([0.04, 0.01, 0.03, 0.9]), [0.16 / 3, 0.04, 0.16 / 3, 0.9])


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg])
def test_corrections_know_their_limits(correct):
    assert correct([0.3]) == pytest.approx([0.3])
    assert len(correct([])) == 0
    for bad in ([0.5, 1.5], [0.5, np.nan]):
        rejected(r"p\[1\]: expected a number in \[0, 1\]", correct, bad)


def test_outcomes_beyond_one_by_rounding_are_one():
    beyond, exact = (av.confidence_sequence([-one, one, 0.5]) for one in (1 + 5e-10, 1.0))
    assert (beyond.mean, beyond.lower, beyond.upper) == (exact.mean, exact.lower, exact.upper)


@pytest.mark.parametrize("alpha", [0.05, 1e-50, 1e-300])
def test_outcomes_needed_for_any_level(alpha):
    """The capital of the best bet may miss the level by rounding at the end of the search."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        values = np.unique(rng.integers(-4, 5, 5) / 4)
        counts = rng.integers(1, 40, len(values))
        assert av.counted_needed(values, counts, alpha) >= av.counted_needed(values, counts, 0.1)
