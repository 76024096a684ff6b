"""Passes at large C, equal on all processors: a rise is a loss of speed that no result shows."""

import numpy as np
import pytest

from structsvm import StructuralRanker
from structsvm.common.portable.arrays import products


def synthetic(n_queries, n_documents, n_features):
    """Return features and binary labels of noisy scores, the same on all processors."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, size=(n_queries * n_documents, n_features)) / np.float32(8)
    scores = products(X, rng.integers(-4, 5, size=n_features)) + rng.integers(-16, 17, size=len(X)) / 4
    return X, scores > np.sort(scores)[-len(X) // 4], np.repeat(np.arange(n_queries), n_documents)


@pytest.mark.parametrize(
    ("loss", "most"),
    [
        ("map", [2, 2, 3, 3]),
        ("roc", [2, 2, 3, 5]),
        ("pairs", [2, 2, 3, 4]),
        ("ndcg@10", [5, 11, 14, 15]),
    ],
)
def test_passes_at_large_C(loss, most):
    X, y, qid = synthetic(2000, 60, 20)
    fits = [StructuralRanker(loss, C=C).fit(X, y, qid=qid).fit_ for C in (1.0, 100.0, 1e3, 1e4)]
    assert all(fit.converged for fit in fits)
    assert all(fit.n_passes <= limit for fit, limit in zip(fits, most, strict=True))
