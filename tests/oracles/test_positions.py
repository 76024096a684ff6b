"""NDCG, reciprocal rank and precision oracles: against all permutations and slow twins."""

from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import check_grad, linear_sum_assignment

from structsvm.oracles.ndcg import NDCG
from structsvm.oracles.precision import PrecisionAt
from structsvm.oracles.reciprocal_rank import ReciprocalRank


def separate(oracle, y, offsets, scores):
    separator = oracle.bind(y, offsets)
    loss, coef = np.full(len(offsets) - 1, np.nan), np.full(len(y), np.nan)
    separator.separate(scores, 0, len(offsets) - 1, loss, coef)
    return separator, loss, coef


def one_query(oracle, y, scores):
    separator, loss, coef = separate(oracle, y, np.array([0, len(y)]), scores)
    assert separator.exact
    return separator.informative[0], loss[0], coef


# -- the definitions, written out ---------------------------------------------------------------------


def grades_of(oracle, y):
    """What the loss sees of a label."""
    if isinstance(oracle, NDCG):
        y = np.maximum(y, 0)
        return 2.0**y - 1 if oracle.gain == "exp2" else y
    return (y >= oracle.relevance).astype(float)


def alpha_of(oracle, n):
    rank = np.arange(1, n + 1)
    alpha = 1 / np.log2(rank + 1) if oracle.feature_discount == "log2" else 1 / rank
    return np.where(rank <= (oracle.k or n), alpha, 0.0)


def utility(oracle, ranked):
    """NDCG, reciprocal rank or precision of the grades in ranked order."""
    k = oracle.k or len(ranked)
    if isinstance(oracle, NDCG):
        discount = 1 / np.log2(np.arange(2, k + 2))
        top = ranked[:k]
        ideal = np.sort(ranked)[::-1][:k]
        return (top * discount[: len(top)]).sum() / (ideal * discount[: len(top)]).sum()
    if isinstance(oracle, ReciprocalRank):
        hits = np.flatnonzero(ranked[:k])
        return 1 / (hits[0] + 1) if hits.size else 0.0
    return ranked[:k].sum() / min(k, ranked.sum())


ORACLES = [
    NDCG(k=None),
    NDCG(k=2),
    NDCG(k=3, gain="linear"),
    NDCG(k=10),
    NDCG(k=None, feature_discount="inverse"),
    NDCG(k=1, feature_discount="inverse"),
    NDCG(k=3, feature_discount="inverse"),
    NDCG(k=10, gain="linear", feature_discount="inverse"),
    ReciprocalRank(),
    ReciprocalRank(feature_discount="inverse"),
    ReciprocalRank(k=1),
    ReciprocalRank(k=3),
    ReciprocalRank(k=10, relevance=2.0),
    PrecisionAt(k=1),
    PrecisionAt(k=2, feature_discount="inverse"),
    PrecisionAt(k=3),
    PrecisionAt(k=4, relevance=2.0),
    PrecisionAt(k=10),
]


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_value_equals_the_maximum_over_all_permutations(oracle):
    rng = np.random.default_rng(0)
    n_checked = 0
    for case in range(150):
        n = 6 if case % 3 == 0 else int(rng.integers(1, 6))
        y = rng.integers(-1, 4, n).astype(float)
        scores = rng.normal(size=n) * rng.choice([0.05, 0.3, 1.0, 4.0])
        if rng.random() < 0.4:
            scores = (scores * 2).round() / 2
        if rng.random() < 0.1:
            scores[:] = 0
        informative, loss, coef = one_query(oracle, y, scores)
        grades = grades_of(oracle, y)
        rankings = np.array(list(permutations(range(n))))
        losses = np.array(
            [1 - utility(oracle, ranked) if grades.any() else 0.0 for ranked in grades[rankings]]
        )
        assert informative == (losses.max() > 1e-12)
        if not informative:
            assert loss == 0
            assert not coef.any()
            continue
        weights = np.empty(rankings.shape)
        np.put_along_axis(weights, rankings, alpha_of(oracle, n)[None, :], axis=1)
        by_grade = (np.diff(grades[rankings], axis=1) <= 0).all(axis=1)
        assert losses[by_grade].max() < 1e-12
        coefs = weights[by_grade].mean(axis=0) - weights
        best = (losses - coefs @ scores).max()
        assert best >= -1e-12
        assert loss - scores @ coef == pytest.approx(best, abs=1e-12)
        # and the answer is one of the rankings
        assert np.any((np.abs(losses - loss) < 1e-12) & (np.abs(coefs - coef).max(axis=1) < 1e-12))
        assert abs(coef.sum()) < 1e-12
        n_checked += 1
    assert n_checked >= 50 or oracle == PrecisionAt(k=10)  # which never has more than 10 documents here


def slow_ndcg(oracle, y, scores):
    """Value of the assignment by scipy, plus that of the target."""
    n = len(y)
    grades, alpha = grades_of(oracle, y), alpha_of(oracle, n)
    k = min(n, oracle.k or n)
    discount = 1 / np.log2(np.arange(2, k + 2))
    ideal = (np.sort(grades)[::-1][:k] * discount).sum()
    worth = np.outer(scores, alpha[:k]) - np.outer(grades / ideal, discount)
    return 1 + worth[linear_sum_assignment(worth, maximize=True)].sum()


def slow_binary(oracle, y, scores):
    """Best value over the place of the first relevant document, or over the number of them in the first k."""
    relevant = grades_of(oracle, y) > 0
    alpha = alpha_of(oracle, len(y))
    rel, non = -np.sort(-scores[relevant]), -np.sort(-scores[~relevant])
    n_rel, n_non, k = len(rel), len(non), oracle.k or len(y)
    best = -np.inf
    if isinstance(oracle, ReciprocalRank):
        for above in range(n_non + 1):
            rest = -np.sort(-np.concatenate((rel[1:], non[above:])))
            loss = 1 - 1 / (above + 1) if above < k else 1.0
            best = max(best, loss + alpha @ np.concatenate((non[:above], rel[:1], rest)))
    else:
        for t in range(max(0, k - n_non), min(k, n_rel) + 1):
            top = -np.sort(-np.concatenate((rel[:t], non[: k - t])))
            best = max(best, 1 - t / min(k, n_rel) + alpha[:k] @ top)
    return best


@pytest.mark.parametrize(
    "oracle",
    [
        NDCG(),
        NDCG(k=None),
        NDCG(k=40, gain="linear"),
        NDCG(feature_discount="inverse"),
        NDCG(k=40, feature_discount="inverse"),
        NDCG(k=None, gain="linear", feature_discount="inverse"),
        ReciprocalRank(),
        ReciprocalRank(feature_discount="inverse"),
        ReciprocalRank(k=10),
        ReciprocalRank(k=50),
        PrecisionAt(),
        PrecisionAt(k=1),
        PrecisionAt(k=50),
        PrecisionAt(k=32, feature_discount="inverse"),
    ],
    ids=repr,
)
def test_equals_a_slow_twin_on_larger_queries(oracle):
    rng = np.random.default_rng(1)
    slow = slow_ndcg if isinstance(oracle, NDCG) else slow_binary
    for case in range(60):
        n = int(rng.integers(11, 140))
        y = rng.choice([0, 0, 1, 2, 4], n).astype(float) if case % 2 else (rng.random(n) < 0.05).astype(float)
        # from untrained (all equal, noise) to trained (grades visible in the scores)
        scores = [0.0, 0.02, 0.1, 1.0][case % 4] * rng.normal(size=n) + [0.0, 0.05, 0.5][case % 3] * y
        if case % 5 == 0:
            scores = scores.round(1)
        informative, loss, coef = one_query(oracle, y, scores)
        if not informative:
            continue
        alpha, grades = alpha_of(oracle, n), grades_of(oracle, y)
        order = np.argsort(-grades, kind="stable")
        target = np.empty(n)
        for g in np.unique(grades):
            target[grades == g] = alpha[grades[order] == g].mean()
        value = slow(oracle, y, scores) - scores @ target
        assert loss - scores @ coef == pytest.approx(value, abs=1e-11)
        # the answer is a ranking: target - coef is a permutation of alpha, and its loss is the one reported
        weights = target - coef
        np.testing.assert_allclose(np.sort(weights)[::-1], alpha, atol=1e-12)
        assert loss == pytest.approx(
            1 - utility(oracle, grades[np.argsort(-weights, kind="stable")]), abs=1e-12
        )
        assert value >= -1e-12


@pytest.mark.parametrize(
    "oracle", [NDCG(k=4), NDCG(feature_discount="inverse"), ReciprocalRank(), PrecisionAt(k=3)], ids=repr
)
def test_coefficients_are_the_gradient_of_the_hinge(oracle):
    rng = np.random.default_rng(2)
    y = rng.choice([0, 0, 0, 1, 2], 40).astype(float)
    X = rng.normal(size=(40, 5))
    separator = oracle.bind(y, np.array([0, 15, 15, 40]))
    loss, coef = np.empty(3), np.empty(40)

    def hinge(w):
        separator.separate(X @ w, 0, 3, loss, coef)
        return loss.sum() - (X @ w) @ coef

    def gradient(w):
        hinge(w)
        return -X.T @ coef

    for scale in (0.1, 1.0, 1.0, 1.0):
        assert check_grad(hinge, gradient, scale * rng.normal(size=5)) < 1e-5


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_permuting_documents_permutes_the_answer(oracle):
    rng = np.random.default_rng(3)
    y = rng.choice([0, 0, 1, 2], 60).astype(float)
    scores = 0.1 * rng.normal(size=60)
    order = rng.permutation(60)
    _, loss, coef = one_query(oracle, y, scores)
    _, loss_permuted, coef_permuted = one_query(oracle, y[order], scores[order])
    assert loss_permuted == pytest.approx(loss, abs=1e-14)
    np.testing.assert_allclose(coef_permuted, coef[order], atol=1e-14)
    _, loss_shifted, coef_shifted = one_query(oracle, y, scores + 3.0)
    assert loss_shifted == pytest.approx(loss, abs=1e-14)
    np.testing.assert_allclose(coef_shifted, coef, atol=1e-14)


@pytest.mark.parametrize(
    "oracle", [NDCG(), NDCG(feature_discount="inverse"), ReciprocalRank(), PrecisionAt(k=3)], ids=repr
)
def test_chunks_and_threads_give_the_same_bytes(oracle):
    rng = np.random.default_rng(5)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 50, 100))))
    y = rng.integers(0, 3, offsets[-1]).astype(float)
    scores = rng.normal(size=offsets[-1])
    separator, loss, coef = separate(oracle, y, offsets, scores)
    loss_chunked, coef_chunked = np.empty_like(loss), np.empty_like(coef)

    def chunk(first):
        last = min(100, first + 7)
        rows = slice(offsets[first], offsets[last])
        separator.separate(scores[rows], first, last, loss_chunked[first:last], coef_chunked[rows])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(chunk, range(0, 100, 7)))
    np.testing.assert_array_equal(loss_chunked, loss)
    np.testing.assert_array_equal(coef_chunked, coef)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"NDCG\(k=\.\.\.\): expected an int >= 1, got 0"):
        NDCG(k=0)
    with pytest.raises(ValueError, match="expected an int >= 1, got None"):
        PrecisionAt(k=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected an int >= 1, got 2\.5"):
        ReciprocalRank(k=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'exp2' or 'linear', got 'exp'"):
        NDCG(gain="exp")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'log2' or 'inverse', got 'log'"):
        PrecisionAt(feature_discount="log")  # type: ignore[arg-type]


def test_gains_that_overflow_are_refused():
    with pytest.raises(ValueError, match="got a label 2000; use gain='linear'"):
        NDCG().bind(np.array([0.0, 2000.0]), np.array([0, 2]))
