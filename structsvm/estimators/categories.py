"""Columns of categories in data frames, as numbers that trees split by."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.protocols import Float
from structsvm.queries import stacklevel_of_user

Categories = dict[str, list[Any]]
"""Names of columns to their categories, sorted; the number of a category is its place."""


def categories_of(X: Any) -> Categories:
    """Return the columns of a pandas or polars frame whose dtype is one of categories."""
    found = {}
    for name in getattr(X, "columns", ()):
        # a name that is there twice has no dtype, and is refused later
        kind = str(getattr(X[name], "dtype", None))
        if kind != "category" and not kind.startswith(("dictionary<", "Categorical", "Enum")):
            continue
        if not isinstance(name, str):
            raise BadInput(
                "X", f"expected a name for the column of categories {name!r}", "rename it to a string"
            )
        known = _known(X[name])
        strange = next((one for one in known if not isinstance(one, str | int | float)), None)
        if strange is not None:
            raise BadInput(
                "X", f"expected categories of text or numbers in the column {name!r}, got {strange!r}"
            )
        found[name] = sorted(known, key=lambda one: (isinstance(one, str), one))
    return found


def _known(column: Any) -> list[Any]:
    if hasattr(column.dtype, "categories") and not hasattr(column, "cast"):  # pandas
        return list(column.dtype.categories.tolist())
    if str(column.dtype).startswith("Enum"):
        return list(column.dtype.categories.to_list())
    values = column.drop_nulls() if hasattr(column, "drop_nulls") else column.dropna()
    return list(set(values.to_list()))


def encode(X: Any, categories: Categories) -> Any:
    """Return ``X`` with numbers of categories in the columns that were categories in training.

    Columns of frames go by value. One that training did not have counts as missing, after a warning. Arrays already
    have numbers.
    """
    if not categories or not hasattr(X, "columns"):
        return X
    polars = hasattr(X, "with_columns")
    X = X if polars else X.copy(deep=False)
    for name, known in categories.items():
        if name not in X.columns:
            continue  # scikit-learn's check of names says so
        numbers = _numbers(X[name], known, name)
        X = X.with_columns(type(X[name])(name, numbers)) if polars else X.assign(**{name: numbers})
    return X


def _numbers(column: Any, known: list[Any], name: str) -> Float:
    """Return the place of each value among the known ones; NaN where it is missing or not among them."""
    place = {value: float(i) for i, value in enumerate(known)}
    values = np.asarray(column.to_list() if hasattr(column, "cast") else column.astype(object), dtype=object)
    numbers = np.array([place.get(value, np.nan) for value in values])
    unseen = {value for value in values[np.isnan(numbers)] if value is not None and value == value}
    if unseen:
        few = ", ".join(map(repr, sorted(map(str, unseen))[:3]))
        warnings.warn(
            f"X: the column {name!r} has {len(unseen)} categories that training did not have ({few}"
            f"{', ...' if len(unseen) > 3 else ''}); they count as missing",
            UserWarning,
            stacklevel=stacklevel_of_user(),
        )
    return numbers
