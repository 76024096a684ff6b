"""Figures of experiments in pages of the manual, taken from the results when the manual is built.

A page writes ``{{diversity_newspaper; as they come, AMBIENT; MMR(); loss}}``: the script; its table, by the beginning
of its name; the row, by its first cells; the column. After ``as`` a form may follow: ``.2`` for two decimals [.3],
``,`` for whole numbers, ``p`` for a p-value, ``min`` or ``max`` of the rows that begin so, and ``2`` for the second
number of a cell.
"""

import json
import re
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "experiments" / "results"
QUOTED = re.compile(r"\{\{(\w+;[^{};]*;[^{}]*)\}\}")
NUMBER = re.compile(r"(?:(?<![\d.])[+-])?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def fill(text: str) -> str:
    """Return a page with the figures that it quotes."""
    return QUOTED.sub(lambda match: figure(match[1]), text)


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
        raise KeyError(f"{{{{{key}}}}}: expected one row and a column of the table, got {len(rows)} rows")
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
        raise KeyError(f"{{{{{key}}}}}: expected a script with results, got {script}") from None
    found = [name] if name in record else [table for table in record if table.startswith(name)]
    if len(found) != 1 or not isinstance(record[found[0]], list):
        raise KeyError(f"{{{{{key}}}}}: expected the beginning of the name of one table, got {name!r}")
    rows: list[dict[str, Any]] = record[found[0]]
    return rows


def _number(cell: Any, nth: int, key: str) -> Decimal:
    numbers = NUMBER.findall(str(cell))
    if nth >= len(numbers):
        raise KeyError(f"{{{{{key}}}}}: expected {nth + 1} numbers, got {cell!r}")
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
