"""Sample-only scored multileaving: score each ranker by its order of the shown documents."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.crediting import (
    ClickedLists,
    Credits,
    check_sums,
    shares_of_largest,
    sums_of_clicked,
)
from structsvm.online.interleaving.merging import Choose, Merging, as_rows, ranks_of
from structsvm.online.interleaving.team_draft import draft
from structsvm.protocols import Float


@dataclass(frozen=True)
class SOSM(Merging):
    """Sample-only scored multileaving, for two or more rankers.

    The list is a team draft. Each ranker then ranks the shown documents, and a click on the document at its rank ``r``
    gives the ranker the credit ``r^-3 / sum_m m^-3``. Each click is evidence about all rankers, and the time to compute
    credits does not depend on the number of possible assignments. The evidence is the credit of each ranker for a
    click.

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
    estimand: ClassVar[str] = "difference in credit per click, as a share of the largest possible"
    bias: ClassVar[str] = "is fair to rankers only if clicks are equally likely at all ranks"

    def credit_many(self, lists: ClickedLists) -> Credits:
        """Return the credits and, as outcome, the difference per click as a share of its maximum."""
        check_sums(lists, self.name, axis=2, total=1, least=0)
        credit = sums_of_clicked(lists)
        # all lists of a length have the same largest difference per click: that of the first and the last rank
        sizes, which = np.unique(lists.lengths, return_inverse=True)
        largest = np.array([own[0] - own[-1] for own in map(credits_by_rank, sizes)])[which]
        return Credits(credit, shares_of_largest(lists, credit, largest), np.ones(len(credit)))

    def merge(self, rankings: list[tuple[Hashable, ...]], length: int, choose: Choose) -> Shown:
        documents, _ = draft(rankings, length, choose)
        by_rank = credits_by_rank(len(documents))
        credit = np.empty((len(rankings), len(documents)))
        for row, ranking in zip(credit, rankings, strict=True):
            # rank the shown documents by the ranking; missing documents share the mean of the last credits
            rank = ranks_of(ranking)
            held = sorted((k for k, d in enumerate(documents) if d in rank), key=lambda k: rank[documents[k]])
            if len(held) < len(documents):
                row[:] = by_rank[len(held) :].mean()
            row[held] = by_rank[: len(held)]
        return Shown(self.name, documents, len(rankings), as_rows(credit))


@lru_cache(maxsize=256)
def credits_by_rank(n_documents: int) -> Float:
    """Return the credit for a click on each rank of a ranker's order, which sum to 1."""
    by_rank = np.array([weight(rank) for rank in range(1, n_documents + 1)])
    return np.asarray(by_rank / by_rank.sum())


@kernel
def weight(rank: int) -> float:
    """Return the weight of a rank, from 1, before the weights are divided by their sum."""
    return 1.0 / (rank * rank * rank)
