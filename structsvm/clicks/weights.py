"""Weights of documents from clicks and propensities, with the effective number of clicks."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from structsvm.checks import check_choice, check_number
from structsvm.clicks.cells import ClickCells, check_clicked
from structsvm.clicks.propensities import Propensities
from structsvm.common.portable.arrays import dot
from structsvm.protocols import Float

Weighting = Literal["ips", "policy"]


class WeightedRows(NamedTuple):
    """Weight of each row of a log."""

    values: Float
    largest: float
    effective: float


def click_weights(
    cells: ClickCells, propensities: Propensities, *, weighting: Weighting = "ips", clip: float = 0.0
) -> WeightedRows:
    """Weigh the clicks on each document of a log by inverse propensities.

    Parameters
    ----------
    cells : ClickCells
    propensities : Propensities
        For every position of the log.
    weighting : {"ips", "policy"}, default="ips"
        ``"ips"``: a click at ``k`` weighs ``1 / theta[k]``; unbiased where all lists hold all documents.
        ``"policy"``: all clicks on a document weigh one over its mean propensity over the lists of its query, 0 in a
        list without it; unbiased for documents in some of the lists too (several rankers, of which the top is shown).
    clip : float, default=0.0
        Propensities below are raised to it. Off by default: clipping gives up low positions, where the clicks are
        that tell the new.

    Returns
    -------
    WeightedRows
        ``values``, ndarray of shape (n_rows,): estimated number of clicks of a user who looks at every position;
        ``largest`` weight of a single click; ``effective``: number of clicks of equal weight that would tell as much,
        ``(sum w)^2 / sum w^2``.

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
        looks = cells.per_row(cells.shows * theta)
        each = (lists / looks)[cells.row]
    weighed = cells.clicks * each
    clicked = cells.clicks > 0
    return WeightedRows(
        cells.per_row(weighed),
        float(each[clicked].max()),
        float(weighed.sum() ** 2 / dot(weighed, each)),
    )
