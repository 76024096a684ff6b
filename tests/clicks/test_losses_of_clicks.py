"""Losses of weighted clicks against their definitions, and the measures by which C is chosen."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from structsvm.clicks import ClickSVM, ClickSVMCV
from structsvm.clicks.losses import click_values, loss_by_name
from structsvm.common.checks import BadInput
from structsvm.estimators.fitted import ranks
from structsvm.oracles import ReciprocalRank
from structsvm.oracles.weighted import WeightedLogRank, WeightedPairs
from structsvm.queries import group_queries


def separated(separator, scores, offsets, first=0, last=None):
    last = len(offsets) - 1 if last is None else last
    loss, coef = np.empty(last - first), np.empty(offsets[last] - offsets[first])
    separator.separate(scores[offsets[first] : offsets[last]], first, last, loss, coef)
    return loss, coef


def random_problem(rng, n_queries=5):
    offsets = np.append(0, np.cumsum(rng.integers(1, 6, n_queries)))
    y = np.where(rng.random(offsets[-1]) < 0.5, rng.exponential(size=offsets[-1]), 0.0)
    return y, offsets, rng.normal(size=offsets[-1]).round(1)


def test_mean_of_pairs_by_definition():
    rng = np.random.default_rng(0)
    for _ in range(300):
        y, offsets, scores = random_problem(rng)
        loss, coef = separated(WeightedPairs(mean=True).bind(y, offsets), scores, offsets)
        for q in range(len(offsets) - 1):
            rows = slice(offsets[q], offsets[q + 1])
            s, w, n = scores[rows], y[rows], offsets[q + 1] - offsets[q]
            if n == 1 or w.sum() == 0:
                assert loss[q] == 0
                assert not coef[rows].any()
                continue
            hinges = np.maximum(0, 1 - s[:, None] + s[None, :]) * ~np.eye(n, dtype=bool)
            value = (w[:, None] * hinges).sum() / (n - 1) / w.sum()
            # the loss of the cut, minus the gain in score, is the value of the hinges
            assert loss[q] - coef[rows] @ s == pytest.approx(value)


def test_log_of_the_rank_is_that_of_copies():
    """Compare each query with weighted copies of it, one per clicked document, in the oracle of labels."""
    rng = np.random.default_rng(1)
    for size in (1.0, 1.0, 30.0, 1e3):
        for _ in range(25):
            y, offsets, scores = random_problem(rng)
            scores *= size
            separator = WeightedLogRank().bind(y, offsets)
            loss, coef = separated(separator, scores, offsets)
            for q in range(len(offsets) - 1):
                rows = slice(offsets[q], offsets[q + 1])
                n, total = offsets[q + 1] - offsets[q], y[rows].sum()
                expected_loss, expected_coef = 0.0, np.zeros(n)
                for d in np.flatnonzero(y[rows] > 0):
                    labels = (np.arange(n) == d).astype(float)
                    one = np.array([0, n])
                    a, b = separated(ReciprocalRank().bind(labels, one), scores[rows], one)
                    expected_loss += y[rows][d] / total * a[0]
                    expected_coef += y[rows][d] / total * b
                assert loss[q] == pytest.approx(expected_loss, rel=1e-9, abs=1e-9)
                np.testing.assert_allclose(coef[rows], expected_coef, atol=1e-12)
                assert separator.informative[q] == (total > 0 and n > 1)
                assert separator.query_weights[q] == pytest.approx(total)
                # a part of the queries
                part_loss, part_coef = separated(separator, scores, offsets, q, q + 1)
                assert part_loss[0] == loss[q]
                np.testing.assert_array_equal(part_coef, coef[rows])


def test_curvature_of_the_log_of_the_rank():
    y, offsets, scores = random_problem(np.random.default_rng(4))
    n, n_queries = len(y), len(offsets) - 1
    separator, product = WeightedLogRank().bind(y, offsets), np.empty(n)
    kept = separator.tangent(scores, 0, n_queries, np.empty(n_queries), np.empty(n))

    def curve(direction):
        separator.curve(kept, direction, 0, n_queries, product)
        return -product.copy()

    expected = approx_fprime(scores, lambda s: -separated(separator, s, offsets)[1], 1e-6)
    assert np.array([curve(unit) for unit in np.eye(n)]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
def test_held_out_clicks_are_judged_by_the_measure_of_the_loss():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 3))
    lengths = rng.integers(2, 9, 20)
    qid = np.repeat(np.arange(20), lengths)
    X = X[: qid.size]
    y = np.where(rng.random(qid.size) < 0.4, rng.exponential(size=qid.size), 0.0)
    weights = rng.exponential(size=20)[qid]  # of queries
    for loss in ("pairs", "mean_pairs", "dcg@2", "mrr"):
        model = ClickSVMCV([0.3], cv=2, loss=loss).fit(X, y, qid=qid, sample_weight=weights)
        clicked = np.array([q for q in range(20) if y[qid == q].any()])
        value = total = 0.0
        for fold in range(2):
            held = np.isin(qid, clicked[fold::2])
            train = np.isin(qid, np.setdiff1d(clicked, clicked[fold::2]))
            alone = ClickSVM(0.3, loss=loss).fit(
                X[train], y[train], qid=qid[train], sample_weight=weights[train]
            )
            place = ranks(alone.predict(X[held]), group_queries(qid[held], held.sum()))
            for r, w, q in zip(place, (weights * y)[held], qid[held], strict=True):
                n = lengths[q]
                value += (
                    w
                    * {
                        "pairs": n - r,
                        "mean_pairs": (n - r) / (n - 1),
                        "dcg@2": (r <= 2) / np.log2(1 + r),
                        "mrr": 1 / r,
                    }[loss]
                )
                total += w * (n - 1 if loss == "pairs" else 1)
        assert model.scores_ == pytest.approx([value / total], rel=1e-6)


def test_names():
    assert loss_by_name("pairs") == WeightedPairs()
    assert loss_by_name("mrr@3") == loss_by_name("dcg") == WeightedLogRank()
    value, most = click_values("mean_pairs", np.array([1]), np.array([1]))  # a document alone says nothing
    assert value.tolist() == most.tolist() == [0.0]
    for name in ("pairs@3", "dcg@0", "map", None, ["pairs"]):
        with pytest.raises(BadInput, match=r"loss=.*: expected 'pairs', 'mean_pairs', 'dcg' or 'mrr'"):
            ClickSVM(loss=name).fit([[0.0], [1.0]], [0.0, 1.0], qid=[1, 1])
