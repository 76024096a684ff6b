"""Tables of logged features in CSV: names in the first line, then a row per document."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.files import read_rows, shorten, unpacked
from structsvm.common.names import QID
from structsvm.queries import QueryData, group_queries, rows_in_groups, warn_user
from structsvm.readers.letor import check_fill, identify
from structsvm.readers.store import place_of, write_store

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_WHOLE = re.compile(r"-?(0|[1-9]\d*)\.0")
"""A whole number as pandas writes it in a column of floats."""
_TRUTH = {"true": 1.0, "false": 0.0}
_ROW_NUMBERS = re.compile(r"(Unnamed: \d+)?")
"""Names of a column without one, as pandas writes it, and as it writes it again."""


def is_csv(path: str | PathLike[str]) -> bool:
    """Return whether ``path`` is a file whose name ends in ``.csv`` or ``.tsv``, before ``.gz`` and the like."""
    return unpacked(Path(path).name.lower()).endswith((".csv", ".tsv")) and Path(path).is_file()


def read_csv(
    path: str | PathLike[str],
    *,
    label: str | None = "label",
    qid: str = QID,
    docid: str = "docid",
    features: Sequence[str] | None = None,
    fill: float | None = None,
    max_expansion: float | None = None,
) -> QueryData:
    """Read a CSV file of logged features, whose first line has the names of the columns.

    Parameters
    ----------
    path : path
        Plain or compressed, as for :func:`read_letor`. Cells are separated by tabs if the name ends in ``.tsv`` (before
        ``.gz`` and the like), else by commas.
    label : str or None
        Column of labels (numbers). None: labels are optional; those of a column ``label`` are read, and without one
        ``y`` is None.
    qid : str
        Column of query ids (whole numbers or strings). If each is written like ``1.0``, as pandas writes a column of
        floats, they are the whole numbers.
    docid : str
        Column of document ids; the default is used if there is such a column.
    features : sequence of str, optional
        Columns of the features, in this order; by default all others, which must have names. ``true`` and ``false``,
        in any case, are 1 and 0.
    fill : float, optional
        Value for missing features (empty cells and ``nan``), which are an error without it. NaN: they stay missing.
    max_expansion : float, optional
        As for :func:`read_letor`.

    Returns
    -------
    QueryData
        With ``feature_names``; ``X`` is float64.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        With file and line: for a column that is missing or given twice, a row of another length, and cells that are
        no finite numbers.

    Examples
    --------
    >>> _ = Path("train.csv").write_text("qid,docid,bm25,age,label\\nq1,d7,2.5,1,1\\nq1,d9,1.5,,0\\n")
    >>> data = read_csv("train.csv", fill=0.0)
    >>> data, data.feature_names, data.X.tolist()
    (QueryData(1 queries, 2 rows, 2 features, dense float64), ('bm25', 'age'), [[2.5, 1.0], [1.5, 0.0]])
    """
    check_fill(fill)
    path = Path(path)
    rows = read_rows(path, max_expansion=max_expansion)
    names = read_header(path, rows)
    label, at, chosen = choose_columns(path, names, label=label, qid=qid, docid=docid, features=features)
    place = {name: j for j, name in enumerate(names)}
    columns = [place[name] for name in chosen]
    take = itemgetter(*columns) if len(columns) > 1 else lambda cells: tuple(cells[j] for j in columns)
    X, y = array("d"), array("d")
    ids: list[str] = []
    documents: list[str] = []
    for number, cells in rows:
        if len(cells) != len(names):
            raise BadInput(
                f"{path}:{number}", f"expected {len(names)} cells, as the first line has, got {len(cells)}"
            )
        n = len(X)
        try:
            X.extend(map(_number, take(cells)))
            if not all(map(math.isfinite, X[n:])):
                raise ValueError
        except ValueError:
            del X[n:]
            X.extend(_value(f"{path}:{number}", names[j], cells[j], fill) for j in columns)
        if label is not None:
            y.append(_grade(f"{path}:{number}", label, cells[place[label]].strip()))
        query = cells[place[qid]].strip()
        if not query:
            raise BadInput(
                f"{path}:{number}",
                f"column {qid!r}: expected a query id, got none",
                "drop rows without a query",
            )
        ids.append(query)
        if at is not None:
            documents.append(cells[place[at]].strip())
    if not ids:
        raise BadInput(path, "expected rows below the names of the columns, got none")
    matrix = np.frombuffer(X, dtype=np.float64).reshape(len(ids), len(chosen))
    grades: Any = np.frombuffer(y, dtype=np.float64) if label is not None else None
    docids = np.array(documents, dtype=np.str_) if at is not None else None
    if all(map(_WHOLE.fullmatch, ids)):
        ids = [query.removesuffix(".0") for query in ids]
    data = rows_in_groups(matrix, grades, group_queries(identify(ids), len(ids)), docids, tuple(chosen))
    warn_of_repeats(path, data)
    return data


def convert_csv(
    source: str | PathLike[str], path: str | PathLike[str], *, dtype: Any = np.float64, **options: Any
) -> None:
    """Convert a CSV file, whose rows have to fit into memory, to a store.

    Parameters
    ----------
    source : path
    path : path
        As for :class:`StoreWriter`; if the source is refused, no store is left.
    dtype : {float64, float32}
    **options
        Of :func:`read_csv`.

    Examples
    --------
    >>> from structsvm.readers import open_store
    >>> _ = Path("train.csv").write_text("qid,bm25,label\\nq1,2.5,1\\nq1,1.5,0\\n")
    >>> convert_csv("train.csv", "train.store")
    >>> open_store("train.store").feature_names
    ('bm25',)
    """
    place_of(Path(path))  # before a long text is read
    check_fill(options.get("fill"), dtype, store=True)
    data = read_csv(source, **options)
    write_store(replace(data, X=data.X.astype(np.dtype(dtype), copy=False)), path)


def read_header(path: Path, rows: Iterator[tuple[int, list[str]]]) -> list[str]:
    """Return the names of the columns from the first of ``rows``; raise for an empty file."""
    header = next(rows, None)
    if header is None:
        raise BadInput(path, "expected names of columns in the first line, got an empty file")
    return [name.strip() for name in header[1]]


def choose_columns(
    file: Path,
    names: Sequence[str],
    *,
    label: str | None,
    qid: str,
    docid: str,
    features: Sequence[str] | None,
    whose: str = "asked for",
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Return the columns of labels and of document ids, None without, and of features; raise if names do not fit."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(
            file, f"expected each column once, got {shorten(twice[0])} twice", _without_names(names)
        )
    stated = [("label", label), ("qid", qid), ("docid", None if docid == "docid" else docid)]
    for role, name in stated:
        if name is not None and name not in names:
            remedy = separated_otherwise(names) or f"name it by {{{role}}}"
            if role == "label" and {"score", "rank"} <= set(names):
                remedy += "; it looks like scores of predict, which come after the data"
            remedy = _without_names(names) or remedy
            raise BadInput(file, f"expected a column {name!r} for the {role}, got {name_some(names)}", remedy)
    label = "label" if label is None and "label" in names else label
    at = docid if docid in names else None
    if features is None:
        chosen = tuple(name for name in names if name not in (label, qid, at))
        numbers = [name for name in chosen if _ROW_NUMBERS.fullmatch(name)]
        if numbers:
            raise BadInput(
                file,
                f"expected names for all columns, got {numbers[0]!r} for column {names.index(numbers[0]) + 1}, as "
                "pandas writes the numbers of rows",
                "write the table without them, or name the columns to read by {features}",
                code="frame.to_csv(path, index=False)",
            )
        if not chosen:
            besides = " and ".join(map(repr, filter(None, (label, qid))))
            raise BadInput(file, f"expected columns of features besides {besides}, got none")
        return label, at, chosen
    missing = [name for name in features if name not in names]
    if missing:
        raise BadInput(
            file,
            f"expected the {len(features)} features {whose}, got no column {shorten(missing[0])} among "
            f"{name_some(names)}",
        )
    return label, at, tuple(features)


def _without_names(names: Sequence[str]) -> str:
    """Return what to do where the first line seems to hold cells in place of names; nothing otherwise."""
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    if 2 * len(numbers) <= len(names):
        return ""
    first = int(numbers[0]) if numbers[0].isdigit() else 0
    counted = [str(first + j) for j in range(len(numbers))]  # names of columns that pandas writes
    return "" if numbers == counted else "write the names of the columns in its first line"


def warn_of_repeats(file: Path, data: QueryData) -> None:
    """Warn of documents that occur in a query twice."""
    if data.docid is None:
        return
    repeats = []
    for query, first, last in zip(data.query_ids, data.offsets, data.offsets[1:], strict=False):
        documents = data.docid[first:last].tolist()
        if len(set(documents)) < len(documents):  # counted only then
            repeats += [(query, name) for name, n in Counter(documents).items() if n > 1 and name != ""]
    if repeats:
        query, document = repeats[0]
        warn_user(
            f"{file}: {len(repeats)} documents have several rows in a query; the first is document "
            f"{shorten(str(document))} of query {shorten(str(query))}. Keep one row for each",
        )


def separated_otherwise(names: Sequence[str]) -> str:
    """Return the remedy for a table whose only column holds cells with other marks than commas between; else none."""
    mark = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if mark is None:
        return ""
    apart = "tabs: name the file .tsv" if mark == "\t" else f"{mark!r}: write it with commas"
    return f"its cells seem to be separated by {apart}"


def name_some(names: Sequence[str]) -> str:
    """Return the first of many names of columns."""
    shown = ", ".join(map(shorten, names[:5]))
    return f"{shown}, ... ({len(names)} columns)" if len(names) > 5 else shown


def _number(word: str) -> float:
    if "_" in word or not word.isascii():  # float() takes 1_000 and ١
        raise ValueError
    try:
        return float(word)
    except ValueError:
        if (truth := _TRUTH.get(word.strip().lower())) is None:
            raise
        return truth


def _grade(place: str, name: str, word: str) -> float:
    """Return a label; raise with place and column unless it is a finite number."""
    try:
        grade = _number(word)
    except ValueError:
        grade = math.nan
    if not math.isfinite(grade):
        raise BadInput(
            place,
            f"column {shorten(name)}: expected a finite label, got {shorten(word)}",
            "drop the row or grade it",
        )
    return grade


def _value(place: str, name: str, word: str, fill: float | None) -> float:
    """Return a feature, ``fill`` if it is missing; raise with place and column for anything else."""
    stated = word.strip()
    missing = not stated or stated.lower() == "nan"
    if missing and fill is not None:
        return fill
    try:
        value = math.nan if missing else _number(stated)
    except ValueError:
        comma = re.fullmatch(r"[-+]?\d+,\d+", stated)
        raise BadInput(
            place,
            f"column {shorten(name)}: expected a number, got {shorten(word)}",
            "write numbers with a decimal point"
            if comma
            else "a missing value is an empty cell or nan, see {fill}, and numbers have no thousands separators; name "
            "the column of ids by {docid}, those to read by {features}, or in train those of words by --categorical",
        ) from None
    if not math.isfinite(value):
        raise BadInput(
            place,
            f"column {shorten(name)}: expected a finite number, got {shorten(stated) if stated else 'an empty cell'}",
            "state a value for missing ones by {fill}" if missing else "",
        )
    return value
