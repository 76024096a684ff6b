"""The sort of the oracles: stable, exact in float64 though it counts in float32 first, and of any length."""

import numpy as np
import pytest

from structsvm.oracles import OrdinalHinge, SquaredPairs, get_oracle
from structsvm.oracles.sorting import sort_buffers, sort_descending
from tests.refusing import rejected
from tests.trainers.problems import LOSS_NAMES

VALUES = {
    "distinct": lambda rng, n: rng.normal(size=n),
    "many ties": lambda rng, n: rng.integers(-3, 4, size=n).astype(float),
    "all equal": lambda rng, n: np.zeros(n),
    "one pair equal": lambda rng, n: np.where(
        np.arange(n) == n - 1, 0.25, np.append(0.25, rng.normal(size=n))[:n]
    ),
    "equal in float32 only": lambda rng, n: 1e8 + rng.permutation(n) * 2.0**-20,
    "two equal in float32 only": lambda rng, n: np.append([1.0, 1.0 + 1e-12], rng.normal(size=n))[:n],
    "beyond float32": lambda rng, n: rng.normal(size=n) * 1e300,
    "below float32": lambda rng, n: rng.normal(size=n) * 1e-300,
    "infinite": lambda rng, n: np.append([np.inf, -np.inf, np.inf, -np.inf], rng.normal(size=n))[:n],
    "zeros of both signs": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, -0.0),
}


@pytest.mark.parametrize("kind", VALUES)
def test_sorts_as_a_stable_argsort(kind):
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 3, 4, 5, 31, 32, 33, 90, 127, 128, 129, 255, 256, 300, 513):
        original = VALUES[kind](rng, n)
        assert original.shape == (n,)
        values, rows = original.copy(), np.arange(n, dtype=np.int32)
        sort_descending(values, rows, n, sort_buffers(max(1, n)))
        expected = np.argsort(-original, kind="stable")
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(values, original[expected])


@pytest.mark.parametrize("offsets", [[0, 9], [0, 4, 2], [1, 3], [-1, 3], [0.0, 3.0], [], [[0, 3]]])
@pytest.mark.parametrize("oracle", [*map(get_oracle, LOSS_NAMES), OrdinalHinge(), SquaredPairs()], ids=repr)
def test_offsets_beyond_the_rows_are_refused_before_a_kernel_runs(oracle, offsets):
    rejected("offsets", oracle.bind, np.array([1.0, 0.0, 1.0]), np.array(offsets))
