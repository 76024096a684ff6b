"""Oracles of pairs: against every pair, and the ROC area against all permutations."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from structsvm.oracles import Pairs, RocArea, pairs
from tests.oracles.separating import bind_and_separate, of_one_query


@pytest.fixture(params=["counting", "merging"])
def path(request, monkeypatch):
    """Force one of the two ways of counting for all sizes."""
    monkeypatch.setattr(pairs, "_COUNTING_PAIRS", 10**9 if request.param == "counting" else 0)


def slow(y, scores):
    """Return the number of pairs, and of violated pairs as the better and as the worse document, by comparing all."""
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
    with pytest.raises(ValueError, match="normalize='none': expected 'pairs' or 'query'"):
        Pairs(normalize="none")  # type: ignore[arg-type]


# ---- the ROC area


def ranking_terms(relevant, ranking):
    """Return loss and coefficients of one ranking, by the definitions."""
    position = np.argsort(ranking)
    inverted = np.outer(relevant, ~relevant) & (position[:, None] > position[None, :])
    n_pairs = relevant.sum() * (~relevant).sum()
    return inverted.sum() / n_pairs, 2.0 * (inverted.sum(1) - inverted.sum(0)) / n_pairs


def random_case(rng, n):
    y = rng.integers(-1, 3, n).astype(float)
    scores = rng.normal(size=n) * rng.choice([0.1, 0.5, 2.0])
    if rng.random() < 0.5:
        scores = (scores * 4).round() / 4  # ties, and differences of exactly 1/2
    return y, scores


@pytest.mark.usefixtures("path")
def test_value_equals_the_maximum_over_all_permutations():
    rng = np.random.default_rng(0)
    n_checked = 0
    for _ in range(250):
        y, scores = random_case(rng, int(rng.integers(2, 7)))
        threshold = rng.choice([1.0, 2.0])
        relevant = y >= threshold
        loss, coef = of_one_query(RocArea(relevance=threshold), y, scores)
        if relevant.all() or not relevant.any():
            assert loss == 0
            assert not coef.any()
            continue
        terms = [ranking_terms(relevant, np.array(r)) for r in permutations(range(len(y)))]
        assert loss - scores @ coef == pytest.approx(max(d - scores @ a for d, a in terms), abs=1e-12)
        assert any(abs(loss - d) < 1e-12 and np.allclose(coef, a, atol=1e-12) for d, a in terms)
        n_checked += 1
    assert n_checked > 150


def test_thesis_toy_rankings():
    # 8 documents, relevant 1, 6 and 7: ROC area 0.47 in the order 1..8 and 0.53 in the order 8..1.
    # Scores far apart leave no margin violation but the inversions themselves.
    y = np.zeros(8)
    y[[0, 5, 6]] = 1
    for scores, area in ((-10.0 * np.arange(8), 0.47), (10.0 * np.arange(8), 0.53)):
        loss, _ = of_one_query(RocArea(), y, scores)
        assert round(1 - loss, 2) == area
