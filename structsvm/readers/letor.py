"""LETOR and SVMlight text: ``<grade> qid:<id> <k>:<v> ... # docid = <id>``, read at nearly memory speed.

The bytes are read in two passes, each in chunks of whole lines that threads share. The first counts lines and entries;
the second parses directly into the arrays that are returned. The kernels are in
:mod:`structsvm.readers.letor_scanner`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse as scipy_sparse

from structsvm.common.checks import BadInput, check_choice, check_whole
from structsvm.common.files import MAX_LINE_BYTES, AnyPath, decode, read_lines, read_text, replacing, shorten
from structsvm.common.machine import count_threads, map_in_threads, memory_bytes
from structsvm.common.tables.ids import IdColumn, settled
from structsvm.protocols import Float, Int
from structsvm.queries import QueryData, group_ids, rows_in_groups
from structsvm.readers import letor_scanner as scanner

GRAMMAR = "<grade> qid:<id> <k>:<v> ..."
SPARSE_BELOW = 0.1
_CHUNK_BYTES = 1 << 21
_LONGEST_ID = 1024
"""Maximum number of bytes of a query id, as in TREC files."""
_MAX_COLUMN = 2**31 - 1


def read_letor(
    path: AnyPath,
    *,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    sparse: bool | Literal["auto"] = "auto",
    one_based: bool = True,
    fill: float | None = None,
    query_sizes: AnyPath | Iterable[int] | None = None,
    label: Literal["grade"] | None = "grade",
    n_jobs: int | None = -1,
    max_expansion: float | None = None,
) -> QueryData:
    """Read a LETOR or SVMlight text file.

    Features may be in any order; missing features are 0. Blank lines and lines with only a comment are skipped. Rows of
    a query need not be contiguous; they are grouped, and keep their order.

    Parameters
    ----------
    path : path
        Plain, gzip, bzip2 or xz, recognised by the first bytes. UTF-8, with or without byte order mark; line ends
        ``\\n`` or ``\\r\\n``.
    n_features : int, optional
        Number of columns of ``X``; a larger index is an error. Default: the largest index in the file. Specify it for a
        test set whose last features may all be missing.
    dtype : {float64, float32}
        Type of ``X``. Numbers are read as float64 and rounded once.
    sparse : {"auto", True, False}
        Whether ``X`` is a CSR matrix (of non-zero values). "auto" chooses CSR if fewer than a tenth of the cells are in
        the file, estimated by counting ``:`` (a dense product is about ten times as fast per cell).
    one_based : bool
        Whether feature ``k`` is column ``k - 1`` (LETOR, SVMlight) or column ``k``.
    fill : float, optional
        Value that replaces ``nan`` features, which are an error by default. NaN keeps them missing. Infinite values are
        always an error.
    query_sizes : path or iterable of int, optional
        For files without ``qid:``: the number of rows of each query, in file order, as an array or a text file (such as
        LightGBM's ``.query`` files). The queries are then numbered from 0.
    label : {"grade", None}
        With None, all rows may begin with ``qid:``, without a grade; ``y`` is then None.
    n_jobs : int or None
        Number of threads, as in joblib: -1 is one per processor, None is 1. The result does not depend on it.
    max_expansion : float, optional
        Maximum number of bytes of text per byte of a compressed file, after the first 64 MB of text, as protection
        against decompression bombs. ``inf`` means no limit. Default: 200; public LETOR files reach 83, runs about
        10.

    Returns
    -------
    QueryData
        ``query_ids`` are int64 if each id in the file is a plain integer (``7`` or ``7.0``; not ``007``), else str. If
        all ids are numbers, rounded ones (``1.73e+18``) are refused. ``docid`` is the id in a comment
        ``docid = <id>``, otherwise the stripped comment (``""`` without a comment), by the same rule; it is None if no
        row has a comment.

    Raises
    ------
    ValueError
        With file, line, expectation and offender: for a line that is not a row, a feature index below the first, above
        ``n_features`` or above 2^31, a feature twice in a row, NaN or infinite numbers, a line of more than 32 MB, a
        query id of more than 1024 bytes, an id or comment that is not UTF-8 or has a NUL byte; for an empty, truncated
        or damaged file, or one that exceeds ``max_expansion``; for ``query_sizes`` with a wrong sum; for a dense matrix
        or docids larger than the memory of this machine.

    Examples
    --------
    >>> _ = Path("train.txt").write_text("2 qid:7 1:0.5 3:1 # docid = A\\n0 qid:7 2:1e-3\\n1 qid:9 1:1\\n")
    >>> data = read_letor("train.txt")
    >>> data.X
    array([[0.5  , 0.   , 1.   ],
           [0.   , 0.001, 0.   ],
           [1.   , 0.   , 0.   ]])
    >>> data.y, data.query_ids, data.offsets, data.docid
    (array([2., 0., 1.]), array([7, 9]), array([0, 2, 3]), array(['A', '', ''], dtype='<U1'))
    """
    path = Path(path)
    options = check_options(
        n_features=n_features,
        dtype=dtype,
        sparse=sparse,
        one_based=one_based,
        fill=fill,
        query_sizes=query_sizes,
        label=label,
        n_jobs=n_jobs,
    )
    block = Block(read_text(path, max_expansion=max_expansion), path)
    rows = parse(block, options.with_grade_of(block) if label is None else options)
    if rows is None:
        raise BadInput(path, f"expected rows '{GRAMMAR}', got an empty file")
    if rows.width == 0:
        raise BadInput(path, "expected at least one feature, got none", "specify {n_features} if correct")
    if query_sizes is None:
        grouping = group_ids(settled(rows.ids, path), rows.run_lengths)
    else:
        grouping = group_ids(_ids_from_sizes(query_sizes, rows.X.shape[0], path))
    documents = IdColumn(path, "docid")
    docid = rows.docid
    if docid is not None:
        documents.look(words := docid.tolist())
        documents.settle()
        docid = documents.texts(words) if documents.are_whole else docid
    return rows_in_groups(rows.X, rows.y, grouping, docid)


def write_letor(data: QueryData, path: AnyPath) -> None:
    """Write LETOR text that :func:`read_letor` reads back bit for bit.

    Features are numbered from 1; rows without labels begin with ``qid:``. A dense matrix is written with its zeros, a
    CSR matrix with its stored values. The file appears once it is complete; if writing fails, an earlier file is kept.

    Parameters
    ----------
    data : QueryData
        Rows to write.
    path : path
        Compressed if it ends in ``.gz``, ``.bz2`` or ``.xz``.

    Raises
    ------
    ValueError
        If an id contains ASCII white space, ``#`` or NUL, begins with a byte order mark, or is a query id of more than
        1024 bytes: the format cannot represent such ids.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> write_letor(QueryData.from_arrays([[0.1, 2.0]], [1], ["q"], docid=["D-1"]), "small.txt")
    >>> Path("small.txt").read_text()
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
                words = [] if data.y is None else [_number_text(data.y[row])]
                words.append(f"qid:{query}")
                words += [f"{k + 1}:{_number_text(v)}" for k, v in zip(columns, values, strict=True)]
                if data.docid is not None and data.docid[row]:
                    words.append(f"# docid = {_check_word(data.docid[row], 'docid')}")
                lines.append(" ".join(words) + "\n")
            file.write("".join(lines).encode())


def _entries(block: Any) -> Iterable[tuple[list[int], Any]]:
    """Yield the columns and values of each row."""
    if not isinstance(block, np.ndarray):
        for a, b in zip(block.indptr[:-1], block.indptr[1:], strict=True):
            yield block.indices[a:b].tolist(), block.data[a:b]
    else:
        columns = list(range(block.shape[1]))
        for row in block:
            yield columns, row


def _number_text(value: Any) -> str:
    """Return the shortest decimal that reads back as ``value``."""
    text = str(value)
    if type(value)(float(text)) != value:  # a float32 is read as float64 first
        text = repr(float(value))
    return text.removesuffix(".0")


def _check_word(word: object, what: str) -> str:
    text = str(word)
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = b""
    # as bytes, since only ASCII white space ends a word when read
    if b"#" in raw or b"\0" in raw or raw.startswith(b"\xef\xbb\xbf") or raw.split() != [raw]:
        raise BadInput(
            f"{what} {text!r:.80}",
            "expected a word of text without ASCII white space, '#' or NUL",
            "remove these characters: LETOR text has no quoting or escaping",
        )
    if what == "query id" and len(raw) > _LONGEST_ID:
        raise BadInput(f"{what} {text!r:.80}", f"expected at most {_LONGEST_ID} bytes, got {len(raw)}")
    return text


class Block(NamedTuple):
    """Whole lines of a text file, with its path and the number of earlier lines for messages."""

    text: scanner.Bytes
    path: Path
    lines_before: int = 0

    def line(self, at: int) -> str:
        """Return the file and line of the byte at ``at``."""
        return f"{self.path}:{self.lines_before + 1 + int(np.count_nonzero(self.text[:at] == 10))}"

    def decode(self, at: int, length: int) -> str:
        """Return the text of an id or comment; raise ValueError with its line for invalid bytes."""
        raw = self.text[at : at + length].tobytes()
        try:
            return decode(raw, "")
        except ValueError:
            return decode(raw, self.line(at))  # lines are counted only for errors

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield the position and text of each row; stop at a line that is too long."""
        at = 0
        while at < self.text.shape[0]:
            end = _line_end(self.text, at, MAX_LINE_BYTES)
            if end is None:
                return
            line = self.text[at:end].tobytes().strip()
            if line and not line.startswith(b"#"):
                yield at, line
            at = end


@dataclass(frozen=True)
class Options:
    """Options for reading rows; see :func:`read_letor`."""

    n_features: int | None
    dtype: Any
    sparse: bool | Literal["auto"]
    base: int
    fill: float
    with_qid: bool
    n_jobs: int
    with_grade: bool = True

    def with_grade_of(self, block: Block) -> Self:
        """Return the options for a file; its first row shows whether rows have grades."""
        _, line = next(block.rows(), (0, b"0"))
        if self.with_qid:
            return replace(self, with_grade=not line.startswith(b"qid:"))
        return replace(self, with_grade=b":" not in line.split(None, 1)[0])


def check_options(
    *,
    n_features: Any = None,
    dtype: DTypeLike = np.float64,
    sparse: Any = "auto",
    one_based: bool = True,
    fill: Any = None,
    query_sizes: Any = None,
    label: object = "grade",
    n_jobs: Any = -1,
) -> Options:
    """Return the options of :func:`read_letor`, checked before any file is opened."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise BadInput("dtype", f"expected float32 or float64, got {np.dtype(dtype)}")
    check_choice("sparse", sparse, (True, False, "auto"))
    if n_features is not None:
        check_whole("n_features", n_features, 1, _MAX_COLUMN + 1)
    check_fill(fill, dtype)
    check_choice("label", label, ("grade", None))
    return Options(
        n_features=n_features,
        dtype=np.dtype(dtype),
        sparse=sparse,
        base=int(one_based),
        fill=np.inf if fill is None else float(fill),
        with_qid=query_sizes is None,
        n_jobs=count_threads(n_jobs),
    )


def check_fill(fill: float | None, dtype: Any = np.float64) -> None:
    """Raise for a value that cannot replace missing features; NaN keeps them."""
    with np.errstate(over="ignore"):
        value = 0.0 if fill is None else np.dtype(dtype).type(fill)
    if np.isinf(value):
        raise BadInput("fill", "expected a finite number or NaN", value=fill)


class TooWide(BadInput):
    """Error for a dense matrix of ``width`` features that would not fit in memory."""

    def __init__(self, place: str | Path, problem: str, remedy: str, *, width: int = 0) -> None:
        super().__init__(place, problem, remedy)
        self.width = width


class Size(NamedTuple):
    """Size of a text file, estimated by a first pass: number of rows, number of values in the text, and probable width.
    For a block, also the byte ranges of the threads, with their numbers of rows and values.
    """

    n_rows: int
    n_stated: int
    width: int
    chunks: Sequence[tuple[int, int]] = ()
    counts: Any = None


@dataclass(frozen=True)
class Rows:
    """Parsed rows in file order; ``ids`` are the query ids as written, one per run of rows with equal ids."""

    X: Any
    y: Any
    ids: list[str]
    run_lengths: Int
    docid: NDArray[np.str_] | None
    width: int


def is_sparse(options: Options, size: Size) -> bool:
    """Return whether the matrix is sparse; with ``sparse="auto"``, whether the file contains few of its values."""
    if options.sparse != "auto":
        return bool(options.sparse)
    return size.n_stated < SPARSE_BELOW * size.n_rows * max(1, size.width)


def measure(block: Block, options: Options) -> Size:
    """Count the rows and values in the text of a block and of each of its chunks."""
    chunks = _cut(block)
    chunk_counts = map_in_threads(
        lambda chunk: scanner.count_rows(block.text, *chunk), chunks, options.n_jobs
    )
    counts = np.array(chunk_counts, dtype=np.int64).reshape(-1, 3)
    if options.with_qid:
        counts[:, 1] = np.maximum(counts[:, 1] - counts[:, 0], 0)  # one colon per row belongs to qid
    width = options.n_features or int(counts[:, 2].max(initial=0)) + 1 - options.base
    if width > _MAX_COLUMN + 1:
        width = 1  # do not allocate for an invalid index, or for a number in a comment
    return Size(int(counts[:, 0].sum()), int(counts[:, 1].sum()), width, chunks, counts[:, :2])


def parse(block: Block, options: Options) -> Rows | None:
    """Return the rows of a block; None if it has none."""
    size = measure(block, options)
    if size.n_rows == 0:
        return None
    if options.with_qid:
        # a line may lack its qid, so the chunk may hold one feature per line more than counted
        size.counts[:, 1] += size.counts[:, 0]
    while True:
        if not is_sparse(options, size) and _is_too_large(options, size):
            _check_dense_size(block, options, size)
        rows = _parse_as(block, options, size)
        if options.n_features is not None or rows.width == size.width:
            return rows
        # the estimate assumes that the last index of each line is its largest, but the file is unsorted
        size = size._replace(width=rows.width)


def _is_too_large(options: Options, size: Size) -> bool:
    return bool(float(size.n_rows) * size.width * options.dtype.itemsize > memory_bytes())


def _check_dense_size(block: Block, options: Options, size: Size) -> None:
    """Raise TooWide for a dense matrix larger than memory.
    The first pass may have taken a comment for the largest index, so the width is that of a sparse parse.
    """
    rows = _parse_as(block, replace(options, sparse=True), size)
    if options.n_features is None and rows.width != size.width:
        size = size._replace(width=rows.width)
        if not _is_too_large(options, size):
            return
        rows = _parse_as(block, replace(options, sparse=True), size)
    gigabytes = float(size.n_rows) * size.width * options.dtype.itemsize / 1e9
    problem = (
        f"a dense matrix of {size.n_rows} rows and {size.width} features needs {gigabytes:.0f} GB; this machine has "
        f"{memory_bytes() / 1e9:.0f} GB"
    )
    if size.n_stated >= SPARSE_BELOW * size.n_rows * size.width:
        raise TooWide(
            block.path,
            problem,
            "convert it to a store, which is mapped from disk, or specify {dtype=float32}",
            width=size.width,
        )
    X = rows.X
    row = int(np.searchsorted(X.indptr, int(X.indices.argmax()), side="right")) - 1 if X.nnz else 0
    highest = int(X.indices.max()) + options.base if X.nnz else 0
    raise TooWide(
        block.line(next(at for i, (at, _) in enumerate(block.rows()) if i == row)),
        f"{problem}; most values are zeros, and feature {highest} in this line is the highest in the file",
        "number the features without gaps, or specify {sparse=True}",
        width=size.width,
    )


def _parse_as(block: Block, options: Options, size: Size) -> Rows:
    text, as_sparse = block.text, is_sparse(options, size)
    n, width = size.n_rows, max(1, size.width)
    y = np.empty(n)
    qid_at, note_at = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    qid_len, note_len = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    first_row, first_entry = (np.concatenate(([0], np.cumsum(c))) for c in size.counts.T)
    n_stored = first_entry[-1] if as_sparse else 0
    X = np.zeros((0, 0) if as_sparse else (n, width), dtype=options.dtype)
    data, indices = np.empty(n_stored, dtype=options.dtype), np.empty(n_stored, dtype=np.int32)
    flat = data if as_sparse else X.reshape(-1)
    none = np.empty(0, np.float64 if flat.dtype == np.float32 else np.float32)
    doubles, singles = (none, flat) if flat.dtype == np.float32 else (flat, none)
    row_nnz = np.empty(n if as_sparse else 0, dtype=np.int64)
    limit = min(width - 1, _MAX_COLUMN) if options.n_features is not None else _MAX_COLUMN
    exact, high, low = scanner.power_tables()

    def work(i: int) -> tuple[scanner.Outcome, Int]:
        rare = np.empty((64, 3), dtype=np.int64)
        while True:
            outcome = scanner.parse_lines(
                text,
                *size.chunks[i],
                first_row[i],
                first_entry[i],
                not as_sparse,
                width,
                doubles,
                singles,
                indices,
                row_nnz,
                y,
                qid_at,
                qid_len,
                note_at,
                note_len,
                limit,
                options.base,
                options.with_grade,
                options.with_qid,
                options.fill,
                exact,
                high,
                low,
                rare,
            )
            if outcome.code != scanner.RARE_FULL:
                return outcome, rare[: outcome.n_rare]
            rare = np.empty((4 * rare.shape[0], 3), dtype=np.int64)

    outcomes = map_in_threads(work, range(len(size.chunks)), options.n_jobs)
    faults = [(o.at, o.code) for o, _ in outcomes if o.code != scanner.OK]
    for _, rare in outcomes:
        for at, end, target in rare.tolist():
            code = _settle(text[at:end].tobytes(), target, flat, y)
            if code != scanner.OK:
                faults.append((at, code))
    if faults:
        _refuse(block, *min(faults), options)
    found_width = options.n_features or max(o.max_column for o, _ in outcomes) + 1
    if options.n_features is not None or found_width == size.width:
        if as_sparse:
            written = np.array([o.n_entries for o, _ in outcomes], dtype=np.int64)
            X = _csr(data, indices, row_nnz, first_entry, written, found_width)
            if any(o.unsorted for o, _ in outcomes):
                X.sort_indices()
        docid = _strings(block, note_at, note_len) if note_len.any() else None
        starts, ids = np.zeros(1, dtype=np.int64), []
        if options.with_qid:
            starts = scanner.find_runs(text, qid_at, qid_len)
            ids = [_query_id(block, int(qid_at[i]), int(qid_len[i])) for i in starts.tolist()]
        return Rows(
            X, y if options.with_grade else None, ids, np.diff(np.append(starts, n)), docid, found_width
        )
    return Rows(None, None, [], np.empty(0, dtype=np.int64), None, found_width)


def _settle(token: bytes, target: int, flat: Any, y: Float) -> int:
    """Parse with Python a number that the kernel left undecided, and store it at ``target``."""
    value = float(token)
    if target < 0:
        y[-1 - target] = value
        return scanner.OK if np.isfinite(value) else scanner.BAD_GRADE
    with np.errstate(over="ignore"):
        flat[target] = value
    return scanner.OK if np.isfinite(flat[target]) else scanner.INFINITE


def _csr(data: Any, indices: Any, row_nnz: Int, first: Int, written: Int, width: int) -> Any:
    """Return a CSR matrix of the entries, compacted in place: chunk ``i`` wrote ``written[i]`` at ``first[i]``."""
    end = 0
    for start, count in zip(first[:-1].tolist(), written.tolist(), strict=True):
        if start != end:
            data[end : end + count] = data[start : start + count]
            indices[end : end + count] = indices[start : start + count]
        end += count
    indptr = np.concatenate(([0], np.cumsum(row_nnz)))
    if end <= _MAX_COLUMN:
        indptr = indptr.astype(np.int32)
    parts, shape = (data[:end], indices[:end], indptr), (row_nnz.shape[0], width)
    return scipy_sparse.csr_matrix(parts, shape=shape, copy=False)


def _cut(block: Block) -> list[tuple[int, int]]:
    """Return byte ranges of whole lines, about ``_CHUNK_BYTES`` each; raise if a line exceeds ``MAX_LINE_BYTES``."""
    text, edges = block.text, [0]
    while (first := edges[-1]) < text.shape[0]:
        end = _line_end(text, min(first + _CHUNK_BYTES, text.shape[0]) - 1, MAX_LINE_BYTES)
        if end is None or end - first > MAX_LINE_BYTES:
            # a long line may have begun just before the end of the chunk
            feeds = np.flatnonzero(text[first : first + _CHUNK_BYTES - 1] == 10)
            begun = first + int(feeds[-1]) + 1 if feeds.size else first
            if end is None or end - begun > MAX_LINE_BYTES + 1:
                raise BadInput(
                    block.line(begun),
                    f"expected lines of at most {MAX_LINE_BYTES} bytes, got a longer one",
                    "is this a text file?",
                )
        edges.append(end)
    return list(pairwise(edges))


def _line_end(text: scanner.Bytes, at: int, limit: int) -> int | None:
    """Return the start of the line after that of byte ``at``; None if it is more than ``limit`` bytes away."""
    step, last = 1 << 12, at + limit + 1
    while at < last:
        hits = np.flatnonzero(text[at : min(at + step, last)] == 10)
        if hits.size:
            return at + int(hits[0]) + 1
        at += step
        step *= 2
    return None


def _ids_from_sizes(sizes: Any, n_rows: int, path: Path) -> Int:
    where = "query_sizes"
    if isinstance(sizes, (str, PathLike)):
        where = str(sizes)
        read: list[int] = []
        for number, line in read_lines(Path(sizes)):
            for word in line.split():
                if not (word.isascii() and word.isdecimal() and len(word) <= 18):
                    raise BadInput(
                        f"{where}:{number}", f"expected the number of rows of each query, got {shorten(word)}"
                    )
                read.append(int(word))
        sizes = read
    lengths = np.asarray(list(sizes), dtype=np.int64)
    if lengths.ndim != 1 or (lengths < 1).any() or lengths.sum() != n_rows:
        raise BadInput(
            where,
            f"expected positive sizes that add up to the {n_rows} rows of {path}, got {lengths.size} sizes that add "
            f"up to {lengths.sum()}",
        )
    return np.repeat(np.arange(lengths.size, dtype=np.int64), lengths)


def _strings(block: Block, at: Int, length: scanner.Lengths) -> NDArray[np.str_]:
    """Return the words at these positions, as a fixed-width array."""
    width = max(1, int(length.max()))
    needed = 4.0 * width * at.shape[0]
    if needed > memory_bytes():
        raise BadInput(
            block.line(int(at[length.argmax()])),
            f"expected comments short enough for an array of docids, got one of {width} bytes, which makes "
            f"{needed / 1e9:.0f} GB for all {at.shape[0]} rows",
            "shorten it",
        )
    points = np.zeros((at.shape[0], width), dtype=np.uint32)
    if scanner.copy_ascii(block.text, at, length, points):
        return points.view(f"<U{width}").ravel()
    return np.array([block.decode(a, k) for a, k in zip(at.tolist(), length.tolist(), strict=True)])


def _query_id(block: Block, at: int, length: int) -> str:
    if length > _LONGEST_ID:
        got = shorten(block.text[at : at + 200].tobytes())
        raise BadInput(block.line(at), f"expected a query id of at most {_LONGEST_ID} bytes, got {got}")
    if not (word := block.decode(at, length).strip()):
        raise BadInput(block.line(at), "expected a query id, got white space", "drop the rows without an id")
    return word


def _refuse(block: Block, at: int, code: int, options: Options) -> None:
    text, end = block.text, at
    while end < at + 200 and text[end] not in (9, 10, 11, 12, 13, 32, 35):
        end += 1
    got = shorten(text[at:end].tobytes()) if end > at else "the end of the line"
    key = got.partition(":")[0].lstrip("'")
    grammar = GRAMMAR if options.with_qid else "<grade> <k>:<v> ..."
    if not options.with_grade:
        grammar = grammar.removeprefix("<grade> ")
    first = options.base
    limited = options.n_features is not None
    last = first + (options.n_features - 1 if options.n_features is not None else _MAX_COLUMN)
    from_0 = "{one_based=False} is for files that count from 0"
    expected, remedy = {
        scanner.MALFORMED: (f"expected '{grammar}'", ""),
        scanner.NO_QID: (
            f"expected '{grammar}'",
            "if the file has no query ids, write qid:<id> after each grade, or in Python pass the rows of each query "
            "as query_sizes=...",
        ),
        scanner.QID_AND_SIZES: (f"expected '{grammar}' since query_sizes is given", "specify one of the two"),
        scanner.INDEX_LOW: (f"expected feature indices from {first}", from_0),
        scanner.INDEX_HIGH: (
            f"expected feature indices up to {last}{' (n_features)' if limited else ''}",
            "",
        ),
        scanner.TWICE: ("expected each feature once per row", ""),
        scanner.NAN: ("expected finite features", "specify a value for missing features with {fill}"),
        scanner.INFINITE: (f"expected finite {options.dtype} features", "clip the value or drop the row"),
        scanner.BAD_GRADE: ("expected a finite grade", "grade the row or drop it"),
    }[code]
    if code == scanner.NO_QID:
        got += " in place of 'qid:<id>'"
    elif code == scanner.TWICE:
        got = f"feature {key} twice"
    raise BadInput(block.line(at), f"{expected}, got {got}", remedy)
