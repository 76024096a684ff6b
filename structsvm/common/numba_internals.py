"""All uses of Numba beyond its documented interface, with a fallback for versions that lack a name.

Tested with Numba 0.61 to 0.68; ``pyproject.toml`` has the same upper bound, and a CI job tries the next releases. If a
name is missing, it is listed in :data:`MISSING`, a warning is issued once, and kernels are compiled by
``numba.njit(cache=True)``, with the same results. The names, and the features lost without them:

* ``event``: progress messages, and the clock that stops during compilation;
* ``caching``: a cache that detects an edit in any file of the folder, which only developers need, and that several
  processes can write at the same time (numba/numba#4908);
* ``CPUDispatcher``: one compilation for writable and read-only arrays, which Numba compiles separately;
* the options ``_nrt`` and ``no_cfunc_wrapper``: without them, a first fit takes about 1.3 times as long.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import __version__ as numba_version, config, njit, typeof, types

from structsvm.common import compiling

TESTED = ("0.61", "0.68")

OPTIONS: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}
"""Undocumented options of ``njit``: no reference counting, no wrapper for callbacks from C."""

MISSING: str | None = None
"""Error for a name that this version of Numba lacks; None if no name is missing."""

try:
    from numba.core import caching, event
    from numba.core.registry import CPUDispatcher
    from numba.core.serialize import dumps as dumps

    _ = event.register, event.Listener, caching.FunctionCache, caching.CompileResultCacheImpl
    # locators name the folder of a cache: NUMBA_CACHE_DIR, __pycache__ beside the source, a folder of the user
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
        f"numba {numba_version} lacks names that structsvm uses ({MISSING}): kernels are compiled by "
        f"numba.njit(cache=True), and the first fit takes longer; tested with numba {TESTED[0]} to {TESTED[1]}",
        UserWarning,
        stacklevel=2,
    )


def compiled_by_numba(function: Callable[..., Any], allocates: bool, options: dict[str, Any]) -> Any:
    """Return the kernel of a function, compiled with the private options if this version of Numba has them."""
    if MISSING is not None:
        return njit(nogil=True, cache=True, **options)(function)
    compiled = njit(nogil=True, **{**OPTIONS, "_nrt": allocates, **options})(function)
    if isinstance(compiled, CPUDispatcher):  # with NUMBA_DISABLE_JIT, kernels are Python functions
        compiled.__class__ = _reading_class()
    return compiled


def counts_references(compiled: Any) -> bool:
    """Return whether a function is compiled with reference counting of its arrays."""
    return bool(getattr(compiled, "targetoptions", {}).get("_nrt"))


def _writable(numba_type: Any) -> Any:
    """Return a Numba type with all arrays writable; ``numba_type`` may be a tuple with arrays."""
    if isinstance(numba_type, types.BaseTuple):
        parts = map(_writable, numba_type)  # type: ignore[call-overload]
        return types.BaseTuple.from_types([*parts], getattr(numba_type, "instance_class", None))
    if isinstance(numba_type, types.Array) and not numba_type.mutable:
        return numba_type.copy(readonly=False)
    return numba_type


@cache
def _reading_class() -> Any:
    """Return a class of kernels that are not compiled a second time for read-only arrays."""

    class Kernel(CPUDispatcher):
        """Kernel that runs the code compiled for writable arrays on read-only arrays, too."""

        def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
            # called for a combination of types that the dispatcher has not seen
            given = tuple(map(typeof, args))
            writable = tuple(map(_writable, given))
            if writable == given:
                return super()._compile_for_args(*args, **kws)  # type: ignore[misc]
            entry = self.compile(writable)
            # from now on the dispatcher finds the entry by the codes of the read-only types
            self._insert([each._code for each in given], entry, False)  # type: ignore[attr-defined]
            return entry

    return Kernel


def make_cache(stamp: Any, entries: Any, writable: Callable[[Path], bool], root: Path) -> Any:
    """Return a cache class that stamps code by ``stamp`` and stores it as ``entries``; None if unavailable.

    Messages show ``root`` as the folder of code that is kept beside its source.
    """
    # locators that the user configures would not stamp the folder
    if MISSING is not None or getattr(config, "CACHE_LOCATOR_CLASSES", False):
        return None

    class Locator(_BESIDE):  # type: ignore[misc, valid-type]
        """Locator of the first writable folder; earlier folders are read, too, as they may contain code that other
        users compiled."""

        get_source_stamp = stamp

        def __init__(self, function: Callable[..., Any], file: str) -> None:
            super().__init__(function, file)
            kinds: list[Any] = (
                [_GIVEN, _BESIDE, _WIDE] if getattr(config, "CACHE_DIR", "") else [_BESIDE, _WIDE]
            )
            # with NUMBA_CACHE_DIR only that folder is "usual"; otherwise code is kept beside its source if possible
            folders = [Path(kind(function, file).get_cache_path()) for kind in kinds]
            self.kept = next(filter(writable, folders), None)
            self.usual = self.kept == folders[0]
            self.read_only = folders[: None if self.kept is None else folders.index(self.kept)]
            self._cache_path = str(self.kept or folders[0])
            self.shown: Path | None = None if self.kept is None else self.kept.parent
            if self.kept is not None and self.kept.name == "__pycache__":
                self.shown = root

        @classmethod
        def from_function(cls, function: Callable[..., Any], file: str) -> Any:
            return cls(function, file) if Path(file).exists() else None

        def ensure_cache_path(self) -> None:
            """Do nothing: the folder was created, and its access tested, when the kernel was defined."""

    implementation: Any = type(
        "FolderCacheImpl", (caching.CompileResultCacheImpl,), {"_locator_classes": [Locator]}
    )

    class FolderCache(caching.FunctionCache):
        _impl_class = implementation

        def __init__(self, function: Callable[..., Any]) -> None:
            # Numba's class chooses the locator and file name; its index of files is replaced by ``entries``
            super().__init__(function)  # type: ignore[no-untyped-call]
            at = self.locator = self._impl.locator
            self._cache_file = entries(
                Path(self.cache_path), self._impl.filename_base, at.get_source_stamp(), at.read_only
            )

        def save_overload(self, sig: Any, data: Any) -> None:
            if self.locator.kept is not None:
                try:
                    with compiling.keeping():
                        super().save_overload(sig, data)  # type: ignore[no-untyped-call]
                except OSError as error:  # a full disk must not end a fit
                    compiling.not_kept(f"{self.locator.kept}: {error.strerror}")

    return FolderCache


def locator_of(compiled: Any) -> Any:
    """Return the locator of the code of a kernel; None if the kernel has no :class:`FolderCache`."""
    return getattr(getattr(compiled, "_cache", None), "locator", None)


def is_kept(compiled: Any, arguments: tuple[Any, ...]) -> bool:
    """Return whether the code of a kernel for arguments of these types is on disk."""
    with suppress(AttributeError):  # the kernel has another cache, or none
        kept, signature = compiled._cache, tuple(_writable(typeof(each)) for each in arguments)
        return kept._cache_file.load(kept._index_key(signature, compiled.targetctx.codegen())) is not None
    return False


def mark_of(compiled: Any) -> Path | None:
    """Return the path of the mark that makes later processes compile a kernel; None without a cache."""
    at = locator_of(compiled)
    if at is None or at.kept is None:
        return None
    return Path(at.kept) / f"{compiled._cache._impl.filename_base}.wanted"


def _holds_array(numba_type: Any) -> bool:
    return isinstance(numba_type, types.Array) or any(map(_holds_array, getattr(numba_type, "types", ())))


def listen(is_kernel: Callable[[Any], bool]) -> None:
    """Report to :mod:`structsvm.common.compiling` the compilation of kernels, and of the functions that they call."""
    if MISSING is not None:
        return

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            # other functions count only while a kernel that calls them is being compiled
            compiled = event.data["dispatcher"]
            if is_kernel(compiled) or compiling.underway():
                at = locator_of(compiled)
                compiling.begun(at and at.shown, at is None or at.usual, caches=at is not None)

        def on_end(self, event: Any) -> None:
            if compiling.underway():
                compiling.ended()
            compiled = event.data["dispatcher"]
            counts = not is_kernel(compiled) or counts_references(compiled)
            # the caller would release a reference that was never counted, and free an array in use
            if not counts and any(_holds_array(one.return_type) for one in compiled.nopython_signatures):
                name = compiled.__name__
                raise TypeError(f"kernel {name}: returns an array that it did not allocate; return a copy")

    event.register("numba:compile", Listener())
