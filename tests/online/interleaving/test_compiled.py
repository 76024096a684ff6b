"""The compiled comparisons are the plain ones, only faster: same distribution, exact expectations hit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from structsvm.online.interleaving import SOSM, Probabilistic, TeamDraft
from structsvm.online.interleaving.compiled import comparisons
from structsvm.online.interleaving.compiled.comparisons import (
    compare_pairs,
    multileave_outcomes,
    preference_matrix,
)
from structsvm.online.interleaving.compiled.kernels import probabilistic
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.users import CascadeUser, DependentClickUser, PositionBasedUser

USERS = {
    "navigational": CascadeUser.named("navigational", 3),
    "perfect": CascadeUser.named("perfect", 3),
    "any": CascadeUser.named("informational", 3, stop="any"),
    "position": PositionBasedUser([0.2, 0.5, 0.9], [1.0, 0.7, 0.4]),
    "dependent": DependentClickUser([0.2, 0.5, 0.9], [0.8, 0.5, 0.2]),
}


def _world(n_rankers=3, sizes=(4, 2, 5), seed=3) -> RankedQueries:
    rng = np.random.default_rng(seed)
    rankings = np.hstack([np.array([rng.permutation(n) for _ in range(n_rankers)]) for n in sizes])
    grades = rng.integers(0, 3, sum(sizes))
    return RankedQueries.from_rankings(rankings, grades, np.cumsum([0, *sizes]))


def _queries(ranked, rankers):
    for start, end in zip(ranked.offsets[:-1], ranked.offsets[1:], strict=True):
        yield ranked.rankings[rankers, start:end].tolist(), ranked.grades[start:end]


def _exact(method, ranked, rankers, user, length):
    """Mean and second moment of the outcome matrix, and chance of a drawn win, by enumeration of lists and clicks."""
    first = second = wins = 0.0
    for rankings, grades in _queries(ranked, rankers):
        for shown, p in method.distribution(rankings, length):
            own = grades[list(shown.documents)]
            for clicks in product((0, 1), repeat=len(own)):
                q = p * user.likelihood(own, clicks) / ranked.n_queries
                if q:
                    outcome = method.outcome(shown, clicks)
                    first, second = first + q * outcome, second + q * outcome**2
                    wins = wins + q * np.maximum(outcome, 0)
    return first, second, wins


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("method", [TeamDraft(), Probabilistic()], ids=lambda m: m.name)
def test_pairs_agree_with_enumeration(method, user):
    ranked, n = _world(), 60_000
    first, second, wins = _exact(method, ranked, [0, 2], USERS[user], 3)
    counts = compare_pairs(ranked, [(0, 2), (2, 0)], USERS[user], n, method=method.name, length=3)
    for k, (i, j) in enumerate(((0, 1), (1, 0))):
        error = np.sqrt((second[i, j] - first[i, j] ** 2) / n)
        assert abs(counts.outcome[k] / n - first[i, j]) < 4.5 * error
        for found, p in ((counts.wins[k], wins[i, j]), (counts.losses[k], wins[j, i])):
            assert abs(found / n - p) < 4.5 * np.sqrt(p * (1 - p) / n)
    # an estimate so precise that a wrong document weight, stop rule or coin would show
    assert np.abs(first).max() > 10 * error


@pytest.mark.parametrize("user", ["navigational", "any", "position"])
@pytest.mark.parametrize("method", [TeamDraft(), SOSM()], ids=lambda m: m.name)
def test_multileaving_agrees_with_enumeration(method, user):
    ranked, n = _world(sizes=(4, 3)), 60_000
    first, _, wins = _exact(method, ranked, [2, 0, 1], USERS[user], 3)
    second = wins + wins.T  # of wins and losses that are drawn
    found = multileave_outcomes(ranked, [2, 0, 1], USERS[user], n, method=method.name, length=3) / n
    np.testing.assert_array_equal(found, -found.T)
    assert (np.abs(found - first) <= 4.5 * np.sqrt((second - first**2) / n) + 1e-15).all()


def test_tau_and_long_lists():
    ranked, n = _world(sizes=(4,)), 60_000
    for tau, length in ((1.0, 2), (0.0, 10)):
        first, second, _ = _exact(Probabilistic(tau), ranked, [0, 1], USERS["any"], length)
        counts = compare_pairs(ranked, [(0, 1)], USERS["any"], n, length=length, tau=tau)
        error = np.sqrt((second[0, 1] - first[0, 1] ** 2) / n)
        assert abs(counts.outcome[0] / n - first[0, 1]) <= 4.5 * error + 1e-12
        assert counts.preference[0] == (1 + counts.outcome[0] / n) / 2


@pytest.mark.parametrize("method", ["team_draft", "probabilistic"])
def test_threads_and_seeds(method):
    ranked, pairs, user = _world(4), [(0, 1), (2, 3), (1, 1)], USERS["any"]
    one = compare_pairs(ranked, pairs, user, 70_000, method=method, random_state=5)
    three = compare_pairs(ranked, pairs, user, 70_000, method=method, random_state=5, n_jobs=3)
    other = compare_pairs(ranked, pairs, user, 70_000, method=method, random_state=6)
    for a, b in zip(one[1:], three[1:], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (one.outcome[:2] != other.outcome[:2]).all()
    for name in ("sosm", "team_draft"):
        a, b = (multileave_outcomes(ranked, [0, 1, 3], user, 1000, method=name, n_jobs=n) for n in (1, 4))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_comparisons_tell_how_far_they_are_and_can_be_stopped(monkeypatch, n_jobs):
    ranked, pairs, user = _world(4), [(0, 1), (2, 3), (1, 2)], USERS["any"]
    whole = compare_pairs(ranked, pairs, user, 3000)
    monkeypatch.setattr(comparisons, "_PIECE", 1000)  # a task each
    told = []
    pieces = compare_pairs(ranked, pairs, user, 3000, n_jobs=n_jobs, callback=told.append)
    assert told == [1 / 3, 2 / 3, 1.0]
    np.testing.assert_array_equal(pieces.outcome, whole.outcome)
    np.testing.assert_array_equal(pieces.wins, whole.wins)

    def stop(share):
        told.append(share)
        raise KeyboardInterrupt

    told.clear()
    with pytest.raises(KeyboardInterrupt):
        compare_pairs(ranked, pairs, user, 3000, n_jobs=n_jobs, callback=stop)
    assert told == [1 / 3]
    every = [multileave_outcomes(ranked, [0, 1, 3], user, 3000, n_jobs=n_jobs)]
    monkeypatch.undo()
    every.append(multileave_outcomes(ranked, [0, 1, 3], user, 3000))
    np.testing.assert_array_equal(*every)


def test_a_ranker_ties_with_itself():
    counts = compare_pairs(_world(), [(1, 1)], USERS["any"], 5000)
    assert counts.wins[0] == counts.losses[0] == 0
    assert abs(counts.outcome[0]) < 1e-9
    drafted = compare_pairs(_world(), [(1, 1)], USERS["any"], 50_000, method="team_draft")
    assert drafted.wins[0] > 0
    assert abs(drafted.outcome[0]) < 4.5 * np.sqrt(50_000)


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
    again = RankedQueries.from_rankings(ranked.rankings, ranked.grades, ranked.offsets)
    np.testing.assert_array_equal(again.places, ranked.places)


def _compare(pairs, **change):
    return lambda: compare_pairs(_world(), pairs, **{"clicks": USERS["any"], "n_samples": 5, **change})


def _multileave(rankers, method="sosm"):
    return lambda: multileave_outcomes(_world(), rankers, USERS["any"], method=method)


def _ranked(rankings, grades, offsets):
    return lambda: RankedQueries.from_rankings(rankings, grades, offsets)


def _scored(scores):
    return lambda: RankedQueries.from_scores(scores, [0, 1], [0, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (_compare([(0, 9)]), r"pairs: expected rankers from 0 to 2, got \[\[0, 9\]\]"),
        (_compare([(0, -1)]), "pairs: expected rankers from 0 to 2"),
        (_compare([0, 1]), r"pairs: expected integers of shape \(n_pairs, 2\)"),
        (_compare([(0, 1)], method="balanced"), r"method=.*: expected 'team_draft'"),
        (_compare([(0, 1)], length=0), "length=0: expected a whole number >= 1"),
        (_compare([(0, 1)], n_samples=0), "n_samples=0: expected a whole number >= 1"),
        (_compare([(0, 1)], clicks=CascadeUser.named("perfect", 2)), "expected an integer from 0 to 1"),
        (_compare([(0, 1)], clicks=USERS["position"]), "examination: the table covers 3 place"),
        (_multileave([0]), "rankers: expected at least 2"),
        (_multileave([0, 0]), "rankers: expected different ones from 0 to 2"),
        (_multileave([0, 3]), "rankers: expected different ones from 0 to 2"),
        (_multileave([0, 1], "om"), "method='om': expected 'sosm'"),
        (_ranked([[0, 1, 0, 0]], [0] * 4, [0, 2, 4]), r"rankings\[0\]: .* 0 to 1 of query 1, got \[0, 0\]"),
        (_ranked([[0, 2, -1, 1]], [0] * 4, [0, 2, 4]), r"rankings\[0\]: expected a permutation"),
        (_ranked([[0, 1]], [0, -1], [0, 2]), r"grades\[1\]: expected an integer"),
        (_ranked([[0, 1]], [0, 0.5], [0, 2]), r"grades\[1\]: expected an integer .* got 0.5"),
        (_ranked([[0, 1]], [0], [0, 2]), "grades: expected one grade for each of 2 rows"),
        (_ranked([[0, 1]], [0, 1], [0, 1]), "offsets: expected integers rising from 0 to 2"),
        (_ranked([[0.0, 1.0]], [0, 1], [0, 2]), "rankings: expected integers"),
        (_scored([[1.0], [np.nan]]), "got NaN at row 1, ranker 0"),
        (_scored([1.0, 2.0]), r"scores: expected a matrix \(rows, rankers\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
