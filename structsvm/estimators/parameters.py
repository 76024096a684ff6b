"""``parameters``: estimators as dataclasses of their parameters, each of which is described once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from inspect import cleandoc, signature
from typing import Any, TypeVar, cast, dataclass_transform

__all__ = ["parameters"]

_Class = TypeVar("_Class", bound=type)

_HEADING = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def parameters(cls: _Class) -> _Class:
    """Make the annotated members of a class the parameters of its ``__init__``, with those of its bases.

    A parameter of a base that the class fixes is ``field(default=..., init=False)`` in it. What the docstring does not
    say of a parameter, or of all attributes, is taken from the bases.
    """
    described = cls.__doc__ is not None  # not with python -OO
    made: Any = dataclass(eq=False, repr=False)(cls)
    if described:
        made.__doc__ = _completed(made)
    return cast(_Class, made)


def _completed(cls: type) -> str:
    sections = _sections(cls)
    bases = [_sections(base) for base in cls.__mro__[1:] if base.__doc__]
    known: dict[str, str] = {}
    for one in (sections, *bases):
        known = {**_entries(one.get("Parameters", "")), **known}
    entries = [known[name] for name in signature(cls).parameters if name in known]
    first = {"": sections.pop(""), "Parameters": "\n".join(entries)}
    sections.pop("Parameters", None)
    attributes = [one["Attributes"] for one in (sections, *bases) if "Attributes" in one]
    if attributes:
        first["Attributes"] = attributes[0]
    return "\n\n".join(
        text if not title else f"{title}\n{'-' * len(title)}\n{text}"
        for title, text in (first | sections).items()
    )


def _sections(cls: type) -> dict[str, str]:
    """Return the text under each heading of a numpydoc docstring; that before the first is under ``""``."""
    parts = _HEADING.split(cleandoc(cls.__doc__ or ""))
    return {title: text.strip("\n") for title, text in zip(["", *parts[1::2]], parts[::2], strict=True)}


def _entries(section: str) -> dict[str, str]:
    """Return the entry of each parameter: the line that begins with its name, and the lines indented below."""
    found = filter(None, re.split(r"^(?=\w)", section, flags=re.MULTILINE))
    return {
        name: entry.rstrip("\n")
        for entry in found
        for name in re.split(r" *[,:] *", entry.split("\n")[0])[:1]
    }
