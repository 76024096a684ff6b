"""The choice of C: compared with a slow twin, and stable if the choice matters."""

import math
import statistics
import warnings

import numpy as np
import pytest

from structsvm import StructuralRanker, StructuralRankerCV
from structsvm.estimators.choosing_C import select_C
from structsvm.estimators.cross_validation import HeldOutLosses
from structsvm.readers import make_ranking
from structsvm.trainers import NothingLearnedWarning

# small and random data, in which there is next to nothing to learn
pytestmark = [pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")]


def slow(Cs, values, selection):
    """Choose C by the definition, query by query."""
    means = [statistics.fmean(column) for column in zip(*values, strict=True)]
    best = next(i for i, m in enumerate(means) if m >= max(means) - 1e-12)
    if selection == "max":
        return Cs[best]
    for i, C in enumerate(Cs):
        lost = [row[best] - row[i] for row in values]
        if statistics.fmean(lost) <= statistics.stdev(lost) / math.sqrt(len(lost)) + 1e-12:
            return C
    raise AssertionError("the best is within an error of itself")


@pytest.mark.parametrize("selection", ["max", "one_se"])
def test_it_equals_the_slow_twin(selection):
    rng = np.random.default_rng(0)
    Cs = np.logspace(-2, 2, 6)
    chosen = set()
    for _ in range(200):
        values = np.clip(rng.normal(size=(12, 1)) + rng.normal(0.1 * np.arange(6), 0.5, size=(12, 6)), -1, 1)
        expected = slow(Cs.tolist(), values.tolist(), selection)
        assert select_C(Cs, values, selection=selection) == expected
        # a query of weight 0 is not there, and only ratios of weights count
        more, weights = np.vstack([values, rng.normal(size=6)]), np.append(np.full(12, 3.0), 0.0)
        assert select_C(Cs, more, weights, selection=selection) == expected
        chosen.add(expected)
    assert len(chosen) >= 4


def test_weights_count():
    """A query with a large weight decides; the standard error is that of the weighted mean, which is then large."""
    Cs, values = np.array([1.0, 2.0]), np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert select_C(Cs, values) == 1.0
    weights = np.array([10.0, 1.0, 1.0])
    assert select_C(Cs, values, weights) == 2.0
    # loss 8/12, error sqrt(3/2 * sum of (w/12)^2 (d - 8/12)^2) = 0.41
    assert select_C(Cs, values, weights, selection="one_se") == 2.0
    assert select_C(Cs, np.array([[0.0, 0.1], [0.1, 0.1], [0.3, 0.1]]), weights, selection="one_se") == 2.0


@pytest.mark.parametrize("selection", ["max", "one_se"])
def test_estimators_choose_so(selection):
    data = make_ranking(20, 8, 4, noise=1.5, random_state=3)
    model = StructuralRankerCV(Cs=[1e-3, 1e-2, 1e-1, 1.0, 10.0], cv=4, selection=selection).fit(
        data.X, data.y, qid=data.qid
    )
    assert select_C(model.Cs_, model.scores_, selection=selection) == model.C_
    losses = np.vstack([1 - model.scores_, np.full(5, np.nan)])
    assert HeldOutLosses(model.Cs_, losses, selection).C == model.C_


def test_a_small_C_that_was_chosen_is_no_sign_that_nothing_was_learned():
    # any weight of the right sign is perfect
    data = make_ranking(30, 10, 1, grades=2, noise=0.0, random_state=0)
    with warnings.catch_warnings(action="error", category=NothingLearnedWarning):
        model = StructuralRankerCV(Cs=[1e-5, 1.0], cv=3).fit(data.X, data.y, qid=data.qid)
        with pytest.raises(NothingLearnedWarning):
            StructuralRanker(C=1e-5).fit(data.X, data.y, qid=data.qid)
    assert model.C_ == 1e-5
    other = np.random.default_rng(1).permutation(data.y)
    with pytest.warns(NothingLearnedWarning):
        StructuralRankerCV(Cs=[1e-5, 1e-3], cv=3).fit(data.X, other, qid=data.qid)
