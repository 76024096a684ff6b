"""``export_model``, and linear models in the formats of search engines and runtimes.

Weights and scaling are exported together, so that the engine scores raw features. A model that a format cannot express
is refused with the reason, or exported with a warning.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.files import replacing
from structsvm.common.row_checks import warn_user
from structsvm.export.bodies import as_json, import_onnx, onnx_model, solr_feature, solr_model, vespa_profile
from structsvm.export.checking import compare_scores
from structsvm.export.linear import FeatureNames, LinearForm, check_float32, engine_names, linear_form
from structsvm.export.names import check_feature_names, check_model_name, check_store_name
from structsvm.export.target import Target, Unmatched, missing_names, parse_version, warn_of_unset
from structsvm.export.trees import TREE_FORMATS, valued_forest
from structsvm.features.input_rows import naming

_ONNX_OPSET, _ONNX_IR = 13, 8  # versions that every onnxruntime of recent years reads
_SINGLE_PRECISION = ("solr", "elasticsearch", "opensearch", "multi_match")


def export_model(
    model: Any,
    to: str,
    *,
    feature_names: FeatureNames | None = None,
    name: str = "structsvm",
    unmatched: Unmatched | Mapping[str, str] = "auto",
    engine_version: str | None = None,
    store: str | None = None,
    feature_queries: Mapping[str, Any] | None = None,
    check: object = None,
) -> bytes:
    """Return a linear model, or a ranker over trees, in the format of another system.

    ================= ===============================================================================================
    ``to``            content
    ================= ===============================================================================================
    ``solr``          the body of a PUT to ``/schema/model-store``: a ``LinearModel``, scaling as ``MinMaxNormalizer``
                      or ``StandardNormalizer`` of each feature; trees as ``MultipleAdditiveTreesModel``
    ``elasticsearch`` the body of a POST to ``_ltr/_featureset/<set>/_createmodel`` (the Learning to Rank plugin;
                      ``opensearch`` is the same): ``model/linear`` with ``feature_normalizers``, or
                      ``model/xgboost+json``
    ``elastic``       the body of a PUT to ``_ml/trained_models/<name>``: trees for Elastic's own learning to rank,
                      which needs no plugin, from 8.12 on
    ``vespa``         a rank profile of a linear model; scaling ``query-minmax`` as ``normalize_linear``
    ``xgboost``       trees as XGBoost dumps them, which Vespa's ``xgboost("model.json")`` reads
    ``multi_match``   a query of OpenSearch and Elasticsearch with the weights as boosts of fields; ``most_fields`` adds
                      up the scores of the fields
    ``svmlight``      a model file for ``svm_rank_classify`` and ``svm_classify``; weights and threshold include the
                      scaling
    ``lightgbm``      trees as LightGBM's model file, which any runtime that reads LightGBM serves
    ``json``          names, weights, scaling and intercept, or trees, with the formula; it can also describe scaling
                      within queries
    ``onnx``          a graph from ``features`` (rows, n_features) to ``scores`` (rows,) in float64: opset 13, for trees
                      opset 21 with ``ai.onnx.ml`` 5, which onnxruntime has from 1.21 on
    ================= ===============================================================================================

    Trees have values in their leaves, and are followed by one tree per feature for its bins. For ``elasticsearch`` and
    ``opensearch`` a last tree of one leaf makes all scores positive, because documents outside the window of a rescorer
    have the score 0. LightGBM treats values up to 1e-35 in magnitude as 0, Solr those from -1e-13: a warning names the
    features that had such values in training, beside a threshold at 0.

    The engines compute in float32, so that scores agree to about seven digits. Thresholds of trees are rounded as the
    engine rounds values, so that a value takes the same branches as in ``predict``, unless a threshold separates two
    values that are equal in float32. Solr adds a slack of 1e-6 to thresholds. The export compensates for the slack, and
    multiplies features with small values by a power of two for this purpose, with a ``StandardNormalizer``.

    Parameters
    ----------
    model : estimator or sklearn.pipeline.Pipeline
        Fitted model: linear (support vector machines, stochastic descent, LambdaRank without hidden layers), possibly
        after affine pipeline steps, or a ranker over trees.
    to : str
        One of :data:`FORMATS`, or of :data:`~structsvm.export.trees.TREE_FORMATS` for trees.
    feature_names : sequence of str, or mapping of str to str, optional
        Names of the features in the engine, in the order of the columns, or by the names of training, as in
        ``{"1": "attribute(price)"}``; see :func:`linear_form` for the default. ``vespa`` and ``xgboost`` need names of
        rank features, ``lightgbm`` names without spaces, quotes, brackets, commas and colons, and without ``=`` at an
        end.
    name : str, default="structsvm"
        Name of the model in the engine; for ``vespa`` of letters, digits and underscores.
    unmatched : {"auto", "zero", "missing"}, or mapping of feature names to these, default="auto"
        Value, in training, of a feature that does not match a document and that the engine leaves unset: 0, or missing
        (NaN). "auto" is "missing" for features with missing values in training, else "zero". Linear models count unset
        features as 0.
    engine_version : str, optional
        Version of Solr, OpenSearch or Elasticsearch (``elastic``), such as "3.8". Default: the newest, with a warning
        that names the versions for which the file is wrong.
    store : str, optional
        Feature store, for Solr only. Default: its ``_DEFAULT_``.
    feature_queries : mapping of str to dict, optional
        Query of each feature, for ``elastic`` only. Default: the file contains only the trees.
    check : array-like or frame, shape (n_rows, n_features), optional
        Rows to score from the exported text by the rules of the engine, and to compare with ``predict``; see
        :func:`~structsvm.export.check_export`. NaN where a feature does not match.

    Returns
    -------
    bytes

    Raises
    ------
    ImportError
        For ``onnx``, if the package ``onnx`` is missing.
    BadInput
        If the format, or float32, cannot express the model, if the format cannot carry a name, or if scores of
        ``check`` differ by more than 1e-4 of their range.

    Warns
    -----
    UserWarning
        If the format has no intercept (which affects scores, but not ranks) or no imputed values; if scores may
        differ in some version of the engine, because of float32, or because of values close to 0.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> model = SVMMap(C=0.1).fit([[1.0, 0.0], [0.0, 0.0]], [1, 0], qid=0)
    >>> import json
    >>> json.loads(export_model(model, "solr", feature_names=["bm25", "recency"]))["params"]
    {'weights': {'bm25': 0.2, 'recency': 0.0}}
    """
    version = parse_version(to, engine_version)
    for given, argument, only in ((store, "store", "solr"), (feature_queries, "feature_queries", "elastic")):
        if given is not None and to != only:
            raise BadInput(argument, f"applies only to the format {only!r}, got {to!r}")
    # a ranker over trees has leaves; anything else has to be linear, which linear_form checks
    target = Target(to, name, frozenset(), version, store, feature_queries)
    trees = hasattr(model, "leaves_")
    if not trees and to in TREE_FORMATS and to not in FORMATS:
        raise BadInput("to", f"expected a tree ranker, got {type(model).__name__}", value=to)
    check_choice("to", to, TREE_FORMATS if trees else FORMATS)
    check_model_name(to, name)
    if store is not None:
        check_store_name(store)
    if trees:
        if unmatched != "auto" and to in ("lightgbm", "onnx", "json"):
            raise BadInput(
                "unmatched",
                f"expected 'auto' for {to}, whose rows have NaN for missing values",
                value=unmatched,
            )
        valued = valued_forest(model, engine_names(model, feature_names, model.n_features_in_))
        check_feature_names(to, valued.names)
        seen = getattr(model, "missing_features_", ())
        target = target._replace(missing=missing_names(valued.names, seen, unmatched))
        content = TREE_FORMATS[to](valued, target)
        warn_of_unset(target)
    else:
        content = _linear(linear_form(model, feature_names), target, unmatched)
    if check is not None:
        with naming("check"):
            compared = compare_scores(content, model, target, check, feature_names)
        compared.require(to)
    return content


def _linear(form: LinearForm, target: Target, unmatched: Any) -> bytes:
    """Return a linear model in a format that can express it; warn about parts of the model that the format lacks."""
    to = target.to
    check_feature_names(to, form.names)
    if missing_names(form.names, (), unmatched):
        raise BadInput(
            "unmatched",
            "expected 'zero' or 'auto' for a linear model, because engines count an unset feature as 0",
            value=unmatched,
        )
    if form.within_query and not (to == "json" or (to == "vespa" and form.method == "minmax")):
        raise BadInput(
            to,
            f"expected a model whose scaling is the same for all queries, got scale='query-{form.method}': its "
            "statistics are those of each query's own candidates, which the format cannot compute",
            f"train with {{scale='{'minmax' if form.method == 'percentile' else form.method}'}} or none, or export "
            "json; for weights of a hybrid query see structsvm fuse --weights-for, or hybrid_weights in Python",
        )
    if form.missing is not None and to not in ("json", "onnx"):
        imputed = [f"{n} {v:.6g}" for n, v in zip(form.names, form.missing, strict=True) if not np.isnan(v)]
        warn_user(
            f"{to} cannot represent missing values: for a missing value, let the engine return {', '.join(imputed)}"
        )
    if to in _SINGLE_PRECISION:
        check_float32(form, to)
    return FORMATS[to](form, target)


def write_export(path: str | Path, model: Any, to: str, **options: Any) -> None:
    """Write the result of :func:`export_model` to a file atomically; on failure an earlier file is kept.

    Parameters
    ----------
    path : path
        File to write.
    model, to, **options
        As for :func:`export_model`.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> write_export("model.txt", SVMMap(C=0.1).fit([[1.0], [0.0]], [1, 0], qid=0), "svmlight")
    >>> Path("model.txt").read_text().splitlines()[-1]
    '1 1:0.2 #'
    """
    content = export_model(model, to, **options)
    with replacing(Path(path)) as file:
        file.write(content)


def _warn_intercept(form: LinearForm, system: str) -> None:
    if form.intercept:
        warn_user(
            f"{system} has no intercept: the scores of all documents are lower by {form.intercept:.6g}; ranks are "
            "the same"
        )


def _solr(form: LinearForm, target: Target) -> bytes:
    _warn_intercept(form, "Solr's LinearModel")
    features = []
    for name, weight, shift, scale in form.terms:
        if form.method == "none" or not weight:
            features.append(solr_feature(name))
        elif form.method == "minmax":
            features.append(solr_feature(name, "MinMaxNormalizer", min=shift, max=shift + scale))
        else:
            features.append(solr_feature(name, "StandardNormalizer", avg=shift, std=scale))
    weights = dict(zip(form.names, form.weights.tolist(), strict=True))
    return solr_model("LinearModel", target, features, {"weights": weights})


def _elasticsearch(form: LinearForm, target: Target) -> bytes:
    _warn_intercept(form, "the plugin's linear model")
    model: dict[str, Any] = {"type": "model/linear"}
    if form.method != "none":
        model["feature_normalizers"] = {
            # the plugin refuses a negative minimum; the standard normalizer then computes the same
            name: {"min_max": {"minimum": shift, "maximum": shift + scale}}
            if form.method == "minmax" and shift >= 0
            else {"standard": {"mean": shift, "standard_deviation": scale}}
            for name, weight, shift, scale in form.terms
            if weight
        }
    # the plugin expects the definition as JSON inside a string
    model["definition"] = as_json(dict(zip(form.names, form.weights.tolist(), strict=True))).decode()
    return as_json({"model": {"name": target.name, "model": model}})


def _multi_match(form: LinearForm, target: Target) -> bytes:
    weights = form.raw_weights.tolist()
    if negative := [name for name, weight in zip(form.names, weights, strict=True) if weight < 0]:
        raise BadInput(
            "to",
            f"expected weights >= 0, because boosts are not negative, got {min(weights):.3g} for {negative[0]!r}",
            "train with {positive=True}",
            value=target.to,
        )
    if not any(weights):
        raise BadInput("to", "expected a weight > 0, got 0 for all features", value=target.to)
    _warn_intercept(form, "a query with boosts")
    fields = [f"{name}^{weight!r}" for name, weight in zip(form.names, weights, strict=True) if weight]
    # best_fields, the default, would take the maximum over fields instead of the sum
    return as_json({"query": {"multi_match": {"query": "QUERY", "type": "most_fields", "fields": fields}}})


def _vespa(form: LinearForm, target: Target) -> bytes:
    terms = []
    for name, weight, shift, scale in form.terms:
        scaled = name if form.method == "none" else f"({name} - {shift!r}) / {scale!r}"
        if weight:
            terms.append(f"{weight!r} * " + (f"normalize_linear({name})" if form.within_query else scaled))
    if form.intercept or not terms:
        terms.append(repr(form.intercept))
    return vespa_profile(target.name, terms, 100 if form.within_query else None).encode()


def _svmlight(form: LinearForm, target: Target) -> bytes:
    weights = form.raw_weights
    pairs = " ".join(f"{j + 1}:{weight!r}" for j, weight in enumerate(weights.tolist()) if weight)
    parameters = zip(("3 ", "1 ", "1 ", "1 ", "empty"), "dgsru", strict=True)
    lines = [
        "SVM-light Version V6.20",
        "0 # kernel type",
        *(f"{v}# kernel parameter -{c}" for v, c in parameters),
        f"{weights.shape[0]} # highest feature index",
        "1 # number of training documents",
        "2 # number of support vectors plus 1",
        # SVM-light subtracts the threshold; 0.0 - 0.0 has no sign
        f"{0.0 - form.raw_intercept!r} # threshold b, each following line is a SV (starting with alpha*y)",
        f"1 {pairs} #",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _own_json(form: LinearForm, target: Target) -> bytes:
    features: list[dict[str, Any]] = [{"name": name, "weight": weight} for name, weight, *_ in form.terms]
    formula = "score = intercept + sum of weight * x"
    if form.within_query:
        formula = "score = intercept + sum of weight * scaled x, scaled within the documents of its query"
    elif form.method != "none":
        formula = "score = intercept + sum of weight * (x - shift) / scale"
        for entry, (_, _, shift, scale) in zip(features, form.terms, strict=True):
            entry |= {"shift": shift, "scale": scale}
    if form.missing is not None:
        formula += "; a missing x is replaced by missing"
        for entry, value in zip(features, form.missing.tolist(), strict=True):
            entry |= {} if np.isnan(value) else {"missing": value}
    scaling = {"method": form.method, "within": "query" if form.within_query else "data"}
    return as_json(
        {
            "format": "structsvm-linear",
            "format_version": 1,
            "name": target.name,
            "formula": formula,
            "scaling": scaling,
            "intercept": form.intercept,
            "features": features,
        }
    )


def _onnx(form: LinearForm, target: Target) -> bytes:
    make_node = import_onnx().helper.make_node
    constants = {name: getattr(form, name) for name in ("shift", "scale", "weights", "intercept")}
    nodes = []
    if form.missing is not None:
        constants["missing"] = form.missing
        nodes = [
            make_node("IsNaN", ["features"], ["absent"]),
            make_node("Where", ["absent", "missing", "features"], ["present"]),
        ]
    nodes += [
        make_node("Sub", ["present" if nodes else "features", "shift"], ["centred"]),
        make_node("Div", ["centred", "scale"], ["scaled"]),
        make_node("MatMul", ["scaled", "weights"], ["sums"]),
        make_node("Add", ["sums", "intercept"], ["scores"]),
    ]
    return onnx_model(target.name, nodes, constants, {"": _ONNX_OPSET}, _ONNX_IR, feature_names=form.names)


FORMATS: dict[str, Callable[[LinearForm, Target], bytes]] = {
    "solr": _solr,
    "elasticsearch": _elasticsearch,
    "opensearch": _elasticsearch,
    "multi_match": _multi_match,
    "vespa": _vespa,
    "svmlight": _svmlight,
    "json": _own_json,
    "onnx": _onnx,
}
"""Functions that write linear models, by format."""
