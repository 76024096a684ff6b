"""ROC area oracle: against all permutations, against the O(P N) count, as a gradient, and its invariances."""

from itertools import permutations

import numpy as np
import pytest

from structsvm.oracles.roc_area import RocArea
from tests.oracles.separating import bind_and_separate, of_one_query


def ranking_terms(relevant, ranking):
    """(loss, coef) of one ranking, by the definitions."""
    place = np.argsort(ranking)
    inverted = np.outer(relevant, ~relevant) & (place[:, None] > place[None, :])
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
        relevant = y >= 1
        loss, coef = of_one_query(RocArea(), y, scores)
        if relevant.all() or not relevant.any():
            assert loss == 0
            assert not coef.any()
            continue
        terms = [ranking_terms(relevant, np.array(r)) for r in permutations(range(len(y)))]
        assert loss - scores @ coef == pytest.approx(max(d - scores @ a for d, a in terms), abs=1e-12)
        assert any(abs(loss - d) < 1e-12 and np.allclose(coef, a, atol=1e-12) for d, a in terms)
        n_checked += 1
    assert n_checked > 150


@pytest.mark.usefixtures("path")
def test_equals_counting_every_pair_on_larger_queries():
    rng = np.random.default_rng(1)
    for n in (50, 127, 128, 129, 300, 700):
        for threshold in (1.0, 2.0):
            y, scores = random_case(rng, n)
            scores = rng.permutation(scores)
            relevant = y >= threshold
            limit = scores - 0.5
            inverted = np.outer(relevant, ~relevant) & (scores[None, :] > limit[:, None])
            n_pairs = relevant.sum() * (~relevant).sum()
            loss, coef = of_one_query(RocArea(relevance=threshold), y, scores)
            assert loss == pytest.approx(inverted.sum() / n_pairs, abs=1e-15)
            np.testing.assert_allclose(coef, 2.0 * (inverted.sum(1) - inverted.sum(0)) / n_pairs, atol=1e-15)
            assert abs(coef.sum()) < 1e-12


def test_empty_one_class_and_single_document_queries_carry_no_constraint():
    y = np.array([1.0, 2.0, 0.0, -1.0, 1.0, 0.0, 1.0])
    offsets = np.array([0, 2, 2, 4, 5, 7])
    separator, loss, coef = bind_and_separate(RocArea(), y, offsets, np.zeros(7))
    assert separator.informative.tolist() == [False, False, False, False, True]
    assert separator.exact
    assert loss.tolist() == [0, 0, 0, 0, 1]
    assert coef.tolist() == [0, 0, 0, 0, 0, -2, 2]


def test_thesis_toy_rankings():
    # 8 documents, relevant 1, 6 and 7: ROC area 0.47 in the order 1..8 and 0.53 in the order 8..1.
    # Scores far apart leave no margin violation but the inversions themselves.
    y = np.zeros(8)
    y[[0, 5, 6]] = 1
    for scores, area in ((-10.0 * np.arange(8), 0.47), (10.0 * np.arange(8), 0.53)):
        loss, _ = of_one_query(RocArea(), y, scores)
        assert round(1 - loss, 2) == area
