"""Groups of options that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


class Group:
    """Base of dataclasses whose fields are options: a command takes one as a parameter."""


def spelled_out(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with one parameter for each field of its parameters that are groups."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, Group)
    }
    parameters: list[inspect.Parameter] = []

    def add(name: str, default: Any) -> None:
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=hints[name]))

    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            add(name, parameter.default)
            continue
        hints |= get_type_hints(groups[name], include_extras=True)
        for field in dataclasses.fields(groups[name]):
            add(field.name, field.default)

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        return command(**given, **made)

    del call.__wrapped__  # its parameters are others
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
