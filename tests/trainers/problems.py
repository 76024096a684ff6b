"""Random ranking problems, and their objective by hand."""

import numpy as np
from scipy import sparse

from structsvm.oracles import LOSSES, get_oracle
from structsvm.trainers import RankingProblem, choosing_solver

LOSS_NAMES = [name.replace("@k", "@5") for name in LOSSES]
SOLVERS = [name for name, trainer in choosing_solver.TRAINERS.items() if "hinge" in trainer.supports]
"""Those of every loss."""
WITH_SIGNS = [name for name in SOLVERS if "signs" in choosing_solver.TRAINERS[name].supports]


def make_rows(n_queries=12, m=5, seed=0, *, lengths=(2, 14), csr=False, dtype=float, scale=1.0):
    """Return rows, grades and offsets of queries of random lengths."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(*lengths, size=n_queries))))
    X = (rng.normal(size=(offsets[-1], m)) * scale).astype(dtype)
    if csr:
        X[rng.random(X.shape) < 0.6] = 0
    y = np.clip(np.round(X @ rng.normal(size=m) / scale + rng.normal(size=offsets[-1])), 0, 3).astype(float)
    return (sparse.csr_matrix(X) if csr else X), y, offsets


def bind(rows, loss="map", weights=None, **options):
    """Return the problem of a loss, given by name or as an oracle, over the rows of :func:`make_rows`."""
    X, y, offsets = rows
    separator = (get_oracle(loss) if isinstance(loss, str) else loss).bind(y, offsets)
    factors = separator.query_weights
    if factors is not None:
        weights = factors if weights is None else weights * factors
    return RankingProblem(X, offsets, separator, weights=weights, **options)


def make_problem(loss="map", n_queries=12, m=5, seed=0, *, weights=None, n_jobs=1, **options):
    return bind(make_rows(n_queries, m, seed, **options), loss, weights, n_jobs=n_jobs)


def objective(problem, C, w, penalty=lambda w: 0.5 * w @ w):
    cut = problem.cut(w)
    return penalty(w) + C * max(0.0, cut.loss - cut.joint @ w)


def check_same_bytes(fits):
    """Check that all fits have the weights of the first, and its bounds at each pass."""
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.w, fits[0].w)
        assert [(p.primal, p.dual) for p in fit.history] == [(p.primal, p.dual) for p in fits[0].history]
