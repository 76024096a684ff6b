"""The command reference of the manual, ``commands.md``, from the commands themselves: ``python docs/commands.py``."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from structsvm.cli import app
from structsvm.cli.options import fill_lists

PAGE = Path(__file__).with_name("commands.md")
WRITTEN_BY = "<!-- Written by docs/commands.py from the commands; edit the help of the commands instead. -->"


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words of each command without subcommands, and the command."""
    if not hasattr(command, "commands"):
        yield words, command
    for name, each in getattr(command, "commands", {}).items():
        yield from leaves(each, (*words, name))


def parameters(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
    """Yield names with metavar, and help with default, of each parameter, and whether it is an argument."""
    fill_lists(command, ())
    context = typer.Context(command, info_name=" ".join(words), help_option_names=["-h", "--help"])
    for one in command.get_params(context):
        record = one.get_help_record(context)
        if record is None or "completion" in one.name or (one.name == "help" and len(words) > 1):
            continue
        # versions of typer write <int> or INTEGER
        names = re.sub(r"<(\w+)>", lambda kind: kind[1].upper(), record[0].strip()).replace("INTEGER", "INT")
        yield names.replace("STR", "TEXT"), record[1], one.param_type_name == "argument"


def _text(text: str) -> str:
    """Return text whose characters have no meaning in Markdown."""
    return re.sub(r"([*$<\[\]\\`]|(?<!\w)_)", r"\\\1", " ".join(text.split()))


def _section(words: tuple[str, ...], command: Any) -> list[str]:
    found = list(parameters(command, words))
    usage = " ".join([*words, "[OPTIONS]", *(names for names, _, argument in found if argument)])
    lines = [f"## {' '.join(words)}", "", f"`{usage}`", ""]
    for paragraph in (command.help or "").split("\n\n"):
        lines += [_text(paragraph), ""]
    lines += [f"* `{names}`: {_text(text)}" for names, text, _ in found]
    return [*lines, ""]


def page() -> str:
    """Return the page."""
    command = typer.main.get_command(app)
    found = [(("structsvm", *words), one) for words, one in leaves(command)]
    lines = [
        WRITTEN_BY,
        "",
        "# Command reference",
        "",
        "All commands and their options, as `--help` shows them. Options of `structsvm` itself precede the command:",
        "",
        *(f"* `{names}`: {_text(text)}" for names, text, _ in parameters(command, ("structsvm",))),
        "",
        *(f"* [{' '.join(words)}](#{'-'.join(words)})" for words, _ in found),
        "",
    ]
    for words, one in found:
        lines += _section(words, one)
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.name}\n")
