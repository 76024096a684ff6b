"""Opening text whatever its compression, and writing files that exist whole or not at all."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import mmap
import os
import secrets
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


def compression(path: Path) -> str | None:
    """``"gzip"``, ``"bzip2"``, ``"xz"`` or None, told by the first bytes: suffixes lie."""
    with path.open("rb") as file:
        head = file.read(8)
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
def _readable(path: Path, kind: str) -> Iterator[IO[bytes]]:
    """The decompressed stream; damage is reported with the file's name, not as partial data."""
    opener = next(opener for name, opener in _OPENERS.values() if name == kind)
    try:
        with opener(path, "rb") as file:
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

    A plain file that ends in a line feed is mapped, not read.
    """
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
    return text[3:] if text[:3].tobytes() == _BOM else text


def read_blocks(path: Path, n_bytes: int) -> Iterator[NDArray[np.uint8]]:
    """The same text in blocks of whole lines, about ``n_bytes`` each (longer where a line is)."""
    kind = compression(path)
    source = path.open("rb") if kind is None else _readable(path, kind)
    rest, first = b"", True
    with source as file:
        while block := file.read(n_bytes):
            if first:
                block, first = block.removeprefix(_BOM), False
            cut = block.rfind(b"\n") + 1
            if cut == 0:
                rest += block
                continue
            yield _as_bytes(rest + block[:cut])
            rest = block[cut:]
    if rest:
        yield _as_bytes(rest + b"\n")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` when the block ends well, and vanishes when it does not.

    Compressed when the suffix of ``path`` is ``.gz``, ``.bz2`` or ``.xz``.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as raw:
            opener = _SUFFIXES.get(path.suffix)
            if opener is None:
                yield raw
            else:
                with opener(raw, "wb") as packed:
                    yield packed
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(
                error.errno, f"not written, any earlier file is untouched ({error.strerror})", str(path)
            ) from error
        raise
