"""Worlds from a data set: rankers interleaved live for simulated users, or a preference matrix estimated from
interleavings."""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.common.portable.arrays import dot, products
from structsvm.common.portable.elementary import exp2, log2
from structsvm.online.interleaving.compiled.comparisons import Credit, LiveComparisons, preference_matrix
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.simulation.worlds import PreferenceMatrix
from structsvm.online.users import CascadeUser
from structsvm.protocols import ClickModel, Float, Int
from structsvm.queries import QueryData, dense_column, labels_of


def informative_features(data: QueryData) -> Int:
    """Return the features whose values differ within some query; all other features give random rankings."""
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    # a feature is constant within a query iff the value of each document equals that of the previous document
    inside = np.ones(len(X), dtype=bool)
    inside[data.offsets[:-1][data.offsets[:-1] < len(X)]] = False
    return np.flatnonzero(((np.diff(X, axis=0, prepend=X[:1]) != 0) & inside[:, None]).any(axis=0))


def rank_queries(
    data: QueryData, rankers: Sequence[Any] | None = None, *, random_state: int = 0
) -> RankedQueries:
    """Rank the documents of all queries by features or models.

    Parameters
    ----------
    data : QueryData
        Documents with features and grades.
    rankers : sequence of int, or of objects with ``predict(X)``, or callables, optional
        An integer is the index of a feature (from 0), whose values are the scores; a model or callable returns the
        scores. Higher scores are better. The types may be mixed. The default is all features of
        :func:`informative_features`.
    random_state : int, default=0
        Seed of the order of tied documents.

    Returns
    -------
    RankedQueries

    Examples
    --------
    >>> data = QueryData.from_arrays([[0.1, 0.7], [0.9, 0.2]], [0, 1])
    >>> rank_queries(data, [0, lambda X: X[:, 1]]).rankings
    array([[1, 0],
           [0, 1]], dtype=int32)
    """
    chosen: list[Any] = list(informative_features(data) if rankers is None else rankers)
    if not chosen:
        raise BadInput("rankers", "expected at least one feature or model, got none")
    wrong: Callable[[int, str], BadInput] = lambda i, problem: BadInput("rankers", problem, at=f"[{i}]")  # noqa: E731
    # compute one column of scores per ranker; errors name the index of an invalid ranker
    n_features = int(data.X.shape[1])
    columns = []
    for i, ranker in enumerate(chosen):
        if isinstance(ranker, (int, np.integer)) and not isinstance(ranker, bool):
            if not 0 <= ranker < n_features:
                raise wrong(i, f"expected a feature from 0 to {n_features - 1}, got {int(ranker)}")
            scores = dense_column(data.X, int(ranker))
        elif hasattr(ranker, "predict"):
            # models that scale features within queries require the query ids
            knows = "qid" in inspect.signature(ranker.predict).parameters
            scores = np.asarray(ranker.predict(data.X, **({"qid": data.qid} if knows else {})))
        elif callable(ranker):
            scores = np.asarray(ranker(data.X))
        else:
            expected = "expected the index of a feature, a model with predict(X) or a callable"
            raise wrong(i, f"{expected}, got {ranker!r}")
        if scores.shape != (data.X.shape[0],):
            raise wrong(i, f"expected one score for each of {data.X.shape[0]} rows, got shape {scores.shape}")
        columns.append(scores.astype(np.float64))
    grades = np.maximum(labels_of(data.y, name="data.y"), 0)  # clicks treat unjudged (-1) like grade 0
    return RankedQueries.from_scores(
        np.column_stack(columns), grades, data.offsets, random_state=random_state
    )


def ndcg_table(ranked: RankedQueries, *, k: int = 10) -> Float:
    """Return NDCG@k of each ranker for each query, with gain ``2^grade - 1``; it is 0 if all grades are 0."""
    gains = exp2(ranked.grades) - 1
    table = np.zeros((ranked.n_rankers, ranked.n_queries))
    for q, (a, b) in enumerate(zip(ranked.offsets[:-1], ranked.offsets[1:], strict=True)):
        # the ideal ranking sorts the gains in descending order; document numbers are relative to the query
        depth = min(k, b - a)
        discount = 1 / log2(np.arange(2, depth + 2))
        ideal = dot(np.sort(gains[a:b])[::-1][:depth], discount)
        if ideal > 0:
            table[:, q] = products(gains[a + ranked.rankings[:, a : a + depth]], discount) / ideal
    return table


class InterleavedRankers(LiveComparisons):
    """World in which each comparison samples a query, merges rankings, simulates clicks and credits them.

    :meth:`proxy` returns a world of coin flips with probabilities estimated from many interleavings (mergeRUCB, section
    5).

    Parameters
    ----------
    ranked : RankedQueries
        Rankings, from :func:`rank_queries`.
    clicks : str or ClickModel, default="navigational"
        The simulated user. A name selects a cascade model for the number of grades in the data.
    method : {"probabilistic", "team_draft"}
        Interleaving method for two rankings. More than two rankings are merged by team draft and credited by SOSM.
    length : int, default=10
        Number of documents shown.
    credit : {"sign", "difference"}, default="sign"
        With "sign", the ranker with more credit wins, and ties are broken by a coin flip (MDB, 3.1). With "difference",
        for probabilistic credit and SOSM, a ranker wins with probability ``(1 + x) / 2`` if its credit is larger by the
        share x of the largest possible difference. See Notes.
    n_samples : int, default=10000
        Number of interleavings of each pair for the estimate of :attr:`matrix`, which defines the regret if
        ``utilities`` is None.
    utilities : array-like, shape (n_rankers,), optional
        Value of each ranker, such as ``ndcg_table(ranked).mean(axis=1)``, which defines the regret instead of the
        matrix. Required if no ranker beats all others.
    random_state : int, default=0
        Seed of the estimate.
    n_jobs : int, default=1
        Number of threads for the estimate, which does not affect the result.
    callback : callable, optional
        Called with the share of the estimate that is complete.

    Attributes
    ----------
    n_arms : int
        Number of rankers.
    matrix : ndarray of float64, shape (n_arms, n_arms)
        Estimated probabilities of a win; a tie counts one half.
    gaps, winners : ndarray
        As for ``PreferenceMatrix``.

    Notes
    -----
    With "sign", the best ranker wins more often, and bandits decide sooner: after 200,000 comparisons on MQ2008
    (perfect user), the regret of MDB was less than a tenth of that with "difference". However, a ranker that often wins
    by a little then beats a ranker that rarely wins by much. On NP2004, whose queries have one relevant document, the
    answers of bandits then have a lower NDCG. With "difference", whose mean is zero for equal rankers, the regret of
    MDB and RMED1 in NDCG was a quarter to a half of that with "sign" (perfect and navigational user).

    The probability that a ranker beats another depends on the number of merged rankings (MDB, 4.2.6, "distortion");
    ``gaps`` refers to comparisons of pairs.

    Examples
    --------
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(20, 10, 3, grades=3, random_state=0)
    >>> world = InterleavedRankers(rank_queries(data), n_samples=500)
    >>> bool(world.compare((0, 1), np.random.default_rng(0)) in (0.0, 0.5, 1.0))
    True
    >>> world.proxy().n_arms
    3
    """

    def __init__(
        self,
        ranked: RankedQueries,
        clicks: str | ClickModel = "navigational",
        *,
        method: Literal["probabilistic", "team_draft"] = "probabilistic",
        length: int = 10,
        credit: Credit = "sign",
        n_samples: int = 10_000,
        utilities: ArrayLike | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        callback: Callable[[float], object] | None = None,
    ) -> None:
        self.clicks = _click_model(ranked, clicks)
        self.n_arms = ranked.n_rankers
        self.matrix = preference_matrix(
            ranked,
            self.clicks,
            n_samples,
            method=method,
            length=length,
            credit=credit,
            random_state=random_state,
            n_jobs=n_jobs,
            callback=callback,
        )
        self._utilities = utilities
        # the estimated matrix or the utilities determine the regret; outcomes come from live interleavings
        proxy = self.proxy()
        self.gaps, self.winners = proxy.gaps, proxy.winners
        super().__init__(ranked, self.clicks, method=method, length=length, credit=credit)

    def proxy(self) -> PreferenceMatrix:
        """Return a world of coin flips with the estimated probabilities."""
        return PreferenceMatrix(self.matrix, utilities=self._utilities)

    @property
    def fingerprint(self) -> bytes:
        """Digest of this world, by which a checkpoint detects that another world is given."""
        content = hashlib.sha256(f"{self.method}, wins by {self.credit}".encode())
        for array in (self.ranked.rankings, self.ranked.grades, self.ranked.offsets, *self._tables):
            content.update(np.ascontiguousarray(array).tobytes())
        return content.digest()


def _click_model(ranked: RankedQueries, clicks: str | ClickModel) -> ClickModel:
    if not isinstance(clicks, str):
        return clicks
    grades = int(ranked.grades.max(initial=0)) + 1
    # published tables have 2, 3 or 5 grades; for 4 grades, the first four of 5 grades are used
    try:
        return CascadeUser.named(clicks, next((n for n in (2, 3, 5) if n >= grades), grades))
    except BadInput as error:
        raise error.renamed("clicks") from None
