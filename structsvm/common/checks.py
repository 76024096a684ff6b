"""One way to check a value, and one error for what is wrong with it: argument, problem, remedy."""

from __future__ import annotations

import copy
import copyreg
import math
import numbers
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from typing import Any

_NOT_GIVEN: Any = object()


class BadInput(ValueError):
    """An argument, a file or a place in the data that cannot be used, with what was expected and what to do.

    The command line says ``--C 0`` where Python says ``C=0``: other arguments stand in braces in ``problem`` (with
    values in ``others``) and ``remedy``, ``"raise {max_passes}"``. ``at`` is the place in the argument (``"[3, 1]"``),
    ``code`` is Python that does what ``remedy`` says. A ``Path`` is never taken for an argument of the same name.

    Examples
    --------
    >>> error = BadInput("C", "expected a finite number > 0", "see {Cs} for several", value=0)
    >>> str(error)
    'C=0: expected a finite number > 0; see Cs= for several'
    >>> error.spelled({"C": "--C", "Cs": "--C-grid"})
    '--C 0: expected a finite number > 0; see --C-grid for several'
    """

    def __init__(
        self,
        argument: str | PurePath,
        problem: str,
        remedy: str = "",
        *,
        value: Any = _NOT_GIVEN,
        at: str = "",
        code: str = "",
        others: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(str(argument), problem, remedy)
        self.argument = str(argument)
        self.is_file = isinstance(argument, PurePath)
        self.problem = problem
        self.remedy = remedy
        self.at = at
        self.code = code
        self.others = dict(others or {})
        self.has_value = value is not _NOT_GIVEN
        self.value = value if self.has_value else None

    def __str__(self) -> str:
        remedy = self._remedy(lambda name, value: f"{name}={'' if value is None else value}")
        if self.code:
            remedy += f" ({self.code})"
        return self._text(self._head(), self._problem(_as_keyword), remedy)

    def __reduce__(self) -> Any:
        # errors come back from worker processes; a value that perhaps cannot be pickled is shown as it was written
        others = {name: _portable(value) for name, value in self.others.items()}
        state = {**self.__dict__, "value": _portable(self.value), "others": others}
        return copyreg.__newobj__, (type(self), *self.args), state  # type: ignore[attr-defined]

    def spelled(self, options: Mapping[str, str]) -> str:
        """Return the text for the command line: ``options`` maps arguments to options, ``{"C": "--C"}``.

        Others are for Python only, and the text says so. A key ``"sparse=True"`` is for that value alone.
        """

        def option(name: str, value: str | None) -> str:
            whole = name if value is None else f"{name}={value}"
            if value is not None and whole in options:
                return options[whole]
            if name not in options:
                return f"{whole}{'=' if value is None else ''} (in Python)"
            if value is None or value == "True":
                return options[name]
            bare = value.strip("'")
            return f"{options[name]} {bare}"

        if self.is_file or self.argument not in options:
            head = self._head()
        elif self.has_value and self.value is not True:
            head = f"{options[self.argument]} {_shown_bare(self.value)}"
        else:
            head = options[self.argument]
        problem = self._problem(
            lambda name, value: (
                f"{options[name]} {_shown_bare(value)}" if name in options else f"{name}={value!r}"
            )
        )
        return self._text(head, problem, self._remedy(option))

    @property
    def fault(self) -> str:
        """The text without the remedy."""
        return self._text(self._head(), self._problem(_as_keyword), "")

    def renamed(self, argument: str) -> BadInput:
        """Return the same error for another argument."""
        return self._changed(argument=argument, is_file=False)

    def recommending(self, argument: str, instead_of: str) -> BadInput:
        """Return the same error with another argument in the remedy, for a caller that names it differently."""
        return self._changed(remedy=self.remedy.replace(f"{{{instead_of}}}", f"{{{argument}}}"))

    def within(self, place: str | PurePath) -> BadInput:
        """Return the error of what ``argument`` is a part of: of a file that held ``X``, of ``validation``."""
        return self._changed(
            argument=str(place),
            is_file=isinstance(place, PurePath),
            problem=f"{self._head()}{self.at}: {self.problem}",
            at="",
            has_value=False,
            value=None,
        )

    def _changed(self, **fields: Any) -> BadInput:
        changed = copy.copy(self)
        changed.__dict__.update({"value": self.value, "others": self.others, **fields})
        return changed

    def _head(self) -> str:
        return _as_keyword(self.argument, self.value) if self.has_value else self.argument

    def _text(self, head: str, problem: str, remedy: str) -> str:
        return f"{head}{self.at}: {problem}{'; ' if remedy else ''}{remedy}"

    def _problem(self, spell: Callable[[str, Any], str]) -> str:
        # names that were declared only: the text also quotes what users wrote
        return re.sub(
            r"\{(\w+)\}",
            lambda name: spell(name[1], self.others[name[1]]) if name[1] in self.others else name[0],
            self.problem,
        )

    def _remedy(self, spell: Callable[[str, str | None], str]) -> str:
        return re.sub(r"\{([A-Za-z_]\w*)(?:=([^{}]*))?\}", lambda name: spell(name[1], name[2]), self.remedy)


class _Shown:
    """A value that another process showed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _as_keyword(name: str, value: Any) -> str:
    return f"{name}={_shown(value)}"


def _shown(value: Any) -> str:
    """Return the ``repr`` of a value on one line, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else f"{text[:197]}..."


def _portable(value: Any) -> Any:
    plain = value is None or type(value) in (bool, int, float, str)
    return value if plain else _Shown(_shown(value))


def _shown_bare(value: Any) -> str:
    """Return a value as it stands behind an option: strings without quotes."""
    return value if isinstance(value, str) else _shown(value)


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
    """Raise unless ``value`` is a finite number from ``least`` (excluded with ``open_end``) to ``most``; no bool."""
    kind = numbers.Integral if whole else numbers.Real
    number: Any = value  # NaN compares false; a whole number may be too large for a float
    ok = isinstance(value, kind) and not isinstance(value, bool) and -math.inf < number < math.inf
    if ok and least <= number <= most and not (open_end and number == least):
        return
    expected = "a whole number" if whole else "a finite number"
    if most < math.inf:
        between = f"in ({least:g}, {most:g}]" if open_end else f"from {least:g} to {most:g}"
        expected = f"a {'whole ' if whole else ''}number {between}"
    elif least > -math.inf:
        expected += f" {'>' if open_end else '>='} {least:g}"
    raise BadInput(name, f"expected {expected}", remedy, value=value)


def check_whole(
    name: str,
    value: Any,
    least: int = 1,
    most: float = math.inf,
    *,
    floats: bool = False,
    remedy: str = "",
) -> int:
    """Return ``value`` as an int; raise unless it is a whole number from ``least`` to ``most``.

    With ``floats``, a float without a fraction is taken, too: ``1e6`` for a million steps.
    """
    fractional = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
    number = int(value) if floats and fractional and float(value).is_integer() else value
    check_number(name, number, least, most, whole=True, remedy=remedy)
    return int(number)


def check_positive(name: str, value: Any) -> float:
    """Return ``value`` as a float; raise unless it is a finite number > 0."""
    check_number(name, value, 0.0, open_end=True)
    return float(value)


def check_fraction(name: str, value: Any) -> None:
    """Raise unless ``value`` is a number strictly between 0 and 1."""
    number: Any = value
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 < number < 1:
        raise BadInput(name, "expected a number in (0, 1)", value=value)


def check_flag(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False."""
    # by name also numpy's bool, which is not imported here
    if type(value).__name__ not in ("bool", "bool_"):
        raise BadInput(name, "expected True or False", value=value)


def check_choice(name: str, value: Any, choices: Collection[Any], *, remedy: str = "") -> None:
    """Raise unless ``value`` is one of ``choices``."""
    try:
        known = value in choices
    except TypeError:  # not hashable
        known = False
    if not known:
        shown = list(map(repr, choices))
        expected = " or ".join(shown) if len(shown) < 3 else f"one of {', '.join(shown)}"
        raise BadInput(name, f"expected {expected}", remedy, value=value)


def missing_parts(protocol: type, made: object) -> str:
    """Return the members that a protocol has and this object has not."""
    parts = [*protocol.__annotations__, *(name for name in vars(protocol) if not name.startswith("_"))]
    return ", ".join(part for part in parts if not hasattr(made, part))


def check_C(C: Any) -> float:
    """Return ``C`` as a float; raise unless it is a finite number > 0."""
    return check_positive("C", C)
