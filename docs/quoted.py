"""Figures of experiments in pages of the manual, compared with the results and renewed from them.

Pages show the figures themselves. A comment, invisible to readers, follows the paragraph, list or table and lists the
source of each figure in order, one or several per line::

    <!-- figures
    trees; Means; forest-300 | forest-1500; tree; MAP
    diversity_newspaper; as they come, AMBIENT; MMR(); loss | p as p
    -->

A source is the script; its table, by the beginning of its name; the row, by its first cells; the column. ``|``
separates alternatives, of which the last change first. After ``as`` a form may follow: ``.2`` for two decimals [.3],
``,`` for whole numbers, ``p`` for a p-value, ``min`` or ``max`` of the rows that begin so, and ``2`` for the second
number of a cell.

``python docs/quoted.py`` lists the figures that differ from the results, ``python docs/quoted.py --write`` renews them.
"""

import argparse
import itertools
import json
import math
import re
import sys
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parent / "experiments" / "results"
SOURCES = re.compile(r"<!-- figures\n(.*?)-->", re.DOTALL)
SHOWN = re.compile(r"(?<![\w.,@])-?(?:\d{1,3}(?:,\d{3})+|\d*\.\d+|\d+)(?:e\N{NON-BREAKING HYPHEN}\d+)?(?!\w)")
NUMBER = re.compile(r"(?:(?<![\d.])[+-])?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def pages() -> list[Path]:
    """Return the pages that show figures of experiments."""
    found = [HERE.parent / "README.md", *sorted(HERE.rglob("*.md"))]
    return [page for page in found if "_build" not in page.parts and SOURCES.search(page.read_text("utf-8"))]


def keys(sources: str) -> list[str]:
    """Return the keys of a comment, one per figure, with each combination of alternatives."""
    return [
        "; ".join(combination)
        for line in sources.strip().splitlines()
        for combination in itertools.product(
            *([one.strip() for one in part.split("|")] for part in line.split(";"))
        )
    ]


def renewed(text: str) -> str:
    """Return a page with the figures of the results.

    The figures of a comment are those between it and the comment or heading before. Where several numbers there could
    be meant, the choice with the fewest changes is taken.

    Raises
    ------
    ValueError
        If a comment lists more figures than there are numbers of their form before it.
    """
    parts, end = [], 0
    for comment in SOURCES.finditer(text):
        before = text[end : comment.start()]
        start = max((heading.end() for heading in re.finditer(r"^#+ .*$", before, re.MULTILINE)), default=0)
        parts += [before[:start], _filled(before[start:], keys(comment[1])), comment[0]]
        end = comment.end()
    return "".join([*parts, text[end:]])


def _filled(block: str, wanted: list[str]) -> str:
    """Return a block with the figures of ``wanted``, in this order, in the place of numbers of their form."""
    shown, texts = list(SHOWN.finditer(block)), [figure(key) for key in wanted]
    # costs[i][j]: fewest changes that place the figures from i on into the numbers from j on
    costs = [
        [0.0] * (len(shown) + 1) if i == len(texts) else [math.inf] * (len(shown) + 1)
        for i in range(len(texts) + 1)
    ]
    for i, j in itertools.product(reversed(range(len(texts))), reversed(range(len(shown)))):
        here = (
            0.0 if shown[j][0] == texts[i] else 1.0 if _alike(shown[j][0], texts[i], wanted[i]) else math.inf
        )
        costs[i][j] = min(costs[i][j + 1], here + costs[i + 1][j + 1])
    if math.isinf(costs[0][0]):
        raise ValueError(
            f"expected a number for each of {len(wanted)} figures, got too few before {wanted[0]!r} ..."
        )
    parts, end, j = [], 0, 0
    for i, text in enumerate(texts):
        while costs[i][j] == costs[i][j + 1]:
            j += 1
        parts += [block[end : shown[j].start()], text]
        end, j = shown[j].end(), j + 1
    return "".join([*parts, block[end:]])


def _alike(shown: str, text: str, key: str) -> bool:
    """Return whether a number has the form of a figure: as many decimals, or both p-values."""
    if "p" in key.partition(" as ")[2].split():
        return "." in shown or "e" in shown
    return len(shown.partition(".")[2]) == len(text.partition(".")[2]) and "e" not in shown


def figure(key: str) -> str:
    """Return the figure that a key names, as text.

    Raises
    ------
    KeyError
        If the script, the table, the row or the column does not exist, or if several rows begin so.
    """
    script, table, *row, column = (part.strip() for part in key.split(";"))
    column, _, form = column.partition(" as ")
    words = form.split()
    rows = [
        record
        for record in _table(script, table, key)
        if [str(cell) for cell in list(record.values())[: len(row)]] == row
    ]
    choose = min if "min" in words else max if "max" in words else None
    if not rows or column not in rows[0] or (len(rows) > 1 and choose is None):
        raise KeyError(f"{key}: expected one row and a column of the table, got {len(rows)} rows")
    nth = next((int(word) for word in words if word.isdigit()), 1) - 1
    numbers = [_number(record[column], nth, key) for record in rows]
    return _text(choose(numbers) if choose else numbers[0], words)


@cache
def _record(script: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / script / f"{script}.json").read_text(encoding="utf-8"))
    return record


def _table(script: str, name: str, key: str) -> list[dict[str, Any]]:
    try:
        record = _record(script)
    except FileNotFoundError:
        raise KeyError(f"{key}: expected a script with results, got {script}") from None
    found = [name] if name in record else [table for table in record if table.startswith(name)]
    if len(found) != 1 or not isinstance(record[found[0]], list):
        raise KeyError(f"{key}: expected the beginning of the name of one table, got {name!r}")
    rows: list[dict[str, Any]] = record[found[0]]
    return rows


def _number(cell: Any, nth: int, key: str) -> Decimal:
    numbers = NUMBER.findall(str(cell))
    if nth >= len(numbers):
        raise KeyError(f"{key}: expected {nth + 1} numbers, got {cell!r}")
    return Decimal(numbers[nth])


def _text(number: Decimal, words: list[str]) -> str:
    """Return a number in the form of ``words``; halves are rounded away from zero, as readers do."""
    if "," in words:
        return f"{number.quantize(Decimal(1), ROUND_HALF_UP):,}"
    if "p" in words:
        text = f"{float(number):.0e}" if number < Decimal("1e-3") else f"{float(number):.1g}"
        # a non-breaking hyphen
        return re.sub(r"e-0*", "e\N{NON-BREAKING HYPHEN}", text).removeprefix("0")
    decimals = next((int(word[1:]) for word in words if word.startswith(".")), 3)
    text = f"{number.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):zf}"
    return re.sub(r"^(-?)0\.", r"\1.", text)


def stale() -> Iterator[str]:
    """Yield a message for each line of a page whose figures differ from the results."""
    for page in pages():
        text = page.read_text("utf-8")
        for number, (got, expected) in enumerate(
            zip(text.splitlines(), renewed(text).splitlines(), strict=True), 1
        ):
            if got != expected:
                place = f"{page.relative_to(HERE.parent).as_posix()}:{number}"
                yield f"{place}: expected {expected.strip()!r} as in the results, got {got.strip()!r}"


def main() -> int:
    """List or renew the figures of the pages; return 1 if some differ and are not renewed."""
    parser = argparse.ArgumentParser(description="Compare the figures of the manual with the results.")
    parser.add_argument("--write", action="store_true", help="renew the figures that differ")
    write, found = parser.parse_args().write, list(stale())
    print("\n".join(found) or "all figures are those of the results")
    if write:
        for page in pages():
            page.write_text(renewed(page.read_text("utf-8")), "utf-8")
    return int(bool(found) and not write)


if __name__ == "__main__":
    sys.exit(main())
