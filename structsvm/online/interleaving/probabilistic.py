"""Probabilistic interleaving: sample documents from softmax distributions over rankings, and average the credit for
clicks over all assignments of documents to rankers."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import check_number
from structsvm.common.kernel import kernel
from structsvm.common.portable.elementary import power
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.crediting import ClickedLists, Credits, check_sums
from structsvm.online.interleaving.merging import Choose, Merging, as_rows, ranks_of
from structsvm.protocols import Float


@dataclass(frozen=True)
class Probabilistic(Merging):
    """Probabilistic interleaving and, with more than two rankings, probabilistic multileaving.

    At each rank of the list, a ranker is sampled uniformly, and samples a document not yet shown with probability
    proportional to ``rank^-tau``. The sampled rankers are not recorded: each assignment of documents to rankers is
    weighted by its probability given the list. The credit of a ranker is the probability that it has more clicks than
    another ranker, averaged over the other rankers; for two rankers, the credits sum to 1 minus the probability of a
    tie. The evidence is the probability that each ranker contributed the document.

    Parameters
    ----------
    tau : float, default 3
        Exponent of the decay over ranks; the default is that of both papers.

    Notes
    -----
    Hofmann, Whiteson & de Rijke (CIKM 2011); Schuth et al. (SIGIR 2015). The candidates are the
    documents of all rankings; documents that are missing from a ranking are tied at the rank after its last. The sum
    over ``n^clicks`` assignments is computed exactly by dynamic programming over the clicked documents: the difference
    in clicks of two rankers is a sum of independent steps +1, -1 or 0. If clicks do not depend on the documents, the
    expected outcome is zero.

    Examples
    --------
    >>> shown = Probabilistic().show([["a", "b", "c"], ["b", "c", "a"]], length=2, rng=1)
    >>> shown.documents
    ('b', 'c')
    >>> Probabilistic().credit(shown, [1, 0]).round(4)
    array([0.1111, 0.8889])
    """

    tau: float = 3.0

    name: ClassVar[str] = "probabilistic"
    rankings: ClassVar[str] = "2 or more"
    fairness: ClassVar[str] = "expected outcome 0"
    draws_outcome: ClassVar[bool] = True
    estimand: ClassVar[str] = "expected outcome (1 won, -1 lost)"

    def __post_init__(self) -> None:
        check_number("tau", self.tau, 0)

    def credit_many(self, lists: ClickedLists) -> Credits:
        """Return the probability that each ranker has more clicks than another, averaged over the others.

        The outcome is P(i has more clicks than j) - P(j has more clicks than i).
        """
        check_sums(lists, self.name, axis=1, total=1, least=0)
        n, n_rankers = len(lists.lengths), lists.n_rankers
        credit, outcome = np.zeros((n, n_rankers)), np.empty((n, n_rankers * (n_rankers - 1) // 2))
        _credit(lists.evidence, lists.clicked, credit, outcome)
        return Credits(credit / (n_rankers - 1), outcome, np.ones(n))

    def merge(self, rankings: list[tuple[Hashable, ...]], length: int, choose: Choose) -> Shown:
        candidates = list(dict.fromkeys(document for ranking in rankings for document in ranking))
        ranks = np.array([[ranks_of(r).get(d, len(r) + 1) for d in candidates] for r in rankings])
        # Weights are relative to the best remaining rank, so that powers of large ranks do not underflow. All rankers
        # are equally likely, so a ranker's posterior for a document is its weight divided by the sum of weights.
        n, m = ranks.shape
        left = np.ones(m, dtype=bool)
        documents: list[Hashable] = []
        posterior = np.empty((n, min(length, m)))
        for k in range(posterior.shape[1]):
            behind = np.maximum(ranks / ranks[:, left].min(axis=1, keepdims=True), 1.0)
            weight = np.where(left, power(behind, -self.tau), 0.0)
            weight /= weight.sum(axis=1, keepdims=True)
            column = choose((weight.sum(axis=0) / n).tolist())
            posterior[:, k] = weight[:, column] / weight[:, column].sum()
            documents.append(candidates[column])
            left[column] = False
        return Shown(self.name, tuple(documents), n, as_rows(posterior))


@kernel(inline="always")
def add_click(lead: Float, n_clicks: int, up: float, stay: float, down: float, pair: bool) -> None:
    """Update the distribution of the difference in clicks of two rankers by one more clicked document.

    ``lead[middle + c]`` is the probability that it is ``c`` after ``n_clicks`` clicks; entries beyond are 0. The
    document is of the first ranker with probability ``up``, of the second with ``down``, of neither with ``stay``;
    ``pair`` tells whether there are no other rankers.
    """
    middle, before = len(lead) // 2, 0.0
    if n_clicks == 0:  # the most frequent case
        lead[middle - 1], lead[middle], lead[middle + 1] = down, stay, up
    elif pair and stay == 0.0:
        # every document is of one of the two: differences are all even or all odd, and half of the entries are 0
        for c in range(middle - n_clicks - 1, middle + n_clicks + 2, 2):
            lead[c] = before * up + lead[c + 1] * down
            before, lead[c + 1] = lead[c + 1], 0.0
    else:
        for c in range(middle - n_clicks - 1, middle + n_clicks + 2):
            here = lead[c]
            lead[c] = here * stay + before * up + lead[c + 1] * down
            before = here


@kernel(inline="always")
def take_result(lead: Float, n_clicks: int, step: int) -> tuple[float, float]:
    """Return the probabilities that each of two rankers has more clicks, and reset the distribution; ``step`` is 2 if
    every document is of one of the two, so that differences are all even or all odd, otherwise 1."""
    middle, ahead, behind = len(lead) // 2, 0.0, 0.0
    for c in range(n_clicks, 0, -step):
        ahead += lead[middle + c]
        behind += lead[middle - c]
        lead[middle + c] = lead[middle - c] = 0.0
    lead[middle] = 1.0
    return ahead, behind


@kernel
def _credit(posterior: Float, clicked: NDArray[np.bool_], credit: Float, outcome: Float) -> None:
    """Add the probability of each ranker to have more clicks than each other, and set the outcome of each pair."""
    # Given a list, the documents are assigned independently: the difference of two rankers increases by one with the
    # posterior of the first, and decreases by one with that of the second.
    n, n_rankers, length = posterior.shape
    lead = np.zeros(2 * length + 3)
    lead[length + 1] = 1.0
    for k in range(n):
        pair = 0
        for i in range(n_rankers):
            for j in range(i + 1, n_rankers):
                n_clicks = 0
                for c in range(length):
                    if clicked[k, c]:
                        up, down = posterior[k, i, c], posterior[k, j, c]
                        add_click(lead, n_clicks, up, max(1.0 - up - down, 0.0), down, n_rankers == 2)
                        n_clicks += 1
                ahead, behind = take_result(lead, n_clicks, 1)
                credit[k, i] += ahead
                credit[k, j] += behind
                outcome[k, pair] = ahead - behind
                pair += 1
