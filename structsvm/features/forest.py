"""``Forest``: decision trees as arrays."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.protocols import Float, Int
from structsvm.queries import offsets_of, rows_from


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree; see :class:`Forest` for the fields."""

    feature: Sequence[int]
    threshold: Sequence[float]
    nan_left: Sequence[bool]
    left: Sequence[int]
    right: Sequence[int]
    n_leaves: int
    categories: dict[int, Sequence[int]]
    """Categories that are sent to the left, keyed by node number."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Decision trees as arrays; an inner node sends a row to the left if ``x[feature] <= threshold``.

    Attributes
    ----------
    n_features : int
        Number of columns of a row.
    nodes, leaves : ndarray of int64, shape (n_trees + 1,)
        Tree ``t`` has the inner nodes ``nodes[t]:nodes[t + 1]``, of which the first is the root, and the leaves
        ``leaves[t]:leaves[t + 1]``.
    feature : ndarray of int64, shape (n_nodes,)
        Column that the node compares.
    threshold : ndarray of float64, shape (n_nodes,)
        Largest value that goes to the left; unused in a node with categories.
    nan_left : ndarray of int64, shape (n_nodes,)
        1 if a missing value goes to the left, otherwise 0.
    left, right : ndarray of int64, shape (n_nodes,)
        Children of the node: the number of an inner node within its tree, higher than the parent's, or ``~leaf``.
    sets : ndarray of int64, shape (n_nodes,)
        Index of the set of categories that go to the left, or -1 for a node with a threshold. Values are truncated to
        integers; all values outside the set, including negative and missing ones, go to the right.
    set_starts : ndarray of int64, shape (n_sets + 1,)
    set_values : ndarray of int64
        The categories of set ``i`` are ``set_values[set_starts[i]:set_starts[i + 1]]``, ascending.
    feature_names : tuple of str or None
        Names of the training columns; None if the model does not store them.
    signs : ndarray of int64, shape (n_features,), or None
        Signs of the features (1, -1 or 0) in which the score must be monotone; None if no feature has one.
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
    feature_names: Sequence[str] | None = None
    signs: Int | None = None

    @classmethod
    def of(cls, trees: Sequence[Tree], n_features: int, **described: Any) -> Self:
        """Return the forest of the given trees, with its names and signs of features."""
        # sets[k] is the index in ``values`` of the categories of node k of the forest, or -1
        sizes, counts = [len(tree.feature) for tree in trees], [tree.n_leaves for tree in trees]
        first = offsets_of(sizes)
        sets = np.full(int(first[-1]), -1, dtype=np.int64)
        values: list[Int] = []
        for tree, start in zip(trees, first, strict=False):
            for node, members in tree.categories.items():
                sets[start + node] = len(values)
                values.append(np.unique(np.asarray(members, dtype=np.int64)))
        types = {
            name: np.float64 if name == "threshold" else np.int64 for name in _PER_NODE if name != "sets"
        }
        fields: dict[str, Any] = {
            name: _joined([getattr(tree, name) for tree in trees], dtype) for name, dtype in types.items()
        }
        forest = cls(
            n_features,
            first,
            offsets_of(counts),
            **fields,
            sets=sets,
            set_values=_joined(values, np.int64),
            set_starts=offsets_of([len(v) for v in values]),
            **described,
        )
        forest.check()
        return forest

    def check(self) -> None:
        """Raise for arrays that would make compiled code read out of bounds or not terminate, as a crafted model file
        might."""
        for wrong, expected in self._faults():
            if wrong:
                raise BadInput("forest", f"expected {expected}")

    def _faults(self) -> Iterator[tuple[Any, str]]:
        """Yield pairs of a fault and the expected state; evaluate a fault only if all earlier ones are false."""
        names = self.feature_names
        if names is not None:
            yield len(names) != self.n_features, f"{self.n_features} names of features, got {len(names)}"
        signs = self.signs
        if signs is not None:
            yield signs.shape != (self.n_features,) or _beyond(signs, -1, 2), "a sign of each feature"
        vectors = (self.nodes, self.leaves, self.set_starts, self.set_values)
        yield any(one.ndim != 1 for one in vectors), "arrays of one dimension"
        nodes, leaves = np.diff(self.nodes), np.diff(self.leaves)
        n = int(self.nodes[-1]) if self.nodes.size else -1
        yield self.nodes.shape != self.leaves.shape or n < 0, "nodes and leaves for each tree"
        yield self.nodes[0] != 0 or self.leaves[0] != 0, "nodes and leaves for each tree"
        sizes = {getattr(self, name).shape for name in _PER_NODE}
        yield (
            sizes != {(n,)} or (nodes < 0).any() or (leaves != nodes + 1).any(),
            "one leaf more than inner nodes in each tree",
        )
        yield _beyond(self.feature, 0, self.n_features), f"features from 0 to {self.n_features - 1}"
        yield np.isnan(self.threshold).any(), "thresholds that are numbers"
        # Children have higher numbers than their parents, so that every walk ends. As each node and leaf also has only
        # one parent, the nodes form a tree.
        tree = np.repeat(np.arange(nodes.shape[0]), nodes)
        own = np.arange(n) - self.nodes[tree]
        children = np.concatenate([self.left, self.right])
        parents, trees = np.tile(own, 2), np.tile(tree, 2)
        inner = children >= 0
        yield (
            (children[inner] <= parents[inner]).any()
            or (children[inner] >= nodes[trees[inner]]).any()
            or (~children[~inner] >= leaves[trees[~inner]]).any(),
            "children that are nodes or leaves of the same tree, below their parent",
        )
        positions = np.concatenate(
            [self.nodes[trees[inner]] + children[inner], n + self.leaves[trees[~inner]] + ~children[~inner]]
        )
        yield np.unique(positions).size != positions.size, "exactly one parent of each node and leaf"
        starts = self.set_starts
        yield (
            not starts.size
            or starts[0] != 0
            or starts[-1] != self.set_values.shape[0]
            or (np.diff(starts) < 0).any()
            or _beyond(self.sets, -1, starts.size - 1),
            "a set of categories for each node that refers to one",
        )

    def check_columns(self, n_features: int, names: Sequence[Any] | None) -> None:
        """Raise for rows whose columns differ from the training columns of the trees in number or, if known, in
        name."""
        if n_features != self.n_features:
            raise BadInput("X", f"expected the {self.n_features} features of the trees, got {n_features}")
        if names is None or self.feature_names is None:  # without names, features match by position
            return
        for j, (own, given) in enumerate(zip(self.feature_names, names, strict=True)):
            if _BLANKS.sub("_", own) != _BLANKS.sub("_", str(given)):
                raise BadInput(
                    "X",
                    f"expected the columns that the trees were grown on, in their order, got {str(given)!r} for "
                    f"{own!r}",
                    "order the columns as in the model, or pass an array to match by position",
                    at=f" column {j}",
                )

    @property
    def n_trees(self) -> int:
        return int(self.nodes.shape[0] - 1)

    @property
    def most_leaves(self) -> int:
        """Return the number of leaves of the largest tree."""
        return int(np.diff(self.leaves).max(initial=1))

    def first(self, n_trees: int) -> Self:
        """Return a forest of the first ``n_trees`` trees."""
        return self._chosen(np.arange(n_trees))

    def joined(self, other: Self) -> Self:
        """Return the trees of this forest, followed by the trees of another forest over the same features."""
        # child numbers are relative to their tree and stay valid; set numbers refer to the whole forest and are shifted
        moved = np.where(other.sets >= 0, other.sets + self.set_starts.shape[0] - 1, -1)
        both: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _PER_NODE
        }
        return replace(
            self,
            nodes=np.concatenate([self.nodes, self.nodes[-1] + other.nodes[1:]]),
            leaves=np.concatenate([self.leaves, self.leaves[-1] + other.leaves[1:]]),
            **(both | {"sets": np.concatenate([self.sets, moved])}),
            set_starts=np.concatenate([self.set_starts, self.set_starts[-1] + other.set_starts[1:]]),
            set_values=np.concatenate([self.set_values, other.set_values]),
            feature_names=self.feature_names if other.feature_names is None else other.feature_names,
        )

    @classmethod
    def in_turn(cls, forests: Sequence[Self]) -> Self:
        """Return the first tree of each forest, then the second of each, and so on."""
        every = forests[0]
        for forest in forests[1:]:
            every = every.joined(forest)
        if len(forests) == 1:
            return every
        # a stable sort of the trees by their number within their forest keeps the order of the forests
        turns = np.concatenate([np.arange(forest.n_trees) for forest in forests])
        return every._chosen(np.argsort(turns, kind="stable"))

    def _chosen(self, trees: Int) -> Self:
        """Return the trees with the given numbers, in this order."""
        sizes, counts = np.diff(self.nodes)[trees], np.diff(self.leaves)[trees]
        nodes = rows_from(self.nodes[trees], sizes)
        return replace(
            self,
            nodes=offsets_of(sizes),
            leaves=offsets_of(counts),
            **{name: getattr(self, name)[nodes] for name in _PER_NODE},
        )

    @property
    def code_type(self) -> Any:
        """Return the smallest type that holds a leaf number."""
        return np.uint8 if self.most_leaves <= 256 else np.uint16


MOST_LEAVES = 1 << 16
"""Maximum number of leaves of a tree whose leaf numbers ``code_type`` holds."""


_BLANKS = re.compile(r"\s")
"""Whitespace in names, which LightGBM replaces by underscores."""

_PER_NODE = ("feature", "threshold", "nan_left", "left", "right", "sets")


def _beyond(values: Int, low: int, high: int) -> bool:
    """Return whether any value is outside ``range(low, high)``."""
    return bool(((values < low) | (values >= high)).any())


def _joined(parts: Sequence[Any], kind: Any) -> NDArray[Any]:
    return np.concatenate([np.asarray(part, dtype=kind) for part in parts] or [np.empty(0)]).astype(kind)
