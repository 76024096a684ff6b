"""Propensities: the likelihood by definition, known truth, and logs that do not determine them."""

import dataclasses

import numpy as np
import pytest
from _click_logs import of_queries
from scipy.linalg import fractional_matrix_power
from scipy.optimize import approx_fprime, minimize
from scipy.stats import binomtest

from structsvm.clicks import ClickCells, PositionBasedModel, Propensities, harvest, trust_bias
from structsvm.common.checks import BadInput
from tests.refusing import refused

THETA = 1 / np.arange(1, 6)


def log_likelihood(cells, theta):
    """Return the conditional log-likelihood by its definition."""
    total = 0.0
    for r in range(cells.n_rows):
        mine = cells.row == r
        weights = cells.shows[mine] * theta[cells.position[mine] - 1]
        if cells.clicks[mine].sum():
            total += cells.clicks[mine] @ np.log(weights / weights.sum())
    return total


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


@pytest.mark.parametrize("n_queries", [12, 3])
def test_errors_are_those_of_numerical_derivatives(simulated_log, n_queries):
    """CR2 and degrees of freedom by their definitions, with matrices of all queries."""
    cells, _ = simulated_log(np.random.default_rng(2), 600, THETA, n_queries=n_queries)
    found = harvest(cells)
    beta = np.log(found.theta[1:])

    def of_query(q):
        rows = np.arange(cells.offsets[q], cells.offsets[q + 1])
        chosen = np.isin(cells.row, rows)
        part = ClickCells(
            cells.query_ids[q : q + 1],
            np.array([0, rows.size]),
            cells.docid[rows],
            cells.row[chosen] - rows[0],
            cells.position[chosen],
            cells.shows[chosen],
            cells.clicks[chosen],
        )
        return lambda b: log_likelihood(part, np.exp(np.concatenate(([0.0], b))))

    parts = [of_query(q) for q in range(cells.n_queries)]
    scores = np.array([approx_fprime(beta, f, 1e-6) for f in parts])

    information = (
        -np.array(
            [
                [
                    approx_fprime(beta + h, f, 1e-6) - approx_fprime(beta - h, f, 1e-6)
                    for h in 1e-3 * np.eye(4)
                ]
                for f in parts
            ]
        )
        / 2e-3
    )
    information = (information + information.transpose(0, 2, 1)) / 2
    n = len(parts)
    root = np.linalg.inv(np.linalg.cholesky(information.sum(axis=0))).T
    W, z = root.T @ information @ root, scores @ root
    adjusted = [fractional_matrix_power(np.eye(4) - w, -0.5) for w in W]
    by_query = np.array([a @ one for a, one in zip(adjusted, z, strict=True)])
    expected = root @ (by_query.T @ by_query) @ root.T
    np.testing.assert_allclose(found.covariance[1:, 1:], expected, rtol=0.02, atol=1e-4 * expected.max())
    assert not found.covariance[0].any()
    for k in range(4):
        b = np.array([a @ root[k] for a in adjusted])
        P = np.array([[b[g] @ ((g == h) * W[g] - W[g] @ W[h]) @ b[h] for h in range(n)] for g in range(n)])
        assert found.freedom[k + 1] == pytest.approx(max(1, np.trace(P) ** 2 / (P**2).sum()), rel=0.02)
    trace = np.trace(W, axis1=1, axis2=2)
    assert found.effective_clusters == pytest.approx(trace.sum() ** 2 / (trace**2).sum(), rel=0.01)


def test_a_position_that_one_query_determines_has_the_error_of_independent_clicks():
    """Positions 1 and 2 occur in all queries, 3 in one, so that the ratio to 3 does not vary between queries."""
    rng = np.random.default_rng(0)
    query = np.concatenate([np.repeat(np.arange(20), 400), np.zeros(400, int)])
    position = np.concatenate([rng.integers(1, 3, 8000), rng.integers(2, 4, 400)])
    document = np.concatenate([np.zeros(8000, int), np.ones(400, int)])
    clicked = rng.random(8400) < 0.5 * THETA[position - 1]
    found = harvest(ClickCells.from_arrays(query, document, position, clicked))
    clicks = [clicked[(document == 1) & (position == k)].sum() for k in (2, 3)]
    of_ratio = found.covariance[2, 2] - 2 * found.covariance[1, 2] + found.covariance[1, 1]
    assert of_ratio == pytest.approx(1 / clicks[0] + 1 / clicks[1], rel=0.01)  # of two Poisson counts
    assert found.freedom[2] > 100 > found.freedom[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["30 equal", "one of 95 %", "two of 40 %", "3 equal", "one alone"])
def test_intervals_hold_whatever_the_queries(name):
    """Check 150 logs in which all queries, a few, or a single one have clicks."""
    held = []
    for seed in range(150):
        cells = of_queries(np.random.default_rng([3, seed]), name, 4000, length=5)
        try:
            found = harvest(cells)
        except BadInput:  # one query may leave positions apart
            continue
        low, high = found.interval()
        held.append(((low <= THETA) & (high >= THETA))[1:])
    assert 0.91 <= np.mean(held) <= 0.995
    if " of " in name:
        assert found.effective_clusters < 9 < found.n_clusters
    if name == "one alone":
        assert found.freedom is None
        assert np.log(high / low) / 2 == pytest.approx(1.959964 * found.standard_errors, rel=1e-6)


@pytest.mark.parametrize("factor", [10, 10**3, 10**5, 10**7])
def test_large_logs_have_the_estimate_of_small_ones(simulated_log, factor):
    """In large logs, the last Newton steps gain less than the rounding error of the likelihood."""
    for seed in range(10):
        cells, _ = simulated_log(np.random.default_rng(seed), 3000, 1 / np.arange(1, 8))
        shows, clicks = factor * cells.shows, factor * cells.clicks
        more = dataclasses.replace(cells, shows=shows, clicks=clicks, sessions=None)
        few, many = harvest(cells), harvest(more)
        np.testing.assert_allclose(many.theta, few.theta, rtol=1e-7)
        assert many.n_steps <= 8
        assert many.certificate <= max(1e-6, 1e-13 * factor * cells.n_clicks)


def test_one_deterministic_ranker_is_refused_by_the_names_of_positions(simulated_log):
    cells, _ = simulated_log(np.random.default_rng(5), 2000, THETA, n_rankers=1)
    refused("none for positions 2-5; log interleaved or swapped lists, or", harvest, cells)
    # positions 1 and 2 swap, the others stay
    document = np.tile([0, 1, 2, 3, 1, 0, 2, 3], 100)
    clicked = np.random.default_rng(6).random(800) < 0.4
    cells = ClickCells.from_arrays(np.ones(800, int), document, np.tile([1, 2, 3, 4], 200), clicked)
    refused("none for positions 3, 4;", harvest, cells)
    assert harvest(cells, last=2).theta.shape == (2,)


def test_a_position_without_clicks_has_no_estimate():
    cells = ClickCells.from_arrays([1] * 6, [5, 5, 5, 6, 6, 6], [1, 2, 3] * 2, [1, 1, 0, 1, 1, 0])
    refused("got all or none of the clicks at position 3, whose estimate would be 0 or inf", harvest, cells)


def test_power_law_beyond_the_last(simulated_log):
    theta = np.arange(1, 21) ** -1.3
    cells, _ = simulated_log(np.random.default_rng(7), 60_000, theta, n_documents=20, attraction=(0.2, 0.9))
    found = harvest(cells, last=5, tail=True)
    np.testing.assert_allclose(found.theta, theta, rtol=0.12)
    assert found.connected.sum() == 5
    slopes = np.log(found.theta[5:] / found.theta[4]) / np.log(np.arange(6, 21) / 5)
    assert slopes == pytest.approx(slopes[0])
    refused("tail=True: expected last", harvest, cells, tail=True)


def test_trust_bias_is_found_in_its_direction(simulated_log):
    """Strong trust bias is detected in most of 40 logs, the opposite bias in few."""
    options = {"attraction": (0, 1.0), "n_queries": 100}
    alpha, rising = THETA * np.linspace(0.5, 0.9, 5), THETA * np.linspace(0.05, 0.4, 5)
    for trust, low, high, said in (
        ((alpha, 0.9 * THETA - alpha), 0.8, 1, "trust bias: found (p = "),
        ((0.5 * THETA, rising), 0, 0.1, "trust bias: not found (p = "),
    ):
        rngs = (np.random.default_rng([8, seed]) for seed in range(40))
        tests = [trust_bias(simulated_log(rng, 8000, THETA, trust=trust, **options)[0]) for rng in rngs]
        assert low <= np.mean([one.p_value < 0.01 for one in tests]) <= high
        assert tests[0].in_words().startswith(said)
        assert "times as fast by position 5" in tests[0].in_words()
    few = trust_bias(ClickCells.from_arrays([1, 1], [5, 6], [1, 1], [0, 1]))
    assert "not tested" in few.in_words()


def test_detectable_trust_bias_shrinks_with_the_log(simulated_log):
    logs = (simulated_log(np.random.default_rng(1), n, THETA)[0] for n in (1000, 10_000, 100_000))
    found = [trust_bias(cells).detectable for cells in logs]
    assert found[0] > found[1] > found[2] > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["30 equal", "one of 60 %"])
def test_trust_bias_keeps_its_level(name):
    logs = (of_queries(np.random.default_rng([4, seed]), name, 6000, length=5) for seed in range(150))
    p = np.array([trust_bias(cells).p_value for cells in logs])
    p = p[~np.isnan(p)]
    for level in (0.01, 0.05, 0.2):
        assert binomtest(int((p < level).sum()), 150, level, alternative="greater").pvalue > 1e-3
    if name == "30 equal":
        assert binomtest(int((p < 0.5).sum()), p.size, 0.5).pvalue > 1e-3


def test_given_and_weakest_link():
    given = Propensities.given([2.0, 1.0, 0.5])
    assert given.theta.tolist() == [1.0, 0.5, 0.25]
    assert given.weakest_link.error == 0
    refused(r"theta\[1\]: expected a finite number > 0", Propensities.given, [1.0, 0.0])
    refused("got 3 for a log with position 4", given.at, np.array([1, 4]))
    for far in ([1e-300, 1e300], [1e300, 1e-300], [1, 1e-300]):
        refused("within 100 orders of magnitude", Propensities.given, far)
    v = np.zeros((3, 3))
    v[1:, 1:] = [[0.04, 0.04], [0.04, 0.05]]
    assert Propensities(given.theta, v).weakest_link == (1, 2, pytest.approx(0.2))


def test_a_log_of_clicks_alone_has_no_propensities():
    cells = ClickCells.from_arrays([1] * 4, [5, 5, 6, 6], [1, 2, 1, 2], [1] * 4)
    for estimate in (harvest, lambda cells: PositionBasedModel(prior=1).fit(cells).propensities()):
        refused("impressions without a click, too, got clicks on all 4; log", estimate, cells)
