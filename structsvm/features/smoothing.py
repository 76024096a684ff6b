"""``smooth_similarity``: similarities of short texts, with what their neighbours have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.candidates import CandidateSet
from structsvm.checks import check_whole
from structsvm.common.portable.arrays import matmul
from structsvm.features.word_counts import similarities
from structsvm.protocols import Float


def smooth_similarity(
    candidates: CandidateSet, n_neighbours: int = 10, rounds: int = 2, vectorizer: Any = None
) -> CandidateSet:
    """Return the documents of a set with the similarity that their neighbours give them.

    Two snippets on one subtopic often share few words, but each shares some with a third, as in pseudo-relevance
    feedback. To the vector of each document the mean of its nearest neighbours' is added, weighted by their
    similarity, and the cosines are computed again; the next round finds neighbours by those. No labels are used. More
    documents on the same query help: smooth all results, then choose among a part of them.

    Parameters
    ----------
    candidates : CandidateSet
        Texts, words or counts, whose similarity is the cosine of TFIDF vectors, or a set made by
        :meth:`CandidateSet.from_similarity <structsvm.CandidateSet.from_similarity>`.
    n_neighbours : int, default=10
    rounds : int, default=2
    vectorizer : object, optional
        See :func:`structsvm.features.word_counts.count_words`.

    Returns
    -------
    CandidateSet
        Of kind "similarity", with the ids, features and query of ``candidates``.

    Examples
    --------
    The first and the third have no word in common, but a neighbour:

    >>> candidates = CandidateSet(["aida opera", "opera verdi", "verdi traviata", "cruise ship"])
    >>> smooth_similarity(candidates).similarity[0].round(2).tolist()
    [1.0, 0.91, 0.92, 0.0]
    """
    check_whole("n_neighbours", n_neighbours, 1)
    check_whole("rounds", rounds, 0)
    given = similarities(candidates, vectorizer)
    now, n = given.copy(), len(given)
    # a vector of the last round is a combination of the given ones: their similarities are all it takes
    mixed = np.eye(n)
    for _ in range(rounds):
        near = np.maximum(now, 0.0)
        np.fill_diagonal(near, 0.0)
        least = np.sort(near, axis=1)[:, -min(n_neighbours, n)]
        near = np.where(near >= least[:, None], near, 0.0)
        total = near.sum(axis=1, keepdims=True)
        mixed = np.eye(n) + matmul(near / np.where(total > 0, total, 1.0), mixed)
        now = _cosines(matmul(matmul(mixed, given), mixed.T))
    np.fill_diagonal(now, 1.0)  # of empty texts, too
    return CandidateSet.from_similarity(
        now, candidates.ids, features=candidates.features, query=candidates.query
    )


def _cosines(gram: Float) -> Float:
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))
    lengths = np.where(lengths > 0, lengths, 1.0)
    return np.clip(gram / lengths / lengths[:, None], -1.0, 1.0)
