"""Ids given as arrays, lists and columns of frames, by the rule for the ids of a column."""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.tables.ids import NO_ID, IdColumn, first_inexact, is_missing

_WHAT = "an int or a string"
_LARGEST = 10**76
"""Bound of integers: that of the widest type of Arrow."""

_REMEDY = "write ids as integers or text"


def ids_of(
    name: str, given: object, *, what: str = _WHAT, missing: bool = False
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the ids of an argument as int64 or text, arbitrary where missing, and a mask of the ids present; raise for
    missing ids unless ``missing``."""
    ids = exact_array(given)
    kind = ids.dtype.kind
    if kind == "i" or (kind == "u" and not (ids >= 2**63).any()):
        return ids.astype(np.int64, copy=False), np.ones(ids.shape, dtype=np.bool_)
    if kind == "f":
        known = ~np.isnan(ids)
        if not (missing or known.all()):
            raise BadInput(name, f"expected {what}, got nan", NO_ID, at=f"[{known.argmin()}]")
        if (inexact := first_inexact(ids)) is not None:
            row, remedy = inexact
            raise BadInput(name, f"expected {what}, got {ids[row]}", remedy or _REMEDY, at=f"[{row}]")
        return np.where(known, ids, 0).astype(np.int64), known
    column = IdColumn(name, missing=missing)
    words = _words(column, ids, what, empty=missing, missing=missing)
    known = np.array([word != "" for word in words], dtype=np.bool_)
    if column.as_int64:
        return np.array([int(word or 0) for word in words], dtype=np.int64), known
    return np.array(words, dtype=np.str_), known


def id_texts(
    name: str, given: object, *, what: str = _WHAT, empty: bool = False, as_written: bool = False
) -> list[str]:
    """Return the ids of an argument as text; raise for missing ids, except empty text if ``empty``. Text is not changed
    if it is ``as_written``, as in a TREC file."""
    ids = exact_array(given)
    if ids.ndim != 1:
        raise BadInput(name, f"expected a sequence of ids, got shape {ids.shape}")
    if ids.dtype.kind in "if":
        return list(map(str, ids_of(name, ids, what=what)[0].tolist()))
    return _words(IdColumn(name), ids, what, empty=empty, as_written=as_written)


def exact_array(given: Any) -> NDArray[Any]:
    """Return an array of exact values: NumPy would convert None among strings to text, and large integers or integers
    beside missing values to floats."""
    nulls = getattr(given, "null_count", 0)  # of Arrow and polars
    nulls = nulls() if callable(nulls) else nulls
    if isinstance(nulls, int) and nulls:  # of a frame of polars it is a frame
        given = given.to_pylist() if hasattr(given, "to_pylist") else given.to_list()
    return np.asarray(given) if hasattr(given, "dtype") else np.asarray(given, dtype=object)


def _words(
    column: IdColumn,
    ids: NDArray[Any],
    what: str,
    *,
    empty: bool,
    missing: bool = False,
    as_written: bool = False,
) -> list[str]:
    """Return ids as text, empty where missing, after they were shown to ``column``; raise for missing ids unless
    ``missing``, for empty text unless ``empty``."""
    name = column.place
    if ids.dtype.kind not in "uUO":
        raise BadInput(name, f"expected {what}, got {ids.dtype}", _REMEDY)
    values = ids.tolist()
    if set(map(type, values)) <= {str}:
        words: list[str | None] = values if as_written else [value.strip() for value in values]
        column.look_at_text()
    else:
        words = []
        for row, value in enumerate(values):
            try:
                words.append(id_word(column, value, what))
            except BadInput as wrong:
                raise BadInput(name, wrong.problem, wrong.remedy, at=f"[{row}]") from None
    gaps = {None} if empty else {None, ""}
    if not missing and not gaps.isdisjoint(words):
        row = next(row for row, word in enumerate(words) if word in gaps)
        raise BadInput(name, f"expected {what}, got {values[row]!r:.40}", NO_ID, at=f"[{row}]")
    filled = [word or "" for word in words]
    if as_written:
        return filled

    def error(word: str, problem: str, remedy: str) -> BadInput:
        return BadInput(name, problem, remedy, at=f"[{filled.index(word)}]")

    if "\0" in "".join(filled):
        for word in filled:
            if word.endswith("\0"):  # NumPy would drop it
                raise error(word, f"expected an id without NUL at its end, got {word!r:.40}", "")
    column.look(filled, error)
    column.settle()
    return [word or "" for word in column.spell(filled)]


def id_word(column: IdColumn, value: Any, what: str = _WHAT) -> str | None:
    """Return a value as text, None if it is missing; raise unless it is an id of the type of those before it in
    ``column``."""
    if is_missing(value):
        return "" if isinstance(value, str) else None
    shown = f"{value}" if isinstance(value, (float, np.generic)) else f"{value!r:.40}"
    remedy, is_text = _REMEDY, isinstance(value, str)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if isinstance(value, (float, np.floating)):
        inexact = first_inexact(np.array([value]))
        whole, remedy = inexact is None, (inexact[1] if inexact else "") or _REMEDY
    elif isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
    if not (is_text or (whole and abs(value) < _LARGEST)):
        raise BadInput(column.place, f"expected {what}, got {shown}", remedy)
    if column.of_numbers if is_text else column.of_text:
        problem = f"expected {'an int' if is_text else 'a string'}, as before, got {shown}"
        remedy = "ids that differ only in type, such as 1 and '1', would be one id: convert all to str"
        raise BadInput(column.place, problem, remedy)
    if is_text:
        column.look_at_text()
        return str(value).strip()
    column.look_at_numbers(fit=-(2**63) <= value < 2**63)
    return str(int(value))
