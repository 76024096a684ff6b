"""Any structured problem through the adapter: multiclass against LinearSVC, tagging against all outputs."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from structsvm.oracles.adapter import StructuredProblem
from structsvm.trainers.frank_wolfe import frank_wolfe


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


class Tagging:
    """A chain: word features for each tag, and a weight for each pair of neighbouring tags; all outputs are tried."""

    def __init__(self, n_tags):
        self.n_tags = n_tags

    def joint_feature(self, x, y):
        words = np.zeros((self.n_tags, x.shape[1]))
        pairs = np.zeros((self.n_tags, self.n_tags))
        np.add.at(words, list(y), x)
        np.add.at(pairs, (list(y[:-1]), list(y[1:])), 1.0)
        return np.concatenate((words.ravel(), pairs.ravel()))

    def loss(self, y_true, y):
        return float(np.mean(np.not_equal(y_true, y)))

    def outputs(self, x):
        return list(product(range(self.n_tags), repeat=len(x)))

    def loss_augmented_argmax(self, w, x, y_true):
        return max(self.outputs(x), key=lambda y: self.loss(y_true, y) + w @ self.joint_feature(x, y))

    def argmax(self, w, x):
        raise AssertionError("not asked for in training")


def tagged_sentences(rng, n):
    """Sentences whose tags tend to alternate and to shift the word features."""
    xs, ys = [], []
    for _ in range(n):
        y = [int(rng.integers(3))]
        for _ in range(int(rng.integers(1, 4))):
            y.append((y[-1] + 1) % 3 if rng.random() < 0.8 else int(rng.integers(3)))
        xs.append(np.eye(3)[y] + 0.8 * rng.normal(size=(len(y), 3)))
        ys.append(tuple(y))
    return xs, ys


def objective(problem, C, w):
    loss, joint = problem.cut(w)
    return 0.5 * w @ w + C * (loss - joint @ w)


@pytest.mark.parametrize("C_per_example", [0.01, 1.0])
def test_multiclass_equals_linear_svc(C_per_example):
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    C = C_per_example * len(y)  # LinearSVC adds the hinges, here is their mean
    problem = StructuredProblem(Multiclass(3), list(X), y.tolist())
    fit = frank_wolfe(problem, C, tol=1e-6, max_passes=2000)
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


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_tagging_reaches_the_optimum_of_the_whole_quadratic_program(C):
    rng = np.random.default_rng(1)
    xs, ys = tagged_sentences(rng, 8)
    weights = rng.integers(1, 4, 8).astype(float)
    model = Tagging(3)
    problem = StructuredProblem(model, xs, ys, weights=weights)
    fit = frank_wolfe(problem, C, tol=1e-6, max_passes=5000)
    w, slack = cp.Variable(18), cp.Variable(8)
    constraints = []
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        outputs = model.outputs(x)
        difference = np.array([model.joint_feature(x, y) - model.joint_feature(x, o) for o in outputs])
        constraints.append(difference @ w >= np.array([model.loss(y, o) for o in outputs]) - slack[i])
    mean = weights @ slack / weights.sum()
    program = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + C * mean), constraints)
    optimum = program.solve(solver=cp.CLARABEL)
    assert fit.converged
    assert fit.primal == pytest.approx(optimum, rel=1e-5)
    assert objective(problem, C, fit.w) == pytest.approx(fit.primal)


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


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"joint_feature": lambda x, y: np.zeros((2, 2))}, "example 0: joint_feature: expected a vector"),
        (
            {"joint_feature": lambda x, y: np.zeros(3 + y)},
            r"example 1: joint_feature: .* \(3,\) .* got \(4,\)",
        ),
        (
            {"joint_feature": lambda x, y: np.array([0, np.nan])},
            "example 0: .* finite values, got nan at index 1",
        ),
        ({"loss": lambda y_true, y: -1.0}, "example 0: loss: expected a finite value >= 0, got -1"),
        ({"loss": lambda y_true, y: np.nan}, "example 0: loss: expected a finite value >= 0, got nan"),
        ({"loss": lambda y_true, y: 1.0}, r"example 0: loss\(y, y\): expected 0, got 1"),
    ],
)
def test_bad_models_are_refused_at_once(methods, message):
    with pytest.raises(ValueError, match=message):
        StructuredProblem(Broken(**methods), X, Y)


def test_bad_answers_while_training_name_the_example():
    negative = StructuredProblem(Broken(loss=lambda y_true, y: -0.5 * (y_true == 1 and y != 1)), X, Y)
    with pytest.raises(ValueError, match=r"example 1: loss: expected a finite value >= 0, got -0\.5"):
        negative.cut(np.zeros(4))
    worst = Broken(loss_augmented_argmax=lambda w, x, y_true: 1)
    w = np.array([5.0, 0.0, 0.0, 5.0])
    with pytest.raises(
        ValueError, match=r"example 0: loss_augmented_argmax: .* that is 4 below the true one"
    ):
        StructuredProblem(worst, X, Y).cut(w)
    worst.exact = False
    problem = StructuredProblem(worst, X, Y)
    assert not problem.exact
    assert problem.cut(w).loss == 0
    assert not problem.cut(w).joint.any()


@pytest.mark.parametrize(
    ("xs", "ys", "weights", "message"),
    [
        ([], [], None, "xs: expected at least one example"),
        (X, [0], None, "ys: expected 2 outputs, one for each input, got 1"),
        (X, Y, [1.0], r"weights: expected 2 values, one for each example, got shape \(1,\)"),
        (X, Y, [1.0, -1.0], r"weights\[1\]: expected a finite value >= 0, got -1"),
        (X, Y, [0.0, 0.0], "weights: expected a positive sum"),
    ],
)
def test_bad_examples_are_refused(xs, ys, weights, message):
    with pytest.raises(ValueError, match=message):
        StructuredProblem(Multiclass(2), xs, ys, weights)
