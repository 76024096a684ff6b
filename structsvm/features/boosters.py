"""Conversion of LightGBM, XGBoost, scikit-learn and CatBoost trees to a :class:`~structsvm.features.forest.Forest`.

Thresholds are compared with float64 values. If a library rounds its input to float32 first, the stored threshold is the
largest float64 that the library would send to the left.
"""

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput, first_few
from structsvm.features.forest import Forest, Tree
from structsvm.features.ranks import rounding_to
from structsvm.protocols import Int

_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of LightGBM's decision types
_MISSING_NONE, _MISSING_ZERO = 0, 1


def forest_of(model: Any) -> Forest:
    """Return the trees of a fitted LightGBM, XGBoost, CatBoost or scikit-learn model, including those grown after the
    best iteration.

    Leaves keep the library's order (of ``pred_leaf`` or ``apply``, or of the leaf index in LightGBM and CatBoost).
    """
    library = type(model).__module__.split(".")[0]
    if isinstance(model, Forest):
        return model
    if library == "lightgbm":
        booster = model if hasattr(model, "model_to_string") else model.booster_
        return lightgbm_forest(booster.model_to_string(num_iteration=-1))
    read = {"xgboost": _xgboost, "catboost": _catboost, "sklearn": _sklearn}.get(library)
    forest = None if read is None else read(model)
    if forest is None:
        raise TypeError(
            f"model: expected a fitted LightGBM, XGBoost, CatBoost or scikit-learn model with trees, got {model!r:.80}"
        )
    return forest


def lightgbm_forest(text: str) -> Forest:
    """Return the trees in a LightGBM model file."""
    head, *parts = text.split("\nTree=")
    fields = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)
    if "max_feature_idx" not in fields:
        raise BadInput("model", "expected a model file of LightGBM")
    trees = [
        _lightgbm_tree(dict(line.split("=", 1) for line in part.splitlines() if "=" in line))
        for part in parts
    ]
    _check_pandas_categories(text)
    names = fields.get("feature_names", "").split(" ")
    signs = fields.get("monotone_constraints", "").split()
    return _forest(trees, int(fields["max_feature_idx"]) + 1, names, signs, "Column_{}")


def _forest(
    trees: Sequence[Tree], n: int, names: Sequence[str] | None, signs: Any, unnamed: str = ""
) -> Forest:
    """Return a forest with the names of its features, unless the library generated them from column numbers, and with
    the signs of its monotone constraints, given for all features in order or by number or name."""
    known: Any = tuple(str(name) for name in names) if names is not None else ()
    if len(known) != n or known == tuple(unnamed.format(j) for j in range(n)):
        known = None
    places = {str(name): j for j, name in enumerate(range(n) if names is None else names)}
    given = signs.items() if isinstance(signs, dict) else enumerate([] if signs is None else signs)
    every = np.zeros(n, dtype=np.int64)
    for feature, sign in given:
        every[places[feature] if isinstance(feature, str) else feature] = int(sign)
    return Forest.of(trees, n, feature_names=known, signs=every if every.any() else None)


_PANDAS = "\npandas_categorical:"


def _check_pandas_categories(text: str) -> None:
    """Raise if the trees use codes of a pandas categorical column that differ from its values."""
    _, found, said = text.rpartition(_PANDAS)
    for categories in (json.loads(said.splitlines()[0]) or []) if found else []:
        if [type(one) for one in categories] != [int] * len(categories) or categories != list(
            range(len(categories))
        ):
            raise BadInput(
                "model",
                "expected categories numbered 0, 1, 2, ..., as in the trees, got a pandas column with the "
                f"categories {first_few(map(repr, categories), 4)}",
                "train on the codes, and name the column in {categorical_feature}",
                code="X[column] = X[column].cat.codes",
            )


def _lightgbm_tree(fields: dict[str, str]) -> Tree:
    if fields.get("is_linear", "0") != "0":
        raise BadInput("model", "expected constant leaves, got linear ones", "train with linear_tree=False")
    feature, kinds = _whole(fields.get("split_feature", "")), _whole(fields.get("decision_type", ""))
    threshold = np.array(fields.get("threshold", "").split(), dtype=np.float64)
    missing = kinds >> 2 & 3
    categorical = kinds & _CATEGORICAL > 0
    if (missing[~categorical] == _MISSING_ZERO).any():
        raise BadInput(
            "model",
            "expected a model that treats zeros as values, got one that treats them as missing",
            "train with zero_as_missing=False",
        )
    # LightGBM treats missing values of a feature that had none in training as zero
    nan_left = np.where(missing == _MISSING_NONE, threshold >= 0, kinds & _DEFAULT_LEFT > 0) & ~categorical
    sets: dict[int, Sequence[int]] = {}
    if categorical.any():
        bounds, words = _whole(fields["cat_boundaries"]), _whole(fields["cat_threshold"])
        for node in np.flatnonzero(categorical):
            i = int(threshold[node])
            bits = words[bounds[i] : bounds[i + 1]]
            sets[int(node)] = np.flatnonzero(bits[:, None] >> np.arange(32) & 1).tolist()
    return Tree(
        feature.tolist(),
        np.where(categorical, 0.0, threshold).tolist(),
        nan_left.tolist(),
        _whole(fields.get("left_child", "")).tolist(),
        _whole(fields.get("right_child", "")).tolist(),
        int(fields["num_leaves"]),
        sets,
    )


def _whole(text: str) -> Int:
    return np.array(text.split(), dtype=np.int64)


def _xgboost(model: Any) -> Forest:
    # a bare ``xgboost.Booster`` does not store the missing value of its DMatrix, so only NaN counts as missing
    missing = getattr(model, "missing", None)
    if missing is not None and not np.isnan(missing):
        raise BadInput(
            "model",
            f"expected NaN for missing values, got {missing:g}",
            "replace the value by NaN, and train with missing=np.nan",
        )
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    # not in files: a model that was loaded does not know its constraints
    said = re.search(r'"monotone_constraints": ?"\((.*?),?\)"', booster.save_config())
    signs = said[1].split(",") if said and said[1] else []
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    gradient = learner["gradient_booster"]
    gradient = gradient.get("gbtree", gradient)
    if "model" not in gradient or "trees" not in gradient["model"]:
        raise BadInput("model", "expected trees, got a linear booster")
    trees = []
    for tree in gradient["model"]["trees"]:
        if any(tree.get("split_type", ())) or tree.get("categories_nodes"):
            raise _no_categories()
        # XGBoost sends values < condition to the left, a Forest values <= threshold
        conditions = np.array(tree["split_conditions"], dtype=np.float32)
        below = rounding_to(np.nextafter(conditions, np.float32(-np.inf)))
        children = tree["left_children"], tree["right_children"]
        trees.append(_tree_of_nodes(*children, tree["split_indices"], below, tree["default_left"]))
    return _forest(
        trees, int(learner["learner_model_param"]["num_feature"]), learner.get("feature_names"), signs
    )


def _sklearn(model: Any) -> Forest | None:
    names, signs = (getattr(model, name, None) for name in ("feature_names_in_", "monotonic_cst"))
    if hasattr(model, "_predictors"):
        moved = getattr(model, "is_categorical_", None)
        # scikit-learn moves categorical columns before all others, even if no tree uses them
        if moved is not None and moved.any():
            raise _no_categories()
        trees = [_histogram_tree(one.nodes) for row in model._predictors for one in row]
        return _forest(trees, int(model.n_features_in_), names, signs)
    parts = [model]
    if hasattr(model, "estimators_"):
        parts = np.asarray(model.estimators_, dtype=object).ravel().tolist()
    if not parts or not all(hasattr(part, "tree_") for part in parts):
        return None
    n = int(model.n_features_in_)
    columns = getattr(model, "estimators_features_", [np.arange(n)] * len(parts))
    trees = []
    for part, own in zip(parts, columns, strict=True):
        tree = part.tree_
        below = np.asarray(tree.threshold, dtype=np.float64).astype(np.float32)
        below = np.where(below > tree.threshold, np.nextafter(below, np.float32(-np.inf)), below)
        missing = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count, dtype=bool))
        # a tree grown on a subset of the features numbers them within the subset; leaves have feature -2
        feature = np.where(tree.feature < 0, 0, np.asarray(own)[np.maximum(tree.feature, 0)])
        trees.append(
            _tree_of_nodes(tree.children_left, tree.children_right, feature, rounding_to(below), missing)
        )
    return _forest(trees, n, names, signs)


def _no_categories() -> BadInput:
    return BadInput("model", "expected numerical features, got categories", "encode them as numbers first")


def _histogram_tree(nodes: Any) -> Tree:
    if nodes["is_categorical"].any():
        raise _no_categories()
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    return _tree_of_nodes(
        left, right, nodes["feature_idx"], nodes["num_threshold"], nodes["missing_go_to_left"]
    )


def _catboost(model: Any) -> Forest:
    # keyed by the numbers of the columns as strings, whatever the names of the columns
    given = model.get_all_params().get("monotone_constraints") or {}
    signs = {int(column): sign for column, sign in given.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        model.save_model(str(path), format="json")
        content = json.loads(path.read_text(encoding="utf-8"))
    if "oblivious_trees" not in content:
        raise BadInput("model", "expected symmetric trees", "train with grow_policy='SymmetricTree'")
    by_number = {one["feature_index"]: one for one in content["features_info"].get("float_features", [])}
    trees = []
    for tree in content["oblivious_trees"]:
        splits = tree.get("splits") or []
        if any(split.get("split_type", "FloatFeature") != "FloatFeature" for split in splits):
            raise _no_categories()
        features = [by_number[split["float_feature_index"]] for split in splits]
        borders = rounding_to(np.array([split["border"] for split in splits], dtype=np.float32)).tolist()
        trees.append(
            _symmetric(
                [one["flat_feature_index"] for one in features],
                borders,
                [one.get("nan_value_treatment") != "AsTrue" for one in features],
            )
        )
    return _forest(trees, len(model.feature_names_), model.feature_names_, signs, "{}")


def _symmetric(features: list[int], borders: list[float], nan_left: list[bool]) -> Tree:
    """Return a tree with one condition per level, whose outcome is one bit of the leaf number."""
    depth = len(features)
    level = np.repeat(np.arange(depth), 1 << np.arange(depth))
    children: Int = 2 * np.arange(level.size)[:, np.newaxis] + np.array([1, 2])
    # children below the last level are leaves; the first condition is the highest bit of ``path``, the lowest of
    # ``number``
    path = children + 1 - (1 << depth)
    number = sum((path >> (depth - 1 - i) & 1) << i for i in range(depth))
    left, right = np.where(path >= 0, ~np.asarray(number), children).T.tolist()
    levels = level.tolist()
    return Tree(
        [features[k] for k in levels],
        [borders[k] for k in levels],
        [nan_left[k] for k in levels],
        left,
        right,
        1 << depth,
        {},
    )


def _tree_of_nodes(left: Any, right: Any, feature: Any, threshold: Any, nan_left: Any) -> Tree:
    """Return a tree from node arrays in which the leaves are the nodes without children."""
    left, right, feature = (np.asarray(one, dtype=np.int64).tolist() for one in (left, right, feature))
    threshold = np.asarray(threshold, dtype=np.float64).tolist()
    nan_left = np.asarray(nan_left).astype(bool).tolist()
    order, waiting = [], [0]  # parents before their children
    while waiting:
        node = waiting.pop()
        order.append(node)
        if left[node] >= 0:
            waiting += [right[node], left[node]]
    leaves = {node: i for i, node in enumerate(sorted(n for n in order if left[n] < 0))}
    inner = {node: i for i, node in enumerate(n for n in order if left[n] >= 0)}
    position = inner | {node: ~i for node, i in leaves.items()}
    return Tree(
        [feature[n] for n in inner],
        [threshold[n] for n in inner],
        [nan_left[n] for n in inner],
        [position[left[n]] for n in inner],
        [position[right[n]] for n in inner],
        len(leaves),
        {},
    )
