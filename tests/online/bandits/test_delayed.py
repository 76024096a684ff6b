"""Several pending duels: the bandit is advanced by as many steps, with the expected outcomes."""

import numpy as np
import pytest

from structsvm.common.checks import BadInput
from structsvm.online.bandits import NAMES, Delayed, Duel, make

GAPS = np.array([0.1, 0.0, 0.2, 0.05, 0.15])
P = 0.5 + GAPS[:, None] - GAPS[None, :]


def outcome_of(duel, rng):
    won = [float(rng.random() < P[i, j]) for i, j in duel.pairs()]
    return won[0] if len(duel.arms) == 2 else won


def test_all_bandits_with_one_outcome_at_a_time_take_their_own_steps():
    for name in NAMES:
        plain, delayed = make(name, 5, 500), Delayed(make(name, 5, 500))
        rngs = np.random.default_rng(1), np.random.default_rng(1)
        for _ in range(60):
            for bandit, rng in zip((plain, delayed), rngs, strict=True):
                duel = bandit.select(rng)
                bandit.update(duel, outcome_of(duel, rng))
        assert delayed.bandit.to_json() == plain.to_json()
        assert (delayed.out, delayed.ahead) == ([], None)


def test_before_the_first_outcome_the_duels_are_those_of_ties():
    for name in NAMES:
        plain, delayed = make(name, 5, 500), Delayed(make(name, 5, 500), most=50)
        untouched = delayed.bandit.to_json()
        rngs = np.random.default_rng(2), np.random.default_rng(2)
        for k in range(80):
            duel, expected = delayed.select(rngs[0]), plain.select(rngs[1])
            assert duel == expected
            plain.update(expected, 0.5 if len(duel.arms) == 2 else [0.5] * len(duel.pairs()))
            if k == 40:
                delayed = Delayed.from_json(delayed.to_json())
        assert len(delayed.out) == 50
        assert delayed.bandit.to_json() == untouched


def test_outcomes_come_late_and_in_any_order():
    """A copy that is advanced after each outcome equals one that is advanced from the beginning."""
    rng, bandit = np.random.default_rng(3), Delayed(make("rmed1", 5))
    waiting = []
    for _ in range(60):
        again = Delayed.from_json(bandit.to_json())
        again.ahead = None
        seed = int(rng.integers(2**32))
        assert bandit.peek(np.random.default_rng(seed)) == again.peek(np.random.default_rng(seed))
        waiting.append(bandit.select(rng))
        if len(waiting) > 20:
            duel = waiting.pop(int(rng.integers(len(waiting))))
            bandit.update(duel, outcome_of(duel, rng))
    assert bandit.bandit.t == 40
    np.testing.assert_array_equal(bandit.wins, bandit.bandit.wins)
    assert sorted(map(str, bandit.out)) == sorted(str([list(duel.arms), duel.note]) for duel in waiting)
    before = bandit.to_json()
    for duel, outcome in ((Duel((0, 9)), 1.0), (Duel((0, 1)), 2.0)):
        with pytest.raises(BadInput):
            bandit.update(duel, outcome)
    assert bandit.to_json() == before
    bandit.update(Duel((1, 2)), 1.0)  # of a duel that is not out
    assert len(bandit.out) == len(waiting)
    assert not bandit.finished


def regret(name, batch, horizon, seed):
    rng, total = np.random.default_rng(seed), 0.0
    bandit = Delayed(make(name, 5, horizon))
    for _ in range(horizon // batch):
        duels = [bandit.select(rng) for _ in range(batch)]
        total += sum(0.2 - GAPS[list(duel.arms)].mean() for duel in duels)
        for duel in duels:
            bandit.update(duel, outcome_of(duel, rng))
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rucb", "rmed1", "dts", "sparring"])
def test_batches_cost_little_more_than_one_outcome_at_a_time(name):
    one, *batches = (np.mean([regret(name, size, 1500, seed) for seed in range(4)]) for size in (1, 10, 100))
    assert max(batches) <= 1.5 * one


@pytest.mark.parametrize("pending", [100, 1000])
def test_pending_outcomes_decide_nothing(pending):
    """As many duels as in a service are out, whose expected outcomes alone would be proof."""
    rng, bandit = np.random.default_rng(0), Delayed(make("best", 3))
    win = np.array([[0.5, 0.6, 0.6], [0.4, 0.5, 0.5], [0.4, 0.5, 0.5]])
    while not bandit.finished and bandit.bandit.t < 4000:
        duels = [bandit.select(rng) for _ in range(pending)]
        assert all(len(set(duel.arms)) == 2 for duel in duels)
        for duel in duels:
            bandit.update(duel, float(rng.random() < win[duel.arms]))
    assert bandit.finished
    assert bandit.select(rng).arms == (0, 0)
