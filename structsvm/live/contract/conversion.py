"""Conversion of JSON and TOML values to types, with errors that name the path of the invalid value; and dotted
paths."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from structsvm.common.checks import BadInput

T = TypeVar("T", bound=msgspec.Struct)


def converted(value: object, kind: type[T], within: str = "") -> T:
    """Convert a value of JSON or TOML to a type; raise BadInput with the invalid path if it does not fit."""
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
    """Return the dotted path of an invalid value, and a description of the expected value."""
    said, _, at = str(error).partition(" - at ")
    field = re.search("(?:unknown|required) field `(.*)`", said)
    path = at.strip("`").removeprefix("key in ").removeprefix("$").lstrip(".")
    path = ".".join(filter(None, (path, field[1][:80] if field else "")))
    return path.replace("[...]", ""), said[:1].lower() + said[1:]


def at_path(value: object, path: str) -> Any:
    """Return the value at a dotted path of nested objects, or None."""
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def text_in(body: Mapping[str, Any], *paths: str) -> str | None:
    """Return the string at the first path that leads to a nonempty string, or None."""
    for path in paths:
        value = at_path(body, path)
        if isinstance(value, str) and value:
            return value
    return None


def number_as_text(value: object) -> Any:
    """Return an integer as text, so that ids can be compared, and anything else unchanged."""
    return str(value) if type(value) is int else value


def listed(value: object) -> Sequence[Any]:
    """Return a single value, a list of values or None as a sequence."""
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


def merged_mappings(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested objects; where both have a value, take the value of ``second``."""
    result = dict(first)
    for key, value in second.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged_mappings(old, value) if both else value  # type: ignore[arg-type]
    return result
