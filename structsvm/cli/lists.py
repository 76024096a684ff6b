"""What is filled into a help text when it is requested: lists of names of the package, and names of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any


def _losses() -> Sequence[str]:
    from structsvm.oracles import LOSSES

    return LOSSES


def _bandits() -> Sequence[str]:
    from structsvm.online.bandits import NAMES

    return list(NAMES)


def default_bandits() -> str:
    """Return the bandits that have a compiled form and need no horizon, separated by commas."""
    from inspect import signature

    from structsvm.common.lazy import labelled
    from structsvm.online.bandits.by_name import compiled_names

    makers = labelled("structsvm.online.bandits")
    return ",".join(name for name in compiled_names() if "horizon" not in signature(makers[name]).parameters)


def _interleavers() -> Sequence[str]:
    from structsvm.common.lazy import labels

    return list(labels("structsvm.online.interleaving", "name"))


def _users() -> Sequence[str]:
    from structsvm.online.users.cascade import CASCADE_TABLES

    return list(dict.fromkeys(name for name, _ in CASCADE_TABLES))


def _formats() -> Sequence[str]:
    from structsvm.export import FORMATS
    from structsvm.export.trees import TREE_FORMATS

    return list(FORMATS | TREE_FORMATS)


def _measures() -> Sequence[str]:
    from structsvm.metrics import available_metrics

    return list(available_metrics())


def _selections() -> Sequence[str]:
    from structsvm.studies.diversity import METHODS

    return list(METHODS)


_LISTS: dict[str, Callable[[], Sequence[str]]] = {
    "losses": _losses,
    "bandits": _bandits,
    "compiled_bandits": lambda: [default_bandits()],
    "interleavers": _interleavers,
    "users": _users,
    "formats": _formats,
    "measures": _measures,
    "selections": _selections,
}


def fill_lists(command: Any, arguments: Sequence[str]) -> None:
    """Fill in ``{losses}`` and the like in the help texts of the command of ``arguments``, and name values."""
    for argument in arguments:
        command = getattr(command, "commands", {}).get(argument, command)
    for parameter in command.params:
        for place in ("help", "show_default"):
            text = getattr(parameter, place, None)
            if isinstance(text, str):
                setattr(parameter, place, re.sub("{([a-z_]+)}", _names, text))
        if parameter.metavar is None:
            parameter.metavar = _said(parameter)


def _names(match: re.Match[str]) -> str:
    return ", ".join(_LISTS[match[1]]()) if match[1] in _LISTS else match[0]


def _said(parameter: Any) -> str | None:
    """Return how the help names a value; None leaves it to typer, which names its type."""
    if getattr(parameter, "is_flag", False):
        return ""  # recent versions of typer print <bool>, as if a value were expected
    if parameter.param_type_name == "argument" or parameter.multiple:
        return str(parameter.name).upper().replace("_", "-")
    return None
