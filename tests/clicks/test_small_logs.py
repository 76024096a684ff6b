"""Very small logs: no clicks, one position, one query."""

import numpy as np
import pytest

from structsvm import clicks
from structsvm.clicks.page import clicks_page
from structsvm.common.checks import BadInput
from tests.refusing import refused

X, QID, DOCID = np.array([[1.0], [0.0], [1.0], [0.0]]), np.array([1, 1, 2, 2]), np.array([1, 2, 1, 2])
THETA = [1.0, 0.5]


def log(query, document, position, clicked, session):
    return clicks.ClickCells.from_arrays(query, document, position, clicked, session=session)


NO_CLICKS = log([1, 1, 2, 2], [1, 2, 1, 2], [1, 2, 2, 1], [0, 0, 0, 0], [1, 1, 2, 2])


@pytest.mark.parametrize(
    "use",
    [
        clicks.harvest,
        lambda cells: clicks.ClickSVM(propensities=THETA).fit(X, cells, qid=QID, docid=DOCID),
        lambda cells: clicks.ClickSVMCV(propensities=THETA, cv=2).fit(X, cells, qid=QID, docid=DOCID),
        lambda cells: clicks.evaluate_from_clicks(cells, QID, DOCID, X[:, 0], propensities=THETA),
        *(lambda cells, m=m: clicks.judgments(cells, m, propensities=THETA) for m in ("coec", "ips", "sdbn")),
    ],
)
def test_without_clicks_nothing_is_estimated(use):
    refused("cells: expected at least one click, got none; use a longer log", use, NO_CLICKS)


@pytest.mark.parametrize("model", [clicks.PositionBasedModel, clicks.DependentClickModel])
def test_without_clicks_models_predict_few(model):
    fitted = model().fit(NO_CLICKS)
    assert (clicks.model_quality(fitted, NO_CLICKS).perplexity_by_position < 2).all()  # less than a coin
    assert (fitted.marginals(NO_CLICKS.sessions) < 0.5).all()
    assert "Click-through by position" in clicks_page("log", NO_CLICKS)


def test_one_position():
    """In lists of one document, clicks have equal weights, and the utility is the click-through rate."""
    # query 1: document 1 in three lists, clicked twice; document 2 in one, not clicked
    cells = log([1, 1, 1, 1], [1, 1, 1, 2], [1, 1, 1, 1], [1, 1, 0, 0], [1, 2, 3, 4])
    theta = clicks.harvest(cells)
    assert theta.theta.tolist() == [1.0]
    assert theta.weakest_link == (1, 1, 0.0)
    assert np.isnan(clicks.trust_bias(cells).p_value)
    model = clicks.ClickSVM(propensities=theta).fit(X[:2], cells, qid=QID[:2], docid=DOCID[:2])
    assert (model.largest_weight_, model.effective_sample_size_) == (1.0, 2.0)
    assert model.coef_[0] > 0
    found = clicks.evaluate_from_clicks(
        cells, [1, 1], [1, 2], [1.0, 0.0], propensities=theta, k=1, weighting="ips"
    )
    assert found.logged_dcg.value == 0.5
    np.testing.assert_allclose(clicks.judgments(cells, "ips").value, [2 / 3, 0])
    np.testing.assert_allclose(clicks.judgments(cells, "coec").value, [2 / 3 / 0.5, 0])
    np.testing.assert_allclose(clicks.judgments(cells, "sdbn").value, [2 / 3, 0])


def test_one_query():
    """For a single document that moves, the propensity is the ratio of its click-through rates."""
    # document 1 stood at 1 in five lists with four clicks, at 2 in four lists with one click; document 2 has no click
    position, session = np.array([1] * 5 + [2] * 4), np.arange(9)
    cells = log(
        np.ones(18, int), np.repeat([1, 2], 9), np.r_[position, 3 - position],
        np.r_[[1, 1, 1, 1, 0, 1, 0, 0, 0], np.zeros(9, int)], np.r_[session, session],
    )  # fmt: skip
    theta = clicks.harvest(cells)
    assert theta.theta == pytest.approx([1, (1 / 4) / (4 / 5)])
    assert theta.standard_errors[1] == pytest.approx(np.sqrt(5 / 4), rel=0.02)
    assert (theta.n_clusters, theta.freedom) == (1, None)
    assert np.isnan(clicks.trust_bias(cells).p_value)
    found = clicks.evaluate_from_clicks(
        cells, [1, 1], [1, 2], [1.0, 0.0], propensities=theta, weighting="ips"
    )
    assert found.dcg.value == pytest.approx((4 + 1 / theta.theta[1]) / 9)
    with pytest.raises(BadInput, match=r"cv=2: .* 2 queries with clicks, got 1; .* C= of ClickSVM"):
        clicks.ClickSVMCV(propensities=theta, cv=2).fit(X[:2], cells, qid=QID[:2], docid=DOCID[:2])
