"""Calls to workers with time limits.

A lost worker costs the work on its partitions, which are rebuilt. A cluster that cannot continue raises ClusterError.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from structsvm.common.checks import BadInput
from structsvm.common.extras import extra, needed
from structsvm.dask.rows import call

Parts = Sequence[Any]
"""Futures of the partitions, or the inputs that they are computed from."""

_POLL = 0.25
"""Seconds between two checks of the cluster for lost workers, while no result arrives."""

_NO_WORKER = 60.0
"""Seconds that a cluster may be without workers; Dask restarts killed workers within a few seconds."""

_RPC = 30.0
"""Time limit of calls to the scheduler, in seconds."""


class ClusterError(RuntimeError):
    """Error for a cluster that lacks a scheduler, workers, enough memory, or a result within the time limit."""


@contextlib.contextmanager
def connected(client: Any) -> Iterator[Any]:
    """Yield the given client, the current client, or the client of a cluster in this process that ends with the
    block."""
    with needed("structsvm.dask", extra("dask")):
        import distributed
    if client is None:
        with contextlib.suppress(ValueError):
            client = distributed.get_client()
    if client is not None:
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise BadInput(
                "client",
                f"expected a distributed.Client that is not asynchronous, got {type(client).__name__}",
            )
        with client.as_current():
            # a client that the user gives stays open; only errors of the connection are translated
            try:
                yield client
            # any call in the block may raise these
            except (CancelledError, distributed.comm.core.CommClosedError) as error:
                raise _no_scheduler(client) from error
        return
    with (
        distributed.LocalCluster(processes=False, n_workers=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as own,
        own.as_current(),
    ):
        yield own


def workers(client: Any) -> dict[str, Any]:
    """Return the scheduler's description of each worker, by address."""
    if client.status != "running":
        raise _no_scheduler(client)

    async def ask() -> Any:
        return await client.scheduler.identity(n_workers=-1)

    try:
        return dict(client.sync(ask, callback_timeout=_RPC)["workers"])
    except (OSError, TimeoutError, RuntimeError) as error:
        raise _no_scheduler(client) from error


def count_threads(client: Any) -> int:
    """Wait for a worker; return the number of threads of all workers, at least 1."""
    there = workers(client)
    # an adaptive cluster starts workers only when there is work
    if not there:
        gather(client, [client.submit(int, pure=False)], 2 * _NO_WORKER, "a first worker")
        there = workers(client)
    return max(1, sum(int(one["nthreads"]) for one in there.values()))


def memory_limits(client: Any) -> dict[str, float]:
    """Return the memory limit of each worker in bytes; infinite if it has none."""
    return {address: float(one.get("memory_limit") or "inf") for address, one in workers(client).items()}


def _no_scheduler(client: Any) -> ClusterError:
    address = getattr(client.scheduler, "address", None) or getattr(client, "_start_arg", "")
    return ClusterError(
        f"lost the connection to the scheduler {address}; start the cluster again, and fit again with the same "
        "checkpoint= to continue"
    )


def gather(client: Any, futures: Sequence[Any], timeout: float, place: str = "the cluster") -> list[Any]:
    """Return the results of futures in order; raise ClusterError if none finishes for ``timeout`` seconds.

    ``place`` is the description, in the error, of the results that are waited for.
    """
    wait_for(client, futures, timeout, place)
    return collect(client, futures, timeout)


def collect(client: Any, futures: Sequence[Any], timeout: float) -> list[Any]:
    """Return the results of futures, which must be done within the time limit."""
    from distributed import KilledWorker

    try:
        results = client.sync(
            lambda: client.gather(list(futures), asynchronous=True), callback_timeout=timeout
        )
    except KilledWorker as error:
        raise ClusterError(
            "work on one partition killed several workers, as happens if rows do not fit in their memory; use "
            "more memory, smaller partitions, or stores (structsvm convert), which are mapped instead of read"
        ) from error
    except CancelledError as error:
        raise _no_scheduler(client) from error
    except TimeoutError as error:
        raise ClusterError(f"expected answers within {timeout:g} s, got none; raise timeout=") from error
    return list(results)


def ask(client: Any, function: Any, parts: Any, *rest: Any, timeout: float, place: str) -> list[Any]:
    """Return the results of a function for each partition, computed where the partition is."""
    futures = [client.submit(function, part, *rest, pure=False) for part in parts]
    return gather(client, futures, timeout, place)


def wait_for(client: Any, futures: Sequence[Any], timeout: float, place: str, notice: Any = None) -> None:
    """Wait until futures are done or failed.

    ``notice(workers)`` is called after each check of the cluster, and may return other futures to wait for.
    """
    pending = list(futures)
    # time of the last finished future, and time since which there has been no worker
    last, without = time.monotonic(), None
    while pending:
        n = len(pending)
        _nap(pending)
        # Dask has no time limit that restarts with each result, and waits forever for a lost scheduler or worker.
        # Therefore check the states of the futures and of the cluster after each wait.
        pending = [future for future in pending if future.status in _OPEN]
        if any(future.status == "cancelled" for future in futures) or client.status != "running":
            raise _no_scheduler(client)
        now = time.monotonic()
        if len(pending) < n:
            last = now
        if not pending:
            return
        # raise if there has been no worker, or no further finished future, for too long
        there = workers(client)
        without = None if there else (without or now)
        if without is not None and now - without > _NO_WORKER:
            raise ClusterError(
                f"no worker for {_NO_WORKER:g} s while waiting for {place}; start workers, and fit again with the "
                "same checkpoint= to continue"
            )
        if now - last > timeout:
            raise ClusterError(
                f"no result from {place} for {timeout:g} s, with {len(there)} workers connected; raise timeout= if "
                "a partition takes that long"
            )
        if notice is not None:
            changed = notice(there)
            if changed is not None:
                pending = changed


def _nap(pending: Sequence[Any]) -> None:
    """Wait until all futures are done, or until the next check of the cluster."""
    import distributed

    try:
        distributed.wait(pending, timeout=_POLL)
    except (TimeoutError, CancelledError) as error:
        # the traceback refers to these futures, and would keep their results on the workers
        error.__traceback__ = None


_OPEN = ("pending", "lost")
"""States of unfinished futures; the result of a lost future was on a worker that died, and is computed again."""

_FETCH = 1.0
"""Time limit, in seconds, for fetching finished results, which are a few vectors; after a timeout, calls of lost
workers are repeated, and the limit is doubled."""


class DaskPartitions:
    """Partitions on the workers of a cluster; see :class:`structsvm.trainers.partitioned.driver.Partitions`.

    A call is sent to the worker that holds its partition: another worker would copy the partition without its cached
    planes. If that worker is gone, the scheduler rebuilds the partition from its source. ``lost`` counts repeated
    calls.
    """

    def __init__(self, client: Any, parts: Sequence[Any], timeout: float) -> None:
        self._client, self._parts, self._timeout = client, list(parts), timeout
        self.n_parts = len(self._parts)
        self.lost = 0
        self._locate()

    def _locate(self) -> None:
        """Ask the scheduler for the worker of each partition."""
        there = workers(self._client)
        holders = self._client.sync(
            lambda: self._client.scheduler.who_has(keys=[part.key for part in self._parts]),
            callback_timeout=_RPC,
        )
        self._holders = [next(iter(holders.get(part.key) or ()), None) for part in self._parts]
        self._share = -(-self.n_parts // max(1, len(there)))

    def each(self, method: str, payloads: Sequence[tuple[Any, ...]]) -> list[Any]:
        """See :class:`structsvm.trainers.partitioned.driver.Partitions`."""
        if None in self._holders:
            self._locate()
        futures = [self._submit(k, method, payload) for k, payload in enumerate(payloads)]

        def repeat(there: dict[str, Any], states: Sequence[str]) -> bool:
            """Repeat calls in the given states on any worker if their worker is gone; return whether there were any."""
            gone = [k for k, holder in enumerate(self._holders) if holder is not None and holder not in there]
            gone = [k for k in gone if futures[k].status in states]
            self.lost += len(gone)
            for k in gone:
                self._holders[k] = None
                old, futures[k] = futures[k], self._submit(k, method, payloads[k])
                old.release()
            return bool(gone)

        def notice(there: dict[str, Any]) -> list[Any] | None:
            repeated = repeat(there, _OPEN)
            return [future for future in futures if future.status in _OPEN] if repeated else None

        begun, patience = time.monotonic(), _FETCH
        try:
            while True:
                wait_for(self._client, futures, self._timeout, f"the partitions ({method})", notice)
                try:
                    return collect(self._client, futures, min(self._timeout, patience))
                except ClusterError as error:
                    timed_out = isinstance(error.__cause__, TimeoutError)
                    if not timed_out or time.monotonic() - begun > self._timeout:
                        raise
                # the scheduler would wait for finished results that were lost with their worker
                patience *= 2
                repeat(workers(self._client), (*_OPEN, "finished"))
        except BaseException:
            with contextlib.suppress(Exception):
                self._client.cancel(futures)
            raise

    def _submit(self, k: int, method: str, payload: tuple[Any, ...]) -> Any:
        only = None if self._holders[k] is None else [self._holders[k]]
        return self._client.submit(
            call, self._parts[k], method, payload, self._share, pure=False, workers=only
        )
