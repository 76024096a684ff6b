"""Who sees what: the share of units that takes part, production beside it, and the duel of a bandit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from structsvm.live.bodies import Assign, Show
from structsvm.live.draw import bucket, keyed
from structsvm.live.store.queries import ExperimentRow
from structsvm.protocols import Bandit


@dataclass
class Experiment:
    """A revision of an experiment as a worker keeps it."""

    row: ExperimentRow
    winner: str | None = None  # served after the end, where the experiment says so
    bandit: Bandit | None = None
    bandit_version: int = -1

    @property
    def config(self) -> dict[str, Any]:
        """The whole configuration."""
        return self.row.config

    def to_dict(self) -> dict[str, Any]:
        """Return the experiment as the API answers it."""
        row = self.row
        return {
            "key": row.key, "revision": row.revision, "state": row.state, "created_at": row.created_at,
            **{name: value for name, value in row.config.items() if name != "epoch"},
        }  # fmt: skip


class Assigned(NamedTuple):
    """What a request gets: ``serve`` and, unless it is interleaved, why; the indices of the rankers; a duel's note.

    ``chance`` is the probability with which a unit takes part, of those that are recorded; None where all do.
    """

    serve: str
    why: str | None
    arms: tuple[int, ...]
    note: Any = None
    chance: float | None = None


def fresh_bandit(config: Mapping[str, Any], state: str = "") -> Bandit:
    """Return the policy of an experiment, in a stored state or at its beginning."""
    from structsvm.online import bandits

    if state:
        restored: Bandit = bandits.from_json(json.loads(state)["policy"])
        return restored
    return bandits.make(
        config["policy"], len(config["rankers"]), config["horizon"], **config["policy_options"]
    )


def assign(experiment: Experiment, call: Assign | Show) -> Assigned:
    """Return what a request gets; the same for the same request and state on every worker."""
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
    if experiment.bandit is None:
        return Assigned("interleaved", None, tuple(range(len(config["rankers"]))), None, chance)
    seed = keyed(row.salt, b"duel|" + call.request_id.encode(), 8)
    duel = experiment.bandit.select(np.random.default_rng(int.from_bytes(seed)))
    return Assigned("interleaved", None, tuple(int(arm) for arm in duel.arms), duel.note, chance)
