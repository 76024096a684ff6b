"""Simulated logs whose propensities and attractions are known."""

import numpy as np
import pytest

from structsvm.clicks import ClickCells


def simulate(
    rng, n_sessions, theta, *, n_queries=60, n_documents=12, attraction=(0.1, 1.0), n_rankers=3, trust=None
):
    """Simulate sessions of random rankers, with position-based clicks or with trust bias.

    Returns the cells (with sessions) and the attraction of each query's documents, shape (n_queries, n_documents).
    ``trust`` is (alpha, beta) per position of an affine model: P(click) = alpha * attraction + beta.
    """
    theta = np.asarray(theta)
    length = theta.shape[0]
    truth = np.where(rng.random((n_queries, n_documents)) < 0.3, attraction[1], attraction[0])
    noise = rng.normal(size=(n_rankers, n_queries, n_documents))
    rankings = np.argsort(-(truth + noise), axis=2)[:, :, :length]
    query = rng.integers(0, n_queries, n_sessions)
    shown = rankings[rng.integers(0, n_rankers, n_sessions), query]
    attractive = truth[query[:, None], shown]
    alpha, beta = (theta, 0.0) if trust is None else trust
    clicked = rng.random(shown.shape) < alpha * attractive + beta
    cells = ClickCells.from_arrays(
        np.repeat(query, length),
        shown.ravel(),
        np.tile(np.arange(1, length + 1), n_sessions),
        clicked.ravel(),
        session=np.repeat(np.arange(n_sessions), length),
    )
    return cells, truth


@pytest.fixture(scope="session")
def simulated_log():
    """Return :func:`simulate`."""
    return simulate
