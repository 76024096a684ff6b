"""``StructuredProblem``: adapt a custom structured model and its examples to the interface of the trainers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.common.portable.arrays import dot
from structsvm.protocols import Cut, Float, Int, StructuredModel
from structsvm.queries import refuse_first, unit_weights

_METHODS = ("joint_feature", "loss", "loss_augmented_argmax", "argmax")
_TOLERANCE = 1e-8
"""Relative amount by which the score of an argmax's result may be below that of the true output because of rounding."""


class StructuredProblem:
    """A :class:`~structsvm.protocols.Problem` from a model and labelled examples.

    Each example takes the role of a query. Examples are processed one at a time in Python.

    Parameters
    ----------
    model : StructuredModel
        An object with ``joint_feature(x, y)``, ``loss(y_true, y)``, ``loss_augmented_argmax(w, x, y_true)`` and
        ``argmax(w, x)`` (:class:`~structsvm.protocols.StructuredModel`). If it has an attribute ``exact = False``, its
        loss-augmented argmax may be approximate: primal values may then be too small, and an output worse than the true
        output is replaced by the true output.
    xs, ys : sequences of equal length
        Inputs and true outputs, of any type.
    weights : array-like of float, shape (n_examples,), optional
        Weight of each example in the mean hinge; the weights are scaled to sum to one. None means equal weights.

    Attributes
    ----------
    n_queries, n_features : int
        Number of examples, and length of the joint feature vector.
    weights : ndarray of float64, shape (n_examples,)
        The scaled weights.
    exact : bool
        Whether the loss-augmented argmax is exact.

    Examples
    --------
    Predict a sign: the most violated output is the wrong sign, unless the margin is satisfied.

    >>> class Sign:
    ...     def joint_feature(self, x, y):
    ...         return y * x / 2
    ...     def loss(self, y_true, y):
    ...         return float(y_true != y)
    ...     def loss_augmented_argmax(self, w, x, y_true):
    ...         return max((-1, 1), key=lambda y: self.loss(y_true, y) + w @ self.joint_feature(x, y))
    ...     def argmax(self, w, x):
    ...         return 1 if w @ x > 0 else -1
    >>> problem = StructuredProblem(Sign(), [np.array([2.0]), np.array([-4.0])], [1, -1])
    >>> problem.cut(np.array([0.0])), problem.cut(np.array([0.4]))
    (Cut(loss=1.0, joint=array([3.])), Cut(loss=0.5, joint=array([1.])))
    """

    n_bytes = 0
    chunk = 16
    n_jobs = 1
    support: tuple[Int, Int] | None = None

    def __init__(
        self, model: StructuredModel, xs: Sequence[Any], ys: Sequence[Any], weights: Any = None
    ) -> None:
        missing = [name for name in _METHODS if not callable(getattr(model, name, None))]
        if missing:
            raise TypeError(
                f"{type(model).__name__}: expected the methods {', '.join(_METHODS)}; "
                f"missing: {', '.join(missing)}"
            )
        if len(xs) == 0:
            raise BadInput("xs", "expected at least one example, got none")
        if len(ys) != len(xs):
            raise BadInput("ys", f"expected {len(xs)} outputs, one for each input, got {len(ys)}")
        self.model = model
        self.exact = bool(getattr(model, "exact", True))
        self.n_queries = len(xs)
        self.weights = unit_weights(weights, self.n_queries, "example")
        self._xs = xs
        self._ys = ys
        first = np.asarray(model.joint_feature(xs[0], ys[0]))
        if first.ndim != 1 or first.shape[0] == 0:
            raise BadInput("example 0: joint_feature", f"expected a vector, got shape {first.shape}")
        self.n_features = int(first.shape[0])
        for i in range(self.n_queries):
            self._joint_feature(i, ys[i])
            if self._loss(i, ys[i]) != 0:
                raise BadInput(f"example {i}: loss(y, y)", f"expected 0, got {self._loss(i, ys[i]):g}")

    def cut(self, w: Float) -> Cut:
        """See :class:`structsvm.protocols.Problem`."""
        loss = 0.0
        joint = np.zeros(self.n_features)
        for i in range(self.n_queries):
            loss_i, joint_i = self._most_violated(w, i)
            loss += self.weights[i] * loss_i
            joint += self.weights[i] * joint_i
        return Cut(float(loss), joint)

    def query_cuts(self, w: Float, first: int, last: int, loss: Float, joint: Float) -> None:
        """See :class:`structsvm.protocols.Problem`."""
        for i in range(first, last):
            loss[i - first], joint[i - first] = self._most_violated(w, i)

    def _most_violated(self, w: Float, i: int) -> tuple[float, Float]:
        """Return the loss and the joint-feature difference of the most violated output of example ``i``."""
        y_true = self._ys[i]
        y = self.model.loss_augmented_argmax(w, self._xs[i], y_true)
        loss = self._loss(i, y)
        score_true = self._joint_feature(i, y_true)
        difference = score_true - self._joint_feature(i, y)
        hinge = loss - dot(difference, w)
        if hinge >= 0:
            return loss, difference
        # The true output has hinge 0, so that the maximum is at least 0. A slightly negative hinge is due to rounding;
        # a clearly negative hinge means that the argmax is wrong or approximate.
        size = loss + dot(np.abs(w), np.abs(score_true) + np.abs(difference))
        if self.exact and hinge < -_TOLERANCE * size:
            raise BadInput(
                f"example {i}: loss_augmented_argmax",
                f"expected the maximum of loss + w . joint_feature, got an output that is {-hinge:.3g} below the "
                "true one",
                f"if the argmax is approximate, set {type(self.model).__name__}.exact = False",
            )
        return 0.0, np.zeros(self.n_features)

    def _joint_feature(self, i: int, y: ArrayLike) -> Float:
        feature = np.asarray(self.model.joint_feature(self._xs[i], y), dtype=np.float64)
        if feature.shape != (self.n_features,):
            raise BadInput(
                f"example {i}: joint_feature",
                f"expected shape ({self.n_features},) as for example 0, got {feature.shape}",
            )
        refuse_first(f"example {i}: joint_feature", feature, ~np.isfinite(feature), "finite values")
        return feature

    def _loss(self, i: int, y: ArrayLike) -> float:
        loss = float(self.model.loss(self._ys[i], y))
        if not 0 <= loss < np.inf:
            raise BadInput(f"example {i}: loss", f"expected a finite value >= 0, got {loss:g}")
        return loss
