"""Portable sums and functions against their definitions, lane by lane, and against longer arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from structsvm.common.portable import arrays, cholesky, compiled, elementary, sums


def lanes_of(a, b):
    """Return the sum as :func:`sums.row_products` defines it: eight parts by column, the rest in the last lanes."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    parts = np.zeros(8)
    whole = len(a) - len(a) % 8
    for j in range(0, whole, 8):
        parts = parts + a[j : j + 8] * b[j : j + 8]
    if len(a) % 8:
        rest = np.zeros(8)
        rest[-(len(a) % 8) :] = a[whole:] * b[whole:]
        parts = parts + rest
    while len(parts) > 1:
        half = len(parts) // 2
        parts = parts[:half] + parts[half:]
    return parts[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [8, 9, 15, 16, 17, 31, 46, 136])
def test_products_are_added_in_eight_lanes(dtype, m):
    rng = np.random.default_rng(m)
    X, w = rng.normal(size=(11, m)).astype(dtype), rng.normal(size=m)
    expected = [lanes_of(row, w) for row in X]
    assert sums.products(X, w).tolist() == expected
    # a product does not depend on the rows around it
    assert [sums.products(X[i : i + 1], w)[0] for i in range(11)] == expected


@pytest.mark.parametrize("m", [0, 1, 3, 7])
def test_short_products_are_added_one_by_one(m):
    rng = np.random.default_rng(m)
    X, w = rng.normal(size=(6, m)), rng.normal(size=m)
    expected = []
    for row in X:
        total = 0.0
        for x, v in zip(row, w, strict=True):
            total += x * v
        expected.append(total)
    assert sums.products(X, w).tolist() == expected
    assert [sums.dot(row, w) for row in X] == expected


@pytest.mark.parametrize("n", [8, 20, 32, 33, 40, 71, 500])
def test_dot_has_four_sums_in_turn(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n), rng.normal(size=n)
    parts = np.zeros((4, 8))
    j = 0
    while j + 32 <= n:
        parts = parts + (a[j : j + 32] * b[j : j + 32]).reshape(4, 8)
        j += 32
    while j + 8 <= n:
        parts[0] += a[j : j + 8] * b[j : j + 8]
        j += 8
    if j < n:
        parts[1, j - n :] += a[j:] * b[j:]
    assert sums.dot(a, b) == lanes_of((parts[0] + parts[1]) + (parts[2] + parts[3]), np.ones(8))
    assert sums.norm(a) ** 2 == pytest.approx(a @ a, rel=1e-14)


def test_dot_reads_only_the_given_slice():
    X = np.full((3, 24), np.nan)
    X[:, :9] = 1.0
    assert sums.dot(X[0, :9], X[1, :9]) == 9.0


def test_matrices_agree_with_blas():
    rng = np.random.default_rng(0)
    A, B, x = rng.normal(size=(13, 21)), rng.normal(size=(6, 21)), rng.normal(size=21)
    a = rng.normal(size=13)
    for room in (sums, arrays):
        np.testing.assert_allclose(room.products(A, x), A @ x, rtol=1e-12)
        np.testing.assert_allclose(room.combine(a, A), a @ A, rtol=1e-12)
        assert room.dot(x, x) == pytest.approx(x @ x, rel=1e-13)
    np.testing.assert_allclose(sums.gram(A, B), A @ B.T, rtol=1e-12)
    np.testing.assert_allclose(arrays.matmul(A, B.T), A @ B.T, rtol=1e-12)


def test_solve():
    rng = np.random.default_rng(1)
    for n in (1, 2, 5, 12):
        A, b, B = rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=(n, 3))
        A[0, 0] = 0.0 if n > 1 else 2.0
        np.testing.assert_allclose(arrays.solve(A, b), np.linalg.solve(A, b), rtol=1e-9)
        np.testing.assert_allclose(arrays.solve(A, B), np.linalg.solve(A, B), rtol=1e-9)
        np.testing.assert_allclose(arrays.inverse(A) @ A, np.eye(n), atol=1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        arrays.solve(np.ones((2, 2)), np.ones(2))


@pytest.mark.parametrize("rank", [0, 1, 7, 12])
def test_cholesky_of_what_may_be_singular(rank):
    rng = np.random.default_rng(rank)
    B = np.zeros((12, 12))
    B[:, :rank] = rng.normal(size=(12, rank)) * 10.0 ** rng.integers(-2, 3, (12, 1))
    A, x = B @ B.T, rng.normal(size=12)
    np.testing.assert_allclose(
        A @ cholesky.solve(A, A @ x), A @ x, rtol=1e-6, atol=1e-8 * np.abs(A @ x).max(initial=0)
    )
    inverse = cholesky.inverse(A)
    np.testing.assert_allclose(A @ inverse @ A, A, rtol=1e-6, atol=1e-8 * np.abs(A).max())
    assert np.count_nonzero(np.diagonal(inverse)) == rank


@pytest.mark.parametrize("p", [-3, -1, 0, 2, 16, 17, 0.5, -2.5, 1.01])
def test_power(p):
    x = np.linspace(0.1, 40.0, 997)
    np.testing.assert_allclose(elementary.power(x, p), x**p, rtol=2e-14)
    assert elementary.power(2.0, p) == elementary.power(np.array([2.0]), p)[0]


def points():
    rng = np.random.default_rng(2)
    spread = [rng.normal(size=400) * s for s in (1e-12, 1e-3, 0.3, 1.0, 10.0, 300.0)]
    ends = [0.0, -0.0, 1.0, 709.78, 709.79, -745.1, -745.2, 1e308, -1e308, np.inf, -np.inf, np.nan, 5e-324]
    return np.concatenate([*spread, ends])


@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "log", "log1p", "log2"])
def test_functions_against_longer_arithmetic_and_each_other(name):
    x = points()
    if name.startswith("log"):
        x = np.concatenate([x, elementary.exp(np.clip(x, -740, 700)), 1.0 + x[:800]])
    if np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        pytest.skip("long double is no longer than double on this platform")
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
        value = getattr(elementary, name)(x)
    ordinary = np.isfinite(rounded) & (np.abs(rounded) > 1e-300)
    unit = np.spacing(np.abs(rounded[ordinary]))
    assert np.max(np.abs(value[ordinary] - exact[ordinary]) / unit) < 2.0
    np.testing.assert_allclose(value, rounded, rtol=1e-15, atol=1e-300)
    for module, numbers in ((compiled, x), (elementary, x.tolist())):
        one_by_one = np.array([getattr(module, name)(v) for v in numbers])
        np.testing.assert_array_equal(
            one_by_one.view(np.int64)[~np.isnan(x)], value.view(np.int64)[~np.isnan(x)]
        )
        assert np.isnan(one_by_one[np.isnan(x)]).all()


def test_powers_of_two_are_exact():
    k = np.arange(-1074, 1024)
    assert (elementary.log2(np.ldexp(1.0, k)) == k).all()
    assert (elementary.exp2(k) == np.ldexp(1.0, k)).all()
    assert elementary.expit(0.0) == 0.5
    x = np.linspace(-800, 800, 999)
    np.testing.assert_allclose(elementary.expit(x) + elementary.expit(-x), 1.0, rtol=1e-15)


def test_geomspace_has_the_nearest_numbers():
    grid = elementary.geomspace(1e-3, 1e3, 13)
    assert grid[::2].tolist() == [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0]
    for number, square in zip(grid[1::2], (Fraction(10) ** n for n in range(-5, 6, 2)), strict=True):
        below, above = (Fraction(np.nextafter(number, end)) for end in (0.0, np.inf))
        middle = Fraction(number)
        assert ((below + middle) / 2) ** 2 < square < ((above + middle) / 2) ** 2
    assert elementary.geomspace(5, 80, 1).tolist() == [5.0]


def test_lgamma():
    for x in [1, 2, 3, 4.5, 15.9, 16, 17, 100, 1e4, 1e9, *np.random.default_rng(3).uniform(1, 60, size=200)]:
        assert compiled.lgamma(x) == pytest.approx(math.lgamma(x), rel=4e-15, abs=3e-14)


def test_without_compilation_the_bits_are_the_same(python):
    """``NUMBA_DISABLE_JIT`` makes kernels Python functions, to step through them."""
    code = (
        "import numpy as np\n"
        "from structsvm.common.portable import compiled, sums\n"
        "from structsvm.oracles import SquaredPairs\n"
        "a, b = np.arange(45) / 7, np.arange(45)[::-1] / 9\n"
        "loss, coef = np.empty(1), np.empty(45)\n"
        "oracle = SquaredPairs().bind(np.arange(45.0) % 3, np.array([0, 45]))\n"
        "oracle.separate(a * b % 1, 0, 1, loss, coef)\n"
        "print(sums.dot(a, b), *sums.products(np.outer(b, a), b), sums.squared_distance(a, b), loss[0], *coef)\n"
        "print(*[compiled.exp(x) + compiled.log(x + 0.1) + compiled.log2(x + 3) for x in a])\n"
    )
    assert python(code, NUMBA_DISABLE_JIT="0") == python(code, NUMBA_DISABLE_JIT="1")
