"""``LinearRanker``: linear scores of scaled rows; ``LinearSVM``: common parts of the support vector machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from structsvm.common import checks
from structsvm.common.machine import count_threads
from structsvm.estimators.fitted import FittedRanker, read_rows, scaled_rows, split_qid
from structsvm.estimators.input_rows import warn_of_scale
from structsvm.features.scaling import QueryScaler, scale_rows
from structsvm.protocols import Float
from structsvm.queries import QueryData, column_numbers, rows_in_groups

Scale = Literal["none", "minmax", "zscore", "query-minmax", "query-zscore", "query-percentile"]
SCALES = get_args(Scale)

_RANGES: dict[str, Callable[..., object]] = {
    **dict.fromkeys(("tol", "validation_fraction"), checks.check_fraction),
    **dict.fromkeys(("relevance", "learning_rate"), checks.check_positive),
    **dict.fromkeys(("lam", "mu"), partial(checks.check_number, least=0.0)),
    **dict.fromkeys(
        ("max_passes", "n_steps", "n_iter_no_change", "batch_size", "max_epochs"), checks.check_whole
    ),
    **dict.fromkeys(("average", "decompose", "warm_start"), checks.check_flag),
    "normalize": partial(checks.check_choice, choices=("pairs", "query")),
    "scale": partial(checks.check_choice, choices=SCALES),
    "n_jobs": lambda _, n_jobs: count_threads(n_jobs),
}
"""Checks of the parameters that have the same range in all rankers."""

_VECTORS = 24
"""Minimum number of vectors with one number per feature that cutting planes keep in memory: cuts, weights and
buffers."""


class LinearRanker(FittedRanker, BaseEstimator):
    """Base of rankers whose scores are linear in the scaled features: ``fit`` sets ``scaler_`` and ``coef_``.

    Parameters
    ----------
    scale : {"none", "minmax", "zscore", "query-minmax", "query-zscore", "query-percentile"}, default="none"
        Feature scaling kept with the model and applied by ``predict``; the ``query-`` forms use the statistics of each
        query, and ``predict`` then needs ``qid``. Any but "none" makes a copy of ``X``, which must be dense.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
        Weights of the scaled features.
    """

    scale: Scale
    coef_: Float

    def _scores(self, X: Any, qid: Any) -> Float:
        return linear_scores(scaled_rows(self, X, qid), self.coef_)

    def _takes_sparse(self) -> bool:
        return self.scale == "none"


class LinearSVM(LinearRanker):
    """Base of the support vector machines: rows grouped by query and scaled, and options checked.

    A subclass has the options below among its parameters, and a ``fit`` that sets ``coef_`` from the result of
    :meth:`_grouped`.
    """

    tol: float
    max_passes: int

    def _measure(self) -> str:
        return "map"

    def _grouped(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> tuple[QueryData, Float]:
        """Return validated, grouped and scaled data with one weight per query; set the attributes of the input."""
        self._check_options()
        X, qid = split_qid(X, qid)
        self.__dict__.pop("_numbers_", None)
        numbers = column_numbers(X)
        if numbers is not None:
            self._numbers_ = numbers
        rows = read_rows(self, X, y, qid, sample_weight, vectors=_VECTORS)
        data = rows_in_groups(rows.X, rows.y, rows.grouping)
        self.scaler_ = make_scaler(self.scale)
        if self.scaler_ is not None:
            ids = data.qid if self._saw_qid else None
            scaled = scale_rows(self.scaler_.fit(data.X, qid=ids), data.X, ids)
            data = dataclasses.replace(data, X=scaled)
        else:
            warn_of_scale(data.X, getattr(self, "feature_names_in_", None))
        return data, rows.weights

    def _check_options(self) -> None:
        """Raise ValueError for invalid options that trainers would report late, or not at all."""
        check_usual(self)


def check_usual(model: Any) -> None:
    """Raise ValueError for parameters outside the range that all rankers share."""
    for name, value in model.get_params(deep=False).items():
        if name in _RANGES:
            _RANGES[name](name, value)


def linear_scores(X: Any, coef: Float) -> Float:
    """Return ``X @ coef`` in float64, a few rows at a time, without a float64 copy of a float32 matrix."""
    if bool(sparse.issparse(X)):  # bool: the type guard would narrow X to a type without products
        return np.asarray(X @ coef, dtype=np.float64)
    from structsvm.common.portable.sums import products  # loads numba

    return products(X, np.ascontiguousarray(coef))


def make_scaler(scale: Scale) -> QueryScaler | None:
    """Return the scaler, not fitted, that an estimator's ``scale`` names; None for "none"."""
    if scale == "none":
        return None
    within, method = scale.split("-") if "-" in scale else ("data", scale)
    return QueryScaler(method, within=within)  # type: ignore[arg-type]
