"""Random labels, and one call of an oracle on whole data, which must fill all entries of its arrays."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np


def make(labels, lengths, seed=0):
    """Return labels of a kind, offsets and noise for queries of the given lengths."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    n = offsets[-1]
    y = {
        "binary": lambda: 2.0 * (rng.random(n) < 0.3),
        "graded": lambda: rng.integers(-1, 4, n).astype(float),
        "fractions": lambda: 3 * rng.random(n),
        "distinct": lambda: rng.permutation(n).astype(float),
        "equal": lambda: np.ones(n),
    }[labels]()
    return y, offsets, rng.normal(size=n)


def separate(separator, scores, offsets):
    loss, coef = np.full(len(offsets) - 1, np.nan), np.full(len(scores), np.nan)
    separator.separate(scores, 0, len(offsets) - 1, loss, coef)
    return loss, coef


def bind_and_separate(oracle, y, offsets, scores):
    separator = oracle.bind(y, offsets)
    return separator, *separate(separator, scores, offsets)


def of_one_query(oracle, y, scores):
    """Return the loss and coefficients of one query."""
    y, scores = np.asarray(y, dtype=float), np.asarray(scores, dtype=float)
    _, loss, coef = bind_and_separate(oracle, y, np.array([0, len(y)]), scores)
    return loss[0], coef


def curve(separator, scores, direction, offsets):
    """Return minus the second derivative at ``scores`` times ``direction``; threads must return the same."""

    def part(first, last):
        rows = slice(offsets[first], offsets[last])
        loss, coef, product = np.empty(last - first), np.empty(len(scores[rows])), np.empty(len(scores[rows]))
        curvature = separator.tangent(scores[rows], first, last, loss, coef)
        before = np.copy(curvature)
        separator.curve(curvature, direction[rows], first, last, product)
        # parts are not filled where there is no pair
        assert np.array_equal(curvature, before, equal_nan=True)
        return loss, coef, product

    whole = part(0, len(offsets) - 1)
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(part, range(len(offsets) - 1), range(1, len(offsets))))
    for found, pieces in zip(whole, zip(*parts, strict=True), strict=True):
        assert (found == np.concatenate(pieces)).all()
    return whole[2]
