"""The structural hinge of NDCG: against all permutations, and why it does not learn."""

from itertools import permutations

import numpy as np
import pytest

from experiments._position_ndcg import PositionNDCG
from structsvm.testing import check_oracle
from tests.refusing import rejected


def value_over_permutations(k, y, scores):
    """Return the largest loss minus margin against the mean ideal ranking."""
    n = len(y)
    gains = 2.0 ** np.maximum(y, 0) - 1
    alpha = np.where(np.arange(n) < (k or n), 1 / np.log2(np.arange(n) + 2), 0.0)
    rankings = np.array(list(permutations(range(n))))
    if gains.min() == gains.max():
        return 0.0
    losses = 1 - (gains[rankings] * alpha).sum(axis=1) / (np.sort(gains)[::-1] * alpha).sum()
    weights = np.empty(rankings.shape)
    np.put_along_axis(weights, rankings, alpha[None, :], axis=1)
    ideal = weights[(np.diff(gains[rankings], axis=1) <= 0).all(axis=1)].mean(axis=0)
    return (losses - (ideal - weights) @ scores).max()


@pytest.mark.parametrize("k", [None, 1, 3, 10])
def test_value_equals_the_maximum_over_all_permutations(k):
    check_oracle(PositionNDCG(k), reference=lambda y, s: value_over_permutations(k, y, s))


def test_bad_settings_are_refused():
    rejected("k=0: expected an integer", PositionNDCG, k=0)
    rejected("finite sum, got a label 2000", PositionNDCG().bind, np.array([0.0, 2000.0]), np.array([0, 2]))
