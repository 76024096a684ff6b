"""Every selector, by ``check_selector``; and mistakes that the check must find."""

import numpy as np
import pytest

from structsvm import DiverseRanker, SVMDiv
from structsvm.common.candidates import check_sets
from structsvm.estimators import baselines
from structsvm.testing import check_selector

SELECTORS = [
    *(SVMDiv(k=4, loss=loss) for loss in ("weighted", "unweighted", "alpha_ndcg")),
    SVMDiv(k=4, positive="benefits"),
    SVMDiv(k=4, document_features=["rank"], separation="greedy"),
    *(DiverseRanker(k=4, loss=loss) for loss in ("weighted", "unweighted", "alpha_ndcg")),
    DiverseRanker(k=4, positive=True, smooth=False, rounds=0),
    baselines.MMR(4),
    baselines.MMR(4, smooth_similarity=True, per_cost=True, smooth=2),
    *(
        getattr(baselines, name)(4)
        for name in ("EssentialPages", "FacilityLocation", "OkapiBM25", "OriginalOrder", "TopScores")
    ),
    baselines.UnweightedCoverage(4),
]


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
@pytest.mark.filterwarnings("ignore::structsvm.trainers.certificate.NothingLearnedWarning")
def test_every_selector_passes(selector):
    check_selector(selector)


@pytest.mark.filterwarnings("ignore::structsvm.trainers.certificate.NothingLearnedWarning")
def test_choices_that_are_not_greedy():
    check_selector(baselines.RandomChoice(4), greedy=False)


class Repeats(baselines.MMR):
    def predict(self, sets, k=None, **limits):
        return [np.append(rows, rows[:1])[: len(rows)][::-1] for rows in super().predict(sets, k, **limits)]


class Forgets(baselines.MMR):
    def fit(self, sets, labels, *args, **options):
        self.trade_off = 0.0
        return super().fit(sets, labels, *args, **options)


class Spends(baselines.MMR):
    def predict(self, sets, k=None, *, costs=None, budget=None):
        return super().predict(sets, k)


class Depends(baselines.MMR):
    def predict(self, sets, k=None, **limits):
        first = len(check_sets(sets)[0])
        return [rows[::-1] if len(rows) != first else rows for rows in super().predict(sets, k, **limits)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Spends, "exceeds the budget"),
        (Depends, "differ"),
        (Repeats, "documents"),
        (Forgets, "refused fit changes"),
    ],
)
def test_mistakes_are_found(wrong, message):
    with pytest.raises(AssertionError, match=message):
        check_selector(wrong(4))
