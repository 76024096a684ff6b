"""The index of all tables and figures of the papers: writes ``RESULTS.md`` from ``papers.toml`` and the results.

    python experiments/results_index.py          # write the page
    python experiments/results_index.py --check  # fail if the page is not up to date

Each script writes ``results/<script>/figures.json``: a row for every table or figure of its paper, with the lengths,
the verdict and its reason. A table or figure that no script speaks of is an error.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE / "RESULTS.md"
COLUMNS = ("table or figure", "verdict", "length: ours, paper's", "measured, and why it differs", "CPU")
NOTHING = "nothing to measure"


def records(results: Path) -> dict[str, dict[str, Any]]:
    """What each script wrote, by the name of the script."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(results.glob("*/figures.json"))}


def other_commands(results: Path) -> dict[str, tuple[str, float]]:
    """Command and processor seconds of the scripts that reproduce no table or figure, by the name of the script."""
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
    """A line of the table; KeyError names a figure that no script speaks of."""
    name = f"**{figure['name']}**: {figure['what']}"
    if "nothing" in figure:
        return name, NOTHING, "", figure["nothing"], ""
    script = figure.get("script", paper.get("script"))
    key = f"{paper['key']}: {figure['name']}"
    if key not in found.get(script, {"figures": {}})["figures"]:
        raise KeyError(f"{key}: expected a verdict of {script}.py in results/{script}/figures.json")
    said = found[script]["figures"][key]
    quick = "quick form: " if said["quick form"] else ""
    length = f"{quick}{said['our length']}; {said['paper length']}"
    link = f"[{said['verdict']}](results/{script}/{script}.md)"
    return name, link, length, f"{said['ours']} {said['reason']}", time_text(said["cpu seconds"])


def page(
    papers: list[dict[str, Any]],
    found: dict[str, dict[str, Any]],
    others: dict[str, tuple[str, float]] | None = None,
) -> str:
    out = [
        "# Every table and figure of the papers",
        "",
        "Written by `python experiments/results_index.py` from `papers.toml` and `results/*/figures.json`. A verdict",
        "links to the page with the numbers. `other data`: the paper's data are not public, and what stands in for",
        "them cannot decide. CPU: processor time of the part that computed the row, on a shared machine.",
    ]
    total: Counter[str] = Counter()
    for paper in papers:
        lines = [row(paper, figure, found) for figure in paper["rows"]]
        total.update(line[1].partition("]")[0].removeprefix("[") for line in lines)
        out += ["", f"## {paper['title']}", "", f"| {' | '.join(COLUMNS)} |", "|---|---|---|---|---:|"]
        out += [f"| {' | '.join(map(cell, line))} |" for line in lines]
    commands = {name: (said["command"], said["cpu seconds"]) for name, said in found.items()}
    out += ["", "## Commands", ""]
    for title, part in (("script", commands), ("script of no table or figure", others or {})):
        if part:
            out += [f"| {title} | command of the results | CPU |", "|---|---|---:|"]
            out += [
                f"| `{name}.py` | `{command}` | {time_text(seconds)} |"
                for name, (command, seconds) in part.items()
            ]
            out += [""]
    hours = sum(seconds for part in (commands, others or {}) for _, seconds in part.values()) / 3600
    out += [f"Together {hours:.1f} hours of processor time."]
    counts = ", ".join(f"{name} {n}" for name, n in total.most_common())
    out[5:5] = ["", f"Of {total.total()} tables and figures: {counts}."]
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
    except KeyError as missing:
        print(missing.args[0], file=sys.stderr)
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
