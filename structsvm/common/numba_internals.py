"""Every use of Numba beyond its documented interface, and what happens where a version of Numba lacks it.

Tested with Numba 0.61 to 0.68; ``pyproject.toml`` has the same upper bound, and a job of the continuous integration
tries the next releases. Where a name is missing, :data:`MISSING` says which, a warning is given once, and kernels are
compiled by ``numba.njit(cache=True)`` as it is: results are the same. What is lost is

* ``event``: progress texts and the clock that stands still while kernels are compiled;
* ``caching``: a cache that notices an edit in any file of the folder, which only developers need, and that several
  processes can write at once (numba/numba#4908);
* ``CPUDispatcher``: one compilation for arrays that are read-only and others (numba compiles both);
* the options ``_nrt`` and ``no_cfunc_wrapper``: a first fit takes about 1.3 times as long without them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import __version__ as numba_version
from numba import config, njit, typeof, types

from structsvm.common import compiling

TESTED = ("0.61", "0.68")

OPTIONS: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}
"""Options of ``njit`` that are not documented."""

MISSING: str | None = None
"""What this version of Numba lacks."""

try:
    from numba.core import caching, event
    from numba.core.registry import CPUDispatcher
    from numba.core.serialize import dumps as dumps

    _ = event.register, event.Listener, caching.FunctionCache, caching.CompileResultCacheImpl
    _GIVEN, _BESIDE, _WIDE = (
        # Numba before 0.62 wrote the first two with a leading underscore
        getattr(caching, name, None) or getattr(caching, f"_{name}")
        for name in ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator")
    )
    njit(**OPTIONS)(lambda: None)
except (ImportError, AttributeError, KeyError, TypeError) as error:
    MISSING = str(error)
    from pickle import dumps as dumps

    warnings.warn(
        f"numba {numba_version} lacks what structsvm uses of it ({MISSING}): kernels are compiled by "
        f"numba.njit(cache=True), and the first fit takes longer; tested with numba {TESTED[0]} to {TESTED[1]}",
        UserWarning,
        stacklevel=2,
    )


def compiled_by_numba(function: Callable[..., Any], makes_arrays: bool, options: dict[str, Any]) -> Any:
    """Return the kernel of a function: with the private options, or where these are missing with Numba's own cache."""
    if MISSING is not None:
        return njit(nogil=True, cache=True, **options)(function)
    compiled = njit(nogil=True, **{**OPTIONS, "_nrt": makes_arrays, **options})(function)
    if isinstance(compiled, CPUDispatcher):  # kernels are Python functions where Numba is switched off
        compiled.__class__ = _reading_class()
    return compiled


def counts_references(compiled: Any) -> bool:
    """Return whether a kernel, or any other function, counts the references to its arrays."""
    return bool(getattr(compiled, "targetoptions", {}).get("_nrt"))


def _unlocked(kind: Any) -> Any:
    """Return the type that Numba gives an array, or arrays in a tuple, that can be written."""
    if isinstance(kind, types.BaseTuple):
        parts = map(_unlocked, kind)  # type: ignore[call-overload]
        return types.BaseTuple.from_types([*parts], getattr(kind, "instance_class", None))
    return kind.copy(readonly=False) if isinstance(kind, types.Array) and not kind.mutable else kind


_reading: list[Any] = []


def _reading_class() -> Any:
    """Return the class of kernels, which Numba would compile once more for arrays that are read-only."""
    if not _reading:

        class Kernel(CPUDispatcher):
            """Calls the code for arrays that can be written with read-only ones, too."""

            def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
                kinds = [*map(typeof, args)]
                writable = tuple(map(_unlocked, kinds))
                if writable == tuple(kinds):
                    return super()._compile_for_args(*args, **kws)  # type: ignore[misc]
                entry = self.compile(writable)
                self._insert([kind._code for kind in kinds], entry, False)  # type: ignore[attr-defined]
                return entry

        _reading.append(Kernel)
    return _reading[0]


def make_cache(
    stamp: Callable[[Any], Any], entries: Any, writable: Callable[[Path], bool], root: Path
) -> Any:
    """Return a cache class with ``stamp`` for the stamp of its code, and ``entries`` for its files; None if missing.

    ``root`` is what users are told where code is kept beside its source.
    """
    # the user's own locators would not stamp the folder
    if MISSING is not None or getattr(config, "CACHE_LOCATOR_CLASSES", False):
        return None

    class Locator(_BESIDE):  # type: ignore[misc, valid-type]
        """The first of the folders that can be written. Those before it may hold what another user compiled."""

        get_source_stamp = stamp

        def __init__(self, function: Callable[..., Any], file: str) -> None:
            super().__init__(function, file)
            kinds: list[Any] = (
                [_GIVEN, _BESIDE, _WIDE] if getattr(config, "CACHE_DIR", "") else [_BESIDE, _WIDE]
            )
            folders = [Path(kind(function, file).get_cache_path()) for kind in kinds]
            self.kept = next(filter(writable, folders), None)
            self.usual = self.kept == folders[0]
            self.read_only = folders[: None if self.kept is None else folders.index(self.kept)]
            self._cache_path = str(self.kept or folders[0])
            self.place: Path | None = None if self.kept is None else self.kept.parent
            if self.kept is not None and self.kept.name == "__pycache__":
                self.place = root

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
            name = self._impl.filename_base
            self._cache_file = entries(Path(self.cache_path), name, at.get_source_stamp(), at.read_only)

        def save_overload(self, sig: Any, data: Any) -> None:
            if self.locator.kept is not None:
                try:
                    with compiling.keeping():
                        super().save_overload(sig, data)
                except OSError as error:  # a full disk must not end a fit
                    compiling.not_kept(f"{self.locator.kept}: {error.strerror}")

    return FolderCache


def locator_of(compiled: Any) -> Any:
    """Return where the code of a kernel is kept; None where our cache is not used."""
    return getattr(getattr(compiled, "_cache", None), "locator", None)


def is_kept(compiled: Any, arguments: tuple[Any, ...]) -> bool:
    """Return whether the code of a kernel for arguments of these types is on disk."""
    with suppress(AttributeError):  # not our cache
        cache, kinds = compiled._cache, tuple(_unlocked(typeof(each)) for each in arguments)
        return cache._cache_file.load(cache._index_key(kinds, compiled.targetctx.codegen())) is not None
    return False


def mark_of(compiled: Any) -> Path | None:
    """Return the file, beside the code of a kernel, by which a process can ask later ones to compile it."""
    at = locator_of(compiled)
    if at is None or at.kept is None:
        return None
    return Path(at.kept) / f"{compiled._cache._impl.filename_base}.wanted"


def _holds_array(kind: Any) -> bool:
    return isinstance(kind, types.Array) or any(map(_holds_array, getattr(kind, "types", ())))


def listen(is_kernel: Callable[[Any], bool]) -> None:
    """Tell :mod:`structsvm.common.compiling` of kernels, and of all that is compiled on behalf of one."""
    if MISSING is not None:
        return

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            compiled = event.data["dispatcher"]
            if is_kernel(compiled) or compiling.underway():
                at = locator_of(compiled)
                compiling.begun(at and at.place, at is None or at.usual, caches=at is not None)

        def on_end(self, event: Any) -> None:
            if compiling.underway():
                compiling.ended()
            compiled = event.data["dispatcher"]
            counts = not is_kernel(compiled) or counts_references(compiled)
            # the caller would drop a reference that was never counted
            if not counts and any(_holds_array(one.return_type) for one in compiled.nopython_signatures):
                name = compiled.__name__
                raise TypeError(f"kernel {name}: returns an array without making one; return a copy")

    event.register("numba:compile", Listener())
