"""Affine steps of scikit-learn pipelines before a linear ranker, as one affine function of the raw features.

The function of a step is derived from its output, whatever its class: the images of zero and of unit vectors give shift
and slope, and a step that maps random points differently is refused by name. A missing value counts as the
number that the pipeline imputes.
"""

import warnings
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.portable.arrays import matmul, products
from structsvm.common.user_warnings import ordered_columns
from structsvm.protocols import Float

_FAR = 2.0**40
"""Length of the test vectors: shifts of features are small compared with it, so that slopes keep all their digits."""


def as_given(model: object, X: Float) -> Any:
    """Return rows in the type that a step was fitted on: a frame, if the step stores the names of its columns."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def scores_of(model: Any, X: Float) -> Float:
    """Return the scores of rows whose columns are in the order of the model."""
    # a step may select columns by name; a ranker needs no frame, and therefore no pandas
    if hasattr(model, "steps"):
        return np.asarray(model.predict(as_given(model, X)), dtype=np.float64)
    with ordered_columns():
        return np.asarray(model.predict(X), dtype=np.float64)


def affine_steps(pipeline: Any) -> tuple[Float, Float, Float]:
    """Return ``A`` and ``b`` of the function ``A x + b`` of the steps, and the imputed numbers (NaN if not imputed)."""
    n = int(pipeline.n_features_in_)
    A, b = np.eye(n), np.zeros(n)
    for name, step in _steps(pipeline):
        slope, shift = _affine(name, step, A.shape[0])
        A, b = matmul(slope, A), products(slope, b) + shift
    return A, b, _imputed(pipeline, A, b)


def _steps(pipeline: Any) -> list[tuple[str, Any]]:
    """Return the steps before the ranker, without steps that pass rows through."""
    return [(name, step) for name, step in pipeline.steps[:-1] if step not in (None, "passthrough")]


def _affine(name: str, step: object, n: int) -> tuple[Float, Float]:
    """Return slope and shift of a step."""
    refused = BadInput(
        f"pipeline step {name!r}",
        f"expected an affine step, such as a scaler or an imputer, got {type(step).__name__}",
        "apply it beforehand, and train on its output",
    )
    # f(0) = b and f(c e_j) = c A e_j + b; then f(x) = A x + b is tested at points of several magnitudes
    points = np.concatenate([np.zeros((1, n)), _FAR * np.eye(n)])
    rng = np.random.default_rng(0)
    test = rng.normal(size=(32, n)) * 10.0 ** rng.integers(-3, 7, (32, 1))
    try:
        images, test_images = _transform(step, points), _transform(step, test)
    except Exception as error:
        raise refused from error
    shift, slope = images[0], ((images[1:] - images[0]) / _FAR).T
    expected = matmul(test, slope.T) + shift
    tolerance = 1e-8 * (matmul(np.abs(test), np.abs(slope).T) + np.abs(shift)) + 1e-300
    if test_images.shape != expected.shape or not (np.abs(test_images - expected) <= tolerance).all():
        raise refused
    return slope, shift


def _imputed(pipeline: object, A: Float, b: Float) -> Float:
    """Return the number that is imputed for a missing value of each feature; NaN where the steps keep it missing."""
    imputed = np.full(A.shape[1], np.nan)
    for j in range(A.shape[1]):
        # the image of a row whose only missing value is feature j, all others 0
        row = np.zeros((1, A.shape[1]))
        row[0, j] = np.nan
        filled_by = None
        for name, step in _steps(pipeline):
            try:
                row = _transform(step, row)
            except ValueError:  # the step accepts no missing values
                break
            if filled_by is None and not np.isnan(row).any():
                filled_by = name
        if row.shape[1] != A.shape[0] or np.isnan(row).any():
            continue
        # The row is A e_j v + b for the imputed number v. The largest entry of the column gives v. The check of all
        # entries detects indicators of missing values, which would add more than one number
        k = int(np.argmax(np.abs(A[:, j])))
        if A[k, j] == 0.0:
            continue  # the steps drop the feature
        imputed[j] = (row[0, k] - b[k]) / A[k, j]
        if not np.allclose(A[:, j] * imputed[j] + b, row[0], rtol=1e-8, atol=1e-8 * np.abs(row).max()):
            raise BadInput(
                f"pipeline step {filled_by!r}",
                f"expected a missing feature {j + 1} to count as one number, got further features that depend on it",
                "impute without indicators",
            )
    return imputed


def _transform(step: Any, X: Float) -> Float:
    with warnings.catch_warnings(action="ignore"):  # about the artificial rows that this module passes
        out = step.transform(as_given(step, X))
    return np.asarray(out.toarray() if hasattr(out, "toarray") else out, dtype=np.float64)
