"""Agreement of judges: Cohen's kappa with the other judges, and consistency in both orders."""

from dataclasses import dataclass

import numpy as np

from structsvm.online.arena.votes import Votes


@dataclass(frozen=True)
class Agreement:
    """How far a judge agrees with the others, and with itself.

    Attributes
    ----------
    judge : str
        Name of the judge.
    n_votes : int
        Number of its votes.
    kappa : float or None
        Cohen's kappa with the other judges, over all pairs of models and questions that it shares with any of them: 1
        for equal votes, 0 for the agreement that chance would give. None if it shares none, or if it is undefined.
    consistency : float or None
        Share of the pairs and questions, shown to the judge in both orders, on which the same model won (or both were
        ties). None if none was shown in both orders.

    Examples
    --------
    >>> one, other = np.array([0, 1]), np.array([1, 0])
    >>> votes = Votes(["x", "y"], one, other, np.array([1.0, 1.0]), question=0 * one, judge=0 * one)
    >>> agreements(votes)
    [Agreement(judge='0', n_votes=2, kappa=None, consistency=0.0)]
    """

    judge: str
    n_votes: int
    kappa: float | None
    consistency: float | None


def agreements(votes: Votes) -> list[Agreement]:
    """Return the agreement of each judge; empty unless judges and questions are known."""
    if votes.judge is None or votes.question is None:
        return []
    # the first vote of a judge on a pair and question in each order: 1 if the model with the lower index won, -1 if it
    # lost, 0 for a tie
    once = votes.once("judge")
    swapped = once.first > once.second
    won = np.sign(np.where(swapped, 0.5 - once.share, once.share - 0.5)).astype(np.int64)
    pair = np.minimum(once.first, once.second) * len(once.models) + np.maximum(once.first, once.second)
    item = np.unique(np.stack([pair, np.asarray(once.question)]), axis=1, return_inverse=True)[1].ravel()
    judges, of_vote = np.unique(votes.judge), np.asarray(once.judge)
    of_judge: list[dict[int, dict[bool, int]]] = []
    for judge in judges:
        seen: dict[int, dict[bool, int]] = {}
        for k in np.flatnonzero(of_vote == judge):
            seen.setdefault(int(item[k]), {})[bool(swapped[k])] = int(won[k])
        of_judge.append(seen)
    # the winner of both orders; a contradiction is a tie
    winners = [{one: int(np.sign(sum(by.values()))) for one, by in seen.items()} for seen in of_judge]
    out = []
    for number, (judge, seen) in enumerate(zip(judges.tolist(), of_judge, strict=True)):
        both = [len(set(by.values())) == 1 for by in seen.values() if len(by) == 2]
        shared = [
            (winners[number][one], other[one])
            for j, other in enumerate(winners)
            if j != number
            for one in other.keys() & winners[number].keys()
        ]
        name = votes.judges[judge] if judge < len(votes.judges) else str(judge)
        consistency = float(np.mean(both)) if both else None
        out.append(Agreement(name, int((votes.judge == judge).sum()), _kappa(shared), consistency))
    return out


def _kappa(pairs: list[tuple[int, int]]) -> float | None:
    """Return Cohen's kappa; None if all votes are equal, so that chance agrees, too."""
    from sklearn.metrics import cohen_kappa_score

    if len({vote for pair in pairs for vote in pair}) < 2:
        return None
    return float(cohen_kappa_score(*zip(*pairs, strict=True)))
