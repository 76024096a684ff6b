"""Whole queries: a query with rows in several partitions is refused, or its rows are moved together.

Split queries are detected from the ids of the partitions themselves, so that neither sorted data nor divisions nor an
index are required.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.dask.cluster import Parts, ask
from structsvm.dask.rows import (
    Rows,
    Summaries,
    Summary,
    ids_of_hashes,
    join,
    summary,
    take_query,
    to_rows,
    unique_hashes,
    widened,
)

Groups = Literal["refuse", "mend", "shuffle"]

_IDS = "the partitions (ids)"

_AT_ONCE = 10_000_000
"""Number of query ids that the driver compares at once."""


def check_summaries(summaries: Summaries) -> None:
    """Raise for partitions whose rows have different features, columns or types of ids."""
    first = summaries[0]
    for one in summaries:
        _check_same(one, first, "n_features", "{} features")
        if one.names != first.names:
            assert one.names is not None, "of one source"
            assert first.names is not None, "of one source"
            k = next(k for k, (a, b) in enumerate(zip(first.names, one.names, strict=True)) if a != b)
            raise BadInput(
                one.place,
                f"expected the columns of {first.place} in their order, got {one.names[k]!r} for {first.names[k]!r}",
            )
        _check_same(one, first, "kind", "{} rows")
        _check_same(
            one,
            first,
            "ids",
            "query ids that are {}",
            "ids that differ only in type, as 1 and '1', would be two queries: convert them all to str",
        )
    whole = next((one for one in summaries if one.spelling.whole), None)
    pointed = next((one for one in summaries if one.spelling.pointed), None)
    if whole and pointed:  # one partition would write the id as 7, the other as 7.0
        raise BadInput(
            pointed.place,
            f"expected query ids as integers, as {whole.spelling.whole!r} in {whole.place}, got "
            f"{pointed.spelling.pointed!r}",
            "write ids as integers or text",
        )


def _check_same(one: Summary, first: Summary, name: str, expected: str, remedy: str = "") -> None:
    found, stated = getattr(one, name), getattr(first, name)
    if found != stated:
        raise BadInput(
            one.place, f"expected {expected.format(stated)}, as in {first.place}, got {found}", remedy
        )


def _with_rows(client: object, raw: Parts, timeout: float, place: str) -> tuple[list[Any], list[Summary]]:
    """Return the partitions that are not empty, and their summaries."""
    summaries = ask(client, summary, raw, timeout=timeout, place=place)
    kept = [k for k, one in enumerate(summaries) if one.n_rows]
    return [raw[k] for k in kept], [summaries[k] for k in kept]


def whole_queries(
    client: object, raw: Parts, groups: Groups, timeout: float
) -> tuple[list[Any], list[Summary]]:
    """Return partitions of whole queries, without empty ones, and their summaries; ``groups`` is the estimator's
    parameter."""
    n_all = len(raw)
    raw, summaries = _with_rows(client, raw, timeout, "the partitions (reading)")
    if not raw:
        raise BadInput("X", f"expected rows, got only empty partitions ({n_all})")
    check_summaries(summaries)
    cut = _cut(client, raw, summaries, timeout)
    if not cut:
        return list(raw), summaries
    far = [(q, parts) for q, parts in cut if not _at_borders(summaries, q, parts)]
    query, at = far[0] if groups == "mend" and far else cut[0]
    places = [summaries[k].place for k in at]
    few = len(places) < 4
    where = " and ".join(places) if few else f"{places[0]}, {places[1]} and {len(places) - 2} more"
    if groups == "refuse":
        others = f", and {len(cut) - 1} more are" if len(cut) > 1 else ""
        raise BadInput(
            "qid",
            f"query {query!r} is split: it has rows in {where}{others}; training would have a different objective",
            "use {groups='shuffle'}, or sort the data by query"
            if far
            else "use {groups='mend'}, which moves rows to the adjacent partition",
        )
    if groups == "mend" and far:
        raise BadInput(
            "qid",
            f"query {query!r} has rows in {where}, and not only at their common borders",
            "use {groups='shuffle'}",
            value=None,
        )
    whole = _mend(client, raw, cut) if groups == "mend" else _shuffled(client, raw, timeout)
    whole, again = _with_rows(client, whole, timeout, "the partitions (joining)")
    left = _cut(client, whole, again, timeout)
    assert not left, f"query {left[0][0]!r} is still cut"
    return whole, again


def _cut(client: object, raw: Parts, summaries: Summaries, timeout: float) -> list[tuple[Any, list[int]]]:
    """Return each query that is in several partitions, with the indices of these partitions, sorted by index."""
    found: dict[Any, set[int]] = {}
    # ids ascend from partition to partition: only the queries at borders can be split
    if all(a.most <= b.least for a, b in pairwise(summaries)):
        for k, (a, b) in enumerate(pairwise(summaries)):
            if a.most == b.least:
                found.setdefault(a.most, set()).update((k, k + 1))
        return [(query, sorted(parts)) for query, parts in found.items()]
    # any other order: compare the hashes of all ids, in buckets that the driver can hold, then the ids of equal hashes
    n_rows = sum(one.n_rows for one in summaries)
    n_buckets = -(-n_rows // (10 * _AT_ONCE))
    by_hash: dict[int, set[int]] = {}
    for bucket in range(n_buckets):
        values = ask(client, unique_hashes, raw, bucket, n_buckets, timeout=timeout, place=_IDS)
        every = np.concatenate(values)
        owner = np.repeat(np.arange(len(values)), [len(each) for each in values])
        order = np.argsort(every, kind="stable")
        every, owner = every[order], owner[order]
        same = every[1:] == every[:-1]
        for i in np.flatnonzero(same):
            by_hash.setdefault(int(every[i]), set()).update((int(owner[i]), int(owner[i + 1])))
    if not by_hash:
        return []
    wanted = np.array(sorted(by_hash), dtype=np.uint64)
    holders = sorted(set().union(*by_hash.values()))
    parts = [raw[k] for k in holders]
    ids_of_parts = ask(client, ids_of_hashes, parts, wanted, timeout=timeout, place=_IDS)
    for k, ids in zip(holders, ids_of_parts, strict=True):
        for query in ids.values():
            found.setdefault(query, set()).add(k)
    cut = [(query, sorted(parts)) for query, parts in found.items() if len(parts) > 1]
    return sorted(cut, key=lambda entry: entry[1])


def _at_borders(summaries: Summaries, query: ArrayLike, parts: Sequence[int]) -> bool:
    """Return whether the partitions of a query are adjacent, and the query is at each border between them."""
    return all(
        b == a + 1 and summaries[a].last == query and summaries[b].first == query for a, b in pairwise(parts)
    )


def _mend(client: Any, raw: Parts, cut: Sequence[tuple[Any, list[int]]]) -> list[Any]:
    """Move the rows of each cut query to the first partition that has any."""
    # the rows stay on the workers: each move is a task that takes rows from one partition and a task that joins them to
    # another
    gets: dict[int, list[Any]] = {}
    drops: dict[int, list[Any]] = {}
    for query, (first, *others) in cut:
        for k in others:
            gets.setdefault(first, []).append(client.submit(take_query, raw[k], query, pure=False))
            drops.setdefault(k, []).append(query)
    moved = list(raw)
    for k in gets.keys() | drops.keys():
        moved[k] = client.submit(join, raw[k], *gets.get(k, []), drop=drops.get(k, []), pure=False)
    return moved


def _frame(rows: Rows) -> Any:
    """Return the rows as a frame, for Dask to shuffle."""
    import pandas as pd

    data = rows.data
    if not isinstance(data.X, np.ndarray):
        raise BadInput(
            rows.place, "expected dense rows to shuffle, got a sparse matrix", "sort the data by query first"
        )
    frame = pd.DataFrame(data.X, columns=[f"f{j}" for j in range(data.n_features)])
    weight = np.ones(data.n_rows) if rows.weight is None else rows.weight
    return frame.assign(label=data.y, query=widened(data.qid), weight=weight)


def _unframed(frame: Any, k: int, names: tuple[str, ...] | None, weighted: bool) -> Rows:
    X = frame.drop(columns=["label", "query", "weight"])
    rows = to_rows(
        X.to_numpy(), frame["label"], frame["query"], frame["weight"] if weighted else None, f"partition {k}"
    )
    object.__setattr__(rows.data, "feature_names", names)
    return rows


def _shape(rows: Rows) -> tuple[Any, tuple[str, ...] | None, bool]:
    return _frame(rows).iloc[:0], rows.data.feature_names, rows.weight is not None


def _shuffled(client: Any, raw: Parts, timeout: float) -> list[Any]:
    """Return new partitions, each with all rows of its queries."""
    import dask.dataframe as dd
    from dask.delayed import delayed

    ((meta, names, weighted),) = ask(client, _shape, raw[:1], timeout=timeout, place=_IDS)
    frame_of, rows_of = delayed(_frame, pure=False), delayed(_unframed, pure=False)
    table = dd.from_delayed([frame_of(rows) for rows in raw], meta=meta, verify_meta=False)
    parts = table.shuffle(on="query", npartitions=len(raw)).to_delayed()
    return list(client.compute([rows_of(part, k, names, weighted) for k, part in enumerate(parts)]))
