"""The gallery: a page for every script of ``examples``, with its text and code and, if it is run, output and figures.

A script begins with a docstring, whose first line is the title; the rest is Markdown. A comment that begins with
``# %%`` starts another part of the page, and the comment lines below it are Markdown, too. Figures that are open when
a part ends belong to that part; what it printed is shown under its code.
"""

import ast
import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple


class Part(NamedTuple):
    """Text in Markdown, code, and the first line of the code in the script."""

    text: str
    code: str
    line: int


class Example(NamedTuple):
    """The title and the parts of a script."""

    title: str
    parts: list[Part]


def parse(script: Path) -> Example:
    """Split a script into its parts.

    Raises
    ------
    ValueError
        If it has no docstring.
    """
    source = script.read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(source))
    if not doc:
        raise ValueError(f"{script.name}: expected a docstring with the title in its first line")
    title, _, lead = doc.partition("\n")
    after = ast.parse(source).body[0].end_lineno or 0
    parts, text, code, line = [], lead.strip(), [], after + 1
    lines = source.splitlines()
    i = after
    while i < len(lines):
        if lines[i].startswith("# %%"):
            parts.append(Part(text, "\n".join(code).strip("\n"), line))
            words = [lines[i].removeprefix("# %%").strip()]
            while i + 1 < len(lines) and lines[i + 1].startswith("#"):
                i += 1
                words.append(lines[i].removeprefix("#").strip())
            text, code, line = "\n".join(words).strip(), [], i + 2
        else:
            code.append(lines[i])
        i += 1
    parts.append(Part(text, "\n".join(code).strip("\n"), line))
    return Example(title, [part for part in parts if part.text or part.code])


def run(script: Path, shown: Callable[[int, int, Any], None]) -> list[str]:
    """Run a script part by part; return what each part printed.

    Parameters
    ----------
    script : Path
    shown : callable
        Called with the number of the part, the number of the figure in it, and the figure.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    source_lines = script.read_text(encoding="utf-8").splitlines()
    printed = []
    pyplot.close("all")
    with matplotlib.rc_context({"figure.figsize": (6.4, 3.8), "svg.hashsalt": script.stem, "font.size": 10}):
        for number, part in enumerate(parse(script).parts):
            out = io.StringIO()
            first = next(
                (k for k, row in enumerate(source_lines) if row and k >= part.line - 1), part.line - 1
            )
            with redirect_stdout(out):
                exec(compile("\n" * first + part.code, str(script), "exec"), names)
            for k, figure in enumerate(map(pyplot.figure, pyplot.get_fignums())):
                shown(number, k, figure)
            pyplot.close("all")
            printed.append(out.getvalue())
    return printed


def write(scripts: Path, pages: Path, *, execute: bool) -> None:
    """Write a page for each script and a page that lists them; with ``execute``, run the scripts for their output."""
    pages.mkdir(exist_ok=True)
    cards = []
    for script in sorted(scripts.glob("*.py")):
        example = parse(script)
        figures: dict[int, list[str]] = {}

        def save(part: int, k: int, figure: Any, script: Path = script, figures: Any = figures) -> None:
            name = f"{script.stem}-{part}-{k}.svg"
            figure.savefig(pages / name, metadata={"Date": None})
            figures.setdefault(part, []).append(name)

        printed = run(script, save) if execute else [""] * len(example.parts)
        lines = [f"# {example.title}", ""]
        for number, part in enumerate(example.parts):
            lines += [part.text, ""]
            if part.code:
                lines += ["```python", part.code, "```", ""]
            if printed[number]:
                lines += ["```text", printed[number].rstrip(), "```", ""]
            for name in figures.get(number, []):
                lines += [
                    f"```{{image}} {name}",
                    f":alt: figure of {example.title}",
                    ":class: figure",
                    "```",
                    "",
                ]
        (pages / f"{script.stem}.md").write_text("\n".join(lines), encoding="utf-8")
        first = next(iter(figures.values()))[0] if figures else None
        lead = re.split(r"(?<=[.:])\s", example.parts[0].text, maxsplit=1)[0].replace("\n", " ")
        cards.append((script.stem, example.title, first, lead))
    _write_index(pages, cards)


def _write_index(pages: Path, cards: list[tuple[str, str, str | None, str]]) -> None:
    lines = [
        "# Gallery",
        "",
        "Small examples that run in a few seconds each, on data that they generate or that is bundled. The scripts are "
        "in `docs/examples`.",
        "",
    ]
    for stem, title, picture, lead in cards:
        lines += [f"## [{title}]({stem}.md)", "", lead, ""]
        if picture:
            image = [
                f"```{{image}} {picture}",
                f":alt: {title}",
                f":target: {stem}.html",
                ":class: thumbnail",
                "```",
            ]
            lines += [*image, ""]
    lines += ["```{toctree}", ":hidden:", ":maxdepth: 1", *(stem for stem, *_ in cards), "```", ""]
    (pages / "index.md").write_text("\n".join(lines), encoding="utf-8")
