"""Sources of data: which kind of file, folder, pattern or frame the user gave is decided here, once."""

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from structsvm.common.checks import BadInput
from structsvm.common.files import unpacked

Kind = Literal["parquet", "csv", "json-lines", "frame", "store", "folder", "text", "stream", "missing"]
"""Tables are ``"parquet"``, ``"csv"`` (also ``.tsv``), ``"json-lines"`` and ``"frame"``; ``"text"`` is any other file,
and ``"stream"`` a pipe or device."""

_ENDINGS: dict[Kind, tuple[str, ...]] = {
    "parquet": (".parquet",),
    "csv": (".csv", ".tsv"),
    "json-lines": (".jsonl", ".ndjson"),
}
_MAGIC = b"PAR1"
_PARTITION = re.compile(r"([^=]+)=(.*)")
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class File:
    """A file of a table, and the columns stated by the names of its folders: ``qid=3/part-0.parquet``."""

    path: Path
    kind: Kind
    folders: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Source:
    """A path, folder, pattern or frame, its kind, and the files of a table; also a path for functions of the system."""

    given: Any
    kind: Kind
    files: tuple[File, ...] = ()

    @property
    def path(self) -> Path:
        """The path or pattern."""
        return Path(self.given)

    @property
    def is_table(self) -> bool:
        """Whether the source has named columns."""
        return self.kind in ("parquet", "csv", "json-lines", "frame")

    def __fspath__(self) -> str:
        return str(fspath(self.given))

    def __str__(self) -> str:
        return "table" if self.kind == "frame" else fspath(self.given)


def source_of(given: object) -> Source:
    """Return the source of a path, a pattern or a frame; a source is returned unchanged.

    A folder is a table if it holds Parquet files, or otherwise CSV files, directly or in folders ``column=value``, as
    Hive, Spark and pandas write them. Hidden files are passed over. Raise for a table of several kinds of files.
    """
    if isinstance(given, Source):
        return given
    if not isinstance(given, (str, PathLike)):
        return Source(given, "frame")
    path = Path(given)
    if path.is_dir():
        if (path / "meta.json").exists():
            return Source(given, "store")
        return _table(given, _in_folder(path, ()), "folder")
    if path.is_file():
        file = File(path, _kind_of(path))
        return Source(given, file.kind, (file,))
    if path.exists():
        return Source(given, "stream", (File(path, "text"),))
    if not glob.has_magic(fspath(given)):
        return Source(given, "missing", (File(path, _by_name(path)),))
    files = [file for file in matching(given) if file.is_file()]
    tables = [File(file, _kind_of(file), _below_pattern(path, file)) for file in files]
    named = _by_name(path)
    if not tables or any(file.kind == "text" for file in tables):
        return Source(given, "missing" if named == "text" else named, tuple(tables))
    return _table(given, tables, "missing")


def matching(pattern: str | PathLike[str]) -> list[Path]:
    """Return the files and folders that match a pattern, sorted by name."""
    return sorted(map(Path, glob.glob(fspath(pattern), recursive=True)))  # noqa: PTH207 - pathlib takes no absolute pattern


def none_found(source: Source) -> BadInput:
    """Return the error of a pattern without files, with a remedy if brackets were meant literally."""
    escaped = fspath(source).replace("[", "[[]")
    return BadInput(
        source.path,
        "expected a table, a folder of tables or a pattern, found none",
        f"brackets have a meaning in patterns; write {escaped}" if matching(escaped) else "",
    )


def _by_name(path: Path) -> Kind:
    name = unpacked(path.name.lower())
    return next((kind for kind, endings in _ENDINGS.items() if name.endswith(endings)), "text")


def _kind_of(path: Path) -> Kind:
    kind = _by_name(path)
    if kind == "parquet":  # a damaged file must not be read as text
        return kind
    with path.open("rb") as file:
        return "parquet" if file.read(len(_MAGIC)) == _MAGIC else kind


def _in_folder(folder: Path, columns: tuple[tuple[str, str], ...]) -> list[File]:
    """Return the files of a table in a folder, and in its folders ``column=value``."""
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    named = [(path, _by_name(path)) for path in inside]
    kind = "parquet" if any(kind == "parquet" and path.is_file() for path, kind in named) else "csv"
    files = [File(path, _kind_of(path), columns) for path, own in named if own == kind and path.is_file()]
    parts = [(path, part) for path in inside if (part := _PARTITION.fullmatch(path.name)) and path.is_dir()]
    below = [file for path, part in parts for file in _in_folder(path, (*columns, _column(part)))]
    if files and below:
        raise BadInput(
            folder,
            f"expected files or folders 'column=value', got {files[0].path.name!r} beside {parts[0][0].name!r}",
            "read one of them",
        )
    return files or below


def _column(part: re.Match[str]) -> tuple[str, str]:
    name, value = map(unquote, part.groups())
    return name, "" if value == _NULL else value


def _below_pattern(pattern: Path, file: Path) -> tuple[tuple[str, str], ...]:
    """Return the columns of the folders that a pattern matched; ``C=1/*.parquet`` matches none of its folders."""
    fixed = next(k for k, part in enumerate(pattern.parts) if glob.has_magic(part))
    return tuple(_column(part) for part in map(_PARTITION.fullmatch, file.parts[fixed:-1]) if part)


def _table(given: Any, files: Sequence[File], otherwise: Kind) -> Source:
    """Return the source of several files; they must be of one kind, with the same columns in the names of folders."""
    for same in (lambda file: file.kind, lambda file: sorted(name for name, _ in file.folders)):
        other = next((file for file in files if same(file) != same(files[0])), None)
        if other is not None:
            raise BadInput(
                Path(given),
                f"expected files of one kind in folders of the same columns, got {files[0].path} and {other.path}",
                "read them separately",
            )
    return Source(given, files[0].kind if files else otherwise, tuple(files))
