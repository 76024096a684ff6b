"""Worlds: checks on matrices, links, exact frequencies, the named problems."""

import numpy as np
import pytest
from scipy.stats import norm

from experiments._worlds import SYNTHETIC, bradley_terry, synthetic_utilities, worst_case
from structsvm.online.simulation import worlds
from structsvm.protocols import World
from tests.refusing import rejected, rejections

test_bad_matrices_are_refused_by_name = rejections(
    worlds.PreferenceMatrix,
    ([[0.5, 0.5]], r"shape \(K, K\)"),
    ([], r"shape \(K, K\)"),
    ([0.5], r"shape \(K, K\)"),
    ("rubbish", r"square table of real numbers, got str \(could not"),
    ([[0.5, 0.7 + 1j], [0.3, 0.5]], "real numbers, got list .complex numbers"),
    ([[0.5, 1.2], [-0.2, 0.5]], r"P\[0, 1\] = 1.2"),
    ([[0.5, np.nan], [0.2, 0.5]], r"P\[0, 1\] = nan"),
    ([[0.5, 0.7], [0.7, 0.5]], r"P\[0, 1\] \+ P\[1, 0\]"),
    ([[0.6, 0.7], [0.3, 0.5]], r"P\[0, 0\]"),
    ([[0.5, 0.5], [0.5, 0.5]], "Condorcet winner"),
    ([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]], "utilities="),
)


def test_without_condorcet_winner_utilities_measure_regret() -> None:
    cycle = [[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]]
    world = worlds.PreferenceMatrix(cycle, utilities=[0.2, 0.5, 0.5])
    np.testing.assert_allclose(world.gaps, [0.3, 0, 0])
    assert world.winners.tolist() == [1, 2]
    rejected("one for each of 3 arms, got 2", worlds.PreferenceMatrix, cycle, utilities=[0.2, 0.5])


def test_links() -> None:
    x = np.array([-1.0, 0.0, 0.3])
    np.testing.assert_allclose(worlds.LINKS["linear"](x), (1 + x) / 2)
    np.testing.assert_allclose(worlds.LINKS["logistic"](x), 1 / (1 + np.exp(-x)))
    np.testing.assert_allclose(worlds.LINKS["gaussian"](x), norm.cdf(x, scale=np.sqrt(2)))
    for link in worlds.LINKS:
        P = worlds.Utilities([0.1, 0.9, 0.5, 0.5], link).preferences
        worlds.check_preferences(P)
        assert worlds.condorcet_winner(P) == 1
    rejected("range of at most 1", worlds.Utilities, [0.0, 1.5])
    rejected("link", worlds.Utilities, [0.0], "probit")
    rejected("finite", worlds.Utilities, [0.0, np.inf])


def test_frequencies_of_pairs_and_sets() -> None:
    rng = np.random.default_rng(0)
    n = 6000
    for world in (worlds.Utilities([0.8, 0.3, 0.5]), worlds.NormalScores([0.8, 0.3, 0.5])):
        assert isinstance(world, World)
        exact = np.array([world.preferences[0, 2], world.preferences[0, 1], world.preferences[2, 1]])
        together = np.mean([world.compare((0, 2, 1), rng) for _ in range(n)], axis=0)
        apart = [np.mean([world.compare(pair, rng) for _ in range(n)]) for pair in ((0, 2), (0, 1), (2, 1))]
        assert (np.abs(together - exact) < 4 * 0.5 / np.sqrt(n)).all()
        assert (np.abs(apart - exact) < 4 * 0.5 / np.sqrt(n)).all()
        assert world.compare((1, 1), rng) == 0.5


def test_scores_make_the_pairs_of_a_set_consistent() -> None:
    rng = np.random.default_rng(0)
    world = worlds.NormalScores([0.0, 0.1, 0.2])
    for _ in range(500):
        ab, ac, bc = world.compare((0, 1, 2), rng)
        assert not (ab == bc and ac != ab)  # no cycle


def test_the_fifteen_synthetic_problems() -> None:
    assert len(SYNTHETIC) == 15
    assert sorted({len(utilities) for utilities in SYNTHETIC.values()}) == [6, 51, 201]
    for name, utilities in SYNTHETIC.items():
        assert utilities[0] == 0.8
        assert (utilities[1:] < 0.8).all()
        assert worlds.NormalScores(utilities).winners.tolist() == [0]
        assert sorted(synthetic_utilities(name, np.random.default_rng(0))) == sorted(utilities)
    good = SYNTHETIC["41good160poor"]
    assert ((good == 0.7).sum(), (good == 0.2).sum()) == (40, 160)
    geom = SYNTHETIC["geom51"]
    np.testing.assert_allclose(geom[2:] / geom[1:-1], (0.2 / 0.7) ** (1 / 49))
    rejected("name='2good2poor': expected one of '1good5poor'", synthetic_utilities, "2good2poor")


def test_thesis_instances() -> None:
    worlds.check_preferences(worst_case(7, 0.1))
    assert worlds.condorcet_winner(worst_case(7, 0.1)) == 0
    P = bradley_terry(30, 0.1, np.random.default_rng(0))
    worlds.check_preferences(P)
    assert P[0, 1:].min() == pytest.approx(0.6)
