"""Selection methods without learned weights, as baselines for :class:`~structsvm.DiverseRanker` and ``SVMDiv``.

Like these models, all methods have ``predict(sets, k=None, costs=None, budget=None)``, which returns the chosen
documents of each set, in order. Methods that use subtopics receive them as ``predict(sets, ..., labels=...)``. In case
of ties the first document is chosen. :class:`MMR` chooses its trade-off in ``fit``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.candidates import (
    CandidateSet,
    Limits,
    check_degrees,
    check_grades,
    check_limits,
    check_sets,
)
from structsvm.common.checks import BadInput, check_flag, check_number, check_whole, counted
from structsvm.common.greedy import greedy_by_gains
from structsvm.common.portable.arrays import products
from structsvm.common.portable.elementary import log, log1p
from structsvm.common.subtopic_gain import SubtopicGain
from structsvm.features.greedy_steps import POWERS, smoothed_scores
from structsvm.features.word_counts import count_words, make_vectorizer, similarities, smoothed
from structsvm.features.word_features import unit_range
from structsvm.protocols import Float, Int

__all__ = [
    "MMR",
    "Clairvoyant",
    "EssentialPages",
    "FacilityLocation",
    "OkapiBM25",
    "OriginalOrder",
    "RandomChoice",
    "TopScores",
    "UnweightedCoverage",
    "XQuAD",
]

Sets = Sequence[CandidateSet]
Count = int | None
"""Number of documents; None means the parameter ``k`` of the method."""

_Gain = Callable[[list[int]], Float]
"""Function from the documents chosen so far to the gain of each document."""


@dataclass(eq=False)
class _Method:
    """Base class of the methods, which choose documents greedily by their gains.

    Under a budget, the next document is the one with the largest gain among those that fit, or, if ``per_cost`` is
    True, with the largest gain per cost, which must be positive.
    """

    # whether gains are amounts, which are divided by costs, instead of scores, of which only the order matters
    per_cost = False

    k: int = 5

    def predict(self, sets: Sets, k: Count = None, *, costs: Any = None, budget: Any = None) -> list[Int]:
        """Return the documents chosen from each set; ``costs`` and ``budget`` are as in ``DiverseRanker.predict``.

        Methods whose gain is an amount, such as covered words, divide it by the cost; methods that order documents by a
        score use costs only to determine which documents fit (but see ``per_cost`` of :class:`MMR`).
        """
        checked = check_sets(sets)
        return self._predict(checked, map(self._gain, checked), k, costs, budget)

    def _predict(
        self, sets: list[CandidateSet], gains: Any, k: object, costs: ArrayLike, budget: object
    ) -> list[Int]:
        limits = check_limits(sets, k, self.k, costs, budget)
        return [greedy_by_gains(*each, per_cost=self.per_cost) for each in zip(gains, limits, strict=True)]

    def _gain(self, candidates: CandidateSet) -> _Gain:
        raise NotImplementedError


@dataclass(eq=False)
class _WordMethod(_Method):
    """Base class of the methods that use only the words of documents."""

    per_cost = True

    vectorizer: Any = None


@dataclass(eq=False)
class RandomChoice(_Method):
    """Choose documents at random.

    Parameters
    ----------
    k : int, default=5
        Number of documents to choose from each set.
    random_state : int, default=0
        Seed; the choice from a set depends on the seed and on the position of the set in the list.

    Examples
    --------
    >>> RandomChoice(2).predict([CandidateSet(["a", "b", "c"])])[0].shape
    (2,)
    """

    label = "random"

    random_state: int = 0

    def predict(self, sets: Sets, k: Count = None, *, costs: Any = None, budget: Any = None) -> list[Int]:
        """Return the documents chosen from each set."""
        checked = check_sets(sets)
        seeds = np.random.SeedSequence(self.random_state).spawn(len(checked))
        draws = zip(map(np.random.default_rng, seeds), checked, strict=True)
        # use positions in a random order as scores, so that a budget has the same effect as for the other methods
        return self._predict(
            checked, (_fixed(-np.argsort(rng.permutation(len(one)))) for rng, one in draws), k, costs, budget
        )


class OriginalOrder(_Method):
    """Choose the first documents, in the order of the candidates.

    Examples
    --------
    >>> OriginalOrder(2).predict([CandidateSet(["a", "b", "c"])])
    [array([0, 1])]
    """

    label = "original"

    def _gain(self, candidates: CandidateSet) -> _Gain:
        return _fixed(-np.arange(len(candidates)))


@dataclass(eq=False)
class TopScores(_Method):
    """Choose the documents with the highest scores, such as those of a retriever.

    Parameters
    ----------
    k : int, default=5
        Number of documents to choose from each set.
    score : int, default=0
        Index of the document feature that contains the score.

    Examples
    --------
    >>> TopScores(2).predict([CandidateSet(["a", "b", "c"], features=[[0.1], [0.3], [0.2]])])
    [array([1, 2])]
    """

    label = "score"

    score: int = 0

    def _gain(self, candidates: CandidateSet) -> _Gain:
        if candidates.features is None:
            raise BadInput("sets", f"expected document features that include a score, got {candidates!r}")
        return _fixed(_relevance(candidates, np.zeros(0), self.score))


@dataclass(eq=False)
class OkapiBM25(_Method):
    """Choose the documents with the highest Okapi BM25 scores for the query of the set (Robertson et al. 1994).

    The inverse document frequency of a word is ``log(1 + (n - df + 1/2) / (df + 1/2))``, which is never negative, with
    the document frequency ``df`` in the candidate set. Sets without a query, or with counts but no vocabulary, raise an
    error.

    Parameters
    ----------
    k : int, default=5
        Number of documents to choose from each set.
    k1 : float, default=1.2
        Saturation of the term frequency; at 0 only the presence of a word matters.
    b : float, default=0.75
        Strength of the length normalisation, from 0 (none) to 1 (full).
    vectorizer : object, optional
        Vectorizer of texts, see :func:`structsvm.features.word_counts.count_words`.

    Examples
    --------
    >>> OkapiBM25(1).predict([CandidateSet(["blue sea", "red rose"], query="rose")])
    [array([1])]
    """

    label = "bm25"

    k1: float = 1.2
    b: float = 0.75
    vectorizer: Any = None

    def _gain(self, candidates: CandidateSet) -> _Gain:
        return _fixed(self.scores(candidates))

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
    """Greedily cover as many distinct words as possible, all with equal weight (thesis, table 4.1).

    Examples
    --------
    >>> UnweightedCoverage(2).predict([CandidateSet(["red rose", "red rose sea", "blue sky"])])
    [array([1, 2])]
    """

    label = "coverage"

    def _gain(self, candidates: CandidateSet) -> _Gain:
        counts = count_words(candidates, self.vectorizer).text
        rows = np.repeat(np.arange(len(candidates)), np.diff(counts.indptr))
        new = np.ones(counts.shape[1])

        def gain(chosen: list[int]) -> Float:
            # words of chosen documents are no longer new; sums of integers are exact in any order
            new[counts[chosen].indices] = 0.0
            return np.bincount(rows, new[counts.indices], minlength=len(candidates)).astype(np.float64)

        return gain


class EssentialPages(_WordMethod):
    """Greedily cover words with weights ``TF(v, d) * log(1 / DF(v, x))`` (Swaminathan et al. 2009).

    Both frequencies are relative. A word counts only once, with its frequency in the first chosen document that
    contains it.

    Examples
    --------
    >>> EssentialPages(2).predict([CandidateSet(["sea sea rose", "sea", "sea sky rose"])])
    [array([2, 0])]
    """

    label = "essential"

    def _gain(self, candidates: CandidateSet) -> _Gain:
        counts = count_words(candidates, self.vectorizer).text
        share = counts.multiply(1.0 / np.maximum(counts.sum(axis=1), 1e-300)).tocsr()
        frequency = np.maximum(1, np.bincount(counts.indices, minlength=counts.shape[1]))
        weight = log(len(candidates) / frequency)

        def gain(chosen: list[int]) -> Float:
            # a word counts only for the first chosen document that contains it
            weight[counts[chosen].indices] = 0.0
            return np.asarray(share @ weight).ravel()

        return gain


class _Prepared(NamedTuple):
    """A labelled set for which a method chooses its parameters."""

    candidates: CandidateSet
    limits: Limits
    gain: SubtopicGain


@dataclass(eq=False)
class MMR(_Method):
    """Maximal marginal relevance: relevance minus similarity to the chosen documents (Carbonell and Goldstein 1998).

    The similarity is the cosine of the TFIDF vectors of title and text, unless the set was created with
    :meth:`CandidateSet.from_similarity <structsvm.CandidateSet.from_similarity>`. The relevance is a document feature,
    scaled to [0, 1] within the set; for sets without features it is the mean similarity to the candidates.

    Parameters
    ----------
    k : int, default=5
        Number of documents to choose from each set.
    trade_off : float, default=0.5
        Weight of relevance, from 0 to 1; preferably chosen by :meth:`fit`. With embeddings and scores, 0.5 to 0.8 was
        best; with the cosines of short texts, which are usually below 0.2, a weight far below 0.5 was best.
    vectorizer : object, optional
        Vectorizer of texts, see :func:`structsvm.features.word_counts.count_words`.
    score : int, default=0
        Index of the document feature that contains the relevance.
    smooth : int, default=0
        If above 0, the relevance is the mean score of similar documents, weighted by this power of their similarity,
        which averages out the noise of individual scores.
    smooth_similarity : bool, default=False
        Whether to compare documents by :func:`~structsvm.features.smooth_similarity`, which helps if short texts on one
        subtopic share no words.
    per_cost : bool, default=False
        Whether, under a budget, documents are chosen by gain per cost, with the gain
        ``trade_off * relevance + (1 - trade_off) * (1 - similarity)``. If False, costs only determine which documents
        fit.

    Examples
    --------
    >>> MMR(2).predict([CandidateSet(["red rose", "red rose", "rose garden", "blue sea"])])
    [array([0, 3])]
    """

    label = "mmr"

    trade_off: float = 0.5
    vectorizer: Any = None
    score: int = 0
    smooth: int = 0
    smooth_similarity: bool = False
    per_cost: bool = False

    def __post_init__(self) -> None:
        check_number("trade_off", self.trade_off, 0, 1)
        check_whole("score", self.score, 0)
        check_whole("smooth", self.smooth, 0)
        check_flag("smooth_similarity", self.smooth_similarity)
        check_flag("per_cost", self.per_cost)

    def fit(
        self,
        sets: Sets,
        labels: ArrayLike,
        k: Count = None,
        *,
        loss: str = "unweighted",
        costs: object = None,
        budget: Any = None,
    ) -> Self:
        """Choose ``smooth_similarity``, ``trade_off``, ``score``, ``smooth`` and, if ``costs`` are given, ``per_cost``
        by the mean loss of the sets.

        The values tried are 0, 2, 4 and 8 for ``smooth``, all document features for ``score``, and 0 to 1 in steps of
        0.05 for ``trade_off``; in case of ties the first combination is chosen. Similarities that were given are not
        smoothed. As nothing else is learned, these parameters need no cross-validation.

        Parameters
        ----------
        sets, labels
            As for :meth:`DiverseRanker.fit <structsvm.DiverseRanker.fit>`.
        k, costs, budget
            As for :meth:`predict`; the parameters are tuned for these limits, which should be those of the prediction.
        loss : {"unweighted", "weighted", "alpha_ndcg"}, default="unweighted"
            Loss to minimise, as for :class:`~structsvm.DiverseRanker`.

        Returns
        -------
        self
            With the chosen parameters.

        Examples
        --------
        >>> sets = [CandidateSet(["red rose", "red rose", "rose garden", "blue sea"])]
        >>> MMR(2).fit(sets, [[[1, 0], [1, 0], [0, 1], [0, 0]]])
        MMR(k=2, trade_off=0.7, vectorizer=None, score=0, smooth=0, smooth_similarity=False, per_cost=False)
        """
        vars(self).update(self.learn(self.prepare(sets, labels, k, loss=loss, costs=costs, budget=budget)))
        return self

    def prepare(
        self, sets: Sets, labels: ArrayLike, k: Count, *, loss: str, costs: object, budget: object
    ) -> list[_Prepared]:
        """Return the sets with a covered subtopic, their limits and the gains of their labels."""
        checked = check_sets(sets)
        limits = check_limits(checked, k, self.k, costs, budget)
        gains = [SubtopicGain(m, loss) for m in check_degrees(labels, [len(one) for one in checked])]
        prepared = [one for one in map(_Prepared, checked, limits, gains) if not one.gain.empty]
        if not prepared:
            raise BadInput("labels", "expected a covered subtopic in some set, got none")
        return prepared

    def learn(self, prepared: list[_Prepared]) -> dict[str, Any]:
        """Return the parameters with the best mean value of the chosen documents."""
        features = (one.candidates.features for one in prepared)
        n_scores = min(0 if each is None else each.shape[1] for each in features)
        budgets = any(one.limits.budget < np.inf for one in prepared)
        given = any(one.candidates.similarity is not None for one in prepared)
        best = (-1.0, self)
        for smooth_similarity in (False, True)[: 1 + (not given)]:
            base = replace(self, smooth_similarity=smooth_similarity)
            near = [base._near(one.candidates) for one in prepared]
            for smooth, score in product((0, *POWERS) if n_scores else (0,), range(max(1, n_scores))):
                one = replace(base, score=score, smooth=smooth)
                # relevance does not depend on the trade-off, so that it is computed only once
                scored = [
                    (_relevance(each.candidates, matrix, score, smooth), matrix)
                    for each, matrix in zip(prepared, near, strict=True)
                ]
                for per_cost, twentieth in product((False, True)[: 1 + budgets], range(21)):
                    tried = replace(one, per_cost=per_cost, trade_off=twentieth / 20)
                    values = (
                        each.gain.value(
                            greedy_by_gains(tried._trade(*arrays), each.limits, per_cost=per_cost)
                        )
                        for each, arrays in zip(prepared, scored, strict=True)
                    )
                    mean = math.fsum(values) / len(prepared)
                    if mean > best[0] + 1e-12:
                        best = (mean, tried)
        return vars(best[1])

    def _gain(self, candidates: CandidateSet) -> _Gain:
        near = self._near(candidates)
        return self._trade(_relevance(candidates, near, self.score, self.smooth), near)

    def _near(self, candidates: CandidateSet) -> Float:
        near = similarities(candidates, self.vectorizer)
        return smoothed(near) if self.smooth_similarity else near

    def _trade(self, relevance: Float, near: Float) -> _Gain:
        shift = 1.0 - self.trade_off if self.per_cost else 0.0  # a gain per cost has to be positive

        def gain(chosen: list[int]) -> Float:
            nearest = near[chosen].max(axis=0) if chosen else 0.0
            return np.asarray(self.trade_off * relevance - (1 - self.trade_off) * nearest + shift)

        return gain


class FacilityLocation(_WordMethod):
    """Greedily maximise the sum over all candidates of their largest similarity to a chosen document.

    Similarities are cosines of word vectors, unless the set was created with :meth:`CandidateSet.from_similarity
    <structsvm.CandidateSet.from_similarity>`. Negative similarities count as 0, so that the sum is monotone and
    submodular. Relevance is not considered.

    Examples
    --------
    >>> FacilityLocation(2).predict([CandidateSet(["red rose", "red rose", "rose garden", "blue sea"])])
    [array([0, 3])]
    """

    label = "facility"

    def _gain(self, candidates: CandidateSet) -> _Gain:
        similarity = similarities(candidates, self.vectorizer)

        def gain(chosen: list[int]) -> Float:
            nearest = similarity[chosen].max(axis=0, initial=0.0)
            return np.asarray(np.maximum(similarity - nearest, 0.0).sum(axis=1))

        return gain


@dataclass(eq=False)
class _LabelledMethod(_Method):
    """Base class of the methods that receive the subtopics of the sets in ``predict``."""

    per_cost = True

    def predict(  # type: ignore[override]
        self, sets: Sets, k: Count = None, *, labels: ArrayLike, costs: Any = None, budget: Any = None
    ) -> list[Int]:
        """Return the documents chosen from each set; ``labels`` are as in ``DiverseRanker.fit``, but may also be
        grades."""
        checked = check_sets(sets)
        matrices = check_grades(labels, [len(one) for one in checked])
        degrees = (np.maximum(matrix, 0).astype(np.float64) for matrix in matrices)
        return self._predict(checked, map(self._labelled_gain, checked, degrees), k, costs, budget)

    def _labelled_gain(self, candidates: CandidateSet, grades: Float) -> _Gain:
        raise NotImplementedError


@dataclass(eq=False)
class XQuAD(_LabelledMethod):
    """xQuAD (Santos, Macdonald and Ounis 2010) with known subtopics.

    The gain of a document ``d`` is ``(1 - trade_off) * relevance + trade_off * sum_s P(s) P(d|s) prod_{d'} (1 -
    P(d'|s))``, where the product is over the chosen documents ``d'``. All ``P(s)`` are equal, ``P(d|s)`` is the label
    divided by the largest label of the set, and the relevance is that of :class:`MMR` divided by its largest value.

    Examples
    --------
    >>> candidates = CandidateSet(["red rose", "red rose", "blue sea"])
    >>> XQuAD(2, trade_off=0.8).predict([candidates], labels=[[[1, 0], [1, 0], [0, 1]]])
    [array([0, 2])]
    """

    label = "xquad"

    trade_off: float = 0.5
    vectorizer: Any = None

    def __post_init__(self) -> None:
        check_number("trade_off", self.trade_off, 0, 1)

    def _labelled_gain(self, candidates: CandidateSet, grades: Float) -> _Gain:
        likely = grades / max(grades.max(initial=0.0), 1e-300)
        relevance = _relevance(candidates, similarities(candidates, self.vectorizer))
        relevance = relevance / max(relevance.max(), 1e-300)
        share = 1.0 / max(1, grades.shape[1])

        def gain(chosen: list[int]) -> Float:
            # P(s) times the probability that no chosen document satisfies a user interested in the subtopic
            uncovered = np.prod(1.0 - likely[chosen], axis=0, initial=share)
            return np.asarray((1 - self.trade_off) * relevance + self.trade_off * products(likely, uncovered))

        return gain


@dataclass(eq=False)
class Clairvoyant(_LabelledMethod):
    """Greedily cover the labelled subtopics, as a practical upper limit for methods without labels.

    Parameters
    ----------
    k : int, default=5
        Number of documents to choose from each set.
    loss : {"weighted", "unweighted", "alpha_ndcg"}, default="weighted"
        Loss that the choice reduces, as for :class:`~structsvm.DiverseRanker`.

    Examples
    --------
    >>> Clairvoyant(2).predict([CandidateSet(["a", "b", "c"])], labels=[[[1, 0], [1, 0], [0, 1]]])
    [array([0, 2])]
    """

    label = "clairvoyant"

    loss: str = "weighted"

    def _labelled_gain(self, candidates: CandidateSet, grades: Float) -> _Gain:
        return SubtopicGain((grades > 0).astype(np.float64), self.loss).gains_after


def _fixed(scores: Any) -> _Gain:
    return lambda chosen: scores


def _relevance(candidates: CandidateSet, similarity: Float, score: int = 0, smooth: int = 0) -> Float:
    """Return a document feature scaled to [0, 1], smoothed if ``smooth`` > 0, or the mean similarity without
    features."""
    if candidates.features is None or candidates.features.shape[1] == 0:
        return np.asarray(similarity.mean(axis=1))
    if score >= (width := candidates.features.shape[1]):
        raise BadInput("score", f"expected an index into {counted(feature=width)}", value=score)
    column = unit_range(candidates.features[:, score : score + 1])
    if smooth:
        column = unit_range(smoothed_scores(np.maximum(similarity, 0.0), column, smooth))
    return column[:, 0]


def _query_words(candidates: CandidateSet, vocabulary: NDArray[Any] | None, vectorizer: Any) -> list[int]:
    if candidates.query is None:
        raise BadInput(
            repr(candidates), "expected a query, for which to score documents: CandidateSet(..., query=)"
        )
    if candidates.kind == "counts" and candidates.vocabulary is None:
        raise BadInput(
            repr(candidates), "expected a vocabulary for the matrix, to look up the words of the query"
        )
    if vocabulary is None:
        raise BadInput("vectorizer", "expected an object with the method get_feature_names_out")
    analyze = (make_vectorizer() if vectorizer is None else vectorizer).build_analyzer()
    number = {str(word): j for j, word in enumerate(vocabulary)}
    return [number[word] for word in analyze(candidates.query) if word in number]
