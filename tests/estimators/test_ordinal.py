"""OrdinalSVM: both solvers agree, two grades are the classification SVM, grades and scores fit together."""

import numpy as np
import pytest
from sklearn.svm import SVC

from structsvm.estimators.ordinal import OrdinalSVM
from structsvm.readers.synthetic import make_ranking
from tests.refusing import rejected

# small and random data, in which there is next to nothing to learn
pytestmark = [pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")]

DATA = make_ranking(10, 15, 4, noise=0.5, grades=4, random_state=0)


@pytest.mark.parametrize("decompose", [False, True])
@pytest.mark.parametrize("class_weight", ["balanced", None])
def test_cvxpy_and_cutting_planes_agree(decompose, class_weight):
    pytest.importorskip("cvxpy")
    options = {"C": 10.0, "decompose": decompose, "class_weight": class_weight, "tol": 1e-6}
    ours = OrdinalSVM(**options).fit(DATA.X, DATA.y, qid=DATA.qid)
    exact = OrdinalSVM(solver="cvxpy", **options).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert len(ours.fits_) == (len(ours.grades_) - 1 if decompose else 1)
    for a, b in zip(ours.fits_, exact.fits_, strict=True):
        assert a.primal == pytest.approx(b.primal, rel=2e-6)
    assert ours.machine_coef_ == pytest.approx(exact.machine_coef_, abs=0.02)


@pytest.mark.parametrize("decompose", [False, True])
@pytest.mark.parametrize("class_weight", ["balanced", None])
def test_two_grades_are_the_classification_svm(decompose, class_weight):
    y = (DATA.y >= 2).astype(float)
    svc = SVC(kernel="linear", C=10.0 / len(y), tol=1e-8, class_weight=class_weight).fit(DATA.X, y)
    model = OrdinalSVM(10.0, decompose=decompose, class_weight=class_weight, tol=1e-6).fit(
        DATA.X, y, qid=DATA.qid
    )
    w, b = svc.coef_[0], svc.intercept_[0]
    weight = (
        np.ones(len(y))
        if class_weight is None
        else np.where(y > 0, len(y) / 2 / y.sum(), len(y) / 2 / (1 - y).sum())
    )
    hinge = weight * np.maximum(0, 1 - (2 * y - 1) * (DATA.X @ w + b))
    assert model.fits_[0].primal == pytest.approx(0.5 * w @ w + 10.0 * hinge.mean(), rel=2e-6)
    assert model.coef_ == pytest.approx(w, abs=5e-3)


def test_grades_are_steps_of_the_score():
    model = OrdinalSVM(100.0).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert (np.diff(model.thresholds_) >= 0).all()
    scores, grades = model.predict(DATA.X), model.predict_grade(DATA.X)
    assert (grades == model.grades_[(scores[:, None] >= model.thresholds_).sum(axis=1)]).all()
    assert (np.diff(grades[np.argsort(scores)]) >= 0).all()
    assert np.mean(np.abs(grades - DATA.y)) < 0.7 * np.mean(np.abs(np.median(DATA.y) - DATA.y))


def test_decomposed_outputs_are_summed():
    model = OrdinalSVM(100.0, decompose=True).fit(DATA.X, DATA.y, qid=DATA.qid)
    outputs = DATA.X @ model.machine_coef_.T - model.thresholds_
    assert model.predict(DATA.X) == pytest.approx(outputs.sum(axis=1), abs=1e-12)
    assert (model.predict_grade(DATA.X) == model.grades_[(outputs >= 0).sum(axis=1)]).all()
    for t, grade in enumerate(model.grades_[1:]):
        alone = OrdinalSVM(100.0).fit(DATA.X, (DATA.y >= grade).astype(float), qid=DATA.qid)
        assert (alone.coef_ == model.machine_coef_[t]).all()


def test_names_of_grades():
    named = OrdinalSVM(10.0).fit(DATA.X, np.array([-2.0, 0.5, 10.0])[DATA.y.astype(int)], qid=0)
    assert set(named.predict_grade(DATA.X)) == {-2.0, 0.5, 10.0}


def test_one_grade_is_refused():
    rejected("two distinct labels", OrdinalSVM().fit, DATA.X, np.ones(150), qid=0)


@pytest.mark.parametrize("decompose", [False, True])
def test_a_small_C_does_not_leave_zero_weights(decompose):
    """Zero weights are within tol of the optimum, but do not rank."""
    model = OrdinalSVM(1e-6, decompose=decompose).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert (np.linalg.norm(model.machine_coef_, axis=1) > 0).all()
    assert model.score(DATA.X, DATA.y, qid=DATA.qid) > 0.8
