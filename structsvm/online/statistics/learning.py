"""Weights for clicks that increase the power of a test, learned from pairs of rankers whose order is known.

``psi`` holds ``Psi_j`` of every query, turned so that the better ranker is the own one; queries of several pairs
are stacked. The learned ``w`` is then the test statistic ``psi_new @ w`` of a new pair.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from structsvm.checks import BadInput, check_number
from structsvm.common.portable.arrays import dot, matmul, norm, products, solve
from structsvm.protocols import Float


def _rows(psi: ArrayLike) -> Float:
    rows = np.asarray(psi, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise BadInput("psi", f"expected shape (n_queries, n_features), got {rows.shape}")
    if not np.isfinite(rows).all():
        raise BadInput(
            "psi", f"expected finite numbers, row {np.argwhere(~np.isfinite(rows))[0, 0]} has others"
        )
    return rows


def max_mean_difference(psi: ArrayLike) -> Float:
    """Return the unit vector in the direction of ``sum_j Psi_j``: the largest mean score (thesis 7.2.1)."""
    total = _rows(psi).sum(axis=0)
    return total / _length(total)


def inverse_z_test(psi: ArrayLike, *, ridge: float = 0.0) -> Float:
    """Return the weights of the largest z-score on the training queries (thesis 7.2.2).

    They are ``Sigma^-1 Psi / sqrt(Psi' Sigma^-1 Psi)``, the shortest such vector if ``Sigma`` is singular, as it is
    when all clicks are on the first page. With few queries ``ridge=1`` keeps rare features from large weights.
    """
    rows = _rows(psi)
    total = rows.sum(axis=0)
    _length(total)
    check_number("ridge", ridge, 0)
    sigma = matmul(rows.T, rows) + ridge * np.eye(rows.shape[1])
    if ridge:
        w = solve(sigma, total)
    else:  # sigma may be singular; total lies in its range
        from scipy.linalg import pinvh

        w = products(pinvh(sigma), total)
    return np.asarray(w / math.sqrt(dot(total, w)))


def inverse_rank_test(psi: ArrayLike, *, ridge: float = 1.0) -> Float:
    """Return the weights of a logistic regression without intercept that predicts the better ranker (thesis 7.2.3).

    ``ridge=0`` is plain maximum likelihood, which does not exist if some direction is never wrong; 1 has little effect
    with hundreds of queries.
    """
    rows = _rows(psi)
    check_number("ridge", ridge, 0)
    if not rows.any():
        raise BadInput("psi", "expected queries with clicks, all rows are zero")
    from sklearn.linear_model import LogisticRegression

    # scikit-learn needs two classes: adding the mirror image of every query only doubles the log-likelihood
    half = 0.5 * np.ones(2 * len(rows))
    model = LogisticRegression(
        C=1 / ridge if ridge else np.inf, fit_intercept=False, tol=1e-8, max_iter=100_000
    )
    labels = np.repeat([1, 0], len(rows))
    if ridge == 0 and _never_wrong(rows):
        raise ValueError(
            "ridge=0: the likelihood has no maximum, some direction of weights is never wrong; pass ridge > 0"
        )
    model.fit(np.vstack([rows, -rows]), labels, sample_weight=half)
    return np.asarray(model.coef_[0], dtype=np.float64)


def _never_wrong(rows: Float) -> bool:
    """Return whether some w has ``rows @ w >= 0``, not all zero, so that the likelihood has no maximum."""
    from scipy.optimize import linprog

    rows = np.unique(rows, axis=0)
    solution = linprog(
        -rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1), method="highs"
    )
    return solution.fun is not None and bool(solution.fun < -1e-7)


def _length(total: Float) -> float:
    length = norm(total)
    if length == 0:
        raise BadInput("psi", "the queries sum to zero, so no weights make the better ranker win")
    return length
