"""Rankers of a data set as a world: live comparisons, the batch estimate and the literal interleavers agree."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from experiments._gradient_descent import ndcg_of
from experiments._worlds import value_preferences
from structsvm.online import simulate
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.simulation.letor_world import (
    InterleavedRankers,
    informative_features,
    ndcg_table,
    rank_queries,
)
from structsvm.queries import QueryData
from structsvm.readers import make_ranking, read_letor
from tests.refusing import rejected, rejections

DATA = make_ranking(25, 12, 5, grades=3, noise=2.0, random_state=0)
RANKED = rank_queries(DATA)


def world(**options: object) -> InterleavedRankers:
    return InterleavedRankers(RANKED, n_samples=4000, utilities=ndcg_table(RANKED).mean(axis=1), **options)  # type: ignore[arg-type]


def test_rankers_are_features_models_and_functions() -> None:
    class Model:
        def predict(self, X: np.ndarray) -> np.ndarray:
            return -X[:, 2]

    ranked = rank_queries(DATA, [np.int64(2), Model(), lambda X: X[:, 0]])
    by_hand = RankedQueries.from_scores(
        np.column_stack([DATA.X[:, 2], -DATA.X[:, 2], DATA.X[:, 0]]), DATA.y, DATA.offsets
    )
    np.testing.assert_array_equal(ranked.rankings, by_hand.rankings)
    a, b = DATA.offsets[:2]
    np.testing.assert_array_equal(ranked.rankings[0, a:b], ranked.rankings[1, a:b][::-1])


test_what_is_no_ranker_is_refused = rejections(
    lambda rankers: rank_queries(DATA, rankers),
    ([], "at least one"),
    ([7], "feature from 0 to 4, got 7"),
    ([-1], "feature from 0 to 4"),
    ([True], "a model with predict"),
    (["bm25"], "got 'bm25'"),
    ([lambda X: X], r"rankers\[0\]: expected one score for each of 300 rows"),
)


def test_informative_features_vary_within_a_query() -> None:
    data = QueryData.from_arrays(
        np.array([[1.0, 5, 0, 1], [1, 5, 0, 2], [1, 6, 0, 2], [1, 6, 3, 2]]),
        [0, 1, 0, 1],
        ["a", "a", "b", "b"],
    )
    # 0 is constant, 1 is constant within each query
    assert informative_features(data).tolist() == [2, 3]


def test_ndcg_of_feature_rankers_is_that_of_linear_ones() -> None:
    np.testing.assert_allclose(ndcg_table(RANKED), ndcg_of(DATA, np.eye(5)))
    np.testing.assert_allclose(ndcg_table(RANKED, k=3), ndcg_of(DATA, np.eye(5), k=3))


def test_value_preferences_by_hand() -> None:
    values = np.random.default_rng(0).random((4, 6))
    P = value_preferences(values, scale=10)
    for i in range(4):
        for j in range(4):
            assert P[i, j] == pytest.approx(
                np.mean([expit(10 * (a - b)) for a, b in zip(values[i], values[j], strict=True)])
            )
    assert (P + P.T == 1).all()
    rejected("link", value_preferences, values, link="probit")
    rejected("finite", value_preferences, [[np.nan]])


@pytest.mark.parametrize("method", ["probabilistic", "team_draft"])
def test_live_duels_have_the_frequencies_of_the_matrix(method: str) -> None:
    live = world(method=method)
    rng = np.random.default_rng(1)
    n = 4000
    for arms in ((0, 1), (3, 2), (4, 0)):
        mean = np.mean([live.compare(arms, rng) for _ in range(n)])
        # two estimates of one probability, outcomes in [0, 1]: five standard deviations
        assert abs(mean - live.matrix[arms]) < 5 * 0.5 * np.sqrt(2 / n)


def test_comparisons_of_equal_or_single_rankers_use_no_random_numbers() -> None:
    live, rng = world(), np.random.default_rng(0)
    before = rng.bit_generator.state
    assert live.compare((2, 2), rng) == live.compare((1,), rng) == 0.5
    assert rng.bit_generator.state == before


@pytest.mark.slow
def test_bandits_find_the_best_ranker_live_and_by_proxy() -> None:
    data = make_ranking(40, 12, 4, grades=3, noise=0.2, random_state=5)
    planted = np.linalg.lstsq(data.X, data.y, rcond=None)[0]
    live = InterleavedRankers(
        rank_queries(data, [0, 1, lambda X: X @ planted, 2, 3]), "perfect", n_samples=3000
    )
    assert live.winners.tolist() == [2]
    for name, world in product(("rucb", "mdb"), (live, live.proxy())):
        run = simulate(name, world, horizon=1500, n_runs=2, seed=1)
        assert run.compiled
        assert run.winner.tolist() == [2, 2]


def test_a_checkpoint_knows_its_rankings(tmp_path: Path) -> None:
    options = {"horizon": 30, "checkpoint": tmp_path / "runs.npz"}
    one = simulate("rucb", world(), **options)
    np.testing.assert_array_equal(simulate("rucb", world(), **options).regret, one.regret)
    rejected("world differ", simulate, "rucb", world(method="team_draft"), **options)


def test_refusals_of_the_world() -> None:
    rejected("navigational", InterleavedRankers, RANKED, "drunk")
    with pytest.raises(ValueError, match="method"):
        InterleavedRankers(RANKED, method="balanced")  # type: ignore[arg-type]
    rejected("utilities=", InterleavedRankers, rank_queries(DATA, [0, 0]), n_samples=10)


def test_features_of_a_real_data_set(shared_data) -> None:
    data = read_letor(shared_data("letor4_mq2008/S1.txt.gz"))
    assert len(informative_features(data)) == 40  # 6 of the 46 are constant
    ranked = rank_queries(data)
    live = InterleavedRankers(ranked, "perfect", n_samples=2000, utilities=ndcg_table(ranked).mean(axis=1))
    # the better half by NDCG beats the worse half
    order = np.argsort(live.gaps)
    assert live.matrix[np.ix_(order[:10], order[-10:])].mean() > 0.55
