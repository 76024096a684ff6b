"""Votes, evidence, strengths and verdicts of an arena, against exact fractions, enumerations and scipy."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import cohen_kappa_score

from structsvm.online.arena import Votes, add_models, arena, bandit_of, next_pairs
from structsvm.online.arena.page import summary
from structsvm.online.arena.strengths import fit_p_value, strengths
from structsvm.online.arena.votes import comparisons
from structsvm.online.bandits import BestArm
from structsvm.online.evidence import bets as evidence
from tests.refusing import refused


def votes_of(rows: str, **codes: list[int]) -> Votes:
    """Return votes from a text such as ``"ab1 ba= ac0"``: the models shown, and whether the first won."""
    names = sorted({letter for row in rows.split() for letter in row[:2]})
    first, second = ([names.index(row[k]) for row in rows.split()] for k in (0, 1))
    share = [{"1": 1.0, "0": 0.0, "=": 0.5}[row[2]] for row in rows.split()]
    columns = {name: np.array(values) for name, values in codes.items()}
    return Votes(names, np.array(first), np.array(second), np.array(share), **columns)


def drawn(P: np.ndarray, n: int, seed: int, ties: float = 0.0) -> Votes:
    """Return votes on random pairs in random order."""
    rng, k = np.random.default_rng(seed), len(P)
    first = rng.integers(k, size=n)
    second = (first + rng.integers(1, k, size=n)) % k
    share = np.where(rng.random(n) < ties, 0.5, rng.random(n) < P[first, second])
    return Votes([f"m{i}" for i in range(k)], first, second, share)


def bradley_terry(strength: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(strength[None, :] - strength[:, None]))


# --- evidence


def exact_capital(shares: list[Fraction], epsilon: Fraction) -> list[Fraction]:
    """Return the capital after each comparison: stakes .9 / 2^k with the weights of a prior."""
    capitals = [Fraction(n, 100) for n in (12, 26, 26, 18, 10, 4)] + [Fraction(1, 150)] * 6
    out = []
    for share in shares:
        m = Fraction(1, 2) - epsilon
        capitals = [c * (1 + Fraction(9, 10) / 2**k * (share / m - 1)) for k, c in enumerate(capitals)]
        out.append(sum(capitals))
    return out


@pytest.mark.parametrize("epsilon", [0, Fraction(1, 20)])
def test_evidence_is_the_capital_of_exact_bets(epsilon: Fraction) -> None:
    rng = np.random.default_rng(0)
    shares = [Fraction(int(s), 4) for s in rng.choice([0, 1, 2, 3, 4, 4, 4], size=40)]
    ahead = np.log([float(c) for c in exact_capital(shares, epsilon)])
    behind = np.log([float(c) for c in exact_capital([1 - s for s in shares], epsilon)])
    whole, single = evidence.Evidence(2, float(epsilon)), evidence.Evidence(2, float(epsilon))
    paths = whole.extend(0, 1, np.array([float(s) for s in shares]))
    for share in shares:
        single.add(0, 1, float(share))
    np.testing.assert_allclose(paths, [ahead, behind], rtol=0, atol=1e-13)
    assert (whole.peak == single.peak).all()
    assert (whole.growth == single.growth).all()
    np.testing.assert_allclose(whole.peak[0, 1], max(0.0, ahead.max()), atol=1e-13)


def test_a_comparison_keeps_the_mean_of_the_capital_where_both_arms_win_alike() -> None:
    growth = evidence.Evidence(2)
    growth.extend(0, 1, np.array([1.0, 0.0, 0.5, 1.0]))
    before = np.exp(evidence.mixture(growth.growth[0, 1]))
    outcomes = []
    for share in (1.0, 0.0):
        after = evidence.Evidence(2)
        after.growth = growth.growth.copy()
        after.add(0, 1, share)
        outcomes.append(np.exp(evidence.mixture(after.growth[0, 1])))
    assert np.mean(outcomes) == pytest.approx(before, rel=1e-14)


def tournaments(k: int):
    """Yield all preferences of k arms in which each pair has a winner."""
    pairs = list(combinations(range(k), 2))
    for bits in product((False, True), repeat=len(pairs)):
        beats = np.zeros((k, k), dtype=bool)
        for (i, j), bit in zip(pairs, bits, strict=True):
            beats[i, j], beats[j, i] = bit, not bit
        yield beats


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_few_arms_have_few_rivals_that_they_do_not_beat(k: int) -> None:
    most, beside = np.zeros(k, dtype=int), np.zeros(k, dtype=int)
    for beats in tournaments(k):
        unbeaten = k - 1 - beats.sum(axis=1)
        counts = [(unbeaten <= size).sum() for size in range(k)]
        most = np.maximum(most, counts)
        if counts[0]:  # some arm beats all: the others
            beside = np.maximum(beside, np.array(counts) - 1)
    assert [*most[1:]] == [min(k, 2 * size + 1) for size in range(1, k)]
    assert [*beside[1:]] == [min(k - 1, 2 * size - 1) for size in range(1, k)]


@pytest.mark.parametrize("k", [4, 5])
def test_at_most_three_sets_have_one_pair_against_them(k: int) -> None:
    for beats in tournaments(k):
        for m in range(1, k):
            bad = [
                sum(beats[j, i] for i in inside for j in range(k) if j not in inside)
                for inside in combinations(range(k), m)
            ]
            assert sum(b <= 1 for b in bad) <= 3


def test_levels_spend_alpha_and_no_more() -> None:
    for k in (2, 3, 5, 10, 100):
        best, none = np.exp(-np.array(evidence.thresholds(0.05, k)))
        assert evidence.error_of_best(best, k) == pytest.approx(0.05, abs=1e-12)
        # beside a winner: one arm with one rival that it does not beat, two more with each further one
        at_most = [min(k - 1, 2 * size - 1) for size in range(k)]
        beside = sum(
            (n - max(0, before)) * best ** (size + 1) for size, (before, n) in enumerate(pairwise(at_most))
        )
        assert beside + (k - 1) * none == pytest.approx(0.05, abs=1e-12)
    assert np.exp(-evidence.thresholds(0.05, 2)[0]) == pytest.approx(0.025)
    assert np.exp(-evidence.thresholds(0.05, 10)[0]) == pytest.approx(0.01648, abs=1e-5)
    top = np.exp(-evidence.thresholds(0.05, 8, 0.0, 3)[0])
    assert evidence.error_of_top(top, 8, 3) == pytest.approx(0.05, abs=1e-12)
    assert evidence.thresholds(0.05, 10, 0.1)[0] == pytest.approx(np.log(200))


@pytest.mark.parametrize(
    ("peak", "answer"),
    [
        ([[0, 5, 5], [0, 0, 0], [0, 0, 0]], 0),
        ([[0, 5, 1], [0, 0, 0], [0, 0, 0]], -1),
        ([[0, 9, 0], [0, 0, 9], [9, 0, 0]], -2),
        ([[0, 9, 0], [0, 0, 9], [3, 0, 0]], -1),
    ],
)
def test_what_is_shown_by_the_evidence(peak: list[list[float]], answer: int) -> None:
    assert evidence.shown_best(np.array(peak, dtype=float), (4.1, 4.8)) == answer


def test_a_set_is_shown_where_each_member_beats_each_other_arm() -> None:
    peak = np.array([[0, 0, 5, 5], [0, 0, 5, 5], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=float)
    assert evidence.shown_top(peak, 4.1, np.array([0, 1]))
    peak[1, 3] = 4.0
    assert not evidence.shown_top(peak, 4.1, np.array([0, 1]))


# --- error at every look


def peaks_of(P: np.ndarray, horizon: int, seed: int, ties: float) -> np.ndarray:
    bandit = bandit_of(drawn(P, horizon, seed, ties), order="random")
    return bandit.peak


@pytest.mark.slow
@pytest.mark.parametrize(("k", "ties"), [(2, 0.0), (2, 0.4), (3, 0.0), (4, 0.0)])
def test_equal_models_are_rarely_told_apart_at_any_look(k: int, ties: float) -> None:
    P, n, levels = np.full((k, k), 0.5), 400, evidence.thresholds(0.05, k)
    # peaks never fall: what was ever declared is declared by the last ones
    wrong = sum(evidence.shown_best(peaks_of(P, 2000, seed, ties), levels) >= 0 for seed in range(n))
    assert wrong / n <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


# --- dependent votes


@pytest.mark.parametrize(
    ("rows", "question", "order", "pairs", "share", "at", "left_out"),
    [
        # adjacent votes on a question are one outcome; the last question is still open
        ("ab1 ab1 ab0 ab1 ab1 ab0", [0, 0, 0, 0, 0, 1], "random", ["ab"], [0.8], [6], (1, 0)),
        # a question that comes again is left out
        ("ab1 ab0 ab1 ab1 ac1", [0, 1, 0, 2, 2], "random", ["ab"] * 3, [1.0, 0.0, 1.0], [2, 3, 5], (1, 1)),
        ("ab1 ba1 ba=", None, "random", ["ab"] * 3, [1.0, 0.0, 0.5], [1, 2, 3], (0, 0)),
        # the k-th of either order; in order of showing: ab 1, 0, 1; ba 1 (b won), 0
        ("ab1 ab0 ba1 ac1 ba0 ab1", None, "matched", ["ab"] * 2, [0.5, 0.5], [3, 5], (2, 0)),
        # means of questions, in the order in which they were completed
        (
            "bc1 cb1 ab1 ab1 ba0 ba1 ba1 ac1",
            [0, 1, 2, 2, 3, 3, 3, 4],
            "matched",
            ["bc", "ab"],
            [1 / 2, (1 + 1 / 3) / 2],
            [3, 8],
            (1, 0),
        ),
    ],
)
def test_comparisons_by_hand(rows, question, order, pairs, share, at, left_out) -> None:
    votes = votes_of(rows, **({} if question is None else {"question": question}))
    found = comparisons(votes, order)
    assert [
        votes.models[i] + votes.models[j] for i, j in zip(found.first, found.second, strict=True)
    ] == pairs
    assert found.share.tolist() == pytest.approx(share)
    assert (found.at.tolist(), (found.waiting, found.repeated)) == (at, left_out)


def test_what_always_wins_when_shown_first_is_no_evidence() -> None:
    votes = votes_of("ab1 ba1 " * 200)
    assert np.abs(evidence.mixture(bandit_of(votes).growth)).max() < 1e-12
    assert not arena(votes).decided


def test_further_votes_never_undo_a_verdict() -> None:
    rng = np.random.default_rng(3)
    votes = drawn(bradley_terry(np.array([1.5, 0.0, -0.5])), 600, 1)
    question = rng.integers(150, size=600)
    decided = ""
    for n in range(50, 601, 50):
        part = Votes(votes.models, votes.first[:n], votes.second[:n], votes.share[:n], question[:n])
        best = arena(part).best
        assert not decided or best == [decided]
        decided = best[0] if best else decided
    assert decided == "m0"


# --- strengths


def test_strengths_are_those_of_a_general_optimiser() -> None:
    from scipy.optimize import minimize

    votes = drawn(bradley_terry(np.linspace(1, -1, 5)), 300, 0, ties=0.1)
    k = 5

    def objective(theta: np.ndarray) -> float:
        z = theta[votes.first] - theta[votes.second] + theta[k]
        fit = (votes.share * np.logaddexp(0, -z) + (1 - votes.share) * np.logaddexp(0, z)).sum()
        return fit + 0.05 * (theta[:k] ** 2).sum() + 0.0005 * theta[k] ** 2

    theta = minimize(objective, np.zeros(k + 1), tol=1e-12).x
    (found,) = strengths(votes, None, True)
    np.testing.assert_allclose(found.strength, theta[:k] - theta[:k].mean(), atol=2e-5)
    assert found.order == pytest.approx(theta[k], abs=2e-5)


def test_the_order_of_showing_is_told_apart_from_strengths() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(3, size=4000)
    second = (first + rng.integers(1, 3, size=4000)) % 3
    share = (rng.random(4000) < 1 / (1 + np.exp(-0.5))).astype(float)
    (found,) = strengths(Votes(["a", "b", "c"], first, second, share), None, True)
    assert found.order == pytest.approx(0.5, abs=2 * found.order_error)
    assert (found.lower < 0).all()
    assert (found.upper > 0).all()


@pytest.mark.slow
def test_intervals_cover_the_true_strengths_where_votes_on_a_question_depend_on_each_other() -> None:
    k, n_votes, questions, covered = 5, 400, 50, []
    truth = np.linspace(0.8, -0.8, k)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        question = rng.integers(questions, size=n_votes)
        first = rng.integers(k, size=n_votes)
        second = (first + rng.integers(1, k, size=n_votes)) % k
        # one draw for all votes on a question: each vote by itself is of the Bradley-Terry model
        drawn = rng.random(questions)[question]
        share = (drawn < 1 / (1 + np.exp(truth[second] - truth[first]))).astype(float)
        (found,) = strengths(Votes([*"abcde"], first, second, share, question), question, True)
        covered.append((found.lower <= truth) & (truth <= found.upper))
    assert 0.92 <= np.mean(covered) <= 0.98


def test_few_clusters_and_open_ends_are_said() -> None:
    few = arena(votes_of("ab1 bc1 ca1 ba0 cb1"), order="random")
    assert any("fewer than 10" in note for note in few.notes)
    lost = arena(votes_of("ab1 ba0 bc1 cb1 cb0 bc0 " * 4), order="random")
    ends = {row["model"]: (row["lower"], row["upper"]) for row in lost.rows()}
    assert np.isinf(ends["a"][1])
    assert np.isfinite(ends["b"]).all()
    assert lost.to_dict()["models"][0]["upper"] is None


def test_groups_without_votes_between_them_have_a_leaderboard_each() -> None:
    found = arena(votes_of("ab1 ba0 cd1 dc1 ab0 " * 5), order="random")
    assert [len(part.models) for part in found.strengths] == [2, 2]
    assert any("2 groups" in note for note in found.notes)


def test_every_pair_has_an_interval_and_every_rival_a_path() -> None:
    found = arena(drawn(bradley_terry(np.array([-0.5, 0.0, 0.5])), 600, 0), order="random")
    assert len(found.pairs) == 3
    assert all(0 < pair.lower < pair.share < pair.upper < 1 for pair in found.pairs)
    assert {found.leader, *found.paths} == set(found.votes.models)


def test_cycles_do_not_look_like_strengths() -> None:
    cycle = np.full((3, 3), 0.5)
    for i in range(3):
        cycle[i, (i + 1) % 3], cycle[(i + 1) % 3, i] = 0.85, 0.15
    assert fit_p_value(drawn(cycle, 300, 0)) == 0.01
    true = [fit_p_value(drawn(bradley_terry(np.array([1.0, 0.0, -1.0])), 200, seed)) for seed in range(40)]
    assert np.mean(np.array(true) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)
    assert fit_p_value(votes_of("ab1 ab0 bc1 bc0 ca1 ca0")) == 1.0
    assert fit_p_value(votes_of("ab1 ba1")) is None


# --- verdicts


def test_verdicts_in_words() -> None:
    P = bradley_terry(np.array([2.0, 0.3, -0.3, -2.0]))
    best = arena(drawn(P, 800, 0), order="random")
    assert best.verdict == "m0 is best: it beats each of the 3 others"
    assert best.level < 0.05
    assert best.more is None
    assert summary(best)[1].endswith("(error at most 5%, however often you look)")
    votes = drawn(P, 1500, 0)
    for shift in (0, 2):  # the numbers of the models do not matter
        moved = replace(votes, first=(votes.first + shift) % 4, second=(votes.second + shift) % 4)
        top = arena(replace(moved, models=[*"cdab"] if shift else [*"abcd"]), order="random", top=3)
        assert (top.best, top.leader) == ([*"abc"], "a")
    near = arena(drawn(np.full((2, 2), 0.5), 3000, 0), order="random", epsilon=0.1)
    assert "is within 0.1 of the best: its win rate against each other model is above 40%" in near.verdict
    cycle = np.full((3, 3), 0.5)
    for i in range(3):
        cycle[i, (i + 1) % 3], cycle[(i + 1) % 3, i] = 0.85, 0.15
    none = arena(drawn(cycle, 900, 0), order="random")
    assert (none.verdict, none.decided, none.best) == ("no model beats all others", True, [])
    open_ = arena(drawn(P, 60, 0), order="random")
    assert open_.verdict.startswith("undecided: m0 leads; m0, ")
    assert open_.more[0] < open_.more[1]


def test_one_order_alone_allows_no_verdict() -> None:
    assert arena(votes_of("ab1 ab1 ab1 ab0 " * 30)).verdict.startswith(
        "no verdict: no pair was shown in both orders"
    )


def test_votes_sorted_by_winner_are_refused_unless_their_order_is_unknown() -> None:
    rows = votes_of("ab1 " * 60 + "ab0 " * 40)
    refused(
        r"look sorted by winner; give a column 'time' .*, or pass unordered=True", arena, rows, order="random"
    )
    found = arena(rows, order="random", unordered=True)
    assert any("one look" in note for note in found.notes)
    # the order of the rows does not matter then
    order = np.random.default_rng(0).permutation(100)
    again = Votes(rows.models, rows.first[order], rows.second[order], rows.share[order])
    assert arena(again, order="random", unordered=True).pairs[0].log_evidence == pytest.approx(
        found.pairs[0].log_evidence
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arena(Votes(["a", "b"], *np.zeros((2, 0), dtype=int), np.zeros(0))), "at least one vote"),
        (lambda: arena(votes_of("ab1"), cluster="judge"), "expected votes with a column 'judge'"),
        (lambda: arena(votes_of("ab1 ba1", question=[0, 0])), "expected votes on several questions, got one"),
        (lambda: arena(votes_of("ab1"), order="sideways"), "order='sideways'"),
        (lambda: arena(votes_of("ab1"), epsilon=0.6), "epsilon=0.6"),
        (lambda: arena(votes_of("ab1 bc1 ca1"), top=2, epsilon=0.1), "epsilon=0.1"),
        (lambda: next_pairs(votes_of("ab1 ba0 " * 40)), "no further votes are needed"),
        (lambda: next_pairs(votes_of("ab1"), questions=[]), "at least one question"),
        (
            lambda: next_pairs(Votes(["a"], *np.zeros((2, 0), dtype=int), np.zeros(0))),
            "two models or more, got 1",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(call, message: str) -> None:
    refused(message, call)


# --- what to ask next


def test_questions_are_fresh_for_each_pair_while_there_are_some() -> None:
    votes = Votes(["a", "b"], *np.zeros((2, 0), dtype=int), np.zeros(0))
    with pytest.warns(UserWarning, match="were asked all 3 questions: repeats do not count"):
        asked = [question for *_, question in next_pairs(votes, 6, questions=["q1", "q2", "q3"])]
    assert sorted(asked[:3]) == sorted(asked[3:]) == ["q1", "q2", "q3"]
    had = replace(votes_of("ab1 ba0", question=[0, 1]), questions=("q1", "q3"))
    assert next_pairs(had, 1, questions=["q1", "q2", "q3"])[0][2] == "q2"
    numbered = replace(votes_of("ab1 ba0", question=[0, 1]), questions=("3", "4"))
    assert next_pairs(numbered, 1, questions=["3.0", "4.0", "5.0"])[0][2] == "5"


def test_new_models_are_asked_and_batches_differ() -> None:
    votes = add_models(drawn(bradley_terry(np.array([0.3, 0.0])), 60, 0), ["new"])
    pairs = next_pairs(votes, 40, order="random")
    assert any("new" in pair for pair in pairs)
    assert pairs == next_pairs(votes, 40, order="random", random_state=np.int64(0))
    assert len(next_pairs(votes, order="random")) == 20
    assert len({pair[0] for pair in pairs}) > 1


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.2}, {"top": 2}])
def test_best_arm_finds_the_best_with_fewer_votes_than_evenly(options: dict) -> None:
    P = bradley_terry(np.array([1.2, 0.8, -0.4, -0.4, -0.6, -1.0]))
    bandit, rng = BestArm(6, **options), np.random.default_rng(0)
    while not bandit.finished and bandit.t < 6000:
        for duel in bandit.select_batch(20, rng):
            bandit.update(duel, rng.random() < P[duel.arms])
    assert bandit.finished
    assert (bandit.leaders().tolist() if options.get("top") else [bandit.best()]) == (
        [0, 1] if options.get("top") else [0]
    )
    if not options:
        even = next(
            n
            for n in range(200, 20_001, 200)
            if evidence.shown_best(peaks_of(P, n, 0, 0.0), evidence.thresholds(0.05, 6)) == 0
        )
        assert bandit.t < even
        assert bandit.select(rng).arms == (0, 0)
        assert [duel.arms for duel in bandit.select_batch(3, rng)] == [(0, 0)] * 3


def test_a_set_is_explored_at_its_border_and_proved_where_it_is_open() -> None:
    bandit = BestArm(5, top=2)
    bandit.wins[:] = 1000 * bradley_terry(np.array([2.0, 1.0, -1.0, -2.0, -3.0]))
    bandit.peak[:] = 100.0
    bandit.peak[1, 4] = 0.0
    pairs = [set(duel.arms) for duel in bandit.select_batch(20, np.random.default_rng(0))]
    assert pairs == [{1, 2}] * 5 + [{1, 4}] * 15


@pytest.mark.parametrize("n_models", [2, 4])
def test_votes_sorted_by_whether_the_first_shown_won_are_refused(n_models):
    rng = np.random.default_rng(n_models)
    first = rng.integers(n_models, size=900)
    second = (first + rng.integers(1, n_models, size=900)) % n_models
    won = (rng.random(900) < 0.5).astype(float)
    models = [f"m{i}" for i in range(n_models)]
    assert not arena(Votes(models, first, second, won)).decided
    order = np.argsort(-won, kind="stable")
    refused("sorted by winner", arena, Votes(models, first[order], second[order], won[order]))


def test_orders_asked_in_two_passes_are_named():
    first, second = np.repeat([0, 1], 20), np.repeat([1, 0], 20)
    votes = Votes(["a", "b"], first, second, np.repeat([1.0, 0.0], 20), np.tile(np.arange(20), 2))
    assert "sort the votes by question" in arena(votes).verdict


def uneven(order: float, seed: int) -> Votes:
    """Return votes of a Bradley-Terry model with an advantage of the first shown; 90 % of a pair are in one order."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0, 0.5, 5)
    i = rng.integers(5, size=800)
    j = (i + rng.integers(1, 5, size=800)) % 5
    low, high = np.minimum(i, j), np.maximum(i, j)
    first = np.where((rng.random(800) < 0.9) != ((low + high) % 2 == 1), low, high)
    second = low + high - first
    won = rng.random(800) < 1 / (1 + np.exp(strength[second] - strength[first] - order))
    return Votes([*"abcde"], first, second, won.astype(float))


def by_question(spread: float, seed: int) -> Votes:
    """Return five votes on each of 160 questions, whose effects on the strengths they share."""
    rng = np.random.default_rng(seed)
    first = rng.integers(5, size=160)
    second = (first + rng.integers(1, 5, size=160)) % 5
    strength = rng.normal(0, 0.5, 5) + rng.normal(0, spread, (160, 5))
    odds = np.take_along_axis(strength, first[:, None], 1) - np.take_along_axis(strength, second[:, None], 1)
    share = (rng.random((160, 5)) < 1 / (1 + np.exp(-odds))).astype(float).ravel()
    return Votes(
        [*"abcde"], *(np.repeat(one, 5) for one in (first, second)), share, np.repeat(np.arange(160), 5)
    )


@pytest.mark.parametrize("world", [lambda seed: uneven(1.0, seed), lambda seed: by_question(2.0, seed)])
def test_the_fit_keeps_its_level_with_uneven_orders_and_several_votes_per_question(world) -> None:
    n = 60
    rejected = np.mean([fit_p_value(world(seed)) <= 0.05 for seed in range(n)])
    assert rejected <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def asked_until_won(seed: int) -> Votes:
    """Return votes of equal models, in which a question is asked up to three times until the first shown wins."""
    rng, rows = np.random.default_rng(seed), []
    for question in range(150):
        for _ in range(3):
            rows.append((rng.random() < 0.5, question))
            if rows[-1][0]:
                break
    won, question = np.array(rows, dtype=float).T
    first = np.zeros(len(won), dtype=np.int64)
    return Votes(["a", "b"], first, first + 1, won, question.astype(np.int64))


def test_only_the_first_vote_on_a_question_counts_unless_more_are_declared_independent() -> None:
    found = [arena(asked_until_won(seed), order="random") for seed in range(20)]
    assert sum(bool(one.best) for one in found) <= 3
    assert all(one.n_votes == 150 for one in found)
    assert "ask a question again, which are left out" in found[0].notes[0]
    counted = [arena(asked_until_won(seed), order="random", repeats=True) for seed in range(20)]
    assert sum(bool(one.best) for one in counted) > 10
    both = votes_of("ab1 ba1 ab0 ac1", question=[0, 0, 0, 1])
    assert both.once("question").share.tolist() == [1, 1, 1]
    assert len(both.once("none")) == 4


def judged_in_turns(seed: int) -> Votes:
    """Return votes of 20 judges with tastes, 50 each, one after the other; the models are equal."""
    rng = np.random.default_rng(seed)
    won = (rng.random(1000) < np.repeat(rng.beta(2, 2, 20), 50)).astype(float)
    first = rng.integers(0, 2, 1000)
    return Votes(
        ["x", "y"], first, 1 - first, np.where(first == 0, won, 1 - won), judge=np.repeat(np.arange(20), 50)
    )


def test_judges_who_vote_in_turns_count_once_each() -> None:
    for unordered in (False, True):
        found = [arena(judged_in_turns(seed), order="random", unordered=unordered) for seed in range(20)]
        assert not any(one.best for one in found)
        assert {one.cluster for one in found} == {"judge"}
    refused(
        "those of one judge resemble each other; pass cluster=judge",
        arena,
        judged_in_turns(0),
        cluster="none",
    )
    votes = judged_in_turns(1)
    mixed = votes.take(np.random.default_rng(0).permutation(1000))
    assert (mixed.in_turns(), arena(mixed, order="random").cluster) == (False, "none")
    # each judge's votes sorted by winner
    rows = np.lexsort([np.where(votes.first == 0, votes.share, 1 - votes.share), votes.judge])
    refused("look sorted by winner", arena, votes.take(rows), order="random")


def test_an_advantage_of_the_first_shown_does_not_choose_the_leader() -> None:
    # b is better, but a was shown first in most votes, which wins more often
    votes = votes_of("ab1 ab1 ab1 ab0 " * 30 + "ba1 ba1 ba1 ba1 ba1 ba1 ba1 ba1 ba1 ba0 " * 3)
    assert votes.wins()[0, 1] > votes.wins()[1, 0]
    assert bandit_of(votes, order="matched").best() == 1


def test_agreement_of_judges_is_cohens_kappa_in_both_directions_and_the_same_winner_in_both_orders() -> None:
    def kappa(pairs: Any) -> float:
        mine, theirs = np.array(list(pairs)).reshape(-1, 2).T
        return float(cohen_kappa_score(np.append(mine, -mine), np.append(theirs, -theirs)))

    for seed, n_questions in product(range(3), (6, 16)):
        rng, n = np.random.default_rng(seed), 120
        i, q, judge = rng.integers(3, size=n), rng.integers(n_questions, size=n), rng.integers(3, size=n)
        j, share = (i + rng.integers(1, 3, size=n)) % 3, rng.choice([0, 0.5, 0.7, 1], size=n)
        seen: dict[tuple[int, ...], dict[bool, int]] = {}
        for a, b, x, key in zip(i, j, np.sign(share - 0.5), zip(judge, q, i + j, strict=True), strict=True):
            seen.setdefault(key, {}).setdefault(a < b, x if a < b else -x)
        won = {key: np.sign(sum(both.values())) for key, both in seen.items()}
        for shift, (own, known) in product(range(3), enumerate("jkl")):
            twice = [
                len(set(both.values())) == 1 for key, both in seen.items() if key[0] == own and len(both) > 1
            ]
            pairs = [
                (k[1], (won[k], won[o])) for k in won for o in won if k[0] == own != o[0] and k[1:] == o[1:]
            ]
            asked, value = {question for question, _ in pairs}, kappa(pair for _, pair in pairs)
            left_out = [kappa(pair for question, pair in pairs if question != out) for out in asked]
            half = 1.96 * np.sqrt((len(asked) - 1) * np.var(left_out)) if len(asked) >= 10 else np.nan
            votes = Votes([*"abc"], (i + shift) % 3, (j + shift) % 3, share, q, judge, judges=(*"jkl",))
            one = {one.judge: one for one in arena(votes, order="random").judges}[known]
            expected = (judge == own).sum(), value, value - half, value + half, np.mean(twice)
            assert_allclose(
                (one.n_votes, one.kappa, one.lower, one.upper, one.consistency), expected, rtol=1e-4
            )
