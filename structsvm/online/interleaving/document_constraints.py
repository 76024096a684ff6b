"""Document constraints: clicks imply preferences between documents; the ranking that violates fewer of them wins."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.online.interleaving.balanced import Balanced
from structsvm.online.interleaving.record import Shown, clicks_on, evidence_ranks


@dataclass(frozen=True)
class DocumentConstraints(Balanced):
    """The document-constraint method for two rankings, on a balanced list.

    A clicked document is preferred to each document above it without a click, and to the next document below it if that
    document has no click. A ranking violates such a constraint if it ranks the worse document higher; documents missing
    from a ranking rank below all others. The credit is the number of constraints that are not violated.

    Notes
    -----
    He, Zhai & Li (CIKM 2009), on lists of balanced interleaving, as in Hofmann et al. (2011). The method is biased:
    for the rankings abcd and bcda, a random click favours the second by 1/2 in expectation.

    Examples
    --------
    >>> method = DocumentConstraints()
    >>> shown = method.show([["a", "b", "c", "d"], ["b", "c", "d", "a"]], length=4, rng=0)
    >>> shown.documents
    ('b', 'a', 'c', 'd')
    >>> method.credit(shown, [0, 0, 1, 0])
    array([1., 2.])
    """

    name: ClassVar[str] = "document_constraints"

    def credit(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return the number of constraints that each ranking satisfies, (2,); raise BadInput for invalid input."""
        clicked = clicks_on(shown, self.name, clicks, n_rows=2)
        constraints = []
        for k in np.flatnonzero(clicked).tolist():
            # all documents above the clicked document, and the one directly below
            rivals = range(min(k + 2, len(shown.documents)))
            constraints += [(k, rival) for rival in rivals if not clicked[rival]]
        ranks = evidence_ranks(shown)
        # documents that are not in a ranking have rank infinity; a constraint between two of them is not violated
        satisfied = [sum(row[better] <= row[worse] for better, worse in constraints) for row in ranks]
        return np.array(satisfied, dtype=np.float64)
