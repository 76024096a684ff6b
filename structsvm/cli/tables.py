"""Columns of words in tables: a feature for each of their values, called ``brand=acme``.

The names are kept with the model, so that ``predict`` knows the values without anything else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structsvm.cli.files import Table, is_table, read_data
from structsvm.cli.terminal import note

if TYPE_CHECKING:
    from structsvm.queries import QueryData

_MOST = 1000
"""Values of a column at most; one with more holds ids."""


def read_with_categories(path: Path, table: Table, categorical: str | None, **options: Any) -> QueryData:
    """Read rows; each value of the ``categorical`` columns of a table becomes a feature, 1 where it stands."""
    if categorical is None:
        return read_data(path, table, **options)
    columns = [name.strip() for name in categorical.split(",")]
    if not is_table(path):
        raise ValueError(f"--categorical: expected a table with it, got {path}")
    known = columns_of(path)
    for name in columns:
        if name not in known or name in (table.label, table.qid, table.docid):
            raise ValueError(
                f"--categorical {categorical}: expected columns of features of {path}, got {name!r}"
            )
    others = table.names or tuple(n for n in known if n not in (table.label, table.qid, table.docid))
    cells = _texts(path, columns)
    values = {name: sorted(set(cells[name]) - {""}) for name in columns}
    for name, found in values.items():
        if not 0 < len(found) <= _MOST:
            raise ValueError(
                f"--categorical {name}: expected 1 to {_MOST:,} different values in {path}, got {len(found):,}"
            )
    names = [n for n in others if n not in columns]
    wanted = [*names, *(f"{name}={value}" for name in columns for value in values[name])]
    return _composed(path, table, wanted, names, cells, options)


def read_as_trained(
    path: Path, table: Table, wanted: Sequence[str], categories: Mapping[str, list[Any]], **options: Any
) -> QueryData:
    """Read the features of a model from a table, values of columns included; say where others than those stand.

    Of ``categories``, which a model has of a frame, a column holds the value and the feature its place.
    """
    known = set(columns_of(path))
    places = {
        name: {str(one): k for k, one in enumerate(categories[name])} for name in categories if name in known
    }
    values = {name: set(one) for name, one in places.items()}
    for feature in wanted:
        if feature not in known and (column := _column_of(feature, known)):
            values.setdefault(column, set()).add(feature.removeprefix(f"{column}="))
    names = [n for n in wanted if n not in places and (n in known or _column_of(n, known) is None)]
    cells = _texts(path, list(values))
    for column, of_model in values.items():
        new = [cell for cell in cells[column] if cell and cell not in of_model]
        if new:
            taken = "it counts as missing" if column in places else "all its features of that column are 0"
            note(
                f"warning: {path}: {len(new)} rows have a {column!r} that the model does not know, such as "
                f"{new[0]!r:.60}; {taken} there"
            )
    return _composed(path, table, wanted, names, cells, options, places)


def _column_of(feature: str, known: set[str]) -> str | None:
    """Return the column of which a feature is a value; None if it is none of them."""
    at = feature.find("=")
    while at >= 0:
        if feature[:at] in known:
            return feature[:at]
        at = feature.find("=", at + 1)
    return None


def _composed(
    path: Path, table: Table, wanted: Sequence[str], names: Sequence[str], cells: dict[str, list[str]],
    options: dict[str, Any], places: Mapping[str, Mapping[str, int]] | None = None,
) -> QueryData:  # fmt: skip
    """Return the rows with the features ``wanted``: ``names`` are numbers, the others values of columns, or places."""
    import numpy as np

    rows = read_data(path, table, features=tuple(names), **options)
    order = np.arange(rows.n_rows) if rows.order is None else rows.order
    texts = {name: np.array(column, dtype=object)[order] for name, column in cells.items()}
    X = np.empty((rows.n_rows, len(wanted)), dtype=rows.X.dtype)
    place = {name: j for j, name in enumerate(names)}
    for j, feature in enumerate(wanted):
        if feature in place:
            X[:, j] = rows.X[:, place[feature]]
        elif places and feature in places:
            X[:, j] = [places[feature].get(text, np.nan) for text in texts[feature]]
        else:
            column = _column_of(feature, set(texts))
            assert column is not None
            X[:, j] = texts[column] == feature.removeprefix(f"{column}=")
    return dataclasses.replace(rows, X=X, feature_names=tuple(wanted))


def columns_of(path: Path) -> list[str]:
    """Return the names of the columns of a table."""
    from structsvm.common.files import read_rows
    from structsvm.readers.csv_tables import is_csv, read_header
    from structsvm.readers.parquet_tables import parquet_files

    if is_csv(path):
        return read_header(path, read_rows(path))
    from pyarrow import parquet

    return [str(name) for name in parquet.read_schema(parquet_files(path)[0]).names]


def _texts(path: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the cells of some columns as text, an empty one where there is none."""
    from structsvm.common.files import read_rows
    from structsvm.readers.csv_tables import is_csv, read_header
    from structsvm.readers.parquet_tables import parquet_files

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
