"""Export of tree rankers, as trees with values in their leaves, to the formats of engines and runtimes.

The bins of a feature become an additional tree, with conditions on this feature only. It has a leaf for missing values.
"""

import json
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.row_checks import warn_user
from structsvm.export.bodies import as_json, import_onnx, onnx_model, solr_feature, solr_model
from structsvm.export.target import HUGE, SOLR_SLACK, Target, below_slack, power_without_slack
from structsvm.features.forest import Forest, Tree
from structsvm.protocols import Float

_LARGEST = float(np.finfo(np.float64).max)
_ONNX_IR, _ONNX_OPSET, _ONNX_ML_OPSET = 10, 21, 5  # the first versions in which trees add float64 values
_LEQ, _MEMBER, _SUM = 0, 6, 1  # codes of ONNX: comparison, set membership, aggregation
_MAX_DEPTH = 400
"""Maximum number of levels of a tree in nested JSON: each takes two of the 1,000 levels that Jackson, the parser of
the engines, accepts."""
_LIGHTGBM_ZERO = 1.001e-35
"""LightGBM treats values of smaller magnitude as 0, and has thresholds on both sides of 0 for this purpose."""
_SOLR_ZERO = 1.2e-13
"""Spacing of float32 numbers at Solr's slack: larger negative values count as 0 beside a threshold at 0."""
_COARSE = 3e-6
"""Spacing of float32 numbers, as a share of the spread of a feature's thresholds, above which scores may differ."""
_NO_BOUND = np.float32(3e38)
"""Threshold above all values."""


class ValuedForest(NamedTuple):
    """Trees with a value per leaf; the score of a row is the sum of the values of its leaves."""

    names: tuple[str, ...]
    forest: Forest
    values: Float
    categories: dict[str, list[Any]]
    """The categories of columns by name; trees compare their indices in the list."""
    near_zero: Float
    """The negative and the positive value of each feature closest to 0 in training."""

    def members(self, node: int) -> NDArray[np.int64]:
        """Return the categories that go left at a node with a set."""
        number = self.forest.sets[node]
        return self.forest.set_values[self.forest.set_starts[number] : self.forest.set_starts[number + 1]]


def valued_forest(model: Any, names: tuple[str, ...]) -> ValuedForest:
    """Return a fitted tree ranker as trees with values."""
    leaves, forest = model.leaves_, model.leaves_.forest_
    values = [np.asarray(model.coef_[: leaves.starts_[forest.n_trees]])]
    trees = []
    if leaves.thresholds_:
        steps_of = leaves.steps(model.coef_)
        for feature, (edges, steps) in enumerate(zip(leaves.thresholds_, steps_of, strict=True)):
            if steps.any():
                trees.append(_step_tree(feature, edges[1:].tolist()))
                values.append(steps)
    if trees:
        forest = forest.joined(Forest.of(trees, forest.n_features))
    # model files of earlier versions lack these values
    near = getattr(model, "near_zero_", np.outer([-np.inf, np.inf], np.ones(forest.n_features)))
    return ValuedForest(names, forest, np.concatenate(values), getattr(model, "categories_", {}), near)


def _step_tree(feature: int, edges: list[float]) -> Tree:
    """Return a binary search in ``edges`` as a tree: leaf 0 is for missing values, leaf ``k`` for values above ``k -
    1`` edges."""
    # the root only separates missing values, which go right
    threshold, left, right = [_LARGEST], [0], [~0]

    def add(low: int, high: int) -> int:
        """Return the node, or ``~leaf``, for values above at least ``low`` and at most ``high`` edges."""
        if low == high:
            return ~(low + 1)
        middle = (low + high) // 2
        node = len(threshold)
        threshold.append(edges[middle])
        left.append(0)
        right.append(0)
        left[node] = add(low, middle)
        right[node] = add(middle + 1, high)
        return node

    left[0] = add(0, len(edges))
    n = len(threshold)
    return Tree([feature] * n, threshold, [False] * n, left, right, n + 1, {})


def _lightgbm(valued: ValuedForest, target: Target) -> bytes:
    forest = valued.forest
    _warn_of_zero(valued, "LightGBM", np.outer([-1e-35, 1e-35], np.ones(forest.n_features)))
    head = {
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": forest.n_features - 1,
        "objective": "lambdarank",
        "feature_names": _line(valued.names),
        "feature_infos": _line(["none"] * forest.n_features),
    }
    parts = ["tree\n" + _fields(head) + "\n"]
    parts += [f"Tree={t}\n" + _fields(_tree_fields(valued, t)) + "\n\n" for t in range(forest.n_trees)]
    # LightGBM reads the categories of pandas columns from this entry
    known = list(valued.categories.values()) or None
    parts.append(
        "end of trees\n\nfeature_importances:\n\nparameters:\nend of parameters\n\n"
        f"pandas_categorical:{json.dumps(known)}\n"
    )
    return "".join(parts).encode()


def _warn_of_zero(valued: ValuedForest, engine: str, zero: Float) -> None:
    """Warn about features with training values that an engine takes for 0, between the two bounds of ``zero``, though
    the model has a threshold between these values and 0."""
    forest, near = valued.forest, valued.near_zero
    own, at = forest.threshold, np.where(forest.sets < 0, forest.feature, 0)
    below = (zero[0, at] < own) & (own < 0) & (near[0, at] > zero[0, at])
    above = (own >= 0) & (own < zero[1, at]) & (near[1, at] < zero[1, at])
    if used := np.unique(at[(below | above) & (forest.sets < 0)]).tolist():
        warn_user(
            f"{', '.join(valued.names[j] for j in used)}: some values in training are so close to 0 (within "
            f"{np.abs(zero[:, used]).max():.2g}) that {engine} counts them as 0, so that their scores differ from "
            "those of predict; round them to 0 before training"
        )


def _line(values: Any) -> str:
    return " ".join(map(str, values))


def _fields(fields: dict[str, Any]) -> str:
    return "".join(f"{key}={value}\n" for key, value in fields.items())


def _tree_fields(valued: ValuedForest, t: int) -> dict[str, Any]:
    """Return one tree as the keys of LightGBM's text format."""
    forest = valued.forest
    nodes, leaves = range(*forest.nodes[t : t + 2].tolist()), slice(*forest.leaves[t : t + 2].tolist())
    threshold, decisions, bounds, words = [], [], [0], []
    for k in nodes:
        if forest.sets[k] < 0:
            threshold.append(repr(float(forest.threshold[k])))
            # 8: NaN is a missing value; 2: missing values go left
            decisions.append(8 + 2 * int(forest.nan_left[k]))
            continue
        # a categorical condition (1): its "threshold" is the index of a bit set, stored in 32-bit words
        threshold.append(str(len(bounds) - 1))
        decisions.append(9)
        members = valued.members(k)
        bits = np.zeros(int(members.max(initial=0)) // 32 + 1, dtype=np.int64)
        np.bitwise_or.at(bits, members // 32, 1 << (members % 32))
        words += bits.tolist()
        bounds.append(len(words))
    n_nodes, n_leaves, within = len(nodes), leaves.stop - leaves.start, slice(nodes.start, nodes.stop)
    fields = {
        "num_leaves": n_leaves,
        "num_cat": len(bounds) - 1,
        "split_feature": _line(forest.feature[within]),
        "split_gain": _line([0] * n_nodes),
        "threshold": _line(threshold),
        "decision_type": _line(decisions),
        "left_child": _line(forest.left[within]),
        "right_child": _line(forest.right[within]),
        "leaf_value": _line(map(repr, valued.values[leaves].tolist())),
        "leaf_weight": _line([1] * n_leaves),
        "leaf_count": _line([1] * n_leaves),
        "internal_value": _line([0] * n_nodes),
        "internal_weight": _line([0] * n_nodes),
        "internal_count": _line([2] * n_nodes),
    }
    if len(bounds) > 1:
        fields |= {"cat_boundaries": _line(bounds), "cat_threshold": _line(words)}
    return fields | {"is_linear": 0, "shrinkage": 1}


class _Split(NamedTuple):
    """An inner node as represented by engines with single precision."""

    number: int
    """Number of the node or leaf in pre-order: the root first, left before right."""
    depth: int
    feature: str
    edge: np.float32
    """Largest float32 that goes left."""
    unset_left: bool
    """Whether an unset value goes left."""


def _nested(
    valued: ValuedForest,
    target: Target,
    node: Callable[[_Split, Any, Any], Any],
    leaf: Callable[[int, float], Any],
) -> list[Any]:
    """Return each tree as nested values, built by ``node`` from the values of both children, and by ``leaf``."""
    forest = valued.forest
    if (forest.sets >= 0).any():
        used = sorted({valued.names[f] for f in forest.feature[forest.sets >= 0].tolist()})
        raise BadInput(
            "to",
            "the format has no categories; expected a model without them, got " + ", ".join(map(repr, used)),
            "encode these with OneHotEncoder, or export to 'lightgbm' or 'onnx'",
            value=target.to,
        )
    if (deepest := _depth(forest)) > _MAX_DEPTH:
        raise BadInput(
            "to",
            f"expected trees of at most {_MAX_DEPTH} levels, as parsers limit JSON nesting, got {deepest}",
            "limit the depth of the trees, or export to 'lightgbm' or 'onnx'",
            value=target.to,
        )
    # The engines hold values in float32: a threshold rounded in the same way keeps each value on its side.
    edges = float32_thresholds(forest)
    _warn_of_float32(valued, edges)

    def grown(t: int, child: int, depth: int, numbers: Iterator[int]) -> Any:
        number = next(numbers)
        if child < 0:
            return leaf(number, float(valued.values[int(forest.leaves[t]) + ~child]))
        k = int(forest.nodes[t]) + child
        left = grown(t, int(forest.left[k]), depth + 1, numbers)
        right = grown(t, int(forest.right[k]), depth + 1, numbers)
        name = valued.names[forest.feature[k]]
        # where an engine leaves a feature unset that was never missing in training, the training data had 0
        unset_left = bool(forest.nan_left[k] if name in target.missing else edges[k] >= 0)
        return node(_Split(number, depth, name, edges[k], unset_left), left, right)

    roots = np.where(np.diff(forest.nodes) > 0, 0, ~0).tolist()
    return [grown(t, root, 0, count()) for t, root in enumerate(roots)]


def float32_thresholds(forest: Forest) -> NDArray[np.float32]:
    """Return the thresholds, rounded as an engine rounds values."""
    return np.clip(forest.threshold, -HUGE, HUGE).astype(np.float32)


def _depth(forest: Forest) -> int:
    """Return the number of nodes above the deepest leaf."""
    depth = np.ones(forest.feature.shape[0], dtype=np.int64)
    for t in range(forest.n_trees):
        start = int(forest.nodes[t])
        for k in range(start, int(forest.nodes[t + 1])):  # children have higher numbers than their parents
            for child in (int(forest.left[k]), int(forest.right[k])):
                if child >= 0:
                    depth[start + child] = depth[k] + 1
    return int(depth.max(initial=0))


def _plugin_trees(valued: ValuedForest, target: Target) -> list[Any]:
    """Return trees as XGBoost dumps them: values below the condition go to ``yes``."""

    def node(split: _Split, left: Any, right: Any) -> Any:
        # "at most the edge" is "below the next float32", except for the largest, which no value exceeds
        with np.errstate(over="ignore"):
            condition = np.nextafter(split.edge, np.float32(np.inf))
        return {
            "nodeid": split.number,
            "depth": split.depth,
            "split": split.feature,
            "split_condition": float(condition if np.isfinite(condition) else split.edge),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": (left if split.unset_left else right)["nodeid"],
            "children": [left, right],
        }

    return _nested(valued, target, node, lambda number, value: {"nodeid": number, "leaf": value})


def _xgboost(valued: ValuedForest, target: Target) -> bytes:
    return as_json(_plugin_trees(valued, target))


def _elasticsearch(valued: ValuedForest, target: Target) -> bytes:
    trees, bounds = _plugin_trees(valued, target), valued.forest.leaves
    least = sum(float(valued.values[a:b].min()) for a, b in pairwise(bounds.tolist()))
    # documents outside the window of a rescorer have the score 0, and should stay below the others
    if least < 0:
        trees.append({"nodeid": 0, "leaf": -1.001 * least})
    content = {"type": "model/xgboost+json", "definition": as_json(trees).decode()}
    return as_json({"model": {"name": target.name, "model": content}})


def _elastic(valued: ValuedForest, target: Target) -> bytes:
    names = list(valued.names)
    common = {"feature_names": names, "target_type": "regression"}

    def node(split: _Split, left: Any, right: Any) -> Any:
        own = {
            "node_index": split.number,
            "decision_type": "lte",
            "split_feature": names.index(split.feature),
            "threshold": float(split.edge),
            "default_left": split.unset_left,
            "left_child": left[0]["node_index"],
            "right_child": right[0]["node_index"],
        }
        return [own, *left, *right]  # in the order of their numbers

    roots = _nested(valued, target, node, lambda number, value: [{"node_index": number, "leaf_value": value}])
    trees = [{"tree": {"tree_structure": root, **common}} for root in roots]
    ensemble = {"trained_models": trees, "aggregate_output": {"weighted_sum": {}}, **common}
    body: dict[str, Any] = {"definition": {"trained_model": {"ensemble": ensemble}}}
    if target.lists_fields:
        body["input"] = {"field_names": names}
    if target.queries is not None:
        if lacking := [name for name in names if name not in target.queries]:
            raise BadInput(
                "feature_queries", f"expected a query for each feature, got none for {lacking[0]!r}"
            )
        extractors = [
            {"query_extractor": {"feature_name": name, "query": target.queries[name]}} for name in names
        ]
        body["inference_config"] = {"learning_to_rank": {"feature_extractors": extractors}}
    return as_json(body)


def _warn_of_float32(valued: ValuedForest, edges: NDArray[np.float32]) -> None:
    """Warn about features of which float32, in which engines hold values, has too few numbers near the thresholds.

    These are features with distinct thresholds that are equal in float32, and features such as times, whose spacing
    in float32 is a noticeable share of the spread of their thresholds: values near a threshold then change sides.
    Thresholds that float32 represents exactly lie between values that it represents, too, such as years.
    """
    # An edge of bins is the largest float64 that is rounded to its float32, and separates values in both precisions.
    with np.errstate(over="ignore"):
        rounded = np.nextafter(valued.forest.threshold, np.inf).astype(np.float32) == edges
    feature, threshold, edges = (
        one[rounded] for one in (valued.forest.feature, valued.forest.threshold, edges)
    )
    close, coarse = [], []
    for j in np.unique(feature).tolist():
        distinct = np.unique(threshold[feature == j])
        distinct = distinct[np.abs(distinct) < float(_NO_BOUND)]
        if np.unique(threshold[feature == j]).size > np.unique(edges[feature == j]).size:
            close.append(valued.names[j])
        elif distinct.size > 1:
            spacing = float(np.spacing(np.abs(distinct).max().astype(np.float32)))
            # LightGBM's thresholds are the next float64 above the middle of two values
            rounding = np.abs(distinct.astype(np.float32) - distinct)
            if (rounding > 2 * np.spacing(np.abs(distinct))).any() and spacing > _COARSE * np.ptp(distinct):
                coarse.append(valued.names[j])
    if coarse:
        warn_user(
            f"{', '.join(coarse)}: the values are large compared with their differences, and float32, in which the "
            "engine holds them, rounds them, so that scores may differ from those of predict; subtract a constant "
            "from the feature"
        )
    if close:
        warn_user(
            f"{', '.join(close)}: thresholds are equal in float32, in which the engine holds values, so that scores "
            "differ from those of predict; subtract a constant from the feature, or take its logarithm"
        )


def _solr(valued: ValuedForest, target: Target) -> bytes:
    feature, edges = valued.forest.feature, float32_thresholds(valued.forest)
    powers = {name: power_without_slack(edges[feature == j]) for j, name in enumerate(valued.names)}
    inexact = set()

    def node(split: _Split, left: object, right: object) -> Any:
        # Solr applies normalizers to the features of trees, too: thresholds refer to the multiplied values
        with np.errstate(over="ignore"):
            scaled = exact = split.edge * np.float32(2.0 ** powers[split.feature])
        if abs(split.edge) <= 1e-30:  # a threshold at 0, on either side of it
            scaled = np.float32(0.0 if split.edge >= 0 else -1e-45)
        threshold = below_slack(scaled)
        if _LIGHTGBM_ZERO < abs(split.edge) < _NO_BOUND and threshold + SOLR_SLACK != exact:
            inexact.add(split.feature)
        bounded = split.edge < _NO_BOUND
        out = {
            "feature": split.feature,
            "threshold": repr(float(threshold)) if bounded else "Infinity",
            "left": left,
            "right": right,
        }
        return out | ({"missing": "left" if split.unset_left else "right"} if target.nulls else {})

    roots = _nested(valued, target, node, lambda _, value: {"value": repr(value)})
    factor = 2.0 ** np.array([powers[name] for name in valued.names])
    _warn_of_zero(valued, "Solr", np.outer([-_SOLR_ZERO, _LIGHTGBM_ZERO], 1 / factor))
    if inexact:
        warn_user(
            f"{', '.join(sorted(inexact))}: Solr's slack of 1e-6 at thresholds is not negligible for the feature's "
            "values, so that scores differ from those of predict; multiply the feature by a constant"
        )
    features = [
        solr_feature(name, "StandardNormalizer", avg=0.0, std=2.0**-power) if power else solr_feature(name)
        for name, power in powers.items()
    ]
    params: dict[str, Any] = {"isNullSameAsZero": False} if target.nulls else {}
    params["trees"] = [{"weight": "1", "root": root} for root in roots]
    return solr_model("MultipleAdditiveTreesModel", target, features, params)


def _own_json(valued: ValuedForest, target: Target) -> bytes:
    """Return trees as lists with one entry per node; a child is a node, or ``-1 - leaf``."""
    forest, trees = valued.forest, []
    for t in range(forest.n_trees):
        nodes = slice(*forest.nodes[t : t + 2].tolist())
        tree = {
            key: getattr(forest, key)[nodes].tolist() for key in ("feature", "threshold", "left", "right")
        }
        tree["threshold"] = np.clip(tree["threshold"], -_LARGEST, _LARGEST).tolist()  # JSON has no infinity
        tree["missing_left"] = forest.nan_left[nodes].astype(bool).tolist()
        tree["values"] = valued.values[slice(*forest.leaves[t : t + 2].tolist())].tolist()
        with_sets = (np.flatnonzero(forest.sets[nodes] >= 0)).tolist()
        sets = {k: valued.members(nodes.start + k).tolist() for k in with_sets}
        trees.append(tree | ({"categories_left": sets} if sets else {}))
    return as_json(
        {
            "format": "structsvm-trees",
            "format_version": 1,
            "name": target.name,
            "formula": "score = sum over trees of the value of the leaf that is reached; a row goes to the left "
            "where x <= threshold, or x is in categories_left of the node; a missing value where missing_left is "
            "true; a child below 0 is the leaf -1 - child",
            "features": list(valued.names),
            "categories": valued.categories,
            "trees": trees,
        }
    )


def _onnx(valued: ValuedForest, target: Target) -> bytes:
    onnx = import_onnx()
    helper, from_array = onnx.helper, onnx.numpy_helper.from_array
    forest, values = valued.forest, valued.values
    if forest.nodes[-1] == 0:  # the operator requires a condition: add a tree whose leaves are 0
        idle = Tree([0], [_LARGEST], [True], [~0], [~1], 2, {})
        forest, values = forest.joined(Forest.of([idle], forest.n_features)), np.append(values, [0.0, 0.0])
    # trees without a node have no root in ONNX: their values are a constant
    starts, n_nodes = forest.nodes[:-1], np.diff(forest.nodes)
    constant = 0.0
    for value in values[forest.leaves[:-1][n_nodes == 0]].tolist():
        constant += value
    tree = np.repeat(np.arange(forest.n_trees), n_nodes)

    def ids(children: Any) -> tuple[list[int], list[int]]:
        """Return the index of each child among the nodes or leaves of all trees, and a mask of leaves."""
        leaf = children < 0
        numbers = np.where(leaf, forest.leaves[tree] + ~children, starts[tree] + children)
        return numbers.tolist(), leaf.astype(int).tolist()

    true_ids, true_leaves = ids(forest.left)
    false_ids, false_leaves = ids(forest.right)
    with_set = forest.sets >= 0
    attributes: dict[str, Any] = {
        "n_targets": 1,
        "aggregate_function": _SUM,
        "post_transform": 0,
        "tree_roots": starts[n_nodes > 0].tolist(),
        "nodes_featureids": forest.feature.tolist(),
        "nodes_splits": from_array(forest.threshold, "splits"),
        "nodes_modes": from_array(np.where(with_set, _MEMBER, _LEQ).astype(np.uint8), "modes"),
        "nodes_truenodeids": true_ids,
        "nodes_trueleafs": true_leaves,
        "nodes_falsenodeids": false_ids,
        "nodes_falseleafs": false_leaves,
        "nodes_missing_value_tracks_true": forest.nan_left.tolist(),
        "leaf_targetids": [0] * values.size,
        "leaf_weights": from_array(values, "weights"),
    }
    if with_set.any():  # the concatenated sets, each followed by NaN
        sets = [np.append(valued.members(k), np.nan) for k in np.flatnonzero(with_set).tolist()]
        attributes["membership_values"] = from_array(np.concatenate(sets), "members")
    nodes = [
        helper.make_node("TreeEnsemble", ["features"], ["sums"], domain="ai.onnx.ml", **attributes),
        helper.make_node("Squeeze", ["sums", "axis"], ["flat"]),
        helper.make_node("Add", ["flat", "constant"], ["scores"]),
    ]
    constants = {"axis": np.array([1], dtype=np.int64), "constant": constant}
    opsets = {"": _ONNX_OPSET, "ai.onnx.ml": _ONNX_ML_OPSET}
    more = {"categories": valued.categories} if valued.categories else {}
    return onnx_model(target.name, nodes, constants, opsets, _ONNX_IR, feature_names=valued.names, **more)


TREE_FORMATS: dict[str, Callable[[ValuedForest, Target], bytes]] = {
    "lightgbm": _lightgbm,
    "solr": _solr,
    "elasticsearch": _elasticsearch,
    "opensearch": _elasticsearch,
    "elastic": _elastic,
    "xgboost": _xgboost,
    "onnx": _onnx,
    "json": _own_json,
}
"""Functions that write tree rankers, by format."""
