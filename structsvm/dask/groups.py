"""Queries stay whole: those that a border of partitions cuts are found on the very partitions that are used."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.dask.cluster import ask
from structsvm.dask.rows import (
    Rows,
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
"""Query ids that are compared in one go."""


def check_summaries(summaries: Sequence[Summary]) -> None:
    """Refuse partitions whose rows do not fit together."""
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
        remedy = "ids that differ in type alone, as 1 and '1', would be two queries: convert them all to str"
        _check_same(one, first, "ids", "query ids that are {}", remedy)


def _check_same(one: Summary, first: Summary, name: str, expected: str, remedy: str = "") -> None:
    found, stated = getattr(one, name), getattr(first, name)
    if found != stated:
        said = expected.format(stated)
        raise BadInput(one.place, f"expected {said}, as in {first.place}, got {found}", remedy)


def _with_rows(
    client: Any, raw: Sequence[Any], timeout: float, place: str
) -> tuple[list[Any], list[Summary]]:
    """Return the partitions that are not empty, and their summaries."""
    summaries = ask(client, summary, raw, timeout=timeout, place=place)
    kept = [k for k, one in enumerate(summaries) if one.n_rows]
    return [raw[k] for k in kept], [summaries[k] for k in kept]


def whole_queries(
    client: Any, raw: Sequence[Any], groups: Groups, timeout: float
) -> tuple[list[Any], list[Summary]]:
    """Return partitions of whole queries, without empty ones, and their summaries; ``groups`` as in the estimator."""
    n_all = len(raw)
    raw, summaries = _with_rows(client, raw, timeout, "the partitions (reading)")
    if not raw:
        raise BadInput("X", f"expected rows, got {n_all} partitions without any")
    check_summaries(summaries)
    cut = _cut(client, raw, summaries, timeout)
    if not cut:
        return list(raw), summaries
    query, at = cut[0]
    if groups == "refuse":
        mendable = all(_at_borders(summaries, q, parts) for q, parts in cut)
        raise BadInput(
            "qid",
            f"query {query!r} is cut: it has rows in {_named([summaries[k].place for k in at])}"
            f"{f', and {len(cut) - 1} more are' if len(cut) > 1 else ''}; training would go by another objective",
            "use {groups='mend'}, which moves rows to the neighbour"
            if mendable
            else "use {groups='shuffle'}, or sort the data by query",
        )
    if groups == "mend":
        far = [(q, parts) for q, parts in cut if not _at_borders(summaries, q, parts)]
        if far:
            query, at = far[0]
            raise BadInput(
                "qid",
                f"query {query!r} has rows in {_named([summaries[k].place for k in at])}, and not at their common "
                "borders alone",
                "use {groups='shuffle'}",
                value=None,
            )
        mended = _mend(client, raw, cut)
    else:
        mended = _shuffled(client, raw)
    mended, again = _with_rows(client, mended, timeout, "the partitions (joining)")
    left = _cut(client, mended, again, timeout)
    assert not left, f"query {left[0][0]!r} is still cut"
    return mended, again


def _named(places: Sequence[str]) -> str:
    return " and ".join(places) if len(places) < 4 else f"{places[0]}, {places[1]} and {len(places) - 2} more"


def _cut(
    client: Any, raw: Sequence[Any], summaries: Sequence[Summary], timeout: float
) -> list[tuple[Any, list[int]]]:
    """Return each query that is in several partitions, with their numbers, in the order of the first of them."""
    found: dict[Any, set[int]] = {}
    if all(a.most <= b.least for a, b in pairwise(summaries)):
        for k, (a, b) in enumerate(pairwise(summaries)):
            if a.most == b.least:
                found.setdefault(a.most, set()).update((k, k + 1))
        return [(query, sorted(parts)) for query, parts in found.items()]
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
    asked = sorted(set().union(*by_hash.values()))
    found_there = ask(client, ids_of_hashes, [raw[k] for k in asked], wanted, timeout=timeout, place=_IDS)
    for k, ids in zip(asked, found_there, strict=True):
        for query in ids.values():
            found.setdefault(query, set()).add(k)
    cut = [(query, sorted(parts)) for query, parts in found.items() if len(parts) > 1]
    return sorted(cut, key=lambda entry: entry[1])


def _at_borders(summaries: Sequence[Summary], query: Any, parts: Sequence[int]) -> bool:
    """Return whether the partitions of a query are neighbours, with the query at all borders between them."""
    return all(
        b == a + 1 and summaries[a].last == query and summaries[b].first == query for a, b in pairwise(parts)
    )


def _mend(client: Any, raw: Sequence[Any], cut: Sequence[tuple[Any, list[int]]]) -> list[Any]:
    """Move the rows of each cut query to the first partition that has any."""
    gets: dict[int, list[Any]] = {}
    drops: dict[int, list[Any]] = {}
    for query, (first, *others) in cut:
        for k in others:
            gets.setdefault(first, []).append(client.submit(take_query, raw[k], query, pure=False))
            drops.setdefault(k, []).append(query)
    return [
        rows
        if k not in gets and k not in drops
        else client.submit(join, rows, *gets.get(k, []), drop=drops.get(k, []), pure=False)
        for k, rows in enumerate(raw)
    ]


def _frame(rows: Rows) -> Any:
    """Return the rows as a frame, which Dask can shuffle."""
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


def _shuffled(client: Any, raw: Sequence[Any]) -> list[Any]:
    """Return new partitions, each with all rows of its queries."""
    import dask.dataframe as dd
    from dask import delayed

    meta, names, weighted = client.submit(_shape, raw[0], pure=False).result(timeout=60)
    make = delayed(_frame, pure=False)
    table = dd.from_delayed([make(rows) for rows in raw], meta=meta, verify_meta=False)
    parts = table.shuffle(on="query", npartitions=len(raw)).to_delayed()
    made = [delayed(_unframed, pure=False)(part, k, names, weighted) for k, part in enumerate(parts)]
    return list(client.compute(made))
