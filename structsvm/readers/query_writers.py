"""Writers of rows to a store: in file order, or sorted by query on disk if the rows of a query are not contiguous."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from structsvm.common.checks import BadInput
from structsvm.common.tables.ids import IdColumn, reread
from structsvm.protocols import Int
from structsvm.queries import stacked
from structsvm.readers.store import StoreWriter, naming

_RUN_BYTES = 3 << 24
"""Number of bytes of rows that are sorted at once and read back at once."""


class Apart(Exception):
    """Raised if rows cannot be written in file order, because a query continues after another began."""


def write_in_attempts(write: Callable[[bool], None], columns: Collection[IdColumn]) -> None:
    """Call ``write`` until it succeeds; repeat it if the type of the ids in ``columns`` changes while they are read.

    The argument of ``write`` is False at first, and True after an attempt found that the rows of a query are not
    contiguous.
    """
    try:
        reread(partial(write, False), columns)
    except Apart:
        reread(partial(write, True), columns)


def query_writer(writer: StoreWriter, apart: bool, column: IdColumn) -> Any:
    """Return a writer of rows to a store, whose query ids are spelled by ``column``."""
    return GatheringWriter(writer, column) if apart else QueryWriter(writer, column)


class QueryWriter:
    """Append rows to a store block by block; the last query of a block is held back until the next block arrives."""

    def __init__(self, writer: StoreWriter, column: IdColumn) -> None:
        self._writer, self._column = writer, column
        self._seen: set[Any] = set()
        self._held: list[Any] = []
        self._last: Any = None

    def add(self, X: Any, y: Any, docid: Any, ids: list[Any], lengths: Int) -> None:
        """Append the rows of queries ``ids`` in order; ``y`` and ``docid`` are given in every block or in none."""
        rows = [X, y, docid]
        if self._held:
            n_held = self._held[0].shape[0]
            rows = [stacked([old, new]) for old, new in zip(self._held, rows, strict=True)]
            if ids[0] == self._last:
                lengths = np.append(lengths[0] + n_held, lengths[1:])
            else:
                ids, lengths = [self._last, *ids], np.append(n_held, lengths)
        fresh = set(ids)
        if len(fresh) < len(ids) or not fresh.isdisjoint(self._seen):
            raise Apart
        self._seen |= fresh - {ids[-1]}
        end = int(lengths[:-1].sum())
        if end:
            self._append([None if one is None else one[:end] for one in rows], ids[:-1], lengths[:-1])
        self._held = [None if one is None else one[end:].copy() for one in rows]
        self._last = ids[-1]

    def finish(self) -> None:
        """Append the last query, after the ids are settled."""
        if not self._held:
            raise BadInput(self._column.place, "expected rows, got none")
        self._append(self._held, [self._last], np.array([self._held[0].shape[0]]))

    def _append(self, rows: list[Any], ids: list[Any], lengths: Int) -> None:
        X, y, docid = rows
        # the store converts ids to text if some of a later block are text
        self._writer.append(X, y, lengths, self._column.ids(ids), docid=docid)


class _Stored(NamedTuple):
    """An array in the file of runs."""

    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class _Run(NamedTuple):
    """Rows on disk, sorted by query."""

    codes: NDArray[Any]
    """Query numbers of the rows, memory-mapped: a search touches only a few pages."""

    columns: list[list[_Stored]]
    """Arrays of query numbers, X, y, document ids and row numbers: one array each, three for a sparse X, none for a
    missing column."""


class GatheringWriter:
    """Sort rows by query on disk and append them at the end; memory grows with the queries, not with the rows.

    This is an external merge sort. Rows are collected up to 48 MB, sorted by query, and written as a run. Then queries
    of about 48 MB at a time, which are contiguous in each run, are read from all runs and appended. Queries are
    numbered in the order of their first rows and each sort is stable, as in :func:`~structsvm.queries.group_queries`.
    """

    def __init__(self, writer: StoreWriter, column: IdColumn) -> None:
        self._writer, self._column = writer, column
        self._file: IO[bytes] = writer.temporary("runs")
        self._number: dict[Any, int] = {}
        self._counts = np.zeros(0, dtype=np.int64)
        self._held: list[tuple[Any, ...]] = []
        self._held_bytes = self._n_rows = 0
        self._runs: list[_Run] = []
        self._last, self._ascending = 0, True

    def add(self, X: object, y: ArrayLike, docid: ArrayLike, ids: list[Any], lengths: Int) -> None:
        """Add rows whose query ids are ``ids``, each repeated ``lengths`` times."""
        number = self._number
        codes = np.array([number.setdefault(one, len(number)) for one in ids], dtype=np.int64)
        self._ascending &= bool((np.diff(codes, prepend=self._last) >= 0).all())
        self._last = int(codes[-1])
        codes = np.repeat(codes, lengths)
        counts = np.bincount(codes, minlength=len(number))
        counts[: self._counts.size] += self._counts
        self._counts = counts
        rows = np.arange(self._n_rows, self._n_rows + codes.size)
        self._n_rows += codes.size
        self._held.append((codes, X, y, docid, rows))
        self._held_bytes += sum(_bytes_of(one) for one in self._held[-1])
        if self._held_bytes >= _RUN_BYTES:
            self._write_run()

    def _write_run(self) -> None:
        columns = [stacked(column) for column in zip(*self._held, strict=True)]
        self._held, self._held_bytes = [], 0
        order = np.argsort(columns[0], kind="stable")
        written = []
        while columns:
            column = columns.pop(0)
            with naming(self._writer.path):
                written.append([] if column is None else self._write(column[order]))
        with naming(self._writer.path):
            self._file.flush()
        (codes,) = written[0]
        self._runs.append(_Run(np.memmap(self._file, codes.dtype, "r", codes.start, codes.shape), written))

    def _write(self, column: Any) -> list[_Stored]:
        arrays = [column.indptr, column.indices, column.data] if hasattr(column, "indptr") else [column]
        written = []
        for array in arrays:
            written.append(_Stored(self._file.tell(), array.dtype, array.shape))
            self._file.write(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
        return written

    def finish(self) -> None:
        """Append all queries, after the ids are settled."""
        ids = self._column.ids(list(self._number))
        if self._held:
            self._write_run()
        bytes_of_row = max(1, self._file.tell() // self._n_rows)
        ends, first, at = np.cumsum(self._counts), 0, np.zeros(len(self._runs), dtype=np.int64)
        while first < len(ids):
            done = ends[first] - self._counts[first]
            last = max(first + 1, int(np.searchsorted(ends, done + _RUN_BYTES // bytes_of_row, side="right")))
            to = np.array([np.searchsorted(run.codes, last) for run in self._runs])
            codes, X, y, docid, rows = map(stacked, zip(*self._read(at, to), strict=True))
            order = np.argsort(codes, kind="stable")
            self._writer.append(
                X[order],
                None if y is None else y[order],
                self._counts[first:last],
                ids[first:last],
                docid=None if docid is None else docid[order],
                order=None if self._ascending else rows[order],
            )
            first, at = last, to
        self._runs.clear()  # closes the memory maps before the file is deleted
        self._file.close()

    def _read(self, first: Int, last: Int) -> Iterator[tuple[Any, ...]]:
        """Yield the rows ``first`` to ``last`` of each run, if any."""
        for run, a, b in zip(self._runs, first.tolist(), last.tolist(), strict=True):
            if a < b:
                yield tuple(self._rows_of(arrays, a, b) for arrays in run.columns)

    def _rows_of(self, arrays: list[_Stored], a: int, b: int) -> Any:
        if not arrays:
            return None
        if len(arrays) == 1:
            return self._part(arrays[0], a, b)
        indptr = self._part(arrays[0], a, b + 1)
        indices, data = (self._part(one, int(indptr[0]), int(indptr[-1])) for one in arrays[1:])
        return sparse.csr_matrix((data, indices, indptr - indptr[0]), shape=(b - a, self._writer.n_features))

    def _part(self, array: _Stored, a: int, b: int) -> NDArray[Any]:
        width = int(np.prod(array.shape[1:], dtype=np.int64))
        self._file.seek(array.start + a * width * array.dtype.itemsize)
        return np.fromfile(self._file, array.dtype, (b - a) * width).reshape(b - a, *array.shape[1:])


def _bytes_of(column: Any) -> int:
    if column is None:
        return 0
    return int(column.data.nbytes + column.indices.nbytes if hasattr(column, "indptr") else column.nbytes)
