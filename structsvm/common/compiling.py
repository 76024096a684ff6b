"""Messages about the compilation of kernels, and a clock that stops during compilation."""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from structsvm.common.user_warnings import warn_user

_CACHE_REMEDY = "set the environment variable NUMBA_CACHE_DIR to another folder"


_MOMENT = 1.0
"""Seconds of compilation before a message is shown."""


class _State:
    def __init__(self) -> None:
        self.depth = 0  # compiling a kernel also compiles the kernels that it calls: compilations nest
        self.since = 0.0  # start time of the outermost kernel
        self.gc_was_enabled = False
        self.seconds = 0.0
        self.count = 0
        self.warned = False
        self.announced = False
        self.notified: set[int] = set()
        self.listeners: list[Callable[[str], object]] = []


_state = _State()  # Numba compiles one function at a time, in whichever thread


def clock() -> float:
    """Return the time, in seconds, of a clock that stops while kernels are compiled."""
    now = time.perf_counter()
    running = now - _state.since if _state.depth else 0.0
    return now - _state.seconds - running


def compiled() -> int:
    """Return the number of functions that this process has compiled, excluding those loaded from disk."""
    return _state.count


@contextmanager
def telling(listener: Callable[[str], object]) -> Iterator[None]:
    """Call ``listener`` with a message when the first kernel in the block has to be compiled."""
    _state.listeners.append(listener)
    try:
        yield
    finally:
        _state.listeners.remove(listener)
        _state.notified.discard(id(listener))


def begun(kept_in: Path | None, usual: bool, *, caches: bool = True) -> None:
    """Record the start of a compilation; ``kept_in`` is the cache folder, None if no folder is writable."""
    # messages and warnings are issued only for the outermost kernel
    if _state.depth == 0:
        for listener in _state.listeners:
            if id(listener) not in _state.notified:
                _state.notified.add(id(listener))
                listener("compiling" if kept_in is None else "compiling, once")
        if not caches:
            pass  # a function without a source file, such as one typed in a console, is compiled in each process
        elif kept_in is None:
            not_kept("no cache folder is writable")
        elif not usual:
            _warn(
                f"compiled code is kept in {kept_in}, because the usual folder is not writable; {_CACHE_REMEDY}"
            )
    _stop()
    _state.count += 1
    _announce()


def _announce() -> None:
    """Print a message, once per process, in a terminal or notebook, that explains why the first fit takes longer."""
    waited = _state.seconds + time.perf_counter() - _state.since
    if _state.announced or _state.listeners or waited < _MOMENT:
        return
    _state.announced = True
    if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        print("structsvm: compiling, once", file=sys.stderr)


@contextmanager
def keeping() -> Iterator[None]:
    """Stop the clock while compiled code is written to disk."""
    _stop()
    try:
        yield
    finally:
        ended()


def _stop() -> None:
    if _state.depth == 0:
        _state.since = time.perf_counter()
        # Numba creates a million objects, most of which stay alive: garbage collection would take a tenth of the time
        _state.gc_was_enabled = gc.isenabled()
        gc.disable()
    _state.depth += 1


def underway() -> bool:
    """Return whether a kernel is being compiled."""
    return _state.depth > 0


def ended() -> None:
    """Record the end of the most recent compilation or write."""
    _state.depth -= 1
    if _state.depth == 0:
        _state.seconds += time.perf_counter() - _state.since
        if _state.gc_was_enabled:
            gc.enable()


def not_kept(why: str) -> None:
    """Warn, once per process, that compiled code is lost when the process ends."""
    _warn(f"compiled code is not kept, and each process compiles again: {why}; {_CACHE_REMEDY}")


def _warn(text: str) -> None:
    if not _state.warned:
        _state.warned = True
        warn_user(text)
