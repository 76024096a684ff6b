"""Asking workers: every wait ends, a lost worker costs the work on its partitions, a lost scheduler is said."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from structsvm.common.checks import BadInput
from structsvm.dask.rows import call

_POLL = 0.25
"""Seconds between two looks at the cluster while nothing comes in: what a lost worker costs besides its work."""

_NO_WORKER = 60.0
"""Seconds that a cluster may be without any worker: those that were killed are started again in a few."""

_RPC = 30.0
"""Seconds that a question about the state of the cluster may take."""


class ClusterError(RuntimeError):
    """Error of a cluster that cannot go on: no scheduler, no workers, no memory, or no answer in the time allowed."""


@contextlib.contextmanager
def connected(client: Any) -> Iterator[Any]:
    """Yield the given client, else the current one, else one of a cluster in this process for this block alone."""
    try:
        import distributed
    except ImportError:
        raise ImportError("structsvm.dask needs Dask: pip install 'structsvm-ranking[dask]'") from None
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
            try:
                yield client
            except (CancelledError, distributed.comm.CommClosedError) as error:  # whichever call met it first
                raise _no_scheduler(client) from error
        return
    with (
        distributed.LocalCluster(processes=False, n_workers=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as own,
        own.as_current(),
    ):
        yield own


def workers(client: Any) -> dict[str, Any]:
    """Return what the scheduler knows of each worker, by address."""
    if client.status != "running":
        raise _no_scheduler(client)

    async def ask() -> Any:
        return await client.scheduler.identity(n_workers=-1)

    try:
        return dict(client.sync(ask, callback_timeout=_RPC)["workers"])
    except (OSError, TimeoutError, RuntimeError) as error:
        raise _no_scheduler(client) from error


def awaited_workers(client: Any) -> dict[str, Any]:
    """Return the same once there is a worker: a cluster that adapts starts some when there is work for them."""
    there = workers(client)
    if not there:
        gather(client, [client.submit(int, pure=False)], 2 * _NO_WORKER, "a first worker")
        there = workers(client)
    return there


def memory_limits(client: Any) -> dict[str, float]:
    """Return the memory of each worker in bytes; infinite where none is stated."""
    return {address: float(one.get("memory_limit") or "inf") for address, one in workers(client).items()}


def _no_scheduler(client: Any) -> ClusterError:
    address = getattr(client.scheduler, "address", None) or getattr(client, "_start_arg", "")
    return ClusterError(
        f"lost the connection to the scheduler {address}; start the cluster again, and fit again with the same "
        "checkpoint= to go on where it was"
    )


def gather(client: Any, futures: Sequence[Any], timeout: float, place: str = "the cluster") -> list[Any]:
    """Return the results of futures, in their order, at least one more within every ``timeout`` seconds.
    ``place`` is what was waited for, which a ClusterError names.
    """
    wait_for(client, futures, timeout, place)
    return collect(client, futures, timeout)


def collect(client: Any, futures: Sequence[Any], timeout: float) -> list[Any]:
    """Return the results of futures that are done, or will be within the time."""
    from distributed import KilledWorker

    try:
        results = client.sync(
            lambda: client.gather(list(futures), asynchronous=True), callback_timeout=timeout
        )
    except KilledWorker as error:
        raise ClusterError(
            "work on one partition took down several workers, as it does where rows do not fit in their memory; use "
            "more memory, smaller partitions, or stores (structsvm convert), which are mapped instead of read"
        ) from error
    except CancelledError as error:
        raise _no_scheduler(client) from error
    except TimeoutError as error:
        raise ClusterError(f"expected answers within {timeout:g} s, got none; raise timeout=") from error
    return list(results)


def ask(
    client: Any, function: Any, parts: Sequence[Any], *rest: Any, timeout: float, place: str
) -> list[Any]:
    """Return what a function finds of each partition, where it lies."""
    futures = [client.submit(function, part, *rest, pure=False) for part in parts]
    return gather(client, futures, timeout, place)


def wait_for(client: Any, futures: Sequence[Any], timeout: float, place: str, notice: Any = None) -> None:
    """Wait until futures are done or failed; ``notice(workers)`` is told of the cluster now and then."""
    pending = list(futures)
    last, without = time.monotonic(), None
    while pending:
        n = len(pending)
        _nap(pending)
        pending = [future for future in pending if future.status in _OPEN]
        if any(future.status == "cancelled" for future in futures) or client.status != "running":
            raise _no_scheduler(client)
        now = time.monotonic()
        if len(pending) < n:
            last = now
        if not pending:
            return
        there = workers(client)
        without = None if there else (without or now)
        if without is not None and now - without > _NO_WORKER:
            raise ClusterError(
                f"no worker for {_NO_WORKER:g} s while waiting for {place}; start some, and fit again with the same "
                "checkpoint= to go on where it was"
            )
        if now - last > timeout:
            raise ClusterError(
                f"nothing came from {place} for {timeout:g} s, with {len(there)} workers there; raise timeout= if a "
                "partition takes that long"
            )
        if notice is not None:
            changed = notice(there)
            if changed is not None:
                pending = changed


def _nap(pending: Sequence[Any]) -> None:
    """Wait until all are done, or until it is time to look at the cluster."""
    import distributed

    try:
        distributed.wait(pending, timeout=_POLL)
    except (TimeoutError, CancelledError) as error:  # the second is that of all kinds of futures
        # its frames refer to it and to all futures here, which would keep their results on the workers
        error.__traceback__ = None


_OPEN = ("pending", "lost")
"""States of calls to wait for: lost ones were answered by a worker that died with the answer, and are made again."""

_ANSWER = 1.0
"""Seconds for fetching answers that are ready, which are a few vectors; then it is asked who is gone, and the next
attempt has twice as many."""


class DaskPartitions:
    """Partitions on the workers of a cluster; see :class:`structsvm.trainers.partitioned.driver.Partitions`.
    A call goes to the worker that holds its partition, lest it be copied without its planes; where that is gone, the
    scheduler makes the partition anew from its source. ``lost`` counts calls that were made again.
    """

    def __init__(self, client: Any, parts: Sequence[Any], timeout: float) -> None:
        self._client, self._parts, self._timeout = client, list(parts), timeout
        self.n_parts = len(self._parts)
        self.lost = 0
        self._find()

    def _find(self) -> None:
        """Find out on which worker each partition lies."""
        there = workers(self._client)
        holders = self._client.sync(
            lambda: self._client.scheduler.who_has(keys=[part.key for part in self._parts]),
            callback_timeout=_RPC,
        )
        self._places = [next(iter(holders.get(part.key) or ()), None) for part in self._parts]
        self._share = -(-self.n_parts // max(1, len(there)))

    def each(self, method: str, payloads: Sequence[tuple[Any, ...]]) -> list[Any]:
        """See :class:`structsvm.trainers.partitioned.driver.Partitions`."""
        if any(place is None for place in self._places):
            self._find()
        futures = [self._submit(k, method, payload) for k, payload in enumerate(payloads)]

        def notice(there: dict[str, Any]) -> list[Any] | None:
            stuck = [
                k
                for k, future in enumerate(futures)
                if future.status in _OPEN and self._places[k] is not None and self._places[k] not in there
            ]
            if not stuck:
                return None
            again(stuck)
            return [future for future in futures if future.status in _OPEN]

        def again(calls: list[int]) -> None:
            self.lost += len(calls)
            for k in calls:
                self._places[k] = None
                old, futures[k] = futures[k], self._submit(k, method, payloads[k])
                old.release()

        begun, patience = time.monotonic(), _ANSWER
        try:
            while True:
                wait_for(self._client, futures, self._timeout, f"the partitions ({method})", notice)
                try:
                    return collect(self._client, futures, min(self._timeout, patience))
                except ClusterError as error:
                    if (
                        not isinstance(error.__cause__, TimeoutError)
                        or time.monotonic() - begun > self._timeout
                    ):
                        raise
                patience *= 2
                # a worker died with answers that were ready; the scheduler would wait for it to come back
                there = workers(self._client)
                again([k for k, place in enumerate(self._places) if place is not None and place not in there])
        except BaseException:
            with contextlib.suppress(Exception):
                self._client.cancel(futures)
            raise

    def _submit(self, k: int, method: str, payload: tuple[Any, ...]) -> Any:
        place = self._places[k]
        return self._client.submit(
            call,
            self._parts[k],
            method,
            payload,
            self._share,
            pure=False,
            workers=None if place is None else [place],
        )
