"""Team draft: in each round the rankers pick a document in random order; a click credits the ranker that picked the
document."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.crediting import ClickedLists, Credits, check_teams, one_list, signs
from structsvm.online.interleaving.merging import Choose, Merging


@dataclass(frozen=True)
class TeamDraft(Merging):
    """Team-draft interleaving and, with more than two rankings, team-draft multileaving.

    In each round the rankers pick in random order. A ranker picks its best document that is not yet in the
    list. The credit of a ranker is the number of clicks on its picks. The evidence is one row of teams.

    Notes
    -----
    Radlinski, Kurup & Joachims (CIKM 2008; thesis Algorithm 8); Schuth et al. (CIKM 2014).
    If clicks do not depend on the documents, the expected outcome is exactly zero, even if rankings run out of
    documents. For this, teams are assigned only in rounds in which each ranker has a document left, whatever the other
    rankers pick; clicks on later documents credit no ranker. (If rankings run out of documents, Algorithm 8, in which
    a coin flip decides whether the last document counts, is biased.) If rankings are at least as long as the list, each
    document has a team.

    Examples
    --------
    >>> shown = TeamDraft().show([["a", "b", "c", "d"], ["b", "e", "a", "f"]], length=4, rng=0)
    >>> shown.documents, shown.evidence
    (('b', 'a', 'c', 'e'), ((1, 0, 0, 1),))
    >>> TeamDraft().credit(shown, [0, 1, 1, 0])
    array([2., 0.])
    """

    name: ClassVar[str] = "team_draft"
    rankings: ClassVar[str] = "2 or more"
    fairness: ClassVar[str] = "expected outcome 0"
    is_by_team: ClassVar[bool] = True
    estimand: ClassVar[str] = "difference in clicks"

    def credit_many(self, lists: ClickedLists) -> Credits:
        """Return the number of clicks on the picks of each ranker."""
        picked = check_teams(lists)[:, None] == np.arange(lists.n_rankers)[:, None]
        credit = (picked & lists.clicked[:, None]).sum(axis=2).astype(np.float64)
        # the size of the largest team bounds the difference in clicks
        return Credits(credit, signs(credit), picked.sum(axis=2).max(axis=1).astype(np.float64))

    def check_logged(self, shown: Shown) -> None:
        """Raise BadInput if a record assigns two or more documents, all of them to the same team."""
        # Each ranker picks once per round, so a draft never assigns several documents to one team only: the record was
        # changed, and all its clicks would credit one ranker.
        teams = [team for row in shown.evidence for team in row if team is not None]
        if len(teams) > 1 and len(set(teams)) == 1:
            raise BadInput(
                "shown record",
                f"evidence: expected documents of different teams, got all {len(teams)} of team {teams[0]}",
                "log what Shown.to_json() returns, unchanged",
            )

    def bound(self, length: int, n_rankers: int) -> float:
        """Return the size of the largest team."""
        return float(max(-(-length // n_rankers), 1))

    def merge(self, rankings: list[tuple[Hashable, ...]], length: int, choose: Choose) -> Shown:
        documents, teams = draft(rankings, length, choose)
        return Shown(self.name, documents, len(rankings), (teams,))


def draft(
    rankings: list[tuple[Hashable, ...]], length: int, choose: Choose
) -> tuple[tuple[Hashable, ...], tuple[int | None, ...]]:
    """Return the drafted list and the team of each document (None if its assignment to a team would not be fair)."""
    n = len(rankings)
    # the list cannot be longer than the number of distinct documents
    length = min(length, len(set().union(*rankings)))
    fair = n_fair_places(rankings, length)
    documents: list[Hashable] = []
    teams: list[int | None] = []
    drafted: set[Hashable] = set()
    pointer = [0] * n
    waiting: list[int] = []
    # ``waiting`` contains the rankers that have not picked in this round
    while len(documents) < length:
        waiting = waiting or list(range(n))
        ranker = waiting.pop(choose([1 / len(waiting)] * len(waiting)))
        ranking = rankings[ranker]
        # all documents above the pointer have been picked
        while pointer[ranker] < len(ranking) and ranking[pointer[ranker]] in drafted:
            pointer[ranker] += 1
        if pointer[ranker] < len(ranking):
            document = ranking[pointer[ranker]]
            teams.append(ranker if len(documents) < fair else None)
            documents.append(document)
            drafted.add(document)
    return tuple(documents), tuple(teams)


def teams_of(shown: Shown) -> list[int | None]:
    """Return the index of the ranker that contributed each document of a record, or None for no ranker."""
    team = check_teams(one_list(TeamDraft, shown, np.zeros(len(shown.documents))))[0]
    return [None if np.isnan(one) else int(one) for one in team]


def n_fair_places(rankings: list[tuple[Hashable, ...]], length: int) -> int:
    """Return the number of ranks before the first round in which some ranker may have no document left to pick."""
    # Before round t, ranker i has picked t documents. The other rankers have picked at most (n - 1) t of its documents,
    # and only documents that they share with it. The result depends only on the rankings, not on the order of picks,
    # so the assignment of teams is fair.
    n = len(rankings)
    shared = [
        len(set(ranking) & set().union(*rankings[:i], *rankings[i + 1 :]))
        for i, ranking in enumerate(rankings)
    ]
    rounds = n_places = 0
    while n_places < length:
        picks = min(n, length - n_places)
        if any(
            len(ranking) < rounds + 1 + min((n - 1) * rounds + picks - 1, s)
            for ranking, s in zip(rankings, shared, strict=True)
        ):
            break
        n_places += picks
        rounds += 1
    return n_places
