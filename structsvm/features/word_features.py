"""Coverage of a candidate set from its word counts: importance levels, bins of document frequency, features."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse

from structsvm.common.candidates import CandidateSet, Coverage
from structsvm.common.checks import BadInput, check_choice
from structsvm.common.kernel import kernel
from structsvm.common.portable.elementary import log
from structsvm.features.word_counts import Words, count_words, similarities
from structsvm.protocols import Float

THRESHOLDS = (0.0, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.45)
"""Document frequencies, as shares of the candidates, at which a new bin begins."""

DOCUMENT_FEATURES = ("rank", "centroid")
"""Document features that :class:`WordFeatures` computes: position in the original order (1 for the first, 0 for the
last), and cosine of the TFIDF vector with the mean of the set."""

_LARGEST_LEVEL = 2**31 - 1
"""Largest parameter of a level that is an integer, because counts are 32-bit integers."""

COSINES = (0.04, 0.07, 0.1, 0.15, 0.2)
SIMILARITIES = tuple(tenth / 10 for tenth in range(1, 10))
"""Minimum similarities of neighbours: ``COSINES`` of texts, and ``SIMILARITIES`` if similarities are given."""

Kind = Literal["appears", "count", "share", "title", "top_tfidf", "neighbours"]
_SHOWN_AS = {
    "appears": "appears",
    "count": "count >= {:g}",
    "share": "share >= {:g}",
    "title": "title",
    "top_tfidf": "top {:g} TFIDF",
    "neighbours": "cosine >= {:g}",
}


@dataclass(frozen=True)
class Level:
    """An importance level: the condition under which a document covers a word (thesis, figure 4.2).

    Create levels with the class methods.

    Examples
    --------
    >>> [str(level) for level in (Level.appears(), Level.count(3), Level.share(0.05), Level.top_tfidf(5))]
    ['appears', 'count >= 3', 'share >= 0.05', 'top 5 TFIDF']
    """

    kind: Kind
    value: float = 1.0

    @classmethod
    def appears(cls) -> Self:
        """Return the level "the word is in the text of the document"."""
        return cls("appears")

    @classmethod
    def count(cls, least: int) -> Self:
        """Return the level "the word is in the text at least ``least`` times"."""
        return cls("count", least)

    @classmethod
    def share(cls, least: float) -> Self:
        """Return the level "the word makes up at least a share ``least`` of the text", ``0 < least <= 1``."""
        return cls("share", least)

    @classmethod
    def title(cls) -> Self:
        """Return the level "the word is in the title"."""
        return cls("title")

    @classmethod
    def top_tfidf(cls, n: int) -> Self:
        """Return the level "the word is among the ``n`` words of the document with the highest TFIDF".

        TFIDF is ``count * log(n_documents / document frequency)`` in the candidate set. Ties are broken by the order of
        the vocabulary. Words that occur in all documents have the value 0 and never count.
        """
        return cls("top_tfidf", n)

    @classmethod
    def neighbours(cls, least: float) -> Self:
        """Return a level of soft coverage, whose elements are the candidates, each covered by similar documents.

        Documents are similar if the cosine of their TFIDF vectors (of title and text together), or their given
        similarity, is at least ``least``, ``0 < least <= 1``. A document without words covers nothing.
        """
        return cls("neighbours", least)

    def __post_init__(self) -> None:
        if self.kind not in _SHOWN_AS:
            raise BadInput("Level", f"unknown kind {self.kind!r}", "use Level.appears(), Level.count(3), ...")
        number = isinstance(self.value, numbers.Real)
        whole = self.kind in ("count", "top_tfidf")
        if whole and not (number and 1 <= self.value <= _LARGEST_LEVEL and self.value == int(self.value)):
            raise BadInput(f"Level.{self.kind}", f"expected an integer >= 1, got {self.value!r:.60}")
        if self.kind in ("share", "neighbours") and not (number and 0 < self.value <= 1):
            raise BadInput(f"Level.{self.kind}", f"expected a share in (0, 1], got {self.value!r}")

    def __str__(self) -> str:
        return _SHOWN_AS[self.kind].format(self.value)


_NEIGHBOURS = (*map(Level.neighbours, COSINES), Level.appears())
_WORDS_AND_TITLES = (
    Level.appears(),
    Level.count(2),
    Level.count(3),
    Level.count(5),
    Level.share(0.05),
    Level.title(),
)
NAMED_LEVELS = {
    "neighbours": _NEIGHBOURS,
    "svm-div": _WORDS_AND_TITLES,
    "svm-div2": (*_WORDS_AND_TITLES, *map(Level.top_tfidf, (3, 5, 10))),
}
"""Levels by name. The thesis does not list its levels: these follow the kinds in its section 4.4.1, with the examples
of figure 4.2 and a few others."""


def named_levels(levels: Sequence[Level] | str | None, sets: Sequence[CandidateSet]) -> Sequence[Level]:
    """Return given levels, or the levels with a given name; models of version 0.1 have None for "neighbours"."""
    if levels is None or levels == "neighbours":
        given = all(one.kind == "similarity" for one in sets)
        return [Level.neighbours(least) for least in SIMILARITIES] if given else _NEIGHBOURS
    if isinstance(levels, str):
        check_choice("levels", levels, tuple(NAMED_LEVELS))
        return NAMED_LEVELS[levels]
    return levels


def usual_thresholds(levels: Sequence[Level]) -> Sequence[float]:
    """Return the default thresholds; levels of kind "neighbours" use only the threshold 0."""
    return (0.0,) if any(level.kind == "neighbours" for level in levels) else THRESHOLDS


class WordFeatures:
    """Map candidate sets to :class:`~structsvm.common.candidates.Coverage`, and weights to benefits of words.

    The joint feature of a subset has, for each level and threshold ``t``, the number of words that are covered at the
    level and whose document frequency is at least a share ``t`` of the candidates (thesis, equation 4.3), followed by
    the sums of the document features. The benefit of a word is the sum of the weights of the thresholds that it
    reaches.

    Parameters
    ----------
    levels : sequence of Level
        Importance levels, each at most once.
    thresholds : sequence of float
        Ascending, in [0, 1]. Words whose document frequency is below the first threshold are ignored.
    vectorizer : object, optional
        See :func:`~structsvm.features.word_counts.count_words`.
    document_features : sequence of str
        Names from :data:`DOCUMENT_FEATURES` to add to the features of the candidate sets.

    Examples
    --------
    >>> features = WordFeatures([Level.appears()], [0.0, 0.6])
    >>> features.coverage(CandidateSet(["red rose", "red sea"])).counts.tolist()
    [[1, 1], [1, 1]]
    >>> features.bins()
    array([[1., 0.],
           [1., 1.]])
    """

    def __init__(
        self,
        levels: Sequence[Level],
        thresholds: Sequence[float] = THRESHOLDS,
        vectorizer: Any = None,
        document_features: Sequence[str] = (),
    ) -> None:
        self.levels = tuple(levels)
        if not self.levels or not all(isinstance(level, Level) for level in self.levels):
            raise BadInput(
                "levels", f"expected a list of Level, for example [Level.appears()], got {levels!r}"
            )
        if len(set(self.levels)) != len(self.levels):
            raise BadInput("levels", f"expected each level once, got {', '.join(map(str, self.levels))}")
        self.thresholds = np.array(thresholds, dtype=np.float64)
        t = self.thresholds
        if t.ndim != 1 or t.size == 0 or not (np.diff(t) > 0).all() or not (t[0] >= 0 and t[-1] <= 1):
            raise BadInput("thresholds", f"expected ascending shares in [0, 1], got {thresholds!r}")
        if isinstance(document_features, str) or not set(document_features) <= set(DOCUMENT_FEATURES):
            raise BadInput(
                "document_features",
                f"expected a list of {', '.join(map(repr, DOCUMENT_FEATURES))}, got {document_features!r}",
            )
        self.document_features = tuple(document_features)
        self.vectorizer = vectorizer

    @property
    def n_bins(self) -> int:
        return len(self.levels) * len(self.thresholds)

    def bins(self, scale: Float | None = None) -> Float:
        """Return the matrix ``B``, shape (n_bins, n_bins), for which ``B @ weights`` are the benefits of the bins.

        ``scale`` has a factor for each level; None means 1.
        """
        t = len(self.thresholds)
        factors = np.ones(len(self.levels)) if scale is None else np.asarray(scale)
        return np.asarray(np.kron(np.diag(factors), np.tril(np.ones((t, t)))), dtype=np.float64)

    def coverage(self, candidates: CandidateSet) -> Coverage:
        """Return the elements and document features of a candidate set."""
        words = None if candidates.kind == "similarity" else count_words(candidates, self.vectorizer)
        incidences = self.incidences(candidates, words)
        # join the patterns of all levels: ``start[level, d]`` is the index in ``elements`` where document d begins
        start = np.concatenate([p for p, _, _ in incidences]).reshape(len(incidences), -1).astype(np.int64)
        sizes = np.array([i.shape[0] for _, i, _ in incidences], dtype=np.int64)
        start += (np.cumsum(sizes) - sizes)[:, None]
        elements = np.concatenate([i for _, i, _ in incidences]).astype(np.int32)
        n_elements = np.array([e for _, _, e in incidences], dtype=np.int64)
        arrays: tuple[Any, Any, Any, Any, Any, Any] = _build(start, elements, n_elements, self.thresholds)
        return Coverage(*arrays, self._document_features(candidates, words))

    def incidences(self, candidates: CandidateSet, words: Words | None) -> list[tuple[Any, Any, int]]:
        """Return for each level the CSR pattern ``(indptr, indices, n_elements)`` of documents and covered words.

        ``words`` is None for a set of similarities.
        """
        return [_incidence(level, candidates, words) for level in self.levels]

    def _document_features(self, candidates: CandidateSet, words: Words | None) -> Float:
        n = len(candidates)
        columns = [] if candidates.features is None else [unit_range(candidates.features)]
        for name in self.document_features:
            if name == "rank":
                columns.append(1.0 - np.arange(n)[:, None] / max(1, n - 1))
            elif words is None:
                columns.append(unit_range(similarities(candidates).sum(axis=1)[:, None]))
            else:
                center = words.vectors.sum(axis=0)
                columns.append(unit_range(np.asarray(words.vectors @ center.T).reshape(n, 1)))
        return np.ascontiguousarray(np.hstack(columns)) if columns else np.zeros((n, 0))


def _incidence(level: Level, candidates: CandidateSet, words: Words | None) -> tuple[Any, Any, int]:
    """Return the CSR pattern ``(indptr, indices, n_elements)`` of the elements that documents have at a level."""
    if level.kind == "neighbours":
        near = (similarities(candidates) if words is None else words.cosines) >= level.value - 1e-12
        # a document is its own neighbour, unless it has no words
        np.fill_diagonal(near, True if words is None else np.diff(words.vectors.indptr) > 0)
        pattern = sparse.csr_matrix(near)
        return pattern.indptr, pattern.indices, near.shape[0]
    if words is None:
        raise BadInput(repr(candidates), f"expected levels of similarity, Level.neighbours(0.5), got {level}")
    counts = words.text
    if level.kind == "title":
        if words.title is None:
            raise BadInput(
                "Level.title()", f"expected a candidate set with titles, got {candidates!r} without titles"
            )
        return words.title.indptr, words.title.indices, words.title.shape[1]
    if level.kind == "appears" or level == Level.count(1):
        return counts.indptr, counts.indices, counts.shape[1]
    if level.kind == "count":
        kept = counts.data >= level.value
    elif level.kind == "share":
        least = level.value * np.asarray(counts.sum(axis=1)).ravel() * (1 - 1e-12)
        kept = counts.data >= np.repeat(least, np.diff(counts.indptr))
    else:
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        rarity = log(counts.shape[0] / np.maximum(1, frequency))
        n_top = min(int(level.value), max(1, counts.shape[1]))
        kept = _top(counts.indptr, counts.indices, counts.data, rarity, n_top)
    return *_compact(counts.indptr, counts.indices, kept), counts.shape[1]


def unit_range(values: Float) -> Float:
    """Return each column scaled to [0, 1] within the set; NaN (not retrieved) and constant columns become 0."""
    missing = np.isnan(values)
    values = 0.5 * values  # exact, and the difference of any two halves is finite
    low = np.where(missing, np.inf, values).min(axis=0)
    high = np.where(missing, -np.inf, values).max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.where(missing | ~(high > low), 0.0, (values - np.where(np.isfinite(low), low, 0.0)) / width)


@kernel
def _compact(indptr, indices, kept):  # type: ignore[no-untyped-def]
    """Return the pattern of the entries whose flag in ``kept`` is set."""
    # most of the time for a set is spent in this function: a loop is several times faster than NumPy's masks and sums
    start = np.empty(indptr.shape[0], dtype=np.int64)
    kept_indices = np.empty(indices.shape[0], dtype=np.int32)
    n = 0
    for d in range(indptr.shape[0] - 1):
        start[d] = n
        # without a branch: an entry that is not kept is overwritten by the next one
        for i in range(indptr[d], indptr[d + 1]):
            kept_indices[n] = indices[i]
            n += kept[i]
    start[indptr.shape[0] - 1] = n
    return start, kept_indices[:n].copy()


@kernel
def _top(indptr, indices, data, rarity, k):  # type: ignore[no-untyped-def]
    """Return flags of the ``k`` largest positive ``data * rarity`` in each row; ties go to the smaller index."""
    kept = np.zeros(indices.shape[0], dtype=np.bool_)
    best = np.empty(k, dtype=np.int64)
    value = np.empty(k)
    for d in range(indptr.shape[0] - 1):
        # best[:n] and value[:n] are the largest so far, in descending order; each entry is inserted at its rank
        n = 0
        for i in range(indptr[d], indptr[d + 1]):
            weight = data[i] * rarity[indices[i]]
            if weight <= 0.0 or (n == k and weight < value[k - 1]):
                continue
            rank = n
            while rank > 0:
                if weight < value[rank - 1] or (
                    weight == value[rank - 1] and indices[i] > indices[best[rank - 1]]
                ):
                    break
                rank -= 1
            if rank == k:  # equal to the last entry, with a larger index
                continue
            for j in range(min(n, k - 1), rank, -1):
                best[j] = best[j - 1]
                value[j] = value[j - 1]
            best[rank] = i
            value[rank] = weight
            n = min(n + 1, k)
        for j in range(n):
            kept[best[j]] = True
    return kept


@kernel
def _build(start, elements, n_elements, thresholds):  # type: ignore[no-untyped-def]
    """Return the arrays of :class:`Coverage` for all levels, without the document features.

    ``elements[start[level, d]:start[level, d + 1]]`` are the elements of document ``d``, from 0 to
    ``n_elements[level] - 1``.
    """
    n_levels, n = start.shape[0], start.shape[1] - 1
    n_thresholds = thresholds.shape[0]
    counts = np.zeros((n, n_levels * n_thresholds), dtype=np.int32)
    widest = 0
    for level in range(n_levels):
        widest = max(widest, n_elements[level])
    # per element of the current level: its documents, and where to write the next of them (-1: not shared)
    frequency = np.empty(widest, dtype=np.int64)
    slot = np.empty(widest, dtype=np.int64)
    bin_of = np.empty(n + 1, dtype=np.int64)  # bin of a document frequency; -1 below the first threshold
    for c in range(n + 1):
        bin_of[c] = -1
        for t in range(n_thresholds):
            if c / n >= thresholds[t]:
                bin_of[c] = t
    # a shared element has two documents or more: there are at most half as many shared elements as entries
    element_start = np.zeros(elements.shape[0] // 2 + 2, dtype=np.int64)
    element_bin = np.empty(elements.shape[0] // 2 + 1, dtype=np.int32)
    element_documents = np.empty(elements.shape[0], dtype=np.int32)
    doc_start = np.zeros(n + 1, dtype=np.int64)
    n_shared, n_entries = 0, 0
    for level in range(n_levels):
        # 1. count the documents of each element
        frequency[: n_elements[level]] = 0
        for i in range(start[level, 0], start[level, n]):
            frequency[elements[i]] += 1
        # 2. number the shared elements, and reserve room for their documents
        for v in range(n_elements[level]):
            slot[v] = -1
            if frequency[v] >= 2 and bin_of[frequency[v]] >= 0:
                slot[v] = n_entries
                element_start[n_shared] = n_entries
                element_bin[n_shared] = level * n_thresholds + bin_of[frequency[v]]
                n_shared += 1
                n_entries += frequency[v]
        # 3. count by bin, and write the documents of shared elements, in ascending order
        for d in range(n):
            for i in range(start[level, d], start[level, d + 1]):
                v = elements[i]
                b = bin_of[frequency[v]]
                if b >= 0:
                    counts[d, level * n_thresholds + b] += 1
                    if slot[v] >= 0:
                        element_documents[slot[v]] = d
                        slot[v] += 1
                        doc_start[d + 1] += 1
    element_start[n_shared] = n_entries
    # transpose: from the documents of each element to the elements of each document
    for d in range(n):
        doc_start[d + 1] += doc_start[d]
    next_entry = doc_start[:-1].copy()
    doc_elements = np.empty(n_entries, dtype=np.int32)
    for e in range(n_shared):
        for i in range(element_start[e], element_start[e + 1]):
            d = element_documents[i]
            doc_elements[next_entry[d]] = e
            next_entry[d] += 1
    return (
        counts,
        doc_start,
        doc_elements,
        element_start[: n_shared + 1].copy(),
        element_documents[:n_entries].copy(),
        element_bin[:n_shared].copy(),
    )
