"""``DaskStructuralRankerCV``: C chosen by cross-validation over the queries of all partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from structsvm.checks import BadInput, check_C, check_whole
from structsvm.dask.cluster import DaskPartitions, gather
from structsvm.dask.estimator import DaskStructuralRanker
from structsvm.dask.groups import Groups
from structsvm.dask.rows import Held
from structsvm.estimators.choosing_C import Selection, check_selection, select_C
from structsvm.estimators.linear import Scale, linear_scores
from structsvm.estimators.structural import StructuralRanker
from structsvm.metrics.evaluation import evaluate_part
from structsvm.protocols import Callback, Float, Oracle
from structsvm.trainers.partitioned import fit_path_partitioned
from structsvm.trainers.partitioned.driver import PartitionedSolver

__all__ = ["DaskStructuralRankerCV"]


class DaskStructuralRankerCV(DaskStructuralRanker):
    """:class:`DaskStructuralRanker` that picks C by cross-validation over queries and trains on all of them.

    The fold of a query follows from its id and ``random_state`` alone, however the rows are partitioned. Each fold
    trains one path over C, and is measured where the rows are.

    Parameters
    ----------
    loss : str or Oracle, default="map"
    Cs : sequence of float or None, default=None
        Values to try; None is the 13 values from 1e-3 to 1e3, evenly spaced on a log scale.
    cv : int, default=5
        Number of folds.
    scoring : str or None, default=None
        A name of :func:`structsvm.metrics.evaluate`; None is the measure of ``loss``.
    selection : {"max", "one_se"}, default="max"
        As for :class:`~structsvm.StructuralRankerCV`.
    random_state : int, default=0
        Seed of the folds.
    tol, solver, relevance, scale, positive, max_passes, qp, groups, client, timeout, callback
        As for :class:`DaskStructuralRanker`.

    Attributes
    ----------
    C_ : float
        The value that was chosen.
    Cs_ : ndarray, shape (n_Cs,)
        The grid, ascending.
    scores_ : ndarray, shape (n_queries, n_Cs)
        Value of the measure for each held-out query and each C, in the order of the partitions.
    coef_, fit_, n_queries_, n_uninformative_, n_features_in_, memory_, n_partitions_, n_lost_
        As for :class:`DaskStructuralRanker`.

    Examples
    --------
    >>> import dask.array as da
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(40, 10, 3, random_state=0)
    >>> X, y, qid = (da.from_array(each, chunks=(200, *each.shape[1:])) for each in (data.X, data.y, data.qid))
    >>> model = DaskStructuralRankerCV(Cs=[0.1, 1.0, 10.0], cv=3).fit(X, y, qid=qid)
    >>> model.scores_.shape, model.C_ in (0.1, 1.0, 10.0)
    ((40, 3), True)
    """

    def __init__(
        self,
        loss: str | Oracle = "map",
        Cs: Sequence[float] | None = None,
        *,
        cv: int = 5,
        scoring: str | None = None,
        selection: Selection = "max",
        random_state: int = 0,
        tol: float = 1e-3,
        solver: PartitionedSolver = "auto",
        relevance: float = 1.0,
        scale: Scale = "none",
        positive: bool = False,
        max_passes: int = 1000,
        qp: Literal["active_set", "cvxpy"] = "active_set",
        groups: Groups = "refuse",
        client: Any = None,
        timeout: float = 600.0,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(
            loss, tol=tol, solver=solver, relevance=relevance, scale=scale, positive=positive,
            max_passes=max_passes, qp=qp, groups=groups, client=client, timeout=timeout, callback=callback,
        )  # fmt: skip
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.random_state = random_state

    def check_options(self) -> None:
        """Raise for parameters that :meth:`fit` would refuse, without any data.

        Raises
        ------
        ValueError
        """
        super().check_options()
        check_whole("cv", self.cv, 2)
        check_whole("random_state", self.random_state, 0)
        check_selection(self.selection)
        for C in self._grid():
            check_C(C)
        if self.scoring is not None:
            evaluate_part(self.scoring, [1, 0], [1.0, 0.0], qid=0)

    def _grid(self) -> list[float]:
        if self.Cs is None:
            return np.logspace(-3, 3, 13).tolist()
        if len(self.Cs) == 0:
            raise BadInput("Cs", "expected at least one value, got none")
        return sorted({check_C(C) for C in self.Cs})

    def _train(self, client: Any, raw: list[Any], about: Sequence[Any]) -> None:
        grid = self._grid()
        held = self._held(client, raw, about, (self.cv, self.random_state))
        parts = DaskPartitions(client, held, self.timeout)
        options: dict[str, Any] = {
            "solver": self.solver, "tol": float(self.tol), "max_passes": self.max_passes,
            "positive": self.positive, "qp": self.qp, "callback": self.callback,
        }  # fmt: skip
        name = StructuralRanker(self.loss)._measure() if self.scoring is None else self.scoring
        scores = np.full((self.n_queries_, len(grid)), np.nan)
        weights = np.zeros(self.n_queries_)
        for fold in range(self.cv):
            coefs = [fit.w for fit in fit_path_partitioned(parts, grid, fold=fold, **options)]
            futures = [
                client.submit(_held_out, one, fold, coefs, name, self.relevance, pure=False) for one in held
            ]
            start = 0
            for at, values, weight, n in gather(client, futures, self.timeout, "the partitions (held out)"):
                scores[start + at] = values
                weights[start + at] = weight
                start += n
        self.scores_, self.Cs_ = scores, np.array(grid)
        self.C_ = select_C(self.Cs_, scores, weights, selection=self.selection)
        self.fit_ = next(fit_path_partitioned(parts, [self.C_], **options))
        self.coef_ = self.fit_.w
        self.n_lost_ = parts.lost


def _held_out(
    held: Held, fold: int, coefs: Sequence[Float], name: str, relevance: float
) -> tuple[Any, Float, Float, int]:
    """Return which queries are in a fold, their values for each of several weights, their own weights, and how many
    queries there are."""
    with held.lock:
        data, weights, folds = held.queries()
        at = np.flatnonzero(folds == fold)
        if at.size == 0:
            return at, np.empty((0, len(coefs))), np.empty(0), data.n_queries
        some = data.select(at)
        values = [
            evaluate_part(
                name, some.y, linear_scores(some.X, w), qid=some.qid, relevance=relevance, ties="row"
            )[0].per_query
            for w in coefs
        ]
        return at, np.stack(values, axis=1), weights[at], data.n_queries
