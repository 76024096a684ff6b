"""What commands share on the terminal: messages, errors in one line, progress, and Ctrl-C."""

from __future__ import annotations

import functools
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import typer

from structsvm.protocols import Progress

__all__ = ["INTERRUPTED", "GapProgress", "describe", "note", "stoppable", "warn"]

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def note(text: str) -> None:
    """One line on stderr, whatever is in ``text``."""
    print(f"structsvm: {' '.join(text.split())}", file=sys.stderr)


def warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: Any = None,
) -> None:
    """Stands in for ``warnings.showwarning``."""
    note(f"warning: {message}")


def describe(error: Exception) -> str | None:
    """The line that tells a user what is wrong with their input; None for what is a defect of ours."""
    if hasattr(error, "format_message"):  # the usage errors of typer
        context = getattr(error, "ctx", None)
        help_ = f" (see: {context.command_path} --help)" if context else ""
        return f"{error.format_message() or 'expected a subcommand'}{help_}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"not enough memory ({error}); convert the data to a store first: structsvm convert"
    if isinstance(error, (ValueError, TypeError, OSError, ImportError)):
        return _in_options(str(error)) or type(error).__name__
    return None


def _in_options(text: str) -> str:
    """Remedies of the library name arguments of Python; here they are options, or for Python only."""
    for argument, option in (
        ("state a value for missing ones as fill=", "state a value for missing ones with --fill"),
        ("state the rows of each query as query_sizes=", "read it in Python with query_sizes="),
        ("one_based=False is for files that count from 0", "number them from 1"),
        ("Check the labels, relevance= and qid", "check the labels, --relevance and qid"),
    ):
        text = text.replace(argument, option)
    return text


def stoppable(command: Callable[..., Any]) -> Callable[..., Any]:
    """Ctrl-C ends the command with a line instead of a traceback; files are written whole or not at all."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            note("interrupted; nothing was written")
            raise typer.Exit(INTERRUPTED) from None

    return run


class GapProgress:
    """A training callback that draws a bar and turns the first Ctrl-C into a request to stop with what there is.

    The second Ctrl-C is an ordinary ``KeyboardInterrupt``. The bar is drawn on a terminal only, on stderr, and runs
    from gap 1 to ``tol`` on a log scale.

    Attributes
    ----------
    interrupted : bool
    """

    def __init__(self, tol: float, saved_as: Path) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        self.interrupted = False
        self._tol = tol
        self._saved_as = saved_as
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("training"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=1.0, state="first pass")

    def __enter__(self) -> GapProgress:
        self._earlier = signal.signal(signal.SIGINT, self._stop)
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        signal.signal(signal.SIGINT, self._earlier)

    def __call__(self, progress: Progress) -> bool:
        gap = progress.gap
        if 0 < gap < 1 and self._tol < 1:
            self._bar.update(self._task, completed=min(1.0, math.log(gap) / math.log(self._tol)))
        self._bar.update(self._task, state=f"gap {gap:.1e} (to {self._tol:g}), pass {progress.n_passes}")
        return self.interrupted and math.isfinite(progress.primal)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        # not print: a handler may run in the middle of one
        text = f"\nstructsvm: stopping after this pass, to save {self._saved_as}; Ctrl-C again gives up\n"
        os.write(2, text.encode())
