"""Cascade click models: users read from the top, and click and stop with probabilities that depend on the grade."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from structsvm.common.checks import BadInput, check_choice
from structsvm.online.users.click_tables import TableClicks
from structsvm.protocols import ClickTables

CASCADE_TABLES: dict[tuple[str, int], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("perfect", 2): ((0.0, 1.0), (0.0, 0.0)),
    ("navigational", 2): ((0.05, 0.95), (0.2, 0.9)),
    ("informational", 2): ((0.4, 0.9), (0.1, 0.5)),
    ("random", 2): ((0.5, 0.5), (0.0, 0.0)),
    ("almost_random", 2): ((0.4, 0.6), (0.5, 0.5)),
    ("perfect", 3): ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
    ("navigational", 3): ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
    ("informational", 3): ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
    ("random", 3): ((0.5, 0.5, 0.5), (0.0, 0.0, 0.0)),
    ("almost_random", 3): ((0.4, 0.5, 0.6), (0.5, 0.5, 0.5)),
    ("perfect", 5): ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    ("navigational", 5): ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    ("informational", 5): ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    ("random", 5): ((0.5, 0.5, 0.5, 0.5, 0.5), (0.0, 0.0, 0.0, 0.0, 0.0)),
    ("almost_random", 5): ((0.4, 0.45, 0.5, 0.55, 0.6), (0.5, 0.5, 0.5, 0.5, 0.5)),
}
"""Click and stop probabilities by grade, as published, keyed by name and number of grades."""


@dataclass(frozen=True)
class CascadeUser(TableClicks):
    """User who reads from the top, and clicks and stops with probabilities that depend on the grade.

    Parameters
    ----------
    click_probability : sequence of float, one per grade
        Probability of a click on a document of each grade, given that the user looks at it.
    stop_probability : sequence of float, one per grade
        Probability of stopping after a document of each grade.
    stop : {"click", "any"}, default "click"
        Stop only after a clicked document, or after any document. "any" replicates public simulators, in which users
        also stop after documents without a click.

    Notes
    -----
    Guo, Liu & Wang (WSDM 2009), instantiated as in Hofmann, Whiteson & de Rijke (2011). The published
    tables are in ``CASCADE_TABLES``; :meth:`named` creates a user from one of them.

    Examples
    --------
    >>> user = CascadeUser.named("navigational", 3)
    >>> user.probability([2, 0, 1]).round(5)
    array([0.95   , 0.00725, 0.07178])
    >>> user.click([2, 0, 1], rng=0)
    array([ True, False, False])
    """

    click_probability: tuple[float, ...]
    stop_probability: tuple[float, ...]
    stop: Literal["click", "any"] = "click"

    def __post_init__(self) -> None:
        self._check_tables("click_probability", "stop_probability")
        if len(self.click_probability) != len(self.stop_probability):
            raise BadInput(
                "stop_probability",
                f"expected one entry for each of the {len(self.click_probability)} grades of "
                f"click_probability, got {len(self.stop_probability)}",
            )
        check_choice("stop", self.stop, ("click", "any"))

    @classmethod
    def named(cls, name: str, n_grades: int, *, stop: Literal["click", "any"] = "click") -> Self:
        """Return a published user: perfect, navigational, informational, random or almost_random; 2, 3 or 5 grades.

        Examples
        --------
        >>> CascadeUser.named("perfect", 2).click_probability
        (0.0, 1.0)
        """
        if (name, n_grades) not in CASCADE_TABLES:
            names = ", ".join(dict.fromkeys(label for label, _ in CASCADE_TABLES))
            raise BadInput(
                "name",
                f"no cascade model {name!r} with {n_grades} grades: expected one of {names} with 2, 3 or 5 grades",
                "for other tables use CascadeUser(click_probability, stop_probability)",
            )
        click_probability, stop_probability = CASCADE_TABLES[name, n_grades]
        return cls(click_probability, stop_probability, stop)

    def tables(self, length: int) -> ClickTables:
        """Return the tables of the model, each (n_grades, length)."""
        click = np.repeat(np.array(self.click_probability)[:, None], length, axis=1)
        stop = np.repeat(np.array(self.stop_probability)[:, None], length, axis=1)
        return ClickTables(click, stop, stop if self.stop == "any" else np.zeros_like(stop))
