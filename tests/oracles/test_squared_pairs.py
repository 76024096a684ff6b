"""Squared hinge on pairs: against every pair, its tangents, its curvature, whichever way the sums are taken."""

from itertools import pairwise

import numpy as np
import pytest

from structsvm.oracles import Pairs, SquaredPairs, squared_pairs
from tests.oracles.separating import curve, make, separate
from tests.refusing import rejected

LENGTHS = [1, 2, 5, 0, 3, 64, 65, 130, 37]


def slow(y, s):
    """Return the mean over pairs, minus its gradient, and its Hessian, from the matrix of all pairs."""
    better = y[:, None] > y[None, :]
    violation = np.where(better, np.maximum(0.0, 1.0 - (s[:, None] - s[None, :])), 0.0)
    active = (violation > 0).astype(float)
    n_pairs = max(1, better.sum())
    pull = 2 * (violation.sum(1) - violation.sum(0)) / n_pairs
    hessian = 2 * (np.diag(active.sum(1) + active.sum(0)) - active - active.T) / n_pairs
    return (violation**2).sum() / n_pairs, pull, hessian


@pytest.fixture(params=["comparing", "tree"])
def path(request, monkeypatch):
    """Force one of the two ways of summing for all sizes."""
    monkeypatch.setattr(squared_pairs, "_COMPARED_PAIRS", 10**9 if request.param == "comparing" else 0)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("labels", ["binary", "graded", "distinct", "equal"])
@pytest.mark.parametrize("size", [0.0, 0.1, 1.0, 30.0])
def test_equals_comparing_every_pair(labels, size):
    y, offsets, noise = make(labels, LENGTHS)
    scores = size * noise
    if size == 1.0:
        scores = scores.round(1)  # ties, and pairs exactly at the margin
    separator = SquaredPairs().bind(y, offsets)
    loss, coef = separate(separator, scores, offsets)
    direction = np.random.default_rng(1).normal(size=len(y))
    product = curve(separator, scores, direction, offsets)
    for q, (a, b) in enumerate(pairwise(offsets)):
        value, pull, hessian = slow(y[a:b], scores[a:b])
        scale = 1 + np.abs(scores[a:b]).max(initial=0.0)
        assert loss[q] - scores[a:b] @ coef[a:b] == pytest.approx(value, abs=1e-12 * scale**2)
        assert coef[a:b] == pytest.approx(pull, abs=1e-12 * scale)
        if size != 1.0:  # at a kink rounding decides which side is taken
            assert -product[a:b] == pytest.approx(hessian @ direction[a:b], abs=1e-12)


@pytest.mark.usefixtures("path")
def test_a_shift_of_the_scores_changes_nothing_even_a_large_one():
    y, offsets, scores = make("graded", [200])
    separator = SquaredPairs().bind(y, offsets)
    loss, coef = separate(separator, scores, offsets)
    far_loss, far_coef = separate(separator, scores + 1e6, offsets)
    assert far_coef == pytest.approx(coef, abs=1e-9)
    assert far_loss == pytest.approx(loss, abs=1e-9)


def test_counts_and_weights_are_those_of_the_pairs_oracle():
    y, offsets, _ = make("graded", LENGTHS)
    for normalize in ("pairs", "query"):
        ours, theirs = (o(normalize).bind(y, offsets) for o in (SquaredPairs, Pairs))
        assert (ours.pair_counts == theirs.pair_counts).all()
        assert (ours.query_weights == theirs.query_weights).all()
        assert (ours.informative == theirs.informative).all()
    rejected("normalize", SquaredPairs, "rows")


@pytest.mark.usefixtures("path")
def test_a_curvature_is_that_of_its_own_scores_whatever_is_asked_in_between():
    y, offsets, scores = make("graded", LENGTHS)
    n = len(offsets) - 1
    separator = SquaredPairs().bind(y, offsets)
    direction = np.random.default_rng(2).normal(size=len(y))
    expected = curve(SquaredPairs().bind(y, offsets), scores, direction, offsets)
    curvature = separator.tangent(scores, 0, n, np.empty(n), np.empty(len(y)))
    elsewhere = curve(separator, -3 * scores, direction, offsets)
    separate(separator, 2 * scores, offsets)
    product = np.empty(len(y))
    separator.curve(curvature, direction, 0, n, product)
    assert (product == expected).all()
    assert not (elsewhere == expected).all()
