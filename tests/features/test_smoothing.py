"""Smoothed similarities, by loops over vectors."""

import numpy as np
import pytest

from structsvm import CandidateSet
from structsvm.features import smooth_similarity


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def by_loops(own, n_neighbours, rounds):
    now = own
    for _ in range(rounds):
        after = own.copy()
        for i in range(len(own)):
            near = {j: max(0.0, cosine(now[i], now[j])) for j in range(len(own)) if j != i}
            best = sorted(near, key=lambda j, near=near: -near[j])[:n_neighbours]
            total = sum(near[j] for j in best)
            after[i] += sum(near[j] * now[j] for j in best) / (total if total > 0 else 1.0)
        now = after
    return np.array([[cosine(a, b) for b in now] for a in now])


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
@pytest.mark.parametrize("signs", [False, True])
def test_vectors_and_their_neighbours(rounds, signs):
    rng = np.random.default_rng(rounds)
    own = rng.normal(size=(7, 5)) if signs else rng.random((7, 5)) + 0.1
    own /= np.sqrt((own**2).sum(axis=1, keepdims=True))
    given = CandidateSet.from_similarity(own @ own.T, list("abcdefg"), np.ones((7, 1)), query="q")
    found = smooth_similarity(given, n_neighbours=3, rounds=rounds)
    np.testing.assert_allclose(found.similarity, by_loops(own, 3, rounds), rtol=1e-9, atol=1e-12)
    assert (found.ids, found.query, found.features.shape) == (given.ids, "q", (7, 1))


def test_sets_that_leave_nothing_to_smooth():
    assert smooth_similarity(CandidateSet(["one"])).similarity.tolist() == [[1.0]]
    assert smooth_similarity(CandidateSet(["", "red", "blue"])).similarity.tolist() == np.eye(3).tolist()
    with pytest.raises(ValueError, match="n_neighbours=0"):
        smooth_similarity(CandidateSet(["one"]), 0)
