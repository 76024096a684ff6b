"""Ordinal hinge: thresholds against a linear programme, tangents as lower bounds, ties and pooling included."""

import numpy as np
import pytest
from scipy.optimize import linprog

from structsvm.oracles.ordinal import OrdinalHinge


def by_programme(y, s, weights, *, balanced):
    """Return the minimum over ordered thresholds of the mean of both slacks."""
    grades = np.unique(y[weights > 0])
    T = len(grades) - 1
    rows = []  # (threshold, sign, score, weight): slack >= 1 - sign (s - b)
    for j in range(T):
        sides = [((y == grades[j]) & (weights > 0), -1.0), ((y == grades[j + 1]) & (weights > 0), 1.0)]
        total = sum(weights[m].sum() for m, _ in sides)
        for member, sign in sides:
            factor = total / 2 / weights[member].sum() if balanced else 1.0
            rows += [(j, sign, s[i], weights[i] * factor / weights.sum()) for i in np.flatnonzero(member)]
    n = len(rows)
    cost = np.concatenate((np.zeros(T), [r[3] for r in rows]))
    A, b = np.zeros((n + T - 1, T + n)), np.zeros(n + T - 1)
    for k, (j, sign, score, _) in enumerate(rows):
        A[k, j], A[k, T + k], b[k] = sign, -1.0, sign * score - 1.0
    for j in range(T - 1):
        A[n + j, j], A[n + j, j + 1] = 1.0, -1.0
    return linprog(cost, A, b, bounds=[(None, None)] * T + [(0, None)] * n).fun


def cost_at(y, s, weights, b):
    """Return the mean of both slacks at given thresholds."""
    grades = np.unique(y[weights > 0])
    total = 0.0
    for j in range(len(b)):
        total += (weights * np.maximum(0, 1 + s - b[j]))[y == grades[j]].sum()
        total += (weights * np.maximum(0, 1 - s + b[j]))[y == grades[j + 1]].sum()
    return total / weights.sum()


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("rounding", [0, 1, 9])
def test_value_thresholds_and_tangents(rounding, balanced):
    rng = np.random.default_rng(rounding)
    for trial in range(60):
        n, T = int(rng.integers(2, 14)), int(rng.integers(1, 5))
        y = rng.integers(0, T + 1, n).astype(float)
        weights = np.ones(n) if trial % 2 else rng.integers(0, 4, n) + 0.0
        if np.unique(y[weights > 0]).size < 2:
            continue
        # from hopeless, where thresholds are pooled, to separated
        scores = (rng.choice([-2.0, 0.0, 1.0, 3.0]) * y + rng.normal(size=n)).round(rounding)
        separator = OrdinalHinge(balanced=balanced).bind(y, np.array([0, n]), weights=weights)
        loss, coef = np.full(1, np.nan), np.full(n, np.nan)
        separator.separate(scores, 0, 1, loss, coef)
        best = by_programme(y, scores, weights, balanced=balanced)
        assert loss[0] - scores @ coef == pytest.approx(best, abs=1e-9)
        thresholds = separator.thresholds(scores)
        assert (np.diff(thresholds) >= 0).all()
        if not balanced:
            assert cost_at(y, scores, weights, thresholds) == pytest.approx(best, abs=1e-9)
        assert (coef[weights == 0] == 0).all()
        assert coef.sum() == pytest.approx(0.0, abs=1e-12)
        for _ in range(5):
            other = (scores + rng.normal(size=n) * rng.choice([0.1, 1.0, 5.0])).round(rounding)
            value = by_programme(y, other, weights, balanced=balanced)
            assert loss[0] - other @ coef <= value + 1e-9


def test_only_the_order_of_the_grades_matters():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 3, 40).astype(float), rng.normal(size=40)
    results = []
    for labels in (y, np.array([-1.0, 7.5, 100.0])[y.astype(int)]):
        loss, coef = np.empty(1), np.empty(40)
        OrdinalHinge().bind(labels, np.array([0, 40])).separate(scores, 0, 1, loss, coef)
        results.append(np.append(coef, loss))
    assert (results[0] == results[1]).all()
