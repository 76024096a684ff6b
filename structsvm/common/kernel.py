"""``kernel``: compile a function, and cache the machine code on disk until any file of its folder changes.

Numba's own cache detects edits only in the file of the function itself, and would run outdated code of a kernel defined
in another file. The stamp of this cache covers every Python file of the folder, so that kernels of one folder may call
each other. Kernels of another folder may be called only if that folder is ``SHARED`` or listed in ``CALLS``; the stamp
covers both, too (``tests/test_architecture.py``).

Numba names the cache files of a function by consecutive numbers, one per signature, so two processes that compile two
signatures at the same time can choose the same number. In this cache, the file of each signature is named by a hash of
its key and replaced atomically.
"""

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
"""Folder whose kernels may be called from everywhere: sums and elementary functions."""

CALLS = {
    "structsvm.online.bandits.compiled": (
        "structsvm.online.interleaving.compiled",
        "structsvm.online.interleaving",
    ),
    "structsvm.online.interleaving.compiled": ("structsvm.online.interleaving",),
}
"""Folders whose kernels call kernels of other folders: the values list these and all folders that those call."""

_ALLOCATING = {
    "arange",
    "argsort",
    "astype",
    "copy",
    "cumsum",
    "empty",
    "empty_like",
    "eye",
    "flatnonzero",
    "full",
    "max",
    "mean",
    "min",
    "ones",
    "sort",
    "sum",
    "zeros",
    "zeros_like",
}
"""Functions and methods that return new arrays, or that allocate arrays in Numba's implementation."""


@overload
def kernel(function: Callable[..., Any], *, allocates: bool | None = None, **options: Any) -> Any: ...
@overload
def kernel(*, allocates: bool | None = None, **options: Any) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(
    function: Callable[..., Any] | None = None, *, allocates: bool | None = None, **options: object
) -> Any:
    """Compile ``function``, without the GIL, when it is first called, and cache the machine code.

    ``options`` are passed to :func:`numba.njit`. Numba optimises a kernel again within each of its callers, so that a
    kernel with a single caller should be declared ``inline="always"``. Only kernels that allocate arrays count
    references, because counting adds some 25 ns to each call with two arrays and to each slice, ten times the cost of a
    dot product of 20 numbers. ``allocates=False`` declares that a kernel only calls kernels that allocate, and receives
    none of their arrays; None finds out.
    """
    if function is None:
        return lambda function: kernel(function, allocates=allocates, **options)
    # Numba gives a function without these options the options of its first caller, and caches the result
    options = {"fastmath": False, "error_model": "numpy", **options}
    compiled = compiled_by_numba(function, _allocates(function) if allocates is None else allocates, options)
    # the source file named in byte code may be missing, or be another file, if the code was moved without its sources
    source = getattr(sys.modules.get(function.__module__), "__file__", None)
    if _FolderCache is not None and source == function.__code__.co_filename:
        with suppress(RuntimeError):  # without a file to stamp, each process compiles
            compiled._cache = _FolderCache(function)
    _kernels.add(compiled)
    return compiled


def _allocates(function: Callable[..., Any]) -> bool:
    """Return whether ``function`` allocates an array, or calls a kernel that allocates and may return an array.

    If an allocating function is missing from ``_ALLOCATING``, references are not counted, and Numba fails to compile.
    """
    return any(
        counts_references(function.__globals__.get(step.argval))
        if step.opname == "LOAD_GLOBAL"
        else step.argval in _ALLOCATING
        for step in dis.get_instructions(function)
    )


def _folder(package: str) -> Path:
    return Path(__file__).parents[2].joinpath(*package.split("."))


@lru_cache(maxsize=1024)
def _digest(path: str, modified: int, size: int) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _stamp(locator: Any) -> tuple[tuple[str, bytes], ...]:
    """Return names and digests of the files that the code of a kernel depends on.

    These are all files of the kernel's folder, of ``SHARED`` and of the folders whose kernels it calls, and the files
    that implement compilation.
    """
    # digests instead of times, which differ between installations of the same files; a file is read again only if its
    # time or size changes
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
    """Compiled code of a function on disk.

    There is one file for each key (signature, processor, byte code). It holds the version of Numba with the stamp, the
    key, and the code; ``load`` returns the code only if the version, stamp and key are the expected ones.
    """

    def __init__(self, folder: Path, name: str, stamp: object, read_only: Sequence[Path] = ()) -> None:
        self.folder, self.name, self.head = folder, name, (numba_version, stamp)
        self.read_only = read_only

    def _path(self, key: object) -> Path:
        return self.folder / f"{self.name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def save(self, key: object, data: object) -> None:
        # written under a temporary name and renamed, so that other processes never read half a file
        path = self._path(key)
        partial = path.with_suffix(f".{uuid4().hex}")
        try:
            partial.write_bytes(b"".join(dumps(part) for part in (self.head, key, data)))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def load(self, key: object) -> Any:
        for folder in (self.folder, *self.read_only):
            path = folder / self._path(key).name
            # a damaged file counts as missing
            with suppress(OSError, EOFError, pickle.UnpicklingError), path.open("rb") as file:
                if pickle.load(file) == self.head and pickle.load(file) == key:
                    return pickle.load(file)
        return None

    def flush(self) -> None:
        for path in self.folder.glob(f"{self.name}.*.nbc"):
            path.unlink(missing_ok=True)


@lru_cache(maxsize=1024)
def _writable(folder: Path) -> bool:
    # a write is attempted: permissions are not conclusive on read-only file systems or for root
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def is_kernel(value: object) -> bool:
    """Return whether a value is a function compiled by :func:`kernel`."""
    try:
        return value in _kernels
    except TypeError:  # not hashable
        return False


def kept_in() -> Path | None:
    """Return the folder of the cache; None if no folder can be written."""
    folders = (getattr(locator_of(kernel), "shown", None) for kernel in _kernels)
    return next((folder for folder in folders if folder is not None), None)


_kernels: WeakSet[Any] = WeakSet()
numba_internals.listen(is_kernel)

_FolderCache = numba_internals.make_cache(_stamp, _Entries, _writable, _folder("structsvm"))
