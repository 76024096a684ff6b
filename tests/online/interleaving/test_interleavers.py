"""Properties of single interleaving methods over all lists they can show; common checks are in tests/testing."""

from itertools import product

import numpy as np
import pytest

from structsvm.online.interleaving import (
    Balanced,
    DocumentConstraints,
    Optimized,
    Probabilistic,
    Shown,
    TeamDraft,
)
from structsvm.online.interleaving.optimized import allowed_lists, fair_distribution, sensitivity
from structsvm.online.users import PositionBasedUser
from tests.refusing import rejected

# who does not look at documents: one grade only
TOP_HEAVY = PositionBasedUser([0.7], [1.0, 0.5, 0.25, 0.1, 0.05, 0.01])


def _one_click(method, rankings, length):
    """Return the exact expected outcome of the pair (0, 1) for one click at a random rank."""
    total = 0.0
    for shown, p in method.distribution([list(r) for r in rankings], length):
        n = len(shown.documents)
        total += p * np.mean([method.outcome(shown, np.eye(n)[k])[0, 1] for k in range(n)])
    return total


@pytest.mark.parametrize("method", [Balanced(), DocumentConstraints()], ids=lambda m: m.name)
def test_balanced_and_document_constraints_are_biased(method):
    assert _one_click(method, ["abcd", "bcda"], 4) == pytest.approx(-0.5, abs=1e-15)
    assert _one_click(TeamDraft(), ["abcd", "bcda"], 4) == 0
    lists = {"".join(shown.documents): p for shown, p in method.distribution([list("abcd"), list("bcda")], 4)}
    assert lists == {"abcd": 0.5, "bacd": 0.5}


def test_team_draft_twin_for_pairs():
    """Implement Algorithm 8 of the thesis with its own variables, for rankings as long as the list."""

    def literal(a, b, length, flips):
        shown, team_a, team_b = [], set(), set()
        while len(shown) < length:
            if len(team_a) < len(team_b) or (len(team_a) == len(team_b) and flips.pop(0)):
                document = next(d for d in a if d not in shown)
                team_a.add(document)
            else:
                document = next(d for d in b if d not in shown)
                team_b.add(document)
            shown.append(document)
        return tuple(shown), tuple(0 if d in team_a else 1 for d in shown)

    for a, b in (("abcde", "ecabd"), ("abcde", "vwxyz"), ("abcde", "abcde"), ("abcdgh", "beafgh")):
        expected: dict = {}
        for flips in product((0, 1), repeat=3):
            key = literal(a, b, 5, list(flips))
            expected[key] = expected.get(key, 0) + 1 / 8
        found = {(s.documents, s.evidence[0]): p for s, p in TeamDraft().distribution([list(a), list(b)], 5)}
        assert found == expected


def test_team_draft_gives_every_ranker_as_many_picks():
    for shown, _ in TeamDraft().distribution([list("abcdef"), list("bcdefa"), list("fedcba")], 6):
        assert sorted(shown.evidence[0]) == [0, 0, 1, 1, 2, 2]
        for i in range(0, 6, 3):
            assert len(set(shown.evidence[0][i : i + 3])) == 3


def test_team_draft_is_fair_on_any_rankings():
    """For rankings of any length and overlap, drafts are complete and outcomes exactly balanced."""
    rng = np.random.default_rng(2)
    teamed = 0
    for case in range(60):
        n, universe = (2, 5) if case % 3 else (3, 4)
        rankings = [rng.permutation(universe)[: rng.integers(1, universe + 1)].tolist() for _ in range(n)]
        length = int(rng.integers(1, 5))
        distribution = TeamDraft().distribution(rankings, length)
        fair = {sum(t is not None for t in shown.evidence[0]) for shown, _ in distribution}
        assert len(fair) == 1
        teamed += fair.pop()
        outcome = 0.0
        for shown, p in distribution:
            grades = [0] * len(shown.documents)
            for clicks in product((0, 1), repeat=len(grades)):
                chance = p * TOP_HEAVY.likelihood(grades, clicks)
                outcome = outcome + chance * TeamDraft().outcome(shown, clicks)
        np.testing.assert_allclose(outcome, 0, atol=1e-13)
        if min(map(len, rankings)) >= length:
            assert all(None not in shown.evidence[0] for shown, _ in distribution)
    assert teamed > 60


def test_balanced_keeps_the_tops_even():
    a, b = list("abcdef"), list("fbxyaz")
    for shown, _ in Balanced().distribution([a, b], 6):
        for k in range(1, 7):
            top = set(shown.documents[:k])
            depth = [next((i for i, d in enumerate(r) if d not in top), len(r)) for r in (a, b)]
            # the union of the top i of one and the top j of the other, i and j at most one apart
            assert any(
                set(a[:i]) | set(b[:j]) == top
                for i in range(depth[0] + 1)
                for j in range(depth[1] + 1)
                if abs(i - j) <= 1
            )


@pytest.mark.parametrize(
    ("method", "clicks", "credit"),
    [
        (Balanced(), [0, 0, 0, 0], [0, 0]),
        (Balanced(), [1, 0, 0, 0], [1, 0]),
        # lowest click is d, at rank 3 in bcda: among the top 3 are a (abc) and d (bcd)
        (Balanced(), [1, 0, 0, 1], [1, 1]),
        (Balanced(), [0, 1, 1, 0], [1, 2]),
        # b and c clicked: b > a, c > a, c > d. The first violates two of them, the second none
        (DocumentConstraints(), [0, 1, 1, 0], [1, 3]),
        (DocumentConstraints(), [1, 1, 1, 1], [0, 0]),
    ],
)
def test_credit_by_hand(method, clicks, credit):
    lists = (shown for shown, _ in method.distribution([list("abcd"), list("bcda")], 4))
    shown = next(one for one in lists if one.documents == tuple("abcd"))
    np.testing.assert_array_equal(method.credit(shown, clicks), credit)
    ahead = np.sign(credit[0] - credit[1])
    np.testing.assert_array_equal(method.outcome(shown, clicks), [[0, ahead], [-ahead, 0]])


def _brute_force(rankings, length, tau):
    """Return ``{documents: {assignment: joint probability}}`` by enumeration of coins and draws."""
    candidates = sorted(set().union(*rankings))
    rank = [{d: r.index(d) + 1 if d in r else len(r) + 1 for d in candidates} for r in rankings]
    joint: dict = {}

    def go(shown, coins, p):
        if len(shown) == min(length, len(candidates)):
            joint.setdefault(shown, {})[coins] = p
            return
        left = [d for d in candidates if d not in shown]
        for i, own in enumerate(rank):
            mass = sum(own[d] ** -tau for d in left)
            for d in left:
                go((*shown, d), (*coins, i), p / len(rank) * own[d] ** -tau / mass)

    go((), (), 1.0)
    return joint


@pytest.mark.parametrize("tau", [3.0, 1.0])
@pytest.mark.parametrize("group", ["abcd bcda", "abc xyz", "abc ad", "abcd bcda dcba", "abcd abcd dbca"])
def test_probabilistic_equals_brute_force_over_assignments(group, tau):
    method, rankings = Probabilistic(tau), [list(r) for r in group.split()]
    n, joint = len(rankings), _brute_force(rankings, 3, tau)
    distribution = {shown.documents: (shown, p) for shown, p in method.distribution(rankings, 3)}
    assert set(distribution) == set(joint)
    for documents, (shown, p) in distribution.items():
        total = sum(joint[documents].values())
        assert p == pytest.approx(total, rel=1e-12)
        for clicks in product((0, 1), repeat=3):
            outcome, wins = np.zeros((n, n)), np.zeros((n, n))
            for coins, q in joint[documents].items():
                count = np.bincount(coins, weights=clicks, minlength=n)
                outcome += q / total * np.sign(count[:, None] - count[None, :])
                wins += q / total * (count[:, None] > count[None, :])
            np.testing.assert_allclose(method.outcome(shown, clicks), outcome, atol=1e-13)
            np.testing.assert_allclose(method.credit(shown, clicks), wins.sum(axis=1) / (n - 1), atol=1e-13)


@pytest.mark.parametrize("seed", range(20))
def test_probabilistic_credits_documents_that_some_rankers_cannot_have_contributed(seed):
    """A large tau, or a very low rank, makes a probability zero; the credit is summed over all assignments."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    p = rng.dirichlet(np.ones(n), 4).T * (rng.random((n, 4)) < 0.6)
    p[rng.integers(n, size=4), np.arange(4)] += 0.1
    p /= p.sum(axis=0)
    wins = np.zeros((n, n))
    for teams in product(range(n), repeat=4):
        count = np.bincount(teams, minlength=n)
        wins += p[teams, np.arange(4)].prod() * (count[:, None] > count)
    shown = Shown("probabilistic", tuple("abcd"), n, tuple(map(tuple, p.tolist())))
    np.testing.assert_allclose(
        Probabilistic().credit(shown, [1, 1, 1, 1]), wins.sum(axis=1) / (n - 1), atol=1e-13
    )
    np.testing.assert_allclose(Probabilistic().outcome(shown, [1, 1, 1, 1]), wins - wins.T, atol=1e-13)


def test_probabilistic_extreme_decay_follows_a_ranking():
    """A large tau makes rankers deterministic: the lists are those of coins and top documents."""
    found = {
        s.documents: p
        for s, p in Probabilistic(2000.0).distribution([list("abc"), list("bca")], 3)
        if p > 1e-9
    }
    assert set(found) == {tuple("abc"), tuple("bac"), tuple("bca")}
    assert found[tuple("abc")] == pytest.approx(0.5)


@pytest.mark.parametrize("n", [2, 3])
def test_optimized_satisfies_its_constraints_and_is_optimal(n):
    rng = np.random.default_rng(5)
    for _ in range(4):
        rankings = [rng.permutation(8).tolist() for _ in range(n)]
        distribution = Optimized(max_lists=100_000).distribution(rankings, 5)
        by_place = sum(p * np.array(shown.evidence) for shown, p in distribution)
        assert distribution[0][0].slack == 0
        assert np.abs(by_place).max() <= 1e-9
        value = sensitivity(np.array([shown.evidence for shown, _ in distribution])) @ [
            p for _, p in distribution
        ]
        # no other fair distribution is more sensitive: try the corners that random objectives lead to
        lists = allowed_lists([tuple(r) for r in rankings], 5, 100_000)
        ranks = [{d: k for k, d in enumerate(r, 1)} for r in rankings]
        table = np.array([[[own[d] for d in shown] for own in ranks] for shown in lists], dtype=float)
        table = 1 / table
        table -= table.mean(axis=1, keepdims=True)
        for _ in range(3):
            other, slack = fair_distribution(table, rng.normal(size=len(lists)))
            assert slack == 0
            assert np.abs(np.tensordot(other, table, axes=1)).max() <= 1e-9
            assert sensitivity(table) @ other <= value + 1e-9


def test_optimized_sensitivity_by_hand():
    # weights 2/3 and 1/3 (1/k, normalised). One place each: the entropy of (2/3, 1/3)
    credit = np.array([[[0.1, -0.1], [-0.1, 0.1]], [[0.0, 0.1], [0.0, -0.1]], [[0.1, 0.1], [-0.1, -0.1]]])
    p = np.array([2 / 3, 1 / 3])
    np.testing.assert_allclose(sensitivity(credit), [-(p * np.log(p)).sum(), 0, 0], atol=1e-15)


def test_optimized_without_solution_reports_the_least_slack():
    """Lists (a) and (b): credits 1, 1, 1/2 and 1/2, 1/3, 1 cannot be mixed to be equal."""
    distribution = Optimized().distribution([list("abc"), list("acb"), list("bac")], 1)
    p = {shown.documents[0]: q for shown, q in distribution}
    a, b = np.array([1, 1, 1 / 2]), np.array([1 / 2, 1 / 3, 1])
    grid = np.linspace(0, 1, 100_001)[:, None]
    mixed = grid * (a - a.mean()) + (1 - grid) * (b - b.mean())
    least = np.abs(mixed).max(axis=1).min()
    assert distribution[0][0].slack == pytest.approx(least, abs=1e-5)
    assert p["a"] == pytest.approx(grid[np.abs(mixed).max(axis=1).argmin(), 0], abs=1e-4)


def test_optimized_samples_where_lists_are_too_many():
    rankings = [np.random.default_rng(i).permutation(20).tolist() for i in range(4)]
    method = Optimized(max_lists=200)
    rejected("more than max_lists=200 allowed lists", method.distribution, rankings, 8)
    shown = method.show(rankings, 8, rng=1)
    assert len(shown.documents) == 8
    assert shown == method.show(rankings, 8, rng=1)
