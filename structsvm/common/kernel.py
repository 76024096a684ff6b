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
from numba import config, njit, typeof, types
from numba.core import caching, event
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

from structsvm.common import compiling, pipeline

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

    ``options`` are those of :func:`numba.njit`. The stamp uses private names of Numba: where they are missing the code
    is compiled in each process anew. Numba optimises a kernel again in each kernel above it, so those that are called
    from one place are ``inline="always"``. Only kernels that make arrays count the references to them (``_nrt``): each
    call with two arrays, and each slice, would cost some 25 ns, ten times a product of 20 numbers.
    """
    if function is None:
        return lambda function: kernel(function, **options)
    # what is not given here would be taken over from the kernel that first calls this one, and stay in the cache
    options = {
        "fastmath": False, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": _makes_arrays(function), **options,
    }  # fmt: skip
    compiled = njit(nogil=True, pipeline_class=pipeline.Pipeline, **options)(function)
    if isinstance(compiled, CPUDispatcher):  # kernels are Python functions where Numba is switched off
        compiled.__class__ = _Kernel
    # compiled files that are imported without their sources name a source that is gone, or that is not theirs
    source = getattr(sys.modules.get(function.__module__), "__file__", None)
    if _FolderCache is not None and source == function.__code__.co_filename:
        with suppress(RuntimeError):  # no file to stamp: compiled in each process
            compiled._cache = _FolderCache(function)
    _kernels.add(compiled)
    return compiled


def _unlocked(kind: Any) -> Any:
    """Return the type that Numba gives an array, or arrays in a tuple, that can be written."""
    if isinstance(kind, types.BaseTuple):
        parts = map(_unlocked, kind)  # type: ignore[call-overload]
        return types.BaseTuple.from_types([*parts], getattr(kind, "instance_class", None))
    return kind.copy(readonly=False) if isinstance(kind, types.Array) and not kind.mutable else kind


class _Kernel(CPUDispatcher):
    """Calls the code for arrays that can be written with read-only ones, too: Numba would compile it once more."""

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        kinds = [*map(typeof, args)]
        writable = tuple(map(_unlocked, kinds))
        if writable == tuple(kinds):
            return super()._compile_for_args(*args, **kws)  # type: ignore[misc]
        entry = self.compile(writable)
        self._insert([kind._code for kind in kinds], entry, False)  # type: ignore[attr-defined]
        return entry


def _makes_arrays(function: Callable[..., Any]) -> bool:
    """Return whether ``function`` makes an array, or calls a kernel that does and may return it.
    What is missing in ``_MAKERS`` is refused by Numba when it is compiled, as no references are counted.
    """
    for step in dis.get_instructions(function):
        if step.opname == "LOAD_GLOBAL":
            found = function.__globals__.get(step.argval)
            if getattr(found, "targetoptions", {}).get("_nrt"):
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
    files = [Path(__file__), Path(pipeline.__file__), *sorted(folder.glob("*.py"))]
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


def _make_cache() -> Any:
    """Return a cache class of Numba with :func:`_stamp` for its stamp, or None where this Numba is built otherwise."""
    if getattr(config, "CACHE_LOCATOR_CLASSES", ""):  # the user's own locators would not stamp the folder
        return None
    try:
        given, beside, wide = (
            # Numba before 0.62 wrote the first two with a leading underscore
            getattr(caching, name, None) or getattr(caching, f"_{name}")
            for name in ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator")
        )

        class Locator(beside):  # type: ignore[misc, valid-type]
            """The first of the folders that can be written. Those before it may hold what another user compiled."""

            get_source_stamp = _stamp

            def __init__(self, function: Callable[..., Any], file: str) -> None:
                super().__init__(function, file)
                kinds = [given, beside, wide] if getattr(config, "CACHE_DIR", "") else [beside, wide]
                folders = [Path(kind(function, file).get_cache_path()) for kind in kinds]
                self.kept = next(filter(_writable, folders), None)
                self.usual = self.kept == folders[0]
                self.read_only = folders[: None if self.kept is None else folders.index(self.kept)]
                self._cache_path = str(self.kept or folders[0])
                self.place = None if self.kept is None else self.kept.parent
                if self.kept is not None and self.kept.name == "__pycache__":
                    self.place = _folder("structsvm")

            @classmethod
            def from_function(cls, function: Callable[..., Any], file: str) -> Any:
                return cls(function, file) if Path(file).exists() else None

            def ensure_cache_path(self) -> None:
                """The folder was there, and could be written, when the kernel was defined."""

        implementation: Any = type(
            "FolderCacheImpl", (caching.CompileResultCacheImpl,), {"_locator_classes": [Locator]}
        )

        class FolderCache(caching.FunctionCache):
            _impl_class = implementation

            def __init__(self, function: Callable[..., Any]) -> None:
                super().__init__(function)
                at = self.locator = self._impl.locator
                stamp = at.get_source_stamp()
                self._cache_file = _Entries(
                    Path(self.cache_path), self._impl.filename_base, stamp, at.read_only
                )

            def save_overload(self, sig: Any, data: Any) -> None:
                if self.locator.kept is not None:
                    try:
                        with compiling.keeping():
                            super().save_overload(sig, data)
                    except OSError as error:  # a full disk must not end a fit
                        compiling.not_kept(f"{self.locator.kept}: {error.strerror}")

        return FolderCache
    except AttributeError:
        return None


def _holds_array(kind: Any) -> bool:
    return isinstance(kind, types.Array) or any(map(_holds_array, getattr(kind, "types", ())))


class _Listener(event.Listener):
    """Tells :mod:`structsvm.common.compiling` of kernels, and of all that is compiled on behalf of one."""

    def on_start(self, event: Any) -> None:
        compiled = event.data["dispatcher"]
        if compiled in _kernels or compiling.underway():
            at = getattr(compiled._cache, "locator", None)
            compiling.begun(at and at.place, at is None or at.usual, caches=at is not None)

    def on_end(self, event: Any) -> None:
        if compiling.underway():
            compiling.ended()
        compiled = event.data["dispatcher"]
        counts = compiled not in _kernels or compiled.targetoptions["_nrt"]
        # the caller would drop a reference that was never counted
        if not counts and any(_holds_array(one.return_type) for one in compiled.nopython_signatures):
            name = compiled.__name__
            raise TypeError(f"kernel {name}: returns an array without making one; return a copy")


def is_kernel(value: Any) -> bool:
    """Return whether a value is a function that :func:`kernel` made."""
    return isinstance(value, Dispatcher) and value in _kernels


def is_kept(compiled: Any, arguments: tuple[Any, ...]) -> bool:
    """Return whether the code of a kernel for arguments of these types is on disk."""
    with suppress(AttributeError):  # not our cache, or another Numba
        cache, kinds = compiled._cache, tuple(_unlocked(typeof(each)) for each in arguments)
        return cache._cache_file.load(cache._index_key(kinds, compiled.targetctx.codegen())) is not None
    return False


def mark_of(compiled: Any) -> Path | None:
    """Return the file, beside the code of a kernel, by which a process can ask later ones to compile it."""
    at = getattr(compiled._cache, "locator", None)
    return (
        None if at is None or at.kept is None else at.kept / f"{compiled._cache._impl.filename_base}.wanted"
    )


def kept_in() -> Path | None:
    """Return the folder under which compiled code is kept; None where none can be written."""
    places = (getattr(kernel._cache, "locator", None) for kernel in _kernels)
    return next((at.place for at in places if at is not None), None)


_kernels: WeakSet[Any] = WeakSet()
event.register("numba:compile", _Listener())

_FolderCache = _make_cache()
