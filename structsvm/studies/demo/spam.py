"""Synthetic data on which the measure that is trained for decides: rare poor documents can climb to the top."""

from __future__ import annotations

import numpy as np

from structsvm.queries import QueryData
from structsvm.studies.demo.task import Task

_N_TRAIN, _N_TEST, _N_DOCUMENTS = 60, 200, 60
_SHARE_RELEVANT, _SHARE_GOOD, _SHARE_SPAM = 0.1, 0.4, 0.05
_NAMES = ("quality", "popularity")
POPULARITY = 1
"""Column by which spam reaches the top."""


def spam_task(random_state: int = 0) -> Task:
    """Return a task in which ROC area and average precision want different rankings; its text says why."""
    rng = np.random.default_rng(random_state)
    train, test = _made(_N_TRAIN, rng), _made(_N_TEST, rng)
    return Task(
        title="Train for the measure you are judged by",
        description=(
            f"Synthetic data: {train.n_queries} training and {test.n_queries} test queries with {_N_DOCUMENTS} "
            "documents each and two features. One document in ten is relevant: some by their quality, more by their "
            "popularity. One in twenty of the others is spam, very popular and of low quality. Spam is rare, so it "
            "matters little for the ROC area, which counts all pairs of documents alike. It stands at the top, so it "
            "matters much for average precision."
        ),
        train=train,
        test=test,
        baselines={"Popularity alone": np.ascontiguousarray(test.X[:, POPULARITY])},
    )


def _made(n_queries: int, rng: np.random.Generator) -> QueryData:
    n_rows = n_queries * _N_DOCUMENTS
    X = rng.normal(size=(n_rows, 2))
    relevant = rng.uniform(size=n_rows) < _SHARE_RELEVANT
    good = rng.uniform(size=n_rows) < _SHARE_GOOD
    spam = ~relevant & (rng.uniform(size=n_rows) < _SHARE_SPAM)
    X[relevant & good] += [3.0, 1.0]
    X[relevant & ~good] += [0.0, 2.0]
    X[spam] += [-3.0, 8.0]
    return QueryData.from_arrays(
        X,
        relevant.astype(np.float64),
        np.repeat(np.arange(n_queries), _N_DOCUMENTS),
        docid=np.array([f"{'spam' if bad else 'page'}{row:05d}" for row, bad in enumerate(spam)]),
        feature_names=_NAMES,
    )
