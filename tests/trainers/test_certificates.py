"""Certificates recomputed from masses and planes, for various losses, sizes, C and scales of features."""

import math
import warnings

import numpy as np
import pytest
from scipy import sparse

from structsvm.oracles import get_oracle
from structsvm.trainers import ConvergenceWarning, RankingProblem
from structsvm.trainers.block_dual import BlockDual
from structsvm.trainers.contract import Options, Start
from structsvm.trainers.frank_wolfe import frank_wolfe
from tests.trainers.problems import LOSS_NAMES


class Remembered(BlockDual):
    """Keeps the masses and planes of each value that exceeds all earlier values; a trainer reports one of these values.

    Its last state may be a little worse, as rounding can make a step fall.
    """

    def __init__(self, problem, C, cone):
        super().__init__(problem, C, cone=cone)
        nothing = np.zeros((problem.n_queries, 0))
        self.states = {0.0: (nothing, np.zeros((0, self._pool.shape[1])), nothing)}

    @property
    def value(self):
        value = super().value
        if value > max(self.states):
            n = self.count.max(initial=0)
            self.states[value] = self._alpha[:, :n].copy(), self._pool[:n].copy(), self._loss[:, :n].copy()
        return value


def random_problem(rng):
    loss = LOSS_NAMES[rng.integers(len(LOSS_NAMES))]
    n = int(rng.choice([1, 2, 5, 20, 60, 120, 300, 1100], p=[0.05, 0.05, 0.1, 0.1, 0.2, 0.2, 0.2, 0.1]))
    m = int(rng.choice([1, 3, 8, 25, 300], p=[0.15, 0.3, 0.3, 0.2, 0.05]))
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 14, size=n))))
    X = rng.normal(size=(offsets[-1], m))
    if rng.random() < 0.3:
        X = np.round(X)  # ties
    noise = rng.choice([0.0, 0.3, 1.0])
    y = np.clip(np.round(X @ rng.normal(size=m) + noise * rng.normal(size=X.shape[0])), 0, 3)
    X = X * 10.0 ** rng.choice([0, 0, 0, rng.uniform(-12, 12)])
    if rng.random() < 0.3:
        X = X * 10.0 ** rng.uniform(-3, 3, size=m)
    if rng.random() < 0.2:
        X = X.astype(np.float32)
    C = 10.0 ** rng.uniform(-8, 8)
    weights = rng.integers(0, 4, size=n) + (np.arange(n) == 0) if rng.random() < 0.3 else None
    dense = X
    if rng.random() < 0.3 or m == 300:
        X = np.where(rng.random(X.shape) < 0.3, X, 0).astype(X.dtype)
        dense, X = X, sparse.csr_matrix(X)
    separator = get_oracle(loss).bind(y, offsets)
    return loss, RankingProblem(X, offsets, separator, weights=weights), dense, separator, offsets, C


def exact_sum(values):
    return math.fsum(np.asarray(values, dtype=float).ravel().tolist())


def hinges(dense, separator, offsets, w):
    """Return the hinge of each query from a separate call of the oracle, and the size of its summands."""
    out, sizes = [], []
    for q in range(offsets.shape[0] - 1):
        rows = dense[offsets[q] : offsets[q + 1]].astype(float)
        scores, loss, coef = rows @ w, np.empty(1), np.empty(rows.shape[0])
        separator.separate(scores, q, q + 1, loss, coef)
        out.append(max(0.0, exact_sum([loss[0], *(-scores * coef)])))
        sizes.append(1.0 + np.abs(rows).dot(np.abs(w)) @ np.abs(coef))
    return np.array(out), np.array(sizes)


def check_one(seed, signed=False):
    rng = np.random.default_rng(seed)
    loss, problem, dense, separator, offsets, C = random_problem(rng)
    signs = np.random.default_rng([seed, 1]).integers(-1, 2, size=problem.n_features) * float(signed)
    state = Remembered(problem, C, signs if signed else None)
    tol = 10.0 ** rng.choice([-2, -3, -6])
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        fit = frank_wolfe(
            problem, C, Options(tol=tol, max_passes=int(rng.integers(1, 25))), Start(kept={"dual": state})
        )
    case = f"seed {seed}: {loss}, {problem.n_queries} x {problem.n_features}, C={C:.1e}"
    w, weights = fit.w, problem.weights
    assert (w * signs >= 0).all(), case
    at_w, sizes = hinges(dense, separator, offsets, w)
    primal = 0.5 * exact_sum(w * w) + C * exact_sum(weights * at_w)
    rounding = 1e-13 * C * exact_sum(weights * sizes)
    assert abs(fit.primal - primal) <= 1e-12 * primal + rounding, case
    alpha, pool, gains = state.states[fit.dual]
    planes = state.planes
    assert (alpha >= 0).all(), case
    assert (alpha.sum(axis=1) <= C * weights * (1 + 1e-12)).all(), case
    total = [[] for _ in range(problem.n_features)]
    other = w + np.abs(w).max(initial=1e-300) * rng.normal(size=w.shape)
    above, sizes = hinges(dense, separator, offsets, other)
    for q in range(problem.n_queries):
        columns = slice(planes.start[q], planes.start[q + 1])
        features = planes.features[columns] if planes.features.size else np.arange(problem.n_features)
        for k in np.flatnonzero(alpha[q]):
            plane = pool[k, columns]
            height = gains[q, k] - plane @ other[features]
            assert height <= above[q] + 1e-12 * sizes[q], f"{case}: not a plane of query {q}"
            for j, x in zip(features, plane, strict=True):
                total[j].append(alpha[q, k] * x)
    own = np.array([math.fsum(x) for x in total])
    own[own * signs < 0] = 0.0
    dual = exact_sum([*(alpha * gains).ravel(), *(-0.5 * own * own)])
    assert fit.dual <= dual + 1e-13 * exact_sum(alpha * gains), f"{case}: {fit.dual} {dual}"
    assert fit.dual <= fit.primal + 1e-12 * primal + rounding, (
        f"{case}: dual {fit.dual!r} above primal {fit.primal!r}"
    )


@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("signed", [False, True])
def test_bounds_are_what_masses_planes_and_weights_make_them(block, signed):
    for seed in range(20 * block, 20 * block + 20):
        check_one(seed, signed)
