"""Each policy finds the best arm and follows its paper; common checks are in tests/testing/test_online.py."""

from inspect import signature
from typing import Any

import numpy as np
import pytest

from structsvm.common.lazy import labelled
from structsvm.online import Utilities, bandits, simulate
from structsvm.online.bandits import Anytime, ExploreThenExploit, from_json, make
from structsvm.protocols import Duel
from tests.refusing import called, rejected, rejections

PARAMETERS = {name: set(signature(made).parameters) for name, made in labelled(bandits.__name__).items()}
NEED_HORIZON = [name for name in bandits.NAMES if "horizon" in PARAMETERS[name]]
HORIZON = {"best": 3000, "btm": 2500, "savage": 4000, "sparring": 3000, "multisbm": 4000, "doubler": 4000}
LEARNERS = [name for name in bandits.NAMES if name != "random"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_finds_the_best_arm_of_twenty_random_worlds(name: str) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        world = Utilities(rng.permutation(np.append(rng.uniform(0.0, 0.6, 4), 0.9)))
        steps = HORIZON.get(name, 100_000)  # short where there is no compiled form
        assert simulate(name, world, horizon=steps, seed=seed, times=[steps]).correct[0, -1], seed


test_bad_outcomes_parameters_and_states_are_named = rejections(
    called,
    (lambda: make("rucb", 3).update(Duel((0, 1), -1), 2), r"outcome=2: expected 1 "),
    (lambda: make("mdb", 3).update(Duel((0, 1, 2)), [1, 0]), "3 numbers"),
    (lambda: make("rucb", 3).update(Duel((0, 1.5), -1), 1), "duel: expected arms from 0 to 2"),  # type: ignore[arg-type]
    (lambda: make("rucb", 3).update(Duel(("0", "1"), -1), 1), "duel: expected arms from 0 to 2"),  # type: ignore[arg-type]
    (lambda: make("mdb", 3).update(Duel((0, None)), 1), "duel: expected arms from 0 to 2"),  # type: ignore[arg-type]
    (lambda: make("rucb2", 3), f"expected one of {', '.join(bandits.NAMES)}, got 'rucb2'"),
    (lambda: make("rucb", 3, beta=1), r"rucb: expected options among \['alpha'\], got 'beta'"),
    (lambda: make("if2", 3), "Anytime"),
    (lambda: make("mdb", 0), "n_arms"),
    (lambda: make("mergerucb", 3, alpha=0.4), "more than 1/2"),
    (lambda: make("mdb", 3, beta=0.5), "beta=0.5: expected a finite number >= 1"),
    (lambda: bandits.DBGD([0.0, 0.0], delta=1, gamma=1), "zero vector"),
    (lambda: bandits.DBGD([1.0], delta=0, gamma=1), "delta"),
    (lambda: bandits.GradientDescent([1.0], delta=1, gamma=1, feedback="clicks"), "feedback"),
    (lambda: bandits.RCS.from_json(make("rucb", 3).to_json()), r"use RUCB\.from_json"),
    (lambda: from_json("{}"), "JSON text of a bandit"),
    (lambda: bandits.RUCB.from_json("[" * 100_000), "expected the JSON text of a"),
)


@pytest.mark.parametrize("name", ["btm", "savage", "if2"])
def test_a_horizon_that_was_squared_beyond_64_bits_works(name: str) -> None:
    rng = np.random.default_rng(0)
    bandit = from_json(make(name, 4, 10**24).to_json())
    for _ in range(50):
        duel = bandit.select(rng)
        bandit.update(duel, duel.arms[0] < duel.arms[1])
    assert from_json(bandit.to_json()).to_json() == bandit.to_json()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rucb", "duel: expected the leader"),
        ("mergerucb", "duel: order in its note: expected each arm from 0 to 4 once"),
        ("if2", "duel: order in its note: expected each arm from 0 to 4 once"),
    ],
)
@pytest.mark.parametrize(
    "note", [None, 5, -2, "0", 1.0, "01234", [0, 1, 2, 3], [0, 1, 2, 3, 3], [0.0, 1, 2, 3, 4]]
)
def test_a_duel_without_what_its_note_has_to_say_is_refused(name: str, message: str, note: Any) -> None:
    bandit = make(name, 5, 1000)
    before = bandit.to_json()
    rejected(message, bandit.update, Duel((0, 1), note), 1)
    assert bandit.to_json() == before


def test_savage_keeps_an_answer_when_late_outcomes_close_a_cycle() -> None:
    bandit = bandits.SAVAGE(3, horizon=10)
    for first, second in ((0, 1), (1, 2), (2, 0)):
        for _ in range(60):
            bandit.update(Duel((first, second)), 0)
    assert bandit.finished
    assert bandit.best() == bandit.remaining[0]


def test_explore_then_exploit_keeps_its_answer() -> None:
    world = Utilities([0.1, 0.9, 0.5])
    rng = np.random.default_rng(0)
    bandit = ExploreThenExploit(make("rucb", 3), n_explore=300)
    for _ in range(300):
        late = bandit.select(rng)
        bandit.update(late, world.compare(late.arms, rng))
    assert bandit.finished
    assert bandit.best() == 1
    assert bandit.select(rng).arms == (1, 1)
    state = bandit.bandit.to_json()
    bandit.update(late, 1)
    assert bandit.bandit.to_json() == state


def test_explore_then_exploit_ends_with_its_explorer() -> None:
    bandit = ExploreThenExploit(make("savage", 2, 100), n_explore=10_000)
    for _ in range(100):
        bandit.update(Duel((0, 1)), 0)
    assert bandit.finished
    assert bandit.best() == 1


@pytest.mark.parametrize("name", NEED_HORIZON)
def test_anytime_squares_the_horizon_and_restarts(name: str) -> None:
    world = Utilities([0.0, 0.3, 1.0])
    rng = np.random.default_rng(0)
    bandit = Anytime(name, 3, first=30)
    horizons = []
    for _ in range(2000):
        duel = bandit.select(rng)
        bandit.update(duel, world.compare(duel.arms, rng))
        horizons.append(bandit.horizon)
    assert [horizons.count(each) for each in (30, 900, 810_000)] == [29, 900, 1071]
    assert bandit.best(rng) == 2


def test_if2_prunes_what_if1_keeps() -> None:
    """Check one round in which the candidate surely loses to one rival and leads against another."""
    for prune, left in ((True, []), (False, [2])):
        bandit = bandits.InterleavedFilter(3, 10, prune=prune)
        bandit.candidate, bandit.rivals = 0, [1, 2]
        n = int(4 * np.log(10 * 9) / 0.25) + 1  # rounds after which a share of 0 is surely below 1/2
        for _ in range(n):
            bandit.update(Duel((0, 1)), 0)
            # ahead by one, far from sure
            bandit.update(Duel((0, 2)), 1 if bandit.wins[2] <= (bandit.rounds + 1) / 2 else 0)
        assert bandit.candidate == 1
        assert bandit.rivals == left
        assert bandit.rounds == 0
        assert not bandit.wins.any()


def test_beat_the_mean_forgets_comparisons_with_the_arm_that_left() -> None:
    bandit = bandits.BeatTheMean(3, 2)
    bandit.plays[:] = 40
    bandit.wins[0], bandit.wins[1], bandit.wins[2] = 40, 20, 0
    bandit.update(Duel((2, 2)), 0)
    assert bandit.remaining == [0, 1]
    assert (bandit.plays[:, 2] == 0).all()
    assert bandit.plays[0, 1] == 40


def test_merge_rucb_batches_stay_in_range() -> None:
    from structsvm.online.bandits.merge_rucb import initial_batches, merge_batches

    rng = np.random.default_rng(0)
    for _ in range(300):
        k = int(rng.integers(1, 60))
        batches = initial_batches(rng.permutation(k), 4)
        assert sorted(arm for batch in batches for arm in batch) == list(range(k))
        assert all(len(batch) == 4 for batch in batches[:-1])
        for batch in batches:  # some losses anywhere
            while len(batch) > 1 and rng.random() < 0.6:
                batch.pop(int(rng.integers(len(batch))))
        arms = sorted(arm for batch in batches for arm in batch)
        merged = merge_batches(batches, 4)
        assert sorted(arm for batch in merged for arm in batch) == arms
        sizes = [len(batch) for batch in merged]
        assert len(merged) == (len(batches) + 1) // 2
        if len(arms) >= 2 * len(merged) and len(merged) > 1:
            assert min(sizes) >= 2
            assert max(sizes) <= 6 or max(sizes) - min(sizes) < 2


def test_merge_rucb_draws_its_batches_with_the_first_duel() -> None:
    fresh = make("mergerucb", 10)
    duels = [fresh.select(np.random.default_rng(seed)) for seed in range(20)]
    assert all(sorted(duel.note) == list(range(10)) for duel in duels)
    assert len({tuple(duel.note) for duel in duels}) == 20
    parts = [[duel.note[:4], duel.note[4:8], duel.note[8:]] for duel in duels]
    for duel, batches in zip(duels, parts, strict=True):
        bandit = make("mergerucb", 10)
        bandit.update(duel, 1)
        assert bandit.batches == batches
        assert any(set(duel.arms) <= set(batch) for batch in bandit.batches)
        before = bandit.to_json()
        assert bandit.select(np.random.default_rng(0)).note is None
        assert bandit.to_json() == before
    # of several duels under way the first outcome decides, as select changes nothing
    late = make("mergerucb", 10)
    late.update(duels[3], 1)
    late.update(duels[4], 0)
    assert late.batches == parts[3]
    assert late.wins.sum() == 2


def algorithm_1(K: int, p: int, alpha: float, delta: float, duel: Any, rng: np.random.Generator) -> Any:
    """Run mergeRUCB line by line, but skip a batch of a single arm, for which line 9 has no p_d."""
    W = np.zeros((K, K))
    B = [list(range(i, min(i + p, K))) for i in range(0, K, p)]
    C = ((4 * alpha - 1) * K**2 / ((2 * alpha - 1) * delta)) ** (1 / (2 * alpha - 1))
    S, t = 1, 1
    while sum(map(len, B)) > 1:
        if all(len(batch) < 2 for batch in B):
            B = paired(B, p)
        i = next(k % len(B) for k in range(t, t + len(B)) if len(B[k % len(B)]) > 1)
        N = W + W.T
        with np.errstate(divide="ignore", invalid="ignore"):
            U = np.where(N > 0, W / N + np.sqrt(alpha * np.log(t + C) / N), np.inf)
        for k in list(B[i]):  # those left, so that one is
            if any(U[k, other] < 0.5 for other in B[i] if other != k):
                B[i].remove(k)
        if len(B[i]) > 1:
            c = B[i][int(rng.random() * len(B[i]))]
            highest = max(U[k, c] for k in B[i] if k != c)
            tied = [k for k in B[i] if k != c and U[k, c] == highest]
            d = tied[int(rng.random() * len(tied))] if len(tied) > 1 else tied[0]
            won = duel(c, d)
            W[c, d], W[d, c] = W[c, d] + won, W[d, c] + 1 - won
            t += 1
        if sum(map(len, B)) <= K / 2**S:
            B = paired(B, p) if len(B) > 1 else B
            S += 1


def paired(B: list[list[int]], p: int) -> list[list[int]]:
    """Line 13: join the smallest with the largest; move arms while a size is outside [p/2, 3p/2], if possible."""
    B, merged = sorted(B, key=len), []
    while len(B) > 1:
        merged.append(B.pop(0) + B.pop())
    merged += B
    while max(map(len, merged)) - min(map(len, merged)) > 1 and not all(
        p / 2 <= len(b) <= 3 * p / 2 for b in merged
    ):
        min(merged, key=len).append(max(merged, key=len).pop())
    return merged


@pytest.mark.parametrize(("n_arms", "size"), [(2, 4), (5, 4), (6, 4), (13, 4), (17, 5), (29, 6)])
def test_merge_rucb_in_order_is_algorithm_1(n_arms: int, size: int) -> None:
    """Both play the same duels with the same random numbers, until one arm is left."""
    utilities = np.random.default_rng(n_arms).permutation(np.linspace(0, 1.8, n_arms))
    bandit = make("mergerucb", n_arms, size=size, partition="in order", alpha=0.8, delta=0.1)
    ours, theirs, results = (np.random.default_rng(seed) for seed in (1, 1, 2))
    n_duels = 0

    def duel(c: int, d: int) -> bool:
        nonlocal n_duels
        ready = bandit.select(ours)
        assert ready.arms == (c, d), n_duels
        won = bool(results.random() < (1 + utilities[c] - utilities[d]) / 2)
        bandit.update(ready, won)
        n_duels += 1
        return won

    algorithm_1(n_arms, size, 0.8, 0.1, duel, theirs)
    assert bandit.finished
    assert bandit.remaining == [int(np.argmax(utilities))]
    assert n_duels > 20


def test_merge_rucb_keeps_an_arm_whose_bound_is_one_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 1, line 8: an arm leaves its batch when its bound is below 1/2, not at 1/2."""
    bandit = bandits.MergeRUCB(3, partition="in order")
    for bound, left in ((0.5, [0, 1, 2]), (np.nextafter(0.5, 0), [0, 2])):
        monkeypatch.setattr(
            bandit, "_bound", lambda arm, other, log, b=bound: b if (arm, other) == (1, 0) else 1
        )
        bandit._advance()
        assert bandit.batches == [left]


@pytest.mark.parametrize(
    ("sizes", "expected"), [((1, 1, 1, 5), [6, 2]), ((1, 1, 1, 3), [4, 2]), ((1, 1, 1, 6), [6, 3])]
)
def test_merge_rucb_evens_out_only_sizes_out_of_range(sizes: tuple[int, ...], expected: list[int]) -> None:
    """With p = 4, batches of p/2 = 2 to 3p/2 = 6 arms are in range; a batch of 7 is not."""
    from structsvm.online.bandits.merge_rucb import merge_batches

    batches = [[10 * k + i for i in range(size)] for k, size in enumerate(sizes)]
    merged = merge_batches([list(batch) for batch in batches], 4)
    assert [len(batch) for batch in merged] == expected
    assert merged[0][:2] == [0, 30]  # the smallest with the largest


@pytest.mark.parametrize("name", bandits.NAMES)
def test_invalid_numbers_are_refused_as_parameters(name: str) -> None:
    for key in PARAMETERS[name] - {"partition"}:
        settings: dict[str, Any] = {"n_arms": 3, "horizon": 100}
        for value in (True, np.True_, "2", -1, np.nan):
            rejected(rf"{key}=.*: expected", make, name, **{**settings, key: value})


def test_booleans_are_refused_as_horizons_and_step_sizes() -> None:
    for value in (True, np.True_):
        rejected(r"first=(np\.)?True_?: expected an integer >= 2", Anytime, "savage", 3, first=value)
        with pytest.raises(ValueError, match=r"horizon=(np\.)?True_?: expected an integer >= 1"):
            ExploreThenExploit(make("rucb", 3), value)
    for key in ("delta", "gamma", "radius"):
        with pytest.raises(ValueError, match=f"{key}=True: expected a finite number > 0"):
            bandits.DBGD([1.0, 0.0], **{"delta": 1.0, "gamma": 0.1, "radius": 2.0, key: True})


def test_mdb_plays_narrow_alone_and_wide_together() -> None:
    bandit = bandits.MDB(4)
    rng = np.random.default_rng(0)
    assert bandit.select(rng).arms == (0, 1, 2, 3)
    bandit.t = 100
    bandit.wins[:] = np.where(np.eye(4), 0, 50)
    assert bandit.select(rng).arms == (0, 1, 2, 3)
    bandit.wins[3, :3], bandit.wins[:3, 3] = 10, 90  # arm 3 is out by either bound
    assert bandit.select(rng).arms == (0, 1, 2)
    # out by the narrow bound, in by the wide one: short^2 N / alpha between ln t and 1.5 ln t
    short = np.sqrt(1.2 * np.log(101) * 0.5 / 100)
    bandit.wins[2, 0], bandit.wins[0, 2] = 100 * (0.5 - short), 100 * (0.5 + short)
    assert bandit.select(rng).arms == (0, 1, 2)
    bandit.wins[1, 0], bandit.wins[0, 1] = 10, 90
    assert bandit.select(rng).arms == (0,)
