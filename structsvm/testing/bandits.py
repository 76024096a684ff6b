"""``check_bandit``: the properties that a dueling bandit must have."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from structsvm.protocols import Bandit, Duel, Float
from structsvm.testing.require import Requirement


def check_bandit(make: Callable[[int], Any], *, steps: int = 4000, random_state: int = 0) -> None:
    """Check that a dueling bandit follows its protocol (:class:`structsvm.online.bandits.Bandit`).

    ``select`` returns duels of the bandit's own arms, does not change its state, and returns the same duel for the same
    seed. A duel contains everything that ``update`` needs, also after a round trip through JSON, and duels may be
    reported in any order. A saved state continues identically. Invalid duels and outcomes raise an error and change
    nothing. Arms are treated equally, whatever their indices. The best arm is found among four arms with well-spaced
    utilities, among two arms, and with a single arm.

    Parameters
    ----------
    make : callable ``(n_arms) -> bandit``
        Function that returns a fresh bandit, with a horizon of ``steps`` if bandits of its kind need a horizon.
    steps : int, default=4000
        Number of comparisons after which ``best`` must be correct (arms win with probability 0.65, 0.8, 0.95).
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from structsvm.online.bandits import RUCB
    >>> check_bandit(RUCB)
    """
    bandit = make(4)
    require = Requirement(type(bandit).__name__)
    require.members(Bandit, bandit)
    require(bandit.n_arms == 4, f"n_arms: expected 4, got {bandit.n_arms!r}")
    require(make(4).to_json() == bandit.to_json(), "a fresh bandit is not always the same")
    _check_duels(make, require, random_state)
    _check_restart(make, require, random_state)
    _check_refused_duels(make, require, random_state)
    _check_permuted_arms(make, require, random_state)
    # the best arm has the smallest number in ``order``, whatever its index
    utilities = np.array([0.9, 0.6, 0.3, 0.0])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2], [0, 3], [3, 0]):
        bandit, played = make(len(order)), _Played(utilities[order], random_state)
        for _ in range(steps if len(order) > 1 else 20):
            played.step(bandit)
        best = bandit.best()
        require(
            best == order.index(min(order)),
            f"after {steps} steps with utilities {utilities[order]}, best: expected {order.index(min(order))}, "
            f"got {best!r}",
        )


class _Played:
    """A world of arms with given utilities, a linear link function, and its own random numbers."""

    def __init__(self, utilities: Float, seed: Any) -> None:
        from structsvm.online.simulation.worlds import Utilities

        self.world = Utilities(utilities)
        self.rng = np.random.default_rng(seed)

    def step(self, bandit: Any) -> Any:
        duel = bandit.select(self.rng)
        bandit.update(duel, self.outcome(duel))
        return duel

    def outcome(self, duel: Any) -> Any:
        return self.world.compare(duel.arms, self.rng)


def _check_duels(make: Callable[[int], Any], require: Requirement, seed: int) -> None:
    # one arm leaves nothing to compare, two arms form one pair, five arms form several
    for n_arms in (1, 2, 5):
        bandit, twin, played = make(n_arms), make(n_arms), _Played(np.linspace(0.5, 0, n_arms), seed)
        for _ in range(150):
            # ``select`` twice with the same random numbers: the same duel, and no change of the bandit
            before, state = bandit.to_json(), played.rng.bit_generator.state
            duel = bandit.select(played.rng)
            again = np.random.default_rng()
            again.bit_generator.state = state
            require(bandit.select(again) == duel, "the same state and seed give a different duel")
            require(bandit.best() == bandit.best(), "best without rng is not always the same")
            require(0 <= bandit.best(again) < n_arms, f"best: expected an arm from 0 to {n_arms - 1}")
            require(bandit.to_json() == before, "select or best changes the state")
            arms = duel.arms
            require(
                isinstance(duel, Duel)
                and isinstance(arms, tuple)
                and len(arms) > 0
                and all(isinstance(arm, int) and 0 <= arm < n_arms for arm in arms),
                f"select: expected a Duel of arms from 0 to {n_arms - 1}, got {duel!r}",
            )
            require(
                len(arms) == 2 or len(set(arms)) == len(arms),
                f"select: expected a pair or a set of distinct arms, got {arms}",
            )
            # The twin never selects duels: it is updated with duels that were sent as JSON.
            sent = _sent(duel, require)
            outcome = played.outcome(duel)
            bandit.update(duel, outcome)
            twin.update(sent, outcome)
            require(
                bandit.to_json() == twin.to_json(),
                "a bandit that reads a duel from JSON, without having selected it, is updated differently",
            )
        # outcomes may arrive later than the next duels, in any order
        late = [bandit.select(played.rng) for _ in range(5)]
        for duel in late[::-1]:
            bandit.update(duel, played.outcome(duel))


def _sent(duel: Any, require: Requirement) -> Any:
    """Return the duel after a round trip through JSON, as it arrives on another machine."""
    try:
        note = json.loads(json.dumps(duel.note, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{require.name}: a duel's note cannot be saved as JSON: {error}") from None
    return type(duel)(tuple(json.loads(json.dumps(duel.arms))), note)


def _check_restart(make: Callable[[int], Any], require: Requirement, seed: int) -> None:
    # From each of ten saved states a copy plays the same duels as the original, with the same random numbers.
    bandit, played, again = make(5), *(_Played(np.linspace(0, 0.9, 5), seed) for _ in range(2))
    for start in range(0, 400, 40):
        text = bandit.to_json()
        copy = type(bandit).from_json(text)
        require(copy.to_json() == text, "from_json does not restore what to_json saved")
        again.rng.bit_generator.state = played.rng.bit_generator.state
        for k in range(40):
            same = played.step(bandit) == again.step(copy)
            require(same, f"{k} steps after a restart at step {start} another duel is selected")
        require(bandit.to_json() == copy.to_json(), "after a restart another state is reached")
    for text in ("", "{}", "[1, 2]"):
        require.refusal(f"from_json of {text!r}", type(bandit).from_json, text)


def _check_refused_duels(make: Callable[[int], Any], require: Requirement, seed: int) -> None:
    bandit, played = make(4), _Played(np.linspace(0.5, 0, 4), seed)
    for _ in range(10):
        played.step(bandit)
    # ``select`` does not change the bandit, so that it can be called until the arms differ
    duel = next(d for d in (bandit.select(played.rng) for _ in range(1000)) if len(set(d.arms)) > 1)
    pair = len(duel.arms) == 2
    # outcomes that are not a number from 0 to 1 (a list of them for a set), then duels of arms that do not exist
    wrong: list[Any] = [2, -0.5, np.nan, None, "won", [1, 0, 1, 0, 1, 0, 1]]
    wrong += [] if pair else [[np.nan] * len(duel.pairs()), [2] * len(duel.pairs()), []]
    before = bandit.to_json()
    for outcome in wrong:
        require.refusal(f"the outcome {outcome!r} of a duel", bandit.update, duel, outcome)
        require(bandit.to_json() == before, f"the refused outcome {outcome!r} changes the bandit")
    for arms in [(0, 4), (-1, 0), (), (0, 1, 2) if pair else (0, 1, 1)]:
        outcomes = 1 if len(arms) == 2 and pair else [1] * (len(arms) * (len(arms) - 1) // 2)
        require.refusal(f"a duel of {arms}", bandit.update, duel._replace(arms=arms), outcomes)
        require(bandit.to_json() == before, f"the refused duel of {arms} changes the bandit")


def _check_permuted_arms(make: Callable[[int], Any], require: Requirement, seed: int) -> None:
    """Require that each arm is played, and is the best arm early on, equally often under any numbering of the arms."""
    # Counts per run and arm: its duels, and whether it is ``best`` after 0 and after 8 steps; means of two numberings
    # may differ by five standard errors.
    utilities, n_runs, n_steps = np.array([0.5, 0.35, 0.2, 0.0]), 64, 40
    # 64 short runs for each of three numberings of the same arms; counts are indexed by utility, not by arm number
    seen = []
    for k, order in enumerate(([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2])):
        counts = np.zeros((n_runs, 3, 4))
        for run in range(n_runs):
            bandit, played = make(4), _Played(utilities[order], [seed, k, run])
            for time in range(n_steps):
                if time in (0, 8):
                    counts[run, 1 + (time == 8), order[bandit.best(played.rng)]] += 1
                arms = played.step(bandit).arms
                np.add.at(counts[run, 0], [order[arm] for arm in arms], 1 / len(arms))
        seen.append(counts)
    for other in seen[1:]:
        difference = seen[0].mean(axis=0) - other.mean(axis=0)
        error = np.sqrt((seen[0].var(axis=0) + other.var(axis=0)) / n_runs)
        what, arm = np.unravel_index(np.argmax(np.abs(difference) - 5 * error), difference.shape)
        require(
            (np.abs(difference) <= 5 * error + 1e-9).all(),
            f"the distribution changes if arms are renumbered: arm {arm} {('is played', 'is best', 'is best')[what]} "
            f"{seen[0].mean(axis=0)[what, arm]:.3g} times or {other.mean(axis=0)[what, arm]:.3g}",
        )
