"""``PairwiseSGD``: a linear ranker trained by stochastic pairwise descent (SPD), with one pair per step."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from structsvm.common.checks import BadInput, check_choice, check_flag, check_positive, check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.common.row_checks import refuse_divergence
from structsvm.estimators import fitted
from structsvm.estimators.linear import LinearRanker, Scale, check_usual, linear_scores, make_scaler
from structsvm.metrics.evaluation import evaluate_part
from structsvm.protocols import Float, Int
from structsvm.queries import check_features, row_groups
from structsvm.trainers import pairwise_descent
from structsvm.trainers.pair_index import PairIndex, index_pairs

_PIECE = 500_000
"""Number of steps per compiled call; Ctrl-C is handled only between calls."""

_VECTORS = 12
"""Number of vectors with one number per feature that must fit in memory: the old and new weights and sums, the
columns, and the positions."""

_STEEPEST = 1e12
"""Largest value of ``eta_0 lam``, at which step sizes equal ``1 / (lam t)`` to twelve digits. Above 1e16, the first
step would multiply the weights by 1 - 1 = 0, and later steps would divide by this factor."""


Advance = Callable[[pairwise_descent.Descent, int], pairwise_descent.Descent]
"""Function from a state and a number of steps to the state after these steps."""


@parameters
class PairwiseSGD(LinearRanker):
    """Linear ranker trained by stochastic pairwise descent (SPD; Sculley 2009).

    Minimises the mean loss over pairs of documents of the same query with ``y_i > y_j``, plus ``lam/2 ||w||^2``, and
    samples one pair per step. The cost of a step does not depend on the number of rows; for CSR rows it is proportional
    to the number of non-zeros of the pair. ``X`` may be a read-only memory map. This ranker is for a very large number
    of rows, or for rows that arrive over time (``partial_fit``). For the exact optimum with a certificate, use
    :class:`PairwiseSVM`.

    Parameters
    ----------
    loss : {"hinge", "squared"}, default="hinge"
        Loss of a pair with ``p = x_i - x_j`` and ``y = y_i - y_j``: ``max(0, 1 - y w.p)`` for "hinge",
        ``1/2 (y - w.p)^2`` for "squared".
    lam : float, default=1e-4
        Factor of the penalty, >= 0. With grades 0 and 1 it corresponds to ``1/C`` of the pairwise SVM. The default is
        suitable for features with about unit variance.
    eta_0 : float or "auto", default="auto"
        Initial step size; step ``t`` has the size ``eta_0 / (1 + eta_0 lam t)``. "auto" is the inverse of the mean of
        ``||y p||^2`` (hinge) or ``||p||^2`` (squared), estimated from 1,000 pairs. A step then changes ``y w.p`` of its
        pair by about one, whatever the units of the features. With the squared loss, step sizes are limited to
        ``1 / ||p||^2``, as larger steps could diverge.
    n_steps : int, default=200000
        Number of steps of ``fit``, and by default of each ``partial_fit``. The default takes a fraction of a second,
        whatever the number of rows. Increase it if there are more pairs, or if ``early_stopping`` does not stop
        earlier.
    average : bool, default=True
        Whether to use the mean of the weights over steps, with weight ``t`` for step ``t`` (Lacoste-Julien, Schmidt and
        Bach 2012), instead of the last weights. The mean has less noise and does not require the number of steps to be
        known in advance.
    normalize : {"pairs", "query"}, default="pairs"
        Whether all pairs ("pairs"), or all queries that have a pair ("query"), are sampled with equal probability.
    early_stopping : bool, default=False
        Whether to hold out some of the queries, stop when ``measure`` no longer increases on them, and keep the best
        weights.
    n_iter_no_change : int, default=5
        Number of consecutive evaluations without improvement after which training stops; there is an evaluation after
        every twentieth of ``n_steps``.
    measure : str, default="map"
        Measure for early stopping and ``score``; any name supported by :func:`structsvm.metrics.evaluate`.
    relevance : float, default=1.0
        Lowest label of a relevant document, for binary measures; training uses all grades.
    random_state : int, RandomState or None, default=None
        Seed of the sampled pairs and the held-out queries.

    Attributes
    ----------
    eta_0_ : ndarray, shape (1,)
        Initial step size that was used.
    fit_ : Descent
        State of the descent after ``t`` steps; the last weights are ``scale[0] * direction``.
    history_ : list of (int, float)
        Number of steps and value of the measure for each evaluation; empty without early stopping.
    n_uninformative_ : int
        Number of queries without two documents with different labels.

    See Also
    --------
    CoRegularizedSGD : Trains several views to agree on unlabelled pairs.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    >>> y = (X[:, 0] + 0.1 * rng.normal(size=200) > 1).astype(int)
    >>> model = PairwiseSGD(random_state=0).fit(X, y, qid=qid)
    >>> bool(model.score(X, y, qid=qid) > 0.65)
    True
    """

    __metadata_request__partial_fit: ClassVar = {"qid": True}

    loss: Literal["hinge", "squared"] = "hinge"
    lam: float = 1e-4
    _: KW_ONLY
    eta_0: float | Literal["auto"] = "auto"
    n_steps: int = 200_000
    average: bool = True
    normalize: Literal["pairs", "query"] = "pairs"
    scale: Scale = "none"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    measure: str = "map"
    relevance: float = 1.0
    random_state: Any = None

    @fitted.all_or_nothing
    def fit(
        self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None, validation: Any = None
    ) -> Self:
        """Train from zero weights.

        Parameters
        ----------
        sample_weight : array-like, shape (n_rows,), optional
            Numbers >= 0; the weight of a query is the mean over its rows, and its pairs are sampled in proportion to
            it. None means equal weights.
        """
        return self._learn(X, y, qid, sample_weight, validation=validation)

    @fitted.all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None, n_steps: int | None = None
    ) -> Self:
        """Continue training from the current weights, only with pairs of the given rows.

        The first call determines the scaling and the step size ``eta_0="auto"``. No queries are held out. Two calls on
        the same rows give the same result, bit for bit, as one call with the total number of steps. ``training_data_``
        describes the rows of the last call.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in ``fit``. If no query has two documents with different labels, the weights remain unchanged.
        """
        n_steps = check_whole("n_steps", self.n_steps if n_steps is None else n_steps)
        return self._learn(X, y, qid, sample_weight, n_steps=n_steps)

    def _learn(
        self,
        X: object,
        y: ArrayLike,
        qid: ArrayLike,
        sample_weight: ArrayLike,
        unlabeled: tuple[Any, Any, Any] = (None, None, None),
        *,
        validation: object = None,
        n_steps: int | None = None,
    ) -> Self:
        """Train from zero weights, or continue for ``n_steps``; ``unlabeled`` contains the three arguments for
        unlabelled rows."""
        rng = self._check_parameters()
        begins = n_steps is None or not hasattr(self, "fit_")
        mask = unlabeled_rows(X, *unlabeled)
        rows = self._rows(X, y, qid, sample_weight, first=begins, unlabeled=mask)
        if begins:
            # drawn before the random views, so that the seed does not depend on them
            seed = int(rng.randint(0, 2**31 - 1))
            self.views_ = self._choose_views(rng, rows.X.shape[1])
            self.fit_ = pairwise_descent.start(self._layout, seed)
            self.history_: list[tuple[int, float]] = []
        labeled = None if mask is None else ~mask
        held_out, weights = None, rows.weights
        if n_steps is None:
            held_out, weights = self._hold_out(rng, rows, labeled, validation)
        index = self._index(rows, labeled, weights, required=begins)
        if index.n_queries:
            if begins:
                self._set_step_sizes(rows, index)
            others = self._unlabeled_pairs(rows, mask, *unlabeled[1:], weights)
            n_steps = int(self.n_steps) if n_steps is None else n_steps
            self._train(self._stepper(rows, index, *others), held_out, n_steps)
        return self

    def _unlabeled_pairs(
        self,
        rows: fitted.TrainingRows,
        mask: object,
        X_unlabeled: object,
        qid_unlabeled: ArrayLike,
        weights: ArrayLike,
    ) -> tuple[Any, PairIndex | None]:
        """Return the matrix that contains the unlabelled rows, and the index of their pairs; both are None for SPD."""
        return None, None

    def _measure(self) -> str:
        return self.measure

    def _choose_views(self, rng: np.random.RandomState, n_features: int) -> list[Int]:
        return [np.arange(n_features, dtype=np.int64)]

    def _batch(self, X_unlabeled: object, unlabeled: PairIndex | None) -> dict[str, Any]:
        """Return the arguments of ``descend`` for the pairs of a step; by default a step has one labelled pair, as in
        SPD."""
        return {}

    def _check_parameters(self) -> np.random.RandomState:
        check_usual(self)
        check_choice("loss", self.loss, ("hinge", "squared"))
        if self.eta_0 != "auto":
            check_positive("eta_0", self.eta_0)
        check_flag("early_stopping", self.early_stopping)
        try:
            evaluate_part(self.measure, [1.0, 0.0], [1.0, 0.0], qid=0)
        except BadInput as error:
            raise (error.renamed("measure") if error.argument == "metric" else error) from None
        generator: np.random.RandomState = check_random_state(self.random_state)
        return generator

    def _rows(
        self, X: Any, y: Any, qid: object, sample_weight: ArrayLike, *, first: bool, unlabeled: Any = None
    ) -> fitted.TrainingRows:
        """Return validated and scaled rows in their original order, so that grouping them by query needs no copy."""
        if unlabeled is not None:  # the labels of unlabelled rows are ignored, and may be missing
            given = np.asarray(y)
            y = given.astype(np.float64 if given.dtype.kind in "biuf" else object)
            if y.shape == unlabeled.shape:  # other shapes raise an error below
                y[unlabeled] = 0.0
        rows = fitted.read_rows(self, X, y, qid, sample_weight, vectors=_VECTORS, reset=first)
        X, qid, grouping = check_features(rows.X), rows.qid, rows.grouping
        if first:
            self.scaler_ = make_scaler(self.scale)
            if self.scaler_ is not None:
                # fit the scaler in grouped order, because the last digits of a mean depend on the order of the rows
                order = grouping.order
                ids = qid if order is None else np.repeat(grouping.query_ids, np.diff(grouping.offsets))
                self.scaler_.fit(X if order is None else X[order], qid=ids)
        return rows._replace(X=fitted.scaled(self, X, qid))

    @property
    def _layout(self) -> pairwise_descent.Views:
        return pairwise_descent.Views.of(self.views_)

    def _index(
        self, rows: fitted.TrainingRows, labeled: Any, weights: Float, *, required: bool = True
    ) -> PairIndex:
        index = index_pairs(rows.y, rows.grouping, rows=labeled, weights=weights, normalize=self.normalize)
        self.n_queries_ = int(weights.shape[0])
        self.n_uninformative_ = int((weights > 0).sum()) - index.n_queries
        if index.n_queries == 0 and required:
            used = rows.y if labeled is None else rows.y[labeled]
            labels = f"labels {used.min():g} to {used.max():g}" if used.shape[0] else "no labelled row"
            raise BadInput(
                "y",
                "no query carries a constraint: at least one needs documents with distinct labels; got "
                f"{self.n_queries_} queries, {labels}",
                "check the labels and qid",
            )
        # with unlabelled rows, queries without a constraint are expected
        fitted.warn_of_uninformative(self, "pairs", warn=required and labeled is None)
        return index

    def _set_step_sizes(self, rows: fitted.TrainingRows, index: PairIndex) -> None:
        n_views = len(self.views_)
        if self.eta_0 == "auto":
            labels = rows.y if self.loss == "hinge" else None
            norms = pairwise_descent.mean_squared_norms(rows.X, index, self._layout, self.fit_.seed, labels)
            self.eta_0_ = np.divide(1.0, norms, out=np.ones(n_views), where=norms > 0)
        else:
            self.eta_0_ = np.full(n_views, float(self.eta_0))

    def _check_arrays(self, n_features: int) -> None:
        """Raise ValueError for columns out of bounds, which compiled code does not check; they may come from a crafted
        file."""
        fit, n_views, n_weights = self.fit_, len(self.views_), sum(view.size for view in self.views_)
        shapes = [array.shape for array in (fit.direction, fit.correction, fit.scale, fit.total, self.eta_0_)]
        if shapes != [(n_weights,), (n_weights,), (n_views,), (n_views,), (n_views,)] or any(
            (view < 0).any() or (view >= n_features).any() for view in self.views_
        ):
            raise BadInput("views_", f"expected columns from 0 to {n_features - 1}, and weights for each")

    def _stepper(
        self, rows: fitted.TrainingRows, index: PairIndex, X_unlabeled: object, unlabeled: PairIndex | None
    ) -> Advance:
        layout, lam = self._layout, float(self.lam)
        self._check_arrays(rows.X.shape[1])
        eta_0 = np.minimum(self.eta_0_, _STEEPEST / lam if lam > 0 else np.inf)

        def advance(state: pairwise_descent.Descent, n_steps: int) -> pairwise_descent.Descent:
            for done in range(0, n_steps, _PIECE):
                state = pairwise_descent.descend(
                    rows.X,
                    rows.y,
                    index,
                    layout,
                    state,
                    min(_PIECE, n_steps - done),
                    eta_0=eta_0,
                    lam=lam,
                    loss=self.loss,
                    **self._batch(X_unlabeled, unlabeled),
                )
            return state

        return advance

    def _hold_out(
        self, rng: np.random.RandomState, rows: fitted.TrainingRows, labeled: Any, validation: object
    ) -> tuple[tuple[Any, Float, Any] | None, Float]:
        """Return the scaled validation rows, if any, and the weights of the queries for training, 0 for held-out
        queries."""
        if validation is not None:
            X, y, offsets = fitted.read_validation(self, validation)
            number = row_groups(offsets)
            if not self._measurable(y, number).size:
                raise fitted.unmeasurable(self, "measure", y)
            return (X, y, number), rows.weights
        if not self.early_stopping:
            return None, rows.weights
        order = rows.grouping.order
        row_query = row_groups(rows.grouping.offsets)
        in_order = np.arange(row_query.shape[0]) if order is None else order
        if labeled is not None:
            row_query, in_order = row_query[labeled[in_order]], in_order[labeled[in_order]]
        useful = self._measurable(rows.y[in_order], row_query)
        useful = useful[rows.weights[useful] > 0]
        held = np.zeros(rows.weights.shape[0], dtype=np.bool_)
        held[fitted.choose_held_out(useful, self.validation_fraction, rng)] = True
        chosen = in_order[held[row_query]]
        return (rows.X[chosen], rows.y[chosen], row_query[held[row_query]]), np.where(held, 0.0, rows.weights)

    def _measurable(self, y: Float, number: Int) -> Int:
        """Return the indices of the queries for which the best and the worst ranking have different values of
        ``measure``."""
        if y.shape[0] == 0:
            return np.empty(0, dtype=np.int64)
        best, worst = (
            evaluate_part(self.measure, y, scores, qid=number, relevance=self.relevance).result
            for scores in (y, -y)
        )
        return best.query_ids[best.per_query > worst.per_query].astype(np.int64)

    def _train(self, advance: Advance, held_out: tuple[Any, Float, Any] | None, n_steps: int) -> None:
        if held_out is None:
            self.fit_ = advance(self.fit_, n_steps)
        else:
            X, y, qid = held_out

            def value(state: pairwise_descent.Descent) -> float:
                return evaluate_part(
                    self.measure, y, linear_scores(X, self._coef(state)), qid=qid, relevance=self.relevance
                ).result.mean

            self.fit_, self.history_ = pairwise_descent.descend_until(
                advance,
                value,
                self.fit_,
                n_steps,
                every=max(1, n_steps // 20),
                patience=int(self.n_iter_no_change),
            )
        self.coef_ = self._coef(self.fit_)

    def _coef(self, state: pairwise_descent.Descent) -> Float:
        """Return the weight vector whose scores are the mean of the scores of the views."""
        coef = np.zeros(self.n_features_in_)
        for columns, w in zip(
            self.views_, pairwise_descent.view_weights(state, self._layout, average=self.average), strict=True
        ):
            coef[columns] += w
        refuse_divergence(
            "eta_0",
            [coef],
            f"step {state.t}",
            "choose smaller parameters, such as {eta_0}, or scale the features",
        )
        return coef / len(self.views_)


def unlabeled_rows(X: Any, unlabeled: ArrayLike, X_unlabeled: object, qid_unlabeled: ArrayLike) -> Any:
    """Return the mask of the unlabelled rows of ``X``, or None if there are none."""
    if qid_unlabeled is not None and X_unlabeled is None:
        raise BadInput("qid_unlabeled", "requires X_unlabeled, got None")
    if unlabeled is None:
        return None
    if X_unlabeled is not None:
        raise BadInput("unlabeled", "expected either unlabeled= or X_unlabeled=, got both")
    mask = np.asarray(unlabeled)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if mask.shape != (n_rows,) or mask.dtype != np.bool_:
        raise BadInput(
            "unlabeled",
            f"expected one bool for each of the {n_rows} rows of X, got {mask.dtype} of shape {mask.shape}",
        )
    return mask if mask.any() else None  # in a fold, all rows may be labelled
