"""Analysis of a click log: the winner, p-values and intervals, and the number of queries needed for a decision.

All results refer to one estimand: the mean of the statistic over queries or, with clusters, the mean of the cluster
means.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from os import PathLike
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_choice, check_fraction
from structsvm.common.frames import frame
from structsvm.common.portable.arrays import dot
from structsvm.common.records import plain
from structsvm.metrics import tests
from structsvm.online.clicklog import ClickLog, Impression
from structsvm.online.evidence.always_valid import counted_needed, counted_sequence
from structsvm.online.evidence.bets import log_evidence, p_value_of_best
from structsvm.online.evidence.clusters import cluster_means
from structsvm.online.interleaving.by_name import interleaver
from structsvm.online.statistics import significance
from structsvm.online.statistics.credited_log import CreditedLog, LogCounts, credit_log
from structsvm.online.statistics.sample_size import units_needed
from structsvm.plots.html_by import html_by
from structsvm.protocols import Float, Int


@dataclass(frozen=True)
class PairComparison:
    """Comparison of two rankers of a log; :class:`Analysis` describes the fields."""

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
    always_valid_lower: float
    always_valid_upper: float
    always_valid_p_value: float
    always_valid_queries_needed: float
    unit_wins: int | None = None
    unit_losses: int | None = None
    log_evidence: tuple[float, float] = (0.0, 0.0)
    test: str = "t"


@dataclass(frozen=True)
class Analysis(LogCounts):
    """The result of the analysis of a log.

    Attributes
    ----------
    method : str
        Interleaving method of the log.
    rankers : tuple of str
        Names of the rankers.
    n_impressions, n_clicked, n_missing_feedback : int
        Number of impressions used, of impressions with a click, and of lines left out because feedback is missing.
    n_repeated, n_identical : int
        Number of impressions left out because their id is repeated, and of lines without an id that equal an earlier
        line; the latter are kept.
    n_clusters : int or None
        Number of clusters; None without clusters.
    n_effective_clusters : float or None
        ``(sum n)^2 / sum n^2``: the number of clusters of equal size that would give the mean over queries the same
        variance.
    largest_cluster_share : float or None
        Share of the queries in the largest cluster.
    estimand : str
        Description of the number that all means, intervals, p-values and needed queries refer to.
    test, statistic, correction, cluster : str or None
        Settings of the analysis; ``test`` of a pair names the test that decided it.
    alpha, power : float
        Level of the decision and of the intervals, and power of the test with ``queries_needed`` queries.
    pairs : tuple of PairComparison
        Results of each pair, in the order of the rankers:

        * ``a``, ``b``: names of the rankers; positive figures favour ``a``;
        * ``wins``, ``losses``, ``ties``: numbers of queries by outcome. A fractional outcome (of the methods
          probabilistic, optimized and SOSM) is randomised: it counts as a win or loss, according to its sign, with
          probability ``|outcome|``, otherwise as a tie;
        * ``mean``, ``lower``, ``upper``: estimate of the ``estimand`` and its ``1 - alpha`` t interval for a log of
          fixed size, NaN if all values are equal;
        * ``p_values``: uncorrected p-value of each test that keeps its level for the method and the number of queries;
          ``p_value``: p-value of the test that decides, corrected for the number of pairs; ``test``: the name of this
          test. Below 30 queries (or clusters) with a difference, the t and the z test exceed their level. The exact
          randomization test of the mean then decides in their place or, for fractional outcomes, the sign test;
        * ``leader``: the ranker that the statistic of this test favours; None if the statistic is zero. If one
          ranker has many small wins and the other few large wins, a sign or Wilcoxon test may disagree with the mean;
        * ``queries_needed``: total number of queries at which a test of the mean reaches ``alpha`` with the chosen
          ``power``, if the data are typical; infinity if the mean is zero or the mean does not favour the leader;
        * ``always_valid_lower``, ``always_valid_upper``, ``always_valid_p_value``, ``always_valid_queries_needed``:
          results for the same estimand by a confidence sequence, valid for any number of analyses while the log grows.
          The interval is for this pair alone; the p-value is corrected for the number of pairs;
        * ``unit_wins``, ``unit_losses``: number of queries (or of clusters, by the sign of their mean) that the sign
          test counts as won and lost; None without a sign test;
        * ``log_evidence``: logarithm of the evidence that ``a`` beats ``b``, and of the reverse, valid at every look.
    fixed_sample_winner : str or None
        The ranker that beats every other ranker with corrected ``p_value <= alpha``, if any; valid if the log is
        analysed once, at a size fixed in advance. :attr:`winner` is valid at every look.
    leader : str
        The ranker that leads the most pairs; ties are broken by the largest sum of means.
    notes : tuple of str
        Remarks on the validity of the results.
    independent : bool
        False if users return but each impression counts as if it were of a different user; no winner is then named.

    Examples
    --------
    See :func:`structsvm.online.statistics.analyse`.
    """

    n_clusters: int | None
    n_effective_clusters: float | None
    largest_cluster_share: float | None
    estimand: str
    test: str
    statistic: str
    correction: str
    cluster: str | None
    alpha: float
    power: float
    pairs: tuple[PairComparison, ...]
    fixed_sample_winner: str | None
    leader: str
    notes: tuple[str, ...]
    independent: bool = True

    def __repr__(self) -> str:
        pair = min(self.pairs, key=lambda one: one.p_value)
        verdict = f"winner {self.winner!r}"
        if self.winner is None:
            verdict = f"not decided, ahead {self.leader!r}"
            if self.fixed_sample_winner is not None:
                verdict = f"winner {self.fixed_sample_winner!r} if the size was fixed in advance"
        if not self.independent:
            verdict = f"none named as users return, see notes and cluster='auto'; ahead {self.leader!r}"
        return f"Analysis({verdict}, smallest p = {pair.p_value:.2g}, {self.n_impressions} queries, {self.method})"

    def to_frame(self) -> Any:
        """Return ``pairs`` as a pandas DataFrame with one row per pair of rankers."""
        columns = [
            "wins",
            "losses",
            "ties",
            "mean",
            "lower",
            "upper",
            "p_value",
            "leader",
            "queries_needed",
            "always_valid_lower",
            "always_valid_upper",
            "always_valid_p_value",
            "always_valid_queries_needed",
        ]
        return frame(
            {name: [getattr(pair, name) for pair in self.pairs] for name in columns},
            index=[f"{pair.a} - {pair.b}" for pair in self.pairs],
            index_name="pair",
        )

    _repr_html_ = html_by("analysis")

    @property
    def winner(self) -> str | None:
        """The ranker shown to beat every other ranker, with an error bound valid at every look; None if there is none.

        With two rankers the always-valid p-value decides. With more rankers the evidence of
        :class:`~structsvm.online.bandits.BestArm` decides; its error probability is at most ``alpha`` for any number of
        rankers.
        """
        best, p = self._best()
        return best if self.independent and p <= self.alpha else None

    @property
    def winner_p_value(self) -> float:
        """The smallest ``alpha`` at which there would be a :attr:`winner`: its p-value, valid at every look."""
        return self._best()[1]

    def _best(self) -> tuple[str, float]:
        """Return the ranker with the most evidence that it beats every other, and the p-value of this claim."""
        if len(self.rankers) == 2:
            (pair,) = self.pairs
            return pair.a if pair.mean > 0 else pair.b, pair.always_valid_p_value
        sides = [
            side for pair in self.pairs for side in zip((pair.a, pair.b), pair.log_evidence, strict=True)
        ]
        weakest = {name: min(evidence for side, evidence in sides if side == name) for name in self.rankers}
        best = max(self.rankers, key=weakest.__getitem__)
        return best, p_value_of_best(weakest[best], len(self.rankers))

    def more_queries(self) -> float:
        """Return the number of further queries until the leader is expected to be the ``fixed_sample_winner``: 0 if it
        is already, or infinity if no number can be given, for example if users return and ``cluster`` is None."""
        if self.fixed_sample_winner is not None:
            return 0.0
        if not self.independent:
            return math.inf
        open_pairs = [
            pair
            for pair in self.pairs
            if self.leader in (pair.a, pair.b) and (pair.p_value > self.alpha or pair.leader != self.leader)
        ]
        needed = max(math.inf if pair.leader != self.leader else pair.queries_needed for pair in open_pairs)
        # at least one more, even if the log already has more queries than are typically needed
        return needed if math.isinf(needed) else float(max(math.ceil(needed) - self.n_impressions, 1))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain numbers, strings and lists; infinity becomes None for JSON."""
        return plain(
            vars(self)
            | {
                "winner": self.winner,
                "winner_p_value": self.winner_p_value,
                "more_queries": self.more_queries(),
            }
        )


def analyse(
    log: ClickLog | CreditedLog | tuple[ClickLog, Mapping[str, int]] | Iterable[Impression],
    *,
    test: str = "t",
    alpha: float = 0.05,
    power: float = 0.8,
    correction: str = "holm",
    cluster: str | None = None,
    weights: ArrayLike | None = None,
    random_state: int = 0,
) -> Analysis:
    """Compare all pairs of rankers of a log.

    Parameters
    ----------
    log : ClickLog, CreditedLog, TeamDraftLog or iterable of Impression
        From :func:`~structsvm.online.clicklog.read_log`, from
        :func:`~structsvm.online.statistics.read_credits` for large logs, or from
        :func:`~structsvm.clicks.read_team_draft_table` for a table.
    test : {"t", "z", "sign", "wilcoxon"}
        The test that decides; the result contains the p-values of all tests. In place of "t" and "z", an exact test
        decides below 30 queries (or clusters) with a difference (``PairComparison.test``). "wilcoxon" is the signed
        rank test of :func:`structsvm.metrics.compare`, exact for up to 50 values that are not zero; it requires a
        statistic that is symmetric for indifferent users, and is refused for methods without one. "sign" counts
        randomised wins if outcomes are fractional.
    alpha : float, default=0.05
        Level of the decision and of the intervals.
    power : float, default=0.8
        Power of the test with ``queries_needed`` queries; with 0.5 the median p-value reaches ``alpha``.
    correction : {"holm", "bh", "none"}
        Correction of the p-values for the number of pairs of rankers.
    cluster : {"auto", "user", "session"}, optional
        Treat the queries of a user or session as dependent. Each cluster then counts once, by its mean, so that a
        cluster with many queries (such as a bot) cannot decide alone. ``"auto"`` uses clusters if users (or sessions)
        return and every impression has an id. By default each query counts, and no winner is named if users return.
    weights : array-like, shape (14,), optional
        Click weights, such as ``ClickWeights.weights``; the statistic is then ``psi @ weights``. By default each click
        has weight 1 (thesis eq. 7.1) or the credit of the method. Not allowed for a CreditedLog, whose weights are
        given to :func:`read_credits`.
    random_state : int, default=0
        Seed for the randomised wins and losses of fractional outcomes.

    Returns
    -------
    Analysis

    Examples
    --------
    >>> from structsvm.online.interleaving import Shown
    >>> from structsvm.online.clicklog import Click, Impression
    >>> shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    >>> clicked = [1, 1, 2, 1, 1, 1, 2, 1, 1, 1] * 4
    >>> log = ClickLog.of(Impression(shown, (Click(rank),), rankers=("old", "new")) for rank in clicked)
    >>> result = analyse(log)
    >>> result.winner, result.fixed_sample_winner, round(result.pairs[0].p_value, 6)
    ('old', 'old', 3.4e-05)
    >>> (pair,) = result.pairs
    >>> print(f"{pair.mean:.2f} [{pair.lower:.2f}, {pair.upper:.2f}], {pair.queries_needed:.0f} queries needed")
    0.60 [0.34, 0.86], 14 queries needed
    """
    # check the settings before a large log is credited
    settings = Settings(test, alpha, power, correction)
    if isinstance(log, (str, PathLike)) or hasattr(log, "columns"):
        shown = f"the path {str(log)!r:.80}" if isinstance(log, (str, PathLike)) else "a data frame"
        raise BadInput(
            "log",
            f"expected a log, got {shown}",
            "read it with read_log or, for a table, with structsvm.clicks.read_team_draft_table",
        )
    # a TeamDraftLog is a tuple of a log and the counts of lines left out
    if isinstance(log, tuple) and log and isinstance(log[0], ClickLog):
        log = log[0]
    if not isinstance(log, (ClickLog, CreditedLog)):
        log = ClickLog.of(cast(Iterable[Impression], log))
    if isinstance(log, ClickLog):
        log = credit_log(log, cluster=cluster, weights=weights)
    elif weights is not None:
        raise BadInput("weights", "expected none for a credited log", "pass them to read_credits")
    elif cluster not in ("auto", log.cluster):
        raise BadInput("cluster", f"expected {log.cluster!r}, the cluster of the credited log", value=cluster)
    if test == "wilcoxon" and log.draws_outcome:
        raise BadInput(
            "test",
            f"wilcoxon needs a statistic that is symmetric about 0 for indifferent users, got a log of {log.method}: "
            "use 't'",
        )
    return answered(log, _pairs(log, settings, random_state), settings)


@dataclass(frozen=True)
class Settings:
    """Settings of an analysis; :func:`analyse` describes the fields."""

    test: str
    alpha: float
    power: float
    correction: str

    def __post_init__(self) -> None:
        check_choice("test", self.test, significance.TESTS)
        check_choice("correction", self.correction, significance.CORRECTIONS)
        check_fraction("alpha", self.alpha)
        check_fraction("power", self.power)

    def level(self, n_pairs: int) -> float:
        """Return the level at which every pair passes Holm's procedure, which is Bonferroni's level."""
        return self.alpha if self.correction == "none" else self.alpha / n_pairs


_OF_LOG = (
    "method",
    "rankers",
    "n_impressions",
    "n_clicked",
    "n_missing_feedback",
    "n_repeated",
    "n_identical",
    "cluster",
    "estimand",
    "statistic",
)
"""Fields of an analysis that are copied from its log."""


def answered(log: CreditedLog, pairs: tuple[PairComparison, ...], settings: Settings) -> Analysis:
    """Return the analysis from the comparison of each pair of rankers."""
    # without clusters, impressions of returning users are dependent, so no winner is named
    independent = log.cluster is not None or log.again is None
    winner = _winner(log.rankers, pairs, settings.alpha) if independent else None
    clusters: dict[str, Any] = dict.fromkeys(("n_clusters", "n_effective_clusters", "largest_cluster_share"))
    if log.codes is not None:
        sizes = np.bincount(log.codes)
        effective = float(sizes.sum() ** 2 / (sizes.astype(float) ** 2).sum())
        clusters = dict(zip(clusters, (len(sizes), effective, float(sizes.max() / sizes.sum())), strict=True))
    # for cluster sizes n the effective number of clusters is (sum n)^2 / sum n^2 (Kish)
    answer = Analysis(
        **{name: getattr(log, name) for name in _OF_LOG},
        **clusters,
        **asdict(settings),
        pairs=pairs,
        fixed_sample_winner=winner,
        leader=_leader(log.rankers, pairs),
        notes=(),
        independent=independent,
    )
    # the always-valid winner is a property of the analysis
    notes = _remarks(log, *(value or 0 for value in clusters.values()))
    return replace(answer, notes=(*notes, *_contradictions(pairs, winner, answer.winner)))


def _remarks(log: CreditedLog, n_clusters: int, n_effective: float, largest: float) -> list[str]:
    """Return remarks on the validity of the results; without clusters, ``n_clusters`` is 0."""
    # most important first: bias of the method, lines left out, dependence, choice of pairs, definition of the results
    cluster, bias = log.cluster, interleaver(log.method).bias
    by, n_again, n_looked = log.again or ("", 0, 0)
    remarks = (
        (bias, f"{log.method} {bias}: a small difference may be due to this bias"),
        (
            log.n_missing_feedback,
            f"{log.n_missing_feedback} impressions have no feedback in the log: the reason determines how to treat "
            "them",
        ),
        (
            log.n_without,
            f"{log.n_without} impressions have no {cluster} and were left out: a ranker must not affect whether "
            "they have one",
        ),
        (log.n_same, f"{log.n_same} lists were left out, since the rankers agree on them"),
        (
            log.n_repeated,
            f"{log.n_repeated} lines repeat the impression id of an earlier one and were left out",
        ),
        (
            log.n_identical,
            f"{log.n_identical} lines without an impression id equal an earlier one and count: if lines may be logged "
            "twice, log an id (Shown.with_impression), as repeats can make a random difference significant",
        ),
        (
            log.again is not None and cluster is None,
            f"{n_again:,} of the first {n_looked:,} impressions are from a {by} seen before, and each counts as if "
            f"it were from a new {by}: preferences of a few {by}s could decide, so no winner is named; analyse with "
            f"cluster={by!r} (--cluster {by}), which requires a {by} in every impression",
        ),
        (
            n_clusters,
            f"the largest of {n_clusters:,} {cluster}s has {largest:.1%} of the queries; weighted by queries, they "
            f"would be equivalent to {n_effective:,.1f} {cluster}s of equal size; each {cluster} counts once",
        ),
        (
            log.met is not None,
            "a bandit chose which rankers to compare, and preferred winners: only the always-valid results keep their "
            "level; the results of a pair are based on the queries that compared it (wins + losses + ties)",
        ),
        (log.weighted, "wins and losses count each click as one; all other results use the click weights"),
        (
            log.draws_outcome,
            "wins, losses and the sign test randomise each fractional outcome, since its sign alone would favour a "
            "ranker; there is no Wilcoxon test, since outcomes are not symmetric",
        ),
    )
    return [text for applies, text in remarks if applies]


def _contradictions(pairs: tuple[PairComparison, ...], winner: str | None, sure: str | None) -> list[str]:
    """Return remarks on pairs for which the mean, the test and the always-valid results favour different rankers."""
    notes = []
    for pair in pairs:
        by_mean = pair.a if pair.mean > 0 else pair.b
        if pair.leader not in (None, by_mean) and pair.mean:
            notes.append(
                f"{pair.a} against {pair.b}: the {pair.test} test favours {pair.leader}, the mean {by_mean}, which "
                "wins less often, but by more"
            )
    if None not in (winner, sure) and winner != sure:
        notes.append(f"the always-valid results, which refer to the mean, favour {sure}")
    return notes


def compared(
    names: tuple[str, str],
    values: Float,
    counts: Int,
    outcomes: tuple[int, int, int],
    settings: Settings,
    n_pairs: int,
    *,
    bound: float,
    drawn: tuple[int, int] | None = None,
    per_unit: float = 1.0,
    clustered: bool = False,
) -> PairComparison:
    """Return the comparison of a pair, given the distinct ``values`` of its statistic (ascending) and their ``counts``.

    The p-values are not yet corrected for the number of pairs (:func:`corrected`). Each value belongs to a unit: a
    query or, if ``clustered``, a cluster of ``per_unit`` queries on average (0 if the two rankers were never compared).
    ``outcomes`` are the numbers of won, lost and tied queries, and ``drawn`` the numbers of units that the randomised
    sign test counts as won and lost.
    """
    estimate = tests.mean_of(values, counts=counts)
    n, mean = int(counts.sum()), estimate.mean
    # A sign, rank or randomization test keeps its level only if the statistic is symmetric for indifferent users.
    # Fractional outcomes have mean zero without this symmetry: their signs are drawn.
    sign = tests.sign(values, counts) if drawn is None else tests.sign_of_counts(*drawn)
    results = {"sign": sign}
    few = tests.n_nonzero(values, counts) < tests.EXACT
    if not few:
        t = tests.student(values, counts)
        # The z test of thesis 7.1.1 divides the variance by n. Clusters are often few, so theirs is Student's t.
        results |= {"z": t if clustered else tests.normal(values, counts), "t": t}
    if drawn is None:
        results["wilcoxon"] = tests.wilcoxon(values, counts)
        if few:
            results["randomization"] = tests.randomization(values, counts)
    test, level = settings.test, settings.level(n_pairs)
    if few and test in ("t", "z"):
        test = "randomization" if drawn is None else "sign"
    if test not in results:
        raise BadInput("test", f"expected one of {', '.join(results)} for this log", value=test)
    chosen, direction = results[test], results[test].direction
    # if the mean and the test favour different rankers, no number of queries suffices
    needed, met = math.inf, per_unit > 0
    if met and np.sign(mean) == direction:
        needed = per_unit * units_needed(
            mean, dot((values - mean) ** 2, counts) / n, n, level, settings.power
        )
    # only rounding can move a value beyond the bound
    unit = np.clip(values / bound, -1.0, 1.0)
    lower, upper = estimate.interval(1 - settings.alpha)
    always_lower, always_upper, p = (
        counted_sequence(unit, counts, settings.alpha) if met else (-1.0, 1.0, 1.0)
    )
    return PairComparison(
        a=names[0],
        b=names[1],
        wins=outcomes[0],
        losses=outcomes[1],
        ties=outcomes[2],
        mean=mean,
        lower=lower,
        upper=upper,
        p_values={name: result.p_value for name, result in results.items()},
        p_value=chosen.p_value,
        leader={1: names[0], -1: names[1]}.get(direction),
        queries_needed=needed,
        always_valid_lower=bound * always_lower,
        always_valid_upper=bound * always_upper,
        always_valid_p_value=p,
        always_valid_queries_needed=per_unit * counted_needed(unit, counts, level) if met else math.inf,
        log_evidence=log_evidence((1.0 + unit) / 2.0, counts),
        unit_wins=int(sign.statistic),
        unit_losses=sign.n - int(sign.statistic),
        test=chosen.test,
    )


def corrected(pairs: Sequence[PairComparison], settings: Settings) -> tuple[PairComparison, ...]:
    """Return the comparisons with ``p_value`` and ``always_valid_p_value`` corrected for the number of pairs."""
    correct = significance.CORRECTIONS[settings.correction]
    p_values: Any = correct([pair.p_value for pair in pairs]).tolist()
    always: Any = correct([pair.always_valid_p_value for pair in pairs]).tolist()
    return tuple(
        replace(pair, p_value=p, always_valid_p_value=q)
        for pair, p, q in zip(pairs, p_values, always, strict=True)
    )


def _pairs(log: CreditedLog, settings: Settings, random_state: int) -> tuple[PairComparison, ...]:
    """Return the comparison of each pair of rankers, with p-values corrected for the number of pairs."""
    rng = np.random.default_rng(random_state)
    pairs, names = [], combinations(log.rankers, 2)
    for k, ((delta, _), signs) in enumerate(zip(log.pairs, log.signs(random_state), strict=True)):
        won, lost, tied = (int((signs == sign).sum()) for sign in (1, -1, 0))
        clusters = log.clusters_of(k)
        # rankers that the bandit never compared have no values: use a single tie, which is not evidence
        means = cluster_means(delta, clusters) if len(delta) else np.zeros(1)
        drawn = None
        if log.draws_outcome:
            units = signs if clusters is None else significance.drawn_signs(means, rng)
            drawn = int((units > 0).sum()), int((units < 0).sum())
        pairs.append(
            compared(
                next(names),
                *np.unique(means, return_counts=True),
                (won, lost, tied),
                settings,
                len(log.pairs),
                bound=log.bound,
                drawn=drawn,
                per_unit=len(delta) / len(means),
                clustered=clusters is not None,
            )
        )
    return corrected(pairs, settings)


def _winner(rankers: tuple[str, ...], pairs: tuple[PairComparison, ...], alpha: float) -> str | None:
    # a winner beats every other ranker, so there is at most one
    won = [pair.leader for pair in pairs if pair.p_value <= alpha]
    return next((name for name in rankers if won.count(name) == len(rankers) - 1), None)


def _leader(rankers: tuple[str, ...], pairs: tuple[PairComparison, ...]) -> str:
    # compare rankers by the number of pairs led minus the number trailed, then by the sum of their means
    def standing(name: str) -> tuple[int, float]:
        decided = [pair for pair in pairs if name in (pair.a, pair.b) and pair.leader is not None]
        led = sum(1 if pair.leader == name else -1 for pair in decided)
        means = (pair.mean if name == pair.a else -pair.mean for pair in pairs if name in (pair.a, pair.b))
        return led, math.fsum(means)

    return max(rankers, key=standing)
