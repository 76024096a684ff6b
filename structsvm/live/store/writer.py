"""Group commit: one thread stores all waiting requests in one transaction and responds when it is on disk."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from structsvm.live.store.rows import ClickRow, HotConnection, ShownRow, Stored, StoreDown

log = logging.getLogger("structsvm.live")

_LINGER_S = 0.002
"""Seconds that the first request of a batch waits for others, which saves transactions and wake-ups."""
_MOST_WAITING = 20_000
_MOST_A_BATCH = 1000


_Result = tuple[list[Stored | None], list[int]] | StoreDown
"""What a connection returns for a batch, or why nothing of it is stored."""


@dataclass(slots=True, eq=False)
class _Job:
    """One request: either an impression or clicks."""

    shown: ShownRow | None
    clicks: Sequence[ClickRow]
    future: asyncio.Future[Any]
    timer: asyncio.TimerHandle | None = None


class Writer:
    """The writer of one worker; ``connect`` returns a fresh connection, or raises StoreDown."""

    def __init__(self, connect: Callable[[], HotConnection]) -> None:
        self._connect = connect
        self._waiting: dict[_Job, None] = {}
        self._writing: list[_Job] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.last_commit: float | None = None
        """Time of the last commit, by ``time.monotonic()``."""
        self.failing: str | None = None
        """Why the last attempt failed; None if it succeeded."""

    def start(self) -> None:
        """Start the thread, or restart it if it has died; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        _answer(self._writing, StoreDown("store: the writer has died"))
        self._thread = threading.Thread(target=self._run, name="structsvm-writer", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Store pending requests and end the thread."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 10)

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def n_waiting(self) -> int:
        """Number of waiting requests."""
        with self._lock:
            return sum(not job.future.done() for job in self._waiting)

    async def show(self, row: ShownRow, within_s: float) -> Stored | None:
        """Store an impression; return the impression stored earlier under its id, or None.

        Raises StoreDown if the impression is not on disk after ``within_s`` seconds.
        """
        stored: Stored | None = await self._submit(row, (), within_s)
        return stored

    async def click(self, rows: Sequence[ClickRow], within_s: float) -> list[int]:
        """Store clicks; return the result of each (``rows.ACCEPTED``, ...). Raises StoreDown as :meth:`show` does."""
        fates: list[int] = await self._submit(None, rows, within_s)
        return fates

    def _submit(
        self, shown: ShownRow | None, clicks: Sequence[ClickRow], within_s: float
    ) -> asyncio.Future[Any]:
        if self._loop is None or self._stopping or len(self._waiting) >= _MOST_WAITING:
            raise StoreDown("store: too many waiting requests, or the service is stopping")
        job = _Job(shown, clicks, self._loop.create_future())
        job.timer = self._loop.call_later(within_s, self._give_up, job)
        with self._lock:
            self._waiting[job] = None
            first = len(self._waiting) == 1
        if first:
            self._wake.set()
        return job.future

    def _give_up(self, job: _Job) -> None:
        """Answer a request that has waited too long; it is then not written, unless writing has begun."""
        with self._lock:
            self._waiting.pop(job, None)
        if not job.future.done():
            job.future.set_exception(StoreDown("store: too slow"))

    def _run(self) -> None:
        connection: HotConnection | None = None
        while True:
            if not self._waiting:
                self._wake.wait(1.0)
            self._wake.clear()
            if self._stopping and not self._waiting:
                break
            if self._waiting and not self._stopping:
                time.sleep(_LINGER_S)
            with self._lock:
                self._writing = jobs = list(islice(self._waiting, _MOST_A_BATCH))
                for job in jobs:
                    del self._waiting[job]
            if jobs:
                connection = self._write(connection, jobs)
                self._writing = []
        if connection is not None:
            connection.close()

    def _write(self, connection: HotConnection | None, jobs: list[_Job]) -> HotConnection | None:
        shown = [job.shown for job in jobs if job.shown is not None]
        clicks = [row for job in jobs for row in job.clicks]
        try:
            connection = connection or self._connect()
            result: _Result = connection.write(shown, clicks)
            self.last_commit, self.failing = time.monotonic(), None
        except Exception as error:
            if self.failing is None:
                log.error("structsvm live: cannot store: %s", error)
            self.failing = str(error)
            result = error if isinstance(error, StoreDown) else StoreDown(str(error))
            if connection is not None:
                connection.close()
                connection = None
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
            self._loop.call_soon_threadsafe(_answer, jobs, result)
        return connection


def _answer(jobs: list[_Job], result: _Result) -> None:
    """Set the results of the requests of a batch; called in the event loop."""
    earlier, fates = map(iter, ((), ()) if isinstance(result, StoreDown) else result)
    for job in jobs:
        if job.timer is not None:
            job.timer.cancel()
        # the results are in the order of the requests
        own = next(earlier, None) if job.shown is not None else list(islice(fates, len(job.clicks)))
        if job.future.done():  # the request has timed out, or the caller has disconnected
            continue
        if isinstance(result, StoreDown):
            job.future.set_exception(result)
        else:
            job.future.set_result(own)
