"""Compiled policies play the same duels as the uncompiled ones."""

from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import beta

from experiments._worlds import worst_case
from structsvm.online import NormalScores, PreferenceMatrix, Utilities, simulate
from structsvm.online.bandits import make
from structsvm.online.bandits.by_name import compiled_names
from structsvm.online.simulation.letor_world import InterleavedRankers, ndcg_table, rank_queries
from structsvm.readers import make_ranking
from tests.laws import LAW

OPTIONS = {
    "rucb": {"alpha": 0.7},
    "mergerucb": {"alpha": 0.8, "size": 6, "delta": 0.1},
    "rmed1": {"margin": 0.5},
    "mdb": {"alpha": 0.8, "beta": 2.5},
}


def compiled_as_literal(name, world, *, options=None, n_jobs=None, **settings):
    """Play the same simulation by the literal policy and in its compiled form, which is returned."""
    literal = simulate(partial(make, name, **(options or {})), world, **settings)
    compiled = simulate(name, world, options=options, n_jobs=n_jobs, **settings)
    assert (literal.compiled, compiled.compiled) == (False, True)
    np.testing.assert_array_equal(compiled.duels, literal.duels)
    np.testing.assert_array_equal(compiled.winners, literal.winners)
    np.testing.assert_allclose(compiled.regret, literal.regret, rtol=1e-9, atol=1e-9)
    return compiled


def circle(n: int, strength: float) -> np.ndarray:
    """Return preferences in which each arm beats the next half of the circle."""
    ahead = (np.arange(n) - np.arange(n)[:, None]) % n
    P = np.full((n, n), 0.5)
    P[(ahead > 0) & (2 * ahead < n)] = strength
    P[2 * ahead > n] = 1 - strength
    return P


def random_world(
    rng: np.random.Generator, kind: int, most: int
) -> PreferenceMatrix | Utilities | NormalScores:
    """Return a few arms: some of them equal, by utilities, with certain and even pairs, in a circle, or all equal."""
    n = int(rng.integers(1, most + 1))
    utilities = rng.choice([0.0, 0.1, 0.2, 0.5, 0.6, 0.9, 1.0], n)
    if kind == 0:
        return Utilities(utilities)
    if kind == 1:
        return NormalScores(4 * utilities)
    if kind == 2:
        P = np.triu(rng.choice([0.0, 0.05, 0.4, 0.5, 0.6, 0.95, 1.0], (n, n)), 1)
        return PreferenceMatrix(P + np.tril(1 - P.T, -1) + 0.5 * np.eye(n), utilities=utilities)
    if kind == 3:
        return PreferenceMatrix(circle(n, rng.choice([0.6, 0.9, 1.0])), utilities=utilities)
    return Utilities(np.full(n, 0.5))


@pytest.mark.parametrize("name", [name for name in compiled_names() if name != "rcs"])
def test_same_duels_under_shared_random_numbers(name: str) -> None:
    for seed in range(6, 12):  # each kind of world with and without options, with 2 to 13 arms
        world = random_world(np.random.default_rng(seed), seed % 3, 13)
        options = OPTIONS.get(name) if seed % 2 else None
        kind = ["average", "weak", "average" if name == "mdb" else "sum"][seed % 3]
        compiled_as_literal(
            name, world, options=options, horizon=700, seed=seed, regret=kind, times=range(1, 701, 7)
        )


def live_world(
    user: str = "informational", method: str = "probabilistic", n_rankers: int = 6
) -> InterleavedRankers:
    """Return rankers of generated queries, two of them identical."""
    ranked = rank_queries(
        make_ranking(12, 8, n_rankers - 1, grades=3, noise=1.5, random_state=0), [*range(n_rankers - 1), 0]
    )
    return InterleavedRankers(
        ranked, user, method=method, n_samples=1, utilities=ndcg_table(ranked).mean(axis=1)
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in compiled_names() if name != "rcs"])
def test_same_live_duels_under_shared_random_numbers(name: str) -> None:
    """Duels are interleaved or, for sets, multileaved for simulated users, with ties."""
    cases = [
        ("perfect", "team_draft", 6),
        ("informational", "probabilistic", 6),
        ("navigational", "team_draft", 2),
    ]
    for seed, case in enumerate(cases):
        world = live_world(*case)
        options = OPTIONS.get(name) if seed == 1 else None
        kind = "weak" if seed else "average"
        compiled_as_literal(
            name,
            world,
            options=options,
            n_jobs=2,
            horizon=600,
            n_runs=2,
            seed=seed,
            regret=kind,
            times=range(1, 601, 7),
        )


@pytest.mark.parametrize("n", [60, pytest.param(10_000, marks=LAW)])
@pytest.mark.parametrize("name", ["rucb", "mdb", "dts"])
def test_same_duels_where_sets_of_possible_arms_change_in_every_way(name: str, n: int) -> None:
    """Sets are kept between steps: empty, with one arm or all; arms join just before and just after a step."""
    rng = np.random.default_rng(5)
    alone = 0
    for _ in range(n):
        world = random_world(rng, int(rng.integers(5)), 8)
        # an arm that lost once is possible again when ln t reaches 0.25 / alpha
        edge = 0.25 / np.log(rng.integers(2, 200))
        alphas = [1e-300, 1e-12, 0.01, 0.1, 0.51, 2.0, 100.0, edge * (1 - 1e-9), edge * (1 + 1e-9)]
        options = {"alpha": float(rng.choice(alphas))}
        if name == "mdb":
            options["beta"] = float(rng.choice([1.0, 1.0000001, 1.5, 4.0, 1e6]))
        horizon = int(rng.choice([1, 3, 30, 300, 600]))
        settings = {"horizon": horizon, "seed": int(rng.integers(1 << 30)), "times": range(1, horizon + 1)}
        compiled = compiled_as_literal(name, world, options=options, **settings)
        alone += horizon >= 300 and np.diag(compiled.duels).sum() > horizon / 2
    assert alone > n / 30 or name == "dts"  # runs in which the compiled form jumped


@pytest.mark.parametrize("name", ["rucb", "mdb", "dts"])
def test_same_duels_while_no_arm_may_be_the_winner(name: str) -> None:
    """An excluded arm that wins may stay excluded, and may return earlier than all others."""
    world = PreferenceMatrix(circle(8, 0.6), utilities=np.zeros(8))
    compiled_as_literal(name, world, horizon=600, n_runs=12, seed=0, options={"alpha": 0.1})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rucb", "mdb", "rmed1", "mergerucb"])
def test_same_duels_across_long_jumps(name: str) -> None:
    """A clear winner leads to many equal duels: jumps must end where the policy changes its duel."""
    world = Utilities([0.1, 0.95, 0.3, 0.2])
    for seed in range(2):
        compiled = compiled_as_literal(name, world, horizon=9_000, seed=seed)
        assert np.diag(compiled.duels).sum() > 6000 or name == "mergerucb"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "horizon"),
    [
        (live_world("navigational", "team_draft", 4), 150),
        (PreferenceMatrix(worst_case(5, 0.3)[::-1, ::-1]), 250),
    ],
)
def test_rcs_agrees_in_distribution(world: PreferenceMatrix | Utilities, horizon: int) -> None:
    n = 220
    times = [10, 50, horizon]
    literal = simulate(partial(make, "rcs"), world, horizon=horizon, n_runs=n, seed=1, times=times)
    compiled = simulate("rcs", world, horizon=horizon, n_runs=20 * n, seed=2, times=times)
    for moment in (1, 2):
        a, b = literal.regret**moment, compiled.regret**moment
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * error + 1e-12).all()
    a, b = literal.accuracy, compiled.accuracy
    assert (np.abs(a - b) < 4 * np.sqrt(b * (1 - b) / n) + 0.01).all()
    # who met whom, and how often an arm met itself
    share = literal.duels / literal.duels.sum(), compiled.duels / compiled.duels.sum()
    assert np.abs(share[0] - share[1]).max() < 0.03


@pytest.mark.parametrize("n_arms", [1, 2, 5, 9, 13])
def test_merge_rucb_plays_the_same_duels_from_any_partition(n_arms: int) -> None:
    world = Utilities(np.random.default_rng(n_arms).random(n_arms))
    for partition in ("in order", "shuffled"):
        compiled_as_literal(
            "mergerucb", world, horizon=900, n_runs=2, seed=3, options={"partition": partition}
        )


@pytest.mark.parametrize("name", ["if1", "if2"])
def test_filters_play_the_same_duels_where_shares_are_exactly_even(name: str) -> None:
    """At the end of a round in which the candidate falls, a rival with half of the wins is no worse: it stays for
    IF1, and for IF2 only one above 1/2 leaves with the candidate.
    """
    rng = np.random.default_rng(0)
    fallen = 0
    for seed in range(60):
        n = int(rng.integers(3, 7))
        # arm 0 surely beats all; the others win every second duel against each other on average
        P = np.full((n, n), 0.5)
        P[0, 1:], P[1:, 0] = 1.0, 0.0
        winners = compiled_as_literal(name, P, horizon=2000, seed=seed, times=range(1, 2001)).winners
        fallen += int(winners[0, 0] != winners[0, -1])
    assert fallen > 30


@pytest.mark.parametrize("chance", [0.5, 0.98, 0.05, None])
def test_rcs_tails_are_the_beta_probabilities(chance: float | None) -> None:
    """The tails are also correct where the probability of the exact count underflows and returns."""
    from structsvm.online.bandits.compiled.rcs import _tail_step

    rng = np.random.default_rng(0)
    outcomes = np.arange(3000) < 1500 if chance is None else rng.random(3000) < chance
    tail, w = (0.5, 0.5), 0.0
    for n, won in enumerate(outcomes.tolist(), 1):
        tail = _tail_step(*tail, n - 1.0, w, won)
        w += won
        if n < 5 or n == 3000:
            assert tail[0] == pytest.approx(beta.sf(0.5, w + 1, n - w + 1), abs=1e-12)


def test_rcs_knock_out_has_the_right_champion_distribution() -> None:
    """Compare with an enumeration of all outcomes of the tournament."""
    from structsvm.online.bandits.compiled.rcs import _all, _champion

    rng = np.random.default_rng(0)
    k = 4
    upper = np.triu(rng.random((k, k)), 1)
    beats = upper + np.tril(1 - upper.T, -1) + 0.5 * np.eye(k)
    pairs = list(combinations(range(k), 2))
    exact = np.zeros(k + 1)
    for results in product([0, 1], repeat=len(pairs)):
        lost = [pair[1 - winner] for pair, winner in zip(pairs, results, strict=True)]
        chance = np.prod(
            [beats[b, a] if w else beats[a, b] for (a, b), w in zip(pairs, results, strict=True)]
        )
        exact[next((arm for arm in range(k) if arm not in lost), k)] += chance
    n = 40_000
    for lead in range(k):
        counts = np.zeros(k + 1)
        chance = _all(beats, lead)
        for _ in range(n):
            u = rng.random()
            counts[lead if u < chance else _champion(beats, lead, u, rng)] += 1
        assert (np.abs(counts / n - exact) < 4.5 * np.sqrt(exact * (1 - exact) / n) + 1e-9).all()
