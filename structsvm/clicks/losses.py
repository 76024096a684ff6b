"""Losses of weighted clicks, by name: pairs, and the log of the rank for DCG and MRR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.common.portable.elementary import log2
from structsvm.oracles.weighted_log_rank import WeightedLogRank
from structsvm.oracles.weighted_pairs import WeightedPairs
from structsvm.protocols import Float, Int, Oracle, Separator

__all__ = ["MeanOfPairs", "click_values", "loss_by_name"]

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
    >>> loss_by_name("dcg@5")  # the cut-off is that of the measure by which C is chosen
    WeightedLogRank()
    """
    kind, _ = _parsed(name)
    if kind == "pairs":
        return WeightedPairs()
    return MeanOfPairs() if kind == "mean_pairs" else WeightedLogRank()


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
    value = 1 / log2(1 + rank) if kind == "dcg" else 1 / rank
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
