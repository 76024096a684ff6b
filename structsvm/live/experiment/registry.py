"""A worker's copy of the experiments, and the calls that create and change them."""

import asyncio
import time
from collections.abc import Mapping, Set
from functools import partial
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.live.contract.bodies import WATCHED, Acknowledged, Changes, Killed, Revision
from structsvm.live.contract.calls import Refused
from structsvm.live.contract.clock import Clock
from structsvm.live.contract.config import check_config, check_key
from structsvm.live.contract.keys import Keys
from structsvm.live.counting.guardrails import SHARES, seen
from structsvm.live.counting.reporting import Reports
from structsvm.live.engines.engine import engine_hashes, with_hashes
from structsvm.live.experiment.assign import MOST_OUT, Experiment, Policy, delayed_bandit
from structsvm.live.store.queries import Store
from structsvm.live.store.records import ACKNOWLEDGED, ExperimentRow

_LOOK_S = 0.05
"""Minimum seconds between two queries for an unknown experiment."""


class Registry:
    """The experiments and API keys of a store, kept in memory and refreshed when another worker changes them."""

    def __init__(self, store: Store, clock: Clock, engines: Mapping[str, Any]) -> None:
        self.store, self.clock, self._engines = store, clock, engines
        self.reports = Reports(store)
        self.keys = Keys([])
        self.by_key: dict[str, Experiment] = {}
        self.by_id: dict[int, Experiment] = {}
        self._change = -1
        self._looked = -1.0
        self._looking = asyncio.Lock()
        self._refreshing = asyncio.Lock()

    async def put(
        self, key: str, config: Mapping[str, Any], *, if_match: int | None = None, who: str = "local"
    ) -> Revision:
        """Create an experiment, or change it; a change of meaning starts a new revision with fresh statistics."""
        try:
            checked = with_hashes(check_config(config), self._engines)
            check_key(key)
        except BadInput as error:
            raise Refused("bad_experiment", str(error)) from None
        await self.refresh()
        found = self.by_key.get(key)
        if if_match is not None and (0 if found is None else found.row.revision) != if_match:
            now = "none" if found is None else f"revision {found.row.revision}"
            raise Refused("conflict", f"expected revision {if_match} of {key!r}, but there is {now}")
        row = await asyncio.to_thread(self.store.put, key, checked, now=self.clock.now(), who=who)
        await self.refresh()
        return Revision(key, row.revision, row.state)

    async def set_state(self, key: str, to: str, *, reason: str = "", who: str = "local") -> Revision:
        """Set the state to ``running``, ``paused``, ``stopped`` or ``killed``; return its :class:`Revision`."""
        await self.refresh()
        experiment = self.known(key)
        if experiment.row.state == "stopped" and to != "stopped":
            raise Refused(
                "stopped", f"{key!r} has stopped and cannot be restarted; PUT it again for a new revision"
            )
        await asyncio.to_thread(
            self.store.set_state, experiment.row.id, to, now=self.clock.now(), who=who, reason=reason
        )
        await self.refresh()
        row = self.known(key).row
        return Revision(key, row.revision, row.state)

    async def acknowledge(
        self, key: str, guardrail: str | None = None, *, reason: str = "", who: str = "local"
    ) -> Acknowledged:
        """Restart a guardrail that has raised an alarm (None: all of these); return the names of those restarted."""
        await self.refresh()
        experiment = self.known(key)
        every = (*WATCHED, *SHARES)
        if guardrail is not None and guardrail not in every:
            raise Refused("bad_guardrail", f"expected one of {', '.join(every)}, got {guardrail!r:.80}")
        now = self.clock.now()
        found = await asyncio.to_thread(self.reports.of, experiment.row, now)
        names: list[str] = []
        counts: dict[str, int] = {}
        for one in found.guardrails:
            if one.alarm and guardrail in (None, one.name):
                names.append(one.name)
                if one.name in SHARES:
                    counts |= dict(zip(seen(one.name), (round(one.value * one.n), one.n), strict=True))
                else:
                    counts[f"{ACKNOWLEDGED}{one.name}"] = 1
        if names:
            await asyncio.to_thread(
                self.store.acknowledge, experiment.row.id, names, counts, now=now, who=who, reason=reason
            )
        return Acknowledged(names)

    async def kill_all(self, *, reason: str = "", who: str = "local") -> Killed:
        """Kill every experiment that runs or is paused; return their keys."""
        await self.refresh()
        going = [(key, e.row.id) for key, e in self.by_key.items() if e.row.state in ("running", "paused")]
        # the store returns False for an experiment that another worker has stopped meanwhile, where the method
        # ``set_state`` raises, which would leave the others running
        set_state = partial(
            self.store.set_state, state="killed", now=self.clock.now(), who=who, reason=reason
        )
        killed = [key for key, identity in going if await asyncio.to_thread(set_state, identity)]
        await self.refresh()
        return Killed(killed)

    async def changes(self, key: str) -> Changes:
        """Return who changed an experiment, newest first."""
        await self.found(key)
        return Changes(await asyncio.to_thread(self.store.changes, key))

    async def found(self, key: str) -> Experiment:
        """Return the result of :meth:`known`; query the store if another worker may have created the experiment."""
        if key not in self.by_key:
            async with self._looking:  # concurrent callers wait for the same query
                if key not in self.by_key and time.monotonic() - self._looked > _LOOK_S:
                    await self.refresh()
                    self._looked = time.monotonic()
        return self.known(key)

    async def know(self, experiments: Set[int]) -> None:
        """Query the store if one of these experiment numbers is new: another worker may have just created it."""
        if not experiments <= self.by_id.keys():
            await self.refresh()

    def known(self, key: str) -> Experiment:
        """Return the newest revision of an experiment; raise Refused if there is none."""
        experiment = self.by_key.get(key)
        if experiment is None:
            raise Refused("unknown_experiment", f"there is no experiment {key!r:.80}")
        return experiment

    async def refresh(self) -> None:
        """Load what has changed, one call at a time, so that older rows never replace newer ones."""
        async with self._refreshing:
            self.keys = Keys(await asyncio.to_thread(self.store.callers))
            change = await asyncio.to_thread(self.store.change_number)
            by_id = self.by_id if change == self._change else await self._loaded()
            await self._refresh_bandits(by_id)
            self.by_id, self.by_key, self._change = by_id, {e.row.key: e for e in by_id.values()}, change

    async def _loaded(self) -> dict[int, Experiment]:
        """Return all experiments of the store, with the known bandits."""
        by_id = {}
        for row in await asyncio.to_thread(self.store.experiments, newest=False):
            old = self.by_id.get(row.id)
            made = Experiment(row)
            if old is not None:
                made.policy = old.policy
            if row.state == "stopped" and row.config["stop"]["on_winner"] == "serve_winner":
                report = await asyncio.to_thread(self.reports.of, row, self.clock.now())
                made.winner = report.verdict.winner
            by_id[row.id] = made
        return by_id

    async def _refresh_bandits(self, experiments: Mapping[int, Experiment]) -> None:
        """Load updated bandits, and count the lists that any worker has shown since."""
        for experiment in experiments.values():
            row, policy = experiment.row, experiment.policy
            if row.config["kind"] != "bandit" or not (row.state == "running" or policy is None):
                continue
            version = await asyncio.to_thread(self.store.bandit_version, row.id)
            if policy is None or version != policy.version:
                experiment.policy = await asyncio.to_thread(self._policy, row, policy)
            else:
                policy.count(await asyncio.to_thread(self.store.duels, row.id, policy.last, MOST_OUT))

    def _policy(self, row: ExperimentRow, before: Policy | None) -> Policy:
        """Return the stored bandit of an experiment, with its last pending duels."""
        version, state = self.store.bandit(row.id)
        policy = Policy(delayed_bandit(row.config, state), version)
        policy.last = self.store.progress(row.id).watermark
        policy.count(self.store.duels(row.id, policy.last, MOST_OUT))
        policy.bandit.peek(np.random.default_rng(0))  # replay the duels now, outside the event loop
        if before is not None:
            policy.duels = before.duels
        return policy


def follow_engines(store: Store, tables: Mapping[str, Any], now: int) -> list[str]:
    """Start a new revision of each experiment whose rankers have changed in the configuration file.

    Statistics must not mix two rankers. Experiments whose engines are missing from the file are left unchanged. Return
    notes for the operator, one line each.
    """
    said = []
    for row in store.experiments():
        engines = row.config["engines"]
        if engines is None:
            continue
        try:
            hashes = engine_hashes(engines, tables)
        except BadInput as error:
            if engines[row.config["production"]]["engine"] not in tables:
                said.append(f"{row.key}: {error}; meanwhile its searches are refused (409)")
            elif row.state != "stopped" or row.config["stop"]["on_winner"] == "serve_winner":
                said.append(f"{row.key}: {error}; meanwhile its searches get production's list (why=engines)")
            continue
        before = row.config.get("engine_hashes")
        if hashes == before or row.state == "stopped":
            continue
        # revisions of earlier releases have no hashes, so that no change can be detected
        fresh = before is not None
        store.put(
            row.key,
            {**row.config, "engine_hashes": hashes},
            fresh=fresh,
            state=row.state,
            now=now,
            who="configuration file",
            what="new revision: engines changed" if fresh else "engines noted",
        )
        if fresh:
            said.append(f"{row.key}: new revision, as its engines have changed in the configuration file")
    return said
