"""``linear_form``: weights, scaling and intercept of a linear model, or of a pipeline that ends in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.portable.arrays import combine, dot, products
from structsvm.export.pipelines import affine_steps, as_given
from structsvm.protocols import Float


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
    def raw_weights(self) -> Float:
        """Weights of the raw features."""
        return self.weights / self.scale

    @property
    def raw_intercept(self) -> float:
        """Score of a document whose raw features are all 0."""
        return float(self.intercept - dot(self.raw_weights, self.shift))


def linear_form(model: Any, feature_names: Sequence[str] | None = None) -> LinearForm:
    """Weights, scaling and intercept of a fitted linear model of this package.

    Parameters
    ----------
    model : estimator or sklearn.pipeline.Pipeline
        Fitted, with ``coef_``; of a pipeline the last step, the others are affine (scalers, imputers, projections).
    feature_names : sequence of str, optional
        Default: the column names the model was trained with, or ``feature_1``, ``feature_2``, ...

    Returns
    -------
    LinearForm
        ``score = sum of weights * (x - shift) / scale + intercept`` over raw features: ``names``; the arrays
        ``weights``, ``shift`` and ``scale`` (0, 0 and 1 of a feature that was constant in training); ``intercept``;
        ``method``, what shift and scale are ("none", "minmax", "zscore", "percentile"); ``within_query``, whether they
        are figures of each query, and the arrays say nothing; and ``missing``, the numbers that missing values count
        as, by the imputer of a pipeline, NaN for features without, or None. ``raw_weights`` and ``raw_intercept`` are
        those without shift and scale.

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
        remedy = (
            "pass its best_estimator_"
            if hasattr(model, "best_estimator_")
            else "only linear models are exported"
        )
        raise ValueError(
            f"{kind}: expected a fitted model with one weight per feature (coef_), got none; {remedy}"
        )
    scaler = getattr(model, "scaler_", None)
    names = engine_names(model, feature_names, n_features)
    within = scaler is not None and scaler.within == "query"
    shift, scale = np.zeros(n_features), np.ones(n_features)
    if within:
        intercept = float(getattr(model, "intercept_", 0.0))
    else:
        if scaler is not None:
            constant = ~np.isfinite(scaler.scale_)
            coef = np.where(constant, 0.0, coef)
            shift = np.where(constant, 0.0, scaler.shift_)
            scale = np.where(constant, 1.0, scaler.scale_)
        moved = coef / scale * shift
        intercept = float(_predict(model, np.zeros((1, n_features)))[0] + moved.sum())
        if abs(intercept) <= 1e-12 * np.abs(moved).sum():  # the same sum in another order
            intercept = 0.0
    form = LinearForm(
        names, coef, shift, scale, intercept, "none" if scaler is None else scaler.method, within
    )
    if not within:
        _check_linear(model, form, kind)
    return form


def _of_pipeline(pipeline: Any, feature_names: Sequence[str] | None) -> LinearForm:
    """Return the form of the last step over what the first one takes."""
    form = linear_form(pipeline.steps[-1][1])
    if form.within_query:
        raise ValueError(
            f"{pipeline.steps[-1][0]}: expected a ranker whose scaling is the same for all queries at the end of a "
            f"pipeline, got scale='query-{form.method}'"
        )
    A, b, missing = affine_steps(pipeline)
    n = A.shape[1]
    weights, shift, scale, intercept, method = (
        form.weights,
        form.shift,
        form.scale,
        form.intercept,
        form.method,
    )
    slope = np.diag(A)
    if A.shape == (n, n) and not (A - np.diag(slope)).any() and (slope > 0).all():
        # a figure of each feature: folded into weights, their shifts would be one large intercept
        if (slope != 1).any() or b.any():
            shift, scale, method = (shift - b) / slope, scale / slope, "zscore"
    else:
        weights, shift, scale, method = combine(form.raw_weights, A), np.zeros(n), np.ones(n), "none"
        intercept = form.raw_intercept + dot(form.raw_weights, b)
    out = LinearForm(
        engine_names(pipeline, feature_names, n), weights, shift, scale, intercept, method, False,
        None if np.isnan(missing).all() else missing,
    )  # fmt: skip
    _check_linear(pipeline, out, "Pipeline")
    return out


def engine_names(model: Any, given: Sequence[str] | None, n_features: int) -> tuple[str, ...]:
    """Return what an engine calls the features: what is given, or the names that the model knows."""
    own = getattr(model, "feature_names_in_", None)
    if given is None:
        given = [f"feature_{j + 1}" for j in range(n_features)] if own is None else [str(n) for n in own]
    names = tuple(given)
    if isinstance(given, str) or len(names) != n_features:
        shown = f"the text {given!r:.60}" if isinstance(given, str) else len(names)
        raise BadInput("feature_names", f"expected {n_features} names, one per feature, got {shown}")
    bad = [name for name in names if not (isinstance(name, str) and name.strip())]
    if bad:
        raise BadInput("feature_names", f"expected names that are not empty, got {bad[0]!r}")
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise BadInput("feature_names", f"expected different names, got {twice!r} twice")
    return names


def _predict(model: Any, X: Float) -> Float:
    return np.asarray(model.predict(as_given(model, X)), dtype=np.float64)


def _check_linear(model: Any, form: LinearForm, kind: str) -> None:
    """Compare with the model's own scores: ``coef_`` may mean something else in a class we do not know."""
    X = form.shift + form.scale * np.random.default_rng(0).normal(size=(16, form.weights.shape[0]))
    expected = _predict(model, X)
    ours = products(X, form.raw_weights) + form.raw_intercept
    room = 1e-8 * (np.abs(X * form.raw_weights).sum(axis=1) + abs(form.raw_intercept) + 1e-30)
    if expected.shape != ours.shape or not (np.abs(expected - ours) <= room).all():
        raise ValueError(
            f"{kind}: expected a model that is linear in its features, got other scores than its weights"
        )
