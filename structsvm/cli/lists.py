"""Complete the help of a command when it is requested: lists of names, such as those of all losses, and metavars."""

import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from inspect import signature
from typing import Any

import typer

from structsvm.common.lazy import labelled, labels


def _of(module: str, name: str) -> Iterable[Any]:
    names: Iterable[Any] = getattr(import_module(module), name)
    return names


def default_bandits() -> str:
    """Return the bandits that have a compiled form and need no horizon, separated by commas."""
    from structsvm.online.bandits.by_name import compiled_names

    makers = labelled("structsvm.online.bandits")
    return ",".join(name for name in compiled_names() if "horizon" not in signature(makers[name]).parameters)


_LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "losses": lambda: _of("structsvm.oracles", "LOSSES"),
    "solvers": lambda: _of("structsvm.trainers.choosing_solver", "SOLVERS"),
    "bandits": lambda: _of("structsvm.online.bandits", "NAMES"),
    "compiled_bandits": lambda: [default_bandits()],
    "interleavers": lambda: labels("structsvm.online.interleaving", "name"),
    "logs": lambda: labels("structsvm.clicks"),
    "users": lambda: dict.fromkeys(
        name for name, *_ in _of("structsvm.online.users.cascade", "CASCADE_TABLES")
    ),
    "formats": lambda: dict.fromkeys(
        [*_of("structsvm.export", "FORMATS"), *_of("structsvm.export.trees", "TREE_FORMATS")]
    ),
    "engines": lambda: _of("structsvm.export.hybrid", "ENGINES"),
    "measures": lambda: import_module("structsvm.metrics").available_metrics(),
    "selections": lambda: _of("structsvm.cli.studies.diversity", "METHODS"),
}


def fill_lists(command: Any, arguments: Sequence[str]) -> None:
    """Fill in ``{losses}`` and similar fields in the help of the command in ``arguments``, and set its metavars."""
    for argument in arguments:
        command = getattr(command, "commands", {}).get(argument, command)
    # the command caches the help option, which is created with the names given here
    context = typer.Context(command, help_option_names=["-h", "--help"])
    for parameter in command.get_params(context):
        for attribute in ("help", "show_default"):
            text = getattr(parameter, attribute, None)
            if isinstance(text, str):
                setattr(parameter, attribute, re.sub("{([a-z_]+)}", _names, text))
        if parameter.metavar is None:
            parameter.metavar = _said(parameter)


def _names(match: re.Match[str]) -> str:
    return ", ".join(_LISTS[match[1]]()) if match[1] in _LISTS else match[0]


def _said(parameter: Any) -> str | None:
    """Return the metavar of a parameter in the help; None for typer's default, which is its type."""
    if getattr(parameter, "is_flag", False):
        return ""  # recent versions of typer print <bool>, as if a value were expected
    if parameter.param_type_name == "argument" or parameter.multiple:
        return str(parameter.name).upper().replace("_", "-")
    return None
