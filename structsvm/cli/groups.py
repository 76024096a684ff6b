"""Groups of options that several commands share."""

import copy
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_type_hints

import typer


class Group:
    """Base of dataclasses whose fields are options; a command takes the dataclass as one parameter."""


_TEXT = re.compile(r"(?:<([A-Z]+)> |(-\w) )?(.*)", re.DOTALL)
"""The name of an argument or the letter of an option, and the help."""


def _option(name: str, hint: object, default: object) -> Any:
    """Return the annotation of a parameter: an argument or option whose help is the given text."""
    kind, *metadata = get_args(hint) or (hint,)
    if len(metadata) == 2:  # an option of several commands, with its help in this one
        option = copy.copy(metadata[0])
        option.help = metadata[1]
        return Annotated[kind, option]
    if not metadata or not isinstance(metadata[0], str):
        return hint
    argument, letter, text = _TEXT.fullmatch(metadata[0]).groups()  # type: ignore[union-attr]
    if argument:
        return Annotated[kind, typer.Argument(metavar=argument, help=text)]
    # no names for a flag that is True by default, as typer then adds the option --no-name
    names = () if default is True else (f"--{name.replace('_', '-')}", letter)
    return Annotated[kind, typer.Option(*filter(None, names), help=text)]


def spelled_out(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with one parameter for each field of its parameters that are groups.

    ``Annotated[int, "Number of folds."]`` is an option with this help, ``"-f Number of folds."`` an option with a
    letter, and ``"<LOG> The log to read."`` an argument.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, Group)
    }
    parameters: list[inspect.Parameter] = []

    def add(name: str, default: object) -> None:
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=_option(name, hints[name], default),
            )
        )

    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            add(name, parameter.default)
            continue
        hints |= get_type_hints(groups[name], include_extras=True)
        for field in dataclasses.fields(groups[name]):
            add(field.name, field.default)

    @functools.wraps(command)
    def call(**given: object) -> Any:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        return command(**given, **made)

    del call.__wrapped__  # the wrapped function has other parameters
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
