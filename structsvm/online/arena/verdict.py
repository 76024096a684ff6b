"""Analysis of an arena: the best model according to pairwise votes, the error probability of this verdict, the evidence
for each pair, and a leaderboard."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.frames import frame
from structsvm.common.portable.elementary import exp, log
from structsvm.common.records import plain
from structsvm.online.arena.judges import Agreement, agreements
from structsvm.online.arena.strengths import Strengths, components, fit_p_value, neutral_wins, strengths
from structsvm.online.arena.votes import Comparisons, Votes, comparisons
from structsvm.online.bandits.best_arm import PRIOR, BestArm
from structsvm.online.evidence.always_valid import counted_sequences
from structsvm.online.evidence.bets import error_of_best, error_of_top, mixture, thresholds
from structsvm.protocols import Float, Int

MOST_MODELS = 1000
_ENDS = ("lower", "upper", "best_rank", "worst_rank")
_SORTED = -3.719016485455709  # the 0.0001 quantile of the normal distribution


@dataclass(frozen=True)
class PairEvidence:
    """Votes on one pair and their evidence.

    Attributes
    ----------
    first, second : str
        Names of the models.
    n_votes : int
        Number of votes on the pair.
    share : float
        Share of the votes that ``first`` won; a tie is half a vote.
    lower, upper : float
        Interval of the probability that ``first`` wins, for all pairs and all looks at once; 0 and 1 without
        comparisons.
    log_evidence, log_evidence_against : float
        Largest logarithm so far of the evidence that ``first`` beats ``second``, and of the reverse.

    Examples
    --------
    See :func:`structsvm.online.arena.arena`.
    """

    first: str
    second: str
    n_votes: int
    share: float
    lower: float
    upper: float
    log_evidence: float
    log_evidence_against: float


ONE_LOOK = "the order of the votes is unknown: the verdict is valid at one look only"


@dataclass(frozen=True)
class Arena:
    """The result of :func:`arena`.

    Attributes
    ----------
    verdict : str
        The conclusion in one sentence.
    decided : bool
        Whether the verdict makes a claim. The probability of a wrong claim, at any look, is at most ``alpha``.
    best : list of str
        The model (or the ``top`` models, in descending order of mean win rate) shown to be best; empty if no model is
        shown to be best.
    leader : str
        The model shown to be best, otherwise the model that the votes on its pairs contradict least; with ``top``, the
        one with the highest mean win rate.
    candidates : list of str
        Models that could still be the best.
    level : float or None
        The smallest ``alpha`` at which ``best`` would be declared; None if ``best`` is empty.
    more : tuple of int or None
        Range of the number of further votes needed for a decision; None after the decision, or if no forecast is
        possible.
    strengths : list of Strengths
        Strengths of each connected component of the models; a single entry if the votes connect all models.
    pairs : list of PairEvidence
        The pairs with votes.
    first_shown : float
        Share of the votes won by the model that was shown first.
    fit_p_value : float or None
        p-value of "the votes follow a Bradley-Terry model"; if it is small, trust the pairs, not the strengths.
    n_votes, n_questions, n_ties : int
        Numbers of votes, of distinct questions (None if the votes have no questions) and of ties.
    alpha : float
        Largest probability of a wrong verdict.
    order : str
        Option of :func:`arena`.
    cluster : str
        What the votes are grouped by: "question", "judge" or "none".
    judges : list of Agreement
        Agreement of each judge with the others and with itself; empty unless judges and questions are known.
    notes : list of str
        Remarks on the votes that affect how to read the verdict and the strengths.
    votes : Votes
        The votes.
    threshold : float
        Logarithm of the evidence that the verdict requires.
    paths : dict of str to (ndarray, ndarray)
        By model that was compared with the leader: the numbers of the votes at which evidence was added, and the
        logarithm of the evidence that the leader beats the model after each.

    Examples
    --------
    See :func:`structsvm.online.arena.arena`.
    """

    verdict: str
    decided: bool
    best: list[str]
    leader: str
    candidates: list[str]
    level: float | None
    more: tuple[int, int] | None
    strengths: list[Strengths]
    pairs: list[PairEvidence]
    first_shown: float
    fit_p_value: float | None
    n_votes: int
    n_questions: int | None
    n_ties: int
    alpha: float
    order: str
    cluster: str
    judges: list[Agreement]
    notes: list[str]
    votes: Votes
    threshold: float
    paths: dict[str, tuple[Int, Float]]

    def __repr__(self) -> str:
        return f"Arena({self.verdict!r}, n_votes={self.n_votes}, n_models={len(self.votes.models)})"

    @property
    def models(self) -> list[str]:
        """Names of the models in leaderboard order: by connected component, in descending order of strength."""
        return [row["model"] for row in self.rows()]

    def rows(self) -> list[dict[str, Any]]:
        """Return the leaderboard: one record per model, with strength, interval, ranks, win rate and votes."""
        won, plays = self.votes.wins().sum(axis=1), self.votes.tables()[0]
        votes = plays.sum(axis=1) + plays.sum(axis=0)
        out = []
        for part, group in enumerate(self.strengths):
            for k in np.argsort(-group.strength, kind="stable"):
                model = int(group.models[k])
                out.append(
                    {
                        "model": self.votes.models[model],
                        "strength": float(group.strength[k]),
                        **{name: getattr(group, name)[k].item() for name in _ENDS},
                        "win_rate": float(won[model] / votes[model]),
                        "votes": int(votes[model]),
                        "part": part + 1,
                    }
                )
        return out

    def to_frame(self) -> Any:
        """Return the leaderboard as a pandas DataFrame with one row per model."""
        rows = self.rows()
        return frame({key: [row[key] for row in rows] for key in rows[0]})

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON-serialisable record; infinite ends of intervals become None."""
        names = (
            "verdict",
            "decided",
            "best",
            "leader",
            "candidates",
            "level",
            "more",
            "alpha",
            "order",
            "cluster",
            "n_votes",
            "n_questions",
            "n_ties",
            "first_shown",
            "fit_p_value",
            "notes",
        )
        record = {name: getattr(self, name) for name in names} | {
            "dropped": self.votes.dropped,
            "models": self.rows(),
            "order_effect": [{"log_odds": s.order, "error": s.order_error} for s in self.strengths],
            "pairs": self.pairs,
            "judges": self.judges,
        }
        return plain(record)


def arena(
    votes: Votes,
    *,
    alpha: float = 0.05,
    epsilon: float = 0.0,
    top: int = 1,
    order: str = "matched",
    cluster: str | None = None,
    repeats: bool = False,
    unordered: bool = False,
) -> Arena:
    """Determine the best of several models from pairwise votes, with an error guarantee that holds at every look.

    Parameters
    ----------
    votes : Votes
        :func:`read_votes` reads them from a file or frame.
    alpha : float, default=0.05
        Bound on the probability that the verdict is ever wrong: that a model other than the best is declared best, or
        that the best model is excluded. It holds for any choice of pairs and any number of looks.
    epsilon : float, default=0
        If positive, look for a model whose win rate against every other model is above ``1/2 - epsilon``.
    top : int, default=1
        Number of best models to find.
    order : {"matched", "random", "unknown"}, default="matched"
        ``"matched"``: votes in the two orders of showing count in equal numbers, so that an advantage of the model
        shown first causes no bias. ``"random"``: the order of each vote was drawn at random; all votes count.
        ``"unknown"``: the order is not known; all votes count, and a preference for the model shown first biases the
        verdict.
    cluster : {"question", "judge", "none"}, optional
        Adjacent votes on a pair with the same question (or judge) count as one; with ``"none"`` each vote counts. The
        default is the judge if judges voted one after the other, each on questions of their own, otherwise the
        question, if it is known.
    repeats : bool, default=False
        Whether further votes on a question, of one pair in one order, count, too. By default the first one counts: if
        a question is asked again until an answer fits, the mean of its votes favours that answer. The number of votes
        on a question must not depend on the answers.
    unordered : bool, default=False
        Whether the order in which the votes were given is unknown. If so, the votes are shuffled, and the verdict is
        valid at one look only.

    Returns
    -------
    Arena

    Raises
    ------
    BadInput
        If there are no votes, fewer than two or more than 1,000 models, or if the votes are sorted by winner.

    Notes
    -----
    The evidence is computed as in :class:`structsvm.online.bandits.BestArm`, which also chooses the next pairs.
    Strengths and ranks come from a Bradley-Terry model with ties as half wins and a term for the order; their
    intervals are for one look. The verdict does not depend on that model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> first = rng.integers(3, size=400)
    >>> second = (first + rng.integers(1, 3, size=400)) % 3
    >>> quality = np.array([0.0, 2.0, 0.5])
    >>> share = rng.random(400) < 1 / (1 + np.exp(quality[second] - quality[first]))
    >>> result = arena(Votes(["short", "examples", "steps"], first, second, share.astype(float)))
    >>> result
    Arena('examples is best: it beats each of the 2 others', n_votes=400, n_models=3)
    """
    n_models = len(votes.models)
    if len(votes) == 0:
        raise BadInput("votes", "expected at least one vote, got none", votes.dropped.said())
    if not 2 <= n_models <= MOST_MODELS:
        raise BadInput("votes", f"expected 2 to {MOST_MODELS:,} models, got {n_models}")
    name, codes = votes.clusters(cluster)
    if codes is not None and len(np.unique(codes)) < 2:
        raise BadInput("cluster", f"expected votes on several {name}s, got one", "use 'none'", value=name)
    n_given, judges = len(votes), agreements(votes)
    votes = votes if repeats else votes.once(name)
    if unordered:
        votes = _shuffled(votes, votes.clusters(name)[1])
    else:
        _check_order(votes, name)
    codes = votes.clusters(name)[1]
    compared = comparisons(votes, order, name)
    bandit, paths = _entered(votes, compared, order, alpha, epsilon, top)
    # the largest capital so far depends on the order of the votes: if that is unknown, only the final capital counts
    if unordered:
        bandit.peak = np.array(mixture(bandit.growth))
    peak = bandit.peak
    levels = thresholds(alpha, n_models, epsilon, top)
    board = strengths(votes, codes, order != "unknown")
    pairs = _pairs(votes, compared, peak, alpha)
    names = votes.models
    # once the best arms are identified, they are the leaders; ``decided`` is -1 before, and -2 if all are excluded
    decided = bandit.decided()
    rates = bandit.rates().mean(axis=1)
    leaders = sorted(bandit.leaders().tolist(), key=lambda arm: -rates[arm]) if top > 1 else [bandit.best()]
    best = [names[arm] for arm in leaders] if decided >= 0 else []
    # a model is excluded if any other model is shown to beat it
    excluded = peak.max(axis=0) >= levels[1]
    candidates = best or [model for model, out in zip(names, excluded, strict=True) if not out]
    more = None if decided != -1 or top > 1 else _more(bandit, levels[0], leaders[0])
    notes = _notes(votes, compared, order, name, board, components(votes), unordered, n_given)
    strongest = [int(one.models[one.strength.argmax()]) for one in board]
    if decided == -1 and top == 1 and leaders[0] not in strongest:
        notes.append("the votes contradict the leader least, but another model has the largest strength")
    if not compared.share.size and order == "matched":
        verdict = "no verdict: no pair was shown in both orders; show both, or declare the order random"
        if compared.repeated:
            verdict = (
                f"no verdict: votes on a pair and {name} count only if they are adjacent, but those in the other "
                f"order come later; sort the votes by {name}, or use cluster 'none' if each vote is independent"
            )
    else:
        verdict = _verdict(names, decided, leaders, candidates, epsilon, top)
    return Arena(
        verdict=verdict,
        decided=decided != -1,
        best=best,
        leader=names[leaders[0]],
        candidates=candidates,
        level=_level(peak, leaders, epsilon, top) if best else None,
        more=more,
        strengths=board,
        pairs=pairs,
        first_shown=float(votes.share.mean()),
        fit_p_value=fit_p_value(votes, name, order != "unknown"),
        n_votes=len(votes),
        n_questions=None if votes.question is None else len(np.unique(votes.question)),
        n_ties=int((votes.share == 0.5).sum()),
        alpha=alpha,
        order=order,
        cluster=name,
        judges=judges,
        notes=notes,
        votes=votes,
        threshold=levels[0],
        paths={names[arm]: paths[leaders[0], arm] for arm in range(n_models) if (leaders[0], arm) in paths},
    )


def bandit_of(
    votes: Votes,
    *,
    alpha: float = 0.05,
    epsilon: float = 0.0,
    top: int = 1,
    order: str = "matched",
    cluster: str | None = None,
    repeats: bool = False,
) -> BestArm:
    """Return the :class:`~structsvm.online.bandits.BestArm` that chooses the next pairs, in its state after the votes.

    Parameters
    ----------
    votes, alpha, epsilon, top, order, cluster, repeats
        As for :func:`arena`.

    Returns
    -------
    BestArm

    Examples
    --------
    >>> votes = Votes(["a", "b"], np.array([0, 1]), np.array([1, 0]), np.array([1.0, 0.0]))
    >>> bandit_of(votes).best()
    0
    """
    name = votes.clusters(cluster)[0]
    votes = votes if repeats else votes.once(name)
    return _entered(votes, comparisons(votes, order, name), order, alpha, epsilon, top)[0]


def _entered(
    votes: Votes, compared: Comparisons, order: str, alpha: float, epsilon: float, top: int
) -> tuple[BestArm, dict[tuple[int, int], tuple[Int, Float]]]:
    """Return a bandit in the state after the votes, and the evidence of each ordered pair over time."""
    n_models = len(votes.models)
    bandit = BestArm(n_models, alpha=alpha, epsilon=epsilon, top=top)
    # in matched order, an advantage of the model shown first must not choose the leader either
    bandit.wins = neutral_wins(votes) if order == "matched" and len(votes) else votes.wins()
    bandit.t = len(votes)
    # all comparisons of a pair are added at once, in order, since the evidence of a pair depends on no other pair
    evidence = bandit.evidence()
    paths = {}
    key = compared.first * n_models + compared.second
    by_pair = np.argsort(key, kind="stable")
    for rows in np.split(by_pair, np.flatnonzero(np.diff(key[by_pair])) + 1):
        if rows.size:
            i, j = int(compared.first[rows[0]]), int(compared.second[rows[0]])
            ahead, behind = evidence.extend(i, j, compared.share[rows])
            paths[i, j], paths[j, i] = (compared.at[rows], ahead), (compared.at[rows], behind)
    return bandit, paths


def _shuffled(votes: Votes, codes: Int | None) -> Votes:
    """Return the votes in random order; votes of one cluster stay together, as they are one outcome."""
    codes = np.arange(len(votes)) if codes is None else codes
    drawn = np.random.default_rng(0).permutation(int(codes.max()) + 1)
    return votes.take(np.argsort(drawn[codes], kind="stable"))


def _check_order(votes: Votes, cluster: str) -> None:
    """Raise BadInput if the votes look sorted by winner: an early look would include only wins of one model."""
    # Test for sorting by winner, and by whether the model shown first won: then the two orders of a pair count as two
    # pairs. Matching the orders would hide the sorting.
    for one in (votes, replace(votes, models=[*votes.models] * 2, second=votes.second + len(votes.models))):
        whole = comparisons(one, "unknown", cluster)
        if not votes.in_turns() or votes.judge is None:
            _refuse_sorted(one, whole)
            continue
        # tastes of judges who voted one after the other look sorted: each pair of each judge counts as a pair
        judge = np.unique(votes.judge, return_inverse=True)[1] * len(one.models)
        models = one.models * (int(judge.max()) // len(one.models) + 1)
        within = replace(one, models=models, first=one.first + judge, second=one.second + judge)
        _refuse_sorted(within, comparisons(within, "unknown", "none" if cluster == "judge" else cluster))
        if _looks_sorted(one, whole):
            raise BadInput(
                "votes",
                "expected independent votes, but those of one judge resemble each other",
                "pass {cluster=judge}" if cluster != "judge" else "give a column 'time'",
            )


def _refuse_sorted(votes: Votes, compared: Comparisons) -> None:
    """Raise BadInput if the votes look sorted by winner."""
    if _looks_sorted(votes, compared):
        raise BadInput(
            "votes",
            "expected them in the order in which they were given, but they look sorted by winner",
            "give a column 'time' (and 'judge', if judges voted one after the other), or pass {unordered=True}",
        )


def _looks_sorted(votes: Votes, compared: Comparisons) -> bool:
    """Return whether wins and losses of the pairs form too few runs, with p < 0.0001 (Wald and Wolfowitz)."""
    # Given n1 wins and n2 losses of a pair in random order, the number of runs has mean 1 + 2 n1 n2 / n and variance
    # 2 n1 n2 (2 n1 n2 - n) / (n^2 (n - 1)). Differences from the mean and variances
    # are summed over the pairs.
    key = compared.first * len(votes.models) + compared.second
    clear = compared.share != 0.5
    order = np.flatnonzero(clear)[np.argsort(key[clear], kind="stable")]
    excess = variance = 0.0
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        won = compared.share[rows] > 0.5
        wins, losses = int(won.sum()), int((~won).sum())
        if wins and losses:
            n, product = wins + losses, 2.0 * wins * losses
            excess += int((won[1:] != won[:-1]).sum()) - product / n
            variance += product * (product - n) / (n * n * (n - 1))
    return variance > 0 and excess < _SORTED * math.sqrt(variance)


def _pairs(votes: Votes, compared: Comparisons, peak: Float, alpha: float) -> list[PairEvidence]:
    """Return the evidence of each pair with votes; intervals hold for all pairs at once (Bonferroni)."""
    n_models, names, wins = len(votes.models), votes.models, votes.wins()
    # shares and counts refer to all votes, intervals and evidence only to the independent comparisons
    plays = votes.tables()[0]
    plays = plays + plays.T
    lower, upper = np.zeros_like(plays), np.ones_like(plays)
    if compared.share.size:
        cells = np.stack([compared.first * n_models + compared.second, 2.0 * compared.share - 1.0])
        (pair, values), counts = np.unique(cells, axis=1, return_counts=True)
        starts = np.flatnonzero(np.diff(pair, prepend=-1.0, append=-1.0))
        bounds = counted_sequences(values, counts, starts, alpha / (n_models * (n_models - 1) / 2))
        at = np.divmod(pair[starts[:-1]].astype(np.int64), n_models)
        lower[at], upper[at] = ((1.0 + bound) / 2.0 for bound in bounds[:2])
    out = []
    for i, j in np.argwhere(np.triu(plays)).tolist():
        out.append(
            PairEvidence(
                first=names[i],
                second=names[j],
                n_votes=int(plays[i, j]),
                share=float(wins[i, j] / plays[i, j]),
                lower=float(lower[i, j]),
                upper=float(upper[i, j]),
                log_evidence=float(peak[i, j]),
                log_evidence_against=float(peak[j, i]),
            )
        )
    return out


def _more(bandit: BestArm, threshold: float, leader: int) -> tuple[int, int] | None:
    """Return 0.5 and 1.5 times the number of votes that the open pairs of the leader need at the current win rates."""
    # Evidence of a win rate p grows by about KL(p, 1/2) per comparison. Rates are raised to at least half a standard
    # error above 1/2. The factor 1.8 calibrates the forecast: after 100 votes, the number of votes that were needed
    # divided by the forecast had quartiles of 0.7, 1.0 and 1.4.
    plays = bandit.wins[leader] + bandit.wins[:, leader]
    rate = np.clip(np.maximum(bandit.rates()[leader], 0.5 + 0.25 / np.sqrt(plays + PRIOR)), 0.5, 0.98)
    divergence = rate * log(2 * rate) + (1 - rate) * log(2 * (1 - rate))
    missing = np.maximum(threshold - mixture(bandit.growth[leader]), 0.0)
    open_ = (bandit.peak[leader] < threshold) & (np.arange(bandit.n_arms) != leader)
    n = 1.8 * float((missing[open_] / divergence[open_]).sum())
    return (_rounded(n / 2), _rounded(1.5 * n)) if 0 < n < 1e9 else None


def _rounded(n: float) -> int:
    """Round to two significant digits."""
    # further digits of the forecast would be meaningless
    unit = 10 ** max(0, len(str(int(n))) - 2)
    return int(max(1, round(n / unit) * unit))


def _level(peak: Float, leaders: list[int], epsilon: float, top: int) -> float:
    """Return the smallest alpha at which the leaders would be declared best."""
    # the weakest claim has evidence 1 / delta; the level is the error of all claims at this delta
    n_models = len(peak)
    inside = np.array(leaders)
    delta = float(exp(-peak[np.ix_(inside, np.setdiff1d(np.arange(n_models), inside))].min()))
    if epsilon > 0:
        return n_models * delta
    return error_of_top(delta, n_models, top) if top > 1 else error_of_best(delta, n_models)


def _verdict(
    names: list[str], decided: int, leaders: list[int], candidates: list[str], epsilon: float, top: int
) -> str:
    """Return the verdict as one sentence."""
    n, lead = len(names), ", ".join(names[arm] for arm in leaders)
    if decided == -2:
        return "no model beats all others"
    if decided >= 0:
        if top > 1:
            return f"{lead} are the best {top}: each beats each of the {n - top} others"
        if epsilon > 0:
            rate = f"its win rate against each other model is above {0.5 - epsilon:.0%}"
            return f"{lead} is within {epsilon:g} of the best: {rate}"
        other = next(model for model in names if model != lead)
        return f"{lead} is best: it beats {other if n == 2 else f'each of the {n - 1} others'}"
    if top > 1:
        return f"undecided: {lead} lead"
    listed = ", ".join(candidates) if len(candidates) <= 5 else f"{len(candidates)} models"
    return f"undecided: {lead} leads; {listed} could be best"


def _notes(
    votes: Votes,
    compared: Comparisons,
    order: str,
    cluster: str,
    board: list[Strengths],
    part: Int,
    unordered: bool,
    n_given: int,
) -> list[str]:
    """Return the remarks on the votes for :attr:`Arena.notes`."""
    # remarks that affect the verdict come first, then those that affect the strengths
    end = "" if cluster == "none" else f", or for the end of their {cluster}"
    remarks = (
        (
            order == "unknown",
            "which model was shown first is unknown: a preference for it would bias the verdict",
        ),
        (
            order == "matched" and compared.waiting,
            f"votes that wait for a vote in the other order{end}: {compared.waiting:,}",
        ),
        (
            compared.repeated,
            f"votes that return to an earlier pair and {cluster}, which count for strengths only: "
            f"{compared.repeated:,}",
        ),
        (
            n_given > len(votes),
            f"votes that ask a question again, which are left out: {n_given - len(votes):,}; count them only if "
            "their number does not depend on the answers (repeats)",
        ),
        (
            cluster == "judge" and votes.in_turns(),
            "judges voted one after the other: adjacent votes of a judge on a pair count as one",
        ),
        (
            votes.judge is not None and len(np.unique(votes.judge)) == 1,
            "all votes are of one judge: the verdict holds for this judge",
        ),
        (unordered, ONE_LOOK),
        (
            len(board) > 1 or part.max() > 0,
            f"{int(part.max()) + 1} groups of models share no votes: each has its own leaderboard",
        ),
        (
            any(np.isnan(group.upper).any() for group in board),
            "fewer than 10 independent votes in a group: no intervals",
        ),
        (
            any(np.isinf([group.upper, group.lower]).any() for group in board),
            "a model won or lost all its votes: one end of its interval is infinite, the prior bounds its strength",
        ),
    )
    return [text for applies, text in remarks if applies]
