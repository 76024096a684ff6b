"""TREC judgments: ``<topic> <iteration> <docid> <grade>``, one grade for each judged document of a topic."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, counted
from structsvm.common.files import AnyPath
from structsvm.common.tables.ids import id_texts
from structsvm.protocols import Int
from structsvm.queries import refuse_first
from structsvm.readers import trec
from structsvm.readers.trec import Duplicates, Name

_GRAMMAR = "<topic> <iteration> <docid> <grade>"
_COLUMNS = trec.Columns(_GRAMMAR, 4, (0, 2), 3, whole=True)
_SUBTOPIC_COLUMNS = trec.Columns(_GRAMMAR, 4, (0, 1, 2), 3, whole=True)


@dataclass(frozen=True)
class Qrels(trec.Listing):
    """Judgments: one grade for each judged document of a topic.

    Attributes
    ----------
    topics, offsets, docid
        As in :class:`Run`.
    grades : ndarray of int64, shape (n_rows,)
        Grades as in the file; assessors use negative grades for spam.
    subtopic : ndarray of str (object), shape (n_rows,), or None
        The second column, if it was read as a subtopic; a document then has one row per subtopic.

    Examples
    --------
    >>> qrels = Qrels.from_arrays([301, 301, 302], ["d2", "d7", "d1"], [1, 0, 2])
    >>> here = slice(*qrels.offsets[:2])
    >>> dict(zip(qrels.docid[here], qrels.grades[here].tolist()))  # the judgments of the first topic
    {'d2': 1, 'd7': 0}
    """

    topics: NDArray[Any]
    offsets: Int
    docid: NDArray[Any]
    grades: Int
    subtopic: NDArray[Any] | None = None
    _numbers: ClassVar[str] = "grades"

    @classmethod
    def from_arrays(
        cls,
        topic: object,
        docid: ArrayLike,
        grades: ArrayLike,
        *,
        subtopic: Any = None,
        duplicates: Duplicates = "error",
    ) -> "Qrels":
        """Return judgments from rows in any order.

        Parameters
        ----------
        topic, docid : array-like of str or int, shape (n_rows,)
            Rows in any order.
        grades : array-like of int, shape (n_rows,)
            Integers of either sign, of at most 32 bits.
        subtopic : array-like of str or int, shape (n_rows,), optional
            Subtopics of the rows; None if judgments are not by subtopic.
        duplicates : {"error", "best"}, default="error"
            Whether a document that occurs twice in a topic (and subtopic) is an error, or its highest grade is kept.

        Returns
        -------
        Qrels

        Examples
        --------
        >>> Qrels.from_arrays([7, 9, 7], ["a", "a", "b"], [0, 1, 2])
        Qrels(2 topics, 3 judgments, grades 0: 1, 1: 1, 2: 1)
        """
        trec.check_duplicates(duplicates)
        values = np.asarray(grades)
        if values.dtype.kind not in "iubf":
            raise BadInput("grades", f"expected integers, got {values.dtype}")
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(values.astype(np.float64)) < 2**31) | (values != np.floor(values))
        refuse_first("grades", values, wrong, "a 32-bit integer")
        topics, code, documents = trec.number_topics(topic, docid, values, "grades")
        parts = None if subtopic is None else id_texts("subtopic", subtopic, empty=True, as_written=True)
        return _grouped_qrels(topics, code, documents, values.astype(np.int64), parts, duplicates)

    @classmethod
    def from_frame(
        cls, frame: object, *, topic: Name = None, docid: Name = None, grade: Name = None
    ) -> "Qrels":
        """Return the judgments of a pandas or polars frame with one row for each document of a topic.

        Parameters
        ----------
        frame : pandas or polars DataFrame, or object with the Arrow stream interface
        topic, docid, grade : str, optional
            Names of the columns; by default the first that exists among: "topic", "qid", "query_id",
            "q_id", "query"; "docno", "docid", "doc_id", "document"; "grade", "label", "relevance", "rel".

        Returns
        -------
        Qrels

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": [7, 7], "docno": ["a", "b"], "label": [1, 0]})
        >>> Qrels.from_frame(frame).to_dict()
        {'7': {'a': 1, 'b': 0}}
        """
        return cls.from_arrays(*trec.columns_of(frame, topic=topic, docid=docid, grade=grade))

    @classmethod
    def from_dict(cls, nested: Mapping[Any, Mapping[Any, int]]) -> "Qrels":
        """Return the judgments in a mapping ``{topic: {document: grade}}``, the format of pytrec_eval and ranx.

        Examples
        --------
        >>> Qrels.from_dict({"7": {"a": 1, "b": 0}}).n_rows
        2
        """
        return cls.from_arrays(*trec.rows_of_dict(nested))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with the columns ``topic``, ``docid``, ``grade`` and, if present, ``subtopic``.

        Examples
        --------
        >>> Qrels.from_dict({"7": {"a": 1}}).to_frame().to_dict("list")
        {'topic': ['7'], 'docid': ['a'], 'grade': [1]}
        """
        subtopic = {} if self.subtopic is None else {"subtopic": self.subtopic}
        return self._frame(grade=self.grades, **subtopic)

    def __repr__(self) -> str:
        grades, counts = np.unique(self.grades, return_counts=True)
        shares = ", ".join(f"{g}: {n}" for g, n in zip(grades[:12], counts[:12], strict=True))
        return f"Qrels({counted(topic=self.n_topics, judgment=self.n_rows)}, grades {shares})"


def read_qrels(
    path: AnyPath,
    *,
    subtopics: bool = False,
    duplicates: Duplicates = "error",
    max_expansion: float | None = None,
) -> Qrels:
    """Read TREC judgments.

    Parameters
    ----------
    path : path
        As for :func:`read_run`, with four columns ``<topic> <iteration> <docid> <grade>``.
    subtopics : bool, default=False
        Whether the second column is a subtopic, as in the judgments of the diversity task; it is ignored otherwise.
    duplicates : {"error", "best"}, default="error"
        Whether a document that occurs twice in a topic (and subtopic) is an error, or its highest grade is kept.
    max_expansion : float, optional
        As for :func:`read_letor`.

    Returns
    -------
    Qrels

    Raises
    ------
    ValueError
        As for :func:`read_run`; a grade is an integer of either sign.

    Examples
    --------
    >>> _ = Path("qrels.txt").write_text("301 0 FT-1 2\\n301 0 FT-2 -2\\n")
    >>> read_qrels("qrels.txt")
    Qrels(1 topic, 2 judgments, grades -2: 1, 2: 1)
    """
    path = Path(path)
    trec.check_duplicates(duplicates)
    parts: list[str] = []

    def look(block: trec.Block) -> None:
        if subtopics:
            parts.extend(word.decode() for word in block.words[1])

    rows = trec.read_rows(path, _SUBTOPIC_COLUMNS if subtopics else _COLUMNS, max_expansion, look)
    try:
        return _grouped_qrels(*rows, parts or None, duplicates)
    except BadInput as error:
        raise BadInput(
            path, error.problem, error.remedy + ("" if subtopics else ", or subtopics=True")
        ) from None


def write_qrels(qrels: Qrels, path: AnyPath) -> None:
    """Write TREC judgments; the second column is the subtopic, or 0.

    Parameters
    ----------
    qrels : Qrels
        Judgments to write.
    path : path
        As for :func:`write_letor`.

    Raises
    ------
    ValueError, OSError
        As for :func:`write_run`.

    Examples
    --------
    >>> write_qrels(Qrels.from_arrays([7, 7], ["a", "b"], [1, 0]), "qrels.txt")
    >>> Path("qrels.txt").read_text()
    '7 0 a 1\\n7 0 b 0\\n'
    """
    parts = trec.check_words(
        ["0"] * qrels.n_rows if qrels.subtopic is None else qrels.subtopic.tolist(), "subtopic"
    )

    def text_of(topic: str, here: slice) -> str:
        rows = zip(parts[here], qrels.docid[here].tolist(), qrels.grades[here].tolist(), strict=True)
        return "".join(f"{topic} {part} {d} {grade}\n" for part, d, grade in rows)

    trec.write_rows(qrels, path, text_of)


def _grouped_qrels(
    topics: list[str], code: Int, docid: list[str], grades: Int, subtopic: Any, duplicates: Duplicates
) -> Qrels:
    if (np.diff(code) < 0).any() or duplicates == "best":
        # with "best" the highest grade comes first, because the first row of each document is kept; else file order
        order = np.lexsort((-grades, code)) if duplicates == "best" else np.argsort(code, kind="stable")
        code, grades = code[order], grades[order]
        docid = [docid[i] for i in order.tolist()]
        subtopic = None if subtopic is None else [subtopic[i] for i in order.tolist()]
    keys: list[Any] = docid if subtopic is None else list(zip(docid, subtopic, strict=True))
    parts = None if subtopic is None else trec.objects(subtopic)
    offsets, kept = trec.once_each(
        topics, code, keys, duplicates, "the higher grade", trec.objects(docid), grades, parts
    )
    return Qrels(trec.objects(topics), offsets, *kept)
