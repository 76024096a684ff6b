"""The dependent-click model: a cascade in which the chance of reading on after a click depends on the position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.online.users.probability_tables import (
    check_clicks,
    check_grades,
    check_places,
    check_table,
    click_likelihood,
    click_marginals,
    sample_clicks,
)
from structsvm.protocols import ClickTables

__all__ = ["DependentClickModel"]


@dataclass(frozen=True)
class DependentClickModel:
    """A cascade by grade in which a user who clicked at position ``k`` reads on with ``continuation[k]``.

    Parameters
    ----------
    attraction : sequence of float, one per grade
        Probability of a click on a document of that grade, given that the user looks at it.
    continuation : sequence of float, one per place
        Probability of reading on after a click at that place (always after no click); lists may not
        be longer than this table.

    Raises
    ------
    ValueError
        If an entry is not a probability; from the methods, if a list is longer than ``continuation``.

    Notes
    -----
    Guo, Liu & Wang, "Efficient multiple-click models in web search" (WSDM 2009).

    Examples
    --------
    >>> DependentClickModel([0.1, 0.8], continuation=[0.5, 0.5, 0.5]).probability([1, 1, 0])
    array([0.8  , 0.48 , 0.036])
    """

    attraction: tuple[float, ...]
    continuation: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attraction", check_table("attraction", self.attraction))
        object.__setattr__(self, "continuation", check_table("continuation", self.continuation))

    def tables(self, length: int) -> ClickTables:
        """Return the model as (n_grades, length) tables."""
        stop = 1 - check_places("continuation", self.continuation, length)
        click = np.repeat(np.array(self.attraction)[:, None], length, axis=1)
        return ClickTables(click, np.repeat(stop[None, :], click.shape[0], axis=0), np.zeros_like(click))

    def click(self, grades: ArrayLike, rng: Any = None) -> NDArray[np.bool_]:
        """Draw clicks on a list with these grades (integers from 0), as booleans by position."""
        checked = check_grades(grades, len(self.attraction))
        return sample_clicks(self.tables(checked.shape[0]), checked, rng)

    def probability(self, grades: ArrayLike) -> NDArray[np.float64]:
        """Return the exact probability of a click at each position."""
        checked = check_grades(grades, len(self.attraction))
        return click_marginals(self.tables(checked.shape[0]), checked)

    def likelihood(self, grades: ArrayLike, clicks: ArrayLike) -> float:
        """Return the exact probability of this vector of clicks."""
        checked = check_grades(grades, len(self.attraction))
        length = checked.shape[0]
        return click_likelihood(self.tables(length), checked, check_clicks(clicks, length))
