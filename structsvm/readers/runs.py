"""TREC runs: ``<topic> Q0 <docid> <rank> <score> <tag>``, a ranking for each topic.

A run is in descending order of its scores; equal scores are in descending order of docid, as in trec_eval (which
compares scores as float32; this module keeps their precision). The rank column is used only with ``by="rank"``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice, check_whole, counted
from structsvm.common.files import AnyPath
from structsvm.protocols import Float, Int
from structsvm.queries import offsets_of, places_in, refuse_first, rows_from, warn_user
from structsvm.readers import trec
from structsvm.readers.trec import Duplicates, Name

_COLUMNS = trec.Columns("<topic> Q0 <docid> <rank> <score> <tag>", 6, (0, 2), 4, whole=False)


@dataclass(frozen=True)
class Run(trec.Listing):
    """A ranking for each topic, best document first.

    Attributes
    ----------
    topics : ndarray of str (object), shape (n_topics,)
        Topics in the order of their first row.
    offsets : ndarray of int64, shape (n_topics + 1,)
        Rows ``offsets[t]:offsets[t + 1]`` belong to topic ``t``.
    docid : ndarray of str (object), shape (n_rows,)
        Ids of the documents.
    scores : ndarray of float64, shape (n_rows,)
        Descending within a topic; equal scores are in descending order of docid.
    tag : str
        Name of the system.

    Examples
    --------
    >>> run = Run.from_arrays(["301", "301", "302"], ["d2", "d7", "d1"], [0.3, 0.9, 0.5], tag="mine")
    >>> run.docid[run.offsets[0] : run.offsets[1]].tolist()  # the ranking of the first topic
    ['d7', 'd2']
    """

    topics: NDArray[Any]
    offsets: Int
    docid: NDArray[Any]
    scores: Float
    tag: str = "structsvm"
    _numbers: ClassVar[str] = "scores"

    @classmethod
    def from_arrays(
        cls,
        topic: object,
        docid: ArrayLike,
        scores: ArrayLike,
        *,
        tag: str = "structsvm",
        duplicates: Duplicates = "error",
    ) -> "Run":
        """Return a run from rows in any order.

        Parameters
        ----------
        topic, docid : array-like of str or int, shape (n_rows,)
            Rows in any order.
        scores : array-like of float, shape (n_rows,)
            Finite scores; higher is better.
        tag : str
            Name of the system.
        duplicates : {"error", "best"}, default="error"
            Whether a document that occurs twice in a topic is an error, or its highest score is kept.

        Returns
        -------
        Run

        Examples
        --------
        >>> Run.from_arrays([7, 7, 7], ["a", "c", "b"], [0.5, 0.9, 0.5]).docid.tolist()
        ['c', 'b', 'a']
        """
        trec.check_duplicates(duplicates)
        values = np.asarray(scores, dtype=np.float64)
        topics, code, documents = trec.number_topics(topic, docid, values, "scores")
        refuse_first("scores", values, ~np.isfinite(values), "a finite number")
        return _sorted_run(topics, code, trec.objects(documents), values, tag, duplicates)

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        topic: Name = None,
        docid: Name = None,
        score: Name = None,
        tag: str = "structsvm",
    ) -> "Run":
        """Return the run of a pandas or polars frame with one row for each document of a topic.

        Parameters
        ----------
        frame : pandas or polars DataFrame, or object with the Arrow stream interface
        topic, docid, score : str, optional
            Names of the columns; by default the first that exists among: "topic", "qid", "query_id",
            "q_id", "query"; "docno", "docid", "doc_id", "document"; "score".
        tag : str
            Name of the system.

        Returns
        -------
        Run

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": [7, 7], "docno": ["a", "b"], "score": [0.5, 0.9]})
        >>> Run.from_frame(frame).to_dict()
        {'7': {'b': 0.9, 'a': 0.5}}
        """
        return cls.from_arrays(*trec.columns_of(frame, topic=topic, docid=docid, score=score), tag=tag)

    @classmethod
    def from_dict(cls, nested: Mapping[Any, Mapping[Any, float]], *, tag: str = "structsvm") -> "Run":
        """Return the run in a mapping ``{topic: {document: score}}``, the format of pytrec_eval and ranx.

        Examples
        --------
        >>> Run.from_dict({"7": {"a": 0.5, "b": 0.9}}).n_rows
        2
        """
        return cls.from_arrays(*trec.rows_of_dict(nested), tag=tag)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with the columns ``topic``, ``docid``, ``score`` and ``rank``.

        Examples
        --------
        >>> Run.from_dict({"7": {"a": 0.5}}).to_frame().to_dict("list")
        {'topic': ['7'], 'docid': ['a'], 'score': [0.5], 'rank': [1]}
        """
        return self._frame(score=self.scores, rank=places_in(self.offsets))

    def top(self, depth: int) -> "Run":
        """Return the first ``depth`` documents of each topic."""
        check_whole("depth", depth)
        lengths = np.minimum(np.diff(self.offsets), depth)
        rows = rows_from(self.offsets[:-1], lengths)
        return Run(self.topics, offsets_of(lengths), self.docid[rows], self.scores[rows], self.tag)

    def __repr__(self) -> str:
        return f"Run({self.tag!r}: {counted(topic=self.n_topics, row=self.n_rows)})"


def read_run(
    path: AnyPath,
    *,
    depth: int | None = None,
    by: Literal["score", "rank"] = "score",
    duplicates: Duplicates = "error",
    max_expansion: float | None = None,
) -> Run:
    """Read a TREC run.

    Parameters
    ----------
    path : path
        Plain or compressed, as for :func:`read_letor`. Six columns ``<topic> Q0 <docid> <rank> <score> <tag>``; the
        second and the rank may be any word. Topics may be interleaved; blank lines are skipped. The tag is taken
        from the first line.
    depth : int, optional
        Number of documents of each topic to keep. Default: all.
    by : {"score", "rank"}, default="score"
        Column that orders the documents. The default follows trec_eval, with a warning if ranks contradict scores on
        most topics, that is, if at least a quarter of the documents adjacent by rank are in reverse order of score, as
        in runs with many equal scores. With "rank" the scores are minus the ranks, which have to be integers.
    duplicates : {"error", "best"}, default="error"
        Whether a document that occurs twice in a topic is an error, or its highest score is kept.
    max_expansion : float, optional
        As for :func:`read_letor`.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        With file, line, expectation and offender: for a wrong number of columns, a column of more than 1024
        bytes, a score that is not a finite number (``nan``, ``inf``, ``1e400``), an id that is not UTF-8, a NUL
        byte, a duplicate; for an empty, truncated or damaged file, or one that exceeds ``max_expansion``.

    Examples
    --------
    >>> _ = Path("bm25.run").write_text("301 Q0 FT-1 2 2.5 bm25\\n301 Q0 FT-2 1 7 bm25\\n")
    >>> run = read_run("bm25.run")
    >>> run, run.docid.tolist()
    (Run('bm25': 1 topic, 2 rows), ['FT-2', 'FT-1'])
    """
    path = Path(path)
    trec.check_duplicates(duplicates)
    if depth is not None:
        check_whole("depth", depth, remedy="None means all documents")
    check_choice("by", by, ("score", "rank"))
    tags: list[bytes] = []
    ranks: list[float] = []

    def look(block: trec.Block) -> None:
        tags.append(block.words[5][0])
        ranks.extend(int(word) if word.isdigit() and len(word) < 16 else np.nan for word in block.words[3])

    topics, code, documents, scores = trec.read_rows(path, _COLUMNS, max_expansion, look)
    tag = tags[0].decode("utf-8", "backslashreplace")
    stated = np.array(ranks)
    if by == "rank":
        if (bad := np.isnan(stated)).any():
            row = int(bad.argmax())
            raise BadInput(
                path,
                f"expected an integer as rank of {trec.shown(documents[row])} of topic "
                f"{trec.shown(topics[code[row]])}, got something else",
                "order by the scores",
            )
        scores = -stated
    elif n := _contradicted(code, stated, documents, scores):
        warn_user(
            f"{path}: the rank column differs from the order by score, ties by docid, on {n} of {len(topics)} topics; "
            "documents are ordered by score, as in trec_eval; read_run(by='rank') and fuse --by-rank use ranks"
        )
    try:
        run = _sorted_run(topics, code, trec.objects(documents), scores, tag, duplicates)
    except BadInput as error:
        raise BadInput(path, error.problem, error.remedy) from None
    return run if depth is None else run.top(depth)


def write_run(run: Run, path: AnyPath) -> None:
    """Write a TREC run that :func:`read_run` reads back bit for bit; ranks count from 1.

    Parameters
    ----------
    run : Run
        Run to write.
    path : path
        As for :func:`write_letor`.

    Raises
    ------
    ValueError
        If an id or the tag is empty or contains white space or NUL, which the format cannot represent.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> write_run(Run.from_arrays([7, 7], ["a", "b"], [0.1, 2], tag="mine"), "out.run")
    >>> Path("out.run").read_text()
    '7 Q0 b 1 2.0 mine\\n7 Q0 a 2 0.1 mine\\n'
    """
    tag = trec.check_words([run.tag], "tag")[0]

    def text_of(topic: str, here: slice) -> str:
        rows = zip(run.docid[here].tolist(), run.scores[here].tolist(), strict=True)
        return "".join(f"{topic} Q0 {d} {i} {s!r} {tag}\n" for i, (d, s) in enumerate(rows, start=1))

    trec.write_rows(run, path, text_of)


def _contradicted(code: Int, ranks: Float, docid: list[str], scores: Float) -> int:
    """Return the number of topics whose ranks contradict the order of scores; 0 unless they are the majority."""
    order = np.lexsort((ranks, code))
    one, other = order[:-1], order[1:]
    pairs = (code[one] == code[other]) & (ranks[one] < ranks[other])  # equal or missing ranks give no order
    wrong = scores[one] < scores[other]
    for k in np.flatnonzero(pairs & (scores[one] == scores[other])).tolist():
        wrong[k] = docid[one[k]] < docid[other[k]]
    n_pairs, n_wrong = (np.bincount(code[one][which]) for which in (pairs, pairs & wrong))
    n_wrong = np.pad(n_wrong, (0, n_pairs.size - n_wrong.size))
    n = int(((n_pairs > 0) & (4 * n_wrong >= n_pairs)).sum())
    return n if 2 * n > code.max() + 1 else 0


def _sorted_run(
    topics: list[str], code: Int, docid: NDArray[Any], scores: Float, tag: str, duplicates: Duplicates
) -> Run:
    order = np.lexsort((-scores, code))
    code, docid, scores = code[order], docid[order], scores[order]
    _order_ties(code, docid, scores)
    offsets, (docid, scores) = trec.once_each(
        topics, code, docid.tolist(), duplicates, "the higher score", docid, scores
    )
    return Run(trec.objects(topics), offsets, docid, scores, tag)


def _order_ties(code: Int, docid: NDArray[Any], scores: Float) -> None:
    """Sort equal scores by descending docid, in place; strings sort by code point, as their bytes do in trec_eval."""
    new = np.ones(code.shape[0] + 1, dtype=np.bool_)
    new[1:-1] = (code[1:] != code[:-1]) | (scores[1:] != scores[:-1])
    starts = np.flatnonzero(new)
    long = np.flatnonzero(np.diff(starts) > 1)
    for first, last in zip(starts[long].tolist(), starts[long + 1].tolist(), strict=True):
        docid[first:last] = sorted(docid[first:last].tolist(), reverse=True)
