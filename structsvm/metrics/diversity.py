"""Measures of how many subtopics the chosen documents cover."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.candidates import check_chosen, check_labels
from structsvm.common.checks import BadInput, check_number, check_whole
from structsvm.common.subtopic_gain import SubtopicGain
from structsvm.protocols import Float, Int


def weighted_subtopic_loss(labels: ArrayLike, chosen: object) -> Float:
    """Return the weighted share of the subtopics that the chosen documents do not cover; lower is better.

    The weight of a subtopic is the number of candidates that cover it (thesis 4.4, figure 4.4: subtopics with 1, 2 and
    3 documents have weights 1/6, 1/3 and 1/2; the figure prints 2 documents for the last subtopic, but its weight
    implies 3).

    Parameters
    ----------
    labels : sequence of array-like, shape (n_documents, n_subtopics) each
        One matrix per candidate set; a document covers a subtopic if its label is above zero.
    chosen : sequence of array-like of int
        Row indices of the documents chosen from each set.

    Returns
    -------
    ndarray of float64, shape (n_sets,)
        One value per set; NaN for a set whose documents cover no subtopic, which ``np.nanmean`` ignores.

    Examples
    --------
    >>> figure = [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    >>> weighted_subtopic_loss([figure, figure], [[2], [1]]).round(3)
    array([0.5  , 0.167])
    """
    return 1.0 - _values(labels, chosen, "weighted")


def subtopic_recall(labels: ArrayLike, chosen: object, k: int | None = None) -> Float:
    """Return the share of the subtopics that the first ``k`` documents cover (Zhai, Cohen and Lafferty 2003).

    Higher is better.

    Parameters
    ----------
    labels, chosen
        As in :func:`weighted_subtopic_loss`; ``chosen`` is in rank order.
    k : int, optional
        Cutoff; by default all chosen documents count.

    Returns
    -------
    ndarray of float64, shape (n_sets,)
        One value per set; NaN for a set whose documents cover no subtopic.

    Examples
    --------
    >>> subtopic_recall([[[1, 0], [1, 0], [0, 1]]], [[0, 1, 2]], k=2)
    array([0.5])
    """
    return _values(labels, chosen, "unweighted", k)


def alpha_ndcg(labels: ArrayLike, chosen: object, k: int | None = None, *, alpha: float = 0.5) -> Float:
    """Return alpha-NDCG (Clarke et al. 2008): each repetition of a subtopic multiplies its gain by ``1 - alpha``.

    The discount is ``log2(rank + 1)``. The ideal ranking is the greedy ranking of all rows, with ties broken by row
    index. The result agrees with ndeval if the rows are in descending order of docid.

    Parameters
    ----------
    labels, chosen
        As in :func:`weighted_subtopic_loss`; ``chosen`` is in rank order. To reproduce TREC's
        results, the rows of ``labels`` must be all judged documents, not only the candidates.
    k : int, optional
        Cutoff; by default the number of chosen documents.
    alpha : float, default=0.5
        Reduction of the gain of repeated subtopics, between 0 and 1; TREC's Web track uses 0.5.

    Returns
    -------
    ndarray of float64, shape (n_sets,)
        One value per set; NaN for a set whose documents cover no subtopic.

    Examples
    --------
    >>> alpha_ndcg([[[1, 0], [1, 0], [0, 1]]], [[0, 1, 2]]).round(4)
    array([0.9652])
    """
    check_number("alpha", alpha, 0, 1)
    return _values(labels, chosen, "alpha_ndcg", k, alpha)


def check_choices(labels: ArrayLike, chosen: Any) -> list[tuple[NDArray[np.bool_], Int]]:
    """Return boolean labels and the chosen documents of each set; raise ValueError if they do not match."""
    matrices, rows = check_labels(labels), list(chosen)
    if len(rows) != len(matrices):
        raise BadInput("chosen", f"expected one list for each of the {len(matrices)} sets, got {len(rows)}")
    return [
        (m, check_chosen(r, m.shape[0], f"chosen[{i}]"))
        for i, (m, r) in enumerate(zip(matrices, rows, strict=True))
    ]


def _values(labels: ArrayLike, chosen: object, loss: str, k: int | None = None, alpha: float = 0.5) -> Float:
    """Return the value of the first ``k`` chosen documents of each set; NaN for a set without subtopics."""
    if k is not None:
        check_whole("k", k, remedy="None means the whole list")
    values = []
    for matrix, rows in check_choices(labels, chosen):
        gain = SubtopicGain(matrix.astype(np.float64), loss, alpha=alpha)
        values.append(np.nan if gain.empty else gain.value(rows[:k], k))
    return np.array(values)
