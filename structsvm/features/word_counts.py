"""Word counts of a candidate set, and the similarities of its documents."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structsvm.common.candidates import CandidateSet
from structsvm.common.checks import BadInput
from structsvm.common.portable.elementary import log
from structsvm.protocols import Float

_NEIGHBOURS, _ROUNDS = 10, 2
"""Number of nearest neighbours that are averaged in smoothing, and number of rounds."""


@dataclass(frozen=True)
class Words:
    """Words of a candidate set: counts in texts and titles over one vocabulary, CSR (n_documents, n_words).

    ``vocabulary`` has strings, or column numbers for a matrix of counts without names; None if it is unknown.
    """

    text: Any
    title: Any
    vocabulary: NDArray[Any] | None

    @cached_property
    def vectors(self) -> Any:
        """Return the TFIDF vectors of titles and texts together; see :func:`tfidf`."""
        return tfidf(self.text if self.title is None else sparse.csr_matrix(self.text + self.title))

    @cached_property
    def cosines(self) -> Float:
        """Return the cosines of the documents' TFIDF vectors, shape (n_documents, n_documents)."""
        return np.asarray((self.vectors @ self.vectors.T).toarray())


def make_vectorizer(stop_words: Any = "english", stem: Any = None) -> Any:
    """Return a ``CountVectorizer``; ``stem`` maps a word to its stem and is applied after stop words are removed.

    Words are runs of two or more letters or digits of any script, in lower case. In scripts without spaces, such runs
    are whole phrases.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    plain = CountVectorizer(stop_words=stop_words)
    if stem is None:
        return plain
    return CountVectorizer(analyzer=_Stemmed(plain.build_analyzer(), stem))


class _Stemmed:
    def __init__(self, analyze: Any, stem: Any) -> None:
        self.analyze, self.stem = analyze, stem

    def __call__(self, text: str) -> list[str]:
        return [self.stem(word) for word in self.analyze(text)]


def count_words(candidates: CandidateSet, vectorizer: Any = None) -> Words:
    """Return the words of a candidate set; for texts, a clone of the vectorizer is fitted on this set only."""
    n = len(candidates)
    if candidates.documents is not None:  # the texts that accompany given similarities
        candidates = candidates.documents
    if candidates.kind == "similarity":
        raise TypeError(f"{candidates!r}: expected texts, words or counts, because the method uses words")
    if candidates.kind == "counts":
        names = None if candidates.vocabulary is None else np.array(candidates.vocabulary, dtype=object)
        return _local(candidates.texts, candidates.titles, names)
    documents = list(candidates.texts) + ([] if candidates.titles is None else list(candidates.titles))
    if candidates.kind == "tokens":
        from sklearn.feature_extraction.text import CountVectorizer

        own_vectorizer: Any = CountVectorizer(analyzer=_identity)
    else:
        from sklearn.base import clone

        own_vectorizer = make_vectorizer() if vectorizer is None else clone(vectorizer)
    # scikit-learn raises ValueError if no text has a word, which candidate sets allow
    try:
        counts = sparse.csr_matrix(own_vectorizer.fit_transform(documents), dtype=np.float64)
    except ValueError:
        if _has_words(own_vectorizer, documents):
            raise
        counts = sparse.csr_matrix((len(documents), 0), dtype=np.float64)
        names = np.zeros(0, dtype=object)
    else:
        names = None
        if hasattr(own_vectorizer, "get_feature_names_out"):
            names = np.asarray(own_vectorizer.get_feature_names_out(), dtype=object)
    if counts.nnz and counts.data.min() < 0:
        raise BadInput(
            "vectorizer", "expected counts >= 0, got negative ones (HashingVectorizer: alternate_sign=False)"
        )
    counts.sort_indices()
    return Words(counts[:n], None if candidates.titles is None else counts[n:], names)


def similarities(candidates: CandidateSet, vectorizer: Any = None) -> Float:
    """Return the given similarities of a candidate set, or the :attr:`Words.cosines` of its words."""
    # words are not read if similarities are given
    given = candidates.similarity
    return count_words(candidates, vectorizer).cosines if given is None else given


def smooth_similarity(candidates: CandidateSet, vectorizer: Any = None) -> CandidateSet:
    """Return a candidate set whose similarities are smoothed over nearest neighbours; labels are not used.

    Two snippets on the same subtopic often share few words, but each shares some with a third snippet, as in
    pseudo-relevance feedback. In each of two rounds, the mean of the vectors of its ten nearest neighbours, weighted by
    similarity, is added to the vector of each document, and the cosines are computed again; the second round uses them
    to find neighbours. The time is cubic: about half a second for 800 documents. More documents for the same query
    help: smooth all retrieved documents, then select from a part of them.

    Parameters
    ----------
    candidates : CandidateSet
        Texts, words or counts, whose similarity is the cosine of TFIDF vectors, or a set from
        :meth:`CandidateSet.from_similarity <structsvm.CandidateSet.from_similarity>`.
    vectorizer : object, optional
        See :func:`structsvm.features.word_counts.count_words`.

    Returns
    -------
    CandidateSet
        Of kind "similarity", with the ids, features and query of ``candidates``.

    Examples
    --------
    The first and the third document have no common word, but a common neighbour:

    >>> candidates = CandidateSet(["aida opera", "opera verdi", "verdi traviata", "cruise ship"])
    >>> smooth_similarity(candidates).similarity[0].round(2).tolist()
    [1.0, 0.91, 0.92, 0.0]
    """
    return CandidateSet.from_similarity(
        smoothed(similarities(candidates, vectorizer)),
        candidates.ids,
        features=candidates.features,
        query=candidates.query,
    )


def smoothed(given: Float) -> Float:
    """Return given similarities, smoothed as in :func:`smooth_similarity`."""
    from structsvm.common.portable.sums import matmul  # loads numba

    now, n = given.copy(), len(given)
    # The vectors after a round are combinations M v of the original ones, so that their Gram matrix is M G M'; the
    # vectors themselves are not needed.
    mixed = np.eye(n)
    for _ in range(_ROUNDS):
        # weights of neighbours: similarities >= that of the n-th nearest, without the document itself
        near = np.maximum(now, 0.0)
        np.fill_diagonal(near, 0.0)
        least = np.sort(near, axis=1)[:, -min(_NEIGHBOURS, n)]
        near = np.where(near >= least[:, None], near, 0.0)
        total = near.sum(axis=1, keepdims=True)
        mixed = np.eye(n) + matmul(near / np.where(total > 0, total, 1.0), mixed)
        now = _cosines(matmul(matmul(mixed, given), mixed.T))
    np.fill_diagonal(now, 1.0)  # also for empty texts, whose vectors are 0
    return now


def _cosines(gram: Float) -> Float:
    """Return the cosines of vectors from their Gram matrix."""
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))
    lengths = np.where(lengths > 0, lengths, 1.0)
    return np.clip(gram / lengths / lengths[:, None], -1.0, 1.0)


def tfidf(counts: Any) -> Any:
    """Return rows ``(1 + log count) * log(n / document frequency)`` of unit length; rows without words are zero."""
    # entry by entry on the arrays of the CSR matrix, so that sums have a fixed order
    n = counts.shape[0]
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    data = (1.0 + log(np.maximum(counts.data, 1.0))) * log(n / frequency[counts.indices])
    row = np.repeat(np.arange(n), np.diff(counts.indptr))
    norms = np.sqrt(np.bincount(row, weights=data * data, minlength=n))
    data /= np.where(norms > 0, norms, 1.0)[row]
    return sparse.csr_matrix((data, counts.indices, counts.indptr), shape=counts.shape)


def _local(counts: Any, titles: Any, names: NDArray[Any] | None) -> Words:
    """Return the word counts of a set without the columns of words that do not occur in it.

    The vocabulary may be much larger than that of the set.
    """
    # texts and titles share the new column numbers
    n, both = counts.shape[0], counts if titles is None else sparse.vstack([counts, titles], format="csr")
    used = np.flatnonzero(np.bincount(both.indices, minlength=both.shape[1]))
    number = np.zeros(both.shape[1], dtype=np.int32)
    number[used] = np.arange(used.shape[0])
    local = (both.data, number[both.indices], both.indptr)
    both = sparse.csr_matrix(local, shape=(both.shape[0], used.shape[0]))
    return Words(both[:n], None if titles is None else both[n:], used if names is None else names[used])


def _identity(tokens: Any) -> Any:
    return tokens


def _has_words(vectorizer: Any, documents: list[Any]) -> bool:
    """Return whether any document has a word; without ``build_analyzer``, whether any is not blank."""
    make = getattr(vectorizer, "build_analyzer", None)
    split = str.split if make is None else make()
    return any(len(split(document)) > 0 for document in documents)
