"""Counterfactual evaluation: the utility of a new ranker, estimated from the log of another ranker."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from structsvm.clicks.cells import ClickCells, check_clicked, index_in, once_each
from structsvm.clicks.position_based import sessions_of
from structsvm.clicks.propensities import (
    TRUST_LEVEL,
    Influence,
    Propensities,
    TrustBias,
    given_or_harvested,
    influence_of,
    trust_bias,
)
from structsvm.clicks.sessions import ClickSessions, joined_sessions
from structsvm.common.checks import BadInput, check_choice, check_fraction, check_number, check_whole, counted
from structsvm.common.portable.elementary import log2
from structsvm.common.records import plain
from structsvm.protocols import Float, Int


class Interval(NamedTuple):
    """An estimate with its confidence interval."""

    value: float
    lower: float
    upper: float

    def __repr__(self) -> str:
        return f"{self.value:.4g} [{self.lower:.4g}, {self.upper:.4g}]"


@dataclass(frozen=True)
class CounterfactualEstimate:
    """Utility of a new ranker, estimated from a log.

    Attributes
    ----------
    dcg : Interval
        Mean over lists of the DCG@k of attractions (IPS, or the affine correction of trust bias).
    logged_dcg : Interval
        DCG@k of the lists as they were shown.
    difference : Interval
        ``dcg`` minus ``logged_dcg``, paired by list; its interval is far narrower than those of the two DCGs.
    discount : Interval
        Mean discount of an attractive document (self-normalised, SNIPS): ``dcg`` per attractive document.
    unseen : float
        Share of the discounts of the new lists that falls on documents never shown for the query.
    bounds : tuple of (float, float)
        ``dcg`` if the unseen documents were never, or always, attractive.
    n_sessions : int
        Number of lists.
    effective_sample_size, largest_weight : float
        Number of clicks of equal weight that carry the same information, and the largest weight of a click.
    drivers : tuple of (query, float)
        The ten queries that contribute most to the difference, with their contributions, in descending order.
    trust_bias_p : float
        p-value of :func:`~structsvm.clicks.trust_bias`; NaN if the bias was corrected, or could not be tested.
    k : int
        Cut-off of the DCG.
    level : float
        Confidence level of the intervals.
    n_gapped : int
        Number of lists with a gap: a position without an impression above the last impression.
    n_clusters : int or None
        Number of users, if the log has users.
    effective_clusters : float or None
        Number of users that would give a mean over lists the same precision if all had equally many lists.
    notes : tuple of str
        Limits of the estimate: gaps, users, and the size of a trust bias that would have been detected.
    over_baseline : Interval or None
        ``dcg`` minus the DCG@k of ``baseline``, paired by list.

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
    n_gapped: int = 0
    n_clusters: int | None = None
    effective_clusters: float | None = None
    notes: tuple[str, ...] = ()
    over_baseline: Interval | None = None

    def __repr__(self) -> str:
        over = "" if self.over_baseline is None else f"over the baseline {self.over_baseline}, "
        return (
            f"CounterfactualEstimate(DCG@{self.k} {self.dcg}, shown {self.logged_dcg}, difference {self.difference}, "
            f"{over}{counted(list=self.n_sessions)}, {self.unseen:.0%} not in the log)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates, counts and notes as plain objects for ``json.dumps``; NaN becomes None."""
        return plain(
            {
                "dcg": self.dcg,
                "logged_dcg": self.logged_dcg,
                "difference": self.difference,
                "over_baseline": self.over_baseline,
                "unseen": self.unseen,
                "discount": self.discount,
                "bounds": self.bounds,
                "sessions": self.n_sessions,
                "effective_sample_size": self.effective_sample_size,
                "largest_weight": self.largest_weight,
                "lists_with_gaps": self.n_gapped,
                "users": self.n_clusters,
                "effective_users": self.effective_clusters,
                "trust_bias_p": self.trust_bias_p,
                "notes": self.notes,
            }
        )

    def lines(self) -> list[str]:
        """Return the estimates and notes as lines of text."""
        named = {
            f"new DCG@{self.k}": self.dcg,
            f"shown DCG@{self.k}": self.logged_dcg,
            "difference": self.difference,
        }
        if self.over_baseline is not None:
            named["over baseline"] = self.over_baseline
        rest = f", DCG up to {self.bounds[1]:.4f}" if self.unseen else ""
        return [
            f"clicks          equivalent to {self.effective_sample_size:,.0f} of equal weight; the largest weight is "
            f"{self.largest_weight:,.4g}",
            *(f"{name:<16}{i.value:.4f}  ({i.lower:.4f} to {i.upper:.4f})" for name, i in named.items()),
            f"never shown     {self.unseen:.1%} of the new ranker's discounts{rest}",
            *(f"note: {text}" for text in self.notes),
        ]


def evaluate_from_clicks(
    cells: ClickCells,
    query: ArrayLike,
    document: ArrayLike,
    scores: ArrayLike,
    *,
    propensities: Propensities | Sequence[float] | tuple[ArrayLike, ArrayLike] | None = None,
    k: int = 10,
    weighting: Literal["policy", "ips", "logged"] | None = None,
    clip: float = 0.0,
    gaps: Literal["empty", "lost"] = "empty",
    level: float = 0.95,
    most_unseen: float = 0.2,
    baseline: ArrayLike | None = None,
) -> CounterfactualEstimate:
    """Estimate the DCG@k of a new ranker from a log produced by other rankers.

    Parameters
    ----------
    cells : ClickCells
        A log with sessions. Lists with gaps and impressions without a session count like all others. If the log has
        users (``cluster`` of the readers), each user counts once, with the mean over the user's lists, and intervals
        are over users.
    query, document : array-like, shape (n_candidates,)
        The candidates of every query of the log.
    scores : array-like, shape (n_candidates,) or (n_candidates, n_positions)
        The new ranker's score of each candidate; ties are broken by row order. For a ranker that samples its lists,
        pass two dimensions: the probability of each candidate at each position. The probabilities of a query sum to 1
        at each position up to ``k``, or up to the last position of the log or of the candidates if that is less; an
        additional candidate that is not in the log may hold the remainder.
    propensities : Propensities, sequence of float or (alpha, beta), optional
        Default: :func:`~structsvm.clicks.harvest` of the log. A pair, with two numbers for each position, corrects the
        trust bias of clicks with probability ``alpha[k] * attraction + beta[k]``; ``weighting`` and ``clip`` then do
        not apply. Random swaps do not identify the pair; estimate it from labels on a sample.
    k : int, default=10
        Cut-off.
    weighting : {"policy", "ips", "logged"}, optional
        ``"policy"`` divides the clicks on a document by the sum of the propensities of its impressions. ``"ips"``
        divides each click by the propensity of its own position, independently of other positions, but has a larger
        error. ``"logged"`` also divides each click by the logged probability of its impression (``probability`` of the
        readers), and is unbiased even if the logged ranker depended on more than the query, such as the user.
        Default: ``"logged"`` if the log has probabilities, else ``"policy"``.
    clip : float, default=0.0
        Smaller propensities are raised to this value, which introduces bias.
    gaps : {"empty", "lost"}, default="empty"
        Meaning of positions without an impression. ``"empty"``: no document (for example, an advertisement).
        ``"lost"``: a document whose impression was lost at random; ``logged_dcg`` is divided by the share of
        impressions that were logged.
    level : float, default=0.95
        Confidence level of the intervals, by Student's t over lists or users. The intervals include the error of the
        propensities: through the lists if they were harvested from this log, otherwise through their covariance.
    most_unseen : float, default=0.2
        Largest share of the new ranker's discounts that may fall on documents never shown; more is an error.
    baseline : array-like, optional
        ``scores`` of another new ranker, to compare the two from the same log: ``over_baseline``. Intervals of several
        comparisons are not corrected for their number.

    Returns
    -------
    CounterfactualEstimate

    Raises
    ------
    BadInput
        If the log has no sessions; if a query of the log has no scores, or a document has several scores; if the
        unseen share exceeds ``most_unseen``; for ``"logged"`` without logged probabilities.

    Warns
    -----
    UserWarning
        If the log shows trust bias (p below 0.01) and no ``(alpha, beta)`` is given to correct it. The absence of a
        warning does not exclude bias: the last note states how strong a detectable bias would be.

    Notes
    -----
    IPS: Joachims, Swaminathan & Schnabel (WSDM 2017); affine: Vardasbi, Oosterhuis & de Rijke (CIKM 2020). A doubly
    robust estimate with position propensities, all documents shown and no clipping, is identical to IPS.
    Logged probabilities by item and position: Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay & Wen (KDD 2018).

    Examples
    --------
    >>> cells = ClickCells.from_arrays([7] * 4, [1, 2, 1, 2], [1, 2, 1, 2], [0, 1, 0, 0], session=[1, 1, 2, 2])
    >>> found = evaluate_from_clicks(cells, [7, 7], [1, 2], [0.0, 1.0], propensities=[1.0, 0.5])
    >>> found.dcg.value, round(found.logged_dcg.value, 4)
    (1.0, 0.6309)

    A second ranker, which reverses the order of the documents:

    >>> found = evaluate_from_clicks(
    ...     cells, [7, 7], [1, 2], [0.0, 1.0], propensities=[1.0, 0.5], baseline=[1.0, 0.0]
    ... )
    >>> round(found.over_baseline.value, 4)
    0.3691
    """
    check_whole("k", k)
    check_fraction("level", level)
    check_number("most_unseen", most_unseen, 0.0, 1.0)
    check_number("clip", clip, 0.0, 1.0)
    sessions_of(cells)
    log = _impressions(cells)
    if weighting is None:
        weighting = "policy" if log.probability is None else "logged"
    check_choice("weighting", weighting, ("policy", "ips", "logged"))
    check_choice("gaps", gaps, ("empty", "lost"))
    discounts_of = partial(_new_discounts, log, cells, query, document, k, most_unseen)
    new, unseen, unseen_dcg, listed = discounts_of("scores", scores)
    if baseline is not None:
        other, *_ = discounts_of("baseline", baseline)
    check_clicked(cells.clicks)
    bias = TrustBias(math.nan, 0, math.nan)
    # a pair (alpha, beta) with one value per position
    corrected = (
        not isinstance(propensities, Propensities | None)
        and isinstance(propensities, Sized)
        and len(propensities) == 2
        and np.ndim(propensities[0]) > 0
    )
    if corrected:
        weights, interval = _affine(log, *propensities), partial(_interval, log, level)  # type: ignore[misc]
    else:
        theta = given_or_harvested(cells, propensities)
        moves = influence_of(cells, theta) if propensities is None else None
        interval = partial(_interval, log, level, theta=None if moves else theta, influence=moves)
        weights = _weights(cells, log, theta, weighting, clip)
        bias = trust_bias(cells)
        if bias.p_value < TRUST_LEVEL:
            warnings.warn(
                f"the log shows trust bias (p = {bias.p_value:.1g}): poor documents lose more clicks down the list "
                "than good ones, and the estimate is biased; give propensities=(alpha, beta)",
                stacklevel=2,
            )
    discounts = _discounts(cells.n_positions, k)
    of_new, of_all = weights.values(log, new[log.row]), weights.values(log, np.ones(log.row.shape[0]))
    of_shown = weights.shown(log, discounts, 1.0 if gaps == "empty" else 1 - log.lost)
    dcg, gain = interval(of_new), interval(of_all).value
    ratio, half = math.nan, math.nan
    if gain > 0:
        ratio = dcg.value / gain
        residual = interval(of_new.minus(ratio, of_all))
        half = (residual.upper - residual.value) / gain
    difference = of_new.minus(1.0, of_shown)
    part = np.bincount(log.query, difference.each * log.weight, cells.n_queries) / log.n
    return CounterfactualEstimate(
        dcg=dcg,
        logged_dcg=interval(of_shown),
        difference=interval(difference),
        discount=Interval(ratio, ratio - half, ratio + half),
        unseen=unseen,
        bounds=(dcg.value, dcg.value + unseen_dcg),
        n_sessions=log.n_sessions,
        effective_sample_size=weights.effective(log),
        largest_weight=float(weights.per_click[log.clicked > 0].max()),
        drivers=tuple(
            (cells.query_ids[q].item(), float(part[q])) for q in np.argsort(-np.abs(part), kind="stable")[:10]
        ),
        trust_bias_p=bias.p_value,
        k=k,
        level=level,
        n_gapped=log.n_gapped,
        n_clusters=log.n_clusters,
        effective_clusters=log.effective_clusters,
        notes=tuple(_notes(cells, log, listed, gaps, None if corrected else bias)),
        over_baseline=None if baseline is None else interval(weights.values(log, (new - other)[log.row])),
    )


def _notes(cells: ClickCells, log: _Impressions, listed: Int, gaps: str, bias: TrustBias | None) -> list[str]:
    """Return the notes on the limits of the estimate; ``listed`` holds the rows with a score."""
    notes = []
    if log.n_gapped:
        text = f"{log.n_gapped:,} of {log.n_sessions:,} lists have positions without an impression"
        notes.append(
            f"{text}, which count as empty; if impressions were lost ({log.lost:.1%} of positions), "
            "the difference is too large by this share: use gaps='lost' (--gaps lost)"
            if gaps == "empty"
            else f"{text}, {log.lost:.1%} of the positions, taken as lost at random"
        )
    if log.n_clusters is not None and log.effective_clusters is not None:
        notes.append(
            f"intervals are over {log.n_clusters:,} users, each of whom counts once; a mean over lists would be as "
            f"precise as one over {log.effective_clusters:,.1f} users with equally many lists"
        )
    if bias is not None:
        notes.append(bias.in_words())
    clicks = cells.per_row(cells.clicks)
    lost = float(clicks.sum() - clicks[listed].sum())
    if lost:
        notes.append(
            f"{lost:.0f} of {clicks.sum():.0f} clicks are on documents without a score, which count as not shown by "
            "the new ranker"
        )
    return notes


class _Impressions(NamedTuple):
    """Impressions of a log, grouped by unit: a list, or all lists of a user (who counts once)."""

    # Equal lists are one unit with a multiplicity. `weight` is the weight of an impression in sums over the log, `part`
    # its weight within its unit, and `plain` its weight if each list counts once.

    unit: Int
    row: Int
    rank: Int  # from 0
    clicked: Float
    weight: Float
    part: Float
    plain: Float
    probability: Float | None
    many: Float  # multiplicity of each unit
    whole: Float  # 1 for a unit that is a list or a user, 0 for an impression without a session
    n: float  # sum of the weights of lists
    n_lists: Float  # sum of the weights of the lists of each query
    query: Int  # index of the query of each impression
    n_sessions: int
    n_gapped: int
    lost: float  # share of positions without an impression among those above the last impression of a list
    n_clusters: int | None
    effective_clusters: float | None


def _impressions(cells: ClickCells) -> _Impressions:
    lists = joined_sessions(cells.all_lists())
    n_listed = lists.n_distinct
    lists = joined_sessions([lists, _unlisted(cells, lists)])
    number = np.arange(lists.n_distinct)
    is_list = number < n_listed
    # a list without a user is a unit of its own
    cluster = np.full(number.shape[0], -1) if lists.cluster is None else lists.cluster
    known = cluster >= 0
    _, unit = np.unique(np.where(known, cluster, number + int(cluster.max()) + 1), return_inverse=True)
    plain = np.where(known, lists.count, 1.0)
    size = np.bincount(unit, plain)
    many = np.ones(size.shape[0])
    many[unit[~known]] = lists.count[~known]
    # if lists are weighted by user or by logged probability, impressions outside lists are used only to estimate the
    # propensities
    only_lists = known.any() or lists.probability is not None
    part = np.where(is_list, plain / size[unit], 0.0 if only_lists else 1.0)
    total = part * many[unit]
    whole = np.bincount(unit, is_list, many.shape[0]).clip(0, 1)
    n_clusters = effective = None
    if known.any():
        sizes = many * whole * size
        n_clusters = int((many * whole).sum())
        effective = float(sizes.sum() ** 2 / (sizes * size).sum())
    lengths = np.diff(lists.offsets)
    query = cells.row_query[lists.row[lists.offsets[:-1]]]

    # above the last recorded impression of a list, each impression was recorded with the same probability
    above = lists.position[lists.offsets[1:] - 1] - 1
    n_above = float((above * lists.count * is_list).sum())
    lost = 1 - float(((lengths - 1) * lists.count * is_list).sum()) / n_above if n_above else 0.0

    def each(values: ArrayLike) -> Any:
        return np.repeat(values, lengths)

    return _Impressions(
        unit=each(unit),
        row=lists.row,
        rank=lists.position - 1,
        clicked=lists.clicked.astype(np.float64),
        weight=each(total),
        part=each(part),
        plain=each(plain),
        probability=lists.probability,
        many=many,
        whole=whole,
        n=float((total * is_list).sum()),
        n_lists=np.bincount(query, total * is_list, cells.n_queries).astype(np.float64),
        query=each(query),
        n_sessions=int(lists.count[is_list].sum()),
        n_gapped=0 if cells.gapped is None else cells.gapped.n_sessions,
        lost=lost,
        n_clusters=n_clusters,
        effective_clusters=effective,
    )


def _unlisted(cells: ClickCells, lists: ClickSessions) -> ClickSessions:
    """Return the impressions outside lists as single items: the counts of the cells minus those of the lists."""
    width = cells.n_positions + 1
    count = lists.counts
    key = np.searchsorted(cells.row * width + cells.position, lists.row * width + lists.position)
    shows = cells.shows - np.bincount(key, count, cells.n_cells).astype(np.int64)
    clicks = cells.clicks - np.bincount(key, count * lists.clicked, cells.n_cells).astype(np.int64)
    left = np.concatenate([shows - clicks, clicks])
    at = np.flatnonzero(left)
    cell = at % cells.n_cells
    return ClickSessions(
        np.arange(at.size + 1), cells.row[cell], at >= cells.n_cells, left[at], cells.position[cell]
    )


class _Weights(NamedTuple):
    """Weights by which the sum over impressions estimates the sum over lists of the attractions of their documents."""

    each: Float  # weight of an impression, given whether it was clicked
    per_click: Float  # weight of an impression if it was clicked
    # propensity of each impression, if its weight depends on all examinations of the document
    looks: Float | None
    moves: NDArray[np.bool_]  # whether the weight depends on the propensity of the impression
    size: int  # number of propensities

    def effective(self, log: _Impressions) -> float:
        weight = log.weight * log.clicked
        total = float((weight * self.per_click).sum())
        return total * total / max(float((weight * self.per_click**2).sum()), 1e-300)

    def values(self, log: _Impressions, discount: Float) -> _Value:
        """Return the contribution of each impression to the value of lists, given the discount of its document."""
        value = self.each * discount
        moved = value * log.weight
        if self.looks is not None:  # a propensity acts through its share in the examinations of the document
            looks = log.weight * self.looks
            moved = _ratio(np.bincount(log.row, moved), np.bincount(log.row, looks))[log.row] * looks
        return _Value(value, -np.bincount(log.rank, np.where(self.moves, moved, 0.0), self.size) / log.n)

    def shown(self, log: _Impressions, discounts: Float, arrived: float) -> _Value:
        """Return the contributions to the value of the lists as shown, given the discount of each position and the
        share of impressions that were logged."""
        at = discounts[log.rank] / arrived
        in_lists = log.weight * log.whole[log.unit]
        if self.looks is None:
            shows = np.bincount(log.row, in_lists)[log.row]
            return self.values(log, at * _ratio(shows, log.n_lists[log.query]))
        # the weights of a document do not depend on its position, so its discount must not either: clicks come from
        # high positions, and using the discount of each click's own position would overrate the shown lists
        return self.values(log, _ratio(np.bincount(log.row, in_lists * at)[log.row], log.n_lists[log.query]))


def _ratio(a: ArrayLike, b: ArrayLike) -> Float:
    """Return ``a / b``, or 0 where ``b`` is 0."""
    return np.divide(a, b, out=np.zeros(np.shape(a)), where=np.asarray(b) > 0)


class _Value(NamedTuple):
    """Contribution of each impression to the sum over lists, and the gradient of its mean in the log propensities."""

    each: Float
    slope: Float

    def minus(self, factor: float, other: _Value) -> _Value:
        return _Value(self.each - factor * other.each, self.slope - factor * other.slope)


def _weights(
    cells: ClickCells, log: _Impressions, theta: Propensities, weighting: str, clip: float
) -> _Weights:
    at = theta.at(log.rank + 1)
    looks = np.maximum(at, clip)
    lists = log.n_lists[log.query]
    size = theta.theta.shape[0]
    moves = at >= clip  # clipped weights do not depend on their propensity
    if weighting == "ips":
        weight = _ratio(lists, np.bincount(log.row, log.weight)[log.row] * looks)
        return _Weights(weight * log.clicked, weight, None, moves, size)
    weight = _ratio(lists, np.bincount(log.row, log.weight * looks)[log.row])
    if weighting == "logged":
        if log.probability is None or not np.isfinite(log.probability[log.weight > 0]).all():
            raise BadInput(
                "weighting",
                "expected the probability of each impression in the log, got none",
                "read it with {probability}, or use 'policy'",
                value=weighting,
            )
        # the share of lists that show the document at this position, divided by the logged probability
        n_places = cells.n_positions
        cell, key = np.unique(log.row * n_places + log.rank, return_inverse=True)
        filled = np.bincount(log.query * n_places + log.rank, log.weight)[log.query * n_places + log.rank]
        weight = weight * _ratio(
            np.bincount(key, log.weight, cell.shape[0])[key], filled * np.nan_to_num(log.probability)
        )
    return _Weights(weight * log.clicked, weight, looks, moves, size)


def _affine(log: _Impressions, *pair: object) -> _Weights:
    """Return the weights that correct trust bias."""
    alpha, beta = (np.asarray(v, dtype=np.float64) for v in pair)
    n = int(log.rank.max()) + 1
    for name, values in (("alpha", alpha), ("beta", beta)):
        if values.ndim != 1 or len(values) < n or not np.isfinite(values).all():
            raise BadInput(
                name, f"expected a finite number for each of {n} positions, got shape {values.shape}"
            )
    if not (alpha > 0).all():
        raise BadInput("alpha", f"expected numbers > 0, got {alpha.min():g}")
    share = _ratio(log.n_lists[log.query], np.bincount(log.row, log.weight)[log.row])
    weight = share / alpha[log.rank]
    return _Weights(weight * (log.clicked - beta[log.rank]), weight, None, np.zeros(weight.shape, bool), 1)


def _interval(
    log: _Impressions,
    level: float,
    value: _Value,
    theta: Propensities | None = None,
    influence: Influence | None = None,
) -> Interval:
    """Return the interval of a mean over lists or users, including the error of the propensities: of ``theta``, or of
    harvested propensities by the ``influence`` of the impressions on them."""
    n = log.n
    mean = float((log.weight * value.each).sum()) / n
    unit = np.bincount(log.unit, log.part * value.each, log.many.shape[0]) - mean * log.whole
    if influence is not None:
        # the same clicks determine the propensities: add the effect of each unit's clicks on these
        moved = influence(value.slope, log.row, log.rank, log.clicked)
        unit += n * np.bincount(log.unit, log.plain * moved, log.many.shape[0])
    freedom = max(n - 1, 1.0)
    variance = float((log.many * unit**2).sum()) / (n * freedom)
    added = 0.0 if theta is None else theta.variance(value.slope)
    if theta is not None and added > 0:
        # degrees of freedom of a sum of two variances (Satterthwaite)
        of_theta = theta.freedom_of(value.slope)
        freedom = (variance + added) ** 2 / (variance**2 / freedom + added**2 / of_theta)
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * math.sqrt(variance + added)
    return Interval(mean, mean - half, mean + half)


def _new_discounts(
    log: _Impressions,
    cells: ClickCells,
    query: ArrayLike,
    document: ArrayLike,
    k: int,
    most_unseen: float,
    name: str,
    scores: ArrayLike,
) -> tuple[Float, float, float, Int]:
    """Return the new discount of each row, the share of the discounts on documents never shown, their mean over lists,
    and the rows of the log that have a score. ``name`` is the argument that holds the scores."""
    if np.size(query) == 0:
        raise _without_scores(cells, np.ones(cells.n_queries, dtype=bool))
    rows = cells.rows_of(query, document)
    values = np.asarray(scores, dtype=np.float64)
    if values.shape[:1] != rows.shape or values.ndim > 2:
        raise BadInput(name, f"expected one per candidate, shape {rows.shape}, got {values.shape}")
    if not np.isfinite(values).all():
        raise BadInput(name, "expected finite numbers")
    listed = once_each(cells, rows, "document")
    unique, number = np.unique(np.asarray(query), return_inverse=True)
    if values.ndim == 1:
        order = np.lexsort((-values, number))
        start = np.searchsorted(number[order], np.arange(unique.shape[0]))
        index = np.empty(values.shape[0], dtype=np.int64)
        index[order] = np.arange(values.shape[0]) - start[number[order]]
        discount = _discounts(int(index.max()) + 1, k)[index]
    else:
        discount = _expected_discounts(name, values, number, unique, k, cells.n_positions)
    at, there = index_in(unique, cells.query_ids)
    if not there.all():
        raise _without_scores(cells, ~there)
    new = np.zeros(cells.n_rows)
    new[rows[rows >= 0]] = discount[rows >= 0]
    unseen, whole = (
        float((log.n_lists / log.n * np.bincount(number, of, unique.shape[0])[at]).sum())
        for of in (np.where(rows < 0, discount, 0.0), discount)
    )
    if unseen / whole > most_unseen:
        raise BadInput(
            name,
            f"expected a ranker whose documents the log has mostly shown, got {unseen / whole:.0%} of the "
            "discounts on documents never shown",
            "log this ranker's documents too, or raise {most_unseen}",
        )
    return new, unseen / whole, unseen, listed


def _without_scores(cells: ClickCells, missing: NDArray[np.bool_]) -> BadInput:
    return BadInput(
        "query",
        f"expected scores for every query of the log, got none for {int(missing.sum())}, "
        f"such as {cells.query_ids[missing][0]!s}",
        "score their candidates, or leave them out of the log",
    )


def _expected_discounts(
    name: str, probability: Float, number: Int, queries: NDArray[Any], k: int, n_shown: int
) -> Float:
    """Return the mean discount of each candidate, given its probability at each position."""
    n_places = probability.shape[1]
    of_place = np.stack([np.bincount(number, column) for column in probability.T])
    if (
        (probability < 0).any()
        or of_place.max(initial=0) > 1 + 1e-9
        or probability.sum(axis=1).max(initial=0) > 1 + 1e-9
    ):
        raise BadInput(
            name,
            "expected probabilities in two dimensions: numbers >= 0 that sum to at most 1 over the "
            "candidates of a query at each position, and over the positions of a candidate",
        )
    # number of positions compared with the log, for each query
    filled = np.minimum(np.bincount(number), min(k, n_shown))
    if n_places < filled.max(initial=0):
        raise BadInput(
            name,
            f"expected probabilities for {filled.max()} positions, got {n_places}",
            f"give them all, or limit {{k}} to {n_places} positions",
        )
    lacking = (of_place.T < 1 - 1e-6) & (np.arange(n_places) < filled[:, None])
    if lacking.any():
        query, place = np.argwhere(lacking)[0]
        raise BadInput(
            name,
            f"expected probabilities that sum to 1 at each position, got {of_place[place, query]:.3g} at "
            f"position {place + 1} of query {queries[query]!s}",
            "give all candidates, or the remainder to an additional candidate that is not in the log",
        )
    return np.asarray((probability * _discounts(n_places, k)).sum(axis=1), dtype=np.float64)


def _discounts(n: int, k: int) -> Float:
    """Return the discounts of DCG@k at ranks 1 to n."""
    rank = np.arange(1, n + 1)
    return np.where(rank <= k, 1 / log2(rank + 1.0), 0.0)
