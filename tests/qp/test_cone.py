"""The one-slack problem with weights in a cone: our solver against Clarabel on the primal, and weak duality."""

import numpy as np
import pytest

from structsvm.qp import get_solver
from structsvm.qp.active_set import solve as active_set
from structsvm.qp.cone import project, solve_cone, solve_signs
from structsvm.qp.convex import Convex
from structsvm.trainers.cuts import GrowingPlanes
from tests.refusing import rejected


def primal(joint, loss, C, w):
    return 0.5 * w @ w + C * max(0.0, np.max(loss - joint @ w))


def certified(joint, loss, C, found):
    """Return the solver's upper bound, with a tolerance for the rounding error of a slack times C."""
    rounding = C * joint.shape[1] * np.finfo(float).eps * np.max(loss + np.abs(joint) @ np.abs(found.w))
    return pytest.approx(found.value + found.gap, rel=1e-12, abs=rounding)


MIXED = [1, 1, 1, -1, 1, 0, -1, 1, 0]


@pytest.mark.parametrize(
    ("C", "signs"),
    [*((C, [1] * 9) for C in [1e-6, 1e-2, 1.0, 1e2, 1e5]), *((C, MIXED) for C in [1e-6, 1.0, 1e2])],
)
@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.5])
def test_certified_and_equal_to_clarabel(C, signs, shift):
    rng = np.random.default_rng(0)
    joint, loss = rng.normal(size=(20, 9)) + shift, rng.random(20)
    joint[3] = joint[2]
    joint[:, 4] = 0.0
    signs = np.array(signs, dtype=float)
    ours = solve_cone(joint, loss, C, signs)
    assert np.all(ours.w * signs >= 0)
    assert np.all(ours.alpha >= 0)
    assert ours.alpha.sum() <= C * (1 + 1e-15)
    total = joint.T @ ours.alpha
    np.testing.assert_allclose(ours.w, np.where(total * signs < 0, 0.0, total), atol=1e-15)
    assert primal(joint, loss, C, ours.w) == certified(joint, loss, C, ours)
    assert ours.gap <= 1e-8 * ours.value
    reference = Convex(9, signs=signs).solve(joint, loss, C)
    assert reference.lower <= ours.value * (1 + 1e-12) + ours.gap
    assert reference.lower == pytest.approx(ours.value, rel=1e-4)
    by_cvxpy = solve_cone(joint, loss, C, signs, solver=get_solver("cvxpy"))
    assert by_cvxpy.value <= ours.value * (1 + 1e-12) + ours.gap
    assert by_cvxpy.value >= ours.value * (1 - 1e-6)


def test_signs_in_several_groups_equal_a_plane_per_sign():
    """The multiplier of a sign acts as the mass of a plane with loss 0, in a group of its own."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        n, m, n_groups = rng.integers(1, 25), rng.integers(1, 30), rng.integers(1, 5)
        joint = rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-2, 2) + rng.choice([-0.5, 0.0, 0.5])
        if rng.random() < 0.3:
            joint = np.round(joint)
        loss, signs = rng.random(n), rng.choice([-1.0, 0.0, 1.0], m)
        group, cap = rng.integers(0, n_groups, n), 10.0 ** rng.uniform(-3, 3, n_groups)
        planes = GrowingPlanes(m)
        for b, g in zip(loss, joint, strict=True):
            planes.append(b, g)
        ours = solve_signs(joint, loss, group, cap, signs, rng.random(n), gram_over=planes.gram_over)
        assert np.all(ours.w * signs >= 0)
        assert np.all(ours.alpha >= 0)
        assert np.all(np.bincount(group, ours.alpha, n_groups) <= cap * (1 + 1e-14))
        np.testing.assert_allclose(
            ours.w, project(joint.T @ ours.alpha, signs), atol=1e-12 * np.abs(ours.w).max()
        )
        used = np.flatnonzero(signs)
        both = np.concatenate([joint, np.diag(signs)[used]])
        caps = np.concatenate([cap, np.maximum(cap.sum() * np.abs(joint[:, used]).max(axis=0), 1e-12)])
        owner = np.concatenate([group, n_groups + np.arange(used.size)])
        twin = active_set(both @ both.T, np.concatenate([loss, np.zeros(used.size)]), owner, caps)
        # the twin's value is a difference of squares of sums as large as these
        rounding = 4 * np.finfo(float).eps * np.square(np.abs(both).T @ twin.alpha).sum()
        rounding += 1e-12 * ours.value
        assert ours.gap <= 1e-8 * ours.value
        assert ours.value <= twin.value + twin.gap + rounding
        assert ours.value + ours.gap >= twin.value - rounding


def test_warm_start_and_no_planes():
    rng = np.random.default_rng(3)
    joint, loss = rng.normal(size=(15, 6)), rng.random(15)
    signs = np.array([1.0, -1, 0, 0, 1, -1])
    cold = solve_cone(joint, loss, 10.0, signs)
    assert solve_cone(joint, loss, 10.0, signs, cold.alpha).value == pytest.approx(cold.value, rel=1e-9)
    nothing = solve_cone(np.zeros((0, 4)), np.zeros(0), 1.0, np.ones(4))
    assert nothing.value == 0.0
    np.testing.assert_array_equal(nothing.w, np.zeros(4))


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_cone_is_certified_and_equal_to_clarabel(C):
    rng = np.random.default_rng(4)
    joint, loss = rng.normal(size=(20, 9)) - 0.3, rng.random(20)
    for cone in (np.tril(np.ones((9, 9))), rng.normal(size=(4, 9))):
        ours = solve_cone(joint, loss, C, cone)
        assert (cone @ ours.w).min() >= -1e-10 * (1 + np.abs(ours.w).max())
        assert primal(joint, loss, C, ours.w) == certified(joint, loss, C, ours)
        assert ours.gap <= 1e-7 * ours.value
        reference = Convex(9, lambda w, cone=cone: [cone @ w >= 0]).solve(joint, loss, C)
        assert reference.lower <= ours.value * (1 + 1e-12) + ours.gap
        assert reference.lower == pytest.approx(ours.value, rel=1e-4)
        warm = solve_cone(joint, loss, C, cone, ours.alpha)
        assert warm.value == pytest.approx(ours.value, rel=1e-9)


def test_dependent_constraints_are_refused():
    rejected("independent rows", solve_cone, np.ones((1, 3)), np.ones(1), 1.0, np.ones((2, 3)))
