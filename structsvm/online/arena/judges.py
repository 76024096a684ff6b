"""Agreement of judges: Cohen's kappa with the other judges, and consistency in both orders."""

from dataclasses import dataclass

import numpy as np

from structsvm.online.arena.strengths import FEWEST_CLUSTERS, Z_975
from structsvm.online.arena.votes import Votes
from structsvm.protocols import Float


@dataclass(frozen=True)
class Agreement:
    """How far a judge agrees with the others, and with itself.

    Attributes
    ----------
    judge : str
        Name of the judge.
    n_votes : int
        Number of its votes.
    kappa : float
        Cohen's kappa with the other judges, over all pairs of models and questions that it shares with any of them: 1
        for equal votes, 0 for the agreement that chance would give. By chance either model of a pair wins with the same
        probability, so kappa does not depend on which model is named first: each vote counts in both directions, as a
        win of one model and as a loss of the other. NaN if the judge shares no question, or if all votes are ties.
    lower, upper : float
        95 % interval of kappa, for one look, by the jackknife over questions. NaN for fewer than 10 shared questions,
        and if kappa is the same without any one of them.
    consistency : float
        Share of the pairs and questions, shown to the judge in both orders, on which the same model won (or both were
        ties). NaN if none was shown in both orders.

    Examples
    --------
    >>> one, other = np.array([0, 1]), np.array([1, 0])
    >>> votes = Votes(["x", "y"], one, other, np.array([1.0, 1.0]), question=0 * one, judge=0 * one)
    >>> agreements(votes)
    [Agreement(judge='0', n_votes=2, kappa=nan, lower=nan, upper=nan, consistency=0.0)]
    """

    judge: str
    n_votes: int
    kappa: float
    lower: float
    upper: float
    consistency: float


def agreements(votes: Votes) -> list[Agreement]:
    """Return the agreement of each judge; empty unless judges and questions are known."""
    if votes.judge is None or votes.question is None:
        return []
    # the first vote of a judge on a pair and question in each order: 1 if the model with the lower index won, -1 if it
    # lost, 0 for a tie
    once = votes.once("judge")
    won = np.sign(np.where(once.first < once.second, once.share - 0.5, 0.5 - once.share))
    pair = np.minimum(once.first, once.second) * len(once.models) + np.maximum(once.first, once.second)
    items, item = np.unique(np.stack([pair, np.asarray(once.question)]), axis=1, return_inverse=True)
    (judge, item), row, n_orders = np.unique(
        np.stack([np.asarray(once.judge), item.ravel()]), axis=1, return_inverse=True, return_counts=True
    )
    # the winner of both orders, of which a contradiction is a tie, as a row of the unit matrix; -1 is its last row
    total = np.bincount(row.ravel(), won)
    mine = np.eye(3)[np.sign(total).astype(np.int64)]
    consistent = total**2 == n_orders * np.bincount(row.ravel(), won**2)  # both equal: no variance
    others = np.stack([np.bincount(item, column)[item] for column in mine.T], axis=1) - mine
    n = others.sum(axis=1)
    counts = n, (others * mine).sum(axis=1), others[:, 0], n * mine[:, 0]
    out = []
    for code in np.unique(votes.judge).tolist():
        own = judge == code
        shared, twice = own & (n > 0), consistent[own & (n_orders == 2)]
        question = np.unique(items[1, item[shared]], return_inverse=True)[1]
        by_question = np.array(
            [np.bincount(question, column[shared]) for column in counts], dtype=np.float64
        ).T
        name = votes.judges[code] if code < len(votes.judges) else str(code)
        n_votes, consistency = int((votes.judge == code).sum()), float(twice.mean()) if twice.size else np.nan
        out.append(Agreement(name, n_votes, *_kappa(by_question), consistency))
    return out


def _kappa(counts: Float) -> tuple[float, float, float]:
    """Return kappa and its interval from four counts of each question: votes of others, those equal to the vote of the
    judge, those that are ties, and those for which the vote of the judge is a tie."""

    def kappa(sums: Float) -> Float:
        same, *ties = sums[..., 1:].T / sums[..., 0]
        chance = ties[0] * ties[1] + (1.0 - ties[0]) * (1.0 - ties[1]) / 2.0
        return np.asarray((same - chance) / (1.0 - chance))

    total, n = counts.sum(axis=0), len(counts)
    with np.errstate(invalid="ignore"):  # without votes, or if all are ties, kappa is NaN
        value, left_out = float(kappa(total)), kappa(total - counts)
    if n < FEWEST_CLUSTERS or not np.ptp(left_out) > 0:
        return value, np.nan, np.nan
    error = Z_975 * float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
    return value, max(value - error, -1.0), min(value + error, 1.0)
