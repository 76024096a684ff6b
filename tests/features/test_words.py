"""From texts to coverage: levels against their definition, bins, document features, input of every kind."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer

from structsvm.common.candidates import CandidateSet
from structsvm.features import smooth_similarity
from structsvm.features.word_counts import count_words, make_vectorizer, tfidf
from structsvm.features.word_features import Level, WordFeatures, unit_range
from tests.refusing import called, rejected, rejections

TEXTS = ["red red red rose", "red sea sea", "rose garden", "", "the of and"]
TITLES = ["a rose", "", "sea", "rose", ""]


def covered(level, candidates):
    """Return the words of each document at a level."""
    words = count_words(candidates)
    [(indptr, indices, _)] = WordFeatures([level]).incidences(candidates, words)
    return [set(words.vocabulary[indices[a:b]]) for a, b in pairwise(indptr)]


def test_levels():
    candidates = CandidateSet(TEXTS, titles=TITLES)
    for level, expected in (
        (Level.appears(), ["red rose", "red sea", "rose garden", "", ""]),
        (Level.count(1), ["red rose", "red sea", "rose garden", "", ""]),
        (Level.count(2), ["red", "sea", "", "", ""]),
        (Level.share(0.3), ["red", "red sea", "rose garden", "", ""]),
        (Level.title(), ["rose", "", "sea", "rose", ""]),
        # red: 3 log(5/2), rose: log(5/2); sea: 2 log 5, red: log(5/2); garden: log 5
        (Level.top_tfidf(1), ["red", "sea", "garden", "", ""]),
    ):
        assert covered(level, candidates) == [set(words.split()) for words in expected]


def test_neighbours_cover_each_other():
    candidates = CandidateSet(["red rose", "red rose", "red sea", ""])
    [(indptr, indices, n)] = WordFeatures([Level.neighbours(0.99)]).incidences(
        candidates, count_words(candidates)
    )
    near = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(4, n)).toarray()
    assert near.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("thresholds", [(0.0,), (0.0, 0.2, 0.5), (0.3, 0.6)])
def test_coverage_against_its_definition(thresholds):
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(1, 12))
        counts = rng.poisson(0.6, size=(n, 20))
        features = WordFeatures([Level.appears(), Level.count(2)], thresholds)
        coverage = features.coverage(CandidateSet(counts))
        expected = np.zeros((n, 2 * len(thresholds)), dtype=int)
        shared = []
        for level, least in enumerate((1, 2)):
            for v in range(20):
                documents = np.flatnonzero(counts[:, v] >= least)
                b = sum(documents.size / n >= t for t in thresholds) - 1
                if documents.size and b >= 0:
                    expected[documents, level * len(thresholds) + b] += 1
                    if documents.size > 1:
                        shared.append((level * len(thresholds) + b, *documents.tolist()))
        np.testing.assert_array_equal(coverage.counts, expected)
        c = coverage
        found = [
            (
                int(c.element_bin[e]),
                *c.element_documents[c.element_start[e] : c.element_start[e + 1]].tolist(),
            )
            for e in range(len(c.element_bin))
        ]
        assert sorted(found) == sorted(shared)
        for d in range(n):
            assert sorted(c.doc_elements[c.doc_start[d] : c.doc_start[d + 1]]) == [
                e for e in range(len(found)) if d in found[e][1:]
            ]


def test_benefits_are_sums_over_thresholds():
    features = WordFeatures([Level.appears(), Level.title()], [0.0, 0.5, 0.9])
    w = np.array([1.0, 2.0, 4.0, 10.0, 20.0, 40.0])
    assert (features.bins(np.array([1.0, 0.1])) @ w).tolist() == pytest.approx([1, 3, 7, 1, 3, 7])


def test_texts_tokens_and_counts_are_the_same():
    features = WordFeatures([Level.appears(), Level.count(2), Level.title()])
    analyze = make_vectorizer().build_analyzer()
    tokens = CandidateSet([analyze(t) for t in TEXTS], titles=[analyze(t) for t in TITLES])
    vectorizer = make_vectorizer().fit([*TEXTS, *TITLES])
    wide = sparse.hstack([sparse.csr_matrix((5, 1000)), vectorizer.transform(TEXTS)])
    wide_titles = sparse.hstack([sparse.csr_matrix((5, 1000)), vectorizer.transform(TITLES)])
    expected = features.coverage(CandidateSet(TEXTS, titles=TITLES))
    for candidates in (
        tokens,
        CandidateSet(wide, titles=wide_titles),
        CandidateSet(wide.toarray(), wide_titles),
    ):
        found = features.coverage(candidates)
        for a, b in zip(vars(found).values(), vars(expected).values(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_document_features_lie_between_0_and_1_within_the_set():
    own = [[-5.0, 1.0], [np.nan, 1.0], [-1.0, 1.0], [-3.0, 1.0], [-3.0, 1.0]]
    features = WordFeatures([Level.appears()], document_features=["rank", "centroid"])
    found = features.coverage(CandidateSet(TEXTS, features=own)).features
    assert found[:, 0].tolist() == [0, 0, 1, 0.5, 0.5]
    assert found[:, 1].tolist() == [0] * 5
    assert found[:, 2].tolist() == [1, 0.75, 0.5, 0.25, 0]
    assert found[:, 3].min() == found[3, 3] == 0
    assert found[:, 3].max() == 1


def test_tfidf_by_hand():
    vectors = tfidf(sparse.csr_matrix([[2.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])).toarray()
    a, b = (1 + np.log(2)) * np.log(3), np.log(1.5)
    np.testing.assert_allclose(vectors[0], np.array([a, b, 0]) / np.hypot(a, b))
    np.testing.assert_allclose(vectors[1:], [[0, 1, 0], [0, 0, 0]])


def test_scripts_stemmers_and_other_vectorizers():
    mixed = CandidateSet(["Прага красива", "プラハ は 美しい", "praha Praha", "براغ مدينة"])
    assert {"прага", "プラハ", "praha", "براغ"} <= set(count_words(mixed).vocabulary)
    pairs = count_words(
        CandidateSet(["東京都", "京都"]), CountVectorizer(analyzer="char", ngram_range=(2, 2))
    )
    assert pairs.vocabulary.tolist() == ["京都", "東京"]
    stemmed = make_vectorizer(stem=lambda word: word[:3])
    assert count_words(CandidateSet(["roses rosy", "the rose"]), stemmed).text.toarray().tolist() == [
        [2],
        [1],
    ]


def test_no_words_at_all():
    features = WordFeatures([Level.appears(), Level.top_tfidf(2), Level.share(0.1), Level.neighbours(0.5)])
    for texts in (["", "the"], [[], []], np.zeros((2, 3)), np.zeros((2, 0))):
        coverage = features.coverage(CandidateSet(texts))
        assert coverage.counts[:, :-9].sum() == 0  # only itself covers a document without words


def test_whether_there_are_words_is_not_read_from_a_message():
    class Terse(CountVectorizer):
        def fit_transform(self, documents, y=None):
            raise ValueError("no")

    class Plain(BaseEstimator):
        def fit_transform(self, documents, y=None):
            raise ValueError("no")

    for vectorizer, empty in ((Terse(stop_words=["the"]), ["", "the"]), (Plain(), ["", " "])):
        assert count_words(CandidateSet(empty, titles=empty), vectorizer).text.shape == (2, 0)
        rejected("no", count_words, CandidateSet(["", "red"]), vectorizer)
    with pytest.raises(ValueError, match="empty vocabulary"):  # which is the user's, not the texts'
        count_words(CandidateSet(["red"]), CountVectorizer(vocabulary=[]))


def test_features_of_any_size_lie_between_0_and_1():
    values = np.array([[1e308, 1.0, np.nan, 5e-324], [-1e308, 3.0, np.nan, 0.0], [0.0, np.nan, np.nan, 0.0]])
    np.testing.assert_array_equal(unit_range(values[:, :3]), [[1, 0, 0], [0, 1, 0], [0.5, 0, 0]])
    assert ((unit_range(values) >= 0) & (unit_range(values) <= 1)).all()
    assert unit_range(np.zeros((2, 0))).shape == (2, 0)


def test_more_words_of_a_document_than_it_has():
    """The array for the top words is not longer than the vocabulary."""
    features = WordFeatures([Level.top_tfidf(2**31 - 1)])
    assert features.coverage(CandidateSet(["red rose", "sea"])).counts.sum() == 3


test_bad_options = rejections(
    called,
    (lambda: Level.count(0), "Level.count: expected an integer"),
    (lambda: Level.count(np.inf), "Level.count: expected an integer"),
    (lambda: Level.count("3"), "Level.count: expected an integer"),
    (lambda: Level.top_tfidf(10**12), "Level.top_tfidf: expected an integer"),
    (lambda: Level.share(None), "share in"),
    (lambda: Level.share(1.5), "share in"),
    (lambda: Level("nothing"), "unknown kind"),
    (lambda: WordFeatures([]), "levels"),
    (lambda: WordFeatures([Level.title(), Level.title()]), "each level once"),
    (lambda: WordFeatures([Level.title()], [0.5, 0.1]), "ascending"),
    (lambda: WordFeatures([Level.title()], document_features=["length"]), "document_features"),
    (lambda: WordFeatures([Level.title()]).coverage(CandidateSet(["a"])), "with titles"),
)


# -- smoothed similarities, by loops over vectors


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


@pytest.mark.parametrize("n", [3, 11, 12, 25, 40])
@pytest.mark.parametrize("signs", [False, True])
def test_vectors_and_their_neighbours(n, signs):
    rng = np.random.default_rng(n)
    own = rng.normal(size=(n, 5)) if signs else rng.random((n, 5)) + 0.1
    own /= np.sqrt((own**2).sum(axis=1, keepdims=True))
    given = CandidateSet.from_similarity(own @ own.T, range(100, 100 + n), np.ones((n, 1)), query="q")
    found = smooth_similarity(given)
    np.testing.assert_allclose(found.similarity, by_loops(own, 10, 2), rtol=1e-9, atol=1e-12)
    assert (found.ids, found.query, found.features.shape) == (given.ids, "q", (n, 1))


def test_sets_that_leave_nothing_to_smooth():
    assert smooth_similarity(CandidateSet(["one"])).similarity.tolist() == [[1.0]]
    assert smooth_similarity(CandidateSet(["", "red", "blue"])).similarity.tolist() == np.eye(3).tolist()
