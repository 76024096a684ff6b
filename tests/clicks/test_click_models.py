"""Click models: likelihoods by definition and over all click patterns, optima, certificates."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from structsvm.clicks import (
    CascadeModel,
    ClickCells,
    ClickChainModel,
    DependentClickModel,
    DynamicBayesianModel,
    PositionBasedModel,
    SimplifiedDynamicBayesianModel,
    UserBrowsingModel,
    model_quality,
    position_based_fit,
)
from structsvm.common.checks import BadInput
from structsvm.online.interleaving.compiled.comparisons import preference_matrix
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from tests.refusing import refused

BY_EM = [DynamicBayesianModel, ClickChainModel]
READERS = [CascadeModel, DependentClickModel, SimplifiedDynamicBayesianModel, *BY_EM]
THETA = 1 / np.arange(1, 5)


@pytest.fixture(scope="module")
def log(simulated_log):
    return simulated_log(
        np.random.default_rng(0), 600, THETA, n_queries=5, n_documents=6, attraction=(0.2, 0.9)
    )[0]


def penalised(cells, a, e, prior):
    p = a[cells.row] * e[cells.position - 1]
    misses = cells.shows - cells.clicks
    total = cells.clicks @ np.log(p) + misses[misses > 0] @ np.log1p(-p[misses > 0])
    return total + (prior * sum(np.log(x * (1 - x)).sum() for x in (a, e)) if prior else 0.0)


def test_em_never_falls_and_newton_ends_above(log, monkeypatch):
    best = PositionBasedModel().fit(log)
    values = []
    monkeypatch.setattr(position_based_fit, "_MOST_LEVELS", 0)
    for n_rounds in (1, 2, 5, 20, 50, 200):
        model = PositionBasedModel(n_rounds=n_rounds).fit(log)
        values.append(penalised(log, model.attraction_, model.examination_, 1.0))
    assert np.diff(values).min() > 0
    assert best.n_steps_ <= 10
    assert best.gap_ <= 1e-6
    top = penalised(log, best.attraction_, best.examination_, 1.0)
    assert top >= values[-1] - 1e-9
    assert best.log_likelihood_ == pytest.approx(penalised(log, best.attraction_, best.examination_, 0.0))
    # the gap of EM is a bound
    assert top - values[-1] <= model.gap_ + 1e-9


@pytest.mark.parametrize("prior", [0.0, 0.3, 1.0])
def test_newton_reaches_the_optimum_of_another_solver(log, prior):
    model = PositionBasedModel(prior=prior).fit(log)
    assert model.gap_ <= 1e-6
    n = log.n_rows

    def loss(x):
        return -penalised(log, np.exp(x[:n]), np.exp(x[n:]), prior)

    x0 = np.full(n + log.n_positions, -0.7)
    with np.errstate(all="ignore"):
        bounds = [(np.log(1e-6), -1e-9)] * x0.size
        other = minimize(loss, x0, method="L-BFGS-B", bounds=bounds, options={"maxfun": 10**6})
    assert penalised(log, model.attraction_, model.examination_, prior) >= -other.fun - 1e-6


def test_errors_of_the_position_based_model_are_the_inverse_information(log):
    model = PositionBasedModel().fit(log)
    n = log.n_rows
    x = np.log(np.concatenate((model.attraction_, model.examination_)))

    def value(x):
        return penalised(log, np.exp(x[:n]), np.exp(x[n:]), 1.0)

    h, steps = 1e-4, 1e-4 * np.eye(x.size)
    signs = [(a, b) for a in (1, -1) for b in (1, -1)]
    hessian = [[sum(a * b * value(x + a * i + b * j) for a, b in signs) for j in steps] for i in steps]
    covariance = np.linalg.inv(-np.array(hessian) / (4 * h * h))
    errors = model.attraction_error_ / model.attraction_
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance)[:n]), rtol=1e-3)
    np.testing.assert_allclose(model._covariance, covariance[n:, n:], rtol=1e-2, atol=1e-5)
    theta = model.propensities()
    assert theta.theta[0] == 1
    assert theta.standard_errors[0] == 0


def test_one_ranker_has_no_propensities(simulated_log):
    cells, _ = simulated_log(np.random.default_rng(1), 300, THETA, n_rankers=1)
    refused("connected", PositionBasedModel().fit(cells).propensities)


def test_user_browsing_by_definition(log, monkeypatch):
    """Compute the likelihood from the history of each list; compare the optimum with many rounds of EM."""
    model = UserBrowsingModel(prior=0.5).fit(log)
    assert model.n_steps_ <= 12
    assert model.gap_ <= 1e-5
    s = log.sessions
    for i in range(0, s.n_distinct, 7):
        part = slice(s.offsets[i], s.offsets[i + 1])
        total, last = 0.0, 0
        for k, (r, c) in enumerate(zip(s.row[part], s.clicked[part], strict=True)):
            p = model.attraction_[r] * model.examination_[k, last]
            total += np.log(p if c else 1 - p)
            last = k + 1 if c else last
        assert model.list_log_likelihoods(s)[i] == pytest.approx(total)
    assert model.log_likelihood_ == pytest.approx(model.list_log_likelihoods(s) @ s.count)
    monkeypatch.setattr(position_based_fit, "_MOST_LEVELS", 0)
    slow = UserBrowsingModel(prior=0.5, n_rounds=3000).fit(log)
    np.testing.assert_allclose(model.attraction_, slow.attraction_, atol=2e-3)


def patterns(sessions, i):
    """Return list ``i`` with each click pattern."""
    part = sessions.select([i])
    n = part.row.size
    for clicks in product([False, True], repeat=n):
        yield type(part)(part.offsets, part.row, np.array(clicks), np.ones(1, dtype=np.int64))


@pytest.mark.parametrize("model", [*READERS, PositionBasedModel, UserBrowsingModel])
def test_probabilities_of_all_patterns(log, model):
    """The probabilities sum to one, and to the marginals."""
    model = model().fit(log)
    with np.errstate(divide="ignore"):
        p = [(one.clicked, np.exp(model.list_log_likelihoods(one)[0])) for one in patterns(log.sessions, 3)]
    assert sum(v for _, v in p) == pytest.approx(1)
    np.testing.assert_allclose(model.marginals(log.sessions.select([3])), sum(v * c for c, v in p))


@pytest.mark.parametrize("model", [*READERS, PositionBasedModel])
def test_user_of_a_query_is_the_model(log, model):
    model = model().fit(log)
    s = log.sessions.select([2])
    q = log.row_query[s.row[0]]
    user = model.user(log.query_ids[q])
    grades = s.row - log.offsets[q]
    np.testing.assert_allclose(user.probability(grades), model.marginals(s))
    for part in patterns(log.sessions, 2):
        with np.errstate(divide="ignore"):
            expected = np.exp(model.list_log_likelihoods(part)[0])
        assert user.likelihood(grades, part.clicked) == pytest.approx(expected)
    assert user.click(grades, rng=0).shape == grades.shape
    # interleaving is simulated with it: the ranking by its own attraction beats the reverse
    rows = slice(log.offsets[q], log.offsets[q + 1])
    best = model.attraction_[rows]
    ranked = RankedQueries.from_scores(np.stack([best, -best], 1), np.arange(best.size), [0, best.size])
    assert preference_matrix(ranked, user, 500, length=THETA.size)[0, 1] > 0.55


@pytest.mark.parametrize("model", BY_EM)
@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_em_of_reading_models_never_falls(log, model, prior):
    fitted = model(prior=prior, n_rounds=60).fit(log)
    assert np.diff(fitted.history_).min() > -1e-9
    assert np.isfinite(fitted.attraction_error_[fitted.attraction_ < 1]).all()


@pytest.mark.parametrize("model", BY_EM)
def test_em_of_reading_models_ends_where_it_is_stationary(log, model):
    """After many rounds no single parameter raises the penalised likelihood."""
    model, s = model(prior=1.0, n_rounds=3000).fit(log), log.sessions

    def value():
        return model.list_log_likelihoods(s) @ s.count + model._log_prior()

    best = value()
    for name in vars(model).keys() & {"attraction_", "satisfaction_", "continuation_"}:
        parameters = getattr(model, name)
        for step in np.concatenate([1e-3 * np.eye(np.size(parameters)), -1e-3 * np.eye(np.size(parameters))]):
            setattr(model, name, parameters + (step if np.ndim(parameters) else step[0]))
            assert value() <= best + 1e-6
        setattr(model, name, parameters)


def test_closed_forms_count_what_they_say():
    cells = ClickCells.from_arrays(
        [1] * 9,
        [5, 6, 7, 6, 5, 7, 5, 6, 7],
        [1, 2, 3] * 3,
        [1, 1, 0, 0, 1, 0, 0, 0, 0],
        session=[1, 1, 1, 2, 2, 2, 3, 3, 3],
    )
    rows = {int(d): i for i, d in enumerate(cells.docid)}
    cascade = CascadeModel(prior=0).fit(cells).attraction_
    assert cascade[rows[5]] == pytest.approx(2 / 3)
    assert cascade[rows[6]] == 0  # seen twice before a first click
    sdbn = SimplifiedDynamicBayesianModel(prior=0).fit(cells)
    assert sdbn.attraction_[rows[6]] == pytest.approx(1 / 3)
    assert sdbn.satisfaction_[rows[5]] == pytest.approx(1 / 2)
    assert sdbn.satisfaction_[rows[6]] == 1
    assert DependentClickModel(prior=0).fit(cells).continuation_[:2].tolist() == [1.0, 0.0]
    assert CascadeModel(prior=1).fit(cells).attraction_[rows[5]] == pytest.approx(3 / 5)


def test_quality_of_known_clicks():
    cells = ClickCells.from_arrays([1] * 4, [5, 6] * 2, [1, 2] * 2, [1, 0, 0, 0], session=[1, 1, 2, 2])
    model = PositionBasedModel(prior=0, n_rounds=1).fit(cells)
    model.attraction_[:], model.examination_[:] = [0.5, 0.25], [1.0, 1.0]
    found = model_quality(model, cells)
    assert found.perplexity_by_position == pytest.approx([2.0, 4 / 3])
    assert found.log_likelihood == pytest.approx((2 * np.log(0.5) + 2 * np.log(0.75)) / 4)
    # 9 is new: mean attraction .375
    other = ClickCells.from_arrays([1, 2], [5, 9], [1, 1], [1, 0], session=[1, 2])
    assert model_quality(model, other).log_likelihood == pytest.approx((np.log(0.5) + np.log(1 - 0.375)) / 2)


@pytest.mark.parametrize("model", [*READERS, UserBrowsingModel])
def test_counts_without_sessions_are_refused(model):
    with pytest.raises(BadInput, match="cells: expected sessions, got counts only"):
        model().fit(ClickCells.from_arrays([1], [1], [1], [1]))


def test_bad_options():
    cells = ClickCells.from_arrays([1], [1], [1], [1])
    for options, message in [
        ({"prior": -1}, "prior=-1: expected a finite number >= 0"),
        ({"n_rounds": 0.5}, "n_rounds=0.5: expected an integer"),
    ]:
        refused(message, PositionBasedModel(**options).fit, cells)
    refused("query=7: expected the id of a query of the log", PositionBasedModel().fit(cells).user, 7)
