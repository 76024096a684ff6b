"""Sampling and probabilities of clicks for all click models, from tables of probabilities by grade and rank."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput
from structsvm.online.impressions.shown import check_clicks
from structsvm.protocols import ClickTables
from structsvm.queries import refuse_first


class TableClicks:
    """Mixin that samples the clicks of a click model, and computes their probabilities, from its ``tables``."""

    def tables(self, length: int) -> ClickTables:
        """Return the tables of the model, each (n_grades, length)."""
        raise NotImplementedError

    def click(self, grades: ArrayLike, rng: Any = None) -> NDArray[np.bool_]:
        """Sample clicks on a list with the given grades (integers from 0), as a boolean array by rank."""
        tables, checked = self._tables_of(grades)
        generator = np.random.default_rng(rng)
        clicks = np.zeros(checked.shape[0], dtype=bool)
        for k, grade in enumerate(checked):
            clicks[k] = generator.random() < tables.click[grade, k]
            # the user stops with a probability that depends on the grade and on whether the document was clicked
            stop = tables.stop_after_click if clicks[k] else tables.stop_after_skip
            if generator.random() < stop[grade, k]:
                break
        return clicks

    def probability(self, grades: ArrayLike) -> NDArray[np.float64]:
        """Return the exact probability of a click at each rank."""
        tables, checked = self._tables_of(grades)
        positions = np.arange(checked.shape[0])
        click = tables.click[checked, positions]
        stay = click * (1 - tables.stop_after_click[checked, positions])
        stay += (1 - click) * (1 - tables.stop_after_skip[checked, positions])
        # probability of reaching the rank times probability of a click at the rank
        return click * np.concatenate(([1.0], np.cumprod(stay)[:-1]))[: checked.shape[0]]

    def likelihood(self, grades: ArrayLike, clicks: ArrayLike) -> float:
        """Return the exact probability of the vector ``clicks``."""
        tables, checked = self._tables_of(grades)
        clicked = check_clicks(clicks, checked.shape[0])
        # Sum over the rank at which the user stops. ``reading`` is the probability that the clicks so far occurred and
        # the user still reads, ``gone`` the probability that they occurred and the user has stopped. A click sets
        # ``gone`` to 0.
        reading, gone = 1.0, 0.0
        for k, grade in enumerate(checked):
            click = tables.click[grade, k]
            if clicked[k]:
                here, stop, gone = reading * click, tables.stop_after_click[grade, k], 0.0
            else:
                here, stop = reading * (1 - click), tables.stop_after_skip[grade, k]
            reading, gone = here * (1 - stop), gone + here * stop
        return float(reading + gone)

    def _check_tables(self, *names: str) -> None:
        """Convert the attributes ``names`` to tuples of probabilities."""
        for name in names:
            object.__setattr__(self, name, check_table(name, getattr(self, name)))

    def _tables_of(self, grades: ArrayLike) -> tuple[ClickTables, NDArray[np.int64]]:
        tables = self.tables(np.size(grades))
        return tables, check_grades(grades, tables.click.shape[0])


def check_table(name: str, values: ArrayLike) -> tuple[float, ...]:
    """Return ``values`` as a tuple of probabilities; raise ValueError with the first invalid entry."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 1 or table.shape[0] == 0:
        raise BadInput(name, f"expected a row of probabilities, got an array of shape {table.shape}")
    refuse_first(name, table, ~((table >= 0) & (table <= 1)), "a probability between 0 and 1")
    return tuple(float(v) for v in table)


def check_places(name: str, table: tuple[float, ...], length: int) -> NDArray[np.float64]:
    """Return the first ``length`` entries of a table by rank; raise ValueError if it has fewer entries."""
    if length > len(table):
        raise BadInput(
            name,
            f"the table covers {len(table)} rank(s), but the list has {length}",
            "use a longer table or show fewer documents",
        )
    return np.array(table[:length], dtype=np.float64)


def check_grades(grades: ArrayLike, n_grades: int) -> NDArray[np.int64]:
    """Return ``grades`` as integers ``0 .. n_grades - 1``; raise ValueError for the first invalid grade."""
    values = np.asarray(grades)
    if values.ndim != 1:
        raise BadInput("grades", f"expected one grade per rank, got an array of shape {values.shape}")
    if values.size == 0:
        return np.zeros(0, dtype=np.int64)
    if values.dtype.kind not in "biuf":
        raise BadInput("grades", f"expected integers from 0 to {n_grades - 1}, got {values[0]!r}")
    valid = np.isfinite(values) & (values >= 0) & (values < n_grades)
    valid &= values == np.floor(np.where(valid, values, 0))
    refuse_first(
        "grades", values, ~valid, f"an integer from 0 to {n_grades - 1} (the model has {n_grades} grades)"
    )
    return values.astype(np.int64)
