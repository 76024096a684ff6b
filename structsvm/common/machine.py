"""Processors and memory of this machine."""

import contextlib
import ctypes
import numbers
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from structsvm.common.checks import BadInput

T = TypeVar("T")
R = TypeVar("R")


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``, by joblib's convention: None is 1, -1 all available processors."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, numbers.Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise BadInput(
            "n_jobs", "expected a number of threads of at least 1, or -1 for all processors", value=n_jobs
        )
    if n_jobs > 0:
        return int(n_jobs)
    # processors that the scheduler gives this process, which may be fewer than those of the machine
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, available + 1 + int(n_jobs))


def map_in_threads(work: Callable[[T], R], items: Sequence[T], n_threads: int) -> list[R]:
    """Return the results of ``work`` in the order of the items; an error or Ctrl-C cancels items not yet started."""
    if n_threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(n_threads, len(items))) as pool:
        return list(pool.map(work, items))


def in_threads(job: Callable[[int], Any], tasks: Sequence[int], workers: int) -> Iterator[Any]:
    """Run compiled tasks in threads, and yield their results as they finish.

    Compiled code does not react to Ctrl-C, but the waiting main thread does.
    """
    from multiprocessing import TimeoutError as Waiting
    from multiprocessing.pool import ThreadPool

    with ThreadPool(max(1, min(workers, len(tasks)))) as pool:
        outcomes = pool.imap_unordered(job, tasks)
        for _ in tasks:
            while True:
                # short waits, because a signal that arrives just before a wait does not interrupt it
                with contextlib.suppress(Waiting):
                    yield outcomes.next(timeout=0.5)
                    break


def memory_bytes() -> float:
    """Return the memory of this machine in bytes; infinite if the system does not report it."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")


def return_freed_memory() -> bool:
    """Return freed memory to the system, if the C library is glibc; return whether any was returned.

    glibc keeps freed blocks below 32 MB. They can amount to a third of the data that a library read, and large arrays
    cannot use them.
    """
    # a call of the C library that this process is linked to
    try:
        trim = ctypes.CDLL(None).malloc_trim
    # another C library; on Windows there is no library without a name
    except (AttributeError, OSError, TypeError):
        return False
    return bool(trim(0))
