"""The extensions among the experiments on diversity: a structured model by exhaustive search, ROUGE by hand."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from structsvm.common.candidates import CandidateSet
from structsvm.features.word_counts import make_vectorizer
from structsvm.oracles.adapter import StructuredProblem
from structsvm.trainers.contract import Options
from structsvm.trainers.one_slack import one_slack


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


def test_smoothed_texts(monkeypatch, load):
    module = load("_diversity_similarity")
    monkeypatch.setattr(module, "latent", lambda counts: [np.eye(3), np.eye(2)])
    texts = [["red rose", "red &amp;amp; rose", "sea"], ["blue sea", "sky"]]
    first, second = module.smoothed(texts, [make_vectorizer()])
    assert first.shape == (3, 3)
    wordless = sparse.csr_matrix([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert module.expanded(wordless)[1].tolist() == [0.0, 1.0, 0.0]
    assert second.shape == (2, 2)
    assert first[0, 1] > 0.9  # what is left of the entity is no word
    assert first[0, 2] == pytest.approx(0)
    counts = module.counts_by_set(texts, make_vectorizer())
    assert counts[0].shape == (3, 5)
    [own, _] = module.weighted(counts)
    idf = {"red": np.log(3 / 2) * np.log(5 / 2), "rose": np.log(3 / 2) * np.log(5 / 2)}
    assert own[0].toarray().max() == pytest.approx(np.sqrt(idf["red"] / sum(idf.values())))


def test_latent_dimensions_are_not_the_query(load):
    """Texts differ in their second word; the first is the same in the whole set."""
    module = load("_diversity_similarity")
    texts = [[f"query{s} sense{i % 2}{s}" for i in range(4)] for s in range(3)]
    counts = module.counts_by_set(texts, make_vectorizer())
    for vectors in module.latent(counts, 6):
        assert vectors @ vectors.T == pytest.approx(np.kron(np.ones((2, 2)), np.eye(2)), abs=1e-8)


def test_pair_auc_by_hand(load):
    module = load("_diversity_similarity")
    labels = np.array([[1, 0], [1, 0], [0, 1]])
    near = np.array([[1.0, 0.5, 0.7], [0.5, 1.0, 0.2], [0.7, 0.2, 1.0]])
    assert module.pair_auc(near, labels) == 0.5
    assert np.isnan(module.pair_auc(near, np.ones((3, 1))))


def test_pairwise_distances(load):
    module = load("diversity_extensions")
    rng = np.random.default_rng(0)
    reached = []
    xs, ys = [], []
    for _ in range(30):
        words = rng.integers(0, 6, size=(7, 4))
        x = module.candidates(CandidateSet([" ".join(f"w{j}" for j in row) for row in words]))
        labels = np.eye(6)[words].max(axis=1) > 0
        target = module.Choice(np.array([0, 1]), labels)
        xs.append(x)
        ys.append(target)
        model = module.Distances(2)
        w = rng.random(8)
        weights = labels.sum(axis=0) / labels.sum()

        def value(y, model=model, x=x, w=w):
            return w @ model.joint_feature(x, module.Choice(np.array(y)))

        def violation(y, value=value, weights=weights, labels=labels):
            return value(y) - weights @ labels[list(y)].any(axis=0)

        reached.append(value(model.argmax(w, x).rows) / max(map(value, itertools.combinations(range(7), 2))))
        # the second document is the best one beside the first
        rows = model.loss_augmented_argmax(w, x, target).rows
        best = max(violation((rows[0], d)) for d in range(7) if d != rows[0])
        assert violation(rows) == pytest.approx(best)
        assert model.loss(target, target) == 0
    assert max(reached) == pytest.approx(1)
    assert min(reached) > 0.5  # greedy is half as good for distances that are metrics, and these nearly are
    fit = one_slack(StructuredProblem(module.Distances(2), xs, ys), 1.0, Options(tol=0.01))
    assert fit.converged
    assert not fit.certified


def test_rouge_by_hand(load):
    module = load("diversity_extensions")
    reference = "Red rose, red sea. Garden of roses"  # red twice; "of" is a stop word
    assert module.rouge_1(["red red red"], reference) == pytest.approx(2 / 6)
    assert module.rouge_1(["red sea", "garden red"], reference) == pytest.approx(4 / 6)
    assert module.rouge_1([], reference) == 0
    labels = module.occurrences(CandidateSet(["red sea", "blue rose", "sky"]), reference)
    assert labels.sum(axis=1).tolist() == [3, 1, 0]  # red twice and sea; garden and roses nobody has
