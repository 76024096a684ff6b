"""The position-based click model: examination depends on the position, attraction on the grade."""

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

__all__ = ["PositionBasedModel"]


@dataclass(frozen=True)
class PositionBasedModel:
    """A user whose clicks are independent: ``P(click at k) = attraction[grade] * examination[k]``.

    Parameters
    ----------
    attraction : sequence of float, one per grade
        Probability of a click on a document of that grade, given that the user looks at it.
    examination : sequence of float, one per place
        Probability that the user looks at the place; lists may not be longer than this table.

    Raises
    ------
    ValueError
        If an entry is not a probability; from the methods, if a list is longer than ``examination``.

    Notes
    -----
    Richardson, Dominowska & Ragno (WWW 2007); Craswell et al. (WSDM 2008).

    Examples
    --------
    >>> PositionBasedModel([0.1, 0.8], examination=[1, 0.5, 0.25]).probability([1, 1, 0])
    array([0.8  , 0.4  , 0.025])
    """

    attraction: tuple[float, ...]
    examination: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attraction", check_table("attraction", self.attraction))
        object.__setattr__(self, "examination", check_table("examination", self.examination))

    def tables(self, length: int) -> ClickTables:
        """Return the model as (n_grades, length) tables."""
        click = np.outer(self.attraction, check_places("examination", self.examination, length))
        # the user never leaves: a position not examined only cannot be clicked
        return ClickTables(click, np.zeros_like(click), np.zeros_like(click))

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
