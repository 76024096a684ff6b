"""Checks of the options that estimators are given: each names the option, what is expected and what it is."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

__all__ = ["check_C", "check_flag", "check_fraction", "check_number"]


def check_number(name: str, value: Any, least: float, *, whole: bool = False, open_end: bool = False) -> None:
    """Refuse what is no finite number from ``least`` on (above it with ``open_end``).

    Raises
    ------
    ValueError
    """
    if not _is_number(value, whole) or not least <= value < np.inf or (open_end and value == least):
        what = "a whole number" if whole else "a finite number"
        raise ValueError(f"{name}={value!r}: expected {what} {'>' if open_end else '>='} {least:g}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    ValueError
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={value!r}: expected True or False")


def check_fraction(name: str, value: Any) -> None:
    """Refuse what is no number strictly between 0 and 1.

    Raises
    ------
    ValueError
    """
    if not _is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name}={value!r}: expected a number in (0, 1)")


def check_C(C: Any) -> float:
    """``C`` as a float; refuses what is not a finite number > 0.

    Raises
    ------
    ValueError
    """
    check_number("C", C, 0.0, open_end=True)
    return float(C)


def _is_number(value: Any, whole: bool = False) -> bool:
    kind = numbers.Integral if whole else numbers.Real
    return isinstance(value, kind) and not isinstance(value, (bool, np.bool_))
