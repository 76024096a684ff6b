"""Rules for ids and times, shared by Python arrays, text and tables."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_PLAIN = re.compile(r"0|-?[1-9][0-9]*")
"""An integer as Python writes it."""

_EXACT = 2**53
UNITS = {1: "seconds", 10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}


def first_inexact(ids: NDArray[Any]) -> tuple[int, str] | None:
    """Return row and remedy of the first float that is not an integer or may stand for several ids; NaN is skipped."""
    exact = 2.0 ** (np.finfo(ids.dtype).nmant + 1)
    with np.errstate(invalid="ignore"):
        large = np.abs(ids) >= exact
        bad = large | (ids != np.floor(ids)) & ~np.isnan(ids)
    if not bad.any():
        return None
    row = int(bad.argmax())
    if not large[row] or np.isinf(ids[row]):
        return row, ""
    return row, f"from {exact:.0f} on, distinct ids are equal in {ids.dtype}; read the ids as int64 or str"


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT, NA, or an empty string."""
    try:  # NaN is not equal to itself
        return value is None or not bool(value == value) or value in ("", b"")
    except TypeError:  # pandas' NA
        return True


def id_texts(name: str, ids: Any, *, what: str = "an id", empty: bool = False) -> list[str]:
    """Return ids as text, integral floats without their decimal point; raise for missing ids (``""`` is accepted with
    ``empty``) and for values that are neither text nor integers.
    """
    values = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    kinds = set(map(type, values))
    if not kinds - {str} and (empty or "" not in values):
        return values
    if not kinds - {int}:
        return [str(value) for value in values]
    texts = []
    for row, value in enumerate(values):
        if isinstance(value, (float, np.floating)) and value == value:
            if (wrong := first_inexact(np.array([value]))) is not None:
                problem = f"expected {what}, got {value}"
                raise BadInput(name, problem, wrong[1] or "write ids as text", at=f"[{row}]")
            value = int(value)
        known = isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)
        if not known or (value == "" and not empty):
            got = "none" if is_missing(value) else f"{type(value).__name__} {value!r:.40}"
            remedy = "drop the rows without an id" if got == "none" else "write ids as text or integers"
            raise BadInput(name, f"expected {what}, got {got}", remedy, at=f"[{row}]")
        texts.append(str(value))
    return texts


def spelling_of(words: Sequence[str]) -> tuple[bool, bool]:
    """Return whether all words are numbers, and whether all are integers as Python writes them."""
    numbers = all(map(NUMBER.fullmatch, words))
    return numbers, numbers and all(map(_PLAIN.fullmatch, words))


def identify(words: Sequence[str]) -> NDArray[Any]:
    """Return ids as int64 if each is written as Python would write the number, else as str."""
    if all(map(_PLAIN.fullmatch, words)):
        numbers = list(map(int, words))
        if min(numbers, default=0) >= -(2**63) and max(numbers, default=0) < 2**63:
            return np.array(numbers, dtype=np.int64)
    return np.array(words, dtype=np.str_)


def settled_words(words: Sequence[str], place: Any, column: str = "") -> NDArray[Any]:
    """Return all ids of a text file as int64 if each is written as an integer, ``7`` or ``7.0``; otherwise as written.
    Raise if some numbers were rounded, such as ``1.73e+18``: distinct ids may have become equal.
    """
    if not spelling_of(words)[0]:
        return np.array(words, dtype=np.str_)
    rounded = (w for w in words if "e" in w.lower() or (w.endswith(".0") and abs(float(w)) >= _EXACT))
    if (word := next(rounded, None)) is not None:
        got = f"got {word:.40}, as a column of floats is written"
        problem = f"{column}expected ids as integers or text, {got}"
        raise BadInput(place, problem, "distinct ids may have become equal; write them as int64 or text")
    whole = identify([word.removesuffix(".0") for word in words])
    return whole if whole.dtype.kind == "i" else np.array(words, dtype=np.str_)


def unit_of(times: NDArray[Any]) -> NDArray[np.int64]:
    """Return the units per second of times since 1970, as their magnitude suggests; 0 if unknown."""
    with np.errstate(invalid="ignore"):
        steps = np.searchsorted([1e11, 1e14, 1e17], np.abs(times), side="right")
    return np.where(np.isfinite(times) & (times != 0), 10 ** (3 * steps.astype(np.int64)), 0)


def seconds(times: NDArray[Any], unit: int | None) -> tuple[NDArray[Any], int | None, int | None]:
    """Return times in seconds, their units per second (``unit``: that of earlier times), and the first row with another
    unit, or None.
    """
    own = unit_of(times)
    told = np.flatnonzero(own)
    if told.size:
        unit = unit or int(own[told[0]])
    other = told[own[told] != unit]
    return times / (unit or 1), unit, int(other[0]) if other.size else None
