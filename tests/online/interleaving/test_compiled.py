"""Compiled comparisons have the distribution and the exact expectations of the plain ones."""

import math
from fractions import Fraction
from itertools import accumulate, combinations, product

import numpy as np
import pytest

from experiments._multileaving import multileave_outcomes
from structsvm.online.interleaving import SOSM, Probabilistic, TeamDraft
from structsvm.online.interleaving.compiled import comparisons
from structsvm.online.interleaving.compiled.comparisons import compare_pairs, preference_matrix
from structsvm.online.interleaving.compiled.kernels import probabilistic
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.users import CascadeUser, DependentClickUser, PositionBasedUser
from tests.refusing import called, rejections

USERS = {
    "navigational": CascadeUser.named("navigational", 3),
    "perfect": CascadeUser.named("perfect", 3),
    "any": CascadeUser.named("informational", 3, stop="any"),
    "position": PositionBasedUser([0.2, 0.5, 0.9], [1.0, 0.7, 0.4]),
    "dependent": DependentClickUser([0.2, 0.5, 0.9], [0.8, 0.5, 0.2]),
}


def _world(n_rankers=3, sizes=(4, 2, 5), seed=3) -> RankedQueries:
    rng = np.random.default_rng(seed)
    rankings = [np.array([rng.permutation(n) for _ in range(n_rankers)]) for n in sizes]
    grades = rng.integers(0, 3, sum(sizes))
    scores = -np.hstack([np.argsort(own, axis=1) for own in rankings]).T
    return RankedQueries.from_scores(scores, grades, np.cumsum([0, *sizes]))


def _queries(ranked, rankers):
    for start, end in zip(ranked.offsets[:-1], ranked.offsets[1:], strict=True):
        yield ranked.rankings[rankers, start:end].tolist(), ranked.grades[start:end]


def _exact(method, ranked, rankers, user, length, credit="sign"):
    """Return the probability of a win for each pair of rankers, by enumeration of lists and clicks."""
    wins = 0.0
    for rankings, grades in _queries(ranked, rankers):
        for shown, p in method.distribution(rankings, length):
            own = grades[list(shown.documents)]
            for clicks in product((0, 1), repeat=len(own)):
                q = p * user.likelihood(own, clicks) / ranked.n_queries
                if q:
                    outcome = method.outcome(shown, clicks)
                    wins = wins + q * (np.maximum(outcome, 0) if credit == "difference" else outcome > 1e-12)
    return wins


@pytest.mark.parametrize("credit", ["sign", "difference"])
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("method", [TeamDraft(), Probabilistic()], ids=lambda m: m.name)
def test_pairs_agree_with_enumeration(method, user, credit):
    ranked, n = _world(), 60_000
    wins = _exact(method, ranked, [0, 2], USERS[user], 3, credit)
    counts = compare_pairs(
        ranked, [(0, 2), (2, 0)], USERS[user], n, method=method.name, length=3, credit=credit
    )
    for k, (i, j) in enumerate(((0, 1), (1, 0))):
        for found, p in ((counts.wins[k], wins[i, j]), (counts.losses[k], wins[j, i])):
            assert abs(found / n - p) < 4.5 * np.sqrt(p * (1 - p) / n)
    # an estimate so precise that a wrong document weight, stop rule or coin would show
    assert abs(wins[0, 1] - wins[1, 0]) > 10 / np.sqrt(n)
    np.testing.assert_array_equal(counts.preference, (1 + (counts.wins - counts.losses) / n) / 2)


@pytest.mark.parametrize("credit", ["sign", "difference"])
@pytest.mark.parametrize("user", ["navigational", "any", "position"])
@pytest.mark.parametrize("method", [TeamDraft(), SOSM()], ids=lambda m: m.name)
def test_multileaving_agrees_with_enumeration(method, user, credit):
    ranked, n = _world(sizes=(4, 3)), 60_000
    wins = _exact(method, ranked, [2, 0, 1], USERS[user], 3, credit)
    mean, square = wins - wins.T, wins + wins.T
    found = (
        multileave_outcomes(ranked, [2, 0, 1], USERS[user], n, method=method.name, length=3, credit=credit)
        / n
    )
    np.testing.assert_array_equal(found, -found.T)
    assert (np.abs(found - mean) <= 4.5 * np.sqrt((square - mean**2) / n) + 1e-15).all()


def test_tau_and_long_lists():
    ranked, n = _world(sizes=(4,)), 60_000
    for tau, length in ((1.0, 2), (0.0, 10)):
        wins = _exact(Probabilistic(tau), ranked, [0, 1], USERS["any"], length)
        counts = compare_pairs(ranked, [(0, 1)], USERS["any"], n, length=length, tau=tau)
        p = wins[0, 1]
        assert abs(counts.wins[0] / n - p) <= 4.5 * np.sqrt(p * (1 - p) / n)
        assert (p == 0) == (tau == 0)  # every document is as likely of both rankers


class Stream:
    """The random numbers of the kernels, in Python's whole numbers (SplitMix64)."""

    def __init__(self, rng):
        self.state = int(rng.random() * 2**53)

    def bits(self):
        self.state = z = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    def uniform(self):
        return Fraction(self.bits() >> 11, 2**53)

    def below(self, n):
        return int(self.uniform() * n)

    def happens(self, p):
        return self.uniform() < p if 0 < p < 1 else p == 1

    def looks(self, tables, grade, k):
        click = self.happens(tables.click[grade, k])
        return click, self.happens((tables.stop_after_click if click else tables.stop_after_skip)[grade, k])


def literal_team_draft(rankings, grades, tables, stream):
    """Return the credit of each ranker and, if wins can be drawn by it, the largest possible difference; as below."""
    shown, credit, coins = [], [0, 0], 0
    for k in range(min(tables.click.shape[1], len(grades))):
        if k % 128 == 0:
            coins = stream.bits()
        if k % 2 == 0:
            first, coins = 1 - coins % 2, coins // 2
        team = first if k % 2 == 0 else 1 - first
        shown.append(next(d for d in rankings[team] if d not in shown))
        click, stop = stream.looks(tables, grades[shown[-1]], k)
        credit[team] += click
        if stop:
            break
    return credit, 0


def literal_probabilistic(rankings, grades, tables, stream):
    """Yield the assignments of the clicked documents to rankers, with exact probabilities."""
    shown, posteriors = [], []
    weight = [{d: Fraction(1, r**3) for r, d in enumerate(ranking, 1)} for ranking in rankings]
    for k in range(min(tables.click.shape[1], len(grades))):
        u = stream.uniform() * 2
        team, goal = int(u >= 1), u % 1
        left = [d for d in rankings[team] if d not in shown]
        mass = [sum(w[d] for d in left) for w in weight]
        reached = accumulate(weight[team][d] / mass[team] for d in left)
        document = next(d for d, share in zip(left, reached, strict=True) if goal < share)
        p = [w[document] / m for w, m in zip(weight, mass, strict=True)]
        shown.append(document)
        click, stop = stream.looks(tables, grades[document], k)
        if click:
            posteriors.append([x / sum(p) for x in p])
        if stop:
            break
    ahead = [0, 0]
    for teams in product((0, 1), repeat=len(posteriors)):
        chance = math.prod(p[team] for p, team in zip(posteriors, teams, strict=True))
        if 2 * sum(teams) != len(teams):
            ahead[2 * sum(teams) > len(teams)] += chance
    return ahead, bool(posteriors)


def literal_sosm(rankings, grades, tables, stream):
    """Each ranker orders the shown documents; a click credits it by the rank of the document in this order."""
    n, shown, clicked, reading = len(rankings), [], [], True
    teams = list(range(n))
    for k in range(min(tables.click.shape[1], len(grades))):
        turn = k % n
        other = turn + stream.below(n - turn)
        teams[turn], teams[other] = teams[other], teams[turn]
        shown.append(next(d for d in rankings[teams[turn]] if d not in shown))
        if reading:
            click, stop = stream.looks(tables, grades[shown[-1]], k)
            clicked += [shown[-1]] * click
            reading = not stop
    own = [[d for d in ranking if d in shown] for ranking in rankings]
    credit = [sum(Fraction(1, (order.index(d) + 1) ** 3) for d in clicked) for order in own]
    return credit, len(clicked) * (1 - Fraction(1, len(shown) ** 3))


@pytest.mark.parametrize("credit", ["sign", "difference"])
@pytest.mark.parametrize("user", ["navigational", "any"])
@pytest.mark.parametrize(
    ("literal", "method", "n_arms"),
    [(literal_team_draft, "team_draft", 2), (literal_probabilistic, "probabilistic", 2)]
    + [(literal_sosm, "probabilistic", n) for n in (3, 4, 7)],
)
def test_live_comparisons_are_won_by_credit(literal, method, n_arms, user, credit):
    """MDB, 3.1: the sign of the scores, ties at random; by exact fractions, from the same random numbers."""
    ranked = _world(8, sizes=(12, 1, 6, 11))
    live = comparisons.LiveComparisons(ranked, USERS[user], method=method, length=10, credit=credit)
    tables = USERS[user].tables(10)
    ours, theirs, choice = (np.random.default_rng(seed) for seed in (1, 1, 2))
    results = set()
    for _ in range(300):
        arms = tuple(choice.choice(8, n_arms, replace=False).tolist())
        found = np.atleast_1d(live.compare(arms, ours))
        stream = Stream(theirs)
        start, end = ranked.offsets[(q := stream.below(ranked.n_queries)) : q + 2]
        rankings, grades = ranked.rankings[list(arms), start:end].tolist(), ranked.grades[start:end]
        credits, largest = literal(rankings, grades, tables, stream)
        least = stream.uniform() * largest if credit == "difference" and largest else 0
        for x, (a, b) in zip(found, combinations(credits, 2), strict=True):
            sign = (a - b > least) - (b - a > least)
            assert x == (sign > 0 if sign else theirs.random() < 0.5)
            results.add((sign, x))
    assert results == {(1, 1), (-1, 0), (0, 1), (0, 0)}
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("method", ["team_draft", "probabilistic"])
def test_threads_and_seeds(method):
    ranked, pairs, user = _world(4), [(0, 1), (2, 3), (1, 1)], USERS["any"]
    one = compare_pairs(ranked, pairs, user, 70_000, method=method, random_state=5)
    three = compare_pairs(ranked, pairs, user, 70_000, method=method, random_state=5, n_jobs=3)
    other = compare_pairs(ranked, pairs, user, 70_000, method=method, random_state=6)
    for a, b in zip(one[1:], three[1:], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (one.wins[:2] != other.wins[:2]).all()
    for name in ("sosm", "team_draft"):
        a, b = (multileave_outcomes(ranked, [0, 1, 3], user, 1000, method=name) for _ in range(2))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_comparisons_tell_how_far_they_are_and_can_be_stopped(monkeypatch, n_jobs):
    ranked, pairs, user = _world(4), [(0, 1), (2, 3), (1, 2)], USERS["any"]
    whole = compare_pairs(ranked, pairs, user, 3000)
    monkeypatch.setattr(comparisons, "_PIECE", 1000)  # a task each
    told = []
    pieces = compare_pairs(ranked, pairs, user, 3000, n_jobs=n_jobs, callback=told.append)
    assert told == [1 / 3, 2 / 3, 1.0]
    np.testing.assert_array_equal(pieces.losses, whole.losses)
    np.testing.assert_array_equal(pieces.wins, whole.wins)

    def stop(share):
        told.append(share)
        raise KeyboardInterrupt

    told.clear()
    with pytest.raises(KeyboardInterrupt):
        compare_pairs(ranked, pairs, user, 3000, n_jobs=n_jobs, callback=stop)
    assert told == [1 / 3]


def test_a_ranker_ties_with_itself():
    counts = compare_pairs(_world(), [(1, 1)], USERS["any"], 5000)
    assert counts.wins[0] == counts.losses[0] == 0
    drafted = compare_pairs(_world(), [(1, 1)], USERS["any"], 50_000, method="team_draft")
    assert drafted.wins[0] > 0
    assert abs(drafted.wins[0] - drafted.losses[0]) < 4.5 * np.sqrt(50_000)


@pytest.mark.parametrize("n_rankers", [1, 2, 3, 5])
def test_each_entry_of_the_preference_matrix_is_a_comparison_of_its_pair(n_rankers):
    ranked, user = _world(n_rankers), USERS["navigational"]
    matrix = preference_matrix(ranked, user, 500, random_state=4)
    pairs = [(i, j) for i in range(n_rankers) for j in range(i + 1, n_rankers)]
    expected = np.full((n_rankers, n_rankers), 0.5)
    if pairs:
        found = compare_pairs(ranked, pairs, user, 500, random_state=4).preference
        for (i, j), share in zip(pairs, found, strict=True):
            expected[i, j], expected[j, i] = share, 1 - share
    np.testing.assert_array_equal(matrix, expected)
    signatures = list(probabilistic.signatures)
    preference_matrix(_world(3, sizes=(7, 8), seed=9), USERS["position"], 10, length=3)
    assert list(probabilistic.signatures) == signatures  # no second compile
    # every pair was compared: rankings that differ do not win exactly half
    assert (matrix[~np.eye(n_rankers, dtype=bool)] != 0.5).all()


def test_rankings_from_scores():
    scores = np.array([[1, 5.0], [3, 5], [2, 5], [0, 1], [9, 0]])
    ranked = RankedQueries.from_scores(scores, [0, 1, 2, 0, 1], [0, 3, 3, 5], random_state=1)
    np.testing.assert_array_equal(ranked.rankings[0], [1, 2, 0, 1, 0])
    np.testing.assert_array_equal(ranked.places[0], [2, 0, 1, 1, 0])
    np.testing.assert_array_equal(ranked.rankings[1, 3:], [0, 1])
    assert ranked.n_queries == 2  # the empty one is left out
    ties = {
        tuple(RankedQueries.from_scores(scores, [0] * 5, [0, 3, 5], random_state=i).rankings[1, :3])
        for i in range(60)
    }
    assert len(ties) == 6  # every order of three tied documents


def _compare(pairs, **change):
    return lambda: compare_pairs(_world(), pairs, **{"clicks": USERS["any"], "n_samples": 5, **change})


def _scored(scores, grades=(0, 1), offsets=(0, 2)):
    return lambda: RankedQueries.from_scores(scores, grades, offsets)


test_bad_input_is_named = rejections(
    called,
    (_compare([(0, 9)]), r"pairs: expected rankers from 0 to 2, got \[\[0, 9\]\]"),
    (_compare([(0, -1)]), "pairs: expected rankers from 0 to 2"),
    (_compare([0, 1]), r"pairs: expected integers of shape \(n_pairs, 2\)"),
    (_compare([(0, 1)], method="balanced"), r"method=.*: expected 'team_draft'"),
    (_compare([(0, 1)], length=0), "length=0: expected an integer >= 1"),
    (_compare([(0, 1)], n_samples=0), "n_samples=0: expected an integer >= 1"),
    (_compare([(0, 1)], clicks=CascadeUser.named("perfect", 2)), "expected an integer from 0 to 1"),
    (_compare([(0, 1)], clicks=USERS["position"]), "examination: the table covers 3 rank"),
    (_compare([(0, 1)], credit="half"), "credit='half': expected 'sign' or 'difference'"),
    (_scored([[0.0], [1.0]], [0, -1], [0, 2]), r"grades\[1\]: expected an integer"),
    (_scored([[0.0], [1.0]], [0, 0.5], [0, 2]), r"grades\[1\]: expected an integer .* got 0.5"),
    (_scored([[0.0], [1.0]], [0], [0, 2]), "grades: expected one grade for each of 2 rows"),
    (_scored([[0.0], [1.0]], [0, 1], [0, 1]), "offsets: expected integers increasing from 0 to 2"),
    (_scored([[1.0], [np.nan]]), "got NaN at row 1, ranker 0"),
    (_scored([1.0, 2.0]), r"scores: expected a matrix \(rows, rankers\)"),
)
