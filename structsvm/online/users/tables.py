"""One walk down the list serves every click model: tables of probabilities by grade and position."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.checks import BadInput
from structsvm.protocols import ClickTables

__all__ = [
    "check_clicks",
    "check_grades",
    "check_places",
    "check_table",
    "click_likelihood",
    "click_marginals",
    "sample_clicks",
]


def check_table(name: str, values: ArrayLike) -> tuple[float, ...]:
    """``values`` as a tuple of probabilities; ValueError names the first entry that is none."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 1 or table.shape[0] == 0:
        raise BadInput(name, f"expected a row of probabilities, got an array of shape {table.shape}")
    bad = np.flatnonzero(~((table >= 0) & (table <= 1)))
    if bad.size:
        raise BadInput(name, f"expected a probability between 0 and 1, got {table[bad[0]]}", at=f"[{bad[0]}]")
    return tuple(float(v) for v in table)


def check_places(name: str, table: tuple[float, ...], length: int) -> NDArray[np.float64]:
    """The first ``length`` entries of a table by position; ValueError if it has fewer."""
    if length > len(table):
        raise BadInput(
            name,
            f"the table covers {len(table)} place(s), the list has {length}",
            "give the model a longer table or show fewer documents",
        )
    return np.array(table[:length], dtype=np.float64)


def check_grades(grades: ArrayLike, n_grades: int) -> NDArray[np.int64]:
    """``grades`` as integers ``0 .. n_grades - 1``; ValueError names the first that is not."""
    given = np.asarray(grades)
    if given.ndim != 1:
        raise BadInput("grades", f"expected one grade a place, got an array of shape {given.shape}")
    if given.size == 0:
        return np.zeros(0, dtype=np.int64)
    if given.dtype.kind not in "biuf":
        raise BadInput("grades", f"expected integers from 0 to {n_grades - 1}, got {given[0]!r}")
    whole = np.isfinite(given) & (given >= 0) & (given < n_grades)
    whole &= given == np.floor(np.where(whole, given, 0))
    bad = np.flatnonzero(~whole)
    if bad.size:
        raise BadInput(
            "grades",
            f"expected an integer from 0 to {n_grades - 1} (the model has {n_grades} grades), got {given[bad[0]]}",
            at=f"[{bad[0]}]",
        )
    return given.astype(np.int64)


def check_clicks(clicks: ArrayLike, length: int) -> NDArray[np.bool_]:
    """``clicks`` as booleans, one for each shown document; ValueError otherwise."""
    given = np.asarray(clicks)
    if given.shape != (length,):
        raise BadInput(
            "clicks",
            f"expected one entry (0 or 1) for each of the {length} shown documents, got an array of "
            f"shape {given.shape}",
        )
    bad = [click for click in given.tolist() if click not in (0, 1)]
    if bad:
        raise BadInput("clicks", f"expected 0 or 1 for each shown document, got {bad[0]!r}")
    return given.astype(bool)


def sample_clicks(tables: ClickTables, grades: NDArray[np.int64], rng: Any) -> NDArray[np.bool_]:
    """One user's clicks on a list with these grades."""
    generator = np.random.default_rng(rng)
    clicks = np.zeros(grades.shape[0], dtype=bool)
    for k, grade in enumerate(grades):
        clicks[k] = generator.random() < tables.click[grade, k]
        stop = tables.stop_after_click if clicks[k] else tables.stop_after_skip
        if generator.random() < stop[grade, k]:
            break
    return clicks


def click_marginals(tables: ClickTables, grades: NDArray[np.int64]) -> NDArray[np.float64]:
    """Exact click probability of each place: the chance to get there, times the chance of a click."""
    places = np.arange(grades.shape[0])
    click = tables.click[grades, places]
    stay = click * (1 - tables.stop_after_click[grades, places])
    stay += (1 - click) * (1 - tables.stop_after_skip[grades, places])
    return click * np.concatenate(([1.0], np.cumprod(stay)[:-1]))[: grades.shape[0]]


def click_likelihood(tables: ClickTables, grades: NDArray[np.int64], clicks: NDArray[np.bool_]) -> float:
    """Exact probability of a vector of clicks; whether the user still reads is summed out."""
    reading, gone = 1.0, 0.0
    for k, grade in enumerate(grades):
        click = tables.click[grade, k]
        if clicks[k]:
            here, stop, gone = reading * click, tables.stop_after_click[grade, k], 0.0
        else:
            here, stop = reading * (1 - click), tables.stop_after_skip[grade, k]
        reading, gone = here * (1 - stop), gone + here * stop
    return float(reading + gone)
