"""What the rankers trained by descent share: checks of their options, and the queries they hold out."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.protocols import Int

__all__ = ["check_fraction", "check_number", "choose_held_out"]


def check_number(name: str, value: Any, least: float, *, whole: bool = False, open_end: bool = False) -> None:
    """Refuse what is no finite number from ``least`` on (above it with ``open_end``).

    Raises
    ------
    ValueError
        That names the option.
    """
    kind: Any = (int, np.integer) if whole else (int, float, np.number)
    good = isinstance(value, kind) and not isinstance(value, bool) and np.isfinite(value)
    if not good or value < least or (open_end and value == least):
        what = "a whole number" if whole else "a finite number"
        raise ValueError(f"{name}={value!r}: expected {what} {'>' if open_end else '>='} {least:g}")


def check_fraction(name: str, value: Any) -> None:
    """Refuse what is no number strictly between 0 and 1.

    Raises
    ------
    ValueError
        That names the option.
    """
    if not (isinstance(value, (int, float, np.number)) and 0 < value < 1):
        raise ValueError(f"{name}={value!r}: expected a number in (0, 1)")


def choose_held_out(useful: Int, fraction: float, rng: np.random.RandomState) -> Int:
    """A share of the useful queries, at least one, to stop training by; at least one is left to train on.

    Raises
    ------
    ValueError
        For fewer than two.
    """
    if useful.shape[0] < 2:
        raise ValueError(
            "early_stopping: expected at least 2 queries with something to learn from, one of them to hold out, got "
            f"{useful.shape[0]}; pass validation=(X, y, qid), or early_stopping=False"
        )
    n = min(max(1, round(float(fraction) * useful.shape[0])), useful.shape[0] - 1)
    return rng.permutation(useful)[:n]
