"""Leaves of boosted trees, and bins of each feature, as binary columns.

A row takes one byte per tree, or per two trees of at most 16 leaves, and one byte per feature. A linear model of these
columns is not linear in the features: a leaf is a conjunction of conditions, and bins form a step function of one
feature. The use of leaves of boosted trees as features of a linear model is due to He et al., "Practical lessons from
predicting clicks on ads at Facebook" (ADKDD 2014), section 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from structsvm.common.checks import BadInput, check_choice, check_number, check_positive, check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.common.extras import extra, needed
from structsvm.common.machine import count_threads, return_freed_memory
from structsvm.features.binning import MOST_BINS, BinnedFeatures, names_of_bins
from structsvm.features.boosters import forest_of
from structsvm.features.coded_rows import LeafRows, pack
from structsvm.features.forest import MOST_LEAVES, Forest
from structsvm.features.lookup import Lookup
from structsvm.protocols import Float, Int
from structsvm.queries import column_numbers, group_queries, refuse_masked, refuse_number

_FEWEST_ROWS = 20
"""LightGBM's own default of ``min_data_in_leaf``."""

_LARGEST_CATEGORY = 1_000_000
"""Largest category number: LightGBM keeps a table per column with an entry for each number up to the largest one."""

_LARGEST_WEIGHT = 1e30

_SHARE = 0.7
"""Share of the queries on which the trees of a bag are grown, if there are several bags."""

_SAMPLE = 50_000
"""Number of rows from which the edges of bins are learned, both LightGBM's own and those of ``n_bins``. A quantile is
then off by less than half a percent of the rows. Four times as many rows would take a fifth of the time that 100 trees
take to grow."""

_LONGEST_QUERY = 10_000
"""Maximum number of rows per query of LightGBM's objective "lambdarank"."""

_MOST_GRADES = 31
"""Number of grades that trees distinguish: LightGBM's gains 2^grade - 1 are 32-bit numbers."""

_MOST_IN_HALF = 16
"""Maximum number of leaves of a tree whose leaf numbers take half a byte."""

_BLOCK = 1 << 17
"""Rows looked up at a time before their leaf numbers are packed."""

_LOOKUPS: WeakKeyDictionary[Any, dict[Any, Lookup]] = WeakKeyDictionary()
"""Compiled look-ups of each object, by dtype. They are derived data, which copies and model files omit."""


@dataclass(eq=False, repr=False)
class TreeGrowth:
    """Parameters of the classes that grow trees and learn bins, with their documentation.

    List it as the last base class, so that the parameters of the other bases come first.

    Parameters
    ----------
    n_leaves : int, default=15
        Maximum number of leaves per tree.
    learning_rate : float, default=0.1
        Shrinkage of the leaf values while trees are grown; later trees depend on the shrunken values.
    n_bins : int, default=64
        Number of quantile bins per feature, at most 255; 0 for none. Bins help if there are few training data.
    min_rows : int, default=20
        Minimum number of rows per leaf.
    l2_regularization : float, default=0.0
        ``lambda_l2`` of LightGBM, added to the sum of Hessians in a leaf. It lowers the gain of splits that separate
        few rows, or rows whose order is settled.
    bags : int, default=1
        Number of boosting runs over which the trees are divided. If it exceeds 1, each run sees a random 70 % of the
        queries; the trees of the runs alternate, and are more diverse than those of one long run.
    categorical_features : sequence of int or str, optional
        Columns, by index or name, that hold category numbers: integers from 0 to 1,000,000. They are passed to
        LightGBM as categorical and have no bins. None means no such columns.
    n_jobs : int, default=None
        Number of threads; None means 1, -1 all processors. The result does not depend on it.
    random_state : int, default=None
        Seed of LightGBM and of the sample of rows from which the bins are learned.
    """

    _: KW_ONLY
    min_rows: int = _FEWEST_ROWS
    l2_regularization: float = 0.0
    bags: int = 1
    categorical_features: Sequence[int | str] | None = None
    n_jobs: int | None = None
    random_state: int | None = None


@parameters
class LeafFeatures(TransformerMixin, BaseEstimator, TreeGrowth):
    """Map rows to indicators of the leaves that they fall into and of the bin edges that their values exceed.

    ``fit`` grows the trees with LightGBM (extra ``trees``), using LambdaRank gradients over whole rankings, and
    discards their leaf values. :meth:`from_model` takes the trees of an existing model. A fitted object needs only
    NumPy and Numba.

    Parameters
    ----------
    n_trees : int, default=300
        Number of trees. If features interact, fewer trees rank worse: on synthetic data with products of features,
        100 trees reached a MAP of .61 and 300 trees .66.
    relevance : float or None, default=1.0
        Trees are grown for the binary labels ``y >= relevance`` or, if None, for the original grades.
    gain : {"exp2", "linear"}, default="exp2"
        Gain of grade ``y`` if ``relevance`` is None: ``2^y - 1`` (LightGBM's default) or ``y``. If the highest grades
        are rare, ``2^y - 1`` lets their few documents decide the splits.
    forest : Forest, optional
        Trees to use instead of growing any; see :meth:`from_model`.
    callback : callable, default=None
        Called after each tree with the number of trees grown and the total; a truthy return value ends the growth.

    Attributes
    ----------
    forest_ : Forest
    thresholds_ : list of ndarray of float64
        Edges of the bins of each feature, ascending from minus infinity; empty without bins.
    starts_ : ndarray of int64, shape (n_trees + n_functions + 1,)
        Columns ``starts_[t]:starts_[t + 1]`` of the output are the leaves of tree ``t``; those of the features' bins
        follow.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of str
        Only when ``X`` has string column names.

    Notes
    -----
    Trees overfit the labels that they were grown on: choose C and the number of trees on other queries, as
    :class:`structsvm.TreeRankerCV` does.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 3)), np.repeat(np.arange(20), 20)
    >>> y = (X[:, 0] * X[:, 1] > 0.5).astype(int)
    >>> leaves = LeafFeatures(n_trees=5, n_leaves=4, n_bins=8, random_state=0).fit(X, y, qid=qid)
    >>> rows = leaves.transform_rows(X)
    >>> rows.codes.shape, rows.shape
    ((400, 8), (400, 44))
    >>> bool((leaves.transform(X).sum(axis=1) >= 5).all())
    True
    """

    __metadata_request__fit: ClassVar = {"qid": True}

    n_trees: int = 300
    n_leaves: int = 15
    learning_rate: float = 0.1
    n_bins: int = 64
    _: KW_ONLY
    relevance: float | None = 1.0
    gain: Literal["exp2", "linear"] = "exp2"
    forest: Forest | None = None
    callback: Callable[[int, int], object] | None = None

    @classmethod
    def from_model(cls, model: object, *, n_bins: int = 0, n_jobs: int | None = None) -> Self:
        """Return features from all trees of one or more models, including those grown after the best iteration.

        If the model stores its column names, frames whose columns differ in name or order are refused. Monotone
        constraints of the model are kept: :class:`structsvm.TreeRanker` learns weights that satisfy them, and
        ``transform`` raises an error, because weights of single leaves do not satisfy them. A model of XGBoost that was
        loaded from a file no longer knows its constraints.
        Without bins, the result is ready to ``transform``; with bins, ``fit`` learns their edges and keeps the trees.

        Parameters
        ----------
        model : fitted model
            A LightGBM, XGBoost or CatBoost model (CatBoost: symmetric trees), or a forest, a tree or a boosted ensemble
            of scikit-learn. A list or tuple of models gives the trees of all of them, for example if each was grown on
            a part of the queries.
        n_bins, n_jobs : int, optional
            As in the constructor, except that there are no bins by default.

        Examples
        --------
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]], [0, 1, 2]
        >>> model = RandomForestRegressor(n_estimators=2, bootstrap=False).fit(X, y)
        >>> LeafFeatures.from_model(model).transform(X).shape
        (3, 6)
        >>> LeafFeatures.from_model([model, model]).transform(X).shape
        (3, 12)
        """
        features = cls(n_bins=n_bins, forest=_forest_of_all(model), n_jobs=n_jobs)
        features.check_options()
        if n_bins == 0:
            assert features.forest is not None
            features.n_features_in_ = features.forest.n_features
            features._set(features.forest, [])
        return features

    def fit(self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: object = None) -> Self:
        """Grow the trees and choose the edges of the bins.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Features; NaN for missing values.
        y : array-like of numbers, shape (n_rows,)
            Relevance grades; ignored if there is a ``forest``.
        qid : array-like, shape (n_rows,), optional
            Query ids, in any order; None means one query.
        sample_weight : array-like, shape (n_rows,), optional
            Weights >= 0; None means equal weights.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If trees must be grown and LightGBM is not installed.
        """
        self.check_options()
        self.check_numbers(X)
        X = self._values(X, reset=True)
        forest = self.forest
        if forest is None:
            if y is None:
                raise BadInput("y", "growing trees requires y to be passed, but the target y is None")
            refuse_masked("y", y)
            labels = column_or_1d(y, warn=True).astype(np.float64)
            check_consistent_length(X, labels)
            grouping = group_queries(qid, X.shape[0])
            weights = None
            if sample_weight is not None:
                weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
                if not weights.any():
                    raise BadInput("sample_weight", "expected at least one positive weight, got zeros only")
            if grouping.order is not None:
                labels = labels[grouping.order]
                weights = None if weights is None else weights[grouping.order]
            forest = self.grow(
                X if grouping.order is None else X[grouping.order], labels, grouping.offsets, weights
            )
        else:
            forest.check_columns(X.shape[1], getattr(self, "feature_names_in_", None))
        self._set(forest, self.edges(X))
        return self

    def grow(
        self, X: NDArray[Any], y: Float, offsets: Int, weights: Float | None = None, signs: Int | None = None
    ) -> Forest:
        """Grow trees on rows grouped by query; ``weights`` are per row, ``signs`` per feature."""
        self.check_categories(X)
        categorical = self._categorical(X.shape[1])
        if weights is not None and weights.max() > _LARGEST_WEIGHT:
            raise BadInput(
                "sample_weight",
                f"expected a number up to {_LARGEST_WEIGHT:g}, got {weights.max():g}, as LightGBM sums them in single "
                "precision",
                "divide all weights by the same number",
            )
        n_trees = int(self.n_trees)
        seed = int(check_random_state(self.random_state).randint(1 << 30))
        lengths = np.diff(offsets)
        if lengths.max() > _LONGEST_QUERY:
            raise BadInput(
                "qid",
                f"expected at most {_LONGEST_QUERY} rows per query, the limit of LightGBM, got {lengths.max()}",
                "keep the best rows of each query by a first-stage score",
            )
        with needed("growing trees", extra("trees")):
            import lightgbm
        options = {
            "objective": "lambdarank",
            "lambdarank_truncation_level": int(lengths.max()),
            "label_gain": [2**g - 1 if self.gain == "exp2" else g for g in range(_MOST_GRADES)],
            "num_leaves": int(self.n_leaves),
            "learning_rate": float(self.learning_rate),
            "min_data_in_leaf": int(self.min_rows),
            "lambda_l2": float(self.l2_regularization),
            "num_threads": count_threads(self.n_jobs),
            "deterministic": True,
            "force_row_wise": True,  # by default LightGBM times both layouts, and its choice may change the result
            "bin_construct_sample_cnt": _SAMPLE,
            "verbosity": -1,
            "feature_pre_filter": False,  # otherwise LightGBM raises for constant columns or too few rows to split
        }
        data = lightgbm.Dataset(
            X,
            label=self._grades(y),
            group=lengths,
            weight=weights,
            categorical_feature=categorical,
            params=options,
            free_raw_data=True,
        )
        if signs is not None:
            options["monotone_constraints"] = signs.tolist()
            if signs[categorical].any():
                raise BadInput(
                    "monotone_constraints",
                    "expected no sign of a categorical feature, whose values are not ordered",
                )
        bags = min(int(self.bags), n_trees)
        if bags > 1:
            options |= {"bagging_fraction": _SHARE, "bagging_freq": 1, "bagging_by_query": True}
        forests: list[Forest] = []
        stopped = False

        def tell(state: Any) -> None:
            nonlocal stopped
            if self.callback is not None and self.callback(done + state.iteration + 1, n_trees):
                stopped = True
                raise lightgbm.callback.EarlyStopException(state.iteration, [])

        done = 0
        for bag in range(bags):
            n = n_trees // bags + (bag < n_trees % bags)
            booster = lightgbm.train(
                options | {"seed": seed + bag},
                data,
                num_boost_round=n,
                callbacks=[] if self.callback is None else [tell],
            )
            forests.append(forest_of(booster))
            del booster
            done += n
            if stopped:
                break
        del data  # frees memory for the leaf numbers of all rows
        return_freed_memory()
        return Forest.in_turn(forests)

    def edges(self, X: NDArray[Any]) -> list[Float]:
        """Return the edges of the bins for the values in ``X``."""
        if self.n_bins == 0:
            return []
        rows = X
        if X.shape[0] > _SAMPLE:
            chosen = check_random_state(self.random_state).choice(X.shape[0], _SAMPLE, replace=False)
            rows = X[np.sort(chosen)]
        edges = BinnedFeatures(int(self.n_bins), spacing="quantile").fit(rows).thresholds_
        for f in self._categorical(X.shape[1]):
            edges[f] = np.array([-np.inf])
        return edges

    def transform(self, X: object) -> sparse.csr_matrix:
        """Return the columns as a CSR matrix of float32 ones; :meth:`transform_rows` needs a byte per tree instead."""
        return self.transform_rows(X).tocsr()

    def transform_rows(self, X: object) -> LeafRows:
        """Return the rows as leaf numbers and counts of edges; parameters and errors are as for :meth:`transform`."""
        check_is_fitted(self, "starts_")
        if self.forest_.signs is not None:
            raise BadInput(
                "forest",
                "expected no monotone constraints, which weights of single leaves do not satisfy",
                "fit a TreeRanker with these {leaves}",
            )
        return self.rows(self._values(X, reset=False))

    def rows(self, X: NDArray[Any]) -> LeafRows:
        """Return the rows of an array that has been validated."""
        n, n_codes, n_trees = X.shape[0], self.starts_.shape[0] - 1, self.forest_.n_trees
        n_pairs = n_trees // 2 if self.forest_.most_leaves <= _MOST_IN_HALF else 0
        kept = np.empty((n, n_codes - n_pairs), dtype=self.forest_.code_type)
        lookup, n_jobs = self._lookup(X.dtype), count_threads(self.n_jobs)
        step = n if n_pairs == 0 else _BLOCK
        for start in range(0, n, max(1, step)):
            part = kept[start : start + step]
            codes = part if n_pairs == 0 else np.empty((part.shape[0], n_codes), dtype=np.uint8)
            lookup.fill_codes(X[start : start + step], codes, n_jobs=n_jobs)
            if n_pairs:
                pack(codes, n_pairs, part)
        return LeafRows(kept, self.starts_, n_trees, n_pairs=n_pairs, checked=True)

    def scores(self, X: NDArray[Any], coef: Float) -> Float:
        """Return ``rows(X) @ coef`` without storing the codes."""
        if coef.shape != (self.starts_[-1],):
            raise BadInput("coef", f"expected {self.starts_[-1]} weights, got shape {coef.shape}")
        scores = np.zeros(X.shape[0])
        self._lookup(X.dtype).add_scores(X, coef, scores, n_jobs=count_threads(self.n_jobs))
        return scores

    def steps(self, coef: Float) -> list[Float]:
        """Return the contribution of each feature's bins, indexed by the number of edges exceeded; entry 0 is 0."""
        parts = np.split(coef, self.starts_[self.forest_.n_trees : -1])[1:]
        return [np.concatenate(([0.0], np.cumsum(part))) for part in parts]

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return names such as ``"tree0=3"`` for a leaf and ``"bm25>1.5"`` for a bin.

        By default features have the names of the training frame, or ``x0, x1, ...`` if it had none.
        """
        check_is_fitted(self, "starts_")
        names = _check_feature_names_in(self, input_features)
        counts = np.diff(self.forest_.leaves).tolist()
        leaves = [f"tree{t}={leaf}" for t, count in enumerate(counts) for leaf in range(count)]
        return np.array(leaves + names_of_bins(names, self.thresholds_), dtype=object)

    def check_options(self) -> None:
        """Raise for parameters that ``fit`` would refuse; no data are needed."""
        check_whole("n_trees", self.n_trees, 1)
        check_whole("n_leaves", self.n_leaves, 2, MOST_LEAVES)
        check_positive("learning_rate", self.learning_rate)
        check_whole("n_bins", self.n_bins, 0, MOST_BINS)
        check_whole("min_rows", self.min_rows, 1)
        check_number("l2_regularization", self.l2_regularization, 0.0)
        check_whole("bags", self.bags, 1)
        check_choice("gain", self.gain, ("exp2", "linear"))
        count_threads(self.n_jobs)
        if self.forest is not None and not isinstance(self.forest, Forest):
            raise BadInput(
                "forest", "expected a Forest", code="LeafFeatures.from_model(booster)", value=self.forest
            )
        if self.forest is not None and self.forest.most_leaves > MOST_LEAVES:
            raise BadInput(
                "forest",
                f"expected trees of at most {MOST_LEAVES} leaves, got {self.forest.most_leaves}",
                "train smaller trees",
            )

    def _set(self, forest: Forest, thresholds: list[Float]) -> None:
        self.forest_, self.thresholds_ = forest, thresholds
        _LOOKUPS.pop(self, None)
        self.starts_ = self._starts()

    def _lookup(self, kind: object) -> Lookup:
        """Return the compiled look-up for rows of a dtype, built when it is first needed."""
        known = _LOOKUPS.setdefault(self, {})
        if kind not in known:
            self._check_arrays()
            known[kind] = Lookup(self.forest_, self.thresholds_, kind)
        return known[kind]

    def _check_arrays(self) -> None:
        """Raise ValueError for arrays that would make compiled code read out of bounds, as a crafted model file
        might."""
        self.forest_.check()
        if self.forest_.n_features != self.n_features_in_ or len(self.thresholds_) not in (
            0,
            self.n_features_in_,
        ):
            raise BadInput("forest_", f"expected trees and bins of {self.n_features_in_} features")
        for edges in self.thresholds_:
            if edges.ndim != 1 or not 1 <= edges.size <= MOST_BINS or not (edges[1:] > edges[:-1]).all():
                raise BadInput("thresholds_", f"expected 1 to {MOST_BINS} ascending edges of each feature")
        if not np.array_equal(self.starts_, self._starts()):
            raise BadInput("starts_", "expected starts that agree with the trees and bins")

    def _starts(self) -> Int:
        forest = self.forest_
        sizes = np.cumsum([len(edges) for edges in self.thresholds_])
        return np.concatenate((forest.leaves, forest.leaves[-1] + sizes)).astype(np.int64)

    def _grades(self, y: Float) -> Float:
        if self.relevance is not None:
            return (y >= self.relevance).astype(np.float64)
        known, grades = np.unique(y, return_inverse=True)
        if known[0] >= 0 and known[-1] < _MOST_GRADES and (known == np.floor(known)).all():
            return y
        return np.asarray(np.floor(grades * min(1.0, (_MOST_GRADES - 1) / max(1, known.size - 1))))

    def _categorical(self, n_features: int) -> list[int]:
        """Return the indices of the categorical columns."""
        names = getattr(self, "feature_names_in_", None)
        known = {} if names is None else {name: f for f, name in enumerate(names)}
        chosen = []
        for given in self.categorical_features or ():
            f = known.get(given, -1) if isinstance(given, str) else given
            if isinstance(f, bool) or not isinstance(f, (int, np.integer)) or not 0 <= f < n_features:
                expected = f"numbers from 0 to {n_features - 1}"
                if names is not None:
                    expected += " or names of columns"
                raise BadInput("categorical_features", f"expected {expected}, got {given!r}")
            chosen.append(int(f))
        return sorted(set(chosen))

    def check_numbers(self, X: object) -> None:
        """Raise if categorical columns are given by number and the frame's own column names are numbers."""
        for key in self.categorical_features or ():
            refuse_number("categorical_features", key, column_numbers(X))

    def check_categories(self, X: NDArray[Any]) -> None:
        """Raise for categories that trees would confuse with others or with missing values, and for huge numbers."""
        for f in self._categorical(X.shape[1]):
            values = X[:, f]
            wrong = (values != np.floor(values)) | (values < 0) | (values > _LARGEST_CATEGORY)
            wrong &= ~np.isnan(values)
            if wrong.any():
                names = getattr(self, "feature_names_in_", None)
                called = f"column {f}" if names is None else repr(str(names[f]))
                raise BadInput(
                    "X",
                    f"expected integer categories from 0 to {_LARGEST_CATEGORY} in {called}, got "
                    f"{values[wrong][0]:g}",
                    "encode them with sklearn.preprocessing.OrdinalEncoder; NaN stands for a missing category",
                )

    def _values(self, X: Any, *, reset: bool) -> NDArray[Any]:
        refuse_masked("X", X)
        options: dict[str, Any] = {
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": "allow-nan",
            "order": "C",
        }
        names = getattr(X, "columns", None)
        of_model = (
            not reset and not hasattr(self, "feature_names_in_") and self.forest_.feature_names is not None
        )
        if of_model and names is not None:  # ``fit`` stored no column names to compare with
            self.forest_.check_columns(len(names), names)
            return np.asarray(check_array(X, **options))
        return np.asarray(validate_data(self, X, reset=reset, **options))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = self.forest is None
        tags.transformer_tags.preserves_dtype = []
        return tags


def _forest_of_all(model: object) -> Forest:
    """Return the trees of one model, or of all models in a list or tuple."""
    if not isinstance(model, (list, tuple)):
        return forest_of(model)
    if not model:
        raise BadInput("model", "expected at least one model, got an empty sequence")
    forests = [forest_of(one) for one in model]
    first = forests[0]
    for i, forest in enumerate(forests):
        fault = ""
        if forest.n_features != first.n_features:
            fault = f"expected {first.n_features} features as in the first model, got {forest.n_features}"
        elif None not in (forest.feature_names, first.feature_names) and (
            forest.feature_names != first.feature_names
        ):
            fault = "expected the same columns in the same order as in the first model, got other columns"
        elif not np.array_equal(forest.signs, first.signs):  # type: ignore[arg-type]
            fault = "expected the same monotone constraints as in the first model, got others"
        if fault:
            raise BadInput("model", fault, "train all on the same columns", at=f"[{i}]")
    return Forest.in_turn(forests)
