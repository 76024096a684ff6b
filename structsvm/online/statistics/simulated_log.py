"""Simulated click logs from labelled data: rankers, an interleaver and a simulated user."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_whole
from structsvm.online.clicklog import Click, Impression
from structsvm.online.impressions.shown import Shown
from structsvm.protocols import ClickModel, Interleaver
from structsvm.queries import QueryData

_SECONDS_PER_PLACE = 3.0
_SECONDS_OF_DWELL = 20.0


def simulate_log(
    data: QueryData,
    scores: ArrayLike,
    interleaver: Interleaver[Shown],
    click_model: ClickModel,
    n_impressions: int,
    *,
    length: int = 10,
    rankers: Sequence[str] = (),
    n_users: int | None = None,
    rng: Any = None,
) -> Iterator[Impression]:
    """Simulate a click log: interleaved lists of random queries, shown to simulated users.

    Parameters
    ----------
    data : QueryData
        Documents to rank; ``y`` contains the grades, as integers that the click model accepts.
    scores : array-like, shape (n_rows, n_rankers)
        Scores of the rankers; higher is better. Ties are broken at random, once for the whole log.
    interleaver : Interleaver
        Method that combines the rankings.
    click_model : ClickModel
        Model of the users' clicks.
    n_impressions : int
        Number of impressions to simulate.
    length : int, default=10
        Number of documents shown per list.
    rankers : sequence of str, optional
        Names of the rankers.
    n_users : int, optional
        Number of users; each impression is shown to a random user. By default no users are logged.
    rng : Generator, int or None
        Generator or seed; None gives a different log at each call.

    Yields
    ------
    Impression
        Clicks in order from the top, with synthetic times (a few seconds per rank) and dwell times, which increase with
        the grade.

    Examples
    --------
    >>> from structsvm.online.users import CascadeUser
    >>> from structsvm.online.interleaving import TeamDraft
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(5, 8, 2, grades=3)
    >>> impressions = simulate_log(data, data.X, TeamDraft(), CascadeUser.named("perfect", 3), 2, length=3, rng=0)
    >>> [len(impression.shown.documents) for impression in impressions]
    [3, 3]
    """
    table = np.asarray(scores.toarray() if hasattr(scores, "toarray") else scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != data.n_rows or table.shape[1] < 2:
        raise BadInput(
            "scores",
            f"expected a row for each of {data.n_rows} documents and a column for each of two or more "
            f"rankers, got shape {table.shape}",
        )
    if np.isnan(table).any():
        raise BadInput("scores", "expected numbers, got NaN")
    check_whole("n_impressions", n_impressions)
    if n_users is not None:
        check_whole("n_users", n_users)
    generator = np.random.default_rng(rng)
    offsets = data.offsets
    filled = np.flatnonzero(np.diff(offsets))
    if filled.size == 0:
        raise BadInput("data", "expected at least one query with documents, got none")
    # rankings are computed when a query is first sampled; random keys fix the order of ties for the whole log
    tie_break = generator.random(table.shape)
    ids = data.docid
    orders: dict[int, list[list[Any]]] = {}
    rows: dict[int, dict[Any, int]] = {}

    for k in range(n_impressions):
        q = int(filled[generator.integers(filled.size)])
        start, stop = int(offsets[q]), int(offsets[q + 1])
        if q not in orders:
            names = (np.arange(stop - start) if ids is None else np.asarray(ids[start:stop])).tolist()
            # grades are looked up by the id of a shown document
            rows[q] = {name: k for k, name in enumerate(names)}
            orders[q] = [
                [names[k] for k in np.lexsort((tie_break[start:stop, r], -table[start:stop, r]))]
                for r in range(table.shape[1])
            ]
        shown = interleaver.show(orders[q], length=length, rng=generator)
        grades = data.y[start + np.array([rows[q][document] for document in shown.documents])]
        # the user reads from the top, so the time between clicks increases with the number of ranks between them; the
        # dwell time depends on the grade
        clicks, now, before = [], 0.0, 0
        for position in np.flatnonzero(click_model.click(grades, generator)).tolist():
            now += generator.exponential(_SECONDS_PER_PLACE) * (position + 1 - before)
            dwell = generator.exponential(_SECONDS_OF_DWELL) * (1 + float(grades[position]))
            clicks.append(Click(position + 1, round(now, 2), round(dwell, 2)))
            now, before = now + dwell, position + 1
        user = None if n_users is None else f"u{generator.integers(n_users)}"
        query = data.query_ids[q]
        yield Impression(
            shown.with_impression(k),
            tuple(clicks),
            query=query.item() if hasattr(query, "item") else query,
            user=user,
            rankers=tuple(rankers),
        )
