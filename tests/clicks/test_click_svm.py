"""ClickSVM: weights by definition, optimum, common contract of rankers, files."""

from dataclasses import replace

import numpy as np
import pytest

import structsvm
from structsvm.clicks import ClickSVM, ClickSVMCV, Propensities, click_weights, harvest
from structsvm.estimators.structural import model_path
from tests.refusing import refused

THETA = 1 / np.arange(1, 7)


@pytest.fixture(scope="module")
def learned(simulated_log):
    """Return a log, and rows of all candidates whose first feature is attraction plus noise."""
    cells, truth = simulated_log(np.random.default_rng(0), 4000, THETA, n_queries=40, n_documents=6)
    rng = np.random.default_rng(1)
    X = np.column_stack([truth.ravel() + 0.3 * rng.normal(size=truth.size), rng.normal(size=truth.size)])
    qid, docid = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)
    return cells, truth, X, qid, docid


@pytest.fixture(scope="module")
def y(learned):
    """Return the click weights of the rows."""
    cells, _, _, qid, docid = learned
    return click_weights(cells, Propensities.given(THETA)).values[cells.rows_of(qid, docid)]


@pytest.mark.parametrize("weighting", ["ips", "policy"])
def test_weights_by_definition(simulated_log, weighting):
    """Compare with the definition on lists that show four of six documents."""
    cells, _ = simulated_log(np.random.default_rng(0), 4000, THETA[:4], n_queries=40, n_documents=6)
    lists = np.bincount(cells.row_query[cells.row], cells.shows * (cells.position == 1))[cells.row_query]
    for clip in (0.0, 0.4):
        found = click_weights(cells, Propensities.given(THETA), weighting=weighting, clip=clip)
        theta = np.maximum(THETA, clip)[cells.position - 1]
        each = 1 / theta
        if weighting == "policy":
            each = (lists / np.bincount(cells.row, cells.shows * theta))[cells.row]
        w = np.repeat(each, cells.clicks)
        assert found.values == pytest.approx(np.bincount(cells.row, cells.clicks * each))
        assert found.largest == pytest.approx(w.max())
        assert found.effective == pytest.approx(w.sum() ** 2 / (w**2).sum())


def test_learns_from_a_log_and_beats_naive_clicks(learned):
    cells, truth, X, qid, docid = learned
    model = ClickSVM(C=0.1).fit(X, cells, qid=qid, docid=docid)
    np.testing.assert_allclose(model.propensities_.theta, harvest(cells).theta)
    assert model.fit_.gap <= 1e-3
    assert model.score(X, truth.ravel(), qid=qid) > 0.6
    assert model.effective_sample_size_ < cells.n_clicks
    weights = click_weights(cells, harvest(cells)).values[cells.rows_of(qid, docid)]
    np.testing.assert_allclose(model.coef_, ClickSVM(C=0.1).fit(X, weights, qid=qid).coef_)
    # rows in another order, ids as strings
    order = np.random.default_rng(3).permutation(len(qid))
    text = replace(cells, query_ids=cells.query_ids.astype(str), docid=cells.docid.astype(str))
    other = ClickSVM(C=0.1).fit(X[order], text, qid=qid[order].astype(str), docid=docid[order].astype(str))
    np.testing.assert_allclose(other.coef_, model.coef_, atol=0.02)


def objective(model, X, y, qid):
    scores, total, loss = X @ model.coef_, 0.0, 0.0
    for q in np.unique(qid):
        s, w = scores[qid == q], y[qid == q]
        terms = np.maximum(0, 1 - s[:, None] + s[None, :]) * ~np.eye(s.size, dtype=bool)
        loss += (w[:, None] * terms).sum()
        total += w.sum()
    return 0.5 * model.coef_ @ model.coef_ + model.C * loss / total


def test_primal_is_the_objective_of_the_paper(learned, y):
    _, _, X, qid, _ = learned
    model = ClickSVM(C=0.3, tol=1e-6).fit(X, y, qid=qid)
    assert model.fit_.primal == pytest.approx(objective(model, X, y, qid), rel=1e-9)
    best = model.fit_.primal
    for step in 0.01 * np.random.default_rng(4).normal(size=(20, 2)):
        moved = ClickSVM(C=0.3)
        moved.coef_ = model.coef_ + step
        assert objective(moved, X, y, qid) >= best - 1e-6 * best


@pytest.mark.parametrize("loss", ["pairs", "dcg"])
def test_path_and_file(learned, y, loss, tmp_path):
    cells, truth, X, qid, docid = learned
    models = list(model_path(ClickSVM(loss=loss, tol=1e-4), X, y, [0.01, 1.0], qid=qid))
    alone = ClickSVM(1.0, loss=loss, tol=1e-4).fit(X, y, qid=qid)
    assert models[1].fit_.primal == pytest.approx(alone.fit_.primal, rel=1e-3)
    model = ClickSVM(propensities=THETA.tolist(), loss=loss, scale="zscore")
    model.fit(X, cells, qid=qid, docid=docid)
    assert model.fit_.gap <= 1e-3
    assert model.score(X, truth.ravel(), qid=qid) > 0.6
    model.save(tmp_path / "m.npz")
    back = structsvm.load(tmp_path / "m.npz")
    assert (back.predict(X) == model.predict(X)).all()
    assert back.propensities_.theta.tolist() == model.propensities_.theta.tolist()


@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
def test_cross_validation_by_one_standard_error_and_at_the_end_of_the_grid(learned, caplog, tmp_path):
    cells, _, X, qid, docid = learned
    grid = [1e-4, 3e-4, 1e-3]
    chosen = {}
    for selection in ("max", "one_se"):
        model = ClickSVMCV(grid, cv=4, loss="dcg", propensities=THETA, selection=selection)
        chosen[selection] = model.fit(X, cells, qid=qid, docid=docid)
    assert chosen["one_se"].C_ <= chosen["max"].C_
    low, _, high = values = chosen["max"].scores_
    assert values[grid.index(chosen["max"].C_)] == pytest.approx(max(values), abs=1e-12)
    at_end = (grid[-1] == chosen["max"].C_ and high > values[1]) or (
        grid[0] == chosen["max"].C_ and low > values[1]
    )
    assert ("widen the grid" in caplog.text) == at_end
    model.save(tmp_path / "m.npz")
    assert structsvm.load(tmp_path / "m.npz").C_ == model.C_
    refused("selection='least'", ClickSVMCV(selection="least").check_options)


def test_refusals(learned):
    cells, _, X, qid, docid = learned
    known, clicks = {"propensities": THETA}, {"qid": qid, "docid": docid}
    for options, y, ids, message in [
        (known, cells, {"qid": qid}, "docid: expected the ids of the rows"),
        (known, cells, {"docid": docid}, "qid: expected the ids of the rows"),
        (
            known,
            cells,
            clicks | {"docid": docid + 100},
            "docid: expected clicked .* among the rows, got none",
        ),
        (known, cells, clicks | {"docid": docid * 0}, "docid: expected each document once in a query"),
        (known, np.zeros(len(qid)), {"qid": qid}, "y: expected clicks, got no label"),
        (known, -np.ones(len(qid)), {"qid": qid}, r"y\[0\]: expected a finite weight >= 0, got -1"),
        ({"propensities": [1.0, 0.5]}, cells, clicks, "propensities: expected one for each position"),
    ]:
        refused(message, ClickSVM(**options).fit, X, y, **ids)
    with pytest.warns(UserWarning, match="clicks are on documents that are not among the rows"):
        ClickSVM(**known).fit(X[6:], cells, qid=qid[6:], docid=docid[6:])
