"""``StructuralRanker``: the structural SVM for rankings as a scikit-learn estimator."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, field
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from structsvm.common.checks import check_flag, check_positive, check_whole, missing_parts
from structsvm.common.estimator_parameters import parameters
from structsvm.estimators import weight_constraints
from structsvm.estimators.fitted import (
    all_or_nothing,
    measure_of,
    no_constraint,
    warn_of_coarse_labels,
    warn_of_uninformative,
)
from structsvm.estimators.linear import LinearSVM, Scale
from structsvm.oracles import get_oracle
from structsvm.protocols import Callback, Float, Oracle, Separator
from structsvm.queries import QueryData
from structsvm.trainers.certificate import Fit
from structsvm.trainers.choosing_solver import Solver, check_solver
from structsvm.trainers.contract import Options
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import fit_path

Ranker = TypeVar("Ranker", bound=BaseEstimator)


def usual_C(C: float | None, loss: str | Oracle, masses: tuple[float, float]) -> float:
    """Return C after checking it, or the default of the loss if C is None; ``masses`` are those of the problem."""
    if C is not None:
        return check_positive("C", C)
    # The mean slack counts queries without a constraint, whose slack is zero: a given C is weaker the more of them
    # there are. The default is larger by the same factor, so that it does not depend on them.
    total, constrained = masses
    return check_positive("C", getattr(get_oracle(loss), "usual_C", 1.0) * total / constrained)


@parameters
class StructuralRanker(LinearSVM):
    """Linear ranker trained to the exact optimum of a convex bound on a ranking loss.

    Minimises ``1/2 ||w||^2 + C * mean over queries of the slack``, where the slack of a query is an upper bound on the
    loss of its ranking. For ``"map"`` and ``"roc"`` it is the slack of a structural SVM with margin rescaling (Yue et
    al.; thesis, chapter 3). For ``"ndcg@10"``, ``"mrr"`` and ``"precision@10"`` it is a mean of logarithms of soft
    ranks. For ``"pairs"`` the mean is over all pairs of the data set instead of over queries. The fit has a
    certificate: the objective is within ``fit_.gap`` of its optimum.

    Parameters
    ----------
    loss : str or Oracle, default="map"
        Loss to minimise: ``"map"`` (1 - average precision), ``"roc"``, ``"pairs"``, ``"ndcg@10"``, ``"mrr"`` or
        ``"precision@10"``, where 10 stands for any cut-off, or an oracle object. ``"mrr"`` and ``"precision@10"`` have
        the same objective (:class:`structsvm.oracles.ReciprocalRank`).
    C : float, default=None
        Trade-off between a small norm and a small mean slack. None means ``usual_C`` of the loss, such as 10 for
        "ndcg@k" and "pairs", and 1 for losses without this attribute, such as "map" (``experiments/default_C.py``),
        divided by the fraction of queries that have a constraint, so that other queries do not change the default;
        ``fit_.C`` is the value used. Preferably tune ``C`` on a log grid, from 1e-3 to 1e3 for features with about unit
        variance.
    tol : float, default=1e-3
        Relative duality gap at which training stops.
    solver : str, default="auto"
        Name of a trainer for :func:`structsvm.trainers.train`, or "auto"; all trainers reach the same optimum.
        A trainer that does not support the other parameters raises an error: newton, for example, only supports smooth
        losses, such as ``"ndcg@10"``, without constraints; ``constraints`` and ``penalty`` need a trainer such as
        one_slack.
    positive : bool, default=False
        Whether to constrain the weights to be >= 0.
    monotone_constraints : array-like of int, shape (n_features,), or mapping, default=None
        Sign of each weight: 1 for a weight >= 0, so that the score does not decrease with the feature, -1 for a weight
        <= 0, and 0 for an unconstrained weight. A mapping gives the signs of some features by column index, or by name
        if ``X`` has column names: ``{"bm25": 1, "spam": -1}``. None means no constraint.
    constraints : callable, default=None
        Function from the cvxpy variable ``w``, the weights of the scaled features, to a list of convex cvxpy
        constraints. Features can be selected by name if ``X`` has column names:
        ``lambda w: [w["title"] >= w["body"]]``. None means no constraint.
    penalty : callable, default=None
        Function from ``w`` to a convex cvxpy expression that replaces ``1/2 ||w||^2``, such as ``cvxpy.norm1`` to
        select few features. Its minimum must be >= 0. With a penalty, weights are set to 0 as long as the gap remains
        within ``tol``. None means ``1/2 ||w||^2``.
    stabilise : bool, default=True
        Whether to stabilise the cutting-plane method; False is the textbook method.
    qp : {"active_set", "cvxpy"}, default="active_set"
        Solver of the small quadratic programme of cutting-plane methods.

    Attributes
    ----------
    fit_ : Fit
        Result of training, with the certificate in ``primal``, ``dual`` and ``gap``, and with further attributes such
        as ``n_passes`` and ``history``.
    n_uninformative_ : int
        Number of queries without a constraint, which have weight zero or labels that cannot be ranked wrongly (for MAP,
        no relevant or no non-relevant document). The mean slack counts them, with slack zero; the default of ``C``
        makes up for it.
    constraints_, penalty_ : tuple of str, str
        The constraints and the penalty as text; defined only if ``constraints`` or ``penalty`` was given.

    See Also
    --------
    StructuralRankerCV : Selects C by cross-validation over queries.

    Notes
    -----
    At least one query must have a constraint. Features that do not vary within any query, such as constant features,
    cannot order documents, and have weight zero, up to rounding. If all features are of this kind, the fit succeeds
    with zero weights and issues a :class:`~structsvm.trainers.NothingLearnedWarning`, as does any fit that is barely
    better than ``w = 0``. Missing values raise an error; impute them first.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    >>> y = (X[:, 0] + 0.1 * rng.normal(size=200) > 0).astype(int)
    >>> model = StructuralRanker(loss="map", C=10).fit(X, y, qid=qid)
    >>> bool(model.fit_.gap <= 1e-3), bool(model.score(X, y, qid=qid) > 0.8)
    (True, True)
    """

    loss: str | Oracle = "map"
    C: float | None = None
    _: KW_ONLY
    tol: float = 1e-3
    solver: Solver = "auto"
    relevance: float = 1.0
    scale: Scale = "none"
    positive: bool = False
    monotone_constraints: weight_constraints.Monotone = None
    constraints: weight_constraints.Constraints = None
    penalty: weight_constraints.Penalty = None
    max_passes: int = 1000
    stabilise: bool = True
    qp: Literal["active_set", "cvxpy"] = "active_set"
    n_jobs: int | None = None
    callback: Callback | None = None

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Train the ranker.

        Parameters
        ----------
        y : array-like of numbers, shape (n_rows,)
            Graded labels; for binary losses, documents with ``y >= relevance`` are relevant.
        """
        problem, _ = self._prepare(X, y, qid, sample_weight)
        self._keep(next(self._train(problem, [usual_C(self.C, self._loss, problem.masses)])))
        return self

    @property
    def _loss(self) -> str | Oracle:
        return self.loss

    def _measure(self) -> Any:
        return measure_of(self._loss)

    def _prepare(
        self, X: object, y: ArrayLike, qid: ArrayLike, sample_weight: ArrayLike
    ) -> tuple[RankingProblem, Any]:
        """Return the training problem, and the arguments that :meth:`_keep` takes in addition to a fit; warn if most
        queries have no constraint."""
        data, weights = self._grouped(X, y, qid, sample_weight)  # checks the options, the loss among them
        problem = bind_problem(self, self._loss, data, weights)
        warn_of_uninformative(self, self._loss)
        return problem, ()

    def _keep(self, fit: Fit) -> None:
        """Set the learned attributes."""
        self.fit_, self.coef_ = fit, fit.w

    def _train(self, problem: RankingProblem, Cs: Sequence[float]) -> Iterator[Fit]:
        """Yield a fit for each C in ascending order."""
        cone, region = weight_constraints.compile_weights(self, problem.n_features)
        return fit_path(
            problem,
            Cs,
            solver=self.solver,
            tol=float(self.tol),
            max_passes=self.max_passes,
            cone=cone,
            region=region,
            stabilise=self.stabilise,
            qp=self.qp,
            callback=self.callback,
        )

    def _grouped(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> tuple[QueryData, Float]:
        data, weights = super()._grouped(X, y, qid, sample_weight)
        warn_of_coarse_labels(self, get_oracle(self._loss, relevance=self.relevance), data.y)
        return data, weights

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        super().check_options()
        if self.C is not None:
            check_positive("C", self.C)
        get_oracle(self._loss, relevance=self.relevance)
        check_flag("positive", self.positive)
        needed = weight_constraints.check_weights(self)
        check_solver(self.solver, Options(stabilise=self.stabilise, qp=self.qp), needed)


def bind_problem(model: Any, loss: str | Oracle, data: QueryData, weights: Float) -> RankingProblem:
    """Return the problem of a loss bound to data, and set the numbers of queries of the model; raise BadInput if no
    query has a constraint."""
    separator = get_oracle(loss, relevance=model.relevance).bind(data.y, data.offsets)
    if missing := missing_parts(Separator, separator):
        raise TypeError(
            f"loss={loss!r}: bind() returns a separator without {missing}; see structsvm.testing.check_oracle"
        )
    informative = np.asarray(separator.informative) & (weights > 0)
    model.n_queries_ = data.n_queries
    model.n_uninformative_ = int(data.n_queries - informative.sum())
    if model.n_uninformative_ == data.n_queries:
        raise no_constraint(loss, (data.y.min(), data.y.max()), data.n_queries, model.relevance)
    if separator.query_weights is not None:
        weights = weights * separator.query_weights
    return RankingProblem(data.X, data.offsets, separator, weights=weights, n_jobs=model.n_jobs)


@parameters
class SVMMap(StructuralRanker):
    """SVM-map: :class:`StructuralRanker` with ``loss="map"`` (Yue et al. 2007).

    Examples
    --------
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(60, 10, 4, grades=2, random_state=0)
    >>> train, test = data.select(range(40)), data.select(range(40, 60))
    >>> model = SVMMap(C=10).fit(train.X, train.y, qid=train.qid)
    >>> model.fit_.gap <= 1e-3  # relative gap: no weights lower the objective by more than this fraction
    True
    >>> print(f"MAP {model.score(test.X, test.y, qid=test.qid):.2f} on other queries")
    MAP 0.93 on other queries
    >>> model.rank(test.X[:10], test.qid[:10])[:3]  # ranks of the first three documents
    array([3, 1, 9])
    """

    loss: str | Oracle = field(default="map", init=False)


@parameters
class SVMRoc(StructuralRanker):
    """SVM-roc: :class:`StructuralRanker` with ``loss="roc"`` (Joachims 2005).

    Examples
    --------
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(60, 10, 4, grades=2, random_state=0)
    >>> train, test = data.select(range(40)), data.select(range(40, 60))
    >>> model = SVMRoc(C=10).fit(train.X, train.y, qid=train.qid)
    >>> print(f"ROC area {model.score(test.X, test.y, qid=test.qid):.2f} on other queries")
    ROC area 0.91 on other queries
    """

    loss: str | Oracle = field(default="roc", init=False)


@parameters
class SVMNDCG(StructuralRanker):
    """:class:`StructuralRanker` for NDCG, ``loss="ndcg@k"``.

    Parameters
    ----------
    k : int or None, default=10
        Cut-off of NDCG; None means the whole ranking.

    Examples
    --------
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(60, 10, 4, grades=4, random_state=0)
    >>> train, test = data.select(range(40)), data.select(range(40, 60))
    >>> model = SVMNDCG(C=10, k=5).fit(train.X, train.y, qid=train.qid)
    >>> print(f"NDCG@5 {model.score(test.X, test.y, qid=test.qid):.2f} on other queries")
    NDCG@5 0.88 on other queries
    """

    loss: str | Oracle = field(default="ndcg", init=False)
    k: int | None = 10

    @property
    def _loss(self) -> str:  # derived from k, which set_params may change
        if self.k is not None:
            check_whole("k", self.k, remedy="None means the whole ranking")
        return "ndcg" if self.k is None else f"ndcg@{self.k}"


def model_path(
    model: Ranker,
    X: object,
    y: ArrayLike,
    Cs: Sequence[float],
    *,
    qid: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Iterator[Ranker]:
    """Yield fitted copies of a ranker for several values of C in ascending order, each warm-started from the previous
    fit.

    Parameters
    ----------
    model : StructuralRanker or TreeRanker
        Ranker to copy, which is not changed; its ``C`` is ignored. Trees are grown only once.
    X, y, qid, sample_weight
        As in ``fit``.
    Cs : sequence of float
        Values of the trade-off, each > 0.

    Yields
    ------
    StructuralRanker or TreeRanker
        A fitted copy for each C, as soon as it is trained.

    Examples
    --------
    >>> [(model.C, model.coef_) for model in model_path(SVMMap(), [[1.0], [0.0]], [1, 0], [1.0, 0.1], qid=0)]
    [(0.1, array([0.2])), (1.0, array([0.25]))]
    """
    grid = [check_positive("C", C) for C in Cs]
    first: Any = clone(model)  # receives the attributes that describe the input
    problem, others = first._prepare(X, y, qid, sample_weight)
    for fit in first._train(problem, grid):
        fitted = clone(first).set_params(C=fit.C)
        fitted.__dict__.update(
            {name: value for name, value in vars(first).items() if name not in first.get_params()}
        )
        fitted._keep(fit, *others)
        yield fitted
