"""Any structured problem through the adapter: multiclass against LinearSVC, and what it refuses."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from structsvm.oracles.adapter import StructuredProblem
from structsvm.trainers.contract import Options
from structsvm.trainers.frank_wolfe import frank_wolfe
from tests.refusing import rejected, rejections
from tests.trainers.problems import objective


class Multiclass:
    """Crammer and Singer (2001): one weight vector a class."""

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def joint_feature(self, x, y):
        feature = np.zeros((self.n_classes, len(x)))
        feature[y] = x
        return feature.ravel()

    def loss(self, y_true, y):
        return float(y_true != y)

    def scores(self, w, x):
        return w.reshape(self.n_classes, -1) @ x

    def loss_augmented_argmax(self, w, x, y_true):
        return int(np.argmax(self.scores(w, x) + (np.arange(self.n_classes) != y_true)))

    def argmax(self, w, x):
        return int(np.argmax(self.scores(w, x)))


@pytest.mark.parametrize("C_per_example", [0.01, 1.0])
def test_multiclass_equals_linear_svc(C_per_example):
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    C = C_per_example * len(y)  # LinearSVC adds the hinges, here is their mean
    problem = StructuredProblem(Multiclass(3), list(X), y.tolist())
    fit = frank_wolfe(problem, C, Options(tol=1e-6, max_passes=2000))
    witness = LinearSVC(
        multi_class="crammer_singer", C=C_per_example, fit_intercept=False, tol=1e-8, max_iter=1_000_000
    ).fit(X, y)
    theirs = objective(problem, C, witness.coef_.ravel())
    assert fit.converged
    assert fit.dual <= theirs
    assert fit.primal == pytest.approx(theirs, rel=1e-5)
    # strong convexity: both are this near to the one optimum
    near = np.sqrt(2 * (fit.primal - fit.dual)) + np.sqrt(2 * max(0.0, theirs - fit.dual))
    assert np.linalg.norm(fit.w - witness.coef_.ravel()) <= near + 1e-9
    predicted = np.array([problem.model.argmax(fit.w, x) for x in X])
    assert (predicted == witness.predict(X)).mean() > 0.98


def test_weight_two_is_the_example_twice_and_zero_is_none():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4, 3)), np.array([0, 1, 2, 1])
    twice = [0, 0, 1, 3]
    weighted = StructuredProblem(Multiclass(3), list(X), y.tolist(), weights=[2, 1, 0, 1])
    repeated = StructuredProblem(Multiclass(3), list(X[twice]), y[twice].tolist())
    w = rng.normal(size=9)
    for one, other in zip(weighted.cut(w), repeated.cut(w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    a, b = (frank_wolfe(problem, 3.0, Options(tol=1e-6, max_passes=2000)) for problem in (weighted, repeated))
    assert a.primal == pytest.approx(b.primal, rel=2e-6)


class Broken(Multiclass):
    """Multiclass with one method replaced."""

    def __init__(self, **methods):
        super().__init__(2)
        for name, method in methods.items():
            setattr(self, name, method)


X, Y = [np.array([1.0, 0.0]), np.array([0.0, 1.0])], [0, 1]


def test_every_missing_method_is_named_before_anything_is_computed():
    class Half:
        def joint_feature(self, x, y):
            raise AssertionError("must not be called")

        def argmax(self, w, x): ...

    with pytest.raises(TypeError, match=r"Half: expected .* missing: loss, loss_augmented_argmax$"):
        StructuredProblem(Half(), X, Y)


test_bad_models_are_refused_at_once = rejections(
    lambda methods: StructuredProblem(Broken(**methods), X, Y),
    ({"joint_feature": lambda x, y: np.zeros((2, 2))}, "example 0: joint_feature: expected a vector"),
    ({"joint_feature": lambda x, y: np.zeros(3 + y)}, r"example 1: joint_feature: .* \(3,\) .* got \(4,\)"),
    (
        {"joint_feature": lambda x, y: np.array([0, np.nan])},
        r"example 0: joint_feature\[1\]: expected finite values, got nan",
    ),
    ({"loss": lambda y_true, y: -1.0}, "example 0: loss: expected a finite value >= 0, got -1"),
    ({"loss": lambda y_true, y: np.nan}, "example 0: loss: expected a finite value >= 0, got nan"),
    ({"loss": lambda y_true, y: 1.0}, r"example 0: loss\(y, y\): expected 0, got 1"),
)


def test_bad_answers_while_training_name_the_example():
    negative = StructuredProblem(Broken(loss=lambda y_true, y: -0.5 * (y_true == 1 and y != 1)), X, Y)
    rejected(r"example 1: loss: expected a finite value >= 0, got -0\.5", negative.cut, np.zeros(4))
    worst = Broken(loss_augmented_argmax=lambda w, x, y_true: 1)
    w = np.array([5.0, 0.0, 0.0, 5.0])
    rejected(
        r"example 0: loss_augmented_argmax: .* that is 4 below the true one",
        StructuredProblem(worst, X, Y).cut,
        w,
    )
    worst.exact = False
    problem = StructuredProblem(worst, X, Y)
    assert not problem.exact
    assert problem.cut(w).loss == 0
    assert not problem.cut(w).joint.any()


test_bad_examples_are_refused = rejections(
    lambda xs, ys, weights: StructuredProblem(Multiclass(2), xs, ys, weights),
    ([], [], None, "xs: expected at least one example"),
    (X, [0], None, "ys: expected 2 outputs, one for each input, got 1"),
    (X, Y, [1.0], r"weights: expected 2 values, one for each example, got shape \(1,\)"),
    (X, Y, [1.0, -1.0], r"weights\[1\]: expected a finite value >= 0, got -1"),
    (X, Y, [0.0, 0.0], "weights: expected a positive sum"),
)
