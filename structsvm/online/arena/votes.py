"""Pairwise votes, and the independent comparisons that they form."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.event_logs import Dropped
from structsvm.protocols import Float, Int

ORDERS = ("matched", "random", "unknown")
CLUSTERS = ("question", "judge", "none")


@dataclass(frozen=True)
class Votes:
    """Pairwise votes, in the order in which they were given.

    Attributes
    ----------
    models : list of str
        Models, prompts or rankers, in order of their first vote.
    first, second : ndarray of int64, shape (n_votes,)
        The models of each vote, as indices into ``models``; ``first`` was shown first.
    share : ndarray of float64, shape (n_votes,)
        1 if ``first`` won, 0 if ``second`` won, 0.5 for a tie, or any share in between.
    question, judge : ndarray of int64, shape (n_votes,), or None
        Codes of the question and of the judge, if they are known.
    questions : tuple of str
        The question of each code. Votes without a question have larger codes, all distinct.
    judges : tuple of str
        The judge of each code, as for ``questions``.
    dropped : dict of str to int
        Number of votes left out by the reader, by reason.

    Examples
    --------
    >>> votes = Votes(["a", "b"], np.array([0, 1, 0]), np.array([1, 0, 1]), np.array([1.0, 0.0, 0.5]))
    >>> len(votes), votes.wins()
    (3, array([[0. , 2.5],
           [0.5, 0. ]]))
    """

    models: list[str]
    first: Int
    second: Int
    share: Float
    question: Int | None = None
    judge: Int | None = None
    questions: tuple[str, ...] = ()
    dropped: Dropped = field(default_factory=Dropped)
    judges: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.share)

    def tables(self) -> tuple[Float, Float]:
        """Return two square matrices: the number of votes with i shown before j, and how many of them i won."""
        plays, won = np.zeros((2, len(self.models), len(self.models)))
        np.add.at(plays, (self.first, self.second), 1.0)
        np.add.at(won, (self.first, self.second), self.share)
        return plays, won

    def wins(self) -> Float:
        """Return a matrix of how many votes i won against j, in either order of showing; a tie is half a vote."""
        plays, won = self.tables()
        return np.asarray(won + (plays - won).T)

    def take(self, rows: Int) -> Self:
        """Return some of the votes, in the order of ``rows``."""
        columns = {n: getattr(self, n) for n in ("first", "second", "share", "question", "judge")}
        moved: dict[str, Any] = {name: one if one is None else one[rows] for name, one in columns.items()}
        return replace(self, **moved)

    def once(self, cluster: str) -> Self:
        """Return the first vote of each pair, question and order (and judge, if judges are the clusters)."""
        if self.question is None or cluster == "none":
            return self
        key = (self.first * len(self.models) + self.second) * (self.question.max() + 1) + self.question
        if cluster == "judge" and self.judge is not None:
            key = np.unique(key, return_inverse=True)[1] * (self.judge.max() + 1) + self.judge
        return self.take(np.sort(np.unique(key, return_index=True)[1]))

    def in_turns(self) -> bool:
        """Return whether judges voted one after the other, each on questions of their own."""
        if self.judge is None or len(self) < 2:
            return False
        if self.question is not None:
            both = np.unique(np.stack([self.question, self.judge]), axis=1)
            if both.shape[1] > len(np.unique(self.question)):
                return False
        # Compare how often a vote follows one of the same judge with the probability of that in random order. This does
        # not depend on the winners, so the choice of the clusters does not affect the level.
        sizes = np.unique(self.judge, return_counts=True)[1] / len(self)
        return bool((np.diff(self.judge) == 0).mean() > (1 + (sizes**2).sum()) / 2)

    def clusters(self, cluster: str | None) -> tuple[str, Int | None]:
        """Return the name and codes of the column that groups dependent votes.

        By default these are judges if they voted in turns, otherwise the questions.
        """
        usual = "judge" if self.in_turns() else "none" if self.question is None else "question"
        name = usual if cluster is None else cluster
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
    """Independent comparisons of pairs, in the order in which they were completed; the evidence is computed from them.

    Attributes
    ----------
    first, second : ndarray of int64
        The pair, with the lower model index first.
    share : ndarray of float64
        Share that ``first`` won.
    at : ndarray of int64
        Number of votes up to and including the vote that completed the comparison.
    waiting, repeated : int
        Numbers of votes that are part of no comparison: ``waiting`` votes, which still lack a vote in the other order
        or the end of their run, and ``repeated`` votes, which return to a pair and question after other votes.
    """

    first: Int
    second: Int
    share: Float
    at: Int
    waiting: int
    repeated: int


def comparisons(votes: Votes, order: str = "matched", cluster: str | None = None) -> Comparisons:
    """Return the independent comparisons that the votes form.

    Adjacent votes on one pair and question (or judge) form one outcome, their mean, which is complete when a vote on
    another pair or question follows; later votes on the same pair and question are left out. With ``order="matched"``,
    the k-th outcome with one model of a pair shown first and the k-th outcome with the other model first form one
    comparison, so that an advantage of the model shown first cancels.
    """
    check_choice("order", order, ORDERS)
    _, codes = votes.clusters(cluster)
    n, n_models = len(votes), len(votes.models)
    low, high = np.minimum(votes.first, votes.second), np.maximum(votes.first, votes.second)
    swapped = votes.first > votes.second
    share = np.where(swapped, 1.0 - votes.share, votes.share)
    pair = low * n_models + high
    # A run is a maximal sequence of adjacent votes on one pair and cluster. Only the first run of each key is kept:
    # a voter who returns to a question knows the outcome, so that the new votes would depend on it.
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
    # Without clusters a run is complete with its single vote. With clusters it is complete once a vote on another pair
    # or cluster follows, so the last run is still open; otherwise an outcome would depend on the time of the look.
    complete = np.append(starts[1:], n) + (codes is not None)
    kept &= complete <= n
    # count and total share of each run by the order of showing; one column if orders are not distinguished
    side = swapped.astype(np.int64) * (order == "matched")
    count, total = np.zeros((2, len(starts), 2))
    np.add.at(count, (run, side), 1.0)
    np.add.at(total, (run, side), share)
    pair_of_run = pair[starts]
    if order != "matched":
        one = np.flatnonzero(kept)
        used, mean, at = count[one, 0].sum(), total[one, 0] / count[one, 0], complete[one]
    else:
        # number the outcomes of each pair by order of showing, and match outcomes with the same number
        outcomes = []
        for column in (0, 1):
            chosen = np.flatnonzero(kept & (count[:, column] > 0))
            chosen = chosen[np.argsort(pair_of_run[chosen], kind="stable")]
            pairs = pair_of_run[chosen]
            _, begin, size = np.unique(pairs, return_index=True, return_counts=True)
            outcomes.append((pairs * (n + 1) + (np.arange(len(pairs)) - np.repeat(begin, size)), chosen))
        (one_keys, ones), (other_keys, others) = outcomes
        _, here, there = np.intersect1d(one_keys, other_keys, assume_unique=True, return_indices=True)
        one, other = ones[here], others[there]
        used = count[one, 0].sum() + count[other, 1].sum()
        mean = (total[one, 0] / count[one, 0] + total[other, 1] / count[other, 1]) / 2.0
        at = np.maximum(complete[one], complete[other])
    by_time = np.argsort(at, kind="stable")
    low, high = np.divmod(pair_of_run[one][by_time], n_models)
    return Comparisons(low, high, mean[by_time], at[by_time], n - repeated - int(used), repeated)
