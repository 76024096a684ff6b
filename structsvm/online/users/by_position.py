"""Click models by rank: the position-based and the dependent-click model."""

from dataclasses import dataclass

import numpy as np

from structsvm.online.users.click_tables import TableClicks, check_places
from structsvm.protocols import ClickTables


@dataclass(frozen=True)
class PositionBasedUser(TableClicks):
    """User with independent clicks: ``P(click at rank k) = attraction[grade] * examination[k]``.

    Parameters
    ----------
    attraction : sequence of float, one per grade
        Probability of a click on a document of each grade, given that the user looks at it.
    examination : sequence of float, one per rank
        Probability that the user looks at each rank; lists must not be longer than this table.

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
        """Return the tables of the model, each (n_grades, length)."""
        click = np.outer(self.attraction, check_places("examination", self.examination, length))
        # the user never stops: an unexamined rank is not clicked, and the user goes on
        return ClickTables(click, np.zeros_like(click), np.zeros_like(click))


@dataclass(frozen=True)
class DependentClickUser(TableClicks):
    """Cascade user who continues after a click at rank ``k`` with probability ``continuation[k]``.

    Parameters
    ----------
    attraction : sequence of float, one per grade
        Probability of a click on a document of each grade, given that the user looks at it.
    continuation : sequence of float, one per rank
        Probability of continuing after a click at each rank (without a click, the user always continues); lists must
        not be longer than this table.

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
        """Return the tables of the model, each (n_grades, length)."""
        # whether the user stops depends only on the rank and on whether the document was clicked
        stop = 1 - check_places("continuation", self.continuation, length)
        click = np.repeat(np.array(self.attraction)[:, None], length, axis=1)
        return ClickTables(click, np.repeat(stop[None, :], click.shape[0], axis=0), np.zeros_like(click))
