"""Features of a step of greedy selection: properties of a candidate, and its gains over the documents chosen so far.

Let ``S`` be a similarity of the candidates (negative values are set to 0), ``b_j`` the largest similarity of ``j``
to a chosen document, and ``f`` the document features in [0, 1]. A candidate ``d`` has the features

* relevance: ``f_d``; ``f`` smoothed over similar documents, ``sum_j S_dj^p f_j / sum_j S_dj^p``; the mean of ``S_d``;
* likeness: minus the largest, mean and smallest similarity to the chosen documents; each ``f`` above times ``1 - b_d``;
* coverage: ``mean_j (S_dj - b_j)+`` and ``mean_j S_dj prod_a (1 - S_aj)``, both also weighted by ``f_j``; the share of
  candidates ``j`` for which ``d`` is the first near document, at several levels of similarity;
* words: the number of new words, and the number of new words shared with other candidates, weighted by their frequency.

All but the likeness features are gains of monotone submodular functions: with weights >= 0, greedy selection keeps its
approximation guarantee.
"""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.candidates import CandidateSet
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import matmul, products
from structsvm.features.word_counts import count_words, smoothed
from structsvm.features.word_features import COSINES, SIMILARITIES, unit_range
from structsvm.protocols import Float, Int

POWERS = (2, 4, 8)
"""Powers of the similarity that serve as weights in smoothing, from the widest to the narrowest bandwidth."""


class StepFeature(NamedTuple):
    """Name of a feature, and its group: "relevance", "likeness", "coverage" or "words"."""

    group: str
    name: str


class _Similarity(NamedTuple):
    """A similarity matrix of a candidate set: values, levels reached (of ``n_cuts``), smoothed features, row means."""

    values: NDArray[np.float32]
    levels: NDArray[np.int8]
    n_cuts: int
    smooth: Float
    mean: Float


class StepFeatures:
    """Arrays of one candidate set from which the features of all steps are computed.

    Texts have two similarities, the cosines of their words and, with ``smooth``, the result of
    :func:`~structsvm.features.smooth_similarity`. A set from :meth:`CandidateSet.from_similarity` has the given
    similarity, and the cosines of its texts, if any.
    """

    def __init__(self, candidates: CandidateSet, vectorizer: object = None, *, smooth: bool = True) -> None:
        self.n = len(candidates)
        self.document = np.zeros((self.n, 0))
        if candidates.features is not None:
            self.document = unit_range(candidates.features)
        given, texts = candidates.similarity, candidates
        if given is not None and candidates.documents is not None:
            texts = candidates.documents
        self.words: Any = None
        self.similarities: list[_Similarity] = []
        if texts.kind != "similarity":
            words = count_words(texts, vectorizer)
            self.words = words.text
            self.rows: Int = np.repeat(np.arange(self.n), np.diff(words.text.indptr))
            frequency = np.bincount(words.text.indices, minlength=words.text.shape[1])
            self.shared = np.where(frequency >= 2, frequency, 0)
            self.similarities.append(self._similarity(words.cosines, COSINES))
            if given is None and smooth:
                given = smoothed(words.cosines)
        if given is not None:
            self.similarities.append(self._similarity(given, SIMILARITIES))

    def _similarity(self, given: Float, cuts: tuple[float, ...]) -> _Similarity:
        # the level of a pair is the number of thresholds that its similarity reaches, up to rounding
        values = np.maximum(given, 0.0)
        levels = np.searchsorted(cuts, values + 1e-12, side="right").astype(np.int8)
        smooth = np.hstack([smoothed_scores(values, self.document, power) for power in POWERS])
        mean = products(values, np.ones(self.n)) / self.n
        return _Similarity(values.astype(np.float32), levels, len(cuts), smooth, mean)

    @property
    def names(self) -> tuple[StepFeature, ...]:
        """Return the group and name of each column of :meth:`Walk.features`."""
        scores = [f"score {j + 1}" for j in range(self.document.shape[1])]
        entries = [("relevance", name) for name in scores]
        kinds = {1: [""], 2: [" by words", " by neighbours"]}[len(self.similarities)]
        for kind, similarity in zip(kinds, self.similarities, strict=True):
            # the columns have the order of Walk.features
            smooth = [f"{name} smoothed, p={p}" for p in POWERS for name in scores]
            gains = ["facility location", "probability of cover"]
            entries += [("relevance", f"{name}{kind}") for name in (*smooth, "mean similarity")]
            entries += [("likeness", f"{name} x novelty{kind}") for name in (*scores, *smooth)]
            entries += [("likeness", f"- {which} similarity{kind}") for which in ("largest", "mean", "least")]
            entries += [("coverage", f"{gain}{kind}") for gain in gains]
            entries += [("coverage", f"{gain} x {name}{kind}") for gain in gains for name in scores]
            entries += [("coverage", f"near, level {c + 1}{kind}") for c in range(similarity.n_cuts)]
        if self.words is not None:
            entries += [("words", "new words"), ("words", "new words of others")]
        return tuple(StepFeature(*entry) for entry in entries)


def smoothed_scores(similarity: Float, scores: Float, power: int) -> Float:
    """Return means of ``scores`` over documents, weighted by ``similarity**power``."""
    weights = reduce(np.multiply, [similarity] * power)
    total = products(weights, np.ones(len(weights)))
    return np.asarray(matmul(weights, scores) / np.maximum(total, 1e-300)[:, None])


class Walk:
    """A sequence of documents chosen from a set, and the features of the remaining ones at each step."""

    def __init__(self, one: StepFeatures) -> None:
        n = one.n
        self.one, self.chosen = one, np.zeros(0, dtype=np.int64)
        self.free = np.arange(n)
        self._covers = [_Cover(similarity, n) for similarity in one.similarities]
        self._new = None if one.words is None else np.ones(one.words.shape[1])

    def add(self, d: int) -> None:
        """Choose document ``d``, which must not have been chosen before."""
        self.chosen = np.append(self.chosen, d)
        self.free = self.free[self.free != d]
        for cover in self._covers:
            cover.add(d)
        if self._new is not None:
            words = self.one.words
            self._new[words.indices[words.indptr[d] : words.indptr[d + 1]]] = 0.0

    def features(self) -> Float:
        """Return the features of the free documents, shape (n_free, n_features)."""
        one, rows = self.one, self.free
        columns = [one.document[rows]]
        for cover in self._covers:
            columns += cover.features(rows, one.document, len(self.chosen))
        if self._new is not None and one.words is not None:
            # integers, whose sums are exact in any order
            for weights in (self._new, self._new * one.shared / one.n):
                sums = np.bincount(one.rows, weights[one.words.indices], minlength=one.n).astype(np.float64)
                columns.append(sums[rows, None])
        return np.hstack(columns)


class _Cover:
    """Similarity of each candidate to the chosen documents, for one similarity matrix, updated at each step."""

    # best, total and least: largest, summed and smallest similarity to a chosen document; left: probability that no
    # chosen document covers the candidate; level: highest level of similarity that a chosen document reaches

    def __init__(self, similarity: _Similarity, n: int) -> None:
        self.of = similarity
        self.best, self.total, self.least = np.zeros(n), np.zeros(n), np.full(n, np.inf)
        self.left, self.level = np.ones(n), np.zeros(n, dtype=np.int8)

    def add(self, d: int) -> None:
        # float32 halves the memory of n * n similarities; sums are float64
        values = self.of.values[d].astype(np.float64)
        self.best, self.least = np.maximum(self.best, values), np.minimum(self.least, values)
        self.total += values
        self.left *= 1.0 - np.minimum(values, 1.0)
        self.level = np.maximum(self.level, self.of.levels[d])

    def features(self, rows: Int, document: Float, n_chosen: int) -> list[Float]:
        of, novelty = self.of, 1.0 - self.best[rows, None]
        smooth = of.smooth[rows]
        # negated, so that a weight >= 0 penalises similar documents; 0 before the first choice
        likeness = np.zeros((len(rows), 3))
        if n_chosen:
            likeness = -np.stack([self.best[rows], self.total[rows] / n_chosen, self.least[rows]], axis=1)
        gains = _gains(of.values, of.levels, self.best, self.left, self.level, document, rows, of.n_cuts)
        return [smooth, of.mean[rows, None], document[rows] * novelty, smooth * novelty, likeness, gains]


@kernel
def _gains(values, levels, best, left, level, document, rows, n_cuts):  # type: ignore[no-untyped-def]
    """Return the gains of the documents ``rows``, as means over all candidates."""
    # The columns are the facility location, the probability of cover, both of these weighted by each document feature,
    # and, for each level of similarity, the share of candidates for which the document is the first near document.
    n, m = document.shape
    out = np.zeros((rows.shape[0], 2 + 2 * m + n_cuts))
    for i in range(rows.shape[0]):
        d = rows[i]
        for j in range(n):
            similarity = np.float64(values[d, j])
            chance = similarity * left[j]
            nearer = max(similarity - best[j], 0.0)
            out[i, 0] += nearer
            out[i, 1] += chance
            for f in range(m):
                out[i, 2 + f] += nearer * document[j, f]
                out[i, 2 + m + f] += chance * document[j, f]
            # levels above those that chosen documents reach, up to the level of d
            for c in range(level[j], levels[d, j]):
                out[i, 2 + 2 * m + c] += 1.0
        for c in range(out.shape[1]):
            out[i, c] /= n
    return out
