"""TREC run and judgment files: ``<topic> Q0 <docid> <rank> <score> <tag>`` and ``<topic> <iteration> <docid> <grade>``.

Read in blocks of whole lines. A block in which every line has its columns is split at once; any other is gone
through line by line, which accepts blank lines and names the first that is wrong.

Policies. Columns stand apart by any blanks or tabs. The rank column is ignored: a run is in the order of its
scores, descending, equal scores by docid descending, as trec_eval has it (which compares scores as float32; here
they keep their precision). A document twice in a topic, a number that is not finite, invalid UTF-8 in an id, a
NUL byte, a byte order mark after the first line and another number of columns are errors with file and line. Ids
may hold any other character: escape them where they are shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from structsvm.checks import BadInput, check_choice, check_whole
from structsvm.files import read_blocks, replacing, shorten
from structsvm.protocols import Float, Int

__all__ = ["Qrels", "Run", "objects", "read_qrels", "read_run", "write_qrels", "write_run"]

Duplicates = Literal["error", "best"]

_BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_LONGEST = 1024
"""Bytes of a column: no id in use is longer, and a line without end is told from one."""

_RUN = "<topic> Q0 <docid> <rank> <score> <tag>"
_QRELS = "<topic> <iteration> <docid> <grade>"


@dataclass(frozen=True)
class Run:
    """A ranking for each topic, best document first.

    Attributes
    ----------
    topics : ndarray of str (object), shape (n_topics,)
        In the order of their first row.
    offsets : ndarray of int64, shape (n_topics + 1,)
        Rows ``offsets[t]:offsets[t + 1]`` are the ranking of topic ``t``.
    docid : ndarray of str (object), shape (n_rows,)
    scores : ndarray of float64, shape (n_rows,)
        Descending within a topic; equal scores stand in descending order of docid.
    tag : str
        Name of the system.
    """

    topics: NDArray[Any]
    offsets: Int
    docid: NDArray[Any]
    scores: Float
    tag: str = "structsvm"

    @classmethod
    def from_arrays(
        cls, topic: Any, docid: Any, scores: Any, *, tag: str = "structsvm", duplicates: Duplicates = "error"
    ) -> Run:
        """Sort rows into a run.

        Parameters
        ----------
        topic, docid : array-like of str or int, shape (n_rows,)
            Rows in any order.
        scores : array-like of float, shape (n_rows,)
            Finite; higher is better.
        tag : str
        duplicates : {"error", "best"}, default="error"
            A document twice in a topic: an error, or the row with the higher score.

        Returns
        -------
        Run

        Raises
        ------
        ValueError
            For other lengths, a score that is not finite, or a duplicate.

        Examples
        --------
        >>> run = Run.from_arrays([7, 7, 7], ["a", "c", "b"], [0.5, 0.9, 0.5])
        >>> run.docid.tolist()
        ['c', 'b', 'a']
        """
        _check_duplicates_option(duplicates)
        values = np.asarray(scores, dtype=np.float64)
        topics, documents = _strings(topic), _strings(docid)
        if values.ndim != 1 or not len(topics) == len(documents) == len(values):
            raise BadInput(
                "scores",
                f"expected one for each row, got shape {values.shape} with {len(topics)} topics and {len(documents)} "
                "docids",
            )
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise BadInput("scores", f"expected a finite number, got {values[row]}", at=f"[{row}]")
        index = _Numbering()
        code = np.fromiter(map(index.__getitem__, topics), dtype=np.int64, count=len(topics))
        run, repeat = _sorted_run(list(index), code, objects(documents), values, tag, duplicates)
        if repeat is not None:
            raise BadInput(
                "docid",
                f"expected each once a topic, got {_shown(repeat[1])} twice in topic {_shown(repeat[0])}",
                "pass {duplicates='best'} to keep the higher score",
            )
        return run

    @property
    def n_topics(self) -> int:
        return int(self.topics.shape[0])

    @property
    def n_rows(self) -> int:
        return int(self.docid.shape[0])

    def top(self, depth: int) -> Run:
        """The first ``depth`` documents of each topic."""
        check_whole("depth", depth)
        lengths = np.minimum(np.diff(self.offsets), depth)
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        rows = np.repeat(self.offsets[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Run(self.topics, offsets, self.docid[rows], self.scores[rows], self.tag)

    def __repr__(self) -> str:
        return f"Run({self.tag!r}: {self.n_topics} topics, {self.n_rows} rows)"


@dataclass(frozen=True)
class Qrels:
    """Judgments: a grade for each judged document of a topic.

    Attributes
    ----------
    topics : ndarray of str (object), shape (n_topics,)
        In the order of their first row.
    offsets : ndarray of int64, shape (n_topics + 1,)
        Rows ``offsets[t]:offsets[t + 1]`` are the judgments of topic ``t``.
    docid : ndarray of str (object), shape (n_rows,)
    grades : ndarray of int64, shape (n_rows,)
        As stated in the file; below zero where assessors said so (spam).
    subtopic : ndarray of str (object), shape (n_rows,), or None
        The second column, where it was read as a subtopic; a document then has a row for each.
    """

    topics: NDArray[Any]
    offsets: Int
    docid: NDArray[Any]
    grades: Int
    subtopic: NDArray[Any] | None = None

    @classmethod
    def from_arrays(
        cls, topic: Any, docid: Any, grades: Any, *, subtopic: Any = None, duplicates: Duplicates = "error"
    ) -> Qrels:
        """Group rows into judgments.

        Parameters
        ----------
        topic, docid : array-like of str or int, shape (n_rows,)
            Rows in any order.
        grades : array-like of int, shape (n_rows,)
        subtopic : array-like of str or int, shape (n_rows,), optional
        duplicates : {"error", "best"}, default="error"
            A document twice in a topic (and subtopic): an error, or the row with the higher grade.

        Returns
        -------
        Qrels

        Raises
        ------
        ValueError
            For other lengths, grades that are no whole numbers, or a duplicate.

        Examples
        --------
        >>> Qrels.from_arrays([7, 9, 7], ["a", "a", "b"], [0, 1, 2])
        Qrels(2 topics, 3 judgments, grades 0: 1, 1: 1, 2: 1)
        """
        _check_duplicates_option(duplicates)
        values = np.asarray(grades)
        if values.dtype.kind not in "iub" and not (values == np.floor(values)).all():
            raise BadInput("grades", "expected whole numbers")
        topics, documents = _strings(topic), _strings(docid)
        parts = None if subtopic is None else _strings(subtopic)
        if values.ndim != 1 or not len(topics) == len(documents) == len(values):
            raise BadInput(
                "grades",
                f"expected one for each row, got shape {values.shape} with {len(topics)} topics and {len(documents)} "
                "docids",
            )
        index = _Numbering()
        code = np.fromiter(map(index.__getitem__, topics), dtype=np.int64, count=len(topics))
        qrels, repeat = _grouped_qrels(
            list(index), code, documents, values.astype(np.int64), parts, duplicates
        )
        if repeat is not None:
            raise BadInput(
                "docid",
                f"expected each once a topic, got {_shown(repeat[1])} twice in topic {_shown(repeat[0])}",
                "pass {duplicates='best'} to keep the higher grade",
            )
        return qrels

    @property
    def n_topics(self) -> int:
        return int(self.topics.shape[0])

    @property
    def n_rows(self) -> int:
        return int(self.docid.shape[0])

    def __repr__(self) -> str:
        grades, counts = np.unique(self.grades, return_counts=True)
        shares = ", ".join(f"{g}: {n}" for g, n in zip(grades[:12], counts[:12], strict=True))
        return f"Qrels({self.n_topics} topics, {self.n_rows} judgments, grades {shares})"


def read_run(
    path: str | PathLike[str],
    *,
    depth: int | None = None,
    duplicates: Duplicates = "error",
    max_expansion: float | None = None,
) -> Run:
    """Read a TREC run.

    Parameters
    ----------
    path : path
        Plain, gzip, bzip2 or xz, told by the first bytes. Six columns
        ``<topic> Q0 <docid> <rank> <score> <tag>``; the second and the rank may be any word. The topics may be
        interleaved, blank lines are skipped. The tag is that of the first line.
    depth : int, optional
        Keep that many documents of each topic, by score. Default: all.
    duplicates : {"error", "best"}, default="error"
        A document twice in a topic: an error, or the row with the higher score.
    max_expansion : float, optional
        Bytes of text per byte of a compressed file, at most, beyond the first 64 MB of text; see
        :func:`structsvm.readers.read_letor`. Default: 200; public runs have about 10.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        With file, line, expectation and offender: for another number of columns, a column of more than 1024
        bytes, a score that is not a finite number (``nan``, ``inf``, ``1e400``), an id that is not UTF-8, a NUL
        byte, a duplicate; for an empty, truncated or damaged file, one beyond ``max_expansion``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "bm25.run")
    >>> _ = path.write_text("301 Q0 FT-1 1 2.5 bm25\\n301 Q0 FT-2 2 7 bm25\\n")
    >>> run = read_run(path)
    >>> run, run.docid.tolist()
    (Run('bm25': 1 topics, 2 rows), ['FT-2', 'FT-1'])
    """
    path = Path(path)
    _check_duplicates_option(duplicates)
    if depth is not None:
        check_whole("depth", depth, remedy="None is all of them")
    index, codes, documents, scores, tag = _Numbering(), [], [], [], ""
    for block in _blocks(path, _RUN_COLUMNS, max_expansion):
        tag = tag or block.words[5][0].decode("utf-8", "backslashreplace")
        codes.append(np.fromiter(map(index.__getitem__, block.words[0]), np.int64, block.n_rows))
        documents += block.docid
        scores.append(np.array(block.numbers, dtype=np.float64))
    if not codes:
        raise ValueError(f"{path}: expected lines '{_RUN}', got an empty file")
    topics = [word.decode() for word in index]
    run, repeat = _sorted_run(
        topics, np.concatenate(codes), objects(documents), np.concatenate(scores), tag, duplicates
    )
    if repeat is not None:
        _refuse_repeat(path, [0, 2], "the higher score", max_expansion)
    return run if depth is None else run.top(depth)


def read_qrels(
    path: str | PathLike[str],
    *,
    subtopics: bool = False,
    duplicates: Duplicates = "error",
    max_expansion: float | None = None,
) -> Qrels:
    """Read TREC judgments.

    Parameters
    ----------
    path : path
        Plain, gzip, bzip2 or xz, told by the first bytes. Four columns ``<topic> <iteration> <docid> <grade>``;
        the topics may be interleaved, blank lines are skipped.
    subtopics : bool, default=False
        Whether the second column is a subtopic, as in the judgments of the diversity task; it is ignored
        otherwise.
    duplicates : {"error", "best"}, default="error"
        A document twice in a topic (and subtopic): an error, or the row with the higher grade.
    max_expansion : float, optional
        As for :func:`read_run`.

    Returns
    -------
    Qrels

    Raises
    ------
    ValueError
        As :func:`read_run`; a grade is a whole number, of either sign.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "qrels.txt")
    >>> _ = path.write_text("301 0 FT-1 2\\n301 0 FT-2 -2\\n")
    >>> read_qrels(path)
    Qrels(1 topics, 2 judgments, grades -2: 1, 2: 1)
    """
    path = Path(path)
    _check_duplicates_option(duplicates)
    index, codes, documents, grades, parts = _Numbering(), [], [], [], []
    columns = _SUBTOPIC_COLUMNS if subtopics else _QRELS_COLUMNS
    for block in _blocks(path, columns, max_expansion):
        codes.append(np.fromiter(map(index.__getitem__, block.words[0]), np.int64, block.n_rows))
        documents += block.docid
        grades.append(np.array(block.numbers, dtype=np.int64))
        if subtopics:
            parts += [word.decode() for word in block.words[1]]
    if not codes:
        raise ValueError(f"{path}: expected lines '{_QRELS}', got an empty file")
    topics = [word.decode() for word in index]
    qrels, repeat = _grouped_qrels(
        topics, np.concatenate(codes), documents, np.concatenate(grades), parts or None, duplicates
    )
    if repeat is not None:
        key = [0, 1, 2] if subtopics else [0, 2]
        kept = "the higher grade" + ("" if subtopics else ", or subtopics=True")
        _refuse_repeat(path, key, kept, max_expansion)
    return qrels


def write_run(run: Run, path: str | PathLike[str]) -> None:
    """Write a TREC run that :func:`read_run` reads back bit for bit. Ranks count from 1.

    Compressed if ``path`` ends in ``.gz``, ``.bz2`` or ``.xz``. The file appears when it is complete; if writing
    fails, an earlier file stays.

    Parameters
    ----------
    run : Run
    path : path

    Raises
    ------
    ValueError
        If an id or the tag is empty or has white space or a NUL in it: the format cannot say that.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "out.run")
    >>> write_run(Run.from_arrays([7, 7], ["a", "b"], [0.1, 2], tag="mine"), path)
    >>> path.read_text()
    '7 Q0 b 1 2.0 mine\\n7 Q0 a 2 0.1 mine\\n'
    """
    tag = _check_words([run.tag], "tag")[0]
    topics = _check_words(run.topics.tolist(), "topic")
    _check_words(run.docid.tolist(), "docid")
    with replacing(Path(path)) as file:
        for topic, first, last in zip(topics, run.offsets[:-1], run.offsets[1:], strict=True):
            rows = zip(run.docid[first:last].tolist(), run.scores[first:last].tolist(), strict=True)
            text = "".join(f"{topic} Q0 {d} {i} {s!r} {tag}\n" for i, (d, s) in enumerate(rows, start=1))
            file.write(text.encode())


def write_qrels(qrels: Qrels, path: str | PathLike[str]) -> None:
    """Write TREC judgments; the second column is the subtopic, or 0.

    Parameters
    ----------
    qrels : Qrels
    path : path
        As for :func:`write_run`.

    Raises
    ------
    ValueError, OSError
        As :func:`write_run`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "qrels.txt")
    >>> write_qrels(Qrels.from_arrays([7, 7], ["a", "b"], [1, 0]), path)
    >>> path.read_text()
    '7 0 a 1\\n7 0 b 0\\n'
    """
    topics = _check_words(qrels.topics.tolist(), "topic")
    documents = _check_words(qrels.docid.tolist(), "docid")
    if qrels.subtopic is None:
        parts = ["0"] * qrels.n_rows
    else:
        parts = _check_words(qrels.subtopic.tolist(), "subtopic")
    grades = qrels.grades.tolist()
    with replacing(Path(path)) as file:
        for topic, first, last in zip(topics, qrels.offsets[:-1], qrels.offsets[1:], strict=True):
            rows = zip(parts[first:last], documents[first:last], grades[first:last], strict=True)
            file.write("".join(f"{topic} {part} {d} {grade}\n" for part, d, grade in rows).encode())


class _Numbering(dict[Any, int]):
    """Numbers its keys in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


class _Columns(NamedTuple):
    """A format: grammar, number of columns (``width``), which hold ids, where the number stands and of what kind."""

    grammar: str
    width: int
    ids: tuple[int, ...]
    number_at: int
    whole: bool


_RUN_COLUMNS = _Columns(_RUN, 6, (0, 2), 4, whole=False)
_QRELS_COLUMNS = _Columns(_QRELS, 4, (0, 2), 3, whole=True)
_SUBTOPIC_COLUMNS = _Columns(_QRELS, 4, (0, 1, 2), 3, whole=True)


class _Block(NamedTuple):
    """Some lines, column by column: the words, decoded docids, and the numbers."""

    words: list[list[bytes]]
    docid: list[str]
    numbers: list[float] | list[int]

    @property
    def n_rows(self) -> int:
        return len(self.docid)


def _blocks(path: Path, columns: _Columns, max_expansion: float | None) -> Iterator[_Block]:
    """The lines of a file; blocks of blank lines alone are left out."""
    n_lines = 0
    for array in read_blocks(path, _BLOCK_BYTES, max_expansion=max_expansion):
        text = array.tobytes()
        block = _split(text, columns)
        if block is None:
            block = _split_lines(text, columns, path, n_lines)
        if block is not None:
            yield block
        n_lines += text.count(b"\n")


def _split(text: bytes, columns: _Columns) -> _Block | None:
    """All lines at once, or None if any of them needs a closer look."""
    step, n_lines = columns.width + 1, text.count(b"\n")
    if b"\0" in text or (_BOM[:1] in text and _BOM in text):  # one byte is found faster than three
        return None
    if len(text) > 2 * _BLOCK_BYTES:  # a line is longer than a block
        return None
    words = text.replace(b"\n", b" \0 ").split()  # marked line ends: none has more or less
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
        if b"_" in b"".join(numbers):  # float() takes 1_000
            return None
        if columns.whole:
            grades = list(map(int, numbers))
            return _Block(by_column, docid, grades) if _fits(grades) else None
        scores = list(map(float, numbers))
    except ValueError:
        return None
    return _Block(by_column, docid, scores) if np.isfinite(scores).all() else None


def _split_lines(text: bytes, columns: _Columns, path: Path, n_before: int) -> _Block | None:
    """The same line by line: blank lines are skipped, the first wrong one is an error."""
    by_column: list[list[bytes]] = [[] for _ in range(columns.width)]
    docid: list[str] = []
    numbers: list[Any] = []
    # the text ends in a line feed, so the last piece is no line
    for n, line in enumerate(text.split(b"\n")[:-1], start=n_before + 1):
        words = line.split(None, columns.width)
        if not words:
            continue

        def refuse(expected: str, got: bytes, n: int = n) -> NoReturn:
            raise ValueError(f"{path}:{n}: expected {expected}, got {_shown(got)}")

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
        value = _number(words[columns.number_at], columns.whole)
        if value is None:
            refuse("a whole number as grade" if columns.whole else "a finite score", words[columns.number_at])
        docid.append(words[2].decode())
        numbers.append(value)
        for column, word in zip(by_column, words, strict=True):
            column.append(word)
    return _Block(by_column, docid, numbers) if docid else None


def _number(word: bytes, whole: bool) -> float | int | None:
    """The number a word states, None if it states none that is finite."""
    if b"_" in word:
        return None
    try:
        if whole:
            grade = int(word)
            return grade if _fits([grade]) else None
        score = float(word)
    except ValueError:
        return None
    return score if math.isfinite(score) else None


def _fits(grades: Sequence[int]) -> bool:
    return min(grades) >= -(2**31) and max(grades) < 2**31


def _refuse_repeat(path: Path, key: list[int], kept: str, max_expansion: float | None) -> NoReturn:
    """Find the line of the first repeated document again: files without one need not remember their lines."""
    seen: dict[tuple[bytes, ...], int] = {}
    n = 0
    for array in read_blocks(path, _BLOCK_BYTES, max_expansion=max_expansion):
        for line in array.tobytes().split(b"\n")[:-1]:
            n += 1
            words = line.split()
            if not words:
                continue
            document = tuple(words[k] for k in key)
            if document in seen:
                raise ValueError(
                    f"{path}:{n}: expected each document once a topic, got {_shown(words[2])} in topic "
                    f"{_shown(words[0])} again (first in line {seen[document]}); pass duplicates='best' to keep {kept}"
                )
            seen[document] = n
    raise ValueError(f"{path}: expected each document once a topic; the file changed while it was read")


def _sorted_run(
    topics: list[str],
    code: Int,
    docid: NDArray[Any],
    scores: Float,
    tag: str,
    duplicates: Duplicates,
) -> tuple[Run, tuple[str, str] | None]:
    """The run, and topic and docid of a repeated document where that is an error."""
    order = np.lexsort((-scores, code))
    code, docid, scores = code[order], docid[order], scores[order]
    _order_ties(code, docid, scores)
    offsets = np.searchsorted(code, np.arange(len(topics) + 1)).astype(np.int64)
    keep, repeat = _first_of_each(topics, offsets, docid.tolist(), duplicates)
    if keep is not None:
        code, docid, scores = code[keep], docid[keep], scores[keep]
        offsets = np.searchsorted(code, np.arange(len(topics) + 1)).astype(np.int64)
    return Run(objects(topics), offsets, docid, scores, tag), repeat


def _order_ties(code: Int, docid: NDArray[Any], scores: Float) -> None:
    """Equal scores by docid, descending, in place. Code points order strings as trec_eval orders their bytes."""
    new = np.ones(code.shape[0] + 1, dtype=np.bool_)
    new[1:-1] = (code[1:] != code[:-1]) | (scores[1:] != scores[:-1])
    starts = np.flatnonzero(new)
    long = np.flatnonzero(np.diff(starts) > 1)
    for first, last in zip(starts[long].tolist(), starts[long + 1].tolist(), strict=True):
        docid[first:last] = sorted(docid[first:last].tolist(), reverse=True)


def _grouped_qrels(
    topics: list[str],
    code: Int,
    docid: list[str],
    grades: Int,
    subtopic: list[str] | None,
    duplicates: Duplicates,
) -> tuple[Qrels, tuple[str, str] | None]:
    if (np.diff(code) < 0).any() or duplicates == "best":
        # the best grade first, where only the first of each document stays; else in the order of the file
        order = np.lexsort((-grades, code)) if duplicates == "best" else np.argsort(code, kind="stable")
        code, grades = code[order], grades[order]
        docid = [docid[i] for i in order.tolist()]
        subtopic = None if subtopic is None else [subtopic[i] for i in order.tolist()]
    offsets = np.searchsorted(code, np.arange(len(topics) + 1)).astype(np.int64)
    keys: list[Any] = docid if subtopic is None else list(zip(docid, subtopic, strict=True))
    keep, repeat = _first_of_each(topics, offsets, keys, duplicates)
    documents, parts = objects(docid), None if subtopic is None else objects(subtopic)
    if keep is not None:
        code, grades, documents = code[keep], grades[keep], documents[keep]
        parts = None if parts is None else parts[keep]
        offsets = np.searchsorted(code, np.arange(len(topics) + 1)).astype(np.int64)
    return Qrels(objects(topics), offsets, documents, grades, parts), repeat


def _first_of_each(
    topics: list[str], offsets: Int, keys: list[Any], duplicates: Duplicates
) -> tuple[NDArray[np.bool_] | None, tuple[str, str] | None]:
    """Which rows stay where a key repeats in a topic (None: all), and the first repeat where it is an error."""
    keep = None
    for t, (first, last) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        if len(set(keys[first:last])) == last - first:
            continue
        seen: set[Any] = set()
        if keep is None:
            keep = np.ones(len(keys), dtype=np.bool_)
        for i in range(first, last):
            if keys[i] in seen:
                if duplicates == "error":
                    return None, (topics[t], keys[i] if isinstance(keys[i], str) else keys[i][0])
                keep[i] = False
            seen.add(keys[i])
    return keep, None


def _check_duplicates_option(duplicates: str) -> None:
    check_choice("duplicates", duplicates, ("error", "best"))


def _check_words(words: list[Any], what: str) -> list[str]:
    """Ids as text, refused where white space (the blanks that separate columns) would tear them."""
    texts = [str(word) for word in words]
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        if data.split() != [data] or b"\0" in data or len(data) > _LONGEST:
            raise BadInput(
                what, f"expected 1 to {_LONGEST} bytes without white space or NUL, got {_shown(text)}"
            )
    return texts


def _strings(ids: Any) -> list[str]:
    return [str(word) for word in (ids.tolist() if hasattr(ids, "tolist") else ids)]


def objects(words: Sequence[str]) -> NDArray[Any]:
    """Ids as an array of references: one long id does not widen all, and equal arrays may share their strings."""
    array = np.empty(len(words), dtype=object)
    array[:] = words
    return array


def _shown(offender: bytes | str) -> str:
    return shorten(offender[:200])
