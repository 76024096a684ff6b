"""DBGD and BGD."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from structsvm.online.bandits import BGD1, BGD2, DBGD, dbgd_step_sizes, from_json
from tests.refusing import rejected


def test_one_step_by_hand() -> None:
    u = np.array([0.6, 0.8])
    for make, outcome, step in (
        (DBGD, 1, 0.5),
        (DBGD, 0, 0.0),
        (DBGD, [1, 0, 1], 0.5),
        (DBGD, [1, 0], 0.0),
        (BGD1, 0.3, -0.15),
        (BGD2, 0.3, 0.1),
    ):
        descent = make([1.0, 0.0], delta=2.0, gamma=0.5, radius=3.0)
        probe = descent.select(np.random.default_rng(0))._replace(direction=u)
        descent.update(probe, outcome)
        np.testing.assert_allclose(descent.best(), np.array([1.0, 0.0]) + step * u)


@pytest.mark.parametrize("radius", [0.6, None])
def test_takes_the_steps_of_algorithm_7(radius):
    """With the same random directions; W is a ball, or the sphere."""
    descent = DBGD([0.1, 0.2, 0.3], delta=0.5, gamma=0.2, radius=radius)
    ours, theirs, wins = (np.random.default_rng(seed) for seed in (5, 5, 9))

    def projected(w):  # P_W
        length = np.sqrt((w**2).sum())
        return w / length * (1 if radius is None else min(length, radius))

    w = projected(np.array([0.1, 0.2, 0.3]))
    for won in wins.random(200) < 0.5:
        u = theirs.standard_normal(3)
        u /= np.sqrt((u**2).sum())
        probe = descent.select(ours)
        np.testing.assert_allclose(probe.w, w, rtol=1e-9)
        np.testing.assert_allclose(probe.candidate, projected(w + 0.5 * u), rtol=1e-9)
        descent.update(probe, won)
        w = projected(w + 0.2 * u) if won else w


def test_projections() -> None:
    rng = np.random.default_rng(0)
    ball = DBGD([3.0, 4.0], delta=1, gamma=1, radius=2.0)
    np.testing.assert_allclose(ball.best(), [1.2, 1.6])
    sphere = DBGD([3.0, 4.0], delta=0.5, gamma=1)
    for _ in range(50):
        probe = ball.select(rng)
        assert np.linalg.norm(probe.candidate) <= 2 + 1e-12
        assert np.linalg.norm(probe.direction) == pytest.approx(1)
        ball.update(probe, 1)
        probe = sphere.select(rng)
        assert np.linalg.norm(probe.candidate) == pytest.approx(1)
        sphere.update(probe, 1)
        assert np.linalg.norm(sphere.best()) == pytest.approx(1)


def test_restart_and_bad_outcomes() -> None:
    rng, other = np.random.default_rng(1), np.random.default_rng(1)
    descent = DBGD([1.0, 2.0], delta=0.3, gamma=0.1, radius=4)
    for _ in range(10):
        descent.update(descent.select(rng), 1)
        other.standard_normal(2)
    again = from_json(descent.to_json())
    np.testing.assert_array_equal(again.select(other).candidate, descent.select(rng).candidate)
    rejected(r"outcome=.*: expected numbers in \[0, 1\]", descent.update, descent.select(rng), 3)


def test_step_sizes_minimise_the_bound_of_the_theorem():
    """Minimise the last line of the proof of Theorem 7 over delta; compare with the stated bound."""
    for L, d, R, T in ((0.25, 50, 10.0, 1e6), (3.0, 4, 0.5, 777), (0.01, 1, 2.0, 10)):
        delta, gamma = dbgd_step_sizes(L, dimension=d, radius=R, horizon=T)

        def bound(log_delta, L=L, d=d, R=R, T=T):
            x = np.exp(log_delta)
            return 2 * R * d * np.sqrt(T) / x + 13 * x * L * T

        found = minimize_scalar(bound, bracket=(-5, 5), tol=1e-10)
        assert delta == pytest.approx(np.exp(found.x), rel=1e-6)
        assert bound(np.log(delta)) == pytest.approx(2 * T**0.75 * np.sqrt(26 * R * d * L), rel=1e-12)
        assert gamma == pytest.approx(R / np.sqrt(T))
    rejected("lipschitz=0", dbgd_step_sizes, 0, dimension=3, radius=1, horizon=10)
