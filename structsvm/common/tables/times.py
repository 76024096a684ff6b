"""The unit of times given as numbers, shared by Python arrays, text and tables."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

UNITS = {1: "seconds", 10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}


def unit_of(times: NDArray[Any]) -> NDArray[np.int64]:
    """Return the units per second of times since 1970, as their magnitude suggests; 0 if unknown."""
    with np.errstate(invalid="ignore"):
        steps = np.searchsorted([1e11, 1e14, 1e17], np.abs(times), side="right")
    return np.where(np.isfinite(times) & (times != 0), 10 ** (3 * steps.astype(np.int64)), 0)


def seconds(times: NDArray[Any], unit: int | None) -> tuple[NDArray[Any], int | None, int | None]:
    """Return times in seconds, their units per second (``unit``: that of earlier times), and the first row with another
    unit, or None.
    """
    own = unit_of(times)
    told = np.flatnonzero(own)
    if told.size:
        unit = unit or int(own[told[0]])
    other = told[own[told] != unit]
    return times / (unit or 1), unit, int(other[0]) if other.size else None
