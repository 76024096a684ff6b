"""What this machine has: processors to share work among, and memory that a request can exceed."""

from __future__ import annotations

import ctypes
import numbers
import os

from structsvm.common.checks import BadInput


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads: None is 1, -1 all processors this process may use (the joblib convention)."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, numbers.Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise BadInput(
            "n_jobs", "expected a number of threads of at least 1, or -1 for all processors", value=n_jobs
        )
    if n_jobs > 0:
        return int(n_jobs)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, available + 1 + int(n_jobs))


def memory_bytes() -> float:
    """The memory of this machine; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")


def return_freed_memory() -> bool:
    """Give memory that was freed back to the system, where the C library is glibc; False elsewhere. glibc keeps blocks
    below 32 MB, which may add up to a third of the data of a library, and large arrays cannot use them.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # no such function; on Windows no library without a name
        return False
    return bool(trim(0))
