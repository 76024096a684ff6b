"""The active-set solver: KKT conditions on degenerate input, agreement with interior points, warm starts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from structsvm.qp import SOLVERS, active_set, get_solver
from structsvm.qp.active_set import solve
from tests.refusing import rejected

EPS = np.finfo(float).eps


def certificate(gram, loss, group, cap, alpha):
    """Return dual value, duality gap, and the rounding error of the gap, by the definitions."""
    gradient = loss - gram @ alpha
    noise = abs(loss) + abs(gram) @ alpha
    value = loss @ alpha - 0.5 * alpha @ gram @ alpha
    gap, error = -gradient @ alpha, EPS * noise @ alpha
    for j, c in enumerate(cap):
        gap += c * max([0.0, *gradient[group == j]])
        error += EPS * c * max([0.0, *noise[group == j]])
    return value, gap, error


def exact_value(gram, loss, alpha):
    """Return the dual value in exact arithmetic."""
    used = np.flatnonzero(alpha)
    a = [Fraction(x) for x in alpha[used]]
    rows = [[Fraction(x) for x in row] for row in gram[np.ix_(used, used)]]
    slopes = [
        2 * Fraction(loss[i]) - sum(map(Fraction.__mul__, row, a)) for i, row in zip(used, rows, strict=True)
    ]
    return float(sum(map(Fraction.__mul__, a, slopes)) / 2)


def assert_optimal(gram, loss, group, cap, result, tol=1e-10):
    alpha = result.alpha
    assert alpha.shape == loss.shape
    assert np.all(alpha >= 0)
    assert np.all(np.bincount(group, alpha, len(cap)) <= cap * (1 + 4 * EPS))
    value, gap, error = certificate(gram, loss, group, cap, alpha)
    assert result.value == pytest.approx(value, rel=1e-12, abs=4 * error)
    assert 0 <= result.gap <= max(gap, 0.0) + 4 * error
    if not alpha.any():  # also the answer where rounding leaves no certificate better than that of alpha = 0
        error = EPS * cap.sum() * (abs(loss).max() + abs(gram).max() * cap.sum())
    assert result.gap <= max(tol * result.value, 10 * error)


def planes(rng, kind, n, m):
    G = rng.normal(size=(n, m))
    if kind == "duplicates":
        G = G[rng.integers(0, n, size=n)]
    elif kind == "zero rows":
        G[rng.random(n) < 0.5] = 0.0
    elif kind == "all zero":
        G[:] = 0.0
    elif kind == "rank 1":
        G = rng.normal(size=(n, 1)) * rng.normal(size=m)
    elif kind == "integers":
        G = np.round(G)
    elif kind == "nearly equal":
        G = rng.normal(size=m) + 1e-6 * G
    elif kind == "row scales":
        G *= 10.0 ** rng.integers(-3, 4, size=(n, 1))
    elif kind == "separable":
        G = 0.1 * abs(G) + 1e-3 * G
    return G


KINDS = ["general", "duplicates", "zero rows", "all zero", "rank 1", "integers", "nearly equal"]
KINDS += ["row scales", "separable"]


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(1, 40)), draw(st.integers(1, 30))
    G = planes(rng, draw(st.sampled_from(KINDS)), n, m) * 10.0 ** draw(st.integers(-4, 4))
    loss = draw(st.sampled_from([rng.random(n), rng.normal(size=n), np.round(rng.random(n), 1), np.ones(n)]))
    n_groups = draw(st.sampled_from([1, 1, 2, 5]))
    group = rng.integers(0, n_groups, size=n)
    cap = 10.0 ** draw(st.floats(-6, 8)) * np.ones(n_groups)
    if n_groups > 1:
        cap *= rng.random(n_groups) * (rng.random(n_groups) < 0.9)
    start = draw(st.sampled_from(["none", "infeasible", "inside", "nan"]))
    alpha0 = {
        "none": None,
        "infeasible": rng.normal(size=n) * 10 * cap.max(),
        "inside": rng.random(n) * cap.max() / n,
        "nan": np.full(n, np.nan),
    }[start]
    return G @ G.T, loss, group, cap, alpha0


@settings(max_examples=300)
@given(problems())
def test_kkt_on_degenerate_input_at_all_scales_and_from_the_optimum(problem):
    gram, loss, group, cap, alpha0 = problem
    cold = solve(gram, loss, group, cap, alpha0)
    assert_optimal(gram, loss, group, cap, cold)
    again = solve(gram, loss, group, cap, cold.alpha)
    assert_optimal(gram, loss, group, cap, again)
    # the values of the results differ by their rounding besides, where planes cancel
    values = [exact_value(gram, loss, result.alpha) for result in (cold, again)]
    assert values[1] == pytest.approx(values[0], rel=1e-9, abs=cold.gap + again.gap)


def test_many_groups():
    rng = np.random.default_rng(4)
    n_groups, m = 300, 25
    group = rng.permutation(np.repeat(np.arange(n_groups), rng.integers(0, 9, size=n_groups)))
    G, loss = rng.normal(size=(len(group), m)) + 0.2, rng.random(len(group))
    for C in (1e-2, 1.0, 1e3):
        cap = C * rng.dirichlet(np.ones(n_groups))
        assert_optimal(G @ G.T, loss, group, cap, solve(G @ G.T, loss, group, cap))


def test_block_of_a_larger_array_is_read_in_place():
    rng = np.random.default_rng(6)
    G, loss, group = rng.normal(size=(10, 4)), rng.random(10), np.zeros(10, dtype=int)
    room = np.full((16, 16), np.nan)
    room[:10, :10] = G @ G.T
    for gram in (room[:10, :10], np.asfortranarray(G @ G.T), (G @ G.T)[::-1, ::-1][::-1, ::-1]):
        before = gram.copy()
        result = solve(gram, loss, group, np.array([1.0]))
        np.testing.assert_array_equal(gram, before)
        assert result.value == solve(np.ascontiguousarray(gram), loss, group, np.array([1.0])).value


def test_a_point_worse_than_zero_is_replaced_by_zero(monkeypatch):
    gram, loss = np.array([[2.0]]), np.array([1.0])
    monkeypatch.setattr(active_set, "_climb", lambda *_: (np.array([3.0]), loss - gram @ [3.0]))
    result = solve(gram, loss, np.zeros(1, dtype=int), np.array([5.0]))
    assert (result.alpha.tolist(), result.value, result.gap) == ([0.0], 0.0, 5.0)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_a_column_leaves_the_factor_and_nothing_else_changes(k):
    A = np.random.default_rng(k).normal(size=(k, k))
    H = A @ A.T + np.eye(k)
    for c in range(k):
        R, free, r = np.full((k + 2, k + 2), 7.0), np.arange(10, 12 + k), np.arange(2.0 + k)
        R[:k, :k] = np.linalg.cholesky(H).T
        assert active_set._drop_column(R, free, r, k, c) == k - 1
        rest = np.delete(np.arange(k), c)
        left = R[: k - 1, : k - 1]
        np.testing.assert_array_equal(np.tril(left, -1), 0.0)
        np.testing.assert_allclose(left.T @ left, H[np.ix_(rest, rest)], rtol=1e-12)
        assert (R[k:] == 7.0).all()
        assert (R[:, k:] == 7.0).all()
        np.testing.assert_array_equal(free[: k - 1], 10 + rest)
        np.testing.assert_array_equal(r[: k - 1], rest)
        np.testing.assert_array_equal(free[k - 1 :], np.arange(9 + k, 12 + k))
        np.testing.assert_array_equal(r[k - 1 :], np.arange(k - 1.0, k + 2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_face_of_dependent_planes_is_entered_whole(kind):
    """Every vertex with mass is free or the base of its group, the factor is that of the face, and nothing is lost."""
    n, n_groups = 10, 2
    for seed in range(40):
        rng = np.random.default_rng(seed)
        G = planes(rng, kind, n, 4)
        gram, loss = G @ G.T, rng.random(n)
        group = np.append(rng.integers(0, n_groups, size=n), np.arange(n_groups))
        cap = np.ones(n_groups)
        alpha = np.append(rng.random(n), (rng.random(n_groups) < 0.3) * 1.0)
        alpha *= (cap / np.maximum(np.bincount(group, alpha, n_groups), 1e-300))[group]
        g = np.append(loss - gram @ alpha[:n], np.zeros(n_groups))
        value = alpha[:n] @ (loss + g[:n])
        base = np.array(
            [n + j if alpha[n + j] > 0 or not (group[:n] == j).any() else -1 for j in range(n_groups)]
        )
        for j in np.flatnonzero(base < 0):
            base[j] = np.flatnonzero(group[:n] == j)[0]
        free, gone = np.empty(n + 1, np.int64), np.empty(2 * n + 2, np.int64)
        R, r, d = np.zeros((n, n)), np.zeros(n + 1), np.zeros(n + 1)
        state, k = (group, base, free, alpha, g, R, r), 0
        for v in range(n):
            if alpha[v] > 0 and base[group[v]] != v:
                k = active_set._enter(v, gram.reshape(-1), n, n, *state, k, d, np.zeros(n_groups), gone)
        inside = [*free[:k], *base]
        assert len(set(inside)) == k + n_groups
        assert set(np.flatnonzero(alpha > 0)) <= set(inside)
        np.testing.assert_array_equal(group[base], np.arange(n_groups))
        assert (alpha >= 0).all()
        np.testing.assert_allclose(np.bincount(group, alpha, n_groups), cap, rtol=1e-12)
        rows = np.vstack([G, np.zeros((n_groups, 4))])
        Z = rows[free[:k]] - rows[base[group[free[:k]]]]
        factor = np.triu(R[:k, :k])
        np.testing.assert_allclose(factor.T @ factor, Z @ Z.T, atol=1e-9 * max(1.0, abs(gram).max()))
        after = alpha[:n] @ (2 * loss - gram @ alpha[:n])
        assert after >= value - 1e-9 * max(1.0, abs(gram).max())


@pytest.mark.parametrize(
    ("mass", "free", "alpha"), [(0.0, [1], [0.0, 0.25, 0.75]), (0.25, [0], [0.75, 0.0, 0.25])]
)
def test_a_dependent_direction_is_walked_uphill_unless_its_vertex_has_no_mass_to_give(mass, free, alpha):
    """Plane 1 is twice plane 0 with a lower value: it gains mass if it has none, and otherwise loses its mass."""
    gram, group, base = np.outer([1.0, 2.0], [1.0, 2.0]), np.zeros(3, np.int64), np.array([2])
    at, g = np.array([0.5 - mass, mass, 0.5]), np.array([1.0, 1.0, 0.0])
    inside, gone = np.array([0, -1, -1]), np.empty(6, np.int64)
    R, r, d = np.eye(3), np.zeros(3), np.zeros(3)
    k = active_set._enter(
        1, gram.reshape(-1), 2, 2, group, base, inside, at, g, R, r, 1, d, np.zeros(1), gone
    )
    assert inside[:k].tolist() == free
    np.testing.assert_allclose(at, alpha)


@pytest.mark.parametrize("name", SOLVERS)
def test_small_cases_in_closed_form(name):
    solver = get_solver(name)
    one = np.zeros(1, dtype=int)
    empty = solver(np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=int), np.array([1.0]))
    assert (empty.alpha.shape, empty.value, empty.gap) == ((0,), 0.0, 0.0)
    for gram, loss, cap, alpha in [
        (2.0, 1.0, 5.0, 0.5),
        (2.0, 1.0, 0.1, 0.1),
        (2.0, -1.0, 5.0, 0.0),
        (0.0, 1.0, 3.0, 3.0),
    ]:
        result = solver(np.array([[gram]]), np.array([loss]), one, np.array([cap]))
        assert result.alpha[0] == pytest.approx(alpha, rel=1e-6, abs=1e-7)
        assert result.gap <= 1e-6
    nothing = solver(np.eye(2), np.ones(2), np.array([0, 1]), np.zeros(2))
    assert nothing.value == nothing.gap == 0.0
    half = solver(np.eye(2), np.ones(2), np.array([0, 2]), np.array([0.0, 7.0, 7.0]))
    np.testing.assert_allclose(half.alpha, [0.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": np.array([1.0, np.nan])}, r"loss\[1\]: expected a finite number, got nan"),
        ({"gram": np.full((2, 2), np.inf)}, r"gram\[0, 0\]: expected a finite number, got inf"),
        ({"gram": np.eye(3)}, r"expected gram \(n, n\)"),
        ({"group": np.array([0, 1])}, r"group\[1\]: expected .*, got 1"),
        ({"group": np.array([-1, 0])}, r"group\[0\]: expected .*, got -1"),
        ({"cap": np.array([-1.0])}, r"cap\[0\]: expected .*, got -1"),
        ({"cap": np.array([np.inf])}, r"cap\[0\]: expected .*, got inf"),
        ({"alpha0": np.zeros(3)}, "alpha0: expected one entry per plane"),
    ],
)
def test_bad_input_is_named(name, change, message):
    given_ = {"gram": np.eye(2), "loss": np.ones(2), "group": np.zeros(2, dtype=int), "cap": np.ones(1)}
    rejected(message, get_solver(name), **given_ | change)


def test_unknown_solver_is_named():
    rejected("qp='simplex': expected 'active_set' or 'cvxpy'", get_solver, "simplex")


def test_missing_cvxpy_names_the_install_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cvxpy", None)
    with pytest.raises(ImportError, match="pip install cvxpy clarabel"):
        get_solver("cvxpy")
