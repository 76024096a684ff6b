"""Run the code blocks of a Markdown page in order, in one folder, so that the manual shows real results.

The tests run the blocks, and so does the build of the manual, which shows the output of each block (``with_output``).
"""

import io
import json
import re
import shlex
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
RUN = ("python", "sh")
SHOWN = ("json", "py", "text")
"""Languages that are not run: JSON is parsed; text is output, or commands of programs that tests do not install; py is
Python that needs packages which tests do not install or replace by stubs."""


class Block(NamedTuple):
    """A fenced block: its language and lines, its first line in the page, and the offset of its end in the text."""

    language: str
    code: str
    line: int
    end: int


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, except directives, whose language is in braces."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in re.finditer(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", text, flags=re.M | re.S):
        if not match[1].startswith("{"):
            found.append(Block(match[1], match[2], text.count("\n", 0, match.start()) + 2, match.end()))
    return found


def run(
    page: Path, names: dict[str, object] | None = None, printed: Callable[[Block, str], None] | None = None
) -> dict[str, object]:
    """Run the blocks of a page in the current folder; return the names that its Python defined.

    Parameters
    ----------
    page : Path
    names : dict, optional
        Names that are defined for the Python blocks of the page.
    printed : callable, optional
        Called with each block that was run and its standard output, which is then not shown.

    Raises
    ------
    ValueError
        For a block without a language, or with a language that is neither run nor known as output.
    """
    from structsvm.cli import main

    # the globals of a module that can be imported, as in a script: classes that a page defines can then be pickled
    module = sys.modules["page_of_the_manual"] = types.ModuleType("page_of_the_manual")
    module.__dict__.update(names or {})
    try:
        _run_blocks(page, module.__dict__, main, printed)
    finally:
        del sys.modules[module.__name__]
    return {name: value for name, value in module.__dict__.items() if not name.startswith("__")}


def with_output(page: Path, figures: Path | None = None) -> str:
    """Return the text of a page with the output of each block under it; blocks run in a temporary folder.

    Open figures of a block are saved in the folder ``figures``, which is the folder of the manual's configuration or
    below it, and shown under the block.
    """
    from matplotlib import pyplot, rc_context

    pyplot.switch_backend("Agg")
    text, outputs = page.read_text(encoding="utf-8"), []

    def printed(block: Block, said: str) -> None:
        below = f"```{{code-block}} text\n:class: output\n\n{said}\n```" if (said := said.strip("\n")) else ""
        for number in pyplot.get_fignums() if figures is not None else ():
            file = figures / f"{page.stem}-{block.line}-{number}.svg"
            pyplot.figure(number).savefig(file, metadata={"Date": None}, bbox_inches="tight")
            below += f"\n\n```{{image}} /{file.relative_to(HERE)}\n:alt: figure drawn by the code above\n```"
        pyplot.close("all")
        outputs.append((block.end, below.strip("\n")))

    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
    look = {"figure.figsize": (6.4, 3.2), "font.size": 10, "svg.hashsalt": page.stem}
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings(), rc_context(look):
        warnings.simplefilter("ignore")  # warnings that a page shows are printed by its code
        with redirect_stderr(io.StringIO()):
            run(page, printed=printed)
    for end, below in reversed(outputs):
        if below:
            text = f"{text[:end]}\n\n{below}{text[end:]}"
    return text


def _run_blocks(
    page: Path,
    names: dict[str, object],
    main: Callable[[list[str]], int],
    printed: Callable[[Block, str], None] | None,
) -> None:
    for block in blocks(page):
        place = f"{page.name}:{block.line}"
        said = io.StringIO()
        with redirect_stdout(said if printed else sys.stdout):
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
        if printed and block.language in RUN:
            printed(block, said.getvalue())


def _run_commands(code: str, main: Any) -> None:
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["structsvm"] and not set("|<>?$&;'") & set(line):
            # starting a process for each takes longer
            status = main(
                [name for word in words[1:] for name in sorted(map(str, Path().glob(word))) or [word]]
            )
            if status != 0:
                raise AssertionError(f"{line}: exit status {status}")
        elif words:
            command = line.replace("structsvm ", f"{sys.executable} -m structsvm ", 1)
            shell = ["bash", "-o", "pipefail", "-c", command]  # a command that fails in a pipe fails the line
            done = subprocess.run(shell, check=True, stdout=subprocess.PIPE, text=True)
            print(done.stdout, end="")
