"""The AP oracle against exhaustive search and against the O(P N) formula of the thesis."""

import itertools

import numpy as np
import pytest

from structsvm.oracles.average_precision import AveragePrecision
from tests.oracles.separating import of_one_query


def average_precision(ranked_labels):
    ranked_labels = np.asarray(ranked_labels, bool)
    places = np.flatnonzero(ranked_labels) + 1
    return np.mean(np.arange(1, len(places) + 1) / places)


def coefficients(relevant, order):
    """Return the ``dPsi`` coefficients of a ranking by counting its inverted pairs one by one."""
    position = np.empty(len(order), int)
    position[list(order)] = np.arange(len(order))
    rel, non = np.flatnonzero(relevant), np.flatnonzero(~relevant)
    a = np.zeros(len(order))
    for i, j in itertools.product(rel, non):
        if position[j] < position[i]:
            a[i] += 2 / (len(rel) * len(non))
            a[j] -= 2 / (len(rel) * len(non))
    return a


def interleavings(relevant, s):
    """Maximise over all interleavings of the two sorted lists, which suffices by Lemma 1 of the thesis."""
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
    """Return loss and coefficients by Algorithm 2 of the thesis: delta_j(k) from harmonic numbers for all j and k."""
    rel = np.flatnonzero(relevant)[np.argsort(-s[relevant], kind="stable")]
    non = np.flatnonzero(~relevant)[np.argsort(-s[~relevant], kind="stable")]
    n_rel, n_non = len(rel), len(non)
    harmonic = np.concatenate(([0.0], np.cumsum(1 / np.arange(1, n_rel + n_non + 2))))
    prefix = np.concatenate(([0.0], np.cumsum(s[rel])))
    position = np.empty(n_non, int)
    for j in range(1, n_non + 1):
        k = np.arange(1, n_rel + 2)
        delta = (
            j * (harmonic[j + n_rel] - harmonic[j + k - 1])
            - (j - 1) * (harmonic[j + n_rel - 1] - harmonic[np.maximum(j + k - 2, 0)])
        ) / n_rel - 2 / (n_rel * n_non) * (prefix[n_rel] - prefix[k - 1] - (n_rel - k + 1) * s[non[j - 1]])
        delta[-1] = 0.0
        position[j - 1] = k[np.argmax(delta)]
    r = np.array([np.sum(position <= i) for i in range(1, n_rel + 1)])
    a = np.zeros(len(s))
    a[rel] = 2 * r / (n_rel * n_non)
    a[non] = -2 * (n_rel + 1 - position) / (n_rel * n_non)
    return 1 - np.mean(np.arange(1, n_rel + 1) / (np.arange(1, n_rel + 1) + r)), a


def random_case(rng, n):
    relevant = np.zeros(n, bool)
    relevant[rng.choice(n, rng.integers(1, n), replace=False)] = True
    scale = 10.0 ** rng.uniform(-3, 1)
    s = rng.normal(size=n) * scale
    if rng.random() < 0.4:  # ties, zeros included
        s = np.round(s / scale) * scale
    return relevant, s


def test_equals_exhaustive_search_over_interleavings():
    rng = np.random.default_rng(1)
    for _ in range(1500):
        relevant, s = random_case(rng, rng.integers(2, 9))
        loss, a = of_one_query(AveragePrecision(), relevant, s)
        assert loss - s @ a == pytest.approx(interleavings(relevant, s), abs=1e-12)


def test_equals_the_quadratic_formula():
    rng = np.random.default_rng(2)
    for case in range(2000):
        n = int(rng.integers(10, 160)) if case % 20 else int(rng.integers(200, 600))
        relevant, s = random_case(rng, n)
        loss, a = of_one_query(AveragePrecision(), relevant, s)
        slow_loss, slow_a = by_formula(relevant, s)
        assert loss - s @ a == pytest.approx(slow_loss - s @ slow_a, abs=1e-12)
        assert loss - s @ a >= -1e-15
