"""``BadInput``, the error that names an invalid argument, the problem and a remedy; checks that raise it; and counts
for messages."""

import math
import numbers
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple, Self

_NOT_GIVEN: Any = object()


class _Value(NamedTuple):
    """A value as text: as written in Python, and as written after an option, where strings are not quoted."""

    shown: str
    bare: str

    @classmethod
    def of(cls, value: object) -> Self:
        """Return a value on one line, truncated if it is long."""
        text = " ".join(repr(value).split())
        shown = text if len(text) <= 200 else f"{text[:197]}..."
        return cls(shown, value if isinstance(value, str) else shown)


class BadInput(ValueError):
    """Error for an unusable argument, file or entry: what was expected, what was given, and what to do.

    The command line writes ``--C 0`` where Python writes ``C=0``: :meth:`spelled` replaces names in the fields and then
    joins them, so that a file or column called ``C=0`` keeps its name. Therefore ``problem`` and ``remedy`` name
    other arguments in braces: ``"raise {max_passes}"``; their values, if shown, are in ``others``. ``at`` is the index
    of the entry in the argument (``"[3, 1]"``), ``code`` is Python code that carries out ``remedy``, ``part`` is
    the error in the file or argument (see :meth:`within`). An ``argument`` that is a ``Path`` denotes a file, even if a
    parameter has the same name. Warnings that name arguments contain a BadInput, too.

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
        self.part: BadInput | None = None
        self.code = code
        # stored as text, so that worker processes can send the error whatever the types of the values
        self.value = None if value is _NOT_GIVEN else _Value.of(value)
        self.others = {name: _Value.of(other) for name, other in (others or {}).items()}

    def __str__(self) -> str:
        remedy = self._remedy(lambda name, value: f"{name}={'' if value is None else value}")
        if self.code:
            remedy = f"{remedy} ({self.code})" if remedy else f"use {self.code}"
        return self._text(self._head({}), self._problem({}), remedy)

    def spelled(self, options: Mapping[str, str]) -> str:
        """Return the text for the command line: ``options`` maps arguments to options, ``{"C": "--C"}``.

        Arguments without an option are marked "(in Python)". A key ``"sparse=True"`` is an option for that value only.
        """

        def option(name: str, value: str | None) -> str:
            # "{C}" becomes --C, "{C=1}" --C 1, a flag "{positive=True}" --positive; an argument without an option keeps
            # its Python name
            whole = name if value is None else f"{name}={value}"
            if value is not None and whole in options:
                return options[whole]
            if name not in options:
                return f"{whole}{'=' if value is None else ''} (in Python)"
            if value is None or value == "True":
                return options[name]
            bare = value.strip("'")
            return f"{options[name]} {bare}"

        return self._text(self._head(options), self._problem(options), self._remedy(option))

    @property
    def fault(self) -> str:
        """Return the text without the remedy."""
        return self._text(self._head({}), self._problem({}), "")

    def renamed(self, argument: str) -> Self:
        """Return the same error for another argument."""
        return self._changed(argument=argument, is_file=False)

    def recommending(self, argument: str, instead_of: str) -> Self:
        """Return the same error with ``argument`` in place of ``instead_of`` in its remedy, for a caller that renames
        it."""
        return self._changed(remedy=self.remedy.replace(f"{{{instead_of}}}", f"{{{argument}}}"))

    def within(self, whole: str | PurePath) -> Self:
        """Return the same error for the file or argument that contains ``argument``, such as the file that contains
        ``X``."""
        is_file = isinstance(whole, PurePath)
        return self._changed(
            argument=str(whole), is_file=is_file, problem=self.fault, at="", value=None, part=self
        )

    def _changed(self, **fields: object) -> Self:
        # copy.copy would share the fields once tblib, which Dask loads, is responsible for copies of exceptions
        changed = type(self).__new__(type(self), *self.args)
        vars(changed).update(vars(self) | fields)
        return changed

    def _head(self, options: Mapping[str, str]) -> str:
        """Return the offender: a file, an argument without an option, an option with its value, or a flag."""
        option = None if self.is_file else options.get(self.argument)
        if option is None:
            return self.argument if self.value is None else f"{self.argument}={self.value.shown}"
        is_flag = self.value is None or self.value.shown == "True"
        return option if is_flag or self.value is None else f"{option} {self.value.bare}"

    def _text(self, head: str, problem: str, remedy: str) -> str:
        return f"{head}{self.at}: {problem}{'; ' if remedy else ''}{remedy}"

    def _problem(self, options: Mapping[str, str]) -> str:
        if (part := self.part) is not None:
            # the labels in a file, for example, are not the option of that name
            head = part.argument if part.value is None else part._head(options)
            return f"{head}{part.at}: {part._problem(options)}"

        def spell(match: re.Match[str]) -> str:
            # only names in ``others``: a problem also quotes input, which may contain braces
            name, value = match[1], self.others.get(match[1])
            if value is None:
                return match[0]
            return f"{options[name]} {value.bare}" if name in options else f"{name}={value.shown}"

        return re.sub(r"\{(\w+)\}", spell, self.problem)

    def _remedy(self, spell: Callable[[str, str | None], str]) -> str:
        return re.sub(r"\{([A-Za-z_]\w*)(?:=([^{}]*))?\}", lambda name: spell(name[1], name[2]), self.remedy)


def check_number(
    name: str,
    value: object,
    least: float = -math.inf,
    most: float = math.inf,
    *,
    whole: bool = False,
    open_end: bool = False,
    remedy: str = "",
) -> None:
    """Raise unless ``value`` is a finite number in [least, most], or (least, most] with ``open_end``; raise for a bool,
    too."""
    kind = numbers.Integral if whole else numbers.Real
    # compared, not converted: comparisons with NaN are False, and an integer may be too large for a float
    number: Any = value
    ok = isinstance(value, kind) and not isinstance(value, bool) and -math.inf < number < math.inf
    if ok and least <= number <= most and not (open_end and number == least):
        return
    expected = "an integer" if whole else "a finite number"
    if most < math.inf:
        between = f"in ({least:g}, {most:g}]" if open_end else f"from {least:g} to {most:g}"
        expected = f"{'an integer' if whole else 'a number'} {between}"
    elif least > -math.inf:
        expected += f" {'>' if open_end else '>='} {least:g}"
    raise BadInput(name, f"expected {expected}", remedy, value=value)


def check_whole(
    name: str, value: Any, least: int = 1, most: float = math.inf, *, floats: bool = False, remedy: str = ""
) -> int:
    """Return ``value`` as an int; raise unless it is an integer from ``least`` to ``most``.

    With ``floats``, floats with an integral value are accepted, too, such as ``1e6`` for a million steps.
    """
    fractional = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
    number = int(value) if floats and fractional and float(value).is_integer() else value
    check_number(name, number, least, most, whole=True, remedy=remedy)
    return int(number)


def check_positive(name: str, value: Any) -> float:
    """Return ``value`` as a float; raise unless it is a finite number > 0."""
    check_number(name, value, 0.0, open_end=True)
    return float(value)


def check_fraction(name: str, value: object) -> None:
    """Raise unless ``value`` is a number strictly between 0 and 1."""
    number: Any = value
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 < number < 1:
        raise BadInput(name, "expected a number in (0, 1)", value=value)


def check_flag(name: str, value: object) -> None:
    """Raise unless ``value`` is True or False."""
    # compared by name: NumPy's bool is accepted, but this module does not import NumPy
    if type(value).__name__ not in ("bool", "bool_"):
        raise BadInput(name, "expected True or False", value=value)


def check_choice(name: str, value: object, choices: Collection[Any], *, remedy: str = "") -> None:
    """Raise unless ``value`` is one of ``choices``."""
    try:
        known = value in choices
    except TypeError:  # not hashable
        known = False
    if not known:
        shown = list(map(repr, choices))
        expected = " or ".join(shown) if len(shown) < 3 else f"one of {', '.join(shown)}"
        raise BadInput(name, f"expected {expected}", remedy, value=value)


def check_callback(name: str, value: object) -> None:
    """Raise unless ``value`` is a function or None."""
    if value is not None and not callable(value):
        raise BadInput(name, "expected a function or None", value=value)


def missing_parts(protocol: type, candidate: object) -> str:
    """Return the members of a protocol that an object lacks."""
    parts = [*protocol.__annotations__, *(name for name in vars(protocol) if not name.startswith("_"))]
    return ", ".join(part for part in parts if not hasattr(candidate, part))


def first_few(words: Iterable[str], n: int) -> str:
    """Return the first ``n`` words, separated by commas, with an ellipsis if there are more."""
    words = list(words)
    return ", ".join(words[:n]) + (", ..." if len(words) > n else "")


def counted(separator: str = "", /, **counts: int) -> str:
    """Return counts with their nouns: ``"1 query, 2 rows"`` for ``query=1, row=2``; ``separator`` is that of
    thousands."""
    plurals = {noun: f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s" for noun in counts}
    return ", ".join(f"{n:{separator}} {noun if n == 1 else plurals[noun]}" for noun, n in counts.items())
