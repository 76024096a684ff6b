"""``run``: call a kernel in interpreted form as long as compiling it would take longer than its work so far.

Otherwise the first fit on a small data set would wait seconds for code that runs for milliseconds. A process that
spends much time in interpreted kernels leaves a mark on disk, which makes the next process compile. Python and compiled
code round each operation alike, so that results have the same bits.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from structsvm.common.kernel import SHARED, is_kernel
from structsvm.common.numba_internals import is_kept, mark_of

_SECONDS = 1.0
"""Seconds for which each process may run a kernel in Python: half the time that compiling a typical kernel takes."""

_MARK_SECONDS = 0.25
"""Seconds in Python after which a kernel is marked for compilation by the next process."""


class _State:
    def __init__(self, compiled: object) -> None:
        self.python = as_python(compiled)
        self.left = _SECONDS
        self.looked = False  # whether the disk was searched for compiled code
        self.mark = mark_of(compiled)


_states: WeakKeyDictionary[Any, _State] = WeakKeyDictionary()
_off = 0


def run(compiled: Any, seconds: float, *args: Any) -> Any:
    """Return ``compiled(*args)``; ``seconds`` estimates the time of this call in Python."""
    if compiled.signatures or _off:
        return compiled(*args)
    # the budget of this process: it is 0 if code is on disk, or an earlier process requested compilation
    state = _states.get(compiled)
    if state is None:
        state = _states.setdefault(compiled, _State(compiled))
    if not state.looked:
        state.looked = True
        if is_kept(compiled, args) or (state.mark is not None and state.mark.exists()):
            state.left = 0.0
    # use estimates, not a clock, so that tests and benchmarks always compile at the same call
    if state.left <= seconds:
        return compiled(*args)
    state.left -= seconds
    if state.mark is not None and state.left < _SECONDS - _MARK_SECONDS:
        with suppress(OSError):
            state.mark.touch()
        state.mark = None
    with np.errstate(all="ignore"):
        return state.python(*args)


def as_python(compiled: Any) -> FunctionType:
    """Return the Python function of a kernel. The kernels that it calls are interpreted, too, except those of shared
    modules."""
    # a copy of the function whose globals have Python functions in place of kernels
    function: Any = compiled.py_func
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        called: Any = names.get(name)
        if is_kernel(called) and not called.__module__.startswith(SHARED):
            names[name] = as_python(called)
    return FunctionType(function.__code__, names, function.__name__)


@contextmanager
def compiling_all() -> Iterator[None]:
    """Compile all kernels on their first call inside the block."""
    global _off
    _off += 1
    try:
        yield
    finally:
        _off -= 1
