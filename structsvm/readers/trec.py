"""Common parts of runs and judgments: columns of TREC files, data frames and nested dictionaries.

Files are read in blocks of whole lines. A block is split at once, without its blank lines; only if a line lacks a
column or has an invalid column are the lines parsed one by one, to name the first such line. Columns are separated by
any number of blanks or tabs. Ids may contain any other character except NUL: escape them for display.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.files import AnyPath, read_blocks, replacing, shorten
from structsvm.common.frames import frame as pandas_frame
from structsvm.common.tables.ids import IdColumn, id_texts
from structsvm.common.tables.roles import column_of
from structsvm.protocols import Int

Duplicates = Literal["error", "best"]

_BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"^[ \t\r\f\v]*\n", re.MULTILINE)
_LONGEST = 1024
"""Maximum number of bytes per column: more than any id in use, but few enough to refuse an endless line before memory
is exhausted."""

_ROLES = {
    "topic": ("query", ("topic", "qid", "query_id", "q_id", "query")),
    "docid": ("document", ("docno", "docid", "doc_id", "document")),
    "score": ("score", ("score",)),
    "grade": ("label", ("grade", "label", "relevance", "rel")),
}
"""The role of each column, and its names in trec_eval, PyTerrier, ir_measures and ranx, in order of precedence: in
PyTerrier, ``docid`` is an internal number and ``query`` the text of a topic.
"""

_NUMBERS = ("score", "grade")
_CALLED = {"topic": "topic", "docid": "document"}


class Numbering(dict[Any, int]):
    """Mapping that numbers its keys in the order in which they are first requested."""

    def __missing__(self, key: object) -> int:
        number = self[key] = len(self)
        return number


class ByTopic:
    """Base of runs, judgments and pools: rows ``offsets[t]:offsets[t + 1]`` belong to topic ``t``."""

    topics: NDArray[Any]
    offsets: Int
    docid: NDArray[Any]

    @property
    def n_topics(self) -> int:
        return int(self.topics.shape[0])

    @property
    def n_rows(self) -> int:
        return int(self.docid.shape[0])


def rows_of_topics(grouped: ByTopic) -> dict[str, slice]:
    """Return the rows of each topic as slices."""
    bounds = zip(grouped.offsets[:-1].tolist(), grouped.offsets[1:].tolist(), strict=True)
    return dict(zip(grouped.topics.tolist(), (slice(a, b) for a, b in bounds), strict=True))


Name = str | None
"""Name of a column; None means the first conventional name."""


class Listing(ByTopic):
    """Base of runs and judgments, whose field ``_numbers`` holds a number for each row."""

    _numbers: ClassVar[str]
    from_arrays: ClassVar[Callable[..., Any]]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return ``{topic: {document: number}}``: the scores of a run, best first, or the grades of judgments. With
        subtopics, the last grade of a document counts.

        Examples
        --------
        >>> from structsvm.readers import Run
        >>> Run.from_dict({"7": {"a": 0.5, "b": 0.9}}).to_dict()
        {'7': {'b': 0.9, 'a': 0.5}}
        """
        numbers = getattr(self, self._numbers)
        rows = rows_of_topics(self).items()
        return {t: dict(zip(self.docid[at].tolist(), numbers[at].tolist(), strict=True)) for t, at in rows}

    def _frame(self, **columns: object) -> Any:
        """Return a pandas DataFrame of topics, documents and the given columns."""
        return pandas_frame(
            {"topic": np.repeat(self.topics, np.diff(self.offsets)), "docid": self.docid, **columns}
        )


def rows_of_dict(nested: Mapping[Any, Mapping[Any, float]]) -> list[list[Any]]:
    """Return topic, document and number of each row of ``{topic: {document: number}}``."""
    rows = [(topic, docid, number) for topic, row in nested.items() for docid, number in row.items()]
    if not rows:
        raise BadInput("nested", "expected topics with documents, got none")
    return [*map(list, zip(*rows, strict=True))]


def columns_of(frame: object, **named: str | None) -> list[Any]:
    """Return columns of a frame, ids as text and numbers as arrays. A column without a given name is the first
    conventional name that exists."""
    from structsvm.common.tables.batches import Batch, Role, checked
    from structsvm.common.tables.columns import id_texts as texts_of, ids, look, numbers
    from structsvm.common.tables.opening import open_tables

    (table,) = open_tables(frame, source="frame")
    chosen = {}
    for name, given in named.items():
        role, own = _ROLES[name]
        chosen[name] = column_of(role, table.names, "frame", own=own, called=name, given=given)

    def typed(batch: Batch) -> list[Any]:
        columns: list[Any] = []
        for role, name in chosen.items():
            if role in _NUMBERS:
                columns.append(values := numbers(batch, name, f"a {role}"))
                batch.refuse_first(~np.isfinite(values), name, f"a finite {role}", values)
            else:
                column = IdColumn("frame", name)
                array = look(column, ids(batch, name, f"the id of a {_CALLED[role]}"), batch)
                columns.append(texts_of(column, [array]))
        return columns

    kinds: dict[str, Role] = {name: "number" if role in _NUMBERS else "id" for role, name in chosen.items()}
    for batch in table.read(kinds):
        return checked(batch, typed)
    raise BadInput("frame", "expected rows, got none")


class Columns(NamedTuple):
    """A file format: grammar, number of columns (``width``), columns that hold ids, and the position and type of the
    number."""

    grammar: str
    width: int
    ids: tuple[int, ...]
    number_at: int
    whole: bool


class Block(NamedTuple):
    """Parsed lines: words by column, decoded docids, and the numbers."""

    words: list[list[bytes]]
    docid: list[str]
    numbers: list[float] | list[int]


def read_rows(
    path: Path, columns: Columns, max_expansion: float | None, look: Callable[[Block], object]
) -> tuple[list[str], Int, list[str], NDArray[Any]]:
    """Return the topics of a file and, for each row, the index of its topic, the document and the number.
    ``look`` is called with each block of lines, except blocks of blank lines.
    """
    index, codes, documents, numbers, n_lines = Numbering(), [], [], [], 0
    for array in read_blocks(path, _BLOCK_BYTES, max_expansion=max_expansion):
        text = array.tobytes()
        block = _split(text, columns)
        if block is None and (filled := _BLANK.sub(b"", text)):
            block = _split(filled, columns) or _refuse(text, columns, path, n_lines)
        n_lines += text.count(b"\n")
        if block is not None:
            look(block)
            codes.append(np.fromiter(map(index.__getitem__, block.words[0]), np.int64, len(block.docid)))
            documents += block.docid
            numbers.append(np.array(block.numbers, dtype=np.int64 if columns.whole else np.float64))
    if not codes:
        raise BadInput(path, f"expected lines '{columns.grammar}', got an empty file")
    return [word.decode() for word in index], np.concatenate(codes), documents, np.concatenate(numbers)


def write_rows(rows: ByTopic, path: AnyPath, text_of: Callable[[str, slice], str]) -> None:
    """Write a run or judgments; ``text_of`` returns the lines of a topic."""
    check_words(rows.topics.tolist(), "topic")
    check_words(rows.docid.tolist(), "docid")
    with replacing(Path(path)) as file:
        for topic, here in rows_of_topics(rows).items():
            file.write(text_of(topic, here).encode())


def _split(text: bytes, columns: Columns) -> Block | None:
    """Split all lines at once; return None if any line has to be parsed separately."""
    step, n_lines = columns.width + 1, text.count(b"\n")
    # testing for one byte first is faster than for three
    if b"\0" in text or (_BOM[:1] in text and b"\n" + _BOM in b"\n" + text):
        return None
    words = text.replace(b"\n", b" \0 ").split()  # mark line ends, to check the number of words per line
    if len(words) != step * n_lines or words[columns.width :: step].count(b"\0") != n_lines:
        return None
    if max(map(len, words)) > _LONGEST:
        return None
    by_column = [words[k::step] for k in range(columns.width)]
    numbers = by_column[columns.number_at]
    try:
        for k in columns.ids:
            by_id = b"\n".join(by_column[k]).decode()
            if k == 2:
                docid = by_id.split("\n")
        if b"_" in b"".join(numbers):  # float() accepts 1_000
            return None
        if columns.whole:
            grades = list(map(int, numbers))
            return Block(by_column, docid, grades) if _fits(grades) else None
        scores = list(map(float, numbers))
    except ValueError:
        return None
    return Block(by_column, docid, scores) if np.isfinite(scores).all() else None


def _refuse(text: bytes, columns: Columns, path: Path, n_before: int) -> NoReturn:
    """Raise for the first invalid line."""
    # the text ends in a line feed, so the last piece is empty
    for n, line in enumerate(text.split(b"\n")[:-1], start=n_before + 1):
        words = line.split(None, columns.width)
        if not words:
            continue

        def refuse(expected: str, got: bytes, n: int = n) -> NoReturn:
            raise BadInput(f"{path}:{n}", f"expected {expected}, got {shown(got)}")

        if b"\0" in line:
            refuse("text without NUL bytes", line)
        if line.startswith(_BOM):
            refuse("a byte order mark at the beginning of the file only", line)
        if len(words) != columns.width:
            refuse(f"{columns.width} columns '{columns.grammar}'", line)
        longest = max(words, key=len)
        if len(longest) > _LONGEST:
            refuse(f"columns of at most {_LONGEST} bytes", longest)
        for k in columns.ids:
            try:
                words[k].decode()
            except UnicodeDecodeError:
                refuse("ids in UTF-8", words[k])
        if _split(line + b"\n", columns) is None:  # nothing else is left that may be wrong
            refuse("an integer as grade" if columns.whole else "a finite score", words[columns.number_at])
    raise AssertionError("no invalid line")


def _fits(grades: Sequence[int]) -> bool:
    return min(grades) >= -(2**31) and max(grades) < 2**31


def number_topics(topic: Any, docid: ArrayLike, values: Any, name: str) -> tuple[list[str], Int, list[str]]:
    """Return the distinct topics, the index of the topic of each row, and the docids as text.
    Raise ValueError unless topics, docids and ``values``, the argument called ``name``, have the same length.
    """
    topics = id_texts("topic", topic, what="the id of a topic", empty=True, as_written=True)
    documents = id_texts("docid", docid, what="the id of a document", empty=True, as_written=True)
    if values.ndim != 1 or not len(topics) == len(documents) == len(values):
        raise BadInput(
            name,
            f"expected one for each row, got shape {values.shape} with {len(topics)} topics and {len(documents)} "
            "docids",
        )
    index = Numbering()
    code = np.fromiter(map(index.__getitem__, topics), dtype=np.int64, count=len(topics))
    return list(index), code, documents


def once_each(
    topics: list[str], code: Int, keys: list[Any], duplicates: Duplicates, best: str, *columns: Any
) -> tuple[Int, list[Any]]:
    """Return offsets and columns of rows in the order of topics, with each key once per topic.

    ``best`` describes, in the message, which of several rows would be kept.
    """
    numbers = np.arange(len(topics) + 1)
    offsets = np.searchsorted(code, numbers).astype(np.int64)
    keep = np.ones(len(keys), dtype=np.bool_)
    for t, (first, last) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        if len(set(keys[first:last])) == last - first:
            continue
        seen: set[Any] = set()
        for i in range(first, last):
            if keys[i] in seen and duplicates == "error":
                docid = keys[i] if isinstance(keys[i], str) else keys[i][0]
                raise BadInput(
                    "docid",
                    f"expected each document once per topic, got {shown(docid)} twice in topic {shown(topics[t])}",
                    "pass {duplicates='best'} to keep " + best,
                )
            keep[i] = keys[i] not in seen
            seen.add(keys[i])
    if keep.all():
        return offsets, list(columns)
    kept = [None if column is None else column[keep] for column in columns]
    return np.searchsorted(code[keep], numbers).astype(np.int64), kept


def check_duplicates(duplicates: str) -> None:
    check_choice("duplicates", duplicates, ("error", "best"))


def check_words(words: list[Any], name: str) -> list[str]:
    """Return ids as text; raise ValueError if an id contains NUL or white space, which separates columns."""
    texts = [str(word) for word in words]
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        if data.split() != [data] or b"\0" in data or len(data) > _LONGEST:
            raise BadInput(
                name, f"expected 1 to {_LONGEST} bytes without white space or NUL, got {shown(text)}"
            )
    return texts


def objects(words: Sequence[str]) -> NDArray[Any]:
    """Return ids as an array of references: a long id does not widen the array, and equal ids may share their
    strings."""
    array = np.empty(len(words), dtype=object)
    array[:] = words
    return array


def shown(offender: bytes | str) -> str:
    return shorten(offender[:200])
