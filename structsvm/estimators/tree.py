"""``TreeRanker``: a structural SVM over the leaves of boosted trees; ``TreeRankerCV`` also selects C and the number of
trees."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, field, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from structsvm.common.checks import BadInput, check_positive, check_whole, first_few
from structsvm.common.estimator_parameters import parameters
from structsvm.common.names import feature_names
from structsvm.common.row_checks import warn_user
from structsvm.estimators.cross_validation import CrossValidated
from structsvm.estimators.fitted import (
    FittedRanker,
    all_or_nothing,
    measure_of,
    read_rows,
    warn_of_coarse_labels,
    warn_of_uninformative,
)
from structsvm.estimators.linear import check_usual
from structsvm.estimators.structural import bind_problem
from structsvm.estimators.weight_constraints import Monotone, check_signs, signs_by_feature
from structsvm.features.coded_rows import LeafRows
from structsvm.features.forest import Forest
from structsvm.features.input_rows import Categories, categories_of, encode
from structsvm.features.leaves import LeafFeatures, TreeGrowth
from structsvm.features.monotone_leaves import MonotoneRows
from structsvm.oracles import get_oracle
from structsvm.protocols import Callback, Float, Oracle
from structsvm.queries import QueryData, rows_in_groups, split_qid
from structsvm.trainers.block_dual import cache_size
from structsvm.trainers.blocks import Blocks, in_blocks
from structsvm.trainers.certificate import Fit
from structsvm.trainers.choosing_solver import Solver, check_solver
from structsvm.trainers.contract import DEFAULTS
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import fit_path

_N_BLOCKS = 200
"""Minimum number of blocks of queries for frank_wolfe. With fewer, a large C needs more passes; with more, steps are
slower."""

_C_PER_QUERY, _SMOOTH_C_PER_QUERY = 0.002, 0.01
"""Default C per training query with a constraint, with the smallest mean loss on test queries in
``experiments/tree_C.py``; the second value is for smooth losses."""


@parameters
class TreeRanker(FittedRanker, BaseEstimator, TreeGrowth):
    """Ranker that combines the leaves of boosted trees by a structural SVM for a ranking measure.

    LightGBM (extra ``trees``) grows trees by its LambdaRank gradients. Its leaf values, which are computed for one tree
    at a time and shrunk, are then replaced: the weights of all leaves, and of all quantile bins of all features,
    together minimise ``1/2 ||w||^2 + C * mean over queries of the slack``, as the weights of features do in
    :class:`~structsvm.StructuralRanker`. The fit has a certificate: for these leaves and bins, the objective is within
    ``fit_.gap`` of its optimum.

    Parameters
    ----------
    loss : str or Oracle, default="map"
        Loss to minimise, as in :class:`~structsvm.StructuralRanker`. Trees are grown for the
        relevance or gains that the loss uses: ``2^y - 1`` for ``"ndcg@10"``, and ``y`` for ``NDCG(10, gain="linear")``,
        which ranks better if the highest grades are rare.
    C : float, default=None
        Trade-off between a small norm and a small mean slack. None means 0.002 per training query, or 0.01 for smooth
        losses, such as "ndcg@k"; with weights, the number of queries with a constraint, divided by their share of the
        weight, counts. These factors were best on average over five data sets with 20 to 300 training queries
        (``experiments/tree_C.py``); ``fit_.C`` is the value used. Preferably tune ``C`` on a log grid from 1e-2 to 1e2,
        on queries that were not used to grow the trees, as :class:`TreeRankerCV` does.
    n_trees : int, default=300
        Number of trees to grow.
    categorical_features : sequence of int or str, optional
        Columns, by index or name, whose values are category numbers, which are integers from 0 to 1,000,000. Columns of
        a pandas or polars frame with a categorical dtype (or an Arrow dictionary) are recognised automatically.
    monotone_constraints : array-like of int, shape (n_features,), or mapping, default=None
        Sign of each feature, or a mapping from names or column numbers to signs: 1 if the score must not decrease with
        the feature, -1 if it must not increase, 0 if it may do both. LightGBM grows monotone trees, and weights >= 0
        of sets of their leaves keep the order. Missing values are not ordered. None means the constraints of the model
        in ``leaves``, if it has any.
    leaves : LeafFeatures, optional
        Leaves and bins to use instead of those that the other parameters define, usually
        ``LeafFeatures.from_model(booster, n_bins=64)``, which uses the trees of an existing model. None means to grow
        trees.
    tol : float, default=1e-3
        Relative duality gap at which training stops.
    solver : str, default="auto"
        Name of a trainer for :func:`structsvm.trainers.train`, or "auto", which picks newton for smooth losses,
        such as "ndcg@k", otherwise frank_wolfe over blocks of queries, or one_slack for fewer than 400
        queries.
    relevance : float, default=1.0
        Lowest label of a relevant document, for binary losses and for growing trees with these losses.
    growth_callback : callable, default=None
        Called after each tree with the number of trees grown and the total number; a truthy return value stops the
        growth. None means no callback.

    Attributes
    ----------
    leaves_ : LeafFeatures
        The trees and bins.
    coef_ : ndarray, shape (n_columns,)
        Weights of the leaves and bins; ``leaves_.get_feature_names_out()`` names them.
    fit_ : Fit
        Result of training, with its certificate.
    categories_ : dict of str to list
        Categories of each column with a categorical dtype, if ``X`` is a frame.
    missing_features_ : ndarray of int64
        Indices of the columns with missing values in training.
    near_zero_ : ndarray of float64, shape (2, n_features)
        The negative and the positive value of each column closest to 0 in training, or an infinity if there is none;
        :func:`structsvm.export.export_model` warns if an engine takes such a value for 0.
    n_uninformative_ : int
        Number of queries without a constraint.

    See Also
    --------
    TreeRankerCV : Selects C and the number of trees.
    structsvm.features.LeafFeatures : Transformer from features to leaves and bins.

    Notes
    -----
    In the bins, a missing value (NaN) is below all edges. In the trees, LightGBM learns for each split to which side
    missing values go; for a feature without missing values in training, a missing value counts as 0, and ``predict``
    issues a warning that names the feature.

    ``predict`` matches the categories of a frame by value, whatever their dtype; an unknown category counts as missing,
    and a warning is issued. In an array, categories are indices into ``categories_``.

    The edges of bins lie between values of the training data, so that float32 and float64 copies of the same numbers
    have the same scores.

    The first fit after an installation includes a few seconds of compilation, which ``fit(..., verbose=True)`` reports;
    ``structsvm warm-up`` compiles in advance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(800, 3)), np.repeat(np.arange(40), 20)
    >>> y = (X[:, 0] * X[:, 1] > 0.5).astype(int)
    >>> model = TreeRanker(n_trees=20, n_leaves=7, random_state=0).fit(X, y, qid=qid)
    >>> bool(model.fit_.gap <= 1e-3), bool(model.score(X, y, qid=qid) > 0.8)
    (True, True)
    """

    loss: str | Oracle = "map"
    C: float | None = None
    n_trees: int = 300
    _: KW_ONLY
    n_leaves: int = 15
    learning_rate: float = 0.1
    n_bins: int = 64
    monotone_constraints: Monotone = None
    leaves: LeafFeatures | None = None
    tol: float = 1e-3
    solver: Solver = "auto"
    relevance: float = 1.0
    max_passes: int = 1000
    callback: Callback | None = None
    growth_callback: Callable[[int, int], object] | None = None

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Grow the trees and train.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Features, with NaN for missing values. A pandas or polars frame may have a column ``qid``, which is not a
            feature.
        sample_weight : array-like, shape (n_rows,), optional
            Numbers >= 0; the weight of a query is the mean over its rows. Queries of weight 0 are not used for growing
            trees. None means equal weights.

        Raises
        ------
        ImportError
            If trees have to be grown and LightGBM is not installed.
        """
        data, weights = self._grouped(X, y, qid, sample_weight)
        features = self._features()
        C = self._default_C(self._bind_empty(data, weights)) if self.C is None else float(self.C)
        problem = self._problem(features, self._learn(features, data, weights), data, weights)
        self._keep(next(self._train(problem, [C])), features)
        warn_of_uninformative(self, self.loss)
        return self

    def _scores(self, X: Any, qid: ArrayLike) -> Float:
        self._warn_of_missing(X)
        return self.leaves_.scores(X, self.coef_)

    def _warn_of_missing(self, X: NDArray[Any]) -> None:
        """Warn about missing values in numeric columns that had none in training."""
        seen = getattr(self, "missing_features_", range(X.shape[1]))  # missing in earlier model files
        missing = set(_columns_with_nan(X)) - {*seen, *self.leaves_._categorical(X.shape[1])}
        if missing:
            names = feature_names(getattr(self, "feature_names_in_", None), X.shape[1])
            few = first_few((names[f] for f in sorted(missing)), 5)
            warn_user(
                f"X: missing values in {few}, which had none in training; the trees treat them as 0, and the bins as "
                "lower than all values; impute them, or train on rows with missing values"
            )

    def _measure(self) -> Any:
        return measure_of(self.loss)

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        if self.C is not None:
            check_positive("C", self.C)
        check_usual(self)
        get_oracle(self.loss, relevance=self.relevance)
        check_solver(self.solver, DEFAULTS, check_signs(self.monotone_constraints))
        if self.leaves is not None and not isinstance(self.leaves, LeafFeatures):
            raise BadInput(
                "leaves", "expected LeafFeatures", code="LeafFeatures.from_model(booster)", value=self.leaves
            )
        self._features().check_options()

    def _features(self) -> LeafFeatures:
        """Return an unfitted transformer from features to leaves and bins."""
        if self.leaves is not None:
            features: LeafFeatures = clone(self.leaves)
        else:
            # grow trees for the relevance or gain of the loss, as differences of grades that the loss ignores would be
            # noise
            oracle = get_oracle(self.loss, relevance=self.relevance)
            relevance, gain = getattr(oracle, "relevance", None), cast(Any, getattr(oracle, "gain", "exp2"))
            features = LeafFeatures(
                self._most_trees(),
                self.n_leaves,
                self.learning_rate,
                self.n_bins,
                min_rows=self.min_rows,
                l2_regularization=self.l2_regularization,
                bags=self.bags,
                relevance=relevance,
                gain=gain,
                categorical_features=self.categorical_features,
                random_state=self.random_state,
                callback=self.growth_callback,
            )
        features.set_params(n_jobs=self.n_jobs)
        if known := getattr(self, "categories_", {}):
            features.categorical_features = [*(features.categorical_features or ()), *known]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(features, name, getattr(self, name))
        return features

    def _most_trees(self) -> int:
        return self.n_trees

    def _grouped(
        self, X: Any, y: ArrayLike, qid: ArrayLike, sample_weight: ArrayLike
    ) -> tuple[QueryData, Float]:
        """Return validated rows grouped by query and one weight per query; set the attributes that describe the
        input."""
        self.check_options()
        X, qid = split_qid(X, qid)
        self.categories_: Categories = {}  # discard the categories of an earlier fit
        self._features().check_numbers(X)
        self.categories_ = categories_of(X)
        if self.categories_ and self.leaves is not None and self.leaves.forest is not None:
            raise BadInput(
                "X",
                f"expected numbers, as for the trees of {{leaves}}, got categories in {list(self.categories_)}",
                "pass the numbers of the categories that the trees were grown on",
            )
        X = encode(X, self.categories_)
        X, y, _, grouping, weights = read_rows(self, X, y, qid, sample_weight, sparse=False, missing=True)
        self.missing_features_, self.near_zero_ = _columns_with_nan(X), _near_zero(X)
        forest = None if self.leaves is None else self.leaves.forest
        if forest is not None:
            forest.check_columns(X.shape[1], getattr(self, "feature_names_in_", None))
        warn_of_coarse_labels(self, get_oracle(self.loss, relevance=self.relevance), y)
        return rows_in_groups(X, y, grouping), weights

    def _bind_empty(self, data: QueryData, weights: Float) -> RankingProblem:
        """Return the problem without columns; this raises BadInput, before trees are grown, if no query has a
        constraint."""
        nothing = LeafRows(np.empty((data.n_rows, 0), dtype=np.uint8), np.zeros(1, dtype=np.int64), 0)
        return bind_problem(self, self.loss, replace(data, X=nothing), weights)

    def _default_C(self, problem: RankingProblem) -> float:
        """Return the default per query with a constraint, scaled as by :func:`structural.usual_C`."""
        total, constrained = problem.masses
        per_query = _SMOOTH_C_PER_QUERY if problem.smooth else _C_PER_QUERY
        return float(per_query * ((self.n_queries_ - self.n_uninformative_) * total / constrained))

    def _by_newton(self, problem: RankingProblem) -> bool:
        """Return whether "auto" chooses newton: for smooth losses without signs, which newton does not support."""
        return problem.smooth and not isinstance(problem.rows, MonotoneRows)

    def _problem(
        self, features: LeafFeatures, rows: LeafRows, data: QueryData, weights: Float
    ) -> RankingProblem:
        signs = features.forest_.signs
        X = rows if signs is None else MonotoneRows(rows, features.forest_, signs)
        problem = bind_problem(self, self.loss, replace(data, X=X), weights)
        if self.solver != "auto" or self._by_newton(problem) or problem.n_queries < 2 * _N_BLOCKS:
            return problem
        # A plane has one number per leaf and bin. Planes of every query would not fit in memory, but planes of a few
        # hundred blocks of queries do; frank_wolfe then needs half to a fifth of the passes of one_slack.
        blocks = in_blocks(problem, _N_BLOCKS)
        return problem if cache_size(blocks) is None else blocks

    def _grow(self, features: LeafFeatures, data: QueryData, weights: Float) -> Forest:
        names, numbers = getattr(self, "feature_names_in_", None), getattr(self, "_numbers_", None)
        signs = signs_by_feature(self.monotone_constraints, data.n_features, names, numbers)
        whole = None if signs is None else signs.astype(np.int64)
        if features.forest is not None:
            kept = self.monotone_constraints is None
            return features.forest if kept else replace(features.forest, signs=whole)
        used = weights > 0
        if not used.all():
            data, weights = data.select(used), weights[used]
        alike = (weights == weights[0]).all()
        row_weights = None if alike else np.repeat(weights, np.diff(data.offsets))
        return replace(features.grow(data.X, data.y, data.offsets, row_weights, whole), signs=whole)

    def _learn(self, features: LeafFeatures, data: QueryData, weights: Float) -> LeafRows:
        """Grow the trees and compute the bins; return the rows of ``data`` over leaves and bins."""
        features._set(self._grow(features, data, weights), features.edges(data.X))
        return features.rows(data.X)

    def _prepare(
        self, X: object, y: ArrayLike, qid: ArrayLike, sample_weight: ArrayLike
    ) -> tuple[RankingProblem, tuple[Any, ...]]:
        """Return the problem over the grown trees, and the arguments that :meth:`_keep` takes in addition to a fit;
        warn if most queries have no constraint."""
        data, weights = self._grouped(X, y, qid, sample_weight)
        features = self._features()
        self._bind_empty(data, weights)
        warn_of_uninformative(self, self.loss)
        return self._problem(features, self._learn(features, data, weights), data, weights), (features,)

    def _train(self, problem: RankingProblem, Cs: Sequence[float]) -> Iterator[Fit]:
        """Yield a fit for each C in ascending order."""
        solver, rows = self.solver, problem.rows
        if solver == "auto" and not self._by_newton(problem):
            solver = "frank_wolfe" if isinstance(problem.separator, Blocks) else "one_slack"
        fits = fit_path(
            problem,
            Cs,
            solver=solver,
            tol=float(self.tol),
            max_passes=self.max_passes,
            cone=rows.signs if isinstance(rows, MonotoneRows) else None,
            callback=self.callback,
        )
        for fit in fits:
            yield replace(fit, w=rows.leaf_weights(fit.w)) if isinstance(rows, MonotoneRows) else fit

    def _keep(self, fit: Fit, features: LeafFeatures) -> None:
        """Set the learned attributes."""
        self.fit_, self.leaves_, self.coef_ = fit, features, fit.w

    def _takes_sparse(self) -> bool:
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@parameters
class TreeRankerCV(TreeRanker, CrossValidated):
    """:class:`TreeRanker` that selects C and the number of trees by cross-validation over queries.

    In each fold, trees are grown and bins are computed without the held-out queries: otherwise the measure on these
    queries would be too high, because their labels would have affected the trees. The largest number of trees is grown
    once per fold; smaller numbers use the first trees. Finally, trees are grown on all queries.

    Parameters
    ----------
    Cs : sequence of float or None, default=None
        Values of C to try. None means 9 values from 1e-2 to 1e2, evenly spaced on a log scale.
    n_trees : int or sequence of int, default=(100, 200, 300)
        Numbers of trees to try. Of several combinations with equal means, the one with the fewest trees is selected,
        then the one with the smallest C.
    leaves : LeafFeatures, optional
        As in :class:`TreeRanker`. If it contains the trees of a model, no trees are grown and ``n_trees`` is ignored.
        In that case, pass explicit splits as ``cv``, such that the model was not trained on the held-out queries.
    random_state : int, default=None
        Seed for growing trees, and for shuffling the queries before they are assigned to folds; None assigns them in
        order.

    Attributes
    ----------
    C_ : float
        The selected C.
    n_trees_ : int
        The selected number of trees.
    scores_ : ndarray, shape (n_queries, n_numbers_of_trees, n_Cs)
        Value of the measure for each held-out query, number of trees and C; NaN for queries in no test part.
    Cs_ : ndarray, shape (n_Cs,)
        The values of C that were tried, in ascending order.
    numbers_of_trees_ : ndarray of int64
        The numbers of trees that were tried, in ascending order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(800, 3)), np.repeat(np.arange(40), 20)
    >>> y = (X[:, 0] * X[:, 1] > 0.5).astype(int)
    >>> model = TreeRankerCV(Cs=[0.1, 1], n_trees=[5, 20], cv=2, n_leaves=7, random_state=0).fit(X, y, qid=qid)
    >>> model.scores_.shape, model.n_trees_ in (5, 20)
    ((40, 2, 2), True)
    """

    C: float = field(init=False)
    n_trees: int | Sequence[int] = (100, 200, 300)  # type: ignore[assignment]
    _: KW_ONLY
    random_state: int | None = None

    _usual = (1e-2, 1e2, 9)

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Select C and the number of trees, then grow trees and train on all queries.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in :meth:`TreeRanker.fit`, except that ``qid`` is required and must have at least two distinct ids.

        Raises
        ------
        ImportError
            If trees have to be grown and LightGBM is not installed.
        """
        data, weights = self._grouped(X, y, qid, sample_weight)
        numbers = self._numbers()
        choice = self._by_folds(data, weights, self._splits(data.n_queries))
        self.numbers_of_trees_, self.n_trees_ = numbers, int(numbers[choice.best])
        features = self._features()
        if features.forest is None:
            features.set_params(n_trees=self.n_trees_)
        rows = self._learn(features, data, weights)
        with choice.training():
            fit = next(self._train(self._problem(features, rows, data, weights), [self.C_]))
        self._warn_of_ties(data, rows @ fit.w)
        self._keep(fit, features)
        warn_of_uninformative(self, self.loss)
        return self

    def _held_out(self, part: QueryData, weights: Float, held_out: QueryData, Cs: Float) -> Float:
        """Return the values of held-out queries for each number of trees and each C; trees are grown only once."""
        self._bind_empty(part, weights)
        numbers = self._numbers()
        features = self._features()
        inside, outside = self._learn(features, part, weights), features.rows(held_out.X)
        values = np.empty((held_out.n_queries, numbers.size, Cs.size))
        grown = features.forest_.n_trees  # fewer if no split has a gain or a callback stops the growth
        for i, n in enumerate(np.minimum(numbers, grown).tolist()):
            if i > 0 and numbers[i - 1] >= grown:
                values[:, i] = values[:, i - 1]
                continue
            problem = self._problem(features, inside.of_trees(0, n), part, weights)
            few = outside.of_trees(0, n)
            for j, fit in enumerate(self._train(problem, Cs.tolist())):
                values[:, i, j] = self._values(held_out.y, held_out.qid, few @ fit.w)
        return values

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        self._numbers()
        super().check_options()
        self._check_choice()

    def _most_trees(self) -> int:
        return int(self._numbers()[-1])

    def _numbers(self) -> NDArray[np.int64]:
        """Return the numbers of trees to try, in ascending order."""
        if self.leaves is not None:
            forest = self.leaves.forest
            return np.array([self.leaves.n_trees if forest is None else forest.n_trees])
        given: Any = self.n_trees
        given = [given] if np.ndim(given) == 0 else list(given)
        if not given:
            raise BadInput("n_trees", "expected at least one number, got none")
        return np.unique([check_whole("n_trees", n, 1) for n in given])


def _columns_with_nan(X: NDArray[Any]) -> NDArray[np.int64]:
    return np.flatnonzero(np.isnan(X.min(axis=0)))  # min propagates NaN


def _near_zero(X: NDArray[Any]) -> Float:
    """Return the negative and the positive value of each column closest to 0."""
    out = np.empty((2, X.shape[1]))
    for j, column in enumerate(X.T):
        out[:, j] = (
            column.max(where=column < 0, initial=-np.inf),
            column.min(where=column > 0, initial=np.inf),
        )
    return out
