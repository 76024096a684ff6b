"""Exports scored by the rules of their engines, from the exported text, and compared with ``predict``.

The rules are those of the engines' own model code: ``LinearRanker``, ``NaiveAdditiveDecisionTree`` and the normalizers
of the Learning to Rank plugin; ``LinearModel``, ``MultipleAdditiveTreesModel`` and the normalizers of Solr;
``TreeInferenceModel`` of Elastic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.export.linear import engine_names, linear_form
from structsvm.export.pipelines import as_given
from structsvm.export.target import Target, missing_names, parse_version
from structsvm.protocols import Float

_OFF = 1e-4
"""Of the spread of scores; what float32 rounds is below 1e-6."""
_TIED = 1e-5
"""Of the spread of scores; nearer ones are in no order."""
_MOST_PAIRS = 36_000
_F32 = np.float32
_SLACK = _F32(1e-6)


class ExportCheck(NamedTuple):
    """How far an engine's scores are from those of ``predict``, up to a constant.

    Attributes
    ----------
    difference : float
        Largest difference, as a part of the spread of the scores.
    n_pairs, n_reversed : int
        Pairs of rows that were compared (all, or a random sample), and those in another order.
    features : tuple of str
        Features whose values explain the largest difference, where it is above 1e-4.

    Examples
    --------
    See :func:`structsvm.export.check_export`.
    """

    difference: float
    n_pairs: int
    n_reversed: int
    features: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"largest difference {self.difference:.1g} of the spread, {self.n_reversed:,} of {self.n_pairs:,} pairs "
            "reversed"
        )

    def require(self, to: str) -> None:
        """Raise BadInput where scores are off by more than 1e-4 of their spread."""
        if not self.difference <= _OFF:
            by = ", ".join(self.features) or "no single feature explains it"
            raise BadInput(
                "check", f"expected {to} to score the rows as predict does, got {self}: {by}",
                "see the warnings of the export, or change these features before training",
            )  # fmt: skip


def check_export(
    content: bytes,
    model: Any,
    to: str,
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    unmatched: Any = "auto",
    engine_version: str | None = None,
) -> ExportCheck:
    """Score rows from an exported text by the rules of its engine, and compare with ``predict``.

    Parameters
    ----------
    content : bytes
        What :func:`export_model` returned.
    model, to, feature_names, unmatched, engine_version
        As it was called; ``onnx`` needs onnxruntime, ``lightgbm`` LightGBM.
    X : array-like or frame, shape (n_rows, n_features)
        NaN where a feature does not match. Features whose unset values count as 0 are tried both ways where they
        are 0, but for OpenSearch 3.2 to 3.7, where features have to match. For scaling within queries there is no
        check.

    Returns
    -------
    ExportCheck

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> from structsvm.export import export_model
    >>> X = [[1.0, 0.0], [0.5, 1.0], [0.0, 0.0]]
    >>> model = SVMMap(C=0.1, scale="zscore").fit(X, [1, 0, 0], qid=0)
    >>> result = check_export(export_model(model, "solr"), model, "solr", X)
    >>> result.difference < 1e-6, result.n_reversed, result.n_pairs
    (True, 0, 3)
    """
    names = engine_names(model, feature_names, model.n_features_in_)
    missing = missing_names(names, getattr(model, "missing_features_", ()), unmatched)
    target = Target(to, "", missing, parse_version(to, engine_version))
    return compare_scores(content, model, target, X, feature_names)


def compare_scores(
    content: bytes, model: Any, target: Target, X: Any, feature_names: Sequence[str] | None = None
) -> ExportCheck:
    """Return the comparison; ``target.missing`` says which unset features are missing values."""
    names = engine_names(model, feature_names, model.n_features_in_)
    own = getattr(model, "feature_names_in_", None)
    rows = np.array(X[list(own)] if own is not None and hasattr(X, "columns") else X, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(names) or not len(rows):
        raise BadInput("check", f"expected rows of {len(names)} features, got shape {rows.shape}")
    if target.to not in RULES:
        raise BadInput("check", "expected one of " + ", ".join(map(repr, RULES)), value=target.to)
    zero = np.array([name not in target.missing for name in names])
    sent = rows
    if hasattr(model, "leaves_"):
        rows = np.where(zero & np.isnan(rows), 0.0, rows)
        if target.follows_branches:  # else features are to match always, and NaN says where one does not
            sent = np.where(zero & (rows == 0), np.nan, rows)
        if target.to in ("onnx", "lightgbm", "json"):
            sent = rows
    else:
        form = linear_form(model, feature_names)
        if form.within_query:
            raise BadInput("check", "expected a model whose scaling is the same for all queries")
        if form.missing is not None:
            rows, sent = sent, np.where(np.isnan(rows), form.missing, rows)

    def difference(rows: Float, *sent: Float) -> tuple[Float, Float, list[Float]]:
        expected = np.asarray(model.predict(as_given(model, rows)), dtype=np.float64)
        engine = [np.asarray(score(content, one, names, target), dtype=np.float64) for one in sent]
        return expected, np.max([np.abs(one - expected - shift) for one in engine], axis=0), engine

    score = RULES[target.to]
    tried = (rows, sent) if sent is not rows else (rows,)
    shift = 0.0
    expected, _, engine = difference(rows, *tried)
    shift = float(np.median(np.concatenate([one - expected for one in engine])))
    off = np.max([np.abs(one - expected - shift) for one in engine], axis=0)
    spread = float(np.ptp(expected)) or 1.0
    n_pairs, reversed_ = 0, 0
    for one in engine:
        n, r = _reversed_pairs(expected, one, _TIED * spread)
        n_pairs, reversed_ = n_pairs + n, reversed_ + r
    worst, best, features = int(np.argmax(off)), int(np.argmin(off)), []
    if not off[worst] <= _OFF * spread:
        for j, name in enumerate(names):  # would the value of the row that agrees best lessen the difference?
            changed = np.array([one[worst] for one in tried])
            changed[:, j] = rows[best, j]
            _, still, _ = difference(changed[:1], *changed[:, None])
            if not off[worst] - still[0] <= _OFF * spread:
                features.append(name)
    return ExportCheck(float(off[worst]) / spread, n_pairs, reversed_, tuple(features))


def _reversed_pairs(expected: Float, engine: Float, least: float) -> tuple[int, int]:
    """Return the number of pairs of rows, and of those in another order; scores nearer than ``least`` have none."""
    n = len(expected)
    if n * (n - 1) // 2 <= _MOST_PAIRS:
        i, j = np.triu_indices(n, 1)
    else:
        i, j = np.random.default_rng(0).integers(0, n, (2, _MOST_PAIRS))
    ours, theirs = expected[i] - expected[j], engine[i] - engine[j]
    return len(i), int(((ours * np.sign(theirs) < 0) & (np.abs(ours) > least)).sum())


Rule = Callable[[bytes, Float, Sequence[str], Target], Any]
Split = Callable[[dict[str, Any]], tuple[Any, Any, Any] | float]


def _walk(root: dict[str, Any], n: int, split: Split) -> Float:
    """Score rows by one tree: ``split`` returns the value of a leaf, or who goes left, and both children."""
    out, stack = np.zeros(n), [(root, np.arange(n))]
    while stack:
        node, rows = stack.pop()
        result = split(node)
        if isinstance(result, tuple):
            goes, left, right = result
            stack += [(left, rows[goes[rows]]), (right, rows[~goes[rows]])]
        else:
            out[rows] = result
    return out


def _added(parts: Any, n: int) -> NDArray[np.float32]:
    total = np.zeros(n, _F32)
    for part in parts:
        total = total + np.asarray(part).astype(_F32)
    return total


def score_plugin(content: bytes, X: Float, names: Sequence[str], target: Target) -> NDArray[np.float32]:
    """Score rows by a model of the Learning to Rank plugin, or by the trees alone."""
    spec = json.loads(content)
    model: dict[str, Any] = {"type": "trees"} if isinstance(spec, list) else spec["model"]["model"]
    definition: Any = spec if isinstance(spec, list) else json.loads(model["definition"])
    at = {name: j for j, name in enumerate(names)}
    if model["type"] == "model/linear":
        values = _by_name(np.nan_to_num(X), names)
        for name, normalizer in model.get("feature_normalizers", {}).items():
            ((kind, p),) = normalizer.items()
            if kind == "min_max":
                low, high = _F32(p["minimum"]), _F32(p["maximum"])
                if not 0 <= low < high:
                    raise BadInput("to", f"expected 0 <= minimum < maximum, as the plugin does, of {name!r}")
                values[name] = (values[name] - low) / (high - low)
            else:
                values[name] = (values[name] - _F32(p["mean"])) / _F32(p["standard_deviation"])
        return _added((values[name] * _F32(definition[name]) for name in names), len(X))
    values32 = target.unset(X, names).astype(_F32)

    def split(node: dict[str, Any]) -> tuple[Any, Any, Any] | float:
        if "leaf" in node:
            return float(node["leaf"])
        yes, no = sorted(node["children"], key=lambda child: child["nodeid"] != node["yes"])
        value = values32[:, at[node["split"]]]
        goes = value < _F32(node["split_condition"])
        if target.follows_branches:
            goes = np.where(np.isnan(value), node["missing"] == node["yes"], goes)
        return goes, yes, no

    return _added((_walk(tree, len(X), split) for tree in definition), len(X))


def score_solr(content: bytes, X: Float, names: Sequence[str], target: Target) -> NDArray[np.float32]:
    """Score rows by a model of Solr's learning to rank."""
    spec = json.loads(content)
    params, linear = spec["params"], spec["class"].endswith("LinearModel")
    nulls = params.get("isNullSameAsZero") is False
    values = _by_name(X if nulls else np.nan_to_num(X, nan=0.0, posinf=np.inf, neginf=-np.inf), names)
    for feature in spec["features"]:
        if (norm := feature.get("norm")) is not None:
            figures = {key: _F32(text) for key, text in norm["params"].items()}
            if norm["class"].endswith("MinMaxNormalizer"):
                shift, scale = figures["min"], figures["max"] - figures["min"]
            else:
                shift, scale = figures["avg"], figures["std"]
            if not scale > 0:
                raise BadInput(
                    "to", f"expected a normalizer with a width, as Solr does, of {feature['name']!r}"
                )
            with np.errstate(over="ignore"):
                values[feature["name"]] = (values[feature["name"]] - shift) / scale
    if linear:
        return _added((values[name] * _F32(weight) for name, weight in params["weights"].items()), len(X))

    def split(node: dict[str, Any]) -> tuple[Any, Any, Any] | float:
        if "value" in node:
            return float(node["value"])
        value = values[node["feature"]]
        goes = value <= _F32(node["threshold"]) + _SLACK
        if nulls:
            goes = np.where(np.isnan(value), node["missing"] == "left", goes)
        return goes, node["left"], node["right"]

    weighted = ((_F32(tree["weight"]), _walk(tree["root"], len(X), split)) for tree in params["trees"])
    return _added((weight * part.astype(_F32) for weight, part in weighted), len(X))


def score_elastic(content: bytes, X: Float, names: Sequence[str], target: Target) -> NDArray[np.float32]:
    """Score rows by a trained model of Elastic: float32 values, thresholds and sums in float64."""
    values, total = X.astype(_F32).astype(np.float64), np.zeros(len(X))
    for model in json.loads(content)["definition"]["trained_model"]["ensemble"]["trained_models"]:
        nodes = model["tree"]["tree_structure"]

        def split(node: dict[str, Any], nodes: Any = nodes) -> tuple[Any, Any, Any] | float:
            if "leaf_value" in node:
                return float(node["leaf_value"])
            value = values[:, node["split_feature"]]
            goes = np.where(np.isnan(value), node["default_left"], value <= node["threshold"])
            return goes, nodes[node["left_child"]], nodes[node["right_child"]]

        total += _walk(nodes[0], len(X), split)
    return total.astype(_F32)


def score_vespa(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows by the expression of a rank profile, in float64."""
    values = dict(zip(names, X.T, strict=True))
    block = re.search(r"expression \{\n(.*?)\n        \}", content.decode(), re.S)
    assert block is not None
    total = np.zeros(len(X))
    for term in block[1].split("\n"):
        weight, _, rest = term.strip().removeprefix("+ ").partition(" * ")
        if not rest:
            total += float(weight)
        elif rest in values:
            total += float(weight) * values[rest]
        else:
            inside, _, scale = rest.rpartition(" / ")
            name, _, shift = inside.removeprefix("(").removesuffix(")").rpartition(" - ")
            total += float(weight) * (values[name] - float(shift)) / float(scale)
    return total


def score_svmlight(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows by a linear model of SVM-light, whose support vector has the weights."""
    lines = [line.split("#")[0].split() for line in content.decode().splitlines()]
    total = np.full(len(X), -float(lines[10][0]))
    for alpha, *pairs in lines[11:]:
        for index, weight in (pair.split(":") for pair in pairs):
            total += float(alpha) * float(weight) * X[:, int(index) - 1]
    return total


def score_json(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows by the formulas that our own format has."""
    spec = json.loads(content)
    if spec["format"] == "structsvm-linear":
        total = np.full(len(X), spec["intercept"])
        for feature, values in zip(spec["features"], X.T, strict=True):
            total += feature["weight"] * (values - feature.get("shift", 0)) / feature.get("scale", 1)
        return total
    total = np.zeros(len(X))
    for tree in spec["trees"]:
        sets = tree.get("categories_left", {})

        def split(k: Any, tree: Any = tree, sets: Any = sets) -> Any:
            if k < 0:
                return tree["values"][-1 - k]
            value = X[:, tree["feature"][k]]
            missing = np.isnan(value)
            if (members := sets.get(str(k))) is not None:
                goes = np.isin(np.trunc(value), members)
            else:
                goes = np.where(missing, tree["missing_left"][k], value <= tree["threshold"][k])
            return goes, tree["left"][k], tree["right"][k]

        total += _walk(0 if tree["feature"] else -1, len(X), split)  # type: ignore[arg-type]
    return total


def score_onnx(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows by onnxruntime."""
    import onnxruntime  # type: ignore[import-untyped]

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    scores: Float = session.run(["scores"], {"features": X})[0]
    return scores


def score_lightgbm(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows by LightGBM."""
    import lightgbm

    return np.asarray(lightgbm.Booster(model_str=content.decode()).predict(X, num_threads=1))


def _by_name(X: Float, names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    with np.errstate(over="ignore"):
        return dict(zip(names, X.astype(_F32).T, strict=True))


RULES: dict[str, Rule] = {
    "solr": score_solr,
    "elasticsearch": score_plugin,
    "opensearch": score_plugin,
    "xgboost": score_plugin,
    "elastic": score_elastic,
    "vespa": score_vespa,
    "svmlight": score_svmlight,
    "json": score_json,
    "onnx": score_onnx,
    "lightgbm": score_lightgbm,
}
"""How the engine of each format scores rows, NaN where a feature is not set."""
