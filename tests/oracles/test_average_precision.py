"""The AP oracle against exhaustive search and against the O(P N) formula of the thesis."""

import itertools

import numpy as np
import pytest

from structsvm.oracles.average_precision import AveragePrecision


def separate(y, s, relevance=1.0):
    y, s = np.asarray(y, float), np.asarray(s, float)
    separator = AveragePrecision(relevance).bind(y, np.array([0, len(y)]))
    loss, coef = np.empty(1), np.empty(len(y))
    separator.separate(s, 0, 1, loss, coef)
    return loss[0], coef


def average_precision(ranked_labels):
    ranked_labels = np.asarray(ranked_labels, bool)
    places = np.flatnonzero(ranked_labels) + 1
    return np.mean(np.arange(1, len(places) + 1) / places)


def coefficients(relevant, order):
    """``dPsi`` coefficients of a ranking by counting its inverted pairs one by one."""
    place = np.empty(len(order), int)
    place[list(order)] = np.arange(len(order))
    rel, non = np.flatnonzero(relevant), np.flatnonzero(~relevant)
    a = np.zeros(len(order))
    for i, j in itertools.product(rel, non):
        if place[j] < place[i]:
            a[i] += 2 / (len(rel) * len(non))
            a[j] -= 2 / (len(rel) * len(non))
    return a


def exhaustive(relevant, s):
    """Largest ``loss - s . a`` over all permutations."""
    best = -np.inf
    for order in itertools.permutations(range(len(s))):
        value = 1 - average_precision(relevant[list(order)]) - s @ coefficients(relevant, order)
        best = max(best, value)
    return best


def interleavings(relevant, s):
    """The same over all interleavings of the two sorted lists (enough, by Lemma 1 of the thesis)."""
    rel = np.flatnonzero(relevant)[np.argsort(-s[relevant], kind="stable")]
    non = np.flatnonzero(~relevant)[np.argsort(-s[~relevant], kind="stable")]
    best = -np.inf
    for places in itertools.combinations(range(len(s)), len(rel)):
        order = np.empty(len(s), int)
        order[list(places)] = rel
        order[np.setdiff1d(np.arange(len(s)), places)] = non
        best = max(best, 1 - average_precision(relevant[order]) - s @ coefficients(relevant, order))
    return best


def by_formula(relevant, s):
    """Algorithm 2 of the thesis literally: delta_j(k) from harmonic numbers, every k for every j. Returns loss, a."""
    rel = np.flatnonzero(relevant)[np.argsort(-s[relevant], kind="stable")]
    non = np.flatnonzero(~relevant)[np.argsort(-s[~relevant], kind="stable")]
    n_rel, n_non = len(rel), len(non)
    harmonic = np.concatenate(([0.0], np.cumsum(1 / np.arange(1, n_rel + n_non + 2))))
    prefix = np.concatenate(([0.0], np.cumsum(s[rel])))
    place = np.empty(n_non, int)
    for j in range(1, n_non + 1):
        k = np.arange(1, n_rel + 2)
        delta = (
            j * (harmonic[j + n_rel] - harmonic[j + k - 1])
            - (j - 1) * (harmonic[j + n_rel - 1] - harmonic[np.maximum(j + k - 2, 0)])
        ) / n_rel - 2 / (n_rel * n_non) * (prefix[n_rel] - prefix[k - 1] - (n_rel - k + 1) * s[non[j - 1]])
        delta[-1] = 0.0
        place[j - 1] = k[np.argmax(delta)]
    r = np.array([np.sum(place <= i) for i in range(1, n_rel + 1)])
    a = np.zeros(len(s))
    a[rel] = 2 * r / (n_rel * n_non)
    a[non] = -2 * (n_rel + 1 - place) / (n_rel * n_non)
    return 1 - np.mean(np.arange(1, n_rel + 1) / (np.arange(1, n_rel + 1) + r)), a


def random_case(rng, n):
    relevant = np.zeros(n, bool)
    relevant[rng.choice(n, rng.integers(1, n), replace=False)] = True
    scale = 10.0 ** rng.uniform(-3, 1)
    s = rng.normal(size=n) * scale
    if rng.random() < 0.4:  # ties, zeros included
        s = np.round(s / scale) * scale
    return relevant, s


def test_equals_exhaustive_search_over_permutations():
    rng = np.random.default_rng(0)
    for _ in range(120):
        relevant, s = random_case(rng, rng.integers(2, 7))
        loss, a = separate(relevant, s)
        assert loss - s @ a == pytest.approx(exhaustive(relevant, s), abs=1e-12)


def test_equals_exhaustive_search_over_interleavings():
    rng = np.random.default_rng(1)
    for _ in range(1500):
        relevant, s = random_case(rng, rng.integers(2, 9))
        loss, a = separate(relevant, s)
        assert loss - s @ a == pytest.approx(interleavings(relevant, s), abs=1e-12)


def test_equals_the_quadratic_formula():
    rng = np.random.default_rng(2)
    for case in range(2000):
        n = int(rng.integers(10, 160)) if case % 20 else int(rng.integers(200, 600))
        relevant, s = random_case(rng, n)
        loss, a = separate(relevant, s)
        slow_loss, slow_a = by_formula(relevant, s)
        assert loss - s @ a == pytest.approx(slow_loss - s @ slow_a, abs=1e-12)
        assert loss - s @ a >= -1e-15


def test_coefficients_and_loss_are_those_of_one_ranking():
    rng = np.random.default_rng(3)
    for _ in range(300):
        relevant, s = random_case(rng, rng.integers(2, 40))
        loss, a = separate(relevant, s)
        n_rel, n_non = relevant.sum(), (~relevant).sum()
        # the counts behind the coefficients rebuild the ranking: a relevant one stands below r non-relevant ones
        r = np.sort(np.rint(a[relevant] * n_rel * n_non / 2).astype(int))
        i = np.arange(1, n_rel + 1)
        assert loss == pytest.approx(1 - np.mean(i / (i + r)), abs=1e-12)
        assert a.sum() == pytest.approx(0, abs=1e-12)
        assert (a[relevant] >= 0).all()
        assert (a[~relevant] <= 0).all()


def test_hinge_gradient_by_differences():
    from scipy.optimize import check_grad

    rng = np.random.default_rng(4)
    X = rng.normal(size=(25, 4))
    relevant, _ = random_case(rng, 25)

    def hinge(w):
        loss, a = separate(relevant, X @ w)
        return loss - w @ (X.T @ a)

    def gradient(w):
        return -X.T @ separate(relevant, X @ w)[1]

    for _ in range(20):
        assert check_grad(hinge, gradient, rng.normal(size=4) * 0.1, epsilon=1e-9) < 1e-5


def test_permuting_documents_permutes_coefficients():
    rng = np.random.default_rng(5)
    for n in (7, 130, 300):
        relevant, s = random_case(rng, n)
        s = rng.normal(size=n)  # no ties: then the answer is one
        order = rng.permutation(n)
        loss, a = separate(relevant, s)
        loss2, a2 = separate(relevant[order], s[order])
        assert loss2 == pytest.approx(loss, abs=1e-12)
        np.testing.assert_allclose(a2, a[order], atol=1e-12)


@pytest.mark.parametrize("y", [[0, 0, 0], [1, 1, 1], [-1, 0.5, 0.9]])
def test_query_of_one_class_carries_no_constraint(y):
    separator = AveragePrecision().bind(np.array(y, float), np.array([0, 3]))
    loss, coef = np.full(1, 7.0), np.full(3, 7.0)
    separator.separate(np.array([1.0, 2.0, 3.0]), 0, 1, loss, coef)
    assert not separator.informative[0]
    assert loss[0] == 0
    assert (coef == 0).all()


def test_many_queries_in_one_call_equal_one_by_one():
    rng = np.random.default_rng(6)
    lengths = rng.integers(1, 30, size=40)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    y = rng.integers(-1, 3, size=offsets[-1]).astype(float)
    s = rng.normal(size=offsets[-1])
    separator = AveragePrecision(2.0).bind(y, offsets)
    loss, coef = np.empty(30), np.empty(offsets[35] - offsets[5])
    separator.separate(s[offsets[5] : offsets[35]], 5, 35, loss, coef)
    for q in range(5, 35):
        rows = slice(offsets[q], offsets[q + 1])
        one_loss, one_a = separate(y[rows], s[rows], relevance=2.0)
        assert one_loss == loss[q - 5]
        np.testing.assert_array_equal(one_a, coef[offsets[q] - offsets[5] : offsets[q + 1] - offsets[5]])


def test_toy_tables_of_the_thesis():
    """Tables 3.1 to 3.4: orders whose AP and ROC area disagree."""
    relevant = np.zeros(8, bool)
    relevant[[0, 5, 6]] = True
    assert average_precision(relevant) == pytest.approx(0.59, abs=0.005)
    assert average_precision(relevant[::-1]) == pytest.approx(0.51, abs=0.005)
    wide = np.zeros(11, bool)
    wide[[0, 5, 6, 7, 8]] = True
    assert average_precision(wide) == pytest.approx(0.56, abs=0.005)
    assert average_precision(wide[::-1]) == pytest.approx(0.51, abs=0.005)
