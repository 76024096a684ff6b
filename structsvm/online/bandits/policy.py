"""Shared parts of the bandits: saved state, checks of duels and outcomes, tables of wins, and random tie-breaking."""

import json
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_whole
from structsvm.online.bandits.by_name import from_json, read_state
from structsvm.protocols import Duel, Float

_TYPES = ("float64", "int64", "bool")


class SavedState:
    """Mixin that saves all attributes of a bandit as JSON."""

    def to_json(self) -> str:
        """Return the state as JSON; floats are written with full precision."""
        state = {key: _encode(value) for key, value in vars(self).items()}
        name = type(self).__name__
        return json.dumps({"bandit": name, "state": state, "digest": _digest(name, state)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return a bandit in the state that :meth:`to_json` wrote; raise ValueError for any other text."""
        name, state, digest = read_state(text, cls.__name__)
        if name != cls.__name__:
            raise BadInput(f"expected the state of a {cls.__name__}, got a {name}", f"use {name}.from_json")
        # the digest detects edits of the text, which could create a bandit in an unreachable state
        if not isinstance(state, dict) or digest != _digest(name, state):
            raise BadInput(
                f"state of a {name}",
                "expected the digest that to_json wrote, got a different digest",
                "the text was edited, truncated or written by an earlier version",
            )
        bandit = cls.__new__(cls)
        vars(bandit).update({key: _decode(value) for key, value in state.items()})
        return bandit


def _digest(name: object, state: object) -> str:
    return sha256(json.dumps([name, state], sort_keys=True).encode()).hexdigest()[:32]


def _encode(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": value.shape, "values": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "to_json"):
        return {"bandit": value.to_json()}
    return value


def _decode(value: object) -> Any:
    if isinstance(value, dict) and value.get("dtype") in _TYPES:
        return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])
    if isinstance(value, dict) and "bandit" in value:
        return from_json(value["bandit"])
    return value


class CountsWins(SavedState):
    """Mixin of bandits that count wins and return the Copeland leader as the best arm."""

    compares_sets = False
    t = 0  # states that earlier versions saved may lack it

    def __init__(self, n_arms: int) -> None:
        self.n_arms = check_whole("n_arms", n_arms)
        self.t = 0
        self.wins = np.zeros((self.n_arms, self.n_arms))

    def update(self, duel: Duel, outcome: object) -> None:
        """Add the outcomes of a pair, or of all pairs of a set, to the table of wins; a single arm has no pairs."""
        (record_set if self.compares_sets else record_pair)(self.wins, duel, outcome)
        self.t += 1

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm that is ahead of the most others; break ties by ``rng``, or take the lowest index."""
        return copeland_leader(self.wins, rng)


class Eliminates(SavedState):
    """Mixin of bandits that explore until one arm remains."""

    remaining: list[int]

    @property
    def finished(self) -> bool:
        """Whether one arm is left, so that exploration is over."""
        return len(self.remaining) == 1


@lru_cache(maxsize=16)
def pair_indices(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the second indices of all pairs of ``n`` arms, in the order of :meth:`Duel.pairs`.

    The arrays are cached and must not be modified.
    """
    first, second = np.triu_indices(n, 1)
    return first, second


def check_horizon(horizon: float | None, who: str) -> int:
    """Return ``horizon`` as an int; raise BadInput, naming the bandit ``who``, if it is None or not an integer."""
    if horizon is None:
        raise BadInput(
            "horizon",
            f"{who} requires it, got none",
            "pass {horizon}, or use structsvm.online.bandits.Anytime if it is unknown",
        )
    return check_whole("horizon", horizon, floats=True)


def result(outcome: Any) -> float:
    """Return the outcome of a pair as a float: 1, 0, or 0.5 for a tie."""
    try:
        value = float(outcome)
    except (TypeError, ValueError):
        value = np.nan
    if not 0.0 <= value <= 1.0:
        raise BadInput("outcome", "expected 1 (first arm won), 0 (second) or 0.5 (tie)", value=outcome)
    return value


def _check_duel(duel: Duel, n_arms: int) -> None:
    for arm in duel.arms:
        if not isinstance(arm, (int, np.integer)) or not 0 <= arm < n_arms:
            raise BadInput("duel", f"expected arms from 0 to {n_arms - 1}, got {duel.arms}")


def check_pair(duel: Duel, outcome: object, n_arms: int) -> tuple[int, int, float]:
    """Return the two arms of a duel and its outcome as a float; raise BadInput for anything else."""
    _check_duel(duel, n_arms)
    if len(duel.arms) != 2:
        raise BadInput("duel", f"expected a pair of arms, got {duel.arms}")
    return duel.arms[0], duel.arms[1], result(outcome)


def check_order(argument: str, order: object, n_arms: int) -> list[int]:
    """Return ``order`` as a list; raise BadInput unless it is a permutation of the arms."""
    arms = list(order) if isinstance(order, (Sequence, np.ndarray)) else []
    all_whole = all(isinstance(arm, (int, np.integer)) and not isinstance(arm, bool) for arm in arms)
    if not all_whole or sorted(arms) != list(range(n_arms)):
        raise BadInput(argument, f"expected each arm from 0 to {n_arms - 1} once, got {order!r:.80}")
    return [int(arm) for arm in arms]


def record_pair(wins: Float, duel: Duel, outcome: object) -> None:
    """Add the outcome of a pair to the table of wins; a duel of an arm with itself adds nothing."""
    first, second, won = check_pair(duel, outcome, len(wins))
    if first != second:
        wins[first, second] += won
        wins[second, first] += 1.0 - won


def record_set(wins: Float, duel: Duel, outcome: object) -> None:
    """Add the outcome of every pair of a set to the table of wins; a set of one arm adds nothing."""
    _check_duel(duel, len(wins))
    # a set has at least one arm, and no arm twice
    if len(set(duel.arms)) < max(1, len(duel.arms)):
        raise BadInput("duel", f"expected a set of distinct arms, got {duel.arms}")
    if len(duel.arms) < 2:
        return
    arms = np.array(duel.arms)
    first, second = (arms[index] for index in pair_indices(len(arms)))
    try:
        won = np.atleast_1d(np.asarray(outcome, dtype=np.float64))
    except (TypeError, ValueError):
        won = np.empty(0)
    if won.shape != first.shape or not ((won >= 0) & (won <= 1)).all():
        raise BadInput(
            "outcome",
            f"expected {len(first)} numbers in [0, 1], one for every pair of duel.pairs()",
            value=outcome,
        )
    wins[first, second] += won
    wins[second, first] += 1.0 - won


def pick(items: Any, rng: np.random.Generator | None) -> int:
    """Return one of ``items`` at random, or the first if ``rng`` is None.

    No random number is drawn for a single item; the compiled forms rely on this.
    """
    n = len(items)
    return int(items[0 if n == 1 or rng is None else int(rng.random() * n)])


def tied(values: Float, rng: np.random.Generator | None, tol: float = 0.0) -> int:
    """Return the index of the largest of ``values``; break ties (within ``tol``) at random."""
    return pick(np.flatnonzero(values >= values.max() - tol), rng)


def copeland_leader(wins: Float, rng: np.random.Generator | None) -> int:
    """Return the Copeland leader, the arm that is ahead of the most others (the answer of RCS, section 4)."""
    return tied((wins > wins.T).sum(axis=1), rng)
