"""The warning that a fit is hardly better than zero weights: raised only if zero weights are the best model."""

import warnings

import numpy as np
import pytest

from structsvm import OrdinalSVM, StructuralRanker, StructuralRankerCV, TreeRanker
from structsvm.readers import make_ranking
from structsvm.trainers import NothingLearnedWarning, fit_path, train
from tests.trainers.problems import LOSS_NAMES, SOLVERS, bind

DATA = make_ranking(40, 12, 3, random_state=0)


def problem_of(loss, X=DATA.X, y=DATA.y):
    return bind((X, y, DATA.offsets), loss)


def nothing(problem, C=10.0, **options):
    """Return whether training warns; if so, the objective and its value at zero in the warning."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        fit = train(problem, C, **options)
    assert fit.converged
    said = [str(one.message) for one in caught if one.category is NothingLearnedWarning]
    assert len(said) == len(caught) <= 1
    if said:
        zero = C * problem.cut(np.zeros(problem.n_features)).loss
        assert C * problem.loss_at_zero() == zero
        assert f"objective {fit.primal:.6g} against {zero:.6g} at w = 0" in said[0]
        # sums at zero may be rounded otherwise
        assert "no better" in said[0] or fit.primal < zero * (1 + 1e-12)
    return bool(said)


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_every_loss_by_every_trainer(loss, solver):
    assert not nothing(problem_of(loss), solver=solver)
    assert nothing(problem_of(loss), 1e-7, solver=solver)
    assert nothing(problem_of(loss, X=np.ones_like(DATA.X)), solver=solver)
    # for a tiny C all slacks are at their bounds: the weights are C times the sum of the planes at zero
    problem = problem_of(loss)
    np.testing.assert_allclose(
        train(problem, 1e-7, solver=solver, tol=1e-12).w, 1e-7 * problem.cut(np.zeros(3)).joint, rtol=1e-5
    )


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_labels_that_do_not_belong_to_the_rows(loss):
    data = make_ranking(500, 10, 1, random_state=0)
    for mixed in (False, True):
        y = np.random.default_rng(1).permutation(data.y) if mixed else data.y
        assert nothing(bind((data.X, y, data.offsets), loss), tol=3e-3) == mixed


def test_signs_that_allow_no_weights():
    X = np.column_stack([-DATA.X @ np.linalg.lstsq(DATA.X, DATA.y, rcond=None)[0], np.zeros(len(DATA.y))])
    for loss in ("map", "ndcg@5"):
        assert nothing(problem_of(loss, X), cone=np.array([1.0, 1.0]))
        assert not nothing(problem_of(loss, X), cone=np.array([-1.0, 0.0]))


def test_a_path_is_judged_by_its_largest_C():
    for solver in ("auto", "newton"):
        assert len(list(fit_path(problem_of("ndcg@5"), [1e-7, 1e-6, 1.0], solver=solver))) == 3
        with pytest.warns(NothingLearnedWarning, match="C=1e-06") as caught:
            list(fit_path(problem_of("ndcg@5"), [1e-7, 1e-6], solver=solver))
        assert len(caught) == 1


@pytest.mark.parametrize(
    "model",
    [
        StructuralRanker("ndcg@5", penalty=lambda w: __import__("cvxpy").norm1(w)),
        StructuralRanker("map", constraints=lambda w: [w[0] >= w[1]]),
        StructuralRankerCV("mrr", [1e-7], cv=2),
        TreeRanker("ndcg@5", n_trees=4, n_leaves=4, n_bins=4),
        OrdinalSVM(),
    ],
    ids=["penalty", "constraints", "search", "trees", "ordinal"],
)
def test_estimators(model):
    if not isinstance(model, StructuralRankerCV):
        model.set_params(C=10.0).fit(DATA.X, DATA.y, qid=DATA.qid)
        model.set_params(C=1e-7)
    with pytest.warns(NothingLearnedWarning, match="(hardly|no) better than zero weights"):
        model.fit(DATA.X, DATA.y, qid=DATA.qid)


def test_the_folds_of_a_search_are_not_judged_but_the_model_that_is_trained_in_the_end():
    StructuralRankerCV(Cs=[1e-7, 1.0], cv=2, loss="map").fit(DATA.X, DATA.y, qid=DATA.qid)
    with pytest.warns(NothingLearnedWarning) as caught:
        StructuralRankerCV(Cs=[1e-8, 1e-7], cv=2, loss="map").fit(DATA.X, DATA.y, qid=DATA.qid)
    assert len(caught) == 1
