"""Opening text whatever its compression, and writing files that exist whole or not at all."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import mmap
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_OPENERS: dict[bytes, tuple[str, Any]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
}
_SUFFIXES: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_UNSUPPORTED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_BOM = b"\xef\xbb\xbf"


MAX_LINE_BYTES = 1 << 25
"""The longest line :func:`read_blocks` holds, 32 MB: a LETOR row of a million features fits."""


def is_stream(path: Path) -> bool:
    """Whether ``path`` can be read once only, from its beginning: a pipe, a terminal, a device, not a file."""
    return not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()


def compression(path: Path) -> str | None:
    """``"gzip"``, ``"bzip2"``, ``"xz"`` or None, told by the first bytes: suffixes lie."""
    with path.open("rb") as file:
        return _kind(file.read(8), path)


def _kind(head: bytes, path: Path) -> str | None:
    for magic, name in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise ValueError(
                f"{path}: expected UTF-8 text, plain or gzip, bzip2, xz, got {name}; convert it first"
            )
    for magic, (name, _) in _OPENERS.items():
        if head.startswith(magic):
            return name
    return None


@contextlib.contextmanager
def _readable(path: Path, kind: str, source: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """The decompressed stream, of ``source`` if that is open; damage is reported with the file's name, not as partial
    data."""
    opener = next(opener for name, opener in _OPENERS.values() if name == kind)
    try:
        with opener(path if source is None else source, "rb") as file:
            yield file
    except EOFError as error:
        raise ValueError(
            f"{path}: expected a complete {kind} file, got a truncated one; fetch it again"
        ) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path}: expected an intact {kind} file, got a damaged one ({error})") from error
    except OSError as error:
        if error.errno is None:  # bz2 says "Invalid data stream" with a bare OSError
            raise ValueError(
                f"{path}: expected an intact {kind} file, got a damaged one ({error})"
            ) from error
        raise


def _as_bytes(buffer: Any) -> NDArray[np.uint8]:
    array = np.frombuffer(buffer, dtype=np.uint8)
    array.flags.writeable = False  # one array type for the kernels, whatever the source
    return array


def read_text(path: Path) -> NDArray[np.uint8]:
    """The decompressed bytes of a text, without byte order mark, ending in a line feed; empty if it is empty.

    A plain file that ends in a line feed is mapped, not read. A stream such as ``/dev/stdin`` is read to its end.
    """
    if is_stream(path):
        return _without_mark(_as_bytes(_read_stream(path)))
    kind = compression(path)
    if kind is not None:
        with _readable(path, kind) as file:
            content = file.read()
        if content and not content.endswith(b"\n"):
            content += b"\n"
        text = _as_bytes(content)
    else:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                return np.empty(0, dtype=np.uint8)
            file.seek(size - 1)
            if file.read(1) == b"\n":
                text = _as_bytes(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            else:
                file.seek(0)
                text = _as_bytes(file.read() + b"\n")
    return _without_mark(text)


def _without_mark(text: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return text[3:] if text[:3].tobytes() == _BOM else text


def _read_stream(path: Path) -> bytes:
    """All of a stream, decompressed, ending in a line feed: it cannot be opened a second time to look at its head."""
    with path.open("rb") as file:
        content = file.read()
    kind = _kind(content[:8], path)
    if kind is not None:
        with _readable(path, kind, io.BytesIO(content)) as packed:
            content = packed.read()
    return content + b"\n" if content and not content.endswith(b"\n") else content


def read_blocks(path: Path, n_bytes: int) -> Iterator[NDArray[np.uint8]]:
    """The same text in blocks of whole lines, about ``n_bytes`` each (longer where a line is).

    A line longer than a block and than ``MAX_LINE_BYTES`` is an error: what has no line ends, a binary file perhaps,
    would be held whole, and a small compressed file can be very much of that.
    """
    if is_stream(path):
        if (text := read_text(path)).size:
            yield text
        return
    kind = compression(path)
    source = path.open("rb") if kind is None else _readable(path, kind)
    rest, first, lines, limit = b"", True, 0, max(MAX_LINE_BYTES, n_bytes)
    with source as file:
        while block := file.read(n_bytes):
            if first:
                block, first = block.removeprefix(_BOM), False
            cut = block.rfind(b"\n") + 1
            longest = len(rest) + (block.find(b"\n") if cut else len(block))
            if longest > limit:
                raise ValueError(
                    f"{path}:{lines + 1}: expected lines of at most {limit} bytes, got a longer one; is this a text "
                    "file?"
                )
            if cut == 0:
                rest += block
                continue
            lines += block.count(b"\n")
            yield _as_bytes(rest + block[:cut])
            rest = block[cut:]
    if rest:
        yield _as_bytes(rest + b"\n")


def destination(path: Path) -> Path:
    """The file that writing to ``path`` replaces: what a symbolic link points to, else ``path`` itself.

    Raises
    ------
    OSError
        For a name that the file system does not allow, or links in a circle.
    """
    if not stat.S_ISLNK(_mode(path, follow=False) or 0):
        return path
    _mode(path)  # links in a circle
    target = Path(os.path.realpath(path))
    _mode(target)  # a link to nothing may point to a name that cannot be
    return target


def beside(path: Path, suffix: str) -> Path:
    """An unused hidden name in the folder of ``path`` that ends in ``suffix``.

    Never longer than what file systems allow, even where the name of ``path`` is as long as can be.
    """
    return path.with_name(f".{path.name[:_KEPT_OF_NAME]}.{secrets.token_hex(4)}{suffix}")


_KEPT_OF_NAME = 30  # of up to 4 bytes each: 135 with the rest, and the narrowest limit in use is 143


def permissions(path: Path) -> int | None:
    """Who may read, write and execute ``path``, to be kept when it is replaced; None where there is nothing."""
    mode = _mode(path)
    return None if mode is None else mode & 0o777


def _mode(path: Path, *, follow: bool = True) -> int | None:
    try:
        return path.stat(follow_symlinks=follow).st_mode
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` when the block ends well, and vanishes when it does not.

    Compressed when the suffix of ``path`` is ``.gz``, ``.bz2`` or ``.xz``. Where ``path`` is a symbolic link, its
    target is replaced and the link stays; permissions of an earlier file are kept.
    """
    part: Path | None = None
    try:
        target = destination(path)
        kept = permissions(target)
        part = beside(target, ".part")
        with part.open("xb") as raw:
            if kept is not None:
                part.chmod(kept)
            opener = _SUFFIXES.get(path.suffix)
            if opener is None:
                yield raw
            else:
                with opener(raw, "wb") as packed:
                    yield packed
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(target)
    except BaseException as error:
        if part is not None:
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(
                error.errno, f"not written, any earlier file is untouched ({error.strerror})", str(path)
            ) from error
        raise
