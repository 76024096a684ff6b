"""Descriptions of files: kind, counts, labels and irregularities."""

import math
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from structsvm import readers  # its names load on first use
from structsvm.common.checks import BadInput, first_few
from structsvm.common.files import AnyPath, read_blocks, read_objects, shorten
from structsvm.common.tables.source import source_of
from structsvm.queries import QueryData, check_sparse

__all__ = ["Description", "describe"]

_BLOCK_BYTES = 1 << 20
_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Description:
    """Description of the content of a file, as returned by :func:`describe`."""

    path: str
    kind: str
    counts: dict[str, int]
    labels: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain objects for ``json.dumps``."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the description as lines of text, without the warnings."""
        labels = ", ".join(f"{label}: {n}" for label, n in self.labels.items())
        shown = {**self.counts, "labels": labels} if labels else self.counts
        return [f"{self.path}: {self.kind}", *(f"    {name}: {value}" for name, value in shown.items())]


def describe(path: AnyPath, **options: object) -> Description:
    """Describe the content of a file.

    Parameters
    ----------
    path : path
        A LETOR or SVMlight text, a TREC run, TREC judgments (also by subtopic) or JSON Lines, plain or
        compressed; a table with named columns (CSV, Parquet); or the folder of a store.
    **options
        Options of :func:`structsvm.readers.read_queries`, for LETOR text or a table.

    Returns
    -------
    Description
        ``path``; ``kind``, one of "letor", "store", "table", "run", "qrels" and "json-lines"; ``counts`` of queries,
        rows and other items of the kind; ``labels``, the number of rows by label (empty if there are none); and
        ``warnings``, irregularities that may affect training or evaluation. ``to_dict()`` returns these fields for
        ``json.dumps``.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If the first line has no known format, or a later line has a different format.

    Examples
    --------
    >>> _ = Path("qrels.txt").write_text("301 0 FT-1 1\\n301 0 FT-2 0\\n302 0 FT-3 -2\\n")
    >>> describe("qrels.txt")
    Description(path='qrels.txt', kind='qrels', counts={'topics': 2, 'judgments': 3, 'relevant': 1},
      labels={'-2': 1, '0': 1, '1': 1}, warnings=('1 topic has no relevant document', '1 judgment is negative'))
    """
    source = source_of(path)
    path = source.path
    rows = {"label": None, "fill": math.nan, **options}
    if source.is_table and source.kind != "json-lines":
        return _describe_queries(path, "table", readers.read_queries(source, **rows))
    if source.kind == "missing":
        raise FileNotFoundError(f"{path}: expected a file, or the folder of a store, but it does not exist")
    if source.kind == "folder":
        held = sum(1 for _ in path.iterdir())
        raise BadInput(
            path,
            f"expected a file, or the folder of a store, got a folder of {held} entries",
            "describe one of them",
        )
    if source.kind == "store":
        return _describe_queries(path, "store", readers.open_store(path))
    line = first_line(path)
    kind = kind_of(line)
    if not kind:
        raise BadInput(
            path,
            "expected LETOR text (lines '<grade> qid:<id> <k>:<v> ...'), a TREC run (6 columns), TREC judgments (4 "
            f"columns), JSON Lines or a table (.csv, .tsv, .parquet), got a file that begins {shorten(line[:200])}",
        )
    if kind == "letor":
        return _describe_queries(path, "letor", readers.read_queries(path, **rows))
    if options:
        raise BadInput(path, f"{', '.join(options)}: options of LETOR text, got a file of kind {kind!r}")
    return {"run": _describe_run, "qrels": _describe_qrels, "json-lines": _describe_json}[kind](path)


def first_line(path: Path) -> bytes:
    """Return the first line of a text file that is neither blank nor a comment."""
    for block in read_blocks(path, _BLOCK_BYTES):
        lines = (piece.strip() for piece in block.tobytes().split(b"\n"))
        if line := next((piece for piece in lines if piece and not piece.startswith(b"#")), b""):
            return line
    raise BadInput(path, "expected data, got an empty file")


def kind_of(line: bytes) -> str:
    """Return the kind of a text file by its first line: letor, run, qrels or json-lines; empty if unknown."""
    words = line.split(None, 6)
    if line.startswith(b"{"):
        return "json-lines"
    if line.startswith(b"qid:") or (len(words) > 1 and re.match(rb"qid:|\d+:", words[1])):
        return "letor"
    return {6: "run", 4: "qrels"}.get(len(words), "")


def _describe_queries(path: Path, kind: str, data: QueryData) -> Description:
    lengths = np.diff(data.offsets)
    warnings = [_says(int((lengths == 1).sum()), "query has", "queries have", "one document")]
    if data.y is not None:
        best = np.maximum.reduceat(data.y, data.offsets[:-1])
        equal = (best == np.minimum.reduceat(data.y, data.offsets[:-1])) & (best > 0)
        warnings += [
            _says(int((best <= 0).sum()), "query has", "queries have", "no label above 0"),
            _says(int(equal.sum()), "query has", "queries have", "equal labels above 0"),
        ]
    missing, n_constant = _columns(data)
    warnings.append(_says(n_constant, "feature is", "features are", "constant"))
    if missing.any():
        lacking = np.flatnonzero(missing).tolist()
        names = data.feature_names or range(1, data.n_features + 1)
        most = first_few((f"{names[j]} ({missing[j]})" for j in lacking), 5)
        warnings.append(_says(len(lacking), "feature has", "features have", f"missing values: {most}"))
    counts = {"queries": data.n_queries, "rows": data.n_rows, "features": data.n_features}
    # bool() avoids a type guard that narrows X to a type without attributes
    if bool(sparse.issparse(data.X)):
        counts["stored values"] = int(data.X.indptr[-1])
    counts |= {"shortest query": int(lengths.min()), "longest query": int(lengths.max())}
    if missing.any():
        counts["missing values"] = int(missing.sum())
    return Description(
        str(path), kind, counts, {} if data.y is None else _histogram(data.y), tuple(filter(None, warnings))
    )


def _columns(data: QueryData) -> tuple[Any, int]:
    """Return the number of missing values of each feature, and the number of features with one value in all rows.
    Rows are read in blocks, because a store may be larger than memory.
    """
    check_sparse(data.X)
    missing = np.zeros(data.n_features, dtype=np.int64)
    low, high = np.full(data.n_features, np.inf), np.full(data.n_features, -np.inf)
    for first in range(0, data.n_rows, _ROWS_AT_ONCE):
        block: Any = data.X[first : first + _ROWS_AT_ONCE]
        if hasattr(block, "indptr"):
            missing += np.bincount(block.indices[np.isnan(block.data)], minlength=data.n_features)
            least, most = block.min(axis=0).toarray().ravel(), block.max(axis=0).toarray().ravel()
        else:
            missing += np.isnan(block).sum(axis=0)
            least, most = np.fmin.reduce(block, axis=0), np.fmax.reduce(block, axis=0)
        np.fmin(low, least, out=low)  # ignores missing values
        np.fmax(high, most, out=high)
    return missing, int((low == high).sum())


def _describe_run(path: Path) -> Description:
    run = readers.read_run(path)
    lengths = np.diff(run.offsets)
    same = np.zeros(run.n_rows, dtype=np.bool_)
    same[1:] = run.scores[1:] == run.scores[:-1]
    same[run.offsets[:-1]] = False
    most = int(lengths.max())
    tied = "the same score as the document above; ties are ordered by docid"
    warnings = [
        _says(int(same.sum()), "document has", "documents have", tied),
        _says(int((lengths < most).sum()), "topic has", "topics have", f"fewer than {most} documents"),
    ]
    counts = {"topics": run.n_topics, "rows": run.n_rows}
    counts |= {"shortest topic": int(lengths.min()), "longest topic": most}
    return Description(str(path), "run", counts, {}, tuple(filter(None, warnings)))


def _describe_qrels(path: Path) -> Description:
    try:
        qrels = readers.read_qrels(path)
    except ValueError:  # perhaps judgments by subtopic; any other file raises again
        qrels = readers.read_qrels(path, subtopics=True)
    best = np.maximum.reduceat(qrels.grades, qrels.offsets[:-1])
    counts = {"topics": qrels.n_topics, "judgments": qrels.n_rows, "relevant": int((qrels.grades > 0).sum())}
    warnings = [
        _says(int((best <= 0).sum()), "topic has", "topics have", "no relevant document"),
        _says(int((qrels.grades < 0).sum()), "judgment is", "judgments are", "negative"),
    ]
    if qrels.subtopic is not None:
        topic = np.repeat(qrels.topics, np.diff(qrels.offsets))
        counts["subtopics"] = len(set(zip(topic.tolist(), qrels.subtopic.tolist(), strict=True)))
        warnings.append("documents are judged by subtopic: read with subtopics=True")
    return Description(str(path), "qrels", counts, _histogram(qrels.grades), tuple(filter(None, warnings)))


def _describe_json(path: Path) -> Description:
    keys: Counter[str] = Counter()
    n_records = 0
    for _, record in read_objects(path):
        n_records += 1
        keys.update(record.keys())
    counts = {"records": n_records} | {f"with key {shorten(key)}": n for key, n in keys.most_common(30)}
    some = sum(1 for count in keys.values() if count < n_records)
    warnings = [_says(some, "key is", "keys are", "not in every record")]
    return Description(str(path), "json-lines", counts, {}, tuple(filter(None, warnings)))


def _histogram(values: ArrayLike) -> dict[str, int]:
    labels, counts = np.unique(values, return_counts=True)
    return {f"{label:g}": int(count) for label, count in zip(labels.tolist(), counts, strict=True)}


def _says(count: int, singular: str, plural: str, oddity: str) -> str:
    """Return a warning, or an empty string if the count is 0."""
    return f"{count} {singular if count == 1 else plural} {oddity}" if count else ""
