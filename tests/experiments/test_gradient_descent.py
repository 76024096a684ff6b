"""The compiled gradient descents make the comparisons of the literal policies."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from experiments._gradient_descent import METHODS, PROBLEMS, _value, descend, descend_rankings, ndcg_of
from structsvm.online.bandits import BGD1, BGD2, DBGD
from structsvm.online.simulation.runs import generators
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
