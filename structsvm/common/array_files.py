"""Read arrays from files that may be damaged: sizes are checked before memory is allocated, and nothing is
unpickled."""

import errno
import json
import math
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

_LARGEST_HEADER = 10_000
_DTYPE_KINDS = "biufU"
_MAX_MEMBERS = 100_000


class Damaged(ValueError):
    """Error for a damaged file; its message omits the file name, which the caller that opened the file adds with a
    remedy."""


class Header(NamedTuple):
    """The header of a ``.npy`` file; ``start`` is the number of bytes before the data of the array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def n_bytes(self) -> int:
        """Return the size of the array in bytes, as a Python int because a damaged header may declare a size above 64
        bits."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read the header of a ``.npy`` file (version 1.0), but not its array; raise Damaged if invalid."""
    try:
        # later versions of the format are needed only for other types, and allow headers of up to 4 GB
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        # a text dtype may declare any width: nothing is allocated for the data yet
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=_LARGEST_HEADER)
    except Exception:  # NumPy raises nearly any error for random bytes
        raise Damaged("its header does not describe an array") from None
    if dtype.kind not in _DTYPE_KINDS or not dtype.isnative or dtype.itemsize == 0:
        raise Damaged(f"an array of {dtype!s:.40}")
    if not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 32:
        raise Damaged(f"an array of shape {shape!r:.40}")
    return Header(dtype, shape, fortran, file.tell())


def read_json(raw: bytes) -> Any:
    """Parse JSON; raise Damaged for invalid JSON, nesting that is too deep, and numbers that are too large."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError, MemoryError) as error:
        raise Damaged(f"invalid JSON ({error!s:.80})") from None


class Archive:
    """The arrays of an ``.npz`` file, each read on request; an invalid array raises Damaged.

    The checksums of the zip format detect flipped bits. They do not protect against crafted files, so code that uses an
    array as indices must check it first.
    """

    def __init__(self, path: Path) -> None:
        # opened here and not by ZipFile, so that system errors, such as a missing file, are raised unchanged
        self._file = path.open("rb")
        try:
            self._zip = zipfile.ZipFile(self._file)
            members = self._zip.infolist()
            if len(members) > _MAX_MEMBERS or len({m.filename for m in members}) < len(members):
                raise Damaged("a duplicate array, or too many arrays")
            self._members = {m.filename.removesuffix(".npy"): m for m in members}
        except Exception as error:
            self._file.close()
            raise _as_damaged(error, path) from None
        self._path = path
        self.names = frozenset(self._members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def header(self, name: str) -> Header:
        """Return the header of an array; raise Damaged unless its size agrees with the directory of the archive."""
        if not isinstance(name, str) or name not in self._members:
            raise Damaged(f"no array {name!r:.60}")
        member = self._members[name]
        try:
            with self._zip.open(member) as file:
                header = read_header(file)
        except Exception as error:
            raise _as_damaged(error, self._path, name) from None
        if header.start + header.n_bytes != member.file_size:
            raise Damaged(
                f"{name}: declared {header.n_bytes} bytes as {header.dtype} {list(header.shape)}, found "
                f"{max(0, member.file_size - header.start)}"
            )
        return header

    def array(self, name: str, *, most_bytes: float = math.inf) -> NDArray[Any]:
        """Return one array of at most ``most_bytes`` bytes."""
        header = self.header(name)
        if header.n_bytes > most_bytes:
            raise Damaged(f"{name}: an array of {header.n_bytes} bytes, expected at most {most_bytes:.0f}")
        try:
            # if header and directory both overstate a size, only address space is reserved: NumPy reads the data block
            # by block until they end, and pages that are never written take no memory
            with self._zip.open(self._members[name]) as file:
                array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:
            raise _as_damaged(error, self._path, name) from None
        if array.dtype.kind == "U" and array.ravel("K").view(np.uint32).max(initial=0) > 0x10FFFF:
            raise Damaged(f"{name}: invalid characters")
        return array


def _as_damaged(error: Exception, path: Path, name: str = "") -> Exception:
    """Return Damaged for an error of the zip reader, which may have nearly any type; system errors are kept."""
    if isinstance(error, OSError) and error.errno is not None and error.errno != errno.EINVAL:
        return OSError(error.errno, error.strerror, str(path))
    if isinstance(error, Damaged) and not name:
        return error
    return Damaged(f"{name}{': ' if name else ''}{str(error) or type(error).__name__:.80}")
