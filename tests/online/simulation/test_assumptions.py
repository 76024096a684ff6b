"""The assumption report against brute force."""

from itertools import combinations, permutations

import numpy as np
import pytest

from experiments._worlds import subset_shares
from structsvm.online import assumption_report
from structsvm.online.simulation.worlds import Utilities, condorcet_winner
from tests.refusing import rejected


def random_matrix(seed: int, k: int) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).random((k, k)), 1)
    return upper + np.tril(1 - upper.T, -1) + 0.5 * np.eye(k)


def brute_order(P: np.ndarray) -> list[int] | None:
    for order in permutations(range(len(P))):
        if all(P[a, b] > 0.5 for a, b in combinations(order, 2)):
            return list(order)
    return None


@pytest.mark.parametrize("seed", range(30))
def test_against_brute_force(seed: int) -> None:
    P = random_matrix(seed, 2 + seed % 4)
    if seed % 3 == 0:
        P = np.where(np.triu(np.ones_like(P), 1) > 0, np.maximum(P, 1 - P), P)
        P = np.triu(P, 1) + np.tril(1 - np.triu(P, 1).T, -1) + 0.5 * np.eye(len(P))
    k = len(P)
    report = assumption_report(P)
    order = brute_order(P)
    assert report.total_order == order
    winners = [i for i in range(k) if all(P[i, j] > 0.5 for j in range(k) if j != i)]
    assert report.condorcet == (winners[0] if winners else None)
    assert report.borda == [int(np.argmax(P.sum(axis=1)))]
    beaten = [(P[i] > 0.5).sum() for i in range(k)]
    assert report.copeland == [i for i in range(k) if beaten[i] == max(beaten)]
    if order is not None:
        e = P - 0.5
        triples = list(combinations(order, 3))
        strong = [e[i, m] >= max(e[i, j], e[j, m]) - 1e-12 for i, j, m in triples]
        triangle = [e[i, m] <= e[i, j] + e[j, m] + 1e-12 for i, j, m in triples]
        assert report.strong_transitivity == pytest.approx(np.mean(strong) if strong else 1.0)
        assert report.triangle_inequality == pytest.approx(np.mean(triangle) if triangle else 1.0)
    if winners:
        a, e = winners[0], P - 0.5
        gamma = report.relaxed_gamma
        pairs = [(j, m) for j in range(k) for m in range(k) if j != a and m not in (a, j) and P[j, m] > 0.5]
        assert all(gamma * e[a, m] >= max(e[a, j], e[j, m]) - 1e-12 for j, m in pairs)
        assert gamma == 1.0 or not all((gamma - 1e-6) * e[a, m] >= max(e[a, j], e[j, m]) for j, m in pairs)


@pytest.mark.parametrize("link", ["linear", "logistic", "gaussian"])
def test_utilities_satisfy_everything(link: str) -> None:
    report = assumption_report(Utilities([0.1, 0.9, 0.3, 0.55], link).preferences)
    assert report.total_order == [1, 3, 2, 0]
    assert (report.strong_transitivity, report.triangle_inequality) == (1.0, 1.0)
    assert report.relaxed_gamma == 1.0 or link == "linear"
    assert report.uninformative == 0


def test_shares_over_subsets() -> None:
    P = random_matrix(3, 6)
    shares = subset_shares(P, n_subsets=3000)
    for m, share, order in zip(shares.sizes, shares.condorcet, shares.total_order, strict=True):
        subsets = [P[np.ix_(s, s)] for s in combinations(range(6), int(m))]
        assert share == pytest.approx(np.mean([condorcet_winner(sub) is not None for sub in subsets]))
        exact = np.mean([brute_order(sub) is not None for sub in subsets])
        assert abs(order - exact) < 4 * np.sqrt(exact * (1 - exact) / 3000) + 1e-9
    rejected("from 1 to 6", subset_shares, P, [7])


def test_real_rankers(shared_data) -> None:
    matrices = shared_data("preference_matrices")
    assert assumption_report(np.load(matrices / "P64.npy")).condorcet == 13
    assert assumption_report(np.load(matrices / "P31.npy")).condorcet == 12
