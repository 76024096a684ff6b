"""The fourteen click features of the thesis: differences between the clicks of two teams."""

from itertools import pairwise

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.portable.arrays import dot
from structsvm.online.clicklog import ClickLog, Impression
from structsvm.online.interleaving.team_draft import teams_of
from structsvm.protocols import Float

FEATURES = (
    "click",
    "download",
    "more clicks & downloads",
    "equal clicks x title bold",
    "equal clicks x abstract bold",
    "single click, rank > 1",
    "single click, rank <= 10",
    "multi, first click",
    "multi, last click",
    "multi, first click, rank > 1",
    "multi, rank 1",
    "multi, rank <= 3",
    "multi, rank <= 10",
    "multi, regression click",
)
"""Names of the features 1, 2, 3, 4a, 4b, 5a, 5b, 6a-6g of the thesis (7.3.2, Table 7.1), in this order."""


_GROWING = np.array([1, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1])
_BOUNDED = np.array([0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 3, 0, 0])
"""Largest value of each feature for a team: per click, and in addition whatever the number of clicks."""


def most_features(weights: Float, n_clicks: float) -> float:
    """Return a bound on the weighted features of a team with at most ``n_clicks`` clicks."""
    return dot(np.abs(weights), _GROWING * n_clicks + _BOUNDED)


def click_features(impression: Impression, own: int = 0, other: int = 1) -> Float:
    """Return ``Phi(q, C_own, C_other)``: fourteen features of the clicks of team ``own`` minus those of ``other``.

    An attribute that is not logged counts as absent. Ranks of later pages continue those of the previous page
    (``offset``). Clicks of other teams only affect whether the query has a single click, and which click was first and
    last (thesis eq. 7.2 and section 7.3.2; "followed by a click" refers to the next click).
    """
    shown, clicks = impression.shown, impression.clicks or ()
    if shown.method != "team_draft":
        raise BadInput(
            "click features need teams",
            f"expected records of 'team_draft', got {shown.method!r}",
            "use the credit of that method",
        )
    team_of, order = teams_of(shown), [click.rank for click in clicks]
    downloaded = {click.rank for click in clicks if click.download}
    regressed = {rank for rank, following in pairwise(order) if following < rank}
    # a document clicked twice counts once, as in ``TeamDraft.credit``: C_own and C_other are sets
    documents = list(dict.fromkeys(order))
    single, multi = len(documents) == 1, len(documents) > 1
    teams = {team: [rank for rank in documents if team_of[rank - 1] == team] for team in (own, other)}
    n = {team: len(clicked) for team, clicked in teams.items()}
    downloads = {team: len(downloaded.intersection(clicked)) for team, clicked in teams.items()}
    words = impression.query_words
    phi = np.zeros(len(FEATURES))
    for team, rival, sign in ((own, other, 1.0), (other, own, -1.0)):
        # feature 3 is divided among the clicks of the team, so that it counts once per query
        more = n[team] > n[rival] and downloads[team] > downloads[rival]
        for rank in teams[team]:
            # 4a, 4b: bold words divided by query words, only if both teams have the same number of clicks
            title = abstract = 0.0
            if words and n[team] == n[rival]:
                if impression.title_bold is not None:
                    title = min(impression.title_bold[rank - 1] / words, 1.0)
                if impression.abstract_bold is not None:
                    abstract = min(impression.abstract_bold[rank - 1] / words, 2.0)
            first, position = multi and rank == order[0], shown.offset + rank
            phi += sign * np.array(
                [
                    # in the order of FEATURES: 1, 2, 3, 4a, 4b, 5a, 5b, 6a-6g
                    1.0,
                    rank in downloaded,
                    more / n[team],
                    title,
                    abstract,
                    single and position > 1,
                    single and position <= 10,
                    first,
                    multi and rank == order[-1],
                    first and position > 1,
                    multi and position == 1,
                    multi and position <= 3,
                    multi and position <= 10,
                    multi and rank in regressed,
                ],
                dtype=np.float64,
            )
    return phi


def psi(log: ClickLog, own: int = 0, other: int = 1) -> Float:
    """Return ``Psi_j`` per impression, (n_impressions, n_features): ``psi(log) @ w`` is the statistic ``delta_w``.

    For learning, ``own`` is the better ranker.
    """
    compared = [(k, one) for k, one in enumerate(log.impressions) if not one.same]
    if not compared:
        raise BadInput("psi", "expected at least one impression on which the rankers differ, got none")
    rows = []
    for k, impression in compared:
        try:
            rows.append(click_features(impression, own, other))
        except ValueError as error:
            raise BadInput(log.place(k), f"{error}") from None
    return np.array(rows, dtype=np.float64)
