"""Optimised interleaving: the most sensitive fair distribution over lists, computed by linear programming."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_whole
from structsvm.common.portable.elementary import log
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.crediting import (
    ClickedLists,
    Credits,
    check_sums,
    shares_of_largest,
    sums_of_clicked,
)
from structsvm.online.interleaving.merging import Merging, as_rows, check_rankings, random_choices, ranks_of


@dataclass(frozen=True)
class Optimized(Merging):
    """Optimised interleaving and, with more than two rankings, optimised multileaving.

    A list is allowed if the document at each rank is the best remaining document of some ranking. A click credits each
    ranker with ``1 / rank`` of the document in its ranking (a missing document has the rank after the last). A linear
    program (HiGHS) computes the most sensitive distribution over allowed lists, among the distributions for which all
    rankers have the same expected credit at each rank. The evidence is the credit of each ranker for a click.

    Parameters
    ----------
    max_lists : int, default 1024
        Largest number of lists in the linear program. If more lists are allowed (with the default, never for two
        rankings and lists of 10 documents), ``max_lists`` lists are sampled.

    Notes
    -----
    Radlinski & Craswell (WSDM 2013): rank ``k`` is clicked with weight ``1/k``, normalised to sum to one; the
    sensitivity is the entropy of the credited ranker, times the weight of the ranks at which the credits differ. For
    more rankers, Schuth et al. (CIKM 2014) minimise the variance of the credits of the rankers. Credits are centred by
    subtracting their mean over the rankers, so if clicks do not depend on the documents, the expected credit is zero at
    each rank. If the program has no solution (few documents, or many rankers on sampled lists), the largest violation
    at any rank is minimised and recorded as ``slack``.

    Examples
    --------
    >>> method = Optimized()
    >>> for shown, p in method.distribution([["a", "b", "c"], ["b", "a", "c"]], length=2):
    ...     print(shown.documents, round(p, 3))
    ('a', 'b') 0.5
    ('b', 'a') 0.5
    >>> method.credit(shown, [1, 0])
    array([-0.25,  0.25])
    """

    max_lists: int = 1024

    name: ClassVar[str] = "optimized"
    rankings: ClassVar[str] = "2 or more"
    fairness: ClassVar[str] = "expected centred credit 0 at every rank"
    draws_outcome: ClassVar[bool] = True
    estimand: ClassVar[str] = "difference in credit per click, as a share of the largest possible"

    def __post_init__(self) -> None:
        check_whole("max_lists", self.max_lists)

    def show(self, rankings: Sequence[Sequence[Hashable]], length: int = 10, rng: Any = None) -> Shown:
        """Merge rankings of any hashable ids, best first, into a list of at most ``length`` documents.

        The ``slack`` of the record is 0 if the distribution is fair; ``rng`` is a generator, a seed or None.
        """
        ordered, order = _in_one_order(check_rankings(rankings, length))
        generator = np.random.default_rng(rng)
        # solve the program for all allowed lists, or for a sample of them, and draw one list from the solution
        lists = allowed_lists(ordered, length, self.max_lists)
        if lists is None:
            lists = _sampled_lists(ordered, length, self.max_lists, generator)
        solved = self._solve(ordered, order, lists)
        return solved[random_choices(generator)([p for _, p in solved])][0]

    def distribution(
        self, rankings: Sequence[Sequence[Hashable]], length: int = 10
    ) -> list[tuple[Shown, float]]:
        """Return each list that ``show`` can return, with its probability in the solution of the linear program."""
        ordered, order = _in_one_order(check_rankings(rankings, length))
        lists = allowed_lists(ordered, length, self.max_lists)
        if lists is None:
            raise BadInput(
                "distribution",
                f"more than max_lists={self.max_lists} allowed lists",
                "increase max_lists or decrease length",
            )
        return self._solve(ordered, order, lists)

    def credit_many(self, lists: ClickedLists) -> Credits:
        """Return the centred credits, which sum to 0, and as outcome their difference per click."""
        check_sums(lists, self.name, axis=1, total=0)
        credit = sums_of_clicked(lists)
        # centred credits are 1 / rank minus the mean; for one click, those of two rankers differ by less than 1
        return Credits(credit, shares_of_largest(lists, credit, 1.0), np.ones(len(credit)))

    def _solve(
        self, rankings: list[tuple[Hashable, ...]], order: list[int], lists: list[tuple[Hashable, ...]]
    ) -> list[tuple[Shown, float]]:
        """Return the lists of positive probability and their probabilities; credits are in the caller's order."""
        by_document = {}
        ranks = [ranks_of(ranking) for ranking in rankings]
        for document in dict.fromkeys(d for shown in lists for d in shown):
            rank = np.array([r.get(document, len(r) + 1) for r in ranks], dtype=np.float64)
            # the rankers' credits of a document sum to zero
            by_document[document] = 1 / rank - (1 / rank).mean()
        # credit[list, ranker, rank in the list]
        credit = np.array([np.column_stack([by_document[d] for d in shown]) for shown in lists])
        probability, slack = fair_distribution(credit, sensitivity(credit))
        return [
            (
                Shown(self.name, lists[i], len(rankings), as_rows(credit[i, order]), slack),
                float(probability[i]),
            )
            for i in np.flatnonzero(probability)
        ]


def allowed_lists(
    rankings: list[tuple[Hashable, ...]], length: int, max_lists: int
) -> list[tuple[Hashable, ...]] | None:
    """Return all allowed lists, or None if there are more than ``max_lists``."""
    # extend each list, rank by rank, by the best remaining document of each ranking
    lists: list[tuple[Hashable, ...]] = [()]
    for _ in range(min(length, len(set().union(*rankings)))):
        lists = [(*start, document) for start in lists for document in _next_documents(rankings, start)]
        if len(lists) > max_lists:
            return None
    return lists


def sensitivity(credit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sensitivity of each list; ``credit`` (lists, rankers, ranks) is centred.

    It is the entropy of Radlinski & Craswell for two rankers, and the negative variance of Schuth et al. for more.
    """
    weight = 1 / np.arange(1, credit.shape[2] + 1)
    weight /= weight.sum()
    if credit.shape[1] > 2:
        return -np.asarray(np.square((credit * weight).sum(axis=-1)).sum(axis=1))
    # share: total weight of the ranks at which each ranker is ahead; p: share divided by the sum of both shares
    share = (np.stack([credit[:, 0] > credit[:, 1], credit[:, 1] > credit[:, 0]]) * weight).sum(axis=-1)
    decided = share.sum(axis=0)
    p = np.divide(share, decided, out=np.ones_like(share), where=share > 0)
    return np.asarray(-(decided * (p * log(p)).sum(axis=0)))


def fair_distribution(
    credit: NDArray[np.float64], sensitivity: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the most sensitive distribution over lists with zero expected credit at each rank, and its largest
    violation of this constraint."""
    n_lists = credit.shape[0]
    # credits are centred, so the constraints of the last ranker follow from those of the other rankers
    rows = credit[:, :-1].reshape(n_lists, -1).T
    fair = _highs(
        -sensitivity, A_eq=np.vstack([rows, np.ones(n_lists)]), b_eq=np.append(np.zeros(rows.shape[0]), 1.0)
    )
    if fair.status == 0:
        return _cleaned(fair.x), 0.0
    # There is no fair distribution: minimise the largest violation t, an additional variable, subject to
    # -t <= expected credit <= t.
    every = credit.reshape(n_lists, -1).T
    border = -np.ones((every.shape[0], 1))
    within = {
        "A_ub": np.vstack([np.hstack([every, border]), np.hstack([-every, border])]),
        "b_ub": np.zeros(2 * every.shape[0]),
        "A_eq": np.append(np.ones(n_lists), 0.0)[None, :],
        "b_eq": [1.0],
    }
    least = _highs(np.append(np.zeros(n_lists), 1.0), **within)
    if least.status != 0:
        raise RuntimeError(f"optimised interleaving: HiGHS found no distribution at all: {least.message}")
    # then maximise the sensitivity with a violation of at most t, plus a tolerance for rounding
    best = _highs(
        np.append(-sensitivity, 0.0), **within, bounds=[(0, None)] * n_lists + [(0, least.x[-1] + 1e-9)]
    )
    probability = _cleaned((best if best.status == 0 else least).x[:-1])
    return probability, float(np.abs((every * probability).sum(axis=-1)).max())


def _in_one_order(rankings: list[tuple[Hashable, ...]]) -> tuple[list[tuple[Hashable, ...]], list[int]]:
    """Return the rankings in sorted order, and the index of each original ranking in this order.

    A linear program may have several solutions, and the solution of HiGHS must not depend on the order of the rankers.
    """
    order = sorted(range(len(rankings)), key=lambda i: repr(rankings[i]))
    return [rankings[i] for i in order], [order.index(i) for i in range(len(rankings))]


def _highs(cost: NDArray[np.float64], **constraints: Any) -> Any:
    from scipy.optimize import linprog

    # tighter than the default 1e-7 of HiGHS, so that fairness holds to 1e-9
    options: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(cost, method="highs", options=options, **constraints)


def _cleaned(x: NDArray[np.float64]) -> NDArray[np.float64]:
    probability = np.where(x > 1e-12, x, 0.0)
    return np.asarray(probability / probability.sum())


def _next_documents(rankings: list[tuple[Hashable, ...]], start: Sequence[Hashable]) -> list[Hashable]:
    # each head is a list of at most one document, not an optional id, since an id may be None
    heads = ([d for d in ranking if d not in start][:1] for ranking in rankings)
    return list(dict.fromkeys(d for head in heads for d in head))


def _sampled_lists(
    rankings: list[tuple[Hashable, ...]], length: int, max_lists: int, rng: np.random.Generator
) -> list[tuple[Hashable, ...]]:
    length = min(length, len(set().union(*rankings)))
    lists: dict[tuple[Hashable, ...], None] = {}
    for _ in range(max_lists):
        # a random ranker contributes the next document, as in a draft without teams
        documents: list[Hashable] = []
        while len(documents) < length:
            documents += _next_documents([rankings[int(rng.integers(len(rankings)))]], documents)
        lists[tuple(documents)] = None
    return list(lists)
