"""``DaskStructuralRankerCV``: C chosen by cross-validation over the queries of all partitions."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, Literal, NamedTuple

import numpy as np

from structsvm.common.checks import check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.dask.cluster import DaskPartitions, ask
from structsvm.dask.estimator import DaskStructuralRanker
from structsvm.dask.rows import Held
from structsvm.estimators.cross_validation import CrossValidated
from structsvm.estimators.fitted import measure_of
from structsvm.estimators.linear import linear_scores
from structsvm.metrics.evaluation import check_distinguishes, distinguishes, evaluate_part
from structsvm.protocols import Float, Int
from structsvm.trainers.partitioned import fit_path_partitioned


@parameters
class DaskStructuralRankerCV(DaskStructuralRanker, CrossValidated):
    """:class:`DaskStructuralRanker` that chooses C by cross-validation over queries, and then trains on all queries.

    The fold of a query depends only on its id and ``random_state``, not on the partitions. For each fold, one path over
    C is trained and measured on the workers.

    Parameters
    ----------
    cv : int, default=5
        Number of folds.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    C_ : float
        Chosen value of C.
    Cs_ : ndarray, shape (n_Cs,)
        Grid of values of C, ascending.
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

    C: float = field(init=False)
    checkpoint: None = field(default=None, init=False)
    cv: int = field(default=5, kw_only=True)
    convention: Literal["trec"] = field(default="trec", init=False)
    random_state: int = field(default=0, kw_only=True)

    def check_options(self) -> None:
        """Raise ValueError for parameters that :meth:`fit` would refuse; no data are needed."""
        super().check_options()
        check_whole("cv", self.cv, 2)
        check_whole("random_state", self.random_state, 0)
        self._check_choice()

    def _measure(self) -> Any:
        return measure_of(self.loss)

    def _train(self, client: object, raw: list[Any], about: Sequence[Any]) -> None:
        Cs = self._grid()
        held = self._held(client, raw, about, (self.cv, self.random_state))
        parts = DaskPartitions(client, held, self.timeout)
        options = self._solving()
        name = self._measured()

        def distinguished(each: object) -> bool:
            return any(
                ask(
                    client,
                    _distinguishes,
                    held,
                    each,
                    self.relevance,
                    timeout=self.timeout,
                    place="the partitions (labels)",
                )
            )

        check_distinguishes("loss" if self.scoring is None else "scoring", name, distinguished)
        # filled fold by fold
        weights, ids = np.zeros(self.n_queries_), np.empty(self.n_queries_, dtype=object)

        # a generator, so that a fold is trained only after the one before has been measured
        def folds() -> Iterator[tuple[Int, Float]]:
            for fold in range(self.cv):
                coefs = [fit.w for fit in fit_path_partitioned(parts, Cs.tolist(), fold=fold, **options)]
                measured = ask(
                    client,
                    _held_out,
                    held,
                    fold,
                    coefs,
                    name,
                    self.relevance,
                    timeout=self.timeout,
                    place="the partitions (held out)",
                )
                # queries are numbered through all partitions; the parts hold indices within their partition
                starts = np.cumsum([0, *(part.n_queries for part in measured[:-1])])
                queries = np.concatenate(
                    [start + part.queries for start, part in zip(starts, measured, strict=True)]
                )
                weights[queries] = np.concatenate([part.weights for part in measured])
                ids[queries] = np.concatenate([part.ids.astype(object) for part in measured])
                yield queries, np.concatenate([part.values for part in measured])

        with self._choose(Cs, weights, folds(), lambda: np.array(ids.tolist())).training():
            self.fit_ = next(fit_path_partitioned(parts, [self.C_], **options))
        self.coef_ = self.fit_.w
        self.n_lost_ = parts.lost


def _distinguishes(held: Held, name: str, relevance: float) -> bool:
    """Return whether a measure differs between orders of the rows of a partition."""
    with held.lock:
        data, _, _ = held.queries()
        return data.n_rows > 0 and distinguishes(name, data.y, data.qid, relevance=relevance)


class _HeldOut(NamedTuple):
    """Queries of a fold in a partition: indices, values for each C, weights and ids; all queries are counted."""

    queries: Int
    values: Float
    weights: Float
    ids: Any
    n_queries: int


def _held_out(held: Held, fold: int, coefs: Sequence[Float], name: str, relevance: float) -> _HeldOut:
    """Return the values of a measure for each of ``coefs`` on the queries of a fold in a partition."""
    # only weights and values are sent: the rows stay on their workers
    with held.lock:
        data, weights, folds = held.queries()
        at = np.flatnonzero(folds == fold)
        values = np.empty((0, len(coefs)))
        if at.size:
            some = data.select(at)
            options: Any = {"qid": some.qid, "relevance": relevance}
            parts = [evaluate_part(name, some.y, linear_scores(some.X, w), **options) for w in coefs]
            values = np.stack([part.result.per_query for part in parts], axis=1)
        return _HeldOut(at, values, weights[at], data.query_ids[at], data.n_queries)
