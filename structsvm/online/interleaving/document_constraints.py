"""Document constraints: clicks say which document is better than which; the ranking that violates fewer wins."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.online.interleaving.balanced import merge
from structsvm.online.interleaving.chance import enumerate_choices, random_choices
from structsvm.online.interleaving.record import Shown, check_rankings, check_record, evidence_ranks, signs
from structsvm.online.users.probability_tables import check_clicks

__all__ = ["DocumentConstraints"]


@dataclass(frozen=True)
class DocumentConstraints:
    """The document-constraint method for two rankings, on a balanced list.

    A clicked document is better than every document above it without a click, and than the one just below
    it if that has no click. A ranking violates such a constraint when it places the worse document higher;
    documents missing from it come behind all it holds. The credit is the number of constraints that are
    not violated.

    Notes
    -----
    He, Zhai & Li (CIKM 2009), on lists made by balanced interleaving as in Hofmann et al. (2011). It is biased: for
    rankings abcd and bcda one random click prefers the second by 1/2.

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
    rankings: ClassVar[str] = "2"
    fairness: ClassVar[str] = "biased"

    def show(self, rankings: Sequence[Sequence[Hashable]], length: int = 10, rng: Any = None) -> Shown:
        """Merge two rankings into at most ``length`` documents; ``rng`` flips the one coin."""
        checked = check_rankings(rankings, length, pair=True)
        return merge(self.name, checked, length, random_choices(rng))

    def distribution(
        self, rankings: Sequence[Sequence[Hashable]], length: int = 10
    ) -> list[tuple[Shown, float]]:
        """Return the one or two lists ``show`` can return, with their exact probability."""
        checked = check_rankings(rankings, length, pair=True)
        return enumerate_choices(lambda choose: merge(self.name, checked, length, choose))

    def credit(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return the constraints each ranking satisfies, (2,); raise ValueError for a wrong record or clicks."""
        check_record(shown, self.name, n_rows=2)
        clicked = check_clicks(clicks, len(shown.documents))
        constraints = []
        for k in np.flatnonzero(clicked).tolist():
            rivals = range(min(k + 2, len(shown.documents)))
            constraints += [(k, rival) for rival in rivals if not clicked[rival]]
        credit = np.zeros(2)
        for ranker, row in enumerate(evidence_ranks(shown)):
            rank = [np.inf if value is None else value for value in row]
            credit[ranker] = sum(rank[better] <= rank[worse] for better, worse in constraints)
        return credit

    def outcome(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return the sign of the difference in credit for each pair, (2, 2)."""
        return signs(self.credit(shown, clicks))
