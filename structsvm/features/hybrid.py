"""Columns of a hybrid query: the scores in each clause's result list, normalised as in the search engines."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from structsvm.common.checks import BadInput, check_choice
from structsvm.protocols import Float, Int


def _minmax(scores: Float, k: float) -> Float:
    """Return min-max scaling to [0, 1]; equal scores become 1."""
    width = scores.max() - scores.min()
    return (scores - scores.min()) / width if width > 0 else np.ones_like(scores)


def _minmax_near(scores: Float, k: float) -> Float:
    """Return min-max scaling; scores within 1e-6 become 1, as in Elasticsearch."""
    return _minmax(scores, k) if np.ptp(scores) >= 1e-6 else np.ones_like(scores)


def _minmax_floor(scores: Float, k: float) -> Float:
    """Return min-max scaling as in OpenSearch, where the lowest score of a list becomes 0.001.

    Equal scores become 1, except scores of 0, such as those of a clause of filters, which become 0.001.
    """
    return _floor(_minmax(scores, k) if scores.any() else np.zeros_like(scores))


def _floor(scaled: Float) -> Float:
    return np.where(scaled == 0, 0.001, scaled)


def _by_max(scores: Float, k: float) -> Float:
    if scores.min() < 0 or scores.max() <= 0:
        raise BadInput("scores", "expected scores >= 0, at least one of them > 0, for a lower bound of 0")
    return _floor(scores / scores.max()) if np.ptp(scores) else np.ones_like(scores)


def _l2(scores: Float, k: float) -> Float:
    return scores / (np.sqrt(np.square(scores).sum()) or 1.0)


def _l2_floor(scores: Float, k: float) -> Float:
    """Return division by the norm as in OpenSearch, where scores that are all 0 become 0.001."""
    return _l2(scores, k) if scores.any() else np.full_like(scores, 0.001)


def _reciprocal_ranks(scores: Float, k: float, order: Int) -> Float:
    """Return reciprocal ranks by score; equal scores are ranked by ``order``."""
    rank = np.empty(len(scores))
    rank[np.lexsort((order, -scores))] = np.arange(1, len(scores) + 1)
    return 1 / (k + rank)


def _ranks(scores: Float, k: float) -> Float:
    """Return reciprocal ranks; among equal scores the later row is first, as in trec_eval."""
    return _reciprocal_ranks(scores, k, -np.arange(len(scores)))


def _hit_ranks(scores: Float, k: float) -> Float:
    """Return reciprocal ranks as in Vespa, where the earlier of two hits with equal scores is first."""
    return _reciprocal_ranks(scores, k, np.arange(len(scores)))


NORMALIZERS: dict[str, Callable[[Float, float], Float]] = {
    "minmax": _minmax,
    "minmax_near": _minmax_near,
    "minmax_floor": _minmax_floor,
    "by_max": _by_max,
    "l2": _l2,
    "l2_floor": _l2_floor,
    "ranks": _ranks,
    "hit_ranks": _hit_ranks,
    "inverse_ranks": lambda scores, k: _ranks(scores, 0),
}
"""Functions from the scores of one list, and the ``k`` of reciprocal ranks, to the terms that an engine adds up."""


def clause_columns(scores: Float, offsets: Int, normalizer: str, *, k: float = 60) -> Float:
    """Return the columns that an engine multiplies by weights and adds up; 0 for documents that a list lacks.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_rows, n_clauses)
        NaN if the list of the clause lacks the document. Each list must have the length that the engine fuses. For
        "hit_ranks" the rows of a query have to be in the order of the hits.
    offsets : ndarray of int64, shape (n_queries + 1,)
        Rows ``offsets[q]:offsets[q + 1]`` are query ``q``.
    normalizer : str
        One of :data:`NORMALIZERS`.
    k : float, default=60
        Constant of reciprocal ranks; the other normalizers ignore it.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_clauses)

    Examples
    --------
    >>> scores = np.array([[12.0, np.nan], [8.0, 0.5], [4.0, np.nan]])
    >>> clause_columns(scores, np.array([0, 3]), "minmax")
    array([[1. , 0. ],
           [0.5, 1. ],
           [0. , 0. ]])
    """
    check_choice("normalizer", normalizer, NORMALIZERS)
    out = np.zeros_like(scores)
    # list by list, as engines normalize the scores of one clause for one query
    for a, b in pairwise(offsets.tolist()):
        for j, column in enumerate(scores[a:b].T):
            if (has := ~np.isnan(column)).any():
                out[a:b, j][has] = NORMALIZERS[normalizer](column[has], k)
    return out
