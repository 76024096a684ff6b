"""The rule for ids: what the ids of a column are, decided once, after all of its words were seen.

Each reader shows an :class:`IdColumn` every id of a column, however they are stored and in whatever blocks, and only
then asks for the ids. So the same rows give the same ids, or the same error, in every format.

* **Spelling.** An id is its text without white space at either end. Nothing else is changed: case, quotes and Unicode
  normalisation distinguish ids (``é`` as one character and as ``e`` with an accent are two ids), as in TREC files.
* **Numbers.** If every id of the column is a whole number, written ``7`` or ``7.0``, as pandas writes a column of
  floats, the ids are the digits of these numbers, of any length. The width and the type of the numbers do not matter:
  integers, decimals and floats that are whole give the same ids as text. They are returned as int64 if they fit and
  none was given as text by a format with types, else as text.
* **Text.** If any id is not a whole number, all ids are text as written: ``007`` and ``7``, or ``1.10`` and ``1.1``,
  are distinct. A format with types must not mix text and numbers, because a number does not tell ``007`` from ``7``.
* **Lost digits.** Floats with a fraction, floats from 2^53 on (2^24 for float32), and, in a column of numbers, text
  such as ``1.73e+18`` or ``9007199254740993.0`` are refused: distinct ids may have become equal.
* **Missing.** An empty text, null and NaN are missing. So is the text ``nan``, in any case, if all other ids are
  numbers, or if there are none; among other text it is an id, with a warning. Readers refuse missing ids; readers of
  clicks leave their rows out and count them.
"""

import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.files import shorten
from structsvm.common.names import QID
from structsvm.common.user_warnings import warn_user

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)(\.0)?|-0\.0")
"""A whole number as Python writes an integer or a float."""

NAN = frozenset(a + b + c for a in "nN" for b in "aA" for c in "nN")
_EXACT = 2**53
NO_ID = "drop the rows without an id"
_LOST = "distinct ids may have become equal; write them as int64 or text"

Result = TypeVar("Result")
WordError = Callable[[str, str, str], BadInput]
"""Function that returns the error of a word; its further arguments are the problem and the remedy."""


class Unsettled(Exception):
    """Raised if ids were spelled before a later id changed the decision: the same rows have to be read again."""


class IdColumn:
    """The ids of one column (see the rule above).

    Show all words with :meth:`look`, then call :meth:`settle`, then :meth:`ids`. A reader that cannot keep all words
    until the end calls :meth:`spell` after each :meth:`look`, within :func:`reread`: if a later word changes the
    decision, :meth:`look` raises :class:`Unsettled`, and all rows are read again with the same object, which then knows
    the decision.

    Parameters
    ----------
    place : str or path
        Source that errors name if a word has no place of its own.
    name : str
        Name of the column, for errors; may be empty.
    missing : bool
        Whether rows with missing ids are left out by the caller instead of refused.
    """

    def __init__(self, place: Any, name: str = "", *, missing: bool = False) -> None:
        self.place, self._missing = place, missing
        self.name = f"column {shorten(name)}: " if name else ""
        self.are_numbers = True
        """Whether all ids seen so far are numbers."""

        self.are_whole = True
        """Whether all ids seen so far are whole numbers, ``7`` or ``7.0``."""

        self.fit = True
        """Whether all whole numbers seen so far fit into int64."""

        self.of_text = self.of_numbers = False
        """Whether a format with types gave text, or numbers."""

        self._nan: BadInput | None = None
        self._rounded: BadInput | None = None
        self._cut = self._left_out = self._as_int64 = False

    def look(self, words: Sequence[str], error: WordError | None = None) -> None:
        """Examine words, which are trimmed; distinct ones suffice, and empty ones are passed over."""
        error = error or self._error
        # most ids are plain integers, which change nothing; the first text ends the loop below
        others = (word for word in words if word and not _is_plain(word)) if self.are_numbers else ()
        for word in others:
            if word in NAN:
                problem = f"expected an id, got {word}, a missing value"
                self._nan = self._nan or error(word, problem, NO_ID)
                continue
            if _WHOLE.fullmatch(word):
                self.fit = self.fit and (-(2**63) <= int(_digits(word)) < 2**63)
            elif NUMBER.fullmatch(word):
                self.are_whole = False
            else:
                self.are_numbers = self.are_whole = False
                break
            if "e" in word or "E" in word or (word.endswith(".0") and abs(float(word)) >= _EXACT):
                problem = (
                    f"expected ids as integers or text, got {word:.40}, as a column of floats is written"
                )
                self._rounded = self._rounded or error(word, problem, _LOST)
        # searching the joined text is faster than hashing every word
        may_be_nan = not self.are_numbers and self._nan is None and "nan" in "".join(words).lower()
        if may_be_nan and not NAN.isdisjoint(words):
            self._nan = error(next(word for word in words if word in NAN), "", "")
        self._check()

    def look_at_numbers(self, *, fit: bool = True) -> None:
        """Note whole numbers of a format with types; ``fit`` tells whether they fit into int64."""
        self.of_numbers, self.fit = True, self.fit and fit
        self._check()

    def look_at_text(self) -> None:
        """Note that a format with types gave text."""
        self.of_text = True
        self._check()

    def _check(self) -> None:
        if self.of_numbers and self.of_text:
            raise self._error("", "expected ids of one type, got numbers and text", "convert them to str")
        if (
            (self._cut and not self.are_whole)
            or (self._left_out and not self.are_numbers)
            or (self._as_int64 and not self.as_int64)
        ):
            raise Unsettled

    def _error(self, word: str, problem: str, remedy: str) -> BadInput:
        return BadInput(self.place, f"{self.name}{problem}", remedy)

    @property
    def as_int64(self) -> bool:
        """Whether the ids seen so far are returned as int64."""
        return self.are_whole and self.fit and not self.of_text and (self._missing or self._nan is None)

    def spell(self, words: Sequence[str]) -> list[str | None]:
        """Return ids as text, as the words seen so far suggest; None for missing ids that the caller leaves out."""
        spelled: list[str | None] = list(map(_digits, words)) if self.are_whole else list(words)
        self._cut = self._cut or (self.are_whole and spelled != words)
        if self.are_numbers and self._missing and self._nan is not None:
            spelled = [None if word in NAN else word for word in spelled]
            self._left_out = True
        return spelled

    def spell_int64(self) -> None:
        """Note that the caller uses numbers as int64, as the ids seen so far suggest."""
        self._as_int64 = True

    def settle(self) -> None:
        """Decide whether the ids are numbers, after all words have been read.

        Raise for missing ids and for numbers that lost digits.
        """
        if self.are_numbers and (refused := (None if self._missing else self._nan) or self._rounded):
            raise refused
        if not self.are_numbers and self._nan is not None:
            warn_user(
                f"{self._nan.argument}: {self.name}the text 'nan' is an id; drop its rows if the id is missing"
            )

    def restart(self) -> None:
        """Forget what was spelled, not what was seen: all rows are read again."""
        self._cut = self._left_out = self._as_int64 = False

    def ids(self, words: Sequence[Any]) -> NDArray[Any]:
        """Return words, or whole numbers, as ids, after :meth:`settle`; before, as the words seen so far suggest."""
        texts = self.texts(words)
        return np.array([*map(int, texts.tolist())], np.int64) if self.as_int64 else texts

    def texts(self, words: Sequence[Any]) -> NDArray[np.str_]:
        """Return words, or whole numbers, as ids in the form of text."""
        return np.array([_digits(str(word)) for word in words] if self.are_whole else words, dtype=np.str_)


def reread(attempt: Callable[[], Result], columns: Collection[IdColumn]) -> Result:
    """Return ``attempt()``, which reads the ids ``columns``; repeat it if their type changes while they are read."""
    while True:
        for column in columns:
            column.restart()
        try:
            return attempt()
        except Unsettled:
            continue


def _is_plain(word: str) -> bool:
    """Return whether a word is an integer of int64, written without a sign."""
    return word.isdecimal() and word.isascii() and len(word) < 19 and (word[0] != "0" or len(word) == 1)


class Spelling(NamedTuple):
    """How some rows of a table write their ids, for a reader that decides for each part of a table.

    ``whole`` is an id if all are whole numbers as text, which may have been ``7.0``; ``pointed`` is an id such as
    ``7.0``, which was kept because others are not whole. Parts with one and with the other write an id in two ways.
    """

    whole: str | None
    pointed: str | None

    @classmethod
    def of(cls, ids: NDArray[Any]) -> Self:
        """Return how ids are written."""
        words = ids.tolist() if ids.dtype.kind == "U" else []
        whole = [word for word in words if _WHOLE.fullmatch(word)]
        pointed = next((word for word in whole if word.endswith(".0")), None)
        return cls(words[0] if words and len(whole) == len(words) else None, pointed)


def _digits(word: str) -> str:
    """Return the digits of a whole number."""
    return "0" if word == "-0.0" else word.removesuffix(".0")


def settled(words: Sequence[str], place: object, name: str = "") -> NDArray[Any]:
    """Return all ids of a text file without types, given at once."""
    column = IdColumn(place, name)
    column.look(words)
    column.settle()
    return column.ids(words)


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


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, NaT, NA, or an empty string."""
    try:  # NaN is not equal to itself
        return value is None or not bool(value == value) or value in ("", b"")
    except TypeError:  # pandas' NA
        return True


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
    if type(given) is list:  # an array of objects would only be converted back
        return _words(IdColumn(name), given, what, empty=empty, as_written=as_written)
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
    wide = str(getattr(given, "dtype", "")) in ("Int128", "UInt128")  # of polars, unknown to NumPy
    if wide or (isinstance(nulls, int) and nulls):  # of a frame of polars the number is a frame
        given = given.to_pylist() if hasattr(given, "to_pylist") else given.to_list()
    return np.asarray(given) if hasattr(given, "dtype") else np.asarray(given, dtype=object)


def qid_of(X: Any, qid: Any) -> Any:
    """Return the query ids: ``qid``, or else the column ``qid`` of a frame, or else None."""
    return exact_array(X[QID]) if qid is None and QID in getattr(X, "columns", ()) else qid


def _words(
    column: IdColumn,
    ids: NDArray[Any] | list[Any],
    what: str,
    *,
    empty: bool,
    missing: bool = False,
    as_written: bool = False,
) -> list[str]:
    """Return ids as text, empty where missing, after they were shown to ``column``; raise for missing ids unless
    ``missing``, for empty text unless ``empty``."""
    name = column.place
    if not isinstance(ids, list) and ids.dtype.kind not in "uUO":
        raise BadInput(name, f"expected {what}, got {ids.dtype}", _REMEDY)
    values: list[Any] = list(ids) if isinstance(ids, list) else ids.tolist()
    are_texts = set(map(type, values)) <= {str}
    if are_texts:
        joined = "".join(values)  # most ids contain no white space at all
        is_bare = as_written or joined.split(None, 1) == [joined]
        words: list[Any] = values if is_bare else [value.strip() for value in values]
        column.look_at_text()
    else:
        words = []
        for row, value in enumerate(values):
            try:
                words.append(id_word(column, value, what))
            except BadInput as wrong:
                raise BadInput(name, wrong.problem, wrong.remedy, at=f"[{row}]") from None
    if not missing and ((not are_texts and None in words) if empty else not all(words)):
        row = next(row for row, word in enumerate(words) if word is None or not (word or empty))
        raise BadInput(name, f"expected {what}, got {values[row]!r:.40}", NO_ID, at=f"[{row}]")
    filled = words if are_texts else [word or "" for word in words]
    if as_written:
        return filled

    def error(word: str, problem: str, remedy: str) -> BadInput:
        return BadInput(name, problem, remedy, at=f"[{filled.index(word)}]")

    if "\0" in (joined if are_texts else "".join(filled)):
        for word in filled:
            if word.endswith("\0"):  # NumPy would drop it
                raise error(word, f"expected an id without NUL at its end, got {word!r:.40}", "")
    column.look(filled, error)
    column.settle()
    spelled: list[Any] = column.spell(filled)
    return [word or "" for word in spelled] if missing else spelled


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
        raise BadInput(
            column.place,
            f"expected {'an int' if is_text else 'a string'}, as before, got {shown}",
            "ids that differ only in type, such as 1 and '1', would be one id: convert all to str",
        )
    if is_text:
        column.look_at_text()
        return str(value).strip()
    column.look_at_numbers(fit=-(2**63) <= value < 2**63)
    return str(int(value))
