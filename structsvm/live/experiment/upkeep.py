"""The loops that run beside requests: follow other workers, watch guardrails, restart threads, copy the store."""

import asyncio
import contextlib
import logging
import math
import secrets
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import get_args

from sqlalchemy.exc import SQLAlchemyError

from structsvm.live.contract.bodies import WATCHED, State
from structsvm.live.contract.metrics import Metrics
from structsvm.live.contract.settings import Settings
from structsvm.live.counting.closing import Closer
from structsvm.live.counting.guardrails import SHARES
from structsvm.live.experiment.registry import Registry
from structsvm.live.store.backups import Backups
from structsvm.live.store.writer import Writer

log = logging.getLogger("structsvm.live")

_FOLLOW_S = 0.5
"""Seconds between two checks for changes by other workers."""

_END_S = 10.0
"""Seconds that a shutdown waits for tasks that read or copy the store."""

_BACKUP_LOOK_S = 5.0
"""Seconds between two checks whether a backup is due."""

_BACKUP_MS = 50_000
"""Milliseconds for which a worker that begins a backup holds the lease on the task; less than a minute, as the store
expects."""

_WATCH_S = 5.0
"""Seconds between two checks of the guardrails."""

_TELL_MS = 50_000
"""Milliseconds for which one worker holds the lease on logging alarms; less than a minute, as the store expects."""


class Upkeep:
    """The loops of one worker, and the counts that requests leave for them to store."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        writer: Writer,
        closer: Closer,
        metrics: Metrics,
    ) -> None:
        self.settings, self.registry, self.metrics = settings, registry, metrics
        self.writer, self.closer, self.store, self.clock = writer, closer, registry.store, registry.clock
        self.counts: Counter[tuple[int, str]] = Counter()
        self._days: dict[str, int] = {}
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._owner = secrets.token_hex(8)
        self._told: set[tuple[str, str]] = set()
        self._closed: set[int] = set()
        """Closed experiments whose result is included in the metrics."""

    def start(self) -> None:
        """Start the loops; called in the event loop."""
        settings = self.settings
        self._tasks = [asyncio.create_task(self._keep_up())]
        if settings.backup_folder is not None and settings.sqlite_path is not None:
            folder, every_s = Path(settings.backup_folder), 3600 * settings.backup_every_h
            backups = Backups(settings.sqlite_path, folder, every_s, settings.backups_kept)
            self._tasks.append(asyncio.create_task(self._back_up(backups)))

    async def end_loops(self) -> None:
        """End the loops, and wait for those whose threads use the store."""
        self._stopping.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_S)
        for task in self._tasks:
            task.cancel()

    async def _keep_up(self) -> None:
        """Load what other workers and the closer have changed, and store counts, until the service stops."""
        failed, watched = 0, -math.inf
        while not await self._stops_within(_FOLLOW_S):
            try:
                self._revive()
                self.metrics.waiting.set(self.writer.n_waiting)
                self.metrics.failing.set(int(self.writer.failing is not None))
                self.metrics.closed.set(self.closer.n_closed)
                await self.registry.refresh()
                lags = await asyncio.to_thread(
                    self.closer.lags, {number: one.row for number, one in self.registry.by_id.items()}
                )
                self.metrics.lag.set(max(lags.values(), default=0.0))
                await asyncio.to_thread(self.flush)
                if time.monotonic() - watched > _WATCH_S:
                    watched = time.monotonic()
                    await self.watch()
                failed = 0
            except Exception as error:  # the next round tries again, whatever the error
                if not failed:
                    log.error("structsvm live: cannot read the store: %r", error)
                failed += 1
            if failed or self.writer.failing is not None:
                # connections may lead to a database that was replaced
                await asyncio.to_thread(self.store.close)

    async def watch(self) -> None:
        """Export the states and alarms of all experiments as metrics; one worker logs new alarms."""
        now = self.clock.now()
        tells = await asyncio.to_thread(self.store.lease, "alarms", self._owner, now, now + _TELL_MS)
        alarms: set[tuple[str, str]] = set()
        for key, experiment in self.registry.by_key.items():
            row = experiment.row
            for state in get_args(State):
                self.metrics.state.labels(key, state).set(int(state == row.state))
            found: set[str] = set()
            if row.state != "draft" and row.id not in self._closed:
                report = await asyncio.to_thread(self.registry.reports.of, row, self.clock.now())
                self.metrics.decided.labels(key).set(int(report.verdict.winner is not None))
                if row.state != "stopped":
                    found = {one.name for one in report.guardrails if one.alarm}
                elif row.closed:
                    self._closed.add(row.id)
            for name in (*WATCHED, *SHARES):
                self.metrics.alarm.labels(key, name).set(int(name in found))
            alarms |= {(row.title, name) for name in found}
        if tells:
            for title, name in sorted(alarms - self._told):
                log.warning("structsvm live: %s: guardrail %s raises an alarm", title, name)
        self._told = alarms if tells else set()

    def _revive(self) -> None:
        """Restart the closer or the writer if its thread has died."""
        for part in (self.closer, self.writer):
            if not part.alive:
                log.error("structsvm live: the %s died and is restarted", type(part).__name__.lower())
                part.start()

    async def _back_up(self, backups: Backups) -> None:
        """Copy the store at regular intervals, one worker at a time."""
        failing = stopping = False
        while not stopping:
            try:
                if backups.is_due():
                    now = self.clock.now()
                    if await asyncio.to_thread(
                        self.store.lease, "backup", self._owner, now, now + _BACKUP_MS
                    ):
                        await asyncio.to_thread(backups.make)
                ended = {e.row.id for e in self.registry.by_id.values() if e.row.unit_key is None}
                await asyncio.to_thread(backups.drop_unit_keys, frozenset(ended))
                self.metrics.backup.set(backups.newest_at() or 0)
                failing = False
            except (SQLAlchemyError, OSError, sqlite3.Error) as error:
                if not failing:
                    log.error("structsvm live: cannot back up to %s: %s", self.settings.backup_folder, error)
                failing = True
            stopping = await self._stops_within(_BACKUP_LOOK_S)

    async def _stops_within(self, seconds: float) -> bool:
        """Wait, and return whether the service is stopping."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        return self._stopping.is_set()

    def flush(self) -> None:
        """Store the counts, and the days on which keys were used."""
        counts, self.counts = self.counts, Counter()
        days, self._days = self._days, {}
        try:
            if days:
                self.store.use_keys(days)
            if counts:
                self.store.count(counts)
        except SQLAlchemyError:
            self.counts.update(counts)
            self._days = days | self._days
            raise

    def used(self, key: str) -> None:
        """Record that a key was used today."""
        self._days[key] = self.clock.now() // 86_400_000
