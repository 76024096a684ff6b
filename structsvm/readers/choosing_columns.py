"""Choice of the columns of a table of rows: labels, ids and features."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from structsvm.common.checks import BadInput, counted
from structsvm.common.files import shorten
from structsvm.common.names import QID
from structsvm.common.tables.batches import Table
from structsvm.common.tables.ids import NUMBER
from structsvm.common.tables.roles import find_column, name_some, without_column

_ROLES = {"label": "label", QID: "query", "docid": "document"}
"""Roles, keyed by the readers' own names of their columns."""

_ROW_NUMBERS = re.compile(r"(Unnamed: \d+)?")
"""Names of an unnamed column written by pandas: empty, or ``Unnamed: 0`` after a second round trip."""


class Named(NamedTuple):
    """The columns of a table by their roles."""

    label: str | None
    qid: str | None
    docid: str | None


def name_roles(
    file: Path,
    names: Sequence[str],
    *,
    label: str | None,
    qid: str | None,
    docid: str,
    taken: Iterable[str] = (),
) -> Named:
    """Return the columns of labels, query ids and document ids; a role that is None, and the documents, may lack one.

    A role whose column is not given by another name may have any usual name that is not in ``taken``.
    """
    stated = {"label": label, QID: qid, "docid": docid}
    given = {own: name for own, name in stated.items() if name not in (own, None)}
    others = {*taken, *given.values()}
    found: dict[str, Any] = {}
    for own, role in _ROLES.items():
        column = given.get(own) or find_column(role, names, file, own=(own,), taken=others)
        optional = own not in given and (own == "docid" or stated[own] is None)
        if column not in names and not optional:
            remedy = separated_otherwise(names) or f"name it with {{{own}}}"
            if own == "label" and {"score", "rank"} <= set(names):
                remedy += "; it looks like scores of predict, which are given after the data"
            raise without_column(column or own, own, names, file, _without_names(names) or remedy)
        found[own] = column
    return Named(**found)


def choose_columns(
    table: Table,
    *,
    features: Sequence[str] | None,
    whose: str = "requested",
    words: Sequence[str] = (),
    **roles: Any,
) -> tuple[Named, tuple[str, ...]]:
    """Return the columns of the ``roles`` (see :func:`name_roles`) and of features; raise if one is missing or
    ambiguous. By default, all columns without a role are features, except the index of a frame.
    """
    file, names = Path(table.source), table.names
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise BadInput(
            file, f"expected each column once, got {shorten(twice[0])} twice", _without_names(names)
        )
    named = name_roles(file, names, **roles, taken=(*(features or ()), *words))
    if features is None:
        others = {*named, *words, *table.unused}
        chosen = tuple(name for name in names if name not in others)
        numbers = [name for name in chosen if _ROW_NUMBERS.fullmatch(name)]
        if numbers:
            raise BadInput(
                file,
                f"expected names for all columns, got {numbers[0]!r} for column {names.index(numbers[0]) + 1}, as "
                "pandas writes row numbers",
                "write the table without row numbers, or name the columns to read with {features}",
                code="frame.to_csv(path, index=False)",
            )
        if not chosen and not words:
            besides = " and ".join(map(repr, filter(None, (named.label, named.qid))))
            raise BadInput(file, f"expected columns of features besides {besides}, got none")
        return named, chosen
    known = set(names)
    missing = next((name for name in features if name not in known), None)
    if missing is not None:
        raise BadInput(
            file,
            f"expected the {counted(feature=len(features))} {whose}, got no column {shorten(missing)} among "
            f"{name_some(names)}",
        )
    return named, tuple(features)


def _without_names(names: Sequence[str]) -> str:
    """Return the remedy if the first line seems to contain cells instead of names, otherwise an empty string."""
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    if 2 * len(numbers) <= len(names):
        return ""
    first = int(numbers[0]) if numbers[0].isdigit() else 0
    counted = [str(first + j) for j in range(len(numbers))]  # the default names that pandas writes
    return "" if numbers == counted else "write the column names in its first line"


def separated_otherwise(names: Sequence[str]) -> str:
    """Return a remedy if the cells of the only column contain another separator, otherwise an empty string."""
    mark = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if mark is None:
        return ""
    apart = "tabs: name the file .tsv" if mark == "\t" else f"{mark!r}: separate them by commas"
    return f"its cells seem to be separated by {apart}"
