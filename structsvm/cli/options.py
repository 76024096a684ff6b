"""Options that several commands share, with one spelling and one check each.

A command states its own help of an option as ``Annotated[Seed, "Seed of the shuffle."]``.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli.terminal import GATE
from structsvm.common.checks import BadInput
from structsvm.common.lazy import labelled, labels
from structsvm.common.machine import count_threads


def check_seed(seed: int) -> int:
    """Return the seed; raise unless all generators accept it, those of LightGBM among them."""
    if not 0 <= seed < 2**31:
        raise BadInput(f"--seed {seed}", f"expected an integer from 0 to {2**31 - 1}")
    return seed


def check_jobs(jobs: int) -> int:
    """Return the requested number of threads or processes; raise for 0."""
    count_threads(jobs)
    return jobs


Jobs = Annotated[
    int,
    typer.Option(callback=check_jobs, help="Threads; -1 is one per processor. Results do not depend on it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
Report = Annotated[Path | None, "Also write an HTML page."]
Output = Annotated[Path, typer.Option("--output", "-o")]
MaybeOutput = Annotated[Path | None, typer.Option("--output", "-o")]
Seed = Annotated[int, typer.Option(callback=check_seed)]
Relevance = Annotated[float, "Lowest label of a relevant document."]
Convention = Annotated[str, "Rules of the measures: trec (trec_eval 9), letor4, letor4_script or burges."]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--columns", help="Names of the table's columns by role: ROLE=NAME, separated by commas or repeated."
    ),
]
PerQuery = Annotated[bool, "With --json: also print the value of each query."]
Tol = Annotated[float, "Relative duality gap to reach."]
FailIfWorse = Annotated[
    float | None,
    typer.Option(
        metavar="MARGIN",
        min=0,
        help=f"Exit with {GATE} unless the 95% interval of each difference from the baseline is above -MARGIN, in all "
        "measures. 0 requires evidence of an improvement. There is no interval if all differences are equal, for "
        "example of a single query; rankings that agree on all queries pass any MARGIN above 0.",
    ),
]

GRID = "The grid: low:high:number, evenly spaced on a log scale, or a,b,c."


def parse_grid(text: str) -> list[float]:
    """Return the values of a grid such as ``1e-3:1e3:13`` or ``0.1,1,10``."""
    error = BadInput("--C", f"expected low:high:number or a,b,c with numbers > 0, got {text!r}")
    try:
        if ":" in text:
            low, high, number = text.split(":")
            n = int(number)
            ends = float(low), float(high)
            if n < 2 or not 0 < ends[0] < ends[1] < float("inf"):
                raise error
            ratio = ends[1] / ends[0]
            # rounded, so that 0.1 is not 0.10000000000000002 in tables and keys
            values = [float(f"{ends[0] * ratio ** (i / (n - 1)):.12g}") for i in range(n)]
        else:
            values = [float(piece) for piece in text.split(",")]
    except (ValueError, OverflowError):
        raise error from None
    if not all(0 < value < float("inf") for value in values):
        raise error
    return values


def named_columns(texts: list[str] | None) -> dict[str, str]:
    """Return the column name of each role, from texts such as ``a=left,b=right``."""
    pairs = [each.strip().partition("=") for text in texts or () for each in text.split(",")]
    for role, equals, name in pairs:
        if not (role and name):
            raise BadInput(f"--columns {role}{equals}{name}", "expected ROLE=NAME, such as query=q")
    return {role: name for role, _, name in pairs}


def known(choices: Callable[[], Collection[str]]) -> Callable[..., Any]:
    """Return an option callback that raises for invalid values before any data are read."""

    def check(option: typer.CallbackParam, value: object) -> Any:
        names = choices()
        if value is not None and value not in names:
            raise BadInput(f"{option.opts[0]} {value}", f"expected one of {', '.join(names)}")
        return value

    return check


Scale = Annotated[
    str,
    typer.Option(
        callback=known(lambda: import_module("structsvm.estimators.linear").SCALES),
        help="Scaling of the features, kept in the model: none; minmax or zscore by the training data; query-minmax, "
        "query-zscore or query-percentile within each query.",
    ),
]

Selection = Annotated[
    str,
    typer.Option(
        callback=known(lambda: import_module("structsvm.estimators.choosing_C").SELECTIONS),
        help="max: the C of the best mean; one_se: the smallest C within one standard error of it.",
    ),
]

Monotone = Annotated[
    list[str] | None,
    "Direction in which the score may move with a feature: the number or name of the feature and +1 or -1, as in 3:+1; "
    "repeat for more.",
]
Positive = Annotated[bool, "Require all weights to be at least 0."]


def read_signs(texts: list[str] | None) -> dict[str, int]:
    """Return the sign of each feature that ``--monotone`` names."""
    signs: dict[str, int] = {}
    for text in texts or ():
        feature, _, sign = text.rpartition(":")
        if not feature or sign not in ("+1", "1", "-1"):
            raise BadInput(f"--monotone {text}", "expected a feature and +1 or -1, as in 3:+1")
        if re.search(r":[+-]?1,", feature):
            raise BadInput(f"--monotone {text}", "expected one feature", "repeat --monotone for others")
        if feature in signs:
            raise BadInput(f"--monotone {text}", f"the sign of feature {feature} is given twice")
        signs[feature] = int(sign)
    return signs


def _of(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


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
    for parameter in command.get_params(typer.Context(command, help_option_names=["-h", "--help"])):
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
