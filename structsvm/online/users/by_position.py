"""Click models by rank: the position-based and the dependent-click model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structsvm.online.users.click_tables import TableClicks, check_places
from structsvm.protocols import ClickTables


@dataclass(frozen=True)
class PositionBasedUser(TableClicks):
    """A user whose clicks are independent: ``P(click at k) = attraction[grade] * examination[k]``.

    Parameters
    ----------
    attraction : sequence of float, one per grade
        Probability of a click on a document of that grade, given that the user looks at it.
    examination : sequence of float, one per rank
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
        click = np.outer(self.attraction, check_places("examination", self.examination, length))
        # the user never leaves: a rank that is not examined merely cannot be clicked
        return ClickTables(click, np.zeros_like(click), np.zeros_like(click))


@dataclass(frozen=True)
class DependentClickUser(TableClicks):
    """A cascade by grade in which a user who clicked at rank ``k`` continues with probability ``continuation[k]``.

    Parameters
    ----------
    attraction : sequence of float, one per grade
        Probability of a click on a document of that grade, given that the user looks at it.
    continuation : sequence of float, one per rank
        Probability of reading on after a click at each rank (the user always reads on without a click); lists may not
        be longer than this table.

    Notes
    -----
    Guo, Liu & Wang, "Efficient multiple-click models in web search" (WSDM 2009).

    Examples
    --------
    >>> DependentClickUser([0.1, 0.8], continuation=[0.5, 0.5, 0.5]).probability([1, 1, 0])
    array([0.8  , 0.48 , 0.036])
    """

    attraction: tuple[float, ...]
    continuation: tuple[float, ...]

    def __post_init__(self) -> None:
        self._check_tables("attraction", "continuation")

    def tables(self, length: int) -> ClickTables:
        """Return the model as (n_grades, length) tables."""
        # leaving depends only on the rank and on whether it was clicked
        stop = 1 - check_places("continuation", self.continuation, length)
        click = np.repeat(np.array(self.attraction)[:, None], length, axis=1)
        return ClickTables(click, np.repeat(stop[None, :], click.shape[0], axis=0), np.zeros_like(click))
