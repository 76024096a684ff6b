"""Columns of words in tables: a feature for each of their values, called ``brand=acme``, which is 1 where it stands."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.files import read_rows, shorten
from structsvm.common.names import QID, did_you_mean
from structsvm.queries import QueryData
from structsvm.readers.csv_tables import name_some, read_header, separated_otherwise
from structsvm.readers.parquet_tables import is_csv, is_table, parquet_files, without_index
from structsvm.readers.store import read_queries

_MOST = 1000
"""Values of a column at most; one with more holds ids."""


def columns_of(path: Path) -> list[str]:
    """Return the names of the columns of a table."""
    if is_csv(path):
        return read_header(path, read_rows(path))
    from pyarrow import parquet

    return without_index(parquet.read_schema(parquet_files(path)[0]).names)


def texts_of(path: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the cells of some columns as text, an empty one where there is none."""
    found: dict[str, list[str]] = {name: [] for name in columns}
    if not columns:
        return found
    if is_csv(path):
        rows = read_rows(path)
        header = read_header(path, rows)
        places = [(header.index(name), found[name]) for name in columns]
        for _, row in rows:
            for j, column in places:
                column.append(row[j].strip() if j < len(row) else "")
        return found
    from pyarrow import parquet

    for file in parquet_files(path):
        table = parquet.read_table(file, columns=list(columns))
        for name in columns:
            found[name] += [
                "" if cell is None else str(cell).strip() for cell in table.column(name).to_pylist()
            ]
    return found


def column_of(feature: str, known: set[str]) -> str | None:
    """Return the column of which a feature is a value; None if it is none of them."""
    at = feature.find("=")
    while at >= 0:
        if feature[:at] in known:
            return feature[:at]
        at = feature.find("=", at + 1)
    return None


def category_features(
    files: Sequence[Path],
    categorical: Sequence[str],
    *,
    label: str | None = "label",
    qid: str = QID,
    docid: str = "docid",
    features: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Return the names of the features of some tables: columns of numbers, then the values of the others."""
    values: dict[str, set[str]] = {name: set() for name in categorical}
    n_rows = dict.fromkeys(categorical, 0)
    for path in files:
        if not is_table(path):
            raise BadInput("categorical", f"expected a table with it, got {path}")
        known = [name for name in columns_of(path) if name not in (label, qid, docid)]
        for name in categorical:
            if name not in known:
                raise BadInput(
                    "categorical",
                    f"expected columns of features of {path}, which are {name_some(known)}, got {shorten(name)}",
                    did_you_mean(name, known),
                )
        features = features or tuple(known)
        for name, cells in texts_of(path, categorical).items():
            values[name].update({*cells} - {""})
            n_rows[name] += len(cells)
    for name, found in values.items():
        if not 0 < len(found) <= _MOST:
            raise BadInput(
                "categorical",
                f"expected 1 to {_MOST:,} different values in {files[0]}, got {len(found):,}",
                value=name,
            )
        if len(found) > max(20, n_rows[name] // 2):
            warnings.warn(
                f"{files[0]}: column {name!r} has {len(found):,} different values in {n_rows[name]:,} rows, of which "
                "little can be learned; does it hold ids?",
                stacklevel=2,
            )
    numbers = [name for name in features or () if name not in values]
    return (*numbers, *(f"{name}={value}" for name in categorical for value in sorted(values[name])))


def read_categories(
    path: Path,
    wanted: Sequence[str],
    *,
    places: Mapping[str, Mapping[str, int]] | None = None,
    cells: Mapping[str, list[str]] | None = None,
    **options: Any,
) -> QueryData:
    """Read the features ``wanted`` of a table: columns of numbers, and where a value of a column stands. Of the columns
    ``places`` a feature is the place of its value, NaN for others. ``cells`` are those of :func:`texts_of`.
    """
    known, places = set(columns_of(path)), places or {}
    columns = {name: column_of(name, known) for name in wanted if name not in known}
    names = [name for name in wanted if name not in places and columns.get(name) is None]
    _check_there(path, wanted, names, known)
    if cells is None:
        cells = texts_of(path, [*places, *dict.fromkeys(filter(None, columns.values()))])
    rows = read_queries(path, **options, features=tuple(names))
    order = np.arange(rows.n_rows) if rows.order is None else rows.order
    texts = {name: np.array(column, dtype=object)[order] for name, column in cells.items()}
    X = np.empty((rows.n_rows, len(wanted)), dtype=rows.X.dtype)
    number = {name: j for j, name in enumerate(names)}
    for j, feature in enumerate(wanted):
        column = columns.get(feature)
        if feature in number:
            X[:, j] = rows.X[:, number[feature]]
        elif column is None:
            X[:, j] = [places[feature].get(text, np.nan) for text in texts[feature]]
        else:
            X[:, j] = texts[column] == feature.removeprefix(f"{column}=")
    return dataclasses.replace(rows, X=X, feature_names=tuple(wanted))


def _check_there(path: Path, wanted: Sequence[str], names: Sequence[str], known: set[str]) -> None:
    """Raise for a feature that is no column, and the value of none."""
    for name in names:
        if name not in known:
            column = name.partition("=")[0]
            raise BadInput(
                path,
                f"expected the {len(wanted)} features that were trained on, got no column {shorten(name)}"
                + (
                    f", nor a column of words {shorten(column)} of which it is a value"
                    if column != name
                    else ""
                ),
                f"its columns are {name_some(sorted(known))}"
                if len(known) > 1
                else separated_otherwise([*known]) or f"its only column is {shorten(next(iter(known)))}",
            )
