"""Conversion of columns according to their role: numbers, ids, times and words.

Arrow arrays become NumPy arrays through their buffers: ``to_numpy`` and ``pa.scalar`` would import pandas.
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray
from pyarrow import compute, types

from structsvm.common.checks import BadInput
from structsvm.common.files import plain_float, shorten
from structsvm.common.tables.batches import Batch
from structsvm.common.tables.ids import NAN, NO_ID, NUMBER, IdColumn, first_inexact
from structsvm.common.tables.text import arrow_text, is_text
from structsvm.protocols import Float

_TRUTH = {"true": 1.0, "false": 0.0}

_HEAD = 100
"""Number of words that are examined before all words."""


def numbers(
    batch: Batch, name: str, expected: str = "a number", remedy: str = "", *, dtype: DTypeLike = np.float64
) -> NDArray[Any]:
    """Return a column of numbers, NaN for missing values; booleans become 1 and 0."""
    array = _plain(batch.columns[name])
    if types.is_string(array.type) and batch.written is not None:
        return _numbers_of_words(batch, name, array, expected, remedy).astype(dtype, copy=False)
    if types.is_decimal(array.type):
        array = compute.cast(array, pa.float64())
    if not is_number(array.type):
        if types.is_temporal(array.type):
            remedy = "convert times to days since a date"
        raise batch.wrong(0, name, expected, str(array.type), remedy)
    values, known = to_numpy(array)
    values = values.astype(dtype, copy=known is not None)
    if known is not None:
        values[~known] = np.nan
    return values


def is_number(kind: object) -> bool:
    """Return whether an Arrow type holds numbers or booleans."""
    some = types.is_floating, types.is_integer, types.is_boolean, types.is_null, types.is_decimal
    return any(one(kind) for one in some)


def _numbers_of_words(batch: Batch, name: str, array: object, expected: str, remedy: str) -> Float:
    coded = compute.dictionary_encode(array)
    words = coded.dictionary.to_pylist()
    values = np.array([number_of(word.strip()) for word in words] or [None], dtype=object)
    codes = to_numpy(coded.indices)[0]
    wrong = np.array([value is None for value in values])[codes]
    if wrong.any():
        row = int(wrong.argmax())
        word = words[codes[row]]
        if re.fullmatch(r"[-+]?\d+,\d+", word.strip()):
            remedy = "write numbers with a decimal point and without thousands separators"
        raise batch.wrong(row, name, expected, shorten(word), remedy)
    return np.asarray(values.astype(np.float64)[codes])


def number_of(word: str) -> float | None:
    """Return the number of a cell, NaN if it is empty or ``nan``; None for anything else."""
    if word.lower() in ("", "nan"):
        return math.nan
    if (truth := _TRUTH.get(word.lower())) is not None:
        return truth
    try:
        value = plain_float(word)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def ids(batch: Batch, name: str, what: str, *, missing: bool = False) -> Any:
    """Return ids as an Arrow array of int64, decimals without a fraction if any is too large, or trimmed text; raise
    for other types, and for missing ids unless ``missing``."""
    array = _plain(batch.columns[name])
    kind = array.type
    if types.is_floating(kind):
        values, known = to_numpy(array)
        values = values if known is None else np.where(known, values, np.nan)
        if (bad := first_inexact(values)) is not None:
            raise batch.wrong(
                bad[0], name, what, f"{values[bad[0]]}", bad[1] or "write ids as integers or text"
            )
        known = ~np.isnan(values)
        array = to_arrow(np.where(known, values, 0).astype(np.int64), known)
    elif types.is_string(kind):
        array = compute.utf8_trim_whitespace(array)
        # to convert a Python string, Arrow would import pandas
        empty = compute.equal(array, arrow_text([""])[0])
        if compute.any(empty).as_py():
            array = compute.if_else(empty, pa.nulls(len(array), pa.string()), array)
        ending = compute.ends_with(array, "\0")
        if (some := compute.any(ending)).as_py():
            row = compute.index(ending, some).as_py()
            raise batch.wrong(row, name, what, "one that ends in a NUL character", "remove the NUL")
    elif types.is_integer(kind) or types.is_decimal(kind):
        array = _whole(batch, name, what, array)
    elif types.is_null(kind):
        array = compute.cast(array, pa.string())
    else:
        raise batch.wrong(0, name, what, str(kind), "write ids as integers or text")
    if array.null_count and not missing:
        row = int(to_numpy(array.is_valid())[0].argmin())
        raise batch.wrong(row, name, what, "none", NO_ID)
    return array


def _whole(batch: Batch, name: str, what: str, array: Any) -> Any:
    """Return whole numbers as int64 if they fit, else as decimals."""
    try:
        return compute.cast(array, pa.int64())
    except pa.ArrowInvalid:
        wide = pa.decimal256(76, 0) if types.is_decimal256(array.type) else pa.decimal128(38, 0)
        try:
            return compute.cast(array, wide)
        except pa.ArrowInvalid:
            raise batch.wrong(0, name, what, str(array.type), "write ids as integers or text") from None


def look_at_type(column: IdColumn, array: Any, batch: Batch) -> None:
    """Show ``column`` of which type the ids of a batch are, an array of :func:`ids`."""
    if len(array) > array.null_count and (batch.written is None or not types.is_string(array.type)):
        if types.is_string(array.type):
            column.look_at_text()
        else:
            column.look_at_numbers(fit=types.is_integer(array.type))


def look(column: IdColumn, array: Any, batch: Batch | None = None) -> Any:
    """Show ``column`` ids of :func:`ids`; return them, text as a dictionary array. Errors name the row in ``batch``."""
    if batch is not None:
        look_at_type(column, array, batch)
    if not types.is_string(array.type):
        return array
    coded = compute.dictionary_encode(array)
    words = coded.dictionary

    def error(word: str, problem: str, remedy: str) -> BadInput:
        where, start = column.place, ""
        if batch is not None:
            where, start = batch.place(array.to_pylist().index(word))
        return BadInput(where, f"{start}{column.name}{problem}", remedy)

    if column.are_numbers:  # stop early at text: Arrow formats an error for each word that is not a number
        column.look(words.slice(0, _HEAD).to_pylist(), error)
    if column.are_numbers and _are_whole(words):
        return coded
    if column.are_numbers or compute.any(compute.is_in(words, value_set=arrow_text(sorted(NAN)))).as_py():
        column.look(words.to_pylist(), error)
    return coded


def _are_whole(words: object) -> bool:
    """Return, using Arrow, whether all words are 64-bit integers as Python writes them."""
    try:
        return bool(compute.cast(compute.cast(words, pa.int64()), pa.string()).equals(words))
    except pa.ArrowInvalid:
        return False


def spelled(column: IdColumn, array: Any) -> Any:
    """Return ids of :func:`look` as int64 or a dictionary array of text, as the ids seen so far suggest."""
    if not types.is_dictionary(array.type):
        if column.as_int64:
            column.spell_int64()
            return array
        return compute.dictionary_encode(compute.cast(array, pa.string()))
    words = array.dictionary.to_pylist() if column.are_numbers else []
    if (own := column.spell(words)) == words:
        return array
    known = to_arrow(np.array([word is not None for word in own]))
    text = compute.if_else(known, arrow_text([word or "" for word in own]), pa.nulls(len(own), pa.string()))
    return compute.dictionary_encode(compute.take(text, array.indices))


def values_of(array: Any) -> list[Any]:
    """Return ids of :func:`spelled` as a list, in which equal texts are one object."""
    if not types.is_dictionary(array.type):
        return list(array.to_pylist())
    codes, known = to_numpy(array.indices)
    words = [*array.dictionary.to_pylist(), None]
    return [words[k] for k in (codes if known is None else np.where(known, codes, -1)).tolist()]


def all_ids(column: IdColumn, arrays: Sequence[Any], *, as_text: bool = False) -> NDArray[Any]:
    """Return the ids of all batches, from :func:`look`, after ``column`` has seen them all."""
    column.settle()
    if not any(types.is_dictionary(array.type) for array in arrays) and column.as_int64:
        values = np.concatenate([to_numpy(array)[0] for array in arrays])
        return values.astype(np.str_) if as_text else values
    encoded = [
        array
        if types.is_dictionary(array.type)
        else compute.dictionary_encode(compute.cast(array, pa.string()))
        for array in arrays
    ]
    codes, words = unified(encoded)
    if column.as_int64 and not as_text and _are_whole(words):
        return np.asarray(to_numpy(compute.cast(words, pa.int64()))[0][codes])
    return np.asarray((column.texts if as_text else column.ids)(words.to_pylist())[codes])


def id_texts(column: IdColumn, arrays: Sequence[Any]) -> list[str]:
    """Return the ids of all batches as text, empty where missing, after ``column`` has seen them all."""
    column.settle()
    return [
        "" if value is None else str(value) for array in arrays for value in values_of(spelled(column, array))
    ]


def unified(arrays: Sequence[Any]) -> tuple[NDArray[Any], Any]:
    """Return the code of each row of several dictionary arrays, and the distinct words."""
    whole = pa.chunked_array(arrays).unify_dictionaries().combine_chunks()
    return to_numpy(whole.indices)[0], whole.dictionary


def coded(array: object) -> tuple[NDArray[np.int64], Any]:
    """Return the code of each id (-1 if missing), and the distinct ids in the order of the codes."""
    encoded = compute.dictionary_encode(array)
    order = compute.sort_indices(encoded.dictionary)
    rank = np.full(len(order) + 1, -1)
    rank[to_numpy(order)[0]] = np.arange(len(order))
    codes, known = to_numpy(encoded.indices)
    codes = codes if known is None else np.where(known, codes, -1)
    return rank[codes], compute.take(encoded.dictionary, order)


def texts(batch: Batch, name: str) -> Any:
    """Return values as text, empty where missing, by Python's ``str``: Arrow's cast writes True as ``true``."""
    array = batch.columns[name]
    if types.is_nested(array.type):
        raise batch.wrong(0, name, "texts or numbers", str(array.type))
    if not types.is_dictionary(array.type):
        array = compute.dictionary_encode(array)
    words = ["" if value is None else str(value).strip() for value in array.dictionary.to_pylist()]
    codes, known = to_numpy(array.indices)
    codes = codes if known is None else np.where(known, codes, len(words))
    return compute.take(arrow_text([*words, ""]), to_arrow(codes.astype(np.int64)))


def times(batch: Batch, name: str, unit: int | None = None) -> tuple[Float, int | None]:
    """Return seconds since 1970 (NaN for missing times), and the unit of times given as numbers, which all batches
    share."""
    array = _plain(batch.columns[name])
    if types.is_timestamp(array.type) or types.is_date(array.type):
        array = compute.cast(compute.cast(array, pa.timestamp("us"), safe=False), pa.int64())
        values, known = to_numpy(array)
        return np.where(True if known is None else known, values / 1e6, np.nan), unit
    if types.is_string(array.type):
        return _times_of_words(batch, name, array, unit)
    if not is_number(array.type) or types.is_boolean(array.type):
        raise batch.wrong(0, name, "times or numbers", str(array.type))
    values, unit, other = seconds(numbers(batch, name), unit)
    return _in_one_unit(batch, name, values, unit, other), unit


def _times_of_words(batch: Batch, name: str, array: Any, unit: int | None) -> tuple[Float, int | None]:
    words = [(word or "").strip() for word in array.to_pylist()]
    values, counted = np.full(len(words), np.nan), np.zeros(len(words), dtype=bool)
    for row, word in enumerate(words):
        if word and word.lower() != "nan":
            try:
                values[row], counted[row] = time_of(word)
            except ValueError:
                raise batch.wrong(
                    row, name, "numbers or times such as 2026-03-01T12:00", shorten(word)
                ) from None
    own, unit, other = seconds(np.where(counted, values, np.nan), unit)
    return np.where(counted, _in_one_unit(batch, name, own, unit, other), values), unit


def time_of(word: str) -> tuple[float, bool]:
    """Parse a number, or ISO 8601 to seconds since 1970; return the value and whether it is a number."""
    return (float(word), True) if NUMBER.fullmatch(word) else (stamp(datetime.fromisoformat(word)), False)


def stamp(time: date | datetime) -> float:
    """Return the seconds since 1970 of a time, in UTC if it has no zone."""
    whole = time if isinstance(time, datetime) else datetime(time.year, time.month, time.day)
    return (whole if whole.tzinfo else whole.replace(tzinfo=UTC)).timestamp()


def _in_one_unit(batch: Batch, name: str, values: Any, unit: int | None, other: int | None) -> Float:
    if other is not None:
        expected, got = f"times in {UNITS[unit or 1]}, as before", f"{values[other] * (unit or 1):.0f}"
        raise batch.wrong(other, name, expected, got, "write all times in one unit")
    return np.asarray(values)


def to_numpy(array: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return Arrow values, arbitrary where missing, and a mask of the values present (None if all are)."""
    if types.is_null(array.type):
        return np.full(len(array), np.nan), np.zeros(len(array), dtype=bool)
    if types.is_boolean(array.type):
        array = compute.cast(array, pa.uint8())
    known = None if not array.null_count else to_numpy(array.is_valid())[0].astype(bool)
    kind = np.dtype(array.type.to_pandas_dtype())
    data = np.frombuffer(array.buffers()[1], dtype=kind) if len(array) else np.empty(0, dtype=kind)
    return data[array.offset : array.offset + len(array)], known


def to_arrow(values: NDArray[Any], known: NDArray[np.bool_] | None = None) -> Any:
    """Return numbers as an Arrow array; Arrow's own conversion would import pandas."""
    validity = None if known is None or known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    raw = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [validity, pa.py_buffer(raw)]
    )


def _plain(array: Any) -> Any:
    """Return an array without dictionary encoding, with text as ``string``."""
    if types.is_dictionary(array.type):
        if types.is_string_view(array.type.value_type):  # from polars; Arrow does not accept its arrays
            array = pa.DictionaryArray.from_arrays(array.indices, compute.cast(array.dictionary, pa.string()))
        array = array.dictionary_decode()
    is_other = is_text(array.type) and not types.is_string(array.type)
    return compute.cast(array, pa.string()) if is_other else array


UNITS = {1: "seconds", 10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}


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
