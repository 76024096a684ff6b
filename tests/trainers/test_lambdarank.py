"""Forces of LambdaRank against re-scored swaps, gradients of the scorers, training."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from structsvm.trainers.forces import Utility, forces
from structsvm.trainers.lambdarank import (
    LambdaRankFit,
    Schedule,
    ascend,
    backpropagate,
    column_scaling,
    forward,
    initial_weights,
    network_scores,
)
from tests.refusing import rejected

UTILITIES = ["ndcg", "ndcg@1", "ndcg@3", "ndcg@10", "map", "mrr"]


def slow_utility(name, gain, ranked):
    """Return the value of a ranking by definition, given the labels from the top."""
    ranked = np.asarray(ranked, dtype=float)
    n = len(ranked)
    if name.startswith("ndcg"):
        k = int(name[5:] or n) if "@" in name else n
        gains = 2 ** np.maximum(ranked, 0) - 1 if gain == "exponential" else np.maximum(ranked, 0)
        discount = np.where(np.arange(n) < k, 1 / np.log2(np.arange(n) + 2), 0)
        best = np.sort(gains)[::-1] @ discount
        return gains @ discount / best if best else 0.0
    places = np.flatnonzero(ranked >= 1) + 1
    if len(places) == 0:
        return 0.0
    return 1 / places[0] if name == "mrr" else np.mean(np.arange(1, len(places) + 1) / places)


def changes(name, gain, y, scores):
    """Return the change in utility of one query when two documents swap ranks, for all pairs."""
    n, order = len(y), np.argsort(-scores, kind="stable")
    if name == "ranknet":
        return np.ones((n, n))
    change, before = np.zeros((n, n)), slow_utility(name, gain, y[order])
    for a, b in itertools.combinations(range(n), 2):
        swapped = y[order]
        swapped[[a, b]] = swapped[[b, a]]
        change[order[a], order[b]] = change[order[b], order[a]] = slow_utility(name, gain, swapped) - before
    return change


@pytest.mark.parametrize("gain", ["exponential", "linear"])
@pytest.mark.parametrize("name", [*UTILITIES, "ranknet"])
def test_forces_are_sums_over_rescored_swaps(name, gain):
    rng = np.random.default_rng(1)
    utility = Utility.of(name, gain=gain)
    lengths = np.append(rng.integers(1, 13, 300), rng.integers(13, 30, 20))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    y = rng.integers(-1, 4, offsets[-1]).astype(float)
    scores = np.round(rng.normal(size=offsets[-1]), 1)  # with ties
    force, value = forces(scores, y, offsets, utility)
    for q in range(320):
        rows = slice(offsets[q], offsets[q + 1])
        s, labels = scores[rows], y[rows]
        change = np.abs(changes(name, gain, labels, s))
        pair = np.where(labels[:, None] > labels, change / (1 + np.exp(s[:, None] - s)), 0.0)
        np.testing.assert_allclose(force[rows], pair.sum(axis=1) - pair.sum(axis=0), atol=1e-12)
        if name != "ranknet":
            assert value[q] == pytest.approx(
                slow_utility(name, gain, labels[np.argsort(-s, kind="stable")]), abs=1e-12
            )


@pytest.mark.parametrize("name", ["map2", "ndcg@0", "ndcg@", "", None, 3, "roc"])
def test_unknown_utility(name):
    rejected("utility=", Utility.of, name)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("hidden", [(), (7,), (5, 4)])
def test_scorer_gradient(hidden, make):
    rng = np.random.RandomState(3)
    X = rng.normal(size=(20, 6)) * (rng.uniform(size=(20, 6)) < 0.5)
    shift, factor = rng.normal(size=6), rng.uniform(0.5, 2, 6)
    weights = initial_weights(6, hidden, rng)
    weights = [w + 0.1 * rng.normal(size=w.shape) for w in weights]
    force = rng.normal(size=20)
    scores, layers = forward(weights, make(X), shift, factor)
    plain, _ = forward(weights, (X - shift) * factor, np.zeros(6), np.ones(6))
    np.testing.assert_allclose(scores, plain, rtol=1e-10)
    gradients = backpropagate(weights, make(X), shift, factor, layers, force)
    for w, gradient in zip(weights, gradients, strict=True):
        assert gradient.shape == w.shape
        for at in np.ndindex(w.shape):
            kept = w[at]
            values = []
            for h in (1e-6, -1e-6):
                w[at] = kept + h
                values.append(force @ forward(weights, make(X), shift, factor)[0])
            w[at] = kept
            assert gradient[at] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-6)


def test_raw_weights_are_the_same_scorer():
    rng = np.random.RandomState(4)
    X, shift, factor = rng.normal(size=(9, 5)), rng.normal(size=5), rng.uniform(size=5)
    for hidden in ((), (4,), (4, 3)):
        fit = LambdaRankFit(initial_weights(5, hidden, rng), shift, factor, [], 0)
        raw = forward(fit.raw_weights, X, np.zeros(5), np.ones(5))[0]
        difference = raw - network_scores(fit, X)
        np.testing.assert_allclose(difference, difference[0], atol=1e-12)
        assert hidden == () or abs(difference[0]) < 1e-12


@pytest.mark.parametrize("method", ["zscore", "minmax", "none"])
def test_figures_of_sparse_columns(method):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(9000, 4)) * (rng.random((9000, 4)) < 0.3)
    X[:, 2] = 0.1
    for rows in (X, X.astype(np.float32)):
        shift, factor = column_scaling(rows, method)
        for mine, theirs in zip(
            (shift, factor), column_scaling(sparse.csr_matrix(rows), method), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)
        if method == "zscore":
            np.testing.assert_allclose(shift, rows.mean(axis=0, dtype=float), rtol=1e-12)
            np.testing.assert_allclose(
                1 / factor[[0, 1, 3]], rows[:, [0, 1, 3]].std(axis=0, dtype=float), rtol=1e-10
            )
        assert method == "none" or factor[2] == 0


def problem(rng):
    X = rng.normal(size=(360, 5))
    y = np.clip(np.round(X @ np.arange(5) / 3 + 0.3 * rng.normal(size=360)), 0, 3)
    return X, y, np.arange(0, 361, 12)


def ascended(seed, name, schedule, hidden=(), **options):
    """Return random rows, labels and offsets, the fit, and its start."""
    rng = np.random.RandomState(seed)
    X, y, offsets = problem(rng)
    start = LambdaRankFit(initial_weights(5, hidden, rng), np.zeros(5), np.ones(5), [], 0)
    options = {
        name: given(X, y, offsets) if name == "validation" else given for name, given in options.items()
    }
    fit = ascend(
        X,
        y,
        None,
        offsets,
        Utility.of(name),
        start,
        rng,
        Schedule(*schedule),
        query_weights=np.ones(30),
        **options,
    )
    return X, y, offsets, fit, start


@pytest.mark.parametrize("hidden", [(), (8,)])
@pytest.mark.parametrize("name", ["ndcg@5", "map", "mrr", "ranknet"])
def test_utility_rises(name, hidden):
    X, y, offsets, fit, start = ascended(6, name, (0.03, 1e-4, 8, 20), hidden)
    before, after = (
        forces(network_scores(one, X), y, offsets, Utility.of(name))[1].mean() for one in (start, fit)
    )
    assert after > before + 0.5 * (1 - before)
    assert [e.number for e in fit.history] == list(range(1, 21))


def test_keeps_the_best_pass_and_stops():
    # the validation queries want the opposite of the training ones: training can only make it worse
    X, y, offsets, fit, _ = ascended(
        7, "map", (0.05, 0.0, 30, 50, 4), validation=lambda X, y, offsets: (X, 3 - y, offsets)
    )
    values = [e.validation for e in fit.history]
    assert len(values) == fit.best_epoch + 4
    assert values[fit.best_epoch - 1] == max(values)
    assert forces(network_scores(fit, X), 3 - y, offsets, Utility.of("map"))[1].mean() == pytest.approx(
        max(values)
    )


def test_a_cut_off_beyond_any_query_is_none():
    X, y, offsets = problem(np.random.RandomState(9))
    deep, whole = (
        forces(X[:, 1].copy(), y, offsets, Utility.of(name)) for name in (f"ndcg@{10**20}", "ndcg")
    )
    assert (deep[0] == whole[0]).all()
