"""Replacement of a store by a new one: readers find one of the two, complete."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from structsvm.common.files import beside

_LEFT_SECONDS = 60.0
"""Age at which an earlier store that was moved aside counts as left behind: its writer needs far less."""

IsStore = Callable[[Path], bool]


def put_in_place(part: Path, path: Path, is_store: IsStore) -> None:
    """Move the finished folder to its path; an earlier store is moved aside, and back if that fails."""
    # Others may be writing the same store. Every step moves a whole folder, and a writer that finds the place
    # taken tries again: the last complete store remains, and no earlier one is left beside it.
    while not _moved(part, path):
        old = beside(path, f"{_tag(path)}.old")
        try:
            path.rename(old)
        except FileNotFoundError:  # another writer has just moved it aside
            continue
        try:
            if not is_store(old):
                if not old.exists():  # a reader has put it back
                    continue
                raise FileExistsError(f"{path}: expected a store to replace, got something else there")
            done = _moved(part, path)  # else another writer was faster: move its store aside next
        except OSError:
            with contextlib.suppress(OSError):  # a reader has already put it back
                old.rename(path)
            raise
        discard(old)
        if done:
            break
    _clean(path, is_store)


def _tag(path: Path) -> str:
    """Return the part of the name of a store moved aside that identifies its former place."""
    return f"{zlib.crc32(os.fsencode(path.name)):08x}"  # `beside` keeps the beginning of a name only


def _set_aside(path: Path, is_store: IsStore) -> list[Path]:
    """Return the stores that writers moved aside from ``path``."""
    try:
        return [old for old in path.parent.glob(f".*{_tag(path)}.old") if is_store(old)]
    except OSError:
        return []


def put_back(path: Path, is_store: IsStore) -> None:
    """Restore the earlier store if a writer was killed between moving it aside and putting its own in place.

    A writer that is still between these two steps finds the place taken, and moves the store aside again.
    """
    path = Path(os.path.realpath(path))  # writers replace what a link points to
    if not path.exists():
        for old in _set_aside(path, is_store)[:1]:
            with contextlib.suppress(OSError):
                old.rename(path)


def _clean(path: Path, is_store: IsStore) -> None:
    """Discard earlier stores that killed writers left behind."""
    for old in _set_aside(path, is_store):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_ctime > _LEFT_SECONDS:
                discard(old)


def _moved(part: Path, path: Path) -> bool:
    """Move ``part`` to ``path`` if nothing is there; return whether it was moved."""
    try:
        part.rename(path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def discard(folder: Path) -> None:
    """Remove a folder, ignoring errors."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)  # an earlier store may have been made read-only
    shutil.rmtree(folder, ignore_errors=True)
