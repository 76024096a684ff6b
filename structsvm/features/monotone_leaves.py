"""``MonotoneRows``: sets of leaves in place of leaves, so that weights >= 0 keep the score monotone in some features.

At a split on a feature with sign 1, each leaf of the right subtree must weigh at least as much as each leaf of the left
subtree, as in LightGBM's "basic" method. This suffices: if only this feature of a row increases, the row moves to
another leaf at a split on this feature, whatever the values of the other features, missing ones included.

Weights that respect this partial order are sums, with coefficients >= 0, of indicators of up-sets. The columns are the
up-sets of all leaves above a leaf, and of all leaves except those below a leaf. Columns that are constant do not affect
a ranking and are omitted. A leaf that no split orders keeps a column of its own, with a free weight.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.features.coded_rows import LeafRows, _leaf_combine, _leaf_query_joint, _leaf_scores
from structsvm.features.forest import Forest
from structsvm.protocols import Float, Int
from structsvm.queries import offsets_of


class MonotoneRows:
    """:class:`~structsvm.protocols.CompiledRows` whose columns are bins, and sets of leaves of the first trees.

    ``features`` has the direction in which the score may move with each feature (1, -1, or 0 for both), ``signs`` the
    required sign of the weight of each column.
    """

    def __init__(self, rows: LeafRows, forest: Forest, features: Int) -> None:
        columns, signs = [], []
        for tree in range(rows.n_trees):
            sets, n_free = _sets_of(forest, tree, features)
            columns += [forest.leaves[tree] + np.flatnonzero(one) for one in sets]
            signs += [0] * n_free + [1] * (len(sets) - n_free)
        n_edges = np.diff(rows.starts[rows.n_trees :])
        of_bins = np.repeat(features[: n_edges.size], n_edges)
        of_bins[np.cumsum(n_edges) - n_edges] = 0  # the edge above missing values, which are not ordered
        self.signs: Float = np.concatenate([signs, of_bins]).astype(np.float64)
        self.shape, self.nbytes = (len(rows), int(self.signs.size)), rows.nbytes
        self.row_kernels: tuple[Any, Any, Any] = _scores, _combine, _query_joint
        self.row_arrays: tuple[Any, ...] = (
            *rows.row_arrays,
            offsets_of([len(one) for one in columns]),
            np.concatenate([*columns, np.empty(0, dtype=np.int64)]),
        )

    def leaf_weights(self, w: Float) -> Float:
        """Return the weights of leaves and bins with the same scores as the weights ``w`` of the columns."""
        _, starts, _, sets, members = self.row_arrays
        return np.asarray(_leaf_weights(starts, sets, members, w))


def _sets_of(forest: Forest, tree: int, features: Int) -> tuple[NDArray[np.bool_], int]:
    """Return a matrix with a row for each column of a tree, and the number of single leaves with which it begins."""
    nodes = slice(forest.nodes[tree], forest.nodes[tree + 1])
    leaves = np.eye(forest.leaves[tree + 1] - forest.leaves[tree], dtype=np.bool_)
    signs = np.where(forest.sets[nodes] < 0, features[forest.feature[nodes]], 0)
    children = np.column_stack([forest.left[nodes], forest.right[nodes]]).tolist()
    below = np.zeros((len(children), len(leaves)), dtype=np.bool_)
    above = leaves.copy()  # above[a, b]: leaf b must weigh at least as much as leaf a
    for node in range(len(children) - 1, -1, -1):  # children have higher numbers than their parents
        sides = [leaves[~child] if child < 0 else below[child] for child in children[node]]
        below[node] = sides[0] | sides[1]
        if signs[node]:
            low, high = sides[:: signs[node]]
            above |= np.outer(low, high)
    free = (above.sum(axis=0) == 1) & (above.sum(axis=1) == 1)
    up = np.unique(np.vstack([above[~free], ~above.T[~free]]), axis=0)
    up = up[up.any(axis=1) & ~up.all(axis=1)]
    return np.vstack([leaves[free], up]), int(free.sum())


@kernel
def _leaf_weights(starts, sets, members, w):  # type: ignore[no-untyped-def]
    n_sets = sets.shape[0] - 1
    n_leaves = starts[-1] - (w.shape[0] - n_sets)
    out = np.zeros(starts[-1])
    # Weights of the same sets are added in the same order, so that rounding keeps the order of leaves.
    for s in range(n_sets):
        for i in range(sets[s], sets[s + 1]):
            out[members[i]] += w[s]
    out[n_leaves:] = w[n_sets:]
    return out


@kernel
def _add_sets(of_leaves, sets, members, joint):  # type: ignore[no-untyped-def]
    n_sets = sets.shape[0] - 1
    n_leaves = of_leaves.shape[0] - (joint.shape[0] - n_sets)
    for s in range(n_sets):
        for i in range(sets[s], sets[s + 1]):
            joint[s] += of_leaves[members[i]]
    for b in range(joint.shape[0] - n_sets):
        joint[n_sets + b] += of_leaves[n_leaves + b]


@kernel
def _scores(codes, starts, base, sets, members, start, stop, w, out):  # type: ignore[no-untyped-def]
    _leaf_scores(codes, starts, base, start, stop, _leaf_weights(starts, sets, members, w), out)


@kernel
def _combine(codes, starts, base, sets, members, offsets, first, last, weights, coef, joint):  # type: ignore[no-untyped-def]
    of_leaves = np.zeros(starts[-1])
    _leaf_combine(codes, starts, base, offsets, first, last, weights, coef, of_leaves)
    _add_sets(of_leaves, sets, members, joint)


@kernel
def _query_joint(codes, starts, base, sets, members, offsets, first, last, coef, joint):  # type: ignore[no-untyped-def]
    of_leaves = np.empty((last - first, starts[-1]))
    _leaf_query_joint(codes, starts, base, offsets, first, last, coef, of_leaves)
    joint[:] = 0.0
    for q in range(last - first):
        _add_sets(of_leaves[q], sets, members, joint[q])
