"""Recognition of files that are tables with named columns, by their names and first bytes."""

import glob
from os import PathLike, fspath
from pathlib import Path

from structsvm.common.files import unpacked

_MAGIC = b"PAR1"
_CSV = (".csv", ".tsv")
_JSON = (".jsonl", ".ndjson")


def _named(path: Path, endings: tuple[str, ...]) -> bool:
    return unpacked(path.name.lower()).endswith(endings)


def is_csv(path: str | PathLike[str]) -> bool:
    """Return whether ``path`` is a file named ``.csv`` or ``.tsv`` (before ``.gz`` and the like), a folder of such
    files without Parquet files, or a pattern.
    """
    return _is_kind(path, _CSV)


def is_json_lines(path: str | PathLike[str]) -> bool:
    """Return whether ``path`` is a file named ``.jsonl`` or ``.ndjson``, or a pattern for such files."""
    return not Path(path).is_dir() and _is_kind(path, _JSON)


def is_parquet(path: str | PathLike[str]) -> bool:
    """Return whether ``path`` is a Parquet file (by its first bytes or its name), a folder that contains one, or a
    pattern."""
    place = Path(path)
    if place.suffix == ".parquet" or not place.is_file():  # a damaged file must not be read as text
        return _is_kind(path, (".parquet",))
    with place.open("rb") as file:
        return file.read(4) == _MAGIC


def is_table(path: str | PathLike[str]) -> bool:
    """Return whether ``path`` names tables with named columns."""
    return is_csv(path) or is_parquet(path) or is_json_lines(path)


def _is_kind(path: str | PathLike[str], endings: tuple[str, ...]) -> bool:
    place = Path(path)
    if place.is_dir():
        return any(_named(file, endings) for file in _in_folder(place))
    if place.is_file():
        return _named(place, endings)
    return glob.has_magic(fspath(path)) and not place.exists() and _named(place, endings)


def _in_folder(place: Path) -> list[Path]:
    """Return the Parquet files of a folder, or otherwise its CSV files; an empty list for a store."""
    if (place / "meta.json").exists():
        return []
    parquet = sorted(place.glob("*.parquet"))
    return parquet or sorted(file for file in place.iterdir() if _named(file, _CSV) and file.is_file())


def table_files(path: str | PathLike[str]) -> list[Path]:
    """Return the files of a path, sorted by name: the file itself, those of a folder or those of a pattern."""
    place = Path(path)
    if place.is_dir():
        return _in_folder(place)
    if place.exists() or not glob.has_magic(fspath(path)):
        return [place]
    return sorted(map(Path, glob.glob(fspath(path), recursive=True)))  # noqa: PTH207 - pathlib takes no absolute pattern
