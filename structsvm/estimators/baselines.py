"""Fixed methods of choosing documents, to compare :class:`~structsvm.estimators.diversity.SVMDiv` with.

None is trained. All have ``predict(sets, k=None)`` like SVMDiv, which returns the documents chosen from each set, in
order. Those that use subtopics take them as ``predict(sets, k=None, labels=...)``. Ties go to the earlier document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structsvm.common.candidates import CandidateSet, check_labels, check_sets
from structsvm.common.checks import BadInput, check_number, check_whole
from structsvm.common.portable.arrays import products
from structsvm.common.portable.elementary import log, log1p
from structsvm.features.word_counts import count_words, make_vectorizer, similarities
from structsvm.features.word_features import Level, WordFeatures, unit_range
from structsvm.oracles.selection import bind_loss, greedy
from structsvm.protocols import Float, Int

__all__ = [
    "MMR", "Clairvoyant", "EssentialPages", "FacilityLocation", "OkapiBM25", "OriginalOrder", "RandomChoice",
    "UnweightedCoverage", "XQuAD",
]  # fmt: skip


@dataclass(eq=False)
class _Method:
    """Base of the methods that choose from each set alone."""

    k: int = 5

    def predict(self, sets: Sequence[CandidateSet], k: int | None = None) -> list[Int]:
        """Return the documents chosen from each set."""
        k = check_whole("k", self.k if k is None else k)
        return [self._choose(candidates, k) for candidates in check_sets(sets)]

    def _choose(self, candidates: CandidateSet, k: int) -> Int:
        raise NotImplementedError


@dataclass(eq=False)
class _WordMethod(_Method):
    """Base of those that only need to know which words there are."""

    vectorizer: Any = None


@dataclass(eq=False)
class RandomChoice(_Method):
    """Documents at random.

    Parameters
    ----------
    k : int, default=5
    random_state : int, default=0
        The choice from a set depends on it and on the position of the set in the list.

    Examples
    --------
    >>> RandomChoice(2).predict([CandidateSet(["a", "b", "c"])])[0].shape
    (2,)
    """

    label = "random"

    random_state: int = 0

    def predict(self, sets: Sequence[CandidateSet], k: int | None = None) -> list[Int]:
        """Return the documents chosen from each set."""
        k = check_whole("k", self.k if k is None else k)
        checked = check_sets(sets)
        seeds = np.random.SeedSequence(self.random_state).spawn(len(checked))
        return [
            np.random.default_rng(seed).permutation(len(s))[:k]
            for seed, s in zip(seeds, checked, strict=True)
        ]


class OriginalOrder(_Method):
    """The first documents, in the order of the candidates.

    Examples
    --------
    >>> OriginalOrder(2).predict([CandidateSet(["a", "b", "c"])])
    [array([0, 1])]
    """

    label = "original"

    def _choose(self, candidates: CandidateSet, k: int) -> Int:
        return np.arange(min(k, len(candidates)))


@dataclass(eq=False)
class OkapiBM25(_Method):
    """The documents that Okapi BM25 scores highest for the query of the set (Robertson et al. 1994).

    Document frequencies are those in the candidate set, as ``log(1 + (n - df + 1/2) / (df + 1/2))``, which is never
    negative. A set without a query, or of counts without a vocabulary, is an error.

    Parameters
    ----------
    k : int, default=5
    k1, b : float
        Saturation of the term frequency, and share of the length normalisation.
    vectorizer : object, optional
        See :func:`structsvm.features.word_counts.count_words`.

    Examples
    --------
    >>> OkapiBM25(1).predict([CandidateSet(["blue sea", "red rose"], query="rose")])
    [array([1])]
    """

    label = "bm25"

    k1: float = 1.2
    b: float = 0.75
    vectorizer: Any = None

    def _choose(self, candidates: CandidateSet, k: int) -> Int:
        return np.argsort(-self.scores(candidates), kind="stable")[:k]

    def scores(self, candidates: CandidateSet) -> Float:
        """Return the BM25 score of each document."""
        words = count_words(candidates, self.vectorizer)
        wanted = _query_words(candidates, words.vocabulary, self.vectorizer)
        counts = words.text[:, wanted].toarray()
        length = np.asarray(words.text.sum(axis=1)).ravel()
        frequency = (counts > 0).sum(axis=0)
        idf = log1p((len(candidates) - frequency + 0.5) / (frequency + 0.5))
        norm = self.k1 * (1 - self.b + self.b * length / max(length.mean(), 1e-300))
        return products(counts * (self.k1 + 1) / np.where(counts > 0, counts + norm[:, None], 1.0), idf)


class UnweightedCoverage(_WordMethod):
    """Greedy coverage of as many distinct words as possible, all of equal weight (thesis, table 4.1).

    Examples
    --------
    >>> UnweightedCoverage(2).predict([CandidateSet(["red rose", "red rose sea", "blue sky"])])
    [array([1, 2])]
    """

    label = "coverage"

    def _choose(self, candidates: CandidateSet, k: int) -> Int:
        features = WordFeatures([Level.appears()], [0.0], self.vectorizer)
        return greedy(features.coverage(candidates), np.ones(1), np.zeros(len(candidates)), k).chosen


class EssentialPages(_WordMethod):
    """Greedy coverage of words weighted by ``TF(v, d) * log(1 / DF(v, x))`` (Swaminathan et al. 2009).

    Frequencies are relative. A word counts once, with its frequency in the first chosen document that has it.

    Examples
    --------
    >>> EssentialPages(2).predict([CandidateSet(["sea sea rose", "sea", "sea sky rose"])])
    [array([2, 0])]
    """

    label = "essential"

    def _choose(self, candidates: CandidateSet, k: int) -> Int:
        counts = count_words(candidates, self.vectorizer).text
        share = counts.multiply(1.0 / np.maximum(counts.sum(axis=1), 1e-300)).tocsr()
        frequency = np.maximum(1, np.bincount(counts.indices, minlength=counts.shape[1]))
        weight = log(len(candidates) / frequency)

        def gain(chosen: list[int]) -> Float:
            weight[counts[chosen].indices] = 0.0
            return np.asarray(share @ weight).ravel()

        return _greedy(gain, len(candidates), k)


@dataclass(eq=False)
class MMR(_Method):
    """Maximal marginal relevance: relevance minus similarity to the chosen documents (Carbonell and Goldstein 1998).

    Similarity is the cosine of TFIDF vectors of title and text, or that of
    :meth:`CandidateSet.from_similarity <structsvm.CandidateSet.from_similarity>`; relevance is the first document
    feature, scaled to [0, 1] within the set, or without features the mean similarity to the candidates.

    Parameters
    ----------
    k : int, default=5
    trade_off : float, default=0.5
        Weight of relevance, 0 to 1. Cosines of short texts are mostly below 0.2, but document features go up to 1: with
        features, choose a weight far below 0.5 for diversity.
    vectorizer : object, optional

    Examples
    --------
    >>> MMR(2).predict([CandidateSet(["red rose", "red rose", "rose garden", "blue sea"])])
    [array([0, 3])]
    """

    label = "mmr"

    trade_off: float = 0.5
    vectorizer: Any = None

    def __post_init__(self) -> None:
        check_number("trade_off", self.trade_off, 0, 1)

    def _choose(self, candidates: CandidateSet, k: int) -> Int:
        similarity = similarities(candidates, self.vectorizer)
        relevance = _relevance(candidates, similarity)

        def gain(chosen: list[int]) -> Float:
            nearest = similarity[chosen].max(axis=0, initial=0.0)
            return np.asarray(self.trade_off * relevance - (1 - self.trade_off) * nearest)

        return _greedy(gain, len(similarity), k)


class FacilityLocation(_WordMethod):
    """Greedy choice for ``sum over candidates of the largest cosine``: every candidate is near a chosen one.

    A set made by :meth:`CandidateSet.from_similarity <structsvm.CandidateSet.from_similarity>` has its own similarity.

    Examples
    --------
    >>> FacilityLocation(2).predict([CandidateSet(["red rose", "red rose", "rose garden", "blue sea"])])
    [array([0, 3])]
    """

    label = "facility"

    def _choose(self, candidates: CandidateSet, k: int) -> Int:
        similarity = similarities(candidates, self.vectorizer)

        def gain(chosen: list[int]) -> Float:
            nearest = similarity[chosen].max(axis=0, initial=0.0)
            return np.asarray(np.maximum(similarity - nearest, 0.0).sum(axis=1))

        return _greedy(gain, len(similarity), k)


@dataclass(eq=False)
class XQuAD:
    """xQuAD (Santos, Macdonald and Ounis 2010), for subtopics that are known when choosing.

    A document gains ``(1 - trade_off) * relevance + trade_off * sum_s P(s) P(d|s) prod over the chosen of
    (1 - P(d'|s))``, with equal ``P(s)``; ``P(d|s)`` is the label divided by the largest label, and relevance is that of
    MMR divided by its largest value.

    Examples
    --------
    >>> candidates = CandidateSet(["red rose", "red rose", "blue sea"])
    >>> XQuAD(2, trade_off=0.8).predict([candidates], labels=[[[1, 0], [1, 0], [0, 1]]])
    [array([0, 2])]
    """

    label = "xquad"

    k: int = 5
    trade_off: float = 0.5
    vectorizer: Any = None

    def __post_init__(self) -> None:
        check_number("trade_off", self.trade_off, 0, 1)

    def predict(self, sets: Sequence[CandidateSet], k: int | None = None, *, labels: Any) -> list[Int]:
        """Return the documents chosen from each set; ``labels`` as in :meth:`SVMDiv.fit`, grades allowed."""
        k = check_whole("k", self.k if k is None else k)
        checked, matrices = check_sets(sets), list(labels)
        covers = check_labels(matrices, [len(s) for s in checked])
        chosen = []
        for s, cover, matrix in zip(checked, covers, matrices, strict=True):
            grades = np.asarray(matrix.toarray() if bool(sparse.issparse(matrix)) else matrix)
            chosen.append(self._choose(s, np.where(cover, grades.astype(np.float64), 0.0), k))
        return chosen

    def _choose(self, candidates: CandidateSet, grades: Float, k: int) -> Int:
        likely = grades / max(grades.max(initial=0.0), 1e-300)
        relevance = _relevance(candidates, similarities(candidates, self.vectorizer))
        relevance = relevance / max(relevance.max(), 1e-300)
        share = 1.0 / max(1, grades.shape[1])

        def gain(chosen: list[int]) -> Float:
            uncovered = np.prod(1.0 - likely[chosen], axis=0, initial=share)
            return np.asarray((1 - self.trade_off) * relevance + self.trade_off * products(likely, uncovered))

        return _greedy(gain, len(candidates), k)


@dataclass(eq=False)
class Clairvoyant:
    """Greedy coverage of the labelled subtopics, a practical upper limit for methods without labels.

    Parameters
    ----------
    k : int, default=5
    loss : {"weighted", "unweighted", "alpha_ndcg"}, default="weighted"

    Examples
    --------
    >>> Clairvoyant(2).predict([CandidateSet(["a", "b", "c"])], labels=[[[1, 0], [1, 0], [0, 1]]])
    [array([0, 2])]
    """

    label = "clairvoyant"

    k: int = 5
    loss: str = "weighted"

    def predict(self, sets: Sequence[CandidateSet], k: int | None = None, *, labels: Any) -> list[Int]:
        """Return the documents chosen from each set; ``labels`` as in :meth:`SVMDiv.fit`."""
        k = check_whole("k", self.k if k is None else k)
        covers = check_labels(labels, [len(s) for s in check_sets(sets)])
        return [bind_loss(self.loss, cover, k).target() for cover in covers]


def _greedy(gain: Callable[[list[int]], Float], n: int, k: int) -> Int:
    """Choose the document of most gain beside those chosen before, ``k`` times."""
    chosen: list[int] = []
    for _ in range(min(k, n)):
        gains = gain(chosen)
        gains[chosen] = -np.inf
        chosen.append(int(np.argmax(gains)))
    return np.array(chosen, dtype=np.int64)


def _relevance(candidates: CandidateSet, similarity: Float) -> Float:
    """Return the first document feature, scaled to [0, 1]; without features the mean similarity, unscaled."""
    if candidates.features is not None and candidates.features.shape[1] > 0:
        return unit_range(candidates.features[:, :1])[:, 0]
    return np.asarray(similarity.mean(axis=1))


def _query_words(candidates: CandidateSet, vocabulary: NDArray[Any] | None, vectorizer: Any) -> list[int]:
    if candidates.query is None:
        raise ValueError(
            f"{candidates!r}: expected a query to score documents for: CandidateSet(..., query=)"
        )
    if candidates.kind == "counts" and candidates.vocabulary is None:
        raise ValueError(
            f"{candidates!r}: expected a vocabulary with the matrix, to find the query's words in"
        )
    if vocabulary is None:
        raise BadInput("vectorizer", "expected one that names its words (get_feature_names_out)")
    analyze = (make_vectorizer() if vectorizer is None else vectorizer).build_analyzer()
    number = {str(word): j for j, word in enumerate(vocabulary)}
    return [number[word] for word in analyze(candidates.query) if word in number]
