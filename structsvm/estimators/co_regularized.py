"""``CoRegularizedSGD``: stochastic descent on several views that agree on unlabelled pairs (LCRA-k-l, SPD-MV)."""

import logging
from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_number, check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.estimators.fitted import TrainingRows, all_or_nothing, scaled
from structsvm.estimators.pairwise_sgd import PairwiseSGD
from structsvm.estimators.weight_constraints import column_of
from structsvm.features.input_rows import naming, validate_rows
from structsvm.protocols import Int
from structsvm.qp.convex import places_of
from structsvm.queries import check_features, group_queries, one_query, split_qid
from structsvm.trainers.pair_index import PairIndex, index_pairs
from structsvm.trainers.pairwise_descent import Agreement, view_weights

_log = logging.getLogger("structsvm")


@parameters
class CoRegularizedSGD(PairwiseSGD):
    """LCRA-k-l: linear rankers, one per view, trained to order labelled pairs and to agree on unlabelled pairs.

    Let ``p`` be the difference of the features of two documents of a query, ``y`` the difference of their grades, and
    ``M`` the number of views. The objective is
    ``sum_v [mean loss(p^v, y; w^v) + lam/2 ||w^v||^2] + mu sum_{v != u} mean (w^v.p^v - w^u.p^u)^2``.
    Each step samples ``k`` labelled and ``l`` unlabelled pairs and follows the negative gradient of their terms
    (Tsivtsivadze, Hofmann and Heskes, "Large Scale Co-Regularized Ranking", (1)-(3); the signs of the printed update
    rules are corrected). The paper's Algorithm 1 returns the last weights and has the step size ``1 / (lam t)``, which
    corresponds to ``average=False`` and a large ``eta_0``. The score of a document is the mean over the views. With
    ``mu=0`` the views are independent (SPD-MV). With a single view the result is identical to that of
    :class:`PairwiseSGD`.

    Parameters
    ----------
    views : int or list of column lists, default=2
        An integer is the number of views, to which the columns are assigned at random (at most one view per column). A
        list contains the columns of each view, by index or name; views may overlap, and columns in no view are not
        used.
    k : int, default=1
        Number of labelled pairs per step.
    l : int, default=5
        Number of unlabelled pairs per step.
    mu : float, default=0.1
        Factor of the penalty on disagreement, >= 0; tune it on a log grid. Step sizes are limited such that
        ``eta 4 mu M sum max_v ||p^v||^2 <= 1``, with the sum over the unlabelled pairs of the step, as larger steps
        could diverge. A larger ``mu`` therefore slows down learning from the labelled pairs.
    eta_0 : float or "auto", default="auto"
        As in :class:`PairwiseSGD`; "auto" is computed for each view.
    normalize : {"pairs", "query"}, default="pairs"
        As in :class:`PairwiseSGD`; applies to labelled and unlabelled pairs.
    early_stopping : bool, default=False
        As in :class:`PairwiseSGD`; only labelled queries are held out.
    random_state : int, RandomState or None, default=None
        Seed of the sampled pairs, the held-out queries and the random views.

    Attributes
    ----------
    views_ : list of ndarray of int64
        Columns of each view, in ascending order.
    view_coefs_ : list of ndarray
        Weights of the columns of each view.
    coef_ : ndarray, shape (n_features,)
        Mean of the weights of the views, where a column that is not in a view has weight 0 in that view.
    eta_0_ : ndarray, shape (n_views,)
        Initial step size of each view.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 4)), np.repeat(np.arange(40), 10)
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> labeled = qid < 8
    >>> model = CoRegularizedSGD(views=[[0, 1], [2, 3]], random_state=0)
    >>> model = model.fit(X[labeled], y[labeled], qid=qid[labeled],
    ...                   X_unlabeled=X[~labeled], qid_unlabeled=qid[~labeled])
    >>> bool(model.score(X, y, qid=qid) > 0.9)
    True
    >>> again = CoRegularizedSGD(views=[[0, 1], [2, 3]], random_state=0)
    >>> again = again.fit(X, y, qid=qid, unlabeled=~labeled)
    >>> bool((again.coef_ == model.coef_).all())
    True
    """

    __metadata_request__fit: ClassVar = {
        "qid": True,
        "unlabeled": True,
        "X_unlabeled": True,
        "qid_unlabeled": True,
    }
    __metadata_request__partial_fit: ClassVar = __metadata_request__fit

    views: Any = 2
    _: KW_ONLY
    loss: Literal["hinge", "squared"] = "hinge"
    lam: float = 1e-4
    k: int = 1
    l: int = 5  # noqa: E741 (the paper's name)
    mu: float = 0.1

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        unlabeled: object = None,
        X_unlabeled: Any = None,
        qid_unlabeled: object = None,
        validation: Any = None,
    ) -> Self:
        """Train from zero weights.

        Parameters
        ----------
        y : array-like of numbers, shape (n_rows,)
            Graded labels; those of unlabelled rows are ignored and may be NaN.
        unlabeled : array-like of bool, shape (n_rows,), optional
            Mask of the unlabelled rows of ``X``. scikit-learn's cross-validation splits it together with ``X``.
        X_unlabeled : array-like or CSR matrix, shape (n_unlabeled_rows, n_features), optional
            Unlabelled rows, as an alternative to ``unlabeled``. scikit-learn's cross-validation passes all of them to
            each fold, except if their number equals that of the rows of ``X``; use ``unlabeled`` in that case.
        qid_unlabeled : array-like, shape (n_unlabeled_rows,), optional
            Query of each row of ``X_unlabeled``. None means a single query, and issues a warning if ``qid`` is given.

        Notes
        -----
        If no unlabelled rows are given, the views are trained to agree on all pairs of documents of the queries of
        ``X``, whatever their labels.
        """
        return self._learn(
            X, y, qid, sample_weight, (unlabeled, X_unlabeled, qid_unlabeled), validation=validation
        )

    @all_or_nothing
    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        unlabeled: ArrayLike | None = None,
        X_unlabeled: object = None,
        qid_unlabeled: ArrayLike | None = None,
        n_steps: int | None = None,
    ) -> Self:
        """Continue training from the current weights, only with labelled and unlabelled pairs of the given rows.

        Parameters
        ----------
        X, y, qid, sample_weight, unlabeled, X_unlabeled, qid_unlabeled
            As in ``fit``. Without a labelled pair, the weights remain unchanged. ``training_data_`` describes the rows
            of the last call.
        """
        n_steps = check_whole("n_steps", self.n_steps if n_steps is None else n_steps)
        return self._learn(X, y, qid, sample_weight, (unlabeled, X_unlabeled, qid_unlabeled), n_steps=n_steps)

    def _train(self, *args: Any) -> None:
        super()._train(*args)
        self.view_coefs_ = view_weights(self.fit_, self._layout, average=self.average)

    def _batch(self, X_unlabeled: object, unlabeled: PairIndex | None) -> dict[str, Any]:
        others = None if unlabeled is None else Agreement(self.mu, self.l, unlabeled, X_unlabeled)
        return {"k": int(self.k), "agreement": others}

    def _check_parameters(self) -> np.random.RandomState:
        check_number("k", self.k, 1, whole=True)
        check_number("l", self.l, 0, whole=True)
        return super()._check_parameters()

    def _choose_views(self, rng: np.random.RandomState, n_features: int) -> list[Int]:
        if isinstance(self.views, (int, np.integer)):
            check_number("views", self.views, 1, whole=True)
            # at most one view per column, as a view needs at least one column
            parts = np.array_split(rng.permutation(n_features), min(int(self.views), n_features))
            return [np.sort(part).astype(np.int64) for part in parts]
        if not isinstance(self.views, Iterable) or isinstance(self.views, (str, dict)):
            raise BadInput(
                "views", "expected an integer >= 1 or a list with the columns of each view", value=self.views
            )
        places = places_of(getattr(self, "feature_names_in_", None))
        out = []
        for v, view in enumerate(self.views):
            columns = np.atleast_1d(np.asarray(view, dtype=object)).tolist()
            if not columns:
                raise BadInput("views", "expected at least one column, got none", at=f"[{v}]")
            found = [column_of("views", one, n_features, places, f"[{v}]: {one!r}") for one in columns]
            out.append(np.unique(np.array(found, dtype=np.int64)))
        if not out:
            raise BadInput("views", "expected at least one view, got an empty list")
        return out

    def _unlabeled_pairs(
        self, rows: TrainingRows, mask: Any, X_unlabeled: object, qid_unlabeled: ArrayLike, weights: Any
    ) -> tuple[Any, PairIndex | None]:
        """Return the matrix that contains the unlabelled rows, and the index of their pairs, or None without pairs."""
        X, grouping = rows.X, rows.grouping
        chosen = {"rows": mask, "weights": weights if mask is None else rows.weights}
        if X_unlabeled is not None:
            X, qid = split_qid(X_unlabeled, qid_unlabeled)
            with naming("X_unlabeled"):
                X = check_features(validate_rows(self, X, qid=qid, order="C", reset=False))
                grouping, chosen = group_queries(qid, X.shape[0]), {}
                X = scaled(self, X, qid)
            if hasattr(X, "tocsr") != hasattr(rows.X, "tocsr"):
                raise BadInput(
                    "X_unlabeled", "expected a matrix of the same kind as X, got one dense and one sparse"
                )
            if self._saw_qid:  # without qid, fit has already issued this warning
                one_query(qid, f"{type(self).__name__}.fit, qid_unlabeled")
        index = index_pairs(None, grouping, normalize=self.normalize, **chosen)
        if index.n_queries:
            return X, index
        _log.info("no query has two unlabelled documents, so that there are no pairs on which to agree")
        return X, None
