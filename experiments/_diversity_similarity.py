"""Similarity of short texts, for the experiments on diverse result sets: from all texts, without labels.

Two snippets on the same subtopic share few words. Their common neighbours among all results of the query show that they
are related (:func:`structsvm.features.smooth_similarity`), and clusters add further relations.
"""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from structsvm.common.candidates import CandidateSet
from structsvm.features import smooth_similarity


def counts_by_set(texts: Sequence[Sequence[str]], vectorizer: Any) -> list[Any]:
    """Return the word counts of each set's texts over one vocabulary; HTML entities are decoded first."""
    flat = [html.unescape(html.unescape(text)) for one in texts for text in one]
    counts = sparse.csr_matrix(vectorizer.fit_transform(flat), dtype=np.float64)
    ends = np.cumsum([len(one) for one in texts])
    return [counts[end - len(one) : end] for one, end in zip(texts, ends, strict=True)]


def weighted(counts: Sequence[Any]) -> list[Any]:
    """Return unit vectors ``(1 + log count) * sqrt(idf in the set * idf in all sets)``: a word in every result of a
    query distinguishes its results as little as a word on every web page."""
    n_all = sum(one.shape[0] for one in counts)
    idf_all = np.log(n_all / np.maximum(1, sum(_frequency(one) for one in counts)))
    out = []
    for one in counts:
        idf = np.log(one.shape[0] / np.maximum(1, _frequency(one)))
        out.append(_scaled(one, np.sqrt(idf * idf_all)))
    return out


def latent(counts: Sequence[Any], n_dimensions: int = 100) -> list[np.ndarray]:
    """Return unit vectors from a latent semantic analysis of the texts of all sets together.

    Words in more than half of a set's texts are ignored in that set; otherwise they would use up dimensions for the
    queries.
    """
    n_all = sum(one.shape[0] for one in counts)
    idf = np.log(n_all / np.maximum(1, sum(_frequency(one) for one in counts)))
    rows = []
    for one in counts:
        kept = np.where(_frequency(one) > one.shape[0] / 2, 0.0, idf)
        rows.append(_scaled(one, kept))
    found = TruncatedSVD(n_dimensions, random_state=0).fit_transform(sparse.vstack(rows).tocsr())
    return np.split(normalize(found), np.cumsum([one.shape[0] for one in counts])[:-1])


def beside(first: Any, second: np.ndarray, share: float = 0.1) -> Any:
    """Return vectors whose cosine is the weighted mean of both cosines; ``share`` is the weight of the second."""
    return sparse.hstack([np.sqrt(1 - share) * first, np.sqrt(share) * sparse.csr_matrix(second)]).tocsr()


def expanded(vectors: Any) -> np.ndarray:
    """Return smoothed cosines of unit vectors; a text without words is similar only to itself."""
    near = np.asarray((vectors @ vectors.T).toarray())
    np.fill_diagonal(near, 1.0)
    similarity = smooth_similarity(CandidateSet.from_similarity(near)).similarity
    assert similarity is not None
    return similarity


def smoothed(texts: Sequence[Sequence[str]], vectorizers: Sequence[Any]) -> list[np.ndarray]:
    """Return the expanded cosines of each set's texts, averaged over the vectorizers."""
    total: list[np.ndarray] = []
    for vectorizer in vectorizers:
        counts = counts_by_set(texts, vectorizer)
        vectors = [beside(*both) for both in zip(weighted(counts), latent(counts), strict=True)]
        found = [expanded(one) for one in vectors]
        total = [a + b for a, b in zip(total, found, strict=True)] if total else found
    return [one / len(vectorizers) for one in total]


def with_tree(similarity: np.ndarray) -> np.ndarray:
    """Return the mean of a similarity and the similarity at which average-link clustering joins the documents."""
    if len(similarity) < 2:
        return similarity
    distance = np.maximum(1.0 - (similarity + similarity.T) / 2, 0.0)
    np.fill_diagonal(distance, 0.0)
    joined = squareform(cophenet(linkage(squareform(distance, checks=False), "average")))
    return (similarity + 1.0 - joined) / 2


def pair_auc(similarity: np.ndarray, labels: np.ndarray) -> float:
    """Return the AUC of the similarity for pairs that share a subtopic against others; NaN if a kind is missing."""
    cover = np.asarray(labels) > 0
    above = np.triu_indices(len(cover), 1)
    same = (cover.astype(int) @ cover.T.astype(int) > 0)[above]
    return float(roc_auc_score(same, similarity[above])) if 0 < same.mean() < 1 else np.nan


def _frequency(counts: Any) -> np.ndarray:
    return np.bincount(counts.indices, minlength=counts.shape[1])


def _scaled(counts: Any, weights: np.ndarray) -> Any:
    """Return unit rows ``(1 + log count) * weight``."""
    data = (1.0 + np.log(counts.data)) * weights[counts.indices]
    return normalize(sparse.csr_matrix((data, counts.indices, counts.indptr), shape=counts.shape))
