"""What a process says of the compilation of its kernels, and a clock that stands still meanwhile."""

from __future__ import annotations

import gc
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ELSEWHERE = "the environment variable NUMBA_CACHE_DIR names another folder"


_MOMENT = 1.0
"""Seconds of compilation that pass in silence."""


class _State:
    def __init__(self) -> None:
        self.depth = 0  # kernels are compiled while a kernel that calls them is
        self.since = 0.0
        self.collects = False
        self.seconds = 0.0
        self.count = 0
        self.warned = False
        self.announced = False
        self.told: set[int] = set()
        self.listeners: list[Callable[[str], object]] = []


_state = _State()  # Numba compiles one function at a time, in whichever thread


def clock() -> float:
    """Return the seconds of a clock that stands still while kernels are compiled."""
    now = time.perf_counter()
    running = now - _state.since if _state.depth else 0.0
    return now - _state.seconds - running


def compiled() -> int:
    """Return the number of functions that this process has compiled, those that it found on disk not counted."""
    return _state.count


@contextmanager
def telling(listener: Callable[[str], object]) -> Iterator[None]:
    """Tell ``listener`` once, in words, when something has to be compiled."""
    _state.listeners.append(listener)
    try:
        yield
    finally:
        _state.listeners.remove(listener)
        _state.told.discard(id(listener))


def begun(kept_in: Path | None, usual: bool, *, caches: bool = True) -> None:
    """Note that compilation begins, of code kept in ``kept_in``, which may be the usual folder or another one."""
    if _state.depth == 0:
        for listener in _state.listeners:
            if id(listener) not in _state.told:
                _state.told.add(id(listener))
                listener("compiling" if kept_in is None else "compiling, once")
        if not caches:
            pass  # a function of no file, as in a console, is compiled in each process
        elif kept_in is None:
            not_kept("no folder for it can be written")
        elif not usual:
            _warn(f"compiled code is kept in {kept_in}, as the usual folder cannot be written; {_ELSEWHERE}")
    _stop()
    _state.count += 1
    _announce()


def _announce() -> None:
    """Print once per process, to who sits before it, why a first fit takes longer than a moment."""
    waited = _state.seconds + time.perf_counter() - _state.since
    if _state.announced or _state.listeners or waited < _MOMENT:
        return
    _state.announced = True
    if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        print("structsvm: compiling, once", file=sys.stderr)


@contextmanager
def keeping() -> Iterator[None]:
    """Let the clock stand still while compiled code is written to disk."""
    _stop()
    try:
        yield
    finally:
        ended()


def _stop() -> None:
    if _state.depth == 0:
        _state.since = time.perf_counter()
        # Numba makes a million objects, most of which stay: looking for garbage among them takes a tenth of the time
        _state.collects = gc.isenabled()
        gc.disable()
    _state.depth += 1


def underway() -> bool:
    """Return whether something is being compiled."""
    return _state.depth > 0


def ended() -> None:
    """Note that what began last is compiled, or written."""
    _state.depth -= 1
    if _state.depth == 0:
        _state.seconds += time.perf_counter() - _state.since
        if _state.collects:
            gc.enable()


def not_kept(why: str) -> None:
    """Warn, once per process, that compiled code is lost with the process."""
    _warn(f"compiled code is not kept, and each process compiles anew: {why}; {_ELSEWHERE}")


def _warn(text: str) -> None:
    if not _state.warned:
        _state.warned = True
        warnings.warn(text, UserWarning, stacklevel=_stacklevel())


def _stacklevel() -> int:
    """The ``stacklevel`` of :func:`_warn` that points to the first line outside this package and Numba."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and _inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _inside(module: Any) -> bool:
    return str(module).split(".")[0] in ("structsvm", "numba", "contextlib")
