"""LETOR and SVMlight text: ``<grade> qid:<id> <k>:<v> ... # docid = <id>``, read at the speed of memory.

Two passes over the bytes, each in chunks of whole lines that threads share: one counts lines and entries, one
parses straight into the arrays that are returned. Numbers are those of Python's ``float()`` to the last bit:
Clinger's exact case (at most 53 bits of digits, power of ten up to 22), else the 128-bit product of Eisel and
Lemire (D. Lemire, "Number parsing at a gigabyte per second", 2021), and ``float()`` itself where that is
undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse as scipy_sparse

from structsvm.files import read_text, replacing
from structsvm.protocols import Float, Int
from structsvm.queries import QueryData, group_queries

__all__ = ["read_letor", "write_letor"]

GRAMMAR = "<grade> qid:<id> <k>:<v> ..."
SPARSE_BELOW = 0.1
_CHUNK_BYTES = 1 << 21
_MAX_COLUMN = 2**31 - 1
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Lengths = NDArray[np.int32]
_T = TypeVar("_T")
_R = TypeVar("_R")


def read_letor(
    path: str | PathLike[str],
    *,
    n_features: int | None = None,
    dtype: Any = np.float64,
    sparse: bool | Literal["auto"] = "auto",
    one_based: bool = True,
    fill: float | None = None,
    query_sizes: str | PathLike[str] | Iterable[int] | None = None,
    n_jobs: int = -1,
) -> QueryData:
    """Read a LETOR or SVMlight text file.

    Features may stand in any order and may be missing (they are 0). Blank lines and lines with only a comment
    are skipped. The rows of one query may be apart; they are gathered, in their order.

    Parameters
    ----------
    path : path
        Plain, gzip, bzip2 or xz, told by the first bytes. UTF-8; line ends ``\\n`` or ``\\r\\n``.
    n_features : int, optional
        Number of columns of ``X``; a larger feature index is an error. Default: the largest index in the
        file. State it for a test set whose last features may all be missing.
    dtype : {float64, float32}
        Type of ``X``. Numbers are read as float64 and rounded once.
    sparse : {"auto", True, False}
        Whether ``X`` is a CSR matrix (of non-zero values). "auto": if fewer than a tenth of the cells are
        stated in the file, where ``:`` are counted (a dense product is about ten times as fast per cell).
    one_based : bool
        Whether feature ``k`` is column ``k - 1`` (LETOR, SVMlight) or column ``k``.
    fill : float, optional
        Stands in for ``nan`` features. Default: they are an error. Infinite values always are.
    query_sizes : path or iterable of int, optional
        For files without ``qid:``: the number of rows of each query in turn, as an array or a text file of
        them (LightGBM's ``.query`` files). The queries are then numbered from 0.
    n_jobs : int
        Threads, as in joblib: -1 is one a processor. The result does not depend on it.

    Returns
    -------
    QueryData
        ``query_ids`` are int64 if each id in the file is a plain integer (``7``; not ``007``), else str.
        ``docid`` is what the comment states as ``docid = <id>``, else the stripped comment, ``""`` for a row
        without one, and None if no row has one.

    Raises
    ------
    ValueError
        With file, line, expectation and offender: for a line that is no such row, one without ``qid:``, a
        feature index below the first, above ``n_features`` or above 2^31, a feature given twice in a row, NaN
        or infinite numbers; for an empty, truncated or damaged file; for ``query_sizes`` that do not add up.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("2 qid:7 1:0.5 3:1 # docid = A\\n0 qid:7 2:1e-3\\n1 qid:9 1:1\\n")
    >>> data = read_letor(path)
    >>> data.X
    array([[0.5  , 0.   , 1.   ],
           [0.   , 0.001, 0.   ],
           [1.   , 0.   , 0.   ]])
    >>> data.y, data.query_ids, data.offsets, data.docid
    (array([2., 0., 1.]), array([7, 9]), array([0, 2, 3]), array(['A', '', ''], dtype='<U1'))
    """
    path = Path(path)
    options = check_options(
        n_features, dtype, sparse, one_based, fill, with_qid=query_sizes is None, n_jobs=n_jobs
    )
    text = read_text(path)
    rows = parse(text, options, Place(path, 0))
    if rows is None:
        raise ValueError(f"{path}: expected rows '{GRAMMAR}', got an empty file")
    if rows.width == 0:
        raise ValueError(
            f"{path}: expected at least one feature, got none; state n_features= if that is right"
        )
    if query_sizes is None:
        ids: Any = np.repeat(identify(rows.ids), rows.run_lengths)
    else:
        ids = _ids_from_sizes(query_sizes, rows.y.shape[0], path)
    grouping = group_queries(ids, rows.y.shape[0])
    del ids
    X, y, docid, order = rows.X, rows.y, rows.docid, grouping.order
    if order is not None:
        X, y = X[order], y[order]
        docid = None if docid is None else docid[order]
    return QueryData(X, y, grouping.offsets, grouping.query_ids, docid, order)


def write_letor(data: QueryData, path: str | PathLike[str]) -> None:
    """Write LETOR text that :func:`read_letor` reads back bit for bit.

    Features are numbered from 1. A dense matrix is written whole, zeros included; of a CSR matrix the stored
    values. Compressed if ``path`` ends in ``.gz``, ``.bz2`` or ``.xz``. The file appears when it is complete;
    if writing fails, an earlier file stays.

    Parameters
    ----------
    data : QueryData
    path : path

    Raises
    ------
    ValueError
        If an id has white space or ``#`` in it: the format cannot say that.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.txt")
    >>> write_letor(QueryData.from_arrays([[0.1, 2.0]], [1], ["q"], docid=["D 1".replace(" ", "-")]), path)
    >>> path.read_text()
    '1 qid:q 1:0.1 2:2 # docid = D-1\\n'
    """
    path = Path(path)
    for query in data.query_ids.tolist():
        _check_word(query, "query id")
    with replacing(path) as file:
        for q, query in enumerate(data.query_ids.tolist()):
            first, last = int(data.offsets[q]), int(data.offsets[q + 1])
            block: Any = data.X[first:last]
            lines = []
            for i, (columns, values) in enumerate(_entries(block)):
                row = first + i
                words = [_number_text(data.y[row]), f"qid:{query}"]
                words += [f"{k + 1}:{_number_text(v)}" for k, v in zip(columns, values, strict=True)]
                if data.docid is not None and data.docid[row]:
                    words.append(f"# docid = {_check_word(data.docid[row], 'docid')}")
                lines.append(" ".join(words) + "\n")
            file.write("".join(lines).encode())


def _entries(block: Any) -> Iterable[tuple[list[int], Any]]:
    """The columns and values of each row."""
    if not isinstance(block, np.ndarray):
        for a, b in zip(block.indptr[:-1], block.indptr[1:], strict=True):
            yield block.indices[a:b].tolist(), block.data[a:b]
    else:
        columns = list(range(block.shape[1]))
        for row in block:
            yield columns, row


def _number_text(value: Any) -> str:
    """The shortest decimal that reads back as ``value``."""
    text = str(value)
    if type(value)(float(text)) != value:  # a float32 is read by way of float64
        text = repr(float(value))
    return text.removesuffix(".0")


def _check_word(word: Any, what: str) -> str:
    text = str(word)
    if not text or "#" in text or text.split() != [text]:
        raise ValueError(
            f"{what} {text!r}: expected a word without white space or '#'; LETOR text has no quotes"
        )
    return text


class Place(NamedTuple):
    """Where a block of text stands, for messages: its file and how many lines come before it."""

    path: Path
    lines_before: int


@dataclass(frozen=True)
class Options:
    """How to read rows; see :func:`read_letor`."""

    n_features: int | None
    dtype: Any
    sparse: bool | Literal["auto"]
    base: int
    fill: float
    with_qid: bool
    n_jobs: int


def check_options(
    n_features: int | None,
    dtype: Any,
    sparse: bool | Literal["auto"],
    one_based: bool,
    fill: float | None,
    *,
    with_qid: bool,
    n_jobs: int,
) -> Options:
    from joblib import effective_n_jobs

    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype: expected float32 or float64, got {np.dtype(dtype)}")
    if sparse not in ("auto", True, False):
        raise ValueError(f"sparse: expected True, False or 'auto', got {sparse!r}")
    if n_features is not None and not 1 <= n_features <= _MAX_COLUMN + 1:
        raise ValueError(f"n_features: expected 1 to 2^31, got {n_features}")
    if fill is not None and not np.isfinite(np.dtype(dtype).type(fill)):
        raise ValueError(f"fill: expected a finite number, got {fill}")
    return Options(
        n_features,
        np.dtype(dtype),
        sparse,
        int(one_based),
        np.nan if fill is None else float(fill),
        with_qid,
        effective_n_jobs(n_jobs),
    )


class Size(NamedTuple):
    """What one look over a text says: its rows, about how many features it states, and its probable width."""

    n_rows: int
    n_stated: int
    width: int


@dataclass(frozen=True)
class Rows:
    """Parsed rows in file order. ``ids`` are the query ids as written, one a run of equal rows."""

    X: Any
    y: Float
    ids: list[str]
    run_lengths: Int
    docid: NDArray[np.str_] | None
    width: int


def is_sparse(options: Options, size: Size) -> bool:
    """The rule of ``sparse="auto"``."""
    if options.sparse != "auto":
        return bool(options.sparse)
    return size.n_stated < SPARSE_BELOW * size.n_rows * max(1, size.width)


def measure(text: Bytes, options: Options) -> tuple[Size, list[tuple[int, int]], Int]:
    """Count rows and features: for the whole text and, as columns (rows, stated), for each chunk of it."""
    chunks = _cut(text)
    found = _share(lambda chunk: _count(text, chunk[0], chunk[1]), chunks, options.n_jobs)
    counts = np.array(found, dtype=np.int64).reshape(-1, 3)
    if options.with_qid:
        counts[:, 1] = np.maximum(counts[:, 1] - counts[:, 0], 0)  # one colon a row is that of qid
    width = options.n_features or int(counts[:, 2].max(initial=0)) + 1 - options.base
    if width > _MAX_COLUMN + 1:
        width = 1  # a fault, or a number in a comment: nothing to allocate for
    return Size(int(counts[:, 0].sum()), int(counts[:, 1].sum()), width), chunks, counts[:, :2]


def parse(text: Bytes, options: Options, place: Place) -> Rows | None:
    """The rows of a text of whole lines; None if it has none."""
    size, chunks, counts = measure(text, options)
    if size.n_rows == 0:
        return None
    if options.with_qid:
        # a line may lack its qid, so the chunk may state one feature more a line than the count says
        counts[:, 1] += counts[:, 0]
    while True:
        rows = _parse_as(text, options, place, size, chunks, counts)
        if options.n_features is not None or rows.width == size.width:
            return rows
        # the guess took the last index of each line (or a comment) for its largest; the file is unsorted
        size = size._replace(width=rows.width)


def _parse_as(
    text: Bytes,
    options: Options,
    place: Place,
    size: Size,
    chunks: list[tuple[int, int]],
    counts: Int,
) -> Rows:
    as_sparse = is_sparse(options, size)
    n, width = size.n_rows, max(1, size.width)
    y = np.empty(n)
    qid_at, note_at = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    qid_len, note_len = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    first_row, first_entry = (np.concatenate(([0], np.cumsum(c))) for c in counts.T)
    if as_sparse:
        X = np.empty((0, 0), dtype=options.dtype)
        data = np.empty(first_entry[-1], dtype=options.dtype)
        indices = np.empty(first_entry[-1], dtype=np.int32)
        row_nnz = np.empty(n, dtype=np.int64)
    else:
        X = np.zeros((n, width), dtype=options.dtype)
        data, indices = np.empty(0, dtype=options.dtype), np.empty(0, dtype=np.int32)
        row_nnz = np.empty(0, dtype=np.int64)
    limit = min(width - 1, _MAX_COLUMN) if options.n_features is not None else _MAX_COLUMN
    exact, high, low = power_tables()

    def work(i: int) -> Any:
        return _parse_lines(
            text, *chunks[i], first_row[i], first_entry[i], not as_sparse, X, data, indices, row_nnz,
            y, qid_at, qid_len, note_at, note_len,
            limit, options.base, options.with_qid, options.fill,
            exact, high, low,
        )  # fmt: skip

    outcomes = _share(work, range(len(chunks)), options.n_jobs)
    faults = [(o.at, o.code) for o, _ in outcomes if o.code != _OK]
    for _, rare in outcomes:
        for at, end, target in rare.tolist():
            code = _settle(text[at:end].tobytes(), target, as_sparse, X, data, y)
            if code != _OK:
                faults.append((at, code))
    if faults:
        _refuse(text, *min(faults), options, place)
    found_width = options.n_features or max(o.max_column for o, _ in outcomes) + 1
    if options.n_features is not None or found_width == size.width:
        if as_sparse:
            written = np.array([o.n_entries for o, _ in outcomes], dtype=np.int64)
            X = _csr(data, indices, row_nnz, first_entry, written, found_width)
            if any(o.unsorted for o, _ in outcomes):
                X.sort_indices()
        docid = _strings(text, note_at, note_len) if note_len.any() else None
        starts = _runs(text, qid_at, qid_len) if options.with_qid else np.zeros(1, dtype=np.int64)
        ids = (
            [_decode(text, qid_at[i], qid_len[i], place) for i in starts.tolist()] if options.with_qid else []
        )
        return Rows(X, y, ids, np.diff(np.append(starts, n)), docid, found_width)
    return Rows(None, y, [], np.empty(0, dtype=np.int64), None, found_width)


def _settle(token: bytes, target: int, as_sparse: bool, X: Any, data: Any, y: Float) -> int:
    """Let Python read a number that the kernel could not decide, and put it where it belongs."""
    value = float(token)
    if target < 0:
        y[-1 - target] = value
        return _OK if np.isfinite(value) else _BAD_GRADE
    flat = data if as_sparse else X.reshape(-1)
    with np.errstate(over="ignore"):
        flat[target] = value
    return _OK if np.isfinite(flat[target]) else _INFINITE


def _csr(data: Any, indices: Any, row_nnz: Int, first: Int, written: Int, width: int) -> Any:
    """A CSR matrix of the entries, closed up in place: chunk ``i`` wrote ``written[i]`` from ``first[i]``."""
    end = 0
    for start, count in zip(first[:-1].tolist(), written.tolist(), strict=True):
        if start != end:
            data[end : end + count] = data[start : start + count]
            indices[end : end + count] = indices[start : start + count]
        end += count
    indptr = np.concatenate(([0], np.cumsum(row_nnz)))
    if end <= _MAX_COLUMN:
        indptr = indptr.astype(np.int32)
    return scipy_sparse.csr_matrix(
        (data[:end], indices[:end], indptr), shape=(row_nnz.shape[0], width), copy=False
    )


def _cut(text: Bytes) -> list[tuple[int, int]]:
    """Byte ranges of whole lines, about ``_CHUNK_BYTES`` each."""
    edges = [0]
    while edges[-1] < text.shape[0]:
        edges.append(_line_end(text, min(edges[-1] + _CHUNK_BYTES, text.shape[0]) - 1))
    return list(pairwise(edges))


def _line_end(text: Bytes, at: int) -> int:
    """The start of the line after the one that ``at`` is in."""
    step = 1 << 12
    while True:
        hits = np.flatnonzero(text[at : at + step] == 10)
        if hits.size:
            return at + int(hits[0]) + 1
        at += step


def _share(work: Callable[[_T], _R], items: Iterable[_T], n_threads: int) -> list[_R]:
    items = list(items)
    if n_threads == 1 or len(items) == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, items))


def identify(words: list[str]) -> NDArray[Any]:
    """Ids as int64 if each is written as Python would write the number, else as str."""
    try:
        numbers = np.array([int(word) for word in words], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(words, dtype=np.str_)
    if all(str(number) == word for number, word in zip(numbers.tolist(), words, strict=True)):
        return numbers
    return np.array(words, dtype=np.str_)


def _ids_from_sizes(sizes: Any, n_rows: int, path: Path) -> Int:
    where = "query_sizes"
    if isinstance(sizes, (str, PathLike)):
        where = str(sizes)
        words = read_text(Path(sizes)).tobytes().decode("utf-8", "replace").split()
        bad = next((word for word in words if not word.isdecimal()), None)
        if bad is not None:
            raise ValueError(f"{where}: expected the number of rows of each query, got {shorten(bad)}")
        sizes = [int(word) for word in words]
    lengths = np.asarray(list(sizes), dtype=np.int64)
    if lengths.ndim != 1 or (lengths < 1).any() or lengths.sum() != n_rows:
        raise ValueError(
            f"{where}: expected positive sizes that add up to the {n_rows} rows of {path}, "
            f"got {lengths.size} sizes that add up to {lengths.sum()}"
        )
    return np.repeat(np.arange(lengths.size, dtype=np.int64), lengths)


def _strings(text: Bytes, at: Int, length: Lengths) -> NDArray[np.str_]:
    """The words at these places, as a fixed-width array."""
    width = max(1, int(length.max()))
    points = np.zeros((at.shape[0], width), dtype=np.uint32)
    if _copy_ascii(text, at, length, points):
        return points.view(f"<U{width}").ravel()
    return np.array(
        [
            text[a : a + k].tobytes().decode("utf-8", "replace")
            for a, k in zip(at.tolist(), length.tolist(), strict=True)
        ]
    )


def _decode(text: Bytes, at: int, length: int, place: Place) -> str:
    try:
        return text[at : at + length].tobytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{_line(text, at, place)}: expected UTF-8, got {shorten(text[at : at + length].tobytes())}"
        ) from error


def _line(text: Bytes, at: int, place: Place) -> str:
    return f"{place.path}:{place.lines_before + 1 + int(np.count_nonzero(text[:at] == 10))}"


def shorten(offender: bytes | str, width: int = 40) -> str:
    """An offender as it can be shown: control characters escaped, cut to ``width``."""
    text = offender.decode("utf-8", "backslashreplace") if isinstance(offender, bytes) else offender
    shown = ascii(text) if not text.isprintable() else f"'{text}'"
    return shown if len(shown) <= width else shown[: width - 4] + "...'"


def _refuse(text: Bytes, at: int, code: int, options: Options, place: Place) -> None:
    end = at
    while text[end] not in (9, 10, 11, 12, 13, 32, 35):
        end += 1
    got = shorten(text[at:end].tobytes()) if end > at else "the end of the line"
    key = got.partition(":")[0].lstrip("'")
    grammar = GRAMMAR if options.with_qid else "<grade> <k>:<v> ..."
    first = options.base
    last = options.n_features - 1 + first if options.n_features is not None else _MAX_COLUMN + first
    reason = {
        _MALFORMED: f"expected '{grammar}', got {got}",
        _NO_QID: f"expected '{grammar}', got {got} in place of 'qid:<id>'; if the file has no query ids, "
        "state the rows of each query as query_sizes=",
        _QID_AND_SIZES: f"expected '{grammar}' since query_sizes is stated, got {got}; state one of the two",
        _INDEX_LOW: f"expected feature indices from {first}, got {got}; "
        "one_based=False is for files that count from 0",
        _INDEX_HIGH: f"expected feature indices up to {last}"
        + (" (n_features)" if options.n_features is not None else "")
        + f", got {got}",
        _TWICE: f"expected each feature once a row, got feature {key} twice",
        _NAN: f"expected finite features, got {got}; state a value for missing ones as fill=",
        _INFINITE: f"expected finite {options.dtype} features, got {got}; clip the value or drop the row",
        _BAD_GRADE: f"expected a finite grade, got {got}; grade the row or drop it",
    }[code]
    raise ValueError(f"{_line(text, at, place)}: {reason}")


@cache
def power_tables() -> tuple[Float, Words, Words]:
    """``10^0 ... 10^22`` as floats, and the leading 128 bits of ``5^-342 ... 5^308`` (high, low)."""
    exact = np.array([float(10**k) for k in range(23)])
    leading = []
    for q in range(-342, 309):
        if q >= 0:
            power = 5**q
            shift = 128 - power.bit_length()
            leading.append(power << shift if shift >= 0 else power >> -shift)
        else:
            power = 5**-q
            bits = power.bit_length()
            # 1 / 5^-q: rounded up where a tie between floats can arise (q >= -27), else cut off
            if q >= -27:
                leading.append((1 << (bits + 127)) // power + 1)
            else:
                reciprocal = (1 << (2 * bits + 128)) // power
                leading.append(reciprocal >> (reciprocal.bit_length() - 128))
    high = np.array([v >> 64 for v in leading], dtype=np.uint64)
    low = np.array([v & (2**64 - 1) for v in leading], dtype=np.uint64)
    for table in (exact, high, low):
        table.flags.writeable = False
    return exact, high, low


# Kernels. Every line ends in a line feed, which no token contains: the scan of a token needs no bound.

_OK, _MALFORMED, _NO_QID, _QID_AND_SIZES, _INDEX_LOW, _INDEX_HIGH, _TWICE, _NAN, _INFINITE, _BAD_GRADE = (
    range(10)
)
_WORD_NAN, _WORD_INF, _NOT_A_NUMBER, _UNDECIDED = 1, 2, 3, 4
_LF, _HASH, _COLON = 10, 35, 58


class _Outcome(NamedTuple):
    """What a chunk of lines came to: ``code`` is _OK or the fault at byte ``at``."""

    code: int
    at: int
    max_column: int
    n_entries: int
    unsorted: bool


@njit(cache=True, nogil=True)
def _blank(c: Any) -> bool:
    return bool(c == 32 or (9 <= c <= 13 and c != 10))


@njit(cache=True, nogil=True)
def _count(buf: Bytes, start: int, end: int) -> tuple[int, int, int]:
    """Rows, colons and the largest index that looks like the last of a line, in ``buf[start:end]``."""
    rows = colons = last = 0
    line = start
    p = start
    while p < end:
        stop = min(p + 64, end)
        feeds = 0
        for j in range(p, stop):  # two plain sums: the compiler makes them one vector operation each
            feeds += buf[j] == 10
            colons += buf[j] == 58
        if feeds:
            for j in range(p, stop):
                if buf[j] == 10:
                    k = line
                    while _blank(buf[k]):
                        k += 1
                    if buf[k] != 10 and buf[k] != 35:
                        rows += 1
                        k = j - 1
                        while k > line and not (buf[k] == 58 and 48 <= buf[k - 1] <= 57):
                            k -= 1
                        value, unit = 0, 1
                        k -= 1
                        while k > line and 48 <= buf[k] <= 57 and unit < 10_000_000_000:
                            value += (buf[k] - 48) * unit
                            unit *= 10
                            k -= 1
                        if _blank(buf[k]):
                            last = max(last, value)
                    line = j + 1
        p = stop
    return rows, colons, last


@njit(cache=True, nogil=True)
def _parse_lines(
    buf: Bytes, start: int, end: int, row: int, entry: int, dense: bool,
    X: Any, data: Any, indices: Lengths, row_nnz: Int,
    y: Float, qid_at: Int, qid_len: Lengths, note_at: Int, note_len: Lengths,
    limit: int, base: int, with_qid: bool, fill: float, exact: Float, high: Words, low: Words,
) -> tuple[_Outcome, Int]:  # fmt: skip
    """Parse the lines of ``buf[start:end]`` into rows from ``row`` on (entries from ``entry`` on).

    Returns an _Outcome and the numbers that Python must settle: (start, end, place in X; -1 - row for a
    grade).
    """
    rare = np.empty((4, 3), dtype=np.int64)
    n_rare = 0
    max_column = -1
    unsorted = False
    first_entry = entry
    width = X.shape[1]
    p = start
    while p < end:
        while _blank(buf[p]):
            p += 1
        if buf[p] == 10:
            p += 1
            continue
        if buf[p] == 35:
            while buf[p] != 10:
                p += 1
            p += 1
            continue
        at = p
        value, p, kind = _number(buf, p, exact, high, low)
        if kind == 3 or not (_blank(buf[p]) or buf[p] == 10 or buf[p] == 35):
            return _Outcome(1, at, max_column, entry - first_entry, unsorted), rare[:n_rare]
        if kind == 4:
            if n_rare == rare.shape[0]:
                rare = _longer(rare)
            rare[n_rare, 0], rare[n_rare, 1], rare[n_rare, 2] = at, p, -1 - row
            n_rare += 1
        elif not np.isfinite(value):
            return _Outcome(9, at, max_column, entry - first_entry, unsorted), rare[:n_rare]
        y[row] = value
        while _blank(buf[p]):
            p += 1
        is_qid = buf[p] == 113 and buf[p + 1] == 105 and buf[p + 2] == 100 and buf[p + 3] == 58
        if is_qid != with_qid:
            return _Outcome(2 if with_qid else 3, p, max_column, entry - first_entry, unsorted), rare[:n_rare]
        if is_qid:
            at = p
            p += 4
            qid_at[row] = p
            while not (_blank(buf[p]) or buf[p] == 10 or buf[p] == 35):
                p += 1
            qid_len[row] = p - qid_at[row]
            if qid_len[row] == 0:
                return _Outcome(1, at, max_column, entry - first_entry, unsorted), rare[:n_rare]
        features = p
        row_start = entry
        previous = -1
        ascending = True
        while True:
            while _blank(buf[p]):
                p += 1
            if buf[p] == 10 or buf[p] == 35:
                break
            at = p
            k = 0
            while 48 <= buf[p] <= 57:
                k = min(k * 10 + (buf[p] - 48), 10_000_000_000)
                p += 1
            if p == at or buf[p] != 58:
                return _Outcome(1, at, max_column, entry - first_entry, unsorted), rare[:n_rare]
            number_at = p + 1
            # the usual number, without passing an array on (each call counts references to it, and threads
            # contend for the counter): 18 digits or less and no exponent; to 2^53 one division of exact
            # numbers is correct
            p = number_at + (buf[number_at] == 45)
            m = np.int64(0)
            first_digit = p
            while 48 <= buf[p] <= 57:
                m = m * 10 + (buf[p] - 48)
                p += 1
            digits = p - first_digit
            places = 0
            if buf[p] == 46:
                p += 1
                point = p
                while 48 <= buf[p] <= 57:
                    m = m * 10 + (buf[p] - 48)
                    p += 1
                places = p - point
                digits += places
            kind = 0
            value = np.nan
            if 0 < digits <= 18 and (buf[p] | 32) != 101:
                if m <= 9007199254740992:
                    value = m / exact[places]
                else:
                    value = _scale(m, -places, high[342 - places], low[342 - places])
                if buf[number_at] == 45:
                    value = -value
            if np.isnan(value):
                value, p, kind = _number(buf, number_at, exact, high, low)
            if kind == 3 or not (_blank(buf[p]) or buf[p] == 10 or buf[p] == 35):
                return _Outcome(1, at, max_column, entry - first_entry, unsorted), rare[:n_rare]
            column = k - base
            if column < 0:
                return _Outcome(4, at, max_column, entry - first_entry, unsorted), rare[:n_rare]
            if column > limit:
                return _Outcome(5, at, max_column, entry - first_entry, unsorted), rare[:n_rare]
            if kind == 1:
                value = fill
                if np.isnan(fill):
                    return _Outcome(7, number_at, max_column, entry - first_entry, unsorted), rare[:n_rare]
            if column <= previous:
                ascending = False
            previous = column
            max_column = max(max_column, column)
            if dense:
                target = row * width + column
                if column < width:
                    X[row, column] = value
                    if not np.isfinite(X[row, column]) and kind != 4:
                        return _Outcome(8, number_at, max_column, entry - first_entry, unsorted), rare[
                            :n_rare
                        ]
                else:
                    continue  # wider than guessed: only the width matters, the text is parsed again
            else:
                target = entry
                if value == 0.0 and kind != 4:
                    continue
                data[entry] = value
                indices[entry] = column
                if not np.isfinite(data[entry]) and kind != 4:
                    return _Outcome(8, number_at, max_column, entry - first_entry, unsorted), rare[:n_rare]
                entry += 1
            if kind == 4:
                if n_rare == rare.shape[0]:
                    rare = _longer(rare)
                rare[n_rare, 0], rare[n_rare, 1], rare[n_rare, 2] = number_at, p, target
                n_rare += 1
        if not ascending:
            unsorted = True
            at = _first_repeat(buf, features)
            if at >= 0:
                return _Outcome(6, at, max_column, entry - first_entry, unsorted), rare[:n_rare]
        if not dense:
            row_nnz[row] = entry - row_start
        p, note_at[row], note_len[row] = _note(buf, p)
        p += 1
        row += 1
    return _Outcome(0, end, max_column, entry - first_entry, unsorted), rare[:n_rare]


@njit(cache=True, nogil=True)
def _longer(table: Int) -> Int:
    """A copy with room for twice as many rows."""
    longer = np.empty((2 * table.shape[0], table.shape[1]), dtype=np.int64)
    for i in range(table.shape[0]):  # element by element: slices and library sorts compile for seconds
        for j in range(table.shape[1]):
            longer[i, j] = table[i, j]
    return longer


@njit(cache=True, nogil=True)
def _first_repeat(buf: Bytes, p: int) -> int:
    """Where the well-formed features from ``p`` on name one a second time; -1 if they do not."""
    start = p
    n = 0
    while buf[p] != 10 and buf[p] != 35:
        n += buf[p] == 58
        p += 1
    keys = np.empty(n, dtype=np.int64)
    n = 0
    p = start
    while True:
        while _blank(buf[p]):
            p += 1
        if buf[p] == 10 or buf[p] == 35:
            break
        k = 0
        at = p
        while buf[p] != 58:
            k = k * 10 + (buf[p] - 48)
            p += 1
        keys[n] = (k << 31) | (at - start)  # sorted by feature, then by place; a line is shorter than 2 GB
        n += 1
        while not (_blank(buf[p]) or buf[p] == 10 or buf[p] == 35):
            p += 1
    gap = n
    while gap > 1:  # Shell's sort
        gap = max(1, gap * 5 // 11)
        for i in range(gap, n):
            key = keys[i]
            j = i
            while j >= gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                j -= gap
            keys[j] = key
    found = -1
    for i in range(1, n):
        if keys[i] >> 31 == keys[i - 1] >> 31:
            at = keys[i] & 0x7FFFFFFF
            if found < 0 or at < found:
                found = at
    return start + found if found >= 0 else -1


@njit(cache=True, nogil=True)
def _note(buf: Bytes, p: int) -> tuple[int, int, int]:
    """From the end of the features: the end of the line, and start and length of what the comment says."""
    if buf[p] == 10:
        return p, p, 0
    p += 1
    while _blank(buf[p]):
        p += 1
    start = p
    stop = p
    word = True
    while buf[p] != 10:
        if (
            word and buf[p] == 100 and buf[p + 1] == 111 and buf[p + 2] == 99
            and buf[p + 3] == 105 and buf[p + 4] == 100
        ):  # fmt: skip
            q = p + 5
            while _blank(buf[q]):
                q += 1
            if buf[q] == 61:
                q += 1
                while _blank(buf[q]):
                    q += 1
                start = q
                while not (_blank(buf[q]) or buf[q] == 10):
                    q += 1
                stop = q
                while buf[q] != 10:
                    q += 1
                return q, start, stop - start
        word = _blank(buf[p])
        p += 1
        if not word:
            stop = p
    return p, start, stop - start


@njit(cache=True, nogil=True)
def _number(buf: Bytes, p: int, exact: Float, high: Words, low: Words) -> tuple[float, int, int]:
    """The number at ``p``: value, end, and 0 or why there is no value (a word, no number, undecided)."""
    c = buf[p]
    negative = c == 45
    if negative or c == 43:
        p += 1
    start = p
    m = np.int64(0)
    while 48 <= buf[p] <= 57:
        m = m * 10 + (buf[p] - 48)
        p += 1
    digits = p - start
    power = 0
    if buf[p] == 46:
        p += 1
        point = p
        while 48 <= buf[p] <= 57:
            m = m * 10 + (buf[p] - 48)
            p += 1
        power = point - p
        digits -= power
    if digits == 0:
        return _word(buf, start, p, negative)
    stop = p
    explicit = 0
    if buf[p] == 101 or buf[p] == 69:
        p += 1
        down = buf[p] == 45
        if down or buf[p] == 43:
            p += 1
        if not 48 <= buf[p] <= 57:
            return 0.0, p, 3
        while 48 <= buf[p] <= 57:
            # far beyond any length of a mantissa that could bring it back
            explicit = min(explicit * 10 + (buf[p] - 48), 1_000_000_000_000)
            p += 1
        if down:
            explicit = -explicit
    dropped = False
    if digits > 18:
        m, power, dropped = _leading_digits(buf, start, stop)
    power += explicit
    if m <= 9007199254740992 and -22 <= power <= 22 and not dropped:
        value = m / exact[-power] if power < 0 else m * exact[power]
    elif m == 0 or power < -342:
        value = 0.0
    elif power > 308:
        value = np.inf
    else:
        value = _scale(m, power, high[power + 342], low[power + 342])
        if np.isnan(value) or (
            dropped and value != _scale(m + 1, power, high[power + 342], low[power + 342])
        ):
            return 0.0, p, 4
    return (-value if negative else value), p, 0


@njit(cache=True, nogil=True)
def _leading_digits(buf: Bytes, p: int, stop: int) -> tuple[Any, int, bool]:
    """The first 18 significant digits, their power of ten, and whether others were dropped."""
    m = np.int64(0)
    power: Any = 0
    kept: Any = 0
    fraction = False
    dropped: Any = False
    while p < stop:
        if buf[p] == 46:
            fraction = True
        else:
            d = np.int64(buf[p] - 48)
            if kept < 18:
                m = m * 10 + d
                kept += m > 0
                power -= fraction
            else:
                dropped |= d > 0
                power += not fraction
        p += 1
    return m, power, dropped


@njit(cache=True, nogil=True)
def _word(buf: Bytes, start: int, p: int, negative: bool) -> tuple[float, int, int]:
    """``nan``, ``inf`` or ``infinity`` in any case."""
    if p == start:
        a, b, c = (
            buf[p] | 32,
            buf[p + 1] | 32,
            buf[p + 2] | 32,
        )  # lower case; a line feed turns into no letter
        if a == 110 and b == 97 and c == 110:
            return np.nan, p + 3, 1
        if a == 105 and b == 110 and c == 102:
            p += 3
            tail = (105, 110, 105, 116, 121)
            same = 0
            while same < 5 and (buf[p + same] | 32) == tail[same]:
                same += 1
            if same == 5:
                p += 5
            return (-np.inf if negative else np.inf), p, 2
    return 0.0, p, 3


@njit(cache=True, nogil=True)
def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """High and low word of the 128-bit product."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    low = a0 * b0
    middle = a1 * b0 + (low >> half)
    other = a0 * b1 + (middle & mask)
    return a1 * b1 + (middle >> half) + (other >> half), (other << half) | (low & mask)


@njit(cache=True, nogil=True)
def _scale(m: Any, power: int, high: Any, low: Any) -> float:
    """The float nearest to ``m * 10^power`` for 0 < m < 2^63 (Eisel, Lemire); NaN where that is undecided.

    ``high`` and ``low`` are the leading bits of ``5^power``.
    """
    w = np.uint64(m)
    shift = 0
    for step in (32, 16, 8, 4, 2, 1):
        if (w >> np.uint64(64 - step)) == np.uint64(0):
            w <<= np.uint64(step)
            shift += step
    hi, lo = _product(w, high)
    if (hi & np.uint64(0x1FF)) == np.uint64(0x1FF):
        more, _ = _product(w, low)
        lo += more
        if lo < more:
            hi += np.uint64(1)
        if lo == np.uint64(0xFFFFFFFFFFFFFFFF) and not -27 <= power <= 55:
            return np.nan
    upper = np.int64(hi >> np.uint64(63))
    cut = np.uint64(upper + 9)
    bits = hi >> cut
    exponent = ((217706 * power) >> 16) + 63 + upper - shift + 1023
    if exponent <= 0:
        if 1 - exponent >= 64:
            return 0.0
        bits >>= np.uint64(1 - exponent)
        bits += bits & np.uint64(1)
        bits >>= np.uint64(1)
        # a carry into the hidden bit makes the smallest normal number: its bit is the exponent 1
        return np.uint64(bits).view(np.float64)
    if (
        lo <= np.uint64(1)
        and -4 <= power <= 23
        and (bits & np.uint64(3)) == np.uint64(1)
        and (bits << cut) == hi
    ):
        bits &= ~np.uint64(1)  # exactly between two floats: to the even one
    bits += bits & np.uint64(1)
    bits >>= np.uint64(1)
    if bits >= np.uint64(1 << 53):
        bits = np.uint64(1 << 52)
        exponent += 1
    if exponent >= 2047:
        return np.inf
    bits = (bits & np.uint64((1 << 52) - 1)) | (np.uint64(exponent) << np.uint64(52))
    return np.uint64(bits).view(np.float64)


@njit(cache=True, nogil=True)
def _runs(buf: Bytes, at: Int, length: Lengths) -> Int:
    """The rows whose word differs from that of the row before."""
    starts = np.empty(at.shape[0], dtype=np.int64)
    n = 0
    for i in range(at.shape[0]):
        same = i > 0 and length[i] == length[i - 1]
        if same:
            for j in range(length[i]):
                if buf[at[i] + j] != buf[at[i - 1] + j]:
                    same = False
                    break
        if not same:
            starts[n] = i
            n += 1
    return starts[:n].copy()


@njit(cache=True, nogil=True)
def _copy_ascii(buf: Bytes, at: Int, length: Lengths, points: Any) -> bool:
    """Copy words as code points; False if one is not ASCII."""
    for i in range(at.shape[0]):
        for j in range(length[i]):
            c = buf[at[i] + j]
            if c > 127:
                return False
            points[i, j] = c
    return True
