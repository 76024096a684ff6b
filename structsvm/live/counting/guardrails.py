"""Guardrails, monitored while an experiment runs; the level of an alarm holds over all looks together.

``closing.py`` handles the effect of an alarm on the experiment.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from structsvm.live.contract.bodies import WATCHED, Guardrail
from structsvm.live.store.records import ACKNOWLEDGED
from structsvm.online.evidence.always_valid import counted_sequence

_FEWEST = 200
"""Minimum number of events before a share can raise an alarm."""


class Watch:
    """The running mean of outcomes in [-1, 1], which must not exceed a margin or, without a margin, must be zero.

    ``alarm_n`` is the number of outcomes at the first alarm, which stays until it is acknowledged.
    """

    def __init__(self, cells: Mapping[float, int] | None = None, alarm_n: int | None = None) -> None:
        self.cells: dict[float, int] = dict(cells or {})
        self.alarm_n = alarm_n

    def add(self, outcome: float) -> None:
        """Count an outcome."""
        self.cells[outcome] = self.cells.get(outcome, 0) + 1

    @property
    def n(self) -> int:
        """Number of outcomes so far."""
        return sum(self.cells.values())

    def interval(self, alpha: float) -> tuple[float, float, float]:
        """Return the mean, and the bounds of an interval for it that holds at all looks."""
        if not self.cells:
            return 0.0, -1.0, 1.0
        values = np.array(sorted(self.cells))
        counts = np.array([self.cells[v] for v in values.tolist()])
        lower, upper, _ = counted_sequence(values, counts, alpha)
        return float(values @ counts / counts.sum()), lower, upper

    def look(self, alpha: float, margin: float | None) -> None:
        """Raise the alarm if the mean exceeds ``margin`` or, if that is None, differs from zero."""
        if self.alarm_n is None and self.cells:
            _, lower, upper = self.interval(alpha)
            if (lower > 0 or upper < 0) if margin is None else lower > margin:
                self.alarm_n = self.n


class Watches:
    """The guardrails of one experiment that are computed from closed impressions.

    ``first_place``: each ranker must be first equally often. ``clickless`` and ``slow``: lists without a click, and
    slow responses, must not exceed their frequency in production by more than a margin; lists of the experiment and of
    production are compared pairwise in order. ``sample_ratio``: the share of units that take part must be as
    configured. Only the first list of each unit counts, as its later lists are similar.
    """

    TEXTS: ClassVar[dict[str, str]] = {
        "first_place": "each ranker is first equally often",
        "clickless": "share of lists without a click, compared with production alone",
        "slow": "share of answers slower than {slow_ms:g} ms, compared with production alone",
        "sample_ratio": "share of units that take part, compared with the setting",
    }

    def __init__(self) -> None:
        self.watches = {name: Watch() for name in WATCHED}
        self.waiting: list[list[int | None]] = []
        """Lists that wait for a list of the other side: [1 if from production, clickless, slow]; all belong to the same
        side."""
        self.epoch = 0
        self.acknowledged: dict[str, int] = {}
        """Number of acknowledged alarms of each guardrail."""

    def count(self, control: bool, chance: float, epoch: int) -> None:
        """Count a unit that took part with probability ``chance``, unless it is ``control``.

        A change of the share begins a new epoch and restarts the count, because returning units that were not recorded
        before are more often in one group.
        """
        if epoch > self.epoch:
            self.epoch = epoch
            if self.watches["sample_ratio"].alarm_n is None:
                self.watches["sample_ratio"] = Watch()
        if epoch == self.epoch:
            self.watches["sample_ratio"].add((-chance if control else 1 - chance) / max(chance, 1 - chance))

    def compare(self, *, control: bool, clickless: bool, slow: bool | None) -> None:
        """Compare the first list of a unit with the first list of a unit of the other side."""
        entry = [int(control), int(clickless), None if slow is None else int(slow)]
        if self.waiting and self.waiting[0][0] != entry[0]:
            other = self.waiting.pop(0)
            treated, produced = (other, entry) if control else (entry, other)
            self.watches["clickless"].add(float((treated[1] or 0) - (produced[1] or 0)))
            if treated[2] is not None and produced[2] is not None:
                self.watches["slow"].add(float(treated[2] - produced[2]))
        else:
            self.waiting = [*self.waiting[-9999:], entry]

    def add_first(self, team: float | None, n_rankers: int) -> None:
        """Count the ranker whose document was first."""
        if team is not None:
            self.watches["first_place"].add(1.0 if team == 0 else -1 / (n_rankers - 1))

    def acknowledge(self, counters: Mapping[str, int]) -> None:
        """Restart each guardrail whose alarm was acknowledged, according to the counters."""
        for name in WATCHED:
            n = counters.get(f"{ACKNOWLEDGED}{name}", 0)
            if n > self.acknowledged.get(name, 0):
                self.acknowledged[name] = n
                if self.watches[name].alarm_n is not None:
                    self.watches[name] = Watch()

    def look(self, guardrails: Mapping[str, Any]) -> None:
        """Raise the alarm of each guardrail whose mean is out of its limit."""
        for name, watch in self.watches.items():
            watch.look(guardrails["alpha"], guardrails.get(f"{name}_margin"))

    def alarms(self) -> list[str]:
        """Return the names of the guardrails that raised an alarm."""
        return [name for name, watch in self.watches.items() if watch.alarm_n is not None]

    def report(self, guardrails: Mapping[str, Any]) -> list[Guardrail]:
        """Return the state of each guardrail."""
        states = []
        for name, watch in self.watches.items():
            value, lower, upper = watch.interval(guardrails["alpha"])
            states.append(
                Guardrail(
                    name=name,
                    alarm=watch.alarm_n is not None,
                    value=value,
                    limit=guardrails.get(f"{name}_margin", 0.0),
                    n=watch.n,
                    text=self.TEXTS[name].format(**guardrails),
                    lower=lower,
                    upper=upper,
                )
            )
        return states

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "watches": {name: [sorted(one.cells.items()), one.alarm_n] for name, one in self.watches.items()},
            "waiting": self.waiting,
            "epoch": self.epoch,
            "acknowledged": self.acknowledged,
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Return the guardrails from the state of :meth:`to_dict`."""
        watches = cls()
        for name in WATCHED:
            cells, alarm_n = kept["watches"][name]
            watches.watches[name] = Watch({float(value): n for value, n in cells}, alarm_n)
        if "recent" in kept:  # before schema 3, units may have been counted under an earlier share
            watches.watches["sample_ratio"] = Watch()
        watches.waiting, watches.acknowledged = list(kept["waiting"]), dict(kept.get("acknowledged", {}))
        watches.epoch = kept.get("epoch", 0)
        return watches


SHARES = ("late_clicks", "not_compared")
"""The guardrails that are plain shares: late clicks, and requests whose challenger failed."""


def seen(name: str) -> tuple[str, str]:
    """Return the names of the counters with the part and the whole of a share at its last acknowledged alarm."""
    return f"seen:{name}:part", f"seen:{name}:whole"


def by_counters(
    guardrails: Mapping[str, Any],
    counters: Mapping[str, int],
    *,
    late: int,
    clicks: int,
    not_compared: int,
    shown: int,
) -> list[Guardrail]:
    """Return the guardrails of :data:`SHARES`, each counted since its alarm was last acknowledged."""
    found = []
    for name, part, whole, limit, text in (
        (
            "late_clicks",
            late,
            late + clicks,
            guardrails["late_limit"],
            "clicks after their window, of all clicks",
        ),
        (
            "not_compared",
            not_compared,
            not_compared + shown,
            guardrails["not_compared_limit"],
            "requests whose challenger failed, of all that were to be compared",
        ),
    ):
        part_before, whole_before = (counters.get(counter, 0) for counter in seen(name))
        part = max(0, part - part_before)
        # the whole excludes pending lists that turned out to belong to the control
        whole = max(part, whole - whole_before)
        share = part / whole if whole else 0.0
        found.append(Guardrail(name, whole >= _FEWEST and share > limit, share, limit, whole, text))
    return found
