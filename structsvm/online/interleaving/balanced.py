"""Balanced interleaving: a coin flip decides which ranking is first; then the rankings alternate."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.crediting import ClickedLists, Credits, check_ranks, signs
from structsvm.online.interleaving.merging import Choose, Merging, ranks_of


@dataclass(frozen=True)
class Balanced(Merging):
    """Balanced interleaving of two rankings.

    At each depth the list contains about the same number of top documents of both rankings. Let ``k`` be the smaller of
    the two ranks that the lowest clicked document has in the rankings; the credit of a ranker is the number of clicked
    documents in its top ``k``. The evidence is the rank of each document in both rankings, or None if it is missing.

    Notes
    -----
    Joachims (2003). The method is biased: for the rankings abcd and bcda a random click favours the second by 1/2
    in expectation. Use it for replication and teaching, and ``TeamDraft`` for decisions. If one ranking has no
    documents left, the other fills the list.

    Examples
    --------
    >>> shown = Balanced().show([["a", "b", "c", "d"], ["b", "c", "d", "a"]], length=4, rng=0)
    >>> shown.documents
    ('b', 'a', 'c', 'd')
    >>> Balanced().credit(shown, [0, 0, 1, 0])
    array([0., 1.])
    """

    name: ClassVar[str] = "balanced"
    rankings: ClassVar[str] = "2"
    fairness: ClassVar[str] = "biased"
    bias: ClassVar[str] = "prefers a ranker even if clicks ignore the documents"

    def credit_many(self, lists: ClickedLists) -> Credits:
        """Return the number of clicks in the top ``k`` of each ranking."""
        ranks = check_ranks(lists)
        lowest = lists.clicked.shape[1] - 1 - lists.clicked[:, ::-1].argmax(axis=1)
        # k is the smaller rank of the lowest clicked document, so that the top k of both rankings were about equally
        # visible
        depth = ranks[np.arange(len(ranks)), :, lowest].min(axis=1)
        unranked = np.isinf(depth) & lists.clicked.any(axis=1)
        lists.refuse(unranked, "a rank of the lowest clicked document in one of the rankings")
        credit = ((ranks <= depth[:, None, None]) & lists.clicked[:, None]).sum(axis=2).astype(np.float64)
        return Credits(credit, signs(credit), lists.lengths.astype(np.float64))

    def bound(self, length: int, n_rankers: int) -> float:
        """Return the number of documents, all of which may be clicked."""
        return float(length)

    def merge(self, rankings: list[tuple[Hashable, ...]], length: int, choose: Choose) -> Shown:
        """Return the balanced list, with the ranks of each document in both rankings as evidence."""
        first = choose([0.5, 0.5])
        ranks = [ranks_of(ranking) for ranking in rankings]
        documents: dict[Hashable, None] = {}
        pointer = [0, 0]
        # the ranking with the smaller pointer picks next, or ``first`` on ties; documents in the list are skipped
        while len(documents) < length and (pointer[0] < len(rankings[0]) or pointer[1] < len(rankings[1])):
            turn = first if pointer[0] == pointer[1] else int(pointer[1] < pointer[0])
            if pointer[turn] == len(rankings[turn]):
                turn = 1 - turn
            documents.setdefault(rankings[turn][pointer[turn]])
            pointer[turn] += 1
        evidence = tuple(tuple(rank.get(document) for document in documents) for rank in ranks)
        return Shown(self.name, tuple(documents), 2, evidence)
