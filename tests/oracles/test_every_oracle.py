"""Common properties of ranking oracles: the checks of ``structsvm.testing``, and coefficients that are a gradient."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from structsvm.oracles import LOSSES, NDCG, AveragePrecision, OrdinalHinge, Pairs, SquaredPairs, get_oracle
from structsvm.queries import query_pieces
from structsvm.testing import check_oracle
from tests.refusing import rejected

NAMES = dict.fromkeys(loss.replace("@k", k) for loss in LOSSES for k in ("@1", "@3"))
ORACLES = [*map(get_oracle, NAMES), AveragePrecision(2.0), Pairs("query")]
ORACLES += [OrdinalHinge(), OrdinalHinge(balanced=True), NDCG(k=2, gain="linear")]


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_passes_the_check(oracle):
    """Results do not depend on other queries, threads or the order of documents, and no other output is better."""
    check_oracle(oracle)


@pytest.mark.parametrize("oracle", [*ORACLES, SquaredPairs()], ids=repr)
def test_missing_and_scalar_labels_are_refused(oracle):
    for y, got in ((None, "None"), (1.0, r"shape \(\)")):
        rejected(f"y: expected a label for each row, got {got}", oracle.bind, y, np.array([0, 2]))


@pytest.mark.parametrize("oracle", [*ORACLES, SquaredPairs()], ids=repr)
@pytest.mark.parametrize("size", [0.1, 1.0, 5.0])
def test_coefficients_are_minus_the_gradient(oracle, size):
    rng = np.random.default_rng(2)
    y, X = rng.choice([0, 0, 0, 1, 2, 3], 40).astype(float), rng.normal(size=(40, 5))
    separator = oracle.bind(y, np.array([0, 15, 15, 40]))
    loss, coef = np.empty(3), np.empty(40)

    def value(w):
        separator.separate(X @ w, 0, 3, loss, coef)
        return loss.sum() - (X @ w) @ coef

    def gradient(w):
        value(w)
        return -X.T @ coef

    for _ in range(5):
        w = size * rng.normal(size=5)
        assert check_grad(value, gradient, w, epsilon=1e-8) < 1e-5 * (1 + np.abs(gradient(w)).max())


def test_names_may_hold_digits_and_hyphens(monkeypatch):
    monkeypatch.setattr("structsvm.oracles.by_name.labels", lambda room: {"top-2": "NDCG", "top-2@k": "NDCG"})
    assert (get_oracle("top-2").k, get_oracle("top-2@5").k) == (None, 5)


@pytest.mark.parametrize("loss", NAMES)
def test_labels_are_bound_in_pieces(loss, monkeypatch):
    rng = np.random.default_rng(0)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 9, 50))))
    y = rng.choice([-1.0, 0.0, 0.5, 1.0, 3.0], offsets[-1])
    scores, found = rng.normal(size=y.size), []
    for size in (1, 20, 1 << 18):
        monkeypatch.setattr(query_pieces, "__defaults__", (size,))
        separator = get_oracle(loss).bind(y, offsets)
        value, coef = np.empty(50), np.empty(y.size)
        separator.separate(scores, 0, 50, value, coef)
        found.append((value.tolist(), coef.tolist(), separator.informative.tolist()))
    assert found[0] == found[1] == found[2]
