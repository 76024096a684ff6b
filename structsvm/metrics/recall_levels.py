"""Interpolated precision at eleven levels of recall: the curve that trec_eval calls ``iprec_at_recall``."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.protocols import Float

RECALL_LEVELS: Float = np.arange(11) / 10
"""The eleven levels of recall: 0, 0.1, ..., 1."""


def interpolated_precision(relevant: Any, n_relevant: int | None = None) -> Float:
    """Return the best precision at any rank with a recall of at least 0, 0.1, ..., 1, for one query.

    The documents that a level of recall needs are rounded up as in trec_eval 9, by adding 0.9 in floating point: 0.7 of
    3, slightly less than 2.1, needs two. ``n_relevant`` includes those not retrieved.
    """
    ranks = np.flatnonzero(np.asarray(relevant)) + 1
    precision = np.arange(1, ranks.size + 1) / ranks
    best_from = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
    total = ranks.size if n_relevant is None else n_relevant
    needed = np.maximum((RECALL_LEVELS * total + 0.9).astype(np.int64), 1)
    curve: Float = best_from[np.minimum(needed - 1, ranks.size)]
    return curve
