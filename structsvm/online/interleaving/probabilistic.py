"""Probabilistic interleaving: sample documents from softmax distributions over rankings, and average the credit for
clicks over all assignments of documents to rankers."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import check_number
from structsvm.common.portable.elementary import power
from structsvm.online.interleaving.chance import Choose, ListsByChoices
from structsvm.online.interleaving.record import Shown, as_rows, clicks_on, evidence_matrix, ranks_of


@dataclass(frozen=True)
class Probabilistic(ListsByChoices):
    """Probabilistic interleaving and, with more than two rankings, probabilistic multileaving.

    At each rank of the list, a ranker is sampled uniformly, and samples a document not yet shown with probability
    proportional to ``rank^-tau``. The sampled rankers are not recorded: each assignment of documents to rankers is
    weighted by its probability given the list. The credit of a ranker is the probability that it has more clicks than
    another ranker, averaged over the other rankers; for two rankers, the credits sum to 1 minus the probability of a
    tie.

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

    def __post_init__(self) -> None:
        check_number("tau", self.tau, 0)

    def credit(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that each ranker has more clicks than another ranker, averaged over the others,
        (n_rankers,)."""
        wins = self._duels(shown, clicks)
        return np.asarray(wins.sum(axis=1) / (shown.n_rankers - 1))

    def outcome(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return P(i has more clicks than j) - P(j has more clicks than i) for each pair, (n_rankers, n_rankers)."""
        wins = self._duels(shown, clicks)
        return wins - wins.T

    def _duels(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        clicked = clicks_on(shown, self.name, clicks)
        return duel_probabilities(evidence_matrix(shown, axis=0, total=1, least=0)[None, :, clicked])[0]

    def _merge(self, rankings: list[tuple[Hashable, ...]], length: int, choose: Choose) -> Shown:
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


def duel_probabilities(posterior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each list the probability that ranker i is assigned more of the clicked documents than ranker j.

    ``posterior`` is (n_lists, n_rankers, n_clicked). Given a list, the documents are assigned independently.
    """
    # Dynamic programming over the clicked documents: the difference i - j increases by one with probability
    # p_i, decreases by one with probability p_j, and otherwise stays. All lists and ordered pairs are processed at
    # once.
    m, n, n_clicked = posterior.shape
    i, j = np.nonzero(~np.eye(n, dtype=bool))
    up_down = posterior[:, i], posterior[:, j]
    # difference[..., c + n_clicked] = P(clicks of i - clicks of j = c)
    difference = np.zeros((m, len(i), 2 * n_clicked + 1))
    difference[..., n_clicked] = 1.0
    for c in range(n_clicked):
        up, down = (side[:, :, c, None] for side in up_down)
        following = difference * np.maximum(1 - up - down, 0.0)
        following[..., 1:] += difference[..., :-1] * up
        following[..., :-1] += difference[..., 1:] * down
        difference = following
    wins = np.zeros((m, n, n))
    wins[:, i, j] = difference[..., n_clicked + 1 :].sum(axis=2)
    return wins
