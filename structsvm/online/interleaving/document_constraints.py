"""Document constraints: clicks imply preferences between documents; the ranking that violates fewer of them wins."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from structsvm.online.interleaving.balanced import Balanced
from structsvm.online.interleaving.crediting import ClickedLists, Credits, check_ranks, signs
from structsvm.protocols import Float, Int


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
    estimand: ClassVar[str] = "difference in satisfied constraints"

    def credit_many(self, lists: ClickedLists) -> Credits:
        """Return the number of constraints that each ranking satisfies."""
        # documents that are not in a ranking have rank infinity; a constraint between two of them is not violated
        ranks = check_ranks(lists)
        n, _, length = ranks.shape
        credit = np.zeros((n, 2))
        for k in range(length):
            # all documents above the clicked document, and the one directly below, if they have no click
            worse = lists.clicked[:, k, None] & ~lists.clicked & lists.own & (np.arange(length) < k + 2)
            credit += (worse[:, None] & (ranks[..., k, None] <= ranks)).sum(axis=2)
        return Credits(credit, signs(credit), _most_constraints(lists.lengths))

    def bound(self, length: int, n_rankers: int) -> float:
        """Return a bound on the number of constraints."""
        return float(_most_constraints(np.array(length)))


def _most_constraints(length: Int) -> Float:
    # each clicked document beats each document above without a click (at most length^2 / 4 pairs), and the next
    # document if that has no click
    return np.asarray(length**2 / 4 + length / 2 + 1)
