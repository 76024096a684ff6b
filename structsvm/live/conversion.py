"""Conversion of JSON and TOML to types; errors name the path of the wrong value."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from structsvm.common.checks import BadInput
from structsvm.live.engines.answers import at_path

T = TypeVar("T", bound=msgspec.Struct)


def converted(value: Any, kind: type[T], within: str = "") -> T:
    """Return a value of JSON or TOML as a type; raise BadInput, with the place that is wrong, for anything else."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        path, said = problem_of(error)
        if "unknown field" in said and "." not in path:
            said = f"expected one of {', '.join(kind.__struct_fields__)}"
        found = at_path(value, path)
        path = ".".join(filter(None, (within, path))) or "experiment"
        raise (BadInput(path, said) if found is None else BadInput(path, said, value=found)) from None


def problem_of(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return where a value is wrong, as a dotted path, and what was expected."""
    said, _, at = str(error).partition(" - at ")
    field = re.search("(?:unknown|required) field `(.*)`", said)
    path = at.strip("`").removeprefix("key in ").removeprefix("$").lstrip(".")
    if field:
        path = ".".join(filter(None, (path, field[1][:80])))
    return path.replace("[...]", ""), said[:1].lower() + said[1:]
