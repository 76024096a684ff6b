"""Arrays in files that may be damaged: what is declared is held against what is there before anything is read."""

from __future__ import annotations

import ast
import errno
import json
import math
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"\x93NUMPY"
_MOST_HEADER_BYTES = 10_000
_KINDS = "biufU"
_BLOCK_BYTES = 1 << 24
_MOST_MEMBERS = 100_000


class Damaged(ValueError):
    """What is wrong with a file, without its name: who opened it adds that and the remedy."""


class Header(NamedTuple):
    """The header of a ``.npy`` file: ``start`` is the number of bytes before those of the array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def n_bytes(self) -> int:
        """Bytes that the array must have. A Python int: what a damaged file declares may not fit into 64 bits."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read the header of a ``.npy`` file (versions 1.0 to 3.0), and no byte of its array; Damaged if there is none."""
    lead = file.read(8)
    if lead[:6] != _MAGIC or len(lead) < 8 or lead[6] not in (1, 2, 3):
        raise Damaged("it does not begin as an array does")
    width = 2 if lead[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if not 0 < length <= _MOST_HEADER_BYTES:
        raise Damaged(f"a header of {length} bytes")
    raw = file.read(length)
    if len(raw) < length:
        raise Damaged("it is cut short in its header")
    try:
        said = ast.literal_eval(raw.decode("utf-8" if lead[6] == 3 else "latin-1").strip())
        # a declared type of text may be of any width: nothing is allocated for it here
        dtype, fortran, shape = np.dtype(said["descr"]), said["fortran_order"], said["shape"]
        if set(said) != {"descr", "fortran_order", "shape"} or not isinstance(said["descr"], str):
            raise ValueError
    except Exception:  # of whatever the bytes are read as
        raise Damaged("its header does not describe an array") from None
    if dtype.kind not in _KINDS or not dtype.isnative or dtype.itemsize == 0 or type(fortran) is not bool:
        raise Damaged(f"an array of {said['descr']!r:.40}")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 32:
        raise Damaged(f"an array of shape {shape!r:.40}")
    return Header(dtype, shape, fortran, 8 + width + length)


def read_json(raw: bytes) -> Any:
    """Parse JSON; Damaged if it is none, is nested too deep, or has a number too large to be one."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError, MemoryError) as error:
        raise Damaged(f"no JSON ({error!s:.80})") from None


class Archive:
    """The arrays of an ``.npz`` file, each unpacked when it is asked for; raises Damaged if there is none."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self._zip = zipfile.ZipFile(self._file)
            members = self._zip.infolist()
            if len(members) > _MOST_MEMBERS or len({m.filename for m in members}) < len(members):
                raise Damaged("an array twice, or too many")
            self._members = {m.filename.removesuffix(".npy"): m for m in members}
        except Exception as error:
            self._file.close()
            raise _said(error, path) from None
        self._path = path
        self.names = frozenset(self._members)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def header(self, name: str) -> Header:
        """What the file says of an array, its size held against that of the archive's own list."""
        if not isinstance(name, str) or name not in self._members:
            raise Damaged(f"no array {name!r:.60}")
        member = self._members[name]
        try:
            with self._zip.open(member) as file:
                header = read_header(file)
        except Exception as error:
            raise _said(error, self._path, name) from None
        if header.start + header.n_bytes != member.file_size:
            raise Damaged(
                f"{name}: declared {header.n_bytes} bytes as {header.dtype} {list(header.shape)}, there are "
                f"{max(0, member.file_size - header.start)}"
            )
        return header

    def array(self, name: str, *, most_bytes: float = math.inf) -> NDArray[Any]:
        """One array, of at most so many bytes. Memory is taken as its bytes come, not as they are declared."""
        header = self.header(name)
        if header.n_bytes > most_bytes:
            raise Damaged(f"{name}: an array of {header.n_bytes} bytes, expected at most {most_bytes:.0f}")
        content = bytearray()
        try:
            with self._zip.open(self._members[name]) as file:
                file.read(header.start)
                while block := file.read(_BLOCK_BYTES):
                    content += block
                    if len(content) > header.n_bytes:
                        break
        except Exception as error:
            raise _said(error, self._path, name) from None
        if len(content) != header.n_bytes:
            raise Damaged(f"{name}: declared {header.n_bytes} bytes, there are {len(content)}")
        if header.dtype.kind == "U" and np.frombuffer(content, np.uint32).max(initial=0) > 0x10FFFF:
            raise Damaged(f"{name}: what is no text")
        array = np.frombuffer(content, dtype=header.dtype)
        return array.reshape(header.shape, order="F" if header.fortran else "C")


def _said(error: Exception, path: Path, name: str = "") -> Exception:
    """What damage made the zip reader raise, which is nearly anything; what the system cannot do stays as it is."""
    if isinstance(error, OSError) and error.errno is not None and error.errno != errno.EINVAL:
        return OSError(error.errno, error.strerror, str(path))
    if isinstance(error, Damaged) and not name:
        return error
    return Damaged(f"{name}{': ' if name else ''}{str(error) or type(error).__name__:.80}")
