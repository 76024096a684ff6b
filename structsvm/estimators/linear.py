"""``LinearRanker``, the base of rankers with linear scores, and ``LinearSVM``, the base of support vector machines."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator

from structsvm.common import checks
from structsvm.common.machine import count_threads
from structsvm.estimators.fitted import FittedRanker, read_rows, scaled
from structsvm.features.input_rows import warn_of_scale
from structsvm.features.scaling import QueryScaler, scale_rows
from structsvm.protocols import Float
from structsvm.queries import QueryData, rows_in_groups

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
    **dict.fromkeys(("callback", "growth_callback"), checks.check_callback),
    "normalize": partial(checks.check_choice, choices=("pairs", "query")),
    "scale": partial(checks.check_choice, choices=SCALES),
    "n_jobs": lambda _, n_jobs: count_threads(n_jobs),
}
"""Functions, by parameter name, that check the parameters whose range is the same in all rankers."""

_VECTORS = 24
"""Minimum number of vectors that cutting-plane training holds in memory (cuts, weights and buffers), each with one
number per feature."""


class LinearRanker(FittedRanker, BaseEstimator):
    """Base class of rankers whose scores are linear in the scaled features; ``fit`` sets ``scaler_`` and ``coef_``.

    Parameters
    ----------
    scale : {"none", "minmax", "zscore", "query-minmax", "query-zscore", "query-percentile"}, default="none"
        Feature scaling, which is stored with the model and applied by ``predict``. The ``query-`` scalings use the
        statistics of each query, so that ``predict`` requires ``qid``. All scalings except "none" copy ``X``, which
        must be dense.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
        Weights of the scaled features.
    """

    scale: Scale
    coef_: Float

    def _scores(self, X: object, qid: ArrayLike) -> Float:
        return linear_scores(scaled(self, X, qid), self.coef_)

    def _takes_sparse(self) -> bool:
        return self.scale == "none"


class LinearSVM(LinearRanker):
    """Base class of the support vector machines, which checks options, and groups and scales the rows.

    The parameters of a subclass include ``tol`` and ``max_passes``; its ``fit`` trains on the result of
    :meth:`_grouped` and sets ``coef_``.
    """

    tol: float
    max_passes: int

    def _measure(self) -> str:
        return "map"

    def _grouped(self, X: Any, y: ArrayLike, qid: Any, sample_weight: ArrayLike) -> tuple[QueryData, Float]:
        """Return validated, grouped and scaled data and one weight per query; set the attributes that describe the
        input."""
        self.check_options()
        rows = read_rows(self, X, y, qid, sample_weight, vectors=_VECTORS)
        data = rows_in_groups(rows.X, rows.y, rows.grouping)
        self.scaler_ = make_scaler(self.scale)
        if self.scaler_ is not None:
            ids = data.qid if self._saw_qid else None
            data = dataclasses.replace(data, X=scale_rows(self.scaler_.fit(data.X, qid=ids), data.X, ids))
        else:
            warn_of_scale(data.X, getattr(self, "feature_names_in_", None))
        return data, rows.weights

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        check_usual(self)


def check_usual(model: Any) -> None:
    """Raise ValueError for parameters outside the ranges in ``_RANGES``."""
    for name, value in model.get_params(deep=False).items():
        if name in _RANGES:
            _RANGES[name](name, value)


def linear_scores(X: Any, coef: Float) -> Float:
    """Return ``X @ coef`` in float64, without a float64 copy of a dense float32 matrix."""
    if bool(sparse.issparse(X)):  # bool: the type guard would narrow X to a type without products
        return np.asarray(X @ coef, dtype=np.float64)
    from structsvm.common.portable.sums import products  # loads numba

    return products(X, np.ascontiguousarray(coef))


def make_scaler(scale: Scale) -> QueryScaler | None:
    """Return an unfitted scaler for the parameter ``scale`` of an estimator, or None for "none"."""
    if scale == "none":
        return None
    within, method = scale.split("-") if "-" in scale else ("data", scale)
    return QueryScaler(method, within=within)  # type: ignore[arg-type]
