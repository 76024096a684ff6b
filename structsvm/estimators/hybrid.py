"""``hybrid_weights``: learn the weights of a hybrid query from judged queries, for the fusion of a search engine."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_choice, check_whole
from structsvm.common.records import plain
from structsvm.estimators.cross_validation import StructuralRankerCV
from structsvm.estimators.structural import StructuralRanker
from structsvm.export.hybrid import ENGINES
from structsvm.export.names import check_feature_names
from structsvm.features.hybrid import clause_columns
from structsvm.metrics import evaluate
from structsvm.metrics.estimates import Estimate, estimate_of
from structsvm.metrics.significance import Comparison
from structsvm.protocols import Float, Int
from structsvm.queries import QueryData, offsets_of
from structsvm.readers.qrels import Qrels
from structsvm.readers.run_features import Candidates, candidates, runs_by_name
from structsvm.readers.runs import Run
from structsvm.trainers.certificate import NothingLearnedWarning

_PULL = 3.0
"""Factor of an additional column, the sum of the scores of all clauses; its weight is added to that of each clause.

A larger factor draws the weights towards equality. A few dozen queries do not determine the weights of two lists: on
TREC DL 2020, weights learned without this column are worse than equal weights.
"""
_FEWEST = 5
_ZEROS = 0.05
"""Fraction of zeros in a column without missing values above which the zeros probably stand for documents missing from
the list."""
_GRID = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]


@dataclass(frozen=True, eq=False)
class HybridWeights:
    """Weights of a hybrid query, and a comparison with equal weights.

    Attributes
    ----------
    to : str
        Name of the engine and its fusion method.
    names : tuple of str
        Names of the clauses.
    weights, lower, upper : ndarray of float64, shape (n_clauses,)
        Weights, which are >= 0 and sum to 1, and the bounds of their 95 % intervals over resampled queries, at the
        selected C.
    C : float
        Trade-off selected by cross-validation.
    estimate : Estimate
        Estimated score of learned weights on new queries; see :meth:`structsvm.StructuralRankerCV.estimate`.
    against : dict of str to Comparison
        Comparisons on the same queries with "equal weights", "RRF" (sums of reciprocal ranks with k = 60) and the "best
        single list"; there is no p-value for fewer than 10 queries.
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
    C: float
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
                "better": self.better,
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

    @property
    def better(self) -> bool:
        """Whether the interval of the difference from equal weights is above 0."""
        return self.against["equal weights"].lower > 0

    @property
    def recommended(self) -> Float:
        """The learned weights if :attr:`better`, otherwise equal weights."""
        return self.weights if self.better else np.full(len(self.names), 1 / len(self.names))

    def text(self, weights: ArrayLike | None = None) -> str:
        """Return the engine's configuration as text, by default with the recommended weights."""
        chosen = np.asarray(self.recommended if weights is None else weights, dtype=np.float64)
        if chosen.shape != (len(self.names),):
            raise BadInput("weights", f"expected {len(self.names)}, got shape {chosen.shape}")
        return ENGINES[self.to].text(self.names, chosen.tolist(), self.depth, self.k)

    @property
    def advice(self) -> str:
        """The recommendation as a sentence."""
        gain, rrf = self.against["equal weights"], self.against["RRF"]
        bounds = f"[{gain.lower:+.4f}, {gain.upper:+.4f}]"
        size = f"{gain.mean_difference:+.4f} {bounds} in {self.estimate.name} on new queries"
        other = f"; but RRF is better by {-rrf.mean_difference:.4f}" * (rrf.upper < 0)
        if self.better:
            alone = f"; {self.best_list} alone may do as well" * (self.against["best single list"].lower <= 0)
            return f"take the learned weights: {size} over equal weights{alone}{other}"
        return f"keep equal weights: the learned ones are not shown to be better ({size}); judge more queries{other}"

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
    loss: str = "ndcg@10",
    n_boot: int = 500,
    random_state: int = 0,
) -> HybridWeights:
    """Learn the weights of a hybrid query (BM25, vectors, ...) from judged queries, for the fusion of a search engine.

    The features are the terms that the engine adds up: each list is truncated to ``depth``, its scores are normalised
    within the list in the way of the engine, and documents missing from the list have the value 0. Weights learned for
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
        "qdrant-rrf".
    depth : int, default=100
        Number of documents of each list that the engine fuses, such as ``pagination_depth`` in OpenSearch and
        ``rank_window_size`` in Elasticsearch.
    k : int, default=60
        Constant of reciprocal ranks.
    loss : str, default="ndcg@10"
        Loss to minimise, as in :class:`structsvm.StructuralRanker`.
    n_boot : int, default=500
        Number of bootstrap samples of the queries, for the intervals of the weights.
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
    Weights are constrained to be >= 0. They are drawn towards equality by an additional column, three times the sum of
    the other columns, whose weight is added to theirs. C is selected by five-fold cross-validation, and the estimate
    uses, for each query, the C selected on the other folds. Measures only consider documents in the lists: relevant
    documents that are in no list do not reduce NDCG, which is therefore higher than the NDCG of
    :func:`structsvm.metrics.evaluate` for runs and of trec_eval.

    Examples
    --------
    >>> from structsvm.readers import make_runs
    >>> runs, qrels, _ = make_runs(n_topics=12, random_state=0)
    >>> result = hybrid_weights(runs, qrels, to="elasticsearch-rrf", n_boot=20)
    >>> result.names, bool(abs(result.weights.sum() - 1) < 1e-12)
    (('system0', 'system1', 'system2'), True)
    >>> print(result.advice.partition(":")[0])
    take the learned weights
    """
    check_choice("to", to, ENGINES)
    check_whole("depth", depth, 1)
    check_whole("k", k, 1)
    check_whole("n_boot", n_boot, 2)
    engine = ENGINES[to]
    if engine.complete and isinstance(runs, QueryData):
        runs = _first_hits(runs, depth)
    names, scores, y, offsets = _lists(runs, qrels, depth)
    check_feature_names(to, names, "runs")
    if len(names) not in engine.clauses:
        most = engine.clauses[-1]
        raise BadInput("runs", f"expected {'2' if most == 2 else f'2 to {most}'} for {to}, got {len(names)}")
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
    columns = clause_columns(scores, offsets, engine.normalizer, k=k)
    data = QueryData(columns / (np.abs(columns).max() or 1.0), y, offsets, np.arange(n))
    data = replace(data, X=np.column_stack([data.X, _PULL * data.X.sum(axis=1)]))
    rng = np.random.default_rng(random_state)

    def trained(model: Any, queries: Int) -> Float:
        part = data.select(queries)
        part = replace(part, query_ids=np.arange(part.n_queries))  # bootstrap samples repeat queries
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingLearnedWarning)  # equal weights are returned in this case
            warnings.filterwarnings("ignore", ".* have equal scores", UserWarning)
            model.fit(part.X, part.y, qid=part.qid)
        found: Float = model.coef_[:-1] + _PULL * model.coef_[-1]
        return found / found.sum() if found.any() else np.full(len(names), 1 / len(names))

    search = StructuralRankerCV(loss, Cs=_GRID, cv=_FEWEST, positive=True, random_state=random_state)
    search._fixed_grid = True
    weights = trained(search, np.arange(n))
    again = StructuralRanker(loss, C=search.C_, positive=True)
    resampled = np.stack([trained(again, rng.integers(0, n, n)) for _ in range(n_boot)])
    lower, upper = np.quantile(resampled, [0.025, 0.975], axis=0)
    measure, ranks = search.scoring_, clause_columns(scores, offsets, "ranks")
    values: Callable[[Float], Any] = lambda score: evaluate(measure, y, score, qid=data.qid, ties="average")  # noqa: E731
    alone = [values(column) for column in ranks.T]
    best = int(np.argmax([each.mean for each in alone]))
    others = {"equal weights": values(columns.sum(axis=1)), "RRF": values(ranks.sum(axis=1))}
    against = {}
    for name, other in (others | {"best single list": alone[best]}).items():
        estimate = estimate_of(search.held_out_, baseline=other.per_query)
        against[name] = cast(Comparison, estimate.difference)
    estimate = estimate._replace(difference=None)
    return HybridWeights(
        to, names, weights, lower, upper, float(search.C_), estimate, against, names[best], n, depth, k
    )


def _first_hits(data: QueryData, depth: int) -> QueryData:
    """Return the first ``depth`` rows of each query, the hits that Vespa's global phase ranks again."""
    place = np.arange(data.n_rows) - np.repeat(data.offsets[:-1], np.diff(data.offsets))
    keep = place < depth
    sizes = np.minimum(np.diff(data.offsets), depth)
    offsets = offsets_of(sizes.tolist())
    return replace(data, X=data.X[keep], y=data.y[keep], offsets=offsets, docid=None, order=None)


def _warn_of_zeros(names: tuple[str, ...], scores: Float) -> None:
    """Warn about columns without missing values in which more than ``_ZEROS`` of the scores are 0."""
    share = np.where(np.isnan(scores).any(axis=0), 0.0, (scores == 0).mean(axis=0))
    if filled := [f"{name} ({part:.0%})" for name, part in zip(names, share, strict=True) if part > _ZEROS]:
        warnings.warn(
            f"many scores are 0: {', '.join(filled)}; if the list lacks these documents, leave their cells empty "
            "(NaN): the engine normalises only the scores in the list",
            stacklevel=3,
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
    ranked = {name: run.top(depth) for name, run in runs_by_name(runs).items()}
    pool: Candidates = candidates(ranked, qrels, depth=depth)
    pool = pool.select(pool.judged)
    if not (pool.y > 0).any():
        problem = "expected relevant documents among the results, got none"
        raise BadInput("qrels", problem, "use the document ids of the runs")
    return pool.names, pool.scores, np.maximum(pool.y, 0), pool.offsets
