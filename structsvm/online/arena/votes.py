"""Votes between two models, and the comparisons that they enter into the evidence as."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structsvm.common.checks import BadInput, check_choice
from structsvm.protocols import Float, Int

ORDERS = ("matched", "random", "unknown")
CLUSTERS = ("question", "judge", "none")


@dataclass(frozen=True)
class Votes:
    """Pairwise votes in the order in which they were given.

    Attributes
    ----------
    models : list of str
        Models, prompts or rankers, in order of their first vote.
    first, second : ndarray of int64, shape (n_votes,)
        The models of each vote, as positions in ``models``; ``first`` is the one shown first.
    share : ndarray of float64, shape (n_votes,)
        1 where ``first`` won, 0 where ``second`` won, 0.5 for a tie, or another share in between.
    question, judge : ndarray of int64, shape (n_votes,), or None
        Codes of the question and of the judge, where they are known.
    questions : list of str
        The questions of the codes.

    Examples
    --------
    >>> votes = Votes(["a", "b"], np.array([0, 1, 0]), np.array([1, 0, 1]), np.array([1.0, 0.0, 0.5]))
    >>> len(votes), votes.won()
    (3, array([2.5, 0.5]))
    """

    models: list[str]
    first: Int
    second: Int
    share: Float
    question: Int | None = None
    judge: Int | None = None
    questions: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.share)

    def won(self) -> Float:
        """Return the number of votes that each model won; a tie is half a vote for each."""
        n = len(self.models)
        won = np.concatenate([self.share, 1.0 - self.share])
        return np.asarray(np.bincount(np.concatenate([self.first, self.second]), won, n), dtype=np.float64)

    def counts(self) -> Float:
        """Return the number of votes of each model."""
        n = len(self.models)
        return np.bincount(np.concatenate([self.first, self.second]), minlength=n).astype(np.float64)

    def clusters(self, cluster: str | None) -> tuple[str, Int | None]:
        """Return the name of the column whose votes are dependent, and its codes; None: the question, where known."""
        name = ("none" if self.question is None else "question") if cluster is None else cluster
        check_choice("cluster", name, CLUSTERS)
        codes = {"question": self.question, "judge": self.judge, "none": None}[name]
        if name != "none" and codes is None:
            raise BadInput(
                "cluster",
                f"expected votes with a column {name!r}",
                "give the column, or use 'none'",
                value=cluster,
            )
        return name, codes


@dataclass(frozen=True)
class Comparisons:
    """What the votes enter into the evidence as: independent comparisons of pairs, in their order.

    Attributes
    ----------
    first, second : ndarray of int64
        The pair, the model of the lower number first.
    share : ndarray of float64
        What ``first`` won.
    at : ndarray of int64
        Number of votes that had been given when the comparison was complete.
    waiting, repeated : int
        Votes that wait for one in the other order (or for the end of their question), and votes on a pair and question
        that had ended before.
    """

    first: Int
    second: Int
    share: Float
    at: Int
    waiting: int
    repeated: int


def comparisons(votes: Votes, order: str = "matched", cluster: str | None = None) -> Comparisons:
    """Return independent comparisons made of the votes.

    Adjacent votes on one pair and question (or judge) are one outcome, their mean, which is complete when another vote
    follows; later ones on the same pair and question are left out. With ``order="matched"`` the k-th outcome in which
    one of a pair was shown first and the k-th in which the other was are one comparison, so that an advantage of what
    is shown first cancels.
    """
    check_choice("order", order, ORDERS)
    _, codes = votes.clusters(cluster)
    n, n_models = len(votes), len(votes.models)
    low, high = np.minimum(votes.first, votes.second), np.maximum(votes.first, votes.second)
    swapped = votes.first > votes.second
    share = np.where(swapped, 1.0 - votes.share, votes.share)
    pair = low * n_models + high
    if codes is None:
        starts = np.arange(n)
        kept = np.ones(n, dtype=bool)
    else:
        key = np.unique(np.stack([pair, codes]), axis=1, return_inverse=True)[1].ravel()
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        kept = np.zeros(len(starts), dtype=bool)
        kept[np.unique(key[starts], return_index=True)[1]] = True
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=n))
    repeated = int(n - kept[run].sum())
    # a run is complete with its one vote, or when a vote on something else follows: the last one is still open
    complete = np.append(starts[1:], n) + (codes is not None)
    kept &= complete <= n
    # the votes of a run by the order of the pair; one column where orders are not told apart
    side = swapped.astype(np.int64) * (order == "matched")
    count = np.zeros((len(starts), 2))
    total = np.zeros((len(starts), 2))
    np.add.at(count, (run, side), 1.0)
    np.add.at(total, (run, side), share)
    pair_of_run = pair[starts]
    if order != "matched":
        chosen = np.flatnonzero(kept)
        mean = total[chosen, 0] / count[chosen, 0]
        waiting = n - repeated - int(count[chosen].sum())
        return _comparisons(pair_of_run[chosen], mean, complete[chosen], n_models, waiting, repeated)
    outcomes = []
    for column in (0, 1):
        chosen = np.flatnonzero(kept & (count[:, column] > 0))
        chosen = chosen[np.argsort(pair_of_run[chosen], kind="stable")]
        pairs = pair_of_run[chosen]
        # number of the outcome within its pair
        _, begin, size = np.unique(pairs, return_index=True, return_counts=True)
        number = np.arange(len(pairs)) - np.repeat(begin, size)
        outcomes.append((pairs * (n + 1) + number, chosen))
    _, here, there = np.intersect1d(outcomes[0][0], outcomes[1][0], assume_unique=True, return_indices=True)
    one, other = outcomes[0][1][here], outcomes[1][1][there]
    mean = (total[one, 0] / count[one, 0] + total[other, 1] / count[other, 1]) / 2.0
    waiting = n - repeated - int(count[one, 0].sum() + count[other, 1].sum())
    return _comparisons(
        pair_of_run[one], mean, np.maximum(complete[one], complete[other]), n_models, waiting, repeated
    )


def _comparisons(pair: Int, share: Float, at: Int, n_models: int, waiting: int, repeated: int) -> Comparisons:
    by_time = np.argsort(at, kind="stable")
    pair = pair[by_time]
    return Comparisons(pair // n_models, pair % n_models, share[by_time], at[by_time], waiting, repeated)
