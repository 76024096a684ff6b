"""Index of the document pairs of a data set, from which pairs are sampled at any position of a random stream."""

from typing import Any, Literal, NamedTuple

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.protocols import Float, Int
from structsvm.queries import Grouping


class PairIndex(NamedTuple):
    """An index of the pairs of all queries that have pairs; the time to sample a pair does not depend on the number of
    rows."""

    rows: Int  # grouped by query, in ascending order of grade; query q has starts[q]:starts[q + 1]
    starts: Int
    threshold: Float  # alias table (Walker 1977), which maps a uniform number to a query
    alias: Int
    groups: Int  # query q has the grades groups[q]:groups[q + 1]; empty if all documents form pairs
    group_starts: Int  # index in rows of the first row of each grade
    share: Float  # cumulative probability, within a query, of its grades in ascending order

    @property
    def n_queries(self) -> int:
        return int(self.threshold.shape[0])


def index_pairs(
    y: Float | None,
    grouping: Grouping,
    *,
    rows: object = None,
    weights: Float | None = None,
    normalize: Literal["pairs", "query"] = "pairs",
) -> PairIndex:
    """Index the pairs of documents of the same query with different labels among ``rows`` (a boolean mask; None for
    all).

    Without ``y``, any two documents of a query form a pair. With ``normalize="query"`` each query that has a pair is
    equally likely, with ``"pairs"`` each pair; ``weights`` multiply the probabilities of the queries.
    """
    # ``number`` is the query of each row in ``order``. Queries without pairs are dropped later; starts and shares are
    # cumulative sums.
    lengths = np.diff(grouping.offsets)
    number = np.repeat(np.arange(lengths.shape[0]), lengths)
    order: Int = np.arange(number.shape[0], dtype=np.int64) if grouping.order is None else grouping.order
    if rows is not None:
        taken = np.asarray(rows)[order]
        order, number = order[taken], number[taken]
    if y is not None:
        by_grade = np.lexsort((y[order], number))
        order, number = order[by_grade], number[by_grade]
    n = np.bincount(number, minlength=lengths.shape[0]).astype(np.int64)
    group_query, group_size = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    ends = np.empty(0)
    if y is None:
        n_pairs = n * (n - 1.0)
    else:
        # a group consists of the rows of a query with the same grade, which are consecutive in this order
        grade = y[order]
        changes = np.flatnonzero((np.diff(number) != 0) | (np.diff(grade) != 0)) + 1
        first = np.concatenate(([0], changes))[: order.shape[0]].astype(np.int64)
        group_size = np.diff(np.append(first, order.shape[0]))
        group_query = number[first]
        ends = np.asarray(group_size * (n[group_query] - group_size), dtype=np.float64)
        n_pairs = np.bincount(group_query, weights=ends, minlength=lengths.shape[0])
    # ``ends`` is the number of pairs with one document in the group. If a group is sampled in proportion to ``ends``,
    # and then a document of another grade, each pair is equally likely. (Each pair is counted twice, once per
    # document.)
    mass = n_pairs if normalize == "pairs" else (n_pairs > 0).astype(np.float64)
    if weights is not None:
        mass = mass * weights
    kept = (mass > 0) & (n_pairs > 0)
    order = order[kept[number]].astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(n[kept]))).astype(np.int64)
    groups, group_starts, share = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
    if y is not None:
        in_kept = kept[group_query]
        group_query, group_size, ends = group_query[in_kept], group_size[in_kept], ends[in_kept]
        group_starts = np.concatenate(([0], np.cumsum(group_size))).astype(np.int64)
        n_groups = np.bincount(group_query, minlength=lengths.shape[0])[kept]
        groups = np.concatenate(([0], np.cumsum(n_groups))).astype(np.int64)
        share = _running_share(ends, groups)
    threshold, alias = _alias_table(mass[kept])
    return PairIndex(order, starts, threshold, alias, groups, group_starts, share)


def draw_pairs(index: PairIndex, seed: int, first: int, n: int, *, stream: int = 0) -> tuple[Int, Int]:
    """Return the rows of the better and of the worse document of ``n`` pairs, starting at pair ``first`` of a random
    stream.

    A descent with this seed samples labelled pairs from stream 0 and unlabelled pairs from stream 1.
    """
    better, worse = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    draw_into(tuple(index), stream_key(seed, stream), first, 1, n, better, worse, 0, n)
    return better, worse


def stream_key(seed: int, number: int) -> Any:
    """Return the key of stream ``number`` of a seed; the streams of a seed are independent."""
    return np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]


def _running_share(ends: Float, groups: Int) -> Float:
    """Return the cumulative sums of ``ends`` within each query, divided by the query's total; the last is exactly 1."""
    if ends.shape[0] == 0:
        return np.empty(0)
    # sums of integers up to 2^53 are exact in float64, and so are their differences
    running = np.cumsum(ends)
    before = np.repeat(running[groups[:-1]] - ends[groups[:-1]], np.diff(groups))
    last = np.repeat(running[groups[1:] - 1], np.diff(groups))
    return np.asarray((running - before) / (last - before))


def _alias_table(mass: Float) -> tuple[Float, Int]:
    """Return an alias table (Vose 1991): a uniform index ``i`` is to be replaced by ``alias[i]`` with probability ``1 -
    threshold[i]``."""
    n = mass.shape[0]
    threshold, alias = np.ones(n), np.arange(n)
    _fill_alias_table(mass, np.empty(n), np.empty((2, n), np.int64), threshold, alias)
    return threshold, alias


# ---- kernels


@kernel
def _fill_alias_table(mass, left, entries, threshold, alias):  # type: ignore[no-untyped-def]
    """Fill the alias table; ``left`` is a buffer for the unassigned mass of each entry, in units of the mean mass."""
    # Each step completes an entry below the mean: its own mass becomes its threshold, and an entry above the mean
    # provides the rest. That entry may then be below the mean itself.
    n = mass.shape[0]
    small, large = entries[0], entries[1]
    mean = 0.0
    for i in range(n):
        mean += mass[i]
    mean /= max(n, 1)
    n_small = n_large = 0
    for i in range(n):
        left[i] = mass[i] / mean
        if left[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        i, j = small[n_small], large[n_large - 1]
        threshold[i], alias[i] = left[i], j
        left[j] -= 1.0 - left[i]
        if left[j] < 1.0:
            n_large -= 1
            small[n_small] = j
            n_small += 1


@kernel(inline="always")
def _uniform(key, counter):  # type: ignore[no-untyped-def]
    """Return the uniform random number in [0, 1) at position ``counter`` of a stream."""
    # splitmix64 (Steele, Lea & Flood 2014) hashes key and counter, so that a descent can continue at any counter. The
    # upper 53 bits of the hash are multiplied by 2^-53.
    z = key + np.uint64(counter) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 1.1102230246251565e-16


@kernel(inline="always")
def _first_above(share, x, low, high):  # type: ignore[no-untyped-def]
    """Return the first index from ``low`` to ``high`` whose cumulative share exceeds ``x``, by bisection."""
    while low < high:
        middle = (low + high) >> 1
        if x < share[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def draw_into(index, key, number, n, each, better, worse, at, batch):  # type: ignore[no-untyped-def]
    """Sample the pairs of ``n`` steps, ``each`` per step, from pair ``number`` of a stream on; store their row
    indices."""
    # The pairs of step ``i`` are written to ``better`` and ``worse`` from index ``at + i * batch`` on. Each pair takes
    # three uniform numbers: for the query, for the first document, and for the second document among those that form a
    # pair with the first.
    rows, starts, threshold, alias, groups, group_starts, share = index
    for i in range(n):
        for slot in range(at + i * batch, at + i * batch + each):
            # the integer part of x selects the entry; the fractional part is also uniform and chooses the entry or its
            # alias
            x = _uniform(key, 3 * number) * threshold.shape[0]
            q = np.int64(x)
            if x - q >= threshold[q]:
                q = alias[q]
            start, stop = starts[q], starts[q + 1]
            x = _uniform(key, 3 * number + 1)
            y = _uniform(key, 3 * number + 2)
            number += 1
            if groups.shape[0] == 0:
                # without labels, the second document is any document except the first
                a = start + np.int64(x * (stop - start))
                b = start + np.int64(y * (stop - start - 1))
                better[slot], worse[slot] = rows[a], rows[b + (b >= a)]
                continue
            grade = _first_above(share, x, groups[q], groups[q + 1] - 1)
            # the position of x between two cumulative shares is also uniform: it selects the document of this grade
            below = share[grade - 1] if grade > groups[q] else 0.0
            first, last = group_starts[grade], group_starts[grade + 1]
            a = first + min(np.int64((x - below) / (share[grade] - below) * (last - first)), last - first - 1)
            # the second document is any document of another grade; rows are in ascending order of grade
            b = start + np.int64(y * (stop - start - (last - first)))
            if b < first:
                better[slot], worse[slot] = rows[a], rows[b]
            else:
                better[slot], worse[slot] = rows[b + (last - first)], rows[a]
