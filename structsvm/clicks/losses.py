"""Losses of weighted clicks: pairs, DCG, and measures of one relevant document, a copy of the query per clicked one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.oracles.ndcg import NDCG
from structsvm.oracles.reciprocal_rank import ReciprocalRank
from structsvm.oracles.weighted_pairs import WeightedPairs
from structsvm.protocols import Float, Int, Oracle, Separator

__all__ = ["DCGOfWeights", "MeanOfPairs", "OnCopies", "click_values", "loss_by_name"]

_NAME = re.compile(r"(pairs|mean_pairs|dcg|mrr)(?:@([1-9]\d*))?")


def loss_by_name(name: Any) -> Oracle:
    """Return the oracle of a loss of clicks.

    Parameters
    ----------
    name : {"pairs", "mean_pairs", "dcg", "dcg@k", "mrr", "mrr@k"}

    Returns
    -------
    Oracle

    Raises
    ------
    BadInput
        For another name.

    Examples
    --------
    >>> loss_by_name("dcg@5")
    DCGOfWeights(k=5)
    """
    kind, k = _parsed(name)
    if kind == "pairs":
        return WeightedPairs()
    if kind == "mean_pairs":
        return MeanOfPairs()
    return DCGOfWeights(k) if kind == "dcg" else OnCopies(ReciprocalRank(k=k))


def click_values(name: Any, rank: Int, length: Int) -> tuple[Float, Float]:
    """Return the value of a click by the measure behind a loss, and the largest value it could have.

    Parameters
    ----------
    name : str
        As in :func:`loss_by_name`.
    rank : ndarray of int, shape (n,)
        Rank of the clicked document, from 1.
    length : ndarray of int, shape (n,)
        Documents of its query.

    Returns
    -------
    value, largest : ndarray of float64, shape (n,)
        ``"pairs"``: documents below, of all others. ``"mean_pairs"``: their share. ``"dcg"``: ``1 / log2(1 + rank)``.
        ``"mrr"``: ``1 / rank``. The last two are 0 beyond the cut-off.

    Examples
    --------
    >>> click_values("pairs", np.array([1, 3]), np.array([5, 5]))
    (array([4., 2.]), array([4., 4.]))
    """
    kind, k = _parsed(name)
    others = (length - 1).astype(np.float64)
    if kind == "pairs":
        return (length - rank).astype(np.float64), others
    if kind == "mean_pairs":
        return (length - rank) / np.maximum(others, 1), (others > 0).astype(np.float64)
    value = 1 / np.log2(1 + rank) if kind == "dcg" else 1 / rank
    return np.where(rank <= (np.inf if k is None else k), value, 0.0), np.ones(rank.shape[0])


def _parsed(name: Any) -> tuple[str, int | None]:
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or (match[2] is not None and match[1].endswith("pairs")):
        raise BadInput(
            "loss", "expected 'pairs', 'mean_pairs', 'dcg' or 'mrr', or 'dcg@10', 'mrr@10' (any cut-off)", value=name
        )  # fmt: skip
    return match[1], None if match[2] is None else int(match[2])


@dataclass(frozen=True)
class MeanOfPairs:
    """The loss of :class:`~structsvm.oracles.weighted_pairs.WeightedPairs` per other document of the query.

    The sum of the hinges of a click grows with the length of its list, so long lists decide; here a click counts the
    same in every list, as in a ranking SVM with ``normalize="query"``. The weights of clicks are not touched, so that
    the loss stays unbiased.

    Examples
    --------
    >>> separator = MeanOfPairs().bind(np.array([3.0, 0.0, 1.0]), np.array([0, 3]))
    >>> loss, coef = np.empty(1), np.empty(3)
    >>> separator.separate(np.zeros(3), 0, 1, loss, coef)
    >>> loss, coef
    (array([1.]), array([ 0.625, -0.5  , -0.125]))
    """

    def bind(self, y: Float, offsets: Int) -> Separator:
        """Bind to weights ``y`` grouped by ``offsets``."""
        return _MeanOfPairsSeparator(y, offsets)


class _MeanOfPairsSeparator:
    exact = True

    def __init__(self, y: Float, offsets: Int) -> None:
        self._sum = WeightedPairs().bind(y, offsets)
        self._lengths = np.diff(offsets)
        self.query_weights, self.informative = self._sum.query_weights, self._sum.informative

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        self._sum.separate(scores, first, last, loss, coef)
        lengths = self._lengths[first:last]
        others = np.maximum(lengths - 1, 1)
        loss /= others
        coef /= np.repeat(others, lengths)


@dataclass(frozen=True)
class DCGOfWeights:
    """NDCG of linear gains, each query weighted by its ideal DCG: DCG of the weights, an unbiased estimate.

    Parameters
    ----------
    k : int or None
        Cut-off.
    """

    k: int | None

    def bind(self, y: Float, offsets: Int) -> Separator:
        """Bind to weights ``y`` grouped by ``offsets``."""
        separator: Any = NDCG(k=self.k, gain="linear").bind(y, offsets)
        ideal = np.zeros(offsets.shape[0] - 1)
        for q in range(ideal.shape[0]):
            gains = np.sort(y[offsets[q] : offsets[q + 1]])[::-1][: self.k]
            ideal[q] = gains @ (1 / np.log2(np.arange(gains.shape[0]) + 2))
        separator.query_weights = ideal
        return separator


@dataclass(frozen=True)
class OnCopies:
    """A loss of binary labels, on a copy of the query for each document with a weight, which alone is relevant there.

    With one relevant document ``1 - 1/rank`` is the loss of MRR and of MAP alike. The loss of a query is the mean over
    its copies, by weight: the objective is that of one copy per click. A query costs as much as its documents with a
    weight times the oracle; the number of clicks does not matter.

    Parameters
    ----------
    oracle : Oracle
        Of binary labels.

    Examples
    --------
    >>> separator = OnCopies(ReciprocalRank()).bind(np.array([3.0, 0.0, 1.0]), np.array([0, 3]))
    >>> loss, coef = np.empty(1), np.empty(3)
    >>> separator.separate(np.array([2.0, 0.0, 2.5]), 0, 1, loss, coef)
    >>> loss.round(3), coef.round(3)
    (array([0.5]), array([ 0.168,  0.065, -0.234]))
    """

    oracle: Oracle

    def bind(self, y: Float, offsets: Int) -> Separator:
        """Bind to weights ``y`` grouped by ``offsets``."""
        return _CopiesSeparator(self.oracle, y, offsets)


class _CopiesSeparator:
    def __init__(self, oracle: Oracle, y: Float, offsets: Int) -> None:
        lengths = np.diff(offsets)
        query = np.repeat(np.arange(lengths.shape[0]), lengths)
        clicked = np.flatnonzero(y > 0)
        copied = query[clicked]  # the query of each copy, ascending
        sizes = lengths[copied]
        ends = np.cumsum(sizes)
        self._offsets, self._starts = offsets, np.append(0, ends).astype(np.int64)
        # rows of the copies, one copy after the other
        self._rows = np.arange(self._starts[-1]) - np.repeat(ends - sizes - offsets[copied], sizes)
        labels = np.zeros(self._starts[-1])
        labels[ends - sizes + clicked - offsets[copied]] = 1.0
        self._separator = oracle.bind(labels, self._starts)
        self._copies = np.searchsorted(copied, np.arange(lengths.shape[0] + 1))
        totals = np.bincount(query, y, lengths.shape[0]).astype(np.float64)
        self.query_weights: Float | None = totals
        self._share = y[clicked] / totals[copied]
        self._query = copied
        self.informative = (totals > 0) & (lengths > 1)
        self.exact = self._separator.exact

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        i, j = self._copies[first], self._copies[last]
        rows = self._rows[self._starts[i] : self._starts[j]] - self._offsets[first]
        losses, coefs = np.empty(j - i), np.empty(rows.shape[0])
        self._separator.separate(scores[rows], i, j, losses, coefs)
        share = self._share[i:j]
        loss[:] = np.bincount(self._query[i:j] - first, share * losses, last - first)
        coef[:] = np.bincount(rows, np.repeat(share, np.diff(self._starts[i : j + 1])) * coefs, coef.shape[0])
