"""Inverse propensity weights of clicks, and the losses of weighted clicks by name: pairs, and the logarithm of the
rank."""

import re
from typing import Literal, NamedTuple

import numpy as np

from structsvm.clicks.cells import ClickCells, check_clicked
from structsvm.clicks.propensities import Propensities
from structsvm.common.checks import BadInput, check_choice, check_number
from structsvm.common.portable.arrays import dot
from structsvm.common.portable.elementary import log2
from structsvm.oracles.weighted import WeightedLogRank, WeightedPairs
from structsvm.protocols import Float, Int, Oracle

Weighting = Literal["ips", "policy"]


class WeightedRows(NamedTuple):
    """Weight of each row of a log."""

    values: Float
    largest: float
    effective: float


def click_weights(
    cells: ClickCells, propensities: Propensities, *, weighting: Weighting = "ips", clip: float = 0.0
) -> WeightedRows:
    """Weight the clicks on each document of a log by inverse propensities.

    Parameters
    ----------
    cells : ClickCells
        The click log.
    propensities : Propensities
        Propensities of all positions of the log.
    weighting : {"ips", "policy"}, default="ips"
        ``"ips"``: a click at ``k`` has weight ``1 / theta[k]``; unbiased if all lists contain all documents.
        ``"policy"``: each click on a document is weighted by the inverse of the document's mean propensity over the
        lists of its query (0 in a list without the document); also unbiased if only some lists contain the document
        (several rankers that show only their top documents).
    clip : float, default=0.0
        Smaller propensities are raised to this value. By default they are not clipped, because clipping discards low
        positions, whose clicks are the most informative.

    Returns
    -------
    WeightedRows
        ``values``, ndarray of shape (n_rows,): estimated number of clicks of a user who looks at every position;
        ``largest``: largest weight of a single click; ``effective``: number of clicks of equal weight that carry the
        same information, ``(sum w)^2 / sum w^2``.

    Notes
    -----
    Joachims, Swaminathan & Schnabel (WSDM 2017); policy-aware: Oosterhuis & de Rijke (SIGIR 2020).

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1, 1], [5, 6], [1, 2], [1, 1])
    >>> weights = click_weights(cells, Propensities.given([1.0, 0.5]))
    >>> weights.values, weights.largest, round(weights.effective, 2)
    (array([1., 2.]), 2.0, 1.8)
    """
    check_choice("weighting", weighting, ("ips", "policy"))
    check_number("clip", clip, 0.0, 1.0)
    check_clicked(cells.clicks)
    theta = np.maximum(propensities.at(cells.position), clip)
    if weighting == "ips":
        each = 1.0 / theta
    else:
        lists = cells.lists_per_query()[cells.row_query]
        each = (lists / cells.per_row(cells.shows * theta))[cells.row]
    weighed = cells.clicks * each
    largest = float(each[cells.clicks > 0].max())
    return WeightedRows(cells.per_row(weighed), largest, float(weighed.sum() ** 2 / dot(weighed, each)))


_NAME = re.compile(r"(pairs|mean_pairs|dcg|mrr)(?:@([1-9]\d*))?")


def loss_by_name(name: object) -> Oracle:
    """Return the oracle of a loss of clicks, given its name."""
    kind, _ = _parsed(name)
    return WeightedPairs(kind == "mean_pairs") if kind.endswith("pairs") else WeightedLogRank()


def click_values(name: object, rank: Int, length: Int) -> tuple[Float, Float]:
    """Return the value of a click by the measure behind a loss, and its largest possible value."""
    kind, k = _parsed(name)
    others = (length - 1).astype(np.float64)
    if kind == "pairs":
        return (length - rank).astype(np.float64), others
    if kind == "mean_pairs":
        return (length - rank) / np.maximum(others, 1), (others > 0).astype(np.float64)
    value = 1 / log2(1 + rank) if kind == "dcg" else 1 / rank
    return np.where(rank <= (np.inf if k is None else k), value, 0.0), np.ones(rank.shape[0])


def _parsed(name: object) -> tuple[str, int | None]:
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or (match[2] is not None and match[1].endswith("pairs")):
        raise BadInput(
            "loss",
            "expected 'pairs', 'mean_pairs', 'dcg' or 'mrr', or 'dcg@10', 'mrr@10' (any cut-off)",
            value=name,
        )
    return match[1], None if match[2] is None else int(match[2])
