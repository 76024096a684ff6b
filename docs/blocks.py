"""The code blocks of a page of Markdown, run in their order in one folder: what the manual shows is what happens."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

RUN = ("python", "sh")
SHOWN = ("json", "text")
"""JSON is parsed; text is output, or what runs in a program that is not installed with the tests."""


class Block(NamedTuple):
    """A fenced block: its language, its lines, and the line of the page that it begins at."""

    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page; directives, whose language stands in braces, are none."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in re.finditer(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", text, flags=re.M | re.S):
        if not match[1].startswith("{"):
            found.append(Block(match[1], match[2], text.count("\n", 0, match.start()) + 2))
    return found


def run(page: Path, names: dict[str, object] | None = None) -> dict[str, object]:
    """Run the blocks of a page in the current folder; return the names that its Python defined.

    Raises
    ------
    ValueError
        For a block without a language, or in one that is neither run nor known as output.
    """
    from structsvm.cli import main

    # the globals of a module that can be imported, as in a script: classes that a page defines can then be pickled
    module = sys.modules["page_of_the_manual"] = types.ModuleType("page_of_the_manual")
    module.__dict__.update(names or {})
    try:
        _run_blocks(page, module.__dict__, main)
    finally:
        del sys.modules[module.__name__]
    return {name: value for name, value in module.__dict__.items() if not name.startswith("__")}


def _run_blocks(page: Path, names: dict[str, object], main: Callable[[list[str]], int]) -> None:
    for block in blocks(page):
        place = f"{page.name}:{block.line}"
        if block.language == "python":
            # blank lines in front, so that tracebacks name the line of the page
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
        elif block.language == "sh":
            _run_commands(block.code, main)
        elif block.language == "json":
            json.loads(block.code)
        elif block.language not in SHOWN:
            raise ValueError(
                f"{place}: expected {', '.join(RUN + SHOWN)} after the fence, got {block.language!r}"
            )


def _run_commands(code: str, main: object) -> None:
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["structsvm"] and not set("|<>*?$&;") & set(line):
            status = main(words[1:])  # type: ignore[operator]  # a process for each would take most of the time
            if status != 0:
                raise AssertionError(f"{line}: exit status {status}")
        elif words:
            command = line.replace("structsvm ", f"{sys.executable} -m structsvm ", 1)
            subprocess.run(command, shell=True, check=True)
