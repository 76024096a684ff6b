"""Propensities: the likelihood by definition, other estimators, known truth, and logs that do not determine them."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.stats import binomtest

from structsvm.checks import BadInput
from structsvm.clicks import ClickCells, Propensities, harvest, read_sessions, trust_bias

THETA = 1 / np.arange(1, 6)


def log_likelihood(cells, theta):
    """The conditional likelihood by its definition."""
    total = 0.0
    for r in range(cells.n_rows):
        mine = cells.row == r
        weights = cells.shows[mine] * theta[cells.position[mine] - 1]
        if cells.clicks[mine].sum():
            total += cells.clicks[mine] @ np.log(weights / weights.sum())
    return total


def swap_estimate(cells, k):
    """Ratio of position k to 1 from documents seen at both, weighted by the smaller number of shows (AllPairs)."""
    rate = [0.0, 0.0]
    for r in range(cells.n_rows):
        at = [np.flatnonzero((cells.row == r) & (cells.position == p)) for p in (1, k)]
        if all(a.size for a in at):
            n = [cells.shows[a[0]] for a in at]
            for i in (0, 1):
                rate[i] += min(n) * cells.clicks[at[i][0]] / n[i]
    return rate[1] / rate[0]


def all_pairs(cells, n):
    """AllPairs (Agarwal et al., WSDM 2019): a Bernoulli model of each pair of positions, free relevance per pair."""
    hits, miss = np.zeros((n, n)), np.zeros((n, n))
    for r in range(cells.n_rows):
        mine = np.flatnonzero((cells.row == r) & (cells.position <= n))
        for i in mine:
            for j in mine:
                if i != j:
                    w = min(cells.shows[i], cells.shows[j])
                    a, b = cells.position[i] - 1, cells.position[j] - 1
                    hits[a, b] += w * cells.clicks[i] / cells.shows[i]
                    miss[a, b] += w * (1 - cells.clicks[i] / cells.shows[i])

    pair = np.triu_indices(n, 1)

    def loss(x):
        p = 1 / (1 + np.exp(-x[:n]))
        r = np.zeros((n, n))
        r[pair] = 1 / (1 + np.exp(-x[n:]))
        r += r.T
        q = np.clip(p[:, None] * r, 1e-12, 1 - 1e-12)
        off = ~np.eye(n, dtype=bool)
        return -(hits[off] @ np.log(q[off]) + miss[off] @ np.log(1 - q[off])) / (hits.sum() + miss.sum())

    x = minimize(
        loss, np.zeros(n + pair[0].size), method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10**6}
    ).x
    p = 1 / (1 + np.exp(-x[:n]))
    return p / p[0]


def test_maximum_of_the_likelihood_by_definition(simulated_log):
    cells, _ = simulated_log(np.random.default_rng(0), 800, THETA, n_queries=6)
    found = harvest(cells)
    assert found.theta[0] == 1.0
    assert found.n_steps <= 10
    assert found.certificate <= 1e-6

    def of_log(beta):
        return -log_likelihood(cells, np.exp(np.concatenate(([0.0], beta))))

    other = minimize(of_log, np.zeros(4), method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(np.log(found.theta[1:]), other.x, atol=1e-5)
    # the certificate bounds what any other point has more
    rng = np.random.default_rng(1)
    best = -of_log(np.log(found.theta[1:]))
    assert all(-of_log(rng.normal(size=4)) <= best + found.certificate for _ in range(50))


def test_covariance_is_the_sandwich_of_numerical_derivatives(simulated_log):
    cells, _ = simulated_log(np.random.default_rng(2), 600, THETA, n_queries=12)
    found = harvest(cells)
    beta = np.log(found.theta[1:])

    def of_query(q):
        rows = np.arange(cells.offsets[q], cells.offsets[q + 1])
        chosen = np.isin(cells.row, rows)
        part = ClickCells(
            cells.query_ids[q : q + 1], np.array([0, rows.size]), cells.docid[rows], cells.row[chosen] - rows[0],
            cells.position[chosen], cells.shows[chosen], cells.clicks[chosen],
        )  # fmt: skip
        return lambda b: log_likelihood(part, np.exp(np.concatenate(([0.0], b))))

    parts = [of_query(q) for q in range(cells.n_queries)]
    scores = np.array([approx_fprime(beta, f, 1e-6) for f in parts])

    def gradient(b):
        return sum(approx_fprime(b, f, 1e-6) for f in parts)

    hessian = np.array([(gradient(beta + h) - gradient(beta - h)) / 2e-3 for h in 1e-3 * np.eye(4)])
    bread = np.linalg.inv(hessian)
    expected = bread @ scores.T @ scores @ bread.T * 12 / 11
    np.testing.assert_allclose(found.covariance[1:, 1:], expected, rtol=0.02, atol=1e-6)
    assert not found.covariance[0].any()


def test_errors_fall_with_clicks_and_intervals_hold(simulated_log):
    theta = 1 / np.arange(1, 11)
    errors, held = [], []
    for seed in range(40):
        cells, _ = simulated_log(np.random.default_rng(seed), 6000, theta, n_documents=10)
        found = harvest(cells)
        low, high = found.interval()
        held.append((low <= theta) & (theta <= high))
        errors.append(np.abs(found.theta / theta - 1)[1:].mean())
    assert np.mean(held, axis=0)[0] == 1
    assert np.mean(held, axis=0)[1:].mean() >= 0.88
    assert np.mean(errors) < 0.08


def test_agrees_with_all_pairs_and_swaps(simulated_log):
    cells, _ = simulated_log(np.random.default_rng(3), 60_000, THETA, n_documents=5)
    found = harvest(cells)
    np.testing.assert_allclose(found.theta, all_pairs(cells, 5), atol=0.03)
    for k in range(2, 6):
        assert found.theta[k - 1] == pytest.approx(swap_estimate(cells, k), abs=0.03)


def test_agrees_with_all_pairs_on_real_sessions(shared_data):
    cells = read_sessions(shared_data("yandex_sessions/train.txt.gz"))
    found = harvest(cells)
    np.testing.assert_allclose(found.theta, all_pairs(cells, 10), atol=0.03)
    assert found.certificate <= 1e-6
    assert found.n_steps <= 10


def test_scale_and_order_do_not_matter(simulated_log):
    cells, _ = simulated_log(np.random.default_rng(4), 500, THETA, n_queries=10)
    found = harvest(cells)
    double = harvest(ClickCells.concatenate([cells, cells]))
    np.testing.assert_allclose(double.theta, found.theta, rtol=1e-9)
    # a query twice, not two queries: the clusters are the same, and so are the errors
    np.testing.assert_allclose(double.covariance, found.covariance, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("factor", [10, 10**3, 10**5, 10**7])
def test_large_logs_have_the_estimate_of_small_ones(simulated_log, factor):
    """The last Newton steps gain less than the rounding of the likelihood of many clicks."""
    for seed in range(10):
        cells, _ = simulated_log(np.random.default_rng(seed), 3000, 1 / np.arange(1, 8))
        more = dataclasses.replace(
            cells, shows=factor * cells.shows, clicks=factor * cells.clicks, sessions=None
        )
        few, many = harvest(cells), harvest(more)
        np.testing.assert_allclose(many.theta, few.theta, rtol=1e-7)
        assert many.n_steps <= 8
        assert many.certificate <= max(1e-6, 1e-13 * factor * cells.n_clicks)


def test_one_deterministic_ranker_is_refused_by_the_names_of_positions(simulated_log):
    cells, _ = simulated_log(np.random.default_rng(5), 2000, THETA, n_rankers=1)
    with pytest.raises(BadInput, match="none for positions 2-5; log interleaved or swapped lists"):
        harvest(cells)
    # positions 1 and 2 swap, the others stay
    query, document, position = np.repeat([1, 1], 200), [], []
    rng = np.random.default_rng(6)
    clicked = rng.random(200 * 4) < 0.4
    for _ in range(200):
        a, b = rng.permutation([0, 1])
        document += [a, b, 2, 3]
        position += [1, 2, 3, 4]
    query = np.ones(800, dtype=int)
    cells = ClickCells.from_arrays(query, document, position, clicked)
    with pytest.raises(BadInput, match="none for positions 3, 4;"):
        harvest(cells)
    assert harvest(cells, last=2).theta.shape == (2,)


def test_a_position_without_clicks_has_no_estimate():
    cells = ClickCells.from_arrays([1] * 6, [5, 5, 5, 6, 6, 6], [1, 2, 3] * 2, [1, 1, 0, 1, 1, 0])
    with pytest.raises(
        BadInput, match="got all or none at position 3, whose estimate would be 0 or infinite"
    ):
        harvest(cells)
    with pytest.raises(BadInput, match="expected clicks, got none at all"):
        harvest(ClickCells.from_arrays([1, 1], [5, 5], [1, 2], [0, 0]))
    one = harvest(ClickCells.from_arrays([1, 1], [5, 6], [1, 1], [0, 1]))
    assert one.theta.tolist() == [1.0]


def test_power_law_beyond_the_last(simulated_log):
    theta = np.arange(1, 21) ** -1.3
    cells, _ = simulated_log(np.random.default_rng(7), 60_000, theta, n_documents=20, attraction=(0.2, 0.9))
    found = harvest(cells, last=5, tail=True)
    np.testing.assert_allclose(found.theta, theta, rtol=0.12)
    assert found.connected.sum() == 5
    np.testing.assert_allclose(
        np.log(found.theta[5:] / found.theta[4]) / np.log(np.arange(6, 21) / 5),
        np.log(found.theta[5] / found.theta[4]) / np.log(6 / 5),
    )
    with pytest.raises(BadInput, match="tail=True: expected last"):
        harvest(cells, tail=True)


def test_trust_bias_shows_where_there_is_some(simulated_log):
    alpha = THETA * np.linspace(0.5, 0.9, 5)
    beta = THETA * np.linspace(0.5, 0.05, 5)
    cells, _ = simulated_log(
        np.random.default_rng(8), 30_000, THETA, trust=(alpha, beta), attraction=(0, 1.0), n_queries=200
    )
    assert trust_bias(cells).p_value < 1e-3


def test_trust_bias_keeps_its_level(simulated_log):
    """The p-value is uniform without a bias, also with few queries."""
    p = [
        trust_bias(simulated_log(np.random.default_rng(s), 6000, THETA)[0]).p_value for s in range(1000, 1150)
    ]
    assert binomtest(int(np.sum(np.array(p) < 0.05)), len(p), 0.05, alternative="greater").pvalue > 1e-3
    assert binomtest(int(np.sum(np.array(p) < 0.5)), len(p), 0.5).pvalue > 1e-3


def test_given_and_weakest_link():
    given = Propensities.given([2.0, 1.0, 0.5])
    assert given.theta.tolist() == [1.0, 0.5, 0.25]
    assert given.weakest_link.error == 0
    with pytest.raises(BadInput, match=r"theta\[1\]: expected a finite number > 0"):
        Propensities.given([1.0, 0.0])
    with pytest.raises(BadInput, match="got 3 for a log with position 4"):
        given.at(np.array([1, 4]))
    v = np.zeros((3, 3))
    v[1:, 1:] = [[0.04, 0.04], [0.04, 0.05]]
    assert Propensities(given.theta, v).weakest_link == (1, 2, pytest.approx(0.2))
