"""Checks of problems, structured models and solvers of the small quadratic programme."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from structsvm.protocols import Problem, QPSolver, StructuredModel
from structsvm.testing.require import Requirement

_ROUNDING = 1e-9


def check_problem(problem: Problem, *, random_state: int = 0) -> None:
    """Check a custom problem (:class:`structsvm.protocols.Problem`).

    Weights sum to one. ``cut`` is the weighted mean of ``query_cuts``, and the same at every call. ``query_cuts`` do
    not depend on the division of the queries. Hinges are not negative. If ``exact``, no cut is above the risk at any
    point. Joint features are zero outside ``support``.

    Parameters
    ----------
    problem : Problem
        Problem to check.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from structsvm.oracles import StructuredProblem
    >>> class Sign:
    ...     def joint_feature(self, x, y): return np.array([x * y])
    ...     def loss(self, y_true, y): return float(y != y_true)
    ...     def loss_augmented_argmax(self, w, x, y_true):
    ...         return max((-1, 1), key=lambda y: (y != y_true) + w[0] * x * y)
    ...     def argmax(self, w, x): return max((-1, 1), key=lambda y: w[0] * x * y)
    >>> check_problem(StructuredProblem(Sign(), [0.5, -2.0, 1.0], [1, -1, -1]))
    """
    require = Requirement(type(problem).__name__)
    n, m = problem.n_queries, problem.n_features
    weights = np.asarray(problem.weights)
    require(weights.shape == (n,) and (weights >= 0).all(), f"weights: expected {n} numbers >= 0")
    require(abs(weights.sum() - 1) <= _ROUNDING, f"weights: expected a sum of 1, got {weights.sum():g}")
    rng = np.random.default_rng(random_state)
    # zero weights, where training begins, and weights of sizes from 0.01 to 10
    points = [np.zeros(m), *(rng.normal(size=(4, m)) * np.array([[0.01], [0.3], [1], [10]]))]
    risks, cuts = [], []
    for w in points:
        cut = problem.cut(w)
        again = problem.cut(w)
        require(
            cut.loss == again.loss and np.array_equal(cut.joint, again.joint),
            "cut: expected the same result for the same w",
        )
        # one call for all queries and three calls for parts of them give the same cuts
        loss, joint = _query_cuts(problem, w, [0, n])
        parts = _query_cuts(problem, w, [0, n // 3, n // 2, n])
        scale = _ROUNDING * (1 + float(np.abs(loss).max()) + float(np.abs(joint).max()))
        require(
            np.allclose(loss, parts[0], atol=scale) and np.allclose(joint, parts[1], atol=scale),
            "query_cuts: expected the same cuts however the queries are divided",
        )
        require(
            abs(weights @ loss - cut.loss) <= scale and np.allclose(weights @ joint, cut.joint, atol=scale),
            "cut: expected the weighted mean of query_cuts",
        )
        # the true output has hinge 0, so that the most violated one is not below 0, up to rounding
        hinges = loss - joint @ w
        least = -_ROUNDING * (1 + float(np.abs(joint).max()) * (1 + float(np.abs(w).sum())))
        require((hinges >= least).all(), f"query_cuts: expected hinges >= 0, got {hinges.min():g}")
        if problem.support is not None:
            indptr, features = problem.support
            for q in range(n):
                require(
                    not np.delete(joint[q], features[indptr[q] : indptr[q + 1]]).any(),
                    f"query {q}: expected a joint feature within its support",
                )
        risks.append(float(weights @ hinges))
        cuts.append(cut)
    # a cut is a lower bound on the risk everywhere, and equals the risk at its own point if the oracle is exact
    if problem.exact:
        for v, risk in zip(points, risks, strict=True):
            bounds = np.array([cut.loss - cut.joint @ v for cut in cuts])
            above = float(bounds.max()) - risk
            require(
                above <= 1e-7 * (1 + np.abs(bounds).max()),
                f"exact: expected no cut above the risk, got one that exceeds it by {above:g}",
            )


def _query_cuts(problem: Problem, w: Any, ends: list[int]) -> tuple[Any, Any]:
    loss, joint = np.zeros(problem.n_queries), np.zeros((problem.n_queries, problem.n_features))
    for first, last in pairwise(ends):
        problem.query_cuts(w, first, last, loss[first:last], joint[first:last])
    return loss, joint


def check_structured_model(
    model: StructuredModel, xs: Sequence[Any], ys: Sequence[Any], *, random_state: int = 0
) -> None:
    """Check a custom structured model (:class:`structsvm.protocols.StructuredModel`) on some labelled examples.

    Joint features have one length; losses are not negative, and zero for the true output. ``argmax`` and
    ``loss_augmented_argmax`` are called at several ``w``. At each ``w``, no output that they return for an example
    has a larger score than the result of ``argmax``, or a larger sum of loss and score than the result of
    ``loss_augmented_argmax``.

    Parameters
    ----------
    model : StructuredModel
        Model to check.
    xs, ys : sequences
        Inputs and true outputs.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> class Largest:
    ...     def joint_feature(self, x, y): return np.eye(3)[y] * x[y]
    ...     def loss(self, y_true, y): return float(y != y_true)
    ...     def loss_augmented_argmax(self, w, x, y_true): return int(np.argmax(w * x + (np.arange(3) != y_true)))
    ...     def argmax(self, w, x): return int(np.argmax(w * x))
    >>> check_structured_model(Largest(), [np.array([1.0, 2.0, 3.0]), np.array([3.0, 0.0, 1.0])], [2, 0])
    """
    require = Requirement(type(model).__name__)
    rng = np.random.default_rng(random_state)
    lengths = {np.shape(model.joint_feature(x, y)) for x, y in zip(xs, ys, strict=True)}
    message = f"joint_feature: expected vectors of one length, got shapes {sorted(lengths)}"
    require(len(lengths) == 1 and len(next(iter(lengths))) == 1, message)
    (m,) = lengths.pop()
    # zero, moderate and large weights, at which the loss decides, competes with the score, or hardly matters
    points = [np.zeros(m), *rng.normal(size=(8, m)), *(30 * rng.normal(size=(2, m)))]
    for i, (x, y_true) in enumerate(zip(xs, ys, strict=True)):
        require(model.loss(y_true, y_true) == 0, f"example {i}: expected loss(y, y) = 0 for the true output")
        seen = [y_true]
        for w in points:
            seen += [model.argmax(w, x), model.loss_augmented_argmax(w, x, y_true)]
        losses = np.array([model.loss(y_true, y) for y in seen])
        require((losses >= 0).all(), f"example {i}: expected losses >= 0, got {losses.min():g}")
        features = np.array([model.joint_feature(x, y) for y in seen])
        for k, w in enumerate(points):
            # seen[0] is the true output; the results at point k follow as seen[1 + 2 k] and seen[2 + 2 k]
            scores = features @ w
            allowed = _ROUNDING * (1 + float(np.abs(scores).max()))
            message = f"example {i}: argmax: another output has a larger score"
            require(scores[1 + 2 * k] >= scores.max() - allowed, message)
            total = scores + losses
            message = f"example {i}: loss_augmented_argmax: another output has a larger sum of loss and score"
            require(total[2 + 2 * k] >= total.max() - allowed, message)


def check_qp_solver(solve: QPSolver, *, tol: float = 1e-8, random_state: int = 0) -> None:
    """Check a solver of the small dual (:class:`structsvm.protocols.QPSolver`) on problems of several shapes.

    ``alpha`` is feasible, ``value`` is the objective at ``alpha``, and the duality gap, which the check computes, is at
    most ``tol`` relative to the objective and at most the returned ``gap``. The problems include duplicate planes, a
    cap of 0, an empty group, and starting points.

    Parameters
    ----------
    solve : QPSolver
        Solver to check.
    tol : float, default=1e-8
        Relative duality gap to request.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from structsvm.qp import get_solver
    >>> check_qp_solver(get_solver("active_set"))
    """
    require = Requirement(getattr(solve, "__name__", type(solve).__name__))
    rng = np.random.default_rng(random_state)
    for n, m, caps in ((1, 1, [2.0]), (6, 3, [0.5]), (12, 20, [10.0]), (12, 4, [1.0, 0.0, 2.0, 0.3])):
        # equal planes make the Gram matrix singular, as do more planes than features
        planes = rng.normal(size=(n, m))
        planes[n // 2] = planes[0]
        gram, loss, cap = planes @ planes.T, rng.uniform(size=n), np.array(caps)
        group = rng.integers(max(1, len(caps) - 1), size=n)  # if there are several groups, the last is empty
        for start in (None, rng.uniform(size=n)):
            result = solve(gram, loss, group, cap, start, tol=tol)
            alpha = np.asarray(result.alpha)
            require(alpha.shape == (n,) and (alpha >= 0).all(), f"alpha: expected {n} numbers >= 0")
            mass = np.bincount(group, alpha, minlength=len(cap))
            require((mass <= cap * (1 + 1e-9)).all(), f"alpha: expected sums up to {cap}, got {mass}")
            # the duality gap by its definition: sum over groups of cap times the steepest slope, minus slope . alpha
            slope = loss - gram @ alpha
            value = float(loss @ alpha - alpha @ gram @ alpha / 2)
            require(
                abs(value - result.value) <= _ROUNDING * (1 + abs(value)),
                f"value: expected the objective {value:g} at alpha, got {result.value:g}",
            )
            steepest = [max(0.0, float(slope[group == j].max(initial=0.0))) for j in range(len(cap))]
            gap = float(cap @ steepest - slope @ alpha)
            allowed = tol * abs(value) + _ROUNDING
            require(gap <= allowed, f"alpha: expected a duality gap up to {allowed:.1e}, got {gap:.1e}")
            require(gap <= result.gap + _ROUNDING, f"gap: expected at least {gap:.1e}, got {result.gap:.1e}")
