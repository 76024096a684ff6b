"""scikit-learn pipelines of affine steps before a linear ranker, as one linear form over the raw features.

Steps are not known by their classes: each is asked for the images of zero, of unit vectors and of random points, and is
refused by its name where these are not affine. A missing value counts as the number by which it is replaced.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.portable.arrays import matmul, products
from structsvm.protocols import Float

_FAR = 2.0**40
"""Length of the unit vectors asked for, beside which shifts of features are small: slopes have all their digits."""


def as_given(model: Any, X: Float) -> Any:
    """Return rows as a step was fitted on them: a frame, where it knows the names of columns."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def affine_steps(pipeline: Any) -> tuple[Float, Float, Float]:
    """Return ``A``, ``b`` and the stand-ins of missing values (NaN without): the steps give ``A x + b``."""
    n = int(pipeline.n_features_in_)
    A, b = np.eye(n), np.zeros(n)
    for name, step in _steps(pipeline):
        slope, shift = _affine(name, step, A.shape[0])
        A, b = matmul(slope, A), products(slope, b) + shift
    return A, b, _stand_ins(pipeline, A, b)


def _steps(pipeline: Any) -> list[tuple[str, Any]]:
    """Return the steps before the ranker that do something."""
    return [(name, step) for name, step in pipeline.steps[:-1] if step not in (None, "passthrough")]


def _affine(name: str, step: Any, n: int) -> tuple[Float, Float]:
    refused = BadInput(
        f"pipeline step {name!r}",
        f"expected an affine step, such as a scaler or an imputer, got {type(step).__name__}",
        "apply it before, and train on what it gives",
    )
    points = np.concatenate([np.zeros((1, n)), _FAR * np.eye(n)])
    rng = np.random.default_rng(0)
    tried = rng.normal(size=(32, n)) * 10.0 ** rng.integers(-3, 7, (32, 1))
    try:
        images, seen = _transform(step, points), _transform(step, tried)
    except Exception as error:
        raise refused from error
    shift, slope = images[0], ((images[1:] - images[0]) / _FAR).T
    expected = matmul(tried, slope.T) + shift
    room = 1e-8 * (matmul(np.abs(tried), np.abs(slope).T) + np.abs(shift)) + 1e-300
    if seen.shape != expected.shape or not (np.abs(seen - expected) <= room).all():
        raise refused
    return slope, shift


def _stand_ins(pipeline: Any, A: Float, b: Float) -> Float:
    """Return the number that a missing value of each feature counts as; NaN where the steps keep it missing."""
    found = np.full(A.shape[1], np.nan)
    for j in range(A.shape[1]):
        row = np.zeros((1, A.shape[1]))
        row[0, j] = np.nan
        filled_by = None
        for name, step in _steps(pipeline):
            try:
                row = _transform(step, row)
            except ValueError:  # it takes no missing values
                break
            if filled_by is None and not np.isnan(row).any():
                filled_by = name
        if row.shape[1] != A.shape[0] or np.isnan(row).any():
            continue
        k = int(np.argmax(np.abs(A[:, j])))
        if A[k, j] == 0.0:
            continue  # the feature has no weight
        found[j] = (row[0, k] - b[k]) / A[k, j]
        if not np.allclose(A[:, j] * found[j] + b, row[0], rtol=1e-8, atol=1e-8 * np.abs(row).max()):
            raise BadInput(
                f"pipeline step {filled_by!r}",
                f"expected a missing feature {j + 1} to count as one number, got more that depends on it",
                "impute without indicators",
            )
    return found


def _transform(step: Any, X: Float) -> Float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points and their scale are ours
        out = step.transform(as_given(step, X))
    return np.asarray(out.toarray() if hasattr(out, "toarray") else out, dtype=np.float64)
