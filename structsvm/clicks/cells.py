"""``ClickCells``: a click log of any size as counts, one per query, document and position."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.clicks.sessions import ClickSessions, distinct_sessions, joined_sessions
from structsvm.common.checks import BadInput, check_whole, counted
from structsvm.common.event_logs import Dropped
from structsvm.common.kernel import kernel
from structsvm.common.tables.ids import exact_array, ids_of
from structsvm.protocols import Float, Int
from structsvm.queries import group_ids, offsets_of, places_in, refuse_first, row_groups

MAX_POSITION = 1000
"""Largest position counted by default. It bounds the size of tables; larger positions are taken as logging errors."""

UNKNOWN_CLICKS = "leave out rows whose clicks are unknown; write 0 where a shown document was not clicked"


@dataclass(frozen=True, eq=False, repr=False)
class ClickCells:
    """Counts of how often each document of a query was shown and clicked at each position.

    A row is a document of a query, a cell a row at a position. Sessions, if the log has them, are kept beside the cells
    for models in which the clicks of a list depend on each other, and for intervals that account for this dependence.

    Build it with :meth:`from_arrays`, :meth:`concatenate` or a reader of ``structsvm.clicks``.

    Attributes
    ----------
    query_ids : ndarray, shape (n_queries,)
        Id of each query.
    offsets : ndarray of int64, shape (n_queries + 1,)
        Rows ``offsets[q]:offsets[q + 1]`` are the documents of query ``q``.
    docid : ndarray, shape (n_rows,)
        Document id of each row.
    row, position : ndarray of int64, shape (n_cells,)
        Ascending by row, then by position; positions are counted from 1.
    shows, clicks : ndarray of int64, shape (n_cells,)
        Number of times that the document was shown at the position, and number of these impressions with a click.
    dropped : dict of str to int
        Number of items left out, by reason.
    sessions : ClickSessions or None
        Lists that start at position 1 and have no gap; models of whole lists are fitted to them.
    gapped : ClickSessions or None
        All other lists, with the positions of their entries.
    cluster_ids : ndarray or None
        Id of each user; ``ClickSessions.cluster`` holds indices into this array.
    guessed : dict of str to str
        Columns of a table that were recognised by a conventional name: maps each role to its column.

    Examples
    --------
    >>> cells = ClickCells.from_arrays(["q", "q", "q"], ["a", "b", "a"], [1, 2, 2], [1, 0, 1])
    >>> cells
    ClickCells(1 query, 2 rows, 3 cells, 3 shows, 2 clicks)
    >>> cells.clicks, cells.docid[cells.row]
    (array([1, 1, 0]), array(['a', 'a', 'b'], dtype='<U1'))
    """

    query_ids: NDArray[Any]
    offsets: Int
    docid: NDArray[Any]
    row: Int
    position: Int
    shows: Int
    clicks: Int
    dropped: Dropped = field(default_factory=Dropped)
    sessions: ClickSessions | None = None
    gapped: ClickSessions | None = None
    cluster_ids: NDArray[Any] | None = None
    guessed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        query: ArrayLike,
        document: ArrayLike,
        position: object,
        clicked: ArrayLike,
        *,
        session: object = None,
        cluster: object = None,
        probability: object = None,
        first_position: int | None = None,
        max_position: int = MAX_POSITION,
    ) -> Self:
        """Count impressions; each is one document shown once.

        Parameters
        ----------
        query, document : array-like of int or str, shape (n,)
            Ids. Impressions with a missing id (None, NaN) are left out and counted.
        position : array-like of int, shape (n,)
            Position in the list, counted from ``first_position``.
        clicked : array-like of bool, shape (n,)
            Whether the document was clicked: 0 or 1.
        session : array-like of int or str, shape (n,), optional
            Impressions with the same session and query are one list, even if a session repeats the query. Without it,
            or if it is missing (None, NaN, an empty string), impressions are counted but belong to no list.
        cluster : array-like of int or str, shape (n,), optional
            User of each impression; the lists of a user depend on each other. A list without a user counts as a
            separate user.
        probability : array-like of float, shape (n,), optional
            Probability, in (0, 1], with which the logged ranker showed this document at this position, for
            ``weighting="logged"`` of :func:`~structsvm.clicks.evaluate_from_clicks`. Without ``session`` each
            impression is then a separate list (one item per row).
        first_position : {0, 1}, optional
            First position in the log. Required if positions 0 and 1 both occur, because two logs with different
            conventions may have been joined; a log without position 0 counts from 1.
        max_position : int, default=1000
            Impressions beyond this position (counted from 1) are left out and counted.

        Returns
        -------
        ClickCells

        Examples
        --------
        >>> cells = ClickCells.from_arrays([7, 7, 7, 7], [1, 2, 2, 1], [0, 1, 0, 1], [1, 0, 0, 0],
        ...                                session=["s", "s", "t", "t"], first_position=0)
        >>> cells.sessions, dict(cells.dropped)
        (ClickSessions(2 sessions, 2 distinct), {})
        """
        check_whole("max_position", max_position, 1, 65535)
        given_queries = _ids("query", query)
        n = given_queries.values.shape[0]
        given_documents, given_positions = _ids("document", document, n), np.asarray(position)
        _check_length("position", given_positions, n)
        given_clicks = _clicks(clicked, n)
        dropped = Dropped()
        known = given_queries.known & given_documents.known
        given_positions, finite = _whole_positions(given_positions)
        base = first_position_of(given_positions[_rows(known & finite)], first_position)
        in_range = finite & (given_positions >= base) & (given_positions < base + max_position)
        dropped.count("missing query or document", (~known).sum())
        dropped.count("position out of range", (known & ~in_range).sum())
        take = _rows(known & in_range)
        queries, documents = given_queries.values[take], given_documents.values[take]
        positions, clicks = given_positions[take], given_clicks[take]
        if positions.shape[0] == 0:
            raise BadInput("log", "expected impressions, got none that can be counted", dropped.said())
        if session is None and probability is None:
            if cluster is not None:
                raise BadInput("cluster", "requires the session of each impression", "give {session}")
            return cls(**_tally(queries, documents, positions - base, clicks)[0], dropped=dropped)
        sessions = _ids("session", np.arange(n) if session is None else session, n)
        users = None if cluster is None else _ids("cluster", cluster, n)
        chance = None if probability is None else _probabilities(probability, n)[take]
        listed = np.flatnonzero(sessions.known[take])
        dropped.count(
            "impression without a session, counted but in no list", positions.shape[0] - listed.size
        )
        of_lists, offsets, list_clicks = _lists(
            sessions.values[take][listed],
            queries[listed],
            documents[listed],
            positions[listed],
            clicks[listed],
            dropped,
        )
        listed, alone = listed[of_lists], np.delete(np.arange(positions.shape[0]), listed)
        order = np.concatenate([listed, alone])
        positions = positions[order] - base
        counts, row = _tally(
            queries[order], documents[order], positions, np.concatenate([list_clicks, clicks[alone]])
        )
        numbers, names = (None, None) if users is None else _numbered(users, np.arange(n)[take][listed])
        entries = ClickSessions(
            offsets=offsets,
            row=row[: listed.size],
            clicked=list_clicks,
            count=np.ones(offsets.shape[0] - 1, np.int64),
            places=positions[: listed.size] + 1,
            cluster=None if numbers is None else _one_each(numbers, offsets, dropped),
            probability=None if chance is None else chance[listed],
        )
        return cls(**counts, dropped=dropped, cluster_ids=names)._with_lists(entries, dropped)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the combined counts of several logs; ids are compared without conversion.

        Sessions are kept if every part has them. The ids must be numbers in all logs or strings in all logs.

        Examples
        --------
        >>> one = ClickCells.from_arrays([1, 1], [5, 6], [1, 2], [0, 1])
        >>> ClickCells.concatenate([one, one]).shows
        array([2, 2])
        """
        if not parts:
            raise BadInput("parts", "expected at least one log, got none")
        if len(parts) == 1:
            return parts[0]
        queries, q = np.unique(_joined("query", [p.query_ids for p in parts]), return_inverse=True)
        documents, d = np.unique(_joined("document", [p.docid for p in parts]), return_inverse=True)
        row_query = np.repeat(q, np.concatenate([np.diff(p.offsets) for p in parts]))
        rows, number = np.unique(row_query.astype(np.int64) * documents.shape[0] + d, return_inverse=True)
        numbers = np.split(number, np.cumsum([p.n_rows for p in parts])[:-1])
        row = np.concatenate([new_rows[p.row] for p, new_rows in zip(parts, numbers, strict=True)])
        position = np.concatenate([p.position for p in parts])
        width = int(position.max()) + 1
        keys, cell = np.unique(row * width + position, return_inverse=True)
        query_of_row = rows // documents.shape[0]
        # every query has a row, so that this array contains every query index
        offsets = np.searchsorted(query_of_row, np.arange(queries.shape[0] + 1)).astype(np.int64)
        dropped = Dropped()
        for reason, count in chain.from_iterable(p.dropped.items() for p in parts):
            dropped.count(reason, count)

        def add(values: list[Int]) -> Int:
            # float64 sums of integers below 2^53 are exact
            return np.bincount(cell, np.concatenate(values), keys.shape[0]).astype(np.int64)

        users = [p.cluster_ids for p in parts if p.cluster_ids is not None]
        names: Any = None
        whose: list[Any] = [None] * len(parts)
        if users:
            sizes = [0 if p.cluster_ids is None else p.cluster_ids.shape[0] for p in parts]
            names, user = np.unique(_joined("cluster", users), return_inverse=True)
            whose = np.split(user, np.cumsum(sizes)[:-1])
        held: dict[str, ClickSessions | None] = {"sessions": None, "gapped": None}
        if all(p.sessions is not None for p in parts):
            for kind in held:
                old_lists = zip((getattr(p, kind) for p in parts), numbers, whose, strict=True)
                lists = [
                    one.renumbered(new_rows, new_users)
                    for one, new_rows, new_users in old_lists
                    if one is not None
                ]
                held[kind] = distinct_sessions(lists) if lists else None
        return cls(
            query_ids=queries,
            offsets=offsets,
            docid=documents[rows % documents.shape[0]],
            row=keys // width,
            position=keys % width,
            shows=add([p.shows for p in parts]),
            clicks=add([p.clicks for p in parts]),
            dropped=dropped,
            sessions=held["sessions"],
            gapped=held["gapped"],
            cluster_ids=names,
        )

    @property
    def n_queries(self) -> int:
        return int(self.query_ids.shape[0])

    @property
    def n_rows(self) -> int:
        return int(self.docid.shape[0])

    @property
    def n_cells(self) -> int:
        return int(self.row.shape[0])

    @property
    def n_shows(self) -> int:
        return int(self.shows.sum())

    @property
    def n_clicks(self) -> int:
        return int(self.clicks.sum())

    @property
    def n_positions(self) -> int:
        """The last position at which anything was shown."""
        return int(self.position.max())

    @property
    def row_query(self) -> Int:
        """Index of the query of each row."""
        return row_groups(self.offsets)

    @property
    def row_offsets(self) -> Int:
        """Cells ``row_offsets[r]:row_offsets[r + 1]`` belong to row ``r``."""
        return np.searchsorted(self.row, np.arange(self.n_rows + 1)).astype(np.int64)

    def per_position(self) -> tuple[Int, Int, Float]:
        """Return shows, clicks and click-through (0 without shows) at each position from 1 to the last."""
        size = self.n_positions
        shows, clicks = (np.bincount(self.position - 1, v, size) for v in (self.shows, self.clicks))
        return shows.astype(np.int64), clicks.astype(np.int64), clicks / np.maximum(shows, 1)

    def per_row(self, values: ArrayLike) -> Float:
        """Return the sums of one value per cell over the cells of each row."""
        return np.asarray(np.bincount(self.row, values, self.n_rows), dtype=np.float64)

    def lists_per_query(self) -> Int:
        """Return the number of lists shown for each query.

        This is the number of its sessions, or the largest number of shows at one position if that is larger, because
        impressions may lack a session.
        """
        n, width = self.n_queries, self.n_positions
        key = self.row_query[self.row] * width + self.position - 1
        shows = np.bincount(key, self.shows, n * width).reshape(n, width).max(axis=1)
        lists = joined_sessions(self.all_lists())
        listed = np.bincount(self.row_query[lists.row[lists.offsets[:-1]]], lists.count, n)
        return np.asarray(np.maximum(shows, listed), dtype=np.int64)

    def all_lists(self) -> list[ClickSessions]:
        """Return the lists without a gap and the lists with a gap; an empty group is omitted."""
        return [part for part in (self.sessions, self.gapped) if part is not None and part.n_distinct]

    def rows_of(self, query: ArrayLike, document: ArrayLike) -> Int:
        """Return the row of each pair of ids, or -1 if the log never showed the document for the query.

        Ids are not converted: numbers match numbers, and strings match strings. A missing id matches no row.

        Examples
        --------
        >>> ClickCells.from_arrays([1, 1], [5, 6], [1, 2], [0, 1]).rows_of([1, 2], [6, 6])
        array([ 1, -1])
        """
        numbers = []
        for name, known, ids in (("query", self.query_ids, query), ("document", self.docid, document)):
            given = _ids(name, ids)
            wanted, got = ("numbers" if a.dtype.kind in "iu" else "strings" for a in (known, given.values))
            if wanted != got:
                raise BadInput(
                    name, f"expected ids as in the log ({wanted}), got {got}", "convert one of them"
                )
            unique, inverse = np.unique(known, return_inverse=True)
            at, there = index_in(unique, given.values)
            numbers.append((np.where(given.known & there, at, -1), inverse, unique.shape[0]))
        (q, q_of, _), (d, d_of, n_documents) = numbers
        key = q_of[self.row_query] * n_documents + d_of
        order = np.argsort(key, kind="stable")
        pair = q * n_documents + d
        at, there = index_in(key[order], pair)
        return np.where((q >= 0) & (d >= 0) & there, order[at], -1).astype(np.int64)

    def _with_lists(self, lists: ClickSessions, dropped: Dropped) -> Self:
        gapless = lists.position == places_in(lists.offsets)
        whole = np.logical_and.reduceat(gapless, lists.offsets[:-1])
        dropped.count("list with a gap, counted but not used as a session", (~whole).sum())
        sessions = distinct_sessions([replace(lists.select(whole), places=None)])
        return replace(self, sessions=sessions, gapped=distinct_sessions([lists.select(~whole)]))

    def __repr__(self) -> str:
        sizes = counted(query=self.n_queries, row=self.n_rows, cell=self.n_cells)
        return f"ClickCells({sizes}, {counted(show=self.n_shows, click=self.n_clicks)})"


def index_in(known: NDArray[Any], values: NDArray[Any]) -> tuple[Int, NDArray[np.bool_]]:
    """Return an index into ``known``, which is sorted and not empty, for each value, and whether the value is there."""
    at = np.minimum(np.searchsorted(known, values), known.shape[0] - 1)
    return at, known[at] == values


def size_of_log(cells: ClickCells) -> str:
    """Return the size of a log as a sentence."""
    lists = {} if cells.sessions is None else {"list": cells.sessions.n_sessions}
    return f"{counted(',', query=cells.n_queries, **lists, impression=cells.n_shows, click=cells.n_clicks)}."


def check_cells(cells: object) -> None:
    """Raise unless ``cells`` are :class:`ClickCells`."""
    if not isinstance(cells, ClickCells):
        kind = "a data frame" if hasattr(cells, "columns") else type(cells).__name__
        raise BadInput(
            "cells",
            f"expected ClickCells, the counts of a click log, got {kind}",
            "read a file with structsvm.clicks.read_clicks, a data frame with read_table",
        )


def once_each(cells: ClickCells, rows: Int, argument: str) -> Int:
    """Return the rows that are not -1; raise for duplicates."""
    used, counts = np.unique(rows[rows >= 0], return_counts=True)
    if (counts > 1).any():
        row = int(used[counts > 1][0])
        raise BadInput(
            argument,
            f"expected each document once in a query, got {cells.docid[row]} in query "
            f"{cells.query_ids[cells.row_query[row]]} several times",
            "drop the repeats",
        )
    return used


def check_clicked(clicks: Int) -> None:
    """Raise if there are no clicks."""
    if not clicks.any():
        raise BadInput("cells", "expected at least one click, got none", "use a longer log")


def first_position_of(position: Int, first_position: int | None) -> int:
    """Return the first position of a log, 0 or 1; raise if both occur, as the convention is then ambiguous."""
    if first_position is not None:
        return check_whole("first_position", first_position, 0, 1)
    zero = bool((position == 0).any())
    if zero and bool((position == 1).any()):
        raise BadInput(
            "first_position",
            "expected 0 or 1, as the log holds both positions: it counts from 0, or two logs that count "
            "differently were joined",
            "specify it",
        )
    return 0 if zero else 1


class Ids(NamedTuple):
    """Ids as sortable values, and which of them are known."""

    values: NDArray[Any]
    known: NDArray[np.bool_]


def _ids(name: str, given: object, n: int | None = None) -> Ids:
    """Return ids by the same rule as for tables: text, or integers, possibly stored as floats; some may be missing."""
    if isinstance(given, Ids):
        return given
    ids = exact_array(given)
    if ids.ndim != 1:
        raise BadInput(name, f"expected one id per impression, got an array of shape {ids.shape}")
    if n is not None:
        _check_length(name, ids, n)
    return Ids(*ids_of(name, ids, missing=True))


def _check_length(name: str, values: NDArray[Any], n: int) -> None:
    if values.shape != (n,):
        raise BadInput(name, f"expected one value per impression, shape ({n},), got {values.shape}")


def _joined(name: str, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the ids of several logs as one array; raise for a mix of numbers and strings."""
    kinds = {p.dtype.kind for p in parts}
    if "U" in kinds and len(kinds) > 1:
        raise BadInput(name, "expected ids that are all numbers or all strings, got both", "convert one")
    return np.concatenate(parts)


def _probabilities(given: object, n: int) -> Float:
    p = np.asarray(given, dtype=np.float64)
    _check_length("probability", p, n)
    refuse_first("probability", p, ~((p > 0) & (p <= 1)), "a number in (0, 1]")
    return p


def _numbered(users: Ids, chosen: Int) -> tuple[Int, NDArray[Any]]:
    """Return the index of the user of each chosen impression (-1 if missing), and the ids of the users."""
    values, known = users.values[chosen], users.known[chosen]
    names, inverse = np.unique(values[known], return_inverse=True)
    numbers = np.full(values.shape[0], -1)
    numbers[known] = inverse
    return numbers, names


def _rows(chosen: NDArray[np.bool_]) -> Any:
    """Return an index of the chosen rows: a slice, which copies nothing, if all are chosen."""
    return slice(None) if chosen.all() else np.flatnonzero(chosen)


def _clicks(given: object, n: int) -> NDArray[np.bool_]:
    c = np.asarray(given)
    _check_length("clicked", c, n)
    if c.dtype == np.bool_:
        return c
    if c.dtype.kind not in "iuf":
        raise BadInput("clicked", f"expected 0 or 1, got {c.dtype}", "convert it")
    bad = (c != 0) & (c != 1)
    remedy = UNKNOWN_CLICKS if np.isnan(c[bad][:1]).any() else "write 1 for repeated clicks"
    refuse_first("clicked", c, bad, "0 or 1", remedy)
    return c.astype(bool)


def _whole_positions(k: NDArray[Any]) -> tuple[Int, NDArray[np.bool_]]:
    """Return positions as integers, and a mask of the valid positions."""
    if k.dtype.kind in "iu":
        return k.astype(np.int64, copy=False), np.ones(k.shape, bool)
    if k.dtype.kind == "O":
        k = np.array([v if isinstance(v, (int, float, np.number)) else np.nan for v in k], dtype=np.float64)
    if k.dtype.kind != "f":
        raise BadInput("position", f"expected integers, got {k.dtype}", "convert it")
    finite = (np.abs(k) < 2**53) & (k == np.floor(k))
    return np.where(finite, k, 0).astype(np.int64), finite


def _tally(query: Any, document: Any, position: Int, clicked: ArrayLike) -> tuple[dict[str, Any], Int]:
    """Return ids and counts, by the names of their fields in :class:`ClickCells`, and the row of each impression.

    ``position`` counts from 0.
    """
    (q, n_queries, query_ids), (d, n_documents, docids) = _codes(query), _codes(document)
    pairs = None
    if n_queries * n_documents < 2**62:
        pair = q * n_documents + d
    else:  # products of codes could overflow
        pairs, pair = np.unique(np.stack([q, d]), axis=1, return_inverse=True)
    distinct, row = np.unique(pair, return_inverse=True)
    width = int(position.max()) + 1
    cells, cell = np.unique(row * width + position, return_inverse=True)
    row_q, row_d = divmod(distinct, n_documents) if pairs is None else pairs
    present, counts = np.unique(row_q, return_counts=True)
    return {
        "query_ids": query_ids(present),
        "offsets": offsets_of(counts),
        "docid": docids(row_d),
        "row": cells // width,
        "position": cells % width + 1,
        "shows": np.bincount(cell),
        "clicks": np.bincount(cell, clicked).astype(np.int64),
    }, row


def _codes(ids: NDArray[Any]) -> tuple[Int, int, Callable[[Int], Any]]:
    """Return a code for each id, from 0; the number of codes; and a function from codes to ids.

    The codes of integers are their distances from the smallest, unless they are far apart.
    """
    if ids.dtype.kind == "i":
        low, high = int(ids.min()), int(ids.max())
        if high - low < 2**40:
            return ids - low, high - low + 1, lambda numbers: numbers + low
    unique, numbers = np.unique(ids, return_inverse=True)
    return numbers.astype(np.int64), unique.shape[0], unique.__getitem__


def _lists(
    session: Any, query: Any, document: Any, position: Int, clicked: Any, dropped: Dropped
) -> tuple[Int, Int, NDArray[np.bool_]]:
    """Group impressions into lists: return the indices of those kept, the offsets of the lists, and clicks."""
    s, q, d = (np.unique(ids, return_inverse=True)[1].astype(np.int64) for ids in (session, query, document))
    key = s * (int(q.max(initial=0)) + 1) + q
    order = np.lexsort((np.arange(key.shape[0]), position, key))
    key, click = key[order], clicked[order]
    # a repeated impression was clicked if any repetition was
    keep, repeated, taken, twice = _clean_lists(key, position[order], d[order], click)
    dropped.count("impression logged again for the same session and query", repeated)
    dropped.count("position of a list taken twice", taken)
    dropped.count("document twice in a list", twice)
    return order[keep], group_ids(key[keep]).offsets, click[keep]


def _one_each(user: Int, offsets: Int, dropped: Dropped) -> Int:
    """Return the user of each list, taken from its first impression."""
    first = user[offsets[:-1]]
    other = user != np.repeat(first, np.diff(offsets))
    mixed = np.unique(np.searchsorted(offsets, np.flatnonzero(other), side="right"))
    dropped.count("list of several users, assigned to the first", mixed.size)
    dropped.count("list without a user, taken as independent", (first < 0).sum())
    return first


@kernel
def _clean_lists(key, position, document, clicked):  # type: ignore[no-untyped-def]
    """Keep one document per position and each document once in each list: rows of equal ``key``, sorted by position."""
    n = key.shape[0]
    keep = np.ones(n, np.bool_)
    repeated, taken, twice = 0, 0, 0
    start = 0
    for i in range(n):
        if i > 0 and key[i] != key[i - 1]:
            start = i
        # search the rows of this list that are kept so far for the same document and for the same position
        repeat_of, is_taken = -1, False
        for j in range(i - 1, start - 1, -1):
            if keep[j] and document[j] == document[i]:
                repeat_of = j
                break
            is_taken = is_taken or (keep[j] and position[j] == position[i])
        if repeat_of >= 0:  # a repeat: one impression, clicked if any of its rows was
            keep[i] = False
            clicked[repeat_of] = clicked[repeat_of] or clicked[i]
            again = position[repeat_of] == position[i]
            repeated += again
            twice += not again
        elif is_taken:
            keep[i] = False
            taken += 1
    return keep, repeated, taken, twice
