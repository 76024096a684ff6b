"""``--monotone``: signs of weights."""

from __future__ import annotations

from typing import Annotated

import typer

Monotone = Annotated[
    list[str] | None,
    typer.Option(
        help="The sign of a weight: +1 or -1 behind the number or name of its feature, as in 3:+1; repeat for more."
    ),
]


def read_signs(texts: list[str] | None) -> dict[str, int]:
    """Return the sign of each feature."""
    signs: dict[str, int] = {}
    for text in texts or ():
        feature, _, sign = text.rpartition(":")
        if not feature or sign not in ("+1", "1", "-1"):
            raise ValueError(f"--monotone {text}: expected a feature and +1 or -1, as in 3:+1")
        if feature in signs:
            raise ValueError(f"--monotone {text}: the sign of feature {feature} is given twice")
        signs[feature] = int(sign)
    return signs
