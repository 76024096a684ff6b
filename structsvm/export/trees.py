"""Tree rankers as trees with values in their leaves: LightGBM's text, Elasticsearch/OpenSearch, Solr, ONNX.

The bins of a feature are one more tree, which has no other condition. A missing value goes to a leaf of its own there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.protocols import Float
from structsvm.queries import warn_user

_LARGEST = float(np.finfo(np.float64).max)
_ONNX_IR, _ONNX_OPSET, _ONNX_ML_OPSET = 10, 21, 5  # of the first ONNX whose trees add up float64
_LEQ, _MEMBER, _SUM = 0, 6, 1


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


def _lightgbm(valued: ValuedForest, name: str) -> bytes:
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


def _nested(valued: ValuedForest, node: Callable[..., Any], leaf: Callable[[int, float], Any]) -> list[Any]:
    """Each tree as nested values; ``node`` and ``leaf`` are told their number, from the root on, left before right.

    ``node`` is also told its depth, and the largest float32 that goes to the left.
    """
    forest = valued.forest
    if (forest.sets >= 0).any():
        used = sorted({valued.names[f] for f in forest.feature[forest.sets >= 0].tolist()})
        raise ValueError(
            f"the format has no categories; expected a model without them, got {', '.join(map(repr, used))}; encode "
            "these by OneHotEncoder, or export to 'lightgbm' or 'onnx'"
        )
    # both engines hold values in float32: where a threshold is a value of the data, as edges of bins are, it has to be
    # rounded as they round it, or the value itself would go the other way
    below = np.clip(forest.threshold, -np.finfo(np.float32).max, np.finfo(np.float32).max).astype(np.float32)
    _warn_of_float32(valued, below)

    def grown(t: int, child: int, depth: int, numbers: Iterator[int]) -> Any:
        number = next(numbers)
        if child < 0:
            return leaf(number, float(valued.values[int(forest.leaves[t]) + ~child]))
        k = int(forest.nodes[t]) + child
        left = grown(t, int(forest.left[k]), depth + 1, numbers)
        right = grown(t, int(forest.right[k]), depth + 1, numbers)
        name, nan_left = valued.names[forest.feature[k]], bool(forest.nan_left[k])
        return node(number, depth, name, below[k], nan_left, left, right)

    roots = np.where(np.diff(forest.nodes) > 0, 0, ~0).tolist()
    return [grown(t, root, 0, count()) for t, root in enumerate(roots)]


def _elasticsearch(valued: ValuedForest, name: str) -> bytes:
    def node(
        number: int, depth: int, feature: str, below: np.float32, nan_left: bool, left: Any, right: Any
    ) -> Any:
        # smaller values go to "yes": the first float32 that does not, or infinity's neighbour
        with np.errstate(over="ignore"):
            edge = np.nextafter(below, np.float32(np.inf))
        missing = left if nan_left else right
        return {
            "nodeid": number, "depth": depth, "split": feature,
            "split_condition": float(edge if np.isfinite(edge) else below),
            "yes": left["nodeid"], "no": right["nodeid"], "missing": missing["nodeid"], "children": [left, right],
        }  # fmt: skip

    trees = _nested(valued, node, lambda number, value: {"nodeid": number, "leaf": value})
    content = {"type": "model/xgboost+json", "definition": json.dumps(trees, allow_nan=False)}
    return _json({"model": {"name": name, "model": content}})


def _warn_of_float32(valued: ValuedForest, below: NDArray[np.float32]) -> None:
    """Warn of features whose thresholds are apart, and the same in float32: the engine cannot tell their values."""
    feature, threshold = valued.forest.feature, valued.forest.threshold
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


def _without_slack(below: np.float32) -> np.float32:
    """Return the threshold that is ``below`` with Solr's slack, or as little above it as a float32 can be."""
    threshold = below - _SLACK
    while threshold + _SLACK > below:
        threshold = np.nextafter(threshold, np.float32(-np.inf))
    while threshold + _SLACK < below:
        threshold = np.nextafter(threshold, np.float32(np.inf))
    if below < 0 <= threshold + _SLACK:  # LightGBM's -1e-35, say, between the negative values and 0
        threshold = np.nextafter(threshold, np.float32(-np.inf))
    return threshold


def _solr(valued: ValuedForest, name: str) -> bytes:
    def node(
        number: int, depth: int, feature: str, below: np.float32, nan_left: bool, left: Any, right: Any
    ) -> Any:
        threshold = repr(float(_without_slack(below)))
        return {"feature": feature, "threshold": threshold, "left": left, "right": right}

    roots = _nested(valued, node, lambda _, value: {"value": repr(value)})
    trees = [{"weight": "1", "root": root} for root in roots]
    return _json({
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": name,
        "features": [{"name": feature} for feature in valued.names],
        "params": {"trees": trees},
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


def _onnx(valued: ValuedForest, name: str) -> bytes:
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
    return onnx_model(name, nodes, constants, opsets, _ONNX_IR, feature_names=valued.names, **more)


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


TREE_FORMATS: dict[str, Callable[[ValuedForest, str], bytes]] = {
    "lightgbm": _lightgbm,
    "solr": _solr,
    "elasticsearch": _elasticsearch,
    "opensearch": _elasticsearch,
    "onnx": _onnx,
}
"""The formats of tree rankers by name."""

_BY_PLUGIN = (
    "the feature must not match a document without the value, in a version of the plugin that follows the branches of "
    "'missing' (for OpenSearch since July 2026); older ones count it as 0, or take the branch 'no'. For these, fill "
    "the values in training by a number that the engine gives, too"
)
ABSENT = {
    "elasticsearch": _BY_PLUGIN,
    "opensearch": _BY_PLUGIN,
    "solr": "the format has no branches for them, and Solr counts a feature without a value as 0; fill the values in "
    "training by a number that the engine gives, too",
}
"""What to send where a feature has no value, for formats whose engines may take other branches than the trees.

The plugin of OpenSearch: 0 up to 3.1, NaN since its change 206, which went to "no" until its change 379.
"""
