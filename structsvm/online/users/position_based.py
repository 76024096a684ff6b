"""The position-based click model: examination depends on the position, attraction on the grade."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structsvm.online.users.click_tables import ClickTables, TableClicks, check_places


@dataclass(frozen=True)
class PositionBasedUser(TableClicks):
    """A user whose clicks are independent: ``P(click at k) = attraction[grade] * examination[k]``.

    Parameters
    ----------
    attraction : sequence of float, one per grade
        Probability of a click on a document of that grade, given that the user looks at it.
    examination : sequence of float, one per place
        Probability that the user looks at the place; lists may not be longer than this table.

    Notes
    -----
    Richardson, Dominowska & Ragno (WWW 2007); Craswell et al. (WSDM 2008).

    Examples
    --------
    >>> PositionBasedUser([0.1, 0.8], examination=[1, 0.5, 0.25]).probability([1, 1, 0])
    array([0.8  , 0.4  , 0.025])
    """

    attraction: tuple[float, ...]
    examination: tuple[float, ...]

    def __post_init__(self) -> None:
        self._check_tables("attraction", "examination")

    def tables(self, length: int) -> ClickTables:
        """Return the model as (n_grades, length) tables."""
        click = np.outer(self.attraction, check_places("examination", self.examination, length))
        # the user never leaves: a position not examined only cannot be clicked
        return ClickTables(click, np.zeros_like(click), np.zeros_like(click))
