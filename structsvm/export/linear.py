"""``linear_form``: weights, scaling and intercept of a linear model, or of a pipeline that ends in one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.portable.arrays import combine, dot, products
from structsvm.common.row_checks import warn_user
from structsvm.export.pipelines import affine_steps, scores_of
from structsvm.export.target import HUGE, TINY
from structsvm.protocols import Float

FeatureNames = Sequence[str] | Mapping[str, str]
"""Names of all features in the engine, or of some by their names in training."""

_COARSE = 1e-5
"""Spacing of float32 numbers, as a share of the range of a feature, above which ranks may differ."""


@dataclass(frozen=True)
class LinearForm:
    """``score = sum of weights * (x - shift) / scale + intercept`` over raw features."""

    names: tuple[str, ...]
    weights: Float
    shift: Float
    scale: Float
    intercept: float
    method: str
    within_query: bool
    missing: Float | None = None

    @property
    def terms(self) -> list[tuple[str, float, float, float]]:
        """Return the name, weight, shift and scale of each feature."""
        return [
            *zip(self.names, self.weights.tolist(), self.shift.tolist(), self.scale.tolist(), strict=True)
        ]

    @property
    def raw_weights(self) -> Float:
        """Return the weights of the raw features."""
        return self.weights / self.scale

    @property
    def raw_intercept(self) -> float:
        """Return the score of a document whose raw features are all 0."""
        return float(self.intercept - dot(self.raw_weights, self.shift))


def linear_form(model: object, feature_names: FeatureNames | None = None) -> LinearForm:
    """Return weights, scaling and intercept of a fitted linear model of this package.

    Parameters
    ----------
    model : estimator or sklearn.pipeline.Pipeline
        Fitted model with ``coef_``, or a pipeline whose last step is such a model and whose other steps are affine
        (scalers, imputers, projections).
    feature_names : sequence of str, or mapping of str to str, optional
        Names of the features in the order of the columns, or new names by the names of training. Default: the column
        names the model was trained with, or ``feature_1``, ``feature_2``, ...

    Returns
    -------
    LinearForm
        ``score = sum of weights * (x - shift) / scale + intercept`` over raw features: ``names``; the arrays
        ``weights``, ``shift`` and ``scale`` (0, 0 and 1 for a feature that was constant in training); ``intercept``;
        ``method``, which defines shift and scale ("none", "minmax", "zscore", "percentile"); ``within_query``, whether
        they are computed in each query, so that the arrays do not hold them; and ``missing``, the numbers that a
        pipeline imputes for missing values, NaN for features without imputation, or None. ``raw_weights`` and
        ``raw_intercept`` define the same function without shift and scale.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> model = SVMMap(C=0.1, scale="minmax").fit([[10.0, 1.0], [20.0, 0.0], [30.0, 0.0]], [1, 0, 0], qid=0)
    >>> form = linear_form(model, ["age", "in stock"])
    >>> for name, weight, shift, scale in zip(form.names, form.weights, form.shift, form.scale):
    ...     print(f"{weight:+.2f} * ({name} - {shift:g}) / {scale:g}")
    -0.06 * (age - 10) / 20
    +0.11 * (in stock - 0) / 1
    """
    if hasattr(model, "steps"):
        return _of_pipeline(model, feature_names)
    kind = type(model).__name__
    coef = np.asarray(getattr(model, "coef_", np.empty(0)), dtype=np.float64)
    n_features = getattr(model, "n_features_in_", -1)
    if coef.shape != (n_features,) or not hasattr(model, "predict"):
        is_search = hasattr(model, "best_estimator_")
        remedy = "pass its best_estimator_" if is_search else "only linear models are exported"
        raise BadInput(kind, "expected a fitted model with one weight per feature (coef_), got none", remedy)
    scaler = getattr(model, "scaler_", None)
    names = engine_names(model, feature_names, n_features)
    within = scaler is not None and scaler.within == "query"
    shift, scale = np.zeros(n_features), np.ones(n_features)
    if within:
        intercept = float(getattr(model, "intercept_", 0.0))
    else:
        if scaler is not None:
            # a feature that was constant in training has an infinite scale: its weight has no effect
            constant = ~np.isfinite(scaler.scale_)
            coef = np.where(constant, 0.0, coef)
            shift = np.where(constant, 0.0, scaler.shift_)
            scale = np.where(constant, 1.0, scaler.scale_)
        # the score of a row of zeros is the intercept minus the sum of the shifts
        moved = coef / scale * shift
        intercept = float(scores_of(model, np.zeros((1, n_features)))[0] + moved.sum())
        if abs(intercept) <= 1e-12 * np.abs(moved).sum():  # rounding error of the two sums
            intercept = 0.0
    method = "none" if scaler is None else scaler.method
    form = LinearForm(names, coef, shift, scale, intercept, method, within)
    if not within:
        _check_linear(model, form, kind)
    return form


def _of_pipeline(pipeline: Any, feature_names: FeatureNames | None) -> LinearForm:
    """Return the form of the last step as a function of the input of the first step."""
    form = linear_form(pipeline.steps[-1][1])
    if form.within_query:
        raise BadInput(
            pipeline.steps[-1][0],
            "expected a ranker whose scaling is the same for all queries at the end of a pipeline, got "
            f"scale='query-{form.method}'",
        )
    A, b, imputed = affine_steps(pipeline)
    n = A.shape[1]
    names, missing = engine_names(pipeline, feature_names, n), None if np.isnan(imputed).all() else imputed
    slope = np.diag(A)
    if A.shape == (n, n) and not (A - np.diag(slope)).any() and (slope > 0).all():
        # steps that scale each feature separately remain a shift and a scale: folded into the weights, the shifts would
        # add up to a large intercept, which formats without an intercept lose
        form = replace(form, names=names, missing=missing)
        if (slope != 1).any() or b.any():
            form = replace(form, shift=(form.shift - b) / slope, scale=form.scale / slope, method="zscore")
    else:
        weights, intercept = combine(form.raw_weights, A), form.raw_intercept + dot(form.raw_weights, b)
        form = LinearForm(names, weights, np.zeros(n), np.ones(n), intercept, "none", False, missing)
    _check_linear(pipeline, form, "Pipeline")
    return form


def engine_names(model: object, given: FeatureNames | None, n_features: int) -> tuple[str, ...]:
    """Return the names of the features in the engine: the given names, or those that the model was trained with."""
    trained = getattr(model, "feature_names_in_", None)
    own = [f"feature_{j + 1}" for j in range(n_features)] if trained is None else [str(n) for n in trained]
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in own]:
            raise BadInput(
                "feature_names", f"expected names of features, such as {own[0]!r}, got {unknown[0]!r}"
            )
        given = [given.get(name, name) for name in own]
    names = tuple(own if given is None else given)
    if isinstance(given, str) or len(names) != n_features:
        shown = f"the text {given!r:.60}" if isinstance(given, str) else len(names)
        raise BadInput("feature_names", f"expected {n_features} names, one per feature, got {shown}")
    bad = [name for name in names if not (isinstance(name, str) and name.strip())]
    if bad:
        raise BadInput("feature_names", f"expected names that are not empty, got {bad[0]!r}")
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise BadInput("feature_names", f"expected distinct names, got {twice!r} twice")
    return names


def _check_linear(model: object, form: LinearForm, kind: str) -> None:
    """Raise unless the form has the scores of ``predict``: ``coef_`` of another class may have another meaning."""
    # rows of the magnitude of the training data; the tolerance is relative to the terms of each score
    X = form.shift + form.scale * np.random.default_rng(0).normal(size=(16, form.weights.shape[0]))
    expected = scores_of(model, X)
    ours = products(X, form.raw_weights) + form.raw_intercept
    room = 1e-8 * (np.abs(X * form.raw_weights).sum(axis=1) + abs(form.raw_intercept) + 1e-30)
    if expected.shape != ours.shape or not (np.abs(expected - ours) <= room).all():
        raise BadInput(
            kind, "expected a model that is linear in its features, got scores that contradict its weights"
        )


def check_float32(form: LinearForm, to: str) -> None:
    """Raise for weights, shifts and scales that float32 cannot hold, and warn about values that it rounds coarsely."""
    coarse = []
    for name, weight, low, width in form.terms:
        if not weight:
            continue
        with np.errstate(over="ignore"):
            low32, high32 = np.float32(low), np.float32(low + width)
        # the engine computes a scale from minimum and maximum, which have to differ in float32
        is_range = form.method == "minmax"
        shown = f"{low!r} to {low + width!r}" if is_range else f"mean {low!r} and deviation {width!r}"
        problem = ""
        if not TINY <= abs(weight) <= HUGE:
            problem, remedy = (
                f"a weight in the range of float32, got {weight:.3g} for",
                "multiply the feature",
            )
        elif not TINY <= width <= HUGE or not np.isfinite(high32) or (is_range and high32 <= low32):
            problem = f"values that float32 can tell apart, got {shown} of"
            remedy = "shift it, or multiply it"
        if problem:
            remedy = f"{remedy} by a constant before training"
            raise BadInput("to", f"expected {problem} {name!r}", remedy, value=to)
        if np.spacing(max(abs(low32), abs(high32))) > _COARSE * width:
            coarse.append(name)
    if coarse:
        warn_user(
            f"{', '.join(coarse)}: values are large relative to their differences, which float32 rounds, so ranks may "
            "differ from those of predict; subtract a constant from the feature before training"
        )
