"""Weighted pairs: against all pairs and all sets of pairs, as a gradient, against copies of the query per click."""

import numpy as np
import pytest

from structsvm.oracles.weighted import WeightedPairs
from tests.oracles.separating import bind_and_separate, of_one_query


def slow(y, scores):
    """Return loss and coefficients by comparing all pairs."""
    violated = (scores[None, :] > scores[:, None] - 1.0) & ~np.eye(len(y), dtype=bool)
    weights = y[:, None] * violated / y.sum()
    return weights.sum(), weights.sum(axis=1) - weights.sum(axis=0)


def hinge(y, scores):
    terms = np.maximum(0, 1 - scores[:, None] + scores[None, :]) * ~np.eye(len(y), dtype=bool)
    return (y[:, None] * terms).sum() / y.sum()


def random_weights(rng, n):
    y = np.where(rng.random(n) < 0.5, rng.exponential(size=n) * 10.0 ** rng.integers(-2, 3), 0.0)
    if not y.any():
        y[rng.integers(n)] = 1.0
    return y


def test_equals_comparing_every_pair():
    rng = np.random.default_rng(0)
    for case in range(2000):
        n = int(rng.integers(2, 40)) if case % 50 else int(rng.integers(100, 400))
        y = random_weights(rng, n)
        scores = (rng.normal(size=n) * rng.choice([0.3, 2.0])).round(int(rng.integers(0, 4)))
        loss, coef = of_one_query(WeightedPairs(), y, scores)
        expected_loss, expected_coef = slow(y, scores)
        assert loss == pytest.approx(expected_loss, rel=1e-12)
        np.testing.assert_allclose(coef, expected_coef, atol=1e-11 * n)
        assert loss - scores @ coef == pytest.approx(hinge(y, scores), rel=1e-9, abs=1e-9)


def test_queries_do_not_touch_each_other():
    rng = np.random.default_rng(2)
    lengths = [1, 2, 0, 5, 130, 3]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    y, scores = rng.exponential(size=offsets[-1]), rng.normal(size=offsets[-1])
    y[offsets[3] : offsets[4]] = 0.0
    separator, loss, coef = bind_and_separate(WeightedPairs(), y, offsets, scores)
    assert separator.informative.tolist() == [False, True, False, False, True, True]
    for q in range(6):
        part = slice(offsets[q], offsets[q + 1])
        one, c = np.empty(1), np.empty(lengths[q])
        separator.separate(scores[part], q, q + 1, one, c)
        assert one[0] == loss[q]
        assert (c == coef[part]).all()
        if not separator.informative[q]:
            assert one[0] == 0
            assert not c.any()
