"""Which ranker wins, with which p, and how many more queries it takes: the answer for one click log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.online.statistics.always_valid import confidence_sequence, outcomes_needed
from structsvm.online.statistics.corrections import CORRECTIONS
from structsvm.online.statistics.credited import CreditedLog, credit_log
from structsvm.online.statistics.log import ClickLog
from structsvm.online.statistics.sample_size import queries_needed
from structsvm.online.statistics.significance import TESTS, TestResult, cluster_sums, standard_error
from structsvm.protocols import Float

__all__ = ["Analysis", "PairComparison", "analyse"]

_BIASED = {
    "balanced": "prefers a ranker even if clicks ignore the documents",
    "document_constraints": "prefers a ranker even if clicks ignore the documents",
    "sosm": "is fair to rankers only where clicks are even over the places",
}


@dataclass(frozen=True)
class PairComparison:
    """Two rankers of a log.

    Attributes
    ----------
    a, b : str
        Names; positive figures speak for ``a``.
    wins, losses, ties : int
        Queries by the outcome of the method (its expected sign for probabilistic interleaving).
    mean, lower, upper : float
        Mean of the test statistic a query and its ``1 - alpha`` t interval (cluster-robust if asked).
    p_values : dict
        Of each test, for this pair alone.
    p_value : float
        Of the chosen test, corrected for the number of pairs.
    leader : str or None
        The ranker that the chosen test speaks for, by its own statistic; None if that is zero. Sign and Wilcoxon test
        may speak for the one, the mean for the other: many small wins against few large ones.
    queries_needed : float
        Queries in all after which a test of the mean reaches the chosen level with the chosen power, if the data
        are typical; infinity where nothing differs, or the mean does not speak for the leader.
    preference : float or None
        Mean outcome in [-1, 1]: share of wins minus share of losses (SOSM: credit; optimised: credit a click, as a
        share of the most that the rankings of the query allow).
    preference_lower, preference_upper, always_valid_p_value, always_valid_queries_needed : float or None
        Of its confidence sequence, which holds however often the log is analysed while it grows; the p-value is
        corrected for the number of pairs. None where the credit has no bound.
    """

    a: str
    b: str
    wins: int
    losses: int
    ties: int
    mean: float
    lower: float
    upper: float
    p_values: dict[str, float]
    p_value: float
    leader: str | None
    queries_needed: float
    preference: float | None
    preference_lower: float | None
    preference_upper: float | None
    always_valid_p_value: float | None
    always_valid_queries_needed: float | None


@dataclass(frozen=True)
class Analysis:
    """The answer for a log.

    Attributes
    ----------
    method : str
    rankers : tuple of str
    n_impressions, n_clicked, n_missing_feedback, n_missing_record : int
        Used, of these with a click, and left out.
    n_repeated, n_identical : int
        Left out because the impression's id occurred before; used though the line, without an id, equals another.
    n_clusters : int or None
    test, statistic, correction, cluster : str or None
        What was chosen.
    alpha, power : float
    pairs : tuple of PairComparison
        In the order of the rankers.
    winner : str or None
        The ranker that beats every other with corrected ``p_value <= alpha``; None: not decided.
    leader : str
        The ranker that is ahead of most others; of several, the one with the largest summed means.
    notes : tuple of str
        What to keep in mind.
    """

    method: str
    rankers: tuple[str, ...]
    n_impressions: int
    n_clicked: int
    n_missing_feedback: int
    n_missing_record: int
    n_repeated: int
    n_identical: int
    n_clusters: int | None
    test: str
    statistic: str
    correction: str
    cluster: str | None
    alpha: float
    power: float
    pairs: tuple[PairComparison, ...]
    winner: str | None
    leader: str
    notes: tuple[str, ...]

    @property
    def always_valid_winner(self) -> str | None:
        """As ``winner``, by the always-valid p-values and intervals."""
        return _winner(self.rankers, self.pairs, self.alpha, always_valid=True)

    def more_queries(self) -> float:
        """Further queries until the leader is expected to have won: those of its slowest pair; 0 if it has."""
        if self.winner is not None:
            return 0.0
        open_pairs = [
            pair for pair in self.pairs
            if self.leader in (pair.a, pair.b) and (pair.p_value > self.alpha or pair.leader != self.leader)
        ]  # fmt: skip
        needed = max(math.inf if pair.leader != self.leader else pair.queries_needed for pair in open_pairs)
        # the data at hand were unlucky, or a point short of the power asked for: at least one query
        return needed if math.isinf(needed) else float(max(math.ceil(needed) - self.n_impressions, 1))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings and lists; infinity becomes None, as JSON has none."""
        more = self.more_queries()
        answer = asdict(self)
        answer["always_valid_winner"] = self.always_valid_winner
        answer["more_queries"] = more
        return _plain(answer)


def analyse(
    log: ClickLog | CreditedLog,
    *,
    test: str = "t",
    alpha: float = 0.05,
    power: float = 0.8,
    correction: str = "holm",
    cluster: str | None = None,
    weights: ArrayLike | None = None,
) -> Analysis:
    """Compare all rankers of a log.

    Parameters
    ----------
    log : ClickLog or CreditedLog
        From :func:`~structsvm.online.statistics.read_log`, or, for large logs, from
        :func:`~structsvm.online.statistics.read_credits`.
    test : {"t", "z", "sign", "wilcoxon"}
        The test that decides; the p-values of all four are in the answer.
    alpha : float, default=0.05
        Level of the decision and of the intervals.
    power : float, default=0.8
        Chance of a decision that ``queries_needed`` asks for; 0.5 is where the median p-value crosses alpha.
    correction : {"holm", "bh", "none"}
        For the number of pairs of rankers.
    cluster : {"user", "session"}, optional
        Take the queries of a user or session as dependent.
    weights : array-like, shape (14,), optional
        Click weights, such as ``ClickWeights.weights``: the statistic is then ``psi @ weights``. By default
        every click counts one (thesis eq. 7.1), or what the method credits. A CreditedLog has them already.

    Returns
    -------
    Analysis

    Raises
    ------
    ValueError
        For an unknown test, correction or method, a log without the cluster ids, weights for a method without teams;
        with the file and line it was read from, for an impression whose record its method cannot credit.

    Examples
    --------
    >>> from structsvm.online.interleaving import Shown
    >>> from structsvm.online.statistics import Click, Impression
    >>> shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    >>> clicked = [1, 1, 2, 1, 1, 1, 2, 1, 1, 1] * 4
    >>> log = ClickLog.of(Impression(shown, (Click(rank),), rankers=("old", "new")) for rank in clicked)
    >>> result = analyse(log)
    >>> result.winner, round(result.pairs[0].p_value, 6)
    ('old', 3.4e-05)
    """
    for name, value, known in (("test", test, tuple(TESTS)), ("correction", correction, tuple(CORRECTIONS))):
        if value not in known:
            raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: expected a number between 0 and 1, got {alpha!r}")
    if isinstance(log, ClickLog):
        log = credit_log(log, cluster=cluster, weights=weights)
    elif weights is not None:
        raise ValueError("weights: a credited log has its own; pass them to read_credits")
    clusters = None if cluster is None else log.clusters(cluster)
    pairs = _pairs(log, clusters, test, alpha, power, correction)
    winner, sure = _winner(log.rankers, pairs, alpha), _winner(log.rankers, pairs, alpha, always_valid=True)
    notes = _remarks(log, log.pairs[0].bounded is not None, log.weighted)
    notes += _contradictions(pairs, test, winner, sure)
    statistic = "outcome" if log.method == "probabilistic" else "credit"
    if log.weighted:
        statistic = "weighted clicks"
    return Analysis(
        method=log.method,
        rankers=log.rankers,
        n_impressions=log.n_impressions,
        n_clicked=log.n_clicked,
        n_missing_feedback=log.n_missing_feedback,
        n_missing_record=log.n_missing_record,
        n_repeated=log.n_repeated,
        n_identical=log.n_identical,
        n_clusters=None if clusters is None else int(clusters.max()) + 1,
        test=test,
        statistic=statistic,
        correction=correction,
        cluster=cluster,
        alpha=alpha,
        power=power,
        pairs=pairs,
        winner=winner,
        leader=_leader(log.rankers, pairs),
        notes=tuple(notes),
    )


def _remarks(log: CreditedLog, bounded: bool, weighted: bool) -> list[str]:
    """What a reader of the figures should know of the log."""
    notes = []
    if log.method in _BIASED:
        notes.append(f"{log.method} {_BIASED[log.method]}: a small difference may be its bias")
    if log.n_missing_feedback:
        notes.append(
            f"{log.n_missing_feedback} impressions have no feedback in the log: what was done with them must fit why"
        )
    if log.n_missing_record:
        notes.append(f"{log.n_missing_record} lines have no record of the list and were left out")
    if log.n_repeated:
        notes.append(f"{log.n_repeated} lines repeat the impression id of an earlier one and were left out")
    if log.n_identical:
        notes.append(
            f"{log.n_identical} lines without an impression id equal an earlier one, and count: if lines may be logged "
            "twice, log an id (Shown.with_impression), as repeats make a winner of chance"
        )
    if not bounded:
        notes.append(
            "credit beyond the bound of its record: no always-valid figures; log it with this release"
        )
    elif weighted:
        notes.append(
            "wins, losses and always-valid figures are by every click counting one, not by the weights"
        )
    return notes


def _contradictions(
    pairs: tuple[PairComparison, ...], test: str, winner: str | None, sure: str | None
) -> list[str]:
    """Where two ways to look at the same clicks name different rankers."""
    notes = []
    for pair in pairs:
        by_mean = pair.a if pair.mean > 0 else pair.b
        if pair.leader not in (None, by_mean) and pair.mean:
            notes.append(
                f"{pair.a} against {pair.b}: the {test} test speaks for {pair.leader}, the mean for {by_mean}, which "
                "wins less often and by more"
            )
    if None not in (winner, sure) and winner != sure:
        notes.append(
            f"the always-valid figures, which count queries and not how clearly they are won, name {sure}"
        )
    return notes


def _pairs(
    log: CreditedLog,
    clusters: Any,
    test: str,
    alpha: float,
    power: float,
    correction: str,
) -> tuple[PairComparison, ...]:
    """Every two rankers compared, p-values corrected for their number."""
    found = []
    for i, j in combinations(range(len(log.rankers)), 2):
        delta, outcome, bounded = log.pair(i, j)
        found.append((i, j, delta, outcome, bounded))
    tests = [
        {name: run(delta, clusters=clusters) for name, run in TESTS.items()} for _, _, delta, _, _ in found
    ]
    adjusted = CORRECTIONS[correction]([results[test].p_value for results in tests])
    # Bonferroni: the level at which even the hardest pair passes Holm's procedure
    level = alpha if correction == "none" else alpha / len(found)
    sequences = [None if b is None else _sequence(b, alpha, level, clusters) for *_, b in found]
    corrected: list[float | None] = [None] * len(found)
    if all(s is not None for s in sequences):
        corrected = CORRECTIONS[correction]([s["p"] for s in sequences if s is not None]).tolist()
    return tuple(
        PairComparison(
            log.rankers[i],
            log.rankers[j],
            int((sign > 0).sum()),
            int((sign < 0).sum()),
            int((sign == 0).sum()),
            float(delta.mean()),
            *_t_interval(delta, alpha, clusters),
            {name: result.p_value for name, result in results.items()},
            float(p),
            {1: log.rankers[i], -1: log.rankers[j]}.get(_direction(test, results[test])),
            queries_needed(delta, alpha=level, power=power, clusters=clusters)
            if np.sign(delta.mean()) == _direction(test, results[test])
            else math.inf,
            None if s is None else s["mean"],
            None if s is None else s["lower"],
            None if s is None else s["upper"],
            p_always,
            None if s is None else s["needed"],
        )
        for (i, j, delta, sign, _), results, p, s, p_always in zip(
            found, tests, adjusted, sequences, corrected, strict=True
        )
    )


def _sequence(bounded: Float, alpha: float, level: float, clusters: Sequence[Any] | None) -> dict[str, float]:
    seen = confidence_sequence(bounded, alpha=alpha, clusters=clusters)
    units = bounded
    if clusters is not None:
        total, size = cluster_sums(bounded, clusters)
        units = total / size
    return {
        "p": float(seen.p_values[-1]),
        "mean": float(seen.mean[-1]),
        "lower": float(seen.lower[-1]),
        "upper": float(seen.upper[-1]),
        "needed": outcomes_needed(units, alpha=level) * len(bounded) / len(units),
    }


def _t_interval(delta: Float, alpha: float, clusters: Sequence[Any] | None) -> tuple[float, float]:
    from scipy.special import stdtrit

    error, units = standard_error(delta, clusters)
    mean = float(delta.mean())
    if units < 2:
        return -math.inf, math.inf
    reach = float(stdtrit(units - 1, 1 - alpha / 2)) * error
    return mean - reach, mean + reach


def _direction(test: str, result: TestResult) -> int:
    """1 where the test speaks for the first ranker, -1 for the second, 0 for neither."""
    against = result.n / 2 if test == "sign" else 0.0
    return int(np.sign(result.statistic - against))


def _winner(
    rankers: tuple[str, ...], pairs: tuple[PairComparison, ...], alpha: float, *, always_valid: bool = False
) -> str | None:
    wins = dict.fromkeys(rankers, 0)
    for pair in pairs:
        p, ahead = _sure(pair) if always_valid else (pair.p_value, pair.leader)
        if p <= alpha and ahead is not None:
            wins[ahead] += 1
    best = max(rankers, key=wins.__getitem__)
    return best if wins[best] == len(rankers) - 1 else None


def _sure(pair: PairComparison) -> tuple[float, str | None]:
    """The always-valid p-value and, as it may be of an earlier look, the ranker on whose side the interval is now."""
    p, lower, upper = pair.always_valid_p_value, pair.preference_lower, pair.preference_upper
    if p is None or lower is None or upper is None:
        return 1.0, None
    return p, pair.a if lower > 0 else pair.b if upper < 0 else None


def _leader(rankers: tuple[str, ...], pairs: tuple[PairComparison, ...]) -> str:
    ahead = {name: [0.0, 0.0] for name in rankers}
    for pair in pairs:
        for name in (pair.a, pair.b):
            ahead[name][0] += 0 if pair.leader is None else 1 if name == pair.leader else -1
        ahead[pair.a][1] += pair.mean
        ahead[pair.b][1] -= pair.mean
    return max(rankers, key=lambda name: ahead[name])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
