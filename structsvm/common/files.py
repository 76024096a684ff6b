"""Read text with any compression, and write files atomically.

All text is UTF-8; a byte order mark at its beginning is skipped. Text whose ids would not remain distinct is refused,
and the error names file and line: bytes that are not UTF-8 (they would all become U+FFFD), a NUL byte (NumPy truncates
strings there), a later byte order mark (as in concatenated files). To bound memory, lines longer than
``MAX_LINE_BYTES`` and compressed files that expand to more than ``max_expansion`` times their size are refused, too.
"""

import bz2
import contextlib
import csv
import gzip
import io
import lzma
import mmap
import os
import secrets
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput

AnyPath = str | os.PathLike[str]

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_UNSUPPORTED = {b"PK\x03\x04": "zip", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_BOM = b"\xef\xbb\xbf"

MAX_LINE_BYTES = 1 << 25
"""Length of the longest line that is read, 32 MB: a LETOR row of a million features fits."""

MAX_EXPANSION = 200.0
"""Default limit on the bytes of text per byte of a compressed file.

Public LETOR files reach 35 with gzip and 83 with bzip2, run files reach 10; NUL bytes reach 1,030 with gzip and
millions with bzip2.
"""

FREE_BYTES = 1 << 26
"""Decompressed size up to which any expansion is allowed: a small file may be repetitive."""

_READ_BYTES = 1 << 20
_PIECE_BYTES = 1 << 17  # size of the pieces of a file that is read as a whole; a piece fits into the cache
_max_expansion: ContextVar[float] = ContextVar("max_expansion", default=MAX_EXPANSION)


@contextlib.contextmanager
def allowing_expansion(max_expansion: float) -> Iterator[None]:
    """Change the default of ``max_expansion`` inside the block, so that a command's option reaches every reader."""
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
    """Return whether ``path`` can be read only once, from its beginning: a pipe, a terminal or a device."""
    return not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()


def is_packed(path: Path) -> bool:
    """Return whether a file written to ``path`` is compressed, as determined by its suffix."""
    return path.suffix in _SUFFIXES


def unpacked(name: str) -> str:
    """Return the name of a file without its compression suffix."""
    for suffix in (*_SUFFIXES, ".zst"):
        name = name.removesuffix(suffix)
    return name


def compression(path: Path) -> str | None:
    """Return ``"gzip"``, ``"bzip2"``, ``"xz"``, ``"zstd"`` or None, according to the first bytes, not the suffix."""
    with path.open("rb") as file:
        return _compression(file.read(8), path)


def is_model(path: Path) -> bool:
    """Return whether a file contains the arrays of a model written by this package."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return {"description.npy", "digest.npy"} <= set(file.namelist())


def _compression(head: bytes, path: Path) -> str | None:
    for magic, name in _UNSUPPORTED.items():
        if head.startswith(magic):
            if is_model(path):
                raise BadInput(
                    path,
                    "expected text, got a model of structsvm",
                    f"structsvm predict {path.name} DATA --output scores.txt writes scores",
                )
            raise BadInput(
                path, f"expected UTF-8 text, plain or gzip, bzip2, xz, zstd, got {name}", "convert it first"
            )
    for magic, name in _COMPRESSIONS.items():
        if head.startswith(magic):
            return name
    return None


def _decompress(path: Path, kind: str, source: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    """Yield the text of ``source``; damage raises ValueError with the file's name instead of ending the text early."""
    try:
        if kind == "gzip":
            with gzip.open(source, "rb") as file:
                while piece := file.read(n_bytes):
                    yield piece
        elif kind == "zstd":
            import pyarrow  # it detects truncated files, and damage if there is a checksum

            with pyarrow.CompressedInputStream(source, "zstd") as stream:
                while piece := stream.read(n_bytes):
                    yield piece
        else:
            yield from _decompress_streams(
                source, bz2.BZ2Decompressor if kind == "bzip2" else lzma.LZMADecompressor, n_bytes
            )
    except (EOFError, OSError, zlib.error, lzma.LZMAError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a system error; gzip, bz2 and Arrow raise a plain OSError for invalid data
        whole, problem = "an intact", f"a damaged one ({error or 'no reason given'})"
        remedy = "fetch it again"
        if isinstance(error, EOFError):
            whole, problem = "a complete", "a truncated one"
        elif isinstance(error, MemoryError):
            # an xz header states the memory it needs; if damaged, it may state any amount
            problem, remedy = "one that needs too much memory", f"{remedy} or decompress it first"
        raise BadInput(path, f"expected {whole} {kind} file, got {problem}", remedy) from error


def _decompress_streams(source: IO[bytes], decompressor: Any, n_bytes: int) -> Iterator[bytes]:
    """Yield the text of streams one after another; ``bz2.open`` and ``lzma.open`` silently drop later streams that are
    damaged."""
    current, data = decompressor(), b""
    while True:
        if current.eof:
            data = current.unused_data
            while not (data := data.lstrip(b"\0")):  # a file may be padded with zeros
                if not (data := source.read(_READ_BYTES)):
                    return
            current = decompressor()
        elif current.needs_input and not (data := source.read(_READ_BYTES)):
            raise EOFError
        if piece := current.decompress(data, n_bytes):
            yield piece
        data = b""


def _read_pieces(path: Path, n_bytes: int, max_expansion: float | None) -> Iterator[bytes]:
    """Yield the decompressed bytes, about ``n_bytes`` at a time, without a byte order mark.

    A stream is opened only once: its first bytes determine the compression, and a compressed stream is read completely
    first.
    """
    factor = _check_expansion(max_expansion)
    n_bytes = max(n_bytes, 8)  # the first piece of a plain file contains the whole byte order mark
    with path.open("rb") as raw:
        head = raw.read(8)
        kind = _compression(head, path)
        if kind is None:
            yield (head + raw.read(n_bytes - len(head))).removeprefix(_BOM)
            yield from iter(lambda: raw.read(n_bytes), b"")
            return
        source: IO[bytes] = io.BytesIO(head + raw.read()) if is_stream(path) else raw
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        total = 0
        begin: bytes | None = b""  # the first bytes, until they can hold a byte order mark; then None
        for piece in _decompress(path, kind, source, n_bytes):
            total += len(piece)
            if total > max(FREE_BYTES, factor * size):
                raise BadInput(
                    path,
                    f"expected at most {factor:g} times the size of this {kind} file ({size} bytes), got more text: a "
                    "decompression bomb?",
                    "if the file is valid, specify a larger {max_expansion}",
                )
            if begin is not None:
                begin += piece
                if len(begin) < len(_BOM):
                    continue
                piece, begin = begin.removeprefix(_BOM), None
            yield piece
        if begin:
            yield begin


def _refuse_long_lines(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Yield the pieces; raise at a line longer than ``MAX_LINE_BYTES``."""
    # Lines need not be searched one by one: from each position, the last line feed within the limit is searched
    # backwards; if there is none, the line is too long.
    lines = begun = 0  # complete lines so far, and bytes of the incomplete line after them
    for piece in pieces:
        at, first = 0, MAX_LINE_BYTES - begun
        while len(piece) - at > first:
            feed = piece.rfind(b"\n", at, at + first + 1)
            if feed < 0:
                number = lines + piece.count(b"\n", 0, at) + 1
                raise BadInput(
                    path,
                    f"expected lines of at most {MAX_LINE_BYTES} bytes, got a longer one",
                    "is this a text file?",
                    at=f":{number}",
                )
            at, first = feed + 1, MAX_LINE_BYTES
        last = piece.rfind(b"\n") + 1
        begun = len(piece) - last + (0 if last else begun)
        lines += piece.count(b"\n")
        yield piece


def _as_bytes(buffer: Any) -> NDArray[np.uint8]:
    array = np.frombuffer(buffer, dtype=np.uint8)
    array.flags.writeable = False  # read-only, so that kernels receive one array type whatever the source
    return array


def read_text(path: Path, *, max_expansion: float | None = None) -> NDArray[np.uint8]:
    """Return the decompressed bytes of a text file, without a byte order mark and ending in a line feed; empty for an
    empty file.

    A plain file that ends in a line feed is mapped into memory, not read, and its lines may have any length. Streams
    are read to the end.
    """
    # mapped if possible: a large text then takes no memory, and kernels read it from the page cache
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
    """Yield the text of :func:`read_text` in blocks of whole lines of about ``n_bytes`` (more for a longer line)."""
    # the unfinished line at the end of a piece is kept, and begins the next block
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
    """Return the file that writing to ``path`` replaces: the target of a symbolic link, else ``path`` itself."""
    if not stat.S_ISLNK(_mode(path, follow=False) or 0):
        return path
    _mode(path)  # raises for a loop of symbolic links
    target = Path(os.path.realpath(path))
    _mode(target)  # raises for a dangling link to an invalid name
    return target


def beside(path: Path, suffix: str) -> Path:
    """Return an unused hidden path beside ``path`` that ends in ``suffix`` and is short enough for every file
    system."""
    # 30 characters of up to 4 bytes and the added parts make at most 135 bytes; the smallest limit in use is 143
    return path.with_name(f".{path.name[:30]}.{secrets.token_hex(4)}{suffix}")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Create a folder that appears under its name when the block ends; an error leaves nothing."""
    part = beside(path, ".part")
    try:
        part.mkdir(parents=True)
        yield part
        part.rename(path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def permissions(path: Path) -> int | None:
    """Return the permission bits of ``path``, to be kept when it is replaced; None if it does not exist."""
    mode = _mode(path)
    return None if mode is None else mode & 0o777


def _mode(path: Path, *, follow: bool = True) -> int | None:
    try:
        return path.stat(follow_symlinks=follow).st_mode
    except FileNotFoundError:
        return None


def read_lines(path: Path, *, max_expansion: float | None = None) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and text of each line, without its line end."""
    number = 0
    for block in read_blocks(path, _READ_BYTES, max_expansion=max_expansion):
        for raw in block.tobytes().split(b"\n")[:-1]:
            number += 1
            yield number, decode(raw, f"{path}:{number}").removesuffix("\r")


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location and object of each non-blank line of JSON Lines."""
    for number, line in read_lines(path):
        if line.strip():
            yield f"{path}:{number}", parse_object(line, path, number)


def parse_object(line: bytes | str, path: Path, number: int) -> dict[str, Any]:
    """Return the JSON object of a line."""
    import msgspec

    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(
            f"{path}:{number}", f"expected a JSON object, got {shorten(line)} ({error!s:.80})"
        ) from None


def decode(raw: bytes, place: str) -> str:
    """Return the text of a line or an id; raise ValueError, naming ``place``, for bytes that this module refuses."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        at = max(0, error.start - 16)
        raise BadInput(
            place, f"expected UTF-8, got {shorten(raw[at : at + 32])}", "convert the file to UTF-8"
        ) from None
    if "\0" in text:
        at = max(0, text.index("\0") - 16)
        raise BadInput(
            place, f"expected text without NUL bytes, got {shorten(text[at : at + 32])}", "remove them"
        )
    if text.startswith("\ufeff"):
        raise BadInput(
            place,
            f"expected a byte order mark at the beginning of the file only, got {shorten(text)}",
            "remove it",
        )
    return text


def plain_float(word: str) -> float:
    """Return the number that a word writes; raise ValueError also for ``1_000`` and ``١``, which float() accepts."""
    if "_" in word or not word.isascii():
        raise ValueError(f"not a plain number: {word!r:.40}")
    return float(word)


def shorten(offender: bytes | str, width: int = 40) -> str:
    """Return text for an error message: quoted, with control characters escaped, and truncated to ``width``
    characters."""
    offender = offender[: 4 * width]
    text = offender.decode("utf-8", "backslashreplace") if isinstance(offender, bytes) else offender
    shown = ascii(text) if not text.isprintable() else f"'{text}'"
    return shown if len(shown) <= width else shown[: width - 4] + "...'"


def csv_lines(rows: Iterable[Sequence[Any]], mark: str = ",") -> Iterator[str]:
    """Yield rows as CSV, without line ends; cells that contain ``mark``, quotes or line breaks are quoted."""
    text = io.StringIO(newline="")
    # Python before 3.13 quotes only the line breaks that occur in the line end
    write = csv.writer(text, delimiter=mark, lineterminator="\r\n").writerow
    for row in rows:
        write(row)
        yield text.getvalue()[:-2]
        text.seek(0)
        text.truncate()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces ``path`` when the block ends, and is removed if the block raises.

    The file is compressed if the suffix of ``path`` is ``.gz``, ``.bz2`` or ``.xz``. The target of a symbolic link is
    replaced, and the link itself is kept; the permissions of an earlier file are kept.
    """
    # written under another name in the same folder, synchronised, then renamed, which is atomic
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
                f"not written; any earlier file is unchanged ({error.strerror}){missing}",
                str(path),
            ) from error
        raise
