"""``Forest``: decision trees as arrays, and the leaf of each tree that a row falls into.

Where no tree has more than 64 leaves, all conditions of a tree are evaluated for many rows at once: a condition that
sends a row to the right strikes the leaves of its left subtree from the row's bit mask, and the lowest bit left is the
row's leaf (Lucchese et al., "QuickScorer", SIGIR 2015, section 3). Larger trees are walked row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.protocols import Float, Int

__all__ = ["Forest", "Tree"]

_ROWS_PER_TASK = 1 << 14

# multiplied by a power of two these have another number in their highest bits for each power
_DE_BRUIJN = {16: 0x09AF, 32: 0x077CB531, 64: 0x03F79D71B4CB0A89}


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree, as readers of models give it; see :class:`Forest` for the fields."""

    feature: Sequence[int]
    threshold: Sequence[float]
    nan_left: Sequence[bool]
    left: Sequence[int]
    right: Sequence[int]
    n_leaves: int
    categories: dict[int, Sequence[int]]
    """By number of the node: values that go left."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose inner nodes send a row to the left where ``x[feature] <= threshold``.

    Attributes
    ----------
    n_features : int
    nodes, leaves : ndarray of int64, shape (n_trees + 1,)
        Tree ``t`` has the inner nodes ``nodes[t]:nodes[t + 1]``, the root first, and the leaves
        ``leaves[t]:leaves[t + 1]``.
    feature : ndarray of int64, shape (n_nodes,)
    threshold : ndarray of float64, shape (n_nodes,)
    nan_left : ndarray of int64, shape (n_nodes,)
        1 where a missing value goes to the left.
    left, right : ndarray of int64, shape (n_nodes,)
        Child: a node, counted from the root of its tree and higher than its parent, or ``~leaf``.
    sets : ndarray of int64, shape (n_nodes,)
        Number of the set of categories that go to the left; -1 for a node with a threshold. All else goes to the
        right, negative and missing values included. Fractions are cut off.
    set_starts : ndarray of int64, shape (n_sets + 1,)
    set_values : ndarray of int64
        The categories of set ``i`` are ``set_values[set_starts[i]:set_starts[i + 1]]``, ascending.

    Examples
    --------
    >>> tree = Tree([0], [0.5], [False], [~0], [~1], n_leaves=2, categories={})
    >>> Forest.of([tree], n_features=1).codes(np.array([[0.5], [0.6], [np.nan]]))
    array([[0],
           [1],
           [1]], dtype=uint8)
    """

    n_features: int
    nodes: Int
    leaves: Int
    feature: Int
    threshold: Float
    nan_left: Int
    left: Int
    right: Int
    sets: Int
    set_starts: Int
    set_values: Int

    @classmethod
    def of(cls, trees: Sequence[Tree], n_features: int) -> Forest:
        """Return the forest of some trees.

        Raises
        ------
        ValueError
            If a tree is none, or uses a feature beyond ``n_features``.
        """
        sizes, counts = [len(tree.feature) for tree in trees], [tree.n_leaves for tree in trees]
        first = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        sets = np.full(int(first[-1]), -1, dtype=np.int64)
        values: list[Int] = []
        for tree, start in zip(trees, first, strict=False):
            for node, members in tree.categories.items():
                sets[start + node] = len(values)
                values.append(np.unique(np.asarray(members, dtype=np.int64)))
        forest = cls(
            n_features,
            first,
            np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            _joined([tree.feature for tree in trees], np.int64),
            _joined([tree.threshold for tree in trees], np.float64),
            _joined([tree.nan_left for tree in trees], np.int64),
            _joined([tree.left for tree in trees], np.int64),
            _joined([tree.right for tree in trees], np.int64),
            sets,
            np.concatenate(([0], np.cumsum([len(v) for v in values]))).astype(np.int64),
            _joined(values, np.int64),
        )
        forest.check()
        return forest

    def check(self) -> None:
        """Raise for arrays by which compiled code would leave a tree, or never end.

        Raises
        ------
        ValueError
        """
        if any(one.ndim != 1 for one in (self.nodes, self.leaves, self.set_starts, self.set_values)):
            raise BadInput("forest", "expected arrays of one dimension")
        nodes, leaves = np.diff(self.nodes), np.diff(self.leaves)
        n = int(self.nodes[-1]) if self.nodes.size else -1
        if self.nodes.shape != self.leaves.shape or n < 0 or self.nodes[0] != 0 or self.leaves[0] != 0:
            raise BadInput("forest", "expected nodes and leaves for each tree")
        columns = (self.feature, self.threshold, self.nan_left, self.left, self.right, self.sets)
        if any(c.shape != (n,) for c in columns) or (nodes < 0).any() or (leaves != nodes + 1).any():
            raise BadInput("forest", "expected one leaf more than inner nodes in each tree")
        if n and not (self.feature.min() >= 0 and self.feature.max() < self.n_features):
            raise BadInput("forest", f"expected features from 0 to {self.n_features - 1}")
        if np.isnan(self.threshold).any():
            raise BadInput("forest", "expected thresholds that are numbers")
        tree = np.repeat(np.arange(nodes.shape[0]), nodes)
        own = np.arange(n) - self.nodes[tree]
        children = np.concatenate([self.left, self.right])
        parents, trees = np.tile(own, 2), np.tile(tree, 2)
        inner = children >= 0
        if (
            (children[inner] <= parents[inner]).any()
            or (children[inner] >= nodes[trees[inner]]).any()
            or (~children[~inner] >= leaves[trees[~inner]]).any()
        ):
            raise BadInput(
                "forest", "expected children that are nodes or leaves of the same tree, below their parent"
            )
        places = np.concatenate([
            self.nodes[trees[inner]] + children[inner], n + self.leaves[trees[~inner]] + ~children[~inner]
        ])  # fmt: skip
        if np.unique(places).size != places.size:
            raise BadInput("forest", "expected each node and leaf below one parent")
        n_sets = self.set_starts.shape[0] - 1
        starts = self.set_starts
        if (
            n_sets < 0
            or starts[0] != 0
            or starts[-1] != self.set_values.shape[0]
            or (np.diff(starts) < 0).any()
            or (n and not (self.sets.min() >= -1 and self.sets.max() < n_sets))
        ):
            raise BadInput("forest", "expected a set of categories for each node that has one")

    @property
    def n_trees(self) -> int:
        return int(self.nodes.shape[0] - 1)

    @property
    def most_leaves(self) -> int:
        """Leaves of the largest tree."""
        return int(np.diff(self.leaves).max(initial=1))

    def first(self, n_trees: int) -> Forest:
        """Return the forest of the first trees only."""
        n = int(self.nodes[n_trees])
        return replace(
            self,
            nodes=self.nodes[: n_trees + 1],
            leaves=self.leaves[: n_trees + 1],
            **{name: getattr(self, name)[:n] for name in _PER_NODE},
        )

    def joined(self, other: Forest) -> Forest:
        """Return the trees of this forest and then those of another over the same features."""
        moved = np.where(other.sets >= 0, other.sets + self.set_starts.shape[0] - 1, -1)
        both = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _PER_NODE}
        return Forest(
            self.n_features,
            np.concatenate([self.nodes, self.nodes[-1] + other.nodes[1:]]),
            np.concatenate([self.leaves, self.leaves[-1] + other.leaves[1:]]),
            **(both | {"sets": np.concatenate([self.sets, moved])}),
            set_starts=np.concatenate([self.set_starts, self.set_starts[-1] + other.set_starts[1:]]),
            set_values=np.concatenate([self.set_values, other.set_values]),
        )

    def codes(self, X: NDArray[Any], out: NDArray[Any] | None = None, *, n_jobs: int = 1) -> NDArray[Any]:
        """Return the leaf of each row in each tree.

        Parameters
        ----------
        X : ndarray of float32/float64, C-ordered, shape (n_rows, n_features)
            NaN where a value is missing.
        out : ndarray of uint8 or uint16, shape (n_rows, >= n_trees), optional
            Its first columns are filled.
        n_jobs : int, default=1
            Threads.

        Returns
        -------
        ndarray of uint8, or uint16 where a tree has more than 256 leaves
        """
        if out is None:
            out = np.empty((X.shape[0], self.n_trees), dtype=self.code_type)
        self._run(X, np.empty(0), out, np.empty(0), n_jobs)
        return out

    def add_scores(self, X: NDArray[Any], values: Float, scores: Float, *, n_jobs: int = 1) -> None:
        """Add to ``scores`` the value of each row's leaves; ``values`` has one number per leaf."""
        self._run(X, values, np.empty((0, 0), dtype=np.uint8), scores, n_jobs)

    @property
    def code_type(self) -> Any:
        """The type that holds a leaf number."""
        return np.uint8 if self.most_leaves <= 256 else np.uint16

    def _run(self, X: NDArray[Any], values: Float, codes: NDArray[Any], scores: Float, n_jobs: int) -> None:
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise BadInput("X", f"expected {self.n_features} features, got shape {X.shape}")
        arguments: tuple[Any, ...]
        run: Any
        if self.most_leaves <= 64:
            masks = self._masks
            threshold = self.threshold if X.dtype == np.float64 else _rounded_down(self.threshold)
            table, numbers = masks.tabulate(values), masks.numbers
            arguments = (
                self.nodes, self.feature, threshold, self.nan_left, masks.keep, self.sets, self.set_starts,
                self.set_values, masks.used, masks.full, masks.de_bruijn, masks.shift, table, numbers,
            )  # fmt: skip
            run = _by_masks
        else:
            arguments = (
                self.nodes, self.leaves, self.feature, self.threshold, self.nan_left, self.left, self.right,
                self.sets, self.set_starts, self.set_values, values,
            )  # fmt: skip
            run = _by_walking
        starts = range(0, X.shape[0], _ROWS_PER_TASK)
        if n_jobs == 1 or len(starts) == 1:
            run(X, 0, X.shape[0], *arguments, codes, scores)
            return

        def part(start: int) -> None:
            run(X, start, min(start + _ROWS_PER_TASK, X.shape[0]), *arguments, codes, scores)

        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(part, starts))

    @cached_property
    def _masks(self) -> _Masks:
        bits = 16 if self.most_leaves <= 16 else 32 if self.most_leaves <= 32 else 64
        return _Masks(self, bits)


_PER_NODE = ("feature", "threshold", "nan_left", "left", "right", "sets")


class _Masks:
    """What evaluating trees by bit masks needs: leaves from left to right are bits, from the lowest."""

    def __init__(self, forest: Forest, bits: int) -> None:
        kind: Any = {16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
        whole = (1 << bits) - 1
        self.full = np.array([whole], dtype=kind)
        self.de_bruijn = np.array([_DE_BRUIJN[bits]], dtype=kind)
        self.shift = np.array([bits - bits.bit_length() + 1], dtype=kind)
        self.used = np.unique(forest.feature)
        keep = [whole] * int(forest.nodes[-1])
        self.numbers = np.zeros((forest.n_trees, bits), dtype=np.uint8)
        self._size = int(forest.leaves[-1])
        self._place = np.full((forest.n_trees, bits), -1, dtype=np.int64)
        slots = [((1 << place) * _DE_BRUIJN[bits] & whole) >> int(self.shift[0]) for place in range(bits)]
        for t in range(forest.n_trees):
            a, b, first = int(forest.nodes[t]), int(forest.nodes[t + 1]), int(forest.leaves[t])
            left, right = forest.left[a:b].tolist(), forest.right[a:b].tolist()
            order = _from_left(left, right, keep, a, whole)
            for place, leaf in enumerate(order):
                self.numbers[t, slots[place]] = leaf
                self._place[t, slots[place]] = first + leaf
        self.keep = np.array(keep, dtype=kind)

    def tabulate(self, values: Float) -> Float:
        """Return the values of leaves in the order in which the kernel finds them."""
        if not values.size:
            return np.zeros(self._place.shape)
        if values.shape != (self._size,):
            raise BadInput("values", f"expected {self._size}, one for each leaf, got shape {values.shape}")
        return np.where(self._place >= 0, values[self._place], 0.0)


def _from_left(left: list[int], right: list[int], keep: list[int], start: int, whole: int) -> list[int]:
    """Return the leaves from left to right; fill what each condition keeps when it sends a row to the right."""
    if not left:
        return [0]
    count = [0] * len(left)
    for node in range(len(left) - 1, -1, -1):  # children are higher than their parents
        count[node] = sum(1 if child < 0 else count[child] for child in (left[node], right[node]))
    begin = [0] * len(left)
    leaves = [0] * count[0]
    for node in range(len(left)):
        n_left = 1 if left[node] < 0 else count[left[node]]
        keep[start + node] = whole & ~(((1 << n_left) - 1) << begin[node])
        for child, at in ((left[node], begin[node]), (right[node], begin[node] + n_left)):
            if child < 0:
                leaves[at] = ~child
            else:
                begin[child] = at
    return leaves


def _rounded_down(threshold: Float) -> NDArray[np.float32]:
    """The largest float32 up to each threshold: float32 values are on the same side of both."""
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)


def _joined(parts: Sequence[Any], kind: Any) -> NDArray[Any]:
    return np.concatenate([np.asarray(part, dtype=kind) for part in parts] or [np.empty(0)]).astype(kind)


@kernel
def _in_set(value, set_values, first, last):
    """Whether a value, cut off to a whole number, is in a sorted stretch."""
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


@kernel
def _strike(column, n, threshold, keep, full, nan_left, masks):
    """Strike the leaves of a condition's left subtree from the rows that it sends to the right."""
    if nan_left:
        for i in range(n):
            masks[i] &= keep if column[i] > threshold else full
    else:
        for i in range(n):
            masks[i] &= full if column[i] <= threshold else keep


@kernel
def _by_masks(
    X, start, stop, nodes, feature, threshold, nan_left, keep, sets, set_starts, set_values, used, full, de_bruijn,
    shift, table, numbers, codes, scores,
):  # fmt: skip
    """Fill ``codes`` and add to ``scores``, each where it has rows."""
    block = 256  # rows evaluated at once: their values of all features stay in the cache
    columns = np.empty((X.shape[1], block), dtype=X.dtype)
    masks = np.empty(block, dtype=keep.dtype)
    one = np.ones(1, dtype=keep.dtype)  # of the type of the masks: others would make them floats
    for first in range(start, stop, block):
        n = min(block, stop - first)
        for u in range(used.shape[0]):
            f = used[u]
            column = columns[f]
            for i in range(n):
                column[i] = X[first + i, f]
        for t in range(nodes.shape[0] - 1):
            masks[:n] = full[0]
            for node in range(nodes[t], nodes[t + 1]):
                column = columns[feature[node]]
                if sets[node] < 0:
                    _strike(column, n, threshold[node], keep[node], full[0], nan_left[node], masks)
                else:
                    a, b = set_starts[sets[node]], set_starts[sets[node] + 1]
                    for i in range(n):
                        if not _in_set(column[i], set_values, a, b):
                            masks[i] &= keep[node]
            for i in range(n):  # the lowest bit, hashed
                masks[i] = (((masks[i] & (~masks[i] + one[0])) * de_bruijn[0]) & full[0]) >> shift[0]
            if codes.shape[0]:
                for i in range(n):
                    codes[first + i, t] = numbers[t, masks[i]]
            if scores.shape[0]:
                for i in range(n):
                    scores[first + i] += table[t, masks[i]]


@kernel
def _by_walking(
    X, start, stop, nodes, leaves, feature, threshold, nan_left, left, right, sets, set_starts, set_values, values,
    codes, scores,
):  # fmt: skip
    for r in range(start, stop):
        for t in range(nodes.shape[0] - 1):
            root = nodes[t]
            node = 0 if nodes[t + 1] > root else -1
            while node >= 0:
                k = root + node
                value = np.float64(X[r, feature[k]])
                if sets[k] >= 0:
                    to_left = _in_set(value, set_values, set_starts[sets[k]], set_starts[sets[k] + 1])
                elif np.isnan(value):
                    to_left = nan_left[k] != 0
                else:
                    to_left = value <= threshold[k]
                node = left[k] if to_left else right[k]
            if codes.shape[0]:
                codes[r, t] = ~node
            if scores.shape[0]:
                scores[r] += values[leaves[t] + ~node]
