"""The index of the papers' tables, figures, algorithms and equations: ``RESULTS.md``, from ``papers.toml`` and results.

    python experiments/results_index.py          # write the page
    python experiments/results_index.py --check  # fail if the page is not up to date

Each script writes ``results/<script>/figures.json``: a row for every table or figure of its paper, with the lengths,
the verdict and its reason. A table or figure without a verdict is an error, and so is a verdict of more than 40 words;
the page of the script has the details.
"""

import argparse
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE / "RESULTS.md"
COLUMNS = ("table or figure", "verdict", "in brief", "length: ours, paper's", "computed by", "CPU")
NOTHING = "nothing to measure"
Lines = list[tuple[str, ...]]
WORDS = 40
"""Maximum number of words in a verdict."""


def records(results: Path) -> dict[str, dict[str, Any]]:
    """Return the verdicts of each script, by the name of the script."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(results.glob("*/figures.json"))}


def other_commands(results: Path) -> dict[str, tuple[str, float]]:
    """Return command and processor seconds of scripts that reproduce no table or figure, by the name of the script."""
    found = {}
    for path in sorted(results.glob("*/*.json")):
        script = path.parent.name
        if path.stem != script or (path.parent / "figures.json").exists():
            continue
        seconds = json.loads(path.read_text()).get("cpu_seconds")
        commands = [
            line for line in path.with_suffix(".md").read_text().splitlines() if line.startswith("`python ")
        ]
        if seconds is not None and commands:
            found[script] = commands[0].strip("`"), float(seconds)
    return found


def time_text(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def row(paper: dict[str, Any], figure: dict[str, Any], found: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """Return a row of the table; raise KeyError for a figure without a verdict, ValueError for too many words."""
    name = f"**{figure['name']}**: {figure['what']}"
    if "nothing" in figure:
        return name, NOTHING, figure["nothing"], "", "", ""
    script = figure.get("script", paper.get("script"))
    key = f"{paper['key']}: {figure['name']}"
    if key not in found.get(script, {"figures": {}})["figures"]:
        raise KeyError(f"{key}: expected a verdict of {script}.py in results/{script}/figures.json")
    said = found[script]["figures"][key]
    brief = in_brief(said)
    if not 0 < (n := len(brief.split())) <= WORDS:
        raise ValueError(
            f"{key}: expected a verdict of {script}.py with `brief` of {WORDS} words at most, got {n}"
        )
    quick = "quick form: " if said["quick form"] else ""
    length = f"{quick}{said['our length']}; {said['paper length']}"
    link = f"[{said['verdict']}](results/{script}/{script}.md)"
    only = "" if said["part"] == "all" else f" --only {said['part']}"
    return name, link, brief, length, f"`{script}.py{only}`", time_text(said["cpu seconds"])


def in_brief(said: dict[str, Any]) -> str:
    """Return ``brief`` of a verdict, or the whole verdict if it is short, or the first sentences of its reason."""
    whole = said.get("brief") or f"{said['ours']} {said['reason']}"
    if "brief" in said or len(whole.split()) <= WORDS:
        return whole
    kept, n = [], 0
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", said["reason"]):
        n += len(sentence.split())
        if n > WORDS - 1:
            break
        kept.append(sentence)
    return f"{' '.join(kept).rstrip(':')} …" if kept else ""


def place(item: dict[str, str]) -> str:
    """Return where an item is: objects of the package, a page, or the reason why there is no code."""
    if "at" in item:
        return ", ".join(f"`{name}`" for name in item["at"].split(", "))
    return f"[{Path(item['page']).stem}](../{item['page']})" if "page" in item else f"– ({item['nothing']})"


def table(columns: tuple[str, ...], rule: str, lines: Lines) -> list[str]:
    return [f"| {' | '.join(columns)} |", rule, *(f"| {' | '.join(map(cell, line))} |" for line in lines)]


def by_chapter(rows: Lines, items: Lines) -> Iterator[tuple[str, Lines, Lines]]:
    """Yield the rows and items of each chapter, so that each table fits on a screen.

    "Table 3.1", "(3.1)" and "Section 3.3" belong to chapter 3; a name without a chapter, such as "OP 4", belongs to the
    chapter of the item before it.
    """
    numbered = re.compile(r"(?:Table |Figure |Sections? |\()(\d)\.\d")
    chapters: dict[str, tuple[Lines, Lines]] = {}
    for kind, lines in enumerate((rows, items)):
        chapter = ""
        for line in lines:
            named = numbered.search(line[0])
            chapter = named[1] if named else chapter
            chapters.setdefault(chapter, ([], []))[kind].append(line)
    for chapter in sorted(chapters):
        yield f"### Chapter {chapter}", *chapters[chapter]


def page(
    papers: list[dict[str, Any]],
    found: dict[str, dict[str, Any]],
    others: dict[str, tuple[str, float]] | None = None,
) -> str:
    out = [
        "# Every table, figure, algorithm and equation of the papers",
        "",
        "Written by `python experiments/results_index.py` from `papers.toml` and `results/*/figures.json`. A verdict",
        "links to the page with the numbers and the verdict in full. `other data`: the paper's data are not public,",
        "and what stands in for them cannot decide. The script of a row is run as `python experiments/...`; with",
        "`--only` it computes and prints that part alone. CPU: processor time of the part, on a shared machine.",
    ]
    total: Counter[str] = Counter()
    faults = []
    for paper in papers:
        lines: Lines = []
        for figure in paper["rows"]:
            try:
                lines.append(row(paper, figure, found))
            except ValueError as fault:
                faults.append(str(fault))
        total.update(line[1].partition("]")[0].removeprefix("[") for line in lines)
        items: Lines = [(item["name"], item["what"], place(item)) for item in paper.get("items", ())]
        out += ["", f"## {paper['title']}"]
        parts = by_chapter(lines, items) if "chapters" in paper else [("", lines, items)]
        for heading, shown, listed in parts:
            out += ["", heading] if heading else []
            out += ["", *table(COLUMNS, "|---|---|---|---|---|---:|", shown)] if shown else []
            if listed:
                out += ["", *table(("in the text", "what it is", "here"), "|---|---|---|", listed)]
    if faults:
        raise ValueError("; ".join(faults))
    commands = {name: (said["command"], said["cpu seconds"]) for name, said in found.items()}
    out += ["", "## Commands", ""]
    for title, part in (("script", commands), ("script of no table or figure", others or {})):
        if part:
            rows = [(f"`{name}.py`", f"`{command}`", time_text(s)) for name, (command, s) in part.items()]
            out += [*table((title, "command of the results", "CPU"), "|---|---|---:|", rows), ""]
    hours = sum(seconds for part in (commands, others or {}) for _, seconds in part.values()) / 3600
    out += [f"Together {hours:.1f} hours of processor time."]
    counts = ", ".join(f"{name} {n}" for name, n in total.most_common())
    out[6:6] = ["", f"Of {total.total()} tables and figures: {counts}."]
    return "\n".join(out) + "\n"


def build() -> str:
    papers = tomllib.loads((HERE / "papers.toml").read_text())["papers"]
    return page(papers, records(HERE / "results"), other_commands(HERE / "results"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page would change")
    check = parser.parse_args().check
    try:
        text = build()
    except (KeyError, ValueError) as fault:
        print(fault.args[0], file=sys.stderr)
        return 1
    if check:
        stale = not PAGE.exists() or PAGE.read_text() != text
        if stale:
            print(f"{PAGE.name} is not up to date: run experiments/results_index.py", file=sys.stderr)
        return int(stale)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
