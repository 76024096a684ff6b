"""Assignment of requests: the share of units that take part, the control, and the duel of a bandit."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from structsvm.live.contract.bodies import Assign, Served, Show
from structsvm.live.contract.config import fresh_bandit
from structsvm.live.contract.tokens import bucket, keyed
from structsvm.live.store.records import ExperimentRow
from structsvm.online.bandits import Delayed
from structsvm.protocols import Duel

MOST_OUT = 300
"""Largest number of pending duels that are replayed after others are closed; replaying them takes about 10 ms."""

_REMEMBERED = 10_000
"""Number of duels of requests kept in memory, for later pages."""


@dataclass
class Policy:
    """A worker's copy of the bandit of an experiment, with the pending duels of all workers."""

    bandit: Delayed
    version: int
    last: int = 0
    """Sequence number of the last list that is counted."""
    duels: OrderedDict[bytes, Duel] = field(default_factory=OrderedDict)
    """Pending duels, keyed by the impression of the first page of a request."""
    own: set[bytes] = field(default_factory=set)
    """Impressions whose duels were counted at assignment."""

    def choose(self, impression: bytes, seed: int) -> Duel:
        """Return the duel of a new request and count it as pending."""
        duel = self.bandit.select(np.random.default_rng(seed))
        self.own.add(impression)
        self.remember(impression, duel)
        return duel

    def remember(self, impression: bytes, duel: Duel) -> None:
        """Keep the duel of a request."""
        self.duels[impression] = duel
        if len(self.duels) > _REMEMBERED:
            self.own.discard(self.duels.popitem(last=False)[0])

    def count(self, stored: Iterable[tuple[int, bytes, Duel]]) -> None:
        """Count the duels of stored lists as pending; those of this process were counted when they were assigned."""
        for seq, impression, duel in stored:
            self.last = max(self.last, seq)
            if impression in self.own:
                self.own.discard(impression)
            else:
                self.bandit.send(duel)


@dataclass
class Experiment:
    """A worker's copy of a revision of an experiment."""

    row: ExperimentRow
    winner: str | None = None  # served after the end, if the configuration requests it
    policy: Policy | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The whole configuration."""
        return self.row.config


class Assigned(NamedTuple):
    """The assignment of a request: what to serve, the reason (None for an interleaved list), the indices of the
    rankers, and the note of the duel.

    ``chance`` is the probability with which a recorded unit takes part; None if all units do.
    """

    serve: Served
    why: str | None
    arms: tuple[int, ...]
    note: Any = None
    chance: float | None = None


def delayed_bandit(config: Mapping[str, Any], state: str) -> Delayed:
    """Return the policy of an experiment, which allows several pending duels."""
    bandit = Delayed(fresh_bandit(config, state), most=MOST_OUT)
    if state and "wins" in (kept := json.loads(state)):
        bandit.wins = np.array(kept["wins"], dtype=np.float64)
    return bandit


def assign(experiment: Experiment, call: Assign | Show) -> Assigned:
    """Return the assignment of a request, equal on every worker; for a bandit, without the rankers of its duel."""
    config, row, unit, context = experiment.config, experiment.row, call.unit, call.context or {}
    production = (config["rankers"].index(config["production"]),)
    if row.state != "running" or row.unit_key is None:
        if row.state == "stopped" and experiment.winner is not None:
            return Assigned("winner", row.state, (config["rankers"].index(experiment.winner),))
        return Assigned("production", row.state, production)
    if context.get("sort") is not None:
        return Assigned("production", "sort", production)
    if context.get("bot"):
        return Assigned("production", "bot", production)
    share = config["share"]
    position = bucket(row.unit_key, call.request_id if unit is None or config["unit"] == "request" else unit)
    beside = min(share, 1 - share) if config["guardrails"]["control"] else 0.0
    if position >= share + beside:
        return Assigned("production", "share", production)
    chance = share / (share + beside) if beside else None
    if position >= share:
        return Assigned("production", "control", production, None, chance)
    arms = tuple(range(len(config["rankers"]))) if experiment.policy is None else ()
    return Assigned("interleaved", None, arms, None, chance)


def duel_seed(salt: bytes, request_id: str) -> int:
    """Return the seed of the random numbers that choose the duel of a request."""
    return int.from_bytes(keyed(salt, b"duel|" + request_id.encode(), 8))
