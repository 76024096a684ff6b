"""CSV and JSON lines. Arrow parses blocks of whole lines; blocks that it might misread are parsed row by row."""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from os import SEEK_END
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv as arrow_csv, types

from structsvm.common.checks import BadInput
from structsvm.common.files import (
    MAX_LINE_BYTES,
    decode,
    is_stream,
    parse_object,
    read_blocks,
    shorten,
    unpacked,
)
from structsvm.common.tables.batches import Batch, Role, Table
from structsvm.common.tables.frames import arrow_of

_HEAD, _BLOCK, _PIECE = 1 << 16, 1 << 23, 1 << 20
_GAPS = ["", *map("".join, product("nN", "aA", "nN"))]
_BLANK = re.compile(rb"(?m)^\r?\n")
_BOM = b"\xef\xbb\xbf"
_NUMBERED = tuple[int, bytes]
"""A block, and the number of lines before it."""


def _blocks(path: Path, size: int, max_expansion: float | None) -> Iterator[_NUMBERED]:
    number = 0
    for array in read_blocks(path, size, max_expansion=max_expansion):
        block = array.tobytes()
        yield number, block
        number += block.count(b"\n")


class _Stream:
    """Blocks of a pipe, which are kept in a temporary file to be read again."""

    def __init__(self, blocks: Iterator[_NUMBERED]) -> None:
        self._blocks, self._file = blocks, TemporaryFile()  # noqa: SIM115 - read again until the table is released
        finalize(self, self._file.close)
        self._places: list[tuple[int, int, int]] = []

    def __iter__(self) -> Iterator[_NUMBERED]:
        for number, start, size in self._places:
            self._file.seek(start)
            yield number, self._file.read(size)
        for number, block in self._blocks:
            self._places.append((number, self._file.seek(0, SEEK_END), len(block)))
            self._file.write(block)
            yield number, block


def _opened(path: Path, max_expansion: float | None) -> Callable[[int], Iterable[_NUMBERED]]:
    """Return a function that returns the blocks of a file of a given size, from the beginning; those of a pipe have
    one size."""
    if not is_stream(path):
        return lambda size: _blocks(path, size, max_expansion)
    stream = _Stream(_blocks(path, _BLOCK, max_expansion))
    return lambda size: stream


def _after(block: _NUMBERED, line: int) -> _NUMBERED:
    """Return the part of a block from line ``line`` on."""
    number, text = block
    while number < line and text:
        number, text = number + 1, text[text.find(b"\n") + 1 :]
    return number, text


def csv_table(path: Path, max_expansion: float | None = None) -> Table:
    """Return a table of text with names in its first line; cells are separated by tabs in a file named
    ``.tsv``, else by commas."""
    blocks = _opened(path, max_expansion)
    mark = "\t" if unpacked(path.name.lower()).endswith(".tsv") else ","
    for head in blocks(_HEAD):
        if (first := next(_rows(head, path, mark, None), None)) is not None:
            break
    else:
        raise BadInput(path, "expected column names in the first line, got an empty file")
    header = first[0] + sum(name.count("\n") for name in first[1])
    names = [name.strip() for name in first[1]]

    def read(roles: Mapping[str, Role], *, row_groups: Sequence[int] | None = None) -> Iterator[Batch]:
        parser = _Parser(path, mark, names, roles)
        for block in blocks(_BLOCK):
            yield from parser.parse(*_after(block, header))
        parser.end()

    return Table(path, names, read)


class _Parser:
    def __init__(self, path: Path, mark: str, names: list[str], roles: Mapping[str, Role]) -> None:
        self._path, self._mark, self._names, self._roles = path, mark, names, roles
        at = {name: j for j, name in enumerate(names)}
        self._at = {name: at[name] for name in roles}
        self._ids = [at[name] for name, role in roles.items() if role == "id"]
        self._numbers = {name for name, role in roles.items() if role == "number"}
        self._tried = False
        self._open: tuple[int, bytes, _Open] | None = None

    def parse(self, number: int, block: bytes) -> Iterator[Batch]:
        """Yield the rows of whole lines; raise for the first invalid line, after the rows before it.

        A row that continues in the next block is kept for it.
        """
        if self._open is not None:
            number, block = self._open[0], self._open[1] + block
            self._open = None
        if not self._tried:  # a few lines show which columns contain booleans
            self._tried = True
            self._by_arrow(block[: block.rfind(b"\n", 0, _HEAD) + 1])
        n_lines = block.count(b"\n")
        blank = block[:1] in b"\r\n" or b"\n\n" in block or b"\n\r\n" in block
        n_rows = n_lines - (len(_BLANK.findall(block)) if blank else 0)
        parsed = None if _is_odd(block, self._mark) else self._by_arrow(block)

        def line_of(row: int) -> int:
            lines = enumerate(block.split(b"\n")) if blank else ()
            return [k for k, line in lines if line not in (b"", b"\r")][row] if blank else row

        def written(row: int, name: str) -> str:
            _, line = _after((0, block), line_of(row))
            (_, cells), *_ = _rows((0, line[: line.find(b"\n") + 1]), self._path, self._mark, None)
            return cells[self._at[name]]

        if parsed is not None and parsed.num_rows == n_rows:
            columns = {name: parsed.column(str(j)).combine_chunks() for name, j in self._at.items()}
            if n_rows:
                yield Batch(
                    columns, n_rows, lambda row: (f"{self._path}:{number + 1 + line_of(row)}", ""), written
                )
            return
        rows: list[tuple[int, list[str]]] = []
        error: ValueError | None = None
        try:
            for row in _rows((number, block), self._path, self._mark, len(self._names), self._ids):
                rows.append(row)
        except _Open as cut:
            self._open = (*_after((number, block), cut.line - 1), cut)
            if len(self._open[1]) > MAX_LINE_BYTES:
                error = cut
        except ValueError as wrong:
            error = wrong
        if rows:
            columns = {name: arrow_text([cells[j] for _, cells in rows]) for name, j in self._at.items()}
            yield Batch(
                columns,
                len(rows),
                _at_lines(self._path, rows),
                lambda row, name: rows[row][1][self._at[name]],
            )
        if error is not None:
            raise error

    def end(self) -> None:
        """Raise if the last row is incomplete."""
        if self._open is not None:
            raise self._open[2]

    def _by_arrow(self, block: bytes) -> Any:
        """Return the columns of a block; None if Arrow cannot parse it."""
        try:
            parsed = self._read(block, self._numbers)
            wrong = {
                name
                for name in self._numbers
                if compute.any(compute.is_nan(parsed.column(str(self._at[name])))).as_py()
            }
            if not wrong:
                return parsed
        except pa.ArrowInvalid:
            try:
                words = self._read(block, set())
            except pa.ArrowInvalid:
                return None
            wrong = {name for name in self._numbers if not _are_numbers(words.column(str(self._at[name])))}
        # ``wrong`` columns are read as text: those with booleans, with a NaN that is not a missing value, or with an
        # invalid value, which the error must show as written
        self._numbers -= wrong
        return self._by_arrow(block) if wrong else None

    def _read(self, block: bytes, numbers: Collection[str]) -> Any:
        kinds = {str(j): pa.float64() if name in numbers else pa.string() for name, j in self._at.items()}
        for size in (_PIECE, len(block) + 1):  # pieces that fit the cache are faster; a line may be longer
            try:
                return arrow_csv.read_csv(
                    pa.BufferReader(block),
                    arrow_csv.ReadOptions(column_names=[*map(str, range(len(self._names)))], block_size=size),
                    arrow_csv.ParseOptions(delimiter=self._mark, newlines_in_values=False),
                    arrow_csv.ConvertOptions(column_types=kinds, include_columns=[*kinds], null_values=_GAPS),
                )
            except pa.ArrowInvalid:
                if size > len(block):
                    raise
        raise AssertionError("a block was neither read nor refused")


def _are_numbers(column: Any) -> bool:
    """Return whether Arrow reads all cells of a column, given as text, as numbers or missing values."""
    words = column.combine_chunks()
    gaps = compute.is_in(words, value_set=arrow_text(_GAPS))
    words = compute.if_else(gaps, pa.nulls(len(words), pa.string()), compute.utf8_trim_whitespace(words))
    try:
        compute.cast(words, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _at_lines(path: Path, rows: Sequence[tuple[int, Any]]) -> Callable[[int], tuple[Path | str, str]]:
    return lambda row: (f"{path}:{rows[row][0]}", "")


def _is_odd(block: bytes, mark: str) -> bool:
    """Return whether Arrow may read a block differently from Python: NUL, byte order marks, line ends, quotes, bad
    bytes."""
    if b"\0" in block or _BOM in block or block.count(b"\r") != block.count(b"\r\n"):
        return True
    if b'"' in block and not _is_quoted_well(block, mark):
        return True
    try:
        _ = block.isascii() or block.decode()
    except UnicodeDecodeError:
        return True
    return False


def _is_quoted_well(block: bytes, mark: str) -> bool:
    """Return whether all quotes enclose whole cells on one line and are doubled inside them."""
    text = np.frombuffer(block, dtype=np.uint8)
    at = np.flatnonzero(text == ord('"'))
    if at.size % 2:
        return False
    beside = np.zeros(256, dtype=bool)
    beside[[*b'\r\n"', ord(mark)]] = True
    begins = at[::2][int(at[0] == 0) :]
    if (np.searchsorted(at, np.flatnonzero(text == ord("\n"))) % 2).any():
        return False
    return bool(beside[text[begins - 1]].all() and beside[text[at[1::2] + 1]].all())


class _Open(BadInput):
    """A quoted field that does not end in a block; its row begins in line ``line``."""

    line: int


def _rows(
    block: _NUMBERED, path: Path, mark: str, width: int | None, ids: Sequence[int] = ()
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line (from 1) and the cells of each row that is not blank. Raise for a row without
    ``width`` cells, and for a quoted field in one of the columns ``ids`` that seems to contain whole rows.
    """
    number, text = block
    exhausted = False

    def lines() -> Iterator[str]:
        nonlocal exhausted
        for k, raw in enumerate(text.split(b"\n")[:-1], number + 1):
            yield decode(raw, f"{path}:{k}") + "\n"
        exhausted = True

    rows = csv.reader(lines(), delimiter=mark, strict=True)
    while True:
        line = number + rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            # the csv module does not escape a tab, and explains a carriage return by a mode of Python's ``open``
            said = f"{error}".replace("\t", "\\t").partition(" - do you need")[0]
            problem = f"expected a row of {'tabs' if mark != ',' else 'commas'} ({said})"
            wrong = (_Open if exhausted else BadInput)(
                f"{path}:{line}",
                problem,
                "close its quotes and double those within a field; lines end in a line feed",
            )
            if isinstance(wrong, _Open):
                wrong.line = line
            raise wrong from None
        if cells is None:
            return
        last = number + rows.line_num
        if cells and width is not None and len(cells) != width:
            joined, remedy = (f" on lines {line} to {last}", "close the quote") if last > line else ("", "")
            raise BadInput(
                f"{path}:{line}",
                f"expected {width} cells, as in the first line, got {len(cells)}{joined}",
                remedy,
            )
        if last > line and any(_holds_rows(cells[j], mark, len(cells)) for j in ids):
            raise BadInput(
                f"{path}:{line}",
                f"expected an id, got a quoted field up to line {last} that seems to contain whole rows",
                "close the quote",
            )
        if cells:
            yield line, cells


def _holds_rows(cell: str, mark: str, width: int) -> bool:
    """Return whether a cell has as many separators as the rows that a stray quote would join."""
    n_breaks = sum(bool(line.strip("\r")) for line in cell.split("\n")[1:])
    return n_breaks > 0 and cell.count(mark) == n_breaks * (width - 1)


def arrow_text(words: Sequence[str]) -> Any:
    """Return text as an Arrow array; Arrow's own constructor would import pandas."""
    pieces = [word.encode() for word in words]
    offsets = np.zeros(len(pieces) + 1, dtype=np.int32)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.string(), len(pieces), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(pieces))]
    )


def json_table(path: Path, max_expansion: float | None = None) -> Table:
    """Return the table of a JSON Lines file, whose keys must all occur in the first megabyte."""
    blocks = _opened(path, max_expansion)
    rows = _objects(next(iter(blocks(_PIECE)), (0, b"")), path)
    names = [*dict.fromkeys(name for _, row in rows for name in row)]
    if not names:
        raise BadInput(path, "expected a JSON object on each line, got an empty file")

    def read(roles: Mapping[str, Role], *, row_groups: Sequence[int] | None = None) -> Iterator[Batch]:
        for block in blocks(_BLOCK):
            numbered = _objects(block, path)
            for number, row in numbered:
                if more := row.keys() - set(names):
                    raise BadInput(
                        f"{path}:{number}",
                        f"expected only keys that occur in the first lines, got {shorten(min(more))}",
                        "write null where a line has no value",
                    )
            if numbered:
                columns = {
                    name: arrow_of([row.get(name) for _, row in numbered], path, name, role)
                    for name, role in roles.items()
                }
                yield Batch(columns, len(numbered), _at_lines(path, numbered))

    return Table(path, names, read, {})


def _objects(block: _NUMBERED, path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the number and object of each non-blank line."""
    lines = enumerate(block[1].split(b"\n")[:-1], block[0] + 1)
    return [(number, parse_object(raw, path, number)) for number, raw in lines if raw.strip()]


def is_text(kind: object) -> bool:
    """Return whether an Arrow type is text."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
