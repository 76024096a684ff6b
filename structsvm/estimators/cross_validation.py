"""``StructuralRankerCV``: C chosen by cross-validation over queries, a whole path for little more than one fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from structsvm.estimators.structural import Scale, StructuralRanker, linear_scores
from structsvm.metrics import evaluate
from structsvm.protocols import Callback, Oracle
from structsvm.trainers.path import Solver, fit_path, train

__all__ = ["StructuralRankerCV"]


class StructuralRankerCV(StructuralRanker):
    """:class:`StructuralRanker` that picks C by grouped cross-validation and refits on all queries.

    Each fold trains one regularisation path, so a grid over C costs a small multiple of one fit. Queries are never
    split over folds. The default grid spans the values that matter for features of about unit scale.

    Parameters
    ----------
    loss : str or Oracle, default="map"
        As in :class:`StructuralRanker`.
    Cs : sequence of float or None, default=None
        Values to try; None is the 13 values from 1e-3 to 1e3, evenly spaced on a log scale.
    cv : int or iterable of (train, test), default=5
        Number of folds over queries, or explicit splits as arrays of query numbers (in the order of the first row
        of each query).
    scoring : str or None, default=None
        A name of :func:`structsvm.metrics.evaluate`; None is the measure of ``loss``.
    convention : str, default="trec"
        Convention of that measure.
    tol, solver, relevance, scale, positive, max_passes, stabilise, qp, n_jobs, callback
        As in :class:`StructuralRanker`.
    random_state : int, default=None
        Seed of the shuffle of queries before they are dealt to folds; None deals them in order.

    Attributes
    ----------
    C_ : float
        The value chosen: the best mean over queries, the smallest such C on ties.
    scores_ : ndarray, shape (n_queries, n_Cs)
        Value of the measure for each held-out query and each C; NaN for queries in no test fold.
    Cs_ : ndarray, shape (n_Cs,)
        The grid, ascending.
    coef_, fit_, n_queries_, n_uninformative_, n_features_in_
        As in :class:`StructuralRanker`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(300, 3)), np.repeat(np.arange(30), 10)
    >>> y = (X[:, 0] + 0.3 * rng.normal(size=300) > 1).astype(int)
    >>> model = StructuralRankerCV(Cs=[0.1, 1, 10], cv=3).fit(X, y, qid=qid)
    >>> model.scores_.shape, model.C_ in (0.1, 1, 10)
    ((30, 3), True)
    """

    def __init__(
        self,
        loss: str | Oracle = "map",
        Cs: Sequence[float] | None = None,
        *,
        cv: Any = 5,
        scoring: str | None = None,
        convention: Literal["trec", "letor4", "letor4_script", "burges"] = "trec",
        tol: float = 1e-3,
        solver: Solver = "auto",
        relevance: float = 1.0,
        scale: Scale = "none",
        positive: bool = False,
        max_passes: int = 1000,
        stabilise: bool = True,
        qp: Literal["active_set", "cvxpy"] = "active_set",
        n_jobs: int | None = None,
        random_state: int | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.loss = loss
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.convention = convention
        self.tol = tol
        self.solver = solver
        self.relevance = relevance
        self.scale = scale
        self.positive = positive
        self.max_passes = max_passes
        self.stabilise = stabilise
        self.qp = qp
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> StructuralRankerCV:
        """Choose C, then train on all queries.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in :meth:`StructuralRanker.fit`; ``qid`` is required, with at least two queries.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bad parameters or data, or a training part without a single constraint.
        """
        data, weights = self._grouped(X, y, qid, sample_weight)
        Cs = np.logspace(-3, 3, 13) if self.Cs is None else np.sort(np.asarray(self.Cs, dtype=np.float64))
        if Cs.ndim != 1 or Cs.size == 0:
            raise ValueError(f"Cs: expected a sequence of numbers > 0, got {self.Cs!r}")
        splits = self._splits(data.n_queries)
        options = self._training_options()
        measure = self._measure() if self.scoring is None else self.scoring
        scores = np.full((data.n_queries, Cs.size), np.nan)
        for train_queries, test_queries in splits:
            part, held_out = data.select(train_queries), data.select(test_queries)
            problem = self._bind(part, weights[train_queries])
            for i, fit in enumerate(fit_path(problem, Cs.tolist(), **options)):
                result = evaluate(
                    measure, held_out.y, linear_scores(held_out.X, fit.w), qid=held_out.qid,
                    relevance=self.relevance, ties="row", convention=self.convention,
                )  # fmt: skip
                scores[test_queries, i] = result.per_query
        self.Cs_, self.scores_ = Cs, scores
        tested = ~np.isnan(scores).all(axis=1)
        means = np.average(scores[tested], axis=0, weights=weights[tested])
        # equal to rounding is equal: the smaller C is the simpler model
        self.C_ = float(Cs[int(np.argmax(means >= means.max() - 1e-12))])
        self.fit_ = train(self._bind(data, weights), self.C_, **options)
        self.coef_ = self.fit_.w
        return self

    def _splits(self, n_queries: int) -> list[tuple[Any, Any]]:
        if not isinstance(self.cv, (int, np.integer)):
            return [(np.asarray(a), np.asarray(b)) for a, b in self.cv]
        if not 2 <= self.cv <= n_queries:
            raise ValueError(
                f"cv={self.cv}: expected between 2 and the number of queries, got {n_queries} queries "
                "(is qid given?)"
            )
        order = np.arange(n_queries)
        if self.random_state is not None:
            order = np.random.default_rng(self.random_state).permutation(n_queries)
        folds = np.array_split(order, self.cv)
        return [(np.sort(np.concatenate(folds[:i] + folds[i + 1 :])), np.sort(folds[i])) for i in range(self.cv)]
