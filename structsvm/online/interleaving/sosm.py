"""Sample-only scored multileaving: score each ranker by its order of the shown documents."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.portable.elementary import power
from structsvm.online.interleaving.chance import Choose, ListsByChoices
from structsvm.online.interleaving.record import (
    Shown,
    as_rows,
    clicks_on,
    evidence_matrix,
    ranks_of,
    share_of_largest,
)
from structsvm.online.interleaving.team_draft import draft


@dataclass(frozen=True)
class SOSM(ListsByChoices):
    """Sample-only scored multileaving, for two or more rankers.

    The list is a team draft. Each ranker then ranks the shown documents, and a click on the document at its rank ``r``
    gives the ranker the credit ``r^-3 / sum_m m^-3``. Each click is evidence about all rankers, and the time to compute
    credits does not depend on the number of possible assignments.

    Notes
    -----
    Brost, Cox, Seldin & Lioma (SIGIR 2016). Shown documents that are not in a ranking have the mean credit of the ranks
    after its last shown document. The credits of each ranker sum to one over the list, so the expected credits are
    equal if clicks are equally likely at all ranks. The expected *sign* of a difference, which bandits use
    (``InterleavedRankers``), may differ from zero; :meth:`outcome` returns the difference itself.

    Examples
    --------
    >>> shown = SOSM().show([["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]], length=3, rng=0)
    >>> shown.documents
    ('b', 'a', 'c')
    >>> SOSM().credit(shown, [1, 0, 0]).round(4)
    array([0.1076, 0.8606, 0.0319])
    """

    name: ClassVar[str] = "sosm"
    rankings: ClassVar[str] = "2 or more"
    fairness: ClassVar[str] = "expected centred credit 0 if clicks are equally likely at all ranks"
    draws_outcome: ClassVar[bool] = True

    def credit(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return the credit of each ranker, (n_rankers,); raise BadInput for an invalid record or clicks."""
        clicked = clicks_on(shown, self.name, clicks)
        return np.asarray(evidence_matrix(shown, axis=1, total=1, least=0)[:, clicked].sum(axis=1))

    def outcome(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return the difference in credit per click of each pair, as a share of its maximum, (n, n)."""
        largest = largest_difference(len(shown.documents))
        return share_of_largest(self.credit(shown, clicks), int(np.count_nonzero(clicks)), largest)

    def _merge(self, rankings: list[tuple[Hashable, ...]], length: int, choose: Choose) -> Shown:
        documents, _ = draft(rankings, length, choose)
        by_rank = power(np.arange(1, len(documents) + 1), -3)
        by_rank /= by_rank.sum()
        credit = np.empty((len(rankings), len(documents)))
        for row, ranking in zip(credit, rankings, strict=True):
            # rank the shown documents by the ranking; missing documents share the mean of the last credits
            rank = ranks_of(ranking)
            held = sorted((k for k, d in enumerate(documents) if d in rank), key=lambda k: rank[documents[k]])
            if len(held) < len(documents):
                row[:] = by_rank[len(held) :].mean()
            row[held] = by_rank[: len(held)]
        return Shown(self.name, documents, len(rankings), as_rows(credit))


def largest_difference(n_documents: int) -> float:
    """Return the largest possible difference in credit of two rankers for one click."""
    by_rank = power(np.arange(1, n_documents + 1), -3)
    return float((by_rank[0] - by_rank[-1]) / by_rank.sum())
