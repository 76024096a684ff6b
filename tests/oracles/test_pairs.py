"""Graded pairs oracle: against every pair, against all sets of pairs, as a gradient, by chunks."""

from itertools import pairwise

import numpy as np
import pytest

from structsvm.oracles.pairs import Pairs
from tests.oracles.separating import bind_and_separate


def slow(y, scores):
    """(number of pairs, violated pairs as the better one, as the worse one), by comparing all."""
    better = y[:, None] > y[None, :]
    violated = better & (scores[None, :] > scores[:, None] - 1.0)
    return int(better.sum()), violated.sum(1), violated.sum(0)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("labels", ["binary", "graded", "distinct", "skewed"])
def test_equals_comparing_every_pair(labels):
    rng = np.random.default_rng(1)
    lengths = [1, 2, 5, 0, 64, 127, 128, 129, 257, 400]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    n = offsets[-1]
    y = {
        "binary": rng.integers(0, 2, n),
        "graded": rng.integers(-1, 5, n),
        "distinct": rng.normal(size=n),
        "skewed": rng.geometric(0.3, n),
    }[labels].astype(float)
    for scores in (rng.normal(size=n), (rng.normal(size=n) * 3).round(), np.zeros(n)):
        separator, loss, coef = bind_and_separate(Pairs(), y, offsets, scores)
        for q, (start, stop) in enumerate(pairwise(offsets)):
            n_pairs, won, lost = slow(y[start:stop], scores[start:stop])
            assert separator.pair_counts[q] == n_pairs
            assert separator.informative[q] == (n_pairs > 0)
            assert loss[q] == won.sum() / max(1, n_pairs)
            np.testing.assert_allclose(coef[start:stop], (won - lost) / max(1, n_pairs), rtol=1e-14)


def test_normalisation_is_a_matter_of_query_weights():
    rng = np.random.default_rng(3)
    offsets = np.array([0, 10, 13, 15])
    y = np.concatenate((rng.integers(0, 3, 13), [1, 1])).astype(float)
    scores = rng.normal(size=15)
    by_pair, loss, coef = bind_and_separate(Pairs(), y, offsets, scores)
    by_query, loss_query, coef_query = bind_and_separate(Pairs(normalize="query"), y, offsets, scores)
    np.testing.assert_array_equal(loss, loss_query)
    np.testing.assert_array_equal(coef, coef_query)
    assert by_query.query_weights.tolist() == [1, 1, 1]
    weights = by_pair.query_weights / by_pair.query_weights.sum()
    hinges = loss - np.array([scores[a:b] @ coef[a:b] for a, b in pairwise(offsets)])
    every_pair = [
        max(0.0, 1 - scores[i] + scores[j])
        for a, b in pairwise(offsets)
        for i in range(a, b)
        for j in range(a, b)
        if y[i] > y[j]
    ]
    assert weights @ hinges == pytest.approx(np.mean(every_pair))


def test_unknown_normalisation_is_refused():
    with pytest.raises(ValueError, match="expected 'pairs' or 'query', got 'none'"):
        Pairs(normalize="none")  # type: ignore[arg-type]
