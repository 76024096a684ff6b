"""Convex constraints and penalties: bounds that hold whatever the solver's error, the optimum by cvxpy, errors."""

import cvxpy as cp
import numpy as np
import pytest

from structsvm.qp.convex import Convex
from tests.refusing import refusals, refused

PENALTIES = {
    "ridge": None,
    "l1": cp.norm1,
    "elastic net": lambda w: 0.3 * cp.norm1(w) + 0.5 * cp.sum_squares(w),
    "norm": cp.norm,
    "huber": lambda w: cp.sum(cp.huber(w)),
    "groups": lambda w: cp.norm(w[:3]) + cp.norm(w[3:]),
    "largest": lambda w: cp.max(cp.abs(w)) + cp.sum_squares(w[:2]),
    "full quadratic": lambda w: cp.quad_form(w, np.eye(6) + 0.3) + 2.0,
}
CONSTRAINTS = {
    "none": None,
    "sum": lambda w: [cp.sum(w) == 1],
    "order": lambda w: [w[0] >= w[1], w[2] <= 0.3],
    "ball": lambda w: [cp.norm(w) <= 0.5],
    "box": lambda w: [cp.abs(w) <= 0.2],
    "exponential": lambda w: [cp.log_sum_exp(w) <= 2.5],
    "semidefinite": lambda w: [cp.lambda_max(cp.diag(w)) <= 0.5],
}


LINEAR = ("none", "sum", "order")


def planes(rng, n=12, m=6):
    return rng.normal(size=(n, m)) - 0.2, rng.random(n)


def by_cvxpy(joint, loss, C, penalty, constraints, signs=None):
    w = cp.Variable(joint.shape[1])
    height = 0.5 * cp.sum_squares(w) if penalty is None else penalty(w)
    listed = [] if constraints is None else constraints(w)
    if signs is not None:
        listed.append(cp.multiply(signs, w) >= 0)
    problem = cp.Problem(cp.Minimize(height + C * cp.max(cp.hstack([loss - joint @ w, 0.0]))), listed)
    return problem.solve(solver=cp.CLARABEL)


def upper(region, joint, loss, C, w):
    return region.value(w) + C * max(0.0, float((loss - joint @ w).max()))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("constraints", CONSTRAINTS)
def test_bounds_hold_and_are_tight(penalty, constraints):
    """For 448 problems, weights are feasible, the lower bound is valid, and the gap is small."""
    rng = np.random.default_rng(len(penalty) * 100 + len(constraints))
    region = Convex(6, CONSTRAINTS[constraints], PENALTIES[penalty])
    for C in [1e-3, 1.0, 1e3, 1e5]:
        for _ in range(2):
            joint, loss = planes(rng)
            found = region.solve(joint, loss, C)
            # linear constraints are repaired to rounding; those of cones hold as far as Clarabel solves them
            assert region.violation(found.w) <= (1e-9 if constraints in LINEAR else 1e-6)
            assert found.alpha.min() >= 0
            assert found.alpha.sum() <= C * (1 + 1e-12)
            value = upper(region, joint, loss, C, found.w)
            assert found.lower <= value * (1 + 1e-12)
            assert found.lower >= value * (1 - 5e-5)
            heights = loss - joint @ found.w
            assert found.alpha @ (max(0.0, heights.max()) - heights) <= 1e-4 * value  # on cuts that bind
            for _ in range(5):  # any weights allowed are above
                other = region.solve(*planes(rng, 3), 10.0 ** rng.uniform(-2, 2)).w
                assert upper(region, joint, loss, C, other) >= found.lower * (1 - 1e-12)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("constraints", CONSTRAINTS)
def test_the_optimum_is_that_of_cvxpy(penalty, constraints):
    joint, loss = planes(np.random.default_rng(7))
    for held in (None, np.array([1.0, 0, 0, -1, 0, 0])):
        found = Convex(6, CONSTRAINTS[constraints], PENALTIES[penalty], held).solve(joint, loss, 2.0)
        optimum = by_cvxpy(joint, loss, 2.0, PENALTIES[penalty], CONSTRAINTS[constraints], held)
        assert found.lower == pytest.approx(optimum, rel=1e-6)
        if held is not None:
            assert (found.w * held >= 0).all()


def test_linear_constraints_hold_up_to_rounding():
    rng = np.random.default_rng(10)
    for _ in range(50):
        joint, loss = planes(rng)
        rows, most = rng.normal(size=(4, 6)), rng.random(4)
        region = Convex(
            6,
            lambda w, rows=rows, most=most: [rows @ w <= most, cp.sum(w) == 0.5, w[0] <= 2 * w[1]],
            cp.norm1,
        )
        w = region.solve(joint, loss, 100.0).w
        assert (rows @ w - most).max() <= 1e-14
        assert abs(w.sum() - 0.5) <= 1e-14
        assert w[0] <= 2 * w[1] + 1e-15


def test_what_a_solver_leaves_is_repaired():
    """Weights meet constraints up to rounding and signs exactly, and move only by the size of the error."""
    rng = np.random.default_rng(12)
    signs = np.array([0, 0, 1.0, -1.0])
    region = Convex(4, lambda w: [cp.sum(w) == 1, w[0] <= 0.2], signs=signs)
    for size in 10.0 ** rng.uniform(-9, -3, 50):
        w = np.array([0.2, 0.8, 0.0, 0.0]) + size * rng.normal(size=4)
        repaired = region._repaired(w)
        assert abs(repaired.sum() - 1) <= 4e-16
        assert repaired[0] <= 0.2 + 1e-16
        assert (repaired * signs >= 0).all()
        np.testing.assert_allclose(repaired, w, atol=20 * size)
    nowhere_inside = Convex(3, lambda w: [cp.sum(w) == 0], signs=np.ones(3))
    assert (nowhere_inside.solve(*planes(rng, 4, 3), 1.0).w >= 0).all()


@pytest.mark.parametrize(
    "constraints",
    [
        lambda w: [w[0] - w[1] >= 1, w[0] - 0.99 * w[1] == 0],  # (-99, -100)
        lambda w: [w[0] - w[1] >= 1, w[0] - 0.9999 * w[1] == 0],
        lambda w: [w >= 5000],
        lambda w: [w[0] >= 1e5],
        lambda w: [w[0] == 1e6],
        lambda w: [cp.norm(w - 3000) <= 1],
    ],
)
def test_weights_that_have_to_be_large_are_found(constraints):
    region = Convex(100, constraints)
    assert region.violation(region.least) <= 1e-9 * np.abs(region.least).max()
    optimum = by_cvxpy(np.zeros((0, 100)), np.zeros(0), 1.0, None, constraints, None)
    assert region.value(region.least) == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_constraints_around_known_weights_are_feasible(size):
    rng = np.random.default_rng(11)
    for _ in range(60):
        m = int(rng.integers(2, 6))
        inside, rows, room = rng.normal(size=m) * size, rng.normal(size=(m, m)), rng.uniform(0, 1, m) * size
        room[rng.random(m) < 0.3] = 0.0
        middle = rows @ inside
        signs = np.sign(inside) * (rng.random(m) < 0.5)
        region = Convex(m, lambda w, a=rows, b=middle, r=room: [a @ w <= b + r, a @ w >= b - r], signs=signs)
        assert region.violation(region.least) <= 1e-9 * size


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1.0, 1e4])
def test_contradictions_are_found_at_any_size(size):
    for constraints in (
        lambda w: [w[0] >= 2 * size, w[0] <= size],
        lambda w: [cp.norm(w) <= -size],
        lambda w: [cp.sum(w) == size, w <= 0],
    ):
        refused("no weights satisfy", Convex, 3, constraints)


def test_no_cuts_ask_for_the_least_penalty():
    found = Convex(3, lambda w: [cp.sum(w) == 3]).solve(np.zeros((0, 3)), np.zeros(0), 1.0)
    np.testing.assert_allclose(found.w, 1, atol=1e-6)
    assert found.lower == pytest.approx(1.5)


NAMES = ["title", "body", "anchor"]


def test_names_in_what_is_said():
    region = Convex(
        3, lambda w: [w["title"] >= w["body"], w[["title", "anchor"]] >= 0], cp.norm1, names=NAMES
    )
    assert region.constraints == ("w['body'] <= w['title']", "0.0 <= w['title', 'anchor']")
    assert region.penalty == "norm1(w)"


BOUND = cp.Variable(name="t", value=0.3)
BAD_CONSTRAINTS = [
    (lambda w: [w["titel"] >= 0], r"constraints: w\['titel'\]: no such feature; .*'title'\?"),
    (lambda w: [w[5] >= 0], "the function raised IndexError: .*out of bounds"),
    (lambda w: [w.price >= 0], r"no attribute 'price'; features are selected by w\['price'\]"),
    (lambda w: [0 <= w <= 1], "the function raised Exception: .*chain constraints"),
    (lambda w: w >= 0, "expected a list of cvxpy constraints, got 0.0 <= w"),
    (lambda w: [True], r"constraints\[0\]: expected a cvxpy constraint, got True"),
    (
        lambda w: [w["title"] >= 1, w["body"] <= 5, w["title"] <= w["body"] - 6, w >= -9],
        r"no weights satisfy \"1.0 <= w\['title'\]\" and \"w\['body'\] <= 5.0\" and .*together",
    ),
    (lambda w: [cp.norm(w) >= 1], r"constraints\[0\]: expected a convex set.*DCP rules"),
    (lambda w: [cp.norm1(w) <= BOUND], "constraints: expected w as the only"),
    (lambda w: [w[0] <= np.inf], r"constraints: expected finite numbers, got w\['title'\] <= inf"),
    (lambda w: [w[0] <= np.nan], "constraints: expected finite numbers"),
]
BAD_PENALTIES = [
    (lambda w: cp.abs(w["titel"]), r"penalty: w\['titel'\]: no such feature"),
    (lambda w: cp.sqrt(w[0]), "penalty: expected a convex function.*function that is concave"),
    (cp.sum, "penalty: expected a penalty bounded below over the allowed weights"),
    (lambda w: w, "penalty: expected a cvxpy expression with one value, got w"),
    (lambda w: 3.0, "penalty: expected a cvxpy expression with one value, got 3.0"),
    (lambda w: cp.norm1(w) + BOUND**2, "penalty: expected w as the only"),
    (lambda w: cp.Parameter(nonneg=True) * cp.norm1(w), "expected numbers instead of cvxpy param"),
]
BAD_TOGETHER = [
    ({"constraints": lambda w: [w["x"] >= 0], "names": None}, "no names; pass X as a data frame"),
    (
        {"constraints": lambda w: [w["title"] >= 1], "signs": np.array([-1.0, 0, 0])},
        r"constraints: no weights satisfy \"1.0 <= w\['title'\]\" and 'monotone_constraints' together",
    ),
    ({"penalty": cp.sum, "constraints": lambda w: [w >= -1]}, "expected values >= 0 .* with the minimum -3"),
]


test_bad_input_is_named = refusals(
    lambda options: Convex(3, **{"names": NAMES, **options}),
    *(({"constraints": given}, message) for given, message in BAD_CONSTRAINTS),
    *(({"penalty": given}, message) for given, message in BAD_PENALTIES),
    *BAD_TOGETHER,
)
