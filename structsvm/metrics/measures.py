"""Measures: functions that map a ranking to one value per query, and a flag for queries with undefined values.

Each function returns ``(values, empty)``. ``values`` is 0 where ``empty`` is set; ``evaluate`` replaces these zeros
according to its parameter ``empty``. A :class:`Convention` defines the gain of a grade, the discount of a rank and the
order of ties.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.portable.elementary import exp2, log2
from structsvm.metrics.ranks_and_ties import (
    Ranking,
    Runs,
    Ties,
    different_pairs,
    inversions,
    segment_sum,
    sort_segments,
)
from structsvm.metrics.tests import UNBOUNDED
from structsvm.protocols import Float, Int
from structsvm.queries import places_in


@dataclass(frozen=True)
class Convention:
    """Definition of the gain of a grade, the discount of a rank and the order of ties.

    With ``single_precision``, scores are compared as float32 if docids or rows break ties. The gain of a negative grade
    is 0. With ``short_lists_zero``, NDCG@k of a query with fewer than k documents is 0.
    """

    gain: Literal["linear", "exponential"]
    discount: Literal["log2(i+1)", "log2(i), first two 1"]
    ties: Ties
    single_precision: bool = False
    short_lists_zero: bool = False

    @property
    def largest_grade(self) -> float:
        """Largest grade allowed; with exponential gain, sums of gains up to 2**1000 do not overflow."""
        return np.inf if self.gain == "linear" else 1000.0


CONVENTIONS: dict[str, Convention] = {
    "trec": Convention("linear", "log2(i+1)", "docid", single_precision=True),
    "letor4": Convention("exponential", "log2(i), first two 1", "row"),
    "letor4_script": Convention("exponential", "log2(i), first two 1", "row", short_lists_zero=True),
    "burges": Convention("exponential", "log2(i+1)", "row"),
}
"""Conventions of ``evaluate`` by name.

``trec`` is trec_eval 9. ``letor4`` is the formula of the LETOR 4.0 benchmark. ``letor4_script`` reproduces the numbers
of the evaluation script of this benchmark, for which NDCG@k of a query with fewer than k documents is 0 (403 of the 784
queries of MQ2008 for k = 10); use it to compare with results of the script. ``burges`` is the usual NDCG of the
boosting literature (Burges et al. 2005).
"""


def gains(grades: Float, convention: Convention) -> Float:
    """Return the gain of each grade, which is at least 0."""
    positive = np.maximum(grades, 0.0)
    return positive if convention.gain == "linear" else exp2(positive) - 1.0


def discounts(n: int, convention: Convention) -> Float:
    """Return the divisors of the gains at ranks ``1..n``."""
    rank = np.arange(1, n + 1, dtype=np.float64)
    if convention.discount == "log2(i+1)":
        return np.asarray(log2(rank + 1.0))
    return np.asarray(log2(np.maximum(rank, 2.0)))


class MeasureOptions(NamedTuple):
    """Parameters of a measure other than the ranking: ``cutoff`` is None for the whole list, ``fraction`` is the
    number after "@" of measures such as ``rbp@0.8``."""

    cutoff: int | None
    fraction: float
    relevance: float
    max_grade: float
    convention: Convention


Values = tuple[Float, NDArray[np.bool_]]


class Measure(NamedTuple):
    """A measure; ``cutoff`` states whether its name has a suffix ``@k``: "never", "optional" or "required", or a
    suffix such as ``@0.8``: "fraction".

    ``bounds`` is the range of its values, to which intervals are clipped. A measure that ``needs_judged`` counts rows
    with negative grades as not judged.
    """

    compute: Callable[[Ranking, MeasureOptions], Values]
    cutoff: str
    description: str
    bounds: tuple[float, float] = (0.0, 1.0)
    needs_judged: bool = False


def average_precision(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, count, n_relevant = _hits(ranking, settings)
    precision = np.zeros(hit.shape[0])
    if ranking.averaged:
        # In a run of n tied rows, r of them relevant, row j is relevant with probability r/n; given this, each of the j
        # - 1 rows before it in the run is relevant with probability (r - 1)/(n - 1).
        runs = ranking.runs
        r, others = runs.total(hit.astype(np.int64)), np.maximum(runs.size - 1, 1)
        above = (count - hit)[runs.first]
        found = above + 1 + (runs.place - 1) * (r - 1) / others
        precision = np.where(_within(ranking, settings), r / runs.size * found / ranking.rank, 0.0)
    else:
        at = np.flatnonzero(hit & _within(ranking, settings))
        precision[at] = count[at] / ranking.rank[at]
    return _ratio(segment_sum(precision, ranking.ranked_offsets), n_relevant), n_relevant == 0


def reciprocal_rank(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, count, n_relevant = _hits(ranking, settings)
    stop, reach = _first_relevant(hit, count, ranking)
    value = stop * reach / ranking.rank * _within(ranking, settings)
    return segment_sum(value, ranking.ranked_offsets), n_relevant == 0


def precision(ranking: Ranking, settings: MeasureOptions) -> Values:
    found, n_relevant = _found(ranking, settings)
    assert settings.cutoff is not None
    return found / settings.cutoff, n_relevant == 0


def recall(ranking: Ranking, settings: MeasureOptions) -> Values:
    found, n_relevant = _found(ranking, settings)
    return _ratio(found, n_relevant), n_relevant == 0


def dcg(ranking: Ranking, settings: MeasureOptions) -> Values:
    gain = ranking.averages(gains(ranking.ranked, settings.convention))
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
    if ranking.averaged:
        passed = _passed(1.0 - stop, ranking.runs, _within(ranking, settings))
        before = np.where(ranking.runs.place > 1, np.roll(passed, 1), 1.0)
        stop = 1.0 - _ratio(passed, before)
    return _stopped(stop, ranking, settings), _without_gain(ranking)


def _stopped(stop: Float, ranking: Ranking, settings: MeasureOptions) -> Float:
    """Return the mean of 1 / rank at which a user stops; ``stop`` is the probability of stopping at each row."""
    return segment_sum(
        stop * _reached(stop, ranking) / ranking.rank * _within(ranking, settings), ranking.ranked_offsets
    )


def _reached(stop: Float, ranking: Ranking) -> Float:
    """Return the probability that a user does not stop before each row."""
    reach = np.ones_like(stop)
    if stop.size:
        # probability of passing all earlier ranks: a segmented product that doubles its span at each step, so that the
        # rounding within a query does not depend on the queries before it
        reach[1:] = np.where(ranking.rank[1:] > 1, 1.0 - stop[:-1], 1.0)
        step, longest = 1, int(ranking.rank.max())
        while step < longest:
            reach[step:] *= np.where(ranking.rank[step:] > step, reach[:-step], 1.0)
            step *= 2
    return reach


def _passed(chance: Float, runs: Runs, needed: NDArray[np.bool_]) -> Float:
    """Return, for the j-th row of a run, the mean product of probabilities over all subsets of j rows of the run.

    These are elementary symmetric means: a random subset of j of m rows contains the m-th row with probability j/m. The
    time is the size of a run times its number of rows that are needed, those up to the cutoff.
    """
    mean = np.zeros_like(chance)
    rows = np.flatnonzero((runs.size > 1) & needed)
    mean[runs.size == 1] = chance[runs.size == 1]
    for m in range(1, int(runs.size.max(initial=1)) + 1):
        rows = rows[runs.size[rows] >= m]
        some = rows[runs.place[rows] <= m]
        j = runs.place[some]
        fewer = np.where(j > 1, mean[some - 1], 1.0)
        mean[some] = (1.0 - j / m) * mean[some] + j / m * chance[runs.first[some] + m - 1] * fewer
    return mean


def roc_area(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, count, n_relevant = _hits(ranking, settings)
    n_other = ranking.lengths - n_relevant
    n_found = segment_sum(hit.astype(np.int64), ranking.ranked_offsets)
    misses = np.diff(ranking.ranked_offsets) - n_found
    # Twice the number of non-relevant rows above each row, as a mean over all orders of ties: rows with a higher score
    # count twice, and rows with an equal score once. Integers keep the area exact.
    runs = ranking.runs
    above = ranking.rank - count - ~hit
    through = ranking.rank - count
    twice = runs.spread(above[runs.starts] + through[runs.starts + runs.sizes - 1])
    lost = segment_sum(np.where(hit, twice, 0), ranking.ranked_offsets)
    # rows that were not retrieved are tied at the last rank
    lost = lost + (n_relevant - n_found) * (2 * misses + (n_other - misses))
    pairs = n_relevant * n_other
    return _ratio((2 * pairs - lost).astype(np.float64), 2 * pairs), pairs == 0


def pairs_in_order(ranking: Ranking, settings: MeasureOptions) -> Values:
    grades, run = ranking.complete()
    offsets = ranking.offsets
    n_pairs = different_pairs(grades, offsets)
    # descending grades within runs of equal scores have no inversions, and count half
    ordered = grades[np.lexsort((-grades, run))]
    starts = np.flatnonzero(np.append(True, run[1:] != run[:-1])[: run.shape[0]])
    tied = different_pairs(ordered, np.append(starts, run.shape[0]))
    lost = 2 * inversions(ordered, offsets) + segment_sum(tied, np.searchsorted(starts, offsets))
    return _ratio((2 * n_pairs - lost).astype(np.float64), 2 * n_pairs), n_pairs == 0


def success(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, count, n_relevant = _hits(ranking, settings)
    stop, reach = _first_relevant(hit, count, ranking)
    return segment_sum(stop * reach * _within(ranking, settings), ranking.ranked_offsets), n_relevant == 0


def r_precision(ranking: Ranking, settings: MeasureOptions) -> Values:
    _, _, n_relevant = _hits(ranking, settings)
    found, _ = _found(ranking, settings, n_relevant)
    return _ratio(found, n_relevant), n_relevant == 0


def rank_biased_precision(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, _, n_relevant = _hits(ranking, settings)
    p = settings.fraction
    reach = np.concatenate(([1.0], np.full(int(ranking.rank.max(initial=1)), p))).cumprod()
    value = ranking.averages(hit.astype(np.float64)) * (1.0 - p) * reach[ranking.rank - 1]
    return segment_sum(value, ranking.ranked_offsets), n_relevant == 0


def interpolated_precision(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, count, n_relevant = _hits(ranking, settings)
    _check_ordered("iprec", ranking)
    # the number of relevant rows at this recall, rounded as in trec_eval
    wanted = np.floor(settings.fraction * n_relevant + 0.9)
    enough = hit & (count >= np.repeat(wanted, np.diff(ranking.ranked_offsets)))
    precision = np.where(enough, count / ranking.rank, 0.0)
    value = np.zeros(n_relevant.shape[0])
    filled = np.diff(ranking.ranked_offsets) > 0
    if filled.any():
        value[filled] = np.maximum.reduceat(precision, ranking.ranked_offsets[:-1][filled])
    return value, n_relevant == 0


def binary_preference(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, _, n_relevant = _hits(ranking, settings)
    _check_ordered("bpref", ranking)
    other = (ranking.grades >= 0) & (ranking.grades < settings.relevance)
    # a relevant row loses the fraction of the first R rows judged not relevant that are ranked above it
    most = np.repeat(n_relevant, np.diff(ranking.ranked_offsets))
    bound = np.minimum(segment_sum(other.astype(np.int64), ranking.offsets), n_relevant)
    above = _counted((ranking.ranked >= 0) & ~hit, ranking)
    lost = _ratio(
        np.minimum(above, most).astype(np.float64), np.repeat(bound, np.diff(ranking.ranked_offsets))
    )
    return _ratio(segment_sum(hit * (1.0 - lost), ranking.ranked_offsets), n_relevant), n_relevant == 0


def _check_ordered(name: str, ranking: Ranking) -> None:
    """Raise BadInput for a measure without a mean over the orders of tied rows."""
    if ranking.averaged:
        raise BadInput(
            "ties",
            f"expected scores without ties, or an order of tied rows for {name}",
            "pass {ties='row'} or {ties='docid'}, or evaluate a run, whose document ids decide",
        )


def set_precision(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, _, n_relevant = _hits(ranking, settings)
    found = segment_sum(hit.astype(np.float64), ranking.ranked_offsets)
    return _ratio(found, np.diff(ranking.ranked_offsets)), n_relevant == 0


def set_recall(ranking: Ranking, settings: MeasureOptions) -> Values:
    hit, _, n_relevant = _hits(ranking, settings)
    return _ratio(segment_sum(hit.astype(np.float64), ranking.ranked_offsets), n_relevant), n_relevant == 0


def set_f(ranking: Ranking, settings: MeasureOptions) -> Values:
    (precision, empty), (recall, _) = set_precision(ranking, settings), set_recall(ranking, settings)
    return _ratio(2.0 * precision * recall, precision + recall), empty


def _first_relevant(hit: NDArray[np.bool_], count: Int, ranking: Ranking) -> tuple[Float, Float]:
    """Return, for each row, the chance that it is the first relevant row if it is reached, and that it is reached."""
    if not ranking.averaged:
        return (hit & (count == 1)).astype(np.float64), np.ones(hit.shape[0])
    # If the j - 1 rows before row j of a run are not relevant, row j is relevant with probability r/(n - j + 1).
    runs = ranking.runs
    stop = np.minimum(runs.total(hit.astype(np.int64)) / (runs.size - runs.place + 1), 1.0)
    return stop, _reached(stop, ranking)


def _hits(ranking: Ranking, settings: MeasureOptions) -> tuple[NDArray[np.bool_], Int, Int]:
    """Return a mask of relevant ranked rows, their cumulative number, and the number of relevant rows per query."""
    hit = ranking.ranked >= settings.relevance
    n_relevant = segment_sum((ranking.grades >= settings.relevance).astype(np.int64), ranking.offsets)
    return hit, _counted(hit, ranking), n_relevant


def _counted(mask: NDArray[np.bool_], ranking: Ranking) -> Int:
    """Return, for each ranked row, the number of rows of its query up to it that are in the mask."""
    total = np.concatenate(([0], np.cumsum(mask, dtype=np.int64)))
    before = np.repeat(total[ranking.ranked_offsets[:-1]], np.diff(ranking.ranked_offsets))
    return np.asarray(total[1:] - before)


def _found(ranking: Ranking, settings: MeasureOptions, cutoff: Int | int | None = None) -> tuple[Float, Int]:
    """Return the number of relevant rows within the cutoff and the number of all relevant rows, per query."""
    hit, count, n_relevant = _hits(ranking, settings)
    cutoff = settings.cutoff if cutoff is None else cutoff
    assert cutoff is not None
    depth = np.minimum(np.diff(ranking.ranked_offsets), cutoff)
    found = np.zeros(depth.shape[0])
    last = (ranking.ranked_offsets[:-1] + depth - 1)[depth > 0]
    found[depth > 0] = count[last]
    if ranking.averaged:  # on average, the first j of n tied rows contain r j/n of the r relevant rows
        runs = ranking.runs
        r, above = runs.total(hit.astype(np.int64))[last], (count - hit)[runs.first[last]]
        found[depth > 0] = above + r * runs.place[last] / runs.size[last]
    return found, n_relevant


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
    "mrr": Measure(
        reciprocal_rank, "optional", "1 / rank of the first relevant row; with @k 0 if it is below rank k"
    ),
    "precision": Measure(precision, "required", "relevant rows among the first k, divided by k"),
    "recall": Measure(recall, "required", "relevant rows among the first k, divided by all relevant rows"),
    "ndcg": Measure(ndcg, "optional", "discounted gain divided by that of the best ranking"),
    "dcg": Measure(dcg, "optional", "discounted gain", UNBOUNDED),
    "err": Measure(expected_reciprocal_rank, "optional", "expected reciprocal rank (Chapelle et al. 2009)"),
    "roc": Measure(roc_area, "never", "area under the ROC curve; equal scores count half"),
    "pairs": Measure(
        pairs_in_order,
        "never",
        "share of pairs of rows with different grades in order; equal scores count half",
    ),
    "success": Measure(success, "required", "1 if a relevant row is among the first k (hit rate)"),
    "rprec": Measure(
        r_precision, "never", "relevant rows among the first R, divided by R, the number of relevant rows"
    ),
    "bpref": Measure(
        binary_preference,
        "never",
        "preferences of relevant rows to judged other rows; negative grades are not judged",
        needs_judged=True,
    ),
    "rbp": Measure(
        rank_biased_precision, "fraction", "rank-biased precision with persistence p (Moffat and Zobel 2008)"
    ),
    "iprec": Measure(
        interpolated_precision, "fraction", "largest precision at any recall of at least p, as in trec_eval"
    ),
    "set_precision": Measure(set_precision, "never", "relevant rows retrieved, divided by rows retrieved"),
    "set_recall": Measure(set_recall, "never", "relevant rows retrieved, divided by relevant rows"),
    "set_f": Measure(set_f, "never", "harmonic mean of set precision and set recall"),
}
