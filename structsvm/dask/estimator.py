"""``DaskStructuralRanker``: the structural SVM for rankings on the partitions of a Dask collection."""

import contextlib
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structsvm.common.checks import BadInput, check_choice, check_positive, counted
from structsvm.common.estimator_parameters import parameters
from structsvm.common.names import QID
from structsvm.common.training_data import record_training
from structsvm.dask import cluster
from structsvm.dask.groups import Groups, whole_queries
from structsvm.dask.rows import Dealt, Rows, facts, hold, scored, summary
from structsvm.dask.scaling import fitted_scaler
from structsvm.dask.sources import has_names, pieces
from structsvm.estimators.fitted import (
    all_or_nothing,
    measure_of,
    no_constraint,
    ranks,
    warn_of_uninformative,
)
from structsvm.estimators.linear import Scale, check_usual, linear_scores
from structsvm.estimators.structural import StructuralRanker, usual_C
from structsvm.features.scaling import QueryScaler, scale_rows
from structsvm.metrics.evaluation import bounds_of, evaluate_part, warn_of_nothing_relevant
from structsvm.metrics.results import EvaluationResult
from structsvm.oracles import get_oracle
from structsvm.protocols import Callback, Float, Oracle
from structsvm.queries import group_queries
from structsvm.trainers.contract import Options
from structsvm.trainers.partitioned import train_partitioned
from structsvm.trainers.partitioned.driver import PartitionedSolver, check_partitioned

_log = logging.getLogger("structsvm")

_LEARNED = {
    *("coef_", "fit_", "scaler_", "training_data_", "n_queries_", "n_uninformative_"),
    *("n_features_in_", "feature_names_in_"),
}
"""Attributes that the ranker on one machine has as well."""

_USABLE = 0.9
"""Share of the memory limits that rows may fill; Dask pauses and restarts workers that use more."""


@parameters
class DaskStructuralRanker(BaseEstimator):
    """:class:`~structsvm.StructuralRanker` on the partitions of a Dask collection, or of files on the workers.

    The optimum and the certificate are those of training on one machine. Each round sends a few vectors with one number
    per feature to each partition and back, independently of the number of rows. A lost worker costs the work of the
    round on its partitions: Dask rebuilds them from their source, and no bound depends on data that a worker cached.

    Parameters
    ----------
    loss : str or Oracle, default="map"
        As for :class:`~structsvm.StructuralRanker`.
    C : float, default=None
        Trade-off between loss and regularisation, with the same meaning and default as on one machine.
    tol : float, default=1e-3
        Relative duality gap to reach.
    solver : {"auto", "partitioned", "one_slack", "newton"}, default="auto"
        "newton" is for smooth losses, for which "auto" chooses it unless weights are constrained or there is a
        checkpoint. "one_slack" adds up the cuts of the partitions; "partitioned" needs fewer passes. "auto" chooses
        "one_slack" over "partitioned" for constrained weights, fewer than ten queries, planes that do not fit in
        memory, and a C that is large for the number of queries.
    relevance : float, default=1.0
        Lowest label of a relevant document, for the binary losses.
    scale : {"none", "minmax", "zscore", "query-minmax", "query-zscore", "query-percentile"}, default="none"
        Scaling by statistics of all rows, or of each query. All except "none" copy the rows of a partition.
    positive : bool, default=False
        Whether weights are constrained to be >= 0.
    max_passes : int, default=1000
        Maximum number of passes over the data.
    qp : {"active_set", "cvxpy"}, default="active_set"
        As for :class:`~structsvm.StructuralRanker`; the quadratic programme is solved at the driver.
    groups : {"refuse", "mend", "shuffle"}, default="refuse"
        Treatment of queries with rows in several partitions, which would change the objective. "refuse" raises an
        error; "mend" moves the rows of such a query to its first partition, if its partitions are adjacent and the
        query is at their borders; "shuffle" creates new partitions by query, which moves all rows.
    client : distributed.Client, optional
        By default the current client; if there is none, each call starts a cluster of threads in this process.
    checkpoint : path, optional
        File of the state of the fit after each pass. If the file exists, ``fit`` continues from its state; the file is
        removed when the gap is reached.
    timeout : float, default=600
        Seconds without a result of any partition after which a ``ClusterError`` is raised.
    callback : callable, optional
        Called with a :class:`structsvm.protocols.Progress` after each pass; a truthy result stops training. Ctrl-C
        keeps the best weights, if any were measured.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
        Weights of the features.
    fit_ : Fit
        The certificate, as on one machine.
    n_queries_, n_uninformative_, n_features_in_ : int
        Numbers of queries, of queries that give no constraint, and of features.
    scaler_ : QueryScaler or None
        Fitted scaler; None for ``scale="none"``.
    feature_names_in_ : ndarray of str
        Names of the features; only for frames and Parquet files.
    memory_ : dict
        For each worker ``rows``, ``planes`` and ``limit`` in bytes before training: the size of its rows, the largest
        size of cached planes, and its memory limit.
    n_partitions_ : int
        Number of partitions that hold rows.
    n_lost_ : int
        Number of calls that were repeated because their worker was lost.

    Notes
    -----
    ``X`` may be a dask DataFrame with ``y`` and ``qid`` as Series of the same partitions or as names of columns; dask
    Arrays with the same chunks of rows; a list of delayed partitions, each ``(X, y, qid)``, ``(X, y, qid,
    sample_weight)`` or a :class:`~structsvm.QueryData`; or the path of Parquet files, LETOR files or stores (or a
    list), which every worker must be able to read. Rows of files are read, and stores are mapped, on the workers.
    Labels of rows (an index) are ignored, divisions may be unknown, partitions may be empty, and some may be float32
    and others float64.

    Examples
    --------
    >>> import dask.array as da
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(40, 10, 3, random_state=0)
    >>> X, y, qid = (da.from_array(each, chunks=(200, *each.shape[1:])) for each in (data.X, data.y, data.qid))
    >>> model = DaskStructuralRanker("map", C=10).fit(X, y, qid=qid)
    >>> bool(model.fit_.gap <= 1e-3), model.to_local()
    (True, StructuralRanker(C=10.0))
    """

    loss: str | Oracle = "map"
    C: float | None = None
    _: KW_ONLY
    tol: float = 1e-3
    solver: PartitionedSolver = "auto"
    relevance: float = 1.0
    scale: Scale = "none"
    positive: bool = False
    max_passes: int = 1000
    qp: Literal["active_set", "cvxpy"] = "active_set"
    groups: Groups = "refuse"
    client: Any = None
    checkpoint: str | PathLike[str] | None = None
    timeout: float = 600.0
    callback: Callback | None = None

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        qid: object = None,
        sample_weight: object = None,
        features: Any = None,
    ) -> Self:
        """Train on the rows of all partitions.

        Parameters
        ----------
        X : dask DataFrame or Array, list of delayed partitions, path or list of paths
            See the notes of the class.
        y, qid : dask Series or Array, or str
            Labels and query of each row, or the names of columns; for Parquet files "label" and "qid" by default.
        sample_weight : dask Series or Array, or str, optional
            Weights >= 0; the weight of a query is the mean over its rows.
        features : sequence of str, optional
            Names of the columns that are features, for a DataFrame and Parquet files; by default all other columns.

        Returns
        -------
        self

        Raises
        ------
        ClusterError
            If the cluster fails, or rows do not fit in its memory.
        """
        self.check_options()
        if features is not None and not has_names(X):
            raise BadInput(
                "features", "expected none, because only a DataFrame and Parquet files have column names"
            )
        with (
            cluster.connected(self.client) as client,
            self._whole(client, (X, y, qid, sample_weight), features) as (parts, about),
        ):
            self._train(client, parts, about)
        return self

    def _held(self, client: Any, raw: list[Any], about: Sequence[Any], folds: Dealt) -> list[Any]:
        """Return futures of the partitions of the problem; set the attributes that are known before training."""
        self.n_features_in_ = about[0].n_features
        self.scaler_ = fitted_scaler(client, raw, self.n_features_in_, self.scale, self.timeout)
        futures = [
            client.submit(hold, rows, self.loss, self.relevance, self.scaler_, folds, pure=False)
            for rows in raw
        ]
        about_parts = cluster.ask(client, facts, futures, timeout=self.timeout, place="the partitions")
        self.n_queries_ = sum(one.n_queries for one in about_parts)
        self.n_uninformative_ = sum(one.n_uninformative for one in about_parts)
        labels = min(one.labels[0] for one in about_parts), max(one.labels[1] for one in about_parts)
        if self.n_uninformative_ == self.n_queries_:
            raise no_constraint(self.loss, labels, self.n_queries_, self.relevance)
        self.training_data_ = record_training(
            n_rows=sum(one.n_rows for one in about),
            n_queries=self.n_queries_,
            labels=list(map(float, labels)),
        )
        self._masses = sum(one.masses[0] for one in about_parts), sum(one.masses[1] for one in about_parts)
        warn_of_uninformative(self, self.loss)
        self.memory_ = _report(client, futures, about_parts)
        raw.clear()  # the futures of the problem hold the rows, too: Dask would count them twice and write some to disk
        self.n_partitions_ = len(futures)
        if about[0].names is not None:
            self.feature_names_in_ = np.array(about[0].names, dtype=object)
        return futures

    def _train(self, client: object, raw: list[Any], about: Sequence[Any]) -> None:
        parts = cluster.DaskPartitions(client, self._held(client, raw, about, None), self.timeout)
        checkpoint = None if self.checkpoint is None else Path(self.checkpoint)
        problem = {"loss": repr(self.loss), "relevance": float(self.relevance), "scale": self.scale}
        C, options = usual_C(self.C, self.loss, self._masses), self._solving()
        self.fit_ = train_partitioned(parts, C, checkpoint=checkpoint, problem=problem, **options)
        self.coef_ = self.fit_.w
        self.n_lost_ = parts.lost

    def _solving(self) -> dict[str, Any]:
        """Return the options of the trainer except C."""
        names = ("solver", "max_passes", "positive", "qp", "callback")
        return {"tol": float(self.tol), **{name: getattr(self, name) for name in names}}

    @contextlib.contextmanager
    def _whole(
        self, client: "Any", given: tuple[Any, ...], features: Any = None, coef: Float | None = None
    ) -> Iterator[tuple[list[Any], list[Any]]]:
        """Yield futures of rows of whole queries, or with ``coef`` of their scores, and the summaries of partitions."""
        if coef is not None and hasattr(self, "feature_names_in_"):
            features = self.feature_names_in_.tolist()
        source = pieces(*given, n_threads=cluster.count_threads(client), features=features)
        limits = cluster.memory_limits(client)
        limit = sum(limits.values())
        # refused before anything is read, because a worker that runs out of memory is killed and its work is lost
        if coef is None and source.n_bytes is not None and source.n_bytes > _USABLE * limit:
            raise cluster.ClusterError(
                f"the rows take {source.n_bytes / 1e9:.1f} GB, and the {len(limits)} workers have {limit / 1e9:.1f} GB "
                "together; use more memory, or stores (structsvm convert), which are mapped instead of read"
            )
        raw: list[Any] = []
        try:
            raw = list(client.compute(source.delayed))
            if source.reload is not None:
                raw = self._same_width(client, raw, source)
            if coef is not None:
                raw = [client.submit(scored, rows, coef, self.scaler_, pure=False) for rows in raw]
            raw, about = whole_queries(client, raw, self.groups, self.timeout)
            yield raw, about
        except BaseException:
            with contextlib.suppress(Exception):
                client.cancel(raw)
            raise

    def _same_width(self, client: "Any", raw: list[Any], source: Any) -> list[Any]:
        """Return the futures of LETOR files, read again if widths differ, as a file may omit the last features."""
        about = cluster.ask(client, summary, raw, timeout=self.timeout, place="the texts")
        width = max(getattr(self, "n_features_in_", 0), *(one.n_features for one in about))
        as_sparse = any(one.kind == "CSR" for one in about)
        if all(one.n_features == width and (one.kind == "CSR") == as_sparse for one in about):
            return raw
        return list(client.compute(source.reload(width, as_sparse).delayed))

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """Return lazy scores with the partitions of ``X``; higher is better.

        Parameters
        ----------
        X : dask DataFrame or Array, numpy array, CSR matrix or pandas DataFrame
            Rows to score. A column ``qid`` of a frame is not a feature.
        qid : as X, optional
            Required if ``scale`` works within queries; each partition must hold whole queries.

        Returns
        -------
        dask Series or Array, or ndarray
            Score of each row.
        """
        check_is_fitted(self, "coef_")
        if self._within_queries() and qid is None:
            raise BadInput("qid", "expected the query of each row, got none", "pass qid: {scale} needs it")
        model = {"coef": self.coef_, "scaler": self.scaler_}
        # a frame, an array, or rows in the memory of this process
        if hasattr(X, "npartitions") and hasattr(X, "columns"):
            given = [] if qid is None else [X[qid] if isinstance(qid, str) else qid]
            X = X[self._columns(X.columns)]
            return X.map_partitions(_predict, *given, meta=("score", "f8"), **model)
        if hasattr(X, "chunks"):
            if X.numblocks[1] > 1:
                X = X.rechunk({1: -1})
            if X.shape[1] != self.n_features_in_:
                raise BadInput("X", f"expected {self.n_features_in_} features, as in fit, got {X.shape[1]}")
            given = [] if qid is None else [qid[:, None]]
            return X.map_blocks(_predict, *given, dtype=np.float64, drop_axis=1, **model)
        return self.to_local().predict(X, qid=qid)

    def score_files(self, path: Any, y: str | None = None, *, qid: str | None = None) -> Iterator[Float]:
        """Yield the scores of files by partition, in the order of their rows.

        Parameters
        ----------
        path : path or sequence of paths
            As for :meth:`fit`.
        y, qid : str, optional
            Columns of labels and ids, for Parquet files.

        Yields
        ------
        ndarray of float64
            Scores of the rows of one partition.
        """
        check_is_fitted(self, "coef_")
        names = getattr(self, "feature_names_in_", None)
        with cluster.connected(self.client) as client:
            features = None if names is None else names.tolist()
            source = pieces(path, y, qid, None, n_threads=cluster.count_threads(client), features=features)
            if source.reload is not None:
                source = source.reload(self.n_features_in_, None)
            # all parts are computed at once, and fetched one after the other; rows are freed when they are scored
            raw = list(client.compute(source.delayed))
            futures = [client.submit(_in_order, rows, self.coef_, self.scaler_, pure=False) for rows in raw]
            del raw
            try:
                for k, future in enumerate(futures):
                    yield cluster.gather(client, [future], self.timeout, f"part {k} of the files")[0]
            finally:
                client.cancel(futures)

    def _within_queries(self) -> bool:
        return self.scaler_ is not None and self.scaler_.within == "query"

    def _columns(self, columns: Any) -> list[Any]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [name for name in columns if name != QID]
        there = {str(name): name for name in columns}
        missing = [name for name in names if name not in there]
        if missing:
            raise BadInput("X", f"expected the column {missing[0]!r}, as in fit, got none")
        return [there[name] for name in names]

    def rank(self, X: Any, qid: Any) -> Any:
        """Return the lazy rank of each row in its query, from 1; equal scores are ranked in the order of the rows.

        Ids are read immediately to check that each partition holds whole queries; ranks are computed by Dask.

        Parameters
        ----------
        X : dask DataFrame or Array
            Rows to rank.
        qid : dask Series or Array, or str
            Query of each row, or the name of its column.

        Returns
        -------
        dask Series or Array of int64
            Ranks of the rows.
        """
        scores = self.predict(X, qid=qid if self._within_queries() else None)
        if isinstance(qid, str):
            qid = X[qid]
        with cluster.connected(self.client) as client:
            column = scores.to_frame() if hasattr(scores, "to_frame") else scores[:, None]
            source = pieces(column, scores, qid, None, n_threads=1)
            try:
                whole_queries(client, list(client.compute(source.delayed)), "refuse", self.timeout)
            except BadInput as error:
                raise BadInput(
                    error.argument,
                    error.problem.partition("; training")[0],
                    "rank never moves rows and ignores {groups}: sort the data by query, or repartition",
                ) from None
        if hasattr(scores, "to_frame"):
            return scores.map_partitions(_rank, qid, meta=("rank", "i8"))
        from dask.array import map_blocks

        return map_blocks(_rank, scores, qid, dtype=np.int64)

    def evaluate(
        self,
        X: object,
        y: ArrayLike | None = None,
        *,
        qid: Any = None,
        metrics: Sequence[str] = ("map", "ndcg@10"),
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> dict[str, EvaluationResult]:
        """Measure rankings on the workers, which only keep scores, labels and ids, and return the value of each query.

        Parameters
        ----------
        X, y, qid, sample_weight
            As for :meth:`fit`. Features are the columns with the names seen in ``fit``.
        metrics : sequence of str
            Names of measures, as for :func:`structsvm.metrics.evaluate`.
        **options
            Other options of :func:`structsvm.metrics.evaluate`: ``convention``, ``relevance``, ``ties``, ``empty``,
            ``max_grade``.

        Returns
        -------
        dict of str to EvaluationResult
            For each measure the value of each query, in the order of the partitions, and the mean, with the weights if
            given.
        """
        check_is_fitted(self, "coef_")
        for name in metrics:
            # raises for a bad name before rows are read
            evaluate_part(name, [1, 0], [1.0, 0.0], qid=0, **options)
        with (
            cluster.connected(self.client) as client,
            self._whole(client, (X, y, qid, sample_weight), coef=self.coef_) as (parts, _),
        ):
            answers = cluster.ask(
                client,
                _measure,
                parts,
                tuple(metrics),
                options,
                timeout=self.timeout,
                place="the partitions (evaluation)",
            )
        ids = np.concatenate([ids for ids, *_ in answers])
        weights = np.concatenate([weight for _, weight, *_ in answers])
        results = {}
        for k, name in enumerate(metrics):
            values = np.concatenate([values[k] for _, _, values, _ in answers])
            if all(empty[k] for *_, empty in answers):
                warn_of_nothing_relevant(name, values.size)
            counted = ~np.isnan(values) & (weights > 0)
            mean = float(np.average(values[counted], weights=weights[counted])) if counted.any() else math.nan
            results[name] = EvaluationResult(name, mean, values, ids, bounds_of(name))
        return results

    def score(
        self,
        X: object,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean over queries of the measure that fits the loss, as :meth:`structsvm.StructuralRanker.score`
        does."""
        name = measure_of(self.loss)
        return self.evaluate(
            X, y, qid=qid, metrics=[name], sample_weight=sample_weight, relevance=self.relevance
        )[name].mean

    def to_local(self) -> StructuralRanker:
        """Return the same model as an ordinary estimator, which can be saved, explained and exported."""
        check_is_fitted(self, "coef_")
        shared = ("loss", "tol", "relevance", "scale", "positive", "max_passes", "qp")
        model = StructuralRanker(C=self.fit_.C, **{name: getattr(self, name) for name in shared})
        learned = {name: value for name, value in vars(self).items() if name in _LEARNED}
        model.__dict__.update(learned, _saw_qid=True)
        return model

    def check_options(self) -> None:
        """Raise for parameters that :meth:`fit` would refuse; no data are needed."""
        if self.C is not None:
            check_positive("C", self.C)
        check_usual(self)
        check_positive("timeout", self.timeout)
        check_choice("groups", self.groups, ("refuse", "mend", "shuffle"))
        check_partitioned(self.solver, self.positive, Options(qp=self.qp))
        get_oracle(self.loss, relevance=self.relevance)


def _predict(X: Any, qid: Any = None, *, coef: Float, scaler: QueryScaler | None) -> Any:
    values = X.to_numpy(dtype=np.float64) if hasattr(X, "to_numpy") else X
    if scaler is not None and values.shape[0]:
        values = scale_rows(scaler, values, None if qid is None else np.ravel(qid))
    return _as_given(linear_scores(values, coef), X, "score")


def _as_given(values: ArrayLike, rows: object, name: str) -> Any:
    """Return values as a Series if the rows are a frame."""
    if not hasattr(rows, "index"):
        return values
    import pandas as pd

    return pd.Series(values, index=rows.index, name=name)


def _in_order(rows: Rows, coef: Float, scaler: QueryScaler | None) -> Float:
    """Return the scores of a partition in the order of its source."""
    if rows.data.n_features != coef.shape[0]:
        raise BadInput(
            rows.place,
            f"expected {counted(feature=coef.shape[0])}, as the model has, got {rows.data.n_features}",
        )
    scores = scored(rows, coef, scaler).data.X[:, 0]
    order = rows.data.order
    if order is None:
        return np.asarray(scores)
    ordered = np.empty_like(scores)
    ordered[order] = scores
    return np.asarray(ordered)


def _rank(scores: ArrayLike, qid: ArrayLike) -> Any:
    ids = np.asarray(qid)
    return _as_given(ranks(np.asarray(scores), group_queries(ids, ids.shape[0])), scores, "rank")


def _measure(rows: Rows, metrics: Sequence[str], options: dict[str, Any]) -> Any:
    data = rows.data
    parts = [evaluate_part(name, data.y, data.X[:, 0], qid=data.qid, **options) for name in metrics]
    values, empty = [part.result.per_query for part in parts], [part.undefined for part in parts]
    return data.query_ids, rows.query_weights(), values, empty


def _report(client: "Any", parts: Sequence[Any], about: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Return and log the memory that each worker needs; raise ClusterError if one has less."""
    limits = cluster.memory_limits(client)
    table = {address: {"rows": 0.0, "planes": 0.0, "limit": limit} for address, limit in limits.items()}
    holders = client.who_has(list(parts))
    for part, one in zip(parts, about, strict=True):
        address = next(iter(holders.get(part.key) or ()), None)
        if address in table:
            table[address]["rows"] += one.n_bytes
            table[address]["planes"] += one.n_plane_bytes
    for address, each in table.items():
        _log.info(
            "%s: rows %.2f GB, planes up to %.2f GB, of %.2f GB",
            address,
            each["rows"] / 1e9,
            each["planes"] / 1e9,
            each["limit"] / 1e9,
        )
        if each["rows"] + each["planes"] > each["limit"]:
            raise cluster.ClusterError(
                f"worker {address} has {each['limit'] / 1e9:.1f} GB for {each['rows'] / 1e9:.1f} GB of rows and up to "
                f"{each['planes'] / 1e9:.1f} GB of planes; use more memory, stores (structsvm convert), which are "
                "mapped instead of read, or solver='one_slack', which keeps no planes"
            )
    return table
