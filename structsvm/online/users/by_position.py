"""The click model by rank: position-based."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.online.users.click_tables import TableClicks
from structsvm.protocols import ClickTables


@dataclass(frozen=True)
class PositionBasedUser(TableClicks):
    """A user whose clicks are independent: ``P(click at k) = attraction[grade] * examination[k]``.

    Parameters
    ----------
    attraction : sequence of float, one per grade
        Probability of a click on a document of that grade, given that the user looks at it.
    examination : sequence of float, one per place
        Probability that the user looks at each rank; lists may not be longer than this table.

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
        if length > len(self.examination):
            problem = f"the table covers {len(self.examination)} place(s), the list has {length}"
            raise BadInput("examination", problem, "give the model a longer table or show fewer documents")
        click = np.outer(self.attraction, self.examination[:length])
        # the user never leaves: a position not examined only cannot be clicked
        return ClickTables(click, np.zeros_like(click), np.zeros_like(click))
