"""``kernel``: compile a function, and keep the result on disk until any file of its folder changes.

Numba keeps compiled code until the file of the function itself changes. A kernel that calls a kernel of another file
would go on running the old code of that file after an edit. Here the stamp of the cached code covers every Python file
in the folder, so that the kernels of a folder may call each other across files. Kernels of other folders they may call
only where ``CALLS`` says so, and the stamp then covers these folders too (``tests/test_architecture.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

from numba import config, njit
from numba.core import caching

__all__ = ["CALLS", "kernel"]

CALLS = {"structsvm.online.bandits.compiled": ("structsvm.online.interleaving.compiled",)}
"""Folders whose kernels call those of other folders, which call no further."""


@overload
def kernel(function: Callable[..., Any]) -> Any: ...
@overload
def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile ``function`` without the GIL when it is first called, and cache the machine code.

    Parameters
    ----------
    function : callable
        A module-level function. ``kernel(function).py_func`` is the function itself, the readable reference.
    **options
        Further options of :func:`numba.njit`, such as ``error_model="numpy"`` or ``fastmath``.

    Returns
    -------
    numba dispatcher, or a decorator where only options are given

    Notes
    -----
    The stamp uses names of Numba that are not part of its public interface. Where they are missing the code is
    compiled in each process anew, which is slow but never wrong.

    Examples
    --------
    >>> @kernel(error_model="numpy")
    ... def ratio(a, b):
    ...     return a / b
    >>> ratio(1.0, 0.0)
    inf
    """
    if function is None:
        return lambda function: kernel(function, **options)
    compiled = njit(nogil=True, **options)(function)
    if _FolderCache is not None:
        with suppress(RuntimeError):  # no file to stamp, or no folder to write to: compiled in each process
            compiled._cache = _FolderCache(function)
    return compiled


def _folder(package: str) -> Path:
    return Path(__file__).parents[2].joinpath(*package.split("."))


@lru_cache(maxsize=1024)
def _digest(path: str, modified: int, size: int) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _stamp(locator: Any) -> tuple[tuple[str, bytes], ...]:
    """Return names and digests of all Python files in the folder of the kernel, and in those that it calls."""
    folder = Path(locator._py_file).parent
    files = sorted(folder.glob("*.py"))
    for caller, called in CALLS.items():
        if folder == _folder(caller):
            files += [file for other in called for file in sorted(_folder(other).glob("*.py"))]
    states = ((file, file.stat()) for file in files)
    return tuple((file.name, _digest(str(file), state.st_mtime_ns, state.st_size)) for file, state in states)


def _make_cache() -> Any:
    """Return a cache class of Numba with :func:`_stamp` for its stamp, or None where this Numba is built otherwise."""
    if getattr(config, "CACHE_LOCATOR_CLASSES", ""):  # the user's own locators would not stamp the folder
        return None
    try:
        locators = [
            # Numba before 0.62 wrote the first two with a leading underscore
            getattr(caching, name, None) or getattr(caching, f"_{name}")
            for name in ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator")
        ]
        stamped = [type(locator.__name__, (locator,), {"get_source_stamp": _stamp}) for locator in locators]
        implementation = type(
            "FolderCacheImpl", (caching.CompileResultCacheImpl,), {"_locator_classes": stamped}
        )
        return type("FolderCache", (caching.FunctionCache,), {"_impl_class": implementation})
    except AttributeError:
        return None


_FolderCache = _make_cache()
