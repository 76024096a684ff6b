"""CSV and JSON lines. Arrow parses blocks of whole lines; blocks that it might misread are parsed line by line."""

import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, types
from pyarrow import csv as arrow_csv

from structsvm.common.checks import BadInput
from structsvm.common.files import decode, is_stream, parse_object, read_blocks, shorten, unpacked
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


def _after(block: _NUMBERED, line: int) -> _NUMBERED:
    """Return the part of a block from line ``line`` on."""
    number, text = block
    while number < line and text:
        number, text = number + 1, text[text.find(b"\n") + 1 :]
    return number, text


def csv_table(path: Path, max_expansion: float | None = None) -> Table:
    """Return a table of text with names in its first line; cells are separated by tabs in a file named
    ``.tsv``, else by commas."""
    stream = is_stream(path)
    mark = "\t" if unpacked(path.name.lower()).endswith(".tsv") else ","
    blocks = _blocks(path, _BLOCK if stream else _HEAD, max_expansion)
    for head in blocks:
        if (first := next(_lines(head, path, mark, None), None)) is not None:
            break
    else:
        raise BadInput(path, "expected column names in the first line, got an empty file")
    header, names = first[0], [name.strip() for name in first[1]]

    def read(roles: Mapping[str, Role], *, row_groups: Sequence[int] | None = None) -> Iterator[Batch]:
        parser = _Parser(path, mark, names, roles)
        for block in chain([head], blocks) if stream else _blocks(path, _BLOCK, max_expansion):
            yield from parser.parse(*_after(block, header))

    return Table(path, names, read)


class _Parser:
    def __init__(self, path: Path, mark: str, names: list[str], roles: Mapping[str, Role]) -> None:
        self._path, self._mark, self._names, self._roles = path, mark, names, roles
        self._at = {name: names.index(name) for name in roles}
        self._numbers = {name for name, role in roles.items() if role == "number"}
        self._tried = False

    def parse(self, number: int, block: bytes) -> Iterator[Batch]:
        """Yield the rows of whole lines; raise for the first invalid line, after the rows before it."""
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
            (_, cells), *_ = _lines((0, line[: line.find(b"\n") + 1]), self._path, self._mark, None)
            return cells[self._at[name]]

        if parsed is not None and parsed.num_rows == n_rows:
            columns = {name: parsed.column(str(j)).combine_chunks() for name, j in self._at.items()}
            if n_rows:
                yield Batch(
                    columns, n_rows, lambda row: (f"{self._path}:{number + 1 + line_of(row)}", ""), written
                )
            return
        rows: list[tuple[int, list[str]]] = []
        error = None
        try:
            for row in _lines((number, block), self._path, self._mark, len(self._names)):
                rows.append(row)
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
                self._read(block, set())
            except pa.ArrowInvalid:
                return None
            wrong = {name for name in self._numbers if not self._is_number(block, name)}
        # ``wrong`` columns are read as text: those with booleans, with a NaN that is not a missing value, or with an
        # invalid value, which the error must show as written
        self._numbers -= wrong
        return self._by_arrow(block) if wrong else None

    def _is_number(self, block: bytes, name: str) -> bool:
        try:
            self._read(block, {name}, [name])
        except pa.ArrowInvalid:
            return False
        return True

    def _read(self, block: bytes, numbers: Collection[str], names: Sequence[str] | None = None) -> Any:
        kinds = {
            str(self._at[name]): pa.float64() if name in numbers else pa.string()
            for name in names or self._at
        }
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
    """Return whether all quotes enclose whole cells and are doubled inside them."""
    text = np.frombuffer(block, dtype=np.uint8)
    at = np.flatnonzero(text == ord('"'))
    if at.size % 2:
        return False
    beside = np.zeros(256, dtype=bool)
    beside[[*b'\r\n"', ord(mark)]] = True
    begins = at[::2][int(at[0] == 0) :]
    return bool(beside[text[begins - 1]].all() and beside[text[at[1::2] + 1]].all())


def _lines(block: _NUMBERED, path: Path, mark: str, width: int | None) -> Iterator[tuple[int, list[str]]]:
    """Yield the number (from 1) and cells of each non-blank line; raise for a line without ``width`` cells."""
    number, text = block
    raws = enumerate(text.split(b"\n")[:-1], number + 1)
    lines = (decode(raw, f"{path}:{k}").removesuffix("\r") for k, raw in raws)
    rows = csv.reader(lines, delimiter=mark, strict=True)
    while True:
        line = number + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            # the csv module does not escape a tab
            problem = f"expected a row of {'tabs' if mark != ',' else 'commas'} ({error})".replace(
                "\t", "\\t"
            )
            remedy = "close its quotes and double those within a field; lines end in a line feed"
            raise BadInput(f"{path}:{line}", problem, remedy) from None
        if cells is None:
            return
        number += 1
        if rows.line_num != number - block[0]:
            problem = f"expected a row on one line, got a quoted field up to line {block[0] + rows.line_num}"
            raise BadInput(f"{path}:{line}", problem, "close the quote, or replace line breaks in ids")
        if cells and width is not None and len(cells) != width:
            problem = f"expected {width} cells, as in the first line, got {len(cells)}"
            raise BadInput(f"{path}:{line}", problem)
        if cells:
            yield line, cells


def arrow_text(words: Sequence[str]) -> Any:
    """Return text as an Arrow array; Arrow's own constructor would import pandas."""
    pieces = [word.encode() for word in words]
    offsets = np.zeros(len(pieces) + 1, dtype=np.int32)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(pa.string(), len(pieces), buffers)


def json_table(path: Path, max_expansion: float | None = None) -> Table:
    """Return a table of text with a JSON object on each line, whose keys all occur in the first megabyte."""
    stream = is_stream(path)
    blocks = _blocks(path, _BLOCK if stream else _PIECE, max_expansion)
    head = next(blocks, (0, b""))
    rows = _objects(head, path)
    names = [*dict.fromkeys(name for _, row in rows for name in row)]
    if not names:
        raise BadInput(path, "expected a JSON object on each line, got an empty file")

    def read(roles: Mapping[str, Role], *, row_groups: Sequence[int] | None = None) -> Iterator[Batch]:
        for block in chain([head], blocks) if stream else _blocks(path, _BLOCK, max_expansion):
            numbered = _objects(block, path)
            for number, row in numbered:
                if more := row.keys() - set(names):
                    problem = f"expected only keys that occur in the first lines, got {shorten(min(more))}"
                    raise BadInput(f"{path}:{number}", problem, "write null where a line has no value")
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


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
