"""``run``: call a kernel, as Python where compiling it would take longer than all its work so far.

A first fit of little data would otherwise wait seconds for code that it needs for milliseconds. A process that works
much longer in Python leaves a mark, and the next one compiles. Both round each operation alike: the bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from structsvm.common.kernel import SHARED, is_kernel
from structsvm.common.numba_internals import is_kept, mark_of

_SECONDS = 1.0
"""Work of a kernel, per process, that is done in Python: half of what it takes to compile one of those run here."""


_MUCH = 0.25
"""Work in Python after which the next process had better compile."""


class _State:
    def __init__(self, compiled: Any) -> None:
        self.python = as_python(compiled)
        self.left = _SECONDS
        self.looked = False
        self.mark = mark_of(compiled)


_states: WeakKeyDictionary[Any, _State] = WeakKeyDictionary()
_off = 0


def run(compiled: Any, seconds: float, *args: Any) -> Any:
    """Return ``compiled(*args)``; ``seconds`` is about how long this call takes in Python."""
    if compiled.signatures or _off:
        return compiled(*args)
    state = _states.get(compiled)
    if state is None:
        state = _states.setdefault(compiled, _State(compiled))
    if not state.looked:
        state.looked = True
        if is_kept(compiled, args) or (state.mark is not None and state.mark.exists()):
            state.left = 0.0
    # by estimates, not by a clock: a test or a benchmark compiles at the same call each time
    if state.left <= seconds:
        return compiled(*args)
    state.left -= seconds
    if state.mark is not None and state.left < _SECONDS - _MUCH:
        with suppress(OSError):
            state.mark.touch()
        state.mark = None
    with np.errstate(all="ignore"):
        return state.python(*args)


def as_python(compiled: Any) -> FunctionType:
    """Return the function of a kernel, with those of its own folder that it calls; kernels of sums stay compiled."""
    function: Any = compiled.py_func
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        called: Any = names.get(name)
        if is_kernel(called) and not called.__module__.startswith(SHARED):
            names[name] = as_python(called)
    return FunctionType(function.__code__, names, function.__name__)


@contextmanager
def compiling_all() -> Iterator[None]:
    """Let all kernels be compiled at their first call."""
    global _off
    _off += 1
    try:
        yield
    finally:
        _off -= 1
