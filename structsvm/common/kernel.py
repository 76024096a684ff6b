"""``kernel``: compile a function, and keep the result on disk until any file of its folder changes.

Numba keeps compiled code until the file of the function itself changes, and would go on running old code of a kernel
in another file. Here the stamp of the cached code covers every Python file of the folder, so that its kernels may call
each other. Those of other folders they may call only where ``CALLS`` says so or if they are those of ``SHARED``, which
the stamp then covers too (``tests/test_architecture.py``).

Numba's index numbers the files of a function's signatures: two processes that compile two signatures at once can give
them one number. Here each signature has a file of its own, named by what it is compiled for and replaced at once.
"""

from __future__ import annotations

import dis
import hashlib
import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, overload
from uuid import uuid4
from weakref import WeakSet

from numba import __version__ as numba_version

from structsvm.common import numba_internals
from structsvm.common.numba_internals import compiled_by_numba, counts_references, dumps, locator_of

SHARED = "structsvm.common.portable"
"""Folder whose kernels all others may call: sums and elementary functions."""

CALLS = {"structsvm.online.bandits.compiled": ("structsvm.online.interleaving.compiled",)}
"""Folders whose kernels call those of other folders, which call no further."""

_MAKERS = {
    "arange", "argsort", "astype", "copy", "cumsum", "empty", "empty_like", "eye", "flatnonzero", "full", "max", "mean",
    "min", "ones", "sort", "sum", "zeros", "zeros_like",
}  # fmt: skip
"""Functions and methods that make arrays, or for which Numba makes some."""


@overload
def kernel(function: Callable[..., Any]) -> Any: ...
@overload
def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile ``function`` without the GIL when it is first called, and cache the machine code.

    ``options`` are those of :func:`numba.njit`. Numba optimises a kernel again in each kernel above it, so those that
    are called from one place are ``inline="always"``. Only kernels that make arrays count the references to them: each
    call with two arrays, and each slice, would cost some 25 ns, ten times a product of 20 numbers.
    """
    if function is None:
        return lambda function: kernel(function, **options)
    # what is not given here would be taken over from the kernel that first calls this one, and stay in the cache
    options = {"fastmath": False, "error_model": "numpy", **options}
    compiled = compiled_by_numba(function, _makes_arrays(function), options)
    # compiled files that are imported without their sources name a source that is gone, or that is not theirs
    source = getattr(sys.modules.get(function.__module__), "__file__", None)
    if _FolderCache is not None and source == function.__code__.co_filename:
        with suppress(RuntimeError):  # no file to stamp: compiled in each process
            compiled._cache = _FolderCache(function)
    _kernels.add(compiled)
    return compiled


def _makes_arrays(function: Callable[..., Any]) -> bool:
    """Return whether ``function`` makes an array, or calls a kernel that does and may return it.
    What is missing in ``_MAKERS`` is refused by Numba when it is compiled, as no references are counted.
    """
    for step in dis.get_instructions(function):
        if step.opname == "LOAD_GLOBAL":
            found = function.__globals__.get(step.argval)
            if counts_references(found):
                return True
        elif step.argval in _MAKERS:
            return True
    return False


def _folder(package: str) -> Path:
    return Path(__file__).parents[2].joinpath(*package.split("."))


@lru_cache(maxsize=1024)
def _digest(path: str, modified: int, size: int) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _stamp(locator: Any) -> tuple[tuple[str, bytes], ...]:
    """Return names and digests of this file, of all in the folder of the kernel, and in those that it calls."""
    folder = Path(locator._py_file).parent
    files = [Path(__file__), Path(numba_internals.__file__), *sorted(folder.glob("*.py"))]
    if folder != _folder(SHARED):
        files += sorted(_folder(SHARED).glob("*.py"))
    for caller, called in CALLS.items():
        if folder == _folder(caller):
            files += [file for other in called for file in sorted(_folder(other).glob("*.py"))]
    states = ((file, file.stat()) for file in files)
    return tuple((file.name, _digest(str(file), state.st_mtime_ns, state.st_size)) for file, state in states)


class _Entries:
    """Compiled code of a function: one file for each key (signature, processor, byte code), with its key and stamp."""

    def __init__(self, folder: Path, name: str, stamp: Any, read_only: Sequence[Path] = ()) -> None:
        self.folder, self.name, self.head = folder, name, (numba_version, stamp)
        self.read_only = read_only

    def _path(self, key: Any) -> Path:
        return self.folder / f"{self.name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def save(self, key: Any, data: Any) -> None:
        path = self._path(key)
        partial = path.with_suffix(f".{uuid4().hex}")
        try:
            partial.write_bytes(b"".join(dumps(part) for part in (self.head, key, data)))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def load(self, key: Any) -> Any:
        path = self._path(key)
        for place in (path, *(folder / path.name for folder in self.read_only)):
            # none yet, or a damaged one
            with suppress(OSError, EOFError, pickle.UnpicklingError), place.open("rb") as file:
                if pickle.load(file) == self.head and pickle.load(file) == key:
                    return pickle.load(file)
        return None

    def flush(self) -> None:
        for path in self.folder.glob(f"{self.name}.*.nbc"):
            path.unlink(missing_ok=True)


@lru_cache(maxsize=1024)
def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def is_kernel(value: Any) -> bool:
    """Return whether a value is a function that :func:`kernel` made."""
    try:
        return value in _kernels
    except TypeError:  # values that cannot be hashed
        return False


def kept_in() -> Path | None:
    """Return the folder under which compiled code is kept; None where none can be written."""
    places = (getattr(locator_of(kernel), "place", None) for kernel in _kernels)
    return next((place for place in places if place is not None), None)


_kernels: WeakSet[Any] = WeakSet()
numba_internals.listen(is_kernel)

_FolderCache = numba_internals.make_cache(_stamp, _Entries, _writable, _folder("structsvm"))
