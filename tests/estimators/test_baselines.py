"""Baselines against slow implementations of their definitions, and the common behaviour of all."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from structsvm.common.candidates import CandidateSet
from structsvm.common.checks import BadInput
from structsvm.estimators import baselines
from structsvm.estimators.baselines import (
    MMR,
    Clairvoyant,
    EssentialPages,
    FacilityLocation,
    OkapiBM25,
    OriginalOrder,
    RandomChoice,
    UnweightedCoverage,
    XQuAD,
)
from structsvm.features.word_counts import count_words, tfidf
from structsvm.metrics.diversity import weighted_subtopic_loss
from tests.refusing import rejected

WORDS = np.array([f"w{j}" for j in range(25)])


def random_set(rng, features=None):
    counts = rng.poisson(0.5, size=(12, 25)) * rng.integers(1, 4, size=(12, 25))
    return counts.astype(float), CandidateSet(counts, features=features, query="w3 w7 w7", vocabulary=WORDS)


def is_greedy(chosen, n, value):
    """Return whether each document had the largest value, up to rounding, when it was chosen."""
    for i, d in enumerate(chosen):
        best = max(value(chosen[:i], other) for other in range(n) if other not in chosen[:i])
        if value(chosen[:i], d) < best - 1e-10:
            return False
    return True


def test_against_definitions():
    rng = np.random.default_rng(0)
    for _ in range(30):
        counts, candidates = random_set(rng)
        near = (tfidf(candidates.texts) @ tfidf(candidates.texts).T).toarray()
        relevance = near.mean(axis=1)  # on the scale of the similarities it is weighed against
        share = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
        rarity = np.log(12 / np.maximum(1, (counts > 0).sum(axis=0)))

        def new(y, d, counts=counts):
            return (counts[d] > 0) & ~(counts[y] > 0).any(axis=0)

        values = {
            UnweightedCoverage: lambda y, d, new=new: new(y, d).sum(),
            EssentialPages: lambda y, d, new=new, s=share, r=rarity: (s[d] * r)[new(y, d)].sum(),
            MMR: lambda y, d, n=near, r=relevance: 0.5 * r[d] - 0.5 * n[d, y].max(initial=0),
            FacilityLocation: lambda y, d, n=near: n[:, [*y, d]].max(axis=1).sum(),
        }
        for baseline, value in values.items():
            chosen = baseline(4).predict([candidates])[0].tolist()
            assert is_greedy(chosen, 12, value), baseline
            assert not is_greedy(chosen[::-1], 12, value) or baseline is UnweightedCoverage


@pytest.mark.parametrize("chooser", [MMR(4, 0.3), FacilityLocation(4)])
def test_a_similarity_of_ones_own(chooser):
    _, candidates = random_set(np.random.default_rng(6))
    near = (tfidf(candidates.texts) @ tfidf(candidates.texts).T).toarray()
    given = CandidateSet.from_similarity(near, features=candidates.features)
    for k in (4, 2):
        assert chooser.predict([given], k)[0].tolist() == chooser.predict([candidates], k)[0].tolist()
    for reads_words in (UnweightedCoverage(), EssentialPages(), OkapiBM25()):
        both = CandidateSet.from_similarity(near, documents=candidates)
        np.testing.assert_array_equal(reads_words.predict([both]), reads_words.predict([candidates]))
        with pytest.raises((TypeError, ValueError), match="similarity"):
            reads_words.predict([given])


def test_relevance_of_ones_own():
    given = CandidateSet.from_similarity(np.eye(4), features=[[0.0], [0.2], [0.9], [0.1]])
    assert MMR(2).predict([given])[0].tolist() == [2, 1]


def test_titles_count_in_similarity():
    titled = CandidateSet(["one", "two", "three"], titles=["red rose", "blue sea", "red rose"])
    together = CandidateSet(["one red rose", "two blue sea", "three red rose"])
    np.testing.assert_allclose(count_words(titled).cosines, count_words(together).cosines, rtol=1e-12)


def test_bm25_by_hand():
    counts, candidates = random_set(np.random.default_rng(1))
    scores = np.zeros(12)
    length = counts.sum(axis=1)
    for j in (3, 7, 7):  # a word twice in the query counts twice
        df = (counts[:, j] > 0).sum()
        idf = np.log(1 + (12 - df + 0.5) / (df + 0.5))
        scores += idf * counts[:, j] * 2.2 / (counts[:, j] + 1.2 * (0.25 + 0.75 * length / length.mean()))
    np.testing.assert_allclose(OkapiBM25().scores(candidates), scores)
    assert OkapiBM25(3).predict([candidates])[0].tolist() == np.argsort(-scores, kind="stable")[:3].tolist()
    rejected("query", OkapiBM25().predict, [CandidateSet(["a"])])
    rejected("vocabulary", OkapiBM25().predict, [CandidateSet(counts, query="a")])


def test_xquad_and_clairvoyant():
    rng = np.random.default_rng(2)
    for _ in range(30):
        _, candidates = random_set(rng, features=rng.random((12, 1)))
        labels = (rng.random((12, 5)) < 0.3) * rng.integers(1, 4, size=(12, 5))
        feature = candidates.features[:, 0]
        relevance = (feature - feature.min()) / np.ptp(feature)
        likely = labels / max(1, labels.max())

        def value(y, d, p=likely, r=relevance):
            return 0.3 * r[d] + 0.7 * (p[d] * np.prod(1 - p[y], axis=0)).sum() / 5

        found = XQuAD(4, trade_off=0.7).predict([candidates], labels=[labels])[0].tolist()
        assert is_greedy(found, 12, value)
        assert XQuAD(4, trade_off=0.7).predict([candidates], labels=[csr_matrix(labels)])[0].tolist() == found
        clairvoyant = Clairvoyant(3).predict([candidates], labels=[labels])
        others = RandomChoice(3).predict([candidates])
        if labels.any():
            best = weighted_subtopic_loss([labels], clairvoyant)[0]
            assert best <= weighted_subtopic_loss([labels], others)[0] + 1e-12


@pytest.mark.parametrize(
    "baseline",
    [RandomChoice, OriginalOrder, OkapiBM25, UnweightedCoverage, EssentialPages, MMR, FacilityLocation],
)
def test_common_behaviour(baseline):
    _, candidates = random_set(np.random.default_rng(3))
    empty = CandidateSet(["", "the", ""], query="nothing")
    chosen = baseline(4).predict([candidates, empty, CandidateSet(["sea"], query="sea")])
    assert [len(c) for c in chosen] == [4, 3, 1]
    assert all(sorted(set(c.tolist())) == sorted(c.tolist()) for c in chosen)
    assert baseline(4).predict([candidates], 2)[0].shape == (2,)
    if baseline is not RandomChoice:
        assert chosen[1].tolist() == [0, 1, 2]
    for bad in (0, 1.5, True):
        rejected("integer", baseline(bad).predict, [candidates])
    with pytest.raises(TypeError, match="list of CandidateSet"):
        baseline().predict(candidates)


def test_features_that_say_nothing():
    """Without features, relevance is the similarity to the mean; if a feature is missing everywhere, all are equal."""
    _, plain = random_set(np.random.default_rng(5))
    without = CandidateSet(plain.texts, features=np.zeros((12, 0)))
    unknown = CandidateSet(plain.texts, features=np.full((12, 1), np.nan))
    first = np.eye(12)[:, :1]
    for chooser in (MMR(4), XQuAD(4)):
        labels = {"labels": [first]} if isinstance(chooser, XQuAD) else {}
        assert (
            chooser.predict([without], **labels)[0].tolist() == chooser.predict([plain], **labels)[0].tolist()
        )
        assert chooser.predict([unknown], **labels)[0][0] == 0


def test_options():
    _, candidates = random_set(np.random.default_rng(4))
    assert (
        RandomChoice(3, 1).predict([candidates])[0].tolist()
        == RandomChoice(3, 1).predict([candidates])[0].tolist()
    )
    two = RandomChoice(12, 1).predict([candidates, candidates])
    assert two[0].tolist() != two[1].tolist()
    for baseline in (MMR, XQuAD):
        rejected("trade_off", baseline, trade_off=2)
        rejected("trade_off", baseline, trade_off="half")


def test_every_method_keeps_to_a_budget():
    """Within a budget, choose by gain per cost if gains are amounts, else by score; or a single better document."""
    rng = np.random.default_rng(8)
    texts = [" ".join(f"w{j}" for j in rng.integers(0, 20, size=rng.integers(1, 12))) for _ in range(14)]
    one = CandidateSet(texts, query="w1 w2", features=rng.random((14, 1)))
    labels, costs = [(rng.random((14, 6)) < 0.3).astype(int)], rng.integers(1, 9, size=14)
    for name in baselines.__all__:
        method = getattr(baselines, name)(3)
        more = {"labels": labels} if name in ("XQuAD", "Clairvoyant") else {}
        [chosen] = method.predict([one], costs=[costs], budget=12, **more)
        assert 0 < costs[chosen].sum() <= 12
        [two] = method.predict([one], 2, costs=[costs], budget=12, **more)
        assert len(two) <= 2
        with pytest.raises(BadInput, match=r"costs\[0\]\[0\]: .* got 0 for document '0'"):
            method.predict([one], costs=[np.zeros(14)], budget=12, **more)
        rejected("expected both or neither", method.predict, [one], budget=12, **more)
    order = [d for d in range(14) if costs[: d + 1].sum() <= 12]
    assert (
        baselines.OriginalOrder().predict([one], costs=[costs], budget=12)[0][: len(order)].tolist() == order
    )
    # a small document of a high ratio does not exclude the one that is worth most
    pair = CandidateSet(["red", "a long text about the sea and ships"])
    assert baselines.UnweightedCoverage().predict([pair], costs=[[0.1, 6]], budget=6)[0].tolist() == [1]


def test_gains_per_cost_have_their_guarantee():
    """The value is at least (1 - 1/e)/2 of the enumerated best choice in the budget (Khuller, Moss and Naor 1999)."""
    rng = np.random.default_rng(9)
    for _ in range(100):
        labels, costs = (rng.random((8, 6)) < 0.3).astype(float), rng.integers(1, 9, size=8)
        budget = int(rng.integers(2, 15))
        [chosen] = baselines.Clairvoyant(8, "unweighted").predict(
            [CandidateSet(["a"] * 8)], labels=[labels], costs=[costs], budget=budget
        )
        choices = (list(c) for k in range(1, 9) for c in itertools.combinations(range(8), k))
        best = max((labels[c].any(axis=0).sum() for c in choices if costs[c].sum() <= budget), default=0)
        assert labels[chosen].any(axis=0).sum() >= (1 - np.exp(-1)) / 2 * best
