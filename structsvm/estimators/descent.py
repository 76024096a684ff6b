"""What the rankers trained by descent share: ranks, scores and files of a fitted model, and checks of their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from structsvm.estimators.structural import query_weights, ranks, require_qid, split_qid
from structsvm.metrics import evaluate
from structsvm.protocols import Float, Int
from structsvm.queries import group_queries

__all__ = ["FittedRanker", "check_fraction", "check_number", "choose_held_out"]


class FittedRanker:
    """Ranks and measures by ``predict``; mixed into an estimator with ``relevance``, ``fit_`` and ``_measure``."""

    relevance: float

    def predict(self, X: Any, *, qid: Any = None) -> Float:
        """Scores, higher is better."""
        raise NotImplementedError

    def _measure(self) -> str:
        """Name of the measure that :meth:`score` tells."""
        raise NotImplementedError

    def rank(self, X: Any, qid: Any = None) -> Int:
        """Rank of each row in its query, 1 is the best; rows of equal score rank in the order they stand.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
        qid : array-like, shape (n_rows,), optional

        Returns
        -------
        ndarray of int64, shape (n_rows,)
        """
        X, qid = split_qid(X, qid)
        scores = self.predict(X, qid=qid)
        return ranks(scores, group_queries(qid, scores.shape[0]))

    def score(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> float:
        """Mean over queries of ``measure``, of LambdaRank's ``utility`` (ROC area for "ranknet").

        By the TREC convention, in which the gain of NDCG is linear, but equal scores rank as :meth:`rank` does.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
        qid : array-like, shape (n_rows,), optional
            Required where ``fit`` saw it.
        sample_weight : array-like, shape (n_rows,), optional
            A query weighs the mean over its rows.

        Returns
        -------
        float

        Raises
        ------
        NotFittedError
            Before ``fit``.
        ValueError
            Without ``qid`` though the model was trained with it.
        """
        check_is_fitted(self, "fit_")
        X, qid = split_qid(X, qid)
        require_qid(self, qid)
        scores = self.predict(X, qid=qid)
        result = evaluate(self._measure(), y, scores, qid=qid, relevance=self.relevance, ties="row")
        if sample_weight is None:
            return float(result.mean)
        weights = query_weights(sample_weight, scores, group_queries(qid, scores.shape[0]))
        return float(np.average(result.per_query, weights=weights))

    def save(self, path: str | Path) -> None:
        """Write the model to one ``.npz`` file without pickle; :func:`structsvm.load` reads it back.

        Raises
        ------
        OSError
            If it cannot be written; a file that was there stays as it was.
        """
        from structsvm.persistence import save

        save(self, path)


def check_number(name: str, value: Any, least: float, *, whole: bool = False, open_end: bool = False) -> None:
    """Refuse what is no finite number from ``least`` on (above it with ``open_end``).

    Raises
    ------
    ValueError
        That names the option.
    """
    kind: Any = (int, np.integer) if whole else (int, float, np.number)
    good = isinstance(value, kind) and not isinstance(value, bool) and np.isfinite(value)
    if not good or value < least or (open_end and value == least):
        what = "a whole number" if whole else "a finite number"
        raise ValueError(f"{name}={value!r}: expected {what} {'>' if open_end else '>='} {least:g}")


def check_fraction(name: str, value: Any) -> None:
    """Refuse what is no number strictly between 0 and 1.

    Raises
    ------
    ValueError
        That names the option.
    """
    if not (isinstance(value, (int, float, np.number)) and 0 < value < 1):
        raise ValueError(f"{name}={value!r}: expected a number in (0, 1)")


def choose_held_out(useful: Int, fraction: float, rng: np.random.RandomState) -> Int:
    """A share of the useful queries, at least one, to stop training by; at least one is left to train on.

    Raises
    ------
    ValueError
        For fewer than two.
    """
    if useful.shape[0] < 2:
        raise ValueError(
            "early_stopping: expected at least 2 queries with something to learn from, one of them to hold out, got "
            f"{useful.shape[0]}; pass validation=(X, y, qid), or early_stopping=False"
        )
    n = min(max(1, round(float(fraction) * useful.shape[0])), useful.shape[0] - 1)
    return rng.permutation(useful)[:n]
