"""Simulated click logs with known propensities, in the shapes of real logs; the tests use them, too.

Users are position-based: they examine position ``k`` (from 0) with probability ``1 / (1 + k)``, and click on an
examined document with a probability equal to its attraction for the query.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from structsvm.clicks import ClickCells
from structsvm.online.clicklog import Click, ClickLog, Impression
from structsvm.online.interleaving import Shown


class Lists(NamedTuple):
    """Shown lists: the query of each; documents, positions (from 0) and clicks, by list and document."""

    query: Any
    shown: Any
    place: Any
    clicked: Any

    def counted(self, keep: Any = True, **options: Any) -> ClickCells:
        """Count the impressions that are kept; the ``options`` of ``from_arrays`` have one value per list."""
        n, length = self.shown.shape
        keep = np.broadcast_to(keep, self.shown.shape).ravel()
        columns = (
            np.repeat(self.query, length),
            self.shown.ravel(),
            self.place.ravel() + 1,
            self.clicked.ravel(),
        )
        by_list = {"session": np.arange(n)} | options
        return ClickCells.from_arrays(
            *(v[keep] for v in columns), **{k: np.repeat(v, length)[keep] for k, v in by_list.items()}
        )


def rankings(rng: Any, truth: Any, n_rankers: int = 2, noise: float = 0.5) -> Any:
    """Return orders of the documents by noisy attraction or by noise only, (n_rankers, n_queries, n_documents)."""
    return np.argsort(
        -(truth * np.isfinite(noise) + min(noise, 1.0) * rng.normal(size=(n_rankers, *truth.shape)))
    )


def logged(
    rng: Any,
    n: int,
    truth: Any,
    orders: Any = None,
    *,
    share: Any = None,
    length: int | None = None,
    below: float = 0.0,
) -> Lists:
    """Sample a query (by its share) and a ranker for each of ``n`` lists; some start one position lower."""
    orders = rankings(rng, truth) if orders is None else orders
    query = rng.choice(truth.shape[0], n, p=share)
    shown = orders[rng.integers(0, orders.shape[0], n), query][:, :length]
    place = np.arange(shown.shape[1]) + (rng.random(n) < below)[:, None]
    return Lists(query, shown, place, rng.random(shown.shape) < truth[query[:, None], shown] / (1 + place))


GAPS = {"lost": 0.3, "advertisement": 0.5, "second page": 0.5, "no session": 0.4}
"""Ways in which a log can lack impressions or sessions, and the affected share."""


def with_gaps(
    rng: Any, shape: str, n: int, truth: Any, orders: Any = None, share: float | None = None
) -> ClickCells:
    """Return the counts of lists that lost impressions, have an advertisement on top, are split, or lack a session."""
    share = GAPS[shape] if share is None else share
    lists = logged(rng, n, truth, orders, below=share if shape == "advertisement" else 0.0)
    if shape == "lost":
        return lists.counted(rng.random(lists.shown.shape) >= share)
    if shape == "second page":
        return lists.counted((rng.random(n) < share)[:, None] != (lists.place < truth.shape[1] // 2))
    if shape == "no session":
        return lists.counted(session=np.where(rng.random(n) < share, np.nan, np.arange(float(n))))
    return lists.counted()


def discounted(truth: Any, order: Any, k: int) -> Any:
    """Return the DCG@k of each query for documents in this order, from their attractions, (..., n_queries)."""
    top = order[..., :k]
    found = np.take_along_axis(np.broadcast_to(truth, order.shape), top, axis=-1)
    return (found / np.log2(np.arange(top.shape[-1]) + 2)).sum(axis=-1)


QUERIES = {
    "200 equal": (np.full(200, 1 / 200), 20_000),
    "30 equal": (np.full(30, 1 / 30), 5000),
    "10 equal": (np.full(10, 1 / 10), 5000),
    "3 equal": (np.full(3, 1 / 3), 5000),
    "Zipf 1": (1 / np.arange(1, 201), 10_000),
    "1,000, Zipf 1.5": (np.arange(1, 1001) ** -1.5, 10_000),
    "one of 60 %": (np.r_[0.6, np.full(99, 0.4 / 99)], 10_000),
    "two of 40 %": (np.r_[0.4, 0.4, np.full(98, 0.2 / 98)], 10_000),
    "one of 95 %": (np.r_[0.95, np.full(99, 0.05 / 99)], 10_000),
    "one alone": (np.ones(1), 5000),
}
"""Shares of the queries in a log, and its number of lists."""


def of_queries(rng: Any, name: str, n: int | None = None, *, length: int = 6) -> ClickCells:
    """Return a log of three rankers with these query shares; every document of a query has a different attraction."""
    share, n_lists = QUERIES[name]
    truth = rng.beta(1, 3, (share.size, 12 if share.size == 1 else length + 2))
    orders = rankings(rng, truth, 3, np.inf if share.size == 1 else 0.2)
    return logged(rng, n or n_lists, truth, orders, share=share / share.sum(), length=length).counted()


USERS = {"equal": np.full(200, 1 / 200), "one of 30 %": np.r_[0.3, np.full(199, 0.7 / 199)]}


def of_users(
    rng: Any, n: int, truth: Any, orders: Any = None, *, share: Any = USERS["equal"], repeat: float = 0.0
) -> tuple[Lists, Any]:
    """Return lists of users with different preferences, or of users who repeat their list and clicks."""
    user = rng.choice(len(share), n, p=share)
    lists = logged(rng, n, truth, orders)
    if repeat:
        by_user = np.argsort(user, kind="stable")
        again = (rng.random(n) < repeat) & np.r_[False, np.diff(user[by_user]) == 0]
        source = by_user[np.maximum.accumulate(np.where(again, 0, np.arange(n)))]
        lists = Lists(lists.query[source], lists.shown[source], lists.place[source], lists.clicked[source])
        return lists, user[by_user]
    taste = np.exp(rng.normal(size=(len(share), truth.shape[1])))
    p = np.minimum(truth[lists.query[:, None], lists.shown] * taste[user[:, None], lists.shown], 1)
    return lists._replace(clicked=rng.random(p.shape) < p / (1 + lists.place)), user


def liked(truth: Any) -> Any:
    """Return the mean attraction over users with different preferences."""
    likes = np.exp(np.random.default_rng(1).normal(size=20_000))
    return np.array([np.minimum(one * likes, 1).mean() for one in np.ravel(truth)]).reshape(truth.shape)


def interleaved(outcomes: Iterable[float], users: Iterable[Any]) -> ClickLog:
    """Return a team-draft log with a click for the winner of each list."""
    shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    return ClickLog.of(
        Impression(shown, (Click(1 if x > 0 else 2),) if x else (), user=f"u{u}", rankers=("old", "new"))
        for x, u in zip(outcomes, users, strict=True)
    )


def heavy_user(rng: Any) -> tuple[Any, Any]:
    """Return outcomes and users of an A/A log in which one of 181 biased users has half of the 360 lists."""
    users = np.r_[np.zeros(180, int), np.arange(1, 181)]
    taste = np.clip(0.5 + 0.3 * rng.choice([-1, 1], 181), 0, 1)
    return np.where(rng.random(360) < taste[users], 1.0, -1.0), users
