"""Tree rankers as trees with values in their leaves, in the formats of engines and runtimes.

The bins of a feature are one more tree, which has no other condition. A missing value goes to a leaf of its own there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.rows import warn_user
from structsvm.export.target import HUGE, Target, below_slack, power_without_slack, warn_of_size
from structsvm.protocols import Float

_LARGEST = float(np.finfo(np.float64).max)
_ONNX_IR, _ONNX_OPSET, _ONNX_ML_OPSET = 10, 21, 5  # of the first ONNX whose trees add up float64
_LEQ, _MEMBER, _SUM = 0, 6, 1
_DEEPEST = 400
"""Levels of a tree in nested JSON: each takes two of the 1,000 that Jackson reads."""
_ZERO = 1.001e-35
"""LightGBM takes smaller values for 0, and so has thresholds on both sides of it."""
_NO_BOUND = np.float32(3e38)
"""A threshold that all values are below."""


class ValuedForest(NamedTuple):
    """Trees whose leaves have a number each; the score of a row is the sum of its leaves'."""

    names: tuple[str, ...]
    forest: Any
    """A ``structsvm.features.forest.Forest``, or what has its attributes."""
    values: Float
    categories: dict[str, list[Any]]
    """The categories of columns by name; trees have their places in the list."""


def valued_forest(model: Any, names: tuple[str, ...]) -> ValuedForest:
    """Return a fitted tree ranker as trees with values."""
    leaves, forest = model.leaves_, model.leaves_.forest_
    values = [np.asarray(model.coef_[: leaves.starts_[forest.n_trees]])]
    trees = []
    if leaves.thresholds_:
        for feature, (edges, steps) in enumerate(
            zip(leaves.thresholds_, leaves.steps(model.coef_), strict=True)
        ):
            if steps.any():
                trees.append(_step_tree(feature, edges[1:].tolist()))
                values.append(steps)
    if trees:
        forest = forest.joined(type(forest).of(trees, forest.n_features))
    return ValuedForest(names, forest, np.concatenate(values), getattr(model, "categories_", {}))


class _Steps(NamedTuple):
    """Fields of a tree that ``structsvm.features.forest.Forest.of`` reads."""

    feature: list[int]
    threshold: list[float]
    nan_left: list[bool]
    left: list[int]
    right: list[int]
    n_leaves: int
    categories: dict[int, Sequence[int]]


def _step_tree(feature: int, edges: list[float]) -> _Steps:
    """Leaf ``k`` is reached by values that exceed ``k - 1`` of the edges; leaf 0 where the value is missing."""
    threshold, left, right = [_LARGEST], [0], [~0]

    def add(low: int, high: int) -> int:
        """Return the values that exceed at least ``low`` and at most ``high`` edges."""
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
    return _Steps([feature] * n, threshold, [False] * n, left, right, n + 1, {})


def _lightgbm(valued: ValuedForest, target: Target) -> bytes:
    forest = valued.forest
    names = [name if not set(name) & set(' \t\n"[]{},:') else "" for name in valued.names]
    if "" in names:
        raise BadInput(
            "to",
            f"expected names of features without spaces, quotes and brackets, got {valued.names[names.index('')]!r}",
            "rename it in the data, or give names for the format by {feature_names}",
            value="lightgbm",
        )
    parts = [
        "\n".join([
            "tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0",
            f"max_feature_idx={forest.n_features - 1}", "objective=lambdarank", f"feature_names={' '.join(names)}",
            f"feature_infos={' '.join(['none'] * forest.n_features)}", "", "",
        ])
    ]  # fmt: skip
    for t in range(forest.n_trees):
        fields = _tree_fields(valued, t)
        parts.append(f"Tree={t}\n" + "".join(f"{key}={value}\n" for key, value in fields.items()) + "\n\n")
    known = list(valued.categories.values()) or None  # LightGBM reads categories of pandas columns by them
    parts.append(
        "end of trees\n\nfeature_importances:\n\nparameters:\nend of parameters\n\n"
        f"pandas_categorical:{json.dumps(known)}\n"
    )
    return "".join(parts).encode()


def _tree_fields(valued: ValuedForest, t: int) -> dict[str, str]:
    """One tree in the keys of LightGBM's text."""
    forest = valued.forest
    nodes = slice(int(forest.nodes[t]), int(forest.nodes[t + 1]))
    leaves = slice(int(forest.leaves[t]), int(forest.leaves[t + 1]))
    sets = forest.sets[nodes].tolist()
    threshold, kinds, bounds, words = [], [], [0], []
    for edge, nan_left, number in zip(
        forest.threshold[nodes].tolist(), forest.nan_left[nodes], sets, strict=True
    ):
        if number < 0:
            threshold.append(repr(edge))
            kinds.append(8 + 2 * int(nan_left))  # a missing value has a direction of its own
            continue
        threshold.append(str(len(bounds) - 1))
        kinds.append(9)
        members = forest.set_values[forest.set_starts[number] : forest.set_starts[number + 1]]
        bits = np.zeros(int(members.max(initial=0)) // 32 + 1, dtype=np.int64)
        np.bitwise_or.at(bits, members // 32, 1 << (members % 32))
        words += bits.tolist()
        bounds.append(len(words))
    n_nodes, n_leaves = len(threshold), leaves.stop - leaves.start

    def line(values: Any) -> str:
        return " ".join(map(str, values))

    fields = {
        "num_leaves": str(n_leaves),
        "num_cat": str(len(bounds) - 1),
        "split_feature": line(forest.feature[nodes].tolist()),
        "split_gain": line([0] * n_nodes),
        "threshold": line(threshold),
        "decision_type": line(kinds),
        "left_child": line(forest.left[nodes].tolist()),
        "right_child": line(forest.right[nodes].tolist()),
        "leaf_value": line(map(repr, valued.values[leaves].tolist())),
        "leaf_weight": line([1] * n_leaves),
        "leaf_count": line([1] * n_leaves),
        "internal_value": line([0] * n_nodes),
        "internal_weight": line([0] * n_nodes),
        "internal_count": line([2] * n_nodes),
    }
    if len(bounds) > 1:
        fields |= {"cat_boundaries": line(bounds), "cat_threshold": line(words)}
    return fields | {"is_linear": "0", "shrinkage": "1"}


def _nested(
    valued: ValuedForest, target: Target, node: Callable[..., Any], leaf: Callable[[int, float], Any]
) -> list[Any]:
    """Each tree as nested values; ``node`` and ``leaf`` are told their number, from the root on, left before right.

    ``node`` is also told its depth, the largest float32 that goes to the left, and whether an unset value does.
    """
    forest = valued.forest
    if (forest.sets >= 0).any():
        used = sorted({valued.names[f] for f in forest.feature[forest.sets >= 0].tolist()})
        raise ValueError(
            f"the format has no categories; expected a model without them, got {', '.join(map(repr, used))}; encode "
            "these by OneHotEncoder, or export to 'lightgbm' or 'onnx'"
        )
    if (deepest := _depth(forest)) > _DEEPEST:
        raise BadInput(
            "to", f"expected trees of at most {_DEEPEST} levels, as parsers limit how deep JSON nests, got {deepest}",
            "limit the depth of the trees, or export to 'lightgbm' or 'onnx'", value=target.to,
        )  # fmt: skip
    # the engines hold values in float32: a threshold rounded as they round it is on the same side of their values
    below = float32_thresholds(forest)
    _warn_of_float32(valued, below)

    def grown(t: int, child: int, depth: int, numbers: Iterator[int]) -> Any:
        number = next(numbers)
        if child < 0:
            return leaf(number, float(valued.values[int(forest.leaves[t]) + ~child]))
        k = int(forest.nodes[t]) + child
        left = grown(t, int(forest.left[k]), depth + 1, numbers)
        right = grown(t, int(forest.right[k]), depth + 1, numbers)
        name = valued.names[forest.feature[k]]
        # training saw no missing value of the other features: their unset values are its zeros
        unset_left = bool(forest.nan_left[k] if name in target.missing else below[k] >= 0)
        return node(number, depth, name, below[k], unset_left, left, right)

    roots = np.where(np.diff(forest.nodes) > 0, 0, ~0).tolist()
    return [grown(t, root, 0, count()) for t, root in enumerate(roots)]


def float32_thresholds(forest: Any) -> NDArray[np.float32]:
    """Return the thresholds as an engine rounds values."""
    return np.clip(forest.threshold, -HUGE, HUGE).astype(np.float32)


def _depth(forest: Any) -> int:
    """Return the number of nodes above the deepest leaf."""
    depth = np.ones(forest.feature.shape[0], dtype=np.int64)
    for t in range(forest.n_trees):
        start = int(forest.nodes[t])
        for k in range(start, int(forest.nodes[t + 1])):  # children have higher numbers than parents
            for child in (int(forest.left[k]), int(forest.right[k])):
                if child >= 0:
                    depth[start + child] = depth[k] + 1
    return int(depth.max(initial=0))


def _plugin_trees(valued: ValuedForest, target: Target) -> list[Any]:
    """Trees as XGBoost dumps them: smaller values go to ``yes``."""

    def node(
        number: int, depth: int, feature: str, below: np.float32, unset_left: bool, left: Any, right: Any
    ) -> Any:
        # the first float32 that does not go to the left, or infinity's neighbour
        with np.errstate(over="ignore"):
            edge = np.nextafter(below, np.float32(np.inf))
        return {
            "nodeid": number, "depth": depth, "split": feature,
            "split_condition": float(edge if np.isfinite(edge) else below), "yes": left["nodeid"],
            "no": right["nodeid"], "missing": (left if unset_left else right)["nodeid"], "children": [left, right],
        }  # fmt: skip

    return _nested(valued, target, node, lambda number, value: {"nodeid": number, "leaf": value})


def _xgboost(valued: ValuedForest, target: Target) -> bytes:
    return as_json(_plugin_trees(valued, target))


def _elasticsearch(valued: ValuedForest, target: Target) -> bytes:
    trees, bounds = _plugin_trees(valued, target), valued.forest.leaves
    least = sum(float(valued.values[a:b].min()) for a, b in pairwise(bounds.tolist()))
    if least < 0:  # documents behind the window of a rescorer have score 0, and have to stay there
        trees.append({"nodeid": 0, "leaf": -1.001 * least})
    content = {"type": "model/xgboost+json", "definition": as_json(trees).decode()}
    return as_json({"model": {"name": target.name, "model": content}})


def _elastic(valued: ValuedForest, target: Target) -> bytes:
    names = list(valued.names)
    common = {"feature_names": names, "target_type": "regression"}

    def node(
        number: int, depth: int, feature: str, below: np.float32, unset_left: bool, left: Any, right: Any
    ) -> Any:
        me = {
            "node_index": number, "decision_type": "lte", "split_feature": names.index(feature),
            "threshold": float(below), "default_left": unset_left,
            "left_child": left[0]["node_index"], "right_child": right[0]["node_index"],
        }  # fmt: skip
        return [me, *left, *right]  # in the order of their numbers

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


def _warn_of_float32(valued: ValuedForest, below: NDArray[np.float32]) -> None:
    """Warn of features whose thresholds are apart, and the same in float32: the engine cannot tell their values."""
    # an edge of bins is the largest float64 that is rounded to its float32: every value stays on its side
    with np.errstate(over="ignore"):
        rounded = np.nextafter(valued.forest.threshold, np.inf).astype(np.float32) == below
    feature, threshold, below = (
        one[rounded] for one in (valued.forest.feature, valued.forest.threshold, below)
    )
    close = [
        valued.names[j]
        for j in np.unique(feature).tolist()
        if np.unique(threshold[feature == j]).size > np.unique(below[feature == j]).size
    ]
    if close:
        warn_user(
            f"{', '.join(close)}: thresholds are the same in float32, in which the engine holds values, so that scores "
            "differ from those of predict; subtract a constant from the feature, or take its logarithm",
        )


_SLACK = np.float32(1e-6)
"""What Solr adds to each threshold, in float32."""


def _solr(valued: ValuedForest, target: Target) -> bytes:
    feature, below32 = valued.forest.feature, float32_thresholds(valued.forest)
    powers = {name: power_without_slack(below32[feature == j], _SLACK) for j, name in enumerate(valued.names)}
    inexact = set()

    def node(
        number: int, depth: int, feature: str, below: np.float32, unset_left: bool, left: Any, right: Any
    ) -> Any:
        # Solr applies normalizers to the features of trees, too
        with np.errstate(over="ignore"):
            scaled = exact = below * np.float32(2.0 ** powers[feature])
        if abs(below) <= 1e-30:  # a threshold at 0, on either side of it
            scaled = np.float32(0.0 if below >= 0 else -1e-45)
        edge = below_slack(scaled, _SLACK)
        if _ZERO < abs(below) < _NO_BOUND and edge + _SLACK != exact:
            inexact.add(feature)
        out = {
            "feature": feature, "threshold": repr(float(edge)) if below < _NO_BOUND else "Infinity",
            "left": left, "right": right,
        }  # fmt: skip
        return out | ({"missing": "left" if unset_left else "right"} if target.nulls else {})

    roots = _nested(valued, target, node, lambda _, value: {"value": repr(value)})
    if inexact:
        warn_user(
            f"{', '.join(sorted(inexact))}: Solr's slack of 1e-6 at thresholds is not negligible beside the feature's "
            "values, so that scores differ from those of predict; multiply the feature by a constant"
        )
    features: list[dict[str, Any]] = [
        {"name": name}
        | ({} if not power else {
            "norm": {
                "class": "org.apache.solr.ltr.norm.StandardNormalizer",
                "params": {"avg": "0.0", "std": repr(2.0**-power)},
            }
        })
        for name, power in powers.items()
    ]  # fmt: skip
    params: dict[str, Any] = {"isNullSameAsZero": False} if target.nulls else {}
    content = as_json({
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": target.name,
        **({} if target.store is None else {"store": target.store}),
        "features": features,
        "params": params | {"trees": [{"weight": "1", "root": root} for root in roots]},
    })  # fmt: skip
    warn_of_size(content, target)
    return content


def _own_json(valued: ValuedForest, target: Target) -> bytes:
    """Trees as flat lists; a child is a node, or ``-1 - leaf``."""
    forest, trees = valued.forest, []
    for t in range(forest.n_trees):
        nodes = slice(int(forest.nodes[t]), int(forest.nodes[t + 1]))
        tree = {
            key: getattr(forest, key)[nodes].tolist() for key in ("feature", "threshold", "left", "right")
        }
        tree["missing_left"] = forest.nan_left[nodes].astype(bool).tolist()
        tree["values"] = valued.values[int(forest.leaves[t]) : int(forest.leaves[t + 1])].tolist()
        sets = {
            k: forest.set_values[forest.set_starts[n] : forest.set_starts[n + 1]].tolist()
            for k, n in enumerate(forest.sets[nodes].tolist()) if n >= 0
        }  # fmt: skip
        trees.append(tree | ({"categories_left": sets} if sets else {}))
    return as_json({
        "format": "structsvm-trees", "format_version": 1, "name": target.name,
        "formula": "score = sum over trees of the value of the leaf that is reached; a row goes to the left where "
        "x <= threshold, or x is in categories_left of the node; a missing value where missing_left is true; a child "
        "below 0 is the leaf -1 - child",
        "features": list(valued.names), "categories": valued.categories, "trees": trees,
    })  # fmt: skip


def import_onnx() -> Any:
    """Return the package."""
    try:
        import onnx
    except ImportError:
        raise ImportError(
            "onnx: the package is not installed; pip install 'structsvm-ranking[export]'"
        ) from None
    return onnx


def onnx_model(
    name: str,
    nodes: Sequence[Any],
    constants: Mapping[str, Any],
    opsets: Mapping[str, int],
    ir_version: int,
    **properties: Any,
) -> bytes:
    """Return a checked model from ``features`` to ``scores``; properties are kept as JSON."""
    onnx = import_onnx()
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    n_features = len(properties["feature_names"])
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info("features", double, ["rows", n_features])],
        [helper.make_tensor_value_info("scores", double, ["rows"])],
        [onnx.numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )  # fmt: skip
    versions = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, producer_name="structsvm", ir_version=ir_version, opset_imports=versions)
    helper.set_model_props(model, {key: json.dumps(content) for key, content in properties.items()})
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _onnx(valued: ValuedForest, target: Target) -> bytes:
    onnx = import_onnx()
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    forest, values = valued.forest, valued.values
    if forest.nodes[-1] == 0:  # the operator needs a condition
        idle = type(forest).of([_Steps([0], [_LARGEST], [True], [~0], [~1], 2, {})], forest.n_features)
        forest, values = forest.joined(idle), np.append(values, [0.0, 0.0])
    starts, n_nodes = forest.nodes[:-1], np.diff(forest.nodes)
    constant = 0.0
    for value in values[forest.leaves[:-1][n_nodes == 0]].tolist():
        constant += value
    tree = np.repeat(np.arange(forest.n_trees), n_nodes)

    def ids(children: Any) -> tuple[list[int], list[int]]:
        leaf = children < 0
        column = np.where(leaf, forest.leaves[tree] + ~children, starts[tree] + children)
        return column.tolist(), leaf.astype(int).tolist()

    true_ids, true_leaves = ids(forest.left)
    false_ids, false_leaves = ids(forest.right)
    members: list[float] = []
    for number in forest.sets[forest.sets >= 0]:
        members += [
            *forest.set_values[forest.set_starts[number] : forest.set_starts[number + 1]].tolist(), np.nan,
        ]  # fmt: skip
    attributes: dict[str, Any] = {
        "n_targets": 1,
        "aggregate_function": _SUM,
        "post_transform": 0,
        "tree_roots": starts[n_nodes > 0].tolist(),
        "nodes_featureids": forest.feature.tolist(),
        "nodes_modes": numpy_helper.from_array(
            np.where(forest.sets >= 0, _MEMBER, _LEQ).astype(np.uint8), "modes"
        ),
        "nodes_splits": numpy_helper.from_array(forest.threshold, "splits"),
        "nodes_truenodeids": true_ids,
        "nodes_trueleafs": true_leaves,
        "nodes_falsenodeids": false_ids,
        "nodes_falseleafs": false_leaves,
        "nodes_missing_value_tracks_true": forest.nan_left.tolist(),
        "leaf_targetids": [0] * values.size,
        "leaf_weights": numpy_helper.from_array(values, "weights"),
    }
    if members:
        attributes["membership_values"] = numpy_helper.from_array(np.array(members), "members")
    nodes = [
        helper.make_node("TreeEnsemble", ["features"], ["sums"], domain="ai.onnx.ml", **attributes),
        helper.make_node("Squeeze", ["sums", "axis"], ["flat"]),
        helper.make_node("Add", ["flat", "constant"], ["scores"]),
    ]
    constants = {"axis": np.array([1], dtype=np.int64), "constant": constant}
    opsets = {"": _ONNX_OPSET, "ai.onnx.ml": _ONNX_ML_OPSET}
    more = {"categories": valued.categories} if valued.categories else {}
    return onnx_model(target.name, nodes, constants, opsets, _ONNX_IR, feature_names=valued.names, **more)


def as_json(content: Any) -> bytes:
    """Return JSON without blanks: models of many trees are large, and stores of engines small."""
    return json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


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
"""The formats of tree rankers by name."""
