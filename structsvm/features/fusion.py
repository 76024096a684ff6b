"""Fusion of runs without learning, as baselines of a learned fusion: CombSUM, CombMNZ and reciprocal rank fusion.

Each function takes the scores of a pool of documents (``structsvm.readers.candidates``) and returns one score per
document, the input of ``Candidates.to_run``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_number
from structsvm.features.scaling import minmax_within
from structsvm.protocols import Float, Int
from structsvm.queries import row_groups


def comb_sum(scores: ArrayLike, offsets: object) -> Float:
    """Return CombSUM: the sum of the runs' scores, each scaled to [0, 1] per topic (Fox and Shaw 1994; Lee 1997).

    A run without the document adds 0. If a run has equal scores, or a single score, in a topic, these scores become 1,
    so that documents of the run rank above documents that it lacks.

    Parameters
    ----------
    scores : array-like, shape (n_rows, n_runs)
        Score of each document in each run; NaN if the run lacks the document.
    offsets : array-like of int, shape (n_topics + 1,)
        Rows ``offsets[t]:offsets[t + 1]`` are topic ``t``.

    Returns
    -------
    ndarray of float64, shape (n_rows,)

    Examples
    --------
    >>> scores = [[10.0, 1.0], [5.0, 3.0], [0.0, np.nan]]
    >>> comb_sum(scores, [0, 3])
    array([1. , 1.5, 0. ])
    """
    values, bounds = _check(scores, offsets)
    return np.asarray(np.nan_to_num(minmax_within(values, bounds)).sum(axis=1))


def comb_mnz(scores: ArrayLike, offsets: object) -> Float:
    """Return CombMNZ: CombSUM times the number of runs with the document (Fox and Shaw 1994; Lee 1997).

    Parameters, errors and result are as for :func:`comb_sum`.

    Examples
    --------
    >>> comb_mnz([[10.0, 1.0], [5.0, 3.0], [0.0, np.nan]], [0, 3])
    array([2., 3., 0.])
    """
    values, _ = _check(scores, offsets)
    return np.asarray(comb_sum(values, offsets) * (~np.isnan(values)).sum(axis=1))


def reciprocal_rank_fusion(scores: ArrayLike, offsets: object, *, k: float = 60.0) -> Float:
    """Return the sum over runs of ``1 / (k + rank)`` (Cormack, Clarke and Buettcher, SIGIR 2009).

    A run without the document adds 0. Ranks count from 1 among the documents of the pool. Among equal scores the later
    row is ranked first, which for the rows of ``candidates`` is the order of trec_eval.

    Parameters
    ----------
    scores, offsets
        As for :func:`comb_sum`.
    k : float, default=60
        Larger values favour documents in many runs over documents at the top of one run. 60 is the value in the paper.

    Returns
    -------
    ndarray of float64, shape (n_rows,)

    Examples
    --------
    >>> reciprocal_rank_fusion([[10.0, 1.0], [5.0, 3.0], [0.0, np.nan]], [0, 3], k=1)
    array([0.83333333, 0.83333333, 0.25 ])
    """
    values, bounds = _check(scores, offsets)
    check_number("k", k, 0)
    n_rows = values.shape[0]
    topic = row_groups(bounds)
    fused = np.zeros(n_rows)
    # for each run, rank the rows of each topic
    for column in values.T:
        # NaN sorts last; of equal scores the later row is first
        order = np.lexsort((-np.arange(n_rows), -column, topic))
        rank = np.empty(n_rows)
        rank[order] = np.arange(n_rows) - bounds[topic] + 1  # sorting leaves rows in the block of their topic
        fused += np.where(np.isnan(column), 0.0, 1.0 / (k + rank))
    return fused


FUSIONS: dict[str, Callable[[Any, Any], Float]] = {
    "CombSUM": comb_sum,
    "CombMNZ": comb_mnz,
    "RRF": reciprocal_rank_fusion,
}
"""Fusion functions, keyed by the name shown in tables."""


def _check(scores: ArrayLike, offsets: object) -> tuple[Float, Int]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2:
        raise BadInput(
            "scores", f"expected one row per document and one column per run, got shape {values.shape}"
        )
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values).any(axis=1)))
        raise BadInput(
            "scores", "expected finite scores, or NaN where missing, got infinity", at=f", row {row}"
        )
    bounds = np.asarray(offsets, dtype=np.int64)
    is_vector = bounds.ndim == 1 and bounds.shape[0] >= 2
    if not is_vector or bounds[0] != 0 or bounds[-1] != values.shape[0] or (np.diff(bounds) < 1).any():
        raise BadInput(
            "offsets",
            f"expected increasing offsets from 0 to {values.shape[0]}, at least one row per topic, got "
            f"{np.array2string(bounds, threshold=6)}",
        )
    return values, bounds
