"""The common form of tables of every kind: batches of rows whose columns are Arrow arrays."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.files import shorten

Role = Literal["number", "id", "time", "category"]
_R = TypeVar("_R")


@dataclass(frozen=True)
class Batch:
    """Some rows of a table: columns by name, and the location of the rows."""

    columns: Mapping[str, Any]
    n: int
    place: Callable[[int], tuple[Path | str, str]]
    """Function that returns, for a row, the argument that errors name and the beginning of the message."""

    written: Callable[[int, str], str] | None = None
    """Function that returns the cell of a row and column as written in a text file; None if values have types."""

    def wrong(self, row: int, name: str, expected: str, got: str, remedy: str = "") -> BadInput:
        """Return the error of a cell; a cell of a text file is shown as written."""
        where, start = self.place(row)
        if self.written is not None and got != "none":
            cell = self.written(row, name)
            got = shorten(cell) if cell.strip() else "an empty cell"
        return BadInput(where, f"{start}column {shorten(name)}: expected {expected}, got {got}", remedy)

    def refuse_first(
        self, wrong: NDArray[np.bool_], name: str, expected: str, values: NDArray[Any], remedy: str = ""
    ) -> None:
        """Raise for the first row whose value in a column is wrong."""
        if wrong.any():
            row = int(wrong.argmax())
            raise self.wrong(row, name, expected, f"{values[row]:g}", remedy)

    def first(self, n: int) -> Self:
        """Return the first ``n`` rows."""
        return replace(self, columns={name: one.slice(0, n) for name, one in self.columns.items()}, n=n)


def checked(batch: Batch, work: Callable[[Batch], _R]) -> _R:
    """Return ``work(batch)``, or raise its error for the first invalid row of any column, found by bisection."""
    try:
        return work(batch)
    except BadInput:
        right, wrong = 0, batch.n
        while wrong - right > 1:
            middle = (right + wrong) // 2
            try:
                work(batch.first(middle))
                right = middle
            except BadInput:
                wrong = middle
        work(batch.first(wrong))
        raise


@dataclass(frozen=True)
class Table:
    """A file or a frame of which only the column names have been read."""

    source: Path | str
    names: list[str]
    read: Callable[..., Iterator[Batch]]
    """Read the columns of ``roles``, a mapping of names to roles; of a Parquet file only ``row_groups``, if given."""

    kinds: Mapping[str, Any] | None = None
    """Types of the columns; None for a text file, whose types follow from the roles."""

    n_rows: int | None = None
    """Number of rows; None for a text file."""

    unused: Collection[str] = ()
    """Columns that are read only by name, or in a role: the index of a pandas frame."""

    @property
    def in_parts(self) -> bool:
        """Return whether the table is read in several ordered parts; a frame is one part, with rows in any order."""
        return isinstance(self.source, Path)
