"""One way to check a value, and one error for what is wrong with it: argument, problem, remedy."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Collection, Mapping
from typing import Any

__all__ = [
    "BadInput",
    "check_C",
    "check_choice",
    "check_flag",
    "check_fraction",
    "check_number",
    "check_whole",
]

_NOT_GIVEN = object()


class BadInput(ValueError):
    """An argument, a file or a place in the data that cannot be used, with what was expected and what to do.

    The fields can be read by a caller that knows the argument by another name: the command line says ``--C 0`` where
    Python says ``C=0``. Nothing needs to read the text.

    Parameters
    ----------
    argument : str
        Name of the argument, or the place: ``"C"``, ``"train.txt:17"``, ``"y[3]"``.
    problem : str
        What was expected, and what was found if ``value`` does not show it.
    remedy : str, default=""
        What to do. Another argument stands in braces, ``"raise {max_passes} or scale the features"``, and is spelled
        as the reader knows it.
    value : object, optional
        The value of the argument, shown behind its name.

    Examples
    --------
    >>> error = BadInput("C", "expected a finite number > 0", "see {Cs} for several", value=0)
    >>> str(error)
    'C=0: expected a finite number > 0; see Cs= for several'
    >>> error.spelled({"C": "--C", "Cs": "--C-grid"})
    '--C 0: expected a finite number > 0; see --C-grid for several'
    """

    def __init__(self, argument: str, problem: str, remedy: str = "", *, value: Any = _NOT_GIVEN) -> None:
        super().__init__(argument, problem, remedy)
        self.argument = argument
        self.problem = problem
        self.remedy = remedy
        self.has_value = value is not _NOT_GIVEN
        self.value = value if self.has_value else None

    def __str__(self) -> str:
        return self.spelled({})

    def __reduce__(self) -> Any:
        # errors come back from worker processes; a value that cannot be pickled is shown as it was written
        return _rebuild, (self.argument, self.problem, self.remedy, self.has_value, _Shown(repr(self.value)))

    def spelled(self, options: Mapping[str, str]) -> str:
        """Return the text with arguments spelled as ``options``; those it does not hold, as Python has them."""
        option = options.get(self.argument)
        if not self.has_value:
            head = option or self.argument
        elif option is None:
            head = f"{self.argument}={self.value!r}"
        elif self.value is True:
            head = option
        else:
            head = f"{option} {self.value if isinstance(self.value, str) else repr(self.value)}"
        remedy = re.sub(r"\{(\w+)\}", lambda name: options.get(name[1], f"{name[1]}="), self.remedy)
        return f"{head}: {self.problem}{'; ' if remedy else ''}{remedy}"

    def renamed(self, argument: str) -> BadInput:
        """Return the same error for another argument or place."""
        value = self.value if self.has_value else _NOT_GIVEN
        return type(self)(argument, self.problem, self.remedy, value=value)


class _Shown:
    """A value that another process showed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _rebuild(argument: str, problem: str, remedy: str, has_value: bool, value: _Shown) -> BadInput:
    return BadInput(argument, problem, remedy, value=value if has_value else _NOT_GIVEN)


def check_number(
    name: str,
    value: Any,
    least: float = -math.inf,
    most: float = math.inf,
    *,
    whole: bool = False,
    open_end: bool = False,
    remedy: str = "",
) -> None:
    """Raise unless ``value`` is a finite number from ``least`` to ``most``.

    Parameters
    ----------
    name : str
        The argument.
    value : object
        Anything; True and False are not numbers here.
    least, most : float, default=-inf, inf
        Smallest and largest value allowed.
    whole : bool, default=False
        Whether the number must be whole.
    open_end : bool, default=False
        Whether ``least`` itself is refused.
    remedy : str, default=""

    Raises
    ------
    BadInput

    Examples
    --------
    >>> check_number("k", 0, 1, whole=True)
    Traceback (most recent call last):
    structsvm.checks.BadInput: k=0: expected a whole number >= 1
    """
    kind = numbers.Integral if whole else numbers.Real
    number: Any = value  # NaN compares false; a whole number may be too large for a float
    ok = isinstance(value, kind) and not isinstance(value, bool) and -math.inf < number < math.inf
    if ok and least <= number <= most and not (open_end and number == least):
        return
    expected = "a whole number" if whole else "a finite number"
    if most < math.inf:
        expected += f" from {least:g} to {most:g}"
    elif least > -math.inf:
        expected += f" {'>' if open_end else '>='} {least:g}"
    raise BadInput(name, f"expected {expected}", remedy, value=value)


def check_whole(name: str, value: Any, least: int = 1, most: float = math.inf, *, remedy: str = "") -> int:
    """Return ``value`` as an int; raise unless it is a whole number from ``least`` to ``most``.

    Raises
    ------
    BadInput
    """
    check_number(name, value, least, most, whole=True, remedy=remedy)
    return int(value)


def check_fraction(name: str, value: Any) -> None:
    """Raise unless ``value`` is a number strictly between 0 and 1.

    Raises
    ------
    BadInput
    """
    number: Any = value
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 < number < 1:
        raise BadInput(name, "expected a number in (0, 1)", value=value)


def check_flag(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False.

    Raises
    ------
    BadInput
    """
    if (
        value is not True and value is not False and type(value).__name__ != "bool"
    ):  # numpy's bool, not imported here
        raise BadInput(name, "expected True or False", value=value)


def check_choice(name: str, value: Any, choices: Collection[Any], *, remedy: str = "") -> None:
    """Raise unless ``value`` is one of ``choices``.

    Raises
    ------
    BadInput

    Examples
    --------
    >>> check_choice("solver", "sgd", ("auto", "one_slack"))
    Traceback (most recent call last):
    structsvm.checks.BadInput: solver='sgd': expected 'auto' or 'one_slack'
    """
    try:
        known = value in choices
    except TypeError:  # not hashable
        known = False
    if not known:
        *others, last = map(repr, choices)
        raise BadInput(name, f"expected {', '.join(others)} or {last}", remedy, value=value)


def check_C(C: Any) -> float:
    """Return ``C`` as a float; raise unless it is a finite number > 0.

    Raises
    ------
    BadInput
    """
    check_number("C", C, 0.0, open_end=True)
    return float(C)
