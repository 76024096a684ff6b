"""Replacement of a store by a new one, during which readers always find a complete store, the old or the new one."""

import contextlib
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from platform import node

from structsvm.common.files import beside

IsStore = Callable[[Path], bool]
_WRITER = "writer.tmp"
"""File that names the machine and the process of a writer, until the store is complete."""


def put_in_place(part: Path, path: Path, is_store: IsStore) -> None:
    """Move the finished folder to its path; an earlier store is moved aside, and moved back if this fails."""
    # each step moves a whole folder, so that the earlier or the new store remains if the writer is killed at any point
    old = beside(path, f"{_tag(path)}.old")
    with contextlib.suppress(FileNotFoundError):
        path.rename(old)
    try:
        if old.exists() and not is_store(old):
            raise FileExistsError(f"{path}: expected a store to replace, got another file or folder")
        part.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            old.rename(path)
        raise
    for left in _set_aside(path, is_store):  # including stores moved aside by writers that were killed
        discard(left)


def new_part(path: Path) -> Path:
    """Make the folder in which a writer builds a store, and remove those of writers that were killed before."""
    for part in path.parent.glob(f".*{_tag(path)}.part"):
        with contextlib.suppress(OSError, ValueError):
            machine, _, process = (part / _WRITER).read_text().rpartition(" ")
            if machine == node() and not _runs(int(process)):
                discard(part)
    part = beside(path, f"{_tag(path)}.part")
    part.mkdir()
    (part / _WRITER).write_text(f"{node()} {os.getpid()}")
    return part


def _runs(pid: int) -> bool:
    """Return whether a process of this machine runs; true if that cannot be told."""
    if os.name == "nt":
        return True  # there os.kill would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _tag(path: Path) -> str:
    """Return the part of the name of a moved store that identifies its original path."""
    return f"{zlib.crc32(os.fsencode(path.name)):08x}"  # `beside` keeps only the beginning of a name


def _set_aside(path: Path, is_store: IsStore) -> list[Path]:
    """Return the stores that writers moved aside from ``path``."""
    try:
        return [old for old in path.parent.glob(f".*{_tag(path)}.old") if is_store(old)]
    except OSError:
        return []


def put_back(path: Path, is_store: IsStore) -> None:
    """Restore the earlier store if a writer was killed between moving it aside and putting its own in place.

    A writer that is still between these two steps finds that the path exists and moves the store aside again.
    """
    path = Path(os.path.realpath(path))  # writers replace the target of a link
    if not path.exists():
        for old in _set_aside(path, is_store)[:1]:
            with contextlib.suppress(OSError):
                old.rename(path)


def discard(folder: Path) -> None:
    """Remove a folder, ignoring errors."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)  # an earlier store may have been made read-only
    shutil.rmtree(folder, ignore_errors=True)
