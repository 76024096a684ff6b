"""``LambdaRank``: train a linear scorer or a small neural network to increase a ranking measure."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from structsvm.common.checks import BadInput, check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.common.names import plain_name
from structsvm.estimators import fitted
from structsvm.estimators.linear import Scale, check_usual
from structsvm.features.input_rows import naming
from structsvm.features.scaling import QueryScaler
from structsvm.protocols import Float, Int
from structsvm.queries import Grouping, check_features, choose_groups
from structsvm.trainers import lambdarank
from structsvm.trainers.forces import BoundUtility, Utility

_ENOUGH_QUERIES = 20
"""Minimum number of queries for which ``early_stopping="auto"`` holds out queries; with fewer, a tenth of them is too
small a sample."""


@parameters
class LambdaRank(fitted.FittedRanker, BaseEstimator):
    """Linear or neural ranker trained to increase a ranking measure directly (Burges, Ragno and Le 2006).

    Between two documents of a query with ``y_i > y_j`` there is a force ``|change of U if they swapped| / (1 +
    exp(s_i - s_j))``, which increases ``s_i`` and decreases ``s_j``. The forces of a mini-batch of queries are
    backpropagated through the scorer, and Adam takes a step in this direction. The change of U is computed in closed
    form, and for ``ndcg@k`` only for pairs with a document in the top k.

    The networks have one or two hidden layers and are evaluated with NumPy. Their cost is that of a few matrix
    products, which a deep-learning framework would compute with the same BLAS. Without a framework, models are saved as
    plain arrays, and the same seed gives the same weights.

    Parameters
    ----------
    utility : str, default="ndcg@10"
        The utility U: ``"ndcg"``, ``"ndcg@k"``, ``"map"``, ``"mrr"``, or ``"ranknet"``, for which every change is 1.
    hidden : tuple of int, default=()
        Widths of one or two hidden layers of rectified linear units; empty for a linear scorer.
    learning_rate : float, default=0.003
        Learning rate of Adam.
    lam : float, default=1e-4
        Factor of the penalty ``lam/2 ||w||^2``, >= 0; biases are not penalised.
    batch_size : int, default=4
        Number of queries per step. The length of Adam's steps barely depends on the batch size. With smaller batches an
        epoch has more steps, which helps if there are few training queries, and takes about the same time.
    max_epochs : int, default=100
        Maximum number of epochs, which are passes over the queries.
    gain : {"exponential", "linear"}, default="exponential"
        Gain of NDCG in training: "exponential" is ``2^y - 1``, "linear" is ``y``.
    scale : {"none", "minmax", "zscore", "query-minmax", "query-zscore", "query-percentile"}, default="zscore"
        Feature scaling that is stored with the model. Adam changes each weight by about ``learning_rate`` per step,
        whatever the units of its feature; features are therefore scaled to unit variance by default. "minmax" and
        "zscore" are merged into the first layer, so that ``X`` is not copied and CSR matrices remain sparse. The
        ``query-`` scalings require ``qid`` in ``predict``.
    early_stopping : bool or "auto", default="auto"
        Whether to hold out some of the queries, stop when U no longer increases on them, and keep the weights of the
        best epoch. "auto" holds out queries for a network, which would otherwise overfit, if there are at least 20
        queries whose utility depends on the ranking.
    n_iter_no_change : int, default=10
        Number of consecutive epochs without improvement after which training stops.
    warm_start : bool, default=False
        Whether to continue from the weights and the scaling of the last ``fit``, which must have had the same
        ``hidden``.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights, the order of the queries, and the held-out queries.
    callback : callable, default=None
        Called after each epoch with a named tuple of its ``number`` (from 1), the mean utility of the ``training``
        queries during the epoch, and the mean utility of the ``validation`` queries after it (NaN if there are none). A
        truthy return value stops training. None means no callback.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
        Weights of the raw features, or of the scaled features for ``query-`` scalings; only for a linear scorer.
    fit_ : LambdaRankFit
        Result of training. ``weights`` are the layers ``W_1, b_1, ..., W_out`` of the network applied to ``(x - shift)
        * factor`` (only ``W_out`` for a linear scorer); ``raw_weights`` are the equivalent weights for raw features;
        ``history`` contains the arguments of all calls of ``callback``; ``best_epoch`` is the epoch after which the
        weights were kept.
    n_uninformative_ : int
        Number of queries whose utility is the same for all rankings.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 3)), np.repeat(np.arange(40), 10)
    >>> y = np.clip(np.round(X[:, 0] * X[:, 1] + 1), 0, 3)
    >>> linear = LambdaRank(random_state=0).fit(X, y, qid=qid)
    >>> neural = LambdaRank(hidden=(16,), random_state=0).fit(X, y, qid=qid)
    >>> bool(linear.score(X, y, qid=qid) < 0.9), bool(neural.score(X, y, qid=qid) > 0.9)
    (True, True)
    """

    utility: str = "ndcg@10"
    _: KW_ONLY
    hidden: tuple[int, ...] = ()
    learning_rate: float = 0.003
    lam: float = 1e-4
    batch_size: int = 4
    max_epochs: int = 100
    gain: Literal["exponential", "linear"] = "exponential"
    scale: Scale = "zscore"
    early_stopping: bool | Literal["auto"] = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    warm_start: bool = False
    relevance: float = 1.0
    random_state: Any = None
    callback: Callable[[lambdarank.Epoch], object] | None = None

    @fitted.all_or_nothing
    def fit(
        self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None, validation: Any = None
    ) -> Self:
        """Train the scorer.

        Parameters
        ----------
        sample_weight : array-like, shape (n_rows,), optional
            Numbers >= 0; the weight of a query is the mean over its rows, and only the ratios of weights matter. None
            means equal weights.
        """
        utility, rng = self._check_parameters()
        before: lambdarank.LambdaRankFit | None = getattr(self, "fit_", None) if self.warm_start else None
        # memory for the scaling, and for the weights of the first layer with their gradient, moments and best values
        vectors = 8 + 6 * (self.hidden[0] if self.hidden else 1)
        X, y, qid, grouping, weights = fitted.read_rows(
            self, X, y, qid, sample_weight, vectors=vectors, reset=before is None
        )
        self._saw_qid = qid is not None
        X = check_features(X)
        if before is None:
            self.scaler_ = None
            if self.scale.startswith("query-"):
                self.scaler_ = QueryScaler(self.scale.removeprefix("query-")).fit(X, qid=qid)
        elif tuple(self.hidden) != (layers := tuple(w.shape[1] for w in before.weights[:-1:2])):
            raise BadInput(
                "hidden",
                f"expected {layers}, the network that warm_start continues",
                "begin a new one with {warm_start=False}",
                value=self.hidden,
            )
        X = fitted.scaled(self, X, qid)
        y = y if grouping.order is None else y[grouping.order]
        useful = self._useful(y, grouping.offsets, weights, utility)
        held, watched = self._hold_out(X, y, grouping, useful, utility, rng, validation)
        # normalise to a mean of 1: only ratios of weights matter to the user, but lam and Adam depend on their size
        weights = weights / weights[useful & ~held].mean()
        start = before
        if start is None:
            method = self.scale if self.scaler_ is None else "none"
            weights_ = lambdarank.initial_weights(X.shape[1], self.hidden, rng)
            start = lambdarank.LambdaRankFit(
                weights_, *lambdarank.column_scaling(X, method, grouping.order), history=[], best_epoch=0
            )
        schedule = lambdarank.Schedule(
            float(self.learning_rate),
            float(self.lam),
            int(self.batch_size),
            int(self.max_epochs),
            int(self.n_iter_no_change),
        )
        self.fit_ = lambdarank.ascend(
            X,
            y,
            grouping.order,
            grouping.offsets,
            utility,
            start,
            rng,
            schedule,
            query_weights=np.where(held, 0.0, weights),
            validation=watched,
            callback=self.callback,
        )
        if hasattr(self, "coef_"):
            delattr(self, "coef_")
        if len(self.fit_.weights) == 1:
            self.coef_ = self.fit_.raw_weights[0]
        return self

    def _scores(self, X: Any, qid: object) -> Float:
        return lambdarank.network_scores(self.fit_, fitted.scaled(self, X, qid))

    def _measure(self) -> str:
        return {"ranknet": "roc"}.get(self._utility, self._utility)

    @property
    def _utility(self) -> str:
        return plain_name(self.utility) if isinstance(self.utility, str) else self.utility

    def _useful(self, y: Float, offsets: Int, weights: Float, utility: Utility) -> Any:
        """Return a mask of the queries that have a positive weight and a utility that depends on the ranking."""
        informative = BoundUtility(utility, y, offsets).informative
        useful = informative & (weights > 0)
        self.n_queries_ = int(useful.shape[0])
        self.n_uninformative_ = int(self.n_queries_ - informative.sum())
        if not useful.any():
            raise fitted.no_constraint(
                self.utility, (y.min(), y.max()), self.n_queries_, self.relevance, "utility"
            )
        fitted.warn_of_uninformative(self, self.utility)
        return useful

    def _hold_out(
        self, X: Any, y: Float, grouping: Grouping, useful: Any, utility: Utility, rng: Any, validation: Any
    ) -> tuple[Any, tuple[Any, Float, Int] | None]:
        """Return a mask of the held-out queries, and the rows, labels and offsets for early stopping, or None."""
        held = np.zeros(useful.shape[0], dtype=np.bool_)
        if validation is not None:
            X, y, offsets = fitted.read_validation(self, validation)
            with naming("validation"):
                matters = BoundUtility(utility, y, offsets).informative.any()
            if not matters:
                raise fitted.unmeasurable(self, "utility", y)
            return held, (X, y, offsets)
        stops = self.early_stopping
        if isinstance(stops, str):  # "auto"
            stops = bool(self.hidden) and useful.sum() >= _ENOUGH_QUERIES
        if not stops:
            return held, None
        held[fitted.choose_held_out(np.flatnonzero(useful), self.validation_fraction, rng)] = True
        _, offsets, rows = choose_groups(grouping.offsets, held)
        return held, (X[rows if grouping.order is None else grouping.order[rows]], y[rows], offsets)

    def _check_parameters(self) -> tuple[Utility, np.random.RandomState]:
        check_usual(self)
        utility = Utility.of(self._utility, relevance=self.relevance, gain=self.gain)
        if not isinstance(self.early_stopping, (bool, np.bool_)) and self.early_stopping != "auto":
            raise BadInput("early_stopping", "expected True, False or 'auto'", value=self.early_stopping)
        if not isinstance(self.hidden, (tuple, list)) or len(self.hidden) > 2:
            raise BadInput("hidden", "expected a tuple of at most two widths >= 1", value=self.hidden)
        for i, width in enumerate(self.hidden):
            check_whole(f"hidden[{i}]", width)
        return utility, check_random_state(self.random_state)

    def _takes_sparse(self) -> bool:
        return not str(self.scale).startswith("query-")
