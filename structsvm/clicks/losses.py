"""Losses of weighted clicks, by name: pairs, and the log of the rank for DCG and MRR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.common.portable.elementary import log2
from structsvm.oracles.weighted import WeightedLogRank, WeightedPairs
from structsvm.protocols import Float, Int, Oracle, Separator

_NAME = re.compile(r"(pairs|mean_pairs|dcg|mrr)(?:@([1-9]\d*))?")


def loss_by_name(name: Any) -> Oracle:
    """Return the oracle of a loss of clicks."""
    kind, _ = _parsed(name)
    if kind == "pairs":
        return WeightedPairs()
    return MeanOfPairs() if kind == "mean_pairs" else WeightedLogRank()


def click_values(name: Any, rank: Int, length: Int) -> tuple[Float, Float]:
    """Return the value of a click by the measure behind a loss, and the largest value it could have."""
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
    """The loss of :class:`~structsvm.oracles.weighted.WeightedPairs` per other document of the query."""

    # The sum of the hinges of a click grows with the length of its list, so long lists decide; here a click
    # counts the same in every list, as in a ranking SVM with `normalize="query"`. The weights of clicks are
    # not touched, so that the loss stays unbiased.

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
