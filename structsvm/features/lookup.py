"""``Lookup``: the leaf of each row in each tree, and its bins, computed from ranks of values by compiled code.

If no tree has more than 64 leaves, all conditions of a tree are evaluated for many rows at once: a condition that
sends a row to the right removes the leaves of its left subtree from the row's bit mask, and the lowest remaining bit is
the row's leaf (Lucchese et al., "QuickScorer", SIGIR 2015, section 3). Larger trees, such as those of random forests,
are walked row by row. Both methods use :class:`~structsvm.features.ranks.Ranks`, which are computed once per value.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, counted
from structsvm.common.interpreted import run
from structsvm.common.kernel import kernel
from structsvm.features.forest import Forest
from structsvm.features.ranks import Ranks, fill_ranks, rounded_down
from structsvm.protocols import Float, Int
from structsvm.queries import offsets_of

MOST_MASKED = 64
"""Maximum number of leaves of a tree whose conditions are evaluated all at once."""

_ROWS_PER_TASK = 1 << 14
_BLOCK = 512
"""Number of rows evaluated at once, so that their ranks stay in the cache."""

_WIDTH = 8
"""Number of conditions that share the loads of a row's mask."""

# De Bruijn sequences: the highest bits of the product with a power of two are distinct for each power
_DE_BRUIJN = {16: 0x09AF, 32: 0x077CB531, 64: 0x03F79D71B4CB0A89}


class Lookup:
    """Compiled look-up of leaves and bins for rows of one dtype; each array of ``thresholds`` starts at -infinity."""

    def __init__(self, forest: Forest, thresholds: Sequence[Float], kind: Any) -> None:
        self._n_features = forest.n_features
        self._n_leaves = int(forest.leaves[-1])
        self._kind = np.dtype(kind)
        limits = rounded_down(forest.threshold, kind)
        bins = [rounded_down(np.asarray(one), kind) for one in thresholds]
        conditions = np.flatnonzero(forest.sets < 0)
        conditions = conditions[np.argsort(forest.feature[conditions], kind="stable")]
        ordered = forest.feature[conditions]
        self._used = np.unique(np.concatenate([ordered, np.arange(len(bins))]))
        ends = np.searchsorted(ordered, self._used, side="right")
        edges, rank = [], np.zeros(forest.feature.shape[0], dtype=np.int64)
        for f, first, last in zip(self._used, np.concatenate(([0], ends)), ends, strict=False):
            own = limits[conditions[first:last]]
            both = np.concatenate([own, bins[f]]) if bins else own
            edges.append(np.unique(both[np.isfinite(both)]))
            rank[conditions[first:last]] = np.searchsorted(_all_edges(edges[-1]), own)
        self._ranks = Ranks(edges, kind)
        # A missing value has rank 0, below every limit, and goes to the left. Conditions that send it to the right
        # use a copy of the feature's ranks in which a missing value has the highest number.
        to_right = (forest.sets < 0) & (forest.nan_left == 0)
        copied = np.unique(forest.feature[to_right])
        self._copied = np.searchsorted(self._used, copied)
        column = np.where(
            to_right,
            self._used.shape[0] + np.searchsorted(copied, forest.feature),
            np.searchsorted(self._used, forest.feature),
        )
        self._set_bins(edges, bins)
        self._most_leaves = forest.most_leaves
        self._sets = forest.feature, forest.sets, forest.set_starts, forest.set_values
        rank = rank.astype(self._ranks.code_type)
        if self._most_leaves <= MOST_MASKED:
            self._masks = _Masks(forest, column, rank)
        else:
            column = column.astype(np.uint64)
            self._walk = forest.nodes, forest.leaves, column, rank, forest.left, forest.right

    def _set_bins(self, edges: list[NDArray[Any]], bins: list[NDArray[Any]]) -> None:
        """Tabulate how many bin edges each rank exceeds; ranks count the edges of bins and the limits of trees."""
        self._n_bins = np.array([one.shape[0] for one in bins], dtype=np.int64)
        exceeded = [
            np.concatenate(([0], np.cumsum(np.isin(_all_edges(all_of_it), own))))
            for all_of_it, own in zip(edges, bins, strict=False)
        ]
        self._exceeded = np.concatenate([*exceeded, np.empty(0)]).astype(np.int64)
        self._exceeded_starts = offsets_of([len(e) for e in exceeded])

    def fill_codes(self, X: NDArray[Any], codes: NDArray[Any], *, n_jobs: int = 1) -> None:
        """Fill ``codes`` with the leaf of each row in each tree, then with the edges exceeded in each feature."""
        self._run(X, _NOTHING, self._exceeded.astype(codes.dtype), _NOTHING, codes, _NOTHING, n_jobs)

    def add_scores(self, X: NDArray[Any], coef: Float, scores: Float, *, n_jobs: int = 1) -> None:
        """Add the weights of each row's leaves (first in ``coef``) and of the edges it exceeds to ``scores``."""
        expected = self._n_leaves + int(self._n_bins.sum())
        if coef.shape != (expected,):
            raise BadInput("coef", f"expected {expected} weights of leaves and edges, got shape {coef.shape}")
        starts = offsets_of(self._n_bins)
        sums = np.empty(self._exceeded.shape[0])
        _sum_edges(coef[self._n_leaves :], starts, self._exceeded, self._exceeded_starts, sums)
        self._run(X, coef[: self._n_leaves], _NO_CODES.ravel(), sums, _NO_CODES, scores, n_jobs)

    def _run(
        self,
        X: NDArray[Any],
        values: Float,
        counts: NDArray[Any],
        sums: Float,
        codes: NDArray[Any],
        scores: Float,
        n_jobs: int,
    ) -> None:
        if X.ndim != 2 or X.shape[1] != self._n_features:
            raise BadInput("X", f"expected {counted(feature=self._n_features)}, got shape {X.shape}")
        X = np.ascontiguousarray(X, dtype=self._kind)
        n_conditions = self._n_leaves + self._used.shape[0]
        kernel, kind, trees = (
            (_by_masks, self._masks.kind, self._masks.arrays(values))
            if self._most_leaves <= MOST_MASKED
            else (_by_walking, np.uint64, (*self._walk, values))
        )

        def part(start: int) -> None:
            stop = min(start + _ROWS_PER_TASK, X.shape[0])
            block = min(_BLOCK, stop - start)
            columns = np.empty((16, block), dtype=X.dtype)
            bits = columns.view(np.int32 if X.dtype == np.float32 else np.int64)
            cells = np.empty(block, dtype=np.uint32)
            ranks = np.empty(
                (self._used.shape[0] + self._copied.shape[0], block), dtype=self._ranks.code_type
            )
            room = columns, bits, cells, ranks, np.empty((4, block), dtype=kind)
            in_python = 2e-7 * (stop - start) * n_conditions
            run(
                kernel,
                in_python,
                X,
                start,
                stop,
                self._used,
                self._copied,
                self._ranks.arrays,
                room,
                self._sets,
                trees,
                (counts, sums),
                self._exceeded_starts,
                codes,
                scores,
            )

        tasks = range(0, X.shape[0], _ROWS_PER_TASK)
        if n_jobs == 1 or len(tasks) == 1:
            for start in tasks:
                part(start)
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(part, tasks))


# Empty arrays of the usual types, so that each kernel is compiled only once for codes and scores.
_NO_CODES = np.empty((0, 0), dtype=np.uint8)
_NOTHING = np.empty(0)


def _all_edges(finite: NDArray[Any]) -> NDArray[Any]:
    """Return all edges; a value of rank ``r`` exceeds the first ``r`` of them, and every number exceeds -infinity."""
    return np.concatenate(([-np.inf], finite)).astype(finite.dtype)


class _Masks:
    """Arrays for evaluating trees by bit masks, in which the lowest bit stands for the leftmost leaf, and so on."""

    def __init__(self, forest: Forest, column: Int, rank: NDArray[Any]) -> None:
        n_trees, most = forest.n_trees, forest.most_leaves
        bits = 16 if most <= 16 else 32 if most <= 32 else 64
        self.kind = kind = np.dtype(f"uint{bits}")
        whole = (1 << bits) - 1
        shift = bits - bits.bit_length() + 1
        self._constants = np.array([0, 1, _DE_BRUIJN[bits], whole, shift], dtype=kind)
        self._numbers = np.zeros((n_trees, bits), dtype=np.uint16)
        self._columns = np.full((n_trees, bits), -1, dtype=np.int64)
        slots = [((1 << bit) * _DE_BRUIJN[bits] & whole) >> shift for bit in range(bits)]
        left_of = [0] * int(forest.nodes[-1])
        groups: list[int] = []
        starts, set_nodes, set_starts = [0], [], [0]
        # the number of a dummy condition that removes no leaves, to pad a group of eight
        nothing = int(forest.nodes[-1])
        for t in range(n_trees):
            a, b, first = int(forest.nodes[t]), int(forest.nodes[t + 1]), int(forest.leaves[t])
            order = _from_left(forest.left[a:b].tolist(), forest.right[a:b].tolist(), left_of, a)
            for bit, leaf in enumerate(order):
                self._numbers[t, slots[bit]] = leaf
                self._columns[t, slots[bit]] = first + leaf
            own = np.arange(a, b)
            plain = own[forest.sets[a:b] < 0].tolist()
            groups += plain + [nothing] * (-len(plain) % _WIDTH)
            set_nodes += own[forest.sets[a:b] >= 0].tolist()
            starts.append(len(groups))
            set_starts.append(len(set_nodes))
        chosen = np.array(groups, dtype=np.int64)
        highest = np.iinfo(rank.dtype).max
        strikes = np.array([*left_of, 0], dtype=kind)
        self._conditions = (
            np.append(column, 0)[chosen].astype(np.uint64),
            np.append(rank, highest)[chosen].astype(rank.dtype),
            strikes[chosen],
            np.array(starts, dtype=np.int64),
            np.array(set_nodes, dtype=np.int64),
            np.array(set_starts, dtype=np.int64),
            strikes,
        )

    def arrays(self, values: Float) -> tuple[Any, ...]:
        """Return the arguments of the kernel; leaf values are in the order of its hash of the lowest bit."""
        table = np.where(self._columns >= 0, values[self._columns], 0.0) if values.size else np.empty((0, 0))
        return self._conditions, self._constants, self._numbers, table


def _from_left(left: list[int], right: list[int], left_of: list[int], start: int) -> list[int]:
    """Return the leaves from left to right; fill ``left_of`` with the bits of the leaves left of each condition."""
    if not left:
        return [0]
    count = [0] * len(left)
    for node in range(len(left) - 1, -1, -1):  # children have higher numbers than their parents
        count[node] = sum(1 if child < 0 else count[child] for child in (left[node], right[node]))
    begin = [0] * len(left)
    leaves = [0] * count[0]
    for node in range(len(left)):
        n_left = 1 if left[node] < 0 else count[left[node]]
        left_of[start + node] = ((1 << n_left) - 1) << begin[node]
        for child, at in ((left[node], begin[node]), (right[node], begin[node] + n_left)):
            if child < 0:
                leaves[at] = ~child
            else:
                begin[child] = at
    return leaves


@kernel(inline="always")
def _in_set(value, set_values, first, last):  # type: ignore[no-untyped-def]
    """Return whether a value, truncated to an integer, is in the sorted ``set_values[first:last]``."""
    if not value > -1.0 or value >= 9.0e18:
        return False
    whole = np.int64(value)
    end = last
    while first < last:
        middle = (first + last) // 2
        if set_values[middle] < whole:
            first = middle + 1
        else:
            last = middle
    return first < end and set_values[first] == whole


@kernel(inline="always")
def _copy_ranks(ranks, copied, n_used, n):  # type: ignore[no-untyped-def]
    """Copy ranks, with the highest number for a missing value, for conditions that send it to the right."""
    for c in range(copied.shape[0]):
        s, t = np.uint64(copied[c]), np.uint64(n_used + c)
        for i in range(n):
            r = ranks[s, i]
            ranks[t, i] = r if r > 0 else ~r


@kernel
def _sum_edges(weights, starts, exceeded, places, table):  # type: ignore[no-untyped-def]
    """Fill ``table`` with the score of each rank: the sum of the weights of the edges exceeded."""
    for f in range(places.shape[0] - 1):
        total, n = 0.0, 0
        for r in range(places[f], places[f + 1]):
            while n < exceeded[r]:
                total += weights[starts[f] + n]
                n += 1
            table[r] = total


@kernel(inline="always")
def _add_bins(ranks, n, first, n_trees, tables, starts, codes, scores):  # type: ignore[no-untyped-def]
    """Look up the rank of each feature in a table: fill the last columns of ``codes``, or add to ``scores``."""
    counts, sums = tables
    for f in range(starts.shape[0] - 1):
        start, s = np.uint64(starts[f]), np.uint64(f)
        if codes.shape[0]:
            for i in range(n):
                codes[first + i, n_trees + f] = counts[start + np.uint64(ranks[s, i])]
        if scores.shape[0]:
            for i in range(n):
                scores[first + i] += sums[start + np.uint64(ranks[s, i])]


@kernel(inline="always")
def _strike(ranks, column, limit, strikes, j, n, masks, u, zero):  # type: ignore[no-untyped-def]
    """For eight conditions, remove the leaves of the left subtree from the masks of rows sent to the right."""
    c0, c1, c2, c3 = column[j], column[j + 1], column[j + 2], column[j + 3]
    c4, c5, c6, c7 = column[j + 4], column[j + 5], column[j + 6], column[j + 7]
    k0, k1, k2, k3 = limit[j], limit[j + 1], limit[j + 2], limit[j + 3]
    k4, k5, k6, k7 = limit[j + 4], limit[j + 5], limit[j + 6], limit[j + 7]
    s0, s1, s2, s3 = strikes[j], strikes[j + 1], strikes[j + 2], strikes[j + 3]
    s4, s5, s6, s7 = strikes[j + 4], strikes[j + 5], strikes[j + 6], strikes[j + 7]
    for i in range(n):
        low = (s0 if ranks[c0, i] > k0 else zero) | (s1 if ranks[c1, i] > k1 else zero)
        low |= (s2 if ranks[c2, i] > k2 else zero) | (s3 if ranks[c3, i] > k3 else zero)
        high = (s4 if ranks[c4, i] > k4 else zero) | (s5 if ranks[c5, i] > k5 else zero)
        high |= (s6 if ranks[c6, i] > k6 else zero) | (s7 if ranks[c7, i] > k7 else zero)
        masks[u, i] |= low | high


@kernel
def _by_masks(  # type: ignore[no-untyped-def]
    X, start, stop, used, copied, arrays, room, sets_of_nodes, trees, tables, table_starts, codes, scores
):
    """Fill ``codes`` and add to ``scores``; an output without rows is skipped."""
    columns, bits, cells, ranks, masks = room
    feature, sets, set_starts, set_values = sets_of_nodes
    conditions, constants, numbers, values = trees
    column, limit, strikes, group_starts, set_nodes, set_node_starts, node_strikes = conditions
    zero, one, de_bruijn, full, down = constants[0], constants[1], constants[2], constants[3], constants[4]
    n_trees = group_starts.shape[0] - 1
    block = cells.shape[0]
    for first in range(start, stop, block):
        n = min(block, stop - first)
        fill_ranks(X, first, n, used, arrays, columns, bits, cells, ranks)
        _copy_ranks(ranks, copied, used.shape[0], n)
        for t in range(0, n_trees, 4):  # one load and store of a row's score serves four trees
            many = min(4, n_trees - t)
            for u in range(many):
                for i in range(n):
                    masks[u, i] = zero
                for j in range(group_starts[t + u], group_starts[t + u + 1], 8):
                    _strike(ranks, column, limit, strikes, j, n, masks, u, zero)
                # conditions on categories test the value itself instead of a rank
                for j in range(set_node_starts[t + u], set_node_starts[t + u + 1]):
                    node = set_nodes[j]
                    a, b = set_starts[sets[node]], set_starts[sets[node] + 1]
                    for i in range(n):
                        if not _in_set(X[first + i, feature[node]], set_values, a, b):
                            masks[u, i] |= node_strikes[node]
                # m & -m is the lowest remaining bit, a power of two; the product hashes it to a slot of the tree
                for i in range(n):
                    m = ~masks[u, i]
                    masks[u, i] = (((m & (~m + one)) * de_bruijn) & full) >> down
                if codes.shape[0]:
                    for i in range(n):
                        codes[first + i, t + u] = numbers[t + u, masks[u, i]]
            if scores.shape[0]:
                if many == 4:
                    for i in range(n):
                        score = scores[first + i] + values[t, masks[0, i]]
                        score += values[t + 1, masks[1, i]]
                        score += values[t + 2, masks[2, i]]
                        scores[first + i] = score + values[t + 3, masks[3, i]]
                else:
                    for u in range(many):
                        for i in range(n):
                            scores[first + i] += values[t + u, masks[u, i]]
        _add_bins(ranks, n, first, n_trees, tables, table_starts, codes, scores)


@kernel
def _by_walking(  # type: ignore[no-untyped-def]
    X, start, stop, used, copied, arrays, room, sets_of_nodes, trees, tables, table_starts, codes, scores
):
    """Do the same as :func:`_by_masks`, row by row; indices are unsigned, as in :func:`fill_ranks`."""
    columns, bits, cells, ranks, _ = room
    feature, sets, set_starts, set_values = sets_of_nodes
    nodes, leaves, column, limit, left, right, values = trees
    block = cells.shape[0]
    n_trees = nodes.shape[0] - 1
    for first in range(start, stop, block):
        n = min(block, stop - first)
        fill_ranks(X, first, n, used, arrays, columns, bits, cells, ranks)
        _copy_ranks(ranks, copied, used.shape[0], n)
        for i in range(n):
            place, row = np.uint64(i), np.uint64(first + i)
            for t in range(n_trees):
                root = nodes[t]
                node = 0 if nodes[t + 1] > root else -1
                while node >= 0:
                    k = np.uint64(root + node)
                    if sets[k] >= 0:
                        a, b = set_starts[sets[k]], set_starts[sets[k] + 1]
                        to_left = _in_set(X[row, feature[k]], set_values, a, b)
                    else:
                        to_left = ranks[column[k], place] <= limit[k]
                    node = left[k] if to_left else right[k]
                if codes.shape[0]:
                    codes[row, np.uint64(t)] = ~node
                if scores.shape[0]:
                    scores[row] += values[np.uint64(leaves[t] + ~node)]
        _add_bins(ranks, n, first, n_trees, tables, table_starts, codes, scores)
