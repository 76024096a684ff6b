"""Choice of table columns by name: labels, ids and features. ``common.names.QID`` names the column of query ids."""

import re
from collections.abc import Sequence
from pathlib import Path

from structsvm.common.checks import BadInput, counted
from structsvm.common.files import shorten
from structsvm.common.tables.ids_and_times import NUMBER

_ROW_NUMBERS = re.compile(r"(Unnamed: \d+)?")
"""Names of an unnamed column written by pandas: empty, or ``Unnamed: 0`` after a second round trip."""


def choose_columns(
    file: Path,
    names: Sequence[str],
    *,
    label: str | None,
    qid: str,
    docid: str,
    features: Sequence[str] | None,
    whose: str = "requested",
    words: Sequence[str] = (),
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Return the columns of labels, of document ids (or None) and of features; raise if one is missing or ambiguous."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        problem = f"expected each column once, got {shorten(twice[0])} twice"
        raise BadInput(file, problem, _without_names(names))
    stated = [("label", label), ("qid", qid), ("docid", None if docid == "docid" else docid)]
    for role, name in stated:
        if name is not None and name not in names:
            remedy = separated_otherwise(names) or f"name it with {{{role}}}"
            if role == "label" and {"score", "rank"} <= set(names):
                remedy += "; it looks like scores of predict, which are given after the data"
            remedy = _without_names(names) or remedy
            raise BadInput(file, f"expected a column {name!r} for the {role}, got {name_some(names)}", remedy)
    label = "label" if label is None and "label" in names else label
    at = docid if docid in names else None
    if features is None:
        chosen = tuple(name for name in names if name not in (label, qid, at, *words))
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
            besides = " and ".join(map(repr, filter(None, (label, qid))))
            raise BadInput(file, f"expected columns of features besides {besides}, got none")
        return label, at, chosen
    missing = next((name for name in features if name not in names), None)
    if missing is not None:
        problem = f"expected the {counted(feature=len(features))} {whose}, got no column {shorten(missing)}"
        raise BadInput(file, f"{problem} among {name_some(names)}")
    return label, at, tuple(features)


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


def name_some(names: Sequence[str]) -> str:
    """Return column names as text; if there are many, only the first of them."""
    shown = ", ".join(map(shorten, names[:5]))
    return f"{shown}, ... ({len(names)} columns)" if len(names) > 5 else shown
