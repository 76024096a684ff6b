"""Hold out queries of a log from training, and recognise the log that a ranker was trained on."""

from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.clicks.cells import ClickCells, check_cells
from structsvm.common.checks import BadInput, check_number
from structsvm.queries import offsets_of

_KEPT = 1024
_MIN_CLICKS = 3
"""Minimum number of clicks for which the counts of a query are unlikely to be the same in another log."""

UInt = NDArray[np.uint64]


def divide_by_query(cells: ClickCells, share: float) -> tuple[ClickCells, ClickCells]:
    """Divide a log by query into counts to train on and counts to estimate from.

    A query is in the same part for every log, so ``train`` and ``evaluate`` agree without a list of queries.

    Parameters
    ----------
    cells : ClickCells
        The log to divide.
    share : float
        Share of the queries to hold out, between 0 and 1.

    Returns
    -------
    training, held_out : ClickCells

    Raises
    ------
    BadInput
        If either part would have no query.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1, 2, 3, 4, 5], [7] * 5, [1] * 5, [0, 1, 1, 0, 1])
    >>> training, held_out = divide_by_query(cells, 0.4)
    >>> training.query_ids, held_out.query_ids
    (array([1, 2, 4, 5]), array([3]))
    """
    check_cells(cells)
    check_number("share", share, 0.0, 1.0)
    chance = np.array([_hash(str(query)) for query in cells.query_ids.tolist()], dtype=np.uint64) / 2.0**64
    held = chance < share
    if held.all() or not held.any():
        which = "to hold out" if not held.any() else "to train on"
        raise BadInput("share", f"expected some of {held.size} queries {which}, got none", value=share)
    return _only(cells, ~held), _only(cells, held)


def learned_share(sketch: UInt | None, cells: ClickCells) -> float:
    """Return the share of the queries of ``cells`` that have the same counts in the log from which ``sketch`` was made.

    A sketch is the result of :func:`sketch_of`. The share is estimated from up to 1,024 queries; 0 without a sketch.
    """
    if sketch is None or not sketch.size:
        return 0.0
    found = _digests(cells)
    if sketch.size == _KEPT:  # a full sketch contains no digests above its maximum
        found = found[found <= sketch.max()]
    return float(np.isin(found, sketch).mean()) if found.size else 0.0


def sketch_of(cells: ClickCells) -> UInt:
    """Return the smallest digests of the queries of a log; a digest covers the id, positions, shows and clicks."""
    return np.sort(_digests(cells))[:_KEPT]


def _digests(cells: ClickCells) -> UInt:
    often = np.bincount(cells.row_query, cells.per_row(cells.clicks), cells.n_queries) >= _MIN_CLICKS
    chosen = np.flatnonzero(often if often.any() else np.ones_like(often))
    ids = np.zeros(cells.n_queries, dtype=np.uint64)
    ids[chosen] = [_hash(str(query)) for query in cells.query_ids[chosen].tolist()]
    cell = _mix(_mix(_mix(cells.position) + cells.shows.astype(np.uint64)) + cells.clicks.astype(np.uint64))
    # sums of integers modulo 2^64 do not depend on the order
    total = np.zeros(cells.n_queries, dtype=np.uint64)
    np.add.at(total, cells.row_query[cells.row], cell)
    return np.asarray(_mix(ids ^ _mix(total))[chosen])


def _mix(values: ArrayLike) -> UInt:
    """Return the splitmix64 finaliser of each value."""
    z = np.asarray(values).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _only(cells: ClickCells, chosen: NDArray[np.bool_]) -> ClickCells:
    """Return the counts of the chosen queries."""
    row = chosen[cells.row_query]
    number = np.cumsum(row) - 1
    of_chosen = row[cells.row]

    def lists(part: Any) -> Any:
        if part is None:
            return None
        return part.select(row[part.row[part.offsets[:-1]]]).renumbered(number, None)

    return replace(
        cells,
        query_ids=cells.query_ids[chosen],
        offsets=offsets_of(np.diff(cells.offsets)[chosen]),
        docid=cells.docid[row],
        row=number[cells.row[of_chosen]],
        position=cells.position[of_chosen],
        shows=cells.shows[of_chosen],
        clicks=cells.clicks[of_chosen],
        sessions=lists(cells.sessions),
        gapped=lists(cells.gapped),
    )
