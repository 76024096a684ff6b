"""The exact choice of documents: against all subsets, and of a fitted model."""

import numpy as np
import pytest

from experiments._exact_selection import best_subset, exact_choices
from structsvm import CandidateSet, SVMDiv
from structsvm.features.word_features import Level
from structsvm.oracles.selection import swap
from tests.oracles.test_coverage import FEATURES, Instance


def test_every_subset():
    """Check all k from 1: the search ends in single documents, pairs and triples, after zero to three levels."""
    rng = np.random.default_rng(3)
    better, tried = 0, set()
    for _ in range(300):
        one = Instance(rng, n=int(rng.integers(2, 13)), n_words=15)
        k = int(rng.integers(1, 8))
        benefits, values = rng.normal(size=6), rng.normal(size=one.n) * rng.integers(0, 2)

        def value(y, one=one, benefits=benefits, values=values):
            return one.value(y, benefits, values)

        result, optimum = best_subset(one.coverage, benefits, values, k), value(one.best(k, value))
        assert len(set(result.chosen.tolist())) == min(k, one.n)
        assert value(result.chosen.tolist()) == pytest.approx(optimum, abs=1e-9)
        assert result.value == pytest.approx(optimum, abs=1e-9)
        better += optimum > swap(one.coverage, benefits, values, k).value + 1e-9
        tried.add(min(k, one.n - 1))
    assert better > 0
    assert tried >= {1, 2, 3, 4, 5, 6, 7}
    empty = FEATURES.coverage(CandidateSet(np.zeros((3, 4))))
    assert best_subset(empty, np.ones(6), np.array([0.0, 2.0, 1.0]), 2).chosen.tolist() == [1, 2]


def test_choices_of_a_model():
    rng = np.random.default_rng(0)
    sets = [CandidateSet(rng.poisson(0.5, size=(12, 40)), features=rng.random((12, 1))) for _ in range(6)]
    model = SVMDiv(C=100, k=4, levels=[Level.appears()]).fit(sets, [rng.random((12, 5)) < 0.3 for _ in sets])
    exact = np.array([choice.value for choice in exact_choices(model, sets)])
    assert (exact >= model.set_params(prediction="swap").decision_function(sets) - 1e-9).all()
