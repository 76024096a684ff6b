"""``PairwiseSGD``: stochastic pairwise descent (SPD), linear ranking at the cost of one pair per step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils import check_random_state

from structsvm.common.checks import BadInput, check_choice, check_flag, check_positive, check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.estimators import fitted
from structsvm.estimators.linear import LinearRanker, Scale, check_usual, linear_scores, make_scaler
from structsvm.features.scaling import scale_rows
from structsvm.metrics.evaluation import evaluate_part
from structsvm.protocols import Float, Int
from structsvm.queries import check_features, row_groups
from structsvm.trainers import pairwise_descent
from structsvm.trainers.pair_index import PairIndex, index_pairs

_PIECE = 500_000
"""Steps per compiled call, as Ctrl-C is handled only between calls."""

_VECTORS = 12
"""Vectors of one number per feature that have to fit in memory: weights and sums, old and new, columns, positions."""

_STEEPEST = 1e12
"""Largest ``eta_0 lam``. Steps are ``1 / (lam t)`` to twelve digits there; beyond 1e16 the first step would multiply
the weights by 1 - 1 = 0, and later ones divide by that."""


Advance = Callable[[pairwise_descent.Descent, int], pairwise_descent.Descent]
"""Function from a state and a number of steps to the state after them."""


@parameters
class PairwiseSGD(LinearRanker):
    """Linear ranker trained by stochastic pairwise descent (SPD; Sculley 2009).

    Minimises the mean of the loss over pairs of documents of one query with ``y_i > y_j``, plus
    ``lam/2 ||w||^2``, drawing one pair per step. The cost of a step does not depend on the number of rows; for CSR rows
    it is proportional to the non-zeros of the pair. ``X`` may be a read-only memory map. For the exact optimum with a
    certificate use the pairwise SVM; this ranker is for very many rows, or for rows that keep arriving
    (``partial_fit``).

    Parameters
    ----------
    loss : {"hinge", "squared"}, default="hinge"
        ``max(0, 1 - y w.p)`` or ``1/2 (y - w.p)^2`` of a pair ``p = x_i - x_j`` with ``y = y_i - y_j``.
    lam : float, default=1e-4
        Factor of the penalty, >= 0; with grades 0 and 1 ``1/C`` of the pairwise SVM. The default suits features of
        about unit scale.
    eta_0 : float or "auto", default="auto"
        First step size of ``eta_0 / (1 + eta_0 lam t)``. "auto" is one over the mean of ``||y p||^2`` (hinge) or
        ``||p||^2``, estimated from 1,000 pairs: a step then moves ``y w.p`` of its pair by about one, whatever the
        units of the features. With the squared loss a step is shortened if ``eta ||p||^2 > 1``, beyond which it would
        diverge.
    n_steps : int, default=200000
        Steps of ``fit``, and by default of each ``partial_fit``. The default takes a fraction of a second whatever the
        number of rows; increase it if ``early_stopping`` reaches it, or there are more pairs.
    average : bool, default=True
        Whether to use the mean over steps, with weight ``t`` for step ``t`` (Lacoste-Julien, Schmidt and Bach 2012),
        instead of the last weights. The mean has less noise, and the number of steps need not be known in advance.
    normalize : {"pairs", "query"}, default="pairs"
        Whether every pair, or every query that has a pair, is drawn equally often.
    early_stopping : bool, default=False
        Whether to hold out a part of the queries, stop when ``measure`` on them no longer rises, and keep the best
        weights.
    n_iter_no_change : int, default=5
        Number of consecutive measurements without improvement after which to stop; a measurement takes place every
        twentieth of ``n_steps``.
    measure : str, default="map"
        Measure for early stopping and ``score``; any name of :func:`structsvm.metrics.evaluate`.
    relevance : float, default=1.0
        Label from which a document is relevant for binary measures. Training uses all grades.
    random_state : int, RandomState or None, default=None
        Chooses the pairs and the held-out queries.

    Attributes
    ----------
    eta_0_ : ndarray, shape (1,)
        First step size used.
    fit_ : Descent
        State of the descent: ``t`` steps are done, and the last weights are ``scale[0] * direction``.
    history_ : list of (int, float)
        With early stopping: steps done and the measure.
    n_uninformative_ : int
        Number of queries without two documents of different labels.

    See Also
    --------
    CoRegularizedSGD : several views that agree on unlabelled queries.

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
            The weight of a query is the mean over its rows; its pairs are drawn in proportion.
        """
        return self._learn(X, y, qid, sample_weight, validation=validation)

    @fitted.all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None, n_steps: int | None = None
    ) -> Self:
        """Continue from the current weights, with pairs of these rows only.

        ``scale`` and ``eta_0="auto"`` are determined by the first call, and nothing is held out. Two calls on the same
        rows are equivalent, bit for bit, to one call with the total number of steps.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in ``fit``. A batch whose queries have no two documents of different labels changes nothing.
        """
        n_steps = check_whole("n_steps", self.n_steps if n_steps is None else n_steps)
        return self._learn(X, y, qid, sample_weight, n_steps=n_steps)

    def _learn(
        self, X: Any, y: Any, qid: Any, sample_weight: Any, unlabeled: tuple[Any, Any, Any] = (None, None, None), *,
        validation: Any = None, n_steps: int | None = None,
    ) -> Self:  # fmt: skip
        """Train from zero weights, or continue for ``n_steps``; ``unlabeled`` is a mask, or rows and their ids."""
        rng = self._check_parameters()
        begins = n_steps is None or not hasattr(self, "fit_")
        mask = unlabeled_rows(X, *unlabeled)
        rows = self._rows(X, y, qid, sample_weight, first=begins, unlabeled=mask)
        if begins:
            # drawn before the views, so that it does not depend on them
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
        self, rows: fitted.TrainingRows, mask: Any, X_unlabeled: Any, qid_unlabeled: Any, weights: Any
    ) -> tuple[Any, PairIndex | None]:
        """Return the matrix that has the unlabelled rows, and the index of their pairs: SPD has none."""
        return None, None

    def _measure(self) -> str:
        return self.measure

    def _choose_views(self, rng: np.random.RandomState, n_features: int) -> list[Int]:
        return [np.arange(n_features, dtype=np.int64)]

    def _batch(self, X_unlabeled: Any, unlabeled: PairIndex | None) -> dict[str, Any]:
        """Return the pairs of a step: by default one labelled pair, as in SPD."""
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
        return check_random_state(self.random_state)

    def _rows(
        self, X: Any, y: Any, qid: Any, sample_weight: Any, *, first: bool, unlabeled: Any = None
    ) -> fitted.TrainingRows:
        """Return validated and scaled rows in the order given, without a copy to group them."""
        if unlabeled is not None:  # labels of these rows are meaningless and may be missing
            given = np.asarray(y)
            y = given.astype(np.float64 if given.dtype.kind in "biuf" else object)
            if y.shape == unlabeled.shape:  # other shapes are refused below
                y[unlabeled] = 0.0
        rows = fitted.read_rows(self, X, y, qid, sample_weight, vectors=_VECTORS, reset=first)
        X, qid, grouping = check_features(rows.X), rows.qid, rows.grouping
        if first:
            self.scaler_ = make_scaler(self.scale)
            if self.scaler_ is not None:
                # in grouped order, as the last digits of a mean depend on the order of the rows
                order = grouping.order
                ids = qid if order is None else np.repeat(grouping.query_ids, np.diff(grouping.offsets))
                self.scaler_.fit(X if order is None else X[order], qid=ids)
        if self.scaler_ is not None:
            X = scale_rows(self.scaler_, X, qid)
        return rows._replace(X=X)

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
            problem = "no query carries a constraint: at least one needs documents of different labels"
            problem = f"{problem}; got {self.n_queries_} queries, {labels}"
            raise BadInput("y", problem, "check the labels and qid")
        # expected: unlabelled rows have no constraint
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
        """Raise ValueError for indices that compiled code would follow out of bounds, as in a crafted file."""
        fit, n_views, n_weights = self.fit_, len(self.views_), sum(view.size for view in self.views_)
        shapes = [array.shape for array in (fit.direction, fit.correction, fit.scale, fit.total, self.eta_0_)]
        if shapes != [(n_weights,), (n_weights,), (n_views,), (n_views,), (n_views,)] or any(
            (view < 0).any() or (view >= n_features).any() for view in self.views_
        ):
            raise BadInput("views_", f"expected columns from 0 to {n_features - 1}, and weights for each")

    def _stepper(
        self, rows: fitted.TrainingRows, index: PairIndex, X_unlabeled: Any, unlabeled: PairIndex | None
    ) -> Advance:
        layout, lam = self._layout, float(self.lam)
        self._check_arrays(rows.X.shape[1])
        eta_0 = np.minimum(self.eta_0_, _STEEPEST / lam if lam > 0 else np.inf)

        def advance(state: pairwise_descent.Descent, n_steps: int) -> pairwise_descent.Descent:
            for done in range(0, n_steps, _PIECE):
                state = pairwise_descent.descend(
                    rows.X, rows.y, index, layout, state, min(_PIECE, n_steps - done), eta_0=eta_0, lam=lam,
                    loss=self.loss, **self._batch(X_unlabeled, unlabeled),
                )  # fmt: skip
            return state

        return advance

    def _hold_out(
        self, rng: np.random.RandomState, rows: fitted.TrainingRows, labeled: Any, validation: Any
    ) -> tuple[tuple[Any, Float, Any] | None, Float]:
        """Return the validation rows, already scaled, and the weights of the queries left to train on."""
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
        """Return the indices of the queries whose best and worst ranking differ in ``measure``."""
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
                scores = linear_scores(X, self._coef(state))
                return evaluate_part(self.measure, y, scores, qid=qid, relevance=self.relevance).result.mean

            pace = {"every": max(1, n_steps // 20), "patience": int(self.n_iter_no_change)}
            self.fit_, self.history_ = pairwise_descent.descend_until(
                advance, value, self.fit_, n_steps, **pace
            )
        self.coef_ = self._coef(self.fit_)

    def _coef(self, state: pairwise_descent.Descent) -> Float:
        """Return the mean of the views' predictions as one weight vector."""
        coef = np.zeros(self.n_features_in_)
        for columns, w in zip(
            self.views_, pairwise_descent.view_weights(state, self._layout, average=self.average), strict=True
        ):
            coef[columns] += w
        return coef / len(self.views_)


def unlabeled_rows(X: Any, unlabeled: Any, X_unlabeled: Any, qid_unlabeled: Any) -> Any:
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
    return mask if mask.any() else None  # a part of the data may be entirely labelled
