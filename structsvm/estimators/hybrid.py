"""``hybrid_weights``: choose the weights of a hybrid query by judged queries, for the fusion of a search engine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice, check_whole
from structsvm.common.portable.arrays import matmul, products
from structsvm.common.records import plain
from structsvm.estimators.choosing_C import crossed_by
from structsvm.estimators.linear import linear_scores
from structsvm.export.hybrid import ENGINES
from structsvm.export.names import check_feature_names
from structsvm.features.hybrid import clause_columns
from structsvm.metrics import evaluate
from structsvm.metrics.estimates import Estimate, estimate_of
from structsvm.metrics.evaluation import check_distinguishes, distinguishes
from structsvm.metrics.results import EvaluationResult
from structsvm.metrics.significance import Comparison
from structsvm.protocols import Float, Int
from structsvm.queries import QueryData, offsets_of, warn_user
from structsvm.readers.qrels import Qrels
from structsvm.readers.run_features import Candidates, candidates, runs_by_name
from structsvm.readers.runs import Run

_FEWEST = 5
"""Number of folds, and smallest number of queries."""
_SHARES = (0.25, 0.5, 0.75, 0.9, 1.0)
"""Candidates are equal weights, and lie on the lines from them to each list alone, at these distances.

Their averages over resampled queries can be any weights. ``experiments/hybrid_weights.py`` compares them with weights
that a ranking loss learns, and with the best candidate, which depends more on the sample."""
_EQUAL = 1e-9
"""Means that differ by less are equal; the earlier candidate, with more equal weights, is chosen."""
_ZEROS = 0.05
"""Fraction of zeros in a column without missing values above which the zeros probably stand for documents missing from
the list."""


@dataclass(frozen=True, eq=False)
class HybridWeights:
    """Weights of a hybrid query, and comparisons with equal weights, RRF and the best single list.

    Attributes
    ----------
    to : str
        Name of the engine and its fusion method.
    names : tuple of str
        Names of the clauses.
    weights, lower, upper : ndarray of float64, shape (n_clauses,)
        Weights, which are >= 0 and sum to 1, and the bounds of the central 95 % of the weights chosen on resampled
        queries.
    estimate : Estimate
        Estimated score of weights chosen in this way on new queries: each query counts with weights chosen on the
        queries of other folds.
    against : dict of str to Comparison
        Comparisons on the same queries with "equal weights", "RRF" (sums of reciprocal ranks with k = 60) and the "best
        single list", which is chosen on other folds as well; there is no p-value for fewer than 10 queries.
    best_list : str
        Name of the clause that ranks these queries best on its own.
    n_queries, depth, k : int
        Number of judged queries, number of documents per list, and constant of reciprocal ranks.

    Examples
    --------
    See :func:`structsvm.estimators.hybrid_weights`.
    """

    to: str
    names: tuple[str, ...]
    weights: Float
    lower: Float
    upper: Float
    estimate: Estimate
    against: dict[str, Comparison]
    best_list: str
    n_queries: int
    depth: int
    k: int

    def to_dict(self) -> dict[str, Any]:
        """Return the weights, the estimate and the comparisons as plain objects for ``json.dumps``."""
        keys, found = ("name", "weight", "lower", "upper"), self.estimate
        columns = (self.names, self.weights, self.lower, self.upper)
        return plain(
            {
                "to": self.to,
                "weights": [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)],
                "advice": self.advice,
                "measure": found.name,
                "estimate": {key: getattr(found, key) for key in ("mean", "lower", "upper", "n_queries")},
                "against": {
                    name: {key: getattr(one, key) for key in ("mean_difference", "lower", "upper")}
                    for name, one in self.against.items()
                },
                "best_list": self.best_list,
            }
        )

    def text(self, weights: ArrayLike | None = None) -> str:
        """Return the engine's configuration as text, by default with :attr:`weights`."""
        chosen = np.asarray(self.weights if weights is None else weights, dtype=np.float64)
        if chosen.shape != (len(self.names),):
            raise BadInput("weights", f"expected {len(self.names)}, got shape {chosen.shape}")
        return ENGINES[self.to].text(self.names, chosen.tolist(), self.depth, self.k)

    @property
    def advice(self) -> str:
        """The recommendation as a sentence."""
        doubt = ", which is not significant"
        gain, top = self.against["equal weights"], self.weights.max()
        if math.isclose(top, self.weights.min()):
            text = "take equal weights: no other weights are better"
        else:
            chosen = f"{self.best_list} alone" if top == 1 else "these weights"
            ends = "" if math.isnan(gain.lower) else f" [{gain.lower:+.4f}, {gain.upper:+.4f}]"
            text = (
                f"take {chosen}: {self.estimate.name} on new queries differs from that of equal weights by "
                f"{gain.mean_difference:+.4f}{ends}{'' if gain.lower > 0 else f'{doubt}; judge more queries'}"
            )
        for name, other in (("RRF", "RRF"), ("best single list", f"{self.best_list} alone")):
            if (found := self.against[name]).mean_difference < 0:
                text += f"; {other} is better by {-found.mean_difference:.4f}"
                text += "" if found.upper < 0 else doubt
        return text

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [
            f"{name:{width}}  {weight:.3f}  [{low:.3f}, {high:.3f}]"
            for name, weight, low, high in zip(self.names, self.weights, self.lower, self.upper, strict=True)
        ]
        lines.append(repr(self.estimate))
        for name, one in self.against.items():
            label = name + f" ({self.best_list})" * (name == "best single list")
            lines.append(f"  against {label}, {self.estimate.mean - one.mean_difference:.3f}: {one!r}")
        return "\n".join([*lines, self.advice])


def hybrid_weights(
    runs: Mapping[str, Run] | Sequence[Run] | QueryData,
    qrels: Qrels | None = None,
    *,
    to: str,
    depth: int = 100,
    k: int = 60,
    measure: str = "ndcg@10",
    n_boot: int = 500,
    random_state: int = 0,
) -> HybridWeights:
    """Choose the weights of a hybrid query (BM25, vectors, ...) by judged queries, for the fusion of a search engine.

    The columns are the terms that the engine adds up: each list is truncated to ``depth``, its scores are normalised
    within the list in the way of the engine, and documents missing from the list have the value 0. Weights chosen for
    one engine are therefore wrong for another.

    Parameters
    ----------
    runs : mapping of names to Run, sequence of Run, or QueryData
        The result lists of each clause; or rows with the grades as labels and one column of scores per clause, which is
        NaN for documents missing from its list, such as a table read by ``read_csv(path, fill=np.nan)``. For Vespa the
        rows of a query have to be in the order of its hits, of which the first ``depth`` are used.
    qrels : Qrels, optional
        The judgments; required if ``runs`` contains runs.
    to : str
        One of :data:`structsvm.export.hybrid.ENGINES`, such as "opensearch-hybrid", "elasticsearch-linear",
        "qdrant-rrf". For "weaviate" the second clause must be the vectors.
    depth : int, default=100
        Number of documents of each list that the engine fuses, such as ``pagination_depth`` in OpenSearch and
        ``rank_window_size`` in Elasticsearch.
    k : int, default=60
        Constant of reciprocal ranks.
    measure : str, default="ndcg@10"
        Measure by which weights are chosen, as in :func:`structsvm.metrics.evaluate`.
    n_boot : int, default=500
        Number of bootstrap samples of the queries over which weights are averaged.
    random_state : int, default=0
        Seed of the folds and of the bootstrap samples.

    Returns
    -------
    HybridWeights
        The weights, with ``advice`` and with ``text()``, which returns the engine's configuration.

    Raises
    ------
    BadInput
        For fewer than 5 judged queries, for a number of clauses that the engine does not accept, or, with Vespa, for
        documents without a score, because Vespa computes every feature of every document.

    Notes
    -----
    Candidates are equal weights, each list alone, and weights between these. On each bootstrap sample of the queries,
    the candidate with the best mean of the measure is chosen among those that are at least one standard error better
    than equal weights; if there is none, equal weights are chosen. Of candidates with equal means, the one closest to
    equal weights is chosen. The result is the average of the chosen weights (bagging: Breiman, Machine Learning 24,
    1996): one candidate if all samples agree, otherwise weights between the candidates.

    The estimate is crossed over five folds. Results do not depend on the order of queries, nor of the rows of a query,
    except for Vespa, which uses the order of hits.

    Measures only consider documents in the lists: relevant documents that are in no list do not reduce NDCG, which is
    therefore higher than the NDCG of :func:`structsvm.metrics.evaluate` for runs and of trec_eval.

    Examples
    --------
    >>> from structsvm.readers import make_runs
    >>> runs, qrels, _ = make_runs(n_topics=12, random_state=0)
    >>> result = hybrid_weights(runs, qrels, to="elasticsearch-rrf", n_boot=20)
    >>> result.names, bool(abs(result.weights.sum() - 1) < 1e-12)
    (('system0', 'system1', 'system2'), True)
    >>> print(result.advice.partition(":")[0])
    take these weights
    """
    check_choice("to", to, ENGINES)
    check_whole("depth", depth, 1)
    check_whole("k", k, 1)
    check_whole("n_boot", n_boot, 2)
    engine = ENGINES[to]
    if isinstance(runs, QueryData):
        runs = _first_hits(runs, depth) if engine.complete else _sorted_rows(runs)
    names, scores, y, offsets = _lists(runs, qrels, depth)
    check_feature_names(to, names, "runs")
    if len(names) not in engine.clauses:
        most = engine.clauses[-1]
        raise BadInput(
            "runs", f"expected {'2' if most == 2 else f'2 to {most}'} result lists for {to}, got {len(names)}"
        )
    if engine.complete and np.isnan(scores).any():
        raise BadInput(
            "runs",
            f"expected a score of each clause for each document, as {to} computes all of them, got none for "
            f"{int(np.isnan(scores).any(axis=1).sum())} of {len(scores)} documents",
            "log the rank features of all hits in Vespa, or choose another fusion",
        )
    if isinstance(runs, QueryData) and not engine.complete:
        _warn_of_zeros(names, runs.X)
    n = len(offsets) - 1
    if n < _FEWEST:
        raise BadInput("qrels", f"expected at least {_FEWEST} judged queries, got {n}")
    qid = np.repeat(np.arange(n), np.diff(offsets))
    check_distinguishes("measure", measure, lambda name: distinguishes(name, y, qid))
    columns = clause_columns(scores, offsets, engine.normalizer, k=k)
    ranks = clause_columns(scores, offsets, "ranks")

    def evaluated(score: Float) -> EvaluationResult:
        return evaluate(measure, y, score, qid=qid, ties="average")

    equal, alone = np.full(len(names), 1 / len(names)), np.eye(len(names))
    grid = np.vstack([equal, *(share * alone + (1 - share) * equal for share in _SHARES)])
    of_grid = np.stack([evaluated(linear_scores(columns, weights)).per_query for weights in grid])
    single = np.stack([evaluated(column).per_query for column in ranks.T])
    rrf = evaluated(ranks.sum(axis=1))

    def chosen(queries: NDArray[np.bool_]) -> Float:
        """Return the best candidates on bootstrap samples of the queries."""
        size = int(queries.sum())
        counts = np.random.default_rng([random_state, size]).multinomial(
            size, np.full(size, 1 / size), size=n_boot
        )
        gains = of_grid[:, queries] - of_grid[0, queries]
        centred = gains - products(gains, np.full(size, 1 / size))[:, None]
        errors = np.sqrt(products(centred**2, np.full(size, 1 / (size * (size - 1)))))
        means = matmul(gains, counts.T) / size
        means = np.where(means >= errors[:, None], means, -np.inf)  # equal weights have gain and error 0
        return np.asarray(grid[np.argmax(means >= means.max(axis=0) - _EQUAL, axis=0)])

    def best(queries: NDArray[np.bool_]) -> int:
        means = single[:, queries].mean(axis=1)
        return int(np.argmax(means >= means.max() - _EQUAL))

    fold, every = np.random.default_rng(random_state).permutation(n) % _FEWEST, np.full(n, True)
    held_out = crossed_by(
        lambda rest: evaluated(linear_scores(columns, chosen(rest).mean(axis=0))).per_query, fold, np.ones(n)
    )
    result = EvaluationResult(rrf.name, float(held_out.mean()), held_out, rrf.query_ids, rrf.bounds)
    others = {
        "equal weights": of_grid[0],
        "RRF": rrf.per_query,
        "best single list": crossed_by(lambda rest: single[best(rest)], fold, np.ones(n)),
    }
    estimates = {name: estimate_of(result, baseline=other) for name, other in others.items()}
    against = {name: cast(Comparison, found.difference) for name, found in estimates.items()}
    estimate = estimates["RRF"]._replace(difference=None)
    resampled = chosen(every)
    lower, upper = np.quantile(resampled, [0.025, 0.975], axis=0)
    return HybridWeights(
        to,
        names,
        weights=resampled.mean(axis=0),
        lower=lower,
        upper=upper,
        estimate=estimate,
        against=against,
        best_list=names[best(every)],
        n_queries=n,
        depth=depth,
        k=k,
    )


def _sorted_rows(data: QueryData) -> QueryData:
    """Return the queries by id, and the rows of a query by document id or, without ids, by scores and grade."""
    data = data.select(np.argsort(data.query_ids.astype(str), kind="stable"))
    keys = [*data.X.T, data.y] if data.docid is None else [np.asarray(data.docid).astype(str)]
    order = np.lexsort((*keys, np.repeat(np.arange(data.n_queries), np.diff(data.offsets))))
    return replace(
        data,
        X=data.X[order],
        y=data.y[order],
        docid=None if data.docid is None else data.docid[order],
        order=None,
    )


def _first_hits(data: QueryData, depth: int) -> QueryData:
    """Return the first ``depth`` rows of each query, the hits that Vespa's global phase ranks again."""
    keep = np.arange(data.n_rows) - np.repeat(data.offsets[:-1], np.diff(data.offsets)) < depth
    return replace(
        data,
        X=data.X[keep],
        y=data.y[keep],
        offsets=offsets_of(np.minimum(np.diff(data.offsets), depth).tolist()),
        docid=None,
        order=None,
    )


def _warn_of_zeros(names: tuple[str, ...], scores: Float) -> None:
    """Warn about columns without missing values in which more than ``_ZEROS`` of the scores are 0."""
    share = np.where(np.isnan(scores).any(axis=0), 0.0, (scores == 0).mean(axis=0))
    if filled := [f"{name} ({part:.0%})" for name, part in zip(names, share, strict=True) if part > _ZEROS]:
        warn_user(
            f"many scores are 0: {', '.join(filled)}; if the list lacks these documents, leave their cells empty "
            "(NaN): the engine normalises only the scores in the list"
        )


def _lists(runs: Any, qrels: Qrels | None, depth: int) -> tuple[tuple[str, ...], Float, Float, Int]:
    """Return the clause names, and for judged queries the scores of the first ``depth`` documents, the grades and the
    offsets."""
    if isinstance(runs, QueryData):
        scores = np.array(runs.X, dtype=np.float64)
        for a, b in zip(runs.offsets[:-1], runs.offsets[1:], strict=True):
            # keep the first ``depth`` documents of each list, as the engine does
            order = np.argsort(-scores[a:b], axis=0, kind="stable")  # NaN is sorted last
            np.put_along_axis(scores[a:b], order[depth:], np.nan, axis=0)
        names = runs.feature_names or tuple(f"score_{j + 1}" for j in range(scores.shape[1]))
        keep = ~np.isnan(scores).all(axis=1)
        sizes = np.add.reduceat(keep, runs.offsets[:-1], dtype=np.int64)
        return names, scores[keep], np.maximum(runs.y[keep], 0), offsets_of(sizes[sizes > 0].tolist())
    if qrels is None:
        remedy = "read tables by readers.read_csv(path, fill=numpy.nan)" if hasattr(runs, "columns") else ""
        raise BadInput("qrels", "expected the judgments of the runs, got none", remedy)
    pool: Candidates = candidates(
        {name: run.top(depth) for name, run in runs_by_name(runs).items()}, qrels, depth=depth
    )
    judged = np.flatnonzero(pool.judged)
    pool = pool.select(judged[np.argsort(pool.topics[judged], kind="stable")])
    if not (pool.y > 0).any():
        raise BadInput(
            "qrels",
            "expected relevant documents among the results, got none",
            "use the document ids of the runs",
        )
    return pool.names, pool.scores, np.maximum(pool.y, 0), pool.offsets
