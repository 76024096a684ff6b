"""Counterfactual evaluation: the utility of a new ranker, estimated from the log of another."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from structsvm.checks import BadInput, check_fraction, check_number, check_whole
from structsvm.clicks.cells import ClickCells
from structsvm.clicks.position_based import sessions_of
from structsvm.clicks.propensities import Propensities, harvest, trust_bias
from structsvm.clicks.sessions import ClickSessions
from structsvm.clicks.weights import Weighting, click_weights
from structsvm.protocols import Float, Int

__all__ = ["CounterfactualEstimate", "Interval", "evaluate_from_clicks"]

_TRUST = 0.001


class Interval(NamedTuple):
    """An estimate and an interval around it."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class CounterfactualEstimate:
    """Utility of a new ranker as estimated from a log.

    Attributes
    ----------
    dcg : Interval
        DCG@k of attractions, the mean over lists (IPS, or the affine correction of trust bias).
    logged_dcg : Interval
        The same of the lists as they were shown.
    difference : Interval
        New minus shown, paired by list: far narrower than the two apart.
    discount : Interval
        Mean discount of an attractive document (self-normalised, SNIPS): ``dcg`` per attractive document.
    unseen : float
        Share of the discounts of the new lists that fall on documents the log never showed for the query, which it
        cannot know.
    bounds : tuple of (float, float)
        ``dcg`` if those were never, or always, attractive.
    n_sessions : int
    effective_sample_size, largest_weight : float
        Of the clicks.
    drivers : tuple of (query, float)
        The ten queries with the largest share in the difference, largest first.
    trust_bias_p : float
        p of :func:`~structsvm.clicks.trust_bias`; NaN where it was corrected, or the log cannot show it.
    k : int
        Cut-off of the DCG.
    level : float
        Of the intervals.

    Examples
    --------
    >>> from structsvm.clicks import ClickCells, evaluate_from_clicks
    >>> cells = ClickCells.from_arrays([7] * 4, [1, 2, 1, 2], [1, 2, 1, 2], [0, 1, 0, 0], session=[1, 1, 2, 2])
    >>> found = evaluate_from_clicks(cells, [7, 7], [1, 2], [0.0, 1.0], propensities=[1.0, 0.5])
    >>> print(f"{found.difference.value:+.3f} over {found.n_sessions} lists, {found.unseen:.0%} not in the log")
    +0.369 over 2 lists, 0% not in the log
    """

    dcg: Interval
    logged_dcg: Interval
    difference: Interval
    discount: Interval
    unseen: float
    bounds: tuple[float, float]
    n_sessions: int
    effective_sample_size: float
    largest_weight: float
    drivers: tuple[tuple[Any, float], ...]
    trust_bias_p: float
    k: int = 10
    level: float = 0.95


def evaluate_from_clicks(
    cells: ClickCells,
    query: ArrayLike,
    document: ArrayLike,
    scores: ArrayLike,
    *,
    propensities: Propensities | Sequence[float] | None = None,
    k: int = 10,
    weighting: Weighting = "policy",
    clip: float = 0.0,
    trust: tuple[ArrayLike, ArrayLike] | None = None,
    level: float = 0.95,
    most_unseen: float = 0.2,
) -> CounterfactualEstimate:
    """Estimate the DCG@k of a new ranker from a log of other rankers.

    Parameters
    ----------
    cells : ClickCells
        With sessions.
    query, document, scores : array-like, shape (n_candidates,)
        The new ranker's score of each candidate, for every query of the log; equal scores rank as they stand.
    propensities : Propensities or sequence of float, optional
        Default: :func:`~structsvm.clicks.harvest` of the log.
    k : int, default=10
        Cut-off.
    weighting : {"policy", "ips"}, default="policy"
        As in :func:`~structsvm.clicks.weights.click_weights`; both are the same where each document had one position.
    clip : float, default=0.0
        Raises small propensities; biased.
    trust : (alpha, beta), optional
        By position, of clicks with probability ``alpha[k] * attraction + beta[k]``: corrects trust bias as
        ``(click - beta) / alpha``. Swaps cannot identify them; they come from labels on a sample. ``propensities`` and
        ``clip`` are then not used.
    level : float, default=0.95
        Of the intervals. They take lists as independent, and add the error of harvested propensities by the delta
        method, as if from another log: from the same log they are a little wide.
    most_unseen : float, default=0.2
        Refuse to estimate when more than this share of the new discounts is on documents never shown.

    Returns
    -------
    CounterfactualEstimate

    Raises
    ------
    BadInput
        Without sessions; for a query of the log without scores, or a document with several; when too much is unseen.

    Warns
    -----
    UserWarning
        When the log shows trust bias (p below 0.001) and ``trust`` is not given.

    Notes
    -----
    IPS: Joachims, Swaminathan & Schnabel (WSDM 2017); affine: Vardasbi, Oosterhuis & de Rijke (CIKM 2020). A doubly
    robust estimate with position propensities, all documents shown and no clipping, is IPS to the last digit.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([7] * 4, [1, 2, 1, 2], [1, 2, 1, 2], [0, 1, 0, 0], session=[1, 1, 2, 2])
    >>> found = evaluate_from_clicks(cells, [7, 7], [1, 2], [0.0, 1.0], propensities=[1.0, 0.5])
    >>> found.dcg.value, round(found.logged_dcg.value, 4)
    (1.0, 0.6309)
    """
    check_whole("k", k)
    check_fraction("level", level)
    check_number("most_unseen", most_unseen, 0.0, 1.0)
    sessions = sessions_of(cells)
    new, unseen_mass, whole_mass = _new_discounts(cells, query, document, scores, k)
    lists = np.bincount(cells.row_query[sessions.row[sessions.offsets[:-1]]], sessions.count, cells.n_queries)
    unseen = float(lists @ unseen_mass / (lists @ whole_mass))
    if unseen > most_unseen:
        raise BadInput(
            "scores", f"expected a ranker whose lists the log has mostly shown, got {unseen:.0%} of the discounts on "
            "documents never shown", "log this ranker's documents too, or raise {most_unseen}",
        )  # fmt: skip
    gains = _gains(cells, sessions, new, k, propensities, weighting, clip, trust)
    if gains.trust_bias_p < _TRUST:
        warnings.warn(
            f"the log shows trust bias (p = {gains.trust_bias_p:.1g}): good and poor documents lose clicks with the "
            "position at different rates, and the estimate is biased; give trust=(alpha, beta)", stacklevel=2,
        )  # fmt: skip
    starts, count = sessions.offsets[:-1], sessions.count
    value_new, value_old, gain = (
        np.add.reduceat(gains.each * v, starts)
        for v in (new[sessions.row], gains.old, np.ones(gains.each.shape[0]))
    )
    z = float(stats.norm.ppf(0.5 + level / 2))
    n = int(count.sum())
    slope_new, slope_old, slope_gain = gains.slopes / n
    dcg = _mean(value_new, count, z, gains.error(slope_new))
    ratio, half = float("nan"), float("nan")
    mean_gain = float(gain @ count) / n
    if mean_gain > 0:
        ratio = float(value_new @ count) / n / mean_gain
        residual = _mean(value_new - ratio * gain, count, z, gains.error(slope_new - ratio * slope_gain))
        half = (residual.upper - residual.value) / mean_gain
    part = np.bincount(
        cells.row_query[sessions.row[starts]], (value_new - value_old) * count, cells.n_queries
    ) / n  # fmt: skip
    top = np.argsort(-np.abs(part), kind="stable")[:10]
    return CounterfactualEstimate(
        dcg,
        _mean(value_old, count, z, gains.error(slope_old)),
        _mean(value_new - value_old, count, z, gains.error(slope_new - slope_old)),
        Interval(ratio, ratio - half, ratio + half),
        unseen,
        (dcg.value, dcg.value + float(lists @ unseen_mass) / int(lists.sum())),
        n,
        gains.effective,
        gains.largest,
        tuple((cells.query_ids[q].item(), float(part[q])) for q in top),
        gains.trust_bias_p,
        k,
        level,
    )


def _mean(values: Float, count: Int, z: float, error: float) -> Interval:
    """Return the mean over lists; ``error`` is the variance it has besides, by the propensities."""
    n = int(count.sum())
    mean = float(values @ count) / n
    variance = float((values - mean) ** 2 @ count) / max(1, n - 1)
    half = z * float(np.sqrt(variance / n + error))
    return Interval(mean, mean - half, mean + half)


def _new_discounts(
    cells: ClickCells, query: ArrayLike, document: ArrayLike, scores: ArrayLike, k: int
) -> tuple[Float, Float, Float]:
    """Return the new discount of each row, and of each query the discounts of unseen and of all documents."""
    values = np.asarray(scores, dtype=np.float64)
    rows = cells.rows_of(query, document)
    if values.shape != rows.shape:
        raise BadInput("scores", f"expected one per candidate, shape {rows.shape}, got {values.shape}")
    if not np.isfinite(values).all():
        raise BadInput("scores", "expected finite numbers")
    used, counts = np.unique(rows[rows >= 0], return_counts=True)
    if (counts > 1).any():
        row = int(used[counts > 1][0])
        raise BadInput(
            "document", f"expected each document once in a query, got {cells.docid[row]} in query "
            f"{cells.query_ids[cells.row_query[row]]} several times", "drop the repeated candidates",
        )  # fmt: skip
    unique, number = np.unique(np.asarray(query), return_inverse=True)
    order = np.lexsort((-values, number))
    start = np.searchsorted(number[order], np.arange(unique.shape[0]))
    rank = np.empty(values.shape[0], dtype=np.int64)
    rank[order] = np.arange(values.shape[0]) - start[number[order]] + 1
    discount = np.where(rank <= k, 1 / np.log2(rank + 1), 0.0)
    at = np.minimum(np.searchsorted(unique, cells.query_ids), unique.shape[0] - 1)
    missing = unique[at] != cells.query_ids
    if missing.any():
        raise BadInput(
            "query", f"expected scores for every query of the log, got none for {int(missing.sum())}, "
            f"{cells.query_ids[missing][0]!s} among them", "score their candidates, or leave them out of the log",
        )  # fmt: skip
    new = np.zeros(cells.n_rows)
    new[rows[rows >= 0]] = discount[rows >= 0]
    unseen = np.bincount(number, np.where(rows < 0, discount, 0.0), unique.shape[0])
    whole = np.bincount(number, discount, unique.shape[0])
    return new, unseen[at], whole[at]


class _Gains(NamedTuple):
    """Estimated attraction at each entry of the sessions, and figures of the log."""

    each: Float
    old: Float  # discount of each entry in the lists as shown
    slopes: (
        Float  # of the sums of new and old values and of gains, by the log of each propensity; shape (3, n)
    )
    covariance: Float  # of the logs of the propensities
    trust_bias_p: float
    effective: float
    largest: float

    def error(self, slope: Float) -> float:
        """Return the variance of a mean with this slope, by the errors of the propensities (delta method)."""
        return max(0.0, float(slope @ self.covariance @ slope))


def _gains(
    cells: ClickCells,
    sessions: ClickSessions,
    new: Float,
    k: int,
    propensities: Any,
    weighting: Weighting,
    clip: float,
    trust: Any,
) -> _Gains:
    discounts = np.where(np.arange(cells.n_positions) < k, 1 / np.log2(np.arange(cells.n_positions) + 2), 0.0)
    by_position = discounts[sessions.position - 1]
    if trust is not None:
        alpha, beta = (np.asarray(v, dtype=np.float64) for v in trust)
        n = sessions.longest
        for name, values in (("alpha", alpha), ("beta", beta)):
            if values.ndim != 1 or values.shape[0] < n or not np.isfinite(values).all():
                raise BadInput(
                    "trust", f"expected a finite {name} for each of {n} positions, got shape {values.shape}"
                )
        if not (alpha > 0).all():
            raise BadInput("trust", f"expected every alpha > 0, got {alpha.min():g}")
        place = sessions.position - 1
        each = (sessions.clicked - beta[place]) / alpha[place]
        weight = np.repeat(sessions.count, np.diff(sessions.offsets)) * sessions.clicked / alpha[place]
        effective = float(weight.sum() ** 2 / max(weight @ (1 / alpha[place]), 1e-300))
        return _Gains(
            each, by_position, np.zeros((3, 1)), np.zeros((1, 1)), float("nan"), effective,
            float((1 / alpha[:n]).max()),
        )  # fmt: skip
    theta = propensities
    if theta is None:
        theta = harvest(cells)
    elif not isinstance(theta, Propensities):
        theta = Propensities.given(theta)
    found = click_weights(cells, theta, weighting=weighting, clip=clip)
    at = theta.at(cells.position)
    looks = cells.shows * np.maximum(at, clip)
    if weighting == "ips":
        each = sessions.clicked / np.maximum(theta.at(sessions.position), clip)
        old, old_cell = by_position, discounts[cells.position - 1]
        mass = cells.clicks / np.maximum(at, clip)
    else:
        clicks = cells.per_row(cells.clicks)
        per_click = found.values / np.where(clicks > 0, clicks, 1.0)
        each = sessions.clicked * per_click[sessions.row]
        # the weights of a document do not depend on where it stood, so its discount must not either: clicks come from
        # high positions, and each at the discount of its own position would make the shown lists too good
        mean = (
            cells.per_row(cells.shows * discounts[cells.position - 1])
            / cells.lists_per_query()[cells.row_query]
        )
        old, old_cell = mean[sessions.row], mean[cells.row]
        mass = found.values[cells.row] * looks / cells.per_row(looks)[cells.row]
    mass = np.where(at < clip, 0.0, mass)  # what is clipped does not move with its propensity
    size = theta.theta.shape[0]
    slopes = np.empty((3, size))
    for slope, value in zip(slopes, (new[cells.row], old_cell, np.ones(mass.shape[0])), strict=True):
        slope[:] = -np.bincount(cells.position - 1, mass * value, size)
    p = trust_bias(cells).p_value
    return _Gains(each, old, slopes, theta.covariance, p, found.effective, found.largest)
