"""The measures: from a ranking to one value per query, and a flag for queries whose labels define none.

Each function returns ``(values, empty)``. ``values`` is 0 where ``empty`` is set; ``evaluate`` replaces it according to
its parameter ``empty``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.portable.elementary import exp2
from structsvm.metrics.conventions import Convention, discounts, gains
from structsvm.metrics.ranks_and_ties import Ranking, segment_sum, sort_segments
from structsvm.protocols import Float, Int
from structsvm.queries import places_in


class MeasureOptions(NamedTuple):
    """Parameters of a measure besides the ranking; ``cutoff`` is None for the whole list."""

    cutoff: int | None
    relevance: float
    max_grade: float
    convention: Convention


Values = tuple[Float, NDArray[np.bool_]]


class Measure(NamedTuple):
    """A measure; ``cutoff`` says whether its name takes ``@k``: "never", "optional" or "required"."""

    compute: Callable[[Ranking, MeasureOptions], Values]
    cutoff: str
    description: str


def average_precision(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, count, n_relevant = _hits(ranking, settings)
    at = np.flatnonzero(hit & _within(ranking, settings))
    precision = np.zeros(hit.shape[0])
    precision[at] = count[at] / ranking.rank[at]
    return _ratio(segment_sum(precision, ranking.ranked_offsets), n_relevant), n_relevant == 0


def reciprocal_rank(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, count, n_relevant = _hits(ranking, settings)
    first = hit & (count == 1) & _within(ranking, settings)
    return segment_sum(first / ranking.rank, ranking.ranked_offsets), n_relevant == 0


def precision(ranking: Ranking, settings: MeasureOptions) -> Values:
    n_found, n_relevant = _found(ranking, settings)
    assert settings.cutoff is not None
    return n_found / settings.cutoff, n_relevant == 0


def recall(ranking: Ranking, settings: MeasureOptions) -> Values:
    n_found, n_relevant = _found(ranking, settings)
    return _ratio(n_found.astype(np.float64), n_relevant), n_relevant == 0


def dcg(ranking: Ranking, settings: MeasureOptions) -> Values:
    gain = gains(ranking.ranked, settings.convention)
    return _discounted(gain, ranking.ranked_offsets, settings), _without_gain(ranking)


def ndcg(ranking: Ranking, settings: MeasureOptions) -> Values:
    value, empty = dcg(ranking, settings)
    gain = gains(ranking.grades, settings.convention)
    best = _discounted(gain[sort_segments(-gain, ranking.offsets)], ranking.offsets, settings)
    value = _ratio(value, best)
    if settings.convention.short_lists_zero and settings.cutoff is not None:
        value[ranking.lengths < settings.cutoff] = 0.0
    return value, empty


def expected_reciprocal_rank(ranking: Ranking, settings: MeasureOptions) -> Values:
    stop = (exp2(np.maximum(ranking.ranked, 0.0)) - 1.0) / exp2(settings.max_grade)
    reach = np.ones_like(stop)
    if stop.size:
        # probability of passing all earlier ranks: a segmented product that doubles its reach at each step, so that the
        # rounding of a query does not depend on the queries before it
        reach[1:] = np.where(ranking.rank[1:] > 1, 1.0 - stop[:-1], 1.0)
        step, longest = 1, int(ranking.rank.max())
        while step < longest:
            reach[step:] *= np.where(ranking.rank[step:] > step, reach[:-step], 1.0)
            step *= 2
    value = stop * reach / ranking.rank * _within(ranking, settings)
    return segment_sum(value, ranking.ranked_offsets), _without_gain(ranking)


def roc_area(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, count, n_relevant = _hits(ranking, settings)
    n_other = ranking.lengths - n_relevant
    n_found = segment_sum(hit.astype(np.int64), ranking.ranked_offsets)
    misses = np.diff(ranking.ranked_offsets) - n_found
    # twice the number of non-relevant rows above each row, those of equal score counted half; integers keep the
    # area exact
    starts = np.flatnonzero(ranking.new_score)
    ends = np.append(starts[1:], hit.shape[0])[: starts.shape[0]]
    above = ranking.rank - count - ~hit
    through = ranking.rank - count
    twice = np.repeat(above[starts] + through[ends - 1], ends - starts)
    lost = segment_sum(np.where(hit, twice, 0), ranking.ranked_offsets)
    # rows that were not retrieved share the last place
    lost = lost + (n_relevant - n_found) * (2 * misses + (n_other - misses))
    pairs = n_relevant * n_other
    return _ratio((2 * pairs - lost).astype(np.float64), 2 * pairs), pairs == 0


def _hits(ranking: Ranking, settings: MeasureOptions) -> tuple[NDArray[np.bool_], Int, Int]:
    """Return the relevant ranked rows, their number down to each row, and the number of relevant rows per query."""
    hit = ranking.ranked >= settings.relevance
    total = np.concatenate(([0], np.cumsum(hit, dtype=np.int64)))
    count = total[1:] - np.repeat(total[ranking.ranked_offsets[:-1]], np.diff(ranking.ranked_offsets))
    n_relevant = segment_sum((ranking.grades >= settings.relevance).astype(np.int64), ranking.offsets)
    return hit, count, n_relevant


def _found(ranking: Ranking, settings: MeasureOptions) -> tuple[Int, Int]:
    """Return the number of relevant rows within the cutoff, and of all relevant rows, per query."""
    hit, _, n_relevant = _hits(ranking, settings)
    return segment_sum(
        (hit & _within(ranking, settings)).astype(np.int64), ranking.ranked_offsets
    ), n_relevant


def _without_gain(ranking: Ranking) -> NDArray[np.bool_]:
    empty: NDArray[np.bool_] = segment_sum((ranking.grades > 0).astype(np.int64), ranking.offsets) == 0
    return empty


def _within(ranking: Ranking, settings: MeasureOptions) -> NDArray[np.bool_]:
    if settings.cutoff is None:
        return np.ones(ranking.rank.shape[0], dtype=np.bool_)
    return ranking.rank <= settings.cutoff


def _discounted(gain: Float, offsets: Int, settings: MeasureOptions) -> Float:
    weight = 1.0 / discounts(int(np.diff(offsets).max(initial=0)), settings.convention)
    if settings.cutoff is not None:
        weight[settings.cutoff :] = 0.0
    return segment_sum(gain * weight[places_in(offsets) - 1], offsets)


def _ratio(above: Float, below: NDArray[np.generic]) -> Float:
    value: Float = np.divide(above, below, out=np.zeros(above.shape[0]), where=below != 0)
    return value


MEASURES: dict[str, Measure] = {
    "map": Measure(
        average_precision,
        "optional",
        "average precision; with @k over ranks 1..k, divided by all relevant rows",
    ),
    "ap": Measure(average_precision, "optional", "the same as map"),
    "mrr": Measure(
        reciprocal_rank, "optional", "1 / rank of the first relevant row; with @k 0 if it is below rank k"
    ),
    "rr": Measure(reciprocal_rank, "optional", "the same as mrr"),
    "precision": Measure(precision, "required", "relevant rows among the first k, divided by k"),
    "recall": Measure(recall, "required", "relevant rows among the first k, divided by all relevant rows"),
    "ndcg": Measure(ndcg, "optional", "discounted gain divided by that of the best ranking"),
    "dcg": Measure(dcg, "optional", "discounted gain"),
    "err": Measure(expected_reciprocal_rank, "optional", "expected reciprocal rank (Chapelle et al. 2009)"),
    "roc": Measure(roc_area, "never", "area under the ROC curve; equal scores count half"),
    "roc_auc": Measure(roc_area, "never", "the same as roc"),
}
