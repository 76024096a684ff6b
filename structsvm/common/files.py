"""Opening text whatever its compression, and writing files that exist whole or not at all.

All text is UTF-8; a byte order mark at its beginning is skipped. Ids that would change on the way are refused with file
and line: bytes that are not UTF-8 (which would all become U+FFFD), a NUL byte (NumPy cuts strings there), a byte order
mark further down (files that were joined). So are lines of more than ``MAX_LINE_BYTES``, and compressed files that grow
beyond ``max_expansion`` times their size; memory stays bounded whatever the file.
"""

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
import zipfile
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput

_KINDS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_UNSUPPORTED = {
    b"PK\x03\x04": "zip",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_BOM = b"\xef\xbb\xbf"


MAX_LINE_BYTES = 1 << 25
"""The longest line that is read, 32 MB: a LETOR row of a million features fits."""

MAX_EXPANSION = 200.0
"""Bytes of text per byte of a compressed file, at most, by default.

Public LETOR files reach 35 with gzip and 83 with bzip2, runs 10; a gzip file of NUL bytes has 1,030, one of bzip2
millions.
"""

FREE_BYTES = 1 << 26
"""Text up to 64 MB is read whatever its expansion: a small repetitive file does no harm."""

_BLOCK_BYTES = 1 << 20
_PIECE_BYTES = 1 << 17  # of a text that is gathered whole: fits into the cache
_max_expansion: ContextVar[float] = ContextVar("max_expansion", default=MAX_EXPANSION)


@contextlib.contextmanager
def allowing_expansion(max_expansion: float) -> Iterator[None]:
    """Change the default of ``max_expansion`` inside the block: how a command passes its option to every reader."""
    token = _max_expansion.set(_check_expansion(max_expansion))
    try:
        yield
    finally:
        _max_expansion.reset(token)


def _check_expansion(max_expansion: float | None) -> float:
    factor = _max_expansion.get() if max_expansion is None else float(max_expansion)
    if not factor >= 1:
        raise BadInput("max_expansion", "expected a number >= 1, or inf for no limit", value=factor)
    return factor


def is_stream(path: Path) -> bool:
    """Whether ``path`` can be read once only, from its beginning: a pipe, a terminal, a device, not a file."""
    return not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()


def is_packed(path: Path) -> bool:
    """Whether a file that is written to ``path`` is compressed, by its name."""
    return path.suffix in _SUFFIXES


def unpacked(name: str) -> str:
    """The name of a file without the suffix of its compression."""
    for suffix in (*_SUFFIXES, ".zst"):
        name = name.removesuffix(suffix)
    return name


def compression(path: Path) -> str | None:
    """``"gzip"``, ``"bzip2"``, ``"xz"``, ``"zstd"`` or None, told by the first bytes: suffixes lie."""
    with path.open("rb") as file:
        return _kind(file.read(8), path)


def is_model(path: Path) -> bool:
    """Whether a file looks like a model that this package wrote, told by the names of its arrays."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return {"description.npy", "digest.npy"} <= set(file.namelist())


def _kind(head: bytes, path: Path) -> str | None:
    for magic, name in _UNSUPPORTED.items():
        if head.startswith(magic):
            if is_model(path):
                raise ValueError(
                    f"{path}: expected text, got a model of structsvm; structsvm predict {path.name} DATA --output "
                    "scores.txt writes scores"
                )
            raise ValueError(
                f"{path}: expected UTF-8 text, plain or gzip, bzip2, xz, zstd, got {name}; convert it first"
            )
    for magic, name in _KINDS.items():
        if head.startswith(magic):
            return name
    return None


def _decompress(path: Path, kind: str, source: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    """The text of ``source``; damage is reported with the file's name, not as partial data."""
    try:
        if kind == "gzip":
            with gzip.open(source, "rb") as file:
                while piece := file.read(n_bytes):
                    yield piece
        elif kind == "zstd":
            import pyarrow  # which notices a file that is cut short, and damage where there is a checksum

            with pyarrow.CompressedInputStream(source, "zstd") as stream:
                while piece := stream.read(n_bytes):
                    yield piece
        else:
            yield from _decompress_streams(
                source, bz2.BZ2Decompressor if kind == "bzip2" else lzma.LZMADecompressor, n_bytes
            )
    except EOFError as error:
        raise ValueError(
            f"{path}: expected a complete {kind} file, got a truncated one; fetch it again"
        ) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise _damaged(path, kind, error) from error
    except MemoryError as error:  # xz states how much it needs, and a damaged header may state any amount
        raise ValueError(
            f"{path}: expected an intact {kind} file, got one that needs more memory than there is; "
            "fetch it again or decompress it first"
        ) from error
    except OSError as error:
        if error.errno is None:  # bz2 says "Invalid data stream" with a bare OSError, as Arrow what it finds
            raise _damaged(path, kind, error) from error
        raise


def _decompress_streams(source: IO[bytes], decompressor: Any, n_bytes: int) -> Iterator[bytes]:
    """Streams one after another. ``bz2.open`` and ``lzma.open`` drop a damaged one after the first in silence."""
    current, data = decompressor(), b""
    while True:
        if current.eof:
            data = current.unused_data
            while not (data := data.lstrip(b"\0")):  # zeros may fill up the file
                if not (data := source.read(_BLOCK_BYTES)):
                    return
            current = decompressor()
        elif current.needs_input and not (data := source.read(_BLOCK_BYTES)):
            raise EOFError
        if piece := current.decompress(data, n_bytes):
            yield piece
        data = b""


def _damaged(path: Path, kind: str, error: Exception) -> ValueError:
    return ValueError(
        f"{path}: expected an intact {kind} file, got a damaged one ({error or 'no reason given'}); "
        "fetch it again"
    )


def _read_pieces(path: Path, n_bytes: int, max_expansion: float | None) -> Iterator[bytes]:
    """The decompressed bytes, about ``n_bytes`` at a time, without byte order mark.
    A stream cannot be opened a second time to look at its head; a compressed one is read whole before.
    """
    factor = _check_expansion(max_expansion)
    n_bytes = max(n_bytes, 8)  # a mark lies in one piece
    with path.open("rb") as raw:
        head = raw.read(8)
        kind = _kind(head, path)
        if kind is None:
            yield (head + raw.read(n_bytes - len(head))).removeprefix(_BOM)
            yield from iter(lambda: raw.read(n_bytes), b"")
            return
        source: IO[bytes] = raw
        if is_stream(path):
            source = io.BytesIO(head + raw.read())
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        total = 0
        begin: bytes | None = b""
        for piece in _decompress(path, kind, source, n_bytes):
            total += len(piece)
            if total > max(FREE_BYTES, factor * size):
                raise BadInput(
                    path,
                    f"expected at most {factor:g} times the size of this {kind} file ({size} bytes), got more text: a "
                    "decompression bomb?",
                    "if the file is right, state a larger {max_expansion}",
                )
            if begin is not None:  # a mark may come in several pieces
                begin += piece
                if len(begin) < len(_BOM):
                    continue
                piece, begin = begin.removeprefix(_BOM), None
            yield piece
        if begin:
            yield begin


def _refuse_long_lines(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """The pieces, as long as no line is longer than ``MAX_LINE_BYTES``."""
    lines = begun = 0  # whole lines so far, and bytes of the one after them
    for piece in pieces:
        at, first = 0, MAX_LINE_BYTES - begun
        while len(piece) - at > first:
            feed = piece.rfind(b"\n", at, at + first + 1)
            if feed < 0:
                number = lines + piece.count(b"\n", 0, at) + 1
                raise ValueError(
                    f"{path}:{number}: expected lines of at most {MAX_LINE_BYTES} bytes, "
                    "got a longer one; is this a text file?"
                )
            at, first = feed + 1, MAX_LINE_BYTES
        last = piece.rfind(b"\n") + 1
        begun = len(piece) - last + (0 if last else begun)
        lines += piece.count(b"\n")
        yield piece


def _as_bytes(buffer: Any) -> NDArray[np.uint8]:
    array = np.frombuffer(buffer, dtype=np.uint8)
    array.flags.writeable = False  # one array type for the kernels, whatever the source
    return array


def read_text(path: Path, *, max_expansion: float | None = None) -> NDArray[np.uint8]:
    """The decompressed bytes of a text, without byte order mark, ending in a line feed; empty if it is empty.
    A plain file that ends in a line feed is mapped, not read: the caller bounds its lines. Streams are read to the end.
    """
    if not is_stream(path) and compression(path) is None:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                return np.empty(0, dtype=np.uint8)
            file.seek(size - 1)
            if file.read(1) == b"\n":
                text = _as_bytes(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                return text[3:] if text[:3].tobytes() == _BOM else text
    content = bytearray()
    for piece in _refuse_long_lines(_read_pieces(path, _PIECE_BYTES, max_expansion), path):
        content += piece
    if content and not content.endswith(b"\n"):
        content += b"\n"
    return _as_bytes(content)


def read_blocks(
    path: Path, n_bytes: int, *, max_expansion: float | None = None
) -> Iterator[NDArray[np.uint8]]:
    """The same text in blocks of whole lines, about ``n_bytes`` each (longer where a line is)."""
    rest = b""
    for piece in _refuse_long_lines(_read_pieces(path, n_bytes, max_expansion), path):
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            rest += piece
            continue
        yield _as_bytes(rest + piece[:cut])
        rest = piece[cut:]
    if rest:
        yield _as_bytes(rest + b"\n")


def destination(path: Path) -> Path:
    """The file that writing to ``path`` replaces: what a symbolic link points to, else ``path`` itself."""
    if not stat.S_ISLNK(_mode(path, follow=False) or 0):
        return path
    _mode(path)  # links in a circle
    target = Path(os.path.realpath(path))
    _mode(target)  # a link to nothing may point to a name that cannot be
    return target


def beside(path: Path, suffix: str) -> Path:
    """An unused hidden name in the folder of ``path`` that ends in ``suffix``, never longer than file systems allow."""
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


def read_lines(path: Path, *, max_expansion: float | None = None) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line, without its end."""
    number = 0
    for block in read_blocks(path, _BLOCK_BYTES, max_expansion=max_expansion):
        for raw in block.tobytes().split(b"\n")[:-1]:
            number += 1
            yield number, decode(raw, f"{path}:{number}").removesuffix("\r")


def decode(raw: bytes, place: str) -> str:
    """The text of a line or an id; ValueError with ``place`` where it is not UTF-8 or would not stay distinct."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        at = max(0, error.start - 16)
        raise ValueError(
            f"{place}: expected UTF-8, got {shorten(raw[at : at + 32])}; convert the file to UTF-8"
        ) from None
    if "\0" in text:
        at = max(0, text.index("\0") - 16)
        raise ValueError(
            f"{place}: expected text without NUL bytes, got {shorten(text[at : at + 32])}; remove them"
        )
    if text.startswith("\ufeff"):
        raise ValueError(
            f"{place}: expected a byte order mark at the beginning of the file only, got {shorten(text)}; remove it"
        )
    return text


def shorten(offender: bytes | str, width: int = 40) -> str:
    """An offender as it can be shown: control characters escaped, cut to ``width``."""
    offender = offender[: 4 * width]
    text = offender.decode("utf-8", "backslashreplace") if isinstance(offender, bytes) else offender
    shown = ascii(text) if not text.isprintable() else f"'{text}'"
    return shown if len(shown) <= width else shown[: width - 4] + "...'"


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
            missing = "" if path.parent.is_dir() else "; create its folder first"
            raise OSError(
                error.errno,
                f"not written, any earlier file is untouched ({error.strerror}){missing}",
                str(path),
            ) from error
        raise
