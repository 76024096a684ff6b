"""The extensions among the experiments on diversity: a structured model by exhaustive search, ROUGE by hand."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from structsvm.common.candidates import CandidateSet


def test_tree_by_loops(load):
    """Average link: the two clusters most alike on average are joined, at that similarity."""
    module = load("_diversity_similarity")
    rng = np.random.default_rng(0)
    found = module.expanded(sparse.csr_matrix(normalize(rng.random((7, 5)))))
    joined, clusters = np.eye(7), [[i] for i in range(7)]
    while len(clusters) > 1:
        pairs = itertools.combinations(range(len(clusters)), 2)
        a, b = max(pairs, key=lambda p: found[np.ix_(clusters[p[0]], clusters[p[1]])].mean())
        for i, j in itertools.product(clusters[a], clusters[b]):
            joined[i, j] = joined[j, i] = found[np.ix_(clusters[a], clusters[b])].mean()
        clusters[a] += clusters.pop(b)
    assert module.with_tree(found) == pytest.approx((found + joined) / 2)
    assert module.with_tree(np.ones((1, 1))).tolist() == [[1.0]]


def test_pair_auc_by_hand(load):
    module = load("_diversity_similarity")
    labels = np.array([[1, 0], [1, 0], [0, 1]])
    near = np.array([[1.0, 0.5, 0.7], [0.5, 1.0, 0.2], [0.7, 0.2, 1.0]])
    assert module.pair_auc(near, labels) == 0.5
    assert np.isnan(module.pair_auc(near, np.ones((3, 1))))


def test_rouge_by_hand(load):
    module = load("diversity_extensions")
    reference = "Red rose, red sea. Garden of roses"  # red twice; "of" is a stop word
    assert module.rouge_1(["red red red"], reference) == pytest.approx(2 / 6)
    assert module.rouge_1(["red sea", "garden red"], reference) == pytest.approx(4 / 6)
    assert module.rouge_1([], reference) == 0
    labels = module.occurrences(CandidateSet(["red sea", "blue rose", "sky"]), reference)
    assert labels.sum(axis=1).tolist() == [3, 1, 0]  # red twice and sea; garden and roses nobody has
