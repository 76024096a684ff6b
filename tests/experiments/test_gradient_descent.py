"""The compiled gradient descents make the comparisons of the literal policies."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from experiments._gradient_descent import METHODS, PROBLEMS, _value, descend, descend_rankings, ndcg_of
from structsvm.metrics import evaluate
from structsvm.online.bandits import BGD1, BGD2, DBGD
from structsvm.online.simulation.runs import generators
from structsvm.queries import QueryData
from structsvm.readers import make_ranking

DATA = make_ranking(12, 15, 4, noise=1.0, random_state=3)


def literal(problem: str, method: str, factor: float, d: int, radius: float, steps: int, seed: int):
    """Return the regret after each step and the last point, by the uncompiled policy and the formulas of the thesis."""
    value = partial(_value, PROBLEMS.index(problem))
    delta = steps**-0.25 * factor * np.sqrt(0.4 * radius * d)
    policy = {"dbgd": DBGD, "bgd1": BGD1, "bgd2": BGD2}[method](
        np.full(d, np.sqrt(5 / d)), delta=delta, gamma=radius / np.sqrt(steps), radius=radius
    )
    rng, _ = generators(np.random.SeedSequence(seed).spawn(1)[0])
    best, total, curve = value(np.zeros(d)), 0.0, []
    for _ in range(steps):
        probe = policy.select(rng)
        here, there = value(probe.w), value(probe.candidate)
        total += expit(best - here) + expit(best - there) - 1
        won = rng.random() < expit(there - here) if method == "dbgd" else expit(here - there)
        policy.update(probe, won)
        curve.append(total)
    return np.array(curve), policy.w


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", METHODS)
def test_compiled_descent_is_the_literal_one(problem: str, method: str) -> None:
    curve, w = literal(problem, method, 0.7, 7, 2.0, steps=400, seed=5)
    options = {"delta_factor": 0.7, "dimension": 7, "radius": 2.0, "seed": 5, "times": np.arange(1, 401)}
    run = descend(problem, method=method, horizon=400, **options)
    np.testing.assert_allclose(run.regret[0], curve, rtol=1e-9)
    np.testing.assert_allclose(run.weights[0], w, atol=1e-9)
    assert run.average_regret[-1] == pytest.approx(curve[-1] / 400)


def test_zero_is_the_best_point_of_every_problem() -> None:
    for problem, i in product(range(5), range(12)):  # separable: one coordinate at a time is enough
        found = minimize_scalar(
            lambda x, *at: -_value(at[0], x * np.eye(12)[at[1]]), args=(problem, i), bounds=(-10, 10)
        )
        assert -found.fun <= _value(problem, np.zeros(12)) + 1e-12


def test_value_functions_by_hand() -> None:
    w = np.array([1.0, -2.0, 3.0, -1.0])
    quadratic_and_absolute = -(1 + 9) - (2 + 1)
    both_sides = -sum(np.exp(x) + np.exp(-x) for x in w)
    # coordinates 1 and 4 leave rest 1 by 3: e^[w]+; coordinate 2 leaves rest 2: e^[-w]+
    by_hand = [-15, -7, quadratic_and_absolute, both_sides, quadratic_and_absolute - np.e - 1 - np.e**2]
    np.testing.assert_allclose([_value(problem, w) for problem in range(5)], by_hand)


def test_runs_do_not_depend_on_threads_or_on_each_other() -> None:
    one = descend("P3", horizon=500, n_runs=3, seed=2)
    two = descend("P3", horizon=500, n_runs=3, seed=2, n_jobs=2)
    np.testing.assert_array_equal(one.regret, two.regret)
    np.testing.assert_array_equal(one.regret[:2], descend("P3", horizon=500, n_runs=2, seed=2).regret)
    assert (descend("P3", horizon=500, n_runs=3, seed=3).regret != one.regret).any()


@pytest.mark.parametrize("queries", [1, 4])
def test_compiled_ranking_descent_is_the_literal_one(queries: int) -> None:
    steps, seed = 150, 4
    rng, _ = generators(np.random.SeedSequence(seed).spawn(1)[0])
    policy = DBGD(rng.standard_normal(4), delta=0.8, gamma=0.1)
    curve = []
    for _ in range(steps):
        probe = policy.select(rng)
        table = ndcg_of(DATA, np.array([probe.candidate, probe.w]))
        won = []
        for _ in range(queries):
            q = int(rng.random() * DATA.n_queries)
            won.append(rng.random() < expit(10 * (table[0, q] - table[1, q])))
        policy.update(probe, won)
        curve.append(ndcg_of(DATA, policy.w[None]).mean())
    run = descend_rankings(
        DATA, horizon=steps, delta=0.8, gamma=0.1, queries=queries, seed=seed, times=np.arange(1, steps + 1)
    )
    np.testing.assert_allclose(run.ndcg[0], curve, rtol=1e-9)
    np.testing.assert_allclose(run.weights[0], policy.w, atol=1e-9)


def test_ranking_descent_learns_and_takes_a_start() -> None:
    data = make_ranking(60, 20, 5, noise=0.1, random_state=1)
    runs = descend_rankings(data, horizon=20_000, gamma=0.02, n_runs=2, seed=0)
    assert (runs.ndcg[:, -1] > 0.85).all()
    np.testing.assert_allclose(np.linalg.norm(runs.weights, axis=1), 1)
    start = np.arange(1.0, 6)
    first = descend_rankings(data, horizon=1, gamma=1e-9, start=start)
    np.testing.assert_allclose(first.weights[0], start / np.linalg.norm(start), atol=1e-8)


def test_ndcg_is_that_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    sizes = [1, 3, 12, 30]
    n = sum(sizes)
    X, y = rng.standard_normal((n, 3)), rng.integers(0, 4, n)
    y[:4] = 0  # two queries without a relevant document
    data = QueryData.from_arrays(X, y, np.repeat(np.arange(4), sizes))
    weights = rng.standard_normal((2, 3))
    for k in (1, 10, 40):
        table = ndcg_of(data, weights, k=k)
        for w, row in zip(weights, table, strict=True):
            witness = evaluate(f"ndcg@{k}", y, X @ w, qid=data.qid, convention="burges")
            known = witness.per_query[2:]
            np.testing.assert_allclose(row[2:], known)
        assert (table[:, :2] == 0).all()
