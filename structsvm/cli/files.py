"""What commands share about files: checks before the work starts, reading, and writing whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from structsvm.protocols import Float
    from structsvm.queries import QueryData

__all__ = [
    "Data",
    "Fill",
    "Jobs",
    "check_file",
    "check_folder",
    "check_input",
    "check_output",
    "read_data",
    "read_scores",
    "said_of",
    "stdin_as_path",
    "write_lines",
    "write_text",
]


def stdin_as_path(path: Path) -> Path:
    """``-`` stands for the standard input."""
    return Path("/dev/stdin") if str(path) == "-" else path


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="LETOR/SVMlight text (plain, gzip, bzip2, xz; - is the standard input) or a store.",
        callback=stdin_as_path,
    ),
]
Fill = Annotated[
    float | None, typer.Option(help="Number that stands in for 'nan' features; they are an error without it.")
]


def _check_jobs(jobs: int) -> int:
    from structsvm.machine import count_threads

    try:
        count_threads(jobs)
    except ValueError as error:
        raise ValueError(str(error).replace("n_jobs=", "--jobs ")) from None
    return jobs


Jobs = Annotated[
    int,
    typer.Option(callback=_check_jobs, help="Threads; -1 is one a processor. Results do not depend on it."),
]


def check_input(path: Path) -> Path:
    """Say at once that a file is not there, before minutes of work on another."""
    if not path.exists():
        raise ValueError(f"{path}: expected a file to read, got nothing there; check the path")
    return path


def check_file(path: Path) -> Path:
    """As :func:`check_input`, for what can be no store."""
    if check_input(path).is_dir():
        raise ValueError(f"{path}: expected a file to read, got a folder; add a file name")
    return path


def check_output(path: Path, inputs: Iterable[Path] = (), *, option: str = "--output") -> Path:
    """Refuse a result that would overwrite an input, a folder or a device, or that cannot be written."""
    if str(path) == "-":
        raise ValueError(
            "-: expected the name of a file to write, got the sign for the standard input; name one"
        )
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(
                f"{path}: expected another file than the input, got the same; choose another {option}"
            )
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, got a folder; add a file name")
    if path.exists() and not path.is_file():
        raise ValueError(
            f"{path}: expected the name of a file to write, got a device or pipe; choose another"
        )
    check_folder(path)
    return path


def check_folder(path: Path) -> None:
    """The folder that ``path`` is to be written in must be there and writable."""
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"{path}: expected an existing folder, got none called '{folder}'; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{path}: expected a folder to write in, got no permission for '{folder}'")


def read_data(path: Path, **options: Any) -> QueryData:
    """A store, or LETOR text with the ``options`` that are not None."""
    from structsvm.readers import read_queries

    return read_queries(check_input(path), **{k: v for k, v in options.items() if v is not None})


@contextlib.contextmanager
def said_of(path: Path) -> Iterator[None]:
    """What is wrong with ``X``, ``y`` or ``qid`` is said of the file they came from."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith(("X", "y:", "y[", "qid")):
            raise
        raise ValueError(f"{path}: {error}") from error


def read_scores(path: Path) -> Float:
    """One number per line, finite or ``-inf``, which means "not retrieved".

    Raises
    ------
    ValueError
        With file and line, for anything else: a number that overflows, as 1e400, would be tied with other such
        numbers, and -1e400 taken for -inf.
    """
    import numpy as np

    from structsvm.files import read_text

    text = read_text(check_file(path)).tobytes()
    if not text:
        raise ValueError(f"{path}: expected one score a line, got an empty file; predict again")
    lines = text.removesuffix(b"\n").split(b"\n")
    scores = np.empty(len(lines))
    for i, line in enumerate(lines):
        try:
            scores[i] = float(line) if b"_" not in line else np.nan
        except ValueError:
            scores[i] = np.nan
        if not np.isfinite(scores[i]) and line.strip().lower() not in (b"-inf", b"-infinity"):
            offender = line[:60].decode(errors="replace")
            raise ValueError(
                f"{path}:{i + 1}: expected one finite number, the score of row {i + 1} (or -inf: not retrieved), "
                f"got {offender!r}"
            )
    return scores


def write_text(path: Path, text: str) -> None:
    """Write text that appears complete or not at all."""
    from structsvm.files import replacing

    with replacing(path) as file:
        file.write(text.encode())


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """:func:`write_text` of lines without their ends."""
    write_text(path, "".join(f"{line}\n" for line in lines))
