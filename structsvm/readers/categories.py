"""Categorical columns of tables: one feature per value, such as ``brand=acme``, which is 1 in rows with that value."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.files import shorten
from structsvm.common.names import QID, did_you_mean
from structsvm.common.tables.batches import Table
from structsvm.common.tables.columns import texts
from structsvm.common.tables.opening import open_tables
from structsvm.common.tables.roles import name_some
from structsvm.common.tables.source import Source, source_of
from structsvm.queries import QueryData
from structsvm.readers.choosing_columns import name_roles, separated_otherwise
from structsvm.readers.tables import read_rows

_MAX_CATEGORIES = 1000
"""Maximum number of distinct values of a column; columns with more values probably hold ids."""

_Words = Mapping[str, tuple[Any, list[str]]]
"""Codes of the rows and distinct values of each column."""


def columns_of(source: Source) -> list[str]:
    """Return the names of the columns of a table."""
    return open_tables(source)[0].names


def column_of(feature: str, known: Iterable[str]) -> str | None:
    """Return the column of a feature such as ``brand=acme``; None if no known column fits."""
    marks = (at for at, letter in enumerate(feature) if letter == "=")
    return next((feature[:at] for at in marks if feature[:at] in known), None)


def category_features(
    files: Sequence[Path],
    categorical: Sequence[str],
    *,
    features: Sequence[str] | None = None,
    **roles: Any,
) -> tuple[str, ...]:
    """Return the names of the features of tables: numeric columns, then the values of categorical columns."""
    values: dict[str, set[str]] = {name: set() for name in categorical}
    n_rows = 0
    for path in files:
        source = source_of(path)
        if not source.is_table:
            raise BadInput("categorical", f"requires a table, got {path}")
        tables = open_tables(source)
        features = features or tuple(_check_categories(tables[0], categorical, **roles))
        for table in tables:
            for batch in table.read(dict.fromkeys(categorical, "category")):
                n_rows += batch.n
                for name in categorical:
                    values[name].update(texts(batch, name).unique().to_pylist())
    return _named(files[0], values, n_rows, features or ())


def _check_categories(
    table: Table,
    categorical: Sequence[str],
    *,
    label: str | None = "label",
    qid: str = QID,
    docid: str = "docid",
) -> list[str]:
    """Return the feature columns; raise unless the categorical columns are among them."""
    path = Path(table.source)
    named = name_roles(path, table.names, label=label, qid=qid, docid=docid, taken=categorical)
    others = {*named, *table.unused}
    known = [name for name in table.names if name not in others]
    for name in categorical:
        if name not in known:
            raise BadInput(
                "categorical",
                f"expected feature columns of {path}, which are {name_some(known)}, got {shorten(name)}",
                did_you_mean(name, known),
            )
    return known


def _named(
    path: Path, values: Mapping[str, set[str]], n_rows: int, features: Sequence[str]
) -> tuple[str, ...]:
    for name, words in values.items():
        words.discard("")
        if not 0 < len(words) <= _MAX_CATEGORIES:
            raise BadInput(
                "categorical",
                f"expected 1 to {_MAX_CATEGORIES:,} distinct values in {path}, got {len(words):,}",
                value=name,
            )
        if len(words) > max(20, n_rows // 2):
            warnings.warn(
                f"{path}: column {name!r} has {len(words):,} distinct values in {n_rows:,} rows, from which "
                "little can be learned; does it hold ids?",
                stacklevel=3,
            )
    numbers = [name for name in features if name not in values]
    return (*numbers, *(f"{name}={value}" for name in values for value in sorted(values[name])))


def read_to_train(
    source: Source, categorical: Sequence[str], *, features: Sequence[str] | None = None, **options: Any
) -> QueryData:
    """Read a table for training, in one pass: numeric columns, and one feature per value of the categorical
    columns."""
    named = {role: options[role] for role in ("label", QID, "docid") if role in options}
    features = features or _check_categories(open_tables(source)[0], categorical, **named)
    numbers = [name for name in features if name not in categorical]
    rows, words = read_rows(source, **options, features=numbers, words=categorical)
    values = {name: set(words[name][1]) for name in categorical}
    return _with_categories(rows, words, _named(source.path, values, rows.n_rows, features), {})


def read_categories(
    source: Source,
    wanted: Sequence[str],
    *,
    places: Mapping[str, Mapping[str, int]] | None = None,
    unknown: Callable[[str, int, str], None] | None = None,
    **options: Any,
) -> QueryData:
    """Read the features ``wanted`` of a table: numeric columns, and indicators of values such as ``brand=acme``.

    For a column in ``places``, the feature is the index of the value, NaN for an unknown value. ``unknown`` is called
    for each column with unknown values; its arguments are the column, the number of rows with unknown values, and the
    first unknown value.
    """
    known, places = set(columns_of(source)), places or {}
    columns = {name: column_of(name, known) for name in wanted if name not in known}
    names = [name for name in wanted if name not in places and columns.get(name) is None]
    _check_there(source.path, wanted, names, known)
    of_words = [*places, *dict.fromkeys(filter(None, columns.values()))]
    rows, words = read_rows(source, **options, features=names, words=of_words)
    for column, (codes, distinct) in words.items() if unknown else ():
        of_model = places.get(column) or {one.removeprefix(f"{column}=") for one in wanted}
        new = np.array([word != "" and word not in of_model for word in distinct])
        if new.any() and unknown is not None:
            unknown(column, int(new[codes].sum()), distinct[int(new.argmax())])
    return _with_categories(rows, words, wanted, places)


def _with_categories(
    rows: QueryData, words: _Words, wanted: Sequence[str], places: Mapping[str, Mapping[str, int]]
) -> QueryData:
    """Return rows with the requested features."""
    X = np.empty((rows.n_rows, len(wanted)), dtype=rows.X.dtype)
    number = {name: j for j, name in enumerate(rows.feature_names or ())}
    for j, feature in enumerate(wanted):
        if feature in number:
            X[:, j] = rows.X[:, number[feature]]
            continue
        column = feature if feature in places else column_of(feature, words)
        assert column is not None, "checked above"
        codes, distinct = words[column]
        if feature in places:
            values = [places[feature].get(word, np.nan) for word in distinct]
        else:
            values = [float(word == feature.removeprefix(f"{column}=")) for word in distinct]
        X[:, j] = np.array(values, dtype=X.dtype)[codes]
    return dataclasses.replace(rows, X=X, feature_names=tuple(wanted))


def _check_there(path: Path, wanted: Sequence[str], names: Sequence[str], known: set[str]) -> None:
    """Raise for a feature that is neither a column nor a value of a categorical column."""
    for name in names:
        if name not in known:
            column = name.partition("=")[0]
            nor = "" if column == name else f", nor a categorical column {shorten(column)}"
            problem = f"expected the {len(wanted)} features that were trained on, got no column {shorten(name)}{nor}"
            remedy = f"its columns are {name_some(sorted(known))}"
            if len(known) == 1:
                remedy = separated_otherwise([*known]) or f"its only column is {shorten(next(iter(known)))}"
            raise BadInput(path, problem, remedy)
