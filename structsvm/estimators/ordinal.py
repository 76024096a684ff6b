"""``OrdinalSVM``: separate grades by thresholds on one score, or by one classifier per threshold."""

from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from structsvm.common.checks import BadInput, check_choice, check_positive
from structsvm.common.estimator_parameters import parameters
from structsvm.estimators.fitted import all_or_nothing, scaled
from structsvm.estimators.linear import LinearSVM, Scale, linear_scores
from structsvm.features.input_rows import rows_for
from structsvm.oracles.ordinal import OrdinalHinge
from structsvm.protocols import Callback, Float
from structsvm.queries import QueryData
from structsvm.trainers.certificate import Fit, judge
from structsvm.trainers.contract import Options
from structsvm.trainers.one_slack import one_slack
from structsvm.trainers.ordinal import ordinal_interior_point
from structsvm.trainers.passes import RankingProblem


@parameters
class OrdinalSVM(LinearSVM):
    """Ordinal regression SVM, which predicts grades, and scores for ranking (thesis 2.2.1 and 2.2.2).

    With grades ``0 ... T``, it minimises ``1/2 ||w||^2 + C/N * weighted sum of slacks`` over ``w`` and thresholds
    ``b_1 <= ... <= b_T``, where a row of grade ``j`` should score at least ``b_j + 1`` and at most ``b_{j+1} - 1``
    (OP 2, with the sign of (2.7) corrected). With ``decompose=True``, one
    machine with a single threshold is trained for each question "is the grade at least j?", and the outputs of the
    machines are summed.

    Parameters
    ----------
    C : float, default=1.0
        Trade-off between a small norm and a small mean slack of the rows; tune it on a log grid from 1e-2 to 1e4.
    decompose : bool, default=False
        Whether to train ``T`` machines, each on all rows, instead of one machine with ``T`` thresholds.
    class_weight : {"balanced", None}, default="balanced"
        With "balanced", the rows below and above each threshold have the same total weight, so that ``predict_grade``
        returns rare grades more often than they occur. With None, all rows have the same weight, as in OP 2; if most
        rows have the same grade, the optimum is then often ``w = 0``.
    tol : float, default=1e-3
        Relative duality gap at which the training of each machine stops.
    solver : {"one_slack", "cvxpy"}, default="one_slack"
        "one_slack" uses cutting planes and is suitable for any number of rows. "cvxpy" solves the unmodified problem by
        an interior-point method (extra ``qp``), for up to a few thousand rows; ``max_passes`` then has no effect, and
        ``callback`` is refused.
    relevance : float, default=1.0
        Lowest label of a relevant document in :meth:`score` (MAP); training uses all grades.
    max_passes : int, default=1000
        Maximum number of passes over the data for each machine; a ``ConvergenceWarning`` is issued if they do not
        suffice.
    callback : callable, default=None
        Called with a :class:`structsvm.protocols.Progress` after each pass; a truthy return value stops the training of
        the current machine. None means no callback.

    Attributes
    ----------
    grades_ : ndarray, shape (T + 1,)
        The distinct labels in ascending order.
    thresholds_ : ndarray, shape (T,)
        Thresholds ``b``, in ascending order unless ``decompose`` is True.
    coef_ : ndarray, shape (n_features,)
        Weights of the scaled features; with ``decompose``, their sum over the machines.
    machine_coef_ : ndarray, shape (T, n_features)
        Weights for each threshold; all rows are equal unless ``decompose`` is True.
    fits_ : list of Fit
        Result of training each machine, with its certificate: one entry, or ``T`` entries with ``decompose``.

    Notes
    -----
    The loss is pointwise: queries only affect the scaling, the sample weights and :meth:`score`. For given scores, the
    optimal thresholds are weighted quantiles (:class:`~structsvm.oracles.ordinal.OrdinalHinge`). The remaining problem
    in ``w`` is solved by cutting planes, with a certificate. As the thresholds couple all rows, a pass reads ``X``
    twice from memory. With two grades and ``class_weight=None``, both forms are equivalent to the classification SVM
    with an unpenalised threshold (``sklearn.svm.SVC`` with a linear kernel).

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 2]
    >>> model = OrdinalSVM(C=100.0).fit(X, y, qid=0)
    >>> model.predict_grade([[-1.0], [1.5], [4.0]]), model.predict([[1.0]]).round(3)
    (array([0., 1., 2.]), array([2.]))
    """

    C: float = 1.0
    _: KW_ONLY
    decompose: bool = False
    class_weight: Literal["balanced"] | None = "balanced"
    tol: float = 1e-3
    solver: Literal["one_slack", "cvxpy"] = "one_slack"
    relevance: float = 1.0
    scale: Scale = "none"
    max_passes: int = 1000
    callback: Callback | None = None

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model; with ``decompose``, train one machine per threshold.

        Parameters
        ----------
        y : array-like of numbers, shape (n_rows,)
            Grades; only their order matters.
        sample_weight : array-like, shape (n_rows,), optional
            Numbers >= 0; each row has the mean weight of the rows of its query. None means equal weights.

        Raises
        ------
        ImportError
            If ``solver="cvxpy"`` and cvxpy is not installed.
        """
        data, weights = self._grouped(X, y, qid, sample_weight)
        self.n_queries_ = data.n_queries
        importance = np.repeat(weights, np.diff(data.offsets))
        self.grades_ = np.unique(data.y[importance > 0])
        if self.grades_.size < 2:
            raise BadInput(
                "y",
                f"expected rows with at least two distinct labels, got {self.grades_[0]:g} only",
                "check the labels and sample_weight",
            )
        if self.decompose:
            targets = [(data.y >= grade).astype(np.float64) for grade in self.grades_[1:]]
        else:
            targets = [data.y]
        machines = [self._train(data, target, importance) for target in targets]
        self.fits_ = [fit for fit, _ in machines]
        self.thresholds_ = np.concatenate([thresholds for _, thresholds in machines])
        weights_found = np.array([fit.w for fit in self.fits_])
        self.coef_ = weights_found.sum(axis=0)
        self.machine_coef_ = np.broadcast_to(weights_found, (self.thresholds_.size, data.n_features)).copy()
        return self

    def _scores(self, X: object, qid: ArrayLike) -> Float:
        scores = super()._scores(X, qid)
        return scores - self.thresholds_.sum() if self.decompose else scores

    def predict_grade(self, X: Any, *, qid: ArrayLike | None = None) -> Float:
        """Return the predicted grade of each row: the lowest of ``grades_``, plus one step per threshold that its score
        reaches.

        The parameters are those of :meth:`predict`.
        """
        check_is_fitted(self, "coef_")
        X = scaled(self, *rows_for(self, X, qid))
        steps = np.zeros(X.shape[0], dtype=np.int64)
        for coef, threshold in zip(self.machine_coef_, self.thresholds_, strict=True):
            steps += linear_scores(X, coef) >= threshold
        return self.grades_[steps]

    def _train(self, data: QueryData, y: Float, importance: Float) -> tuple[Fit, Float]:
        """Train one machine, and return its fit and its thresholds."""
        everything = np.array([0, data.n_rows], dtype=np.int64)
        separator = OrdinalHinge(balanced=self.class_weight == "balanced").bind(
            y, everything, weights=importance
        )
        problem, C = RankingProblem(data.X, everything, separator), float(self.C)
        if self.solver == "cvxpy":
            fit = ordinal_interior_point(problem, data.X, separator.sides[0], C, tol=float(self.tol))
        else:
            fit = one_slack(problem, C, Options(float(self.tol), self.max_passes, callback=self.callback))
        judge(fit, problem, float(self.tol))
        return fit, separator.thresholds(linear_scores(data.X, fit.w))

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        check_choice("class_weight", self.class_weight, ("balanced", None))
        check_choice("solver", self.solver, ("one_slack", "cvxpy"))
        check_positive("C", self.C)
        if self.solver == "cvxpy" and self.callback is not None:
            raise BadInput("callback", "solver='cvxpy' reports no progress", "pass {callback=None}")
        super().check_options()
