"""The log-rank loss: against its formula, as a bound over all rankings with ties, its tangents and its curvature."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from structsvm import StructuralRanker
from structsvm.oracles.log_rank import NDCG, PrecisionAt, ReciprocalRank
from structsvm.readers import make_ranking
from tests.oracles.separating import curve, make, separate
from tests.refusing import rejected

LENGTHS = [1, 2, 5, 0, 3, 41, 19]
ORACLES = [NDCG(), NDCG(k=None), NDCG(k=2, gain="linear"), ReciprocalRank(relevance=2.0), PrecisionAt(k=3)]


def gain(oracle, y):
    if not isinstance(oracle, NDCG):
        return (y >= oracle.relevance).astype(float)
    y = np.maximum(y, 0.0)
    return 2.0**y - 1 if oracle.gain == "exp2" else y


def dcg(ranked, k):
    top = ranked[:k]
    return float((top / np.log2(np.arange(len(top)) + 2)).sum())


def ndcg(gains, order, k):
    return dcg(gains[order], k) / dcg(np.sort(gains)[::-1], k)


def thresholds(oracle, y):
    """Yield the flags ``y >= t`` and the weight of each threshold above the lowest grade."""
    gains = gain(oracle, y)
    k = oracle.k if isinstance(oracle, NDCG) else None
    for low, high in pairwise(np.unique(gains)):
        flags = gains >= high
        yield flags, (high - low) * dcg(np.sort(flags.astype(float))[::-1], k) / dcg(np.sort(gains)[::-1], k)


def slow(oracle, y, s):
    """Return the loss by its formula, threshold by threshold."""
    value = 0.0
    for better, share in thresholds(oracle, y):
        margins = np.append(np.zeros((1, better.sum())), s[~better][:, None] - s[better], axis=0)
        value += share * logsumexp(margins, axis=0).mean() / np.log(2)
    return value


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
@pytest.mark.parametrize("labels", ["binary", "graded", "fractions", "equal"])
@pytest.mark.parametrize("size", [0.0, 0.1, 1.0, 30.0, 150.0, 1e4])
def test_equals_its_formula(oracle, labels, size):
    y, offsets, noise = make(labels, LENGTHS)
    scores = size * noise
    separator = oracle.bind(y, offsets)
    loss, coef = separate(separator, scores, offsets)
    for q, (a, b) in enumerate(pairwise(offsets)):
        expected = slow(oracle, y[a:b], scores[a:b]) if b > a else 0.0
        assert loss[q] - scores[a:b] @ coef[a:b] == pytest.approx(expected, rel=1e-11, abs=1e-12 * (1 + size))
        assert separator.informative[q] == (len(np.unique(gain(oracle, y[a:b]))) > 1)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_bounds_its_measures_over_all_rankings_with_ties(k):
    """The measures are 1 - NDCG@k, (1 - RR)/2 and the missing share; ties rank the lower grade first."""
    rng = np.random.default_rng(1)
    labels, points = [], []
    for n in range(2, 6):
        orders = np.array(list(permutations(range(n))))
        for tied in (1, 1, 1, 2, 3):
            steps = np.arange(n) // tied * rng.choice([1e-9, 0.1, 1.0, 5.0])
            y = rng.integers(0, 4, n).astype(float)
            labels += [y] * len(orders)
            points += list(-steps[orders])
    assert len(labels) == 760
    y, scores = np.concatenate(labels), np.concatenate(points)
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in labels])))
    bounds = []
    for oracle in (NDCG(k=k), PrecisionAt(k=k)):
        loss, coef = separate(oracle.bind(y, offsets), scores, offsets)
        bounds.append(loss - np.add.reduceat(scores * coef, offsets[:-1]))
    for i, (y, s) in enumerate(zip(labels, points, strict=True)):
        worst = np.lexsort((y, -s))
        if y.max() > y.min():
            assert 1 - ndcg(2.0**y - 1, worst, k) <= bounds[0][i] + 1e-12
        relevant = (y >= 1)[worst]
        if 0 < relevant.sum() < len(y):
            assert 1 - relevant[:k].sum() / min(k, relevant.sum()) <= bounds[1][i] + 1e-12
            assert 1 - 1 / (1 + relevant.argmax()) <= bounds[1][i] / 2 + 1e-12


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
@pytest.mark.parametrize(("size", "shift"), [(0.1, 0.0), (1.0, 0.0), (5.0, 0.0), (1.0, 400.0)])
def test_curvature_is_the_derivative_of_the_gradient(oracle, size, shift):
    """With shifted documents, the scores are spread too widely for plain exponentials."""
    rng = np.random.default_rng(3)
    y, offsets = rng.choice([0, 0, 1, 2, 3], 30).astype(float), np.array([0, 12, 30])
    scores = size * rng.normal(size=30)
    scores[[3, 20]] -= shift
    scores[[5, 25]] += shift
    separator = oracle.bind(y, offsets)
    hessian = np.array([-curve(separator, scores, unit, offsets) for unit in np.eye(30)])
    assert hessian == pytest.approx(
        approx_fprime(scores, lambda s: -separate(separator, s, offsets)[1], 1e-6), abs=2e-6
    )
    assert hessian == pytest.approx(hessian.T, abs=1e-12)
    assert np.linalg.eigvalsh(hessian).min() > -1e-12
    assert hessian.sum(axis=0) == pytest.approx(0.0, abs=1e-12)


def test_the_cut_off_of_binary_losses_is_that_of_the_measure_alone():
    y, offsets, scores = make("graded", LENGTHS)
    for oracle in (ReciprocalRank(k=3), PrecisionAt(k=1), PrecisionAt()):
        for x, z in zip(
            separate(oracle.bind(y, offsets), scores, offsets),
            separate(ReciprocalRank().bind(y, offsets), scores, offsets),
            strict=True,
        ):
            assert np.array_equal(x, z)


def test_bad_settings_are_refused():
    rejected("k=0: expected an integer", NDCG, k=0)
    with pytest.raises(ValueError, match=r"k=.*: expected an integer"):
        PrecisionAt(k=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"k=.*: expected an integer"):
        ReciprocalRank(k=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gain='exp': expected"):
        NDCG(gain="exp")  # type: ignore[arg-type]


@pytest.mark.parametrize("label", [1023.999, 2000.0])
def test_gains_that_overflow_are_refused(label):
    with pytest.raises(ValueError, match=r"gains have a finite sum, got a label .*gain='linear'"):
        NDCG().bind(np.array([0.0, label, label, label]), np.array([0, 4]))


def test_gains_are_labels_of_the_exponential_gain():
    data = make_ranking(30, 8, 4, grades=4, random_state=0)
    gains = np.array([0.0, 0.01, 0.1, 1.0])[data.y.astype(int)]
    stated = StructuralRanker(NDCG(None, gain="linear"), C=10).fit(data.X, gains, qid=data.qid)
    coded = StructuralRanker("ndcg", C=10).fit(data.X, np.log2(1 + gains), qid=data.qid)
    np.testing.assert_allclose(coded.coef_, stated.coef_, rtol=1e-9)
