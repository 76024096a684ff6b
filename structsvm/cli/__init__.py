"""The command ``structsvm``: each subcommand is one file in this folder and one line in ``COMMANDS`` or ``GROUPS``.

Packages such as ``structsvm.readers`` load their modules on first use; modules and libraries are imported inside the
commands, so that ``structsvm --help`` is fast. Exit codes: 0 done, 2 bad input or usage (one line on stderr), 3 a
condition of ``--fail-if-...`` holds or ``live check`` found differences, 130 interrupted, 141 the reader of the output
has closed the pipe, 1 an internal error (with its traceback).
"""

import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from structsvm._version import __version__
from structsvm.cli.options import fill_lists
from structsvm.cli.terminal import CLOSED, Interruptible, describe, note, stoppable, warn
from structsvm.common.checks import BadInput
from structsvm.common.compiling import telling

__all__ = ["main"]

COMMANDS = {
    "train": "train",
    "predict": "predict",
    "evaluate": "evaluate",
    "convert": "convert",
    "compare": "compare",
    "search": "search",
    "export": "export",
    "show": "show",
    "explain": "explain",
    "fuse": "fuse",
    "demo": "demo",
    "warm-up": "warm_up",
}
"""Commands in the order of the help: modules of this folder, each with a function of the same name."""

GROUPS = {
    "arena": "arena",
    "bandit": "bandit",
    "clicks": "clicks",
    "datasets": "datasets",
    "diversify": "diversity",
    "interleave": "interleave",
    "live": "live",
}
"""Commands with subcommands: modules of this folder whose ``app`` contains them."""

app = typer.Typer(
    name="structsvm",
    cls=Interruptible,
    help="Learn to rank with structural SVMs: exact, with a certificate.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _module in COMMANDS.items():
    app.command(_name)(stoppable(getattr(import_module(f"structsvm.cli.{_module}"), _name.replace("-", "_"))))
for _name, _module in GROUPS.items():
    app.add_typer(import_module(f"structsvm.cli.{_module}").app, name=_name)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"structsvm {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="STRUCTSVM_DEBUG", help="Show the traceback of an error.")
    ] = False,
    max_expansion: Annotated[
        float | None,
        typer.Option(
            help="Largest number of bytes that one byte of a compressed file may expand to, after the first "
            "64 MB; inf removes the limit. (default: 200)"
        ),
    ] = None,
) -> None:
    """``debug`` is looked up by :func:`main`, which also handles errors that occur earlier."""
    if max_expansion is not None:
        from structsvm.common.files import allowing_expansion

        if not max_expansion >= 1:
            raise BadInput(
                f"--max-expansion {max_expansion:g}", "expected a number >= 1, or inf for no limit"
            )
        context.with_resource(allowing_expansion(max_expansion))


@cache
def _tree() -> Any:
    """Return the commands of ``app``, which take some 60 ms to build."""
    return typer.main.get_command(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (``sys.argv`` by default) and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    with warnings.catch_warnings(), telling(note):
        warnings.showwarning = warn
        try:
            command = _tree()
            if not {"-h", "--help"}.isdisjoint(arguments):
                fill_lists(command, arguments)
            return int(
                command.main(arguments or ["--help"], prog_name="structsvm", standalone_mode=False) or 0
            )
        except SystemExit as end:
            if not isinstance(end.__context__, BrokenPipeError):
                raise
            return CLOSED  # rich exits when the reader of the help has closed the pipe
        except Exception as error:
            message = describe(error, converting="convert" in arguments)
            if message is None or "--debug" in arguments or os.environ.get("STRUCTSVM_DEBUG"):
                raise
            note(f"error: {message}")
            return 2
