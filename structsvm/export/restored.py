"""What a model file describes, held against what a model of that class has: types, shapes, numbers that are numbers."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from structsvm.common.arrays import Damaged
from structsvm.protocols import Int

__all__ = ["check_fields", "check_fitted"]


def check_fields(cls: type, fields: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Refuse values that are not of the types stated for them.

    Parameters
    ----------
    cls : type
        For the message.
    fields : mapping
        Values by name.
    hints : mapping
        Types by name; a name without one may have any value.

    Raises
    ------
    Damaged
    """
    for name, value in fields.items():
        if name in hints and not _conforms(value, hints[name]):
            raise Damaged(f"{cls.__name__}.{name}: {value!r:.40}")


def _conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as far as files tell: lists and tuples are one, whole numbers are numbers."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_conforms(value, one) for one in inner)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is np.ndarray:
        numbers = np.int64 if hint == Int else np.float64
        return isinstance(value, np.ndarray) and value.dtype == numbers
    if hint in (bool, str):
        return type(value) is hint
    if hint is int:
        return type(value) is int
    if hint is float:
        return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)
    if isinstance(origin, type) and issubclass(origin, typing.Sequence):
        if isinstance(value, np.ndarray):
            return value.ndim == 1
        each = inner[0] if inner else Any
        return isinstance(value, (list, tuple)) and all(_conforms(one, each) for one in value)
    if origin is not None and not isinstance(origin, type):
        return True
    kind = origin if origin is not None else hint
    if not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False):  # an oracle: what save knows of is an object of a class
        return not isinstance(value, (int, float, str, list, tuple, dict, np.ndarray, type(None)))
    return isinstance(value, kind)


def check_fitted(model: Any, name: str) -> None:
    """Refuse a model whose fitted attributes do not fit each other: it would fail, or rank by what is no number, later.

    Raises
    ------
    Damaged
    """
    check = next((_OF[cls.__name__] for cls in type(model).__mro__ if cls.__name__ in _OF), None)
    if check is None:
        return
    try:
        check(model, vars(model))
    except (KeyError, AttributeError, TypeError, IndexError, ValueError) as error:
        if isinstance(error, Damaged):
            raise
        raise Damaged(f"{name} without {error}") from None


def _numbers(
    place: str, value: Any, shape: tuple[int, ...] | None = None, *, finite: bool = True, kind: str = "f"
) -> None:
    """Refuse what is no array of numbers (``"f"`` float64, ``"i"`` int64) of that shape; -1 is any length."""
    if not isinstance(value, np.ndarray) or value.dtype != (np.float64 if kind == "f" else np.int64):
        raise Damaged(f"{place}: {value!r:.40}")
    if shape is not None and (
        value.ndim != len(shape) or any(n not in (-1, m) for n, m in zip(shape, value.shape, strict=True))
    ):
        raise Damaged(f"{place} of shape {list(value.shape)}, expected {list(shape)}")
    if finite and not np.isfinite(value).all():
        raise Damaged(f"{place}: not all of it finite")


def _whole(place: str, value: Any, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise Damaged(f"{place}: {value!r:.40}")
    return value


def _of(place: str, value: Any, name: str) -> Any:
    if type(value).__name__ != name:
        raise Damaged(f"{place}: expected a {name}, got {value!r:.40}")
    return value


def _fit(place: str, fit: Any, shape: tuple[int, ...]) -> None:
    _of(place, fit, "Fit")
    _numbers(f"{place}.w", fit.w, shape)
    if not all(np.isfinite([fit.primal, fit.dual, fit.gap, fit.C])):
        raise Damaged(f"{place}: bounds that are not finite")


def _by_rows(has: dict[str, Any]) -> int:
    """Of all rankers by rows: the number of features."""
    m = _columns(has)
    if type(has["_saw_qid"]) is not bool:
        raise Damaged(f"_saw_qid: {has['_saw_qid']!r:.40}")
    _whole("n_queries_", has["n_queries_"], 1)
    return m


def _columns(has: dict[str, Any]) -> int:
    m = _whole("n_features_in_", has["n_features_in_"], 1)
    if "feature_names_in_" in has:
        names = has["feature_names_in_"]
        if not isinstance(names, np.ndarray) or names.dtype != object or names.shape != (m,):
            raise Damaged(f"feature_names_in_: {names!r:.40}")
    return m


def _ranker(model: Any, has: dict[str, Any]) -> int:
    """Of all rankers by rows that may be scaled: the number of features."""
    m = _by_rows(has)
    scaler = has["scaler_"]
    if scaler is not None and _of("scaler_", scaler, "QueryScaler").n_features_in_ != m:
        raise Damaged(f"scaler_ of {scaler.n_features_in_} features, expected {m}")
    return m


def _linear(model: Any, has: dict[str, Any]) -> None:
    m = _ranker(model, has)
    _numbers("coef_", has["coef_"], (m,))
    _whole("n_uninformative_", has["n_uninformative_"])
    _fit("fit_", has["fit_"], (m,))


def _cross_validated(model: Any, has: dict[str, Any]) -> None:
    _linear(model, has)
    _numbers("Cs_", has["Cs_"], (-1,))
    _numbers("scores_", has["scores_"], (-1, has["Cs_"].shape[0]), finite=False)
    if type(has["C_"]) is not float:
        raise Damaged(f"C_: {has['C_']!r:.40}")


def _tree(model: Any, has: dict[str, Any]) -> None:
    m = _by_rows(has)
    leaves = _of("leaves_", has["leaves_"], "LeafFeatures")
    if leaves.n_features_in_ != m:
        raise Damaged(f"leaves_ of {leaves.n_features_in_} features, expected {m}")
    n = int(leaves.starts_[-1])
    _numbers("coef_", has["coef_"], (n,))
    _whole("n_uninformative_", has["n_uninformative_"])
    _fit("fit_", has["fit_"], (n,))


def _tree_cross_validated(model: Any, has: dict[str, Any]) -> None:
    _tree(model, has)
    _numbers("Cs_", has["Cs_"], (-1,))
    _numbers("numbers_of_trees_", has["numbers_of_trees_"], (-1,), kind="i")
    shape = (-1, has["numbers_of_trees_"].shape[0], has["Cs_"].shape[0])
    _numbers("scores_", has["scores_"], shape, finite=False)
    _whole("n_trees_", has["n_trees_"], 1)
    if type(has["C_"]) is not float:
        raise Damaged(f"C_: {has['C_']!r:.40}")


def _forest(model: Any, has: dict[str, Any]) -> None:
    _whole("n_features", model.n_features, 1)
    model.check()


def _leaf_features(model: Any, has: dict[str, Any]) -> None:
    if "starts_" not in has:  # a parameter of another model, not fitted
        return
    m = _columns(has)
    forest, thresholds = _of("forest_", has["forest_"], "Forest"), has["thresholds_"]
    if forest.n_features != m:
        raise Damaged(f"forest_ over {forest.n_features} features, expected {m}")
    if not isinstance(thresholds, list) or len(thresholds) not in (0, m):
        raise Damaged(f"thresholds_: {thresholds!r:.40}")
    for f, values in enumerate(thresholds):
        _edges(f"thresholds_[{f}]", values)
    _numbers("starts_", has["starts_"], (-1,), kind="i")
    sizes = np.cumsum([len(t) for t in thresholds]).astype(np.int64)
    if not np.array_equal(has["starts_"], np.concatenate((forest.leaves, forest.leaves[-1] + sizes))):
        raise Damaged("starts_ that do not fit forest_ and thresholds_")


def _edges(place: str, values: Any) -> None:
    _numbers(place, values, (-1,), finite=False)
    if not 1 <= values.size <= 255 or values[0] != -np.inf or not (values[1:] > values[:-1]).all():
        raise Damaged(f"{place}: expected 1 to 255, ascending from minus infinity")


def _propensities(place: str, value: Any) -> None:
    n = _of(place, value, "Propensities").theta.shape[0]
    _numbers(f"{place}.theta", value.theta, (n,))
    _numbers(f"{place}.covariance", value.covariance, (n, n))
    if not n or (value.theta <= 0).any():
        raise Damaged(f"{place}.theta: expected numbers > 0")


def _clicks(model: Any, has: dict[str, Any]) -> None:
    _linear(model, has)
    if has["propensities_"] is not None:
        _propensities("propensities_", has["propensities_"])
    for key in ("largest_weight_", "effective_sample_size_"):
        if type(has[key]) is not float or not np.isfinite(has[key]):
            raise Damaged(f"{key}: {has[key]!r:.40}")


def _clicks_cross_validated(model: Any, has: dict[str, Any]) -> None:
    _clicks(model, has)
    _numbers("Cs_", has["Cs_"], (-1,))
    _numbers("scores_", has["scores_"], has["Cs_"].shape)


def _accuracy(model: Any, has: dict[str, Any]) -> None:
    _numbers("coef_", has["coef_"], (_ranker(model, has),))
    if type(has["intercept_"]) is not float or not np.isfinite(has["intercept_"]):
        raise Damaged(f"intercept_: {has['intercept_']!r:.40}")
    _whole("n_iter_", has["n_iter_"])


def _descent(model: Any, has: dict[str, Any]) -> None:
    m = _ranker(model, has)
    _numbers("coef_", has["coef_"], (m,))
    views = has["views_"]
    if not isinstance(views, list) or not views:
        raise Damaged(f"views_: {views!r:.40}")
    for i, view in enumerate(views):
        _numbers(f"views_[{i}]", view, (-1,), kind="i")
        if view.size and not (view.min() >= 0 and view.max() < m):
            raise Damaged(f"views_[{i}]: columns that are not of the {m}")
    _numbers("eta_0_", has["eta_0_"], (len(views),))
    fit, n = _of("fit_", has["fit_"], "Descent"), sum(view.size for view in views)
    for key, shape in (("direction", n), ("correction", n), ("scale", len(views)), ("total", len(views))):
        _numbers(f"fit_.{key}", getattr(fit, key), (shape,))
    _whole("fit_.t", fit.t)
    if not isinstance(has["history_"], list):
        raise Damaged(f"history_: {has['history_']!r:.40}")
    for i, (weights, view) in enumerate(zip(has.get("view_coefs_", []), views, strict=False)):
        _numbers(f"view_coefs_[{i}]", weights, (view.size,))


def _co_regularized(model: Any, has: dict[str, Any]) -> None:
    _descent(model, has)
    if not isinstance(has["view_coefs_"], list) or len(has["view_coefs_"]) != len(has["views_"]):
        raise Damaged(f"view_coefs_: {has['view_coefs_']!r:.40}")


def _net(model: Any, has: dict[str, Any]) -> None:
    m = _ranker(model, has)
    fit = _of("fit_", has["fit_"], "LambdaRankFit")
    for key in ("shift", "factor"):
        _numbers(f"fit_.{key}", getattr(fit, key), (m,))
    width, weights = m, list(fit.weights)
    if len(weights) % 2 == 0:
        raise Damaged(f"fit_.weights: {len(weights)} arrays")
    for i in range(0, len(weights) - 1, 2):
        _numbers(f"fit_.weights[{i}]", weights[i], (width, -1))
        width = weights[i].shape[1]
        _numbers(f"fit_.weights[{i + 1}]", weights[i + 1], (width,))
    _numbers(f"fit_.weights[{len(weights) - 1}]", weights[-1], (width,))
    if "coef_" in has:
        _numbers("coef_", has["coef_"], (m,))


def _ordinal(model: Any, has: dict[str, Any]) -> None:
    m = _ranker(model, has)
    _numbers("coef_", has["coef_"], (m,))
    _numbers("grades_", has["grades_"], (-1,))
    n = has["grades_"].shape[0] - 1
    if n < 1 or (np.diff(has["grades_"]) <= 0).any():
        raise Damaged("grades_: expected two at least, ascending")
    _numbers("thresholds_", has["thresholds_"], (n,))
    _numbers("machine_coef_", has["machine_coef_"], (n, m))
    if not isinstance(has["fits_"], list):
        raise Damaged(f"fits_: {has['fits_']!r:.40}")
    for i, fit in enumerate(has["fits_"]):
        _fit(f"fits_[{i}]", fit, (m,))


def _scaler(model: Any, has: dict[str, Any]) -> None:
    m = _whole("n_features_in_", has["n_features_in_"], 1)
    if type(has["_saw_qid"]) is not bool:
        raise Damaged(f"_saw_qid: {has['_saw_qid']!r:.40}")
    if model.within == "data":
        _numbers("shift_", has["shift_"], (m,))
        _numbers("scale_", has["scale_"], (m,), finite=False)  # infinite for a constant column
        if not (has["scale_"] > 0).all():
            raise Damaged("scale_: expected numbers > 0")


def _binned(model: Any, has: dict[str, Any]) -> None:
    m = _whole("n_features_in_", has["n_features_in_"], 1)
    thresholds = has["thresholds_"]
    if not isinstance(thresholds, list) or len(thresholds) != m:
        raise Damaged(f"thresholds_: {thresholds!r:.40}")
    for f, values in enumerate(thresholds):
        _edges(f"thresholds_[{f}]", values)
    _numbers("starts_", has["starts_"], (m + 1,), kind="i")
    if not np.array_equal(has["starts_"], np.concatenate(([0], np.cumsum([len(t) for t in thresholds])))):
        raise Damaged("starts_ that do not fit thresholds_")


def _fusion(model: Any, has: dict[str, Any]) -> None:
    binning = _of("binning", model.binning, "BinnedFeatures")
    n = int(binning.starts_[-1])
    if len(model.names) != binning.n_features_in_ or len(set(model.names)) != len(model.names):
        raise Damaged(f"names: {model.names!r:.40}, expected {binning.n_features_in_}")
    _numbers("coef", model.coef, (n,))
    _fit("certificate", model.certificate, (n,))
    if model.depth is not None:
        _whole("depth", model.depth, 1)


def _diversity(model: Any, has: dict[str, Any]) -> None:
    levels, n_documents = has["levels_"], _whole("n_document_features_", has["n_document_features_"])
    if not isinstance(levels, tuple) or not levels or any(type(v).__name__ != "Level" for v in levels):
        raise Damaged(f"levels_: {levels!r:.40}")
    _whole("k", model.k, 1)
    vectorizer = model.vectorizer
    if vectorizer is not None and not all(
        hasattr(vectorizer, key) for key in ("fit_transform", "get_params")
    ):
        raise Damaged(f"vectorizer: {vectorizer!r:.40}")
    thresholds = np.asarray(model.thresholds, dtype=np.float64)
    if thresholds.ndim != 1 or not thresholds.size or not np.isfinite(thresholds).all():
        raise Damaged(f"thresholds: {model.thresholds!r:.40}")
    shape = (len(levels), thresholds.size)
    _numbers("benefits_", has["benefits_"], shape)
    _numbers("scale_", has["scale_"], (len(levels),))
    _numbers("document_coef_", has["document_coef_"], (n_documents,))
    _numbers("coef_", has["coef_"], (shape[0] * shape[1] + n_documents,))
    _fit("fit_", has["fit_"], has["coef_"].shape)
    if not (has["guarantee_"] is None or type(has["guarantee_"]) is float):
        raise Damaged(f"guarantee_: {has['guarantee_']!r:.40}")


_OF: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "TreeRankerCV": _tree_cross_validated,
    "TreeRanker": _tree,
    "LeafFeatures": _leaf_features,
    "Forest": _forest,
    "LinearSVM": _linear,
    "StructuralRankerCV": _cross_validated,
    "ClickSVM": _clicks,
    "ClickSVMCV": _clicks_cross_validated,
    "AccuracySVM": _accuracy,
    "PairwiseSGD": _descent,
    "CoRegularizedSGD": _co_regularized,
    "LambdaRank": _net,
    "OrdinalSVM": _ordinal,
    "QueryScaler": _scaler,
    "BinnedFeatures": _binned,
    "FusionModel": _fusion,
    "SVMDiv": _diversity,
}
