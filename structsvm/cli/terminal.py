"""Terminal output shared by the commands: messages, errors in one line, progress, and Ctrl-C."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer
import typer.core
from typer.models import OptionInfo

from structsvm import trainers
from structsvm.cli.groups import spelled_out
from structsvm.common.checks import BadInput
from structsvm.common.escaping import printable
from structsvm.common.records import plain
from structsvm.common.tables.roles import on_guess
from structsvm.common.text_tables import aligned
from structsvm.protocols import Progress

if TYPE_CHECKING:
    from structsvm.plots.pages import Column
    from structsvm.trainers.certificate import Fit


GATE = 3  # exit code of --fail-if-worse, --fail-if-undecided and live check
INTERRUPTED = 130  # 128 + SIGINT, as in shells
CLOSED = 141  # 128 + SIGPIPE


def note(text: str) -> None:
    """Write ``text`` as one line to stderr."""
    print(f"structsvm: {printable(' '.join(text.split()))}", file=sys.stderr)


def bar(*texts: str, counts: bool = False, data: bool = False) -> Any:
    """Return a progress bar on stderr, drawn only on a terminal: the first text, the bar, and then the other texts.

    Texts are templates of :mod:`rich.progress`. ``counts`` adds the number of completed items out of the total,
    ``data`` the number of bytes.
    """
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    figures = [progress.MofNCompleteColumn()] * counts + [progress.DownloadColumn()] * data
    first, *others = map(progress.TextColumn, texts)
    columns = (first, progress.BarColumn(), *figures, *others, progress.TimeElapsedColumn())
    return progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def working(text: str) -> Any:
    """Return a status line on stderr, drawn only on a terminal."""
    from rich.console import Console

    return Console(stderr=True).status(text)


def emit(
    lines: Iterable[str], record: object = None, as_json: bool = False, report: Path | None = None
) -> None:
    """Print a result: its lines and the name of its page or, with ``as_json``, its record in one line."""
    if as_json:
        lines = [json.dumps(plain(record), allow_nan=False)]
    elif report is not None:
        lines = [*lines, f"report: {report}"]
    for line in lines:
        typer.echo(printable(line))


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table as plain text."""
    return aligned([[c.name for c in columns], *rows], [c.numeric for c in columns])


def exit_if_worse(tests: Sequence[Any], margin: float | None) -> None:
    """Exit with ``GATE`` and a message unless the intervals of all differences are above minus the margin.

    If a method equals its baseline on all queries, there is no interval; it is not worse by any margin above 0.
    """
    if margin is None:
        return
    worse = [
        t
        for t in tests
        if (t.lower is None or t.lower <= -margin) and not (margin > 0 and t.wins == t.losses == 0)
    ]
    for t in worse:
        ends = "no interval, as all differences are equal" if t.lower is None else f"from {t.lower:+.4f}"
        note(
            f"{t.method} may be worse than {t.baseline} by more than {margin:g}: "
            f"{t.measure} {t.difference:+.4f}, {ends}"
            if margin
            else f"{t.method} is not shown to be better than {t.baseline}: {t.measure} {t.difference:+.4f}, {ends}"
        )
    if worse:
        raise typer.Exit(GATE)


_options: ContextVar[dict[str, str]] = ContextVar("options")
"""Options of the running command, keyed by arguments of the library."""


def warn(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning in one line, with arguments replaced by options; ``main`` sets it as ``warnings.showwarning``."""
    said = getattr(message, "fields", message)
    note(f"warning: {said.spelled(_options.get({})) if isinstance(said, BadInput) else message}")


def describe(error: Exception, *, converting: bool = False) -> str | None:
    """Return the line that describes an error in the user's input; None for an internal error.

    ``converting`` is True for the command ``convert``.
    """
    if hasattr(error, "format_message"):  # a usage error of typer
        context = getattr(error, "ctx", None)
        option = {"--objective": "--loss", "-C": "--C"}.get(getattr(error, "option_name", ""))
        if option and any(option in parameter.opts for parameter in error.ctx.command.params):  # type: ignore[attr-defined]
            error.possibilities = [option]  # type: ignore[attr-defined]
        help_ = f" (see: {context.command_path} --help)" if context else ""
        return f"{error.format_message() or 'expected a subcommand'}{help_}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, BadInput):  # raised by the callback of an option, before the command starts
        return error.spelled(_EVERYWHERE)
    if isinstance(error, MemoryError):
        remedy = "convert the data to a store (structsvm convert), which is mapped from disk instead of read"
        if converting:
            remedy = (
                "700 MB and 200 bytes per query suffice for all but --percentiles and the standard input; under ulimit "
                "set ARROW_DEFAULT_MEMORY_POOL=system, as Arrow reserves 1 GB more"
            )
        return f"not enough memory ({error}); {remedy}"
    if isinstance(error, (ValueError, TypeError, OSError, ImportError)):
        return str(error) or type(error).__name__
    return None


_EVERYWHERE = {
    "n_jobs": "--jobs",
    "max_expansion": "--max-expansion (before the command)",
    "sparse=True": "--matrix sparse (structsvm convert)",
    "dtype=float32": "--dtype float32 (structsvm convert)",
    "scale='minmax'": "--scale minmax (structsvm train)",
    "scale='zscore'": "--scale zscore (structsvm train)",
}
"""Options named in errors about library arguments: options of most commands, or of the command in parentheses."""


_ARGUMENTS = {
    "jobs": "n_jobs",
    "missing": "fill",
    "monotone": "monotone_constraints",
    "seed": "random_state",
    "no_keys": "keyless",
    "since": "between",
    "weights_for": "to",
    "zero_based": "one_based=False",
}
"""Library arguments whose options have a different name."""


def option_names(command: Callable[..., Any]) -> dict[str, str]:
    """Return the option of a command for each argument of the library that it sets."""
    options: dict[str, str] = {}
    for name, hint in command.__annotations__.items():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                declared = (info.default, *(info.param_decls or ()))  # typer keeps the first one as a default
                stated = [text for text in declared if isinstance(text, str) and text.startswith("--")]
                options[_ARGUMENTS.get(name, name)] = stated[0] if stated else f"--{name.replace('_', '-')}"
    # a command with --method takes the losses from it
    if "method" in options:
        options.setdefault("loss", "--method")
    elsewhere = {name: text for name, text in _EVERYWHERE.items() if name.partition("=")[0] not in options}
    return elsewhere | options


def stoppable(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command for typer; it ends silently if the reader of its output has closed the pipe.

    Errors about an argument of the library name the option that set it. Groups of options are expanded.
    """
    command = spelled_out(command)
    names = option_names(command)

    @functools.wraps(command)
    def run(**options: object) -> Any:
        _options.set(names)
        guesses: set[str] = set()

        def guess(guessed: BadInput) -> None:
            if (text := guessed.spelled(names)) not in guesses:
                guesses.add(text)
                note(text)

        on_guess.set(guess)
        try:
            return command(**options)
        except BadInput as error:
            raise ValueError(error.spelled(names)) from error
        except BrokenPipeError:  # as with "| head": the reader has closed the pipe
            # stdout is flushed once more at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(CLOSED) from None

    # paragraphs of one line each, which the help wraps to the width of the terminal
    paragraphs = re.split(r"\n\s*\n", (command.__doc__ or "").strip())
    run.__doc__ = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    return run


def group(text: str, *commands: Callable[..., Any], **named: Callable[..., Any]) -> typer.Typer:
    """Return a command group with the help ``text``: one subcommand per function, named by its keyword if given."""
    app = typer.Typer(help=text, no_args_is_help=True)
    for name, command in ({command.__name__.strip("_"): command for command in commands} | named).items():
        app.command(name)(stoppable(command))
    return app


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM, which ``timeout``, Docker and Slurm send, end a command like Ctrl-C: temporary files are removed."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt("by SIGTERM")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Interruptible(typer.core.TyperGroup):
    """A command group that reports Ctrl-C in one line, without a traceback; no file is left half-written."""

    def invoke(self, ctx: Any) -> Any:
        """Read the options of a command, which may import large libraries, and run it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            note(f"interrupted{f' {error}' if str(error) else ''}; nothing was written")
            raise typer.Exit(INTERRUPTED) from None


class GapProgress:
    """A training callback that draws a bar; at the first Ctrl-C training stops with the best model so far.

    The second Ctrl-C is an ordinary ``KeyboardInterrupt``, and so is the first while trees are grown (``growing``),
    before a model exists. The bar is drawn on a terminal only, on stderr, and runs from gap 1 to ``tol`` on a log
    scale.
    """

    def __init__(self, tol: float, saved_as: Path, *, growing: bool = False) -> None:
        self.interrupted = False
        self._growing = growing
        self._tol = tol
        self._saved_as = saved_as
        self._bar = bar("training", "{task.fields[state]}")
        self._task = self._bar.add_task("training", total=1.0, state="first pass")

    def __enter__(self) -> GapProgress:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            # ``conclude`` reports this warning for the command line
            warnings.simplefilter("ignore", trainers.ConvergenceWarning)
            stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, self._stop))
            stack.enter_context(self._bar)
            self._end = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.close()

    def __call__(self, progress: Progress) -> bool:
        self._growing = False
        gap = progress.gap
        if 0 < gap < 1 and self._tol < 1:
            self._bar.update(self._task, completed=min(1.0, math.log(gap) / math.log(self._tol)))
        self._bar.update(self._task, state=f"gap {gap:.1e} (to {self._tol:g}), pass {progress.n_passes}")
        return self.interrupted and math.isfinite(progress.primal)

    def check(self, fit: Fit) -> None:
        """Raise ``KeyboardInterrupt`` if Ctrl-C arrived before the fit improved on zero weights."""
        if self.interrupted and not fit.converged and not fit.w.any():
            raise KeyboardInterrupt("before there was a model better than zero weights")

    def conclude(self, fit: Fit, remedy: str) -> None:
        """Report training that stopped before it reached the requested gap; exit if Ctrl-C stopped it."""
        if fit.converged:
            return
        passes = f"after {fit.n_passes} passes"
        if self.interrupted:
            note(f"interrupted: saved the best model so far, gap {fit.gap:.1e} {passes}, as {self._saved_as}")
            raise typer.Exit(INTERRUPTED)
        note(f"warning: the gap is {fit.gap:.1e}, not {self._tol:g}, {passes}; {remedy}")

    def grown(self, n: int, n_trees: int) -> None:
        """Show how many trees have grown."""
        self._bar.update(self._task, completed=n / n_trees, state=f"tree {n} of {n_trees}")

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._growing:
            raise KeyboardInterrupt("before the trees were grown, so there is no model yet")
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        # os.write, as a handler may interrupt a print
        text = f"\nstructsvm: stopping after this pass, to save {self._saved_as}; press Ctrl-C again to give up\n"
        os.write(2, text.encode())
