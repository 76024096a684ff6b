"""The cache of planes of a query: a slot that is freed leaves the dual point where it is."""

import numpy as np
import pytest

from structsvm.trainers.plane_cache import free_slot


def cache(alpha, age=None, seed=0):
    """Return a full cache of planes over five features, of which features 1 to 3 belong to the query."""
    alpha = np.array(alpha, dtype=float)
    rng = np.random.default_rng(seed)
    pool, loss = rng.normal(size=(len(alpha), 5)), rng.random(len(alpha))
    pool[:, [0, 4]] = np.nan  # of other queries: neither read nor written
    age = np.arange(len(alpha)) if age is None else np.array(age)
    return pool, loss, alpha, age


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("alpha", "merged"),
    [
        ([0.1, 0.4, 0.2, 0.3], {0, 2}),  # the lightest is the first
        ([0.2, 0.1, 0.3, 0.4], {0, 1}),  # the first is the second lightest
        ([0.4, 0.3, 0.2, 0.1], {2, 3}),
        ([0.3, 0.1, 0.4, 0.2], {1, 3}),
        ([0.1, 0.9], {0, 1}),
        ([0.9, 0.1], {0, 1}),
        ([0.1, 0.5, 0.5], {0, 1}),
    ],
)
def test_a_merge_of_the_two_lightest_keeps_the_dual_point(alpha, merged, seed):
    pool, loss, alpha, age = cache(alpha, seed=seed)
    before = alpha.sum(), alpha @ pool[:, 1:4], alpha @ loss, age.copy(), alpha.copy()
    w = np.array([0.3, -1.0, 2.0])
    violation = loss - pool[:, 1:4] @ w
    slot = free_slot(pool, 1, 4, loss, alpha, age, len(alpha), violation)
    assert alpha.sum() == pytest.approx(before[0], rel=1e-14)
    assert alpha @ pool[:, 1:4] == pytest.approx(before[1], rel=1e-12)
    assert alpha @ loss == pytest.approx(before[2], rel=1e-13)
    assert (age == before[3]).all()
    assert np.isnan(pool[:, [0, 4]]).all()
    assert slot in merged
    assert alpha[slot] == 0.0
    # the two lightest became one, the others are as they were
    (other,) = merged - {slot}
    assert alpha[other] == pytest.approx(before[4][list(merged)].sum())
    assert violation[other] == pytest.approx(loss[other] - pool[other, 1:4] @ w, abs=1e-12)
    rest = [k for k in range(len(alpha)) if k not in merged]
    assert (alpha[rest] == before[4][rest]).all()


def test_a_slot_without_weight_goes_first_the_longest_idle_before_others():
    for alpha, age, expected in (
        ([0.1, 0.0, 0.5, 0.0], [0, 7, 1, 3], 3),
        ([0.1, 0.0, 0.5, 0.0], [0, 3, 1, 7], 1),
        ([0.0, 0.2, 0.5, 0.3], [9, 3, 1, 7], 0),
        ([0.0, 0.0, 0.0, 0.0], [5, 4, 4, 6], 1),  # the first of equals
    ):
        pool, loss, alpha, age = cache(alpha, age)
        kept = pool.copy(), loss.copy(), alpha.copy()
        assert free_slot(pool, 1, 4, loss, alpha, age, 4, np.zeros(4)) == expected
        for array, copy in zip((pool, loss, alpha), kept, strict=True):
            np.testing.assert_array_equal(array, copy)


def test_a_cache_that_is_not_full_gives_its_next_slot():
    pool, loss, alpha, age = cache([0.5, 0.0, 0.0, 0.0])
    for n in range(4):
        assert free_slot(pool, 1, 4, loss, alpha, age, n, np.zeros(len(alpha))) == n
