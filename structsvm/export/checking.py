"""``check_export``: score rows from an exported text by the rules of its engine, and compare with ``predict``.

The rules follow the engines' own code: ``LinearRanker``, ``NaiveAdditiveDecisionTree`` and the normalizers of the
Learning to Rank plugin; ``LinearModel``, ``MultipleAdditiveTreesModel`` and the normalizers of Solr;
``TreeInferenceModel`` of Elastic. They share no code with the writers of the formats, so that errors of a
writer are not repeated.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.row_checks import warn_user
from structsvm.export import ranking_expressions
from structsvm.export.linear import FeatureNames, engine_names, linear_form
from structsvm.export.names import check_feature_names
from structsvm.export.pipelines import scores_of
from structsvm.export.target import SOLR_SLACK, Target, missing_names, parse_version
from structsvm.features.input_rows import rows_for
from structsvm.protocols import Float

_TOLERANCE = 1e-4
"""Largest accepted difference of a score, relative to the range of the scores; float32 alone causes less than 1e-6."""
_TIED = 1e-5
"""Difference of two scores, relative to the range of the scores, below which their order is ignored."""
_MAX_PAIRS = 36_000
_F32 = np.float32


class ExportCheck(NamedTuple):
    """Differences between an engine's scores and those of ``predict``, up to a constant.

    Attributes
    ----------
    difference : float
        Largest difference, relative to the range of the scores.
    n_pairs, n_reversed : int
        Number of pairs of rows compared (all pairs, or a random sample), and number of pairs in the opposite order.
    features : tuple of str
        Features whose values explain the largest difference, if it is above 1e-4.

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
            f"largest difference {self.difference:.1g} of the range, {self.n_reversed:,} of {self.n_pairs:,} pairs "
            "reversed"
        )

    def require(self, to: str) -> None:
        """Raise BadInput if scores differ by more than 1e-4 of their range."""
        if not self.difference <= _TOLERANCE:
            by = ", ".join(self.features) or "no single feature"
            raise BadInput(
                "check",
                f"expected {to} to score the rows as predict does, got {self}, due to {by}",
                "float32 holds about seven digits: subtract a constant from these features, or multiply them, before "
                "training; values within 1e-13 of 0 may count as 0: round them",
            )


def check_export(
    content: bytes,
    model: Any,
    to: str,
    X: object,
    *,
    feature_names: FeatureNames | None = None,
    unmatched: Any = "auto",
    engine_version: str | None = None,
) -> ExportCheck:
    """Score rows from an exported text by the rules of its engine, and compare with ``predict``.

    Parameters
    ----------
    content : bytes
        Result of :func:`export_model`.
    model, to, feature_names, unmatched, engine_version
        Arguments of :func:`export_model`. ``onnx`` requires onnxruntime, ``lightgbm`` LightGBM.
    X : array-like, CSR matrix or frame, shape (n_rows, n_features)
        Rows as for ``predict``, with NaN where a feature does not match. A value 0 of a feature whose unset values
        count as 0 is scored both as 0 and as unset, except for OpenSearch 3.2 to 3.7, where features have to match.
        Models with scaling within queries cannot be checked.

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
    return compare_scores(
        content, model, Target(to, "", missing, parse_version(to, engine_version)), X, feature_names
    )


def compare_scores(
    content: bytes, model: Any, target: Target, X: object, feature_names: FeatureNames | None = None
) -> ExportCheck:
    """Return the comparison; unset features in ``target.missing`` count as missing values."""
    names = engine_names(model, feature_names, model.n_features_in_)
    if target.to not in RULES:
        raise BadInput("check", "expected one of " + ", ".join(map(repr, RULES)), value=target.to)
    check_feature_names(target.to, names)
    rows = rows_for(model, X)[0]
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
    rows, *sent = _variants(model, target, rows, names, feature_names)
    scores = RULES[target.to]

    def score(rows: Float, sent: list[Float]) -> tuple[Float, Float]:
        """Return the scores of ``predict``, and the scores of the engine for each variant of the rows."""
        expected = scores_of(model, rows)
        return expected, np.array([scores(content, one, names, target) for one in sent], dtype=np.float64)

    # ranks do not depend on a constant, such as an intercept that the format lacks: remove the median difference
    expected, engine = score(rows, sent)
    spread, shift = float(np.ptp(expected)) or 1.0, float(np.median(engine - expected))
    off = np.abs(engine - expected - shift).max(axis=0)
    # all pairs, or a sample; a pair of nearly equal scores has no order
    n = len(expected)
    i, j = np.triu_indices(n, 1)
    if len(i) > _MAX_PAIRS:
        i, j = np.random.default_rng(0).integers(0, n, (2, _MAX_PAIRS))
    ours, theirs = expected[i] - expected[j], engine[:, i] - engine[:, j]
    n_reversed = int(((ours * np.sign(theirs) < 0) & (np.abs(ours) > _TIED * spread)).sum())
    worst, best, features = int(np.argmax(off)), int(np.argmin(off)), []
    if not off[worst] <= _TOLERANCE * spread:
        # a feature explains the difference of the worst row if substituting the value of the best row reduces it
        for k, name in enumerate(names):
            changed = np.array([one[worst] for one in sent])
            changed[:, k] = rows[best, k]
            one, others = score(changed[:1], list(changed[:, None]))
            if not off[worst] - np.abs(others - one - shift).max() <= _TOLERANCE * spread:
                features.append(name)
    if target.to == "xgboost":
        doubles = np.array([score_double_attributes(content, one, names, target) for one in sent])
        off64 = float(np.abs(doubles - expected - np.median(doubles - expected)).max()) / spread
        if off64 > max(_TOLERANCE, 2 * float(off[worst]) / spread):
            warn_user(
                "Vespa compares attributes of type double without rounding them to float32, as XGBoost does: scores "
                f"would differ by up to {off64:.1g} of their range; declare these attributes as float"
            )
    return ExportCheck(float(off[worst]) / spread, engine.shape[0] * len(i), n_reversed, tuple(features))


def _variants(
    model: object, target: Target, rows: Float, names: Sequence[str], feature_names: FeatureNames | None
) -> list[Float]:
    """Return the rows for ``predict``, and then one or two variants of them as the engine receives them.

    An engine may store the value 0 or leave the feature unset, and both must give the same score.
    """
    if hasattr(model, "leaves_"):
        zero = np.array([name not in target.missing for name in names])
        unset, rows = rows, np.where(zero & np.isnan(rows), 0.0, rows)
        if target.to in ("onnx", "lightgbm", "json"):
            return [rows, rows]
        # versions that do not follow branches need features that match: for these NaN stays unset, and 0 stays 0
        return [rows, rows, np.where(zero & (rows == 0), np.nan, rows) if target.follows_branches else unset]
    form = linear_form(model, feature_names)
    if form.within_query:
        raise BadInput("check", "expected a model whose scaling is the same for all queries")
    if form.missing is None:
        return [rows, rows]
    return [rows, rows, np.where(np.isnan(rows), form.missing, rows)]


Rule = Callable[[bytes, Float, Sequence[str], Target], Any]
Split = Callable[[dict[str, Any]], tuple[Any, Any, Any] | float]


def _walk(root: dict[str, Any], n: int, split: Split) -> Float:
    """Score rows with one tree; ``split`` returns the value of a leaf or, for other nodes, which rows go left and the
    two children."""
    # the rows that reach a node are followed together, so that each node is compared once
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


def _added(parts: Any, n: int, kind: Any = _F32) -> NDArray[Any]:
    """Add up parts of scores in one precision, one after the other."""
    total = np.zeros(n, kind)
    for part in parts:
        total = total + np.asarray(part).astype(kind)
    return total


def score_plugin(content: bytes, X: Float, names: Sequence[str], target: Target) -> NDArray[np.float32]:
    """Score rows with a model of the Learning to Rank plugin, or by its trees alone."""
    spec = json.loads(content)
    model: dict[str, Any] = {"type": "trees"} if isinstance(spec, list) else spec["model"]["model"]
    definition: Any = spec if isinstance(spec, list) else json.loads(model["definition"])
    if model["type"] == "model/linear":
        values = _by_name(np.nan_to_num(X), names)
        for name, normalizer in model.get("feature_normalizers", {}).items():
            ((kind, p),) = normalizer.items()
            if kind == "min_max":
                low, high = _F32(p["minimum"]), _F32(p["maximum"])
                if not 0 <= low < high:
                    raise BadInput(
                        "to", f"expected 0 <= minimum < maximum for {name!r}, as the plugin requires"
                    )
                values[name] = (values[name] - low) / (high - low)
            else:
                values[name] = (values[name] - _F32(p["mean"])) / _F32(p["standard_deviation"])
        return _added((values[name] * _F32(definition[name]) for name in names), len(X))
    return _added(_tree_scores(definition, target.unset(X, names).astype(_F32), names, target), len(X))


def _tree_scores(trees: Any, values: NDArray[Any], names: Sequence[str], target: Target) -> Iterator[Float]:
    """Yield the scores of each tree as XGBoost dumps them, in the precision of ``values``."""
    at = {name: j for j, name in enumerate(names)}

    def split(node: dict[str, Any]) -> tuple[Any, Any, Any] | float:
        if "leaf" in node:
            return float(node["leaf"])
        # the order of the children is not defined: "yes" has the id of one of them
        yes, no = sorted(node["children"], key=lambda child: child["nodeid"] != node["yes"])
        value = values[:, at[node["split"]]]
        goes = value < _F32(node["split_condition"])
        if target.follows_branches:
            goes = np.where(np.isnan(value), node["missing"] == node["yes"], goes)
        return goes, yes, no

    return (_walk(tree, len(values), split) for tree in trees)


def score_double_attributes(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows with trees in Vespa, whose attributes are doubles: they are compared without rounding to float32."""
    return _added(_tree_scores(json.loads(content), X, names, target), len(X), np.float64)


def score_solr(content: bytes, X: Float, names: Sequence[str], target: Target) -> NDArray[np.float32]:
    """Score rows with a model of Solr's learning to rank."""
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
                    "to", f"expected max > min or std > 0 for {feature['name']!r}, as Solr requires"
                )
            with np.errstate(over="ignore"):
                values[feature["name"]] = (values[feature["name"]] - shift) / scale
    if linear:
        return _added((values[name] * _F32(weight) for name, weight in params["weights"].items()), len(X))

    def split(node: dict[str, Any]) -> tuple[Any, Any, Any] | float:
        if "value" in node:
            return float(node["value"])
        value = values[node["feature"]]
        goes = value <= _F32(node["threshold"]) + SOLR_SLACK
        if nulls:
            goes = np.where(np.isnan(value), node["missing"] == "left", goes)
        return goes, node["left"], node["right"]

    weighted = ((_F32(tree["weight"]), _walk(tree["root"], len(X), split)) for tree in params["trees"])
    return _added((weight * part.astype(_F32) for weight, part in weighted), len(X))


def score_elastic(content: bytes, X: Float, names: Sequence[str], target: Target) -> NDArray[np.float32]:
    """Score rows with a trained model of Elastic: feature values are float32, thresholds and sums are float64."""
    # values are stored as float32, but compared and added as float64
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
    score: Float = ranking_expressions.evaluate(block[1], values.__getitem__)
    return np.broadcast_to(score, len(X))


def score_multi_match(content: bytes, X: Float, names: Sequence[str], target: Target) -> NDArray[np.float32]:
    """Score rows, the scores of a query in each field, by the sum of the boosted scores in float32."""
    values = _by_name(np.nan_to_num(X), names)
    fields = (field.rpartition("^") for field in json.loads(content)["query"]["multi_match"]["fields"])
    return _added((values[name] * _F32(boost) for name, _, boost in fields), len(X))


def score_svmlight(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows with a linear model of SVM-light, whose single support vector holds the weights."""
    # ten lines of parameters, the threshold, then support vectors as "alpha index:value ..."
    lines = [line.split("#")[0].split() for line in content.decode().splitlines()]
    total = np.full(len(X), -float(lines[10][0]))
    for alpha, *pairs in lines[11:]:
        for index, weight in (pair.split(":") for pair in pairs):
            total += float(alpha) * float(weight) * np.nan_to_num(X[:, int(index) - 1])
    return total


def score_json(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows by the formulas that the JSON format states."""
    spec = json.loads(content)
    if spec["format"] == "structsvm-linear":
        total = np.full(len(X), spec["intercept"])
        for feature, values in zip(spec["features"], X.T, strict=True):
            values = np.where(np.isnan(values), feature.get("missing", np.nan), values)
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
    """Score rows with onnxruntime."""
    import onnxruntime  # type: ignore[import-untyped]

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    scores: Float = session.run(["scores"], {"features": X})[0]
    return scores


def score_lightgbm(content: bytes, X: Float, names: Sequence[str], target: Target) -> Float:
    """Score rows with LightGBM."""
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
    "multi_match": score_multi_match,
    "vespa": score_vespa,
    "svmlight": score_svmlight,
    "json": score_json,
    "onnx": score_onnx,
    "lightgbm": score_lightgbm,
}
"""Scoring function of the engine of each format, for rows with NaN where a feature is unset."""
