"""Colours, dashes and markers of pages, notebooks and plots."""

from typing import Any

COLOURS = {
    "pos": ("#b45309", "#f59e0b", "#d97b16"),
    "neg": ("#1d4ed8", "#7aa2ff", "#3b7dd8"),
    "s0": ("#1d4ed8", "#7aa2ff", "#3b7dd8"),
    "s1": ("#b45309", "#f59e0b", "#d97b16"),
    "s2": ("#0f766e", "#2dd4bf", "#3a9d5d"),
    "s3": ("#9d174d", "#f472b6", "#9b5fc0"),
}
"""Colours for light backgrounds, for dark backgrounds, and for unknown backgrounds (in notebooks).

``pos`` and ``neg`` mark increases and decreases of a score or measure; ``s0`` to ``s3`` are for lines.
"""

_DASHES = ("-", (0, (7, 4)), (0, (2, 3)), (0, (9, 3, 2, 3)))
_MARKERS = ("o", "s", "D", "^")


def line_style(i: int) -> tuple[str, Any, str]:
    """Return colour, dashes and marker of line ``i`` for matplotlib; sixteen lines have distinct styles."""
    # each group of four lines combines colours with dashes and markers differently
    k = (i + i // 4) % 4
    return f"s{i % 4}", _DASHES[k], _MARKERS[k]
