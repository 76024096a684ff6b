"""Labels for diverse selection, derived from marks of useful or clicked documents."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from structsvm.common.candidates import CandidateSet, check_sets
from structsvm.common.checks import BadInput, check_flag
from structsvm.features.word_counts import similarities
from structsvm.protocols import Float


def soft_subtopics(
    sets: Sequence[CandidateSet], marks: Any, *, complete: bool = True, vectorizer: object = None
) -> list[Float]:
    """Return labels for :class:`structsvm.DiverseRanker` from marks of useful documents, without subtopics.

    Each marked document is a subtopic, which other documents cover to the degree of their similarity to it. Its weight
    is one over the sum of the similarities of the marked documents to it, so that a group of similar documents counts
    once.

    Parameters
    ----------
    sets : sequence of CandidateSet
        The candidate sets of the queries.
    marks : sequence of array-like of bool or 0 and 1, shape (n_documents,) each
        1 for the useful documents of each set.
    complete : bool, default=True
        Whether documents without a mark were examined and rejected, as judges do. If so, every document covers the
        marked documents that are similar to it. Use False for clicks: then only marked documents cover others. Train
        with ``rounds=0`` in this case, because additional rounds train on prefixes that the model chooses, about which
        the clicks contain no information.
    vectorizer : object, optional
        See :func:`structsvm.features.word_counts.count_words`.

    Returns
    -------
    list of ndarray, shape (n_documents, n_marked) each
        Degrees of coverage from 0 to 1; no columns for a set without marks.

    Examples
    --------
    >>> candidates = CandidateSet.from_similarity([[1, 0.8, 0], [0.8, 1, 0], [0, 0, 1]])
    >>> soft_subtopics([candidates], [[0, 1, 1]])[0].tolist()
    [[0.8, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    check_flag("complete", complete)
    checked, given = check_sets(sets), list(marks)
    if len(given) != len(checked):
        raise BadInput("marks", f"expected one list for each of the {len(checked)} sets, got {len(given)}")
    labels = []
    for i, (candidates, one) in enumerate(zip(checked, given, strict=True)):
        values = np.asarray(one)
        n, is_numeric = len(candidates), values.dtype.kind in "buif"
        if values.shape != (n,) or not is_numeric or not np.isin(values, (0, 1)).all():
            raise BadInput(
                "marks", f"expected 0 or 1 for each of {n} documents, got {one!r:.60}", at=f"[{i}]"
            )
        # one column per marked document; each of n identical marked documents has the weight 1 / n
        marked = np.flatnonzero(values)
        degrees = np.clip(similarities(candidates, vectorizer)[:, marked], 0.0, 1.0)
        # a marked document covers itself, even without words, when its similarities are 0
        degrees[marked, np.arange(len(marked))] = 1.0
        weights = 1.0 / degrees[marked].sum(axis=0)
        if not complete:
            degrees[values == 0] = 0.0
        labels.append(degrees * (weights / weights.max(initial=1e-300)))
    return labels
