"""Paths given to commands: checks before the work starts, and atomic writing."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from structsvm.common.checks import BadInput
from structsvm.common.files import beside, destination, is_packed, replacing
from structsvm.common.tables.source import Source, source_of


def stdin_as_path(path: Path) -> Path:
    """Return the path of standard input for ``-``, and any other path unchanged."""
    return Path("/dev/stdin") if str(path) == "-" else path


def check_text(source: Source, zero_based: bool) -> None:
    """Raise if ``--zero-based`` is given for a table."""
    if zero_based and source.is_table:
        raise BadInput("--zero-based", f"requires LETOR text, got the table {source}")


def source_at(path: Path | Source) -> Source:
    """Return the source of a path. Raise if it does not exist, so that the error does not follow minutes of work on
    another file."""
    source = source_of(path)
    if source.kind == "missing":
        raise BadInput(source.path, "expected a file to read, but it does not exist", "check the path")
    return source


def check_input(path: Path) -> Path:
    """Check that a path to read exists, as :func:`source_at` does."""
    return source_at(path).path


def check_file(path: Path) -> Path:
    """Check an input that cannot be a store, as :func:`check_input` does."""
    if check_input(path).is_dir():
        raise BadInput(path, "expected a file to read, got a folder", "add a file name")
    return path


def check_output(path: Path, inputs: Iterable[Path] = (), *, option: str = "--output") -> Path:
    """Raise if a result would overwrite an input, a folder or a device, or cannot be written."""
    if str(path) == "-":
        raise BadInput(
            "-", "expected the name of a file to write, got '-', the standard input", "give a file name"
        )
    _check_name(path)
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise BadInput(
                path, f"expected a file other than the input, got the same; choose another {option}"
            )
    if path.is_dir():
        raise BadInput(path, "expected the name of a file to write, got a folder", "add a file name")
    if path.exists() and not path.is_file():
        raise BadInput(path, "expected the name of a file to write, got a device or pipe", "choose another")
    check_folder(path)
    return path


def check_model_output(path: Path, inputs: Iterable[Path] = (), *, option: str = "--output") -> Path:
    """Check the path of a model, as :func:`check_output` does, since ``save`` would refuse its suffix only after
    training."""
    if is_packed(path):
        raise BadInput(
            path, f"expected a name that ends in .npz, got {path.suffix!r}", "models are compressed already"
        )
    return check_output(path, inputs, option=option)


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """Check the files of several options (None if not given) with :func:`check_output`; no two may be the same."""
    sources, taken = list(inputs), dict[Path, str]()
    for option, path in outputs.items():
        if path is None:
            continue
        file = check_output(path, sources, option=option).resolve()
        if file in taken:
            raise BadInput(
                f"{taken[file]} and {option}", "expected two files, got the same file twice", "choose another"
            )
        taken[file] = option


def check_kept(path: Path) -> None:
    """Check the folder in which finished runs are kept: it must be writable and need not exist."""
    _check_name(path)
    if path.exists() and not path.is_dir():
        raise BadInput(path, "expected a folder to keep runs in, got a file", "choose another name")
    check_folder(path / "run" if path.exists() else path)


def check_folder(path: Path) -> None:
    """Check that the folder of ``path`` exists, is writable, and accepts the file name."""
    folder = _check_name(path).parent
    if not folder.is_dir():
        raise BadInput(path, f"expected an existing folder, but '{folder}' does not exist", "create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(path, f"expected a writable folder, got no permission for '{folder}'")


def _check_name(path: Path) -> Path:
    """Return the file that writing to ``path`` replaces, if its name and that of the unfinished file are valid."""
    if not path.name:  # ``path`` is a folder: callers that do not accept folders raise
        return path
    try:
        file = destination(path)
        destination(beside(file, ".part"))
    except (NotADirectoryError, PermissionError):  # the check of the folder reports it
        return path
    except OSError as error:
        raise BadInput(path, f"expected a valid file name ({error.strerror})", "choose another") from error
    return file


_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_stdout(path: Path) -> bool:
    """Return whether a path means the standard output."""
    return str(path) in _STDOUT


def write_text(path: Path, text: str) -> None:
    """Write text atomically."""
    with replacing(path) as file:
        file.write(text.encode())


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, given without line ends, one by one; a file is replaced when all are written.

    Standard output (``-``) is written when all lines are available.
    """
    if is_stdout(path):
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        return
    with replacing(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)
