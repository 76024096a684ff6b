"""Rows of the store as objects: revisions of experiments, impressions with their clicks, and duels."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from structsvm.live.contract.bodies import State
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.by_name import interleaver
from structsvm.protocols import Duel

ACKNOWLEDGED = "acknowledged:"
"""Prefix of the counters of acknowledged alarms, before the name of the guardrail."""

FORGOTTEN = b""
"""Value of ``unit`` in impressions whose unit was forgotten."""


class ExperimentRow(NamedTuple):
    """One revision of an experiment."""

    id: int
    key: str
    revision: int
    state: State
    config: dict[str, Any]
    salt: bytes
    unit_key: bytes | None
    created_at: int
    closed: bool
    """Whether the closer has finished with it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the experiment as in the responses of the API."""
        return {
            "key": self.key,
            "revision": self.revision,
            "state": self.state,
            "created_at": self.created_at,
            **{name: value for name, value in self.config.items() if name != "epoch"},
        }

    @property
    def title(self) -> str:
        """Key and revision, for messages."""
        return f"{self.key} revision {self.revision}"

    @property
    def window_ms(self) -> int:
        """Time for which clicks on a list count."""
        return round(1000 * float(self.config["window_s"]))


class ClosingProgress(NamedTuple):
    """Progress of the closer in an experiment."""

    horizon: int
    watermark: int
    version: int
    state: str


class StoredImpression(NamedTuple):
    """A stored impression; ``clicks`` holds the requested clicks: (place, action, at, dwell, late)."""

    seq: int
    id: bytes
    shown_at: int
    unit: bytes | None
    serve: str
    record: Shown
    query: str | None
    rankings: str | None
    elapsed_ms: int | None
    chance: float | None
    epoch: int
    clicks: tuple[tuple[int, str, int, float | None, int], ...]


def shown_of(record: str, config: Mapping[str, Any]) -> Shown:
    """Return the record of a stored list; raise ValueError if it is damaged.

    Records of version 0.1 have no method and, if the list compares no rankers, no evidence.
    """
    fields = json.loads(record)
    if "method" not in fields:
        n_rankers = len(fields.get("arms", config["rankers"]))
        fields.pop("n", None)
        fields = undrawn(config["method"], fields["documents"], n_rankers).to_dict() | fields
    return Shown.from_dict(fields)


def duels_of(rows: Sequence[Any]) -> list[tuple[int, bytes, Duel]]:
    """Return the duels of impression rows, each with ``seq`` and id; rows of the control have none."""
    records = ((row, json.loads(row.record)) for row in rows)
    return [
        (row.seq, row.id, Duel(tuple(record["arms"]), record.get("note")))
        for row, record in records
        if "arms" in record
    ]


def undrawn(method: str, documents: Sequence[str], n_rankers: int, **fields: Any) -> Shown:
    """Return the record of a list that compares no rankers; clicks on it credit none."""
    n = len(documents)
    evidence: Any = ((None,) * n,) if interleaver(method).is_by_team else ((0.0,) * n,) * n_rankers
    return Shown(method, tuple(documents), n_rankers, evidence, **fields)
